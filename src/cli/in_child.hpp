// in_child.hpp: runs work that may crash where it does no harm.
#pragma once

#include <functional>

namespace weir::cli {

/// Runs `work` silently in a child process. Returns false if that crashes or needs more than `seconds` of processor time. Returns
/// true if it ends in any other way, including an exception. Do not call it after MPI has started.
[[nodiscard]] bool survives(const std::function<void()>& work, int seconds);

}  // namespace weir::cli
