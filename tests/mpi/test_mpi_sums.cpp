// test_mpi_sums.cpp: sparse sums across processes: every algorithm against MPI's dense sum, with several in flight.
#include <mpi.h>
#include <weir/mpi.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>
#include <weir/sums.hpp>

#include "communicator/communicator.hpp"
#include "support/catch.hpp"
#include "support/dice.hpp"

namespace weir::test {
namespace {

constexpr std::int64_t count = 60000;

/// Returns an array with about `percent` % of its elements set. Integers: their sum is the same in any order.
std::vector<double> array_of(int rank, int percent) {
  Dice dice(static_cast<std::uint64_t>(rank * 101 + percent));
  std::vector<double> array(count);
  for (double& element : array) element = dice.chance(percent) ? static_cast<double>(dice.between(-1000, 1000)) : 0;
  return array;
}

std::vector<double> dense_sum(const std::vector<double>& mine) {
  std::vector<double> sum(mine.size());
  MPI_Allreduce(mine.data(), sum.data(), static_cast<int>(sum.size()), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return sum;
}

std::vector<std::string> algorithms_on(const Communicator& comm) {
  std::vector<std::string> names = {"auto", "gather", "split", "hash", "doubling", "dense", "blocks"};
  if (comm.state()->topology.node_count() == 1) names.emplace_back("shared");
  return names;
}

}  // namespace

TEST_CASE("every algorithm gives MPI's sum, several at once") {
  const Communicator comm(MPI_COMM_WORLD);
  std::vector<SparseSum> sums;
  for (const std::string& algorithm : algorithms_on(comm))
    sums.emplace_back(comm, SparseSumConfig{.count = count, .expected_entries = count / 10, .algorithm = algorithm});
  for (const int percent : {0, 1, 10, 100}) {
    const std::vector<double> mine = array_of(comm.rank(), percent), expected = dense_sum(mine);
    std::vector<std::vector<double>> results(sums.size(), std::vector<double>(count, 7));
    std::vector<Operation> operations;
    for (std::size_t i = 0; i < sums.size(); ++i)
      operations.push_back(sums[i].start(SumInput::dense(mine), SumOutput::write(results[i])));
    for (Operation& operation : operations) operation.wait();
    for (std::size_t i = 0; i < sums.size(); ++i) {
      INFO(sums[i].config().algorithm << " " << percent << " %");
      REQUIRE(results[i] == expected);
      REQUIRE(sums[i].statistics().entries_sum == std::ssize(sums[i].result<double>().indices));
    }
  }
}

TEST_CASE("each rank gets its range") {
  const Communicator comm(MPI_COMM_WORLD);
  for (const std::string& algorithm : algorithms_on(comm)) {
    SparseSum sum(comm, {.count = count, .algorithm = algorithm});
    const std::vector<double> mine = array_of(comm.rank(), 3), expected = dense_sum(mine);
    const auto begin = expected.begin() + sum.range_begin(comm.rank()), end = expected.begin() + sum.range_begin(comm.rank() + 1);
    std::vector<double> part(static_cast<std::size_t>(end - begin));
    sum.run_reduce_scatter(SumInput::dense(mine), SumOutput::write(part));
    REQUIRE(part == std::vector<double>(begin, end));
  }
}

TEST_CASE("a wrong index on one rank is the same error on all") {
  const Communicator comm(MPI_COMM_WORLD);
  SparseSum sum(comm, {.count = count, .name = "mesh"});
  const std::vector<std::int64_t> indices = {5, comm.rank() == comm.size() - 1 ? count : 6};
  const std::vector<double> values = {1, 2};
  REQUIRE_THROWS_WITH(
      sum.run(SumInput::entries(indices, values)),
      "sum 'mesh', rank " + std::to_string(comm.size() - 1) + ": index 60000 of entry 1 is out of range: indices are 0 to 59999");
  sum.run(SumInput::entries(std::vector<std::int32_t>{5}, std::vector<double>{1}));
  REQUIRE(sum.result<double>().values[0] == comm.size());
}

TEST_CASE("a reproducible sum has the bits that one rank alone gives it") {
  const Communicator all(MPI_COMM_WORLD), alone(MPI_COMM_SELF);
  Dice dice(8);
  std::vector<std::int64_t> indices, mine_indices;
  std::vector<double> values, mine_values;
  for (int i = 0; i < 5000; ++i) {
    indices.push_back(dice.between(0, count - 1) / (dice.chance(50) ? 1 : 1000));
    values.push_back(std::ldexp(static_cast<double>(dice.between(-1000000, 1000000)), dice.small(-900, 900)));
    if (dice.small(0, all.size() - 1) != all.rank()) continue;
    mine_indices.push_back(indices.back());
    mine_values.push_back(values.back());
  }
  for (const std::string algorithm : {"auto", "gather", "split", "hash"}) {
    const SparseSumConfig config{.count = count, .operation = SumOperation::reproducible_sum, .algorithm = algorithm};
    SparseSum over_all(all, config), over_one(alone, config);
    over_all.run(SumInput::entries(mine_indices, mine_values));
    over_one.run(SumInput::entries(indices, values));
    const SumView<double> sum = over_all.result<double>(), expected = over_one.result<double>();
    INFO(algorithm);
    REQUIRE(std::equal(sum.indices.begin(), sum.indices.end(), expected.indices.begin(), expected.indices.end()));
    REQUIRE(std::equal(sum.values.begin(), sum.values.end(), expected.values.begin(), expected.values.end()));
  }
}

TEST_CASE("an addition that overflows is the same error on all ranks") {
  const Communicator comm(MPI_COMM_WORLD);
  SparseSum sum(comm, {.count = count, .type = SumType::int32, .operation = SumOperation::checked_sum, .name = "mesh"});
  const std::int32_t large = std::numeric_limits<std::int32_t>::max() / (2 * comm.size()) + 1;
  std::vector<std::int32_t> dense(count, 7);
  const std::vector<std::int64_t> indices = {9, 11, 11};
  REQUIRE_THROWS_WITH(sum.run(SumInput::entries(indices, std::vector<std::int32_t>{1, large, large}), SumOutput::write(dense)),
                      Catch::Contains("an addition at index 11, counted from 0, overflows int32"));
  REQUIRE(dense == std::vector<std::int32_t>(count, 7));
  sum.run(SumInput::entries(indices, std::vector<std::int32_t>{1, large - 1, large - 1}), SumOutput::write(dense));
  REQUIRE(dense[11] == (large - 1) * 2 * comm.size());
}

}  // namespace weir::test
