// signals.hpp: signals that ask a run to save and end.
#pragma once

namespace weir::checkpoint {

/// Implements Checkpoint::catch_signal.
void catch_signal(int signal);
/// Returns the number of signals caught since the process began.
[[nodiscard]] int caught_signals() noexcept;

}  // namespace weir::checkpoint
