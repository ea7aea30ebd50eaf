// scheme.hpp: the schemes of tensor fusion, one row each: which tensors are sparsified together, and which travel together.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <weir/fusion.hpp>

#include "fusion/division.hpp"

namespace weir::fusion {

/// What a division is made from.
struct DivisionTask {
  const Line& line;
  LinearCost cost;                  ///< of one exchange
  std::int64_t gradient_bytes = 0;  ///< gradient bytes of a full buffer, for first divisions
  std::int64_t entry_bytes = 0;     ///< bytes of a full buffer as it travels
};

/// Returns buffers that are full as they travel.
[[nodiscard]] Division by_entries(const DivisionTask& task);

struct SchemeRow {
  FusionScheme scheme{};
  Division (*divide)(const DivisionTask&) = nullptr;
  /// Makes a new division from measured times. nullptr: the first division stays.
  Division (*refit)(const DivisionTask&) = nullptr;
  bool selects_in_buffers = false;  ///< the tensors of a buffer are sparsified as one
  bool fills_as_they_come = false;  ///< sparse tensors go into the buffer that is being filled on this rank
};

// The rows.
#define WEIR_SCHEME(name) extern const SchemeRow scheme_##name;
#include "fusion/schemes.def"
#undef WEIR_SCHEME

[[nodiscard]] std::span<const SchemeRow* const> scheme_registry();
/// Throws Error(WEIR_ERR_ARGUMENT) if the build does not include the scheme.
[[nodiscard]] const SchemeRow& find_scheme(FusionScheme scheme);

}  // namespace weir::fusion
