#include "contribution/threshold_estimators.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/splitmix.hpp"

namespace weir {
namespace {

constexpr double first_ratio = 0.25;     // delta_1 of SIDCo
constexpr double stage_tolerance = 0.2;  // epsilon of SIDCo
constexpr int most_stages = 6;           // of SIDCo: the last but one leaves about 1e-3 of all
constexpr int most_adjustments = 64;     // halvings: only ties can keep the count out of the guard for so long
constexpr std::int64_t least_sample = 32768;
constexpr std::int64_t sampled_hits = 400;  // so many of a sample determine a count within some 5 %

double magnitude_of(Key<float> key) { return std::bit_cast<float>(key); }
double magnitude_of(Key<double> key) { return std::bit_cast<double>(key); }

}  // namespace

template <class T>
Key<T> key_at_least(double magnitude) {
  if (!(magnitude > 0)) return 1;
  const T nearest = static_cast<T>(magnitude);
  const Key<T> key = key_of(nearest);
  return static_cast<double>(nearest) < magnitude ? key + 1 : std::max<Key<T>>(key, 1);
}

template <class T>
MsTopkThresholds<T> mstopk_thresholds(const Candidates<T>& candidates, const Exceedances<T>& all, std::int64_t k, int samplings) {
  MsTopkThresholds<T> found{std::numeric_limits<Key<T>>::max(), 0, 1};
  const double largest = magnitude_of(all.largest);
  const double mean = std::min(all.sum_magnitudes / static_cast<double>(all.count), largest);
  double left = 0, right = 1;
  for (int sampling = 0; sampling < samplings; ++sampling) {
    const double ratio = left + (right - left) / 2;
    const Key<T> threshold = key_at_least<T>(mean + ratio * (largest - mean));
    // Where the answer is known, counting again would change nothing: counts grow as thresholds fall.
    bool few = threshold >= found.upper;
    if (!few && threshold > found.lower && threshold >= candidates.floor) {
      const std::int64_t count = candidates.count_at_least(threshold);
      few = count <= k;
      if (few) {
        found.upper = threshold;
        found.upper_count = count;
      }
    }
    if (few) {
      right = ratio;
    } else {
      left = ratio;
      found.lower = std::max(found.lower, threshold);
    }
  }
  return found;
}

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

template <class T>
Key<T> redsync_threshold(const Candidates<T>& candidates, const Exceedances<T>& all, std::int64_t k, int samplings) {
  const double largest = magnitude_of(all.largest);
  const double mean = std::min(all.sum_magnitudes / static_cast<double>(all.count), largest);
  Key<T> key = candidates.floor;
  double left = 0, right = 1;
  for (int sampling = 0; sampling < samplings; ++sampling) {
    const double ratio = left + (right - left) / 2;
    const Key<T> threshold = key_at_least<T>(mean + ratio * (largest - mean));
    key = std::max(threshold, candidates.floor);
    const std::int64_t count = candidates.count_at_least(key);
    if (threshold >= candidates.floor && count >= k && count <= guard_limit(k)) break;
    (threshold >= candidates.floor && count < k ? right : left) = ratio;
  }
  return key;
}

template <class T>
bool SidcoFit::refine(const Exceedances<T>& reaching) {
  if (reaching.count == 0) return false;
  const auto count = static_cast<double>(reaching.count);
  const double share = std::min(1.0, k_ / count);
  const bool last = --stages_ <= 0 || share >= first_ratio;
  threshold_ -= (reaching.sum_magnitudes / count - threshold_) * std::log(last ? share : first_ratio);
  return !last;
}

void SidcoStages::adapt(std::int64_t count, std::int64_t k) {
  const double error = std::abs(static_cast<double>(count) / static_cast<double>(k) - 1);
  if (error > stage_tolerance) {
    if (error > error_) direction_ = -direction_;
    if (stages_ + direction_ < 1 || stages_ + direction_ > most_stages) direction_ = -direction_;
    stages_ += direction_;
  }
  error_ = error;
}

void SidcoStages::visit(StateVisitor& visitor) {
  visitor.value("stages", stages_);
  visitor.check(stages_ >= 1 && stages_ <= most_stages, "stages", fmt::format("from 1 to {}", most_stages));
  visitor.value("direction", direction_);
  visitor.check(direction_ == 1 || direction_ == -1, "direction", "1 or -1");
  visitor.value("error", error_);
}

std::uint64_t random_number(std::uint64_t index) { return splitmix64(index * 0x9e3779b97f4a7c15ull); }

namespace {

/// So many of `count` tell where the k-th is.
std::int64_t telling_size(std::int64_t count, std::int64_t k) { return std::max(least_sample, sampled_hits * (count / k)); }

}  // namespace

std::int64_t ThresholdSample::largest(std::int64_t count, std::int64_t k, bool always) {
  const std::int64_t most = std::max(least_sample, count / 100);
  if (always || k == 0) return std::min(count, most);
  return std::min({count, most, telling_size(count, k)});
}

ThresholdSample::ThresholdSample(std::int64_t count, std::int64_t room, std::int64_t k, bool safe, std::int64_t turn)
    : size(std::min(room, telling_size(count, k))),
      stride(count / size),
      rest(count % size),
      offset(static_cast<std::int64_t>(random_number(static_cast<std::uint64_t>(turn)) % static_cast<std::uint64_t>(stride))) {
  const double expected = static_cast<double>(k) * static_cast<double>(size) / static_cast<double>(count);
  const double wanted = size == count ? expected : safe ? std::ceil(1.1 * expected + 4 * std::sqrt(expected) + 4) : expected;
  rank = std::clamp<std::int64_t>(std::llround(wanted), 1, size);
}

#define WEIR_INSTANTIATE(T)                                                                                       \
  template Key<T> key_at_least<T>(double);                                                                        \
  template MsTopkThresholds<T> mstopk_thresholds(const Candidates<T>&, const Exceedances<T>&, std::int64_t, int); \
  template double gaussian_threshold(const Moments<T>&, std::int64_t);                                            \
  template Key<T> adjusted_threshold(const Candidates<T>&, const Moments<T>&, double, std::int64_t);              \
  template Key<T> redsync_threshold(const Candidates<T>&, const Exceedances<T>&, std::int64_t, int);              \
  template bool SidcoFit::refine(const Exceedances<T>&);

WEIR_INSTANTIATE(float)
WEIR_INSTANTIATE(double)
#undef WEIR_INSTANTIATE

}  // namespace weir
