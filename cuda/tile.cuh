// tile.cuh: how a block walks over its tile of an array, and where what it keeps goes.
//
// A tile is `rows` rows of threads_per_block vectors of 16 bytes (of a 4-byte element; as many elements of other types): thread t
// holds vector t of each row, so a row is read and written as one piece. The order of elements is rows, threads, elements of a
// vector.
#pragma once

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
__device__ __forceinline__ std::int64_t position(int row) {
  return static_cast<std::int64_t>(blockIdx.x) * tile_size<T> +
         (row * threads_per_block + static_cast<std::int64_t>(threadIdx.x)) * width<T>;
}

/// All of the block's tile lies in an array of `count`.
template <class T>
__device__ __forceinline__ bool is_whole(std::int64_t count) {
  return (static_cast<std::int64_t>(blockIdx.x) + 1) * tile_size<T> <= count;
}

/// Elements of this thread's vector in `row` of an array of `count`. `whole`: is_whole().
template <class T, bool whole>
__device__ __forceinline__ int present(int row, std::int64_t count) {
  if constexpr (whole) return width<T>;
  const std::int64_t left = count - position<T>(row);
  return left >= width<T> ? width<T> : left > 0 ? static_cast<int>(left) : 0;
}

/// `as_vector`: all elements are present, and x is at a multiple of the vector's size.
template <bool as_vector, class G, int size>
__device__ __forceinline__ Vector<G, size> load(const G* x, std::int64_t position, int present) {
  if constexpr (as_vector) return *reinterpret_cast<const Vector<G, size>*>(x + position);
  Vector<G, size> vector{};
#pragma unroll
  for (int e = 0; e < size; ++e) {
    if (e < present) vector.at[e] = x[position + e];
  }
  return vector;
}

template <bool as_vector, class G, int size>
__device__ __forceinline__ void store(G* x, std::int64_t position, int present, const Vector<G, size>& vector) {
  if constexpr (as_vector) {
    *reinterpret_cast<Vector<G, size>*>(x + position) = vector;
  } else {
#pragma unroll
    for (int e = 0; e < size; ++e) {
      if (e < present) x[position + e] = vector.at[e];
    }
  }
}

/// The numbers of a block's hits in the order of elements. A tile has at most 1024 hits a row, so one scan does all rows.
class HitNumbers {
 public:
  /// hits[row]: bit e set where element e of the thread's vector is a hit. Every thread of the block takes part.
  __device__ explicit HitNumbers(const unsigned (&hits)[rows]) {
    static_assert(rows == 4 && threads_per_block * 4 < 1 << 16);
    std::uint64_t counts = 0;
#pragma unroll
    for (int row = 0; row < rows; ++row) counts |= static_cast<std::uint64_t>(__popc(hits[row])) << (16 * row);
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
