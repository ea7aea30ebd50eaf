// contract.hpp: one case of the correctness contract of the sparse algorithms, for any transport. Compares every iteration and its
// volumes with the oracle, bit for bit.
#pragma once

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "collectives/oktopk_volume.hpp"
#include "support/algorithm_parameters.hpp"
#include "support/inputs.hpp"
#include "support/oracle.hpp"
#include "support/rank_check.hpp"
#include "support/same_bits.hpp"

namespace weir::test {

struct ContractCase {
  std::string algorithm;
  int ranks;
  std::int64_t n;
  std::int64_t k;
  Input input;
  std::uint64_t seed = 0;          ///< of the message order, if the transport has one
  std::string machine{};           ///< synthetic_machine description; empty: all ranks on one node
  std::vector<Location> places{};  ///< of the ranks, instead of `machine`
  ExchangeSchedule schedule{};     ///< of algorithms that have several
  static constexpr int iterations = 5;

  [[nodiscard]] std::string text() const {
    return algorithm + " on '" + machine + "' P " + std::to_string(ranks) + " n " + std::to_string(n) + " k " + std::to_string(k) +
           " input " + input_name(input) + " schedule " + std::to_string(static_cast<int>(schedule)) + " seed " +
           std::to_string(seed);
  }
  [[nodiscard]] std::vector<Location> locations() const {
    if (!places.empty()) return places;
    return machine.empty() ? std::vector<Location>(static_cast<std::size_t>(ranks)) : synthetic_machine(machine);
  }
};

/// gradients[t][rank], and the oracle's state after each iteration.
template <class T>
struct ContractData {
  explicit ContractData(const ContractCase& c) : gradients(ContractCase::iterations) {
    Oracle<T> oracle(find_allreduce(c.algorithm), c.locations(), c.n);
    for (int t = 0; t < ContractCase::iterations; ++t) {
      auto& step = gradients[static_cast<std::size_t>(t)];
      for (int r = 0; r < c.ranks; ++r) step.push_back(make_input<T>(c.input, c.n, r, c.ranks, t));
      oracle.step(step, c.k);
      expected.push_back({oracle.indices, oracle.sums, {}});
      for (int r = 0; r < c.ranks; ++r) expected.back().residual.push_back(oracle.residual(r));
    }
  }
  struct Step {
    std::vector<std::uint32_t> indices;
    std::vector<T> sums;
    std::vector<std::vector<T>> residual;  // by rank
  };
  std::vector<std::vector<std::vector<T>>> gradients;
  std::vector<Step> expected;
};

/// Collective. Runs the case on `comm`, alternately in place and sparse, and reports to `check`.
template <class T>
void check_contract(const Communicator& comm, const ContractCase& c, const ContractData<T>& data, RankCheck& check) {
  AllreducePlan plan(comm, {.count = c.n,
                            .type = data_type_of<T>,
                            .k = c.k,
                            .algorithm = c.algorithm,
                            .algorithm_parameters = parameters_for(c.algorithm, "boundary_period=3," + by_schedule(c.schedule))});
  const auto rank = static_cast<std::size_t>(comm.rank());
  for (std::size_t t = 0; t < ContractCase::iterations; ++t) {
    const std::string where = c.text() + " iteration " + std::to_string(t) + " rank " + std::to_string(rank) + ": ";
    const auto& right = data.expected[t];
    const std::vector<T>& gradient = data.gradients[t][rank];
    std::vector<T> averaged = right.sums;
    for (T& value : averaged) value /= static_cast<T>(c.ranks);
    if (t % 2 == 0) {
      plan.run_sparse(std::span<const T>(gradient));
    } else {
      std::vector<T> dense = gradient, right_dense(gradient.size());
      plan.run(std::span<T>(dense));
      for (std::size_t i = 0; i < right.indices.size(); ++i) right_dense[right.indices[i]] = averaged[i];
      check.that(same_bits<T>(dense, right_dense), where + "dense result");
    }
    const SparseView<T> update = plan.sparse_result<T>();
    check.that(std::equal(update.indices.begin(), update.indices.end(), right.indices.begin(), right.indices.end()),
               where + "indices");
    check.that(same_bits<T>(update.values, averaged), where + "values");
    check.that(same_bits<T>(plan.residual<T>(), right.residual[rank]), where + "residual");

    if (c.algorithm != "oktopk") continue;
    // The bound counts words of float32 entries. Entries of float64 are half as large again.
    const Statistics& s = plan.statistics();
    if (c.schedule == ExchangeSchedule::automatic) continue;
    const std::int64_t bound = oktopk_payload_words(c.k, c.ranks, c.schedule, 0) * 4 * static_cast<std::int64_t>(sizeof(T) + 4) / 8;
    check.at_most(std::max(s.payload_bytes_sent, s.payload_bytes_received), bound, where + "payload bytes");
    check.at_most(std::max(s.control_bytes_sent, s.control_bytes_received) / 4, oktopk_control_words<T>(c.ranks, c.schedule),
                  where + "control words");
  }
}

}  // namespace weir::test
