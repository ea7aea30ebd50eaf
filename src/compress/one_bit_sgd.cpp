// one_bit_sgd.cpp: 1-bit SGD (Seide, Fu, Droppo, Li, Yu: 1-bit stochastic gradient descent and its application to data-parallel
// distributed training of speech DNNs; Interspeech 2014, section 3): one bit says on which side of zero an element is. It decodes
// to the mean of the elements of its bucket on that side. The paper's buckets are the columns of weight matrices.
//
// Zero is on the positive side, and so is NaN. A side without elements has the mean 0. If a mean is not finite, all of that side
// decodes to NaN.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compress/one_bit_sgd.cpp"
#include <hwy/foreach_target.h>
// The order matters: foreach_target.h includes this file once per instruction set.
#include <hwy/highway.h>

#include <array>
#include <cmath>
#include <limits>
#include <memory>

#include "compress/compressor.hpp"
#include "compress/device_schemes.hpp"
#include "compress/quantiser-inl.hpp"
#include "compress/scales.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::compress::HWY_NAMESPACE {
namespace {

class SideMeans {
 public:
  static constexpr int headers = 2;
  static constexpr bool random = false, votes = false;
  struct Scale {
    float positive = 0, negative = 0;
    [[nodiscard]] bool blank() const { return false; }
  };

  [[nodiscard]] int bits() const { return 1; }
  void measure(const float* x, std::int64_t count, float* header) const {
    const double positive = sum_of(x, count, [](auto d, auto v) HWY_ATTR { return hn::IfThenZeroElse(hn::Lt(v, hn::Zero(d)), v); });
    const double negative = sum_of(x, count, [](auto d, auto v) HWY_ATTR { return hn::IfThenElseZero(hn::Lt(v, hn::Zero(d)), v); });
    const std::int64_t negatives = count_negatives(x, count);
    header[0] = mean_of(positive, count - negatives);
    header[1] = mean_of(negative, negatives);
  }
  [[nodiscard]] Scale scale(const float* header) const { return {header[0], header[1]}; }
  HWY_INLINE Ints encode(Scale, Floats x, Uints) const {
    const IntTag di;
    return hn::And(hn::BitCast(di, hn::VecFromMask(FloatTag(), hn::Lt(x, hn::Zero(FloatTag())))), hn::Set(di, 1));
  }
  HWY_INLINE Floats decode(Scale scale, Ints codes) const {
    const FloatTag d;
    const auto negative = hn::MaskFromVec(hn::BitCast(d, hn::Neg(codes)));
    return hn::IfThenElse(negative, hn::Set(d, scale.negative), hn::Set(d, scale.positive));
  }

 private:
  static float mean_of(double sum, std::int64_t count) {
    if (count == 0) return 0;
    const auto mean = static_cast<float>(sum / static_cast<double>(count));
    return std::isfinite(mean) ? mean : std::numeric_limits<float>::quiet_NaN();
  }
  static std::int64_t count_negatives(const float* x, std::int64_t count) {
    const FloatTag d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    std::int64_t negatives = 0, i = 0;
    for (; i + lanes <= count; i += lanes)
      negatives += static_cast<std::int64_t>(hn::CountTrue(d, hn::Lt(hn::LoadU(d, x + i), hn::Zero(d))));
    for (; i < count; ++i) negatives += x[i] < 0 ? 1 : 0;
    return negatives;
  }
};

std::unique_ptr<PackedCodec> make_one_bit_sgd(const Parameters& parameters) {
  return std::make_unique<Quantiser<SideMeans>>(SideMeans(), parameters.whole("bucket"));
}

}  // namespace
}  // namespace weir::compress::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir::compress {
namespace {

HWY_EXPORT(make_one_bit_sgd);
std::unique_ptr<PackedCodec> make(const Parameters& parameters) { return HWY_DYNAMIC_DISPATCH(make_one_bit_sgd)(parameters); }
DeviceScheme device_scheme(const Parameters& given) { return {DeviceSideMeans{}, given.whole("bucket")}; }

constexpr std::array parameters = {bucket_parameter(2048)};

}  // namespace

const CompressorRow one_bit_sgd_row = {
    .name = "one_bit_sgd",
    .description = "one bit an element, for the mean of the bucket's negative or of its other elements",
    .source = "Seide et al., Interspeech 2014, section 3",
    .parameters = parameters,
    .encode_adds = 1.3,
    .decode_adds = 0.5,
    .check = check_bucket,
    .codec = make,
    .device_scheme = device_scheme,
};

}  // namespace weir::compress
#endif
