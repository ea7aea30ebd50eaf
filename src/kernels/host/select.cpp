// select.cpp: selects the entries that reach a threshold or lie in a band. Selection is memory bound if hits are rare: one pass
// without branches marks hits, chunk by chunk, and a second pass picks them out of the vectors that contain some.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/select.cpp"
#include <hwy/foreach_target.h>
// The order matters: foreach_target.h includes this file once per instruction set.
#include <hwy/highway.h>

#include <bit>
#include <cstring>
#include <limits>

#include "kernels/host/dispatch.hpp"
#include "kernels/host/keys-inl.hpp"
#include "kernels/read_ahead.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::kernels::host::HWY_NAMESPACE {
namespace {

/// Distance in bytes from what is examined to what is fetched, if that helps (read_ahead.hpp). Hits are picked out between two
/// chunks, with branches that are hard to predict, so the loads that keep memory busy start too late. On a Sapphire Rapids, weir
/// bench select takes 8.4 ms instead of 10.7 ms with this value; 2 KB and 4 KB were worse.
constexpr std::int64_t prefetch_ahead = 3072;

template <class T>
HWY_INLINE void prefetch(const T* place) {
  __builtin_prefetch(place + prefetch_ahead / static_cast<std::int64_t>(sizeof(T)));
}

/// Selects from x as it is.
template <class T>
struct Plain {
  using Value = T;
  const T* x;
  bool ahead;

  HWY_INLINE void prefetch_after(std::int64_t i) const {
    if (ahead) prefetch(x + i);
  }

  template <class D>
  HWY_INLINE hn::Vec<D> values(D d, std::int64_t i) const {
    return hn::LoadU(d, x + i);
  }
  template <class D>
  HWY_INLINE void reject_others(D, std::int64_t, hn::Vec<D>, hn::Mask<D>) const {}
  T value(std::int64_t i) const { return x[i]; }
  void reject(std::int64_t) const {}
  void reject_hit(std::int64_t) const {}
  T take(std::int64_t i) const { return x[i]; }
  template <class D>
  HWY_INLINE hn::Vec<D> take(D d, std::int64_t i, hn::Mask<D>) const {
    return values(d, i);
  }
};

/// Selects from residual + gradient. If an entry is not selected, its sum becomes the residual.
template <class T>
struct Compensated {
  using Value = T;
  const T* gradient;
  T* residual;
  Key<T> keep_old;
  bool ahead;

  HWY_INLINE void prefetch_after(std::int64_t i) const {
    if (!ahead) return;
    prefetch(gradient + i);
    prefetch(residual + i);
  }
  template <class D>
  HWY_INLINE hn::Vec<D> values(D d, std::int64_t i) const {
    return hn::Add(hn::LoadU(d, residual + i), hn::LoadU(d, gradient + i));
  }
  template <class D>
  HWY_INLINE void reject_others(D d, std::int64_t i, hn::Vec<D> sum, hn::Mask<D> selected) const {
    hn::StoreU(hn::IfThenElse(selected, hn::LoadU(d, residual + i), sum), d, residual + i);
  }
  T value(std::int64_t i) const { return residual[i] + gradient[i]; }
  void reject(std::int64_t i) const { residual[i] += gradient[i]; }
  void reject_hit(std::int64_t i) const {
    if (key_of(value(i)) < key_infinity<T>) reject(i);
  }
  T take(std::int64_t i) const {
    const T old = residual[i], sum = value(i);
    residual[i] = key_of(sum) < keep_old ? sum : old;
    return sum;
  }
  template <class D>
  HWY_INLINE hn::Vec<D> take(D d, std::int64_t i, hn::Mask<D> hit) const {
    const auto old = hn::LoadU(d, residual + i);
    const auto sum = values(d, i);
    const auto keep = hn::RebindMask(d, hn::Gt(keys_of(d, sum), just_below(d, keep_old)));
    hn::StoreU(hn::IfThenElse(hn::AndNot(keep, hit), sum, old), d, residual + i);
    return sum;
  }
};

/// The destination of selected entries.
template <class T>
struct Output {
  std::uint32_t* indices;
  T* values;
  std::int64_t capacity;
};

/// Elements per chunk: small enough that the second look at a chunk finds it in the first-level cache.
constexpr std::int64_t chunk = 1024;

/// For each vector of a chunk, the lanes that reached the threshold, in mask_bytes() bytes. 64 bytes of zeros follow.
struct HitMasks {
  std::uint16_t words[chunk / 2 + 32];

  [[nodiscard]] std::uint8_t* bytes() { return reinterpret_cast<std::uint8_t*>(words); }
  template <class Mask>
  [[nodiscard]] const Mask* from(std::int64_t vector) const {
    return reinterpret_cast<const Mask*>(words) + vector;
  }
};

template <class D>
HWY_INLINE std::int64_t mask_bytes(D d) {
  return hn::Lanes(d) > 8 ? 2 : 1;
}

template <class Source, class T>
HWY_INLINE std::int64_t select_one(Source source, std::int64_t i, Output<T> out, std::int64_t hits) {
  if (hits < out.capacity) {
    out.indices[hits] = static_cast<std::uint32_t>(i);
    out.values[hits] = source.take(i);
  } else {
    source.reject_hit(i);
  }
  return hits + 1;
}

/// Selects the entries of a vector one by one.
template <class Source, class T>
HWY_NOINLINE std::int64_t select_each(Source source, std::int64_t i, unsigned bits, Output<T> out, std::int64_t hits) {
  for (; bits != 0; bits &= bits - 1) hits = select_one(source, i + std::countr_zero(bits), out, hits);
  return hits;
}

/// Marks hits. Writes each mask to a place of its own, so that processors work on several vectors at once.
template <class Source, class D>
HWY_INLINE void find_hits(D d, Source source, std::int64_t begin, std::int64_t vectors, hn::Vec<KeyTag<D>> below, HitMasks& masks) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t v = 0; v < vectors; ++v) {
    source.prefetch_after(begin + v * lanes);
    const auto x = source.values(d, begin + v * lanes);
    const auto hit = hn::RebindMask(d, hn::Gt(keys_of(d, x), below));
    source.reject_others(d, begin + v * lanes, x, hit);
    hn::StoreMaskBits(d, hit, masks.bytes() + mask_bytes(d) * v);
  }
  std::memset(masks.bytes() + mask_bytes(d) * vectors, 0, 64);
}

/// Lane numbers of the width of T.
template <class D>
using LaneNumbers = hn::Vec<hn::RebindToUnsigned<D>>;

template <class D>
HWY_INLINE LaneNumbers<D> numbers_from(D, std::int64_t begin) {
  const hn::RebindToUnsigned<D> du;
  // Iota(du, begin) would write the numbers to memory one by one, and then wait to load them as a vector.
  return hn::Add(hn::Set(du, static_cast<hn::TFromD<decltype(du)>>(begin)), hn::Iota(du, 0));
}

/// Stores those of `numbers` that are hits.
template <class D>
HWY_INLINE void store_indices(D, LaneNumbers<D> numbers, hn::Mask<D> hit, std::uint32_t* indices) {
  const hn::RebindToUnsigned<D> du;
  const auto result = compress(du, numbers, hn::RebindMask(du, hit));
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    hn::StoreU(result, du, indices);
  } else {
    const hn::Rebind<std::uint32_t, D> d32;
    hn::StoreU(hn::TruncateTo(d32, result), d32, indices);
  }
}

/// Calls visit(v) for each vector v whose mask, a `Mask`, is not zero.
template <class Mask, class Visit>
HWY_INLINE void for_each_hit(const HitMasks& masks, std::int64_t vectors, Visit visit) {
  const hn::CappedTag<Mask, 32> d;
  const auto at_once = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t first = 0; first < vectors; first += at_once) {
    const auto some = hn::LoadU(d, masks.template from<Mask>(first));
    std::uint64_t bits = 0;
    hn::StoreMaskBits(d, hn::Ne(some, hn::Zero(d)), reinterpret_cast<std::uint8_t*>(&bits));
    for (; bits != 0; bits &= bits - 1) visit(first + std::countr_zero(bits));
  }
}

template <class Source, class D, class T>
HWY_INLINE std::int64_t store_hits(D d, Source source, std::int64_t begin, std::int64_t vectors, const HitMasks& masks,
                                   Output<T> out, std::int64_t hits) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto store = [&](std::int64_t v) HWY_ATTR {
    const std::int64_t i = begin + v * lanes;
    const std::uint8_t* const mask = masks.template from<std::uint8_t>(mask_bytes(d) * v);
    const unsigned bits = lanes > 8 ? mask[0] | static_cast<unsigned>(mask[1]) << 8 : mask[0];
    if (hits + lanes > out.capacity) [[unlikely]] {
      hits = select_each(source, i, bits, out, hits);
    } else {
      const auto hit = hn::LoadMaskBits(d, mask);
      hn::StoreU(compress(d, source.take(d, i, hit), hit), d, out.values + hits);
      store_indices(d, numbers_from(d, i), hit, out.indices + hits);
      hits += std::popcount(bits);
    }
  };
  if (lanes > 8)
    for_each_hit<std::uint16_t>(masks, vectors, store);
  else
    for_each_hit<std::uint8_t>(masks, vectors, store);
  return hits;
}

template <class Source, class T = typename Source::Value>
HWY_INLINE std::int64_t select_from(Source source, std::int64_t count, Key<T> threshold, Output<T> out) {
  const Tag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto below = just_below(d, threshold);
  HitMasks masks;
  std::int64_t hits = 0;
  std::int64_t i = 0;
  while (i + lanes <= count && hits < out.capacity) {
    const std::int64_t vectors = std::min(chunk, count - i) / lanes;
    find_hits(d, source, i, vectors, below, masks);
    hits = store_hits(d, source, i, vectors, masks, out, hits);
    i += vectors * lanes;
  }
  const auto below_kept = just_below(d, std::max(threshold, key_infinity<T>));
  for (; i + lanes <= count; i += lanes) {
    const auto x = source.values(d, i);
    source.reject_others(d, i, x, hn::RebindMask(d, hn::Gt(keys_of(d, x), below_kept)));
    hits += static_cast<std::int64_t>(hn::CountTrue(KeyTag<Tag<T>>(), hn::Gt(keys_of(d, x), below)));
  }
  for (; i < count; ++i) {
    if (key_of(source.value(i)) >= threshold) {
      hits = select_one(source, i, out, hits);
    } else {
      source.reject(i);
    }
  }
  return hits;
}

template <class T>
std::int64_t compensate_select(const T* gradient, T* residual, std::int64_t count, Key<T> threshold, Key<T> keep_old,
                               std::uint32_t* indices, T* values, std::int64_t capacity) {
  const ReadAheadTurn turn(2 * count * static_cast<std::int64_t>(sizeof(T)));
  return select_from(Compensated<T>{gradient, residual, keep_old, turn.on()}, count, threshold,
                     Output<T>{indices, values, capacity});
}

template <class T>
std::int64_t select(const T* x, std::int64_t count, Key<T> threshold, std::uint32_t* indices, T* values, std::int64_t capacity) {
  return select_from(Plain<T>{x, selects_ahead()}, count, threshold, Output<T>{indices, values, capacity});
}

/// The entries from which a band is taken.
template <class T>
struct Entries {
  const std::uint32_t* indices;  // nullptr: 0, 1, ...
  const T* values;

  [[nodiscard]] std::uint32_t index(std::int64_t i) const {
    return indices != nullptr ? indices[i] : static_cast<std::uint32_t>(i);
  }
  template <class D>
  [[nodiscard]] HWY_INLINE LaneNumbers<D> numbers(D d, std::int64_t i) const {
    if (indices == nullptr) return numbers_from(d, i);
    if constexpr (sizeof(T) == 4)
      return hn::LoadU(hn::RebindToUnsigned<D>(), indices + i);
    else
      return hn::PromoteTo(hn::RebindToUnsigned<D>(), hn::LoadU(hn::Rebind<std::uint32_t, D>(), indices + i));
  }
};

/// The destination of the entries in a band, and of the others.
template <class T>
struct Keeping {
  std::uint32_t* indices;
  T* values;
  T* residual;
  Key<T> keep_old;
};

template <class T>
HWY_INLINE std::int64_t keep_one(Entries<T> entries, std::int64_t i, Band<T>& band, Keeping<T> out, std::int64_t kept) {
  const std::uint32_t index = entries.index(i);
  const T value = entries.values[i];
  const Key<T> key = key_of(value);
  const bool between = key >= band.lower && key < band.upper;
  const bool in_slice = band.start <= 0 && band.start + band.slice > 0;
  band.start -= between;
  if (key >= band.upper || (between && in_slice)) {
    out.indices[kept] = index;
    out.values[kept++] = value;
  } else if (key >= out.keep_old) {
    out.residual[index] = value;
  }
  return kept;
}

template <class T>
std::int64_t select_band(const std::uint32_t* indices, const T* values, std::int64_t count, Band<T>& band,
                         std::uint32_t* out_indices, T* out_values, T* residual, Key<T> keep_old) {
  const Tag<T> d;
  const KeyTag<Tag<T>> dk;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const Entries<T> entries{indices, values};
  const Keeping<T> out{out_indices, out_values, residual, residual != nullptr ? keep_old : key_max<T> + 1};
  const auto below_upper = just_below(d, band.upper), below_lower = just_below(d, band.lower),
             below_old = just_below(d, out.keep_old);
  std::int64_t kept = 0, i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto x = hn::LoadU(d, values + i);
    const auto keys = keys_of(d, x);
    const auto above = hn::Gt(keys, below_upper), reaching = hn::Gt(keys, below_lower);
    const auto between = static_cast<std::int64_t>(hn::CountTrue(dk, hn::AndNot(above, reaching)));
    const bool none = between <= std::max<std::int64_t>(0, band.start) || band.start + band.slice <= 0;
    const bool all = band.start <= 0 && between <= band.start + band.slice;
    if (!none && !all) {  // the slice begins or ends here
      for (std::int64_t lane = 0; lane < lanes; ++lane) kept = keep_one(entries, i + lane, band, out, kept);
      continue;
    }
    band.start -= between;
    const auto wanted = none ? above : reaching;
    // Read before anything is stored, since outputs may overwrite the inputs.
    const auto numbers = entries.numbers(d, i);
    const auto back = hn::AndNot(wanted, hn::Gt(keys, below_old));
    if (!hn::AllFalse(dk, back)) {
      std::uint8_t bytes[8];
      const auto size = hn::StoreMaskBits(dk, back, bytes);
      unsigned bits = size > 1 ? bytes[0] | static_cast<unsigned>(bytes[1]) << 8 : bytes[0];
      for (; bits != 0; bits &= bits - 1) {
        const std::int64_t other = i + std::countr_zero(bits);
        residual[entries.index(other)] = values[other];
      }
    }
    const auto hit = hn::RebindMask(d, wanted);
    hn::StoreU(compress(d, x, hit), d, out.values + kept);
    store_indices(d, numbers, hit, out.indices + kept);
    kept += static_cast<std::int64_t>(hn::CountTrue(dk, wanted));
  }
  for (; i < count; ++i) kept = keep_one(entries, i, band, out, kept);
  return kept;
}

template <class T>
SelectKernels<T> select_kernels() {
  return {compensate_select<T>, select<T>, select_band<T>};
}
SelectKernels<float> float_kernels() { return select_kernels<float>(); }
SelectKernels<double> double_kernels() { return select_kernels<double>(); }

}  // namespace
}  // namespace weir::kernels::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir::kernels::host {

WEIR_CHOOSE_KERNELS(SelectKernels)

template <class T>
std::int64_t compensate_select(const T* gradient, T* residual, std::int64_t count, Key<T> threshold, Key<T> keep_old,
                               std::uint32_t* indices, T* values, std::int64_t capacity) {
  return chosen<T>().compensate_select(gradient, residual, count, threshold, keep_old, indices, values, capacity);
}

template <class T>
std::int64_t select(const T* x, std::int64_t count, Key<T> threshold, std::uint32_t* indices, T* values, std::int64_t capacity) {
  return chosen<T>().select(x, count, threshold, indices, values, capacity);
}

template <class T>
std::int64_t select_band(const std::uint32_t* indices, const T* values, std::int64_t count, Band<T>& band,
                         std::uint32_t* out_indices, T* out_values, T* residual, Key<T> keep_old) {
  return chosen<T>().select_band(indices, values, count, band, out_indices, out_values, residual, keep_old);
}

#define WEIR_INSTANTIATE(T)                                                                                              \
  template std::int64_t compensate_select(const T*, T*, std::int64_t, Key<T>, Key<T>, std::uint32_t*, T*, std::int64_t); \
  template std::int64_t select(const T*, std::int64_t, Key<T>, std::uint32_t*, T*, std::int64_t);                        \
  template std::int64_t select_band(const std::uint32_t*, const T*, std::int64_t, Band<T>&, std::uint32_t*, T*, T*, Key<T>);

WEIR_INSTANTIATE(float)
WEIR_INSTANTIATE(double)
#undef WEIR_INSTANTIATE

}  // namespace weir::kernels::host
#endif
