// The C ABI of plans: thin shims over weir/weir.hpp.
#include "plan.hpp"

#include "convert.hpp"

using namespace weir::capi;

namespace {

weir_sparse_result sparse_result_of(const weir_plan& plan) {
  weir_sparse_result result{};
  const auto set = [&](const auto& view) {
    result.count = static_cast<std::int64_t>(view.indices.size());
    result.indices = view.indices.data();
    result.values = view.values.data();
  };
  if (plan.plan.config().type == weir::DataType::float64)
    set(plan.plan.sparse_result<double>());
  else
    set(plan.plan.sparse_result<float>());
  return result;
}

weir_residual residual_of(const weir_plan& plan) {
  weir_residual result{};
  const auto set = [&](const auto& view) {
    result.count = static_cast<std::int64_t>(view.size());
    result.values = view.data();
  };
  if (plan.plan.config().type == weir::DataType::float64)
    set(plan.plan.residual<double>());
  else
    set(plan.plan.residual<float>());
  result.begin = plan.plan.residual_begin();
  return result;
}

/// Starts a run. If the start is refused, the run in flight can still be waited for.
void start(weir_plan& plan, void* dense, const void* sparse_only, void* stream) {
  plan.operation = plan.plan.start_raw(dense, sparse_only, plan.plan.config().count, stream);
}

}  // namespace

extern "C" {

weir_status weir_plan_create(weir_comm* comm, const weir_allreduce_config* config, weir_plan** plan) {
  return make_handle(comm, plan, [&] {
    weir::AllreduceConfig described;
    try {
      need(plan != nullptr, "the address for the plan is NULL");
      described = from_c(read_struct<weir_allreduce_config>(config, WEIR_ALLREDUCE_CONFIG_INIT, "WEIR_ALLREDUCE_CONFIG_INIT"));
    } catch (const weir::Error& error) {
      weir::detail::refuse_making(comm->communicator.state(), "plan", error);
    }
    return std::unique_ptr<weir_plan>(new weir_plan{comm, weir::AllreducePlan(comm->communicator, described)});
  });
}

weir_status weir_plan_destroy(weir_plan* plan) { return destroy_handle(plan); }

weir_status weir_plan_start_on_stream(weir_plan* plan, void* gradient, void* stream) {
  return guard_handle(plan, [&] { start(*plan, gradient, nullptr, stream); });
}

weir_status weir_plan_start_sparse_on_stream(weir_plan* plan, const void* gradient, void* stream) {
  return guard_handle(plan, [&] { start(*plan, nullptr, gradient, stream); });
}

weir_status weir_plan_start(weir_plan* plan, void* gradient) { return weir_plan_start_on_stream(plan, gradient, nullptr); }

weir_status weir_plan_start_sparse(weir_plan* plan, const void* gradient) {
  return weir_plan_start_sparse_on_stream(plan, gradient, nullptr);
}

weir_status weir_plan_test(weir_plan* plan, int* done) {
  return guard_handle(plan, [&] {
    need(done != nullptr, "the address for done is NULL");
    *done = 1;
    if (plan->operation) *done = plan->operation->test() ? 1 : 0;
  });
}

weir_status weir_plan_wait(weir_plan* plan) {
  return guard_handle(plan, [&] {
    if (plan->operation) plan->operation->wait();
  });
}

weir_status weir_plan_wait_for(weir_plan* plan, double seconds, int* done) {
  return guard_handle(plan, [&] {
    need(done != nullptr, "the address for done is NULL");
    *done = 1;
    if (plan->operation) *done = plan->operation->wait_for(seconds) ? 1 : 0;
  });
}

weir_status weir_plan_run_on_stream(weir_plan* plan, void* gradient, void* stream) {
  return guard_handle(plan, [&] { plan->plan.run(gradient, stream); });
}

weir_status weir_plan_run_sparse_on_stream(weir_plan* plan, const void* gradient, void* stream, weir_sparse_result* result) {
  return guard_handle(plan, [&] {
    plan->plan.run_sparse(gradient, stream);
    if (result != nullptr) fill_struct(result, sparse_result_of(*plan));
  });
}

weir_status weir_plan_run(weir_plan* plan, void* gradient) { return weir_plan_run_on_stream(plan, gradient, nullptr); }

weir_status weir_plan_run_sparse(weir_plan* plan, const void* gradient, weir_sparse_result* result) {
  return weir_plan_run_sparse_on_stream(plan, gradient, nullptr, result);
}

weir_status weir_plan_sparse_result(const weir_plan* plan, weir_sparse_result* result) {
  return guard_handle(plan, [&] { fill_struct(result, sparse_result_of(*plan)); });
}

weir_status weir_plan_get_statistics(const weir_plan* plan, weir_statistics* statistics) {
  return guard_handle(plan, [&] { fill_struct(statistics, to_c(plan->plan.statistics())); });
}

weir_status weir_plan_counter(const weir_plan* plan, const char* name, std::int64_t* runs) {
  return guard_handle(plan, [&] {
    need(name != nullptr, "the name of the counter is NULL");
    need(runs != nullptr, "the address for the runs is NULL");
    *runs = plan->plan.counter(name);
  });
}

weir_status weir_plan_residual(const weir_plan* plan, weir_residual* residual) {
  return guard_handle(plan, [&] { fill_struct(residual, residual_of(*plan)); });
}

weir_status weir_plan_get_config(const weir_plan* plan, weir_allreduce_config* config) {
  return guard_handle(plan, [&] { fill_struct(config, to_c(plan->plan.config())); });
}

weir_status weir_plan_memory_bytes(const weir_plan* plan, std::int64_t* bytes) {
  return guard_handle(plan, [&] {
    need(bytes != nullptr, "the address for the bytes is NULL");
    *bytes = plan->plan.memory_bytes();
  });
}

weir_status weir_plan_state_bytes(weir_plan* plan, std::int64_t* bytes) {
  return guard_handle(plan, [&] {
    need(bytes != nullptr, "the address for the bytes is NULL");
    *bytes = plan->plan.state_bytes();
  });
}

weir_status weir_plan_save_state(weir_plan* plan, void* state, std::int64_t bytes) {
  return guard_handle(plan, [&] { plan->plan.save_state(bytes_at(state, bytes)); });
}

weir_status weir_plan_restore_state(weir_plan* plan, const void* state, std::int64_t bytes) {
  return guard_handle(plan, [&] { plan->plan.restore_state(bytes_at(state, bytes)); });
}

weir_status weir_plan_encoded_bytes(const weir_plan* plan, std::int64_t* bytes) {
  return guard_handle(plan, [&] {
    need(bytes != nullptr, "the address for the bytes is NULL");
    *bytes = plan->plan.encoded_bytes();
  });
}

weir_status weir_plan_encode(weir_plan* plan, const void* gradient, void* out, std::int64_t size, std::int64_t* bytes) {
  return guard_handle(plan, [&] {
    need(bytes != nullptr, "the address for the bytes is NULL");
    const auto count = static_cast<std::size_t>(plan->plan.config().count);
    need(gradient != nullptr || count == 0, "the gradient is NULL");
    need(out != nullptr, "the address for the encoded gradient is NULL");
    *bytes = plan->plan.encode(std::span(static_cast<const float*>(gradient), count), bytes_at(out, size));
  });
}

const char* weir_plan_explanation(const weir_plan* plan) {
  return plan != nullptr && is_alive(plan, HandleKind::plan) ? plan->plan.explanation().c_str() : nullptr;
}

weir_status weir_plan_reset(weir_plan* plan) {
  return guard_handle(plan, [&] { plan->plan.reset(); });
}

weir_status weir_plan_scale_residual(weir_plan* plan, double factor) {
  return guard_handle(plan, [&] { plan->plan.scale_residual(factor); });
}

}  // extern "C"
