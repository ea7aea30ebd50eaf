// vectors-inl.hpp: loads and stores vectors at any byte address; compiled once per instruction set, as Highway's foreach_target.h
// asks.
#if defined(WEIR_CODEC_VECTORS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEIR_CODEC_VECTORS_INL
#undef WEIR_CODEC_VECTORS_INL
#else
#define WEIR_CODEC_VECTORS_INL
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace weir::wire::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> load_bytes(D d, const std::byte* from) {
  if constexpr (HWY_TARGET == HWY_SCALAR) {
    hn::TFromD<D> lane;
    std::memcpy(&lane, from, sizeof lane);
    return hn::Set(d, lane);
  } else {
    return hn::BitCast(d, hn::LoadU(hn::Repartition<std::uint8_t, D>(), reinterpret_cast<const std::uint8_t*>(from)));
  }
}

template <class D>
HWY_INLINE void store_bytes(D, hn::Vec<D> x, std::byte* to) {
  if constexpr (HWY_TARGET == HWY_SCALAR) {
    const hn::TFromD<D> lane = hn::GetLane(x);
    std::memcpy(to, &lane, sizeof lane);
  } else {
    const hn::Repartition<std::uint8_t, D> d8;
    hn::StoreU(hn::BitCast(d8, x), d8, reinterpret_cast<std::uint8_t*>(to));
  }
}

/// Works as hn::TruncateTo, from 32-bit lanes. With AVX3_DL, that of Highway 1.0.3 does not take the lowest byte of each lane.
template <class D, class V>
HWY_INLINE hn::Vec<D> truncate(D d, V x) {
  if constexpr (HWY_TARGET <= HWY_AVX3_DL && sizeof(hn::TFromD<D>) == 1) {
    const hn::Rebind<std::uint32_t, D> du;
    return hn::DemoteTo(d, hn::BitCast(hn::RebindToSigned<decltype(du)>(), hn::And(x, hn::Set(du, 255))));
  } else {
    return hn::TruncateTo(d, x);
  }
}

/// Calls step(tag, first) for whole vectors of `count` lanes T, then for the single lanes left. A step writes `out_bytes` per lane
/// to `out`. All vectors except the first start where `out` is aligned to a vector, so some lanes are done twice.
template <class T, class Step>
HWY_INLINE void for_each_vector(std::int64_t count, const void* out, std::uintptr_t out_bytes, Step step) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> d1;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  if (count >= lanes) {
    step(d, 0);
    i = lanes - static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(out) / out_bytes) % lanes;
  }
  for (; i + lanes <= count; i += lanes) step(d, i);
  for (; i < count; ++i) step(d1, i);
}

}  // namespace weir::wire::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
