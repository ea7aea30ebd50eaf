#include "fuzz_plan_cases.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>

#include "collectives/allreduce.hpp"
#include "compress/compressor.hpp"
#include "contribution/threshold.hpp"
#include "model/choose.hpp"
#include "plan/plan_config.hpp"
#include "support/algorithm_parameters.hpp"
#include "support/thresholds.hpp"

namespace weir::test {
namespace {

std::string some_algorithm(Dice& dice) {
  std::vector<std::string> names = {"auto", "auto_sparse"};
  for (const AllreduceRow& row : allreduce_registry()) {
    if (row.host_memory) names.emplace_back(row.name);
  }
  return dice.one_of(names);
}

/// Returns a machine with one node, with nodes of any sizes, or with levels within and above nodes.
std::string some_machine(Dice& dice, int ranks) {
  if (dice.chance(20)) return "";
  if (dice.chance(20) && ranks % 4 == 0) return fmt::format("switch:2 node:2 rank:{}", ranks / 4);
  if (dice.chance(20)) {  // one to three switches of any sizes
    const int per_node = ranks % 2 == 0 && dice.chance(50) ? 2 : 1;
    std::vector<int> nodes;
    for (int left = ranks / per_node; left > 0; left -= nodes.back())
      nodes.push_back(nodes.size() == 2 ? left : dice.small(1, left));
    return fmt::format("switches:{} rank:{}", fmt::join(nodes, ","), per_node);
  }
  if (dice.chance(30) && ranks % 2 == 0) return fmt::format("node:{} socket:2 rank:1", ranks / 2);
  std::vector<int> sizes;
  for (int left = ranks; left > 0; left -= sizes.back()) sizes.push_back(dice.small(1, left));
  return fmt::format("nodes:{}", fmt::join(sizes, ","));
}

std::int64_t some_count(Dice& dice) {
  switch (dice.between(0, 9)) {
    case 0:
      return dice.between(0, 1);
    case 1:
    case 2:
      return dice.between(2, 12);
    case 3:
    case 4:
    case 5:
      return dice.between(13, 300);
    default:
      return dice.between(301, 5000);
  }
}

void choose_k(Dice& dice, AllreduceConfig& config) {
  if (dice.chance(30)) {
    config.density = dice.one_of({0.001, 0.01, 0.1, 0.3, 1.0});
    return;
  }
  const std::int64_t n = config.count;
  config.k = dice.one_of({std::int64_t{0}, std::min<std::int64_t>(1, n), n / 50, n / 10, n / 2, n, dice.between(0, n)});
}

/// Chooses, for half of the plans, a compressor that their algorithm carries.
void choose_compressor(Dice& dice, AllreduceConfig& config) {
  config.error_feedback = dice.chance(85) ? Feedback::automatic : Feedback::none;
  if (config.algorithm.starts_with("auto") || !dice.chance(50)) return;
  const AllreduceRow& algorithm = find_allreduce(config.algorithm);
  std::vector<std::string> names;
  for (const compress::CompressorRow* row : compress::compressor_registry()) {
    if (carries(algorithm, compress::make_compressor(row->name, ""))) names.emplace_back(row->name);
  }
  config.compressor = dice.one_of(names);
  config.seed = dice.small(0, 100);
  if (!algorithm.sparse()) config.type = DataType::float32;
  if (compress::find_compressor(config.compressor).why_no_feedback == nullptr && dice.chance(30))
    config.error_feedback = Feedback::residual;
}

RunCase some_run(Dice& dice, const PlanCase& plan, int ranks, std::int64_t runs_since_reset) {
  const AllreduceConfig& config = plan.config;
  const bool may_be_dense = config.algorithm == "auto" || runs_since_reset < config.dense_iterations ||
                            (config.algorithm != "auto_sparse" && !find_allreduce(config.algorithm).sparse());
  RunCase run{.in_place = may_be_dense || dice.chance(60)};
  // While k changes from run to run, the k after a failed run would be unclear.
  if (runs_since_reset < config.dense_iterations + config.warmup_iterations || !dice.chance(12)) return run;
  run.trouble = dice.one_of({Trouble::poison, Trouble::poison, Trouble::wrong_count, Trouble::wrong_type, Trouble::null_pointer});
  if (config.count == 0 && run.trouble != Trouble::wrong_count) run.trouble = Trouble::none;
  run.bad_rank = dice.small(0, ranks - 1);
  run.bad_element = config.count == 0 ? 0 : dice.between(0, config.count - 1);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  run.poison = dice.one_of({std::numeric_limits<double>::quiet_NaN(), infinity, -infinity});
  if (config.count > 0 && dice.chance(50))
    run.nans = dice.chance(50) ? std::min(config.count, final_k(config) + dice.between(0, 2)) : dice.between(0, config.count - 1);
  return run;
}

std::vector<RunCase> some_runs(Dice& dice, const PlanCase& plan, int ranks) {
  std::vector<RunCase> runs;
  std::int64_t since_reset = 0;
  for (std::int64_t left = dice.between(1, 7); left > 0; --left) {
    const bool reset = !runs.empty() && dice.chance(8);
    if (reset) since_reset = 0;
    runs.push_back(some_run(dice, plan, ranks, since_reset++));
    runs.back().reset_before = reset;
  }
  return runs;
}

}  // namespace

PlanCase make_plan_case(Dice& dice, int ranks) {
  PlanCase plan;
  AllreduceConfig& config = plan.config;
  config.count = some_count(dice);
  config.type = dice.chance(30) ? DataType::float64 : DataType::float32;
  config.algorithm = some_algorithm(dice);
  const bool packed = !config.algorithm.starts_with("auto") && find_allreduce(config.algorithm).packed();
  if (packed) config.type = DataType::float32;
  choose_compressor(dice, config);
  choose_k(dice, config);
  if (config.algorithm.starts_with("auto") && dice.chance(60)) config.trial_iterations = dice.between(1, 2);
  config.average = dice.chance(50);
  if (dice.chance(50)) config.threshold = dice.one_of(all_thresholds);
  const ThresholdMethod threshold = make_threshold(config.threshold);
  const std::int64_t samplings = dice.small(1, 40);
  if (dice.chance(30)) config.wire_format = WireFormat::coo;
  if (config.type == DataType::float32 && dice.chance(30))
    config.wire_values = dice.one_of({WireValues::bfloat16, WireValues::float16});
  const std::int64_t period = dice.between(1, 5);
  for (const ParameterInfo& info : threshold.row->parameters)
    config.threshold_parameters = fmt::format("{}={}", info.name, info.name == "period" ? period : samplings);
  std::string parameters = fmt::format("boundary_period={}", dice.between(1, 5));
  parameters += fmt::format(",balance_trigger={}", static_cast<double>(dice.between(4, 20)) / 4);
  parameters += fmt::format(",window={}", dice.one_of({1, 2, 3, 4, 16, 1000}));
  config.non_finite = dice.one_of({NonFinite::error, NonFinite::skip, NonFinite::propagate});
  const bool automatic = config.algorithm.starts_with("auto");
  const bool any_schedule = threshold.at_most_k() && config.wire_values == WireValues::native && config.memory == MemorySpace::host;
  if (!automatic && has_schedules(config.algorithm) && any_schedule && dice.chance(70)) {
    plan.schedule = dice.one_of({ExchangeSchedule::direct, ExchangeSchedule::phased, ExchangeSchedule::one_round});
    plan.radix = dice.one_of({0, 2, 4, 8});
    parameters += "," + by_schedule(plan.schedule, plan.radix);
  }
  config.algorithm_parameters = parameters_for(config.algorithm, parameters);
  if (dice.chance(15)) config.dense_iterations = dice.between(1, 3);
  if (dice.chance(15)) config.warmup_iterations = dice.between(1, 4);
  plan.input = dice.one_of(all_inputs());
  plan.first_iteration = dice.small(0, 20);
  plan.runs = some_runs(dice, plan, ranks);
  return plan;
}

JobCase make_job(std::uint64_t seed) {
  Dice dice(seed);
  JobCase job;
  job.ranks = dice.small(1, 9);
  job.machine = some_machine(dice, job.ranks);
  if (!job.machine.empty() && dice.chance(50)) job.places = dice.order(static_cast<std::size_t>(job.ranks));
  job.delays = dice.chance(70) ? dice.word() : 0;
  job.shared_memory = dice.chance(60);
  const bool equal = dice.chance(92);  // otherwise runs delay each other by milliseconds
  job.clash = !equal && dice.chance(50);
  job.generations.resize(static_cast<std::size_t>(dice.between(1, 2)));
  for (std::vector<PlanCase>& plans : job.generations) {
    const std::int64_t count = dice.between(1, 4);
    while (static_cast<std::int64_t>(plans.size()) < count) {
      plans.push_back(make_plan_case(dice, job.ranks));
      if (!equal) plans.back().config.priority = dice.small(-3, 3);
      plans.back().config.name = fmt::format("plan{}", plans.size() - 1);
    }
  }
  const int disturbed_rank = dice.chance(30) ? dice.small(0, job.ranks - 1) : -1;
  for (std::vector<PlanCase>& plans : job.generations) {
    for (PlanCase& plan : plans) plan.disturbed_rank = disturbed_rank;
  }
  if (dice.chance(15)) {
    for (const std::size_t rank : dice.order(static_cast<std::size_t>(job.ranks))) job.members.push_back(static_cast<int>(rank));
  }
  return job;
}

std::string PlanCase::text() const {
  const AllreduceConfig& c = config;
  std::string line = fmt::format(
      "{}: {} ({}) of {} (seed {}) {} priority {} n {} k {} density {} trials {} feedback {} average {} threshold {} ({}) "
      "wire {} {} non-finite {} dense {} warm-up {} input {} from {}, disturbed rank {}; runs:",
      c.name, c.algorithm, c.algorithm_parameters, c.compressor.empty() ? "its default" : c.compressor, c.seed,
      c.type == DataType::float64 ? "float64" : "float32", c.priority, c.count, c.k, c.density, c.trial_iterations,
      static_cast<int>(c.error_feedback), c.average, c.threshold, c.threshold_parameters, static_cast<int>(c.wire_format),
      static_cast<int>(c.wire_values), static_cast<int>(c.non_finite), c.dense_iterations, c.warmup_iterations, input_name(input),
      first_iteration, disturbed_rank);
  constexpr std::array troubles = {"", " poisoned", " wrong count", " wrong type", " null"};
  for (const RunCase& run : runs) {
    line += fmt::format(" [{}{}{}", run.reset_before ? "reset, " : "", run.in_place ? "in place" : "sparse",
                        troubles[static_cast<std::size_t>(run.trouble)]);
    if (run.trouble == Trouble::poison) line += fmt::format(" {} at {}, {} NaN besides", run.poison, run.bad_element, run.nans);
    line += run.trouble == Trouble::none ? "]" : fmt::format(" on rank {}]", run.bad_rank);
  }
  return line;
}

std::string JobCase::text() const {
  std::string lines = fmt::format("{} ranks on '{}' at [{}], subgroup [{}], delays {}, shared memory {}, clash {}\n", ranks,
                                  machine, fmt::join(places, " "), fmt::join(members, " "), delays, shared_memory, clash);
  for (const std::vector<PlanCase>& plans : generations) {
    for (const PlanCase& plan : plans) lines += plan.text() + '\n';
  }
  return lines;
}

}  // namespace weir::test
