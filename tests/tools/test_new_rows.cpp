// Runs plans with the algorithm and the compressor that tools/new-algorithm and tools/new-compressor have written.
#include "collectives/allreduce.hpp"
#include "compress/compressor.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/inputs.hpp"
#include "support/rank_check.hpp"

namespace weir::test {
namespace {

constexpr std::int64_t n = 1000;

/// Checks that both plans deliver the same update and leave the same residual.
void check_same(const Communicator& comm, const AllreduceConfig& a, const AllreduceConfig& b, RankCheck& check) {
  AllreducePlan written(comm, a), copied(comm, b);
  for (int t = 0; t < 3; ++t) {
    const auto gradient = make_input<float>(Input::heavy_tailed, n, comm.rank(), comm.size(), t);
    std::vector<float> by_written = gradient, by_copied = gradient;
    written.run(by_written);
    copied.run(by_copied);
    check.that(by_written == by_copied, "another update");
    check.that(std::ranges::equal(written.residual<float>(), copied.residual<float>()), "another residual");
  }
}

}  // namespace

TEST_CASE("a written algorithm stands last in the registry, and delivers what the one delivers that it is a copy of") {
  REQUIRE(allreduce_registry().back().name == "test_ring_of_rows");
  for (const int ranks : {1, 2, 3, 5}) {
    CAPTURE(ranks);
    RankCheck check;
    run_ranks(ranks, [&](Communicator& comm) {
      check_same(comm, {.count = n, .k = 20, .algorithm = "test_ring_of_rows"},
                 {.count = n, .k = 20, .algorithm = "topk_allgather"}, check);
    });
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("a written compressor stands last in the registry, and sends what the one sends that it is a copy of") {
  REQUIRE(compress::compressor_registry().back()->name == "test_signs_of_rows");
  RankCheck check;
  run_ranks(3, [&](Communicator& comm) {
    check_same(comm, {.count = n, .algorithm = "packed_allgather", .compressor = "test_signs_of_rows"},
               {.count = n, .algorithm = "packed_allgather", .compressor = "ef_sign_sgd"}, check);
  });
  REQUIRE(check.failure() == "");
}

}  // namespace weir::test
