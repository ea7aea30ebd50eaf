// largest-inl.hpp: the k largest magnitudes of a few thousand values; compiled once per instruction set, as Highway's
// foreach_target.h asks.
#if defined(WEIR_COMPRESS_LARGEST_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEIR_COMPRESS_LARGEST_INL
#undef WEIR_COMPRESS_LARGEST_INL
#else
#define WEIR_COMPRESS_LARGEST_INL
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/host/keys-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::compress::HWY_NAMESPACE {

/// Finds the k largest values in the order of their keys (kernels/kernels.hpp); ties go to the lowest index. A threshold is guessed
/// from the last call's values. Values that reach it are copied out in one pass, and bisection among these makes the threshold
/// exact. If the guess was too high, bisection among all values finds the threshold.
class Largest {
 public:
  /// Vectors are read and stored whole, so arrays passed to choose() need this much room after their content.
  static constexpr std::int64_t padding = 16;

  explicit Largest(std::int64_t most)
      : values_(static_cast<std::size_t>(most + 2 * padding)), places_(static_cast<std::size_t>(most + 2 * padding)) {}

  /// Writes the k <= count largest of x, in the order of their places. `count` must be a multiple of 16, or zeros must follow x up
  /// to one.
  void choose(const float* HWY_RESTRICT x, std::int64_t count, std::int64_t k, std::uint32_t* HWY_RESTRICT places,
              float* HWY_RESTRICT values) {
    if (k == count) {
      for (std::int64_t i = 0; i < count; ++i) places[i] = static_cast<std::uint32_t>(i);
      std::copy_n(x, count, values);
      return;
    }
    // count(key >= low) = candidates >= k; count(key >= high) < k
    std::int64_t low = guess_, high = std::int64_t{1} << 31;
    std::int64_t candidates = low > 0 ? gather(x, count, low) : 0;
    if (candidates < k) {
      if (low > 0) high = low;
      low = 0;
      candidates = count;
      while (candidates > 2 * k + 32 && high - low > 1) {
        const std::int64_t middle = low + (high - low) / 2;
        const std::int64_t reached = count_reaching(x, count, middle);
        if (reached >= k) {
          low = middle;
          candidates = reached;
        } else {
          high = middle;
        }
      }
      gather(x, count, low);
    }
    // zeros that follow the last value reach no threshold
    hn::StoreU(hn::Zero(FloatTag()), FloatTag(), values_.data() + candidates);
    hn::StoreU(hn::Zero(FloatTag()), FloatTag(), values_.data() + candidates + static_cast<std::int64_t>(hn::Lanes(FloatTag())));
    high = std::min(high, std::int64_t{largest_key(candidates)} + 1);
    std::int64_t chosen = candidates;
    while (chosen != k && high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      const std::int64_t reached = count_reaching(values_.data(), candidates, middle);
      if (reached >= k) {
        low = middle;
        chosen = reached;
      } else {
        high = middle;
      }
    }
    if (chosen == k) {
      copy_reaching(candidates, low, places, values);
    } else {
      copy_with_ties(candidates, low, k - count_reaching(values_.data(), candidates, high), places, values);
    }
    // a quarter of an octave lower
    guess_ = std::max<std::int64_t>(0, low - (1 << 21));
  }

  [[nodiscard]] std::int64_t memory_bytes() const {
    return static_cast<std::int64_t>(sizeof(float) * (values_.size() + places_.size()));
  }

 private:
  using FloatTag = hn::CappedTag<float, 16>;
  using KeyTag = hn::RebindToSigned<FloatTag>;
  using PlaceTag = hn::RebindToUnsigned<FloatTag>;

  static HWY_INLINE hn::Vec<KeyTag> keys(const float* x) {
    return kernels::host::HWY_NAMESPACE::keys_of(FloatTag(), hn::LoadU(FloatTag(), x));
  }
  static HWY_INLINE hn::Vec<KeyTag> below(std::int64_t key) { return hn::Set(KeyTag(), static_cast<std::int32_t>(key - 1)); }
  template <class D>
  static HWY_INLINE hn::Vec<D> compress(D d, hn::Vec<D> x, hn::Mask<D> wanted) {
    return kernels::host::HWY_NAMESPACE::compress(d, x, wanted);
  }

  /// Returns how many values reach `key`, which is at least 1.
  static std::int64_t count_reaching(const float* x, std::int64_t count, std::int64_t key) {
    const KeyTag d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    const auto under = below(key);
    auto reached = hn::Zero(d);  // counts down by one for each
    for (std::int64_t i = 0; i < count; i += lanes) reached = hn::Add(reached, hn::VecFromMask(d, hn::Gt(keys(x + i), under)));
    return -std::int64_t{hn::GetLane(hn::SumOfLanes(d, reached))};
  }

  [[nodiscard]] std::int32_t largest_key(std::int64_t candidates) const {
    const KeyTag d;
    auto largest = hn::Zero(d);
    for (std::int64_t i = 0; i < candidates; i += static_cast<std::int64_t>(hn::Lanes(d)))
      largest = hn::Max(largest, keys(values_.data() + i));
    return hn::GetLane(hn::MaxOfLanes(d, largest));
  }

  /// Fetches the values afterwards, since few vectors have any.
  std::int64_t gather(const float* HWY_RESTRICT x, std::int64_t count, std::int64_t key) {
    const PlaceTag d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    const auto under = below(key);
    const auto step = hn::Set(d, static_cast<std::uint32_t>(lanes));
    std::uint32_t* const places = places_.data();
    auto numbers = hn::Iota(d, 0);
    std::int64_t found = 0;
    for (std::int64_t i = 0; i < count; i += lanes) {
      const auto wanted = hn::Gt(keys(x + i), under);
      hn::StoreU(compress(d, numbers, hn::RebindMask(d, wanted)), d, places + found);
      found += static_cast<std::int64_t>(hn::CountTrue(KeyTag(), wanted));
      numbers = hn::Add(numbers, step);
    }
    // key 0 is also that of the zeros that follow x
    found = std::min(found, count);
    for (std::int64_t i = 0; i < found; ++i) values_[static_cast<std::size_t>(i)] = x[places[i]];
    return found;
  }

  void copy_reaching(std::int64_t candidates, std::int64_t key, std::uint32_t* HWY_RESTRICT places,
                     float* HWY_RESTRICT values) const {
    const FloatTag d;
    const PlaceTag dp;
    const auto under = below(key);
    std::int64_t copied = 0;
    for (std::int64_t i = 0; i < candidates; i += static_cast<std::int64_t>(hn::Lanes(d))) {
      const float* const from = values_.data() + i;
      const auto wanted = hn::Gt(keys(from), under);
      hn::StoreU(compress(d, hn::LoadU(d, from), hn::RebindMask(d, wanted)), d, values + copied);
      hn::StoreU(compress(dp, hn::LoadU(dp, places_.data() + i), hn::RebindMask(dp, wanted)), dp, places + copied);
      copied += static_cast<std::int64_t>(hn::CountTrue(KeyTag(), wanted));
    }
  }

  /// Copies all values above `key`, and the first `ties` with exactly that key.
  void copy_with_ties(std::int64_t candidates, std::int64_t key, std::int64_t ties, std::uint32_t* places, float* values) const {
    std::int64_t copied = 0;
    for (std::int64_t i = 0; i < candidates; ++i) {
      const float value = values_[static_cast<std::size_t>(i)];
      const std::int64_t own = key_of(value);
      if (own < key || (own == key && ties-- <= 0)) continue;
      places[copied] = places_[static_cast<std::size_t>(i)];
      values[copied++] = value;
    }
  }

  std::vector<float> values_;
  std::vector<std::uint32_t> places_;
  std::int64_t guess_ = 0;
};

}  // namespace weir::compress::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
