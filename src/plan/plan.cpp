#include "plan/plan.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/log.hpp"
#include "plan/auto_choice.hpp"
#include "plan/fault.hpp"
#include "plan/plan_config.hpp"
#include "plan/typed_plan.hpp"

namespace weir::detail {

PlanState::PlanState(std::shared_ptr<CommunicatorState> communicator, const AllreduceConfig& configuration, int tag)
    : InFlight(std::move(communicator), configuration.name, configuration.priority, tag), config(configuration) {}

void PlanState::start(void* dense, const void* sparse_only, std::int64_t count, DataType type) {
  check_startable();
  const void* gradient = dense != nullptr ? dense : sparse_only;
  FaultKind fault = FaultKind::none;
  if (type != config.type)
    fault = FaultKind::wrong_type;
  else if (count != config.count)
    fault = FaultKind::wrong_count;
  else if (count > 0 && gradient == nullptr)
    fault = FaultKind::null_pointer;
  else if (reinterpret_cast<std::uintptr_t>(gradient) % (type == DataType::float32 ? alignof(float) : alignof(double)) != 0)
    fault = FaultKind::misaligned;

  const std::int64_t iteration = statistics.iteration;
  statistics = {};
  statistics.iteration = iteration + 1;
  launch(execute(dense, sparse_only, encode_fault(fault, comm->topology.rank())));
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
  std::int32_t out_of_memory = 0;
  try {
    if (config.type == DataType::float32)
      plan = std::make_shared<TypedPlan<float>>(comm, choice.candidates, tag);
    else
      plan = std::make_shared<TypedPlan<double>>(comm, choice.candidates, tag);
    plan->explanation = choice.explanation;
  } catch (const std::bad_alloc&) {
    out_of_memory = 1;
  } catch (const Error& error) {
    if (error.status() != WEIR_ERR_MEMORY) throw;
    out_of_memory = 1;
  }
  std::vector<std::int32_t> outcomes(cards.size());
  allgather_blocking(*comm, tag, "making a plan", reinterpret_cast<const std::byte*>(&out_of_memory), sizeof out_of_memory,
                     reinterpret_cast<std::byte*>(outcomes.data()));
  const auto failed = std::find(outcomes.begin(), outcomes.end(), 1);
  if (failed != outcomes.end())
    fail(WEIR_ERR_MEMORY, "plan '{}': rank {} has not enough memory for it", config.name, failed - outcomes.begin());
  log(comm->settings.log, LogLevel::info, "rank {}: plan '{}': {}, {} elements, k {}, {} bytes", comm->topology.rank(), config.name,
      plan->config.algorithm, config.count, final_k(config), plan->memory_bytes());
  return plan;
}

}  // namespace weir::detail
