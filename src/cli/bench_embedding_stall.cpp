// Measures how long training waits for communication (EmbRace section 5.4), with and without scheduling. Steps have one table and
// one dense block, and their computing is sleep.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <weir/schedule.hpp>

#include "cli/bench_embedding.hpp"
#include "cli/bench_input.hpp"
#include "cli/bench_ranks.hpp"

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

/// Returns a row without its ratio.
JsonValue measure(const Communicator& comm, const EmbeddingOptions& options, const EmbeddingInput& input, const Scheme& scheme,
                  double compute_ms) {
  Training training(comm, options, input, scheme, compute_ms);
  Samples samples;
  Progress progress(comm.rank() == 0, fmt::format("training, {}", scheme.name), options.warmup + options.iterations);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int t = 0; t < options.warmup + options.iterations; ++t) {
    const Stall stall = training.step(t);
    progress.at(t + 1);
    if (t < options.warmup) continue;
    samples["total"].push_back(stall.total);
    samples["lookup"].push_back(stall.lookup);
    samples["block"].push_back(stall.block);
    samples["update"].push_back(stall.update);
    samples["progress"].push_back(stall.progress);
  }
  training.finish();
  over_ranks(samples, MPI_MAX);
  return {{"benchmark", "embedding_stall"},
          {"scheme", scheme.name},
          {"compute_ms", compute_ms},
          {"median_ms", median(samples["total"])},
          {"lookup_ms", median(samples["lookup"])},       // waits
          {"block_ms", median(samples["block"])},         // waits
          {"update_ms", median(samples["update"])},       // calls
          {"progress_ms", median(samples["progress"])}};  // Operation::test between computing
}

}  // namespace

Rows measure_stalls(const Communicator& comm, const EmbeddingOptions& options, const EmbeddingInput& input, double compute_ms) {
  Rows rows;
  for (const Scheme& scheme : schemes) rows.push_back(measure(comm, options, input, scheme, compute_ms));
  const double scheduled = rows.back().view().at("median_ms").number();
  for (JsonValue& row : rows) {
    row.set("scheduled_ratio", scheduled / row.view().at("median_ms").number());
    row.set("bound", stall_bound);
  }
  return rows;
}

void print_stalls(const Rows& rows, double compute_ms, std::int64_t dense_count) {
  fmt::print("\nStall of a training step with {:.3f} ms of computing forward, the same backward, and a dense block of {} floats\n",
             compute_ms, dense_count);
  print_table(rows,
              "{scheme:<12} {median_ms:>10.3f} {lookup_ms:>10.3f} {block_ms:>10.3f} {update_ms:>10.3f} {progress_ms:>12.3f} "
              "{scheduled_ratio:>12.3f}",
              {"scheme", "stall ms", "lookup ms", "block ms", "update ms", "progress ms", "2d / this"});
  fmt::print("bound for 4 nodes of one rank at 1 Gbit/s: the stall of 2d is at most {} of that of any other scheme\n", stall_bound);
}

}  // namespace weir::cli
