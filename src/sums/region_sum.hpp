// region_sum.hpp: for algorithms in which each rank sums a part of the array: the exchange with these owners, the sum of a part,
// and the gathering of the sums.
//
// A division says which rank owns which indices, and how they travel. It is a class of this form:
//
//   void deal()                            sets run.memory.counts_out: how many of this rank's entries each rank owns
//   Entries<T> part(int rank)              this rank's entries of an owner, as they travel
//   Entries<T> own_part(begin)             those that this rank owns itself; may be copied into lists[0] from `begin` on
//   std::int64_t base(rank), range(rank)   what travels for indices of an owner lies in [base, base + range)
//   void restore(rank, indices, count)     turns what has travelled for an owner into indices
//   Entries<T> travelling(entries)         turns a sum of this rank's part into what travels; may use lists[2]
//   Entries<T> assembled(count)            makes one list by ascending index of lists[2], which has those of all owners in turn
#pragma once

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "collectives/allgatherv.hpp"
#include "collectives/control.hpp"
#include "sums/entry_code.hpp"
#include "sums/sum_row.hpp"

namespace weir::sums {

constexpr int owners_window = 8;  ///< exchanges in flight

/// Receives a message from every other rank into in(rank), and sends out(rank) to it. Empty ones do not travel. Destinations
/// rotate, so that the ranks do not all send to one rank at once, and a few exchanges are in flight. out(rank) may write the
/// message. `requests` has two for each rank.
template <class In, class Out>
task<void> exchange_with_owners(Channel channel, std::vector<Request>& requests, In in, Out out) {
  const int me = channel.rank(), ranks = channel.size();
  const auto at = [](int i) { return static_cast<std::size_t>(i); };
  for (int s = 1; s < ranks + owners_window; ++s) {
    if (s < ranks) {
      const int to = (me + s) % ranks, from = (me - s + ranks) % ranks;
      requests[at(2 * s)] = Request{};
      requests[at(2 * s + 1)] = Request{};
      const std::span<std::byte> incoming = in(from);
      if (!incoming.empty()) requests[at(2 * s)] = channel.receive(incoming.data(), std::ssize(incoming), from, Traffic::payload);
      const std::span<const std::byte> outgoing = out(to);
      if (!outgoing.empty()) requests[at(2 * s + 1)] = channel.send(outgoing.data(), std::ssize(outgoing), to, Traffic::payload);
    }
    const int finished = s - owners_window;
    if (finished >= 1 && finished < ranks) co_await channel.done(std::span(requests).subspan(at(2 * finished), 2));
  }
}

/// Grows the memory to what the largest part of any rank needs, after exchange_counts.
template <class T>
task<void> grow_to_largest(Channel channel, SumRun<T>& run, SumNeed (*need)(const SumProblem& problem, std::int64_t largest)) {
  SumMemory<T>& memory = run.memory;
  memory.largest_region =
      static_cast<std::uint64_t>(std::accumulate(memory.counts_in.begin(), memory.counts_in.end(), std::int64_t{0}));
  co_await allreduce_control(channel, &memory.largest_region, 1, 1, &memory.control_scratch);
  co_await run.growth.grow(need(run.problem, static_cast<std::int64_t>(memory.largest_region)));
}

/// Sets memory.gathered[r] to `mine` of rank r.
template <class T>
task<void> gather_counts(Channel channel, SumMemory<T>& memory, std::int64_t mine) {
  memory.counts_out[0] = mine;
  co_await allgather_control(channel, reinterpret_cast<const std::byte*>(memory.counts_out.data()), 8,
                             reinterpret_cast<std::byte*>(memory.gathered.data()),
                             reinterpret_cast<std::byte*>(memory.gathered_scratch.data()));
}

/// Returns for how many entries of a part memory is allocated at first, if it may grow: more than its share by a quarter and some
/// stripes.
[[nodiscard]] std::int64_t usual_part(const SumProblem& problem);

/// Returns what RegionSum costs with indices at random. `may_exceed` is its argument.
[[nodiscard]] model::StepCost owners_cost(const model::Setting& setting, const SumProblem& problem, bool may_exceed);

/// Gathers messages on all ranks: that of rank (me + i) mod P at offset[i].
inline task<void> gather_messages(Channel channel, const std::vector<std::int64_t>& offset, std::byte* messages) {
  return offset.back() >= ring_from_bytes ? allgatherv_ring(channel, offset, messages) : allgatherv(channel, offset, messages);
}

/// Divides the array into contiguous regions: memory.boundaries.
template <class T>
class Regions {
 public:
  explicit Regions(SumRun<T>& run, int me) : run_(run), me_(me) {}

  /// Returns what a run needs whose largest region has `region` entries.
  static SumNeed need(const SumProblem& problem, std::int64_t region) {
    const std::int64_t result = problem.scatters ? 0 : problem.most_entries();
    return {{region, region, result},
            {std::max(problem.message_bytes(problem.largest, problem.ranks), problem.message_bytes(result, problem.ranks)),
             problem.message_bytes(region, problem.ranks)}};
  }

  void deal() {
    std::int64_t before = 0;
    for (int rank = 0; rank < run_.problem.ranks; ++rank) {
      const std::int64_t end = run_.own.lower_bound(base(rank + 1));
      run_.memory.counts_out[static_cast<std::size_t>(rank)] = end - before;
      before = end;
    }
  }
  [[nodiscard]] Entries<T> part(int rank) const {
    const std::int64_t first = run_.own.lower_bound(base(rank));
    return run_.own.part(first, first + run_.memory.counts_out[static_cast<std::size_t>(rank)]);
  }
  [[nodiscard]] Entries<T> own_part(std::int64_t) const { return part(me_); }
  [[nodiscard]] std::int64_t base(int rank) const {
    return static_cast<std::int64_t>(run_.memory.boundaries[static_cast<std::size_t>(rank)]);
  }
  [[nodiscard]] std::int64_t range(int rank) const { return base(rank + 1) - base(rank); }
  void restore(int, std::int64_t*, std::int64_t) const {}
  [[nodiscard]] Entries<T> travelling(const Entries<T>& sum) const { return sum; }
  [[nodiscard]] Entries<T> assembled(std::int64_t count) const { return run_.memory.lists[2].first(count); }

 private:
  SumRun<T>& run_;
  int me_;
};

/// Sends all entries to their owners, sums those of each owner there, and gathers the sums, unless the run scatters. Each rank
/// sends at most the messages of its own entries, and those of the sum's. `may_exceed`: an owner may have more entries than memory
/// for them.
template <class T, class Division>
class RegionSum {
 public:
  RegionSum(Channel channel, SumRun<T>& run, Division& division)
      : channel_(channel), me_(channel.rank()), ranks_(channel.size()), run_(run), memory_(run.memory), division_(division) {}

  task<Entries<T>> sum(bool may_exceed) {
    // 1. how many entries each rank has for each owner
    StageScope stage = channel_.stage(Stage::announce);
    division_.deal();
    co_await memory_.exchange_counts(channel_);
    if (may_exceed) co_await grow_to_largest(channel_, run_, Division::need);

    // 2. exchange and sum
    stage.next(Stage::split_reduce);
    place_messages();
    const bool repeats = run_.problem.keeps_terms;
    std::int64_t sent = 0;
    co_await exchange_with_owners(
        channel_, memory_.requests,
        [this, repeats](int from) {
          const std::int64_t bytes = message_bytes<T>(memory_.counts_in[at(from)], division_.range(me_), repeats);
          return std::span(memory_.messages[1].data() + memory_.offset[at(from)], static_cast<std::size_t>(bytes));
        },
        [this, repeats, &sent](int to) {
          const std::int64_t bytes = message_bytes<T>(memory_.counts_out[at(to)], division_.range(to), repeats);
          std::byte* const message = memory_.messages[0].data() + sent;
          if (bytes > 0) encode_entries(division_.part(to), division_.base(to), division_.range(to), message, repeats);
          sent += bytes;
          return std::span<const std::byte>(message, static_cast<std::size_t>(bytes));
        });
    const Entries<T> mine = sum_own_part();
    if (run_.problem.scatters) co_return mine;

    // 3. gather
    stage.next(Stage::global_sizes);
    co_await gather_counts(channel_, memory_, mine.count);
    stage.next(Stage::allgatherv);
    memory_.offset[0] = 0;
    for (int i = 0; i < ranks_; ++i) {
      const int rank = (me_ + i) % ranks_;
      memory_.offset[at(i) + 1] = memory_.offset[at(i)] + message_bytes<T>(memory_.gathered[at(rank)], division_.range(rank));
    }
    if (memory_.offset.back() > memory_.messages[0].size())
      fail(WEIR_ERR_TRANSPORT, "the parts of a sparse sum have {} bytes: at most {} were expected", memory_.offset.back(),
           memory_.messages[0].size());
    std::byte* const messages = memory_.messages[0].data();
    encode_entries(division_.travelling(mine), division_.base(me_), division_.range(me_), messages);
    co_await gather_messages(channel_, memory_.offset, messages);
    co_return assembled(mine);
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  /// Sets memory.gathered to where the list of each rank begins in lists[0], and memory.offset to where its message does.
  void place_messages() {
    std::int64_t entries = 0, bytes = 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      memory_.gathered[at(rank)] = entries;
      entries += memory_.counts_in[at(rank)];
      memory_.offset[at(rank)] = bytes;
      if (rank != me_) bytes += message_bytes<T>(memory_.counts_in[at(rank)], division_.range(me_), run_.problem.keeps_terms);
    }
    if (entries > memory_.lists[0].capacity())
      fail(WEIR_ERR_INTERNAL, "a region of a sparse sum has {} entries: at most {} were expected", entries,
           memory_.lists[0].capacity());
  }

  Entries<T> sum_own_part() {
    EntryMemory<T>& list = memory_.lists[0];
    for (int rank = 0; rank < ranks_; ++rank) {
      const std::int64_t begin = memory_.gathered[at(rank)], entries = memory_.counts_in[at(rank)];
      std::int64_t* const indices = list.indices.data() + begin;
      T* const values = list.values.data() + begin;
      memory_.parts[at(rank)] = {{indices, values, entries}, 0};
      if (rank == me_) {
        memory_.parts[at(rank)].entries = division_.own_part(begin);
      } else {
        decode_entries(memory_.messages[1].data() + memory_.offset[at(rank)], entries, division_.base(me_), division_.range(me_),
                       indices, values, run_.problem.keeps_terms);
        division_.restore(me_, indices, entries);
      }
    }
    return merge_parts(run_, std::span<const std::int64_t>(memory_.gathered));
  }

  /// Puts the sums of all owners into lists[2].
  Entries<T> assembled(const Entries<T>& mine) {
    EntryMemory<T>& sum = memory_.lists[2];
    std::int64_t entries = 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      const std::int64_t part = memory_.gathered[at(rank)];
      if (part > sum.capacity() - entries)
        fail(WEIR_ERR_TRANSPORT, "the parts of a sparse sum have more than {} entries, which were expected at most",
             sum.capacity());
      std::int64_t* const indices = sum.indices.data() + entries;
      T* const values = sum.values.data() + entries;
      if (rank == me_) {
        std::copy_n(mine.indices, part, indices);
        std::copy_n(mine.values, part, values);
      } else {
        decode_entries(memory_.messages[0].data() + memory_.offset[at((rank - me_ + ranks_) % ranks_)], part, division_.base(rank),
                       division_.range(rank), indices, values);
        division_.restore(rank, indices, part);
      }
      entries += part;
    }
    return division_.assembled(entries);
  }

  Channel channel_;
  int me_, ranks_;
  SumRun<T>& run_;
  SumMemory<T>& memory_;
  Division& division_;
};

}  // namespace weir::sums
