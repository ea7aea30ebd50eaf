// tile.cuh: how a block walks over its tile of an array, and where what it keeps goes.
//
// A tile is `rows` rows of threads_per_block vectors of 16 bytes (of a 4-byte element; as many elements of other types): thread t
// holds vector t of each row, so a row is read and written as one piece. The order of elements is rows, threads, elements of a
// vector.
#pragma once

#include <bit>

#include "block.cuh"
#include "kernels/kernels.hpp"

namespace weir::kernels::cuda {

inline constexpr int rows = 4;
template <class T>
inline constexpr int width = 16 / sizeof(T) < 4 ? 2 : 4;  // elements a vector
template <class T>
inline constexpr std::int64_t tile_size = std::int64_t{rows} * threads_per_block* width<T>;

template <class G, int size>
struct alignas(sizeof(G) * size) Vector {
  G at[size];
};

/// Where element 0 of this thread's vector in `row` lies.
template <class T>
__device__ __forceinline__ std::int64_t position(int row, std::int64_t tile = blockIdx.x) {
  return tile * tile_size<T> + (row * threads_per_block + static_cast<std::int64_t>(threadIdx.x)) * width<T>;
}

/// All of the tile lies in an array of `count`.
template <class T>
__device__ __forceinline__ bool is_whole(std::int64_t count, std::int64_t tile = blockIdx.x) {
  return (tile + 1) * tile_size<T> <= count;
}

/// Elements of this thread's vector in `row` of an array of `count`. `whole`: is_whole().
template <class T, bool whole>
__device__ __forceinline__ int present(int row, std::int64_t count, std::int64_t tile = blockIdx.x) {
  if constexpr (whole) return width<T>;
  const std::int64_t left = count - position<T>(row, tile);
  return left >= width<T> ? width<T> : left > 0 ? static_cast<int>(left) : 0;
}

/// Whether what is read or written is wanted again soon: what is not need not push other things out of the caches.
enum class Use { again, once };

/// Integers of as many bytes: what functions with cache hints take.
template <std::size_t bytes>
using Words = std::conditional_t<bytes == 16, uint4, uint2>;

/// `as_vector`: all elements are present, and x is at a multiple of the vector's size.
template <bool as_vector, Use use, class G, int size>
__device__ __forceinline__ Vector<G, size> load(const G* x, std::int64_t position, int present) {
  using Whole = Vector<G, size>;
  if constexpr (as_vector && use == Use::once)
    return std::bit_cast<Whole>(__ldcs(reinterpret_cast<const Words<sizeof(Whole)>*>(x + position)));
  if constexpr (as_vector) return *reinterpret_cast<const Whole*>(x + position);
  Vector<G, size> vector{};
#pragma unroll
  for (int e = 0; e < size; ++e) {
    if (e < present) vector.at[e] = x[position + e];
  }
  return vector;
}

/// What is stored is not wanted again soon.
template <bool as_vector, class G, int size>
__device__ __forceinline__ void store_once(G* x, std::int64_t position, int present, const Vector<G, size>& vector) {
  using Whole = Vector<G, size>;
  if constexpr (as_vector) {
    __stcs(reinterpret_cast<Words<sizeof(Whole)>*>(x + position), std::bit_cast<Words<sizeof(Whole)>>(vector));
  } else {
#pragma unroll
    for (int e = 0; e < size; ++e) {
      if (e < present) x[position + e] = vector.at[e];
    }
  }
}

/// This thread's vectors of a tile. All are asked for before any is used: bytes in flight are what bandwidth is made of.
template <class T, bool aligned, class G>
__device__ __forceinline__ void load_tile(const G* x, std::int64_t count, std::int64_t tile, Vector<G, width<T>> (&vectors)[rows]) {
  if (aligned && is_whole<T>(count, tile)) {
#pragma unroll
    for (int row = 0; row < rows; ++row) vectors[row] = load<true, Use::again, G, width<T>>(x, position<T>(row, tile), width<T>);
  } else {
#pragma unroll
    for (int row = 0; row < rows; ++row)
      vectors[row] = load<false, Use::again, G, width<T>>(x, position<T>(row, tile), present<T, false>(row, count, tile));
  }
}

/// Calls f(value) for this thread's share of x, or of x + y where y is not nullptr, in launches whose blocks take tiles in turns.
/// Which elements a thread gets, in what order, depends on the number of blocks only. `aligned`: x and y are at multiples of the
/// vectors' sizes.
template <class T, bool aligned, class G, class F>
__device__ __forceinline__ void for_tiles(const G* x, const T* y, std::int64_t count, F f) {
  for (std::int64_t tile = blockIdx.x; tile * tile_size<T> < count; tile += gridDim.x) {
    Vector<G, width<T>> xs[rows];
    Vector<T, width<T>> ys[rows] = {};
    load_tile<T, aligned>(x, count, tile, xs);
    if (y != nullptr) load_tile<T, aligned>(y, count, tile, ys);
#pragma unroll
    for (int row = 0; row < rows; ++row) {
      const int elements = present<T, false>(row, count, tile);
#pragma unroll
      for (int e = 0; e < width<T>; ++e) {
        const T value = widen(xs[row].at[e]);
        if (e < elements) f(y != nullptr ? value + ys[row].at[e] : value);
      }
    }
  }
}

/// Which of a thread's elements of a tile are hits: one bit each.
class Hits {
 public:
  __device__ void add(int row, int element, bool hit) { bits_ |= static_cast<unsigned>(hit) << (4 * row + element); }
  [[nodiscard]] __device__ bool at(int row, int element) const { return (bits_ >> (4 * row + element) & 1) != 0; }
  [[nodiscard]] __device__ int count(int row) const { return __popc(bits_ >> (4 * row) & 0xf); }

 private:
  unsigned bits_ = 0;
};

/// The numbers of a block's hits in the order of elements. A tile has at most 1024 hits a row, so one scan does all rows.
class HitNumbers {
 public:
  /// Every thread of the block takes part.
  __device__ explicit HitNumbers(const Hits& hits) {
    static_assert(rows == 4 && threads_per_block * 4 < 1 << 16);
    std::uint64_t counts = 0;
#pragma unroll
    for (int row = 0; row < rows; ++row) counts |= static_cast<std::uint64_t>(hits.count(row)) << (16 * row);
    before_ = scan_block(counts, totals_);
  }

  /// Hits of the tile.
  [[nodiscard]] __device__ std::uint64_t total() const {
    std::uint64_t sum = 0;
#pragma unroll
    for (int row = 0; row < rows; ++row) sum += of_row(totals_, row);
    return sum;
  }
  /// Hits of the tile before this thread's vector in `row`.
  [[nodiscard]] __device__ std::uint64_t before(int row) const {
    std::uint64_t sum = of_row(before_, row);
#pragma unroll
    for (int earlier = 0; earlier < rows; ++earlier) sum += earlier < row ? of_row(totals_, earlier) : 0;
    return sum;
  }

 private:
  static __device__ __forceinline__ std::uint64_t of_row(std::uint64_t packed, int row) { return (packed >> (16 * row)) & 0xffff; }
  std::uint64_t before_, totals_;
};

}  // namespace weir::kernels::cuda
