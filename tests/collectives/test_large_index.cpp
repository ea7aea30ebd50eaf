// Index arithmetic up to 2^32 - 1 elements, without allocating them: the exchange alone, on made-up selections.
#include <map>

#include "collectives/allgatherv.hpp"
#include "collectives/control.hpp"
#include "collectives/oktopk_schedules.hpp"
#include "collectives/regions.hpp"
#include "kernels/kernels.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/oracle.hpp"
#include "support/rank_check.hpp"

namespace weir::test {
namespace {

constexpr int test_tag = 1000;

constexpr std::int64_t huge = 0xffffffff;

struct Selection {
  std::vector<std::uint32_t> indices;
  std::vector<float> values;
};

/// Returns k entries with small integers as values, near the end (`clustered`) or all over [0, 2^32 - 1).
Selection make_selection(std::int64_t k, int rank, bool clustered) {
  std::mt19937_64 random(static_cast<std::uint64_t>(rank) + 1);
  std::map<std::uint32_t, float> entries;
  while (static_cast<std::int64_t>(entries.size()) < k) {
    const std::uint64_t index = clustered ? huge - 1 - random() % 5000 : random() % static_cast<std::uint64_t>(huge);
    entries[static_cast<std::uint32_t>(index)] = static_cast<float>(1 + random() % 100);
  }
  Selection s;
  for (const auto& [index, value] : entries) {
    s.indices.push_back(index);
    s.values.push_back(value);
  }
  return s;
}

struct Exchange {
  SparseAllreduce<float>* algorithm;
  SparseVector<float> local;
  std::int64_t k;
  SparseOutcome<float> outcome;
};

task<void> exchange(Channel channel, void* argument) {
  auto& e = *static_cast<Exchange*>(argument);
  e.outcome = co_await e.algorithm->run(channel, e.local, e.k, ErrorReport());
}

}  // namespace

TEST_CASE("oktopk on indices up to 2^32 - 2") {
  for (const int ranks : {1, 2, 5, 8}) {
    for (const bool clustered : {false, true}) {
      const std::int64_t k = 700;
      std::map<std::uint32_t, double> sums;
      for (int r = 0; r < ranks; ++r) {
        const Selection s = make_selection(k, r, clustered);
        for (std::size_t i = 0; i < s.indices.size(); ++i) sums[s.indices[i]] += static_cast<double>(s.values[i]);
      }
      std::vector<std::pair<double, std::int64_t>> ranked;
      for (const auto& [index, sum] : sums) ranked.emplace_back(-sum, index);
      std::sort(ranked.begin(), ranked.end());
      ranked.resize(static_cast<std::size_t>(k));
      std::map<std::uint32_t, double> right;
      for (const auto& [sum, index] : ranked) right[static_cast<std::uint32_t>(index)] = -sum;

      RankCheck check;
      run_ranks(ranks, [&](Communicator& comm) {
        ExchangeSpec spec;
        spec.count = huge;
        spec.largest_k = spec.largest_local = k;
        spec.ranks = ranks;
        spec.parameters = parameters_of(find_allreduce("oktopk"), "schedule=direct");
        const auto algorithm = make_oktopk<float>(spec);
        const Selection s = make_selection(k, comm.rank(), clustered);
        for (int t = 0; t < 3; ++t) {
          Exchange e{algorithm.get(), {s.indices.data(), s.values.data(), k}, k, {}};
          comm.state()->run_blocking("exchange", test_tag, [&](Channel channel) { return exchange(channel, &e); });
          check.that(e.outcome.update.count == k, "count");
          std::int64_t i = 0;
          for (const auto& [index, sum] : right) {
            check.that(e.outcome.update.indices[i] == index && static_cast<double>(e.outcome.update.values[i]) == sum,
                       "entry " + std::to_string(i));
            ++i;
          }
        }
      });
      REQUIRE(check.failure() == "");
    }
  }
}

TEST_CASE("parts of more than 2^31 elements") {
  for (const std::uint64_t total : {std::uint64_t{0}, std::uint64_t{7}, (std::uint64_t{1} << 40) + 5}) {
    for (const int parts : {1, 2, 3, 33, 1000}) {
      REQUIRE(part_begin(total, 0, parts) == 0);
      REQUIRE(part_begin(total, parts, parts) == total);
      for (int p = 0; p < parts; ++p) {
        const std::uint64_t size = part_begin(total, p + 1, parts) - part_begin(total, p, parts);
        REQUIRE((size == total / static_cast<std::uint64_t>(parts) || size == total / static_cast<std::uint64_t>(parts) + 1));
      }
    }
  }
}

TEST_CASE("what allgatherv sends") {
  const auto most = [](const std::vector<std::uint64_t>& sizes) {
    std::vector<std::uint64_t> prefix(2 * sizes.size() + 1);
    return allgatherv_max_sent(sizes, prefix);
  };
  REQUIRE(most({5}) == 0);
  REQUIRE(most({5, 5}) == 5);
  REQUIRE(most({5, 5, 5, 5}) == 15);
  REQUIRE(most({5, 5, 5, 5, 5}) == 20);  // 1 + 2 + 1 blocks
  REQUIRE(most({40, 0, 0, 0}) == 80);    // its holder sends it twice
  REQUIRE(balanced_max_sent({40, 0, 0, 0}) == 60);
  REQUIRE(balanced_max_sent({10, 10, 10, 10}) == 30);
}

TEST_CASE("regions re-cut to equal shares on any input") {
  for (const int ranks : {2, 3, 5, 8, 16}) {
    for (const int shape : {0, 1, 2}) {
      RankCheck check;
      run_ranks(ranks, [&](Communicator& comm) {
        // all in one place; two distant places; each rank elsewhere
        std::vector<std::uint32_t> indices;
        for (std::uint32_t i = 0; i < 1000; ++i) {
          const std::uint32_t place = shape == 0   ? 3000000000u
                                      : shape == 1 ? (i < 500 ? 5u : 4000000000u)
                                                   : static_cast<std::uint32_t>(comm.rank()) * 200000000u;
          indices.push_back(place + i);
        }
        struct Argument {
          std::vector<std::uint32_t>* indices;
          Boundaries boundaries;
          std::vector<std::uint64_t> scratch, counts;
        } a{&indices, Boundaries(static_cast<std::size_t>(ranks) + 1),
            std::vector<std::uint64_t>(static_cast<std::size_t>(recut_scratch(ranks))),
            std::vector<std::uint64_t>(static_cast<std::size_t>(2 * ranks))};
        a.boundaries.back() = huge;
        const auto recut = [](Channel channel, Argument& x) -> task<void> {
          const auto p = static_cast<std::uint64_t>(channel.size());
          co_await recut_boundaries(channel, *x.indices, 1000 * p, huge, x.boundaries, x.scratch.data());
          kernels::host::count_regions(x.indices->data(), static_cast<std::int64_t>(x.indices->size()), x.boundaries.data(),
                                       channel.size(), x.counts.data());
          co_await allreduce_control(channel, x.counts.data(), channel.size(), 0, x.counts.data() + channel.size());
        };
        comm.state()->run_blocking("re-cut", test_tag, [&](Channel channel) { return recut(channel, a); });
        for (int j = 0; j < ranks; ++j)
          check.at_most<std::uint64_t>(a.counts[static_cast<std::size_t>(j)], 1000 + 125 + static_cast<std::uint64_t>(ranks),
                                       "region " + std::to_string(j));
      });
      REQUIRE(check.failure() == "");
    }
  }
}

}  // namespace weir::test
