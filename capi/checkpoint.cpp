// The C ABI of checkpoints: thin shims over weir/checkpoint.hpp.
#include <deque>
#include <optional>
#include <weir/checkpoint.hpp>

#include "convert.hpp"
#include "embedding.hpp"
#include "fusion.hpp"
#include "optim.hpp"
#include "plan.hpp"
#include "schedule.hpp"
#include "sparse_adam.hpp"

using namespace weir::capi;

struct weir_checkpoint {
  weir_comm* comm;
  std::deque<weir::StepSchedule> schedules;  ///< with the blocks of those added, which may be destroyed earlier
  weir::Checkpoint checkpoint;
  std::optional<weir::Operation> operation{};  ///< the last save
};

namespace {

template <class Body>
weir_status guard_name(const weir_checkpoint* checkpoint, const char* name, Body&& body) noexcept {
  return guard_handle(checkpoint, [&] {
    need(name != nullptr, "the name is NULL");
    body();
  });
}

/// Throws unless `handle` is alive and has the checkpoint's communicator.
template <class Handle>
void need_one_of(const weir_checkpoint* checkpoint, const Handle* handle) {
  need_alive(handle);
  if (handle->comm != checkpoint->comm)
    throw weir::Error(WEIR_ERR_ARGUMENT, "the " + std::string(name_of(handle_kind<Handle>)) +
                                             " is of another communicator than the checkpoint: make both from the same");
}

template <class T>
weir_status get_value(const weir_checkpoint* checkpoint, const char* name, T* value, auto get) noexcept {
  return guard_name(checkpoint, name, [&] {
    need(value != nullptr, "the address for the value is NULL");
    *value = get(checkpoint->checkpoint);
  });
}

}  // namespace

extern "C" {

weir_status weir_checkpoint_create(weir_comm* comm, const weir_checkpoint_config* config, weir_checkpoint** checkpoint) {
  return make_handle(comm, checkpoint, [&] {
    weir::CheckpointConfig described;
    try {
      need(checkpoint != nullptr, "the address for the checkpoint is NULL");
      described = from_c(read_struct<weir_checkpoint_config>(config, WEIR_CHECKPOINT_CONFIG_INIT, "WEIR_CHECKPOINT_CONFIG_INIT"));
    } catch (const weir::Error& error) {
      weir::detail::refuse_making(comm->communicator.state(), "checkpoint", error);
    }
    return std::unique_ptr<weir_checkpoint>(new weir_checkpoint{comm, {}, weir::Checkpoint(comm->communicator, described)});
  });
}

weir_status weir_checkpoint_destroy(weir_checkpoint* checkpoint) { return destroy_handle(checkpoint); }

weir_status weir_checkpoint_add_plan(weir_checkpoint* checkpoint, const char* name, weir_plan* plan) {
  return guard_name(checkpoint, name, [&] {
    need_one_of(checkpoint, plan);
    checkpoint->checkpoint.add(name, plan->plan);
  });
}

weir_status weir_checkpoint_add_embedding(weir_checkpoint* checkpoint, const char* name, weir_embedding* table) {
  return guard_name(checkpoint, name, [&] {
    need_one_of(checkpoint, table);
    checkpoint->checkpoint.add(name, table->table);
  });
}

weir_status weir_checkpoint_add_fused(weir_checkpoint* checkpoint, const char* name, weir_fused* fused) {
  return guard_name(checkpoint, name, [&] {
    need_one_of(checkpoint, fused);
    checkpoint->checkpoint.add(name, fused->fused);
  });
}

weir_status weir_checkpoint_add_optimizer(weir_checkpoint* checkpoint, const char* name, weir_layer_optimizer* optimizer) {
  return guard_name(checkpoint, name, [&] {
    need_one_of(checkpoint, optimizer);
    checkpoint->checkpoint.add(name, optimizer->optimizer);
  });
}

weir_status weir_checkpoint_add_sparse_adam(weir_checkpoint* checkpoint, const char* name, weir_sparse_adam* adam) {
  return guard_name(checkpoint, name, [&] {
    need_alive(adam);
    checkpoint->checkpoint.add(name, adam->adam);
  });
}

weir_status weir_checkpoint_add_schedule(weir_checkpoint* checkpoint, const char* name, weir_schedule* schedule) {
  return guard_name(checkpoint, name, [&] {
    need_one_of(checkpoint, schedule);
    std::vector<std::string> blocks;
    for (const std::string_view block : schedule->schedule.blocks()) blocks.emplace_back(block);
    checkpoint->schedules.emplace_back(std::move(blocks));
    try {
      checkpoint->checkpoint.add(name, checkpoint->schedules.back());
    } catch (...) {
      checkpoint->schedules.pop_back();
      throw;
    }
  });
}

weir_status weir_checkpoint_add_array(weir_checkpoint* checkpoint, const char* name, void* data, std::int32_t type,
                                      std::int32_t distribution, std::int64_t count, std::int64_t first, std::int64_t total) {
  return guard_name(checkpoint, name, [&] {
    checkpoint->checkpoint.add_array(name, data, static_cast<weir::ElementType>(type),
                                     static_cast<weir::Distribution>(distribution), count, first, total);
  });
}

weir_status weir_checkpoint_set_integer(weir_checkpoint* checkpoint, const char* name, std::int64_t value) {
  return guard_name(checkpoint, name, [&] { checkpoint->checkpoint.set(name, value); });
}
weir_status weir_checkpoint_set_real(weir_checkpoint* checkpoint, const char* name, double value) {
  return guard_name(checkpoint, name, [&] { checkpoint->checkpoint.set(name, value); });
}
weir_status weir_checkpoint_set_text(weir_checkpoint* checkpoint, const char* name, const char* value) {
  return guard_name(checkpoint, name, [&] {
    need(value != nullptr, "the text is NULL");
    checkpoint->checkpoint.set(name, std::string_view(value));
  });
}

weir_status weir_checkpoint_get_integer(const weir_checkpoint* checkpoint, const char* name, std::int64_t* value) {
  return get_value(checkpoint, name, value, [&](const weir::Checkpoint& from) { return from.integer(name); });
}
weir_status weir_checkpoint_get_real(const weir_checkpoint* checkpoint, const char* name, double* value) {
  return get_value(checkpoint, name, value, [&](const weir::Checkpoint& from) { return from.real(name); });
}
weir_status weir_checkpoint_get_text(const weir_checkpoint* checkpoint, const char* name, const char** value) {
  return get_value(checkpoint, name, value, [&](const weir::Checkpoint& from) { return from.text(name).c_str(); });
}

weir_status weir_checkpoint_save(weir_checkpoint* checkpoint, std::int64_t step) {
  return guard_handle(checkpoint, [&] { checkpoint->operation = checkpoint->checkpoint.save(step); });
}

weir_status weir_checkpoint_test(weir_checkpoint* checkpoint, int* done) {
  return guard_handle(checkpoint, [&] {
    need(done != nullptr, "the address for done is NULL");
    *done = 1;
    if (checkpoint->operation) *done = checkpoint->operation->test() ? 1 : 0;
  });
}

weir_status weir_checkpoint_wait(weir_checkpoint* checkpoint) {
  return guard_handle(checkpoint, [&] {
    if (checkpoint->operation) checkpoint->operation->wait();
  });
}

weir_status weir_checkpoint_wait_for(weir_checkpoint* checkpoint, double seconds, int* done) {
  return guard_handle(checkpoint, [&] {
    need(done != nullptr, "the address for done is NULL");
    *done = 1;
    if (checkpoint->operation) *done = checkpoint->operation->wait_for(seconds) ? 1 : 0;
  });
}

weir_status weir_checkpoint_restore(weir_checkpoint* checkpoint, std::int64_t step, std::int64_t* restored) {
  return guard_handle(checkpoint, [&] {
    std::int64_t found = step;
    if (step == -1)
      found = checkpoint->checkpoint.restore().value_or(-1);
    else
      checkpoint->checkpoint.restore_step(step);
    if (restored != nullptr) *restored = found;
  });
}

weir_status weir_checkpoint_steps(const weir_checkpoint* checkpoint, std::int64_t* steps, int size, int* count) {
  return guard_handle(checkpoint, [&] {
    need(count != nullptr, "the address for the number of steps is NULL");
    const std::vector<std::int64_t> all = checkpoint->checkpoint.steps();
    *count = static_cast<int>(all.size());
    if (steps == nullptr) return;
    if (size < *count)
      throw weir::Error(WEIR_ERR_ARGUMENT,
                        "there is room for " + std::to_string(size) + " steps: the folder has " + std::to_string(*count));
    std::copy(all.begin(), all.end(), steps);
  });
}

weir_status weir_checkpoint_catch_signal(int signal) {
  return guard(nullptr, [&] { weir::Checkpoint::catch_signal(signal); });
}

weir_status weir_checkpoint_stop_requested(weir_checkpoint* checkpoint, int* stop) {
  return guard_handle(checkpoint, [&] {
    const bool requested = checkpoint->checkpoint.stop_requested();  // first: collective
    need(stop != nullptr, "the address for stop is NULL");
    *stop = requested ? 1 : 0;
  });
}

weir_status weir_checkpoint_get_statistics(const weir_checkpoint* checkpoint, weir_checkpoint_statistics* statistics) {
  return guard_handle(checkpoint, [&] { fill_struct(statistics, to_c(checkpoint->checkpoint.statistics())); });
}

weir_status weir_checkpoint_get_config(const weir_checkpoint* checkpoint, weir_checkpoint_config* config) {
  return guard_handle(checkpoint, [&] { fill_struct(config, to_c(checkpoint->checkpoint.config())); });
}

}  // extern "C"
