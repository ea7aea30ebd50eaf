// The C ABI of Adam for sparse updates: thin shims over weir/sparse_adam.hpp.
#include "sparse_adam.hpp"

#include "convert.hpp"

using namespace weir::capi;

namespace {

template <class Body>
weir_status guard_adam(const weir_sparse_adam* adam, Body&& body) noexcept {
  return guard(nullptr, [&] {
    need_alive(adam);
    body();
  });
}

/// Returns the caller's `count` elements.
template <class T>
std::span<T> elements_at(T* data, std::int64_t count, const char* what) {
  if (count < 0) throw weir::Error(WEIR_ERR_ARGUMENT, "the number of " + std::string(what) + " is negative");
  if (data == nullptr && count > 0) throw weir::Error(WEIR_ERR_ARGUMENT, "the " + std::string(what) + " are NULL");
  return {data, static_cast<std::size_t>(count)};
}

weir::SparseView<float> view_of(const std::uint32_t* indices, const float* values, std::int64_t entries) {
  return {elements_at(indices, entries, "indices"), elements_at(values, entries, "values")};
}

}  // namespace

extern "C" {

weir_status weir_sparse_adam_create(const weir_sparse_adam_config* config, weir_sparse_adam** adam) {
  if (adam != nullptr) *adam = nullptr;
  return guard(nullptr, [&] {
    need(adam != nullptr, "the address for the optimizer is NULL");
    const weir_sparse_adam_config initial = WEIR_SPARSE_ADAM_CONFIG_INIT;
    const weir::SparseAdamConfig described = from_c(read_struct(config, initial, "WEIR_SPARSE_ADAM_CONFIG_INIT"));
    std::unique_ptr<weir_sparse_adam> made(new weir_sparse_adam{weir::SparseAdam(described)});
    add_handle(made.get(), handle_kind<weir_sparse_adam>);
    *adam = made.release();
  });
}

weir_status weir_sparse_adam_destroy(weir_sparse_adam* adam) {
  if (adam == nullptr) return WEIR_OK;
  return guard_adam(adam, [&] {
    remove_handle(adam);
    delete adam;
  });
}

weir_status weir_sparse_adam_step(weir_sparse_adam* adam, const std::uint32_t* indices, const float* values, std::int64_t entries,
                                  float* weights, std::int64_t count, double learning_rate) {
  return guard_adam(
      adam, [&] { adam->adam.step(view_of(indices, values, entries), elements_at(weights, count, "weights"), learning_rate); });
}

weir_status weir_sparse_adam_step_part(weir_sparse_adam* adam, const std::uint32_t* indices, const float* values,
                                       std::int64_t entries, float* weights, std::int64_t count, double learning_rate) {
  return guard_adam(adam, [&] {
    adam->adam.step_part(view_of(indices, values, entries), elements_at(weights, count, "weights"), learning_rate);
  });
}

weir_status weir_sparse_adam_steps(const weir_sparse_adam* adam, std::int64_t* number) {
  return guard_adam(adam, [&] {
    need(number != nullptr, "the address for the number of steps is NULL");
    *number = adam->adam.steps();
  });
}

weir_status weir_sparse_adam_get_config(const weir_sparse_adam* adam, weir_sparse_adam_config* config) {
  return guard_adam(adam, [&] { fill_struct(config, to_c(adam->adam.config())); });
}

weir_status weir_sparse_adam_memory_bytes(const weir_sparse_adam* adam, std::int64_t* bytes) {
  return guard_adam(adam, [&] {
    need(bytes != nullptr, "the address for the bytes is NULL");
    *bytes = adam->adam.memory_bytes();
  });
}

weir_status weir_sparse_adam_state_bytes(weir_sparse_adam* adam, std::int64_t* bytes) {
  return guard_adam(adam, [&] {
    need(bytes != nullptr, "the address for the bytes is NULL");
    *bytes = adam->adam.state_bytes();
  });
}

weir_status weir_sparse_adam_save_state(weir_sparse_adam* adam, void* state, std::int64_t bytes) {
  return guard_adam(adam, [&] { adam->adam.save_state(bytes_at(state, bytes)); });
}

weir_status weir_sparse_adam_restore_state(weir_sparse_adam* adam, const void* state, std::int64_t bytes) {
  return guard_adam(adam, [&] { adam->adam.restore_state(bytes_at(state, bytes)); });
}

weir_status weir_sparse_adam_reset(weir_sparse_adam* adam) {
  return guard_adam(adam, [&] { adam->adam.reset(); });
}

}  // extern "C"
