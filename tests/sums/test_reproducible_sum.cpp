// reproducible_sum: the same bits on any number of ranks, however entries are divided among them and ordered.
#include <algorithm>
#include <bit>
#include <limits>

#include "kernels/kernels.hpp"
#include "sums/sum_oracle.hpp"
#include "sums/sum_row.hpp"
#include "support/allocation_count.hpp"
#include "support/catch.hpp"
#include "support/exact_sum.hpp"
#include "support/inproc_ranks.hpp"
#include "support/rank_check.hpp"
#include "support/same_errors.hpp"
#include "support/thinning.hpp"

namespace weir::test {
namespace {

constexpr std::array numbers_of_ranks = {1, 2, 3, 4, 5, 7, 16, 33};
constexpr std::int64_t largest_dense = 5000;

std::vector<std::string> algorithms_that_keep_terms() {
  std::vector<std::string> names = {"auto"};
  for (const sums::SumRow* row : sums::sum_registry()) {
    if (row->keeps_terms) names.emplace_back(row->name);
  }
  return names;
}

enum class Values { alike, mixed, cancelling, subnormal, special };
constexpr std::array all_values = {Values::alike, Values::mixed, Values::cancelling, Values::subnormal, Values::special};

template <class T>
T signed_power(Dice& dice, int least, int most) {
  const auto magnitude =
      static_cast<T>(std::ldexp(1 + static_cast<double>(dice.between(0, 1 << 30)) * 0x1p-30, dice.small(least, most)));
  return dice.chance(50) ? magnitude : -magnitude;
}

template <class T>
T nan_of(Dice& dice) {
  const auto payload = static_cast<Key<T>>(dice.between(1, 99));
  return std::bit_cast<T>(static_cast<Key<T>>(std::bit_cast<Key<T>>(std::numeric_limits<T>::infinity()) + payload));
}

template <class T>
T value_of(Dice& dice, Values kind, const SumList<T>& before) {
  constexpr int most = sizeof(T) == 4 ? 100 : 1000, least = sizeof(T) == 4 ? -149 : -1074;
  if (dice.chance(10)) return dice.chance(50) ? T{0} : static_cast<T>(-0.0);
  switch (kind) {
    case Values::alike:
      return signed_power<T>(dice, -3, 3);
    case Values::cancelling:
      return !before.empty() && dice.chance(50) ? -dice.one_of(before).value : signed_power<T>(dice, -60, 60);
    case Values::subnormal:
      return signed_power<T>(dice, least, least + 40);
    case Values::special:
      if (dice.chance(3)) return std::numeric_limits<T>::infinity();
      if (dice.chance(3)) return -std::numeric_limits<T>::infinity();
      if (dice.chance(3)) return nan_of<T>(dice);
      [[fallthrough]];
    case Values::mixed:
      break;
  }
  return signed_power<T>(dice, least, most);
}

/// Returns entries at about `places` indices, some of which have most of the entries.
template <class T>
SumList<T> entries_of(Dice& dice, Values kind, std::int64_t count, std::int64_t places, int entries) {
  SumList<T> list;
  const std::int64_t first = dice.between(0, count - 1), stride = std::max<std::int64_t>(1, count / places);
  while (std::ssize(list) < entries) {
    const std::int64_t place = dice.chance(30) ? 0 : dice.between(0, places - 1);
    list.push_back({(first + place * stride) % count, value_of(dice, kind, list)});
  }
  return list;
}

/// Returns the sum of terms, one at a time.
template <class T>
T slow_sum(const std::vector<T>& terms) {
  std::vector<T> others;
  for (const T term : terms) {
    if (term != 0) others.push_back(term);
  }
  double sum = 0;
  if (others.size() > 2) {
    ReproducibleTotal total;
    for (const T term : others) kernels::reference::add_to_total(&term, 1, total);
    sum = total.value();
  } else if (!others.empty()) {
    sum = others.size() == 1 ? others[0] : others[0] + others[1];  // in T
  }
  return std::isnan(sum) ? std::numeric_limits<T>::quiet_NaN() : static_cast<T>(sum);
}

template <class T>
std::map<std::int64_t, std::vector<T>> terms_of(const SumList<T>& entries) {
  std::map<std::int64_t, std::vector<T>> terms;
  for (const SumEntry<T>& entry : entries) terms[entry.index].push_back(entry.value);
  return terms;
}

template <class T>
SumMap<T> slow_sums(const SumList<T>& entries) {
  SumMap<T> sums;
  for (const auto& [index, terms] : terms_of(entries)) sums.emplace(index, slow_sum(terms));
  return sums;
}

/// Divides entries among ranks, in any order: evenly, all to few ranks, or by index.
template <class T>
std::vector<SumList<T>> deal(Dice& dice, const SumList<T>& entries, int ranks, std::int64_t count) {
  std::vector<SumList<T>> lists(static_cast<std::size_t>(ranks));
  const int kind = dice.small(0, 2), few = dice.small(0, ranks - 1);
  for (const std::size_t i : dice.order(entries.size())) {
    const int rank = kind == 0   ? dice.small(0, ranks - 1)
                     : kind == 1 ? dice.small(std::max(0, few - 1), few)
                                 : static_cast<int>(static_cast<double>(entries[i].index) / static_cast<double>(count) * ranks);
    lists[static_cast<std::size_t>(std::min(rank, ranks - 1))].push_back(entries[i]);
  }
  return lists;
}

template <class T>
struct Case {
  std::string text;
  std::int64_t count;
  SumMap<T> sum;
  std::vector<SumList<T>> given;
};

template <class T>
void check_case(RankCheck& check, Communicator& comm, const std::string& algorithm, const Case<T>& tried) {
  const std::string text = tried.text + " " + algorithm;
  SparseSum sum(comm, {.count = tried.count,
                       .type = detail::sum_type_of<T>,
                       .operation = SumOperation::reproducible_sum,
                       .expected_entries = 3,
                       .algorithm = algorithm});
  const Given<T> mine(tried.given[static_cast<std::size_t>(comm.rank())]);
  const std::int64_t begin = sum.range_begin(comm.rank()), end = sum.range_begin(comm.rank() + 1);
  sum.run(mine.input());
  check.that(same_sum(sum.result<T>(), tried.sum, 0, tried.count), text + ": the sum");
  sum.run_reduce_scatter(mine.input());
  check.that(same_sum(sum.result<T>(), tried.sum, begin, end), text + ": the sum in this rank's range");
  if (tried.count > largest_dense) return;
  for (const bool adds : {false, true}) {
    const T before = static_cast<T>(0.3);
    std::vector<T> whole(static_cast<std::size_t>(tried.count), before);
    sum.run(mine.input(), adds ? SumOutput::add(whole) : SumOutput::write(whole));
    for (std::int64_t i = 0; i < tried.count; ++i) {
      const auto entry = tried.sum.find(i);
      const T there = entry == tried.sum.end() ? T{0} : entry->second, expected = adds ? before + there : there;
      const T found = whole[static_cast<std::size_t>(i)];
      check.that(same_value(found, expected) || (std::isnan(found) && std::isnan(expected)), text + ": the dense sum");
    }
  }
}

template <class T>
void check_type() {
  for (const int ranks : numbers_of_ranks) {
    std::vector<Case<T>> cases;
    std::uint64_t seed = 0;
    for (const Values kind : all_values) {
      for (const std::int64_t count :
           {std::int64_t{1}, std::int64_t{7}, std::int64_t{130}, largest_dense, (std::int64_t{1} << 33) + 5}) {
        for (const std::int64_t places : {std::int64_t{1}, std::min<std::int64_t>(count, 5), std::min<std::int64_t>(count, 300)}) {
          ++seed;
          if (left_out(4) || (ranks > 8 && seed % 3 != 0)) continue;
          Dice entries_dice(seed), dice(seed * 1000 + static_cast<std::uint64_t>(ranks));  // the same entries for all P
          const int entries = entries_dice.one_of({0, 1, 2, 40, 700});
          const auto list = entries_of<T>(entries_dice, kind, count, places, entries);
          cases.push_back({"P " + std::to_string(ranks) + " n " + std::to_string(count) + " places " + std::to_string(places) +
                               " values " + std::to_string(static_cast<int>(kind)) + " entries " + std::to_string(entries),
                           count, slow_sums(list), deal(dice, list, ranks, count)});
        }
      }
    }
    RankCheck check;
    run_ranks(ranks, [&](Communicator& comm) {
      for (const Case<T>& tried : cases) {
        for (const std::string& algorithm : algorithms_that_keep_terms()) check_case(check, comm, algorithm, tried);
      }
    });
    REQUIRE(check.failure() == "");
  }
}

template <class T>
void check_terms() {
  Dice dice(3);
  for (int round = 0; round < 3000; ++round) {
    const auto list = entries_of<T>(dice, dice.one_of(all_values), 1, 1, dice.one_of({1, 2, 3, 4, 9, 70}));
    std::vector<T> terms = Given<T>(list).values, shuffled;
    for (const std::size_t i : dice.order(terms.size())) {
      while (dice.chance(20)) shuffled.push_back(dice.chance(50) ? T{0} : static_cast<T>(-0.0));
      shuffled.push_back(terms[i]);
    }
    const T sum = sums::sum_of_terms(terms.data(), std::ssize(terms));
    REQUIRE(same_value(sum, slow_sum(terms)));
    REQUIRE(same_value(sum, sums::sum_of_terms(shuffled.data(), std::ssize(shuffled))));
    if (!std::isfinite(sum)) continue;

    double largest = 0;
    std::vector<double> wide(terms.begin(), terms.end());
    for (const double term : wide) largest = std::max(largest, std::abs(term));
    const double result = static_cast<double>(sum), dropped = static_cast<double>(terms.size()) * largest * 0x1p-85;
    const double half = std::max(std::abs(result) * static_cast<double>(std::numeric_limits<T>::epsilon()) / 2,
                                 static_cast<double>(std::numeric_limits<T>::denorm_min()) / 2);
    REQUIRE(error_of_sum(result, wide) <= dropped + half * (sizeof(T) == 4 ? 1.0001 : 1));  // float32 is rounded twice
  }
}

}  // namespace

TEST_CASE("float32: reproducible_sum gives the same bits however entries are dealt to ranks", "[sums]") { check_type<float>(); }
TEST_CASE("float64: reproducible_sum gives the same bits however entries are dealt to ranks", "[sums]") { check_type<double>(); }

TEST_CASE("sums of terms do not depend on order and zeros, and are near to the exact sum", "[sums]") {
  check_terms<float>();
  check_terms<double>();
}

TEST_CASE("special terms have the sums that are documented", "[sums]") {
  constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN(),
                   most = std::numeric_limits<double>::max();
  const auto sum_of = [](const std::vector<double>& terms) { return sums::sum_of_terms(terms.data(), std::ssize(terms)); };
  REQUIRE(same_value(sum_of({-0.0}), 0.0));
  REQUIRE(same_value(sum_of({-0.0, -0.0, 0.0, -0.0}), 0.0));
  REQUIRE(same_value(sum_of({-std::bit_cast<double>(0x7ff0000000000001ULL)}), nan));
  REQUIRE(same_value(sum_of({infinity, -infinity}), nan));
  REQUIRE(same_value(sum_of({infinity, 1, -infinity, 2}), nan));
  REQUIRE(sum_of({1, -infinity, 2, 3}) == -infinity);
  REQUIRE(sum_of({most, -most, most, -most, 3, -1}) == 0);
  REQUIRE(sum_of({most, most, -1}) == infinity);
  REQUIRE(sum_of({1e300, 1, -1e300}) == 0);  // 1 is below the last unit
  REQUIRE(sum_of({0x1p53, 1, 0x1p-20}) == 0x1p53 + 2);
}

TEST_CASE("reproducible_sum of integers is their sum, with every algorithm", "[sums]") {
  for (const int ranks : {1, 3, 8}) {
    const auto input = sum_input<std::int32_t>("clustered", ranks, 200, 5);
    const auto oracle = sum_oracle(SumOperation::sum, input);
    RankCheck check;
    run_ranks(ranks, [&](Communicator& comm) {
      const Given<std::int32_t> mine(input[static_cast<std::size_t>(comm.rank())]);
      for (const sums::SumRow* row : sums::sum_registry()) {
        SparseSum sum(comm, {.count = 200,
                             .type = SumType::int32,
                             .operation = SumOperation::reproducible_sum,
                             .algorithm = std::string(row->name)});
        sum.run(mine.input());
        check.that(same_sum(sum.result<std::int32_t>(), oracle, 0, 200), std::string(row->name));
      }
    });
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("an algorithm that adds on the way is refused, naming those that do not", "[sums]") {
  for (const sums::SumRow* row : sums::sum_registry()) {
    if (row->keeps_terms) continue;
    const std::string text =
        "algorithm '" + std::string(row->name) + "' cannot make a reproducible_sum of float32: gather, split, ";
    REQUIRE(unlike_errors(3, WEIR_ERR_ARGUMENT, text, [&](Communicator& comm) {
              const SparseSum sum(comm, {.count = 10,
                                         .type = SumType::float32,
                                         .operation = SumOperation::reproducible_sum,
                                         .algorithm = std::string(row->name)});
            }) == "");
  }
}

TEST_CASE("auto takes only algorithms that keep terms for a reproducible_sum", "[sums]") {
  const Machine& machine = builtin_machine();
  for (const int ranks : {2, 64}) {
    for (const std::int64_t each : {1, 40000, 1 << 22}) {
      const sums::SumProblem problem{ranks, 1 << 22, ranks * each, each, 8, false, true};
      const Problem places{.ranks = ranks, .nodes = ranks};
      REQUIRE(choose_sum(model::Setting(machine, places), problem).keeps_terms);
    }
  }
}

TEST_CASE("a reproducible_sum allocates nothing while counts do not grow", "[sums]") {
  for (const std::string& algorithm : algorithms_that_keep_terms()) {
    RankCheck check;
    run_ranks(4, [&](Communicator& comm) {
      Dice dice(static_cast<std::uint64_t>(comm.rank()));
      const Given<double> mine(entries_of<double>(dice, Values::mixed, 2000, 300, 300));
      SparseSum sum(comm,
                    {.count = 2000, .operation = SumOperation::reproducible_sum, .expected_entries = 300, .algorithm = algorithm});
      const auto run = [&] {
        sum.run(mine.input());
        sum.run_reduce_scatter(mine.input());
      };
      for (int i = 0; i < 5; ++i) run();
      const std::int64_t before = allocations_of_this_thread();
      for (int i = 0; i < 5; ++i) run();
      const std::int64_t allocations = allocations_of_this_thread() - before;
      check.that(allocations == 0, algorithm + ": " + std::to_string(allocations) + " allocations");
    });
    REQUIRE(check.failure() == "");
  }
}

}  // namespace weir::test
