// embedding.hpp: what a weir_embedding is.
#pragma once

#include <optional>
#include <weir/embedding.hpp>

#include "shim.hpp"

struct weir_embedding {
  weir_comm* comm;
  weir::EmbeddingTable table;
  std::optional<weir::Operation> prefetch{}, lookup{}, update{};  ///< the last ones started
};
