// lookup.hpp: which machine the ranks of a job predict with.
#pragma once

#include <string>

#include "async/channel.hpp"
#include "async/task.hpp"
#include "base/settings.hpp"
#include "model/machine.hpp"

namespace weir {

/// A machine and where it came from: a file, "built in" or "measured".
struct FoundMachine {
  Machine machine;
  std::string origin;
};

/// Where this host's own machine file belongs: $XDG_CONFIG_HOME/weir/machines/<host>.json, or under ~/.config. Empty when neither
/// XDG_CONFIG_HOME nor HOME is set.
[[nodiscard]] std::string own_machine_file();

/// The file of WEIR_MACHINE; without that setting this host's own file; where there is none, the built-in machine. Throws
/// Error(WEIR_ERR_ARGUMENT) for a bad file, and for a missing one that WEIR_MACHINE names.
[[nodiscard]] FoundMachine find_machine(const Settings& settings);

/// Collective: rank 0's settings decide, and its file is the one that is read, so that all ranks end with identical numbers. With
/// WEIR_CALIBRATE the machine is measured instead. What find_machine throws on rank 0 is thrown on every rank. `settings` must
/// outlive the task.
task<FoundMachine> agree_on_machine(Channel channel, const Settings& settings);

}  // namespace weir
