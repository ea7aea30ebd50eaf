// bench_embedding.hpp: the options and the ids of `weir bench embedding`, and its measurement of training.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>
#include <weir/embedding.hpp>

#include "cli/embedding_batches.hpp"
#include "cli/report.hpp"

namespace weir::cli {

struct EmbeddingOptions {
  EmbeddingConfig config{.rows = 32000, .width = 512, .largest_batch = 4096};
  std::vector<std::string> exchanges;
  std::string text, json;
  std::int64_t dense_count = 1000000;
  std::optional<double> compute_ms;
  int iterations = 20, warmup = 3;
};

/// Steps 0 .. warmup - 1 are not measured. There is one batch more than steps, for the last step's prefetch.
struct EmbeddingInput {
  IdBatches batches;
  std::vector<float> gradients;  ///< tokens x width, the same in every step

  [[nodiscard]] std::span<const std::int64_t> ids(int step) const { return batches[static_cast<std::size_t>(step)]; }
};

/// Collective. Measures the time in a training step that is not computing (EmbRace section 5.4), in ms: the slowest rank's, median
/// over steps. There are three schemes: operations in order, blocks by priority, and blocks and rows by priority. `compute_ms` is
/// for the forward pass, and again for the backward pass.
[[nodiscard]] Rows measure_stalls(const Communicator& comm, const EmbeddingOptions& options, const EmbeddingInput& input,
                                  double compute_ms);
void print_stalls(const Rows& rows, double compute_ms, std::int64_t dense_count);

}  // namespace weir::cli
