// cuda_kernels.hpp: the kernels of kernels.hpp for CUDA memory, with the same names. The contracts are the same bit for bit, except
// where one is given below. The calls differ:
//
// A kernel only queues work on a stream and returns. It does not wait, allocate or read on the host, so it can be captured into a
// CUDA graph. Pointers are to device memory, at addresses aligned to their elements; 16-byte alignment is faster. Counts that only
// the device knows are written to `found`, which may be pinned host memory: read it when the stream has reached that point.
//
// A NaN that is computed here is the GPU's, with its own sign and payload. A build without CUDA does not have these kernels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.hpp"
#include "kernels/narrow.hpp"

namespace weir::kernels::cuda {

/// Where kernels run. Work on one stream is done in order, so one scratch serves all kernels of a stream.
struct Queue {
  void* stream = nullptr;        ///< cudaStream_t
  std::byte* scratch = nullptr;  ///< device memory, aligned to 256, of scratch_bytes(); its contents are never reused
  int device = 0;                ///< the stream's GPU, whatever the calling thread's current one
};

/// Returns the bytes of scratch that any kernel here needs for arrays of `count` elements.
[[nodiscard]] std::int64_t scratch_bytes(std::int64_t count);

/// A number of elements. The host knows `most`, which sizes the launch. If `exact` is not null, the number is the smaller of `most`
/// and *exact in device memory.
struct Extent {
  std::int64_t most = 0;
  const std::int64_t* exact = nullptr;
};

/// Adds r[i] += g[i] and selects, in one pass. Moves 12 bytes per element for float. G is T, or float16 or bfloat16 if T is float.
template <class G, class T>
void compensate_select(Queue queue, const G* gradient, T* residual, std::int64_t count, Key<T> threshold, Key<T> keep_old,
                       std::uint32_t* indices, T* values, std::int64_t capacity, Found* found);
template <class G, class T>
void select(Queue queue, const G* x, std::int64_t count, Key<T> threshold, std::uint32_t* indices, T* values, std::int64_t capacity,
            Found* found);

template <class G, class T>
void sample(Queue queue, const G* gradient, const T* residual, std::int64_t samples, std::int64_t stride, std::int64_t rest,
            std::int64_t offset, T* out);

/// Finds the k-th largest key of x, widened to T, by histograms of 11 bits: three passes for float, six for double.
template <class G, class T>
void kth_key(Queue queue, const G* x, Extent count, std::int64_t k, KthKey<T>* found);

/// A band: `known` on the host, or, if `kth` is not null, band_of_largest(*kth, k) with kth in device memory.
template <class T>
struct DeviceBand {
  Band<T> known{};
  const KthKey<T>* kth = nullptr;
  std::int64_t k = 0;
};

/// Outputs hold what is kept, and must not overlap the inputs. Does not advance the band.
template <class G, class T>
void select_band(Queue queue, const std::uint32_t* indices, const G* values, Extent count, DeviceBand<T> band,
                 std::uint32_t* out_indices, T* out_values, T* residual, Key<T> keep_old, std::int64_t* found);

/// Adds to bins in device memory; `above` is in device memory, too.
template <class T>
void histogram(Queue queue, const T* x, Extent count, Key<T> low, Key<T> high, int shift, std::uint64_t* bins,
               std::uint64_t* above);

/// The order of the sums depends only on `count.most`.
template <class G, class T>
void moments(Queue queue, const G* x, const T* y, Extent count, Moments<T>* found);
template <class G, class T>
void exceedances(Queue queue, const G* x, const T* y, Extent count, Key<T> threshold, Exceedances<T>* found);
template <class T>
void count_non_finite(Queue queue, const T* x, Extent count, std::int64_t* found);

template <class T>
void add(Queue queue, const T* x, T* y, std::int64_t count);
template <class T>
void scale(Queue queue, T* x, std::int64_t count, T factor);
template <class T>
void rescale(Queue queue, T* x, std::int64_t count, T factor);
template <class T>
void divide(Queue queue, T* x, Extent count, T divisor);
/// y may be nullptr. `out` may be y, or x if that is of type T.
template <class G, class T>
void waxpby(Queue queue, T a, const G* x, T b, const T* y, T* out, std::int64_t count);
/// Sets out[i] to x[i], rounded to G.
template <class G, class T>
void narrow(Queue queue, const T* x, G* out, std::int64_t count);
template <class T>
void fill_zero(Queue queue, T* x, std::int64_t count);

template <class T>
void merge_add(Queue queue, const std::uint32_t* a_indices, const T* a_values, Extent a_count, const std::uint32_t* b_indices,
               const T* b_values, Extent b_count, std::uint32_t* out_indices, T* out_values, std::int64_t* found);
template <class T>
void settle(Queue queue, T* dense, const std::uint32_t* indices, const T* values, Extent count, const std::uint32_t* taken,
            Extent taken_count);
template <class T>
void clear_taken(Queue queue, T* dense, const std::uint32_t* indices, std::int64_t count, const std::uint32_t* taken,
                 std::int64_t taken_count);
/// `olds` must hold as many values as there are entries.
template <class G, class T>
void roll_back(Queue queue, const G* gradient, T* residual, std::int64_t count, const std::uint32_t* held_indices,
               const T* held_values, std::int64_t held, Key<T> keep_old, T* olds);
template <class T>
void scatter_add(Queue queue, T* dense, const std::uint32_t* indices, const T* values, std::int64_t count);
/// G is as in compensate_select: values are rounded to it.
template <class G, class T>
void scatter(Queue queue, G* dense, const std::uint32_t* indices, const T* values, Extent count);

template <class T>
void count_cut(Queue queue, const T* x, Extent count, Key<T> key, CutCounts* found);
/// Boundaries and counts may be in pinned memory.
void count_regions(Queue queue, const std::uint32_t* indices, std::int64_t count, const std::uint64_t* boundaries, int regions,
                   std::uint64_t* counts);
/// `out` may be in pinned memory.
void quantiles(Queue queue, const std::uint32_t* indices, std::int64_t count, int parts, std::uint64_t* out);
void shift_indices(Queue queue, const std::uint32_t* indices, std::int64_t count, std::uint32_t offset, std::uint32_t* out);

template <class T>
void gather_rows(Queue queue, const T* x, std::int64_t x_stride, const std::uint32_t* rows, std::int64_t count, std::int64_t width,
                 T* out, std::int64_t out_stride);
template <class T>
void coalesce_rows(Queue queue, const T* x, std::int64_t width, const std::uint32_t* order, const std::uint32_t* first,
                   std::int64_t groups, T* out);

/// Sets found[b] to the norm of block b: elements [b * block, (b + 1) * block), or to the end. At least one is written; 1 <= block.
/// G is as in compensate_select: elements are widened.
template <class G>
void squared_norm(Queue queue, const G* x, std::int64_t count, std::int64_t block, double* found);
template <class T>
void momentum_step(Queue queue, const T* gradient, T* weights, T* velocity, std::int64_t count, T rate, T decay, T momentum);
/// Returns norms by block, as squared_norm does.
template <class T>
void adam_moments(Queue queue, const T* gradient, const T* weights, T* first, T* second, std::int64_t count, std::int64_t block,
                  const AdamFactors<T>& factors, SquaredNorms* found);
template <class T>
void adam_step(Queue queue, const T* first, const T* second, T* weights, std::int64_t count, T rate, const AdamFactors<T>& factors);

/// Weights of float16 or bfloat16, and the float32 ones to which steps are added. Kernels first take over weights that the caller
/// has changed: wide[i] becomes given[i] if given[i] is not wide[i] rounded (narrow_to, with `saturate`), as in optim::take_over.
/// Kernels that step round wide[i] to given[i].
template <class G>
struct NarrowWeights {
  G* given;
  float* wide;
};
template <class G>
void momentum_step(Queue queue, const G* gradient, NarrowWeights<G> weights, float* velocity, std::int64_t count, float rate,
                   float decay, float momentum);
template <class G>
void adam_moments(Queue queue, const G* gradient, NarrowWeights<G> weights, float* first, float* second, std::int64_t count,
                  std::int64_t block, const AdamFactors<float>& factors, SquaredNorms* found);
template <class G>
void adam_step(Queue queue, const float* first, const float* second, NarrowWeights<G> weights, std::int64_t count, float rate,
               const AdamFactors<float>& factors);

}  // namespace weir::kernels::cuda
