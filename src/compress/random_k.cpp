// random_k.cpp: k random places (Stich, Cordonnier, Jaggi: Sparsified SGD with memory; NeurIPS 2018), another choice on each rank
// and in each iteration. One is drawn in each of k strata (strata.hpp), so that no place comes twice: every element has the same
// chance to the nearest k / n, and the paper's bounds on the error, which depend on nothing else, hold.
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
/// What a global top-k leaves out stays out, without a memory.
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
