// threshold_v.cpp: all magnitudes above a fixed value (Dutta et al.: On the discrepancy between the theoretical analysis and
// practical implementations of compressed communication for distributed deep learning; AAAI 2020). The plan's k bounds their
// number: if more exceed the value, the k largest travel.
#include <array>

#include "compress/compressor.hpp"

namespace weir::compress {
namespace {

constexpr std::array parameters = {
    ParameterInfo{.name = "value",
                  .value = 0.01,
                  .least = 0,
                  .most = 1e30,
                  .doc = "v: magnitudes above it travel, the k largest at most",
                  .whole = false},
};

double value_of(const Parameters& given) { return given["value"]; }

}  // namespace

const CompressorRow threshold_v_row = {
    .name = "threshold_v",
    .description = "entries whose magnitude exceeds a fixed value, at most the k largest",
    .source = "Dutta et al., AAAI 2020",
    .carriage = Carriage::sparse,
    .parameters = parameters,
    .encode_adds = 0,
    .decode_adds = 0,
    .picking = Picking::above_value,
    .picking_value = value_of,
};

}  // namespace weir::compress
