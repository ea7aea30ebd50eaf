// natural.cpp: natural compression (Horvath, Ho, Horvath, Sahu, Canini, Richtarik: Natural compression for distributed deep
// learning; 2019, definition 1): |x| between two powers of two is rounded at random to one of them, so that the mean is x. The sign
// and the exponent of the float travel, 9 bits.
//
// Denormal numbers become 0 or 2^-126, magnitudes above 2^127 become 2^127, and infinities become NaN.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compress/natural.cpp"
#include <hwy/foreach_target.h>
// The order matters: foreach_target.h includes this file once per instruction set.
#include <hwy/highway.h>

#include <algorithm>
#include <memory>

#include "compress/compressor.hpp"
#include "compress/device_schemes.hpp"
#include "compress/quantiser-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::compress::HWY_NAMESPACE {
namespace {

/// A message has, for each chunk of 256 elements, the exponents, a byte each, then the signs (code_bits.hpp). A shorter last chunk
/// is filled up with zeros to a multiple of 8.
class Natural final : public PackedCodec {
 public:
  [[nodiscard]] std::int64_t granularity() const override { return code_chunk; }
  [[nodiscard]] std::int64_t most_bytes(std::int64_t count) const override { return (code_bytes(count, 9) + 7) / 8 * 8; }
  [[nodiscard]] bool fixed_size() const override { return true; }

  std::int64_t encode(const Draw& draw, std::int64_t first, const float* values, std::int64_t count, std::byte* out,
                      float* rest) override {
    std::byte* const end = out + most_bytes(count);
    if (count > 0) std::fill(end - 8, end, std::byte{0});
    for (std::int64_t chunk = 0; chunk < count; chunk += code_chunk) {
      std::uint32_t random[code_chunk];
      random_group_bits(draw, static_cast<std::uint64_t>(first + chunk), random);
      const std::int64_t size = std::min(code_chunk, count - chunk);
      std::uint8_t exponents[code_chunk], signs[code_chunk];
      const float* x = values + chunk;
      float* to = rest != nullptr ? rest + chunk : nullptr;
      float padded[code_chunk], padded_rest[code_chunk];
      if (size < code_chunk) {
        std::fill(std::copy_n(x, size, padded), padded + code_chunk, 0.0f);
        x = padded;
        to = padded_rest;
      }
      encode_chunk(x, random, exponents, signs, to);
      if (size < code_chunk && rest != nullptr) std::copy_n(padded_rest, size, rest + chunk);
      const std::int64_t bytes = (size + 7) / 8 * 8;
      std::memcpy(out, exponents, static_cast<std::size_t>(bytes));
      out += bytes;
      out += size == code_chunk ? pack_chunk<1>(signs, out) : pack_codes(signs, bytes, 1, out);
    }
    return most_bytes(count);
  }

  void decode(const std::byte* in, std::int64_t bytes, std::int64_t count, float* sum, bool add) override {
    if (bytes != most_bytes(count))
      fail(WEIR_ERR_TRANSPORT, "a message of {} values has {} bytes instead of {}", count, bytes, most_bytes(count));
    for (std::int64_t chunk = 0; chunk < count; chunk += code_chunk) {
      const std::int64_t size = std::min(code_chunk, count - chunk), padded = (size + 7) / 8 * 8;
      std::uint8_t exponents[code_chunk] = {}, signs[code_chunk] = {};
      std::memcpy(exponents, in, static_cast<std::size_t>(padded));
      in += padded;
      in += size == code_chunk ? unpack_chunk<1>(in, signs) : unpack_codes(in, padded, 1, signs);
      if (size == code_chunk) {
        decode_chunk(exponents, signs, sum + chunk, add);
      } else {
        float last[code_chunk];
        decode_chunk(exponents, signs, last, false);
        for (std::int64_t i = 0; i < size; ++i) sum[chunk + i] = add ? sum[chunk + i] + last[i] : last[i];
      }
    }
  }

 private:
  static HWY_INLINE Floats value_of(Ints exponents, Ints signs) {
    const IntTag di;
    const auto power = hn::IfThenElse(hn::Eq(exponents, hn::Set(di, 255)), hn::Set(di, 0x7fc00000), hn::ShiftLeft<23>(exponents));
    return hn::BitCast(FloatTag(), hn::Or(power, hn::ShiftLeft<31>(signs)));
  }
  static void encode_chunk(const float* x, const std::uint32_t* random, std::uint8_t* exponents, std::uint8_t* signs, float* rest) {
    const FloatTag d;
    const IntTag di;
    const UintTag du;
    const hn::Rebind<std::uint8_t, IntTag> bytes;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    for (std::int64_t i = 0; i < code_chunk; i += lanes) {
      const auto values = hn::LoadU(d, x + i);
      const auto bits = hn::BitCast(di, values);
      const auto key = hn::And(bits, hn::Set(di, 0x7fffffff));
      // Adds random bits to the mantissa: a carry rounds up, with the mantissa as its probability, to the nearest 2^-16.
      const auto dither = hn::Add(hn::ShiftLeft<7>(hn::BitCast(di, hn::LoadU(du, random + i))), hn::Set(di, 64));
      const auto last = hn::Gt(key, hn::Set(di, (254 << 23) - 1));
      const auto exponent = hn::ShiftRight<23>(hn::IfThenElse(last, key, hn::Add(key, dither)));
      const auto sign = hn::BitCast(di, hn::ShiftRight<31>(hn::BitCast(du, bits)));
      hn::StoreU(wire::HWY_NAMESPACE::truncate(bytes, hn::BitCast(du, exponent)), bytes, exponents + i);
      hn::StoreU(wire::HWY_NAMESPACE::truncate(bytes, hn::BitCast(du, sign)), bytes, signs + i);
      if (rest != nullptr) hn::StoreU(hn::Sub(values, value_of(exponent, sign)), d, rest + i);
    }
  }
  static void decode_chunk(const std::uint8_t* exponents, const std::uint8_t* signs, float* sum, bool add) {
    const FloatTag d;
    const IntTag di;
    const hn::Rebind<std::uint8_t, IntTag> bytes;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    for (std::int64_t i = 0; i < code_chunk; i += lanes) {
      const auto values =
          value_of(hn::PromoteTo(di, hn::LoadU(bytes, exponents + i)), hn::PromoteTo(di, hn::LoadU(bytes, signs + i)));
      hn::StoreU(add ? hn::Add(hn::LoadU(d, sum + i), values) : values, d, sum + i);
    }
  }
};

std::unique_ptr<PackedCodec> make_natural(const Parameters&) { return std::make_unique<Natural>(); }

}  // namespace
}  // namespace weir::compress::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir::compress {
namespace {

HWY_EXPORT(make_natural);
std::unique_ptr<PackedCodec> make(const Parameters& parameters) { return HWY_DYNAMIC_DISPATCH(make_natural)(parameters); }
DeviceScheme device_scheme(const Parameters& /*given*/) { return {DeviceNatural{}}; }

}  // namespace

const CompressorRow natural_row = {
    .name = "natural",
    .description = "one of the two nearest powers of two, at random without bias: 9 bits",
    .source = "Horvath et al., 2019, definition 1",
    .random = true,
    .unbiased = true,
    .encode_adds = 0.9,
    .decode_adds = 0.7,
    .codec = make,
    .device_scheme = device_scheme,
};

}  // namespace weir::compress
#endif
