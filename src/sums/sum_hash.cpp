#include <algorithm>
#include <bit>

#include "sums/region_sum.hpp"
#include "sums/stripes.hpp"

namespace weir::sums {
namespace {

/// Returns log2 of a stripe's length. Short stripes balance better, and long ones are dealt faster.
int stripe_bits(const SumProblem& problem) {
  constexpr int most = 8, rounds = 16;
  const auto length = static_cast<std::uint64_t>(problem.count / rounds / problem.ranks);
  return std::clamp(static_cast<int>(std::bit_width(length)) - 1, 0, most);
}

/// Divides the array into stripes. Places travel, in lists[2] from begin_[rank] on.
template <class T>
class StripedParts {
 public:
  StripedParts(SumRun<T>& run, int me)
      : run_(run), me_(me), stripes_(run.problem.count, run.problem.ranks, stripe_bits(run.problem)) {}

  static SumNeed need(const SumProblem& problem, std::int64_t part) {
    const std::int64_t result = problem.most_entries();
    SumNeed need = Regions<T>::need(problem, part);
    need.entries[1] = std::max(part, result);
    need.entries[2] = std::max(problem.largest, result);
    return need;
  }

  void deal() {
    auto& memory = run_.memory;
    const Entries<T>& own = run_.own;
    std::fill(memory.counts_out.begin(), memory.counts_out.end(), 0);
    for_each_stripe([&](const Stripes::Stripe& stripe, std::int64_t begin, std::int64_t end) {
      memory.counts_out[static_cast<std::size_t>(stripe.rank)] += end - begin;
    });
    std::int64_t entries = 0;
    for (std::size_t rank = 0; rank < memory.counts_out.size(); ++rank) {
      memory.begins[rank] = entries;
      entries += memory.counts_out[rank];
    }
    EntryMemory<T>& dealt = memory.lists[2];
    for_each_stripe([&](const Stripes::Stripe& stripe, std::int64_t begin, std::int64_t end) {
      std::int64_t& to = memory.begins[static_cast<std::size_t>(stripe.rank)];
      for (std::int64_t i = begin; i < end; ++i, ++to) {
        dealt.indices[to] = own.indices[i] - stripe.before;
        dealt.values[to] = own.values[i];
      }
    });
  }
  [[nodiscard]] Entries<T> part(int rank) const {
    const auto at = static_cast<std::size_t>(rank);
    const std::int64_t end = run_.memory.begins[at];
    return run_.memory.lists[2].first(end).part(end - run_.memory.counts_out[at], end);
  }
  [[nodiscard]] Entries<T> own_part(std::int64_t begin) {
    const Entries<T> mine = part(me_);
    std::int64_t* const indices = run_.memory.lists[0].indices.data() + begin;
    T* const values = run_.memory.lists[0].values.data() + begin;
    std::copy_n(mine.indices, mine.count, indices);
    std::copy_n(mine.values, mine.count, values);
    restore(me_, indices, mine.count);
    return {indices, values, mine.count};
  }
  [[nodiscard]] std::int64_t base(int) const { return 0; }
  [[nodiscard]] std::int64_t range(int rank) const { return stripes_.places(rank); }
  void restore(int rank, std::int64_t* indices, std::int64_t count) const {
    for (std::int64_t i = 0; i < count;) {
      const Stripes::Stripe stripe = stripes_.with_place(rank, indices[i]);
      const std::int64_t last = stripe.last_place();
      do indices[i++] += stripe.before;
      while (i < count && indices[i] <= last);
    }
  }
  [[nodiscard]] Entries<T> travelling(const Entries<T>& sum) {
    std::int64_t* const places = run_.memory.lists[2].indices.data();
    for (std::int64_t i = 0; i < sum.count;) {
      const Stripes::Stripe stripe = stripes_.with_index(sum.indices[i]);
      for (; i < sum.count && sum.indices[i] <= stripe.last; ++i) places[i] = sum.indices[i] - stripe.before;
    }
    return {places, sum.values, sum.count};
  }
  /// Collects stripe by stripe if they have entries, and sorts by stripes if most have none.
  [[nodiscard]] Entries<T> assembled(std::int64_t count) {
    EntryMemory<T>&from = run_.memory.lists[2], &to = run_.memory.lists[1];
    if (run_.problem.count >> stripes_.bits() > count)
      return (sort_entries(from, to, count, run_.problem.count, stripes_.bits()) ? to : from).first(count);
    auto& next = run_.memory.begins;
    std::int64_t begin = 0;
    for (std::size_t rank = 0; rank < next.size(); ++rank) {
      next[rank] = begin;
      begin += run_.memory.gathered[rank];
      run_.memory.offset[rank] = begin;
    }
    std::int64_t entries = 0;
    for (std::int64_t index = 0; entries < count;) {
      const Stripes::Stripe stripe = stripes_.with_index(index);
      const auto rank = static_cast<std::size_t>(stripe.rank);
      std::int64_t i = next[rank];
      for (const std::int64_t end = run_.memory.offset[rank]; i < end && from.indices[i] <= stripe.last; ++i, ++entries) {
        to.indices[entries] = from.indices[i];
        to.values[entries] = from.values[i];
      }
      next[rank] = i;
      index = stripe.last + 1;
    }
    return to.first(count);
  }

 private:
  /// Calls visit(stripe, begin, end) for entries [begin, end) of this rank that a stripe has.
  template <class Visit>
  void for_each_stripe(const Visit& visit) const {
    const Entries<T>& own = run_.own;
    for (std::int64_t begin = 0, end = 0; begin < own.count; begin = end) {
      const Stripes::Stripe stripe = stripes_.with_index(own.indices[begin]);
      do ++end;
      while (end < own.count && own.indices[end] <= stripe.last);
      visit(stripe, begin, end);
    }
  }

  SumRun<T>& run_;
  int me_;
  Stripes stripes_;
};

/// Deals the indices to ranks by a hash, sums each rank's at it, and gathers the sums (Zen, Wang et al. 2023). No samples travel,
/// and clustered indices balance. Zen hashes single indices and gathers the sums with a bitmap; here stripes of neighbours stay
/// together and in order, so that indices are as short as those of contiguous ranges. Each rank sends at most the messages of its
/// own entries, and those of the sum's. A reduce-scatter needs contiguous ranges, and takes them.
template <class T>
struct HashSum {
  static task<Entries<T>> run(Channel channel, SumRun<T>& run) {
    if (run.problem.scatters) {
      uniform_boundaries(static_cast<std::uint64_t>(run.problem.count), run.memory.boundaries);
      Regions<T> ranges(run, channel.rank());
      RegionSum<T, Regions<T>> sums(channel, run, ranges);
      co_return co_await sums.sum(true);
    }
    StripedParts<T> parts(run, channel.rank());
    RegionSum<T, StripedParts<T>> sums(channel, run, parts);
    co_return co_await sums.sum(true);
  }
};

SumNeed need_of_hash(const SumProblem& problem) {
  const std::int64_t part = usual_part(problem);
  return problem.scatters ? Regions<double>::need(problem, part) : StripedParts<double>::need(problem, part);
}

model::StepCost cost_of_hash(const model::Setting& setting, const SumProblem& problem) {
  model::StepCost cost = owners_cost(setting, problem, true);
  if (problem.scatters) return cost;
  // The own entries are dealt, and the sum is put in order.
  const double sum = expected_union(static_cast<double>(problem.total), problem.ranks, static_cast<double>(problem.count));
  cost.seconds += (static_cast<double>(problem.largest) + 2 * sum) / rates_of_sums(setting.machine).decode;
  return cost;
}

}  // namespace

extern const SumRow hash_sum_row{.name = "hash",
                                 .description = "sums stripes at the rank that a hash picks, and gathers the sums",
                                 .cost = cost_of_hash,
                                 .need = need_of_hash,
                                 .keeps_terms = true,
                                 .run = sum_functions<HashSum>};

}  // namespace weir::sums
