// Selection by a threshold or a band: one read of the array, what is selected written in index order.
#include "launch.cuh"
#include "tile.cuh"

namespace weir::kernels::cuda {
namespace {

// In a tile's count for TileStates: the hits, and above them the number of tiles that hold something not finite.
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

/// Of hits that reach this, the residual to keep depends on the number of the hit.
template <class G, class T>
__device__ __forceinline__ Key<T> undecided(const Selection<G, T>& s) {
  constexpr Key<T> infinity = key_infinity<T>;
  return s.keep_old < infinity ? s.keep_old : infinity;
}

/// The sums of this thread's elements, which go into the residual unless they are hits and undecided; and which of them are hits.
/// False if a sum is not finite.
template <bool compensate, bool whole, bool as_vector, class G, class T, int size>
__device__ __forceinline__ bool take_tile(const Selection<G, T>& s, Vector<T, size> (&sums)[rows], Hits& hits) {
  Vector<G, size> gradients[rows];
#pragma unroll
  for (int row = 0; row < rows; ++row)
    gradients[row] = load<as_vector, Use::once, G, size>(s.gradient, position<T>(row), present<T, whole>(row, s.count));
  if constexpr (compensate) {
#pragma unroll
    for (int row = 0; row < rows; ++row)
      sums[row] = load<as_vector, Use::once, T, size>(s.residual, position<T>(row), present<T, whole>(row, s.count));
  }
  const Key<T> held = undecided(s);
  bool finite = true;
#pragma unroll
  for (int row = 0; row < rows; ++row) {
    const int elements = present<T, whole>(row, s.count);
    Vector<T, size> olds = sums[row];
#pragma unroll
    for (int e = 0; e < size; ++e) {
      const T gradient = widen(gradients[row].at[e]);
      T sum = gradient;
      if constexpr (compensate) sum += olds.at[e];
      const Key<T> key = key_of(sum);
      const bool hit = e < elements && key >= s.threshold;
      if (!hit || key < held) olds.at[e] = sum;
      sums[row].at[e] = sum;
      hits.add(row, e, hit);
      finite = finite && (e >= elements || key < key_infinity<T>);
    }
    if constexpr (compensate) store_once<as_vector>(s.residual, position<T>(row), elements, olds);
  }
  return finite;
}

/// Blocks that a multiprocessor holds at once. Half of the time a block waits for the others' counts and reads nothing, so the more
/// the better; plain selection reads half as much per block.
template <class T, bool compensate>
inline constexpr int resident = sizeof(T) == 8 ? 3
                                : compensate   ? 4
                                               : most_resident;

template <class G, class T, bool compensate, bool aligned>
__global__ void __launch_bounds__(threads_per_block, resident<T, compensate>) select_kernel(Selection<G, T> s) {
  constexpr int size = width<T>;
  Vector<T, size> sums[rows] = {};
  Hits hits;
  const bool finite = is_whole<T>(s.count) ? take_tile<compensate, true, aligned>(s, sums, hits)
                                           : take_tile<compensate, false, false>(s, sums, hits);
  const HitNumbers numbers(hits);
  const std::uint64_t own = numbers.total() | static_cast<std::uint64_t>(__syncthreads_or(!finite) != 0) << hit_bits;
  const std::uint64_t before = s.states.before_in_block(own);
  if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) {
    const std::uint64_t all = before + own;
    *s.found = {static_cast<std::int64_t>(all & hit_mask), static_cast<std::int64_t>(all >> hit_bits)};
  }
#pragma unroll
  for (int row = 0; row < rows; ++row) {
    if (hits.count(row) == 0) continue;
    auto number = static_cast<std::int64_t>((before & hit_mask) + numbers.before(row));
#pragma unroll
    for (int e = 0; e < size; ++e) {
      if (!hits.at(row, e)) continue;
      const std::int64_t index = position<T>(row) + e;
      const T value = sums[row].at[e];
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
  const std::int64_t tiles = tiles_of(s.count, tile_size<T>);
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

template <class G, class T, bool aligned>
__global__ void __launch_bounds__(threads_per_block, sizeof(G) == 2 ? 2 : 3) keep_band_kernel(Keeping<G, T> s) {
  constexpr int size = width<T>;
  const std::int64_t count = exact(s.count);
  const Band<T> band = s.band.kth != nullptr ? band_of_largest(*s.band.kth, s.band.k) : s.band.known;
  const auto start = static_cast<std::uint64_t>(band.start), end = static_cast<std::uint64_t>(band.start + band.slice);

  Vector<G, size> narrow[rows];
  load_tile<T, aligned>(s.values, count, blockIdx.x, narrow);
  Vector<T, size> values[rows];
  Hits above, between;
#pragma unroll
  for (int row = 0; row < rows; ++row) {
    const int elements = present<T, false>(row, count);
#pragma unroll
    for (int e = 0; e < size; ++e) {
      values[row].at[e] = widen(narrow[row].at[e]);
      const Key<T> key = key_of(values[row].at[e]);
      above.add(row, e, e < elements && key >= band.upper);
      between.add(row, e, e < elements && key >= band.lower && key < band.upper);
    }
  }
  const HitNumbers above_numbers(above), between_numbers(between);
  const auto tiles_before = TileStates::before_in_block({s.above, s.between}, {above_numbers.total(), between_numbers.total()});
  const std::uint64_t above_before = tiles_before.of[0], between_before = tiles_before.of[1];
  // Of the first `number` in between, those in the slice.
  const auto in_slice = [&](std::uint64_t number) { return (number < end ? number : end) - (number < start ? number : start); };
  if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) {
    *s.found = static_cast<std::int64_t>(above_before + above_numbers.total() + in_slice(between_before + between_numbers.total()));
  }
#pragma unroll
  for (int row = 0; row < rows; ++row) {
    std::uint64_t before = above_before + above_numbers.before(row), number = between_before + between_numbers.before(row);
    const int elements = present<T, false>(row, count);
#pragma unroll
    for (int e = 0; e < size; ++e) {
      if (e >= elements) continue;
      const std::int64_t place = position<T>(row) + e;
      const T value = values[row].at[e];
      const bool is_above = above.at(row, e), is_between = between.at(row, e);
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
  const std::int64_t tiles = tiles_of(count.most, tile_size<T>);
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
