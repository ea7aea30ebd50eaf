#include "plan/plan.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "base/config_check.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "collectives/control.hpp"
#include "collectives/node_pipeline.hpp"
#include "communicator/input_error.hpp"
#include "contribution/threshold.hpp"
#include "observe/gauges.hpp"
#include "plan/plan_config.hpp"
#include "plan/step.hpp"
#include "plan/typed_step.hpp"

namespace weir::detail {
namespace {

SharedUse shared_use(const CommunicatorState& comm, std::span<const AllreduceConfig> candidates) {
  SharedUse use{.own = std::vector<std::int64_t>(candidates.size())};
  const AllreduceConfig& config = candidates.front();
  if (config.memory != MemorySpace::host || comm.topology.largest_node() == 1 || !comm.settings.shared_memory) return use;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const AllreduceRow& row = find_allreduce(candidates[i].algorithm);
    const std::int64_t bytes = type_bytes(config.type);
    if (row.sharded) use.sharded = whole_lines(config.count * bytes);
    if (row.in_nodes == NodeSums::at_once) use.reproducible = whole_lines(config.count * bytes);
    if (row.in_nodes == NodeSums::by_blocks || (row.sharded && config.dense_iterations > 0))
      use.by_blocks = pipeline_bytes(config.count, comm.topology.smallest_node(), bytes);
    if (row.shared_bytes == nullptr || comm.topology.node_count() > 1) continue;
    ExchangeSpec spec = exchange_of(candidates[i]);
    spec.ranks = comm.topology.size();
    use.own[i] = row.shared_bytes(spec);
  }
  return use;
}

}  // namespace

PlanImpl::PlanImpl(std::shared_ptr<CommunicatorState> communicator, std::span<const AllreduceConfig> candidates, Lease lease,
                   std::unique_ptr<PlanMemory> memory)
    : AsynchronousCall(std::move(communicator), candidates.front().name, candidates.front().priority, lease.tag()),
      config(candidates.front()),
      lease_(std::move(lease)),
      memory_(std::move(memory)),
      trials_(candidates.size(), config.trial_iterations),
      times_(candidates.size() > 1 ? 2 * candidates.size() : 0) {
  for (const AllreduceConfig& candidate : candidates) {
    find_allreduce(candidate.algorithm).for_each_counter([&](const CounterInfo& counter) {
      if (find_counter(counter.name) == counters_.end()) counters_.push_back({counter.name});
    });
  }
  const SharedUse shared = shared_use(*comm, candidates);
  for (const AllreduceConfig& candidate : candidates) {
    steps_.push_back(memory_->make_step(*comm, channel(), candidate, spec_of(candidate, shared, steps_.size())));
    const Explanation text = steps_.back()->explanation();
    const std::string whose = candidates.size() > 1 ? candidate.algorithm + ": " : std::string();
    if (!text.how.empty()) explanation += fmt::format("{}{}\n  {}\n", whose, text.how, text.why);
    candidates_ += (candidates_.empty() ? "" : ", ") + candidate.algorithm;
    if (!candidate.compressor.empty()) candidates_ += " of " + candidate.compressor;
  }
  use(0);
  if (std::all_of(steps_.begin(), steps_.end(), [&](const auto& step) { return step->keeps_the_same(*current_); })) return;
  if (config.memory == MemorySpace::cuda)
    fail(WEIR_ERR_INTERNAL, "candidates in CUDA memory keep residuals of different elements: {}", candidates_);
  gradient_ = Buffer<std::byte>(config.count * type_bytes(config.type));
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

InputError PlanImpl::what_is_wrong(const void* gradient, std::int64_t count, DataType type, void* stream) {
  if (type != config.type) return InputError::wrong_type;
  if (count != config.count) return InputError::wrong_count;
  if (count > 0 && gradient == nullptr) return InputError::null_pointer;
  if (reinterpret_cast<std::uintptr_t>(gradient) % static_cast<std::uintptr_t>(type_bytes(type)) != 0)
    return InputError::misaligned;
  const InputError found = count > 0 ? memory_->caller().enter(gradient, stream) : InputError::none;
  if (found != InputError::none) return found;
  const std::span array(static_cast<const std::byte*>(gradient), static_cast<std::size_t>(count * type_bytes(type)));
  return comm->engine.will_write(array) ? InputError::in_use : InputError::none;
}

void PlanImpl::begin(void* dense, const void* gradient, std::int64_t count, DataType type, void* stream, bool caller_waits) {
  check_startable();
  const InputError input_error = what_is_wrong(gradient, count, type, stream);
  const std::span array(static_cast<const std::byte*>(gradient), static_cast<std::size_t>(config.count * type_bytes(config.type)));

  statistics = {};
  statistics.iteration = ++state_.runs;
  // Any candidate may be next while they take turns.
  run.in_place =
      std::any_of(steps_.begin(), steps_.end(), [&](const auto& step) { return step && step->in_place(state_.common_runs()); });
  run.on_gpu = config.memory == MemorySpace::cuda;
  run.element_type = name_of(config.type);
  run.count = config.count;
  run.result = dense != nullptr && input_error == InputError::none ? array : std::span<const std::byte>();
  const ErrorReport report(input_error, comm->topology.rank(), static_cast<std::uint64_t>(count));
  launch([&] { return execute({dense, gradient, report, state_.common_runs(), caller_waits}); });
}

task<void> PlanImpl::execute(StepInput input) {
  StageScope stage = channel().stage(Stage::communicate, run.boundary);
  const bool tries = !trials_.decided();
  if (tries) take_turns();
  void* const result = input.dense;
  std::optional<CallerWork> work;
  if (!input.input_error) work.emplace(memory_->caller());
  const bool hands_over = trials_.leftover() && !input.input_error;
  if (hands_over) add_leftover(input);
  if (tries || hands_over) run.boundary = {};  // a change of candidates takes a while
  const StepOutcome outcome = co_await current_->exchange(channel(), input);
  stage.end(outcome.sparse ? run.boundary : Clock::time_point{});  // dense ones may do more after their last stage
  const Verdict verdict = verdict_of(outcome.input_error);
  if (!trials_.decided() && verdict != Verdict::refused && trials_.count_run(run.seconds_in<Stage::communicate>()))
    co_await compare();
  // From here on a run sends no messages: a sparse one waits for its caller, and other ranks would wait with it.
  if (outcome.sparse && (outcome.input_error || input.dense != nullptr)) {
    const StageScope waiting = channel().stage(Stage::wait_for_caller, run.boundary);
    co_await channel().caller();
  }
  apply(outcome, verdict, input.dense);
  if (hands_over)
    end_hand_over(result);
  else if (outcome.sparse)
    run.ended = run.boundary;
  if (!trials_.decided()) trials_.note_apply(run.seconds_in<Stage::apply>());
}

/// Ends the run. If the run is refused, throws within the stage in which it fails.
void PlanImpl::apply(const StepOutcome& outcome, Verdict verdict, void* dense) {
  std::optional<StageScope> stage;
  if (outcome.sparse) stage.emplace(comm->engine, run, Stage::apply, run.boundary);
  current_->apply(outcome, verdict, has_owner_, dense);
  if (!outcome.sparse && verdict == Verdict::refused) stage.emplace(comm->engine, run, Stage::exchange);
  conclude(outcome);
}

std::int64_t PlanImpl::prepare_encoding() {
  if (!trials_.decided() || trials_.leftover())
    fail(WEIR_ERR_STATE, "plan '{}' cannot encode: candidates still take turns (trial_iterations); name an algorithm", config.name);
  return current_->prepare_encoding();
}

std::int64_t PlanImpl::encoded_bytes() {
  if (!waited_for()) fail(WEIR_ERR_BUSY, "plan '{}' is running: wait before it encodes", config.name);
  return prepare_encoding();
}

std::int64_t PlanImpl::encode(std::span<const float> gradient, std::span<std::byte> out) {
  check_startable();
  const std::int64_t most = prepare_encoding(), count = std::ssize(gradient);
  const InputError input_error = what_is_wrong(gradient.data(), count, DataType::float32, nullptr);
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
  StepOutcome outcome;
  const std::int64_t bytes = current_->encode(gradient.data(), state_.delivered_runs, out.data(), outcome);
  conclude(outcome);
  if (statistics.skipped) return current_->encode_zeros(out.data());
  ++state_.encoded_runs;
  return bytes;
}

void PlanImpl::reset() {
  statistics = {};
  state_ = {};
  for (Counter& counter : counters_) counter.runs = 0;
  for (auto& step : steps_) {
    if (step) step->reset();
  }
  trials_.reset();
  go_on();
}

void PlanImpl::scale(double factor) {
  for (auto& step : steps_) {
    if (step) step->scale(factor);
  }
}

std::int64_t PlanImpl::memory_bytes() const {
  std::int64_t bytes = gradient_.bytes();
  for (const auto& step : steps_) bytes += step ? step->memory_bytes() : 0;
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
  Trials trials = trials_;
  if (steps_.size() > 1) visit_trials(visitor, trials);
  const auto visit_step = [&](std::string_view name, std::size_t candidate) {
    const StateVisitor::Scope scope(visitor, name);
    steps_[candidate]->visit_state(visitor);
  };
  visit_step("step", trials.turn());
  if (trials.leftover()) visit_step("leftover", *trials.leftover());
  if (!visitor.restores()) return;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i] && i != trials.turn() && i != trials.leftover()) steps_[i]->reset();
  }
  trials_ = std::move(trials);
  go_on();
  statistics = {};
  statistics.iteration = state_.runs;
}

void PlanImpl::visit_trials(StateVisitor& visitor, Trials& trials) {
  const StateVisitor::Scope scope(visitor, "trials");
  const StateVisitor::Placed placed(visitor, {Share::layout});
  visitor.text("candidates", candidates_, Share::layout);
  trials.visit(visitor);
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (trials.needs(i) && steps_[i] == nullptr)
      visitor.refuse("decided", "trials have ended here, and candidates are gone: make a new plan to restore this state to");
  }
  if (trials.leftover() && steps_[trials.turn()]->keeps_the_same(*steps_[*trials.leftover()]))
    visitor.refuse("leftover", "it must be -1: candidates that keep the same leave nothing over");
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

ExchangeSpec PlanImpl::spec_of(const AllreduceConfig& candidate, const SharedUse& use, std::size_t number) const {
  ExchangeSpec whole = exchange_of(candidate);
  whole.ranks = comm->topology.size();
  whole.divisor = candidate.average ? whole.ranks : 1;
  whole.topology = &comm->topology;
  const AllreduceRow& row = find_allreduce(candidate.algorithm);
  if (row.asks_costs_for(whole)) whole.machine = &comm->agreed_machine().machine;
  whole.lane = lease_.lane();
  if (const SharedMemory memory = lease_.memory()) {
    const std::int64_t before = row.in_nodes == NodeSums::at_once ? use.sharded : 0;
    if (use.dense() > 0) whole.shared = memory.from(use.before(use.own.size()) + before);
    if (use.own[number] > 0) whole.node_memory = memory.from(use.before(number));
  }
  whole.scratch = comm->scratch;
  whole.direct = comm->hands_over_gpu_memory();
  if (candidate.memory == MemorySpace::host) whole.threads = comm->threads_for(candidate.threads);
  return whole;
}

void PlanImpl::completed() {
  // A compressor encodes and decodes within the exchange; this time is separated from that of its messages.
  const double encode = run.seconds_in<Stage::encode>(), decode = run.seconds_in<Stage::decode>();
  statistics.seconds_select = run.seconds_in<Stage::select>() + run.seconds_in<Stage::check_finite>() + encode;
  statistics.seconds_in_node = run.seconds_in<Stage::in_node_reduce>() + run.seconds_in<Stage::in_node_allgather>();
  statistics.seconds_exchange = run.seconds_in<Stage::exchange>() - encode - decode;
  statistics.seconds_apply = run.seconds_in<Stage::apply>() + decode;
  // Stages that adjoin make up the whole: rounding must not make them more.
  const double parts =
      statistics.seconds_select + statistics.seconds_in_node + statistics.seconds_exchange + statistics.seconds_apply;
  statistics.seconds_total = std::max(parts, run.seconds_in<Stage::communicate>() + run.seconds_in<Stage::apply>());
  statistics.seconds_waited = seconds_waited();
  count_traffic(statistics);
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

// Candidates take turns.

void PlanImpl::use(std::size_t turn) {
  current_ = steps_[turn].get();
  config = current_->config();
  run.algorithm = find_allreduce(config.algorithm).name;
}

void PlanImpl::go_on() {
  use(trials_.turn());
  if (trials_.decided()) drop_steps();
}

/// Sends no messages, since the gradient is read before anything is waited for.
void PlanImpl::take_turns() {
  if (trials_.take_turns()) {
    Step& last = *current_;
    use(trials_.turn());
    if (current_->keeps_the_same(last)) {
      current_->take_residual(last);
      trials_.handed_on();
    }
  }
  if (trials_.decided()) drop_steps();
}

/// Drops unneeded steps once trials have decided. The chosen step stays; so does the previous one until its residual is handed on.
void PlanImpl::drop_steps() {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (!trials_.needs(i)) steps_[i].reset();
  }
  if (!trials_.leftover()) gradient_ = {};
}

/// Chooses the candidate that was fastest on its slowest rank.
task<void> PlanImpl::compare() {
  trials_.typical_nanoseconds(times_);
  const auto count = static_cast<std::int64_t>(steps_.size());
  const StageScope stage = channel().stage(Stage::compare_candidates);
  co_await allreduce_control(channel(), times_.data(), count, count, times_.data() + count);
  if (comm->settings.log >= LogLevel::info) log_times();
  trials_.choose(static_cast<std::size_t>(std::min_element(times_.begin(), times_.begin() + count) - times_.begin()));
}

void PlanImpl::log_times() const {
  std::string text;
  for (std::size_t i = 0; i < steps_.size(); ++i)
    text += fmt::format("{}{} {:.3f} ms", i == 0 ? "" : ", ", steps_[i]->config().algorithm, static_cast<double>(times_[i]) * 1e-6);
  log(comm->settings.log, LogLevel::info, "rank {}: plan '{}': trials decide: {}", comm->topology.rank(), config.name, text);
}

/// Adds the last candidate's residual to the next one's first gradient, so that nothing is lost.
void PlanImpl::add_leftover(StepInput& input) {
  std::copy_n(static_cast<const std::byte*>(input.gradient), gradient_.size(), gradient_.data());
  steps_[*trials_.leftover()]->add_residual(gradient_.data());
  input.gradient = gradient_.data();
  if (input.dense != nullptr) input.dense = gradient_.data();
}

void PlanImpl::end_hand_over(void* result) {
  if (result != nullptr && has_owner_) std::copy_n(gradient_.data(), gradient_.size(), static_cast<std::byte*>(result));
  if (statistics.skipped) return;
  steps_[*trials_.leftover()]->reset();
  trials_.handed_on();
  if (trials_.decided()) drop_steps();
}

namespace {

/// Collective. Takes all resources that candidates share with other ranks. This comes before anything that can fail on one rank
/// alone. Candidates run one at a time, so one resource of each kind serves all. The outcome says why the ranks of a node exchange
/// by messages, if they do.
Outcome take_resources(CommunicatorState& comm, const Lease& lease, const std::vector<AllreduceConfig>& candidates,
                       const SharedUse& use) {
  bool needs_lane = false;
  for (const AllreduceConfig& candidate : candidates) {
    const AllreduceRow& row = find_allreduce(candidate.algorithm);
    needs_lane = needs_lane || (row.needs_allreduce && comm.transport->native_allreduce() != nullptr);
  }
  if (needs_lane) comm.leases.add_lane(comm, lease);
  if (use.total() == 0) return {};
  return comm.leases.add_memory(comm, lease, use.total());
}

class HostPlanMemory final : public PlanMemory {
 public:
  CallerMemory& caller() override { return caller_; }
  std::unique_ptr<Step> make_step(const CommunicatorState& comm, Channel channel, const AllreduceConfig& config,
                                  ExchangeSpec whole) override {
    const bool in_nodes = comm.topology.largest_node() > 1;
    if (config.type == DataType::float32)
      return std::make_unique<TypedStep<HostArrays<float>>>(comm, channel, config, whole, nullptr, in_nodes);
    return std::make_unique<TypedStep<HostArrays<double>>>(comm, channel, config, whole, nullptr, in_nodes);
  }

 private:
  HostCaller caller_;
};

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
  SharedUse use;
  comm->agree("making a plan", "plan", config.name, [&] { use = shared_use(*comm, choice.candidates); });
  const Outcome by_messages = take_resources(*comm, lease, choice.candidates, use);
  DeviceNeeds needs;
  if (config.memory == MemorySpace::cuda) needs = connect_device(*comm, choice.candidates.front(), lease.tag());

  // 3. Make what each rank makes by itself.
  std::shared_ptr<PlanImpl> plan;
  std::string in_force;
  comm->agree("making a plan", "plan", config.name, [&] {
    const bool on_host = config.memory == MemorySpace::host;
    plan = std::make_shared<PlanImpl>(comm, choice.candidates, std::move(lease),
                                      on_host ? std::make_unique<HostPlanMemory>() : make_device_memory(needs));
    if (!on_host) plan->explanation = needs.explanation;
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
