// in_child.hpp: work that may crash, done where a crash harms nobody.
#pragma once

#include <functional>

namespace weir::cli {

/// Runs `work` in a child process, silently. False where that crashes or needs more than `seconds` of a processor; true however it
/// ends otherwise, also by an exception. Not where MPI has started.
[[nodiscard]] bool survives(const std::function<void()>& work, int seconds);

}  // namespace weir::cli
