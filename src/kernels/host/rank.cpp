// rank.cpp: kernels that rank keys by magnitude: the k-th largest, and histograms.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/rank.cpp"
#include <hwy/foreach_target.h>
// The order matters: foreach_target.h includes this file once per instruction set.
#include <hwy/highway.h>

#include <cstring>

#include "kernels/host/dispatch.hpp"
#include "kernels/host/keys-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::kernels::host::HWY_NAMESPACE {
namespace {

constexpr int digit_bits = 11;
constexpr int digits = 1 << digit_bits;
/// Neighbours count in different tables: two counts in one place would wait for the first store.
constexpr int tables = 4;
constexpr std::int64_t buffer_size = 2048;
/// Up to this number, counting keys bit by bit is faster than clearing the counts of digits.
constexpr std::int64_t few_keys = 512;

struct DigitCounts {
  std::uint32_t table[tables][digits];

  std::int64_t operator[](std::int64_t digit) const {
    std::int64_t sum = 0;
    for (const auto& counts : table) sum += counts[digit];
    return sum;
  }
};

template <class T>
void count_digits(const T* x, std::int64_t count, int shift, int bits, DigitCounts& counts) {
  const auto mask = static_cast<Key<T>>((Key<T>{1} << bits) - 1);
  const auto digit = [&](std::int64_t i) { return std::bit_cast<Key<T>>(x[i]) >> shift & mask; };
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

/// Copies the values with the key prefix `prefix` above bit `shift`. Writes up to one vector beyond what it copies.
template <class T>
HWY_INLINE std::int64_t copy_prefixed(const T* x, std::int64_t count, Key<T> prefix, int shift, T* out) {
  const Tag<T> d;
  const KeyTag<Tag<T>> dk;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto wanted = hn::Set(dk, static_cast<hn::TFromD<decltype(dk)>>(prefix));
  std::int64_t copied = 0;
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto values = hn::LoadU(d, x + i);
    const auto match = hn::RebindMask(d, hn::Eq(hn::ShiftRightSame(keys_of(d, values), shift), wanted));
    hn::StoreU(compress(d, values, match), d, out + copied);
    copied += static_cast<std::int64_t>(hn::CountTrue(d, match));
  }
  for (; i < count; ++i) {
    if (key_of(x[i]) >> shift == prefix) out[copied++] = x[i];
  }
  return copied;
}

template <class T>
struct KeyRange {
  Key<T> smallest, largest;  ///< of the nonzero keys
  std::int64_t ones, more;   ///< number of keys that are 1, and that are greater
};

template <class T>
KeyRange<T> key_range(const T* x, std::int64_t count) {
  const Tag<T> d;
  const KeyTag<Tag<T>> dk;
  const hn::RebindToUnsigned<Tag<T>> du;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto one = hn::Set(dk, 1);
  auto largest = hn::Zero(dk);
  // Subtracting one makes zero the largest of all.
  auto smallest_less_one = hn::Set(du, ~Key<T>{0});
  KeyRange<T> range{0, 0, 0, 0};
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto keys = keys_of(d, hn::LoadU(d, x + i));
    largest = hn::Max(largest, keys);
    smallest_less_one = hn::Min(smallest_less_one, hn::BitCast(du, hn::Sub(keys, one)));
    range.more += static_cast<std::int64_t>(hn::CountTrue(dk, hn::Gt(keys, one)));
    range.ones += static_cast<std::int64_t>(hn::CountTrue(dk, hn::Eq(keys, one)));
  }
  range.largest = static_cast<Key<T>>(hn::GetLane(hn::MaxOfLanes(dk, largest)));
  Key<T> smallest_less_one_of_all = hn::GetLane(hn::MinOfLanes(du, smallest_less_one));
  for (; i < count; ++i) {
    const Key<T> key = key_of(x[i]);
    range.largest = std::max(range.largest, key);
    smallest_less_one_of_all = std::min<Key<T>>(smallest_less_one_of_all, key - 1);
    range.more += key > 1;
    range.ones += key == 1;
  }
  range.smallest = smallest_less_one_of_all + 1;
  return range;
}

/// Returns the rank-th largest of `count` <= few_keys keys, 1 <= rank; it is not zero. All keys have the same bits from `shift` on:
/// `prefix`.
template <class T>
KthKey<T> kth_of_few(const T* x, std::int64_t count, std::int64_t rank, Key<T> prefix, int shift) {
  const Tag<T> d;
  const KeyTag<Tag<T>> dk;
  using Lane = hn::TFromD<decltype(dk)>;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  HWY_ALIGN T values[few_keys + select_padding];
  const std::int64_t padded = (count + lanes - 1) / lanes * lanes;
  std::memcpy(values, x, static_cast<std::size_t>(count) * sizeof(T));
  std::fill(values + count, values + padded, T{0});
  const auto reaching = [&](Key<T> key) {
    const auto least = hn::Set(dk, static_cast<Lane>(key - 1));
    std::int64_t number = 0;
    for (std::int64_t i = 0; i < padded; i += lanes)
      number += static_cast<std::int64_t>(hn::CountTrue(dk, hn::Gt(keys_of(d, hn::LoadU(d, values + i)), least)));
    return number;
  };
  auto key = static_cast<Key<T>>(prefix << shift);
  while (shift-- > 0) {
    const Key<T> higher = key | Key<T>{1} << shift;
    if (reaching(higher) >= rank) key = higher;
  }
  const std::int64_t greater = key == key_max<T> ? 0 : reaching(key + 1);
  return {key, greater, reaching(key) - greater};
}

/// Finds the k-th largest by radix selection, the highest digit first, below the bits that all nonzero keys share. Only the keys in
/// the bin of the k-th are examined again. Once they are few, they are copied out of x.
template <class T>
KthKey<T> kth_key(const T* x, std::int64_t count, std::int64_t k) {
  const KeyRange<T> range = key_range(x, count);
  if (k > range.ones + range.more) return {1, range.more, range.ones};
  DigitCounts counts;
  T buffer[buffer_size + select_padding];
  int shift = std::bit_width(static_cast<Key<T>>(range.smallest ^ range.largest));
  Key<T> prefix = range.largest >> shift;
  std::int64_t greater = 0;
  // Zeros differ in their prefix, or come last.
  std::int64_t equal = prefix == 0 ? count : range.ones + range.more;
  while (shift > 0) {
    const int bits = std::min(shift, digit_bits);
    const int next_shift = shift - bits;
    if (equal != count && equal <= buffer_size) {
      count = copy_prefixed(x, count, prefix, shift, buffer);
      x = buffer;
    }
    if (equal == count && count <= few_keys) {
      const KthKey<T> found = kth_of_few(x, count, k - greater, prefix, shift);
      return {found.key, greater + found.greater, found.equal};
    }
    std::memset(&counts, 0, sizeof counts);
    if (equal == count) {
      count_digits(x, count, next_shift, bits, counts);
    } else {
      for (std::int64_t i = 0; i < count; i += buffer_size) {
        const std::int64_t copied = copy_prefixed(x + i, std::min(buffer_size, count - i), prefix, shift, buffer);
        count_digits(buffer, copied, next_shift, bits, counts);
      }
    }
    std::int64_t digit = (1 << bits) - 1;
    for (; greater + counts[digit] < k; --digit) greater += counts[digit];
    equal = counts[digit];
    prefix = static_cast<Key<T>>(prefix << bits | static_cast<Key<T>>(digit));
    shift = next_shift;
  }
  return {prefix, greater, equal};
}

/// The vectorised part of `histogram`: computes the bins of a few vectors at once and counts them in several tables. Returns how
/// many elements it has counted.
template <class T>
std::int64_t histogram_vectors(const T* x, std::int64_t count, Key<T> low, Key<T> high, int shift, std::uint64_t* bins,
                               std::uint64_t* above) {
  constexpr std::int64_t chunk = 1024;
  const Tag<T> d;
  const KeyTag<Tag<T>> dk;
  using Lane = hn::TFromD<decltype(dk)>;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto bin_count = static_cast<std::int64_t>((high - low) >> shift) + 1;
  const std::int64_t above_bin = bin_count, ignored_bin = bin_count + 1;

  DigitCounts counts;
  for (auto& table : counts.table) std::memset(table, 0, static_cast<std::size_t>(ignored_bin + 1) * sizeof table[0]);
  Lane chunk_bins[chunk];
  const auto first = hn::Set(dk, static_cast<Lane>(low));
  const auto below_low = just_below(d, std::max<Key<T>>(low, 1));
  const auto last = hn::Set(dk, static_cast<Lane>(high));
  std::int64_t i = 0;
  while (i + lanes <= count) {
    const std::int64_t size = std::min(chunk, count - i) / lanes * lanes;
    for (std::int64_t j = 0; j < size; j += lanes) {
      const auto keys = keys_of(d, hn::LoadU(d, x + i + j));
      auto bin = hn::ShiftRightSame(hn::Sub(keys, first), shift);
      bin = hn::IfThenElse(hn::Gt(keys, last), hn::Set(dk, static_cast<Lane>(above_bin)), bin);
      bin = hn::IfThenElse(hn::Gt(keys, below_low), bin, hn::Set(dk, static_cast<Lane>(ignored_bin)));
      hn::StoreU(bin, dk, chunk_bins + j);
    }
    std::int64_t j = 0;
    for (; j + tables <= size; j += tables) {
      for (int t = 0; t < tables; ++t) ++counts.table[t][chunk_bins[j + t]];
    }
    for (; j < size; ++j) ++counts.table[0][chunk_bins[j]];
    i += size;
  }
  for (std::int64_t b = 0; b < bin_count; ++b) bins[b] += static_cast<std::uint64_t>(counts[b]);
  *above += static_cast<std::uint64_t>(counts[above_bin]);
  return i;
}

template <class T>
void histogram(const T* x, std::int64_t count, Key<T> low, Key<T> high, int shift, std::uint64_t* bins, std::uint64_t* above) {
  std::int64_t i = 0;
  if (low <= high && high <= key_max<T> && (high - low) >> shift < digits - 2) {
    i = histogram_vectors(x, count, low, high, shift, bins, above);
  }
  for (; i < count; ++i) {
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
RankKernels<T> rank_kernels() {
  return {kth_key<T>, histogram<T>};
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

#define WEIR_INSTANTIATE(T)                                         \
  template KthKey<T> kth_key(const T*, std::int64_t, std::int64_t); \
  template void histogram(const T*, std::int64_t, Key<T>, Key<T>, int, std::uint64_t*, std::uint64_t*);

WEIR_INSTANTIATE(float)
WEIR_INSTANTIATE(double)
#undef WEIR_INSTANTIATE

}  // namespace weir::kernels::host
#endif
