// table_training.hpp: batches for embedding tables, and a few steps of training on them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>
#include <weir/embedding.hpp>

#include "support/table_oracle.hpp"

namespace weir::test {

inline EmbeddingConfig make_table_config(std::string_view exchange, std::int64_t rows, std::int64_t width, std::int64_t largest) {
  EmbeddingConfig config;
  config.rows = rows;
  config.width = width;
  config.largest_batch = largest;
  config.exchange = exchange;
  config.learning_rate = 0.25;
  config.name = "words";
  return config;
}

/// The prefetch before a lookup: none, that of the batch that comes, or, on some or all ranks, another batch.
enum class Prefetch { never, right, wrong_on_one, wrong };

/// Describes one training of a table.
inline std::string text_of(const EmbeddingConfig& config, int ranks, Prefetch prefetch, const std::string& machine) {
  return config.exchange + " P " + std::to_string(ranks) + " V " + std::to_string(config.rows) + " D " +
         std::to_string(config.width) + " optimizer " + std::to_string(static_cast<int>(config.optimizer)) + " values " +
         std::to_string(static_cast<int>(config.wire_values)) + " prefetch " + std::to_string(static_cast<int>(prefetch)) +
         " on '" + machine + "'";
}

struct TableBatch {
  std::vector<std::int64_t> ids;
  std::vector<float> gradients;
};

/// Returns small integers if ranks' contributions are added in an order that an oracle does not know, otherwise numbers in (-2, 2),
/// which are added in order.
inline float table_gradient(const EmbeddingConfig& config, std::mt19937_64& random) {
  if (config.exchange == "dense_allreduce") return static_cast<float>(random() % 9) - 4;
  return static_cast<float>(static_cast<double>(random() >> 11) * 0x1p-51 - 2);
}

/// Returns the ids that one rank looks up in a step. Low ids are frequent. Lengths range from zero to the largest.
inline TableBatch make_table_batch(const EmbeddingConfig& config, int rank, int step) {
  std::mt19937_64 random(static_cast<std::uint64_t>(rank * 1000 + step));
  const auto most = static_cast<std::uint64_t>(config.largest_batch) + 1;
  TableBatch batch;
  batch.ids.resize((rank + step) % 4 == 3 ? 0 : random() % most);
  batch.gradients.resize(batch.ids.size() * static_cast<std::size_t>(config.width));
  for (std::int64_t& id : batch.ids) {
    const double u = static_cast<double>(random() >> 11) * 0x1p-53;
    id = std::min(config.rows - 1, static_cast<std::int64_t>(static_cast<double>(config.rows) * u * u));
  }
  for (float& g : batch.gradients) g = table_gradient(config, random);
  return batch;
}

inline std::vector<TableBatch> make_table_batches(const EmbeddingConfig& config, int ranks, int step) {
  std::vector<TableBatch> batches;
  for (int rank = 0; rank < ranks; ++rank) batches.push_back(make_table_batch(config, rank, step));
  return batches;
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](float x, float y) { return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y); });
}

/// Collective. Returns the whole table.
inline std::vector<float> all_rows(EmbeddingTable& table) {
  std::vector<float> values(static_cast<std::size_t>(table.config().rows * table.config().width));
  table.export_rows(0, table.config().rows, values);
  return values;
}

inline std::vector<float> room_for(const EmbeddingTable& table, const TableBatch& batch) {
  return std::vector<float>(batch.ids.size() * static_cast<std::size_t>(table.config().width), -77);
}

struct TrainedTable {
  std::vector<std::vector<float>> vectors;  ///< of each step
  std::vector<float> values;                ///< at the end

  [[nodiscard]] bool operator==(const TrainedTable& other) const {
    return same_bits(values, other.values) && std::equal(vectors.begin(), vectors.end(), other.vectors.begin(), other.vectors.end(),
                                                         [](const auto& a, const auto& b) { return same_bits(a, b); });
  }
};

/// Collective. Prefetches every second step's batch.
inline TrainedTable train_table(const Communicator& comm, const EmbeddingConfig& config, int steps) {
  EmbeddingTable table(comm, config);
  TrainedTable trained;
  for (int t = 0; t < steps; ++t) {
    const TableBatch batch = make_table_batch(config, comm.rank(), t);
    std::vector<float>& vectors = trained.vectors.emplace_back(room_for(table, batch));
    table.lookup(std::span<const std::int64_t>(batch.ids), vectors).wait();
    const TableBatch next = make_table_batch(config, comm.rank(), t + 1);
    if (t % 2 == 0) table.prefetch(std::span<const std::int64_t>(next.ids));
    table.update(batch.gradients);
  }
  trained.values = all_rows(table);
  return trained;
}

}  // namespace weir::test
