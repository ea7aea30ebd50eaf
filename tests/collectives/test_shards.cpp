// Shards of nodes: which rank owns which elements, and how a few entries are divided among many shards.
#include <set>

#include "collectives/node_shards.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/inputs.hpp"
#include "support/rank_check.hpp"

namespace weir::test {

TEST_CASE("parts of k add up, fit their shards, and none starves", "[shards]") {
  for (int shards = 1; shards <= 8; ++shards) {
    const Topology topology(synthetic_machine("node:2 rank:" + std::to_string(shards)), 0);
    for (const std::int64_t n : {0, 1, 2, 3, 5, 8, 11, 17, 30, 61, 1000003}) {
      const ShardMap map(topology, n);
      REQUIRE(map.begin(0) == 0);
      REQUIRE(map.begin(shards) == n);
      for (const std::int64_t k : std::set<std::int64_t>{0, 1, 2, 3, 7, 8, 9, 20, n / 2, n}) {
        if (k > n) continue;
        INFO("shards " << shards << " n " << n << " k " << k);
        std::vector<std::int64_t> total(static_cast<std::size_t>(shards));
        for (int t = 0; t < shards; ++t) {
          std::int64_t sum = 0;
          for (int shard = 0; shard < shards; ++shard) {
            const std::int64_t part = map.part_of(k, shard, t + 5 * shards);
            REQUIRE((part >= 0 && part <= map.size(shard)));
            sum += part;
            total[static_cast<std::size_t>(shard)] += part;
          }
          REQUIRE(sum == k);
        }
        for (int shard = 0; shard < shards; ++shard)
          REQUIRE((total[static_cast<std::size_t>(shard)] > 0) == (k > 0 && map.size(shard) > 0));
      }
    }
  }
}

TEST_CASE("fewer entries than shards: every shard has its turn, and nothing is lost", "[shards]") {
  constexpr int ranks = 8, shards = 4;
  for (const std::string algorithm : {"hitopk", "hi_oktopk"}) {
    for (const std::int64_t n : {3, 10, 1003}) {
      for (const std::int64_t k : {0, 1, 3}) {
        INFO(algorithm << " n " << n << " k " << k);
        RankCheck check;
        std::vector<std::vector<std::vector<float>>> updates(ranks);
        run_ranks(ranks,
                  [&](Communicator& comm) {
                    AllreducePlan plan(comm, {.count = n, .k = k, .algorithm = algorithm, .average = false});
                    for (int t = 0; t < shards; ++t) {
                      std::vector<float> g(static_cast<std::size_t>(n), 1.0F);  // whole numbers: sums are exact
                      plan.run(g);
                      updates[static_cast<std::size_t>(comm.rank())].push_back(g);
                      const std::int64_t delivered = plan.statistics().selected_global;
                      check.that(delivered == k, "delivered " + std::to_string(delivered));
                    }
                    double kept = 0;
                    for (const float x : plan.residual<float>()) kept += x;
                    std::vector<float> node_part = {static_cast<float>(kept)};
                    AllreducePlan sum(comm, {.count = 1, .algorithm = "dense_ring", .average = false});
                    sum.run(node_part);
                    for (const auto& update : updates[static_cast<std::size_t>(comm.rank())]) {
                      for (const float x : update) node_part[0] += x;
                    }
                    check.that(node_part[0] == static_cast<float>(ranks * shards * n),
                               "kept and delivered: " + std::to_string(node_part[0]));
                  },
                  {.machine = "node:2 rank:4"});
        REQUIRE(check.failure() == "");
        for (const auto& of_rank : updates) REQUIRE(of_rank == updates[0]);
        const Topology topology(synthetic_machine("node:2 rank:4"), 0);
        const ShardMap map(topology, n);
        for (int shard = 0; shard < shards; ++shard) {
          float sum = 0;
          for (const auto& update : updates[0]) {
            for (std::int64_t i = map.begin(shard); i < map.begin(shard + 1); ++i) sum += update[static_cast<std::size_t>(i)];
          }
          REQUIRE((sum > 0) == (k > 0 && map.size(shard) > 0));
        }
      }
    }
  }
}

}  // namespace weir::test
