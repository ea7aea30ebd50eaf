// embedding_config.hpp: checks of a table's configuration, and agreement between ranks.
#pragma once

#include <weir/embedding.hpp>

#include "communicator/communicator.hpp"

namespace weir::embedding {

/// Whether rows, which are float32, can be stepped by it.
[[nodiscard]] bool is_learning_rate(double rate);

/// Throws Error(WEIR_ERR_ARGUMENT) saying what is wrong and what would be right, Error(WEIR_ERR_MEMORY) where values and
/// optimizer's state alone need more than this node has.
void check_config(const EmbeddingConfig& config, const Topology& topology);

/// Collective. Throws on every rank alike what check_config throws on any, or Error(WEIR_ERR_MISMATCH) naming what differs.
[[nodiscard]] detail::Lease agree_on_config(detail::CommunicatorState& comm, const EmbeddingConfig& config);

/// Collective. `bytes`: what this rank's table has asked for and not touched yet. Throws Error(WEIR_ERR_MEMORY) on every rank
/// alike where the ranks of any node need more than the node has.
void agree_on_memory(detail::CommunicatorState& comm, const EmbeddingConfig& config, std::int64_t bytes);

}  // namespace weir::embedding
