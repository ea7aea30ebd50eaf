// selection_setup.hpp: the parameters of a selector, for any memory, and the rules that follow from them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

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
  /// `always`), just enough to locate the k-th.
  [[nodiscard]] static std::int64_t largest(std::int64_t count, std::int64_t k, bool always);
};

}  // namespace weir
