// rank.cpp: kernels that rank keys by magnitude: the k-th largest, and histograms.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/rank.cpp"
#include <hwy/foreach_target.h>
// The order matters: foreach_target.h includes this file once per instruction set.
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/host/dispatch.hpp"
#include "kernels/host/keys-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::kernels::host::HWY_NAMESPACE {
namespace {

constexpr int most_digit_bits = 11;
constexpr int most_digits = 1 << most_digit_bits;
/// Neighbours count in different tables: two counts in one place would wait for the first store.
constexpr int tables = 4;
constexpr std::int64_t buffer_size = 2048;
/// Elements from what is examined to what is fetched. While a selection passes over megabytes of gradient, its candidates leave the
/// nearer caches.
constexpr std::int64_t fetched_ahead = 512;
/// Up to this number, counting keys bit by bit is faster than counting digits.
constexpr std::int64_t few_keys = 256;
/// Up to this number, comparing each with each is faster still.
constexpr std::int64_t very_few_keys = 64;
/// From this number on, a sample says between which keys the k-th probably lies.
constexpr std::int64_t sampled_from = 32768;
constexpr std::int64_t sample_size = 2048;
/// Neighbours in a sample that are neighbours in memory: fewer lines of memory are touched.
constexpr std::int64_t sample_run = 4;

struct DigitCounts {
  std::uint32_t table[tables][most_digits];

  void clear(std::int64_t digits) {
    for (auto& counts : table) std::memset(counts, 0, static_cast<std::size_t>(digits) * sizeof counts[0]);
  }
  std::int64_t operator[](std::int64_t digit) const {
    std::int64_t sum = 0;
    for (const auto& counts : table) sum += counts[digit];
    return sum;
  }
};

/// The keys from `low` to `high`; none if low > high. 1 <= low.
template <class T>
struct KeyRange {
  Key<T> low, high;
};

/// Counts (key - low) >> shift.
template <class T>
void count_digits(const T* x, std::int64_t count, Key<T> low, int shift, DigitCounts& counts) {
  const auto digit = [&](std::int64_t i) { return (key_of(x[i]) - low) >> shift; };
  std::int64_t i = 0;
  for (; i + tables <= count; i += tables) {
    const auto digit_0 = digit(i), digit_1 = digit(i + 1), digit_2 = digit(i + 2), digit_3 = digit(i + 3);
    ++counts.table[0][digit_0];
    ++counts.table[1][digit_1];
    ++counts.table[2][digit_2];
    ++counts.table[3][digit_3];
  }
  for (; i < count; ++i) ++counts.table[0][digit(i)];
}

struct Copied {
  std::int64_t within, above;  ///< keys in the range, which were copied, and above it
};

/// Copies the values whose keys are in `range`. Writes up to one vector beyond what it copies. `out` may be x.
template <class T>
HWY_INLINE Copied copy_within(const T* x, std::int64_t count, KeyRange<T> range, T* out) {
  const Tag<T> d;
  const KeyTag<Tag<T>> dk;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto below_low = just_below(d, range.low), highest = just_below(d, range.high + 1);
  Copied copied{0, 0};
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    __builtin_prefetch(x + i + fetched_ahead);
    const auto values = hn::LoadU(d, x + i);
    const auto keys = keys_of(d, values);
    const auto above = hn::Gt(keys, highest);
    const auto within = hn::AndNot(above, hn::Gt(keys, below_low));
    copied.above += static_cast<std::int64_t>(hn::CountTrue(dk, above));
    hn::StoreU(compress(d, values, hn::RebindMask(d, within)), d, out + copied.within);
    copied.within += static_cast<std::int64_t>(hn::CountTrue(dk, within));
  }
  for (; i < count; ++i) {
    const Key<T> key = key_of(x[i]);
    copied.above += key > range.high;
    if (key >= range.low && key <= range.high) out[copied.within++] = x[i];
  }
  return copied;
}

/// Counts the digits of the keys in `range`.
template <class T>
Copied count_digits_within(const T* x, std::int64_t count, KeyRange<T> range, int shift, DigitCounts& counts) {
  T buffer[buffer_size + select_padding];
  Copied all{0, 0};
  for (std::int64_t i = 0; i < count; i += buffer_size) {
    const Copied copied = copy_within(x + i, std::min(buffer_size, count - i), range, buffer);
    if (range.low == range.high)
      counts.table[0][0] += static_cast<std::uint32_t>(copied.within);
    else
      count_digits(buffer, copied.within, range.low, shift, counts);
    all.within += copied.within;
    all.above += copied.above;
  }
  return all;
}

template <class T>
struct KeySummary {
  KeyRange<T> range;        ///< of the nonzero keys
  std::int64_t ones, more;  ///< number of keys that are 1, and that are greater
};

template <class T>
KeySummary<T> summarize_keys(const T* x, std::int64_t count) {
  const Tag<T> d;
  const KeyTag<Tag<T>> dk;
  const hn::RebindToUnsigned<Tag<T>> du;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto one = hn::Set(dk, 1);
  auto largest = hn::Zero(dk);
  // Subtracting one makes zero the largest of all.
  auto smallest_less_one = hn::Set(du, ~Key<T>{0});
  KeySummary<T> summary{};
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto keys = keys_of(d, hn::LoadU(d, x + i));
    largest = hn::Max(largest, keys);
    smallest_less_one = hn::Min(smallest_less_one, hn::BitCast(du, hn::Sub(keys, one)));
    summary.more += static_cast<std::int64_t>(hn::CountTrue(dk, hn::Gt(keys, one)));
    summary.ones += static_cast<std::int64_t>(hn::CountTrue(dk, hn::Eq(keys, one)));
  }
  auto largest_of_all = static_cast<Key<T>>(hn::GetLane(hn::MaxOfLanes(dk, largest)));
  Key<T> smallest_less_one_of_all = hn::GetLane(hn::MinOfLanes(du, smallest_less_one));
  for (; i < count; ++i) {
    const Key<T> key = key_of(x[i]);
    largest_of_all = std::max(largest_of_all, key);
    smallest_less_one_of_all = std::min<Key<T>>(smallest_less_one_of_all, key - 1);
    summary.more += key > 1;
    summary.ones += key == 1;
  }
  summary.range = {smallest_less_one_of_all + 1, largest_of_all};
  return summary;
}

/// Finds the k-th largest key of `count` <= very_few_keys values. Compares each with all of them, without a branch to mispredict.
template <class T>
KthKey<T> kth_of_very_few(const T* x, std::int64_t count, std::int64_t k) {
  const Tag<T> d;
  const KeyTag<Tag<T>> dk;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto number_of = [&](const auto& has) HWY_ATTR {
    std::int64_t number = 0;
    for (std::int64_t i = 0; i < count; i += lanes)
      number += static_cast<std::int64_t>(hn::CountTrue(dk, has(keys_of(d, load_first(d, x + i, count - i)))));
    return number;
  };
  const auto above = [&](Key<T> key)
                         HWY_ATTR { return number_of([&](auto keys) HWY_ATTR { return hn::Gt(keys, just_below(d, key + 1)); }); };
  Key<T> key = 1;
  if (k <= above(0)) {
    using Signed = hn::TFromD<decltype(dk)>;
    const auto wanted = hn::Set(dk, static_cast<Signed>(k)), none = hn::Set(dk, static_cast<Signed>(key_max<T>));
    auto smallest = none;  // of the keys that fewer than k are greater than
    for (std::int64_t i = 0; i < count; i += lanes) {
      const auto keys = keys_of(d, load_first(d, x + i, count - i));
      auto greater = hn::Zero(dk);
      for (std::int64_t j = 0; j < count; ++j)
        greater = hn::Sub(greater, hn::VecFromMask(dk, hn::Gt(keys_of(d, hn::Set(d, x[j])), keys)));
      smallest = hn::Min(smallest, hn::IfThenElse(hn::Lt(greater, wanted), keys, none));
    }
    key = static_cast<Key<T>>(hn::GetLane(hn::MinOfLanes(dk, smallest)));
  }
  const std::int64_t greater = above(key);
  return {key, greater, above(key - 1) - greater};
}

/// Returns the rank-th largest of `count` <= few_keys keys, 1 <= rank <= count, all of them in `range`.
template <class T>
KthKey<T> kth_of_few(const T* x, std::int64_t count, std::int64_t rank, KeyRange<T> range) {
  const Tag<T> d;
  const KeyTag<Tag<T>> dk;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  HWY_ALIGN T values[few_keys + select_padding];
  const std::int64_t padded = (count + lanes - 1) / lanes * lanes;
  std::memcpy(values, x, static_cast<std::size_t>(count) * sizeof(T));
  std::fill(values + count, values + padded, T{0});
  const auto reaching = [&](Key<T> key) HWY_ATTR {
    const auto below = just_below(d, key);
    std::int64_t number = 0;
    for (std::int64_t i = 0; i < padded; i += lanes)
      number += static_cast<std::int64_t>(hn::CountTrue(dk, hn::Gt(keys_of(d, hn::LoadU(d, values + i)), below)));
    return number;
  };
  while (range.low < range.high) {
    const Key<T> middle = range.low + (range.high - range.low + 1) / 2;
    const bool above = reaching(middle) >= rank;  // a branch would be mispredicted half of the time
    range.low = above ? middle : range.low;
    range.high = above ? range.high : middle - 1;
  }
  const std::int64_t greater = reaching(range.low + 1);
  return {range.low, greater, reaching(range.low) - greater};
}

/// A digit, the number of keys with it, and with greater ones.
struct Digit {
  std::int64_t digit, equal, greater;
};

/// Returns the digit of the rank-th largest of `total` keys.
inline Digit find_digit(const DigitCounts& counts, std::int64_t digits, std::int64_t rank, std::int64_t total) {
  if (rank <= total / 2) {
    std::int64_t digit = digits - 1, greater = 0;
    for (; greater + counts[digit] < rank; --digit) greater += counts[digit];
    return {digit, counts[digit], greater};
  }
  std::int64_t digit = 0, smaller = 0;
  for (; smaller + counts[digit] <= total - rank; ++digit) smaller += counts[digit];
  return {digit, counts[digit], total - smaller - counts[digit]};
}

/// Finds the k-th largest key by radix selection, the highest digit first. Returns false if that key is not in `range`. Only keys
/// with the digits of the k-th are examined again. Once they are few, they are copied out of x. `all`: the caller knows that all
/// keys are in `range`.
template <class T>
bool find_kth(const T* x, std::int64_t count, std::int64_t k, KeyRange<T> range, bool all, KthKey<T>& found) {
  DigitCounts counts;
  T buffer[buffer_size + select_padding];
  std::int64_t dropped = 0;  // keys above the range that are no longer in x
  for (;;) {
    if (all && range.low == range.high) {
      found = {range.low, dropped, count};
      return true;
    }
    if (all && count <= few_keys) {
      found = count <= very_few_keys ? kth_of_very_few(x, count, k) : kth_of_few(x, count, k, range);
      found.greater += dropped;
      return true;
    }
    const Key<T> width = range.high - range.low;
    // Clearing the counts and adding them up should not take longer than counting.
    const int bits = std::clamp(static_cast<int>(std::bit_width(static_cast<std::uint64_t>(count))) - 2, 6, most_digit_bits);
    const int shift = std::max(0, static_cast<int>(std::bit_width(width)) - bits);
    const auto digits = static_cast<std::int64_t>(width >> shift) + 1;
    counts.clear(digits);
    Copied copied{count, 0};
    if (all) {
      count_digits(x, count, range.low, shift, counts);
    } else {
      copied = count_digits_within(x, count, range, shift, counts);
      if (k <= copied.above || k > copied.above + copied.within) return false;
    }
    const Digit digit = find_digit(counts, digits, k - copied.above, copied.within);
    const std::int64_t greater = copied.above + digit.greater;
    range.low += static_cast<Key<T>>(digit.digit) << shift;
    range.high = std::min<Key<T>>(range.high, range.low + ((Key<T>{1} << shift) - 1));
    if (range.low == range.high) {
      found = {range.low, dropped + greater, digit.equal};
      return true;
    }
    all = digit.equal == count;
    if (!all && digit.equal <= buffer_size) {
      count = copy_within(x, count, range, buffer).within;
      x = buffer;
      dropped += greater;
      k -= greater;
      all = true;
    }
  }
}

template <class T>
KthKey<T> kth_key(const T* x, std::int64_t count, std::int64_t k);

/// Returns a range in which the k-th largest key probably lies: 4 standard deviations to either side, if neighbours are
/// independent.
template <class T>
KeyRange<T> probable_range(const T* x, std::int64_t count, std::int64_t k) {
  T sample[sample_size];
  const std::int64_t stride = count / sample_size * sample_run;
  for (std::int64_t i = 0; i < sample_size / sample_run; ++i) std::copy_n(x + i * stride, sample_run, sample + i * sample_run);
  const double share = static_cast<double>(k) / static_cast<double>(count), middle = share * sample_size;
  const double spread = 4 * std::sqrt(middle * std::max(0.0, 1 - share)) + 4;
  const auto first = static_cast<std::int64_t>(middle - spread), last = static_cast<std::int64_t>(middle + spread) + 1;
  return {last > sample_size ? std::max<Key<T>>(1, summarize_keys(x, count).range.low) : kth_key(sample, sample_size, last).key,
          first < 1 ? key_max<T> : kth_key(sample, sample_size, first).key};
}

template <class T>
KthKey<T> kth_key(const T* x, std::int64_t count, std::int64_t k) {
  if (count <= very_few_keys) return kth_of_very_few(x, count, k);
  KthKey<T> found;
  if (count >= sampled_from && find_kth(x, count, k, probable_range(x, count, k), false, found)) return found;
  const KeySummary<T> summary = summarize_keys(x, count);
  const std::int64_t nonzero = summary.ones + summary.more;
  if (k > nonzero) return {1, summary.more, summary.ones};
  find_kth(x, count, k, summary.range, nonzero == count, found);
  return found;
}

template <class T>
void histogram(const T* x, std::int64_t count, Key<T> low, Key<T> high, int shift, std::uint64_t* bins, std::uint64_t* above) {
  if (1 <= low && low <= high && high <= key_max<T> && (high - low) >> shift < most_digits) {
    const auto digits = static_cast<std::int64_t>((high - low) >> shift) + 1;
    DigitCounts counts;
    counts.clear(digits);
    *above += static_cast<std::uint64_t>(count_digits_within(x, count, {low, high}, shift, counts).above);
    for (std::int64_t b = 0; b < digits; ++b) bins[b] += static_cast<std::uint64_t>(counts[b]);
    return;
  }
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
  return copy_within(x, count, {low, high}, out).within;
}

template <class T>
RankKernels<T> rank_kernels() {
  return {kth_key<T>, histogram<T>, values_within<T>};
}
RankKernels<float> float_kernels() { return rank_kernels<float>(); }
RankKernels<double> double_kernels() { return rank_kernels<double>(); }

}  // namespace
}  // namespace weir::kernels::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir::kernels::host {

WEIR_CHOOSE_KERNELS(RankKernels)

template <class T>
KthKey<T> kth_key(const T* x, std::int64_t count, std::int64_t k) {
  return chosen<T>().kth_key(x, count, k);
}

template <class T>
void histogram(const T* x, std::int64_t count, Key<T> low, Key<T> high, int shift, std::uint64_t* bins, std::uint64_t* above) {
  chosen<T>().histogram(x, count, low, high, shift, bins, above);
}

template <class T>
std::int64_t values_within(const T* x, std::int64_t count, Key<T> low, Key<T> high, T* out) {
  return chosen<T>().values_within(x, count, low, high, out);
}

#define WEIR_INSTANTIATE(T)                                                                             \
  template KthKey<T> kth_key(const T*, std::int64_t, std::int64_t);                                     \
  template void histogram(const T*, std::int64_t, Key<T>, Key<T>, int, std::uint64_t*, std::uint64_t*); \
  template std::int64_t values_within(const T*, std::int64_t, Key<T>, Key<T>, T*);

WEIR_INSTANTIATE(float)
WEIR_INSTANTIATE(double)
#undef WEIR_INSTANTIATE

}  // namespace weir::kernels::host
#endif
