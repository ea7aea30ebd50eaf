// Ranks: the k-th largest key by radix histograms from the highest digit down, and histograms for global ranks.
#include "launch.cuh"
#include "tile.cuh"

namespace weir::kernels::cuda {
namespace {

using Bin = unsigned long long;
constexpr int digit_bits = 11, digits = 1 << digit_bits;

/// The number of blocks that a multiprocessor holds at once.
template <class T>
inline constexpr int resident = sizeof(T) == 4 && most_resident > 4 ? 5 : 4;

/// The state between the passes of kth_key, in scratch, zero before the first.
template <class T>
struct Progress {
  Key<T> prefix;  // the digits found so far
  std::int64_t greater;
  unsigned arrivals;
  Bin bins[digits];
};

/// Counts in shared bins, then adds these to `bins`.
template <class Each>
__device__ void count_in_block(Bin* bins, int size, Each each) {
  __shared__ unsigned counts[digits];
  for (int bin = static_cast<int>(threadIdx.x); bin < size; bin += threads_per_block) counts[bin] = 0;
  __syncthreads();
  each(counts);
  __syncthreads();
  for (int bin = static_cast<int>(threadIdx.x); bin < size; bin += threads_per_block) {
    if (counts[bin] > 0) atomicAdd(&bins[bin], static_cast<Bin>(counts[bin]));
  }
}

/// Counts of one thread in bins that it shares with others. Counts equal bins in a row by one atomic operation: with many ties,
/// threads would otherwise queue at one bin.
template <class Count>
class Counting {
 public:
  explicit __device__ Counting(Count* counts) : counts_(counts) {}
  __device__ void add(std::uint32_t bin) {
    if (bin != bin_) {
      finish();
      bin_ = bin;
    }
    ++pending_;
  }
  __device__ void finish() {
    if (pending_ > 0) atomicAdd(&counts_[bin_], Count{pending_});
    pending_ = 0;
  }

 private:
  Count* counts_;
  std::uint32_t bin_ = 0;
  unsigned pending_ = 0;
};

/// Finds one digit of the k-th key: all blocks count, and the last one decides.
template <class G, class T, bool aligned>
__global__ void __launch_bounds__(threads_per_block, resident<T>)
    kth_key_kernel(const G* x, Extent extent, std::int64_t k, int shift, int bits, Progress<T>* progress, KthKey<T>* found) {
  const std::int64_t count = exact(extent);
  const Key<T> prefix = progress->prefix;
  const int size = 1 << bits;
  count_in_block(progress->bins, size, [&](unsigned* counts) {
    Counting<unsigned> counting(counts);
    for_tiles<T, aligned>(x, static_cast<const T*>(nullptr), count, [&](T value) {
      const Key<T> key = key_of(value);
      // Compares `prefix` with the digits of `key` above this one. Shifts in two steps, because one shift by all bits is undefined.
      if (key != 0 && (key >> shift >> bits) == (prefix >> shift >> bits))
        counting.add(static_cast<std::uint32_t>(key >> shift) & static_cast<std::uint32_t>(size - 1));
    });
    counting.finish();
  });
  if (!is_last_block(&progress->arrivals)) return;

  // Each thread has a run of bins; thread 0 has the highest.
  constexpr int run = digits / threads_per_block;
  const int per_thread = size / threads_per_block > 0 ? size / threads_per_block : 1;
  const int highest = size - 1 - static_cast<int>(threadIdx.x) * per_thread;
  std::uint64_t in_run[run], sum = 0, total = 0;
#pragma unroll
  for (int i = 0; i < run; ++i) {
    const int bin = highest - i;
    in_run[i] = i < per_thread && bin >= 0 ? progress->bins[bin] : 0;
    sum += in_run[i];
  }
  const std::uint64_t above = scan_block(sum, total);
  const std::int64_t greater = progress->greater;
  const std::int64_t left = k - greater;
  const std::uint64_t wanted = left > 0 ? static_cast<std::uint64_t>(left) : 0;
  __syncthreads();  // all threads have read `greater`
  const auto decide = [&](int bin, std::uint64_t bins_above, std::uint64_t equal) {
    const auto key = static_cast<Key<T>>(prefix | static_cast<Key<T>>(bin) << shift);
    progress->prefix = key;
    progress->greater = greater + static_cast<std::int64_t>(bins_above);
    *found = {key, progress->greater, static_cast<std::int64_t>(equal)};
  };
  std::uint64_t before = above;
#pragma unroll
  for (int i = 0; i < run; ++i) {
    if (before < wanted && wanted <= before + in_run[i]) decide(highest - i, before, in_run[i]);
    before += in_run[i];
  }
  if (threadIdx.x == 0 && wanted > total) {  // fewer than k: take the lowest key, which is 1
    const std::uint64_t equal = shift == 0 ? progress->bins[1] : progress->bins[0];
    decide(0, total - equal, equal);
    if (shift == 0) found->key = 1;
  }
  __syncthreads();
  for (int bin = static_cast<int>(threadIdx.x); bin < size; bin += threads_per_block) progress->bins[bin] = 0;
  if (threadIdx.x == 0) progress->arrivals = 0;
}

template <class T>
struct Bins {
  const T* x;
  Extent count;
  Key<T> low, high;
  int shift;
  Bin* bins;
  Bin* above;
};

/// `shared`: there are at most `digits` bins.
template <class T, bool shared, bool aligned>
__global__ void __launch_bounds__(threads_per_block, resident<T>) histogram_kernel(Bins<T> h) {
  unsigned above = 0;
  const auto add_all = [&](auto* counts) {
    Counting<std::remove_pointer_t<decltype(counts)>> counting(counts);
    for_tiles<T, aligned>(h.x, static_cast<const T*>(nullptr), exact(h.count), [&](T value) {
      const Key<T> key = key_of(value);
      if (key == 0 || key < h.low) return;
      if (key > h.high)
        ++above;
      else
        counting.add(static_cast<std::uint32_t>((key - h.low) >> h.shift));
    });
    counting.finish();
  };
  if constexpr (shared) {
    count_in_block(h.bins, static_cast<int>((h.high - h.low) >> h.shift) + 1, add_all);
  } else {
    add_all(h.bins);
  }
  std::uint64_t total;
  scan_block(above, total);
  if (threadIdx.x == 0 && total > 0) atomicAdd(h.above, static_cast<Bin>(total));
}

}  // namespace

template <class G, class T>
void kth_key(Queue queue, const G* x, Extent count, std::int64_t k, KthKey<T>* found) {
  auto* const progress = reinterpret_cast<Progress<T>*>(queue.scratch);
  clear(queue, progress, sizeof *progress);
  const std::int64_t blocks = resident_blocks(queue, count.most, tile_size<T>, resident<T>);
  const bool aligned = is_aligned(x, sizeof(G) * width<T>);
  for (int above = key_bits<T>; above > 0;) {
    const int bits = std::min(above, digit_bits);
    above -= bits;
    launch(queue, aligned ? kth_key_kernel<G, T, true> : kth_key_kernel<G, T, false>, blocks, x, count, k, above, bits, progress,
           found);
  }
}

template <class T>
void histogram(Queue queue, const T* x, Extent count, Key<T> low, Key<T> high, int shift, std::uint64_t* bins,
               std::uint64_t* above) {
  const Bins<T> h{x, count, low, high, shift, reinterpret_cast<Bin*>(bins), reinterpret_cast<Bin*>(above)};
  const bool shared = (high - low) >> shift < static_cast<Key<T>>(digits);
  const auto aligned_kernel = shared ? histogram_kernel<T, true, true> : histogram_kernel<T, false, true>;
  const auto any_kernel = shared ? histogram_kernel<T, true, false> : histogram_kernel<T, false, false>;
  launch(queue, is_aligned(x, sizeof(T) * width<T>) ? aligned_kernel : any_kernel,
         resident_blocks(queue, count.most, tile_size<T>, resident<T>), h);
}

#define WEIR_INSTANTIATE(T)                                                 \
  template void kth_key(Queue, const T*, Extent, std::int64_t, KthKey<T>*); \
  template void histogram(Queue, const T*, Extent, Key<T>, Key<T>, int, std::uint64_t*, std::uint64_t*);
WEIR_INSTANTIATE(float)
WEIR_INSTANTIATE(double)
template void kth_key(Queue, const float16*, Extent, std::int64_t, KthKey<float>*);
template void kth_key(Queue, const bfloat16*, Extent, std::int64_t, KthKey<float>*);
#undef WEIR_INSTANTIATE

}  // namespace weir::kernels::cuda
