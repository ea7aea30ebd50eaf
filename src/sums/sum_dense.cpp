#include <algorithm>
#include <bit>
#include <cstring>

#include "sums/region_sum.hpp"

namespace weir::sums {
namespace {

/// Returns the bytes of a block: the values of `range` elements, then a bit for each, set where there is an entry.
std::int64_t block_bytes(std::int64_t value_size, std::int64_t range) {
  return (range * value_size + 7) / 8 * 8 + (range + 63) / 64 * 8;
}

/// Exchanges whole arrays with a bit for each element: reduce-scatter, directly, and allgather around a ring. Each rank sends at
/// most 2 n (P - 1) / P elements and as many bits. Absent elements have the value that changes no other.
template <class T>
struct DenseSum {
  static task<Entries<T>> run(Channel channel, SumRun<T>& run) {
    const int me = channel.rank(), ranks = channel.size();
    SumMemory<T>& memory = run.memory;
    const auto at = [](int i) { return static_cast<std::size_t>(i); };
    uniform_boundaries(static_cast<std::uint64_t>(run.problem.count), memory.boundaries);
    memory.offset[0] = 0;
    for (int rank = 0; rank < ranks; ++rank)
      memory.offset[at(rank) + 1] = memory.offset[at(rank)] + block_bytes(sizeof(T), range(memory, rank));
    std::byte* const array = memory.messages[0].data();
    for (int rank = 0; rank < ranks; ++rank) fill(run, rank);

    // 1. reduce-scatter: part r of every rank goes to rank r, which combines them in order
    StageScope stage = channel.stage(Stage::reduce_scatter);
    const std::int64_t block = block_bytes(sizeof(T), range(memory, me));
    const auto part_of = [&](int rank) {
      return rank == me ? array + memory.offset[at(me)] : memory.messages[1].data() + rank * block;
    };
    co_await exchange_with_owners(
        channel, memory.requests, [&](int from) { return std::span(part_of(from), static_cast<std::size_t>(block)); },
        [&](int to) {
          return std::span<const std::byte>(array + memory.offset[at(to)],
                                            static_cast<std::size_t>(memory.offset[at(to) + 1] - memory.offset[at(to)]));
        });
    combine_in_order(ranks, [&](int a, int b) { combine(run, part_of(a), part_of(b), me); });
    if (me != 0 && block > 0) std::memcpy(part_of(me), part_of(0), static_cast<std::size_t>(block));

    // 2. allgather
    if (!run.problem.scatters) {
      stage.next(Stage::allgather);
      co_await allgatherv_ring_in_place(channel, memory.offset, array);
    }
    std::int64_t entries = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank == me || !run.problem.scatters) entries = extract(run, rank, entries);
    }
    co_return memory.lists[2].first(entries);
  }

 private:
  static std::int64_t boundary(const SumMemory<T>& memory, int part) {
    return static_cast<std::int64_t>(memory.boundaries[static_cast<std::size_t>(part)]);
  }
  static std::int64_t range(const SumMemory<T>& memory, int part) { return boundary(memory, part + 1) - boundary(memory, part); }
  static T* values_of(std::byte* block) { return reinterpret_cast<T*>(block); }
  static std::uint64_t* bits_of(std::byte* block, std::int64_t range) {
    return reinterpret_cast<std::uint64_t*>(block + value_bytes<T>(range));
  }

  /// Writes this rank's entries of one part into its block.
  static void fill(SumRun<T>& run, int part) {
    SumMemory<T>& memory = run.memory;
    std::byte* const block = memory.messages[0].data() + memory.offset[static_cast<std::size_t>(part)];
    const std::int64_t base = boundary(memory, part), size = range(memory, part);
    T* const values = values_of(block);
    std::uint64_t* const bits = bits_of(block, size);
    std::fill_n(values, value_bytes<T>(size) / static_cast<std::int64_t>(sizeof(T)), run.arithmetic->identity);
    std::fill_n(bits, (size + 63) / 64, 0U);
    const std::int64_t end = run.own.lower_bound(base + size);
    for (std::int64_t i = run.own.lower_bound(base); i < end; ++i) {
      const std::int64_t place = run.own.indices[i] - base;
      values[place] = run.own.values[i];
      bits[place / 64] |= std::uint64_t{1} << (place % 64);
    }
  }

  static void combine(SumRun<T>& run, std::byte* lower, std::byte* upper, int part) {
    const std::int64_t size = range(run.memory, part);
    run.arithmetic->combine(values_of(lower), values_of(upper), size, boundary(run.memory, part));
    std::uint64_t* const bits = bits_of(lower, size);
    const std::uint64_t* const other = bits_of(upper, size);
    for (std::int64_t word = 0; word < (size + 63) / 64; ++word) bits[word] |= other[word];
  }

  /// Appends the entries of one part to the result, which has `entries` so far. Returns how many it has then.
  static std::int64_t extract(SumRun<T>& run, int part, std::int64_t entries) {
    SumMemory<T>& memory = run.memory;
    std::byte* const block = memory.messages[0].data() + memory.offset[static_cast<std::size_t>(part)];
    const std::int64_t base = boundary(memory, part), size = range(memory, part);
    const T* const values = values_of(block);
    const std::uint64_t* const bits = bits_of(block, size);
    EntryMemory<T>& to = memory.lists[2];
    for (std::int64_t word = 0; word < (size + 63) / 64; ++word) {
      for (std::uint64_t left = bits[word]; left != 0; left &= left - 1) {
        const std::int64_t place = word * 64 + std::countr_zero(left);
        to.indices[entries] = base + place;
        to.values[entries++] = values[place];
      }
    }
    return entries;
  }
};

SumNeed need_of_dense(const SumProblem& problem) {
  const std::int64_t part = (problem.count + problem.ranks - 1) / problem.ranks;
  const std::int64_t bytes = problem.ranks * block_bytes(problem.value_size, part);
  return {{0, 0, problem.most_entries()}, {bytes, bytes}};
}

model::StepCost cost_of_dense(const model::Setting& setting, const SumProblem& problem) {
  const Rates rates = rates_of_sums(setting.machine);
  const double ranks = problem.ranks, count = static_cast<double>(problem.count),
               value_size = static_cast<double>(problem.value_size);
  const double block = count / ranks * (value_size + 1.0 / 8);
  const double sum = expected_union(static_cast<double>(problem.total), problem.ranks, count);
  model::StepCost cost = setting.network.all_to_all(setting.all, block, owners_window);
  // `fill` was measured with elements of 4 bytes.
  cost.seconds += count * value_size / 4 / rates.fill + static_cast<double>(problem.largest) / rates.encode +
                  (ranks - 1) * block / rates.add + (problem.scatters ? sum / ranks : sum) / rates.decode;
  if (!problem.scatters) cost += setting.network.ring_allgather(setting.all, block);
  return cost;
}

}  // namespace

extern const SumRow dense_sum_row{.name = "dense",
                                  .description = "exchanges whole arrays, with a bit for each element that has an entry",
                                  .cost = cost_of_dense,
                                  .need = need_of_dense,
                                  .run = sum_functions<DenseSum>};

}  // namespace weir::sums
