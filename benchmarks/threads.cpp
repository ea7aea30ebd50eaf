// weir-benchmarks threads: measures the work of plans and tables in host memory on one thread and on several, against a plain pass
// over the same arrays, and the time that it takes to wake threads.
#include "base/threads.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "benchmarks/benchmarks.hpp"
#include "cli/bench_input.hpp"
#include "cli/embedding_batches.hpp"
#include "cli/report.hpp"
#include "codec/coo.hpp"
#include "codec/wire.hpp"
#include "collectives/shared_work.hpp"
#include "contribution/contribution.hpp"
#include "embedding/row_groups.hpp"
#include "embedding/row_space.hpp"
#include "topology/topology.hpp"

namespace weir::cli {
namespace {

struct Options {
  std::int64_t count = 16777216;
  double density = 0.01;
  int threads = 0;
  int iterations = 20;
  std::string json;
};

enum Loop { stream, zeros, select, settle, apply, merge, encode, decode, gather, coalesce, loops };
constexpr const char* loop_names[loops] = {"r[i] += g[i]", "x[i] = 0", "select", "settle",      "apply",
                                           "merge",        "encode",   "decode", "gather rows", "sum rows"};

/// A table with as many elements as a plan's gradient, and a batch with as many ids as rows, on several threads.
class Table {
 public:
  Table(std::int64_t count, const Threads& threads)
      : rows_(std::max<std::int64_t>(1, count / width)),
        space_(embedding::make_host_rows(width, threads)),
        table_(space_->take_rows(rows_ * width)),
        vectors_(space_->take_rows(rows_ * width)),
        sums_(space_->take_rows(rows_ * width)),
        groups_(rows_, static_cast<std::uint64_t>(rows_)) {
    space_->fill_zero(table_, rows_ * width);
    space_->fill_zero(sums_, rows_ * width);
    ZipfIds zipf(rows_);
    for (std::int64_t i = 0; i < rows_; ++i) ids_.push_back(zipf.next());
    groups_.build(ids_);
  }

  void measure(double* ms) {
    ms[gather] = milliseconds_of([&] { space_->gather(table_, ids_.data(), rows_, width, vectors_, width); });
    ms[coalesce] = milliseconds_of([&] {
      space_->coalesce(vectors_, width, {groups_.keys(), groups_.first(), groups_.order(), groups_.count()}, sums_);
    });
  }

 private:
  static constexpr std::int64_t width = 512;

  std::int64_t rows_;
  std::unique_ptr<embedding::RowSpace> space_;
  float *table_, *vectors_, *sums_;
  std::vector<std::uint32_t> ids_;
  embedding::RowGroups groups_;
};

/// The arrays of one rank of a plan, on several threads.
class Rank {
 public:
  using Entries = HostArrays<float>::Entries;

  Rank(std::int64_t count, std::int64_t k, const Threads& threads)
      : count_(count),
        k_(k),
        memory_({}, nullptr, count, 0, threads),
        selector_({.selection = {.count = count, .largest_k = k}, .feedback = {}, .keeps_residual = false, .wire = {}}, memory_),
        merge_(threads, 2 * k),
        threads_(threads),
        residual_(count),
        result_(count),
        sum_(2 * k),
        arrived_(k),
        message_(coo::block_bytes<float>(k)),
        rows_(count, threads) {
    memory_.fill_zero(residual_.data(), count);
    memory_.fill_zero(result_.data(), count);
  }

  /// Measures each loop in ms, by number. `other` is another rank's selection.
  void measure(const float* gradient, const float* unrelated, const Entries& other, std::int64_t other_count, double* ms) {
    const FramePool::Scope scope(frames_);
    ms[select] = milliseconds_of([&] { static_cast<void>(run_here(selector_.select_from(gradient, residual_.data(), k_, true))); });
    const SparseVector<float> mine = selector_.selection();
    ms[settle] = milliseconds_of([&] { selector_.settle_in(residual_.data(), mine); });
    ms[apply] = milliseconds_of([&] { memory_.densify(result_.data(), count_, mine); });
    const auto segment = [](const SparseVector<float>& entries) {
      return coo::Segment<float>{const_cast<float*>(entries.values), const_cast<std::uint32_t*>(entries.indices), entries.count};
    };
    const SparseVector<float> theirs = other.first(other_count);
    ms[merge] = milliseconds_of([&] {
      static_cast<void>(merge_.merge_add(segment(mine), segment(theirs), {sum_.values.data(), sum_.indices.data(), 0}));
    });
    const auto range = static_cast<std::uint64_t>(count_);
    std::int64_t bytes = 0;
    ms[encode] = milliseconds_of(
        [&] { bytes = wire::encode({}, mine.indices, mine.values, mine.count, 0, range, message_.data(), threads_); });
    ms[decode] = milliseconds_of([&] {
      wire::decode({}, message_.data(), bytes, mine.count, 0, range, arrived_.indices.data(), arrived_.values.data(), threads_);
    });
    ms[zeros] = milliseconds_of([&] { memory_.fill_zero(result_.data(), count_); });
    ms[stream] = milliseconds_of([&] { memory_.add(unrelated, result_.data(), count_); });
    rows_.measure(ms);
  }

 private:
  std::int64_t count_, k_;
  FramePool frames_;
  HostArrays<float> memory_;
  Contribution<HostArrays<float>> selector_;
  SharedMerge<float> merge_;
  Threads threads_;
  Buffer<float> residual_, result_;
  Entries sum_, arrived_;
  Buffer<std::byte> message_;
  Table rows_;
};

/// Returns the microseconds in which parked workers share an empty loop.
double waking(const Threads& threads) {
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return 1000 * milliseconds_of([&] { threads.run(threads.count(), [](int) {}); });
}

void run(Options options) {
  require_writable(options.json);
  if (options.threads == 0) options.threads = std::max(1, locate().cores.count());
  const std::int64_t k = std::max<std::int64_t>(1, std::llround(options.density * static_cast<double>(options.count)));
  const Gradients gradients = make_gradients(options.count, 0, 4), others = make_gradients(options.count, 1, 1);
  HostArrays<float> memory({}, nullptr, options.count, 0);
  const Key<float> floor = kernels::host::kth_key(others[0].data(), options.count, k).key;
  Rank::Entries other(k);
  memory.select(others[0].data(), options.count, floor, other, k);
  const std::int64_t other_count = std::min(k, memory.results().found.hits);

  const Threads threads(options.threads, processors_by_core());
  Rank one(options.count, k, Threads()), several(options.count, k, threads);
  std::array<std::vector<double>, loops> one_times, several_times;
  std::vector<double> woken;
  constexpr int warm = 3;
  for (int t = 0; t < options.iterations + warm; ++t) {
    const float* gradient = gradients[static_cast<std::size_t>(t) % gradients.size()].data();
    const float* unrelated = gradients[static_cast<std::size_t>(t + 2) % gradients.size()].data();  // cold in the caches
    double of_one[loops], of_several[loops];
    one.measure(gradient, unrelated, other, other_count, of_one);
    several.measure(gradient, unrelated, other, other_count, of_several);
    if (const double us = waking(threads); t >= warm) woken.push_back(us);
    for (std::size_t loop = 0; t >= warm && loop < loops; ++loop) {
      one_times[loop].push_back(of_one[loop]);
      several_times[loop].push_back(of_several[loop]);
    }
  }
  const auto speedup = [&](std::size_t loop) { return median(one_times[loop]) / median(several_times[loop]); };
  Rows rows;
  for (std::size_t loop = 0; loop < loops; ++loop)
    rows.push_back({{"benchmark", "threads"},
                    {"loop", loop_names[loop]},
                    {"count", options.count},
                    {"density", options.density},
                    {"threads", options.threads},
                    {"one_thread_ms", median(one_times[loop])},
                    {"median_ms", median(several_times[loop])},
                    {"speedup", speedup(loop)},
                    {"baseline", loop_names[stream]},
                    {"baseline_speedup", speedup(stream)}});
  fmt::print("{} elements, density {:.4g}, {}\n", options.count, options.density, threads_version());
  print_table(rows, "{loop:<14} {one_thread_ms:>14.3f} {median_ms:>14.3f} {speedup:>9.2f} {baseline_speedup:>16.2f}",
              {"loop", "1 thread, ms", fmt::format("{} threads, ms", options.threads), "speedup", "of r[i] += g[i]"});
  if (options.threads > 1) {
    fmt::print("waking {} of {} threads: {:.1f} us\n", options.threads - 1, options.threads, median(woken));
    rows.push_back({{"benchmark", "waking"}, {"threads", options.threads}, {"median_us", median(woken)}});
  }
  write_rows(rows, options.json);
}

}  // namespace

void add_threads(Command& benchmarks) {
  auto [command, options] = benchmarks.add(
      "threads", "Measure the loops of plans and tables on one thread and on several, and how long threads take to wake", run);
  command.option("--count", options.count, "elements of the gradient").positive();
  command.option("--density", options.density, "share of entries to select and merge").between(1e-9, 1.0);
  command.option("--threads", options.threads, "threads of the loops; 0: one for each core that the command may use")
      .between(0, 1024);
  command.option("--iterations", options.iterations, "measured iterations").positive();
  command.option("--json", options.json, "also write the rows to this file");
  command.footer(
      "The loops are selection, settling, the dense result, merging, encoding and decoding of messages, and gathering and summing "
      "of rows. The reference is one pass r[i] += g[i].");
}

}  // namespace weir::cli
