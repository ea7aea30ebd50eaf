// dense_reproducible: one result whatever the order of the ranks, their nodes, and ranks that give zeros.
#include <algorithm>
#include <numeric>
#include <random>

#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/inputs.hpp"
#include "support/thinning.hpp"

namespace weir::test {
namespace {

/// Returns the sum that every rank gets of `vectors` vectors, which ranks chosen by `seed` give. The other ranks give zeros.
template <class T>
std::vector<T> sum_over(int ranks, int vectors, std::int64_t n, std::uint64_t seed, const std::string& machine, bool shared) {
  std::vector<int> giver(static_cast<std::size_t>(ranks));
  std::iota(giver.begin(), giver.end(), 0);
  std::shuffle(giver.begin(), giver.end(), std::mt19937_64(seed));
  std::vector<std::vector<T>> results(static_cast<std::size_t>(ranks));
  run_ranks(ranks,
            [&](Communicator& comm) {
              AllreducePlan plan(comm, {.count = n, .type = data_type_of<T>, .algorithm = "dense_reproducible", .average = false});
              const int mine = giver[static_cast<std::size_t>(comm.rank())];
              std::vector<T> x(static_cast<std::size_t>(n));
              if (mine < vectors) x = make_input<T>(Input::heavy_tailed, n, mine, vectors, 0);
              const std::vector<T> given = x;
              for (int run = 0; run < 2; ++run) {  // the second one meets what the first has left in shared memory
                x = given;
                plan.run(std::span<T>(x));
              }
              results[static_cast<std::size_t>(comm.rank())] = x;
            },
            {.seed = seed, .machine = machine, .settings = {.timeout_seconds = 120, .shared_memory = shared}});
  for (const auto& result : results) REQUIRE(result == results[0]);
  return results[0];
}

template <class T>
void check_reproducible(int vectors, std::int64_t n) {
  struct Case {
    int ranks;
    std::string machine;
  };
  std::vector<T> right;
  std::uint64_t seed = 1;
  for (const Case& one : {Case{vectors, ""},
                          {vectors, ""},
                          {8, "node:2 rank:4"},
                          {9, "nodes:2,3,4"},
                          {6, "nodes:3,1,2"},
                          {7, ""},
                          {16, "switch:2 node:2 rank:4"},
                          {33, ""}}) {
    for (const bool shared : {false, true}) {
      ++seed;
      if (one.ranks < vectors || (left_out() && !right.empty())) continue;
      INFO(vectors << " vectors on " << one.ranks << " ranks, machine '" << one.machine << "', n " << n << ", shared memory "
                   << shared);
      const std::vector<T> sum = sum_over<T>(one.ranks, vectors, n, seed, one.machine, shared);
      if (right.empty()) right = sum;
      REQUIRE(sum == right);
    }
  }
}

}  // namespace

TEST_CASE("dense_reproducible gives the same bits on any number of ranks", "[dense]") {
  for (const int vectors : {1, 2, 3, 5}) {
    for (const std::int64_t n : {1, 7, 1000}) {
      check_reproducible<float>(vectors, n);
      check_reproducible<double>(vectors, n);
    }
  }
}

}  // namespace weir::test
