// rows.cpp: kernels on the rows of embedding tables. A list gives the order of the rows, and hardware prefetchers do not read
// lists, so rows ahead are prefetched here.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/rows.cpp"
#include <hwy/foreach_target.h>
// The order matters: foreach_target.h includes this file once per instruction set.
#include <hwy/highway.h>

#include <algorithm>

#include "kernels/host/dispatch.hpp"
#include "kernels/host/keys-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::kernels::host::HWY_NAMESPACE {
namespace {

/// Rows to prefetch ahead: enough to cover a miss even if a row is one line, and few enough that the lines are still there.
constexpr std::int64_t prefetch_ahead = 32;

template <class T>
HWY_INLINE void prefetch(const T* x, std::int64_t count) {
  constexpr auto per_line = static_cast<std::int64_t>(64 / sizeof(T));
  // Prefetches to the second-level cache, which can have more misses in flight than the first.
  for (std::int64_t i = 0; i < count; i += per_line) __builtin_prefetch(x + i, 0, 2);
}

/// Prefetches only the beginning of a row: the hardware itself detects that a long row continues.
template <class T>
HWY_INLINE void prefetch_row(const T* x, std::int64_t width) {
  constexpr auto longest = static_cast<std::int64_t>(4096 / sizeof(T));
  prefetch(x, std::min(width, longest));
}

template <class T>
HWY_INLINE void copy_row(const T* x, std::int64_t width, T* out) {
  const Tag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t c = 0;
  for (; c + lanes <= width; c += lanes) hn::StoreU(hn::LoadU(d, x + c), d, out + c);
  for (; c < width; ++c) out[c] = x[c];
}

template <class T>
void gather_rows(const T* x, std::int64_t x_stride, const std::uint32_t* rows, std::int64_t count, std::int64_t width, T* out,
                 std::int64_t out_stride) {
  for (std::int64_t i = 0; i < count; ++i) {
    prefetch_row(x + rows[std::min(i + prefetch_ahead, count - 1)] * x_stride, width);
    copy_row(x + rows[i] * x_stride, width, out + i * out_stride);
  }
}

/// Sums the rows of x that are members of groups, by strips of columns: a sum stays in registers until it is complete.
template <class T>
struct RowSums {
  const T* x;
  std::int64_t width;
  const std::uint32_t* order;
  std::int64_t last;  ///< the last member of all groups, in `order`

  [[nodiscard]] HWY_INLINE const T* member(std::int64_t i) const { return x + order[i] * width; }
  /// Returns the member to prefetch while `i` is added, in this group or a later one.
  [[nodiscard]] HWY_INLINE const T* member_ahead(std::int64_t i) const { return member(std::min(i + prefetch_ahead, last)); }

  HWY_INLINE void sum_eight_vectors(std::int64_t begin, std::int64_t end, std::int64_t column, T* out) const {
    const Tag<T> d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    const T* row = member(begin) + column;
    prefetch(member_ahead(begin) + column, 8 * lanes);
    auto sum_0 = hn::LoadU(d, row), sum_1 = hn::LoadU(d, row + lanes), sum_2 = hn::LoadU(d, row + 2 * lanes),
         sum_3 = hn::LoadU(d, row + 3 * lanes), sum_4 = hn::LoadU(d, row + 4 * lanes), sum_5 = hn::LoadU(d, row + 5 * lanes),
         sum_6 = hn::LoadU(d, row + 6 * lanes), sum_7 = hn::LoadU(d, row + 7 * lanes);
    for (std::int64_t i = begin + 1; i < end; ++i) {
      row = member(i) + column;
      prefetch(member_ahead(i) + column, 8 * lanes);
      sum_0 = hn::Add(sum_0, hn::LoadU(d, row));
      sum_1 = hn::Add(sum_1, hn::LoadU(d, row + lanes));
      sum_2 = hn::Add(sum_2, hn::LoadU(d, row + 2 * lanes));
      sum_3 = hn::Add(sum_3, hn::LoadU(d, row + 3 * lanes));
      sum_4 = hn::Add(sum_4, hn::LoadU(d, row + 4 * lanes));
      sum_5 = hn::Add(sum_5, hn::LoadU(d, row + 5 * lanes));
      sum_6 = hn::Add(sum_6, hn::LoadU(d, row + 6 * lanes));
      sum_7 = hn::Add(sum_7, hn::LoadU(d, row + 7 * lanes));
    }
    T* const to = out + column;
    hn::StoreU(sum_0, d, to), hn::StoreU(sum_1, d, to + lanes), hn::StoreU(sum_2, d, to + 2 * lanes),
        hn::StoreU(sum_3, d, to + 3 * lanes), hn::StoreU(sum_4, d, to + 4 * lanes), hn::StoreU(sum_5, d, to + 5 * lanes),
        hn::StoreU(sum_6, d, to + 6 * lanes), hn::StoreU(sum_7, d, to + 7 * lanes);
  }

  HWY_INLINE void sum_vector(std::int64_t begin, std::int64_t end, std::int64_t column, T* out) const {
    const Tag<T> d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    auto sum = hn::LoadU(d, member(begin) + column);
    prefetch(member_ahead(begin) + column, lanes);
    for (std::int64_t i = begin + 1; i < end; ++i) {
      prefetch(member_ahead(i) + column, lanes);
      sum = hn::Add(sum, hn::LoadU(d, member(i) + column));
    }
    hn::StoreU(sum, d, out + column);
  }

  HWY_INLINE void sum_column(std::int64_t begin, std::int64_t end, std::int64_t column, T* out) const {
    T sum = member(begin)[column];
    for (std::int64_t i = begin + 1; i < end; ++i) sum += member(i)[column];
    out[column] = sum;
  }

  /// Writes the sum of the members [begin, end) to `out`.
  HWY_INLINE void sum_group(std::int64_t begin, std::int64_t end, T* out) const {
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(Tag<T>()));
    std::int64_t column = 0;
    for (; column + 8 * lanes <= width; column += 8 * lanes) sum_eight_vectors(begin, end, column, out);
    for (; column + lanes <= width; column += lanes) sum_vector(begin, end, column, out);
    if (column == width) return;
    if (width >= lanes) {
      sum_vector(begin, end, width - lanes, out);  // overlaps what the previous one has written, with the same sums
    } else {
      for (; column < width; ++column) sum_column(begin, end, column, out);
    }
  }
};

template <class T>
void coalesce_rows(const T* x, std::int64_t width, const std::uint32_t* order, const std::uint32_t* first, std::int64_t groups,
                   T* out) {
  if (groups == 0) return;
  const RowSums<T> sums{x, width, order, std::int64_t{first[groups]} - 1};
  for (std::int64_t g = 0; g < groups; ++g) sums.sum_group(first[g], first[g + 1], out + g * width);
}

RowKernels<float> float_kernels() { return {gather_rows<float>, coalesce_rows<float>}; }
RowKernels<double> double_kernels() { return {gather_rows<double>, coalesce_rows<double>}; }

}  // namespace
}  // namespace weir::kernels::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir::kernels::host {

WEIR_CHOOSE_KERNELS(RowKernels)

template <class T>
void gather_rows(const T* x, std::int64_t x_stride, const std::uint32_t* rows, std::int64_t count, std::int64_t width, T* out,
                 std::int64_t out_stride) {
  chosen<T>().gather_rows(x, x_stride, rows, count, width, out, out_stride);
}

template <class T>
void coalesce_rows(const T* x, std::int64_t width, const std::uint32_t* order, const std::uint32_t* first, std::int64_t groups,
                   T* out) {
  chosen<T>().coalesce_rows(x, width, order, first, groups, out);
}

#define WEIR_INSTANTIATE(T)                                                                                              \
  template void gather_rows(const T*, std::int64_t, const std::uint32_t*, std::int64_t, std::int64_t, T*, std::int64_t); \
  template void coalesce_rows(const T*, std::int64_t, const std::uint32_t*, const std::uint32_t*, std::int64_t, T*);

WEIR_INSTANTIATE(float)
WEIR_INSTANTIATE(double)
#undef WEIR_INSTANTIATE

}  // namespace weir::kernels::host
#endif
