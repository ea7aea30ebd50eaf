#include "kernels/kernels.hpp"

#include <algorithm>
#include <cmath>

namespace weir::kernels::reference {

namespace {

template <class T>
std::int64_t count_at_least(const T* x, std::int64_t count, Key<T> threshold) {
  std::int64_t hits = 0;
  for (std::int64_t i = 0; i < count; ++i) hits += key_of(x[i]) >= threshold;
  return hits;
}

double total(double (&partial)[16]) {
  for (int distance = 8; distance > 0; distance /= 2) {
    for (int j = 0; j < distance; ++j) partial[j] += partial[j + distance];
  }
  return partial[0];
}

}  // namespace

template <class T>
std::int64_t compensate_select(const T* gradient, T* residual, std::int64_t count, Key<T> threshold, Key<T> keep_old,
                               std::uint32_t* indices, T* values, std::int64_t capacity) {
  std::int64_t hits = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const T sum = residual[i] + gradient[i];
    const bool hit = key_of(sum) >= threshold;
    if (hit && hits < capacity) {
      indices[hits] = static_cast<std::uint32_t>(i);
      values[hits] = sum;
      if (key_of(sum) < keep_old) residual[i] = sum;
    } else if (!hit || key_of(sum) < key_infinity<T>) {
      residual[i] = sum;
    }
    hits += hit;
  }
  return hits;
}

template <class T>
std::int64_t select(const T* x, std::int64_t count, Key<T> threshold, std::uint32_t* indices, T* values, std::int64_t capacity) {
  std::int64_t hits = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (key_of(x[i]) < threshold) continue;
    if (hits < capacity) {
      indices[hits] = static_cast<std::uint32_t>(i);
      values[hits] = x[i];
    }
    ++hits;
  }
  return hits;
}

template <class T>
KthKey<T> kth_key(const T* x, std::int64_t count, std::int64_t k) {
  Key<T> key = 0;
  for (int bit = key_bits<T> - 1; bit >= 0; --bit) {
    const auto candidate = static_cast<Key<T>>(key | Key<T>{1} << bit);
    if (count_at_least(x, count, candidate) >= k) key = candidate;
  }
  if (key == 0) key = 1;
  const std::int64_t greater = count_at_least(x, count, static_cast<Key<T>>(key + 1));
  return {key, greater, count_at_least(x, count, key) - greater};
}

template <class T>
void histogram(const T* x, std::int64_t count, Key<T> low, Key<T> high, int shift, std::uint64_t* bins, std::uint64_t* above) {
  for (std::int64_t i = 0; i < count; ++i) {
    const Key<T> key = key_of(x[i]);
    if (key == 0 || key < low) continue;
    if (key > high) {
      ++*above;
    } else {
      ++bins[(key - low) >> shift];
    }
  }
}

template <class T>
std::int64_t values_within(const T* x, std::int64_t count, Key<T> low, Key<T> high, T* out) {
  std::int64_t copied = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (key_of(x[i]) >= low && key_of(x[i]) <= high) out[copied++] = x[i];
  }
  return copied;
}

template <class T>
Moments<T> moments(const T* x, const T* y, std::int64_t count) {
  double sums[16] = {}, squares[16] = {};
  Moments<T> result{.count = count};
  for (std::int64_t i = 0; i < count; ++i) {
    const T value = y != nullptr ? x[i] + y[i] : x[i];
    const auto wide = static_cast<double>(value);
    sums[i % 16] += wide;
    squares[i % 16] += wide * wide;
    result.largest = std::max(result.largest, key_of(value));
  }
  result.sum = total(sums);
  result.sum_squares = total(squares);
  return result;
}

template <class T>
Exceedances<T> exceedances(const T* x, const T* y, std::int64_t count, Key<T> threshold) {
  double magnitudes[16] = {};
  Exceedances<T> result;
  for (std::int64_t i = 0; i < count; ++i) {
    const T value = y != nullptr ? x[i] + y[i] : x[i];
    if (key_of(value) < threshold) continue;
    ++result.count;
    magnitudes[i % 16] += std::abs(static_cast<double>(value));
    result.largest = std::max(result.largest, key_of(value));
  }
  result.sum_magnitudes = total(magnitudes);
  return result;
}

template <class T>
void add(const T* x, T* y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] += x[i];
}

template <class T>
void scale(T* x, std::int64_t count, T factor) {
  for (std::int64_t i = 0; i < count; ++i) x[i] *= factor;
}

template <class T>
void rescale(T* x, std::int64_t count, T factor) {
  for (std::int64_t i = 0; i < count; ++i) x[i] = rescaled(x[i], factor);
}

template <class T>
void divide(T* x, std::int64_t count, T divisor) {
  for (std::int64_t i = 0; i < count; ++i) x[i] /= divisor;
}

template <class T>
void waxpby(T a, const T* x, T b, const T* y, T* out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = y == nullptr ? a * x[i] : a * x[i] + b * y[i];
}

template <class T>
void reproducible_sum(const T* const* terms, int count_of_terms, std::int64_t begin, std::int64_t end, double divisor, T* out) {
  for (std::int64_t i = begin; i < end; ++i) {
    double largest = 0;
    bool above = false, below = false, nan = false;
    for (int j = 0; j < count_of_terms; ++j) {
      const double x = terms[j][i];
      nan = nan || std::isnan(x);
      above = above || x == std::numeric_limits<double>::infinity();
      below = below || x == -std::numeric_limits<double>::infinity();
      largest = std::max(largest, std::abs(x));
    }
    if (nan || (above && below)) {
      out[i] = std::numeric_limits<T>::quiet_NaN();
    } else if (above || below) {
      out[i] = above ? std::numeric_limits<T>::infinity() : -std::numeric_limits<T>::infinity();
    } else if (largest == 0) {
      out[i] = 0;
    } else {
      int scaled = 0;  // all terms are multiplied by 2^scaled
      if (sizeof(T) == 8 && largest >= reproducible::large) scaled = -200;
      if (sizeof(T) == 8 && largest < reproducible::small) scaled = 200;
      const int exponent = std::ilogb(std::ldexp(largest, scaled));
      const double unit = std::ldexp(1.0, exponent - 36), second_unit = std::ldexp(1.0, exponent - 74);
      double first = 0, second = 0;
      for (int j = 0; j < count_of_terms; ++j) {
        const double x = std::ldexp(static_cast<double>(terms[j][i]), scaled);
        const double rounded = std::nearbyint(x / unit) * unit;
        first += rounded;
        second += std::nearbyint((x - rounded) / second_unit) * second_unit;
      }
      out[i] = static_cast<T>(std::ldexp(first + second, -scaled) / divisor);
    }
  }
}

template <class T>
void add_to_total(const T* x, std::int64_t count, ReproducibleTotal& total) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<double>(x[i]);
    ReproducibleTotal one;
    if (!std::isfinite(value)) {
      one.nan = std::isnan(value);
      one.above = !one.nan && value > 0;
      one.below = !one.nan && value < 0;
    } else if (value != 0) {
      one.top = static_cast<int>(std::floor(static_cast<double>(std::ilogb(value) + 1) / ReproducibleTotal::width));
      double rest = std::ldexp(value, -ReproducibleTotal::width * one.top);  // in units of the next part, so that nothing overflows
      for (std::int64_t& part : one.part) {
        const double units = std::nearbyint(rest);
        part = static_cast<std::int64_t>(units);
        rest = std::ldexp(rest - units, ReproducibleTotal::width);
      }
    }
    total.merge(one);
  }
}

template <class T>
std::int64_t count_non_finite(const T* x, std::int64_t count) {
  return count_at_least(x, count, key_infinity<T>);
}

template <class T>
void fill_zero(T* x, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) x[i] = 0;
}

template <class T>
std::int64_t merge_add(const std::uint32_t* a_indices, const T* a_values, std::int64_t a_count, const std::uint32_t* b_indices,
                       const T* b_values, std::int64_t b_count, std::uint32_t* out_indices, T* out_values) {
  std::int64_t a = 0, b = 0, out = 0;
  while (a < a_count || b < b_count) {
    const bool take_a = b == b_count || (a < a_count && a_indices[a] <= b_indices[b]);
    const bool take_b = a == a_count || (b < b_count && b_indices[b] <= a_indices[a]);
    out_indices[out] = take_a ? a_indices[a] : b_indices[b];
    out_values[out] = take_a && take_b ? a_values[a] + b_values[b] : take_a ? a_values[a] : b_values[b];
    a += take_a;
    b += take_b;
    ++out;
  }
  return out;
}

template <class T>
void settle(T* dense, const std::uint32_t* indices, const T* values, std::int64_t count, const std::uint32_t* taken,
            std::int64_t taken_count) {
  std::int64_t t = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    while (t < taken_count && taken[t] < indices[i]) ++t;
    const bool was_taken = t < taken_count && taken[t] == indices[i];
    dense[indices[i]] = was_taken ? T{0} : values[i];
  }
}

template <class T>
void clear_taken(T* dense, const std::uint32_t* indices, std::int64_t count, const std::uint32_t* taken, std::int64_t taken_count) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (std::binary_search(taken, taken + taken_count, indices[i])) dense[indices[i]] = 0;
  }
}

template <class T>
void scatter(T* dense, const std::uint32_t* indices, const T* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) dense[indices[i]] = values[i];
}

template <class T>
void densify(T* dense, std::int64_t begin, std::int64_t end, const std::uint32_t* indices, const T* values, std::int64_t count) {
  for (std::int64_t i = begin; i < end; ++i) dense[i] = 0;
  for (std::int64_t i = 0; i < count; ++i) dense[indices[i]] = values[i];
}

template <class T>
void scatter_add(T* dense, const std::uint32_t* indices, const T* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) dense[indices[i]] += values[i];
}

template <class T>
void sample(const T* x, const T* y, std::int64_t samples, std::int64_t stride, std::int64_t rest, std::int64_t offset, T* out) {
  for (std::int64_t i = 0; i < samples; ++i) {
    const std::int64_t position = i * stride + i * rest / samples + offset;
    out[i] = x[position];
    if (y != nullptr) out[i] += y[position];
  }
}

template <class T>
CutCounts count_cut(const T* x, std::int64_t count, Key<T> key) {
  CutCounts counts;
  for (std::int64_t i = 0; i < count; ++i) {
    if (key_of(x[i]) > key) ++counts.above;
    if (key_of(x[i]) == key) ++counts.equal;
  }
  return counts;
}

void count_regions(const std::uint32_t* indices, std::int64_t count, const std::uint64_t* boundaries, int regions,
                   std::uint64_t* counts) {
  for (int j = 0; j < regions; ++j) {
    counts[j] = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      if (indices[i] >= boundaries[j] && indices[i] < boundaries[j + 1]) ++counts[j];
    }
  }
}

void quantiles(const std::uint32_t* indices, std::int64_t count, int parts, std::uint64_t* out) {
  for (int j = 1; j < parts; ++j) out[j - 1] = indices[count * j / parts];
}

void shift_indices(const std::uint32_t* indices, std::int64_t count, std::uint32_t offset, std::uint32_t* out) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = indices[i] + offset;
}

template <class T>
std::int64_t select_band(const std::uint32_t* indices, const T* values, std::int64_t count, Band<T>& band,
                         std::uint32_t* out_indices, T* out_values, T* residual, Key<T> keep_old) {
  std::int64_t kept = 0, number = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto index = indices != nullptr ? indices[i] : static_cast<std::uint32_t>(i);
    const T value = values[i];
    bool wanted = key_of(value) >= band.upper;
    if (!wanted && key_of(value) >= band.lower) {
      wanted = number >= band.start && number < band.start + band.slice;
      ++number;
    }
    if (wanted) {
      out_indices[kept] = index;
      out_values[kept++] = value;
    } else if (residual != nullptr && key_of(value) >= keep_old) {
      residual[index] = value;
    }
  }
  band.start -= number;
  return kept;
}

template <class T>
void roll_back(const T* gradient, T* residual, std::int64_t count, const std::uint32_t* held_indices, const T* held_values,
               std::int64_t held, Key<T> keep_old) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto* const entry = std::lower_bound(held_indices, held_indices + held, static_cast<std::uint32_t>(i));
    const bool is_held = entry != held_indices + held && *entry == i && key_of(held_values[entry - held_indices]) >= keep_old;
    if (!is_held && key_of(gradient[i]) < key_infinity<T>) residual[i] -= gradient[i];
  }
}

template <class T>
void gather_rows(const T* x, std::int64_t x_stride, const std::uint32_t* rows, std::int64_t count, std::int64_t width, T* out,
                 std::int64_t out_stride) {
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t c = 0; c < width; ++c) out[i * out_stride + c] = x[rows[i] * x_stride + c];
  }
}

template <class T>
void coalesce_rows(const T* x, std::int64_t width, const std::uint32_t* order, const std::uint32_t* first, std::int64_t groups,
                   T* out) {
  for (std::int64_t g = 0; g < groups; ++g) {
    for (std::int64_t c = 0; c < width; ++c) {
      T sum = x[order[first[g]] * width + c];
      for (std::uint32_t i = first[g] + 1; i < first[g + 1]; ++i) sum += x[order[i] * width + c];
      out[g * width + c] = sum;
    }
  }
}

template <class T>
double squared_norm(const T* x, std::int64_t count) {
  double squares[16] = {};
  for (std::int64_t i = 0; i < count; ++i) squares[i % 16] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return total(squares);
}

template <class T>
void momentum_step(const T* gradient, T* weights, T* velocity, std::int64_t count, T rate, T decay, T momentum) {
  for (std::int64_t i = 0; i < count; ++i) {
    velocity[i] = momentum * velocity[i] + rate * (gradient[i] + decay * weights[i]);
    weights[i] -= velocity[i];
  }
}

namespace {
template <class T>
T direction(T first, T second, T weight, const AdamFactors<T>& f) {
  return first / f.first_correction / (std::sqrt(second) / f.second_correction + f.epsilon) + f.decay * weight;
}
}  // namespace

template <class T>
SquaredNorms adam_moments(const T* gradient, const T* weights, T* first, T* second, std::int64_t count,
                          const AdamFactors<T>& factors) {
  double of_weights[16] = {}, of_directions[16] = {};
  for (std::int64_t i = 0; i < count; ++i) {
    first[i] = factors.beta1 * first[i] + (1 - factors.beta1) * gradient[i];
    second[i] = factors.beta2 * second[i] + (1 - factors.beta2) * gradient[i] * gradient[i];
    const auto w = static_cast<double>(weights[i]);
    const auto u = static_cast<double>(direction(first[i], second[i], weights[i], factors));
    of_weights[i % 16] += w * w;
    of_directions[i % 16] += u * u;
  }
  return {total(of_weights), total(of_directions)};
}

template <class T>
void adam_step(const T* first, const T* second, T* weights, std::int64_t count, T rate, const AdamFactors<T>& factors) {
  for (std::int64_t i = 0; i < count; ++i) weights[i] -= rate * direction(first[i], second[i], weights[i], factors);
}

#define WEIR_INSTANTIATE(T)                                                                                                   \
  template std::int64_t compensate_select(const T*, T*, std::int64_t, Key<T>, Key<T>, std::uint32_t*, T*, std::int64_t);      \
  template std::int64_t select(const T*, std::int64_t, Key<T>, std::uint32_t*, T*, std::int64_t);                             \
  template KthKey<T> kth_key(const T*, std::int64_t, std::int64_t);                                                           \
  template void histogram(const T*, std::int64_t, Key<T>, Key<T>, int, std::uint64_t*, std::uint64_t*);                       \
  template std::int64_t values_within(const T*, std::int64_t, Key<T>, Key<T>, T*);                                            \
  template Moments<T> moments(const T*, const T*, std::int64_t);                                                              \
  template Exceedances<T> exceedances(const T*, const T*, std::int64_t, Key<T>);                                              \
  template void add(const T*, T*, std::int64_t);                                                                              \
  template void scale(T*, std::int64_t, T);                                                                                   \
  template void rescale(T*, std::int64_t, T);                                                                                 \
  template void waxpby(T, const T*, T, const T*, T*, std::int64_t);                                                           \
  template void clear_taken(T*, const std::uint32_t*, std::int64_t, const std::uint32_t*, std::int64_t);                      \
  template void divide(T*, std::int64_t, T);                                                                                  \
  template void reproducible_sum(const T* const*, int, std::int64_t, std::int64_t, double, T*);                               \
  template void add_to_total(const T*, std::int64_t, ReproducibleTotal&);                                                     \
  template std::int64_t count_non_finite(const T*, std::int64_t);                                                             \
  template void fill_zero(T*, std::int64_t);                                                                                  \
  template std::int64_t merge_add(const std::uint32_t*, const T*, std::int64_t, const std::uint32_t*, const T*, std::int64_t, \
                                  std::uint32_t*, T*);                                                                        \
  template void settle(T*, const std::uint32_t*, const T*, std::int64_t, const std::uint32_t*, std::int64_t);                 \
  template void scatter(T*, const std::uint32_t*, const T*, std::int64_t);                                                    \
  template void densify(T*, std::int64_t, std::int64_t, const std::uint32_t*, const T*, std::int64_t);                        \
  template void scatter_add(T*, const std::uint32_t*, const T*, std::int64_t);                                                \
  template void sample(const T*, const T*, std::int64_t, std::int64_t, std::int64_t, std::int64_t, T*);                       \
  template CutCounts count_cut(const T*, std::int64_t, Key<T>);                                                               \
  template std::int64_t select_band(const std::uint32_t*, const T*, std::int64_t, Band<T>&, std::uint32_t*, T*, T*, Key<T>);  \
  template void roll_back(const T*, T*, std::int64_t, const std::uint32_t*, const T*, std::int64_t, Key<T>);                  \
  template void gather_rows(const T*, std::int64_t, const std::uint32_t*, std::int64_t, std::int64_t, T*, std::int64_t);      \
  template void coalesce_rows(const T*, std::int64_t, const std::uint32_t*, const std::uint32_t*, std::int64_t, T*);          \
  template double squared_norm(const T*, std::int64_t);                                                                       \
  template void momentum_step(const T*, T*, T*, std::int64_t, T, T, T);                                                       \
  template SquaredNorms adam_moments(const T*, const T*, T*, T*, std::int64_t, const AdamFactors<T>&);                        \
  template void adam_step(const T*, const T*, T*, std::int64_t, T, const AdamFactors<T>&);

WEIR_INSTANTIATE(float)
WEIR_INSTANTIATE(double)
#undef WEIR_INSTANTIATE

}  // namespace weir::kernels::reference
