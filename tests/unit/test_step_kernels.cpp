// Kernels of optimizers have the bits of the obvious loops in every memory space, at every length.
#include <cmath>

#include "support/catch.hpp"
#include "support/inputs.hpp"
#include "support/kernel_sets.hpp"

namespace weir::test {
namespace {

constexpr std::array<std::int64_t, 14> sizes = {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 63, 1000, 1023, 4097};

template <class T>
std::vector<T> numbers(std::int64_t count, int seed, T scale = 1) {
  std::vector<T> x = make_input<T>(Input::heavy_tailed, count, 0, 1, seed);
  for (T& value : x) value *= scale;
  return x;
}
template <class T>
std::vector<T> magnitudes(std::int64_t count, int seed) {
  std::vector<T> x = numbers<T>(count, seed);
  for (T& value : x) value = std::abs(value);
  return x;
}

}  // namespace

TEMPLATE_TEST_CASE("sums of squares", "[kernels]", WEIR_ALL_KERNELS) {
  using T = typename TestType::T;
  for (const std::int64_t n : sizes) {
    const auto x = numbers<T>(n, 1);
    INFO("n " << n);
    REQUIRE(TestType::squared_norm(x.data(), n) == kernels::reference::squared_norm(x.data(), n));
    REQUIRE(TestType::squared_norm(x.data(), n) == kernels::host::moments<T>(x.data(), nullptr, n).sum_squares);
  }
}

TEMPLATE_TEST_CASE("steps with momentum", "[kernels]", WEIR_ALL_KERNELS) {
  using T = typename TestType::T;
  for (const std::int64_t n : sizes) {
    const auto g = numbers<T>(n, 1);
    auto w = numbers<T>(n, 2), v = numbers<T>(n, 3), right_w = w, right_v = v;
    INFO("n " << n);
    TestType::momentum_step(g.data(), w.data(), v.data(), n, T(0.1), T(0.01), T(0.9));
    kernels::reference::momentum_step(g.data(), right_w.data(), right_v.data(), n, T(0.1), T(0.01), T(0.9));
    REQUIRE((w == right_w && v == right_v));
  }
}

TEMPLATE_TEST_CASE("Adam's moments and steps", "[kernels]", WEIR_ALL_KERNELS) {
  using T = typename TestType::T;
  const AdamFactors<T> factors{T(0.9), T(0.999), T(0.19), T(0.0447), T(1e-6), T(0.01)};
  for (const std::int64_t n : sizes) {
    const auto g = numbers<T>(n, 1);
    auto w = numbers<T>(n, 2), m = numbers<T>(n, 3), v = magnitudes<T>(n, 4), right_w = w, right_m = m, right_v = v;
    INFO("n " << n);
    const SquaredNorms sums = TestType::adam_moments(g.data(), w.data(), m.data(), v.data(), n, factors);
    const SquaredNorms right =
        kernels::reference::adam_moments(g.data(), right_w.data(), right_m.data(), right_v.data(), n, factors);
    REQUIRE((m == right_m && v == right_v));
    REQUIRE((sums.weights == right.weights && sums.other == right.other));
    TestType::adam_step(m.data(), v.data(), w.data(), n, T(0.1), factors);
    kernels::reference::adam_step(right_m.data(), right_v.data(), right_w.data(), n, T(0.1), factors);
    REQUIRE(w == right_w);
  }
}

}  // namespace weir::test
