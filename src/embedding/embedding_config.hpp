// embedding_config.hpp: checks of a table's configuration, and agreement between ranks.
#pragma once

#include <weir/embedding.hpp>

#include "plan/communicator.hpp"

namespace weir::embedding {

/// Throws Error(WEIR_ERR_ARGUMENT) saying what is wrong and what would be right, Error(WEIR_ERR_MEMORY) where the tables of this
/// node's ranks need more than the node has.
void check_config(const EmbeddingConfig& config, const Topology& topology);

/// Collective. Throws on every rank alike what check_config throws on any, or Error(WEIR_ERR_MISMATCH) naming what differs.
[[nodiscard]] detail::Lease agree_on_config(detail::CommunicatorState& comm, const EmbeddingConfig& config);

}  // namespace weir::embedding
