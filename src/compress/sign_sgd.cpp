// sign_sgd.cpp: signSGD with majority vote (Bernstein, Wang, Azizzadenesheli, Anandkumar: signSGD: compressed optimisation for
// non-convex problems; ICML 2018, Algorithms 1 and 3).
//
// Each element takes one bit. Zero counts as positive, and so does a tied vote. NaN counts by its sign bit.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compress/sign_sgd.cpp"
#include <hwy/foreach_target.h>
// The order matters: foreach_target.h includes this file once per instruction set.
#include <hwy/highway.h>

#include <memory>

#include "compress/compressor.hpp"
#include "compress/device_schemes.hpp"
#include "compress/quantiser-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::compress::HWY_NAMESPACE {
namespace {

class Signs {
 public:
  static constexpr int headers = 0;
  static constexpr bool random = false, votes = true;
  struct Scale {
    [[nodiscard]] bool blank() const { return false; }
  };

  [[nodiscard]] int bits() const { return 1; }
  [[nodiscard]] Scale scale(const float*) const { return {}; }
  HWY_INLINE Ints encode(Scale, Floats x, Uints) const {
    // 1 for negative numbers: -0 is not negative
    return hn::BitCast(IntTag(), hn::ShiftRight<31>(hn::BitCast(UintTag(), hn::Add(x, hn::Zero(FloatTag())))));
  }
  HWY_INLINE Floats decode(Scale, Ints codes) const {
    const FloatTag d;
    return hn::Sub(hn::Set(d, 1.0f), hn::ConvertTo(d, hn::Add(codes, codes)));
  }
};

std::unique_ptr<PackedCodec> make_signs(const Parameters&) { return std::make_unique<Quantiser<Signs>>(Signs(), 0); }

}  // namespace
}  // namespace weir::compress::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir::compress {
namespace {

HWY_EXPORT(make_signs);
std::unique_ptr<PackedCodec> make(const Parameters& parameters) { return HWY_DYNAMIC_DISPATCH(make_signs)(parameters); }
DeviceScheme device_scheme(const Parameters& /*given*/) { return {DeviceSigns{}}; }

std::string_view votes(const Parameters&) { return "it sends votes, of which nothing is left over"; }

}  // namespace

const CompressorRow sign_sgd_row = {
    .name = "sign_sgd",
    .description = "signs; the update is the majority's sign",
    .source = "Bernstein et al., ICML 2018, Algorithm 3",
    .feedback = false,
    .encode_adds = 0.6,
    .decode_adds = 0.6,
    .why_no_feedback = votes,
    .codec = make,
    .device_scheme = device_scheme,
};

}  // namespace weir::compress
#endif
