// The finished example of docs/add-an-algorithm.md: a row of the registry that plans run and choose by its cost.
#include "model/choose.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/inputs.hpp"
#include "support/rank_check.hpp"

namespace weir::test {
namespace {

constexpr std::int64_t n = 3001, k = 60;

AllreduceConfig config(const std::string& algorithm, WireValues values = WireValues::native) {
  return {.count = n, .k = k, .algorithm = algorithm, .wire_values = values};
}

/// Checks that topk_allgather delivers the same update and leaves the same residual.
void check_same_as_allgather(const Communicator& comm, WireValues values, RankCheck& check) {
  AllreducePlan ring(comm, config("topk_ring", values)), allgather(comm, config("topk_allgather", values));
  for (int t = 0; t < 4; ++t) {
    const auto gradient = make_input<float>(Input::heavy_tailed, n, comm.rank(), comm.size(), t);
    std::vector<float> by_ring = gradient, by_allgather = gradient;
    ring.run(by_ring);
    allgather.run(by_allgather);
    check.that(by_ring == by_allgather, "another update");
    check.that(std::ranges::equal(ring.residual<float>(), allgather.residual<float>()), "another residual");
  }
}

}  // namespace

TEST_CASE("the ring delivers what the allgather delivers, bit for bit") {
  for (const int ranks : {1, 2, 3, 4, 7, 8}) {
    for (const WireValues values : {WireValues::native, WireValues::bfloat16}) {
      CAPTURE(ranks, static_cast<int>(values));
      RankCheck check;
      run_ranks(ranks, [&](Communicator& comm) { check_same_as_allgather(comm, values, check); }, {.seed = 3});
      REQUIRE(check.failure() == "");
    }
  }
}

TEST_CASE("a rank sends k (P - 1) entries, and across nodes only the last of each node") {
  RankCheck check;
  run_ranks(6,
            [&](Communicator& comm) {
              AllreduceConfig in_coordinates = config("topk_ring");
              in_coordinates.wire_format = WireFormat::coo;
              AllreducePlan plan(comm, in_coordinates);
              auto gradient = make_input<float>(Input::heavy_tailed, n, comm.rank(), comm.size(), 0);
              plan.run(gradient);
              const Statistics& run = plan.statistics();
              check.that(run.payload_bytes_sent == 8 * k * 5, std::to_string(run.payload_bytes_sent) + " bytes");
              const bool last_of_node = comm.rank() % 3 == 2;
              const std::int64_t across = run.bytes_sent[static_cast<std::size_t>(Level::system)];
              check.that(last_of_node == (across >= 8 * k * 5), std::to_string(across) + " bytes across");
            },
            {.machine = "node:2 rank:3"});
  REQUIRE(check.failure() == "");
}

TEST_CASE("NaN on one rank is refused on all") {
  RankCheck check;
  run_ranks(4, [&](Communicator& comm) {
    AllreducePlan plan(comm, config("topk_ring"));
    std::vector<float> gradient(n, 1);
    if (comm.rank() == 2) gradient[5] = std::numeric_limits<float>::quiet_NaN();
    try {
      plan.run(gradient);
      check.that(false, "no error");
    } catch (const Error& error) {
      check.that(error.status() == WEIR_ERR_NON_FINITE, error.what());
    }
  });
  REQUIRE(check.failure() == "");
}

TEST_CASE("the registry lists the row, and its cost makes it cheaper where several ranks share a node's network card") {
  const auto known = algorithms();
  REQUIRE(std::ranges::find(known, "topk_ring", &AlgorithmInfo::name) != known.end());
  const auto seconds = [](const char* machine, const char* algorithm) {
    const Problem problem = make_problem(Topology(synthetic_machine(machine), 0), 25'000'000, 250'000);
    return find_allreduce(algorithm).cost(builtin_machine(), problem).seconds();
  };
  REQUIRE(seconds("node:4 rank:8", "topk_ring") < seconds("node:4 rank:8", "topk_allgather"));
  REQUIRE(seconds("node:32 rank:1", "topk_ring") > 0.9 * seconds("node:32 rank:1", "topk_allgather"));
}

}  // namespace weir::test
