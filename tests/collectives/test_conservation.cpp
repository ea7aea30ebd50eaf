// Nothing is lost, for every sparse algorithm of the registry: sum over ranks (gradient + old residual) = sum over ranks (new
// residual) + the update delivered, up to rounding; and every rank gets the same bits.
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/inputs.hpp"
#include "support/thresholds.hpp"

namespace weir::test {
namespace {

template <class T>
void check_conservation(const AlgorithmInfo& algorithm, int ranks, Threshold threshold, Input input) {
  INFO(algorithm.name << " P " << ranks << " input " << input_name(input) << " " << threshold_name(threshold));
  constexpr std::int64_t n = 6007;
  constexpr int iterations = 6;
  using Vector = std::vector<T>;
  struct Step {
    Vector update, residual;
  };
  std::vector<std::vector<Step>> steps(static_cast<std::size_t>(ranks));
  run_ranks(
      ranks,
      [&](Communicator& comm) {
        AllreducePlan plan(comm, {.count = n,
                                  .type = data_type_of<T>,
                                  .density = 0.02,
                                  .algorithm = std::string(algorithm.name),
                                  .average = false,
                                  .threshold = threshold,
                                  .threshold_period = 4,
                                  .boundary_period = 3});
        for (int t = 0; t < iterations; ++t) {
          Vector g = make_input<T>(input, n, comm.rank(), ranks, t);
          plan.run(std::span<T>(g));
          steps[static_cast<std::size_t>(comm.rank())].push_back({g, Vector(plan.residual<T>().begin(), plan.residual<T>().end())});
        }
      },
      {.seed = 5});

  for (std::size_t t = 0; t < iterations; ++t) {
    for (const auto& of_rank : steps) REQUIRE(of_rank[t].update == steps[0][t].update);
    std::vector<double> before(n), after(n), magnitude(n);
    for (std::size_t r = 0; r < steps.size(); ++r) {
      const Vector g = make_input<T>(input, n, static_cast<int>(r), ranks, static_cast<int>(t));
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

}  // namespace

TEST_CASE("nothing is lost", "[conservation]") {
  for (const AlgorithmInfo& algorithm : algorithms()) {
    if (!algorithm.sparse) continue;
    for (const int ranks : {1, 2, 3, 5, 8}) {
      for (const Threshold threshold : all_thresholds) {
        for (const Input input : all_inputs()) check_conservation<float>(algorithm, ranks, threshold, input);
        check_conservation<double>(algorithm, ranks, threshold, Input::heavy_tailed);
      }
    }
    check_conservation<float>(algorithm, 33, Threshold::reuse, Input::jumping);
  }
}

}  // namespace weir::test
