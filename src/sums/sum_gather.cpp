#include "sums/region_sum.hpp"

namespace weir::sums {
namespace {

/// Gathers all lists on all ranks, and merges them everywhere. Each rank sends at most the messages of all lists together.
template <class T>
struct GatherSum {
  static task<Entries<T>> run(Channel channel, SumRun<T>& run) {
    const int me = channel.rank(), ranks = channel.size();
    const std::int64_t count = run.problem.count;
    const bool repeats = run.problem.keeps_terms;
    SumMemory<T>& memory = run.memory;
    const auto at = [](int i) { return static_cast<std::size_t>(i); };

    // 1. gather: the block of rank (me + i) mod P at offset[i]
    StageScope stage = channel.stage(Stage::allgatherv);
    std::byte* const blocks = memory.messages[0].data();
    if (run.carried.first == nullptr) {
      memory.offset[0] = 0;
      for (int i = 0; i < ranks; ++i)
        memory.offset[at(i) + 1] = memory.offset[at(i)] + message_bytes<T>(run.counts[at((me + i) % ranks)], count, repeats);
      encode_entries(run.own, 0, count, blocks, repeats);
      co_await gather_messages(channel, memory.offset, blocks);
    }
    const auto block_of = [&](int rank) {
      return run.carried.first != nullptr ? run.carried.of(rank) : blocks + memory.offset[at((rank - me + ranks) % ranks)];
    };

    // 2. merge, the list of rank r at gathered[r]
    stage.next(Stage::sum);
    EntryMemory<T>& list = memory.lists[0];
    std::int64_t begin = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::int64_t entries = run.counts[at(rank)];
      memory.gathered[at(rank)] = begin;
      memory.parts[at(rank)] = {{list.indices.data() + begin, list.values.data() + begin, entries}, 0};
      if (rank == me)
        memory.parts[at(rank)].entries = run.own;
      else
        decode_entries(block_of(rank), entries, 0, count, list.indices.data() + begin, list.values.data() + begin, repeats);
      begin += entries;
    }
    co_return merge_parts(run, std::span<const std::int64_t>(memory.gathered));
  }
};

SumNeed need_of_gather(const SumProblem& problem) {
  return {{problem.total, problem.total, 0}, {problem.message_bytes(problem.total, problem.ranks), 0}};
}

double entries_of_list(const SumProblem& problem) { return static_cast<double>(problem.total) / problem.ranks; }

model::StepCost cost_of_gather(const model::Setting& setting, const SumProblem& problem) {
  const double bytes = expected_bytes(entries_of_list(problem), static_cast<double>(problem.count), problem.value_size);
  model::StepCost cost = gather_blocks(setting, bytes);
  cost.seconds += gather_seconds(setting, problem);
  return cost;
}

}  // namespace

double gather_seconds(const model::Setting& setting, const SumProblem& problem) {
  const Rates rates = rates_of_sums(setting.machine);
  const double list = entries_of_list(problem);
  return list / rates.encode + (problem.ranks - 1) * list / rates.decode +
         merge_seconds(setting, problem, list, static_cast<double>(problem.count));
}

extern const SumRow gather_sum_row{.name = "gather",
                                   .description = "gathers all entries on all ranks, and merges them everywhere",
                                   .cost = cost_of_gather,
                                   .need = need_of_gather,
                                   .keeps_terms = true,
                                   .run = sum_functions<GatherSum>};

}  // namespace weir::sums
