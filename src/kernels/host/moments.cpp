// moments.cpp: sums over the entries that reach a threshold. Sixteen partial sums per kind, as many as the contract asks for, hide
// the latency of additions.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/moments.cpp"
#include <hwy/foreach_target.h>
// The order matters: foreach_target.h includes this file once per instruction set.
#include <hwy/highway.h>

#include <cmath>

#include "kernels/host/dispatch.hpp"
#include "kernels/host/keys-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::kernels::host::HWY_NAMESPACE {
namespace {

constexpr std::int64_t partials = 16;
/// Elements per walk: they stay in the first-level cache where lanes are so few that several walks are needed.
constexpr std::int64_t chunk = 1024;

using Wide = hn::CappedTag<double, 4>;
template <class T>
using Narrow = hn::Rebind<T, Wide>;

struct PartialSums {
  HWY_ALIGN double of[partials] = {};

  void add(std::int64_t i, double value) { of[i % partials] += value; }
  double total() {
    for (std::int64_t distance = partials / 2; distance > 0; distance /= 2) {
      for (std::int64_t j = 0; j < distance; ++j) of[j] += of[j + distance];
    }
    return of[0];
  }
};

HWY_INLINE hn::Vec<Wide> widen(hn::Vec<Narrow<float>> x) { return hn::PromoteTo(Wide(), x); }
HWY_INLINE hn::Vec<Wide> widen(hn::Vec<Narrow<double>> x) { return x; }

/// Entries of x + y, or of x, with key >= threshold, or all.
template <class T, bool paired, bool bounded>
struct MomentsOf {
  const T* x;
  const T* y;
  Key<T> threshold;
  std::int64_t hits = 0;
  Key<T> largest = 0;
  PartialSums sums{}, magnitudes{}, squares{};

  void add_one(std::int64_t i) {
    const T value = paired ? x[i] + y[i] : x[i];
    if (bounded && key_of(value) < threshold) return;
    ++hits;
    largest = std::max(largest, key_of(value));
    const auto wide = static_cast<double>(value);
    sums.add(i, wide);
    magnitudes.add(i, std::abs(wide));
    squares.add(i, wide * wide);
  }

  HWY_INLINE void add_vector(std::int64_t i, hn::Vec<KeyTag<Narrow<T>>>& most, hn::Vec<Wide>& sum, hn::Vec<Wide>& magnitude,
                             hn::Vec<Wide>& square) {
    const Narrow<T> d;
    auto value = hn::LoadU(d, x + i);
    if constexpr (paired) value = hn::Add(value, hn::LoadU(d, y + i));
    const auto keys = keys_of(d, value);
    most = hn::Max(most, keys);
    if constexpr (bounded) value = hn::IfThenElseZero(hn::RebindMask(d, hn::Gt(keys, just_below(d, threshold))), value);
    const auto wide = widen(value);
    sum = hn::Add(sum, wide);
    magnitude = hn::Add(magnitude, hn::Abs(wide));
    square = hn::Add(square, hn::Mul(wide, wide));
  }

  /// Elements [begin, end), a multiple of `partials`, as far as they go to four vectors of partial sums from `first` on.
  HWY_INLINE void add_columns(std::int64_t begin, std::int64_t end, std::int64_t first) {
    const Wide dw;
    const KeyTag<Narrow<T>> dk;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(dw));
    const auto load = [&](const PartialSums& from, std::int64_t v) HWY_ATTR { return hn::LoadU(dw, from.of + first + v * lanes); };
    auto most = hn::Zero(dk);
    auto sum_0 = load(sums, 0), sum_1 = load(sums, 1), sum_2 = load(sums, 2), sum_3 = load(sums, 3);
    auto magnitude_0 = load(magnitudes, 0), magnitude_1 = load(magnitudes, 1), magnitude_2 = load(magnitudes, 2),
         magnitude_3 = load(magnitudes, 3);
    auto square_0 = load(squares, 0), square_1 = load(squares, 1), square_2 = load(squares, 2), square_3 = load(squares, 3);
    for (std::int64_t i = begin + first; i < end; i += partials) {
      add_vector(i, most, sum_0, magnitude_0, square_0);
      add_vector(i + lanes, most, sum_1, magnitude_1, square_1);
      add_vector(i + 2 * lanes, most, sum_2, magnitude_2, square_2);
      add_vector(i + 3 * lanes, most, sum_3, magnitude_3, square_3);
    }
    const auto store = [&](hn::Vec<Wide> from, PartialSums& to, std::int64_t v)
                           HWY_ATTR { hn::StoreU(from, dw, to.of + first + v * lanes); };
    store(sum_0, sums, 0), store(sum_1, sums, 1), store(sum_2, sums, 2), store(sum_3, sums, 3);
    store(magnitude_0, magnitudes, 0), store(magnitude_1, magnitudes, 1), store(magnitude_2, magnitudes, 2),
        store(magnitude_3, magnitudes, 3);
    store(square_0, squares, 0), store(square_1, squares, 1), store(square_2, squares, 2), store(square_3, squares, 3);
    largest = std::max(largest, static_cast<Key<T>>(hn::GetLane(hn::MaxOfLanes(dk, most))));
  }

  /// How many of the elements [begin, end) reach the threshold; whole vectors are counted at once.
  [[nodiscard]] std::int64_t count(std::int64_t begin, std::int64_t end) const {
    if (!bounded) return end - begin;
    const Tag<T> d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    std::int64_t found = 0;
    for (std::int64_t i = begin; i < end; i += lanes) {
      auto value = hn::LoadU(d, x + i);
      if constexpr (paired) value = hn::Add(value, hn::LoadU(d, y + i));
      found += static_cast<std::int64_t>(hn::CountTrue(KeyTag<Tag<T>>(), hn::Gt(keys_of(d, value), just_below(d, threshold))));
    }
    return found;
  }

  Moments<T> all(std::int64_t n) {
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(Wide()));
    std::int64_t i = 0;
    while (i + partials <= n) {
      const std::int64_t end = i + std::min(chunk, n - i) / partials * partials;
      for (std::int64_t first = 0; first < partials; first += 4 * lanes) add_columns(i, end, first);
      hits += count(i, end);
      i = end;
    }
    if (largest < threshold) largest = 0;
    for (; i < n; ++i) add_one(i);
    return {hits, sums.total(), magnitudes.total(), squares.total(), largest};
  }
};

template <class T>
Moments<T> moments(const T* x, const T* y, std::int64_t count, Key<T> threshold) {
  if (threshold == 0) {
    return y != nullptr ? MomentsOf<T, true, false>{x, y, 0}.all(count) : MomentsOf<T, false, false>{x, y, 0}.all(count);
  }
  return y != nullptr ? MomentsOf<T, true, true>{x, y, threshold}.all(count)
                      : MomentsOf<T, false, true>{x, y, threshold}.all(count);
}

MomentsKernels<float> float_kernels() { return {moments<float>}; }
MomentsKernels<double> double_kernels() { return {moments<double>}; }

}  // namespace
}  // namespace weir::kernels::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir::kernels::host {

namespace {

HWY_EXPORT(float_kernels);
HWY_EXPORT(double_kernels);

template <class T>
const MomentsKernels<T>& chosen() {
  static const MomentsKernels<T> kernels = [] {
    if constexpr (sizeof(T) == 4) {
      return HWY_DYNAMIC_DISPATCH(float_kernels)();
    } else {
      return HWY_DYNAMIC_DISPATCH(double_kernels)();
    }
  }();
  return kernels;
}

}  // namespace

template <class T>
Moments<T> moments(const T* x, const T* y, std::int64_t count, Key<T> threshold) {
  return chosen<T>().moments(x, y, count, threshold);
}

template Moments<float> moments(const float*, const float*, std::int64_t, Key<float>);
template Moments<double> moments(const double*, const double*, std::int64_t, Key<double>);

}  // namespace weir::kernels::host
#endif
