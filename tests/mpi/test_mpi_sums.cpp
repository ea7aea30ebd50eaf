// test_mpi_sums.cpp: sparse sums across processes: every algorithm against MPI's dense sum, with several in flight.
#include <mpi.h>
#include <weir/mpi.h>

#include <string>
#include <vector>
#include <weir/sums.hpp>

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

}  // namespace

TEST_CASE("every algorithm gives MPI's sum, several at once") {
  const Communicator comm(MPI_COMM_WORLD);
  std::vector<SparseSum> sums;
  for (const std::string algorithm : {"auto", "gather", "split", "doubling", "dense"})
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
  for (const std::string algorithm : {"auto", "gather", "split", "doubling", "dense"}) {
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

}  // namespace weir::test
