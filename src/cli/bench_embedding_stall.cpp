// Measures how long training waits for communication (EmbRace section 5.4), with and without scheduling. Steps have one table and
// one dense block, and their computing is sleep.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <weir/schedule.hpp>

#include "base/json.hpp"
#include "cli/bench_embedding.hpp"
#include "cli/bench_input.hpp"
#include "cli/bench_ranks.hpp"
#include "cli/report.hpp"

namespace weir::cli {
namespace {

// Upper bound of the scheduled training's stall, as a share of the stall without scheduling.
constexpr double stall_bound = 0.7;

struct Scheme {
  std::string_view name;
  bool priorities, prefetch;
};
constexpr std::array schemes = {Scheme{"fifo", false, false}, Scheme{"horizontal", true, false}, Scheme{"2d", true, true}};

/// Milliseconds of one step that are not computing.
struct Stall {
  double total = 0, lookup = 0, block = 0, update = 0, progress = 0;
};

EmbeddingConfig table_config(EmbeddingConfig config, const Scheme& scheme) {
  if (!scheme.priorities) config.priority = config.delayed_priority = 0;
  return config;
}

/// The training of one rank.
class Training {
 public:
  Training(const Communicator& comm, const EmbeddingOptions& options, const EmbeddingInput& input, const Scheme& scheme,
           double compute_ms)
      : input_(input),
        scheme_(scheme),
        compute_ms_(compute_ms),
        table_(comm, table_config(options.config, scheme)),
        vectors_(input.gradients.size()) {
    if (options.dense_count == 0) return;
    block_.emplace(comm, AllreduceConfig{.count = options.dense_count,
                                         .algorithm = "dense_ring",
                                         .priority = scheme.priorities ? schedule_.priority("dense") : 0});
    block_gradient_ = std::move(make_gradients(options.dense_count, comm.rank(), 1)[0]);
  }
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  Stall step(int t) {
    stall_ = {};
    slept_ = 0;
    stall_.total = milliseconds_of([&] {
      stall_.lookup = milliseconds_of([&] { lookup(t); });
      forward();
      backward();
      stall_.update = milliseconds_of([&] { update(); });
    });
    stall_.total -= slept_;
    return stall_;
  }
  void finish() {
    schedule_.wait_all();
    if (updating_) updating_->wait();
  }

 private:
  template <class Body>
  static double milliseconds_of(Body body) {
    const double begin = MPI_Wtime();
    body();
    return (MPI_Wtime() - begin) * 1e3;
  }

  void lookup(int t) {
    table_.lookup(input_.ids(t), vectors_).wait();
    // As early as allowed: ids then travel while this rank computes, and the update does not wait for them.
    if (scheme_.prefetch) table_.prefetch(input_.ids(t + 1));
  }

  void forward() {
    compute(compute_ms_ / 2);
    stall_.block = milliseconds_of([&] { schedule_.wait("dense"); });
    compute(compute_ms_ / 2);
  }

  void backward() {
    compute(compute_ms_ / 2);
    if (block_) schedule_.started("dense", block_->start(block_gradient_));
    compute(compute_ms_ / 2);
  }

  void update() {
    updating_ = table_.update(input_.gradients);
    if (!scheme_.priorities) updating_->wait();
  }

  /// Sleeps for `ms` in total, and makes progress in between. Only the sleep counts as computing.
  void compute(double ms) {
    for (double left = ms; left > 0;) {
      const double slept =
          milliseconds_of([&] { std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(std::min(left, 1.0))); });
      slept_ += slept;
      left -= slept;
      stall_.progress += milliseconds_of([&] { make_progress(); });
    }
  }

  void make_progress() {
    schedule_.test("dense");
    if (updating_) updating_->test();
  }

  const EmbeddingInput& input_;
  const Scheme& scheme_;
  double compute_ms_;
  StepSchedule schedule_{{"dense"}};
  EmbeddingTable table_;
  std::vector<float> vectors_;
  std::optional<AllreducePlan> block_;
  std::vector<float> block_gradient_;
  std::optional<Operation> updating_;
  Stall stall_;
  double slept_ = 0;
};

/// Returns the median over steps of the slowest rank's time.
double median_of_slowest(const std::vector<Stall>& stalls, double Stall::*part) {
  std::vector<double> values;
  for (const Stall& stall : stalls) values.push_back(stall.*part);
  over_ranks(values, MPI_MAX);
  return median(values);
}

StallResult measure(const Communicator& comm, const EmbeddingOptions& options, const EmbeddingInput& input, const Scheme& scheme,
                    double compute_ms) {
  Training training(comm, options, input, scheme, compute_ms);
  std::vector<Stall> stalls;
  Progress progress(comm.rank() == 0, fmt::format("training, {}", scheme.name), options.warmup + options.iterations);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int t = 0; t < options.warmup + options.iterations; ++t) {
    const Stall stall = training.step(t);
    if (t >= options.warmup) stalls.push_back(stall);
    progress.at(t + 1);
  }
  training.finish();
  return {scheme.name,
          median_of_slowest(stalls, &Stall::total),
          median_of_slowest(stalls, &Stall::lookup),
          median_of_slowest(stalls, &Stall::block),
          median_of_slowest(stalls, &Stall::update),
          median_of_slowest(stalls, &Stall::progress)};
}

/// Returns the ratio of the scheduled training's stall to this one's.
double scheduled_ratio(const StallResult& unscheduled, const std::vector<StallResult>& all) {
  return all.back().stall_ms / unscheduled.stall_ms;
}

}  // namespace

std::vector<StallResult> measure_stalls(const Communicator& comm, const EmbeddingOptions& options, const EmbeddingInput& input,
                                        double compute_ms) {
  std::vector<StallResult> results;
  for (const Scheme& scheme : schemes) results.push_back(measure(comm, options, input, scheme, compute_ms));
  return results;
}

void print_stalls(const std::vector<StallResult>& results, double compute_ms, std::int64_t dense_count) {
  fmt::print("\nStall of a training step with {:.3f} ms of computing forward, the same backward, and a dense block of {} floats\n",
             compute_ms, dense_count);
  fmt::print("{:<12} {:>10} {:>10} {:>10} {:>10} {:>12} {:>12}\n", "scheme", "stall ms", "lookup ms", "block ms", "update ms",
             "progress ms", "2d / this");
  for (const StallResult& r : results) {
    fmt::print("{:<12} {:>10.3f} {:>10.3f} {:>10.3f} {:>10.3f} {:>12.3f} {:>12.3f}\n", r.scheme, r.stall_ms, r.lookup_ms,
               r.block_ms, r.update_ms, r.progress_ms, scheduled_ratio(r, results));
  }
  fmt::print("bound for 4 nodes of one rank at 1 Gbit/s: the stall of 2d is at most {} of that of any other scheme\n", stall_bound);
}

JsonValue to_json(const StallResult& r, const std::vector<StallResult>& all, double compute_ms) {
  return {{"benchmark", "embedding_stall"},
          {"scheme", r.scheme},
          {"compute_ms", compute_ms},
          {"median_ms", r.stall_ms},
          {"lookup_ms", r.lookup_ms},
          {"block_ms", r.block_ms},
          {"update_ms", r.update_ms},
          {"progress_ms", r.progress_ms},
          {"scheduled_ratio", scheduled_ratio(r, all)},
          {"bound", stall_bound}};
}

}  // namespace weir::cli
