// config_card.hpp: a configuration as plain bytes, for agreement between ranks.
#pragma once

#include <array>
#include <span>
#include <string>
#include <weir/weir.hpp>

#include "communicator/communicator.hpp"

namespace weir {

/// What one rank was asked to make, or the error that this has.
struct ConfigCard {
  detail::Outcome outcome;
  std::array<char, 32> text{};  ///< a name
  std::array<double, 20> fields{};

  void set_text(std::string_view content) noexcept;
};

/// The names of what a card holds, for people.
struct CardNames {
  std::string_view what, text;          ///< "plan", "algorithm"
  std::span<const char* const> fields;  ///< fields beyond these are not looked at
};

/// Collective: what is made together begins with this. Throws on all ranks the error of the lowest rank that has one, else
/// Error(WEIR_ERR_MISMATCH) naming the first field that differs. `name` is that of the plan or table.
[[nodiscard]] detail::Lease open_agreed(detail::CommunicatorState& comm, ConfigCard mine, const CardNames& names,
                                        std::string_view name);

}  // namespace weir
