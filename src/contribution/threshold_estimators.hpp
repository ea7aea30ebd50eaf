// threshold_estimators.hpp: thresholds that roughly k entries reach, found from moments and counts instead of a ranking.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <weir/weir.hpp>

#include "base/state.hpp"
#include "compress/compressor.hpp"
#include "kernels/kernels.hpp"

namespace weir {

/// An estimated selection may hold between 3/4 k and 5/4 k entries.
[[nodiscard]] constexpr bool within_guard(std::int64_t count, std::int64_t k) { return 4 * count >= 3 * k && 4 * count <= 5 * k; }
/// Most entries within the guard.
[[nodiscard]] constexpr std::int64_t guard_limit(std::int64_t k) { return k + k / 4; }

[[nodiscard]] constexpr bool selects_at_most_k(Threshold threshold) {
  return threshold == Threshold::exact || threshold == Threshold::mstopk;
}
/// Most entries that a selection of k may hold.
[[nodiscard]] constexpr std::int64_t most_selected(bool at_most_k, std::int64_t count, std::int64_t k) {
  return at_most_k ? k : std::min(count, guard_limit(k));
}
[[nodiscard]] constexpr std::int64_t most_selected(Threshold threshold, std::int64_t count, std::int64_t k) {
  return most_selected(selects_at_most_k(threshold), count, k);
}

/// The smallest key whose magnitude is at least `magnitude`; 1, which all but zeros reach, if that is not positive or NaN.
template <class T>
[[nodiscard]] Key<T> key_at_least(double magnitude);

/// The entries of a vector x with key >= floor, all of them. What a threshold from `floor` on selects is counted among these few; a
/// lower one selects more than the guard allows, or `floor` is 1.
template <class T>
struct Candidates {
  const T* values = nullptr;
  std::int64_t count = 0;
  Key<T> floor = 1;

  /// floor <= threshold
  [[nodiscard]] std::int64_t count_at_least(Key<T> threshold) const {
    return kernels::host::select<T>(values, count, threshold, nullptr, nullptr, 0);
  }
};

/// thres1 and thres2 of CommLib Algorithm 1: what reaches `upper` is selected, what reaches only `lower` fills up to k.
template <class T>
struct MsTopkThresholds {
  Key<T> upper;
  std::int64_t upper_count;  ///< k1 <= k
  Key<T> lower;              ///< more than k reach it, or it is 1; may be below the candidates' floor
};

/// CommLib Algorithm 1 lines 1-24: `samplings` bisections of the ratio between the mean (0) and the largest magnitude (1) of x, all
/// counted among the candidates. Initially nothing reaches `upper`, and all that is not zero `lower`.
template <class T>
[[nodiscard]] MsTopkThresholds<T> mstopk_thresholds(const Candidates<T>& candidates, const Exceedances<T>& all, std::int64_t k,
                                                    int samplings);

/// Gaussiank (Shi et al. 2019, as in Ok-Topk section 5): the magnitude that k entries would exceed, on both sides together, were x
/// normal with its mean and variance.
template <class T>
[[nodiscard]] double gaussian_threshold(const Moments<T>& all, std::int64_t k);

/// The key of `threshold`, after moving that, by bisection, until the count is within the guard. At least the floor; the count may
/// still be outside where many entries tie.
template <class T>
[[nodiscard]] Key<T> adjusted_threshold(const Candidates<T>& candidates, const Moments<T>& all, double threshold, std::int64_t k);

/// RedSync (Fang et al. 2019), threshold binary search: the ratio between the mean (0) and the largest magnitude (1) is bisected,
/// at most `samplings` times, until from k to 5/4 k entries reach the threshold; the paper stops at 2 k. The last one tried. At
/// least the floor.
template <class T>
[[nodiscard]] Key<T> redsync_threshold(const Candidates<T>& candidates, const Exceedances<T>& all, std::int64_t k, int samplings);

/// SIDCo (Abdelmoniem et al. 2021) with exponential fits to what exceeds the last threshold: each stage but the last asks for 1/4
/// of the entries the one before left, the last for k. Beyond the paper, the last asks for a share of what was counted, not of what
/// the stages before should have left, so that their errors do not add up.
class SidcoFit {
 public:
  SidcoFit(std::int64_t k, int stages) : k_(static_cast<double>(k)), stages_(stages) {}
  [[nodiscard]] double threshold() const noexcept { return threshold_; }
  /// Raises the threshold by what the entries that reach it say. True if another stage follows.
  template <class T>
  [[nodiscard]] bool refine(const Exceedances<T>& reaching);

 private:
  double threshold_ = 0;
  double k_;
  int stages_;  // left
};

/// How many stages SIDCo takes: one more or one fewer while counts miss k by over 20 %, turning round when a count got worse.
class SidcoStages {
 public:
  [[nodiscard]] int stages() const noexcept { return stages_; }
  void adapt(std::int64_t count, std::int64_t k);
  void visit(StateVisitor& visitor);

 private:
  int stages_ = 1;
  int direction_ = 1;
  double error_ = std::numeric_limits<double>::infinity();
};

/// The `index`-th of a fixed sequence of random numbers.
[[nodiscard]] std::uint64_t random_number(std::uint64_t index);

/// The first key whose value, times `factor`, may be no finite one; factor >= 1.
template <class T>
[[nodiscard]] Key<T> first_overflow(double factor) {
  if (factor == 1) return key_infinity<T>;
  return static_cast<Key<T>>(key_of(static_cast<T>(static_cast<double>(std::numeric_limits<T>::max()) / factor)) + 1);
}

/// What a selector needs to know of all of the compensated gradient.
enum class Summary { none, moments, magnitudes };

/// What a selector is made for, wherever its gradient is, and the rules that follow.
struct SelectionSetup {
  std::int64_t count = 0;      ///< n
  std::int64_t largest_k = 0;  ///< largest k of any iteration
  Threshold threshold = Threshold::exact;
  std::int64_t period = 32;  ///< tau', mode reuse
  int samplings = 30;        ///< N, mode mstopk
  // Where other entries than the k largest are picked, `threshold` is exact:
  compress::Picking picking = compress::Picking::largest;
  double picking_value = 0;  ///< of above_value
  bool scales_up = false;    ///< of random ones

  [[nodiscard]] bool uses_moments() const {
    return threshold == Threshold::mstopk || threshold == Threshold::gaussian || threshold == Threshold::sidco ||
           threshold == Threshold::redsync;
  }
  [[nodiscard]] Summary summary() const {
    return threshold == Threshold::gaussian ? Summary::moments : uses_moments() ? Summary::magnitudes : Summary::none;
  }
  /// The first key whose value does not travel as a finite one, where k random entries do.
  template <class T>
  [[nodiscard]] Key<T> first_wild(std::int64_t k) const {
    return scales_up && k > 0 ? first_overflow<T>(std::ceil(static_cast<double>(count) / static_cast<double>(k))) : key_infinity<T>;
  }
  /// In every iteration, not only in the first.
  [[nodiscard]] bool samples_always() const { return uses_moments() || threshold == Threshold::sampled; }
  /// Most candidates: twice the selection, and some.
  [[nodiscard]] std::int64_t capacity() const { return std::min(count, 2 * largest_k + spare_candidates); }
  static constexpr std::int64_t spare_candidates = 4096;
  /// `hits` candidates, everything from key `floor` on, are fit to be the selection as they are.
  [[nodiscard]] bool accepts(std::int64_t hits, std::int64_t k, bool reuse, std::uint64_t floor) const {
    if (picking == compress::Picking::above_value) return hits <= k;
    if (reuse) return 4 * hits <= 5 * k && (5 * hits >= 4 * k || floor == 1);
    return threshold == Threshold::sampled && 4 * hits <= 5 * k && (4 * hits >= 3 * k || floor == 1);
  }
  /// They are all there, and hold the `wanted` largest: they are as many, or they are all that is not zero.
  [[nodiscard]] bool has_enough(std::int64_t hits, std::int64_t wanted, std::uint64_t floor) const {
    return hits <= capacity() && (hits >= wanted || floor == 1);
  }
};

/// A regular sample of n entries, and the rank of the threshold in it.
struct ThresholdSample {
  std::int64_t size, stride, rest, offset;
  std::int64_t rank;  ///< that many of the sample reach a threshold that k of all reach

  /// Takes a sample of `count` entries, at most `room` of them. `safe`: hardly ever fewer than k reach the threshold. `turn`:
  /// samples of different turns differ.
  ThresholdSample(std::int64_t count, std::int64_t room, std::int64_t k, bool safe, std::int64_t turn);

  [[nodiscard]] std::int64_t position(std::int64_t i) const { return i * stride + i * rest / size + offset; }

  /// One entry in a hundred at most (DGC); where not every iteration needs a sample (not `always`), no more than tell where the
  /// k-th is.
  [[nodiscard]] static std::int64_t largest(std::int64_t count, std::int64_t k, bool always);
};

}  // namespace weir
