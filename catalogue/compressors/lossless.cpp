// lossless.cpp: float32 or bfloat16 values with the exponents coded without loss, and sign and mantissa as they are. Sums are those
// of the values themselves. Fewer bytes travel, since few exponents are frequent.
//
// As float32, every value comes back bit for bit, including NaN and -0. As bfloat16, other values are rounded to the nearest
// bfloat16, ties to even; too large ones become the largest, and NaN stays NaN.
//
// A message is blocks of 65,536 values: planes of one byte of each value, the lowest first, the last with the sign above the upper
// seven bits of the mantissa; then the exponents (byte_huffman.hpp). Zeros fill it up to a multiple of 8 bytes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "catalogue/compressors/lossless.cpp"
#include <hwy/foreach_target.h>
// The order matters: foreach_target.h includes this file once per instruction set.
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>

#include "base/buffer.hpp"
#include "base/error.hpp"
#include "catalogue/compressors/byte_huffman.hpp"
#include "compress/compressor.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::compress::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::CappedTag<float, 16>;
using IntTag = hn::RebindToSigned<FloatTag>;
using UintTag = hn::RebindToUnsigned<FloatTag>;
using ByteTag = hn::Rebind<std::uint8_t, FloatTag>;
using Uints = hn::Vec<UintTag>;

/// The bytes of a value: `planes` besides the exponent.
struct Float32 {
  static constexpr int planes = 3;
  static HWY_INLINE Uints round(Uints bits) { return bits; }
};

struct Bfloat16 {
  static constexpr int planes = 1;
  static HWY_INLINE Uints round(Uints bits) {
    const UintTag d;
    const auto magnitude = hn::And(bits, hn::Set(d, 0x7fffffff));
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1));
    const auto rounded = hn::Min(hn::Add(hn::Add(magnitude, odd), hn::Set(d, 0x7fff)), hn::Set(d, 0x7f7fffff));
    // For values that are not finite: infinity has no low bits, and a NaN that loses some must not become infinity.
    const auto lost = hn::VecFromMask(d, hn::Ne(hn::And(magnitude, hn::Set(d, 0xffff)), hn::Zero(d)));
    const auto special = hn::Or(magnitude, hn::And(lost, hn::Set(d, 0x400000)));
    const auto result = hn::IfThenElse(hn::Gt(magnitude, hn::Set(d, 0x7f7fffff)), special, rounded);
    return hn::And(hn::Or(result, hn::Xor(bits, magnitude)), hn::Set(d, 0xffff0000));
  }
};

HWY_INLINE void store_byte(Uints x, std::uint8_t* out) {
  hn::StoreU(hn::DemoteTo(ByteTag(), hn::BitCast(IntTag(), hn::And(x, hn::Set(UintTag(), 0xff)))), ByteTag(), out);
}
HWY_INLINE Uints load_byte(const std::uint8_t* from) {
  return hn::BitCast(UintTag(), hn::PromoteTo(IntTag(), hn::LoadU(ByteTag(), from)));
}

/// Splits one vector of values. Plane p is at planes + p * stride.
template <class Format>
HWY_INLINE void split(const float* x, std::uint8_t* planes, std::int64_t stride, std::uint8_t* exponents, float* rest) {
  const FloatTag d;
  const auto values = hn::LoadU(d, x);
  const auto bits = Format::round(hn::BitCast(UintTag(), values));
  if constexpr (Format::planes == 3) {
    store_byte(bits, planes);
    store_byte(hn::ShiftRight<8>(bits), planes + stride);
  }
  const auto upper = hn::And(hn::ShiftRight<16>(bits), hn::Set(UintTag(), 0x7f));
  store_byte(hn::Or(upper, hn::ShiftLeft<7>(hn::ShiftRight<31>(bits))), planes + (Format::planes - 1) * stride);
  store_byte(hn::ShiftRight<23>(bits), exponents);
  if (rest != nullptr) hn::StoreU(hn::Sub(values, hn::BitCast(d, bits)), d, rest);
}

template <class Format>
HWY_INLINE hn::Vec<FloatTag> join(const std::uint8_t* planes, std::int64_t stride, const std::uint8_t* exponents) {
  const UintTag d;
  const auto top = load_byte(planes + (Format::planes - 1) * stride);
  auto bits = hn::Or(hn::ShiftLeft<23>(load_byte(exponents)), hn::ShiftLeft<16>(hn::And(top, hn::Set(d, 0x7f))));
  bits = hn::Or(bits, hn::ShiftLeft<31>(hn::ShiftRight<7>(top)));
  if constexpr (Format::planes == 3) bits = hn::Or(bits, hn::Or(load_byte(planes), hn::ShiftLeft<8>(load_byte(planes + stride))));
  return hn::BitCast(FloatTag(), bits);
}

template <class Format>
class Lossless final : public PackedCodec {
 public:
  [[nodiscard]] std::int64_t granularity() const override { return 256; }
  [[nodiscard]] std::int64_t most_bytes(std::int64_t count) const override {
    const std::int64_t blocks = (count + huffman_block - 1) / huffman_block;
    return (count * Format::planes + count + blocks * most_block_bytes(0) + 7) / 8 * 8;
  }
  [[nodiscard]] bool fixed_size() const override { return false; }
  [[nodiscard]] std::int64_t memory_bytes() const override { return exponents_.bytes(); }

  std::int64_t encode(const Draw&, std::int64_t /*first*/, const float* values, std::int64_t count, std::byte* out,
                      float* rest) override {
    std::byte* to = out;
    for (std::int64_t begin = 0; begin < count; begin += huffman_block) {
      const std::int64_t size = std::min(huffman_block, count - begin);
      split_block(values + begin, size, reinterpret_cast<std::uint8_t*>(to), rest != nullptr ? rest + begin : nullptr);
      to += size * Format::planes;
      to += encode_block(exponents_.data(), size, to);
    }
    while ((to - out) % 8 != 0) *to++ = std::byte{0};
    return to - out;
  }

  void decode(const std::byte* in, std::int64_t bytes, std::int64_t count, float* sum, bool add) override {
    std::int64_t at = 0;
    for (std::int64_t begin = 0; begin < count; begin += huffman_block) {
      const std::int64_t size = std::min(huffman_block, count - begin);
      const std::byte* const planes = in + at;
      at += size * Format::planes;
      if (at > bytes) fail(WEIR_ERR_TRANSPORT, "a message of {} values ends early, after {} bytes", count, bytes);
      at += decode_block(in + at, bytes - at, size, exponents_.data());
      join_block(reinterpret_cast<const std::uint8_t*>(planes), size, sum + begin, add);
    }
    if ((at + 7) / 8 * 8 != bytes)
      fail(WEIR_ERR_TRANSPORT, "a message of {} values has {} bytes instead of {}", count, bytes, (at + 7) / 8 * 8);
  }

 private:
  static constexpr std::int64_t padding = 16;  // for one vector

  void split_block(const float* x, std::int64_t size, std::uint8_t* planes, float* rest) {
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(FloatTag()));
    std::int64_t i = 0;
    for (; i + lanes <= size; i += lanes)
      split<Format>(x + i, planes + i, size, exponents_.data() + i, rest != nullptr ? rest + i : nullptr);
    if (i == size) return;
    float padded[padding] = {}, padded_rest[padding];
    std::uint8_t padded_planes[Format::planes * padding], padded_exponents[padding];
    std::copy_n(x + i, size - i, padded);
    split<Format>(padded, padded_planes, padding, padded_exponents, padded_rest);
    for (int p = 0; p < Format::planes; ++p) std::copy_n(padded_planes + p * padding, size - i, planes + p * size + i);
    std::copy_n(padded_exponents, size - i, exponents_.data() + i);
    if (rest != nullptr) std::copy_n(padded_rest, size - i, rest + i);
  }

  void join_block(const std::uint8_t* planes, std::int64_t size, float* sum, bool add) {
    const FloatTag d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    std::int64_t i = 0;
    for (; i + lanes <= size; i += lanes) {
      const auto values = join<Format>(planes + i, size, exponents_.data() + i);
      hn::StoreU(add ? hn::Add(hn::LoadU(d, sum + i), values) : values, d, sum + i);
    }
    if (i == size) return;
    std::uint8_t padded_planes[Format::planes * padding] = {}, padded_exponents[padding] = {};
    for (int p = 0; p < Format::planes; ++p) std::copy_n(planes + p * size + i, size - i, padded_planes + p * padding);
    std::copy_n(exponents_.data() + i, size - i, padded_exponents);
    float padded[padding] = {};
    if (add) std::copy_n(sum + i, size - i, padded);
    const auto values = join<Format>(padded_planes, padding, padded_exponents);
    hn::StoreU(add ? hn::Add(hn::LoadU(d, padded), values) : values, d, padded);
    std::copy_n(padded, size - i, sum + i);
  }

  Buffer<std::uint8_t> exponents_{huffman_block};
};

std::unique_ptr<PackedCodec> make_lossless(const Parameters& parameters) {
  if (parameters.whole("type") == 0) return std::make_unique<Lossless<Float32>>();
  return std::make_unique<Lossless<Bfloat16>>();
}

}  // namespace
}  // namespace weir::compress::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir::compress {
namespace {

HWY_EXPORT(make_lossless);
std::unique_ptr<PackedCodec> make(const Parameters& parameters) { return HWY_DYNAMIC_DISPATCH(make_lossless)(parameters); }

constexpr std::array<std::string_view, 2> types = {"float32", "bfloat16"};
constexpr std::array parameters = {
    ParameterInfo{.name = "type",
                  .value = 0,
                  .least = 0,
                  .most = 1,
                  .doc = "of the values; as bfloat16, other values are rounded to the nearest",
                  .words = types},
};

}  // namespace

const CompressorRow lossless_row = {
    .name = "lossless",
    .description = "exponents coded without loss, sign and mantissa as they are: exact sums with fewer bytes",
    .source = "Weir; a canonical Huffman code for each 65,536 values",
    .unbiased = true,
    .feedback = false,
    .parameters = parameters,
    .encode_adds = 4,
    .decode_adds = 3,
    .streams = false,
    .codec = make,
};

}  // namespace weir::compress
#endif
