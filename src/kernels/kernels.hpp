// kernels.hpp: every kernel, declared once per memory space. `host` is SIMD with run-time dispatch, `reference` is slow and
// obvious; both obey these contracts bit for bit, and the same tests run on both.
//
// The order of magnitudes is the order of the bits of |x| read as an unsigned integer, the *key*. It is total: zero has key 0,
// infinity comes after all finite values, NaN after infinity. A threshold is a key. Selecting "key >= threshold" therefore
// always selects what is not finite, and finding NaN costs no extra test over the whole gradient.
//
// No kernel allocates. Sorted sparse vectors are (indices ascending, values) with 32-bit indices. T is float or double.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace weir {

template <class T>
using Key = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

template <class T>
[[nodiscard]] constexpr Key<T> key_of(T value) noexcept {
  return std::bit_cast<Key<T>>(value) & static_cast<Key<T>>(~(Key<T>{1} << (8 * sizeof(T) - 1)));
}

/// The key of infinity: everything at or above it is not finite.
template <class T>
inline constexpr Key<T> key_infinity = sizeof(T) == 4 ? Key<T>(0x7f800000u) : static_cast<Key<T>>(0x7ff0000000000000ull);

/// x * factor; the largest finite value of its sign where the product of a finite x is beyond the type.
template <class T>
[[nodiscard]] constexpr T rescaled(T x, T factor) noexcept {
  constexpr T most = std::numeric_limits<T>::max();
  const T product = x * factor;
  if (key_of(product) != key_infinity<T> || key_of(x) >= key_infinity<T>) return product;
  return product > 0 ? most : -most;
}

/// Returns the key of rescaled(x, factor), where `key` is that of x. 0, which stands for no key, stays 0.
template <class T>
[[nodiscard]] Key<T> scaled_key(Key<T> key, double factor) noexcept {
  if (key == 0) return 0;
  return std::max(key_of(rescaled(std::bit_cast<T>(key), static_cast<T>(factor))), Key<T>{1});
}

template <class T>
inline constexpr int key_bits = 8 * sizeof(T) - 1;

/// A buffer that a selecting kernel writes to must be this many entries longer than `capacity`: whole vectors are stored.
inline constexpr std::int64_t select_padding = 64;

/// Where the k-th largest key of a set lies.
template <class T>
struct KthKey {
  Key<T> key;            ///< the k-th largest key, at least 1: zeros never count
  std::int64_t greater;  ///< elements with a key greater than that
  std::int64_t equal;    ///< elements with exactly that key
};

/// What a pass over a vector has found.
struct Found {
  std::int64_t hits = 0;        ///< entries that reached the threshold, also beyond the capacity
  std::int64_t non_finite = 0;  ///< 0 if all that was read (for compensate_select: all sums) is finite, else positive
};

/// What of a vector is kept: all that reach `upper`, and of those that only reach `lower` the `slice` ones from number `start` on.
template <class T>
struct Band {
  Key<T> upper, lower;
  std::int64_t start, slice;
};

/// The k largest of the entries of which `kth` is the k-th largest: ties go to the lowest index.
template <class T>
[[nodiscard]] constexpr Band<T> band_of_largest(const KthKey<T>& kth, std::int64_t k) noexcept {
  const std::int64_t left = k - kth.greater;
  return {static_cast<Key<T>>(kth.key + 1), kth.key, 0, kth.equal < left ? kth.equal : left};
}

/// How many elements lie above a cut and exactly on it.
struct CutCounts {
  std::int64_t above = 0, equal = 0;
};

template <class T>
struct Moments {
  std::int64_t count = 0;
  double sum = 0, sum_squares = 0;
  Key<T> largest = 0;  ///< key; 0 if there are no entries
};

/// The entries that reach a threshold.
template <class T>
struct Exceedances {
  std::int64_t count = 0;
  double sum_magnitudes = 0;
  Key<T> largest = 0;  ///< key; 0 if there are no entries
};

/// Sums of squares, in double.
struct SquaredNorms {
  double weights = 0, other = 0;
};

/// Factors of one step of Adam with the moments m and v. The step's direction is
/// u = (m / first_correction) / (sqrt(v) / second_correction + epsilon) + decay w.
template <class T>
struct AdamFactors {
  T beta1, beta2;
  T first_correction, second_correction;  ///< 1 - beta1^t and sqrt(1 - beta2^t)
  T epsilon, decay;
};

// Declared once in a macro-free way: each namespace below implements this list.
#define WEIR_KERNEL_DECLARATIONS                                                                                                   \
  /* r[i] += g[i]; entries whose sum has key >= threshold go, in index order, to (indices, values). Of these, the ones with key >= \
     keep_old keep the *old* r[i], so that even what dwarfs the old residual can be taken back. One read of g and r, one write of  \
     r. Returns how many reached the threshold; only the first `capacity` are stored, later ones get r[i] = sum whatever their     \
     key, unless the sum is not finite. */                                                                                         \
  template <class T>                                                                                                               \
  std::int64_t compensate_select(const T* gradient, T* residual, std::int64_t count, Key<T> threshold, Key<T> keep_old,            \
                                 std::uint32_t* indices, T* values, std::int64_t capacity);                                        \
  /* The same without residual: entries of x with key >= threshold, in index order; x is only read. */                             \
  template <class T>                                                                                                               \
  std::int64_t select(const T* x, std::int64_t count, Key<T> threshold, std::uint32_t* indices, T* values, std::int64_t capacity); \
  /* The k-th largest key of x, 1 <= k. If fewer than k keys are nonzero: {1, nonzero elements with key > 1, those with key 1}. */ \
  template <class T>                                                                                                               \
  KthKey<T> kth_key(const T* x, std::int64_t count, std::int64_t k);                                                               \
  /* bins[(key - low) >> shift] += 1 for every key in [low, high], and *above += 1 for every key above `high`. 1 <= low, and       \
     (high - low) >> shift is below the number of bins. */                                                                         \
  template <class T>                                                                                                               \
  void histogram(const T* x, std::int64_t count, Key<T> low, Key<T> high, int shift, std::uint64_t* bins, std::uint64_t* above);   \
  /* Of the entries of x + y (added in T; of x where y is nullptr). Sums are taken in double: entry i goes to partial sum i % 16,  \
     then partial sum j takes up j + 8, at last j + 4, j + 2 and j + 1. */                                                         \
  template <class T>                                                                                                               \
  Moments<T> moments(const T* x, const T* y, std::int64_t count);                                                                  \
  /* The same for the magnitudes of the entries with key >= threshold. */                                                          \
  template <class T>                                                                                                               \
  Exceedances<T> exceedances(const T* x, const T* y, std::int64_t count, Key<T> threshold);                                        \
  /* y[i] += x[i] */                                                                                                               \
  template <class T>                                                                                                               \
  void add(const T* x, T* y, std::int64_t count);                                                                                  \
  /* x[i] *= factor */                                                                                                             \
  template <class T>                                                                                                               \
  void scale(T* x, std::int64_t count, T factor);                                                                                  \
  /* x[i] = rescaled(x[i], factor) */                                                                                              \
  template <class T>                                                                                                               \
  void rescale(T* x, std::int64_t count, T factor);                                                                                \
  /* x[i] /= divisor */                                                                                                            \
  template <class T>                                                                                                               \
  void divide(T* x, std::int64_t count, T divisor);                                                                                \
  /* out[i] = a x[i] + b y[i], every operation rounded by itself; a x[i] where y is nullptr. `out` may be x or y. */               \
  template <class T>                                                                                                               \
  void waxpby(T a, const T* x, T b, const T* y, T* out, std::int64_t count);                                                       \
  /* How many x have key >= key_infinity. */                                                                                       \
  template <class T>                                                                                                               \
  std::int64_t count_non_finite(const T* x, std::int64_t count);                                                                   \
  /* x[i] = 0, past the caches where that is faster. */                                                                            \
  template <class T>                                                                                                               \
  void fill_zero(T* x, std::int64_t count);                                                                                        \
  /* Sum of two sorted sparse vectors; equal indices give one entry a + b, also when the sum is zero. `out` holds a_count +        \
     b_count entries and overlaps neither input. Returns the number of entries written. */                                         \
  template <class T>                                                                                                               \
  std::int64_t merge_add(const std::uint32_t* a_indices, const T* a_values, std::int64_t a_count, const std::uint32_t* b_indices,  \
                         const T* b_values, std::int64_t b_count, std::uint32_t* out_indices, T* out_values);                      \
  /* For each sorted entry (indices, values): dense[index] = 0 if `index` is among the sorted `taken`, else the value. */          \
  template <class T>                                                                                                               \
  void settle(T* dense, const std::uint32_t* indices, const T* values, std::int64_t count, const std::uint32_t* taken,             \
              std::int64_t taken_count);                                                                                           \
  /* dense[i] = 0 for the i of the sorted indices that are among the sorted `taken`. */                                            \
  template <class T>                                                                                                               \
  void clear_taken(T* dense, const std::uint32_t* indices, std::int64_t count, const std::uint32_t* taken,                         \
                   std::int64_t taken_count);                                                                                      \
  /* dense[indices[i]] = values[i] */                                                                                              \
  template <class T>                                                                                                               \
  void scatter(T* dense, const std::uint32_t* indices, const T* values, std::int64_t count);                                       \
  /* dense[i] = 0 for begin <= i < end, except for the sorted entries, which all lie there: dense[indices[j]] = values[j]. In one  \
     pass, past the caches where that is faster. */                                                                                \
  template <class T>                                                                                                               \
  void densify(T* dense, std::int64_t begin, std::int64_t end, const std::uint32_t* indices, const T* values, std::int64_t count); \
  /* dense[indices[i]] += values[i]; no index twice. */                                                                            \
  template <class T>                                                                                                               \
  void scatter_add(T* dense, const std::uint32_t* indices, const T* values, std::int64_t count);                                   \
  /* out[i] = x[p] + y[p], or x[p] where y is nullptr, for position p = i * stride + i * rest / samples + offset. */               \
  template <class T>                                                                                                               \
  void sample(const T* x, const T* y, std::int64_t samples, std::int64_t stride, std::int64_t rest, std::int64_t offset, T* out);  \
  /* How many x have a key above `key`, and exactly that one. */                                                                   \
  template <class T>                                                                                                               \
  CutCounts count_cut(const T* x, std::int64_t count, Key<T> key);                                                                 \
  /* counts[j] = how many of the sorted indices are in [boundaries[j], boundaries[j + 1]), for j < regions; the boundaries         \
     ascend. */                                                                                                                    \
  void count_regions(const std::uint32_t* indices, std::int64_t count, const std::uint64_t* boundaries, int regions,               \
                     std::uint64_t* counts);                                                                                       \
  /* out[j - 1] = indices[count * j / parts] for j = 1, ..., parts - 1; 1 <= count. */                                             \
  void quantiles(const std::uint32_t* indices, std::int64_t count, int parts, std::uint64_t* out);                                 \
  /* out[i] = indices[i] + offset, modulo 2^32; `out` may be `indices`. */                                                         \
  void shift_indices(const std::uint32_t* indices, std::int64_t count, std::uint32_t offset, std::uint32_t* out);                  \
  /* Of the sorted entries (indices, values), or (0, 1, ..., values) where `indices` is nullptr, those in the band, in order;      \
     returns how many. Of the others, those with key >= keep_old go back: residual[index] = value, unless `residual` is nullptr.   \
     Outputs hold select_padding entries more than are kept, or as many as there are; they may be the inputs. band.start moves on  \
     by the entries between the thresholds: the band goes on in what follows. */                                                   \
  template <class T>                                                                                                               \
  std::int64_t select_band(const std::uint32_t* indices, const T* values, std::int64_t count, Band<T>& band,                       \
                           std::uint32_t* out_indices, T* out_values, T* residual, Key<T> keep_old);                               \
  /* Undoes compensate_select up to rounding: residual -= gradient where that is finite, and for those of the `held` sorted        \
     entries whose key is at least keep_old the residual stays what it is. */                                                      \
  template <class T>                                                                                                               \
  void roll_back(const T* gradient, T* residual, std::int64_t count, const std::uint32_t* held_indices, const T* held_values,      \
                 std::int64_t held, Key<T> keep_old);                                                                              \
  /* out[i * out_stride + c] = x[rows[i] * x_stride + c] for c < width; width is at most either stride. The rest of `out` stays    \
     as it is, and `out` does not overlap x. */                                                                                    \
  template <class T>                                                                                                               \
  void gather_rows(const T* x, std::int64_t x_stride, const std::uint32_t* rows, std::int64_t count, std::int64_t width, T* out,   \
                   std::int64_t out_stride);                                                                                       \
  /* out[g * width + c] = the sum of x[order[i] * width + c] over i = first[g], ..., first[g + 1] - 1, in this order, starting     \
     from the first: a group of one is copied bit for bit. `first` has groups + 1 entries, and every group at least one member.    \
     `out` does not overlap x. */                                                                                                  \
  template <class T>                                                                                                               \
  void coalesce_rows(const T* x, std::int64_t width, const std::uint32_t* order, const std::uint32_t* first, std::int64_t groups,  \
                     T* out);                                                                                                      \
  /* The sum of x[i] x[i], taken in double as in `moments`. */                                                                     \
  template <class T>                                                                                                               \
  double squared_norm(const T* x, std::int64_t count);                                                                             \
  /* Momentum SGD: v[i] = momentum v[i] + rate (g[i] + decay w[i]); w[i] -= v[i]. Every operation rounded by itself. */            \
  template <class T>                                                                                                               \
  void momentum_step(const T* gradient, T* weights, T* velocity, std::int64_t count, T rate, T decay, T momentum);                 \
  /* m[i] = beta1 m[i] + (1 - beta1) g[i]; v[i] = beta2 v[i] + (1 - beta2) g[i] g[i]. Returns the squared norms of the weights and \
     of the directions, summed as in `moments`. */                                                                                 \
  template <class T>                                                                                                               \
  SquaredNorms adam_moments(const T* gradient, const T* weights, T* first, T* second, std::int64_t count,                          \
                            const AdamFactors<T>& factors);                                                                        \
  /* w[i] -= rate u[i] */                                                                                                          \
  template <class T>                                                                                                               \
  void adam_step(const T* first, const T* second, T* weights, std::int64_t count, T rate, const AdamFactors<T>& factors);

namespace kernels::host {
WEIR_KERNEL_DECLARATIONS
/// Names of the instruction sets that dispatch may choose here, the one in use first.
const char* instruction_set();
}  // namespace kernels::host
namespace kernels::reference {
WEIR_KERNEL_DECLARATIONS
}
#undef WEIR_KERNEL_DECLARATIONS

}  // namespace weir
