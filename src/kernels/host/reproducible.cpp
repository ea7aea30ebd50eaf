// reproducible.cpp: sums that do not depend on the order of their terms.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/reproducible.cpp"
#include <hwy/foreach_target.h>
// The order matters: foreach_target.h includes this file once per instruction set.
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/host/dispatch.hpp"
#include "kernels/host/keys-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::kernels::host::HWY_NAMESPACE {
namespace {

template <class T, class D>
using StoredTag = hn::Rebind<T, D>;

template <class T, class D>
HWY_INLINE hn::Vec<D> widened([[maybe_unused]] D d, hn::Vec<StoredTag<T, D>> x) {
  if constexpr (sizeof(T) == 4)
    return hn::PromoteTo(d, x);
  else
    return x;
}

template <class T, class D>
HWY_INLINE hn::Vec<StoredTag<T, D>> narrowed(D, hn::Vec<D> x) {
  if constexpr (sizeof(T) == 4)
    return hn::DemoteTo(StoredTag<T, D>(), x);
  else
    return x;
}

template <class T>
struct Sums {
  const T* const* terms;
  int count;
  double divisor;

  /// Sums the elements of one vector, from `place` on, to `out`.
  template <class D>
  HWY_INLINE void at(D d, std::int64_t place, T* out) const {
    const StoredTag<T, D> stored;
    const KeyTag<decltype(stored)> keys;
    auto largest = hn::Zero(keys);
    for (int i = 0; i < count; ++i) largest = hn::Max(largest, keys_of(stored, hn::LoadU(stored, terms[i] + place)));
    const auto infinity = hn::Set(keys, static_cast<hn::TFromD<decltype(keys)>>(key_infinity<T>));
    if (!hn::AllTrue(keys, hn::Lt(largest, infinity))) {
      for (std::size_t lane = 0; lane < hn::Lanes(d); ++lane) out[lane] = alone(place + static_cast<std::int64_t>(lane));
      return;
    }

    const hn::RebindToSigned<D> bits;
    auto magnitude = widened<T>(d, hn::BitCast(stored, largest));
    auto down = hn::Set(d, 1.0), up = down;
    if constexpr (sizeof(T) == 8) {
      const auto is_large = hn::Ge(magnitude, hn::Set(d, reproducible::large)),
                 is_small = hn::Lt(magnitude, hn::Set(d, reproducible::small));
      down = hn::IfThenElse(is_large, hn::Set(d, reproducible::scale_down),
                            hn::IfThenElse(is_small, hn::Set(d, reproducible::scale_up), down));
      up = hn::IfThenElse(is_large, hn::Set(d, reproducible::scale_up),
                          hn::IfThenElse(is_small, hn::Set(d, reproducible::scale_down), up));
      magnitude = hn::Mul(magnitude, down);
    }
    const auto power = hn::BitCast(d, hn::And(hn::BitCast(bits, magnitude), hn::Set(bits, 0x7ff0000000000000)));
    const auto to_first = hn::Mul(power, hn::Set(d, reproducible::first)),
               to_second = hn::Mul(power, hn::Set(d, reproducible::second));
    auto first = hn::Zero(d), second = first;
    for (int i = 0; i < count; ++i) {
      auto x = widened<T>(d, hn::LoadU(stored, terms[i] + place));
      if constexpr (sizeof(T) == 8) x = hn::Mul(x, down);
      const auto rounded = hn::Sub(hn::Add(x, to_first), to_first);
      const auto rest = hn::Sub(x, rounded);
      first = hn::Add(first, rounded);
      second = hn::Add(second, hn::Sub(hn::Add(rest, to_second), to_second));
    }
    auto sum = hn::Add(first, second);
    if constexpr (sizeof(T) == 8) sum = hn::Mul(sum, up);
    hn::StoreU(narrowed<T>(d, hn::Div(sum, hn::Set(d, divisor))), stored, out);
  }

  /// Sums one element that may have terms that are not finite.
  [[nodiscard]] T alone(std::int64_t place) const {
    bool above = false, below = false, other = false;
    for (int i = 0; i < count; ++i) {
      const T x = terms[i][place];
      if (key_of(x) > key_infinity<T>) other = true;
      if (key_of(x) == key_infinity<T>) (x > 0 ? above : below) = true;
    }
    if (other || (above && below)) return std::numeric_limits<T>::quiet_NaN();
    if (above) return std::numeric_limits<T>::infinity();
    if (below) return -std::numeric_limits<T>::infinity();
    T sum;
    at(hn::CappedTag<double, 1>(), place, &sum);
    return sum;
  }
};

template <class T>
void reproducible_sum(const T* const* terms, int count_of_terms, std::int64_t begin, std::int64_t end, double divisor, T* out) {
  const Tag<double> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const Sums<T> sums{terms, count_of_terms, divisor};
  std::int64_t i = begin;
  for (; i + lanes <= end; i += lanes) sums.at(d, i, out + i);
  for (; i < end; ++i) sums.at(hn::CappedTag<double, 1>(), i, out + i);
}

/// Adds values that are all finite, and that a total with this `top` has room for. `scales` are two factors that turn the last unit
/// of the total into 1. Calls of at most 2^24 values are exact.
template <class T>
void add_scaled(const T* x, std::int64_t count, const std::array<double, 2>& scales,
                std::array<std::int64_t, ReproducibleTotal::parts>& part) {
  constexpr std::array<double, 4> units = {0x1p87, 0x1p58, 0x1p29, 1};
  static_assert(ReproducibleTotal::parts == 4 && ReproducibleTotal::width == 29);
  const auto add = [&](auto d, std::int64_t begin, std::int64_t end) {
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    using D = decltype(d);
    const StoredTag<T, D> stored;
    const auto first_scale = hn::Set(d, scales[0]), second_scale = hn::Set(d, scales[1]);
    // Adding and subtracting 1.5 * 2^52 units rounds to a multiple of the unit.
    const auto to0 = hn::Set(d, 0x1.8p52 * units[0]), to1 = hn::Set(d, 0x1.8p52 * units[1]), to2 = hn::Set(d, 0x1.8p52 * units[2]),
               to3 = hn::Set(d, 0x1.8p52 * units[3]);
    auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
    const auto cut = [](auto& rest, auto to, auto& sum) {
      const auto rounded = hn::Sub(hn::Add(rest, to), to);
      sum = hn::Add(sum, rounded);
      rest = hn::Sub(rest, rounded);
    };
    for (std::int64_t i = begin; i + lanes <= end; i += lanes) {
      auto rest = hn::Mul(hn::Mul(widened<T>(d, hn::LoadU(stored, x + i)), first_scale), second_scale);
      cut(rest, to0, sum0);
      cut(rest, to1, sum1);
      cut(rest, to2, sum2);
      cut(rest, to3, sum3);
    }
    HWY_ALIGN double lane[8];
    const auto count_units = [&](std::size_t j, auto sum) {
      hn::Store(sum, d, lane);
      for (std::int64_t l = 0; l < lanes; ++l) part[j] += static_cast<std::int64_t>(lane[l] * (1 / units[j]));
    };
    count_units(0, sum0);
    count_units(1, sum1);
    count_units(2, sum2);
    count_units(3, sum3);
  };
  const hn::CappedTag<double, 8> d;
  const std::int64_t whole = count - count % static_cast<std::int64_t>(hn::Lanes(d));
  if (whole > 0) add(d, 0, whole);
  if (whole < count) add(hn::CappedTag<double, 1>(), whole, count);
}

template <class T>
Key<T> largest_key(const T* x, std::int64_t count) {
  const Tag<T> d;
  const KeyTag<Tag<T>> keys;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  Key<T> most = 0;
  std::int64_t i = 0;
  if (count >= lanes) {
    auto largest = hn::Zero(keys);
    for (; i + lanes <= count; i += lanes) largest = hn::Max(largest, keys_of(d, hn::LoadU(d, x + i)));
    most = static_cast<Key<T>>(hn::GetLane(hn::MaxOfLanes(keys, largest)));
  }
  for (; i < count; ++i) most = std::max(most, key_of(x[i]));
  return most;
}

/// Returns floor(log2 x) of the positive finite x with this key. std::ilogb is a call.
template <class T>
int exponent_of(Key<T> key) {
  constexpr int mantissa_bits = std::numeric_limits<T>::digits - 1, bias = std::numeric_limits<T>::max_exponent - 1;
  const auto biased = static_cast<int>(key >> mantissa_bits);
  return biased > 0 ? biased - bias : std::ilogb(std::bit_cast<T>(key));
}

/// Returns 2^exponent, a normal number.
double power_of_two(int exponent) { return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52); }

template <class T>
void add_to_total(const T* x, std::int64_t count, ReproducibleTotal& total) {
  constexpr std::int64_t chunk = 4096;  // read again while it is in the first-level cache
  for (std::int64_t begin = 0; begin < count; begin += chunk) {
    const std::int64_t size = std::min(chunk, count - begin);
    const Key<T> largest = largest_key(x + begin, size);
    if (largest == 0) continue;
    if (largest >= key_infinity<T>) {
      for (std::int64_t i = begin; i < begin + size; ++i) reference::add_to_total(x + i, 1, total);
      continue;
    }
    // Values are below half a unit of 2^(width (top + 1)): a total with a higher top has the same digits of them from there on.
    const int above = exponent_of<T>(largest) + 1;
    ReproducibleTotal mine;
    mine.top = above >= 0 ? above / ReproducibleTotal::width : -((ReproducibleTotal::width - 1 - above) / ReproducibleTotal::width);
    const int shift = -ReproducibleTotal::width * (mine.top - ReproducibleTotal::parts + 1), half = shift / 2;
    add_scaled(x + begin, size, {power_of_two(half), power_of_two(shift - half)}, mine.part);
    total.merge(mine);
  }
}

ReproducibleKernels<float> float_kernels() { return {reproducible_sum<float>, add_to_total<float>}; }
ReproducibleKernels<double> double_kernels() { return {reproducible_sum<double>, add_to_total<double>}; }

}  // namespace
}  // namespace weir::kernels::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir::kernels::host {

WEIR_CHOOSE_KERNELS(ReproducibleKernels)

template <class T>
void reproducible_sum(const T* const* terms, int count_of_terms, std::int64_t begin, std::int64_t end, double divisor, T* out) {
  chosen<T>().reproducible_sum(terms, count_of_terms, begin, end, divisor, out);
}

template <class T>
void add_to_total(const T* x, std::int64_t count, ReproducibleTotal& total) {
  chosen<T>().add_to_total(x, count, total);
}

template void add_to_total(const float*, std::int64_t, ReproducibleTotal&);
template void add_to_total(const double*, std::int64_t, ReproducibleTotal&);
template void reproducible_sum(const float* const*, int, std::int64_t, std::int64_t, double, float*);
template void reproducible_sum(const double* const*, int, std::int64_t, std::int64_t, double, double*);

}  // namespace weir::kernels::host
#endif
