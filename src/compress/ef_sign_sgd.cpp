// ef_sign_sgd.cpp: EF-signSGD (Karimireddy, Rebjock, Stich, Jaggi: Error feedback fixes signSGD and other gradient compression
// schemes; ICML 2019, Algorithm 1): sign(x) times the mean magnitude of the bucket, ||x||_1 / d. Error feedback keeps what is lost.
// The ranks' results are averaged, and do not include a learning rate.
//
// Zero counts as positive. If the mean is not finite, all of the bucket decodes to NaN.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compress/ef_sign_sgd.cpp"
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

class ScaledSigns {
 public:
  static constexpr int headers = 1;
  static constexpr bool random = false, votes = false;
  struct Scale {
    float magnitude = 0;
    [[nodiscard]] bool blank() const { return !(magnitude > 0); }
  };

  [[nodiscard]] int bits() const { return 1; }
  void measure(const float* x, std::int64_t count, float* header) const {
    const auto mean = static_cast<float>(sum_of_magnitudes(x, count) / static_cast<double>(count));
    header[0] = std::isfinite(mean) ? mean : std::numeric_limits<float>::quiet_NaN();
  }
  [[nodiscard]] Scale scale(const float* header) const {
    if (!std::isfinite(header[0])) return {std::numeric_limits<float>::quiet_NaN()};
    return {std::abs(header[0])};
  }
  HWY_INLINE Ints encode(Scale, Floats x, Uints) const {
    // 1 for negative numbers: -0 is not negative
    return hn::BitCast(IntTag(), hn::ShiftRight<31>(hn::BitCast(UintTag(), hn::Add(x, hn::Zero(FloatTag())))));
  }
  HWY_INLINE Floats decode(Scale scale, Ints codes) const {
    const FloatTag d;
    return hn::Or(hn::Set(d, scale.magnitude), hn::BitCast(d, hn::ShiftLeft<31>(codes)));
  }
};

std::unique_ptr<PackedCodec> make_ef_sign_sgd(const Parameters& parameters) {
  return std::make_unique<Quantiser<ScaledSigns>>(ScaledSigns(), parameters.whole("bucket"));
}

}  // namespace
}  // namespace weir::compress::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir::compress {
namespace {

HWY_EXPORT(make_ef_sign_sgd);
std::unique_ptr<PackedCodec> make(const Parameters& parameters) { return HWY_DYNAMIC_DISPATCH(make_ef_sign_sgd)(parameters); }
DeviceScheme device_scheme(const Parameters& given) { return {DeviceScaledSigns{}, given.whole("bucket")}; }

constexpr std::array parameters = {bucket_parameter(0)};

}  // namespace

const CompressorRow ef_sign_sgd_row = {
    .name = "ef_sign_sgd",
    .description = "signs times each bucket's mean magnitude",
    .source = "Karimireddy et al., ICML 2019, Algorithm 1",
    .parameters = parameters,
    .encode_adds = 1.1,
    .decode_adds = 0.6,
    .check = check_bucket,
    .codec = make,
    .device_scheme = device_scheme,
};

}  // namespace weir::compress
#endif
