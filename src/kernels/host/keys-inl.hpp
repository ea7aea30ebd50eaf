// keys-inl.hpp: keys in vectors, and moving chosen lanes to the front; compiled once per instruction set, as Highway's
// foreach_target.h asks.
#if defined(WEIR_KERNELS_HOST_KEYS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEIR_KERNELS_HOST_KEYS_INL
#undef WEIR_KERNELS_HOST_KEYS_INL
#else
#define WEIR_KERNELS_HOST_KEYS_INL
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "kernels/host/lane_orders.hpp"
#include "kernels/kernels.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::kernels::host::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// At most 16 lanes, so that the mask of one vector fits in two bytes and a stored vector in select_padding.
template <class T>
using Tag = hn::CappedTag<T, 16>;

/// Keys are compared as signed integers, which every instruction set can do; they fit, since a key has no sign bit.
template <class D>
using KeyTag = hn::RebindToSigned<D>;

template <class T>
inline constexpr Key<T> key_max = static_cast<Key<T>>(~Key<T>{0}) >> 1;

template <class D>
HWY_INLINE hn::Vec<KeyTag<D>> keys_of(D, hn::Vec<D> x) {
  const KeyTag<D> dk;
  return hn::And(hn::BitCast(dk, x), hn::Set(dk, static_cast<hn::TFromD<decltype(dk)>>(key_max<hn::TFromD<D>>)));
}

/// Turns "key >= value" into the signed "key > result", also for values beyond all keys.
template <class D>
HWY_INLINE hn::Vec<KeyTag<D>> just_below(D, Key<hn::TFromD<D>> value) {
  using T = hn::TFromD<D>;
  const Key<T> clamped = std::min<Key<T>>(value, key_max<T> + 1);
  return hn::Set(KeyTag<D>(), static_cast<hn::TFromD<KeyTag<D>>>(clamped - 1));
}

/// Returns x[0], ..., x[count - 1], and zeros in the lanes after them. Reads no other elements.
template <class D>
HWY_INLINE hn::Vec<D> load_first(D d, const hn::TFromD<D>* x, std::int64_t count) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  if constexpr (HWY_TARGET <= HWY_AVX2) {
    return hn::MaskedLoad(hn::FirstN(d, static_cast<std::size_t>(std::min(count, lanes))), d, x);
  } else {
    if (count >= lanes) return hn::LoadU(d, x);
    hn::TFromD<D> values[16] = {};
    std::copy_n(x, count, values);
    return hn::LoadU(d, values);
  }
}

/// Returns the wanted lanes of x first, in order; the lanes after them are arbitrary. Highway 1.0.3 has a Compress, too, but if
/// that looks lanes up in a table, GCC 12 copies the 2 KiB table to the stack on each call.
template <class D>
HWY_INLINE hn::Vec<D> compress(D d, hn::Vec<D> x, hn::Mask<D> wanted) {
  constexpr bool native = HWY_HAVE_SCALABLE || HWY_TARGET == HWY_SCALAR || (HWY_TARGET <= HWY_AVX3 && sizeof(hn::TFromD<D>) == 4);
  if constexpr (native) {
    return hn::Compress(x, wanted);
  } else {
    const hn::RebindToSigned<D> di;
    using Index = hn::TFromD<decltype(di)>;
    std::uint8_t bits[8];
    hn::StoreMaskBits(d, wanted, bits);
    const auto order = hn::Set(di, static_cast<Index>(lane_orders[bits[0]]));
    const auto lane = hn::And(hn::Shr(order, hn::ShiftLeft<2>(hn::Iota(di, 0))), hn::Set(di, 7));
    return hn::TableLookupLanes(x, hn::IndicesFromVec(d, lane));
  }
}

}  // namespace weir::kernels::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
