// embedding_config.hpp: checks of a table's configuration, and agreement between ranks.
#pragma once

#include <weir/embedding.hpp>

#include "communicator/communicator.hpp"

namespace weir::embedding {

/// Returns whether `rate` can step rows, which are float32.
[[nodiscard]] bool is_learning_rate(double rate);

/// Throws Error(WEIR_ERR_ARGUMENT) saying what is wrong and what would be right, and Error(WEIR_ERR_MEMORY) if values and the
/// optimizer's state alone need more than this node has.
void check_config(const EmbeddingConfig& config, const Topology& topology);

/// Agrees on a configuration. Collective. Throws the same on every rank: what check_config() throws on any, or
/// Error(WEIR_ERR_MISMATCH) naming what differs.
[[nodiscard]] detail::Lease agree_on_config(detail::CommunicatorState& comm, const EmbeddingConfig& config);

/// Agrees that there is memory. Collective. `bytes`: what this rank's table has allocated and not touched yet. Throws the same
/// Error(WEIR_ERR_MEMORY) on every rank if the ranks of any node need more than the node has.
void agree_on_memory(detail::CommunicatorState& comm, const EmbeddingConfig& config, std::int64_t bytes);

}  // namespace weir::embedding
