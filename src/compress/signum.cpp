// signum.cpp: SIGNUM, sign_sgd of a velocity (Bernstein, Wang, Azizzadenesheli, Anandkumar: signSGD: compressed optimisation for
// non-convex problems; ICML 2018, Algorithm 2).
#include <array>

#include "compress/compressor.hpp"
#include "compress/device_schemes.hpp"

namespace weir::compress {
namespace {

constexpr std::array parameters = {
    ParameterInfo{
        .name = "momentum", .value = 0.9, .least = 0, .most = 0.9999, .doc = "beta of v = beta v + (1 - beta) g", .whole = false},
};

Momentum velocity(const Parameters& given) {
  const double momentum = given["momentum"];
  return {.momentum = momentum, .gain = 1 - momentum};
}

}  // namespace

const CompressorRow signum_row = {
    .name = "signum",
    .description = "signs of a velocity; the update is the majority's sign",
    .source = "Bernstein et al., ICML 2018, Algorithm 2",
    .feedback = false,
    .parameters = parameters,
    .encode_adds = 0.6,
    .decode_adds = 0.6,
    .momentum = velocity,
    .why_no_feedback = [](const Parameters& given) { return sign_sgd_row.why_no_feedback(given); },
    .codec = [](const Parameters& given) { return sign_sgd_row.codec(given); },
    .device_scheme = [](const Parameters& given) { return sign_sgd_row.device_scheme(given); },
};

}  // namespace weir::compress
