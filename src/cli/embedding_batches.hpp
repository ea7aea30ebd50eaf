// embedding_batches.hpp: ids of embedding tables for benchmarks, synthetic or from the words of a text.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace weir::cli {

/// Ids of words: the r-th most frequent one has a probability proportional to 1 / r. Frequent ids are spread over the whole table.
/// Which ids are frequent depends only on `rows`. The draws also depend on `stream`.
class ZipfIds {
 public:
  explicit ZipfIds(std::int64_t rows, std::uint64_t stream = 0)
      : random_(stream + 1), id_of_rank_(static_cast<std::size_t>(rows)), cumulative_(id_of_rank_.size()) {
    std::iota(id_of_rank_.begin(), id_of_rank_.end(), 0u);
    std::shuffle(id_of_rank_.begin(), id_of_rank_.end(), std::mt19937_64(0));
    double sum = 0;
    for (std::size_t r = 0; r < cumulative_.size(); ++r) cumulative_[r] = sum += 1 / static_cast<double>(r + 1);
  }
  std::uint32_t next() {
    const double u = std::uniform_real_distribution<double>(0, cumulative_.back())(random_);
    const auto rank = std::upper_bound(cumulative_.begin(), cumulative_.end() - 1, u) - cumulative_.begin();
    return id_of_rank_[static_cast<std::size_t>(rank)];
  }

 private:
  std::mt19937_64 random_;
  std::vector<std::uint32_t> id_of_rank_;
  std::vector<double> cumulative_;
};

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
