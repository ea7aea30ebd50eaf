#include <algorithm>
#include <utility>

#include "collectives/allgatherv.hpp"
#include "collectives/control.hpp"
#include "sums/node_lists.hpp"
#include "sums/sum_row.hpp"

namespace weir::sums {
namespace {

/// Sums in nodes first. Each rank of a node owns a slice of the array. It merges that part of the lists of its node, which are in
/// shared memory. Ranks that own the same slice on different nodes then sum by another algorithm, so that what the lists of a node
/// have in common crosses the network once. At last, the ranks of a node show each other the sums of their slices.
template <class T>
struct HierarchicalSum {
  using PartCard = typename NodeLists<T>::PartCard;

  static task<Entries<T>> run(Channel channel, SumRun<T>& run) {
    const Topology& topology = channel.topology();
    const Channel node = channel.group(topology.node_peers()), peers = channel.group(topology.local_rank_peers());
    SumAcross<T>& across = *run.across;
    const std::int64_t base = slice_begin(run.problem.count, node.rank(), node.size());
    const std::int64_t end = slice_begin(run.problem.count, node.rank() + 1, node.size());

    // 1. the node's sum of this rank's slice
    StageScope stage = channel.stage(Stage::in_node_reduce);
    Entries<T> sum = across.slice ? *across.slice : merge_slice(run, topology.node_peers());

    // 2. the sum over the nodes
    stage.next(Stage::allreduce);
    across.outcome = {};
    if (!across.knows_sizes()) {
      across.own_size = {sum.count, count_blocks(sum.indices, sum.count)};
      co_await allgather_control(peers, reinterpret_cast<const std::byte*>(across.own_size.data()), sizeof across.own_size,
                                 reinterpret_cast<std::byte*>(across.sizes.data()),
                                 reinterpret_cast<std::byte*>(across.sizes_scratch.data()));
    }
    SumProblem problem{peers.size(), end - base, 0, 0, run.problem.value_size};
    problem.blocks = problem.largest_blocks = 0;
    for (std::size_t rank = 0; rank < across.sizes.size(); ++rank) {
      const auto [entries, blocks] = across.sizes[rank];
      across.counts[rank] = entries;
      problem.total += entries;
      problem.largest = std::max(problem.largest, entries);
      problem.blocks += blocks;
      problem.largest_blocks = std::max(problem.largest_blocks, blocks);
    }
    SumRun<T> work{problem, across.counts, sum, run.arithmetic, across.memory, across.growth};
    work.carried = across.carried;
    const SumFunction<T> function = std::get<SumFunction<T>>(across.row->run);
    const std::int64_t overflow_in_node = std::exchange(run.arithmetic->overflow, Arithmetic<T>::none);
    // If memory runs out, it does for all these ranks. The others hear of it in step 3.
    try {
      SumNeed need = across.row->need(problem);
      if (work.carried.first != nullptr) need.bytes = {};
      co_await across.growth.grow(need);
      sum = co_await function(peers, work);
    } catch (const Error& error) {
      if (error.status() != WEIR_ERR_MEMORY) throw;
      across.outcome.set(error.status(), error.what());
      sum = {};
    }

    if (run.arithmetic->overflow != Arithmetic<T>::none) run.arithmetic->overflow += base;
    run.arithmetic->overflow = std::max(overflow_in_node, run.arithmetic->overflow);

    // 3. the sums of all slices
    stage.next(Stage::in_node_allgather);
    co_return co_await shared(channel, node, run, sum, base);
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  /// Returns the sums of all slices of the node. Throws on all ranks if memory ran out for one of them.
  static task<Entries<T>> shared(Channel channel, Channel node, SumRun<T>& run, Entries<T> mine, std::int64_t base) {
    NodeLists<T>& lists = *run.node;
    SumMemory<T>& memory = run.memory;
    EntryMemory<T>& sum = memory.lists[2];
    std::int64_t entries = 0, longest = 0;
    for (std::int64_t piece = 0; piece == 0 || piece * lists.piece() < longest; ++piece) {
      lists.show_piece(piece, mine, base);
      *reinterpret_cast<PartCard*>(lists.part_cards.mine()) = {mine.count, run.across->outcome.failed() ? 1 : 0};
      lists.part_cards.publish();
      co_await node.done(lists.part_cards);
      for (int rank = 0; rank < node.size() && piece == 0; ++rank) {
        const PartCard& card = lists.part_cards.template of<PartCard>(rank);
        // The first node has a rank of each slice, and its ranks are the first ones.
        if (card.failed != 0) co_await detail::throw_outcome_of(channel, rank, run.across->outcome, run.across->agreement);
        memory.gathered[at(rank)] = entries;
        entries += card.entries;
        longest = std::max(longest, card.entries);
        if (entries > sum.capacity())
          fail(WEIR_ERR_TRANSPORT, "the parts of a sparse sum have more than {} entries, which were expected at most",
               sum.capacity());
      }
      for (int rank = 0; rank < node.size(); ++rank) {
        const std::int64_t count = lists.part_cards.template of<PartCard>(rank).entries;
        const Entries<T> part = lists.shown_piece(rank, piece, count);
        const std::int64_t begin = memory.gathered[at(rank)] + piece * lists.piece();
        std::copy_n(part.indices, part.count, sum.indices.data() + begin);
        std::copy_n(part.values, part.count, sum.values.data() + begin);
      }
    }
    co_return sum.first(entries);
  }
};

/// Returns the sum of a slice over the nodes, as the costs expect it.
SumProblem expected_across(const SumProblem& problem) {
  const int nodes = problem.ranks / problem.per_node;
  const double list = static_cast<double>(problem.total) / problem.ranks;
  const double of_node = expected_union(list * problem.per_node, problem.per_node, static_cast<double>(problem.count));
  SumProblem across{nodes, std::max<std::int64_t>(1, problem.count / problem.per_node), 0, 0, problem.value_size};
  across.largest = static_cast<std::int64_t>(of_node / problem.per_node);
  across.total = nodes * across.largest;
  return across;
}

/// Returns the room for slices that are merged first, as the costs expect it, in bytes.
std::int64_t expected_room(const SumProblem& across) {
  const auto bytes = static_cast<std::int64_t>(
      expected_bytes(static_cast<double>(across.largest), static_cast<double>(across.count), across.value_size));
  return room_for_slices(bytes, across.ranks * bytes, across.ranks);
}

model::Setting setting_across(const model::Setting& setting) {
  model::Setting across = setting;
  across.all = setting.rings;
  return across;
}

SumNeed need_of_hierarchical(const SumProblem& problem) {
  const std::int64_t slice = std::min(problem.total, problem.largest * problem.per_node);
  return {{slice, slice, problem.most_entries()}, {}};
}

model::StepCost cost_of_hierarchical(const model::Setting& setting, const SumProblem& problem) {
  const int per_node = problem.per_node;
  const double count = static_cast<double>(problem.count), list = static_cast<double>(problem.total) / problem.ranks;
  SumProblem of_node = problem;
  of_node.ranks = per_node;
  model::StepCost cost;
  cost.seconds = merge_seconds(setting, of_node, list / per_node, count / per_node);
  if (has_nodes(problem)) {
    const SumProblem across = expected_across(problem);
    const bool merges_first = problem.total <= entries_to_merge_first * across.ranks;
    if (!merges_first) cost += setting.network.allgather(setting.rings, 16);
    if (const std::int64_t room = merges_first ? expected_room(across) : 0; room > 0) {
      cost += setting.network.allgather(setting.rings, static_cast<double>(room));
      const model::StepCost saved = setting.network.allgather(setting.rings, 0);
      cost.seconds += gather_seconds(setting_across(setting), across) - saved.seconds;
      cost.steps -= saved.steps;
    } else {
      cost += choose_across(setting, problem).cost(setting_across(setting), across);
    }
  }
  // The sum is copied twice. `fill` was measured with elements of 4 bytes.
  const double sum = expected_union(static_cast<double>(problem.total), problem.ranks, count);
  cost.seconds += setting.network.all_to_all(setting.node, 0, per_node).seconds +
                  2 * sum * static_cast<double>(8 + problem.value_size) / 4 / rates_of_sums(setting.machine).fill;
  return cost;
}

}  // namespace

const SumRow& choose_across(const model::Setting& setting, const SumProblem& problem) {
  return choose_sum(setting_across(setting), expected_across(problem));
}

extern const SumRow hierarchical_sum_row{.name = "hierarchical",
                                         .description = "sums in nodes in shared memory, and slices of these sums across nodes",
                                         .cost = cost_of_hierarchical,
                                         .need = need_of_hierarchical,
                                         .needs = Shown::nodes,
                                         .run = sum_functions<HierarchicalSum>};

}  // namespace weir::sums
