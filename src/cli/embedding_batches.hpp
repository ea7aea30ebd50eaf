// embedding_batches.hpp: ids of training steps for benchmarks: made up, or the words of a text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weir::cli {

/// batches[t] is what this rank looks up in step t.
using IdBatches = std::vector<std::vector<std::int64_t>>;

struct BatchShape {
  std::int64_t rows = 0;    ///< ids are below it
  std::int64_t tokens = 0;  ///< ids of a batch
  int steps = 0;
};

/// Zipf-distributed (exponent 1), from a fixed seed, other ones on every rank.
[[nodiscard]] IdBatches zipf_batches(const BatchShape& shape, int rank);

/// Words of a plain text: runs of ASCII letters, lower-cased. A word's id is its place by descending frequency, ties
/// alphabetically; words beyond the first rows - 1 share the last id. Every rank reads a part of its own, as large as the others',
/// in order. Throws std::runtime_error when the file cannot be read or has too few words.
[[nodiscard]] IdBatches text_batches(const std::string& file, const BatchShape& shape, int rank, int ranks);

}  // namespace weir::cli
