// Measures what share of a batch's gradients must travel, and what share must travel soon (EmbRace table 3).
#include <fmt/core.h>

#include "base/json.hpp"
#include "cli/bench_embedding.hpp"
#include "cli/bench_ranks.hpp"

namespace weir::cli {
namespace {

/// Percentages given in the paper's section 4.2.2.
struct PaperRow {
  SparsityResult sizes;
  double coalescing_saves, prior_saves;
};
constexpr std::array paper = {PaperRow{{"LM", 8.7, 6.9, 2.6}, 20.4, 61.8}, PaperRow{{"GNMT-8", 26.0, 12.2, 5.8}, 53.1, 52.5},
                              PaperRow{{"Transformer", 35.2, 16.6, 8.9}, 52.9, 46.3},
                              PaperRow{{"BERT-base", 36.0, 5.5, 3.2}, 84.7, 41.9}};

/// Returns the urgent share of the bytes of vectors and gradients. Vectors have as many bytes as coalesced gradients. If only the
/// network limits training, and nothing else travels, scheduled training stalls for this share of the stall without scheduling.
double urgent_share(const SparsityResult& r) {
  return r.coalesced_mb > 0 ? (r.coalesced_mb + r.prior_mb) / (2 * r.coalesced_mb) : 0;
}

/// Returns a saving in per cent.
double saved(double before, double after) { return before > 0 ? 100 * (1 - after / before) : 0; }

void print_row(std::string_view origin, const SparsityResult& sizes, double coalescing_saves, double prior_saves) {
  fmt::print("{:<28} {:>12.3f} {:>12.3f} {:>12.3f} {:>18.1f} {:>18.1f}\n", fmt::format("{}{}", sizes.ids, origin),
             sizes.original_mb, sizes.coalesced_mb, sizes.prior_mb, coalescing_saves, prior_saves);
}

}  // namespace

SparsityResult measure_sparsity(const Communicator& comm, const EmbeddingOptions& options, const EmbeddingInput& input) {
  // The rows that travel do not depend on their width.
  EmbeddingTable table(comm, {.rows = options.config.rows, .width = 1, .largest_batch = options.config.largest_batch});
  std::vector<float> vectors(static_cast<std::size_t>(options.config.largest_batch));
  std::array<double, 3> rows{};
  const int steps = options.iterations;
  Progress progress(comm.rank() == 0, "sparsity", steps);
  for (int t = options.warmup; t < options.warmup + steps; ++t) {
    table.lookup(input.ids(t), vectors).wait();
    table.prefetch(input.ids(t + 1));
    table.update(vectors).wait();
    const EmbeddingStatistics& s = table.statistics();
    rows[0] += static_cast<double>(s.tokens);
    rows[1] += static_cast<double>(s.distinct_rows);
    rows[2] += static_cast<double>(s.prior_rows);
    progress.at(t + 1 - options.warmup);
  }
  over_ranks(rows, MPI_SUM);
  const double mb = sizeof(float) * static_cast<double>(options.config.width) / 1e6 / steps / comm.size();
  return {options.text.empty() ? "Zipf" : "text", rows[0] * mb, rows[1] * mb, rows[2] * mb};
}

void print_sparsity(const SparsityResult& result) {
  fmt::print("\ngradients of a rank in a step, MB\n");
  fmt::print("{:<28} {:>12} {:>12} {:>12} {:>18} {:>18}\n", "ids", "original", "coalesced", "prior", "coalescing saves %",
             "prior saves %");
  print_row(" (these ids)", result, saved(result.original_mb, result.coalesced_mb), saved(result.coalesced_mb, result.prior_mb));
  for (const PaperRow& row : paper) print_row(" (EmbRace table 3)", row.sizes, row.coalescing_saves, row.prior_saves);
  fmt::print("{:.1f} % of a step's vectors and gradients must arrive before the next forward pass\n", 100 * urgent_share(result));
}

JsonValue to_json(const SparsityResult& r) {
  return {{"benchmark", "embedding_sparsity"},
          {"original_mb", r.original_mb},
          {"coalesced_mb", r.coalesced_mb},
          {"prior_mb", r.prior_mb},
          {"coalescing_saves_percent", saved(r.original_mb, r.coalesced_mb)},
          {"prior_saves_percent", saved(r.coalesced_mb, r.prior_mb)},
          {"urgent_share", urgent_share(r)}};
}

}  // namespace weir::cli
