// Part plans: whole plans on virtual ranks that share the GPU, by stages.
#include <fmt/format.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <exception>
#include <thread>

#include "bench/inputs.hpp"
#include "bench/run.hpp"
#include "communicator/communicator.hpp"
#include "cuda/runtime.hpp"
#include "support/gpu_copier.hpp"

namespace weir::bench {
namespace {

constexpr double most_exchange = 0.4;  // of the time of a run

/// When a rank finished its selection, its exchange and the run, in milliseconds since the common start.
struct Stages {
  double selected, exchanged, ended;
};

/// The measurements of one rank.
struct Outcome {
  std::vector<Stages> stages;  // by iteration
  std::exception_ptr error;
};

/// Runs iterations, which all ranks begin together. The first few, in which thresholds settle, do not count.
std::vector<Stages> iterate(const Run& run, const AllreduceConfig& config, std::unique_ptr<Transport> transport,
                            std::barrier<>& together) {
  constexpr int warmup = 5;
  const int rank = transport->rank();
  const Communicator comm(detail::make_communicator(std::move(transport), Location{}, Settings{.timeout_seconds = 60}));
  AllreducePlan plan(comm, config);
  const cuda::Stream stream;
  const cuda::DeviceArray<float> original(config.count), gradient(config.count);
  fill_random(stream.get(), original.data(), config.count, 1, static_cast<std::uint64_t>(rank + 1) << 40);
  std::vector<Stages> stages;
  for (int t = -warmup; t < run.options.repeats; ++t) {
    cuda::copy(gradient.data(), original.data(), original.bytes(), stream.get());
    cuda::synchronize(stream.get());
    together.arrive_and_wait();
    const auto begin = std::chrono::steady_clock::now();
    plan.run(gradient.data(), stream.get());
    cuda::synchronize(stream.get());
    const std::chrono::duration<double, std::milli> total = std::chrono::steady_clock::now() - begin;
    const Statistics& s = plan.statistics();
    const double selected = s.seconds_select * 1e3;
    if (t >= 0) stages.push_back({selected, selected + (s.seconds_in_node + s.seconds_exchange) * 1e3, total.count()});
  }
  return stages;
}

std::vector<Outcome> run_ranks(const Run& run, const AllreduceConfig& config, bool direct) {
  std::function<std::unique_ptr<InprocCopier>()> make_copier;
  if (direct) make_copier = [] { return std::make_unique<test::GpuCopier>(); };
  InprocJob job(run.options.ranks, 0, {}, make_copier);
  std::barrier together(run.options.ranks);
  std::vector<Outcome> outcomes(static_cast<std::size_t>(run.options.ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < run.options.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      Outcome& mine = outcomes[static_cast<std::size_t>(rank)];
      try {
        mine.stages = iterate(run, config, job.transport(rank), together);
      } catch (...) {
        mine.error = std::current_exception();
        together.arrive_and_drop();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Outcome& outcome : outcomes) {
    if (outcome.error) std::rethrow_exception(outcome.error);
  }
  return outcomes;
}

/// Returns the median over iterations of the last rank's time of a stage. The ranks share the GPU, and the first one to finish its
/// selection waits for the others, so the last rank decides when a stage ends.
double last(const std::vector<Outcome>& ranks, double Stages::*stage) {
  std::vector<double> list(ranks[0].stages.size());
  for (const Outcome& rank : ranks) {
    for (std::size_t t = 0; t < list.size(); ++t) list[t] = std::max(list[t], rank.stages[t].*stage);
  }
  return median(std::move(list));
}

/// Measures a plan. With `direct`, messages are copied on the GPU, as with a CUDA-aware MPI; otherwise through pinned memory.
void measure_plan(Run& run, const AllreduceConfig& config, bool direct) {
  const std::vector<Outcome> ranks = run_ranks(run, config, direct);
  const double select = last(ranks, &Stages::selected), exchange = last(ranks, &Stages::exchanged) - select,
               total = last(ranks, &Stages::ended), share = exchange / total;
  const bool met = share <= most_exchange;
  fmt::print("{:<18} {:<8} {:>10} {:>8} {:>10.3f} {:>10.3f} {:>10.3f} {:>10.3f} {:>8.2f}  bound {:.2f} {}\n", config.algorithm,
             direct ? "direct" : "staged", config.count, config.density, select, exchange, std::max(0.0, total - select - exchange),
             total, share, most_exchange, verdict_of(met));
  run.report.add({{"benchmark", "plan"},
                  {"name", config.algorithm},
                  {"messages", direct ? "direct" : "staged"},
                  {"ranks", run.options.ranks},
                  {"count", config.count},
                  {"density", config.density},
                  {"select_ms", select},
                  {"exchange_ms", exchange},
                  {"total_ms", total},
                  {"exchange_share", share},
                  {"bound", most_exchange}},
                 &met);
}

std::vector<std::string> wanted(const Options& options) {
  if (!options.algorithms.empty()) return options.algorithms;
  std::vector<std::string> names;
  for (const AlgorithmInfo& algorithm : algorithms()) {
    if (algorithm.sparse) names.emplace_back(algorithm.name);
  }
  return names;
}

}  // namespace

void measure_plans(Run& run) {
  const std::int64_t count = std::int64_t{1} << std::min(run.options.plan_log, run.options.largest_log);
  fmt::print(
      "\nplans: {} virtual ranks on this GPU, dense result in place; milliseconds, each stage from when the last rank came to it\n",
      run.options.ranks);
  fmt::print("{:<18} {:<8} {:>10} {:>8} {:>10} {:>10} {:>10} {:>10} {:>8}\n", "algorithm", "messages", "count", "density", "select",
             "exchange", "rest", "total", "exchange");
  for (const std::string& algorithm : wanted(run.options)) {
    AllreduceConfig config;
    config.count = count;
    config.algorithm = algorithm;
    config.memory = MemorySpace::cuda;
    config.density = 0.01;
    // The gradient, its original, and the residual. The selection is small compared with them.
    if (const auto reason = run.why_not(run.options.ranks * 4 * count * 4)) {
      run.report.skip("plan " + algorithm, count, 0, *reason);
      continue;
    }
    try {
      for (const bool direct : {true, false}) measure_plan(run, config, direct);
    } catch (const Error& error) {
      run.report.skip("plan " + algorithm, count, 0, error.what());
    }
  }
}

}  // namespace weir::bench
