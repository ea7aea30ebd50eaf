#include "plan/plan.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "base/config_check.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "communicator/input_error.hpp"
#include "contribution/threshold.hpp"
#include "observe/gauges.hpp"
#include "plan/auto_choice.hpp"
#include "plan/device_plan.hpp"
#include "plan/plan_config.hpp"
#include "plan/typed_plan.hpp"

namespace weir::detail {

PlanImpl::PlanImpl(std::shared_ptr<CommunicatorState> communicator, std::span<const AllreduceConfig> candidates, Lease lease)
    : AsynchronousCall(std::move(communicator), candidates.front().name, candidates.front().priority, lease.tag()),
      config(candidates.front()),
      lease_(std::move(lease)) {
  for (const AllreduceConfig& candidate : candidates) {
    find_allreduce(candidate.algorithm).for_each_counter([&](const CounterInfo& counter) {
      if (find_counter(counter.name) == counters_.end()) counters_.push_back({counter.name});
    });
  }
}

std::vector<PlanImpl::Counter>::iterator PlanImpl::find_counter(std::string_view name) {
  return std::find_if(counters_.begin(), counters_.end(), [&](const Counter& counter) { return counter.name == name; });
}

std::int64_t PlanImpl::counter(std::string_view name) const {
  for (const Counter& counter : counters_) {
    if (counter.name == name) return counter.runs;
  }
  std::vector<std::string_view> known;
  std::string text;
  for (const AllreduceRow& row : allreduce_registry()) {
    row.for_each_counter([&](const CounterInfo& counter) {
      if (std::find(known.begin(), known.end(), counter.name) != known.end()) return;
      known.push_back(counter.name);
      text += fmt::format("{}{}", text.empty() ? "" : ", ", counter.name);
    });
  }
  if (std::find(known.begin(), known.end(), name) != known.end()) return 0;
  fail(WEIR_ERR_ARGUMENT, "plan '{}': there is no counter '{}': plans count {}", config.name, name, text);
}

void PlanImpl::begin(void* dense, const void* sparse_only, std::int64_t count, DataType type, void* stream, bool caller_waits) {
  check_startable();
  caller_waits_ = caller_waits;
  const void* gradient = dense != nullptr ? dense : sparse_only;
  InputError input_error = InputError::none;
  if (type != config.type)
    input_error = InputError::wrong_type;
  else if (count != config.count)
    input_error = InputError::wrong_count;
  else if (count > 0 && gradient == nullptr)
    input_error = InputError::null_pointer;
  else if (reinterpret_cast<std::uintptr_t>(gradient) % static_cast<std::uintptr_t>(type_bytes(type)) != 0)
    input_error = InputError::misaligned;
  else if (count > 0)
    input_error = memory_error(gradient, stream);
  const std::span array(static_cast<const std::byte*>(gradient), static_cast<std::size_t>(config.count * type_bytes(config.type)));
  if (input_error == InputError::none && comm->engine.will_write(array)) input_error = InputError::in_use;

  statistics = {};
  statistics.iteration = ++state_.runs;
  run.in_place = in_place();
  run.on_gpu = config.memory == MemorySpace::cuda;
  run.element_type = name_of(config.type);
  run.count = config.count;
  run.result = dense != nullptr && input_error == InputError::none ? array : std::span<const std::byte>();
  const ErrorReport report(input_error, comm->topology.rank(), static_cast<std::uint64_t>(count));
  launch([&] { return execute(dense, sparse_only, report); });
}

std::int64_t PlanImpl::encoded_bytes() {
  if (!waited_for()) fail(WEIR_ERR_BUSY, "plan '{}' is running: wait before it encodes", config.name);
  return prepare_encoding();
}

std::int64_t PlanImpl::encode(std::span<const float> gradient, std::span<std::byte> out) {
  check_startable();
  const std::int64_t most = prepare_encoding(), count = std::ssize(gradient);
  InputError input_error = InputError::none;
  if (count != config.count)
    input_error = InputError::wrong_count;
  else if (reinterpret_cast<std::uintptr_t>(gradient.data()) % sizeof(float) != 0)
    input_error = InputError::misaligned;
  else if (count > 0)
    input_error = memory_error(gradient.data(), nullptr);
  if (input_error == InputError::none && comm->engine.will_write(std::as_bytes(gradient))) input_error = InputError::in_use;
  if (input_error != InputError::none)
    throw gradient_error(ErrorReport(input_error, comm->topology.rank(), static_cast<std::uint64_t>(count)), config);
  require(std::ssize(out) >= most, "plan '{}': there is room for {} bytes: encode needs encoded_bytes(), {}", config.name,
          out.size(), most);
  const std::span<const std::byte> given = std::as_bytes(gradient);
  require(out.empty() || given.empty() || out.data() >= given.data() + given.size() || given.data() >= out.data() + out.size(),
          "plan '{}': encode would write over its gradient: give it memory of its own for the bytes", config.name);

  statistics = {};
  statistics.iteration = ++state_.runs;
  const FramePool::Scope scope(comm->engine.frames());
  const std::int64_t bytes = encode_run(gradient.data(), out.data());
  if (!statistics.skipped) ++state_.encoded_runs;
  return bytes;
}

void PlanImpl::State::visit(StateVisitor& visitor) {
  visitor.value("runs", runs);
  visitor.value("delivered_runs", delivered_runs);
  visitor.check(0 <= delivered_runs && delivered_runs <= runs, "delivered_runs", fmt::format("between 0 and the {} runs", runs));
  visitor.value("encoded_runs", encoded_runs);
  visitor.check(0 <= encoded_runs && encoded_runs <= delivered_runs, "encoded_runs",
                fmt::format("between 0 and the {} delivered runs", delivered_runs));
}

void PlanImpl::visit_state(StateVisitor& visitor) {
  if (!waited_for()) fail(WEIR_ERR_BUSY, "plan '{}' is running: wait before its state is saved or restored", config.name);
  check_startable();
  visitor.fixed("rank", comm->topology.rank(), Share::layout);
  visitor.fixed("ranks", comm->topology.size(), Share::layout);
  visitor.fixed("count", config.count);
  visitor.fixed("element_bytes", config.type == DataType::float64 ? 8 : 4);  // of residuals and sums
  visitor.state(state_);
  visit_steps(visitor);
  if (!visitor.restores()) return;
  statistics = {};
  statistics.iteration = state_.runs;
}

bool PlanImpl::retire() noexcept {
  has_owner_ = false;
  return detail::retire(*this);
}

Verdict PlanImpl::verdict_of(ErrorReport input_error) const {
  if (!input_error) return Verdict::delivered;
  const bool skips = input_error.kind<InputError>() == InputError::non_finite && config.non_finite == NonFinite::skip;
  return skips ? Verdict::skipped : Verdict::refused;
}

void PlanImpl::conclude(const StepOutcome& outcome) {
  const Verdict verdict = verdict_of(outcome.input_error);
  statistics.k = outcome.k;
  if (verdict == Verdict::refused)
    throw AgreedError(gradient_error(outcome.input_error, config),
                      outcome.input_error.kind<InputError>() == InputError::nccl_aborted);
  statistics.skipped = verdict == Verdict::skipped;
  if (verdict == Verdict::delivered) {
    ++state_.delivered_runs;
    statistics.selected_local = outcome.selected_local;
    statistics.selected_global = outcome.selected_global;
  }
  const bool tells = outcome.sparse && comm->settings.log >= LogLevel::debug;
  std::string counted;
  const auto count = [&](const CounterInfo& counter) {
    ++find_counter(counter.name)->runs;
    if (tells) counted += fmt::format(", {}", counter.name);
  };
  if (outcome.rethresholded) count(rethresholded);
  for (std::size_t i = 0; i < outcome.counters.size(); ++i) {
    if ((outcome.counted >> i & 1) != 0) count(outcome.counters[i]);
  }
  if (!tells) return;
  log(comm->settings.log, LogLevel::debug, "rank {}: plan '{}', iteration {}: {} local, {} global entries{}{}",
      comm->topology.rank(), config.name, statistics.iteration, statistics.selected_local, statistics.selected_global, counted,
      statistics.skipped ? ", skipped" : "");
}

ExchangeSpec PlanImpl::spec_of(const AllreduceConfig& candidate) const {
  ExchangeSpec whole = exchange_of(candidate);
  whole.ranks = comm->topology.size();
  whole.divisor = candidate.average ? whole.ranks : 1;
  whole.topology = &comm->topology;
  if (find_allreduce(candidate.algorithm).asks_costs_for(whole)) whole.machine = &comm->agreed_machine().machine;
  whole.lane = lease_.lane();
  whole.shared = lease_.memory();
  whole.scratch = comm->scratch;
  whole.direct = comm->hands_over_gpu_memory();
  if (candidate.memory == MemorySpace::host) whole.threads = comm->threads_for(candidate.threads);
  return whole;
}

void PlanImpl::completed() {
  const auto seconds = [&](Stage stage) { return run.seconds[static_cast<std::size_t>(stage)]; };
  // A compressor encodes and decodes within the exchange; this time is separated from that of its messages.
  const double encode = seconds(Stage::encode), decode = seconds(Stage::decode);
  statistics.seconds_select = seconds(Stage::select) + seconds(Stage::check_finite) + encode;
  statistics.seconds_in_node = seconds(Stage::in_node_reduce) + seconds(Stage::in_node_allgather);
  statistics.seconds_exchange = seconds(Stage::exchange) - encode - decode;
  statistics.seconds_apply = seconds(Stage::apply) + decode;
  statistics.seconds_total = seconds(Stage::communicate) + seconds(Stage::apply);
  statistics.seconds_waited = seconds_waited();
  statistics.payload_bytes_sent = traffic.kind_sent[static_cast<std::size_t>(Traffic::payload)];
  statistics.payload_bytes_received = traffic.kind_received[static_cast<std::size_t>(Traffic::payload)];
  statistics.control_bytes_sent = traffic.kind_sent[static_cast<std::size_t>(Traffic::control)];
  statistics.control_bytes_received = traffic.kind_received[static_cast<std::size_t>(Traffic::control)];
  statistics.bytes_sent = traffic.bytes_sent;
  statistics.bytes_received = traffic.bytes_received;
  statistics.messages_sent = traffic.messages_sent;
  statistics.messages_received = traffic.messages_received;
  if (run.error || comm->engine.detail_observers().empty()) return;
  const double ratio = compression(config.count * type_bytes(config.type), statistics.payload_bytes_sent);
  comm->notify_update({config.name, statistics.iteration, ratio, [this] { return residual_norm(); }});
}

double PlanImpl::residual_norm() const {
  const AnyVector whole = residual();
  if (config.memory != MemorySpace::host || whole.count == 0) return -1;
  const auto count = static_cast<std::size_t>(whole.count);
  return std::sqrt(config.type == DataType::float64 ? sampled_square(std::span(static_cast<const double*>(whole.values), count))
                                                    : sampled_square(std::span(static_cast<const float*>(whole.values), count)));
}

namespace {

/// Collective. Takes all resources that candidates share with other ranks. This comes before anything that can fail on one rank
/// alone. Candidates run one at a time, so one resource of each kind serves all. The outcome says why the ranks of a node exchange
/// by messages, if they do.
Outcome take_resources(CommunicatorState& comm, const Lease& lease, const std::vector<AllreduceConfig>& candidates) {
  bool needs_lane = false, needs_memory = false;
  for (const AllreduceConfig& candidate : candidates) {
    const AllreduceRow& row = find_allreduce(candidate.algorithm);
    needs_lane = needs_lane || (row.needs_allreduce && comm.transport->native_allreduce() != nullptr);
    needs_memory = needs_memory || row.sharded || row.sums_in_nodes;
  }
  const AllreduceConfig& config = candidates.front();
  if (needs_lane) comm.leases.add_lane(comm, lease);
  if (!needs_memory || config.memory != MemorySpace::host || comm.topology.largest_node() == 1 || !comm.settings.shared_memory)
    return {};
  return comm.leases.add_memory(comm, lease, config.count * type_bytes(config.type));
}

std::shared_ptr<PlanImpl> make_on_host(std::shared_ptr<CommunicatorState> comm, const Choice& choice, Lease lease) {
  const bool in_nodes = comm->topology.largest_node() > 1;
  if (choice.candidates.front().type == DataType::float32)
    return std::make_shared<TypedPlan<HostArrays<float>>>(std::move(comm), choice.candidates, std::move(lease), nullptr, in_nodes);
  return std::make_shared<TypedPlan<HostArrays<double>>>(std::move(comm), choice.candidates, std::move(lease), nullptr, in_nodes);
}

}  // namespace

std::shared_ptr<PlanImpl> make_plan(std::shared_ptr<CommunicatorState> comm, const AllreduceConfig& config) {
  // 1. Check that all ranks want the same, and choose what `auto` stands for.
  Choice choice;
  bool asks_costs = false;
  ConfigCard mine = make_card(config);
  if (!mine.outcome.failed() && !is_automatic(config.algorithm)) {
    mine.outcome = outcome_of([&] {
      choice = {{config}, fmt::format("{}: as asked for\n", travel_text(config))};
      asks_costs = find_allreduce(config.algorithm).asks_costs_for(exchange_of(config));
    });
  }
  Lease lease = open_agreed(*comm, mine, {"plan", config_fields(), {"algorithm", "compressor", "threshold"}}, config.name);
  if (is_automatic(config.algorithm)) choice = choose_algorithm(*comm, config);
  if (asks_costs) static_cast<void>(comm->agreed_machine());

  // 2. Take what ranks share.
  const Outcome by_messages = take_resources(*comm, lease, choice.candidates);
  DeviceNeeds needs;
  if (config.memory == MemorySpace::cuda) needs = connect_device(*comm, choice.candidates.front(), lease.tag());

  // 3. Make what each rank makes by itself.
  std::shared_ptr<PlanImpl> plan;
  std::string in_force;
  comm->agree("making a plan", "plan", config.name, [&] {
    if (config.memory == MemorySpace::cuda)
      plan = make_device_plan(comm, choice.candidates, std::move(lease), needs);
    else
      plan = make_on_host(comm, choice, std::move(lease));
    plan->explanation.insert(0, choice.explanation);
    in_force = travel_text(plan->config);
    if (find_allreduce(plan->config.algorithm).sparse() && plan->config.threshold != "exact")
      plan->explanation +=
          fmt::format("threshold: {}\n", make_threshold(plan->config.threshold, plan->config.threshold_parameters).text());
    if (!by_messages.failed()) return;
    plan->explanation +=
        fmt::format("ranks of a node exchange by messages, not through shared memory: {}\n", by_messages.text.data());
    if (comm->topology.rank() != 0) return;
    const LogLevel level = std::exchange(comm->warned_of_messages, true) ? LogLevel::info : LogLevel::warn;
    log(comm->settings.log, level, "plan '{}': ranks of a node exchange by messages, not through shared memory: {}", config.name,
        by_messages.text.data());
  });
  log(comm->settings.log, LogLevel::info, "rank {}: plan '{}': {}, {} elements, k {}, {} bytes", comm->topology.rank(), config.name,
      in_force, config.count, final_k(config), plan->memory_bytes());
  return plan;
}

}  // namespace weir::detail
