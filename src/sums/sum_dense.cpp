#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "sums/region_sum.hpp"

namespace weir::sums {
namespace {

/// Returns the bytes of a block: the values of `range` elements, then a bit for each, set where there is an entry.
std::int64_t part_bytes(std::int64_t value_size, std::int64_t range) {
  return (range * value_size + 7) / 8 * 8 + (range + 63) / 64 * 8;
}

/// Returns whether ranks halve the array. Only 2^m ranks then add in the order of combine_in_order.
bool is_halved(int ranks) { return std::has_single_bit(static_cast<unsigned>(ranks)); }

/// Returns the slot of a part's block. In a halved array it is the part's number with its bits reversed, so that parts with the
/// same low bits are neighbours.
int slot_of(int part, int ranks) {
  if (!is_halved(ranks)) return part;
  int slot = 0;
  for (int bit = 1; bit < ranks; bit *= 2) slot = 2 * slot + (part & bit ? 1 : 0);
  return slot;
}

/// Exchanges whole arrays with a bit for each element. 2^m ranks halve the array in each step of the reduce-scatter, beginning with
/// neighbours, and double their part in each step of the allgather (Rabenseifner 2004). So most bytes stay in the node. Other
/// numbers of ranks send parts to their owners, and gather them around a ring. Each rank sends at most 2 n (P - 1) / P elements and
/// as many bits. Absent elements have the value that changes no other.
template <class T>
struct DenseSum {
  static task<Entries<T>> run(Channel channel, SumRun<T>& run) {
    const int me = channel.rank(), ranks = channel.size();
    SumMemory<T>& memory = run.memory;
    uniform_boundaries(static_cast<std::uint64_t>(run.problem.count), memory.boundaries);
    memory.offset[0] = 0;
    for (int slot = 0; slot < ranks; ++slot)
      memory.offset[at(slot) + 1] = memory.offset[at(slot)] + part_bytes(sizeof(T), range(memory, slot_of(slot, ranks)));
    for (int part = 0; part < ranks; ++part) fill(run, part);

    StageScope stage = channel.stage(Stage::reduce_scatter);
    if (is_halved(ranks))
      co_await halve(channel, run);
    else
      co_await reduce_parts(channel, run);
    if (!run.problem.scatters) {
      stage.next(Stage::allgather);
      if (is_halved(ranks))
        co_await double_parts(channel, run);
      else
        co_await allgatherv_ring_in_place(channel, memory.offset, memory.messages[0].data());
    }
    std::int64_t entries = 0;
    for (int part = 0; part < ranks; ++part) {
      if (part == me || !run.problem.scatters) entries = extract(run, part, entries);
    }
    co_return memory.lists[2].first(entries);
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  /// In each step, sends half of what this rank still has to a partner, and combines the other half with what it gets.
  static task<void> halve(Channel channel, SumRun<T>& run) {
    const int me = channel.rank(), ranks = channel.size();
    SumMemory<T>& memory = run.memory;
    std::byte *const array = memory.messages[0].data(), *const theirs = memory.messages[1].data();
    int first = 0, slots = ranks;
    for (int distance = 1; distance < ranks; distance *= 2) {
      const bool keeps_upper_half = (me & distance) != 0;
      slots /= 2;
      const int kept = first + (keeps_upper_half ? slots : 0), given = first + (keeps_upper_half ? 0 : slots);
      std::array<Request, 2> both;
      both[0] = channel.receive(theirs, bytes_of(memory, kept, slots), me ^ distance, Traffic::payload);
      both[1] = channel.send(array + memory.offset[at(given)], bytes_of(memory, given, slots), me ^ distance, Traffic::payload);
      co_await channel.done(both);
      first = kept;
      for (int slot = first; slot < first + slots; ++slot) {
        std::byte* const block = array + memory.offset[at(slot)];
        const std::byte* const other = theirs + (memory.offset[at(slot)] - memory.offset[at(first)]);
        if (keeps_upper_half)
          combine(run, other, block, block, slot_of(slot, ranks));
        else
          combine(run, block, other, block, slot_of(slot, ranks));
      }
    }
  }

  /// In each step, exchanges all that this rank has with a partner that has as much.
  static task<void> double_parts(Channel channel, SumRun<T>& run) {
    const int me = channel.rank(), ranks = channel.size();
    SumMemory<T>& memory = run.memory;
    std::byte* const array = memory.messages[0].data();
    int first = slot_of(me, ranks), slots = 1;
    for (int distance = ranks / 2; distance > 0; distance /= 2, slots *= 2) {
      const int other = first ^ slots;
      std::array<Request, 2> both;
      both[0] = channel.receive(array + memory.offset[at(other)], bytes_of(memory, other, slots), me ^ distance, Traffic::payload);
      both[1] = channel.send(array + memory.offset[at(first)], bytes_of(memory, first, slots), me ^ distance, Traffic::payload);
      co_await channel.done(both);
      first = std::min(first, other);
    }
  }

  /// Part r of every rank goes to rank r, which combines them in order.
  static task<void> reduce_parts(Channel channel, SumRun<T>& run) {
    const int me = channel.rank(), ranks = channel.size();
    SumMemory<T>& memory = run.memory;
    std::byte* const array = memory.messages[0].data();
    const std::int64_t block = bytes_of(memory, me, 1);
    const auto part_of = [&](int rank) {
      return rank == me ? array + memory.offset[at(me)] : memory.messages[1].data() + rank * block;
    };
    co_await exchange_with_owners(
        channel, memory.requests, [&](int from) { return std::span(part_of(from), static_cast<std::size_t>(block)); },
        [&](int to) {
          return std::span<const std::byte>(array + memory.offset[at(to)], static_cast<std::size_t>(bytes_of(memory, to, 1)));
        });
    combine_in_order(ranks, [&](int a, int b) { combine(run, part_of(a), part_of(b), part_of(a), me); });
    if (me != 0 && block > 0) std::memcpy(part_of(me), part_of(0), static_cast<std::size_t>(block));
  }

  /// Returns the bytes of the blocks in some slots.
  static std::int64_t bytes_of(const SumMemory<T>& memory, int slot, int slots) {
    return memory.offset[at(slot + slots)] - memory.offset[at(slot)];
  }
  static std::byte* block_of(SumRun<T>& run, int part) {
    return run.memory.messages[0].data() + run.memory.offset[at(slot_of(part, run.problem.ranks))];
  }
  static std::int64_t boundary(const SumMemory<T>& memory, int part) {
    return static_cast<std::int64_t>(memory.boundaries[static_cast<std::size_t>(part)]);
  }
  static std::int64_t range(const SumMemory<T>& memory, int part) { return boundary(memory, part + 1) - boundary(memory, part); }
  static T* values_of(std::byte* block) { return reinterpret_cast<T*>(block); }
  static const T* values_of(const std::byte* block) { return reinterpret_cast<const T*>(block); }
  static std::uint64_t* bits_of(std::byte* block, std::int64_t range) {
    return reinterpret_cast<std::uint64_t*>(block + value_bytes<T>(range));
  }
  static const std::uint64_t* bits_of(const std::byte* block, std::int64_t range) {
    return reinterpret_cast<const std::uint64_t*>(block + value_bytes<T>(range));
  }

  /// Writes this rank's entries of one part into its block.
  static void fill(SumRun<T>& run, int part) {
    SumMemory<T>& memory = run.memory;
    std::byte* const block = block_of(run, part);
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

  /// Sets a block to two others combined; it may be either.
  static void combine(SumRun<T>& run, const std::byte* lower, const std::byte* upper, std::byte* out, int part) {
    const std::int64_t size = range(run.memory, part);
    run.arithmetic->combine(values_of(lower), values_of(upper), values_of(out), size, boundary(run.memory, part));
    const std::uint64_t *const a = bits_of(lower, size), *const b = bits_of(upper, size);
    std::uint64_t* const bits = bits_of(out, size);
    for (std::int64_t word = 0; word < (size + 63) / 64; ++word) bits[word] = a[word] | b[word];
  }

  /// Appends the entries of one part to the result, which has `entries` so far. Returns how many it has then.
  static std::int64_t extract(SumRun<T>& run, int part, std::int64_t entries) {
    SumMemory<T>& memory = run.memory;
    std::byte* const block = block_of(run, part);
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
  const std::int64_t block = part_bytes(problem.value_size, part);
  return {{0, 0, problem.most_entries()},
          {problem.ranks * block, (is_halved(problem.ranks) ? problem.ranks / 2 : problem.ranks) * block}};
}

model::StepCost cost_of_dense(const model::Setting& setting, const SumProblem& problem) {
  const model::Network& network = setting.network;
  const Rates rates = rates_of_sums(setting.machine);
  const double ranks = problem.ranks, count = static_cast<double>(problem.count),
               value_size = static_cast<double>(problem.value_size);
  const double block = count / ranks * (value_size + 1.0 / 8);
  const double sum = expected_union(static_cast<double>(problem.total), problem.ranks, count);
  model::StepCost cost;
  if (is_halved(problem.ranks)) {
    int slots = problem.ranks;
    for (int distance = 1; distance < problem.ranks; distance *= 2) {
      slots /= 2;
      cost += network.mirror(setting.all, distance, slots * block);
      if (!problem.scatters) cost += network.mirror(setting.all, distance, slots * block);
    }
  } else {
    cost += network.all_to_all(setting.all, block, owners_window);
    if (!problem.scatters) cost += network.ring_allgather(setting.all, block);
  }
  // `fill` was measured with elements of 4 bytes.
  cost.seconds += count * value_size / 4 / rates.fill + static_cast<double>(problem.largest) / rates.encode +
                  (ranks - 1) * block / rates.add + (problem.scatters ? sum / ranks : sum) / rates.decode;
  return cost;
}

}  // namespace

extern const SumRow dense_sum_row{.name = "dense",
                                  .description = "exchanges whole arrays, with a bit for each element that has an entry",
                                  .cost = cost_of_dense,
                                  .need = need_of_dense,
                                  .run = sum_functions<DenseSum>};

}  // namespace weir::sums
