// code_bits.hpp: the layout of codes of 1 to 8 bits in messages: in chunks of 256 codes, the last one shorter. A chunk of n codes,
// with n rounded up to a multiple of 8, has one plane for each bit set in the width, lowest first: width 6 has planes of 2 and 4
// bits. Plane byte i has code i in its lowest bits, then code i + 8 n' and so on, n' bytes apart, where n' is the number of bytes
// of the plane.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace weir::compress {

inline constexpr std::int64_t code_chunk = 256;

/// Returns the bytes of `count` codes.
[[nodiscard]] constexpr std::int64_t code_bytes(std::int64_t count, int bits) { return (count + 7) / 8 * bits; }

/// Returns the number of bits that the numbers 0, ..., most need.
[[nodiscard]] constexpr int bits_for(std::int64_t most) {
  int bits = 1;
  while (most >> bits != 0) ++bits;
  return bits;
}

/// Packs one chunk: `count` codes, a multiple of 8, at most code_chunk. Returns the bytes.
constexpr std::int64_t pack_codes(const std::uint8_t* codes, std::int64_t count, int bits, std::byte* out) {
  std::byte* const begin = out;
  for (int shift = 0, width = 1; width <= 8; width *= 2) {
    if ((bits & width) == 0) continue;
    const std::int64_t bytes = count * width / 8;
    for (std::int64_t i = 0; i < bytes; ++i) {
      unsigned byte = 0;
      for (int part = 0; part < 8 / width; ++part)
        byte |= (static_cast<unsigned>(codes[i + part * bytes]) >> shift & ((1U << width) - 1)) << (part * width);
      out[i] = static_cast<std::byte>(byte);
    }
    out += bytes;
    shift += width;
  }
  return out - begin;
}

constexpr std::int64_t unpack_codes(const std::byte* in, std::int64_t count, int bits, std::uint8_t* codes) {
  const std::byte* const begin = in;
  std::fill_n(codes, count, std::uint8_t{0});
  for (int shift = 0, width = 1; width <= 8; width *= 2) {
    if ((bits & width) == 0) continue;
    const std::int64_t bytes = count * width / 8;
    for (std::int64_t i = 0; i < bytes; ++i) {
      for (int part = 0; part < 8 / width; ++part) {
        const unsigned code = static_cast<unsigned>(in[i]) >> (part * width) & ((1U << width) - 1);
        codes[i + part * bytes] = static_cast<std::uint8_t>(codes[i + part * bytes] | code << shift);
      }
    }
    in += bytes;
    shift += width;
  }
  return in - begin;
}

}  // namespace weir::compress
