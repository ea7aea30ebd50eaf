// scheme.hpp: the schemes of tensor fusion: which tensors are sparsified as one, and which travel together. One row each.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <weir/fusion.hpp>

#include "fusion/division.hpp"

namespace weir::fusion {

/// What a division is made of.
struct DivisionTask {
  const Line& line;
  LinearCost cost;                  ///< of an exchange
  std::int64_t gradient_bytes = 0;  ///< of a full buffer, as gradients; of first divisions
  std::int64_t entry_bytes = 0;     ///< of a full buffer, as it travels
};

/// Returns full buffers, as they travel.
[[nodiscard]] Division by_entries(const DivisionTask& task);

struct SchemeRow {
  FusionScheme scheme{};
  Division (*divide)(const DivisionTask&) = nullptr;
  /// Divides anew by measured times; null: the first division stays.
  Division (*refit)(const DivisionTask&) = nullptr;
  bool selects_in_buffers = false;  ///< the tensors of a buffer are sparsified as one
  bool fills_as_they_come = false;  ///< sparse tensors go into whichever buffer is being filled on this rank
};

// The rows.
#define WEIR_SCHEME(name) extern const SchemeRow scheme_##name;
#include "fusion/schemes.def"
#undef WEIR_SCHEME

[[nodiscard]] std::span<const SchemeRow* const> scheme_registry();
/// Throws Error(WEIR_ERR_ARGUMENT) where the build does not have it.
[[nodiscard]] const SchemeRow& find_scheme(FusionScheme scheme);

}  // namespace weir::fusion
