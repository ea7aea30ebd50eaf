#include "plan/plan.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/log.hpp"
#include "plan/auto_choice.hpp"
#include "plan/device_plan.hpp"
#include "plan/fault.hpp"
#include "plan/plan_config.hpp"
#include "plan/typed_plan.hpp"

namespace weir::detail {

PlanState::PlanState(std::shared_ptr<CommunicatorState> communicator, const AllreduceConfig& configuration, int tag)
    : InFlight(std::move(communicator), configuration.name, configuration.priority, tag), config(configuration) {}

FaultKind PlanState::memory_fault(const void* gradient, void* stream) { return host_memory_.fault_of(gradient, stream); }

void PlanState::start(void* dense, const void* sparse_only, std::int64_t count, DataType type, void* stream) {
  check_startable();
  const void* gradient = dense != nullptr ? dense : sparse_only;
  FaultKind fault = FaultKind::none;
  if (type != config.type)
    fault = FaultKind::wrong_type;
  else if (count != config.count)
    fault = FaultKind::wrong_count;
  else if (count > 0 && gradient == nullptr)
    fault = FaultKind::null_pointer;
  else if (reinterpret_cast<std::uintptr_t>(gradient) % static_cast<std::uintptr_t>(type_bytes(type)) != 0)
    fault = FaultKind::misaligned;
  else if (count > 0)
    fault = memory_fault(gradient, stream);

  const std::int64_t iteration = statistics.iteration;
  statistics = {};
  statistics.iteration = iteration + 1;
  launch(execute(dense, sparse_only, encode_fault(fault, comm->topology.rank())));
}

bool PlanState::is_accepted(std::uint64_t fault) {
  if (fault == 0) return true;
  if (fault_kind(fault) != FaultKind::non_finite || config.non_finite != NonFinite::skip) throw fault_error(fault, config);
  statistics.skipped = true;
  return false;
}

AllreduceProblem problem_of(const CommunicatorState& comm, const AllreduceConfig& config) {
  AllreduceProblem whole;
  whole.count = config.count;
  whole.largest_k = weir::largest_k(config);
  whole.config = config;
  whole.config.threshold = find_allreduce(config.algorithm).threshold.value_or(config.threshold);
  whole.largest_local = LocalSelector<float>::most_selected(whole.config.threshold, whole.count, whole.largest_k);
  whole.ranks = comm.topology.size();
  whole.divisor = config.average ? whole.ranks : 1;
  whole.topology = &comm.topology;
  whole.transport = comm.transport.get();
  whole.share_memory = comm.settings.shared_memory;
  return whole;
}

void PlanState::completed() {
  statistics.payload_bytes_sent = traffic.kind_sent[static_cast<std::size_t>(Traffic::payload)];
  statistics.payload_bytes_received = traffic.kind_received[static_cast<std::size_t>(Traffic::payload)];
  statistics.control_bytes_sent = traffic.kind_sent[static_cast<std::size_t>(Traffic::control)];
  statistics.control_bytes_received = traffic.kind_received[static_cast<std::size_t>(Traffic::control)];
  statistics.bytes_sent = traffic.bytes_sent;
  statistics.bytes_received = traffic.bytes_received;
  statistics.messages_sent = traffic.messages_sent;
  statistics.messages_received = traffic.messages_received;
}

std::shared_ptr<PlanState> make_plan(std::shared_ptr<CommunicatorState> comm, const AllreduceConfig& config) {
  const int tag = comm->next_tag();
  const ConfigCard mine = make_card(config);
  std::vector<ConfigCard> cards(static_cast<std::size_t>(comm->topology.size()));
  allgather_blocking(*comm, tag, "making a plan", reinterpret_cast<const std::byte*>(&mine), sizeof mine,
                     reinterpret_cast<std::byte*>(cards.data()));
  check_agreement(cards, fmt::format("plan '{}'", config.name), "algorithm", config_field_names());

  Choice choice{{config}, fmt::format("{}: as asked for\n", config.algorithm)};
  if (is_automatic(config.algorithm)) choice = choose_algorithm(*comm, config);
  std::shared_ptr<PlanState> plan;
  make_on_all_ranks(*comm, tag, "plan", config.name, [&] {
    if (config.memory == MemorySpace::cuda)
      plan = make_device_plan(comm, choice.candidates.front(), tag);
    else if (config.type == DataType::float32)
      plan = std::make_shared<TypedPlan<float>>(comm, choice.candidates, tag);
    else
      plan = std::make_shared<TypedPlan<double>>(comm, choice.candidates, tag);
    plan->explanation.insert(0, choice.explanation);
  });
  log(comm->settings.log, LogLevel::info, "rank {}: plan '{}': {}, {} elements, k {}, {} bytes", comm->topology.rank(), config.name,
      plan->config.algorithm, config.count, final_k(config), plan->memory_bytes());
  return plan;
}

}  // namespace weir::detail
