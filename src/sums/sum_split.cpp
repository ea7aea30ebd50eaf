#include <algorithm>
#include <array>

#include "collectives/control.hpp"
#include "sums/region_sum.hpp"

namespace weir::sums {
namespace {

/// Returns whether no region can have many more entries than its share. Ranges, or single indices with many terms, may have any
/// number, and samples on many ranks stand for many entries together.
bool has_small_regions(const SumProblem& problem) { return !problem.scatters && !problem.keeps_terms && problem.ranks <= 16; }

/// Returns the most entries of a region that balance() cuts: its share, what three samples of each rank stand for, and rounding.
std::int64_t most_of_region(const SumProblem& problem) {
  return std::min(problem.total, problem.total / problem.ranks + 3 * (problem.total / samples_of_rank) + 5 * problem.ranks);
}

/// Cuts the indices into a region for each rank, sums each region at its rank, and gathers the sums. Regions are cut where regular
/// samples of the ranks' indices have equal shares of all entries (Shi and Schaeffer 1992), so that clustered indices balance. Each
/// rank sends at most the messages of its own entries, and those of the sum's.
template <class T>
struct SplitSum {
  static task<Entries<T>> run(Channel channel, SumRun<T>& run) {
    Regions<T> regions(run, channel.rank());
    RegionSum<T, Regions<T>> sums(channel, run, regions);
    {
      const StageScope stage = channel.stage(Stage::average_boundaries);
      co_await set_boundaries(channel, run);
    }
    co_return co_await sums.sum(!has_small_regions(run.problem));
  }

 private:
  static task<void> set_boundaries(Channel channel, SumRun<T>& run) {
    SumMemory<T>& memory = run.memory;
    if (run.problem.scatters) {
      uniform_boundaries(static_cast<std::uint64_t>(run.problem.count), memory.boundaries);
      co_return;
    }
    std::array<std::int64_t, samples_of_rank> mine{};
    // Each rank has its own place in what a sample stands for: equal lists would cut at 64 places only.
    const double place = (channel.rank() + 0.5) / channel.size();
    for (std::int64_t i = 0; i < samples_of_rank; ++i) {
      const std::int64_t begin = sample_begin(run.own.count, i), entries = sample_begin(run.own.count, i + 1) - begin;
      if (entries > 0)
        mine[static_cast<std::size_t>(i)] =
            run.own.indices[begin + static_cast<std::int64_t>(place * static_cast<double>(entries))];
    }
    co_await allgather_control(channel, reinterpret_cast<const std::byte*>(mine.data()), samples_of_rank * 8,
                               reinterpret_cast<std::byte*>(memory.samples.data()),
                               reinterpret_cast<std::byte*>(memory.samples_scratch.data()));
    balance(run);
  }

  /// Returns where the entries begin for which sample `i` stands.
  static std::int64_t sample_begin(std::int64_t count, std::int64_t i) {
    return count / samples_of_rank * i + count % samples_of_rank * i / samples_of_rank;
  }

  /// Sets boundaries from the samples: all ranks get the same.
  static void balance(SumRun<T>& run) {
    SumMemory<T>& memory = run.memory;
    const std::int64_t ranks = run.problem.ranks;
    std::size_t used = 0;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const std::int64_t count = run.counts[static_cast<std::size_t>(rank)];
      for (std::int64_t i = 0; i < samples_of_rank; ++i) {
        const std::int64_t weight = sample_begin(count, i + 1) - sample_begin(count, i);
        if (weight > 0) memory.weighted[used++] = {memory.samples[static_cast<std::size_t>(rank * samples_of_rank + i)], weight};
      }
    }
    std::sort(memory.weighted.begin(), memory.weighted.begin() + static_cast<std::ptrdiff_t>(used));
    memory.boundaries.front() = 0;
    memory.boundaries.back() = static_cast<std::uint64_t>(run.problem.count);
    std::int64_t weight = 0;
    std::size_t next = 0;
    for (std::int64_t cut = 1; cut < ranks; ++cut) {
      const std::int64_t share = run.problem.total / ranks * cut + run.problem.total % ranks * cut / ranks;
      while (next < used && weight + memory.weighted[next].second <= share) weight += memory.weighted[next++].second;
      memory.boundaries[static_cast<std::size_t>(cut)] =
          next < used ? static_cast<std::uint64_t>(memory.weighted[next].first) : memory.boundaries.back();
    }
  }
};

SumNeed need_of_split(const SumProblem& problem) {
  return Regions<double>::need(problem, has_small_regions(problem) ? most_of_region(problem) : usual_part(problem));
}

model::StepCost cost_of_split(const model::Setting& setting, const SumProblem& problem) {
  model::StepCost cost;
  if (!problem.scatters) {  // all ranks sort all samples
    const int samples = problem.ranks * samples_of_rank;
    cost += setting.network.allgather(setting.all, 8.0 * samples_of_rank);
    cost.seconds += 1.0 * samples * steps_of(samples) / rates_of_sums(setting.machine).merge;
  }
  cost += owners_cost(setting, problem, !has_small_regions(problem));
  return cost;
}

}  // namespace

extern const SumRow split_sum_row{.name = "split",
                                  .description = "sums balanced regions at one rank each, and gathers the sums",
                                  .cost = cost_of_split,
                                  .need = need_of_split,
                                  .keeps_terms = true,
                                  .run = sum_functions<SplitSum>};

}  // namespace weir::sums
