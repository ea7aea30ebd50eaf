// Wrong calls end in the same error on all ranks, and the next run is as any other.
#include <algorithm>
#include <functional>
#include <limits>
#include <weir/sums.hpp>

#include "support/catch.hpp"
#include "support/same_errors.hpp"

namespace weir::test {
namespace {

constexpr int ranks = 3;

/// Expects an error of a wrong call on rank 1, then a right run.
void check_refused(const std::string& part, const std::function<void(SparseSum&, bool wrong)>& call) {
  SameErrors errors(ranks);
  run_ranks(ranks, [&](Communicator& comm) {
    SparseSum sum(comm, {.count = 10, .expected_entries = 4, .name = "flux"});
    const std::vector<std::int64_t> indices = {2, 9};
    const std::vector<double> values = {1, 2};
    for (int i = 0; i < 2; ++i) {
      errors.expect(comm.rank(), WEIR_ERR_ARGUMENT, part, [&] { call(sum, comm.rank() == 1); });
      errors.check().that(sum.result<double>().indices.empty(), "a result after an error");
      sum.run(SumInput::entries(indices, values));
      errors.check().that(sum.result<double>().values[1] == 2 * ranks, "the run after it");
    }
  });
  INFO(part);
  REQUIRE(errors.failure() == "");
}

}  // namespace

TEST_CASE("wrong input on one rank is an error on all", "[sums]") {
  const std::vector<double> values = {1, 2};
  const std::vector<std::int64_t> right = {1, 3};
  check_refused("sum 'flux', rank 1: index 10 of entry 1 is out of range: indices are 0 to 9", [&](SparseSum& sum, bool wrong) {
    sum.run(SumInput::entries(wrong ? std::vector<std::int64_t>{4, 10} : right, values));
  });
  check_refused("rank 1: index -1 of entry 0 is out of range", [&](SparseSum& sum, bool wrong) {
    sum.run_reduce_scatter(SumInput::entries(wrong ? std::vector<std::int32_t>{-1, 4} : std::vector<std::int32_t>{1, 2}, values));
  });
  check_refused("rank 1: there are 1 indices and 2 values: give as many of each", [&](SparseSum& sum, bool wrong) {
    sum.run(SumInput::entries(wrong ? std::vector<std::int64_t>{4} : right, values));
  });
  check_refused("rank 1: the number of elements of the values is -2: it must be at least 0", [&](SparseSum& sum, bool wrong) {
    SumInput input = SumInput::entries(right, values);
    if (wrong) input.count = input.index_count = -2;
    sum.run(input);
  });
  check_refused("rank 1: the address of the values is null", [&](SparseSum& sum, bool wrong) {
    SumInput input = SumInput::entries(right, values);
    if (wrong) input.values = nullptr;
    sum.run(input);
  });
  check_refused("rank 1: the address of the indices is not a multiple of 8", [&](SparseSum& sum, bool wrong) {
    SumInput input = SumInput::entries(right, values);
    if (wrong) input.indices = static_cast<const std::byte*>(input.indices) + 4;
    sum.run(input);
  });
  check_refused("rank 1: the values are of type float32: they must be of type float64", [&](SparseSum& sum, bool wrong) {
    const std::vector<float> narrow = {1, 2};
    sum.run(wrong ? SumInput::entries(right, narrow) : SumInput::entries(right, values));
  });
  check_refused("rank 1: the dense input has 3 elements: it must have 10",
                [&](SparseSum& sum, bool wrong) { sum.run(SumInput::dense(std::vector<double>(wrong ? 3 : 10, 1))); });
  check_refused("rank 1: the output has 3 elements: it must have 10", [&](SparseSum& sum, bool wrong) {
    std::vector<double> output(wrong ? 3 : 10, 5);
    try {
      sum.run(SumInput::entries(right, values), SumOutput::add(output));
    } catch (...) {
      if (output != std::vector<double>(output.size(), 5)) throw Error(WEIR_ERR_INTERNAL, "the output was touched");
      throw;
    }
  });
  check_refused("rank 1: the output is an array of int64: it must be of float64", [&](SparseSum& sum, bool wrong) {
    std::vector<std::int64_t> integers(10);
    std::vector<double> output(10);
    sum.run(SumInput::entries(right, values), wrong ? SumOutput::add(integers) : SumOutput::add(output));
  });
  check_refused("sum 'flux', rank 1: adds is set, and there is no output to add to",
                [&](SparseSum& sum, bool wrong) { sum.run(SumInput::entries(right, values), SumOutput{.adds = wrong}); });
  check_refused("sum 'flux', rank 1: no such mesh", [&](SparseSum& sum, bool wrong) {
    (wrong ? sum.refuse("no such mesh") : sum.start(SumInput::entries(right, values))).wait();
  });
}

namespace {

/// Expects that each place of a long list is checked: for an index out of range, and for one out of order.
template <class Index>
void check_places() {
  constexpr std::int64_t count = std::int64_t{std::numeric_limits<std::int32_t>::max()} + 1;
  constexpr std::size_t entries = 200;
  SameErrors errors(ranks);
  run_ranks(ranks, [&](Communicator& comm) {
    SparseSum sum(comm, {.count = count, .expected_entries = entries, .name = "flux"});
    const std::vector<double> values(entries, 1);
    std::vector<Index> right(entries);
    for (std::size_t i = 0; i < entries; ++i) right[i] = static_cast<Index>(3 * i + 1);
    right.back() = static_cast<Index>(count - 1);
    for (const std::size_t place : {0, 1, 63, 64, 65, 128, 129, 192, 193, 199}) {
      auto wrong = right, unsorted = right;
      wrong[place] = -7;
      errors.expect(comm.rank(), WEIR_ERR_ARGUMENT,
                    "rank 1: index -7 of entry " + std::to_string(place) + " is out of range: indices are 0 to 2147483647",
                    [&] { sum.run(SumInput::entries(comm.rank() == 1 ? wrong : right, values)); });
      std::swap(unsorted[place], unsorted[place == 0 ? 1 : place - 1]);
      sum.run(SumInput::entries(comm.rank() == 1 ? unsorted : right, values));
      const SumView<double> view = sum.result<double>();
      errors.check().that(std::ranges::equal(view.indices, right), "the indices");
      errors.check().that(std::ranges::count(view.values, double{ranks}) == std::ssize(right), "the values");
      auto twice = right;
      if (place > 0) twice[place] = twice[place - 1];
      sum.run(SumInput::entries(comm.rank() == 1 ? twice : right, values));
      errors.check().that(sum.result<double>().values[place > 0 ? place - 1 : 0] == ranks + (place > 0 ? 1 : 0), "an index twice");
    }
  });
  REQUIRE(errors.failure() == "");
}

}  // namespace

TEST_CASE("each of many 32-bit indices is checked", "[sums]") { check_places<std::int32_t>(); }
TEST_CASE("each of many 64-bit indices is checked", "[sums]") { check_places<std::int64_t>(); }

TEST_CASE("ranks must start the same kind of run", "[sums]") {
  REQUIRE(unlike_errors(ranks, WEIR_ERR_MISMATCH, "sum 'sum': ranks started different runs: rank 1 a reduce-scatter, rank 0 not",
                        [](Communicator& comm) {
                          SparseSum sum(comm, {.count = 10});
                          const std::vector<double> nothing(10);
                          if (comm.rank() == 1)
                            sum.run_reduce_scatter(SumInput::dense(nothing));
                          else
                            sum.run(SumInput::dense(nothing));
                        }) == "");
}

TEST_CASE("ranks must agree on what they make", "[sums]") {
  const auto differing = [](const std::string& part, const std::function<void(SparseSumConfig&)>& change) {
    return unlike_errors(ranks, WEIR_ERR_MISMATCH, part, [&](Communicator& comm) {
      SparseSumConfig config{.count = 10};
      if (comm.rank() == 2) change(config);
      const SparseSum sum(comm, config);
    });
  };
  REQUIRE(differing("ranks disagree about count: rank 0 has 10, rank 2 has 11", [](auto& config) { config.count = 11; }) == "");
  REQUIRE(differing("about type: rank 0 has float64, rank 2 has int32", [](auto& config) { config.type = SumType::int32; }) == "");
  REQUIRE(differing("about operation: rank 0 has sum, rank 2 has max",
                    [](auto& config) { config.operation = SumOperation::max; }) == "");
  REQUIRE(differing("about algorithm: rank 0 has 'auto', rank 2 has 'split'", [](auto& config) { config.algorithm = "split"; }) ==
          "");
}

TEST_CASE("a configuration that cannot be is refused", "[sums]") {
  const auto refused = [](const std::string& part, const SparseSumConfig& config) {
    return unlike_errors(ranks, WEIR_ERR_ARGUMENT, part, [&](Communicator& comm) {
      const SparseSum sum(comm, comm.rank() == 1 ? config : SparseSumConfig{.count = 10});
    });
  };
  REQUIRE(refused("rank 1: count is -1: it must be", {.count = -1}) == "");
  REQUIRE(refused("rank 1: expected_entries is -5: it must be", {.count = 10, .expected_entries = -5}) == "");
  REQUIRE(refused("rank 1: there is no algorithm 'spilt' for sparse sums: known are gather, split, hash, doubling, dense, blocks, "
                  "shared, hierarchical, auto; did you "
                  "mean 'split'?",
                  {.count = 10, .algorithm = "spilt"}) == "");
}

TEST_CASE("too little memory is the same error on all ranks", "[sums]") {
  REQUIRE(unlike_errors(ranks, WEIR_ERR_MEMORY, "rank 0 has not enough memory for it: out of memory", [](Communicator& comm) {
            const SparseSum sum(comm, {.count = std::int64_t{1} << 50, .algorithm = "dense"});
          }) == "");
}

TEST_CASE("an object has one run at a time, and no result meanwhile", "[sums]") {
  RankCheck check;
  run_ranks(ranks, [&](Communicator& comm) {
    SparseSum sum(comm, {.count = 10});
    const std::vector<double> ones(10, 1);
    const auto status = [](const std::function<void()>& call) {
      try {
        call();
      } catch (const Error& error) {
        return error.status();
      }
      return WEIR_OK;
    };
    Operation operation = sum.start(SumInput::dense(ones));
    check.that(status([&] { static_cast<void>(sum.start(SumInput::dense(ones))); }) == WEIR_ERR_BUSY, "a second start");
    check.that(status([&] { static_cast<void>(sum.result<double>()); }) == WEIR_ERR_BUSY, "the result of a run in flight");
    operation.wait();
    check.that(sum.result<double>().values[3] == ranks, "the result");
    check.that(status([&] { static_cast<void>(sum.result<float>()); }) == WEIR_ERR_ARGUMENT, "a result of another type");
    check.that(status([&] { static_cast<void>(sum.range_begin(ranks + 1)); }) == WEIR_ERR_ARGUMENT, "a range that does not exist");
  });
  REQUIRE(check.failure() == "");
}

TEST_CASE("two runs in flight do not write to the same array", "[sums]") {
  REQUIRE(unlike_errors(ranks, WEIR_ERR_ARGUMENT, "rank 0: another run in flight will write to the output", [](Communicator& comm) {
            const std::vector<double> ones(10, 1);
            std::vector<double> array(10);
            SparseSum first(comm, {.count = 10}), second(comm, {.count = 10});
            Operation operation = first.start(SumInput::dense(ones), SumOutput::add(array));
            Operation refused = second.start(SumInput::dense(ones), SumOutput::add(array));
            operation.wait();
            refused.wait();
          }) == "");
}

}  // namespace weir::test
