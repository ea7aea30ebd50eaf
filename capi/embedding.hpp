// embedding.hpp: the struct behind a weir_embedding.
#pragma once

#include <optional>
#include <weir/embedding.hpp>

#include "shim.hpp"

struct weir_embedding {
  weir_comm* comm;
  weir::EmbeddingTable table;
  std::optional<weir::Operation> prefetch{}, lookup{}, update{};  ///< the calls started last
};
