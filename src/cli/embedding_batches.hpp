// embedding_batches.hpp: ids of training steps for benchmarks, synthetic or from the words of a text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weir::cli {

/// batches[t] has the ids that this rank looks up in step t.
using IdBatches = std::vector<std::vector<std::int64_t>>;

struct BatchShape {
  std::int64_t rows = 0;    ///< upper bound of ids
  std::int64_t tokens = 0;  ///< ids per batch
  int steps = 0;
};

/// Makes Zipf-distributed ids (exponent 1) from a fixed seed, different on every rank.
[[nodiscard]] IdBatches zipf_batches(const BatchShape& shape, int rank);

/// Reads the words of a plain text: runs of ASCII letters, lower-cased. A word's id is its rank by descending frequency, ties
/// alphabetically. Words beyond the first rows - 1 share the last id. Each rank reads its own part in order; parts have equal
/// sizes. Throws std::runtime_error if the file cannot be read or has too few words.
[[nodiscard]] IdBatches text_batches(const std::string& file, const BatchShape& shape, int rank, int ranks);

}  // namespace weir::cli
