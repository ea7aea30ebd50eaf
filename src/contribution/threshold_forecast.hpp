// threshold_forecast.hpp: predicts the threshold of the next iteration from those of earlier ones.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "base/state.hpp"
#include "kernels/kernels.hpp"

namespace weir {

/// The distance between the keys of x and 2 x.
template <class T>
inline constexpr Key<T> octave = Key<T>{1} << (sizeof(T) == 4 ? 23 : 52);

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
