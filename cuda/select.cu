// Selection by a threshold: one read of the array, what is selected written in index order.
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
__device__ __forceinline__ bool take_tile(const Selection<G, T>& s, Vector<T, size> (&sums)[rows], unsigned (&hits)[rows]) {
  Vector<G, size> gradients[rows];
#pragma unroll
  for (int row = 0; row < rows; ++row)
    gradients[row] = load<as_vector, G, size>(s.gradient, position<T>(row), present<T, whole>(row, s.count));
  if constexpr (compensate) {
#pragma unroll
    for (int row = 0; row < rows; ++row)
      sums[row] = load<as_vector, T, size>(s.residual, position<T>(row), present<T, whole>(row, s.count));
  }
  const Key<T> held = undecided(s);
  bool finite = true;
#pragma unroll
  for (int row = 0; row < rows; ++row) {
    const int elements = present<T, whole>(row, s.count);
    Vector<T, size> olds = sums[row];
    hits[row] = 0;
#pragma unroll
    for (int e = 0; e < size; ++e) {
      const T gradient = widen(gradients[row].at[e]);
      T sum = gradient;
      if constexpr (compensate) sum += olds.at[e];
      const Key<T> key = key_of(sum);
      const bool hit = e < elements && key >= s.threshold;
      if (!hit || key < held) olds.at[e] = sum;
      sums[row].at[e] = sum;
      hits[row] |= static_cast<unsigned>(hit) << e;
      finite = finite && (e >= elements || key < key_infinity<T>);
    }
    if constexpr (compensate) store<as_vector>(s.residual, position<T>(row), elements, olds);
  }
  return finite;
}

template <class G, class T, bool compensate, bool aligned>
__global__ void __launch_bounds__(threads_per_block, sizeof(T) == 4 ? 4 : 3) select_kernel(Selection<G, T> s) {
  constexpr int size = width<T>;
  Vector<T, size> sums[rows] = {};
  unsigned hits[rows];
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
    if (hits[row] == 0) continue;
    auto number = static_cast<std::int64_t>((before & hit_mask) + numbers.before(row));
#pragma unroll
    for (int e = 0; e < size; ++e) {
      if ((hits[row] >> e & 1) == 0) continue;
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
struct Ties {
  const std::uint32_t* indices;
  const G* values;
  Extent count;
  std::int64_t k;
  const KthKey<T>* kth;
  std::uint32_t* out_indices;
  T* out_values;
  T* residual;
  Key<T> keep_old;
  TileStates greater, equal;
  std::int64_t* found;
};

template <class G, class T, bool aligned>
__global__ void __launch_bounds__(threads_per_block) select_ties_kernel(Ties<G, T> s) {
  constexpr int size = width<T>;
  const std::int64_t count = exact(s.count);
  const KthKey<T> kth = *s.kth;
  const std::int64_t wanted = s.k - kth.greater < kth.equal ? s.k - kth.greater : kth.equal;
  const auto ties = static_cast<std::uint64_t>(wanted > 0 ? wanted : 0);

  const bool whole = is_whole<T>(count);
  Vector<T, size> values[rows];
  unsigned greater[rows], equal[rows];
#pragma unroll
  for (int row = 0; row < rows; ++row) {
    const int elements = present<T, false>(row, count);
    const Vector<G, size> narrow = whole && aligned ? load<true, G, size>(s.values, position<T>(row), elements)
                                                    : load<false, G, size>(s.values, position<T>(row), elements);
    greater[row] = equal[row] = 0;
#pragma unroll
    for (int e = 0; e < size; ++e) {
      values[row].at[e] = widen(narrow.at[e]);
      const Key<T> key = key_of(values[row].at[e]);
      if (e < elements && key > kth.key) greater[row] |= 1u << e;
      if (e < elements && key == kth.key) equal[row] |= 1u << e;
    }
  }
  const HitNumbers greater_numbers(greater), equal_numbers(equal);
  const std::uint64_t greater_before = s.greater.before_in_block(greater_numbers.total());
  const std::uint64_t equal_before = s.equal.before_in_block(equal_numbers.total());
  const auto taken = [&](std::uint64_t tie) { return tie < ties ? tie : ties; };
  if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) {
    *s.found = static_cast<std::int64_t>(greater_before + greater_numbers.total() + taken(equal_before + equal_numbers.total()));
  }
#pragma unroll
  for (int row = 0; row < rows; ++row) {
    std::uint64_t before = greater_before + greater_numbers.before(row), tie = equal_before + equal_numbers.before(row);
    const int elements = present<T, false>(row, count);
#pragma unroll
    for (int e = 0; e < size; ++e) {
      if (e >= elements) continue;
      const std::int64_t place = position<T>(row) + e;
      const T value = values[row].at[e];
      const bool above = greater[row] >> e & 1, level = equal[row] >> e & 1;
      if (above || (level && tie < ties)) {
        const std::uint64_t number = before + taken(tie);
        s.out_indices[number] = s.indices != nullptr ? s.indices[place] : static_cast<std::uint32_t>(place);
        s.out_values[number] = value;
      } else if (s.residual != nullptr && key_of(value) >= s.keep_old) {
        s.residual[s.indices != nullptr ? s.indices[place] : static_cast<std::uint32_t>(place)] = value;
      }
      before += above;
      tie += level;
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
void select_ties(Queue queue, const std::uint32_t* indices, const G* values, Extent count, std::int64_t k, const KthKey<T>* kth,
                 std::uint32_t* out_indices, T* out_values, T* residual, Key<T> keep_old, std::int64_t* found) {
  const std::int64_t tiles = tiles_of(count.most, tile_size<T>);
  clear(queue, queue.scratch, tiles * 16);
  auto* const states = reinterpret_cast<unsigned long long*>(queue.scratch);
  launch(
      queue, is_aligned(values, sizeof(G) * width<T>) ? select_ties_kernel<G, T, true> : select_ties_kernel<G, T, false>, tiles,
      Ties<G, T>{indices, values, count, k, kth, out_indices, out_values, residual, keep_old, {states}, {states + tiles}, found});
}

#define WEIR_INSTANTIATE(G, T)                                                                                                     \
  template void compensate_select(Queue, const G*, T*, std::int64_t, Key<T>, Key<T>, std::uint32_t*, T*, std::int64_t, Found*);    \
  template void select(Queue, const G*, std::int64_t, Key<T>, std::uint32_t*, T*, std::int64_t, Found*);                           \
  template void select_ties(Queue, const std::uint32_t*, const G*, Extent, std::int64_t, const KthKey<T>*, std::uint32_t*, T*, T*, \
                            Key<T>, std::int64_t*);
WEIR_INSTANTIATE(float, float)
WEIR_INSTANTIATE(double, double)
WEIR_INSTANTIATE(float16, float)
WEIR_INSTANTIATE(bfloat16, float)
#undef WEIR_INSTANTIATE

}  // namespace weir::kernels::cuda
