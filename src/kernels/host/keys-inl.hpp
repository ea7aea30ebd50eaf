// keys-inl.hpp: keys in vectors; compiled once per instruction set, as Highway's foreach_target.h asks.
#if defined(WEIR_KERNELS_HOST_KEYS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEIR_KERNELS_HOST_KEYS_INL
#undef WEIR_KERNELS_HOST_KEYS_INL
#else
#define WEIR_KERNELS_HOST_KEYS_INL
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

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

/// What "key >= value" needs to become the signed "key > result", also for values beyond all keys.
template <class D>
HWY_INLINE hn::Vec<KeyTag<D>> just_below(D, Key<hn::TFromD<D>> value) {
  using T = hn::TFromD<D>;
  const Key<T> clamped = std::min<Key<T>>(value, key_max<T> + 1);
  return hn::Set(KeyTag<D>(), static_cast<hn::TFromD<KeyTag<D>>>(clamped - 1));
}

}  // namespace weir::kernels::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
