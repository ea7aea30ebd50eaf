// arithmetic.cpp: kernels that stream through memory and do one operation per element, or count elements.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/arithmetic.cpp"
#include <hwy/foreach_target.h>
// The order matters: foreach_target.h includes this file once per instruction set.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <string>

#include "kernels/host/cached.hpp"
#include "kernels/host/dispatch.hpp"
#include "kernels/host/keys-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::kernels::host::HWY_NAMESPACE {
namespace {

template <class T>
void add(const T* x, T* y, std::int64_t count) {
  const Tag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(hn::Add(hn::LoadU(d, y + i), hn::LoadU(d, x + i)), d, y + i);
  for (; i < count; ++i) y[i] += x[i];
}

template <class T>
void scale(T* x, std::int64_t count, T factor) {
  const Tag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto factors = hn::Set(d, factor);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(hn::Mul(hn::LoadU(d, x + i), factors), d, x + i);
  for (; i < count; ++i) x[i] *= factor;
}

template <class T>
void rescale(T* x, std::int64_t count, T factor) {
  const Tag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto factors = hn::Set(d, factor), most = hn::Set(d, std::numeric_limits<T>::max());
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto old = hn::LoadU(d, x + i), product = hn::Mul(old, factors);
    const auto overflows = hn::And(hn::Gt(hn::Abs(product), most), hn::Le(hn::Abs(old), most));
    hn::StoreU(hn::IfThenElse(overflows, hn::CopySign(most, product), product), d, x + i);
  }
  for (; i < count; ++i) x[i] = rescaled(x[i], factor);
}

template <class T>
void divide(T* x, std::int64_t count, T divisor) {
  const Tag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto divisors = hn::Set(d, divisor);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(hn::Div(hn::LoadU(d, x + i), divisors), d, x + i);
  for (; i < count; ++i) x[i] /= divisor;
}

template <class T>
void waxpby(T a, const T* x, T b, const T* y, T* out, std::int64_t count) {
  const Tag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto as = hn::Set(d, a), bs = hn::Set(d, b);
  std::int64_t i = 0;
  if (y == nullptr) {
    for (; i + lanes <= count; i += lanes) hn::StoreU(hn::Mul(as, hn::LoadU(d, x + i)), d, out + i);
    for (; i < count; ++i) out[i] = a * x[i];
    return;
  }
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::Add(hn::Mul(as, hn::LoadU(d, x + i)), hn::Mul(bs, hn::LoadU(d, y + i))), d, out + i);
  for (; i < count; ++i) out[i] = a * x[i] + b * y[i];
}

template <class T>
std::int64_t count_non_finite(const T* x, std::int64_t count) {
  const Tag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto below = just_below(d, key_infinity<T>);
  std::int64_t found = 0;
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    found += static_cast<std::int64_t>(hn::CountTrue(KeyTag<Tag<T>>(), hn::Gt(keys_of(d, hn::LoadU(d, x + i)), below)));
  }
  for (; i < count; ++i) found += key_of(x[i]) >= key_infinity<T>;
  return found;
}

template <class T>
CutCounts count_cut(const T* x, std::int64_t count, Key<T> key) {
  const Tag<T> d;
  const KeyTag<Tag<T>> dk;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto cut = just_below(d, std::min<Key<T>>(key, key_max<T>) + 1), below = just_below(d, key);
  CutCounts counts;
  std::int64_t reaching = 0;
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto keys = keys_of(d, hn::LoadU(d, x + i));
    counts.above += static_cast<std::int64_t>(hn::CountTrue(dk, hn::Gt(keys, cut)));
    reaching += static_cast<std::int64_t>(hn::CountTrue(dk, hn::Gt(keys, below)));
  }
  counts.equal = reaching - counts.above;
  for (; i < count; ++i) {
    counts.above += key_of(x[i]) > key;
    counts.equal += key_of(x[i]) == key;
  }
  return counts;
}

template <class T>
HWY_INLINE bool stays_cached(std::int64_t count) {
  return count <= cached_bytes() / static_cast<std::int64_t>(sizeof(T));
}

template <class T>
void fill_zero(T* x, std::int64_t count) {
  const Tag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto zero = hn::Zero(d);
  std::int64_t i = 0;
  if (stays_cached<T>(count)) {
    for (; i + lanes <= count; i += lanes) hn::StoreU(zero, d, x + i);
  } else {
    const auto vector_bytes = static_cast<std::uintptr_t>(lanes) * sizeof(T);
    for (; reinterpret_cast<std::uintptr_t>(x + i) % vector_bytes != 0; ++i) x[i] = 0;
    for (; i + lanes <= count; i += lanes) hn::Stream(zero, d, x + i);
    hwy::FlushStream();
  }
  for (; i < count; ++i) x[i] = 0;
}

/// The sorted entries that a walk through an array has not reached.
template <class T>
struct EntriesLeft {
  const std::uint32_t* indices;
  const T* values;
  std::int64_t count;

  /// Sets x[index - base] = value for the entries before `end`.
  HWY_INLINE void place(T* x, std::int64_t base, std::int64_t end) {
    for (; count > 0 && *indices < end; ++indices, ++values, --count) x[*indices - base] = *values;
  }
};

template <class T>
void densify(T* dense, std::int64_t begin, std::int64_t end, const std::uint32_t* indices, const T* values, std::int64_t count) {
  EntriesLeft<T> left{indices, values, count};
  // Parts are assembled in the first-level cache: after a whole pass, or behind streaming stores, each entry would fetch its line.
  constexpr std::int64_t part = (16 << 10) / sizeof(T);
  if (stays_cached<T>(end - begin)) {
    for (std::int64_t i = begin; i < end; i += part) {
      const std::int64_t part_end = std::min(i + part, end);
      fill_zero(dense + i, part_end - i);
      left.place(dense, 0, part_end);
    }
    return;
  }
  const Tag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto vector_bytes = static_cast<std::uintptr_t>(lanes) * sizeof(T);
  std::int64_t i = begin;
  for (; reinterpret_cast<std::uintptr_t>(dense + i) % vector_bytes != 0; ++i) dense[i] = 0;
  left.place(dense, 0, i);
  alignas(64) T x[part] = {};
  while (i + lanes <= end) {
    const std::int64_t size = std::min(part, (end - i) / lanes * lanes);
    const std::uint32_t* const first = left.indices;
    left.place(x, i, i + size);
    for (std::int64_t j = 0; j < size; j += lanes) hn::Stream(hn::LoadU(d, x + j), d, dense + i + j);
    for (const std::uint32_t* index = first; index != left.indices; ++index) x[*index - i] = 0;
    i += size;
  }
  hwy::FlushStream();
  for (std::int64_t j = i; j < end; ++j) dense[j] = 0;
  left.place(dense, 0, end);
}

template <class T>
ArithmeticKernels<T> arithmetic_kernels() {
  return {add<T>, scale<T>, rescale<T>, divide<T>, waxpby<T>, count_non_finite<T>, count_cut<T>, fill_zero<T>, densify<T>};
}
ArithmeticKernels<float> float_kernels() { return arithmetic_kernels<float>(); }
ArithmeticKernels<double> double_kernels() { return arithmetic_kernels<double>(); }

}  // namespace
}  // namespace weir::kernels::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir::kernels::host {

WEIR_CHOOSE_KERNELS(ArithmeticKernels)

template <class T>
void add(const T* x, T* y, std::int64_t count) {
  chosen<T>().add(x, y, count);
}

template <class T>
void scale(T* x, std::int64_t count, T factor) {
  chosen<T>().scale(x, count, factor);
}

template <class T>
void rescale(T* x, std::int64_t count, T factor) {
  chosen<T>().rescale(x, count, factor);
}

template <class T>
void divide(T* x, std::int64_t count, T divisor) {
  chosen<T>().divide(x, count, divisor);
}

template <class T>
void waxpby(T a, const T* x, T b, const T* y, T* out, std::int64_t count) {
  chosen<T>().waxpby(a, x, b, y, out, count);
}

template <class T>
std::int64_t count_non_finite(const T* x, std::int64_t count) {
  return chosen<T>().count_non_finite(x, count);
}

template <class T>
CutCounts count_cut(const T* x, std::int64_t count, Key<T> key) {
  return chosen<T>().count_cut(x, count, key);
}

template <class T>
void fill_zero(T* x, std::int64_t count) {
  chosen<T>().fill_zero(x, count);
}

template <class T>
void densify(T* dense, std::int64_t begin, std::int64_t end, const std::uint32_t* indices, const T* values, std::int64_t count) {
  chosen<T>().densify(dense, begin, end, indices, values, count);
}

#define WEIR_INSTANTIATE(T)                                         \
  template void add(const T*, T*, std::int64_t);                    \
  template void scale(T*, std::int64_t, T);                         \
  template void rescale(T*, std::int64_t, T);                       \
  template void divide(T*, std::int64_t, T);                        \
  template void waxpby(T, const T*, T, const T*, T*, std::int64_t); \
  template std::int64_t count_non_finite(const T*, std::int64_t);   \
  template CutCounts count_cut(const T*, std::int64_t, Key<T>);     \
  template void fill_zero(T*, std::int64_t);                        \
  template void densify(T*, std::int64_t, std::int64_t, const std::uint32_t*, const T*, std::int64_t);

WEIR_INSTANTIATE(float)
WEIR_INSTANTIATE(double)
#undef WEIR_INSTANTIATE

const char* instruction_set() {
  static const std::string names = [] {
    std::string list;
    // A lower bit is a better target.
    for (std::int64_t left = hwy::SupportedTargets() & HWY_TARGETS; left != 0; left &= left - 1) {
      if (!list.empty()) list += ' ';
      list += hwy::TargetName(left & -left);
    }
    return list;
  }();
  return names.c_str();
}

}  // namespace weir::kernels::host
#endif
