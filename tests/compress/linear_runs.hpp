// linear_runs.hpp: runs compressors that sum dense values by themselves, on virtual ranks.
#pragma once

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/state.hpp"
#include "collectives/allreduce.hpp"
#include "compress/compressor.hpp"
#include "support/allocation_count.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/rank_check.hpp"

namespace weir::test {

struct LinearCase {
  std::string compressor, parameters{};
  std::int64_t count = 0, k = 0;
  int ranks = 1;
  double divisor = 1;
};

/// Which of the run's arrays are the same memory as its values.
enum class Aliases { none, out, rest, no_rest };

/// One rank's compressor and its exchange.
class LinearRank {
 public:
  LinearRank(const LinearCase& test, Communicator& comm)
      : test_(test), comm_(comm), topology_(std::vector<Location>(static_cast<std::size_t>(test.ranks)), comm.rank()) {
    const compress::Compressor compressor = compress::make_compressor(test.compressor, test.parameters);
    exchange_ = compressor.row->exchange(compressor.parameters, {.count = test.count,
                                                                 .k = test.k,
                                                                 .ranks = test.ranks,
                                                                 .divisor = test.divisor,
                                                                 .make_dense = [&](std::int64_t count, double by) {
                                                                   ExchangeSpec spec;
                                                                   spec.count = count;
                                                                   spec.ranks = test_.ranks;
                                                                   spec.divisor = by;
                                                                   spec.topology = &topology_;
                                                                   return find_allreduce("dense_ring").make_dense<float>(spec);
                                                                 }});
  }

  CompressedExchange& exchange() { return *exchange_; }
  /// Returns the number of allocations in the last run.
  [[nodiscard]] std::int64_t allocations() const { return allocations_; }

  void run(std::uint64_t iteration, std::vector<float>& values, std::vector<float>& rest, std::vector<float>& out,
           Aliases aliases = Aliases::none) {
    const std::vector<float> before = values;
    const Draw draw{.seed = 17, .iteration = iteration, .stream = static_cast<std::uint32_t>(comm_.rank())};
    float* const rest_to = aliases == Aliases::rest ? values.data() : aliases == Aliases::no_rest ? nullptr : rest.data();
    float* const out_to = aliases == Aliases::out ? values.data() : out.data();
    Run run;
    run.tag = 1;
    TrafficCount traffic;
    Engine& engine = comm_.state()->engine;
    const std::int64_t allocated = allocations_of_this_thread();
    {
      const FramePool::Scope scope(engine.frames());
      run.root = exchange_->run(Channel(engine, topology_, run, traffic), draw, values.data(), rest_to, out_to);
    }
    engine.start(run);
    engine.drive(run);
    allocations_ = allocations_of_this_thread() - allocated;
    if (run.error) std::rethrow_exception(run.error);
    if (aliases == Aliases::rest) rest = values;
    if (aliases == Aliases::out) out = values;
    values = before;
  }

 private:
  LinearCase test_;
  Communicator& comm_;
  Topology topology_;
  std::unique_ptr<CompressedExchange> exchange_;
  std::int64_t allocations_ = 0;
};

/// The results of one iteration, by rank.
struct LinearResult {
  std::vector<std::vector<float>> values, rest, out;
};

/// Runs iterations without error feedback. `values(rank, iteration)` returns a rank's values.
inline std::vector<LinearResult> run_linear(const LinearCase& test, int iterations,
                                            const std::function<std::vector<float>(int rank, int iteration)>& values,
                                            Aliases aliases = Aliases::none, std::uint64_t message_order = 1) {
  const auto ranks = static_cast<std::size_t>(test.ranks), n = static_cast<std::size_t>(test.count);
  std::vector<LinearResult> results(static_cast<std::size_t>(iterations));
  for (LinearResult& result : results) result.values = result.rest = result.out = std::vector<std::vector<float>>(ranks);
  run_ranks(test.ranks,
            [&](Communicator& comm) {
              const auto r = static_cast<std::size_t>(comm.rank());
              LinearRank rank(test, comm);
              for (int t = 0; t < iterations; ++t) {
                LinearResult& result = results[static_cast<std::size_t>(t)];
                result.values[r] = values(comm.rank(), t);
                result.rest[r].assign(n, -7);
                result.out[r].assign(n, -7);
                rank.run(static_cast<std::uint64_t>(t), result.values[r], result.rest[r], result.out[r], aliases);
              }
            },
            {.seed = message_order});
  return results;
}

/// Checks that all ranks deliver the same, and that nothing is lost. Returns the fault, or "".
inline std::string linear_law(const LinearCase& test, const LinearResult& result) {
  for (int rank = 1; rank < test.ranks; ++rank) {
    const std::vector<float>& out = result.out[static_cast<std::size_t>(rank)];
    if (!out.empty() && std::memcmp(out.data(), result.out[0].data(), out.size() * sizeof(float)) != 0)
      return "rank " + std::to_string(rank) + " delivers something else";
  }
  for (std::size_t i = 0; i < result.out[0].size(); ++i) {
    double given = 0, kept = 0, magnitude = std::abs(static_cast<double>(result.out[0][i])) * test.divisor;
    for (std::size_t r = 0; r < result.values.size(); ++r) {
      given += static_cast<double>(result.values[r][i]);
      kept += static_cast<double>(result.rest[r][i]);
      magnitude += std::abs(static_cast<double>(result.values[r][i])) + std::abs(static_cast<double>(result.rest[r][i]));
    }
    const double error = given - kept - static_cast<double>(result.out[0][i]) * test.divisor;
    if (!(std::abs(error) <= 1e-6 * magnitude + 1e-44)) return "element " + std::to_string(i) + " lacks " + std::to_string(error);
  }
  return "";
}

}  // namespace weir::test
