// Measures every exchange of an embedding table against `columns`, and against the volume that it needs.
#include <fmt/core.h>

#include "base/json.hpp"
#include "cli/bench_embedding.hpp"
#include "cli/bench_ranks.hpp"
#include "cli/report.hpp"

namespace weir::cli {
namespace {

// Required ratios of the other exchanges' times to that of columns: 4 one-rank nodes, 1 Gbit/s; for allgather also 8 nodes.
constexpr double dense_bound = 5, allgather_bound_4 = 1.5, allgather_bound_8 = 2.5;
// Upper bound of the volume of columns.
constexpr double volume_bound = 1.05;

/// Collected over all steps: each time, and sums of the rest.
struct Sums {
  std::vector<double> step, lookup, update;
  std::array<double, 5> most{};   ///< maxima over ranks: bytes of ids, vectors, gradients, everything; calls of operator new
  std::array<double, 3> total{};  ///< sums over ranks: bytes of ids, bytes of vectors and gradients, elements of distinct rows
};

void add_times(Sums& sums, std::array<double, 3> times) {
  over_ranks(times, MPI_MAX);
  sums.lookup.push_back(times[0] * 1e3);
  sums.update.push_back(times[1] * 1e3);
  sums.step.push_back(times[2] * 1e3);
}

void add_counts(Sums& sums, const EmbeddingTable& table, std::int64_t allocations) {
  const EmbeddingStatistics& s = table.statistics();
  const auto ids = static_cast<double>(s.id_bytes_sent), vectors = static_cast<double>(s.lookup_bytes_sent);
  const auto gradients = static_cast<double>(s.gradient_bytes_sent), control = static_cast<double>(s.control_bytes_sent);
  std::array<double, 5> most = {ids, vectors, gradients, ids + vectors + gradients + control, static_cast<double>(allocations)};
  std::array<double, 3> total = {ids, vectors + gradients, static_cast<double>(s.distinct_rows * table.config().width)};
  over_ranks(most, MPI_MAX);
  over_ranks(total, MPI_SUM);
  for (std::size_t i = 0; i < most.size(); ++i) sums.most[i] += most[i];
  for (std::size_t i = 0; i < total.size(); ++i) sums.total[i] += total[i];
}

ExchangeResult summarise(const Sums& sums, const EmbeddingConfig& config, int ranks) {
  const auto steps = static_cast<double>(sums.step.size());
  const double value_bytes = config.wire_values == WireValues::native ? 4 : 2;
  const double needed = 2.0 * (ranks - 1) / ranks * sums.total[2] * value_bytes;
  return {.exchange = config.exchange,
          .step_ms = median(sums.step),
          .lookup_ms = median(sums.lookup),
          .update_ms = median(sums.update),
          .id_bytes = sums.most[0] / steps,
          .vector_bytes = sums.most[1] / steps,
          .gradient_bytes = sums.most[2] / steps,
          .total_bytes = sums.most[3] / steps,
          .volume = needed > 0 ? sums.total[1] / needed : 0,
          .volume_with_ids = needed > 0 ? (sums.total[1] + sums.total[0]) / needed : 0,
          .allocations = sums.most[4] / steps};
}

}  // namespace

ExchangeResult measure_exchange(const Communicator& comm, const EmbeddingOptions& options, const EmbeddingInput& input,
                                const std::string& exchange) {
  EmbeddingConfig config = options.config;
  config.exchange = exchange;
  EmbeddingTable table(comm, config);
  std::vector<float> vectors(input.gradients.size());
  Sums sums;
  Progress progress(comm.rank() == 0, exchange, options.warmup + options.iterations);
  for (int t = 0; t < options.warmup + options.iterations; ++t) {
    MPI_Barrier(MPI_COMM_WORLD);
    const std::int64_t allocations = allocations_so_far();
    const double begin = MPI_Wtime();
    table.lookup(input.ids(t), vectors).wait();
    const double middle = MPI_Wtime();
    table.update(input.gradients).wait();
    const double end = MPI_Wtime();
    const std::int64_t allocated = allocations_so_far() - allocations;
    progress.at(t + 1);
    if (t < options.warmup) continue;
    add_times(sums, {middle - begin, end - middle, end - begin});
    add_counts(sums, table, allocated);
  }
  return summarise(sums, config, comm.size());
}

void print_exchanges(const std::vector<ExchangeResult>& results) {
  fmt::print("Lookup and update; every operation is waited for. bytes: the most that a rank sends in a step\n");
  fmt::print("{:<16} {:>10} {:>10} {:>10} {:>16} {:>10} {:>12} {:>12} {:>12} {:>8} {:>9} {:>7}\n", "exchange", "step ms",
             "lookup ms", "update ms", "columns is", "id bytes", "vectors", "gradients", "total", "volume", "with ids", "allocs");
  for (const ExchangeResult& r : results) {
    fmt::print("{:<16} {:>10.3f} {:>10.3f} {:>10.3f} {:>16} {:>10.0f} {:>12.0f} {:>12.0f} {:>12.0f} {:>8.3f} {:>9.3f} {:>7.3g}\n",
               r.exchange, r.step_ms, r.lookup_ms, r.update_ms, fmt::format("{:.2f} x faster", r.step_ms / results[0].step_ms),
               r.id_bytes, r.vector_bytes, r.gradient_bytes, r.total_bytes, r.volume, r.volume_with_ids, r.allocations);
  }
  fmt::print(
      "volume: bytes of vectors and gradients, relative to 2 (P - 1) / P x the distinct rows of the batch; mean over ranks\n"
      "bounds for nodes of one rank at 1 Gbit/s: dense_allreduce / columns at least {} on 4 nodes; allgather / columns at\n"
      "least {} on 4 nodes, {} on 8\n"
      "bounds on any network: volume of columns at most {}, also with ids; no allocations\n",
      dense_bound, allgather_bound_4, allgather_bound_8, volume_bound);
}

JsonValue to_json(const ExchangeResult& r, const ExchangeResult& columns) {
  return {{"benchmark", "embedding_exchange"},
          {"exchange", r.exchange},
          {"median_ms", r.step_ms},
          {"lookup_ms", r.lookup_ms},
          {"update_ms", r.update_ms},
          {"baseline", columns.exchange},
          {"baseline_ms", columns.step_ms},
          {"ratio", r.step_ms / columns.step_ms},
          {"id_bytes", r.id_bytes},
          {"vector_bytes", r.vector_bytes},
          {"gradient_bytes", r.gradient_bytes},
          {"total_bytes", r.total_bytes},
          {"volume", r.volume},
          {"volume_with_ids", r.volume_with_ids},
          {"volume_bound", volume_bound},
          {"allocations_per_iteration", r.allocations}};
}

}  // namespace weir::cli
