#include <cmath>
#include <limits>

#include "base/config_check.hpp"
#include "base/error.hpp"
#include "base/memory.hpp"
#include "communicator/config_card.hpp"
#include "embedding/table.hpp"

namespace weir::embedding {
namespace {

/// Returns the bytes that the table needs on all ranks of this node together.
double bytes_of_node(const EmbeddingConfig& c, const Topology& topology) {
  const TableExchange& exchange = find_exchange(c.exchange);
  const Partition partition(exchange.split, c.rows, c.width, topology);
  const double dense =
      exchange.path == GradientPath::allreduce ? static_cast<double>(c.rows) * static_cast<double>(c.width + 1) : 0;
  double values = 0;
  for (const int rank : topology.node_peers()) {
    const Part& part = partition.part(rank);
    values += static_cast<double>(part.rows) * static_cast<double>(part.columns) * (1 + state_arrays(c.optimizer)) + dense;
  }
  return sizeof(float) * values;
}

std::string memory_text(const EmbeddingConfig& c, std::string_view parts, double bytes, std::int64_t ranks, double there) {
  constexpr double gib = 1024.0 * 1024 * 1024;
  return fmt::format("a table of {} rows x {} with {} takes {:.3g} GiB on this node's {} rank(s); {:.3g} GiB are available", c.rows,
                     c.width, parts, bytes / gib, ranks, there / gib);
}

void check_memory(const EmbeddingConfig& c, const Topology& topology) {
  const double bytes = bytes_of_node(c, topology), there = available_memory();
  const auto ranks = static_cast<std::int64_t>(topology.node_peers().size());
  if (bytes > there) throw Error(WEIR_ERR_MEMORY, memory_text(c, "its optimizer's state", bytes, ranks, there));
}

/// What a rank needs, and what it has found on its node.
struct MemoryCard {
  detail::Outcome outcome;
  double bytes = 0;
  double there = 0;
};

}  // namespace

bool is_learning_rate(double rate) { return std::isfinite(static_cast<float>(rate)); }

void check_config(const EmbeddingConfig& c, const Topology& topology) {
  constexpr std::int64_t most = std::numeric_limits<std::uint32_t>::max();
  require(c.rows >= 1 && c.rows <= most, "rows is {}: it must be between 1 and 2^32 - 1", c.rows);
  require(c.width >= 1 && c.width <= most, "width is {}: it must be at least 1 (and below 2^32)", c.width);
  require(c.largest_batch >= 1 && c.largest_batch <= most, "largest_batch is {}: it must be at least 1, the most ids of one lookup",
          c.largest_batch);
  check_fields(c);
  const std::int64_t gathered = std::min(c.largest_batch, c.rows);
  require(gathered <= most / topology.size(), "largest_batch is {}: with {} ranks it must be at most {}", c.largest_batch,
          topology.size(), most / topology.size());
  const bool dense = find_exchange(c.exchange).path == GradientPath::allreduce;
  require(!dense || c.memory == MemorySpace::host,
          "exchange is {}: in CUDA memory only rows travel, not the whole gradient; choose another, for example columns",
          c.exchange);
  require(is_learning_rate(c.learning_rate), "learning_rate is {}: it must be finite as float32, at most 3.4e38", c.learning_rate);
  // Check as float32, the type in which rows are stepped.
  const auto beta1 = static_cast<float>(c.beta1), beta2 = static_cast<float>(c.beta2), epsilon = static_cast<float>(c.epsilon);
  require(beta1 >= 0 && beta1 < 1, "beta1 is {}: it must be at least 0 and below 1, for example 0.9", c.beta1);
  require(beta2 >= 0 && beta2 < 1, "beta2 is {}: it must be at least 0 and below 1, for example 0.999", c.beta2);
  require(epsilon >= 0 && std::isfinite(epsilon), "epsilon is {}: it must be from 0 to 3.4e38", c.epsilon);
  require(epsilon > 0 || c.optimizer < Optimizer::adagrad,
          "epsilon is {}: it must be positive, for Adagrad and Adam divide by it where gradients have been zero", c.epsilon);
  require(c.initial_range >= 0 && std::isfinite(static_cast<float>(c.initial_range)),
          "initial_range is {}: it must be from 0 to 3.4e38", c.initial_range);
  // Later code counts bytes in 64 bits.
  require(static_cast<double>(c.rows) * static_cast<double>(c.width) < 0x1p58, "width is {}: with {} rows it must be at most {}",
          c.width, c.rows, (std::int64_t{1} << 58) / c.rows);
  if (c.memory == MemorySpace::host) check_memory(c, topology);
}

detail::Lease agree_on_config(detail::CommunicatorState& comm, const EmbeddingConfig& config) {
  ConfigCard card;
  card.outcome = detail::outcome_of([&] {
    check_config(config, comm.topology);
    card.set_texts({config.exchange});
    set_fields(card, config);
  });
  return open_agreed(comm, card, {"table", card_fields<EmbeddingConfig>(), {"exchange"}}, config.name);
}

void agree_on_memory(detail::CommunicatorState& comm, const EmbeddingConfig& config, std::int64_t bytes) {
  const Topology& topology = comm.topology;
  MemoryCard mine;
  mine.bytes = static_cast<double>(bytes);
  mine.outcome = detail::outcome_of([&] { mine.there = available_memory(); });
  const std::span<const MemoryCard> ranks = comm.share("counting a table's memory", mine);
  for (int rank = 0; rank < topology.size(); ++rank) {
    const MemoryCard& card = ranks[static_cast<std::size_t>(rank)];
    if (card.outcome.failed()) fail_alike(WEIR_ERR_MEMORY, "table '{}', rank {}: {}", config.name, rank, card.outcome.text.data());
    double needed = 0;
    std::int64_t sharing = 0;
    for (int other = 0; other < topology.size(); ++other) {
      if (topology.node_of(other) != topology.node_of(rank)) continue;
      needed += ranks[static_cast<std::size_t>(other)].bytes;
      ++sharing;
    }
    if (needed <= card.there) continue;
    const std::string parts = fmt::format("its optimizer's state and batches of {} ids", config.largest_batch);
    fail_alike(WEIR_ERR_MEMORY, "table '{}', rank {}: {}", config.name, rank,
               memory_text(config, parts, needed, sharing, card.there));
  }
}

}  // namespace weir::embedding
