// block_quantise.cpp: integers of 8 or 4 bits, or 8-bit floats (E4M3), with a scale for each block: the largest code stands for the
// largest magnitude. ZeRO++ and torchft do this without error feedback.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compress/block_quantise.cpp"
#include <hwy/foreach_target.h>
// The order matters: foreach_target.h includes this file once per instruction set.
#include <hwy/highway.h>

#include <array>
#include <memory>

#include "compress/compressor.hpp"
#include "compress/device_schemes.hpp"
#include "compress/quantiser-inl.hpp"
#include "compress/scales.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::compress::HWY_NAMESPACE {
namespace {

/// Rounds to the nearest of 2 s + 1 equidistant levels, ties to even.
class Integers {
 public:
  static constexpr int headers = 1;
  static constexpr bool random = false, votes = false;
  using Scale = LevelScale;

  explicit Integers(int levels) : levels_(levels) {}
  [[nodiscard]] int bits() const { return bits_for(2 * levels_); }
  void measure(const float* x, std::int64_t count, float* header) const { header[0] = largest_magnitude(x, count); }
  [[nodiscard]] Scale scale(const float* header) const { return level_scale(header[0], levels_); }

  HWY_INLINE Ints encode(Scale scale, Floats x, Uints) const {
    return hn::Add(hn::NearestInt(hn::Mul(x, hn::Set(FloatTag(), scale.per_value))), hn::Set(IntTag(), levels_));
  }
  HWY_INLINE Floats decode(Scale scale, Ints codes) const {
    const FloatTag d;
    return hn::Mul(hn::ConvertTo(d, hn::Sub(codes, hn::Set(IntTag(), levels_))), hn::Set(d, scale.per_level));
  }

 private:
  int levels_;
};

/// E4M3 without infinities (OCP 8-bit floating point specification): the largest code stands for 448.
class Float8 {
 public:
  static constexpr int headers = 1;
  static constexpr bool random = false, votes = false;
  using Scale = LevelScale;

  [[nodiscard]] int bits() const { return 8; }
  void measure(const float* x, std::int64_t count, float* header) const { header[0] = largest_magnitude(x, count); }
  [[nodiscard]] Scale scale(const float* header) const { return level_scale(header[0], 448); }

  HWY_INLINE Ints encode(Scale scale, Floats x, Uints) const {
    const FloatTag d;
    const IntTag di;
    const auto sign = hn::And(hn::BitCast(di, hn::ShiftRight<24>(hn::BitCast(UintTag(), x))), hn::Set(di, 0x80));
    const auto magnitude = hn::Min(hn::Mul(hn::Abs(x), hn::Set(d, scale.per_value)), hn::Set(d, 448.0f));
    const auto key = hn::BitCast(di, magnitude);
    const auto odd = hn::And(hn::ShiftRight<20>(key), hn::Set(di, 1));
    const auto rounded = hn::ShiftRight<20>(hn::Add(hn::Add(key, odd), hn::Set(di, (1 << 19) - 1)));
    const auto normal = hn::Sub(rounded, hn::Set(di, 120 << 3));
    const auto subnormal = hn::NearestInt(hn::Mul(magnitude, hn::Set(d, 512.0f)));
    const auto small = hn::Lt(key, hn::Set(di, 121 << 23));  // below 2^-6
    return hn::Or(sign, hn::IfThenElse(small, subnormal, normal));
  }
  HWY_INLINE Floats decode(Scale scale, Ints codes) const {
    const FloatTag d;
    const IntTag di;
    const auto bits = hn::And(codes, hn::Set(di, 0x7f));
    const auto normal = hn::BitCast(d, hn::Add(hn::ShiftLeft<20>(bits), hn::Set(di, 120 << 23)));
    const auto subnormal = hn::Mul(hn::ConvertTo(d, bits), hn::Set(d, 0x1p-9f));
    const auto magnitude =
        hn::IfThenElse(hn::MaskFromVec(hn::BitCast(d, hn::VecFromMask(di, hn::Lt(bits, hn::Set(di, 8))))), subnormal, normal);
    const auto sign = hn::ShiftLeft<24>(hn::And(codes, hn::Set(di, 0x80)));
    return hn::Mul(hn::BitCast(d, hn::Or(hn::BitCast(di, magnitude), sign)), hn::Set(d, scale.per_level));
  }
};

std::unique_ptr<PackedCodec> make_block_quantise(const Parameters& parameters) {
  const std::int64_t bucket = parameters.whole("bucket");
  switch (parameters.whole("format")) {
    case 0:
      return std::make_unique<Quantiser<Integers>>(Integers(127), bucket);
    case 1:
      return std::make_unique<Quantiser<Integers>>(Integers(7), bucket);
    default:
      return std::make_unique<Quantiser<Float8>>(Float8(), bucket);
  }
}

}  // namespace
}  // namespace weir::compress::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir::compress {
namespace {

HWY_EXPORT(make_block_quantise);
std::unique_ptr<PackedCodec> make(const Parameters& parameters) { return HWY_DYNAMIC_DISPATCH(make_block_quantise)(parameters); }
DeviceScheme device_scheme(const Parameters& given) {
  const std::int64_t format = given.whole("format"), bucket = given.whole("bucket");
  if (format == 2) return {DeviceFloat8{}, bucket};
  return {DeviceIntegers{format == 0 ? 127 : 7}, bucket};
}

constexpr std::array<std::string_view, 3> formats = {"int8", "int4", "fp8"};
constexpr std::array parameters = {
    ParameterInfo{.name = "format", .value = 0, .least = 0, .most = 2, .doc = "of an element", .words = formats},
    bucket_parameter(256),
};

}  // namespace

const CompressorRow block_quantise_row = {
    .name = "block_quantise",
    .description = "8 or 4-bit integers, or 8-bit floats, with a scale for each block",
    .source = "Weir; ZeRO++ (Wang et al., 2023) and torchft without error feedback",
    .parameters = parameters,
    .encode_adds = 0.8,
    .decode_adds = 0.7,
    .check = check_bucket,
    .codec = make,
    .device_scheme = device_scheme,
};

}  // namespace weir::compress
#endif
