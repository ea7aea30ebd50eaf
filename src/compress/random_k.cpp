// random_k.cpp: k random places (Stich, Cordonnier, Jaggi: Sparsified SGD with memory; NeurIPS 2018), chosen anew on each rank and
// in each iteration. One place is drawn in each of k strata (strata.hpp), so that all places differ. Every element has the same
// chance to the nearest k / n, on which alone the paper's bounds of the error depend.
#include <array>

#include "compress/compressor.hpp"

namespace weir::compress {
namespace {

constexpr std::array parameters = {
    ParameterInfo{.name = "unbiased",
                  .value = 0,
                  .least = 0,
                  .most = 1,
                  .doc = "1: values are multiplied by n / k, so that sums are right on average; without error feedback"},
};

bool scales_up(const Parameters& given) { return given["unbiased"] != 0; }
std::string_view why_no_feedback(const Parameters& given) {
  return scales_up(given) ? "with unbiased=1 it sends more than there is" : std::string_view();
}
/// Refuses global top-k algorithms: without error feedback, the entries that they leave out are lost.
std::string_view why_not_by(const Parameters& given, const AllreduceRow& algorithm) {
  return scales_up(given) && !algorithm.delivers_all ? "it does not deliver all that was sent, and unbiased=1 needs that"
                                                     : std::string_view();
}

}  // namespace

const CompressorRow random_k_row = {
    .name = "random_k",
    .description = "k random entries, others on each rank",
    .source = "Stich et al., NeurIPS 2018, definition 2.1",
    .carriage = Carriage::sparse,
    .random = true,
    .parameters = parameters,
    .encode_adds = 0,
    .decode_adds = 0,
    .picking = Picking::random,
    .scales_up = scales_up,
    .why_not_by = why_not_by,
    .why_no_feedback = why_no_feedback,
};

}  // namespace weir::compress
