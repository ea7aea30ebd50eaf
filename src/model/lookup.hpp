// lookup.hpp: finds the machine that a job's predictions use. All ranks agree on it: CommunicatorState::agreed_machine.
#pragma once

#include <string>
#include <string_view>

#include "base/settings.hpp"
#include "model/machine.hpp"

namespace weir {

inline constexpr std::string_view builtin_origin = "built in";

/// A machine and where it came from: a file, `builtin_origin` or "measured".
struct FoundMachine {
  Machine machine;
  std::string origin;
};

/// Returns the path of this host's own machine file: $XDG_CONFIG_HOME/weir/machines/<host>.json, or under ~/.config. Empty if
/// neither XDG_CONFIG_HOME nor HOME is set.
[[nodiscard]] std::string own_machine_file();

/// Returns the machine in the file that WEIR_MACHINE names; without that setting, the one in this host's own file; without that
/// file, the built-in machine. Throws Error(WEIR_ERR_ARGUMENT) for a bad file, and for a missing one that WEIR_MACHINE names.
[[nodiscard]] FoundMachine find_machine(const Settings& settings);

}  // namespace weir
