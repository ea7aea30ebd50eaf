// qsgd.cpp: QSGD (Alistarh, Grubic, Li, Tomioka, Vojnovic: QSGD: communication-efficient SGD via gradient quantization and
// encoding; NeurIPS 2017, section 3.1): |x| / ||bucket||_2 is rounded at random to one of the levels 0, 1/s, ..., 1, without bias.
//
// A bucket whose norm is below 2^-100 decodes to zeros. A bucket with NaN or infinity decodes to NaN.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compress/qsgd.cpp"
#include <hwy/foreach_target.h>
// The order matters: foreach_target.h includes this file once per instruction set.
#include <hwy/highway.h>

#include <algorithm>
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

struct Norm {
  static constexpr bool clips = false;
  float operator()(const float* x, std::int64_t count) const { return norm_of(sum_of_squares(x, count)); }
};

std::unique_ptr<PackedCodec> make_qsgd(const Parameters& parameters) {
  const RandomLevels<Norm> scheme(static_cast<int>(parameters.whole("levels")), {});
  return std::make_unique<Quantiser<RandomLevels<Norm>>>(scheme, parameters.whole("bucket"));
}

}  // namespace
}  // namespace weir::compress::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir::compress {
namespace {

HWY_EXPORT(make_qsgd);
std::unique_ptr<PackedCodec> make(const Parameters& parameters) { return HWY_DYNAMIC_DISPATCH(make_qsgd)(parameters); }
DeviceScheme device_scheme(const Parameters& given) {
  return {DeviceRandomLevels<Measure::squares, false>{static_cast<int>(given.whole("levels"))}, given.whole("bucket")};
}

constexpr std::array parameters = {
    ParameterInfo{.name = "levels",
                  .value = 7,
                  .least = 1,
                  .most = 127,
                  .doc = "s; a code takes the bits of 2 s + 1 values: 7 takes 4, 127 takes 8"},
    bucket_parameter(512),
};

/// Refuses error feedback unless min(d / s^2, sqrt(d) / s) < 1. By lemma 3.1 the error of a bucket of d values is at most that
/// times their squared norm.
std::string_view why_no_feedback(const Parameters& given) {
  const double s = given["levels"], d = given["bucket"];
  const bool contracts = d != 0 && std::min(d / (s * s), std::sqrt(d) / s) < 1;
  return contracts
             ? std::string_view()
             : "its errors may exceed what it compresses, with so few levels for a bucket (with levels=127,bucket=512 they do not)";
}

}  // namespace

const CompressorRow qsgd_row = {
    .name = "qsgd",
    .description = "levels of each bucket's Euclidean norm, rounded at random without bias",
    .source = "Alistarh et al., NeurIPS 2017, section 3.1",
    .random = true,
    .unbiased = true,
    .feedback = false,
    .parameters = parameters,
    .encode_adds = 1.2,
    .decode_adds = 0.6,
    .why_no_feedback = why_no_feedback,
    .check = check_bucket,
    .codec = make,
    .device_scheme = device_scheme,
};

}  // namespace weir::compress
#endif
