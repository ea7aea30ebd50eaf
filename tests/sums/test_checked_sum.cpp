// checked_sum: an addition that overflows on any rank is the same error on all, and nothing has changed.
#include <algorithm>
#include <limits>

#include "sums/sum_oracle.hpp"
#include "sums/sum_row.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/rank_check.hpp"
#include "support/same_errors.hpp"
#include "support/thinning.hpp"

namespace weir::test {
namespace {

constexpr std::array numbers_of_ranks = {1, 2, 3, 5, 7, 16, 33};

template <class T>
SparseSum make(Communicator& comm, std::int64_t count, const std::string& algorithm) {
  return SparseSum(comm, {.count = count,
                          .type = detail::sum_type_of<T>,
                          .operation = SumOperation::checked_sum,
                          .algorithm = algorithm,
                          .name = "hits"});
}

/// Returns whether any addition overflows in the order that SparseSum documents.
template <class T>
bool overflows(const std::vector<SumList<T>>& ranks) {
  static_assert(sizeof(T) == 4, "partial sums must fit");
  using Wide = std::int64_t;
  bool found = false;
  const auto add = [&](std::map<std::int64_t, Wide>& to, std::int64_t index, Wide value) {
    Wide& sum = to[index];
    sum += value;
    found |= sum > std::numeric_limits<T>::max() || sum < std::numeric_limits<T>::lowest();
  };
  std::vector<std::map<std::int64_t, Wide>> parts(ranks.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const SumEntry<T>& entry : ranks[rank]) add(parts[rank], entry.index, entry.value);
  }
  sums::combine_in_order(static_cast<int>(ranks.size()), [&](int a, int b) {
    for (const auto& [index, value] : parts[static_cast<std::size_t>(b)]) add(parts[static_cast<std::size_t>(a)], index, value);
  });
  return found;
}

/// Runs on every rank with what `given` has for it, and expects the same error on all, an untouched output and an empty result;
/// then a right run.
template <class T>
void check_overflow(const std::vector<SumList<T>>& given, const std::string& part, T before = 3) {
  constexpr std::int64_t count = 10;
  const auto ranks = static_cast<int>(given.size());
  for (const std::string& algorithm : algorithms_of_sums()) {
    for (const bool scatters : {false, true}) {
      SameErrors errors(ranks);
      run_ranks(ranks, [&](Communicator& comm) {
        SparseSum sum = make<T>(comm, count, algorithm);
        const Given<T> mine(given[static_cast<std::size_t>(comm.rank())]);
        const std::int64_t elements = scatters ? sum.range_begin(comm.rank() + 1) - sum.range_begin(comm.rank()) : count;
        for (const bool adds : {false, true}) {
          if (before != 3 && !adds) continue;
          std::vector<T> output(static_cast<std::size_t>(elements), comm.rank() == 0 ? T{3} : before);
          const std::vector<T> untouched = output;
          const SumOutput to = adds ? SumOutput::add(output) : SumOutput::write(output);
          errors.expect(comm.rank(), WEIR_ERR_ARGUMENT, part,
                        [&] { (scatters ? sum.start_reduce_scatter(mine.input(), to) : sum.start(mine.input(), to)).wait(); });
          errors.check().that(output == untouched, algorithm + ": an array was touched");
          errors.check().that(sum.result<T>().indices.empty(), algorithm + ": a result after an error");
          sum.run(SumInput::entries(std::vector<std::int64_t>{7}, std::vector<T>{1}));
          errors.check().that(sum.result<T>().values[0] == ranks, algorithm + ": the run after it");
          errors.check().that(sum.statistics().runs == 1 + (before == 3 && adds), algorithm + ": runs that ended well");
        }
      });
      INFO(algorithm << " P " << ranks << " scatters " << scatters);
      REQUIRE(errors.failure() == "");
    }
  }
}

}  // namespace

TEST_CASE("checked_sum is the sum, or an error if an addition overflows in the order of the ranks", "[sums]") {
  using T = std::int32_t;
  constexpr std::int64_t count = 40;
  int right = 0, wrong = 0;
  for (const int ranks : numbers_of_ranks) {
    for (int round = 0; round < 6; ++round) {
      if (left_out(2)) continue;
      Dice dice(static_cast<std::uint64_t>(ranks * 100 + round));
      std::vector<SumList<T>> given(static_cast<std::size_t>(ranks));
      for (auto& list : given) {
        for (int i = dice.small(0, 10); i > 0; --i)
          list.push_back({dice.between(0, count - 1), static_cast<T>(dice.between(-(1 << 30), 1 << 30) / (round < 3 ? ranks : 1))});
      }
      const auto oracle = sum_oracle(SumOperation::sum, given);
      const bool expects_error = overflows(given);
      (expects_error ? wrong : right) += 1;
      RankCheck check;
      run_ranks(ranks, [&](Communicator& comm) {
        const Given<T> mine(given[static_cast<std::size_t>(comm.rank())]);
        for (const std::string& algorithm : algorithms_of_sums()) {
          SparseSum sum = make<T>(comm, count, algorithm);
          bool failed = false;
          try {
            sum.run(mine.input());
          } catch (const Error& error) {
            failed = error.status() == WEIR_ERR_ARGUMENT;
          }
          check.that(failed == expects_error, algorithm + ": whether it overflows");
          check.that(failed ? sum.result<T>().indices.empty() : same_sum(sum.result<T>(), oracle, 0, count),
                     algorithm + ": the sum");
        }
      });
      INFO("P " << ranks << " round " << round);
      REQUIRE(check.failure() == "");
    }
  }
  REQUIRE((right > 0 && wrong > 0));
}

TEST_CASE("additions that overflow are the same error on all ranks", "[sums]") {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max(), least = std::numeric_limits<std::int64_t>::lowest();
  constexpr std::int32_t narrow_most = std::numeric_limits<std::int32_t>::max();
  // entries of one rank
  check_overflow<std::int32_t>({{{5, narrow_most}, {5, 1}}},
                               "sum 'hits', rank 0: an addition at index 5, counted from 0, overflows int32: take int64");
  check_overflow<std::int64_t>({{{5, 1}}, {{8, 2}, {5, least}, {5, -1}, {2, 1}}, {}},
                               "sum 'hits', rank 1: an addition at index 5, counted from 0, overflows int64: take float64");
  // entries of two ranks
  check_overflow<std::int32_t>({{{1, 5}, {5, narrow_most}}, {{5, 1}}},
                               ": an addition at index 5, counted from 0, overflows int32: take int64");
  check_overflow<std::int64_t>({{{9, least}}, {}, {{3, 4}}, {{9, -1}}, {}},
                               ": an addition at index 9, counted from 0, overflows int64");
  // and one that the sum would come back from
  check_overflow<std::int64_t>({{{0, most}}, {{0, 1}}, {{0, -1}}}, ": an addition at index 0, counted from 0, overflows int64");
  // in the middle of lists
  SumList<std::int32_t> lower, upper;
  for (std::int64_t i = 0; i < 10; ++i) lower.push_back({i, i == 6 ? narrow_most : 1});
  for (std::int64_t i = 0; i < 10; ++i) upper.push_back({i, 1});
  check_overflow<std::int32_t>({lower, upper, upper}, ": an addition at index 6, counted from 0, overflows int32");
}

TEST_CASE("an overflow has its index in the array, in a node and between nodes", "[sums]") {
  constexpr int most = std::numeric_limits<int>::max();
  struct Case {
    std::vector<std::int64_t> index;  ///< of each rank's entry
    std::vector<int> value;
    std::int64_t overflow;
  };
  const std::vector<Case> cases = {{{900, 10, 900, 10}, {most, 1, most, 1}, 900},  // between nodes, in the second slice
                                   {{30, 10, 30, 10}, {most, 1, most, 1}, 30},     // in the first
                                   {{900, 900, 10, 10}, {most, 1, 1, 1}, 900}};    // in a node
  for (const char* algorithm : {"hierarchical", "auto", "gather", "split"}) {
    for (const Case& tried : cases) {
      SameErrors errors(4);
      run_ranks(
          4,
          [&](Communicator& comm) {
            SparseSum sum = make<int>(comm, 1000, algorithm);
            const auto rank = static_cast<std::size_t>(comm.rank());
            for (int run = 0; run < 3; ++run)  // the second has memory, and merges before nodes meet; the third has room, too
              errors.expect(
                  comm.rank(), WEIR_ERR_ARGUMENT,
                  "an addition at index " + std::to_string(tried.overflow) + ", counted from 0, overflows int32", [&] {
                    sum.run(SumInput::entries(std::vector<std::int64_t>{tried.index[rank]}, std::vector<int>{tried.value[rank]}));
                  });
          },
          {.machine = "node:2 rank:2"});
      INFO(algorithm << " " << tried.overflow);
      REQUIRE(errors.failure() == "");
    }
  }
}

TEST_CASE("a checked sum that overflows the caller's array on one rank touches no array", "[sums]") {
  constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max();
  SumList<std::int32_t> all;
  for (std::int64_t i = 0; i < 10; ++i) all.push_back({i, 1});
  // Rank 0 has room in its array, and the others have none.
  check_overflow<std::int32_t>({all, all, all}, "sum 'hits', rank 1: an addition at index ", most - 2);
}

TEST_CASE("a checked sum that ends with a run in flight finishes it for the others, and leaves its output alone", "[sums]") {
  RankCheck check;
  run_ranks(3, [&](Communicator& comm) {
    for (const std::string& algorithm : algorithms_of_sums()) {
      std::vector<std::int64_t> output(10, 7);
      {
        SparseSum sum = make<std::int64_t>(comm, 10, algorithm);
        Operation operation = sum.start(SumInput::dense(std::vector<std::int64_t>(10, 1)), SumOutput::add(output));
        if (comm.rank() != 1) operation.wait();
      }
      check.that(output == std::vector<std::int64_t>(10, comm.rank() == 1 ? 7 : 10), algorithm);
    }
  });
  REQUIRE(check.failure() == "");
}

TEST_CASE("only sums of integers can be checked", "[sums]") {
  for (const SumType type : {SumType::float32, SumType::float64}) {
    REQUIRE(unlike_errors(3, WEIR_ERR_ARGUMENT, "only sums of int32 or int64 can be checked", [&](Communicator& comm) {
              const SparseSum sum(comm, {.count = 10, .type = type, .operation = SumOperation::checked_sum});
            }) == "");
  }
}

}  // namespace weir::test
