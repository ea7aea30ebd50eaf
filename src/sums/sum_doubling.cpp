#include <algorithm>
#include <array>
#include <bit>

#include "sums/entry_code.hpp"
#include "sums/sum_row.hpp"

namespace weir::sums {
namespace {

/// Recursive doubling (SparCML, Renggli et al. 2019): in each step two ranks exchange what they have summed so far, and both merge.
/// As sums fill in, their messages turn to bitmaps, and then to plain values. Ranks beyond a power of two first join their
/// neighbours, and get the sum from them. Each rank sends log2 P messages of at most the sum's entries.
template <class T>
struct DoublingSum {
  static task<Entries<T>> run(Channel channel, SumRun<T>& run) {
    const int me = channel.rank(), groups = std::bit_floor(static_cast<unsigned>(channel.size()));
    const int pairs = channel.size() - groups;
    const auto first = [pairs](int group) { return group < pairs ? 2 * group : group + pairs; };
    Entries<T> sum = run.own;
    int free = 0;  // a list in which `sum` is not
    const StageScope stage = channel.stage(Stage::reduce_tree);

    // 1. pairs, until a power of two is left
    if (me < 2 * pairs && me % 2 == 1) {
      co_await swap_lists(channel, run, me - 1, &sum, nullptr);
      co_return co_await swap_lists(channel, run, me - 1, nullptr, &run.memory.lists[0]);
    }
    if (me < 2 * pairs) {
      const Entries<T> upper = co_await swap_lists(channel, run, me + 1, nullptr, &run.memory.lists[at(free)]);
      sum = merged(run, sum, upper, free);
    }

    // 2. doubling
    const int group = me < 2 * pairs ? me / 2 : me - pairs;
    for (int distance = 1; distance < groups; distance *= 2) {
      const int partner = group ^ distance;
      const Entries<T> other = co_await swap_lists(channel, run, first(partner), &sum, &run.memory.lists[at(free)]);
      sum = group < partner ? merged(run, sum, other, free) : merged(run, other, sum, free);
    }

    // 3. the sum for the other rank of a pair
    if (me < 2 * pairs) co_await swap_lists(channel, run, me + 1, &sum, nullptr);
    co_return sum;
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  /// Merges two lists, one of them in list `free`, into the next list. Then the one after that is free.
  static Entries<T> merged(SumRun<T>& run, const Entries<T>& lower, const Entries<T>& upper, int& free) {
    EntryMemory<T>& to = run.memory.lists[at((free + 1) % 3)];
    const std::int64_t count = run.arithmetic->merge(lower, upper, to.indices.data(), to.values.data());
    free = (free + 2) % 3;
    return to.first(count);
  }

  /// Sends `mine` to a rank and receives its list `into` memory; either may be null.
  static task<Entries<T>> swap_lists(Channel channel, SumRun<T>& run, int peer, const Entries<T>* mine, EntryMemory<T>* into) {
    SumMemory<T>& memory = run.memory;
    auto& [out, in] = memory.pair_counts[0];
    out = mine != nullptr ? mine->count : 0;
    in = 0;
    std::array<Request, 2> both;
    if (into != nullptr) both[0] = channel.receive(&in, 8, peer, Traffic::control);
    if (mine != nullptr) both[1] = channel.send(&out, 8, peer, Traffic::control);
    co_await channel.done(both);

    const std::int64_t range = run.problem.count;
    both = {};
    if (in > 0) both[0] = channel.receive(memory.messages[1].data(), message_bytes<T>(in, range), peer, Traffic::payload);
    if (out > 0) {
      encode_entries(*mine, 0, range, memory.messages[0].data());
      both[1] = channel.send(memory.messages[0].data(), message_bytes<T>(out, range), peer, Traffic::payload);
    }
    co_await channel.done(both);
    if (into == nullptr) co_return Entries<T>();
    decode_entries(memory.messages[1].data(), in, 0, range, into->indices.data(), into->values.data());
    co_return into->first(in);
  }
};

SumNeed need_of_doubling(const SumProblem& problem) {
  const std::int64_t bytes = problem.message_bytes(problem.most_entries(), 1);
  const std::int64_t both = std::min(problem.total, 2 * problem.count);  // a merge needs room for both lists
  return {{both, both, both}, {bytes, bytes}};
}

model::StepCost cost_of_doubling(const model::Setting& setting, const SumProblem& problem) {
  const model::Network& network = setting.network;
  const Rates rates = rates_of_sums(setting.machine);
  const double count = static_cast<double>(problem.count), list = static_cast<double>(problem.total) / problem.ranks;
  const int groups = static_cast<int>(std::bit_floor(static_cast<unsigned>(problem.ranks)));
  const bool has_pairs = groups < problem.ranks;
  model::StepCost cost;
  // A list, after its length; the receiver decodes and merges what it lacks.
  const auto add = [&](const auto& message, double entries, double merged) {
    cost += message(8.0);
    cost += message(expected_bytes(entries, count, problem.value_size));
    cost.seconds += entries / rates.encode + entries / rates.decode + merged / rates.merge;
  };
  const auto in_pair = [&](double bytes) { return network.tree_level(setting.all, 1, bytes); };
  if (has_pairs) add(in_pair, list, 2 * list);
  // Behind pairs, no partner is taken to be on the same node.
  const bool across = has_pairs && setting.problem.nodes > 1;
  const model::Group all = across ? model::Group{groups, 1, setting.all.per_node} : setting.all;
  for (int distance = 1; distance < groups; distance *= 2) {
    const int ranks = has_pairs ? std::min(problem.ranks, 2 * distance) : distance;  // in the largest list
    const double entries = expected_union(list * ranks, ranks, count);
    add([&](double bytes) { return network.mirror(all, distance, bytes); }, entries, 2 * entries);
  }
  if (has_pairs) add(in_pair, expected_union(list * problem.ranks, problem.ranks, count), 0);
  return cost;
}

}  // namespace

extern const SumRow doubling_sum_row{.name = "doubling",
                                     .description = "pairs of ranks exchange and merge, at doubling distances",
                                     .cost = cost_of_doubling,
                                     .need = need_of_doubling,
                                     .run = sum_functions<DoublingSum>};

}  // namespace weir::sums
