// merge.cpp: sums of sorted sparse vectors. A branch per entry could not be predicted, so steps have no branches. Vectors have one
// lane, so that a choice between two values is a single blend.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/merge.cpp"
#include <hwy/foreach_target.h>
// The order matters: foreach_target.h includes this file once per instruction set.
#include <hwy/highway.h>

#include <algorithm>

#include "kernels/host/dispatch.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::kernels::host::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
struct SparseView {
  const std::uint32_t* indices;
  const T* values;
};

template <class T>
struct SparseOutput {
  std::uint32_t* indices;
  T* values;
};

/// Up to this number of entries, dividing them takes longer than it saves.
constexpr std::int64_t very_few = 12;

/// The position of a merge of a[begin, a_end) and b[begin, b_end).
struct MergePosition {
  std::int64_t a, a_end, b, b_end, out;

  /// Returns how many steps are possible before one of the two ends.
  [[nodiscard]] std::int64_t steps() const { return std::min(a_end - a, b_end - b); }
};

/// Converts a mask of indices to one for values of T.
template <class T, class Mask>
HWY_INLINE auto of_values(Mask mask) {
  const hn::CappedTag<T, 1> d;
  if constexpr (sizeof(T) == sizeof(std::uint32_t)) {
    return hn::RebindMask(d, mask);
  } else {
    const hn::CappedTag<std::int64_t, 1> wide;
    const hn::Rebind<std::int32_t, decltype(wide)> narrow;
    return hn::RebindMask(d, hn::MaskFromVec(hn::PromoteTo(wide, hn::VecFromMask(narrow, hn::RebindMask(narrow, mask)))));
  }
}

template <class T>
HWY_INLINE void merge_step(SparseView<T> a, SparseView<T> b, SparseOutput<T> out, MergePosition& at) {
  const hn::CappedTag<std::uint32_t, 1> di;
  const hn::CappedTag<T, 1> dv;
  const auto a_index = hn::LoadU(di, a.indices + at.a), b_index = hn::LoadU(di, b.indices + at.b);
  const auto index = hn::Min(a_index, b_index);
  const auto neutral = hn::Set(dv, T{-0.0});  // changes no sum, not even one of negative zeros
  const auto a_value = hn::IfThenElse(of_values<T>(hn::Eq(index, a_index)), hn::LoadU(dv, a.values + at.a), neutral);
  const auto b_value = hn::IfThenElse(of_values<T>(hn::Eq(index, b_index)), hn::LoadU(dv, b.values + at.b), neutral);
  hn::StoreU(index, di, out.indices + at.out);
  hn::StoreU(hn::Add(a_value, b_value), dv, out.values + at.out);
  // Loaded again, into general registers, so that the next addresses do not wait for the vector unit.
  const std::uint32_t a_next = a.indices[at.a], b_next = b.indices[at.b];
  at.a += a_next <= b_next;
  at.b += b_next <= a_next;
  ++at.out;
}

template <class T>
std::int64_t append(SparseView<T> from, std::int64_t begin, std::int64_t end, SparseOutput<T> out, std::int64_t out_begin) {
  std::copy(from.indices + begin, from.indices + end, out.indices + out_begin);
  std::copy(from.values + begin, from.values + end, out.values + out_begin);
  return out_begin + end - begin;
}

template <class T>
HWY_INLINE std::int64_t merge_rest(SparseView<T> a, SparseView<T> b, SparseOutput<T> out, MergePosition at) {
  while (at.steps() > 0) merge_step(a, b, out, at);
  at.out = append(a, at.a, at.a_end, out, at.out);
  return append(b, at.b, at.b_end, out, at.out);
}

template <class T>
std::int64_t merge_add(const std::uint32_t* a_indices, const T* a_values, std::int64_t a_count, const std::uint32_t* b_indices,
                       const T* b_values, std::int64_t b_count, std::uint32_t* out_indices, T* out_values) {
  const SparseView<T> a{a_indices, a_values}, b{b_indices, b_values};
  const SparseOutput<T> out{out_indices, out_values};
  if (a_count + b_count <= very_few) return merge_rest(a, b, out, {0, a_count, 0, b_count, 0});
  // A step waits for the one before it, so two independent halves advance together. The upper half is written as if no indices were
  // equal, and is moved down afterwards.
  const std::int64_t a_half = a_count / 2;
  const std::int64_t b_half = a_count == 0 ? 0 : std::lower_bound(b_indices, b_indices + b_count, a_indices[a_half]) - b_indices;
  const std::int64_t upper_begin = a_half + b_half;
  MergePosition lower{0, a_half, 0, b_half, 0};
  MergePosition upper{a_half, a_count, b_half, b_count, upper_begin};
  while (std::min(lower.steps(), upper.steps()) > 0) {
    for (std::int64_t left = std::min(lower.steps(), upper.steps()); left > 0; --left) {
      merge_step(a, b, out, lower);
      merge_step(a, b, out, upper);
    }
  }
  const std::int64_t lower_count = merge_rest(a, b, out, lower);
  const std::int64_t upper_end = merge_rest(a, b, out, upper);
  if (lower_count == upper_begin) return upper_end;
  return append(SparseView<T>{out.indices, out.values}, upper_begin, upper_end, out, lower_count);
}

MergeKernels<float> float_kernels() { return {merge_add<float>}; }
MergeKernels<double> double_kernels() { return {merge_add<double>}; }

}  // namespace
}  // namespace weir::kernels::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir::kernels::host {

WEIR_CHOOSE_KERNELS(MergeKernels)

template <class T>
std::int64_t merge_add(const std::uint32_t* a_indices, const T* a_values, std::int64_t a_count, const std::uint32_t* b_indices,
                       const T* b_values, std::int64_t b_count, std::uint32_t* out_indices, T* out_values) {
  return chosen<T>().merge_add(a_indices, a_values, a_count, b_indices, b_values, b_count, out_indices, out_values);
}

#define WEIR_INSTANTIATE(T)                                                                                                   \
  template std::int64_t merge_add(const std::uint32_t*, const T*, std::int64_t, const std::uint32_t*, const T*, std::int64_t, \
                                  std::uint32_t*, T*);

WEIR_INSTANTIATE(float)
WEIR_INSTANTIATE(double)
#undef WEIR_INSTANTIATE

}  // namespace weir::kernels::host
#endif
