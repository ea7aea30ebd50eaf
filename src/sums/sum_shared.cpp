#include <algorithm>

#include "collectives/allgatherv.hpp"
#include "sums/node_lists.hpp"
#include "sums/sum_row.hpp"

namespace weir::sums {
namespace {

/// The least entries of a rank, on average, for which each rank merges a part. To merge fewer takes less time than to wait again.
constexpr std::int64_t entries_for_parts = 2048;

bool merges_parts(const SumProblem& problem) {
  return !problem.scatters && !problem.keeps_terms && problem.ranks > 2 && problem.total >= entries_for_parts * problem.ranks;
}

/// Returns a bound on the entries of a part: an index does not divide, and may be in each list.
std::int64_t most_in_part(const SumProblem& problem) { return problem.total / problem.ranks + problem.ranks + 1; }

/// Reads the lists of all ranks where these have written them, which must be on one node. If there are few entries, each rank
/// merges all of them. Otherwise each rank merges a part of the array with as many entries as the others' parts, and all read the
/// sums. Nothing is sent.
template <class T>
struct SharedSum {
  static task<Entries<T>> run(Channel channel, SumRun<T>& run) {
    const SumProblem& problem = run.problem;
    const int me = channel.rank();
    const auto count = static_cast<std::uint64_t>(problem.count);
    StageScope stage = channel.stage(Stage::sum);
    if (problem.scatters)
      co_return merge_shown(run, channel.topology().node_peers(), static_cast<std::int64_t>(part_begin(count, me, problem.ranks)),
                            static_cast<std::int64_t>(part_begin(count, me + 1, problem.ranks)));
    if (!merges_parts(problem)) co_return merge_shown(run, channel.topology().node_peers(), 0, problem.count);
    NodeLists<T>& node = *run.node;
    const Entries<T> mine = merge_shown(run, channel.topology().node_peers(), boundary(run, me), boundary(run, me + 1));
    node.show_part(mine);
    *reinterpret_cast<typename NodeLists<T>::PartCard*>(node.part_cards.mine()) = {mine.count, 0};
    node.part_cards.publish();
    stage.next(Stage::allgather);
    co_await channel.done(node.part_cards);
    EntryMemory<T>& sum = run.memory.lists[2];
    std::int64_t entries = 0;
    for (int rank = 0; rank < problem.ranks; ++rank) {
      const Entries<T> part = node.shown_part(rank);
      std::copy_n(part.indices, part.count, sum.indices.data() + entries);
      std::copy_n(part.values, part.count, sum.values.data() + entries);
      entries += part.count;
    }
    co_return sum.first(entries);
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  /// Returns the first index of a rank's part. All ranks compute the same.
  static std::int64_t boundary(const SumRun<T>& run, int rank) {
    const auto before =
        static_cast<std::int64_t>(part_begin(static_cast<std::uint64_t>(run.problem.total), rank, run.problem.ranks));
    std::int64_t low = 0, high = run.problem.count;
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      std::int64_t below = 0;
      for (int other = 0; other < run.problem.ranks; ++other)
        below += run.node->shown(other, run.counts[at(other)]).lower_bound(middle);
      if (below < before)
        low = middle + 1;
      else
        high = middle;
    }
    return low;
  }
};

SumNeed need_of_shared(const SumProblem& problem) {
  if (!merges_parts(problem)) return {{problem.total, problem.total, 0}, {}};
  return {{most_in_part(problem), most_in_part(problem), problem.most_entries()}, {}};
}

model::StepCost cost_of_shared(const model::Setting& setting, const SumProblem& problem) {
  const double ranks = problem.ranks, count = static_cast<double>(problem.count), list = static_cast<double>(problem.total) / ranks;
  const double wait = setting.network.all_to_all(setting.all, 0, problem.ranks).seconds;  // all look at all others
  if (!merges_parts(problem)) {
    const double share = problem.scatters ? 1 / ranks : 1;
    return {.seconds = wait + merge_seconds(setting, problem, list * share, count * share)};
  }
  // The sum is copied twice. `fill` was measured with elements of 4 bytes.
  const double sum = expected_union(static_cast<double>(problem.total), problem.ranks, count);
  const double copies = 2 * sum * static_cast<double>(8 + problem.value_size) / 4 / rates_of_sums(setting.machine).fill;
  return {.seconds = 2 * wait + merge_seconds(setting, problem, list / ranks, count / ranks) + copies};
}

}  // namespace

extern const SumRow shared_sum_row{.name = "shared",
                                   .description = "merges the lists of all ranks of a node in its shared memory",
                                   .cost = cost_of_shared,
                                   .need = need_of_shared,
                                   .keeps_terms = true,
                                   .needs = Shown::node,
                                   .run = sum_functions<SharedSum>};

}  // namespace weir::sums
