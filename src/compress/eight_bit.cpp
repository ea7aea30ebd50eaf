// eight_bit.cpp: 8-bit quantisation with the dynamic tree data type (Dettmers: 8-bit approximations for parallelism in deep
// learning; ICLR 2016, section 3). A code has a sign; z zeros, which divide by 10^z; a one; and 6 - z bits that bisect [0.1, 1]. It
// stands for the middle of the last interval. All values are divided by the largest magnitude of the bucket. A value gets the
// nearest code: from the largest magnitude down, errors are 0.7 % of it, then 1.4 % of a tenth of it, and so on.
//
// A bucket whose largest magnitude is below 2^-100 decodes to zeros. A bucket with NaN or infinity decodes to NaN.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compress/eight_bit.cpp"
#include <hwy/foreach_target.h>
// The order matters: foreach_target.h includes this file once per instruction set.
#include <hwy/highway.h>

#include <array>
#include <bit>
#include <memory>

#include "compress/compressor.hpp"
#include "compress/device_schemes.hpp"
#include "compress/dynamic_tree.hpp"
#include "compress/quantiser-inl.hpp"
#include "compress/scales.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::compress::HWY_NAMESPACE {
namespace {

constexpr DynamicTreeTables tables = dynamic_tree_tables();

class DynamicTree {
 public:
  static constexpr int headers = 1;
  static constexpr bool random = false, votes = false;
  using Scale = LevelScale;

  [[nodiscard]] int bits() const { return 8; }
  void measure(const float* x, std::int64_t count, float* header) const { header[0] = largest_magnitude(x, count); }
  [[nodiscard]] Scale scale(const float* header) const { return level_scale(header[0], 1); }

  HWY_INLINE Ints encode(Scale scale, Floats x, Uints) const {
    const FloatTag d;
    const IntTag di;
    const auto magnitude = hn::Mul(hn::Abs(x), hn::Set(d, scale.per_value));
    auto per_value = hn::Set(d, tables.none);
    for (int z = dynamic_tree_decades - 1; z >= 0; --z)
      per_value = hn::IfThenElse(hn::Ge(magnitude, hn::Set(d, tables.above[z])), hn::Set(d, tables.per_value[z]), per_value);
    const Ints at = slots(per_value);
    // first + floor((m 10^z - 0.1) / 0.9 first)
    const auto place = hn::Add(hn::Mul(magnitude, per_value), lookup(tables.offset, at));
    const auto code = hn::ConvertTo(di, hn::Min(hn::Max(place, lookup(tables.first, at)), lookup(tables.last, at)));
    return hn::Or(code, hn::And(hn::BitCast(di, hn::ShiftRight<24>(hn::BitCast(UintTag(), x))), hn::Set(di, 0x80)));
  }
  HWY_INLINE Floats decode(Scale scale, Ints codes) const {
    const FloatTag d;
    const IntTag di;
    const auto code = hn::And(codes, hn::Set(di, 0x7f));
    // The mantissa of code + 1/2 is 1 + (i + 1/2) / 2^(6 - z).
    const auto middle = hn::Add(hn::ConvertTo(d, code), hn::Set(d, 0.5f));
    const auto mantissa = hn::BitCast(d, hn::Or(hn::And(hn::BitCast(di, middle), hn::Set(di, 0x7fffff)), hn::Set(di, 127 << 23)));
    const auto fraction = hn::Sub(hn::Mul(mantissa, hn::Set(d, 0.9f)), hn::Set(d, 0.8f));
    const auto value = hn::Mul(hn::Mul(lookup(tables.power, slots(middle)), fraction), hn::Set(d, scale.per_level));
    return hn::Xor(value, hn::BitCast(d, hn::ShiftLeft<24>(hn::And(codes, hn::Set(di, 0x80)))));
  }

 private:
  static HWY_INLINE Ints slots(Floats numbers) {
    const IntTag di;
    return hn::And(hn::ShiftRight<23>(hn::BitCast(di, numbers)), hn::Set(di, 7));
  }
};

std::unique_ptr<PackedCodec> make_eight_bit(const Parameters& parameters) {
  return std::make_unique<Quantiser<DynamicTree>>(DynamicTree(), parameters.whole("bucket"));
}

}  // namespace
}  // namespace weir::compress::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir::compress {
namespace {

HWY_EXPORT(make_eight_bit);
std::unique_ptr<PackedCodec> make(const Parameters& parameters) { return HWY_DYNAMIC_DISPATCH(make_eight_bit)(parameters); }
DeviceScheme device_scheme(const Parameters& given) { return {DeviceDynamicTree{}, given.whole("bucket")}; }

constexpr std::array parameters = {bucket_parameter(0)};

}  // namespace

const CompressorRow eight_bit_row = {
    .name = "eight_bit",
    .description = "8-bit floats, whose exponents take 1 to 7 bits, of each bucket's largest magnitude",
    .source = "Dettmers, ICLR 2016, section 3",
    .parameters = parameters,
    .encode_adds = 1.6,
    .decode_adds = 0.7,
    .check = check_bucket,
    .codec = make,
    .device_scheme = device_scheme,
};

}  // namespace weir::compress
#endif
