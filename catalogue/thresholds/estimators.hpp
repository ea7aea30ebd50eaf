// estimators.hpp: thresholds that roughly k entries reach, found from moments and counts instead of a ranking.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "base/parameters.hpp"
#include "contribution/threshold.hpp"
#include "kernels/kernels.hpp"

namespace weir {

/// thres1 and thres2 of CommLib Algorithm 1: entries that reach `upper` are selected; those that reach only `lower` fill up to k.
template <class T>
struct MsTopkThresholds {
  Key<T> upper;
  std::int64_t upper_count;  ///< k1 <= k
  Key<T> lower;              ///< more than k entries reach it, or it is 1; may be below the candidates' floor
};

/// Runs CommLib Algorithm 1, lines 1-24: `samplings` bisections of the ratio between the mean (0) and the largest magnitude (1) of
/// x, all counted among the candidates. At first no entry reaches `upper`, and all nonzero entries reach `lower`.
template <class T>
[[nodiscard]] MsTopkThresholds<T> mstopk_thresholds(const Candidates<T>& candidates, const Exceedances<T>& all, std::int64_t k,
                                                    std::int64_t samplings);

/// Gaussiank (Shi et al. 2019, as in Ok-Topk section 5): returns the magnitude that k entries would exceed, on both sides together,
/// if x were normal with its mean and variance.
template <class T>
[[nodiscard]] double gaussian_threshold(const Moments<T>& all, std::int64_t k);

/// Moves `threshold` by bisection until the count is within the guard. Returns its key, which is at least the floor. The count may
/// still be outside the guard if many entries tie.
template <class T>
[[nodiscard]] Key<T> adjusted_threshold(const Candidates<T>& candidates, const Moments<T>& all, double threshold, std::int64_t k);

/// RedSync (Fang et al. 2019), threshold binary search: bisects the ratio between the mean (0) and the largest magnitude (1), at
/// most `samplings` times, until k to 5/4 k entries reach the threshold; the paper stops at 2 k. Returns the last threshold tried,
/// never below the floor.
template <class T>
[[nodiscard]] Key<T> redsync_threshold(const Candidates<T>& candidates, const Exceedances<T>& all, std::int64_t k,
                                       std::int64_t samplings);

/// SIDCo (Abdelmoniem et al. 2021) with exponential fits to the excess over the last threshold. Each stage except the last asks for
/// 1/4 of the entries that the previous one left, the last for k. Beyond the paper, the last asks for a share of the counted
/// entries, not of what the stages before should have left, so that their errors do not add up.
class SidcoFit {
 public:
  SidcoFit(std::int64_t k, int stages) : k_(static_cast<double>(k)), stages_(stages) {}
  [[nodiscard]] double threshold() const noexcept { return threshold_; }
  /// Raises the threshold, judging by the entries that reach it. Returns true if another stage follows.
  template <class T>
  [[nodiscard]] bool refine(const Exceedances<T>& reaching);

 private:
  double threshold_ = 0;
  double k_;
  int stages_;  // left
};

/// The number of stages of SIDCo: one more or one fewer while counts miss k by over 20 %; turns round when a count got worse.
class SidcoStages {
 public:
  SidcoStages() = default;
  explicit SidcoStages(const EstimatorState& state);
  [[nodiscard]] EstimatorState state() const;
  [[nodiscard]] int stages() const noexcept { return stages_; }
  void adapt(std::int64_t count, std::int64_t k);

 private:
  int stages_ = 1;
  int direction_ = 1;
  double error_ = std::numeric_limits<double>::infinity();
};

/// Returns the magnitude of a key.
[[nodiscard]] inline double magnitude_of(Key<float> key) { return std::bit_cast<float>(key); }
[[nodiscard]] inline double magnitude_of(Key<double> key) { return std::bit_cast<double>(key); }

}  // namespace weir
