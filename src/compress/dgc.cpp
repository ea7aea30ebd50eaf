// dgc.cpp: deep gradient compression (Lin, Han, Mao, Wang, Dally; ICLR 2018, Algorithm 4): the largest entries of accumulated
// velocities, with momentum correction, momentum factor masking and local clipping. The plan's warmup_iterations provides DGC's
// warm-up of the density, the plan's `threshold` its sampled threshold.
#include <array>

#include "compress/compressor.hpp"

namespace weir::compress {
namespace {

constexpr std::array parameters = {
    ParameterInfo{.name = "momentum", .value = 0.9, .least = 0, .most = 1, .doc = "m of v = m v + g", .whole = false},
    ParameterInfo{.name = "masking", .value = 1, .least = 0, .most = 1, .doc = "1: the velocity ends where an entry was delivered"},
    ParameterInfo{.name = "clip",
                  .value = 0,
                  .least = 0,
                  .most = 1e30,
                  .doc = "gradients are scaled down to a norm of clip / sqrt(P); 0: never",
                  .whole = false},
};

Momentum velocity(const Parameters& given) {
  return {.momentum = given["momentum"], .masked = given["masking"] != 0, .clip = given["clip"]};
}
/// Refuses to clip in sharded algorithms: a rank's norm must be that of its own gradient.
std::string_view why_not_by(const Parameters& given, const AllreduceRow& algorithm) {
  return given["clip"] != 0 && algorithm.sharded ? "it sums gradients in nodes first, and clip is for each rank's own"
                                                 : std::string_view();
}

}  // namespace

const CompressorRow dgc_row = {
    .name = "dgc",
    .description = "top_k of accumulated velocities: momentum correction, masking, clipping",
    .source = "Lin et al., ICLR 2018, Algorithm 4",
    .carriage = Carriage::sparse,
    .parameters = parameters,
    .encode_adds = 2,
    .decode_adds = 0,
    .momentum = velocity,
    .why_not_by = why_not_by,
};

}  // namespace weir::compress
