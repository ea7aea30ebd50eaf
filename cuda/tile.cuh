// tile.cuh: how a block goes through its tile of an array, and where it writes what it keeps.
//
// A tile is `rows` rows of threads_per_block vectors. A vector has 16 bytes of T, or as many elements of a narrower type. Thread t
// has vector t of each row, so a row is read and written as one piece. The order of elements is rows, threads, elements of a
// vector.
#pragma once

#include <bit>

#include "block.cuh"
#include "kernels/kernels.hpp"

namespace weir::kernels::cuda {

inline constexpr int rows = 4;
template <class T>
inline constexpr int width = 16 / sizeof(T) < 4 ? 2 : 4;  // elements per vector
template <class T>
inline constexpr std::int64_t tile_size = std::int64_t{rows} * threads_per_block* width<T>;

template <class G, int size>
struct alignas(sizeof(G) * size) Vector {
  G at[size];
};

/// Returns the position of element 0 of this thread's vector in `row`.
template <class T>
__device__ __forceinline__ std::int64_t position(int row, std::int64_t tile = blockIdx.x) {
  return tile * tile_size<T> + (row * threads_per_block + static_cast<std::int64_t>(threadIdx.x)) * width<T>;
}

/// Returns whether all of the tile lies in an array of `count`.
template <class T>
__device__ __forceinline__ bool is_whole(std::int64_t count, std::int64_t tile = blockIdx.x) {
  return (tile + 1) * tile_size<T> <= count;
}

/// Returns the number of elements of this thread's vector in `row` that lie in an array of `count`. `whole`: is_whole().
template <class T, bool whole>
__device__ __forceinline__ int present(int row, std::int64_t count, std::int64_t tile = blockIdx.x) {
  if constexpr (whole) return width<T>;
  const std::int64_t left = count - position<T>(row, tile);
  return left >= width<T> ? width<T> : left > 0 ? static_cast<int>(left) : 0;
}

/// Whether memory that is read or written will be used again soon. If not, it need not push other data out of the caches.
enum class Use { again, once };

/// Integers of that many bytes, which functions with cache hints take.
template <std::size_t bytes>
using Words = std::conditional_t<bytes == 16, uint4, uint2>;

/// Loads a vector. `as_vector`: all elements are present, and x is at a multiple of the vector's size.
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

/// Stores a vector that will not be used again soon.
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

/// Loads this thread's vectors of a tile. Issues all loads before it uses any, because bandwidth depends on bytes in flight.
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

/// Calls f(value) for this thread's share of x, or of x + y if y is not nullptr, in launches whose blocks take tiles in turns.
/// Which elements a thread gets, and in what order, depends only on the number of blocks. `aligned`: x and y are at multiples of
/// the vectors' sizes.
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

/// A tile in which each warp has one piece: `rows_` rows of 32 vectors. The order of elements is warps, rows, lanes, elements of a
/// vector.
template <class T, int rows_>
struct WarpTile {
  static_assert(rows_ <= 8, "four bits a row in a word of hits");
  static constexpr std::int64_t size = std::int64_t{rows_} * threads_per_block * width<T>;

  /// Returns the position of element 0 of this thread's vector in `row`.
  static __device__ __forceinline__ std::int64_t position(int row) {
    return blockIdx.x * size + ((static_cast<std::int64_t>(warp()) * rows_ + row) * 32 + lane()) * width<T>;
  }
  /// Returns whether all of the tile lies in an array of `count`.
  static __device__ __forceinline__ bool is_whole(std::int64_t count) { return (blockIdx.x + 1) * size <= count; }
  /// Returns the number of elements of this thread's vector in `row` that lie in an array of `count`. `whole`: is_whole().
  template <bool whole>
  static __device__ __forceinline__ int present(int row, std::int64_t count) {
    if constexpr (whole) return width<T>;
    const std::int64_t left = count - position(row);
    return left >= width<T> ? width<T> : left > 0 ? static_cast<int>(left) : 0;
  }
};

/// Returns the hits in `row` of a thread's hits in a WarpTile, which has four bits per row.
__device__ __forceinline__ unsigned hits_in(unsigned hits, int row) { return hits >> (4 * row) & 0xf; }

/// Numbers a block's hits in the order of elements.
template <int rows_>
class HitNumbers {
 public:
  /// Every thread of the block takes part.
  explicit __device__ HitNumbers(unsigned hits) {
    unsigned of_warp = 0;
#pragma unroll
    for (int four = 0; four < fours; ++four) {
      unsigned counts = 0;
#pragma unroll
      for (int row = 0; row < 4; ++row) counts |= static_cast<unsigned>(__popc(hits_in(hits, 4 * four + row))) << (8 * row);
      unsigned inclusive = counts;
      for (unsigned distance = 1; distance < 32; distance *= 2) {
        const unsigned other = __shfl_up_sync(whole_warp, inclusive, distance);
        if (lane() >= distance) inclusive += other;
      }
      before_[four] = inclusive - counts;
      totals_[four] = __shfl_sync(whole_warp, inclusive, 31);
#pragma unroll
      for (int row = 0; row < 4; ++row) of_warp += totals_[four] >> (8 * row) & 0xff;
    }
    constexpr int warps = threads_per_block / 32;
    __shared__ unsigned of_warps[warps];
    if (lane() == 0) of_warps[warp()] = of_warp;
    __syncthreads();
#pragma unroll
    for (unsigned w = 0; w < warps; ++w) {
      if (w < warp()) warps_before_ += of_warps[w];
      total_ += of_warps[w];
    }
    __syncthreads();  // before the next object writes `of_warps`
  }

  /// Returns the number of hits in the tile.
  [[nodiscard]] __device__ std::uint64_t total() const { return total_; }
  /// Returns the number of hits in the tile before this thread's vector in `row`.
  [[nodiscard]] __device__ std::uint64_t before(int row) const {
    unsigned sum = warps_before_ + of_row(before_, row);
#pragma unroll
    for (int earlier = 0; earlier < rows_; ++earlier) sum += earlier < row ? of_row(totals_, earlier) : 0;
    return sum;
  }

 private:
  static constexpr int fours = (rows_ + 3) / 4;
  static __device__ __forceinline__ unsigned of_row(const unsigned (&packed)[fours], int row) {
    return packed[row / 4] >> (8 * (row % 4)) & 0xff;
  }
  // A warp has at most 128 hits per row, so a word holds four rows' counts.
  unsigned before_[fours], totals_[fours], warps_before_ = 0, total_ = 0;
};

}  // namespace weir::kernels::cuda
