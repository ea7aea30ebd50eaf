// values.cpp: values of sparse vectors as they travel. All arithmetic is in integers, except for numbers below the normal range of
// float16, so that every instruction set gives the same bits.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/values.cpp"
#include <hwy/foreach_target.h>
// The order matters: foreach_target.h includes this file once per instruction set.
#include <hwy/highway.h>

#include <cmath>
#include <cstring>

#include "base/error.hpp"
#include "codec/dispatch.hpp"
#include "codec/vectors-inl.hpp"
#include "codec/wire.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::wire::HWY_NAMESPACE {
namespace {

/// Returns what travels for float32 `bits`, in the lower half of each lane.
template <class D>
HWY_INLINE hn::Vec<D> narrow_bfloat16(D d, hn::Vec<D> bits) {
  const auto sign = hn::And(bits, hn::Set(d, 0x80000000u)), magnitude = hn::AndNot(sign, bits);
  const auto odd = hn::And(hn::ShiftRight<16>(magnitude), hn::Set(d, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(magnitude, odd), hn::Set(d, 0x7fffu)));
  const auto infinity = hn::Set(d, 0x7f800000u);
  const auto special = hn::IfThenElse(hn::Gt(magnitude, infinity), hn::Set(d, 0x7fc0u), hn::Set(d, 0x7f80u));
  const auto result = hn::IfThenElse(hn::Lt(magnitude, infinity), hn::Min(rounded, hn::Set(d, 0x7f7fu)), special);
  return hn::Or(result, hn::ShiftRight<16>(sign));
}

template <class D>
HWY_INLINE hn::Vec<D> narrow_float16(D d, hn::Vec<D> bits) {
  const hn::RebindToFloat<D> df;
  const auto sign = hn::And(bits, hn::Set(d, 0x80000000u)), magnitude = hn::AndNot(sign, bits);
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(d, 1));
  // Exponents are biased by 127 and by 15.
  const auto normal = hn::ShiftRight<13>(hn::Add(hn::Add(magnitude, odd), hn::Set(d, 0xfffu - (112u << 23))));
  // The unit in the last place of 0.5 is the smallest float16, so the addition rounds to multiples of it.
  const auto half = hn::Set(df, 0.5f);
  const auto subnormal = hn::Sub(hn::BitCast(d, hn::Add(hn::BitCast(df, magnitude), half)), hn::BitCast(d, half));
  const auto finite = hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 113u << 23)), subnormal, hn::Min(normal, hn::Set(d, 0x7bffu)));
  const auto infinity = hn::Set(d, 0x7f800000u);
  const auto special = hn::IfThenElse(hn::Gt(magnitude, infinity), hn::Set(d, 0x7e00u), hn::Set(d, 0x7c00u));
  return hn::Or(hn::IfThenElse(hn::Lt(magnitude, infinity), finite, special), hn::ShiftRight<16>(sign));
}

/// Returns the float32 bits of the float16 in each lane.
template <class D>
HWY_INLINE hn::Vec<D> widen_float16(D d, hn::Vec<D> wire) {
  const hn::RebindToFloat<D> df;
  const auto sign = hn::ShiftLeft<16>(hn::And(wire, hn::Set(d, 0x8000u)));
  const auto magnitude = hn::ShiftLeft<13>(hn::And(wire, hn::Set(d, 0x7fffu)));
  const auto normal = hn::Add(magnitude, hn::Set(d, 112u << 23)), special = hn::Add(magnitude, hn::Set(d, 224u << 23));
  const auto smallest_normal = hn::Set(d, 113u << 23);
  const auto subnormal =
      hn::BitCast(d, hn::Sub(hn::BitCast(df, hn::Add(magnitude, smallest_normal)), hn::BitCast(df, smallest_normal)));
  const auto finite = hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 1u << 23)), subnormal, normal);
  return hn::Or(sign, hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 31u << 23)), finite, special));
}

template <WireValues values, class D>
HWY_INLINE hn::Vec<D> narrow(D d, hn::Vec<D> bits) {
  if constexpr (values == WireValues::bfloat16) {
    return narrow_bfloat16(d, bits);
  } else if constexpr (values == WireValues::float16) {
    return narrow_float16(d, bits);
  } else {
    // The pattern with all bits set is reserved for "no entry", so it becomes the quiet NaN of the same sign.
    using B = hn::TFromD<D>;
    constexpr B quiet_nan = ~B{0} << (sizeof(B) == 4 ? 22 : 51);
    return hn::IfThenElse(hn::Eq(bits, hn::Set(d, static_cast<B>(~B{0}))), hn::Set(d, quiet_nan), bits);
  }
}

template <WireValues values, class D>
HWY_INLINE hn::Vec<D> widen(D d, hn::Vec<D> wire) {
  if constexpr (values == WireValues::bfloat16) {
    return hn::ShiftLeft<16>(wire);
  } else if constexpr (values == WireValues::float16) {
    return widen_float16(d, wire);
  } else {
    (void)d;
    return wire;
  }
}

/// Multiplies the float32 `bits` by a power of two, if values travel scaled.
template <WireValues values, class D>
HWY_INLINE hn::Vec<D> scaled(D d, hn::Vec<D> bits, float scale) {
  if constexpr (values == WireValues::float16) {
    const hn::RebindToFloat<D> df;
    return hn::BitCast(d, hn::Mul(hn::BitCast(df, bits), hn::Set(df, scale)));
  } else {
    (void)d;
    (void)scale;
    return bits;
  }
}

template <class T>
using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

#if HWY_TARGET != HWY_SCALAR
/// The smallest magnitude that rounds to more than the largest finite value.
template <WireValues values>
constexpr std::uint32_t overflow = values == WireValues::bfloat16 ? 0x7f7f8000u : 0x477ff000u;

/// Does the same as narrow(), for two vectors of finite values that need not saturate.
template <WireValues values, class D>
HWY_INLINE hn::Vec<hn::Repartition<std::uint16_t, D>> narrow_usual(D d, hn::Vec<D> first, hn::Vec<D> second) {
  const hn::Repartition<std::uint16_t, D> d16;
  if constexpr (values == WireValues::bfloat16) {
    const auto rounded = [=](hn::Vec<D> bits) HWY_ATTR {
      const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1));
      return hn::BitCast(d16, hn::Add(hn::Add(bits, hn::Set(d, 0x7fffu)), odd));
    };
    return hn::ConcatOdd(d16, rounded(second), rounded(first));
  } else {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
    const hn::RebindToFloat<D> df;
    const hn::Rebind<hwy::float16_t, D> half;
    const hn::Rebind<std::uint16_t, D> half16;
    const auto rounded = [=](hn::Vec<D> bits) HWY_ATTR { return hn::BitCast(half16, hn::DemoteTo(half, hn::BitCast(df, bits))); };
    return hn::Combine(d16, rounded(second), rounded(first));
#else
    return hn::ConcatEven(d16, hn::BitCast(d16, narrow<values>(d, second)), hn::BitCast(d16, narrow<values>(d, first)));
#endif
  }
}

/// Packs the whole pairs of vectors, times `scale`. Returns how many values those are.
template <WireValues values>
std::int64_t pack_pairs(const float* in, std::int64_t count, std::byte* out, float scale) {
  const hn::ScalableTag<std::uint32_t> d;
  const hn::Repartition<std::uint16_t, decltype(d)> d16;
  const hn::RebindToFloat<decltype(d)> df;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const auto first = scaled<values>(d, hn::BitCast(d, hn::LoadU(df, in + i)), scale),
               second = scaled<values>(d, hn::BitCast(d, hn::LoadU(df, in + i + lanes)), scale);
    const auto greatest = hn::Max(hn::Add(first, first), hn::Add(second, second));
    auto wire = narrow_usual<values>(d, first, second);
    if (HWY_UNLIKELY(!hn::AllTrue(d, hn::Lt(greatest, hn::Set(d, 2 * overflow<values>))))) {
      wire = hn::ConcatEven(d16, hn::BitCast(d16, narrow<values>(d, second)), hn::BitCast(d16, narrow<values>(d, first)));
    }
    store_bytes(d16, wire, out + 2 * i);
  }
  return i;
}
#endif

template <WireValues values, class T>
void pack(const T* in, std::int64_t count, std::byte* out, float scale) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (values != WireValues::native) {
    const std::int64_t done = pack_pairs<values>(in, count, out, scale);
    in += done, count -= done, out += 2 * done;
  }
#endif
  for_each_vector<Bits<T>>(count, out, values == WireValues::native ? sizeof(T) : 2, [=](auto d, std::int64_t i) HWY_ATTR {
    const auto wire = narrow<values>(d, scaled<values>(d, hn::BitCast(d, hn::LoadU(hn::Rebind<T, decltype(d)>(), in + i)), scale));
    if constexpr (values == WireValues::native) {
      store_bytes(d, wire, out + i * static_cast<std::int64_t>(sizeof(T)));
    } else {
      const hn::Rebind<std::uint16_t, decltype(d)> d16;
      store_bytes(d16, hn::DemoteTo(d16, hn::BitCast(hn::RebindToSigned<decltype(d)>(), wire)), out + 2 * i);
    }
  });
}

template <WireValues values, class T>
void unpack(const std::byte* in, std::int64_t count, T* out, float scale) {
  if constexpr (values == WireValues::native) {
    std::memcpy(out, in, static_cast<std::size_t>(count) * sizeof(T));
  } else {
    for_each_vector<Bits<T>>(count, out, sizeof(T), [=](auto d, std::int64_t i) HWY_ATTR {
      const hn::Rebind<std::uint16_t, decltype(d)> d16;
      const hn::Rebind<T, decltype(d)> dt;
      const auto wide = scaled<values>(d, widen<values>(d, hn::PromoteTo(d, load_bytes(d16, in + 2 * i))), scale);
      hn::StoreU(hn::BitCast(dt, wide), dt, out + i);
    });
  }
}

template <WireValues values, class T>
void round(const T* in, T* out, std::int64_t count, int halvings) {
  const float scale = std::ldexp(1.0F, -halvings), back = std::ldexp(1.0F, halvings);
  for_each_vector<Bits<T>>(count, out, sizeof(T), [=](auto d, std::int64_t i) HWY_ATTR {
    const hn::Rebind<T, decltype(d)> dt;
    const auto wire = narrow<values>(d, scaled<values>(d, hn::BitCast(d, hn::LoadU(dt, in + i)), scale));
    hn::StoreU(hn::BitCast(dt, scaled<values>(d, widen<values>(d, wire), back)), dt, out + i);
  });
}

template <class T>
void pack_any(WireValues values, const T* in, std::int64_t count, std::byte* out, int halvings) {
  if constexpr (sizeof(T) == 4) {
    if (values == WireValues::bfloat16) return pack<WireValues::bfloat16>(in, count, out, 1);
    if (values == WireValues::float16) return pack<WireValues::float16>(in, count, out, std::ldexp(1.0F, -halvings));
  }
  pack<WireValues::native>(in, count, out, 1);
}

template <class T>
void unpack_any(WireValues values, const std::byte* in, std::int64_t count, T* out, int halvings) {
  if constexpr (sizeof(T) == 4) {
    if (values == WireValues::bfloat16) return unpack<WireValues::bfloat16>(in, count, out, 1);
    if (values == WireValues::float16) return unpack<WireValues::float16>(in, count, out, std::ldexp(1.0F, halvings));
  }
  unpack<WireValues::native>(in, count, out, 1);
}

template <class T>
void round_any(WireValues values, const T* in, T* out, std::int64_t count, int halvings) {
  if constexpr (sizeof(T) == 4) {
    if (values == WireValues::bfloat16) return round<WireValues::bfloat16>(in, out, count, 0);
    if (values == WireValues::float16) return round<WireValues::float16>(in, out, count, halvings);
  }
  round<WireValues::native>(in, out, count, 0);
}

ValueKernels<float> float_kernels() { return {pack_any<float>, unpack_any<float>, round_any<float>}; }
ValueKernels<double> double_kernels() { return {pack_any<double>, unpack_any<double>, round_any<double>}; }

}  // namespace
}  // namespace weir::wire::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir::wire {

namespace {

HWY_EXPORT(float_kernels);
HWY_EXPORT(double_kernels);

template <class T>
const ValueKernels<T>& chosen() {
  static const ValueKernels<T> kernels = [] {
    if constexpr (sizeof(T) == 4) {
      return HWY_DYNAMIC_DISPATCH(float_kernels)();
    } else {
      return HWY_DYNAMIC_DISPATCH(double_kernels)();
    }
  }();
  return kernels;
}

}  // namespace

template <class T>
std::int64_t bytes_of_value(WireValues values) {
  if (values == WireValues::native) return sizeof(T);
  require(sizeof(T) == 4, "only float32 values travel as bfloat16 or float16");
  return 2;
}

template <class T>
void pack_values(WireValues values, const T* in, std::int64_t count, std::byte* out, int halvings) {
  chosen<T>().pack(values, in, count, out, halvings);
}

template <class T>
void unpack_values(WireValues values, const std::byte* in, std::int64_t count, T* out, int halvings) {
  chosen<T>().unpack(values, in, count, out, halvings);
}

template <class T>
void round_values(WireValues values, const T* in, T* out, std::int64_t count, int halvings) {
  chosen<T>().round(values, in, out, count, halvings);
}

#define WEIR_INSTANTIATE(T)                                                         \
  template std::int64_t bytes_of_value<T>(WireValues);                              \
  template void pack_values(WireValues, const T*, std::int64_t, std::byte*, int);   \
  template void unpack_values(WireValues, const std::byte*, std::int64_t, T*, int); \
  template void round_values(WireValues, const T*, T*, std::int64_t, int);

WEIR_INSTANTIATE(float)
WEIR_INSTANTIATE(double)
#undef WEIR_INSTANTIATE

}  // namespace weir::wire
#endif
