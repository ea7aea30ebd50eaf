// Ok-Topk through plans, on virtual ranks: the correctness contract.
#include "support/catch.hpp"
#include "support/contract.hpp"
#include "support/inproc_ranks.hpp"

namespace weir::test {
namespace {

template <class T>
void check_exact(const ContractCase& c) {
  const ContractData<T> data(c);
  RankCheck check;
  run_ranks(c.ranks, [&](Communicator& comm) { check_contract<T>(comm, c, data, check); }, {.seed = c.seed});
  REQUIRE(check.failure() == "");
}

}  // namespace

TEST_CASE("oktopk exact equals the oracle bit for bit, small grid", "[oktopk]") {
  std::uint64_t seed = 0;
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8}) {
    for (const std::int64_t n : {0, 1, 2, 7, 100, 1000}) {
      for (const std::int64_t k : std::vector<std::int64_t>{0, 1, n / 10, n / 2, n}) {
        if (k > n) continue;
        check_exact<float>({ranks, n, k, all_inputs()[seed % all_inputs().size()], seed});
        ++seed;
      }
    }
  }
}

TEST_CASE("oktopk exact equals the oracle bit for bit, every input", "[oktopk]") {
  std::uint64_t seed = 1;
  for (const int ranks : {2, 3, 4, 5, 8}) {
    for (const Input input : all_inputs()) {
      check_exact<float>({ranks, 20011, 211, input, seed++});
      check_exact<double>({ranks, 5003, 101, input, seed++});
    }
  }
}

TEST_CASE("oktopk exact equals the oracle bit for bit, many ranks", "[oktopk]") {
  for (const int ranks : {16, 33}) {
    for (const Input input : all_inputs()) check_exact<float>({ranks, 20011, 211, input, static_cast<std::uint64_t>(ranks)});
    check_exact<float>({ranks, 5, 3, Input::integers, 0});
    check_exact<double>({ranks, 1000, 100, Input::rank_heavy, 3});
  }
}

}  // namespace weir::test
