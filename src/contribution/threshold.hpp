// threshold.hpp: how a rank finds the magnitude above which entries are selected, and the registry of all methods, one row each.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "async/task.hpp"
#include "base/parameters.hpp"
#include "kernels/kernels.hpp"

namespace weir {

/// An estimated selection may hold between 3/4 k and 5/4 k entries.
[[nodiscard]] constexpr bool within_guard(std::int64_t count, std::int64_t k) { return 4 * count >= 3 * k && 4 * count <= 5 * k; }
/// Returns the most entries within the guard.
[[nodiscard]] constexpr std::int64_t guard_limit(std::int64_t k) { return k + k / 4; }
/// Returns the most entries that a selection of k may hold.
[[nodiscard]] constexpr std::int64_t most_selected(bool at_most_k, std::int64_t count, std::int64_t k) {
  return at_most_k ? k : std::min(count, guard_limit(k));
}

/// Returns the smallest key whose magnitude is at least `magnitude`. Returns 1, which all entries except zeros reach, if
/// `magnitude` is NaN or not positive.
template <class T>
[[nodiscard]] Key<T> key_at_least(double magnitude);
/// Returns the `index`-th of a fixed sequence of random numbers.
[[nodiscard]] std::uint64_t random_number(std::uint64_t index);

/// All entries of a vector x with key >= floor. They suffice to count what a threshold of at least `floor` selects. A lower
/// threshold selects more than the guard allows, unless `floor` is 1: the candidates are then all entries that are not 0.
template <class T>
struct Candidates {
  const T* values = nullptr;
  std::int64_t count = 0;
  Key<T> floor = 1;

  /// Requires floor <= threshold.
  [[nodiscard]] std::int64_t count_at_least(Key<T> threshold) const {
    return kernels::host::select<T>(values, count, threshold, nullptr, nullptr, 0);
  }
};

/// The sums over the whole compensated gradient that an estimator needs.
enum class Summary { none, moments, magnitudes };

/// What an estimator learns about the compensated gradient.
template <class T>
struct Survey {
  std::int64_t k = 0;
  std::int64_t iteration = 0;   ///< random choices may depend on it
  Candidates<T> candidates{};   ///< more than 5/4 k, or all that are not 0; in host memory
  Moments<T> moments{};         ///< filled for Summary::moments
  Exceedances<T> magnitudes{};  ///< filled for Summary::magnitudes: over all elements that are not 0
};

/// Answers further questions of an estimator. Each is a pass over the whole vector.
template <class T>
class WholeVector {
 public:
  virtual task<std::int64_t> count_at_least(Key<T> threshold) = 0;
  virtual task<Exceedances<T>> exceedances(Key<T> threshold) = 0;

 protected:
  ~WholeVector() = default;
};

/// The result of an estimator.
template <class T>
struct Estimate {
  Band<T> band{};          ///< the band that is selected
  std::int64_t count = 0;  ///< number of entries in it
};
/// Returns the entries that reach `threshold`. Returns nothing if the candidates lack some of them, or if their number is outside
/// the guard.
template <class T>
[[nodiscard]] std::optional<Estimate<T>> all_from(Key<T> threshold, const Candidates<T>& candidates, std::int64_t k) {
  if (threshold < candidates.floor) return std::nullopt;
  const std::int64_t count = candidates.count_at_least(threshold);
  if (!within_guard(count, k)) return std::nullopt;
  return Estimate<T>{{threshold, threshold, 0, 0}, count};
}

/// What an estimator remembers between iterations; all 0: nothing. Every saved state includes it, whatever the threshold, so that
/// it can be restored to a plan with another threshold.
using EstimatorState = std::array<double, 3>;

/// Finds a threshold that about k entries reach, without ranking them.
template <class T>
class ThresholdEstimator {
 public:
  virtual ~ThresholdEstimator() = default;
  /// Returns what to select, or nullopt for the k largest, found exactly. The arguments must outlive the call.
  virtual task<std::optional<Estimate<T>>> estimate(const Survey<T>& survey, WholeVector<T>& whole, EstimatorState& state) = 0;
};

/// The factories of a class template of estimators.
struct EstimatorFactories {
  std::unique_ptr<ThresholdEstimator<float>> (*float32)(const Parameters&) = nullptr;
  std::unique_ptr<ThresholdEstimator<double>> (*float64)(const Parameters&) = nullptr;
};
template <template <class T> class Estimator>
inline constexpr EstimatorFactories make_estimators{
    [](const Parameters& parameters) -> std::unique_ptr<ThresholdEstimator<float>> {
      return std::make_unique<Estimator<float>>(parameters);
    },
    [](const Parameters& parameters) -> std::unique_ptr<ThresholdEstimator<double>> {
      return std::make_unique<Estimator<double>>(parameters);
    }};

/// One row of the registry.
struct ThresholdRow {
  std::string_view name, description, source{};
  std::span<const ParameterInfo> parameters{};
  bool at_most_k = false;  ///< no selection has more than k entries; otherwise up to 5/4 k
  /// Returns the number of runs in which the last threshold may be used again, as long as 4/5 k to 5/4 k entries reach it. nullptr:
  /// thresholds are not used again.
  std::int64_t (*period)(const Parameters&) = nullptr;
  bool sampled = false;  ///< selects the entries that reach the threshold of a sample, within the guard
  Summary summary = Summary::none;
  EstimatorFactories estimators{};  ///< null if selection is exact
};

/// A row and its parameters.
struct ThresholdMethod {
  const ThresholdRow* row;
  Parameters parameters;

  [[nodiscard]] bool at_most_k() const { return row->at_most_k; }
  /// Returns the period, or 0 if each run finds its own threshold.
  [[nodiscard]] std::int64_t period() const { return row->period != nullptr ? row->period(parameters) : 0; }
  template <class T>
  [[nodiscard]] std::unique_ptr<ThresholdEstimator<T>> make_estimator() const {
    if (row->estimators.float32 == nullptr) return nullptr;
    if constexpr (sizeof(T) == 4)
      return row->estimators.float32(parameters);
    else
      return row->estimators.float64(parameters);
  }
  /// Returns a text such as "reuse period=8": the name and all parameters.
  [[nodiscard]] std::string text() const;
};

// The rows.
#define WEIR_THRESHOLD(name) extern const ThresholdRow threshold_##name;
#include "contribution/thresholds.def"
#undef WEIR_THRESHOLD

[[nodiscard]] std::span<const ThresholdRow* const> threshold_registry();
/// Returns a method by name. Throws Error(WEIR_ERR_ARGUMENT).
[[nodiscard]] ThresholdMethod make_threshold(std::string_view name, std::string_view parameters = {});
/// Returns the method that a configuration asks for. `fixed`, if not empty, is the method that defines the algorithm, and replaces
/// it. Throws Error(WEIR_ERR_ARGUMENT).
template <class Config>
[[nodiscard]] ThresholdMethod threshold_of(const Config& config, std::string_view fixed) {
  ThresholdMethod asked = make_threshold(config.threshold, config.threshold_parameters);
  return fixed.empty() ? asked : make_threshold(fixed);
}

}  // namespace weir
