#include <algorithm>
#include <array>
#include <numeric>

#include "collectives/allgatherv.hpp"
#include "collectives/control.hpp"
#include "sums/entry_code.hpp"
#include "sums/sum_row.hpp"

namespace weir::sums {
namespace {

constexpr int split_window = 8;  // exchanges in flight

/// Returns the most entries of a region that balance() cuts: its share, one sample of each rank at either end, and rounding. An
/// index with many terms may exceed it.
std::int64_t most_of_region(const SumProblem& problem) {
  const std::int64_t samples = samples_of_rank(problem.ranks);
  return std::min(problem.total, problem.total / problem.ranks + 2 * (problem.total / samples) + 4 * problem.ranks);
}

SumNeed need_for_region(const SumProblem& problem, std::int64_t region) {
  const std::int64_t result = problem.scatters ? 0 : problem.most_entries();
  return {{region, region, result},
          {std::max(problem.message_bytes(problem.largest, problem.ranks), problem.message_bytes(result, problem.ranks)),
           problem.message_bytes(region, problem.ranks)}};
}

/// Cuts the indices into a region for each rank, sums each region at its rank, and gathers the sums. Regions are cut where regular
/// samples of the ranks' indices have equal shares of all entries (Shi and Schaeffer 1992), so that clustered indices balance. Each
/// rank sends at most the messages of its own entries, and those of the sum's.
template <class T>
struct SplitSum {
  static task<Entries<T>> run(Channel channel, SumRun<T>& run) {
    const int me = channel.rank(), ranks = channel.size();
    SumMemory<T>& memory = run.memory;
    const auto at = [](int i) { return static_cast<std::size_t>(i); };

    // 1. regions
    StageScope stage = channel.stage(Stage::average_boundaries);
    if (run.problem.scatters) {
      uniform_boundaries(static_cast<std::uint64_t>(run.problem.count), memory.boundaries);
    } else {
      const std::int64_t samples = samples_of_rank(ranks);
      std::array<std::int64_t, 256> mine{};
      for (std::int64_t i = 0; i < samples; ++i) {
        const std::int64_t place = sample_begin(run.own.count, i, samples);
        if (place < run.own.count) mine[static_cast<std::size_t>(i)] = run.own.indices[place];
      }
      co_await allgather_control(channel, reinterpret_cast<const std::byte*>(mine.data()), samples * 8,
                                 reinterpret_cast<std::byte*>(memory.samples.data()),
                                 reinterpret_cast<std::byte*>(memory.samples_scratch.data()));
      balance(run);
    }

    // 2. how many entries each rank has for each region
    stage.next(Stage::announce);
    std::int64_t before = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::int64_t end = run.own.lower_bound(boundary(memory, rank + 1));
      memory.counts_out[at(rank)] = end - before;
      before = end;
    }
    memory.counts_in[at(me)] = memory.counts_out[at(me)];
    for (int s = 1; s < ranks; ++s) {
      const int to = (me + s) % ranks, from = (me - s + ranks) % ranks;
      memory.requests[at(2 * s)] = channel.receive(&memory.counts_in[at(from)], 8, from, Traffic::control);
      memory.requests[at(2 * s + 1)] = channel.send(&memory.counts_out[at(to)], 8, to, Traffic::control);
    }
    co_await channel.done(std::span(memory.requests).subspan(2));
    if (run.problem.scatters || run.problem.keeps_terms) {  // ranges or single indices may have any number of entries
      memory.largest_region =
          static_cast<std::uint64_t>(std::accumulate(memory.counts_in.begin(), memory.counts_in.end(), std::int64_t{0}));
      co_await allreduce_control(channel, &memory.largest_region, 1, 1, &memory.control_scratch);
      co_await run.growth.grow(need_for_region(run.problem, static_cast<std::int64_t>(memory.largest_region)));
    }

    // 3. exchange and sum
    stage.next(Stage::split_reduce);
    co_await exchange(channel, run);
    const Entries<T> mine = sum_own_region(run, me);
    if (run.problem.scatters) co_return mine;

    // 4. gather
    stage.next(Stage::global_sizes);
    memory.counts_out[0] = mine.count;
    co_await allgather_control(channel, reinterpret_cast<const std::byte*>(memory.counts_out.data()), 8,
                               reinterpret_cast<std::byte*>(memory.gathered.data()),
                               reinterpret_cast<std::byte*>(memory.gathered_scratch.data()));
    stage.next(Stage::allgatherv);
    memory.offset[0] = 0;
    for (int i = 0; i < ranks; ++i) {
      const int rank = (me + i) % ranks;
      memory.offset[at(i) + 1] = memory.offset[at(i)] + message_bytes<T>(memory.gathered[at(rank)], range(memory, rank));
    }
    std::byte* const blocks = memory.messages[0].data();
    encode_entries(mine, boundary(memory, me), range(memory, me), blocks);
    if (memory.offset.back() >= ring_from_bytes)
      co_await allgatherv_ring(channel, memory.offset, blocks);
    else
      co_await allgatherv(channel, memory.offset, blocks);

    EntryMemory<T>& sum = memory.lists[2];
    std::int64_t entries = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::int64_t part = memory.gathered[at(rank)];
      if (rank == me) {
        std::copy_n(mine.indices, part, sum.indices.data() + entries);
        std::copy_n(mine.values, part, sum.values.data() + entries);
      } else {
        decode_entries(blocks + memory.offset[at((rank - me + ranks) % ranks)], part, boundary(memory, rank), range(memory, rank),
                       sum.indices.data() + entries, sum.values.data() + entries);
      }
      entries += part;
    }
    co_return sum.first(entries);
  }

 private:
  static std::int64_t boundary(const SumMemory<T>& memory, int region) {
    return static_cast<std::int64_t>(memory.boundaries[static_cast<std::size_t>(region)]);
  }
  static std::int64_t range(const SumMemory<T>& memory, int region) {
    return boundary(memory, region + 1) - boundary(memory, region);
  }
  /// Returns where the entries begin for which sample `i` stands.
  static std::int64_t sample_begin(std::int64_t count, std::int64_t i, std::int64_t samples) {
    return count / samples * i + count % samples * i / samples;
  }

  /// Sets boundaries from the samples: all ranks get the same.
  static void balance(SumRun<T>& run) {
    SumMemory<T>& memory = run.memory;
    const std::int64_t ranks = run.problem.ranks, samples = samples_of_rank(run.problem.ranks);
    std::size_t used = 0;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const std::int64_t count = run.counts[static_cast<std::size_t>(rank)];
      for (std::int64_t i = 0; i < samples; ++i) {
        const std::int64_t weight = sample_begin(count, i + 1, samples) - sample_begin(count, i, samples);
        if (weight > 0) memory.weighted[used++] = {memory.samples[static_cast<std::size_t>(rank * samples + i)], weight};
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

  /// Sends every rank the entries of its region. Destinations rotate, so that the ranks do not all send to one rank at once.
  static task<void> exchange(Channel channel, SumRun<T>& run) {
    const int me = channel.rank(), ranks = channel.size();
    SumMemory<T>& memory = run.memory;
    const auto at = [](int i) { return static_cast<std::size_t>(i); };
    const bool repeats = run.problem.keeps_terms;
    std::int64_t entries = 0, bytes = 0, sent = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      memory.gathered[at(rank)] = entries;  // where the list of the rank begins
      entries += memory.counts_in[at(rank)];
      memory.offset[at(rank)] = bytes;
      if (rank != me) bytes += message_bytes<T>(memory.counts_in[at(rank)], range(memory, me), repeats);
    }
    if (entries > memory.lists[0].capacity())
      fail(WEIR_ERR_INTERNAL, "a region of a sparse sum has {} entries: at most {} were expected", entries,
           memory.lists[0].capacity());
    for (int s = 1; s < ranks + split_window; ++s) {
      if (s < ranks) {
        const int to = (me + s) % ranks, from = (me - s + ranks) % ranks;
        const std::int64_t in = message_bytes<T>(memory.counts_in[at(from)], range(memory, me), repeats);
        const std::int64_t out = message_bytes<T>(memory.counts_out[at(to)], range(memory, to), repeats);
        memory.requests[at(2 * s)] = Request{};
        memory.requests[at(2 * s + 1)] = Request{};
        if (in > 0)
          memory.requests[at(2 * s)] =
              channel.receive(memory.messages[1].data() + memory.offset[at(from)], in, from, Traffic::payload);
        if (out > 0) {
          std::byte* const message = memory.messages[0].data() + sent;
          const std::int64_t first = run.own.lower_bound(boundary(memory, to));
          encode_entries(run.own.part(first, first + memory.counts_out[at(to)]), boundary(memory, to), range(memory, to), message,
                         repeats);
          memory.requests[at(2 * s + 1)] = channel.send(message, out, to, Traffic::payload);
          sent += out;
        }
      }
      const int finished = s - split_window;
      if (finished >= 1 && finished < ranks) co_await channel.done(std::span(memory.requests).subspan(at(2 * finished), 2));
    }
  }

  static Entries<T> sum_own_region(SumRun<T>& run, int me) {
    SumMemory<T>& memory = run.memory;
    EntryMemory<T>& list = memory.lists[0];
    for (int rank = 0; rank < run.problem.ranks; ++rank) {
      const auto i = static_cast<std::size_t>(rank);
      const std::int64_t begin = memory.gathered[i], entries = memory.counts_in[i];
      memory.parts[i] = {{list.indices.data() + begin, list.values.data() + begin, entries}, 0};
      if (rank == me) {
        const std::int64_t first = run.own.lower_bound(boundary(memory, me));
        memory.parts[i].entries = run.own.part(first, first + entries);
      } else {
        decode_entries(memory.messages[1].data() + memory.offset[i], entries, boundary(memory, me), range(memory, me),
                       list.indices.data() + begin, list.values.data() + begin, run.problem.keeps_terms);
      }
    }
    return merge_parts(run, std::span<const std::int64_t>(memory.gathered));
  }
};

SumNeed need_of_split(const SumProblem& problem) { return need_for_region(problem, most_of_region(problem)); }

model::StepCost cost_of_split(const model::Setting& setting, const SumProblem& problem) {
  const model::Network& network = setting.network;
  const Rates rates = rates_of_sums(setting.machine);
  const double ranks = problem.ranks, total = static_cast<double>(problem.total), largest = static_cast<double>(problem.largest);
  const double range = static_cast<double>(problem.count) / ranks, part = total / ranks / ranks;

  // 1. regions, which all ranks find by sorting all samples
  model::StepCost cost;
  if (!problem.scatters) {
    const int samples = samples_of_rank(problem.ranks);
    cost += network.allgather(setting.all, 8.0 * samples);
    cost.seconds += ranks * samples * steps_of(problem.ranks * samples) / rates.merge;
  }
  // 2. numbers of entries, which are all in flight at once
  cost += network.all_to_all(setting.all, 8, problem.ranks);
  if (problem.scatters || problem.keeps_terms) cost += network.allreduce_control(setting.all, 8);
  // 3. exchange, which the rank with the longest list ends last
  cost += network.all_to_all(setting.all, expected_bytes(largest / ranks, range, problem.value_size), split_window);
  cost.seconds += largest / rates.encode + (ranks - 1) * part / rates.decode + merge_seconds(setting, problem, part, range);
  if (problem.scatters) return cost;
  // 4. gather
  const double sum = expected_union(total, problem.ranks, static_cast<double>(problem.count)) / ranks;
  cost += network.allgather(setting.all, 8);
  cost += gather_blocks(setting, expected_bytes(sum, range, problem.value_size));
  cost.seconds += sum / rates.encode + (ranks - 1) * sum / rates.decode;
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
