// The C ABI of tensor fusion: thin shims over weir/fusion.hpp.
#include "fusion.hpp"

#include "convert.hpp"

using namespace weir::capi;

namespace {

weir_residual residual_of(const weir_fused& fused, int tensor) {
  weir_residual result{};
  const auto set = [&](const auto& view) {
    result.count = static_cast<std::int64_t>(view.size());
    result.values = view.data();
  };
  if (fused.fused.config().type == weir::DataType::float64)
    set(fused.fused.residual<double>(tensor));
  else
    set(fused.fused.residual<float>(tensor));
  return result;
}

}  // namespace

extern "C" {

weir_status weir_fused_create(weir_comm* comm, const weir_fusion_config* config, const weir_fused_tensor* tensors, int count,
                              weir_fused** fused) {
  return make_handle(comm, fused, [&] {
    weir::FusionConfig described;
    std::vector<weir::FusedTensor> all;
    try {
      need(fused != nullptr, "the address for the fused allreduce is NULL");
      described = from_c(read_struct<weir_fusion_config>(config, WEIR_FUSION_CONFIG_INIT, "WEIR_FUSION_CONFIG_INIT"));
      read_structs<weir_fused_tensor>(tensors, count, WEIR_FUSED_TENSOR_INIT, "WEIR_FUSED_TENSOR_INIT", "tensor",
                                      [&](const weir_fused_tensor& tensor) { all.push_back(from_c(tensor)); });
    } catch (const weir::Error& error) {
      weir::detail::refuse_making(comm->communicator.state(), "fused", error);
    }
    return std::unique_ptr<weir_fused>(new weir_fused{comm, weir::FusedAllreduce(comm->communicator, described, all)});
  });
}

weir_status weir_fused_destroy(weir_fused* fused) { return destroy_handle(fused); }

weir_status weir_fused_ready(weir_fused* fused, int tensor, void* gradient, std::int64_t count) {
  return guard_handle(fused, [&] { fused->fused.ready_raw(tensor, gradient, count); });
}

weir_status weir_fused_skip(weir_fused* fused, int tensor, void* gradient, std::int64_t count) {
  return guard_handle(fused, [&] { fused->fused.skip_raw(tensor, gradient, count); });
}

weir_status weir_fused_test(weir_fused* fused, int tensor, int* done) {
  return guard_handle(fused, [&] {
    need(done != nullptr, "the address for done is NULL");
    *done = fused->fused.test(tensor) ? 1 : 0;
  });
}

weir_status weir_fused_wait(weir_fused* fused, int tensor) {
  return guard_handle(fused, [&] { fused->fused.wait(tensor); });
}

weir_status weir_fused_progress(weir_fused* fused) {
  return guard_handle(fused, [&] { fused->fused.progress(); });
}

weir_status weir_fused_wait_for(weir_fused* fused, int tensor, double seconds, int* done) {
  return guard_handle(fused, [&] {
    need(done != nullptr, "the address for done is NULL");
    *done = fused->fused.wait_for(tensor, seconds) ? 1 : 0;
  });
}

weir_status weir_fused_wait_all(weir_fused* fused) {
  return guard_handle(fused, [&] { fused->fused.wait_all(); });
}

weir_status weir_fused_find_tensor(const weir_fused* fused, const char* name, int* tensor) {
  return guard_handle(fused, [&] {
    need(name != nullptr, "the name of the tensor is NULL");
    need(tensor != nullptr, "the address for the tensor is NULL");
    *tensor = fused->fused.tensor(name);
  });
}

weir_status weir_fused_buffer_of(const weir_fused* fused, int tensor, int* buffer) {
  return guard_handle(fused, [&] {
    need(buffer != nullptr, "the address for the buffer is NULL");
    *buffer = fused->fused.buffer_of(tensor);
  });
}

weir_status weir_fused_residual(const weir_fused* fused, int tensor, weir_residual* residual) {
  return guard_handle(fused, [&] { fill_struct(residual, residual_of(*fused, tensor)); });
}

weir_status weir_fused_get_statistics(const weir_fused* fused, weir_fusion_statistics* statistics) {
  return guard_handle(fused, [&] { fill_struct(statistics, to_c(fused->fused.statistics())); });
}

weir_status weir_fused_get_config(const weir_fused* fused, weir_fusion_config* config) {
  return guard_handle(fused, [&] { fill_struct(config, to_c(fused->fused.config())); });
}

const char* weir_fused_explanation(const weir_fused* fused) {
  const weir_status status = guard_handle(fused, [&] { fused->explanation = fused->fused.explanation(); });
  return status == WEIR_OK ? fused->explanation.c_str() : nullptr;
}

weir_status weir_fused_memory_bytes(const weir_fused* fused, std::int64_t* bytes) {
  return guard_handle(fused, [&] {
    need(bytes != nullptr, "the address for the bytes is NULL");
    *bytes = fused->fused.memory_bytes();
  });
}

weir_status weir_fused_state_bytes(weir_fused* fused, std::int64_t* bytes) {
  return guard_handle(fused, [&] {
    need(bytes != nullptr, "the address for the bytes is NULL");
    *bytes = fused->fused.state_bytes();
  });
}

weir_status weir_fused_save_state(weir_fused* fused, void* state, std::int64_t bytes) {
  return guard_handle(fused, [&] { fused->fused.save_state(bytes_at(state, bytes)); });
}

weir_status weir_fused_restore_state(weir_fused* fused, const void* state, std::int64_t bytes) {
  return guard_handle(fused, [&] { fused->fused.restore_state(bytes_at(state, bytes)); });
}

weir_status weir_fused_reset(weir_fused* fused) {
  return guard_handle(fused, [&] { fused->fused.reset(); });
}

weir_status weir_fused_scale_residuals(weir_fused* fused, double factor) {
  return guard_handle(fused, [&] { fused->fused.scale_residuals(factor); });
}

}  // extern "C"
