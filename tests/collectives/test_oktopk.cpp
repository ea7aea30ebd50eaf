// Ok-Topk through plans, on virtual ranks: the whole correctness contract.
#include <cmath>

#include "collectives/oktopk_volume.hpp"
#include "plan/plan_config.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/inputs.hpp"
#include "support/oracle.hpp"
#include "support/rank_check.hpp"

namespace weir::test {
namespace {

constexpr int iterations = 5;

struct Case {
  int ranks;
  std::int64_t n;
  std::int64_t k;
  Input input;
  std::uint64_t seed;
};

template <class T>
bool same_bits(std::span<const T> a, const std::vector<T>& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](T x, T y) { return std::bit_cast<Key<T>>(x) == std::bit_cast<Key<T>>(y); });
}

AllreduceConfig config_of(const Case& c, DataType type) {
  return {.count = c.n, .type = type, .k = c.k, .boundary_period = 3};
}

/// Runs the case and holds every iteration against the oracle, bit for bit: update, residual, volumes, counts.
template <class T>
void check_exact(const Case& c) {
  INFO("P " << c.ranks << " n " << c.n << " k " << c.k << " input " << input_name(c.input) << " seed " << c.seed);
  std::vector<std::vector<std::vector<T>>> gradients(iterations);
  std::vector<Oracle<T>> expected;
  Oracle<T> oracle(c.ranks, c.n);
  for (int t = 0; t < iterations; ++t) {
    for (int r = 0; r < c.ranks; ++r) gradients[static_cast<std::size_t>(t)].push_back(make_input<T>(c.input, c.n, r, c.ranks, t));
    oracle.step(gradients[static_cast<std::size_t>(t)], c.k);
    expected.push_back(oracle);
  }
  RankCheck check;
  const auto body = [&](Communicator& comm) {
    AllreducePlan plan(comm, config_of(c, data_type_of<T>));
    const auto rank = static_cast<std::size_t>(comm.rank());
    for (std::size_t t = 0; t < iterations; ++t) {
      const std::string where = "iteration " + std::to_string(t) + " rank " + std::to_string(rank) + ": ";
      const Oracle<T>& right = expected[t];
      if (t % 2 == 0) {
        plan.run_sparse(std::span<const T>(gradients[t][rank]));
      } else {
        std::vector<T> dense = gradients[t][rank];
        plan.run(std::span<T>(dense));
        std::vector<T> right_dense(dense.size());
        for (std::size_t i = 0; i < right.indices.size(); ++i) right_dense[right.indices[i]] = right.sums[i] / static_cast<T>(c.ranks);
        check.that(same_bits(std::span<const T>(dense), right_dense), where + "dense result");
      }
      const SparseView<T> update = plan.sparse_result<T>();
      check.that(std::equal(update.indices.begin(), update.indices.end(), right.indices.begin(), right.indices.end()), where + "indices");
      std::vector<T> averaged = right.sums;
      for (T& value : averaged) value /= static_cast<T>(c.ranks);
      check.that(same_bits(update.values, averaged), where + "values");
      check.that(same_bits(plan.residual<T>(), right.residual[rank]), where + "residual");
      const Statistics& s = plan.statistics();
      const std::int64_t words = (std::max(s.payload_bytes_sent, s.payload_bytes_received) + 3) / 4;
      const std::int64_t bound = oktopk_payload_words(c.k, c.ranks) * static_cast<std::int64_t>(sizeof(T) + 4) / 8 + 2;
      check.that(words <= bound, where + "payload of " + std::to_string(words) + " words exceeds " + std::to_string(bound));
      const std::int64_t control = std::max(s.control_bytes_sent, s.control_bytes_received) / 4;
      check.that(control <= oktopk_control_words<T>(c.ranks), where + "control of " + std::to_string(control) + " words");
    }
  };
  run_ranks(c.ranks, body, {.seed = c.seed});
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
