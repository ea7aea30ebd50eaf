// test_selector.cpp: local selection by every method: counts, order, values, the residual afterwards, and the threshold's
// properties in each method's source.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>

#include "catalogue/thresholds/estimators.hpp"
#include "contribution/contribution.hpp"
#include "support/allocation_count.hpp"
#include "support/catch.hpp"
#include "support/inputs.hpp"
#include "support/thinning.hpp"
#include "support/thresholds.hpp"

namespace weir::test {
namespace {

/// A selector in host memory, whose tasks never wait.
template <class T>
class HostSelector {
 public:
  explicit HostSelector(const SelectionSetup& setup)
      : memory_({}, nullptr, setup.count, 0),
        selector_({.selection = setup, .feedback = {}, .keeps_residual = false, .wire = {}}, memory_) {}
  bool select(const T* gradient, T* residual, std::int64_t k, bool refuse_non_finite) {
    const FramePool::Scope scope(frames_);
    return run_here(selector_.select_from(gradient, residual, k, refuse_non_finite));
  }
  [[nodiscard]] SparseVector<T> selection() const { return selector_.selection(); }
  [[nodiscard]] bool rethresholded() const { return selector_.rethresholded(); }
  void settle(T* residual, SparseVector<T> taken) { selector_.settle_in(residual, taken); }
  void roll_back(const T* gradient, T* residual) { selector_.roll_back_in(residual, gradient); }
  void reset() { selector_.reset(); }

 private:
  FramePool frames_;
  HostArrays<T> memory_;
  Contribution<HostArrays<T>> selector_;
};

const std::vector<std::string> guarded_methods = {"sampled", "gaussian", "sidco", "redsync"};

template <class T>
struct Selected {
  std::vector<std::uint32_t> indices;
  std::vector<T> values;
};

template <class T>
Selected<T> copy(SparseVector<T> v) {
  return {{v.indices, v.indices + v.count}, {v.values, v.values + v.count}};
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](T x, T y) { return std::bit_cast<Key<T>>(x) == std::bit_cast<Key<T>>(y); });
}

template <class T>
std::int64_t nonzero_count(const std::vector<T>& x) {
  return std::count_if(x.begin(), x.end(), [](T v) { return v != 0; });
}

/// Returns whether `count` entries are as many as the method promises for k of `nonzero`.
bool count_is_right(const std::string& method, std::int64_t count, std::int64_t k, std::int64_t nonzero) {
  const std::int64_t possible = std::min(k, nonzero);
  if (method == "exact" || method == "mstopk") return count == possible;
  if (method == "reuse") return 4 * count <= 5 * k && (5 * count >= 4 * k || count >= possible);
  return 4 * count <= 5 * k && (4 * count >= 3 * k || count == nonzero);
}

template <class T>
void check_selection(const Selected<T>& selected, const std::vector<T>& sums) {
  REQUIRE(std::adjacent_find(selected.indices.begin(), selected.indices.end(), std::greater_equal<>()) == selected.indices.end());
  std::vector<T> expected;
  for (const std::uint32_t i : selected.indices) {
    REQUIRE(i < sums.size());
    expected.push_back(sums[i]);
  }
  REQUIRE(same_bits(selected.values, expected));
  REQUIRE(std::count(expected.begin(), expected.end(), T{0}) == 0);
}

template <class T>
void check_method(const std::string& method, Input input, std::int64_t n, std::int64_t k) {
  INFO(method << " " << input_name(input) << " n " << n << " k " << k << " bytes " << sizeof(T));
  HostSelector<T> selector({n, k, method_of(method, 3)}), twin({n, k, method_of(method, 3)});
  std::vector<T> residual(static_cast<std::size_t>(n)), twin_residual(residual);
  for (int t = 0; t < 4; ++t) {
    const std::vector<T> gradient = make_input<T>(input, n, 0, 1, t), before = residual;
    std::vector<T> sums = before;
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += gradient[i];
    REQUIRE(selector.select(gradient.data(), residual.data(), k, true));
    const Selected<T> selected = copy(selector.selection());
    REQUIRE(count_is_right(method, selector.selection().count, k, nonzero_count(sums)));
    REQUIRE(selector.selection().count <= most_selected(make_threshold(method).at_most_k(), n, k));
    check_selection(selected, sums);

    // A repetition gives the same result.
    REQUIRE(twin.select(gradient.data(), twin_residual.data(), k, true));
    REQUIRE(copy(twin.selection()).indices == selected.indices);
    REQUIRE(same_bits(twin_residual, residual));

    // Every other entry was delivered.
    Selected<T> taken;
    for (std::size_t j = 0; j < selected.indices.size(); j += 2) taken.indices.push_back(selected.indices[j]);
    const SparseVector<T> taken_view{taken.indices.data(), nullptr, static_cast<std::int64_t>(taken.indices.size())};
    selector.settle(residual.data(), taken_view);
    twin.settle(twin_residual.data(), taken_view);
    for (const std::uint32_t i : taken.indices) sums[i] = 0;
    REQUIRE(same_bits(residual, sums));
  }
  // After a reset, the selector behaves like a new one.
  const std::vector<T> gradient = make_input<T>(input, n, 0, 1, 0);
  HostSelector<T> fresh({n, k, method_of(method, 3)});
  selector.reset();
  REQUIRE(fresh.select(gradient.data(), nullptr, k, true));
  REQUIRE(selector.select(gradient.data(), nullptr, k, true));
  REQUIRE(copy(selector.selection()).indices == copy(fresh.selection()).indices);
  check_selection(copy(selector.selection()), gradient);
}

/// Computes thres1, thres2 and their counts by CommLib Algorithm 1, lines 1 to 24, literally, except for the initial values:
/// nothing reaches thres1, and everything except zeros reaches thres2.
template <class T>
struct SlowMsTopk {
  double upper = std::numeric_limits<double>::infinity(), lower = std::numeric_limits<double>::denorm_min();
  std::int64_t upper_count = 0, lower_count;

  SlowMsTopk(const std::vector<T>& x, std::int64_t k, int samplings) : lower_count(nonzero_count(x)) {
    std::vector<double> magnitudes(x.begin(), x.end());
    for (double& m : magnitudes) m = std::abs(m);
    const double largest = *std::max_element(magnitudes.begin(), magnitudes.end());
    const double mean =
        std::min(largest, std::accumulate(magnitudes.begin(), magnitudes.end(), 0.0) / static_cast<double>(x.size()));
    double l = 0, r = 1;
    for (int i = 0; i < samplings; ++i) {
      const double ratio = l + (r - l) / 2;
      const double threshold = mean + ratio * (largest - mean);
      const std::int64_t count =
          std::count_if(magnitudes.begin(), magnitudes.end(), [&](double m) { return m >= threshold && m > 0; });
      if (count <= k) {
        r = ratio;
        if (count > upper_count) {
          upper_count = count;
          upper = threshold;
        }
      } else {
        l = ratio;
        if (count < lower_count) {
          lower_count = count;
          lower = threshold;
        }
      }
    }
  }
};

template <class T>
void check_mstopk(const std::vector<T>& x, std::int64_t k, int samplings) {
  const auto n = static_cast<std::int64_t>(x.size());
  const SlowMsTopk<T> slow(x, k, samplings);
  HostSelector<T> selector({n, k, make_threshold("mstopk", fmt::format("samplings={}", samplings))});
  REQUIRE(selector.select(x.data(), nullptr, k, true));
  std::vector<bool> chosen(x.size());
  for (const std::uint32_t i : selector.selection().index_span()) chosen[i] = true;
  REQUIRE(selector.selection().count == std::min(k, nonzero_count(x)));
  std::int64_t above = 0, runs = 0;
  bool in_run = false;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double magnitude = std::abs(static_cast<double>(x[i]));
    if (magnitude >= slow.upper && magnitude > 0) {
      ++above;
      REQUIRE(chosen[i]);
    } else if (magnitude >= slow.lower && magnitude > 0) {
      runs += chosen[i] && !in_run;
      in_run = chosen[i];
    } else {
      REQUIRE(!chosen[i]);
    }
  }
  REQUIRE(above == slow.upper_count);
  REQUIRE(runs <= 1);
}

enum class Shape { normal, laplace, log_normal, shifted_normal };

template <class T>
std::vector<T> sample_of(Shape shape, std::int64_t n, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::exponential_distribution<double> exponential;
  std::vector<T> x(static_cast<std::size_t>(n));
  for (T& value : x) {
    const double sign = random() % 2 ? 1 : -1;
    value = static_cast<T>(shape == Shape::normal           ? 1e-3 * normal(random)
                           : shape == Shape::laplace        ? sign * exponential(random)
                           : shape == Shape::shifted_normal ? 2 + normal(random)
                                                            : sign * std::exp(2 * normal(random)));
  }
  return x;
}

template <class T>
Moments<T> moments_of(const std::vector<T>& x) {
  return kernels::reference::moments<T>(x.data(), nullptr, static_cast<std::int64_t>(x.size()));
}

template <class T>
Exceedances<T> exceedances_of(const std::vector<T>& x, Key<T> from = 0) {
  return kernels::reference::exceedances<T>(x.data(), nullptr, static_cast<std::int64_t>(x.size()), from);
}

template <class T>
std::int64_t count_above(const std::vector<T>& x, double threshold) {
  return std::count_if(x.begin(), x.end(), [&](T v) { return std::abs(static_cast<double>(v)) >= threshold; });
}

}  // namespace

TEMPLATE_TEST_CASE("every method selects what it promises and keeps the rest", "[selector]", float, double) {
  for (const std::string& method : all_thresholds) {
    for (const std::int64_t n : {0, 1, 2, 3, 17, 1000, 6007}) {
      for (const std::int64_t k : std::set<std::int64_t>{0, std::min<std::int64_t>(n, 1), n / 100, n / 7, n / 2, n - n / 10, n}) {
        for (const Input input : all_inputs()) {
          if (!left_out(4)) check_method<TestType>(method, input, n, k);
        }
      }
    }
    check_method<TestType>(method, Input::heavy_tailed, 100003, 1000);
    check_method<TestType>(method, Input::jumping, 100003, 37);
  }
}

TEMPLATE_TEST_CASE("roll_back restores the residual, also after gradients far larger", "[selector]", float, double) {
  using T = TestType;
  const std::int64_t n = 20011, k = 200;
  for (const std::string& method : all_thresholds) {
    for (const bool huge : {false, true}) {
      if (huge && method == "mstopk") continue;  // its thresholds lie between mean and maximum, hence are huge, too
      INFO(method << " huge " << huge);
      HostSelector<T> selector({n, k, method_of(method, 3)});
      std::vector<T> residual(static_cast<std::size_t>(n));
      for (int t = 0; t < 3; ++t) {
        const auto gradient = make_input<T>(Input::heavy_tailed, n, 0, 1, t);
        REQUIRE(selector.select(gradient.data(), residual.data(), k, true));
        selector.settle(residual.data(), selector.selection());
      }
      const std::vector<T> before = residual;
      auto gradient = make_input<T>(Input::heavy_tailed, n, 0, 1, 9);
      double threshold = 0;
      for (std::size_t i = 77; huge && i < gradient.size(); i += 1999) gradient[i] = T(1e30);
      REQUIRE(selector.select(gradient.data(), residual.data(), k, true));
      for (const T value : copy(selector.selection()).values) {
        if (threshold == 0 || std::abs(value) < threshold) threshold = std::abs(static_cast<double>(value));
      }
      selector.roll_back(gradient.data(), residual.data());
      double worst = 0;
      for (std::size_t i = 0; i < before.size(); ++i)
        worst = std::max(worst, std::abs(static_cast<double>(residual[i] - before[i])));
      REQUIRE(worst <= 16 * threshold * static_cast<double>(std::numeric_limits<T>::epsilon()));
    }
  }
}

TEMPLATE_TEST_CASE("what is not finite is refused, or selected first", "[selector]", float, double) {
  using T = TestType;
  const std::int64_t n = 5003, k = 100;
  for (const std::string& method : all_thresholds) {
    INFO(method);
    HostSelector<T> selector({n, k, method_of(method, 3)});
    std::vector<T> residual(static_cast<std::size_t>(n), T(0.5));
    const std::vector<T> before = residual;
    auto gradient = make_input<T>(Input::heavy_tailed, n, 0, 1, 0);
    gradient[4] = std::numeric_limits<T>::quiet_NaN();
    gradient[5000] = -std::numeric_limits<T>::infinity();
    REQUIRE(!selector.select(gradient.data(), residual.data(), k, true));
    selector.roll_back(gradient.data(), residual.data());
    for (std::size_t i = 0; i < before.size(); ++i)
      REQUIRE(std::abs(residual[i] - before[i]) <= T(1e-4) * (1 + std::abs(std::isfinite(gradient[i]) ? gradient[i] : T(0))));
    REQUIRE(selector.select(gradient.data(), residual.data(), k, false));
    const auto selected = copy(selector.selection());
    REQUIRE(std::binary_search(selected.indices.begin(), selected.indices.end(), 4u));
    REQUIRE(std::binary_search(selected.indices.begin(), selected.indices.end(), 5000u));
    REQUIRE(count_is_right(method, selector.selection().count, k, n));
  }
}

TEMPLATE_TEST_CASE("whatever is not finite is refused, and leaves the residual, however much of it there is", "[selector]", float,
                   double) {
  using T = TestType;
  const std::int64_t n = 5003, k = 100;
  constexpr T infinity = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  for (const std::string& method : all_thresholds) {
    for (const std::int64_t nans : {std::int64_t{1}, k / 2, k - 1, k, k + 1, 2 * k, n / 2, n - 1}) {
      for (const int good_runs : {0, 3}) {
        for (const Input rest : {Input::heavy_tailed, Input::zeros}) {
          INFO(method << ", " << nans << " NaN and an infinity after " << good_runs << " runs");
          HostSelector<T> selector({n, k, method_of(method, 3)});
          std::vector<T> residual(static_cast<std::size_t>(n));
          for (int t = 0; t < good_runs; ++t) {
            const auto gradient = make_input<T>(Input::heavy_tailed, n, 0, 1, t);
            REQUIRE(selector.select(gradient.data(), residual.data(), k, true));
            selector.settle(residual.data(), selector.selection());
          }
          const std::vector<T> before = residual;
          auto gradient = make_input<T>(rest, n, 0, 1, 9);
          for (std::int64_t i = 0; i < nans; ++i) gradient[static_cast<std::size_t>(i * 4999 % n)] = nan;
          gradient[static_cast<std::size_t>(nans * 4999 % n)] = -infinity;
          REQUIRE(!selector.select(gradient.data(), residual.data(), k, true));
          selector.roll_back(gradient.data(), residual.data());
          for (std::size_t i = 0; i < before.size(); ++i) {
            const T size = std::isfinite(gradient[i]) ? std::abs(gradient[i]) : T(0);
            REQUIRE(std::abs(residual[i] - before[i]) <= T(1e-6) * (std::abs(before[i]) + size));
          }
          const auto next = make_input<T>(Input::heavy_tailed, n, 0, 1, 10);
          REQUIRE(selector.select(next.data(), residual.data(), k, true));
          REQUIRE(count_is_right(method, selector.selection().count, k, n));
        }
      }
    }
  }
}

TEST_CASE("no method allocates once it is made", "[selector]") {
  const std::int64_t n = 50021, k = 500;
  for (const std::string& method : all_thresholds) {
    HostSelector<float> selector({n, k, method_of(method, 3)});
    for (const bool warm : {false, true}) {  // in the first pass coroutines have no frames yet
      selector.reset();
      std::vector<float> residual(static_cast<std::size_t>(n));
      for (const Input input : all_inputs()) {
        const auto gradient = make_input<float>(input, n, 0, 1, 0);
        const std::int64_t before = allocations_of_this_thread();
        selector.select(gradient.data(), residual.data(), k, true);
        selector.settle(residual.data(), selector.selection());
        const std::int64_t made = allocations_of_this_thread() - before;
        INFO(method << " " << input_name(input));
        if (warm) REQUIRE(made == 0);
      }
    }
  }
}

TEMPLATE_TEST_CASE("mstopk follows Algorithm 1", "[selector]", float, double) {
  using T = TestType;
  for (const int samplings : {1, 2, 5, 12, 30, 200}) {
    for (const std::int64_t n : {1, 2, 50, 1003, 40009}) {
      for (const std::int64_t k : std::set<std::int64_t>{1, n / 100 + 1, n / 3 + 1, n}) {
        INFO("samplings " << samplings << " n " << n << " k " << k);
        check_mstopk(sample_of<T>(Shape::normal, n, 1), k, samplings);
        check_mstopk(sample_of<T>(Shape::log_normal, n, 2), k, samplings);
        check_mstopk(make_input<T>(Input::integers, n, 0, 1, 0), k, samplings);
        check_mstopk(make_input<T>(Input::constant, n, 0, 1, 0), k, samplings);
        check_mstopk(make_input<T>(Input::few_nonzeros, n, 0, 1, 0), k, samplings);
      }
    }
  }
}

TEST_CASE("mstopk takes another slice in another iteration", "[selector]") {
  const std::int64_t n = 1000, k = 10;
  const auto gradient = make_input<float>(Input::constant, n, 0, 1, 0);
  HostSelector<float> selector({n, k, make_threshold("mstopk")});
  std::set<std::uint32_t> starts;
  for (int t = 0; t < 10; ++t) {
    REQUIRE(selector.select(gradient.data(), nullptr, k, true));
    const auto selected = copy(selector.selection());
    REQUIRE(selected.indices.back() - selected.indices.front() == k - 1);
    starts.insert(selected.indices.front());
  }
  REQUIRE(starts.size() > 5);
}

TEMPLATE_TEST_CASE("guarded methods stay within their guard", "[selector]", float, double) {
  using T = TestType;
  const std::int64_t n = 200003;
  for (const std::string& method : guarded_methods) {
    for (const Shape shape : {Shape::normal, Shape::laplace, Shape::log_normal, Shape::shifted_normal}) {
      for (const double density : {0.001, 0.01, 0.1}) {
        if (left_out(4)) continue;
        const auto k = static_cast<std::int64_t>(density * static_cast<double>(n));
        HostSelector<T> selector({n, k, make_threshold(method)});
        std::vector<T> residual(static_cast<std::size_t>(n));
        for (unsigned t = 0; t < 5; ++t) {
          const auto gradient = sample_of<T>(shape, n, t);
          REQUIRE(selector.select(gradient.data(), residual.data(), k, true));
          selector.settle(residual.data(), selector.selection());
          INFO(method << " shape " << static_cast<int>(shape) << " density " << density);
          REQUIRE(within_guard(selector.selection().count, k));
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("estimates are right for the distributions they assume", "[selector]", float, double) {
  using T = TestType;
  const std::int64_t n = 400009;
  for (const double density : {0.002, 0.01, 0.1, 0.5}) {
    INFO("density " << density);
    const auto k = static_cast<std::int64_t>(density * static_cast<double>(n));
    const auto error = [&](const std::vector<T>& x, double threshold) {
      return std::abs(static_cast<double>(count_above(x, threshold)) / static_cast<double>(k) - 1);
    };
    for (const Shape shape : {Shape::normal, Shape::shifted_normal}) {
      const auto x = sample_of<T>(shape, n, 3);
      REQUIRE(error(x, gaussian_threshold(moments_of(x), k)) < 0.1);
    }
    const auto x = sample_of<T>(Shape::laplace, n, 4);
    for (const int stages : {1, 2, 4}) {
      SidcoFit fit(k, stages);
      int taken = 1;
      Exceedances<T> reaching = exceedances_of(x);
      for (; fit.refine(reaching); ++taken) reaching = exceedances_of(x, key_at_least<T>(fit.threshold()));
      REQUIRE(taken <= stages);
      REQUIRE(error(x, fit.threshold()) < 0.1);
    }
  }
}

TEST_CASE("more stages bring SIDCo nearer to k where the tail is not exponential", "[selector]") {
  const std::int64_t n = 400009, k = 4000;
  for (const Shape shape : {Shape::normal, Shape::log_normal}) {
    const auto x = sample_of<float>(shape, n, 5);
    SidcoStages stages;
    std::int64_t count = 0;
    for (int t = 0; t < 10; ++t) {
      SidcoFit fit(k, stages.stages());
      Exceedances<float> reaching = exceedances_of(x);
      while (fit.refine(reaching)) reaching = exceedances_of(x, key_at_least<float>(fit.threshold()));
      count = count_above(x, fit.threshold());
      stages.adapt(count, k);
    }
    INFO("shape " << static_cast<int>(shape));
    REQUIRE(stages.stages() > 1);
    REQUIRE(within_guard(count, k));
  }
}

TEMPLATE_TEST_CASE("key_at_least is the first key whose magnitude suffices", "[selector]", float, double) {
  using T = TestType;
  REQUIRE(key_at_least<T>(0) == 1);
  REQUIRE(key_at_least<T>(-1) == 1);
  REQUIRE(key_at_least<T>(std::numeric_limits<double>::quiet_NaN()) == 1);
  REQUIRE(key_at_least<T>(0.25) == key_of(T(0.25)));
  REQUIRE(key_at_least<T>(std::numeric_limits<double>::infinity()) == key_infinity<T>);
  const double third = 1.0 / 3;
  const Key<T> key = key_at_least<T>(third);
  REQUIRE(static_cast<double>(std::bit_cast<T>(key)) >= third);
  REQUIRE(static_cast<double>(std::bit_cast<T>(static_cast<Key<T>>(key - 1))) < third);
}

}  // namespace weir::test
