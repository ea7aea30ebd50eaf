// The C ABI of communicators and plans: thin shims over weir/weir.hpp.
#include <string>

#include "shim.hpp"

using namespace weir::capi;

struct weir_plan {
  weir_comm* comm;
  weir::AllreducePlan plan;
  std::unique_ptr<weir::Operation> operation;
};

namespace {

template <class Body>
weir_status guard_plan(const weir_plan* plan, Body body) noexcept {
  return guard(plan != nullptr ? plan->comm : nullptr, [&] {
    need(plan != nullptr, "the plan is NULL");
    body();
  });
}

weir::AllreduceConfig read_config(const weir_allreduce_config* given) {
  const weir_allreduce_config c = read_struct<weir_allreduce_config>(
      given, WEIR_ALLREDUCE_CONFIG_INIT, "struct_size of the config makes no sense: start from WEIR_ALLREDUCE_CONFIG_INIT");
  weir::AllreduceConfig config;
  config.count = c.count;
  config.k = c.k;
  config.density = c.density;
  config.balance_trigger = c.balance_trigger;
  config.threshold_period = c.threshold_period;
  config.boundary_period = c.boundary_period;
  config.dense_iterations = c.dense_iterations;
  config.warmup_iterations = c.warmup_iterations;
  config.algorithm = c.algorithm != nullptr ? c.algorithm : "";
  config.name = c.name != nullptr ? c.name : "";
  config.type = static_cast<weir::DataType>(c.type);
  config.threshold = static_cast<weir::Threshold>(c.threshold);
  config.non_finite = static_cast<weir::NonFinite>(c.non_finite);
  config.window = c.window;
  config.priority = c.priority;
  config.error_feedback = c.error_feedback != 0;
  config.average = c.average != 0;
  config.wire_format = static_cast<weir::WireFormat>(c.wire_format);
  config.wire_values = static_cast<weir::WireValues>(c.wire_values);
  config.samplings = c.samplings;
  config.trial_iterations = c.trial_iterations;
  config.memory = static_cast<weir::MemorySpace>(c.memory);
  return config;
}

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

weir::Operation begin(weir_plan* plan, void* dense, const void* sparse_only, void* stream) {
  return plan->plan.start_raw(dense, sparse_only, plan->plan.config().count, stream);
}

}  // namespace

extern "C" {

void weir_version(int* major, int* minor, int* patch) {
  const weir::Version version = weir::version();
  if (major != nullptr) *major = version.major;
  if (minor != nullptr) *minor = version.minor;
  if (patch != nullptr) *patch = version.patch;
}

const char* weir_status_string(weir_status status) {
  switch (status) {
#define WEIR_STATUS_CASE(name, value, text) \
  case WEIR_##name:                         \
    return text;
    WEIR_STATUS_LIST(WEIR_STATUS_CASE)
#undef WEIR_STATUS_CASE
  }
  return "unknown status";
}

const char* weir_last_error(const weir_comm* comm) { return comm != nullptr ? comm->error.c_str() : thread_error.c_str(); }

const char* weir_algorithm_name(int index) {
  static const std::vector<weir::AlgorithmInfo> list = weir::algorithms();
  return index >= 0 && index < static_cast<int>(list.size()) ? list[static_cast<std::size_t>(index)].name.data() : nullptr;
}

weir_status weir_comm_create_mpi(MPI_Comm mpi_comm, weir_comm** comm) {
  if (comm != nullptr) *comm = nullptr;
  return guard(nullptr, [&] {
    // Collective: the other ranks must hear of what is wrong here.
    const char* const refusal = comm == nullptr ? "the address for the communicator is NULL" : nullptr;
    auto made =
        std::make_unique<weir_comm>(weir_comm{weir::Communicator(weir::detail::communicator_from_mpi(mpi_comm, refusal)), {}, 0});
    *comm = made.release();
  });
}

weir_status weir_comm_rank(const weir_comm* comm, int* rank) {
  return guard(const_cast<weir_comm*>(comm), [&] {
    need(comm != nullptr && rank != nullptr, "the communicator or the address for the rank is NULL");
    *rank = comm->communicator.rank();
  });
}

weir_status weir_comm_size(const weir_comm* comm, int* size) {
  return guard(const_cast<weir_comm*>(comm), [&] {
    need(comm != nullptr && size != nullptr, "the communicator or the address for the size is NULL");
    *size = comm->communicator.size();
  });
}

weir_status weir_comm_nearest_gpu(const weir_comm* comm, int* gpu) {
  return guard(const_cast<weir_comm*>(comm), [&] {
    need(comm != nullptr, "the communicator is NULL");
    const int nearest = comm->communicator.nearest_gpu();  // collective: also where the address is wrong
    need(gpu != nullptr, "the address for the GPU is NULL");
    *gpu = nearest;
  });
}

weir_status weir_comm_stragglers(weir_comm* comm, int runs, double* shares, int size) {
  return guard(comm, [&] {
    need(comm != nullptr, "the communicator is NULL");
    const std::vector<double> all = comm->communicator.stragglers(runs);  // collective: also where the address is wrong
    need(shares != nullptr, "the address for the shares is NULL");
    if (size < static_cast<int>(all.size()))
      throw weir::Error(WEIR_ERR_ARGUMENT, "there is room for " + std::to_string(size) + " shares: the communicator has " +
                                               std::to_string(all.size()) + " ranks");
    std::copy(all.begin(), all.end(), shares);
  });
}

weir_status weir_comm_dump(weir_comm* comm, const char* path) {
  return guard(comm, [&] {
    need(comm != nullptr && path != nullptr, "the communicator or the path is NULL");
    comm->communicator.dump(path);
  });
}

weir_status weir_comm_destroy(weir_comm* comm) {
  return guard(comm, [&] {
    if (comm == nullptr) return;
    if (comm->plans > 0)
      throw weir::Error(WEIR_ERR_BUSY,
                        std::to_string(comm->plans) + " plan(s) or table(s) still use this communicator: destroy them first");
    delete comm;
  });
}

weir_status weir_allreduce_plan_create(weir_comm* comm, const weir_allreduce_config* config, weir_plan** plan) {
  if (plan != nullptr) *plan = nullptr;
  return guard(comm, [&] {
    need(comm != nullptr, "the communicator is NULL");
    weir::AllreduceConfig described;
    try {
      need(plan != nullptr, "the address for the plan is NULL");
      described = read_config(config);
    } catch (const weir::Error& error) {
      weir::detail::refuse_making(comm->communicator.state(), "plan", error);
    }
    *plan = new weir_plan{comm, weir::AllreducePlan(comm->communicator, described), nullptr};
    ++comm->plans;
  });
}

weir_status weir_plan_destroy(weir_plan* plan) {
  if (plan == nullptr) return WEIR_OK;
  weir_comm* const comm = plan->comm;
  return guard(comm, [&] {
    delete plan;
    --comm->plans;
  });
}

weir_status weir_plan_start_on_stream(weir_plan* plan, void* gradient, void* stream) {
  return guard_plan(plan, [&] { plan->operation = std::make_unique<weir::Operation>(begin(plan, gradient, nullptr, stream)); });
}

weir_status weir_plan_start_sparse_on_stream(weir_plan* plan, const void* gradient, void* stream) {
  return guard_plan(plan, [&] { plan->operation = std::make_unique<weir::Operation>(begin(plan, nullptr, gradient, stream)); });
}

weir_status weir_plan_start(weir_plan* plan, void* gradient) { return weir_plan_start_on_stream(plan, gradient, nullptr); }

weir_status weir_plan_start_sparse(weir_plan* plan, const void* gradient) {
  return weir_plan_start_sparse_on_stream(plan, gradient, nullptr);
}

weir_status weir_plan_test(weir_plan* plan, int* done) {
  return guard_plan(plan, [&] {
    need(done != nullptr, "the address for done is NULL");
    *done = 1;
    if (plan->operation) *done = plan->operation->test() ? 1 : 0;
  });
}

weir_status weir_plan_wait(weir_plan* plan) {
  return guard_plan(plan, [&] {
    if (plan->operation) plan->operation->wait();
  });
}

weir_status weir_plan_run_on_stream(weir_plan* plan, void* gradient, void* stream) {
  return guard_plan(plan, [&] { plan->plan.run(gradient, stream); });
}

weir_status weir_plan_run_sparse_on_stream(weir_plan* plan, const void* gradient, void* stream, weir_sparse_result* result) {
  return guard_plan(plan, [&] {
    plan->plan.run_sparse(gradient, stream);
    if (result != nullptr) fill_struct(result, sparse_result_of(*plan));
  });
}

weir_status weir_plan_run(weir_plan* plan, void* gradient) { return weir_plan_run_on_stream(plan, gradient, nullptr); }

weir_status weir_plan_run_sparse(weir_plan* plan, const void* gradient, weir_sparse_result* result) {
  return weir_plan_run_sparse_on_stream(plan, gradient, nullptr, result);
}

weir_status weir_plan_sparse_result(const weir_plan* plan, weir_sparse_result* result) {
  return guard_plan(plan, [&] { fill_struct(result, sparse_result_of(*plan)); });
}

weir_status weir_plan_statistics(const weir_plan* plan, weir_statistics* statistics) {
  return guard_plan(plan, [&] {
    const weir::Statistics& s = plan->plan.statistics();
    weir_statistics full{};
    full.iteration = s.iteration;
    full.k = s.k;
    full.selected_local = s.selected_local;
    full.selected_global = s.selected_global;
    full.payload_bytes_sent = s.payload_bytes_sent;
    full.payload_bytes_received = s.payload_bytes_received;
    full.control_bytes_sent = s.control_bytes_sent;
    full.control_bytes_received = s.control_bytes_received;
    std::copy(s.bytes_sent.begin(), s.bytes_sent.end(), full.bytes_sent);
    std::copy(s.bytes_received.begin(), s.bytes_received.end(), full.bytes_received);
    std::copy(s.messages_sent.begin(), s.messages_sent.end(), full.messages_sent);
    std::copy(s.messages_received.begin(), s.messages_received.end(), full.messages_received);
    full.seconds_select = s.seconds_select;
    full.seconds_exchange = s.seconds_exchange;
    full.seconds_apply = s.seconds_apply;
    full.seconds_total = s.seconds_total;
    full.rethresholded = s.rethresholded;
    full.recut = s.recut;
    full.balanced = s.balanced;
    full.skipped = s.skipped;
    full.seconds_in_node = s.seconds_in_node;
    full.seconds_waited = s.seconds_waited;
    fill_struct(statistics, full);
  });
}

const char* weir_plan_explanation(const weir_plan* plan) { return plan != nullptr ? plan->plan.explanation().c_str() : nullptr; }

weir_status weir_plan_reset(weir_plan* plan) {
  return guard_plan(plan, [&] { plan->plan.reset(); });
}

}  // extern "C"
