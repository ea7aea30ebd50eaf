// moments.cpp: sums over values, or over the magnitudes that reach a threshold. There are sixteen partial sums per kind, as in the
// contract, which hide the latency of additions.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/moments.cpp"
#include <hwy/foreach_target.h>
// The order matters: foreach_target.h includes this file once per instruction set.
#include <hwy/highway.h>

#include <cmath>

#include "kernels/host/dispatch.hpp"
#include "kernels/host/keys-inl.hpp"
#include "kernels/host/partial_sums-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::kernels::host::HWY_NAMESPACE {
namespace {

/// Elements per walk. They stay in the first-level cache if there are so few lanes that several walks are needed.
constexpr std::int64_t chunk = 1024;

enum class Of { values, magnitudes };

/// Sums over the entries of x + y, or of x: values and squares, or magnitudes, either all or those with key >= threshold.
template <class T, Of of, bool paired, bool bounded>
struct SumsOf {
  const T* x;
  const T* y;
  Key<T> threshold = 0;
  std::int64_t hits = 0;
  Key<T> largest = 0;
  PartialSums sums{}, squares{};

  void add_one(std::int64_t i) {
    const T value = paired ? x[i] + y[i] : x[i];
    if (bounded && key_of(value) < threshold) return;
    ++hits;
    largest = std::max(largest, key_of(value));
    const auto wide = static_cast<double>(value);
    sums.add(i, of == Of::values ? wide : std::abs(wide));
    if constexpr (of == Of::values) squares.add(i, wide * wide);
  }

  template <class D>
  HWY_INLINE hn::Vec<D> load(D d, std::int64_t i) const {
    if constexpr (paired) {
      return hn::Add(hn::LoadU(d, x + i), hn::LoadU(d, y + i));
    } else {
      return hn::LoadU(d, x + i);
    }
  }

  HWY_INLINE void add_vector(std::int64_t i, hn::Vec<Wide>& sum, hn::Vec<Wide>& square) const {
    const Narrow<T> d;
    auto value = load(d, i);
    if constexpr (of == Of::magnitudes) {
      auto keys = keys_of(d, value);
      if constexpr (bounded) keys = hn::IfThenElseZero(hn::Gt(keys, just_below(d, threshold)), keys);
      value = hn::BitCast(d, keys);
    }
    const auto wide = widen(value);
    sum = hn::Add(sum, wide);
    if constexpr (of == Of::values) square = hn::Add(square, hn::Mul(wide, wide));
  }

  /// Adds those of the elements [begin, end), a multiple of `partials`, that belong to four vectors of partial sums from `first`
  /// on.
  HWY_INLINE void add_columns(std::int64_t begin, std::int64_t end, std::int64_t first) {
    const Wide dw;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(dw));
    double* const s = sums.of + first;
    double* const q = squares.of + first;
    auto sum_0 = hn::LoadU(dw, s), sum_1 = hn::LoadU(dw, s + lanes), sum_2 = hn::LoadU(dw, s + 2 * lanes),
         sum_3 = hn::LoadU(dw, s + 3 * lanes);
    auto square_0 = hn::LoadU(dw, q), square_1 = hn::LoadU(dw, q + lanes), square_2 = hn::LoadU(dw, q + 2 * lanes),
         square_3 = hn::LoadU(dw, q + 3 * lanes);
    for (std::int64_t i = begin + first; i < end; i += partials) {
      add_vector(i, sum_0, square_0);
      add_vector(i + lanes, sum_1, square_1);
      add_vector(i + 2 * lanes, sum_2, square_2);
      add_vector(i + 3 * lanes, sum_3, square_3);
    }
    hn::StoreU(sum_0, dw, s), hn::StoreU(sum_1, dw, s + lanes), hn::StoreU(sum_2, dw, s + 2 * lanes),
        hn::StoreU(sum_3, dw, s + 3 * lanes);
    hn::StoreU(square_0, dw, q), hn::StoreU(square_1, dw, q + lanes), hn::StoreU(square_2, dw, q + 2 * lanes),
        hn::StoreU(square_3, dw, q + 3 * lanes);
  }

  /// Counts the elements [begin, end) that reach the threshold, and finds the largest key, in vectors of full width.
  HWY_INLINE void count_and_rank(std::int64_t begin, std::int64_t end) {
    const Tag<T> d;
    const KeyTag<Tag<T>> dk;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    auto most = hn::Zero(dk);
    for (std::int64_t i = begin; i < end; i += lanes) {
      const auto keys = keys_of(d, load(d, i));
      most = hn::Max(most, keys);
      if constexpr (bounded) hits += static_cast<std::int64_t>(hn::CountTrue(dk, hn::Gt(keys, just_below(d, threshold))));
    }
    if (!bounded) hits += end - begin;
    largest = std::max(largest, static_cast<Key<T>>(hn::GetLane(hn::MaxOfLanes(dk, most))));
  }

  void add_all(std::int64_t count) {
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(Wide()));
    std::int64_t i = 0;
    while (i + partials <= count) {
      const std::int64_t end = i + std::min(chunk, count - i) / partials * partials;
      for (std::int64_t first = 0; first < partials; first += 4 * lanes) add_columns(i, end, first);
      count_and_rank(i, end);
      i = end;
    }
    if (largest < threshold) largest = 0;
    for (; i < count; ++i) add_one(i);
  }

  Moments<T> moments(std::int64_t count) {
    add_all(count);
    return {hits, sums.total(), squares.total(), largest};
  }
  Exceedances<T> exceedances(std::int64_t count) {
    add_all(count);
    return {hits, sums.total(), largest};
  }
};

template <class T>
Moments<T> moments(const T* x, const T* y, std::int64_t count) {
  return y != nullptr ? SumsOf<T, Of::values, true, false>{x, y}.moments(count)
                      : SumsOf<T, Of::values, false, false>{x, y}.moments(count);
}

template <class T>
Exceedances<T> exceedances(const T* x, const T* y, std::int64_t count, Key<T> threshold) {
  constexpr Of of = Of::magnitudes;
  if (threshold == 0) {
    return y != nullptr ? SumsOf<T, of, true, false>{x, y}.exceedances(count)
                        : SumsOf<T, of, false, false>{x, y}.exceedances(count);
  }
  return y != nullptr ? SumsOf<T, of, true, true>{x, y, threshold}.exceedances(count)
                      : SumsOf<T, of, false, true>{x, y, threshold}.exceedances(count);
}

MomentsKernels<float> float_kernels() { return {moments<float>, exceedances<float>}; }
MomentsKernels<double> double_kernels() { return {moments<double>, exceedances<double>}; }

}  // namespace
}  // namespace weir::kernels::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir::kernels::host {

WEIR_CHOOSE_KERNELS(MomentsKernels)

template <class T>
Moments<T> moments(const T* x, const T* y, std::int64_t count) {
  return chosen<T>().moments(x, y, count);
}

template <class T>
Exceedances<T> exceedances(const T* x, const T* y, std::int64_t count, Key<T> threshold) {
  return chosen<T>().exceedances(x, y, count, threshold);
}

#define WEIR_INSTANTIATE(T)                                      \
  template Moments<T> moments(const T*, const T*, std::int64_t); \
  template Exceedances<T> exceedances(const T*, const T*, std::int64_t, Key<T>);

WEIR_INSTANTIATE(float)
WEIR_INSTANTIATE(double)
#undef WEIR_INSTANTIATE

}  // namespace weir::kernels::host
#endif
