// signals.hpp: signals that ask a run to save and end.
#pragma once

namespace weir::checkpoint {

/// See Checkpoint::catch_signal.
void catch_signal(int signal);
/// So many have come since the process began.
[[nodiscard]] int caught_signals() noexcept;

}  // namespace weir::checkpoint
