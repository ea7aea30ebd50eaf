#include <algorithm>
#include <cmath>
#include <numbers>

#include "catalogue/thresholds/estimators.hpp"

namespace weir {
namespace {

constexpr int most_adjustments = 64;  // halvings; only ties can keep the count outside the guard for so long

template <class T>
class Gaussian final : public ThresholdEstimator<T> {
 public:
  explicit Gaussian(const Parameters& /*none*/) {}

  task<std::optional<Estimate<T>>> estimate(const Survey<T>& survey, WholeVector<T>& /*whole*/,
                                            EstimatorState& /*state*/) override {
    const double first = gaussian_threshold(survey.moments, survey.k);
    co_return all_from(adjusted_threshold(survey.candidates, survey.moments, first, survey.k), survey.candidates, survey.k);
  }
};

}  // namespace

template <class T>
double gaussian_threshold(const Moments<T>& all, std::int64_t k) {
  const auto count = static_cast<double>(all.count);
  const double share = static_cast<double>(k) / count;
  const double mean = all.sum / count;
  const double deviation = std::sqrt(std::max(0.0, all.sum_squares / count - mean * mean));
  if (!(deviation > 0)) return std::abs(mean);
  const auto share_above = [&](double threshold) {
    const double scale = deviation * std::numbers::sqrt2;
    return (std::erfc((threshold - mean) / scale) + std::erfc((threshold + mean) / scale)) / 2;
  };
  double low = 0, high = std::abs(mean) + 40 * deviation;
  for (int step = 0; step < 64; ++step) {
    const double middle = low + (high - low) / 2;
    (share_above(middle) > share ? low : high) = middle;
  }
  return high;
}

template <class T>
Key<T> adjusted_threshold(const Candidates<T>& candidates, const Moments<T>& all, double threshold, std::int64_t k) {
  double low = magnitude_of(candidates.floor), high = magnitude_of(all.largest);
  Key<T> key = candidates.floor;
  for (int step = 0; step < most_adjustments; ++step) {
    if (!(threshold >= low && threshold <= high)) threshold = low + (high - low) / 2;
    key = std::max(key_at_least<T>(threshold), candidates.floor);
    const std::int64_t count = candidates.count_at_least(key);
    if (within_guard(count, k)) break;
    (count > k ? low : high) = threshold;
    threshold = low + (high - low) / 2;
  }
  return key;
}

const ThresholdRow threshold_gaussian{.name = "gaussian",
                                      .description =
                                          "the quantile of a normal distribution with the gradient's moments, and a "
                                          "guard on the count",
                                      .source = "Gaussiank (Shi et al. 2019)",
                                      .summary = Summary::moments,
                                      .estimators = make_estimators<Gaussian>};

template double gaussian_threshold(const Moments<float>&, std::int64_t);
template double gaussian_threshold(const Moments<double>&, std::int64_t);
template Key<float> adjusted_threshold(const Candidates<float>&, const Moments<float>&, double, std::int64_t);
template Key<double> adjusted_threshold(const Candidates<double>&, const Moments<double>&, double, std::int64_t);

}  // namespace weir
