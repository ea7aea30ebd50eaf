// kernels.hpp: every kernel, declared once per memory space. `host` is SIMD with run-time dispatch, `reference` is slow and
// obvious. Both obey these contracts bit for bit, and the same tests run on both.
//
// The order of magnitudes is the order of the bits of |x| read as an unsigned integer, the *key*. It is total: zero has key 0,
// infinity comes after all finite values, NaN after infinity. A threshold is a key. Selecting "key >= threshold" therefore always
// selects values that are not finite, and finding NaN costs no extra test over the whole gradient.
//
// No kernel allocates. Sorted sparse vectors are (indices ascending, values) with 32-bit indices. T is float or double.
#pragma once

#include <algorithm>
#include <array>
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

/// The key of infinity: values with this key or a larger one are not finite.
template <class T>
inline constexpr Key<T> key_infinity = sizeof(T) == 4 ? Key<T>(0x7f800000u) : static_cast<Key<T>>(0x7ff0000000000000ull);

/// Returns x * factor, or the largest finite value of its sign if x is finite and the product is not.
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

/// A buffer that a selecting kernel writes to must be this many entries longer than `capacity`, since whole vectors are stored.
inline constexpr std::int64_t select_padding = 64;

/// The k-th largest key of a set, and its place.
template <class T>
struct KthKey {
  Key<T> key;            ///< the k-th largest key, at least 1, since zeros never count
  std::int64_t greater;  ///< elements with a key greater than that
  std::int64_t equal;    ///< elements with exactly that key
};

/// What a pass over a vector has found.
struct Found {
  std::int64_t hits = 0;        ///< entries that reached the threshold, including those beyond the capacity
  std::int64_t non_finite = 0;  ///< 0 if everything read (for compensate_select: all sums) is finite, otherwise positive
};

/// The part of a vector that is kept: all entries that reach `upper`, and of those that only reach `lower` the `slice` ones from
/// number `start` on.
template <class T>
struct Band {
  Key<T> upper, lower;
  std::int64_t start, slice;
};

/// Returns the band of the k largest entries; `kth` is the k-th largest. Ties go to the lowest index.
template <class T>
[[nodiscard]] constexpr Band<T> band_of_largest(const KthKey<T>& kth, std::int64_t k) noexcept {
  const std::int64_t left = k - kth.greater;
  return {static_cast<Key<T>>(kth.key + 1), kth.key, 0, kth.equal < left ? kth.equal : left};
}

/// The number of elements above a cut and exactly on it.
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

/// The factors of one step of Adam with the moments m and v. The step's direction is u = (m / first_correction) / (sqrt(v) /
/// second_correction + epsilon) + decay w.
template <class T>
struct AdamFactors {
  T beta1, beta2;
  T first_correction, second_correction;  ///< 1 - beta1^t and sqrt(1 - beta2^t)
  T epsilon, decay;
};

/// The rounding of reproducible_sum. Let p be the power of two of the largest magnitude, p <= |x| < 2 p. Adding and subtracting
/// first p rounds a term to a multiple of 2^-36 p; adding and subtracting second p rounds what is left to a multiple of 2^-74 p.
/// Sums of 65,536 such multiples are exact in double, so their order does not matter. Terms from `large` on, and below `small`,
/// are scaled first, so that no sum overflows and no unit underflows.
namespace reproducible {
inline constexpr double first = 0x1.8p16, second = 0x1.8p-22;
inline constexpr double large = 0x1p900, small = 0x1p-900, scale_down = 0x1p-200, scale_up = 0x1p200;
inline constexpr int most_terms = 65536;
}  // namespace reproducible

/// The sum of values, each rounded to a multiple of one unit. The unit follows from the largest magnitude alone, so the sum does
/// not depend on the order of the values, nor on how they are divided: sums are merged exactly. At most `most_values` values.
struct ReproducibleTotal {
  static constexpr int width = 29, parts = 4, nothing = -1000;
  static constexpr std::int64_t most_values = std::int64_t{1} << 34;

  int top = nothing;  ///< the largest magnitude is below 2^(width (top + 1) - 1), and not below 2^(width top - 1)
  bool nan = false, above = false, below = false;  ///< NaN, or positive or negative infinity, is among the values
  std::array<std::int64_t, parts> part{};          ///< part j counts units of 2^(width (top - j))

  /// Adds the values of another sum.
  void merge(const ReproducibleTotal& other);
  /// Returns the sum, rounded once.
  [[nodiscard]] double value() const;
};

// The list of kernels, implemented by each namespace below.
#define WEIR_KERNEL_DECLARATIONS                                                                                                   \
  /* Adds r[i] += g[i]. Entries whose sum has key >= threshold go, in index order, to (indices, values). Of these, the ones with   \
     key >= keep_old keep the *old* r[i], so that even a gradient far larger than the old residual can be taken back. Reads g and  \
     r once, writes r once. Returns how many reached the threshold. Only the first `capacity` are stored; later ones get r[i] =    \
     sum whatever their key, unless the sum is not finite. */                                                                      \
  template <class T>                                                                                                               \
  std::int64_t compensate_select(const T* gradient, T* residual, std::int64_t count, Key<T> threshold, Key<T> keep_old,            \
                                 std::uint32_t* indices, T* values, std::int64_t capacity);                                        \
  /* Does the same without a residual: selects entries of x with key >= threshold, in index order. x is only read. */              \
  template <class T>                                                                                                               \
  std::int64_t select(const T* x, std::int64_t count, Key<T> threshold, std::uint32_t* indices, T* values, std::int64_t capacity); \
  /* Returns the k-th largest key of x, 1 <= k. If fewer than k keys are nonzero: {1, nonzero elements with key > 1, those with    \
     key 1}. */                                                                                                                    \
  template <class T>                                                                                                               \
  KthKey<T> kth_key(const T* x, std::int64_t count, std::int64_t k);                                                               \
  /* Adds bins[(key - low) >> shift] += 1 for every key in [low, high], and *above += 1 for every key above `high`. 1 <= low,      \
     and (high - low) >> shift is below the number of bins. */                                                                     \
  template <class T>                                                                                                               \
  void histogram(const T* x, std::int64_t count, Key<T> low, Key<T> high, int shift, std::uint64_t* bins, std::uint64_t* above);   \
  /* Copies the values with keys in [low, high] to `out`, in order, and returns their number. 1 <= low <= high < ~0. `out` must    \
     have room for select_padding more than are copied, or for as many as there are. */                                            \
  template <class T>                                                                                                               \
  std::int64_t values_within(const T* x, std::int64_t count, Key<T> low, Key<T> high, T* out);                                     \
  /* Returns the moments of the entries of x + y (added in T), or of x if y is nullptr. Sums are in double: entry i goes to        \
     partial sum i % 16, then partial sum j takes up j + 8, then j + 4, j + 2 and j + 1. */                                        \
  template <class T>                                                                                                               \
  Moments<T> moments(const T* x, const T* y, std::int64_t count);                                                                  \
  /* Returns the same sums of the magnitudes of the entries with key >= threshold. */                                              \
  template <class T>                                                                                                               \
  Exceedances<T> exceedances(const T* x, const T* y, std::int64_t count, Key<T> threshold);                                        \
  /* Computes y[i] += x[i]. */                                                                                                     \
  template <class T>                                                                                                               \
  void add(const T* x, T* y, std::int64_t count);                                                                                  \
  /* Sets out[i], for begin <= i < end, to the sum of terms[j][i] over j < count_of_terms <= reproducible::most_terms, divided by  \
     `divisor`. The sum does not depend on the order of the terms, nor on zeros among them. It is that of the terms rounded to     \
     multiples of 2^-74 of the power of two of the largest; the total and the quotient are rounded in double, then to T. A sum of  \
     0 is +0. NaN, or infinities of both signs, give a quiet NaN. `out` may be one of the terms. */                                \
  template <class T>                                                                                                               \
  void reproducible_sum(const T* const* terms, int count_of_terms, std::int64_t begin, std::int64_t end, double divisor, T* out);  \
  /* Adds x[i] to `total`. */                                                                                                      \
  template <class T>                                                                                                               \
  void add_to_total(const T* x, std::int64_t count, ReproducibleTotal& total);                                                     \
  /* Computes x[i] *= factor. */                                                                                                   \
  template <class T>                                                                                                               \
  void scale(T* x, std::int64_t count, T factor);                                                                                  \
  /* Computes x[i] = rescaled(x[i], factor). */                                                                                    \
  template <class T>                                                                                                               \
  void rescale(T* x, std::int64_t count, T factor);                                                                                \
  /* Computes x[i] /= divisor. */                                                                                                  \
  template <class T>                                                                                                               \
  void divide(T* x, std::int64_t count, T divisor);                                                                                \
  /* Computes out[i] = a x[i] + b y[i], each operation rounded on its own, or a x[i] if y is nullptr. `out` may be x or y. */      \
  template <class T>                                                                                                               \
  void waxpby(T a, const T* x, T b, const T* y, T* out, std::int64_t count);                                                       \
  /* Returns how many x have key >= key_infinity. */                                                                               \
  template <class T>                                                                                                               \
  std::int64_t count_non_finite(const T* x, std::int64_t count);                                                                   \
  /* Sets x[i] = 0, around the caches if that is faster. */                                                                        \
  template <class T>                                                                                                               \
  void fill_zero(T* x, std::int64_t count);                                                                                        \
  /* Adds two sorted sparse vectors. Equal indices give one entry a + b, even if the sum is zero. `out` holds a_count + b_count    \
     entries and overlaps neither input. Returns the number of entries written. */                                                 \
  template <class T>                                                                                                               \
  std::int64_t merge_add(const std::uint32_t* a_indices, const T* a_values, std::int64_t a_count, const std::uint32_t* b_indices,  \
                         const T* b_values, std::int64_t b_count, std::uint32_t* out_indices, T* out_values);                      \
  /* Sets, for each sorted entry (indices, values), dense[index] to 0 if `index` is among the sorted `taken`, else to the value.   \
   */                                                                                                                              \
  template <class T>                                                                                                               \
  void settle(T* dense, const std::uint32_t* indices, const T* values, std::int64_t count, const std::uint32_t* taken,             \
              std::int64_t taken_count);                                                                                           \
  /* Sets dense[i] = 0 for those of the sorted indices i that are among the sorted `taken`. */                                     \
  template <class T>                                                                                                               \
  void clear_taken(T* dense, const std::uint32_t* indices, std::int64_t count, const std::uint32_t* taken,                         \
                   std::int64_t taken_count);                                                                                      \
  /* Sets dense[indices[i]] = values[i]. */                                                                                        \
  template <class T>                                                                                                               \
  void scatter(T* dense, const std::uint32_t* indices, const T* values, std::int64_t count);                                       \
  /* Sets dense[i] = 0 for begin <= i < end, except for the sorted entries, which all lie there: dense[indices[j]] = values[j].    \
     Makes one pass, around the caches if that is faster. */                                                                       \
  template <class T>                                                                                                               \
  void densify(T* dense, std::int64_t begin, std::int64_t end, const std::uint32_t* indices, const T* values, std::int64_t count); \
  /* Adds dense[indices[i]] += values[i]. No index may occur twice. */                                                             \
  template <class T>                                                                                                               \
  void scatter_add(T* dense, const std::uint32_t* indices, const T* values, std::int64_t count);                                   \
  /* Sets out[i] = x[p] + y[p], or x[p] if y is nullptr, for position p = i * stride + i * rest / samples + offset. */             \
  template <class T>                                                                                                               \
  void sample(const T* x, const T* y, std::int64_t samples, std::int64_t stride, std::int64_t rest, std::int64_t offset, T* out);  \
  /* Returns how many x have a key above `key`, and exactly that key. */                                                           \
  template <class T>                                                                                                               \
  CutCounts count_cut(const T* x, std::int64_t count, Key<T> key);                                                                 \
  /* Sets counts[j] to the number of sorted indices in [boundaries[j], boundaries[j + 1]), for j < regions. The boundaries         \
     ascend. */                                                                                                                    \
  void count_regions(const std::uint32_t* indices, std::int64_t count, const std::uint64_t* boundaries, int regions,               \
                     std::uint64_t* counts);                                                                                       \
  /* Sets out[j - 1] = indices[count * j / parts] for j = 1, ..., parts - 1; 1 <= count. */                                        \
  void quantiles(const std::uint32_t* indices, std::int64_t count, int parts, std::uint64_t* out);                                 \
  /* Sets out[i] = indices[i] + offset, modulo 2^32. `out` may be `indices`. */                                                    \
  void shift_indices(const std::uint32_t* indices, std::int64_t count, std::uint32_t offset, std::uint32_t* out);                  \
  /* Selects those of the sorted entries (indices, values), or (0, 1, ..., values) if `indices` is nullptr, that are in the        \
     band, in order. Returns their number. Of the others, those with key >= keep_old go back: residual[index] = value, unless      \
     `residual` is nullptr. Outputs must hold select_padding entries more than are kept, or as many as there are; they may be the  \
     inputs. Advances band.start by the entries between the thresholds, so that the band continues in the next part of a vector.   \
   */                                                                                                                              \
  template <class T>                                                                                                               \
  std::int64_t select_band(const std::uint32_t* indices, const T* values, std::int64_t count, Band<T>& band,                       \
                           std::uint32_t* out_indices, T* out_values, T* residual, Key<T> keep_old);                               \
  /* Undoes compensate_select up to rounding: residual -= gradient if that is finite. For those of the `held` sorted entries       \
     whose key is at least keep_old, the residual stays as it is. */                                                               \
  template <class T>                                                                                                               \
  void roll_back(const T* gradient, T* residual, std::int64_t count, const std::uint32_t* held_indices, const T* held_values,      \
                 std::int64_t held, Key<T> keep_old);                                                                              \
  /* Sets out[i * out_stride + c] = x[rows[i] * x_stride + c] for c < width; width is at most either stride. The rest of `out`     \
     stays as it is. `out` must not overlap x. */                                                                                  \
  template <class T>                                                                                                               \
  void gather_rows(const T* x, std::int64_t x_stride, const std::uint32_t* rows, std::int64_t count, std::int64_t width, T* out,   \
                   std::int64_t out_stride);                                                                                       \
  /* Sets out[g * width + c] to the sum of x[order[i] * width + c] over i = first[g], ..., first[g + 1] - 1, in this order,        \
     starting from the first: a group of one is copied bit for bit. `first` has groups + 1 entries, and every group at least one   \
     member. `out` must not overlap x. */                                                                                          \
  template <class T>                                                                                                               \
  void coalesce_rows(const T* x, std::int64_t width, const std::uint32_t* order, const std::uint32_t* first, std::int64_t groups,  \
                     T* out);                                                                                                      \
  /* Returns the sum of x[i] x[i], in double, as in `moments`. */                                                                  \
  template <class T>                                                                                                               \
  double squared_norm(const T* x, std::int64_t count);                                                                             \
  /* Momentum SGD: v[i] = momentum v[i] + rate (g[i] + decay w[i]); w[i] -= v[i]. Each operation is rounded on its own. */         \
  template <class T>                                                                                                               \
  void momentum_step(const T* gradient, T* weights, T* velocity, std::int64_t count, T rate, T decay, T momentum);                 \
  /* Computes m[i] = beta1 m[i] + (1 - beta1) g[i]; v[i] = beta2 v[i] + (1 - beta2) g[i] g[i]. Returns the squared norms of the    \
     weights and of the directions, summed as in `moments`. */                                                                     \
  template <class T>                                                                                                               \
  SquaredNorms adam_moments(const T* gradient, const T* weights, T* first, T* second, std::int64_t count,                          \
                            const AdamFactors<T>& factors);                                                                        \
  /* Computes w[i] -= rate u[i]. */                                                                                                \
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
