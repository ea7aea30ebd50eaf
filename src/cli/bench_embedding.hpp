// bench_embedding.hpp: the three measurements of `weir bench embedding`, in the same run and on the same ids.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>
#include <weir/embedding.hpp>

#include "base/json.hpp"
#include "cli/embedding_batches.hpp"

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

/// Lookup and update of one exchange; every operation is waited for. Times are the slowest rank's, median over steps. Bytes are the
/// largest that a rank sends in a step, mean over steps.
struct ExchangeResult {
  std::string exchange;
  double step_ms = 0, lookup_ms = 0, update_ms = 0;
  double id_bytes = 0, vector_bytes = 0, gradient_bytes = 0, total_bytes = 0;
  /// Bytes of vectors and gradients, without and with ids, divided by 2 (P - 1) / P x the distinct rows of the batch. Means over
  /// ranks.
  double volume = 0, volume_with_ids = 0;
  double allocations = 0;  ///< calls of operator new in a step, maximum over ranks
};
/// Collective.
[[nodiscard]] ExchangeResult measure_exchange(const Communicator& comm, const EmbeddingOptions& options,
                                              const EmbeddingInput& input, const std::string& exchange);
/// The first of `results` must be that of "columns".
void print_exchanges(const std::vector<ExchangeResult>& results);

/// Sizes of a rank's gradients in a step (EmbRace table 3): mean over ranks and steps, in 1e6 bytes of float32.
struct SparsityResult {
  std::string_view ids;
  double original_mb = 0;   ///< of all tokens
  double coalesced_mb = 0;  ///< of distinct rows
  double prior_mb = 0;      ///< of those that the next batch of any rank needs
};
/// Collective.
[[nodiscard]] SparsityResult measure_sparsity(const Communicator& comm, const EmbeddingOptions& options,
                                              const EmbeddingInput& input);
void print_sparsity(const SparsityResult& result);

/// Time in a training step that is not computing (EmbRace section 5.4), in ms: the slowest rank's, median over steps.
struct StallResult {
  std::string_view scheme;
  double stall_ms = 0;                                                 ///< the sum of:
  double lookup_ms = 0, block_ms = 0, update_ms = 0, progress_ms = 0;  ///< waits, calls, and Operation::test between computing
};
/// Collective. Measures three schemes: operations in order, blocks by priority, and blocks and rows by priority. `compute_ms` is
/// for the forward pass, and again for the backward pass.
[[nodiscard]] std::vector<StallResult> measure_stalls(const Communicator& comm, const EmbeddingOptions& options,
                                                      const EmbeddingInput& input, double compute_ms);
void print_stalls(const std::vector<StallResult>& results, double compute_ms, std::int64_t dense_count);

/// Convert to rows of a JSON list, without the fields common to all.
[[nodiscard]] JsonValue to_json(const ExchangeResult& result, const ExchangeResult& columns);
[[nodiscard]] JsonValue to_json(const SparsityResult& result);
[[nodiscard]] JsonValue to_json(const StallResult& result, const std::vector<StallResult>& all, double compute_ms);

}  // namespace weir::cli
