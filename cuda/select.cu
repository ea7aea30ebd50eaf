// Selection by a threshold or a band: reads the array once, and writes what is selected in the order of indices.
#include "launch.cuh"
#include "tile.cuh"

namespace weir::kernels::cuda {
namespace {

// A tile's count for TileStates has the hits in its low bits, and above them the number of tiles with non-finite elements.
constexpr int hit_bits = 33;
constexpr std::uint64_t hit_mask = (1ull << hit_bits) - 1;

template <class G, class T>
struct Selection {
  const G* gradient;
  T* residual;  // nullptr: plain selection
  std::int64_t count;
  Key<T> threshold, keep_old;
  std::uint32_t* indices;
  T* values;
  std::int64_t capacity;
  TileStates states;
  Found* found;
};

/// Returns the smallest key for which the residual that a hit keeps depends on the number of the hit.
template <class G, class T>
__device__ __forceinline__ Key<T> undecided(const Selection<G, T>& s) {
  constexpr Key<T> infinity = key_infinity<T>;
  return s.keep_old < infinity ? s.keep_old : infinity;
}

/// Rows of a tile. A tile's sums wait in shared memory for the counts of the tiles before, which takes longer than reading the
/// tile: the tiles that a multiprocessor holds must cover that time. On an H100, 6 tiles of 32 KB do, and 8 of 16 KB do not.
constexpr int select_rows = 8;
template <class T>
using SelectTile = WarpTile<T, select_rows>;

/// Sums this thread's elements. Writes the sums to `kept`, and to the residual unless they are undecided hits. Sets `hits` to which
/// of them are hits, four bits per row. Returns false if a sum is not finite.
template <bool compensate, bool whole, bool as_vector, class G, class T, class V, int size>
__device__ __forceinline__ bool take_tile(const Selection<G, T>& s, Vector<V, size> (&kept)[select_rows][threads_per_block],
                                          unsigned& hits) {
  using Tile = SelectTile<T>;
  constexpr int at_once = compensate ? 2 : 4;  // rows whose loads are issued before any is used
  const Key<T> held = undecided(s);
  bool finite = true;
#pragma unroll
  for (int first = 0; first < select_rows; first += at_once) {
    Vector<G, size> gradients[at_once];
    Vector<T, size> olds[at_once];
#pragma unroll
    for (int i = 0; i < at_once; ++i)
      gradients[i] = load<as_vector, Use::once, G, size>(s.gradient, Tile::position(first + i),
                                                         Tile::template present<whole>(first + i, s.count));
    if constexpr (compensate) {
#pragma unroll
      for (int i = 0; i < at_once; ++i)
        olds[i] = load<as_vector, Use::once, T, size>(s.residual, Tile::position(first + i),
                                                      Tile::template present<whole>(first + i, s.count));
    }
#pragma unroll
    for (int i = 0; i < at_once; ++i) {
      const int row = first + i, elements = Tile::template present<whole>(row, s.count);
      Vector<V, size> sums;
#pragma unroll
      for (int e = 0; e < size; ++e) {
        T sum = widen(gradients[i].at[e]);
        if constexpr (compensate) sum += olds[i].at[e];
        const Key<T> key = key_of(sum);
        const bool hit = e < elements && key >= s.threshold;
        hits |= static_cast<unsigned>(hit) << (4 * row + e);
        finite = finite && (e >= elements || key < key_infinity<T>);
        if constexpr (compensate) {
          if (!hit || key < held) olds[i].at[e] = sum;
          sums.at[e] = sum;
        } else {
          sums.at[e] = gradients[i].at[e];
        }
      }
      kept[row][threadIdx.x] = sums;
      if constexpr (compensate) store_once<as_vector>(s.residual, Tile::position(row), elements, olds[i]);
    }
  }
  return finite;
}

/// The number of blocks that a multiprocessor has registers for.
template <class T>
inline constexpr int resident = sizeof(T) == 8 ? 3 : most_resident;

template <class G, class T, bool compensate, bool aligned>
__global__ void __launch_bounds__(threads_per_block, resident<T>) select_kernel(Selection<G, T> s) {
  using Tile = SelectTile<T>;
  constexpr int size = width<T>;
  using V = std::conditional_t<compensate, T, G>;  // the type of kept values
  __shared__ Vector<V, size> kept[select_rows][threads_per_block];
  unsigned hits = 0;
  const bool finite = Tile::is_whole(s.count) ? take_tile<compensate, true, aligned>(s, kept, hits)
                                              : take_tile<compensate, false, false>(s, kept, hits);
  const HitNumbers<select_rows> numbers(hits);
  const std::uint64_t own = numbers.total() | static_cast<std::uint64_t>(__syncthreads_or(!finite) != 0) << hit_bits;
  const std::uint64_t before = s.states.before_in_block(own);
  if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) {
    const std::uint64_t all = before + own;
    *s.found = {static_cast<std::int64_t>(all & hit_mask), static_cast<std::int64_t>(all >> hit_bits)};
  }
#pragma unroll
  for (int row = 0; row < select_rows; ++row) {
    const unsigned in_row = hits_in(hits, row);
    if (in_row == 0) continue;
    auto number = static_cast<std::int64_t>((before & hit_mask) + numbers.before(row));
    const Vector<V, size> sums = kept[row][threadIdx.x];
#pragma unroll
    for (int e = 0; e < size; ++e) {
      if ((in_row >> e & 1) == 0) continue;
      const std::int64_t index = Tile::position(row) + e;
      const T value = widen(sums.at[e]);
      const bool fits = number < s.capacity;
      if (fits) {
        s.indices[number] = static_cast<std::uint32_t>(index);
        s.values[number] = value;
      }
      if constexpr (compensate) {
        constexpr Key<T> infinity = key_infinity<T>;
        const Key<T> key = key_of(value);
        if (key >= undecided(s) && key < (fits ? s.keep_old : infinity)) s.residual[index] = value;
      }
      ++number;
    }
  }
}

template <bool compensate, class G, class T>
void run_select(const Queue& queue, Selection<G, T> s) {
  const std::int64_t tiles = tiles_of(s.count, SelectTile<T>::size);
  clear(queue, queue.scratch, tiles * 8);
  s.states = {reinterpret_cast<unsigned long long*>(queue.scratch)};
  const bool aligned =
      is_aligned(s.gradient, sizeof(G) * width<T>) && (!compensate || is_aligned(s.residual, sizeof(T) * width<T>));
  launch(queue, aligned ? select_kernel<G, T, compensate, true> : select_kernel<G, T, compensate, false>, tiles, s);
}

template <class G, class T>
struct Keeping {
  const std::uint32_t* indices;
  const G* values;
  Extent count;
  DeviceBand<T> band;
  std::uint32_t* out_indices;
  T* out_values;
  T* residual;
  Key<T> keep_old;
  TileStates above, between;
  std::int64_t* found;
};

constexpr int band_rows = 4;

template <class G, class T, bool aligned>
__global__ void __launch_bounds__(threads_per_block, sizeof(G) == 2 ? 2 : 3) keep_band_kernel(Keeping<G, T> s) {
  using Tile = WarpTile<T, band_rows>;
  constexpr int size = width<T>;
  const std::int64_t count = exact(s.count);
  const Band<T> band = s.band.kth != nullptr ? band_of_largest(*s.band.kth, s.band.k) : s.band.known;
  const auto start = static_cast<std::uint64_t>(band.start), end = static_cast<std::uint64_t>(band.start + band.slice);

  Vector<G, size> narrow[band_rows];
  if (aligned && Tile::is_whole(count)) {
#pragma unroll
    for (int row = 0; row < band_rows; ++row) narrow[row] = load<true, Use::again, G, size>(s.values, Tile::position(row), size);
  } else {
#pragma unroll
    for (int row = 0; row < band_rows; ++row)
      narrow[row] = load<false, Use::again, G, size>(s.values, Tile::position(row), Tile::template present<false>(row, count));
  }
  Vector<T, size> values[band_rows];
  unsigned above = 0, between = 0;
#pragma unroll
  for (int row = 0; row < band_rows; ++row) {
    const int elements = Tile::template present<false>(row, count);
#pragma unroll
    for (int e = 0; e < size; ++e) {
      values[row].at[e] = widen(narrow[row].at[e]);
      const Key<T> key = key_of(values[row].at[e]);
      above |= static_cast<unsigned>(e < elements && key >= band.upper) << (4 * row + e);
      between |= static_cast<unsigned>(e < elements && key >= band.lower && key < band.upper) << (4 * row + e);
    }
  }
  const HitNumbers<band_rows> above_numbers(above), between_numbers(between);
  const auto tiles_before = TileStates::before_in_block({s.above, s.between}, {above_numbers.total(), between_numbers.total()});
  const std::uint64_t above_before = tiles_before.of[0], between_before = tiles_before.of[1];
  // Counts how many of the first `number` hits in between are in the slice.
  const auto in_slice = [&](std::uint64_t number) { return (number < end ? number : end) - (number < start ? number : start); };
  if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) {
    *s.found = static_cast<std::int64_t>(above_before + above_numbers.total() + in_slice(between_before + between_numbers.total()));
  }
#pragma unroll
  for (int row = 0; row < band_rows; ++row) {
    std::uint64_t before = above_before + above_numbers.before(row), number = between_before + between_numbers.before(row);
    const int elements = Tile::template present<false>(row, count);
#pragma unroll
    for (int e = 0; e < size; ++e) {
      if (e >= elements) continue;
      const std::int64_t place = Tile::position(row) + e;
      const T value = values[row].at[e];
      const bool is_above = (hits_in(above, row) >> e & 1) != 0, is_between = (hits_in(between, row) >> e & 1) != 0;
      if (is_above || (is_between && number >= start && number < end)) {
        const std::uint64_t to = before + in_slice(number);
        s.out_indices[to] = s.indices != nullptr ? s.indices[place] : static_cast<std::uint32_t>(place);
        s.out_values[to] = value;
      } else if (s.residual != nullptr && key_of(value) >= s.keep_old) {
        s.residual[s.indices != nullptr ? s.indices[place] : static_cast<std::uint32_t>(place)] = value;
      }
      before += is_above;
      number += is_between;
    }
  }
}

}  // namespace

template <class G, class T>
void compensate_select(Queue queue, const G* gradient, T* residual, std::int64_t count, Key<T> threshold, Key<T> keep_old,
                       std::uint32_t* indices, T* values, std::int64_t capacity, Found* found) {
  run_select<true, G, T>(queue, {gradient, residual, count, threshold, keep_old, indices, values, capacity, {}, found});
}

template <class G, class T>
void select(Queue queue, const G* x, std::int64_t count, Key<T> threshold, std::uint32_t* indices, T* values, std::int64_t capacity,
            Found* found) {
  run_select<false, G, T>(queue, {x, nullptr, count, threshold, 0, indices, values, capacity, {}, found});
}

template <class G, class T>
void select_band(Queue queue, const std::uint32_t* indices, const G* values, Extent count, DeviceBand<T> band,
                 std::uint32_t* out_indices, T* out_values, T* residual, Key<T> keep_old, std::int64_t* found) {
  const std::int64_t tiles = tiles_of(count.most, WarpTile<T, band_rows>::size);
  clear(queue, queue.scratch, tiles * 16);
  auto* const states = reinterpret_cast<unsigned long long*>(queue.scratch);
  launch(queue, is_aligned(values, sizeof(G) * width<T>) ? keep_band_kernel<G, T, true> : keep_band_kernel<G, T, false>, tiles,
         {indices, values, count, band, out_indices, out_values, residual, keep_old, {states}, {states + tiles}, found});
}

#define WEIR_INSTANTIATE(G, T)                                                                                                  \
  template void compensate_select(Queue, const G*, T*, std::int64_t, Key<T>, Key<T>, std::uint32_t*, T*, std::int64_t, Found*); \
  template void select(Queue, const G*, std::int64_t, Key<T>, std::uint32_t*, T*, std::int64_t, Found*);                        \
  template void select_band(Queue, const std::uint32_t*, const G*, Extent, DeviceBand<T>, std::uint32_t*, T*, T*, Key<T>,       \
                            std::int64_t*);
WEIR_INSTANTIATE(float, float)
WEIR_INSTANTIATE(double, double)
WEIR_INSTANTIATE(float16, float)
WEIR_INSTANTIATE(bfloat16, float)
#undef WEIR_INSTANTIATE

}  // namespace weir::kernels::cuda
