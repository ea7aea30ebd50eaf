// selection_setup.hpp: the parameters of a selection, for any memory, and the rules that follow from them; the sample and the
// forecast from which its threshold is estimated.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/state.hpp"
#include "compress/compressor.hpp"
#include "contribution/threshold.hpp"
#include "kernels/kernels.hpp"

namespace weir {

/// Returns the first key whose value may overflow when multiplied by `factor`; factor >= 1.
template <class T>
[[nodiscard]] Key<T> first_overflow(double factor) {
  if (factor == 1) return key_infinity<T>;
  return static_cast<Key<T>>(key_of(static_cast<T>(static_cast<double>(std::numeric_limits<T>::max()) / factor)) + 1);
}

struct SelectionSetup {
  std::int64_t count = 0;      ///< n
  std::int64_t largest_k = 0;  ///< largest k of any iteration
  ThresholdMethod threshold = make_threshold("exact");
  // If entries other than the k largest are picked, `threshold` is exact:
  compress::Picking picking = compress::Picking::largest;
  double picking_value = 0;  ///< for Picking::above_value
  bool scales_up = false;    ///< for Picking::random

  /// Returns the first key whose value would not be finite as it travels, if k random entries are picked.
  template <class T>
  [[nodiscard]] Key<T> first_wild(std::int64_t k) const {
    return scales_up && k > 0 ? first_overflow<T>(std::ceil(static_cast<double>(count) / static_cast<double>(k))) : key_infinity<T>;
  }
  [[nodiscard]] Summary summary() const { return threshold.row->summary; }
  [[nodiscard]] bool estimates() const { return summary() != Summary::none; }
  /// Returns true if every iteration takes a sample, not only the first.
  [[nodiscard]] bool samples_always() const { return estimates() || threshold.row->sampled; }
  /// Returns the most candidates: twice the selection, and some spare ones.
  [[nodiscard]] std::int64_t capacity() const { return std::min(count, 2 * largest_k + spare_candidates); }
  /// Returns the most values that an estimator reads in host memory.
  [[nodiscard]] std::int64_t values_on_host() const { return estimates() ? capacity() : 0; }
  static constexpr std::int64_t spare_candidates = 4096;
  /// Returns true if the `hits` candidates, all entries from key `floor` on, can be the selection without ranking.
  [[nodiscard]] bool accepts(std::int64_t hits, std::int64_t k, bool reuse, std::uint64_t floor) const {
    if (picking == compress::Picking::above_value) return hits <= k;
    if (reuse) return 4 * hits <= 5 * k && (5 * hits >= 4 * k || floor == 1);
    return threshold.row->sampled && 4 * hits <= 5 * k && (4 * hits >= 3 * k || floor == 1);
  }
  /// Returns true if all candidates were stored and include the `wanted` largest: there are at least `wanted`, or they are all that
  /// is not 0.
  [[nodiscard]] bool has_enough(std::int64_t hits, std::int64_t wanted, std::uint64_t floor) const {
    return hits <= capacity() && (hits >= wanted || floor == 1);
  }
};

/// A regular sample of n entries, and the rank of the threshold in it.
struct ThresholdSample {
  std::int64_t size, stride, rest, offset;
  std::int64_t rank;  ///< this many of the sample reach a threshold that k of all entries reach

  /// Takes a sample of `count` entries, at most `room` of them. `safe`: fewer than k hardly ever reach the threshold. Samples of
  /// different `turn` differ.
  ThresholdSample(std::int64_t count, std::int64_t room, std::int64_t k, bool safe, std::int64_t turn);

  [[nodiscard]] std::int64_t position(std::int64_t i) const { return i * stride + i * rest / size + offset; }

  /// Returns the largest sample size: 1 % of the entries, but at least 32768 (DGC). If only some iterations need a sample (not
  /// `always`), just enough for a safe threshold.
  [[nodiscard]] static std::int64_t largest(std::int64_t count, std::int64_t k, bool always);
};

/// The distance between the keys of x and 2 x.
template <class T>
inline constexpr Key<T> octave = Key<T>{1} << (sizeof(T) == 4 ? 23 : 52);

/// Predicts the threshold of the next iteration from those of earlier ones.
template <class T>
class ThresholdForecast {
 public:
  /// Returns a key somewhat below the expected threshold, if it moves as it has moved lately. While residuals build up, the
  /// threshold rises every time, but less and less, so half of the smallest rise is expected.
  [[nodiscard]] Key<T> floor(Key<T> threshold) const {
    const double least = *std::min_element(rises_.begin(), rises_.end());
    const double change = std::clamp((least > 0 ? least / 2 : least) - margin_, -1.0, 1.0);
    const auto floor = static_cast<std::int64_t>(threshold) + static_cast<std::int64_t>(change * static_cast<double>(octave<T>));
    return static_cast<Key<T>>(std::clamp<std::int64_t>(floor, 1, static_cast<std::int64_t>(key_infinity<T>)));
  }

  /// Learns from a run: `hits` entries reached the floor, k were wanted, and the threshold moved from `last` (0: unknown) to `now`.
  void learn(std::int64_t hits, std::int64_t k, Key<T> last, Key<T> now) {
    // The number of entries that reach a threshold varies by about its square root, which for small k is more than a few per cent.
    const auto wanted = static_cast<double>(k), spare = static_cast<double>(hits) - wanted, root = std::sqrt(wanted);
    if (spare < 0)
      margin_ *= 2;  // a miss costs a pass; a few more candidates cost almost nothing
    else if (spare < std::max(0.03 * wanted, 1.5 * root))
      margin_ *= 1.25;
    else if (spare > std::max(0.1 * wanted, 5 * root))
      margin_ /= 1.25;
    margin_ = std::clamp(margin_, least_margin, most_margin);
    if (last == 0) return;
    const auto rise = static_cast<double>(static_cast<std::int64_t>(now) - static_cast<std::int64_t>(last));
    std::rotate(rises_.begin(), rises_.begin() + 1, rises_.end());
    rises_.back() = rise / static_cast<double>(octave<T>);
  }

  void visit(StateVisitor& visitor) {
    visitor.values("rises", std::span<double>(rises_));
    visitor.check(std::all_of(rises_.begin(), rises_.end(), [](double rise) { return std::isfinite(rise); }), "rises", "finite");
    visitor.value("margin", margin_);
    visitor.check(margin_ >= least_margin && margin_ <= most_margin, "margin",
                  fmt::format("from {} to {}", least_margin, most_margin));
  }

 private:
  static constexpr double first_margin = 0.1, least_margin = 0.01, most_margin = 1;
  std::array<double, 4> rises_{};  // recent rises of the threshold, in octaves
  double margin_ = first_margin;   // how far below the expected threshold, in octaves
};

}  // namespace weir
