// Every sparse algorithm of the registry loses nothing: sum over ranks (gradient + old residual) = sum over ranks (new residual) +
// the delivered update, up to rounding. Every rank gets the same bits.
#include <cmath>
#include <mutex>

#include "support/algorithm_parameters.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/inputs.hpp"
#include "support/thinning.hpp"
#include "support/thresholds.hpp"

namespace weir::test {
namespace {

struct Case {
  std::string algorithm;
  int ranks;
  std::string threshold;
  Input input;
  std::string machine{};
  WireFormat wire_format = WireFormat::compact;
  WireValues wire_values = WireValues::native;
};

template <class T>
void check_conservation(const Case& c) {
  if (left_out()) return;
  INFO(c.algorithm << " on '" << c.machine << "' P " << c.ranks << " input " << input_name(c.input) << ' ' << c.threshold
                   << " wire " << static_cast<int>(c.wire_format) << ' ' << static_cast<int>(c.wire_values));
  const int ranks = c.ranks;
  constexpr std::int64_t n = 6007;
  constexpr int iterations = 6;
  using Vector = std::vector<T>;
  struct Step {
    Vector gradient, update, residual;
  };
  std::vector<std::vector<Step>> steps(static_cast<std::size_t>(ranks));
  run_ranks(ranks,
            [&](Communicator& comm) {
              AllreducePlan plan(comm, {.count = n,
                                        .type = data_type_of<T>,
                                        .density = 0.02,
                                        .algorithm = c.algorithm,
                                        .algorithm_parameters = parameters_for(c.algorithm, "boundary_period=3"),
                                        .average = false,
                                        .threshold = c.threshold,
                                        .threshold_parameters = period_of(c.threshold, 4),
                                        .wire_format = c.wire_format,
                                        .wire_values = c.wire_values});
              for (int t = 0; t < iterations; ++t) {
                const Vector g = make_input<T>(c.input, n, comm.rank(), ranks, t);
                Vector update = g, residual(n);
                plan.run(std::span<T>(update));
                std::copy(plan.residual<T>().begin(), plan.residual<T>().end(), residual.begin() + plan.residual_begin());
                steps[static_cast<std::size_t>(comm.rank())].push_back({g, update, residual});
              }
            },
            {.seed = 5, .machine = c.machine});

  for (std::size_t t = 0; t < iterations; ++t) {
    for (const auto& of_rank : steps) REQUIRE((of_rank[t].update == steps[0][t].update));
    std::vector<double> before(n), after(n), magnitude(n);
    for (std::size_t r = 0; r < steps.size(); ++r) {
      const Vector& g = steps[r][t].gradient;
      for (std::size_t i = 0; i < n; ++i) {
        const double old = t == 0 ? 0 : static_cast<double>(steps[r][t - 1].residual[i]);
        before[i] += static_cast<double>(g[i]) + old;
        after[i] += static_cast<double>(steps[r][t].residual[i]);
        magnitude[i] += std::abs(static_cast<double>(g[i])) + std::abs(old);
      }
    }
    double worst = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const double lost = std::abs(before[i] - after[i] - static_cast<double>(steps[0][t].update[i]));
      const double rounding = 4 * static_cast<double>(std::numeric_limits<T>::epsilon()) * magnitude[i] +
                              static_cast<double>(std::numeric_limits<T>::denorm_min());
      worst = std::max(worst, lost / rounding);
    }
    REQUIRE(worst <= 1);
  }
}

/// Ten entries of `value` on every rank, whose sums float16 cannot hold, but whose means it can.
void check_large_means(const std::string& algorithm, int ranks, const std::string& machine, bool average, float value) {
  if (left_out(2)) return;
  INFO(algorithm << " on '" << machine << "' P " << ranks << " average " << average << " value " << value);
  constexpr std::int64_t n = 100;
  std::vector<std::vector<float>> updates(static_cast<std::size_t>(ranks));
  std::vector<double> kept(n);
  std::mutex mutex;
  run_ranks(ranks,
            [&](Communicator& comm) {
              AllreducePlan plan(
                  comm,
                  {.count = n, .density = 0.5, .algorithm = algorithm, .average = average, .wire_values = WireValues::float16});
              std::vector<float> g(n);
              for (std::size_t i = 0; i < n; i += 10) g[i] = value;
              plan.run(g);
              updates[static_cast<std::size_t>(comm.rank())] = g;
              const std::scoped_lock lock(mutex);
              for (std::size_t i = 0; i < plan.residual<float>().size(); ++i)
                kept[static_cast<std::size_t>(plan.residual_begin()) + i] += static_cast<double>(plan.residual<float>()[i]);
            },
            {.machine = machine});
  const double sum = static_cast<double>(value) * ranks, right = average ? value : sum;
  for (const auto& update : updates) REQUIRE(update == updates[0]);
  for (std::size_t i = 0; i < n; i += 10) {
    REQUIRE(std::abs(static_cast<double>(updates[0][i]) - right) <= right * 0x1p-9);
    REQUIRE(std::abs(static_cast<double>(updates[0][i]) * (average ? ranks : 1) + kept[i] - sum) <= sum * 1e-6);
  }
}

}  // namespace

TEST_CASE("nothing is lost", "[conservation]") {
  for (const AlgorithmInfo& algorithm : algorithms()) {
    if (!algorithm.sparse) continue;
    const std::string name(algorithm.name);
    for (const int ranks : {1, 2, 3, 5, 8}) {
      for (const std::string& threshold : all_thresholds) {
        const bool paper_only = threshold != "exact" && threshold != "reuse";
        if (paper_only && ranks != 3) continue;  // they differ only in the selection on a rank
        for (const Input input : all_inputs()) check_conservation<float>({name, ranks, threshold, input});
        check_conservation<double>({name, ranks, threshold, Input::heavy_tailed, ranks == 5 ? "nodes:2,3" : ""});
      }
    }
    if (name == "hi_oktopk") {
      for (const std::string machine : {"switch:2 node:2 rank:2", "switches:1,4,3 rank:1"}) {
        for (const std::string& threshold : all_thresholds) {
          for (const Input input : all_inputs()) check_conservation<float>({name, 8, threshold, input, machine});
        }
        for (const WireValues values : {WireValues::bfloat16, WireValues::float16}) {
          for (const WireFormat format : {WireFormat::compact, WireFormat::coo}) {
            for (const Input input : all_inputs()) check_conservation<float>({name, 8, "exact", input, machine, format, values});
          }
        }
      }
    }
    check_conservation<float>({name, 33, "reuse", Input::jumping, "node:11 rank:3"});
    for (const WireValues values : {WireValues::native, WireValues::bfloat16, WireValues::float16}) {
      for (const WireFormat format : {WireFormat::compact, WireFormat::coo}) {
        for (const Input input : all_inputs()) check_conservation<float>({name, 6, "exact", input, "nodes:3,1,2", format, values});
        check_conservation<float>({name, 5, "exact", Input::rank_heavy, "", format, values});
      }
    }
  }
}

TEST_CASE("float16 on the wire delivers sums that are beyond it", "[conservation]") {
  for (const AlgorithmInfo& algorithm : algorithms()) {
    if (!algorithm.sparse) continue;
    for (const float value : {20000.0F, 65504.0F}) {
      for (const bool average : {true, false}) {
        for (const auto& [ranks, machine] : {std::pair{2, ""},
                                             {4, ""},
                                             {7, ""},
                                             {8, "node:4 rank:2"},
                                             {8, "node:2 rank:4"},
                                             {8, "switch:2 node:2 rank:2"},
                                             {8, "switches:1,4,3 rank:1"},
                                             {33, ""}})
          check_large_means(std::string(algorithm.name), ranks, machine, average, value);
      }
    }
  }
}

}  // namespace weir::test
