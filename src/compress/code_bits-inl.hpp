// code_bits-inl.hpp: code_bits.hpp in vectors; compiled once per instruction set, as Highway's foreach_target.h asks.
#if defined(WEIR_COMPRESS_CODE_BITS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEIR_COMPRESS_CODE_BITS_INL
#undef WEIR_COMPRESS_CODE_BITS_INL
#else
#define WEIR_COMPRESS_CODE_BITS_INL
#endif

#include <hwy/highway.h>

#include "compress/code_bits.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::compress::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR
// A whole chunk is a multiple of 32 bytes in every plane.
using ByteTag = hn::CappedTag<std::uint8_t, 32>;

template <int width, int shift, int part, class V>
HWY_INLINE V or_parts(ByteTag d, const std::uint8_t* codes, std::int64_t stride, V sum) {
  if constexpr (part < 8 / width) {
    const auto code = hn::And(hn::ShiftRight<shift>(hn::LoadU(d, codes + part * stride)), hn::Set(d, (1 << width) - 1));
    return or_parts<width, shift, part + 1>(d, codes, stride, hn::Or(sum, hn::ShiftLeft<part * width>(code)));
  } else {
    return sum;
  }
}

/// Packs one plane, if the width has it.
template <int bits, int width>
HWY_INLINE std::byte* pack_plane(const std::uint8_t* HWY_RESTRICT codes, std::byte* HWY_RESTRICT out) {
  if constexpr ((bits & width) != 0) {
    const ByteTag d;
    constexpr std::int64_t bytes = code_chunk * width / 8;
    for (std::int64_t i = 0; i < bytes; i += static_cast<std::int64_t>(hn::Lanes(d)))
      hn::StoreU(or_parts<width, bits&(width - 1), 0>(d, codes + i, bytes, hn::Zero(d)), d,
                 reinterpret_cast<std::uint8_t*>(out + i));
    out += bytes;
  }
  return out;
}

template <int width, int shift, int part, class V>
HWY_INLINE void add_parts(ByteTag d, V byte, std::int64_t stride, std::uint8_t* codes) {
  if constexpr (part < 8 / width) {
    const auto code = hn::ShiftLeft<shift>(hn::And(hn::ShiftRight<part * width>(byte), hn::Set(d, (1 << width) - 1)));
    std::uint8_t* const to = codes + part * stride;
    hn::StoreU(shift == 0 ? code : hn::Or(hn::LoadU(d, to), code), d, to);
    add_parts<width, shift, part + 1>(d, byte, stride, codes);
  }
}

template <int bits, int width>
HWY_INLINE const std::byte* unpack_plane(const std::byte* HWY_RESTRICT in, std::uint8_t* HWY_RESTRICT codes) {
  if constexpr ((bits & width) != 0) {
    const ByteTag d;
    constexpr std::int64_t bytes = code_chunk * width / 8;
    for (std::int64_t i = 0; i < bytes; i += static_cast<std::int64_t>(hn::Lanes(d)))
      add_parts<width, bits&(width - 1), 0>(d, hn::LoadU(d, reinterpret_cast<const std::uint8_t*>(in + i)), bytes, codes + i);
    in += bytes;
  }
  return in;
}
#endif

/// Packs a whole chunk of codes of `bits` bits. Returns the bytes.
template <int bits>
HWY_INLINE std::int64_t pack_chunk(const std::uint8_t* HWY_RESTRICT codes, std::byte* HWY_RESTRICT out) {
#if HWY_TARGET == HWY_SCALAR
  return pack_codes(codes, code_chunk, bits, out);
#else
  out = pack_plane<bits, 1>(codes, out);
  out = pack_plane<bits, 2>(codes, out);
  out = pack_plane<bits, 4>(codes, out);
  pack_plane<bits, 8>(codes, out);
  return code_bytes(code_chunk, bits);
#endif
}

template <int bits>
HWY_INLINE std::int64_t unpack_chunk(const std::byte* HWY_RESTRICT in, std::uint8_t* HWY_RESTRICT codes) {
#if HWY_TARGET == HWY_SCALAR
  return unpack_codes(in, code_chunk, bits, codes);
#else
  in = unpack_plane<bits, 1>(in, codes);
  in = unpack_plane<bits, 2>(in, codes);
  in = unpack_plane<bits, 4>(in, codes);
  unpack_plane<bits, 8>(in, codes);
  return code_bytes(code_chunk, bits);
#endif
}

HWY_INLINE std::int64_t pack_chunk(const std::uint8_t* HWY_RESTRICT codes, int bits, std::byte* HWY_RESTRICT out) {
  switch (bits) {
    case 1:
      return pack_chunk<1>(codes, out);
    case 2:
      return pack_chunk<2>(codes, out);
    case 3:
      return pack_chunk<3>(codes, out);
    case 4:
      return pack_chunk<4>(codes, out);
    case 5:
      return pack_chunk<5>(codes, out);
    case 6:
      return pack_chunk<6>(codes, out);
    case 7:
      return pack_chunk<7>(codes, out);
    default:
      return pack_chunk<8>(codes, out);
  }
}
HWY_INLINE std::int64_t unpack_chunk(const std::byte* HWY_RESTRICT in, int bits, std::uint8_t* HWY_RESTRICT codes) {
  switch (bits) {
    case 1:
      return unpack_chunk<1>(in, codes);
    case 2:
      return unpack_chunk<2>(in, codes);
    case 3:
      return unpack_chunk<3>(in, codes);
    case 4:
      return unpack_chunk<4>(in, codes);
    case 5:
      return unpack_chunk<5>(in, codes);
    case 6:
      return unpack_chunk<6>(in, codes);
    case 7:
      return unpack_chunk<7>(in, codes);
    default:
      return unpack_chunk<8>(in, codes);
  }
}

}  // namespace weir::compress::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
