// top_k.cpp: the k largest magnitudes (Aji, Heafield: Sparse communication for distributed gradient descent; EMNLP 2017), found by
// the plan's `threshold`.
#include "compress/compressor.hpp"

namespace weir::compress {

const CompressorRow top_k_row = {
    .name = "top_k",
    .description = "the k entries of largest magnitude, found as `threshold` says",
    .source = "Aji and Heafield, EMNLP 2017",
    .carriage = Carriage::sparse,
    .encode_adds = 0,
    .decode_adds = 0,
};

}  // namespace weir::compress
