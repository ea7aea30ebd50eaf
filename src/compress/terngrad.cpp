// terngrad.cpp: TernGrad (Wen, Xu, Yan, Wu, Wang, Chen, Li: TernGrad: ternary gradients to reduce communication in distributed deep
// learning; NeurIPS 2017, section 3). With s the largest magnitude of a bucket, a value becomes s sign(x) with probability |x| / s,
// and 0 otherwise. Values are first clipped at `clip` standard deviations (equation 11), which loses the excess; without clipping,
// the mean is the original value. Deviations are measured from zero, so that a bucket of equal values is not clipped away.
//
// A bucket whose s is below 2^-100 decodes to zeros. A bucket with NaN or infinity decodes to NaN.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compress/terngrad.cpp"
#include <hwy/foreach_target.h>
// The order matters: foreach_target.h includes this file once per instruction set.
#include <hwy/highway.h>

#include <array>
#include <cmath>
#include <memory>

#include "compress/compressor.hpp"
#include "compress/device_schemes.hpp"
#include "compress/random_levels-inl.hpp"
#include "compress/scales.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::compress::HWY_NAMESPACE {
namespace {

struct ClippedLargest {
  static constexpr bool clips = true;
  double clip;

  float operator()(const float* x, std::int64_t count) const {
    if (clip == 0) return largest_magnitude(x, count);
    float largest = 0;
    const auto look = [&](const float* block, std::int64_t size) {
      const float here = largest_magnitude(block, size);
      if (!(here <= largest)) largest = std::isnan(largest) ? largest : here;
    };
    const double squares = sum_of(
        x, count, [](auto, auto v) HWY_ATTR { return hn::Mul(v, v); }, look);
    if (!std::isfinite(largest)) return largest;
    const double bound = clip * std::sqrt(squares / static_cast<double>(count));
    return bound < static_cast<double>(largest) ? static_cast<float>(bound) : largest;
  }
};

std::unique_ptr<PackedCodec> make_terngrad(const Parameters& parameters) {
  const RandomLevels<ClippedLargest> scheme(1, {parameters["clip"]});
  return std::make_unique<Quantiser<RandomLevels<ClippedLargest>>>(scheme, parameters.whole("bucket"));
}

}  // namespace
}  // namespace weir::compress::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir::compress {
namespace {

HWY_EXPORT(make_terngrad);
std::unique_ptr<PackedCodec> make(const Parameters& parameters) { return HWY_DYNAMIC_DISPATCH(make_terngrad)(parameters); }
DeviceScheme device_scheme(const Parameters& given) {
  const double clip = given["clip"];
  if (clip == 0) return {DeviceRandomLevels<Measure::largest, true>{1}, given.whole("bucket")};
  return {DeviceRandomLevels<Measure::squares, true>{1, clip}, given.whole("bucket")};
}

constexpr std::array parameters = {
    ParameterInfo{.name = "clip",
                  .value = 2.5,
                  .least = 0,
                  .most = 1e6,
                  .doc = "in standard deviations from zero, where values are clipped; 0: never, and the mean is kept",
                  .whole = false},
    bucket_parameter(0),
};

std::string_view why_no_feedback(const Parameters& /*given*/) { return "its errors exceed what it compresses"; }

}  // namespace

const CompressorRow terngrad_row = {
    .name = "terngrad",
    .description = "-1, 0 or 1 times each bucket's largest magnitude, at random",
    .source = "Wen et al., NeurIPS 2017, section 3",
    .random = true,
    .feedback = false,
    .parameters = parameters,
    .encode_adds = 1.6,
    .decode_adds = 0.6,
    .why_no_feedback = why_no_feedback,
    .check = check_bucket,
    .codec = make,
    .device_scheme = device_scheme,
};

}  // namespace weir::compress
#endif
