// lost_rank.hpp: whether a process of the job has ended early, where Weir itself has started MPI.
#pragma once

#include <string>

namespace weir {

/// Records what has happened. The first record counts. Any thread may call it.
void set_lost_rank(const std::string& text);
/// Returns the text; null as long as no rank is known to be lost. Any thread may call it.
[[nodiscard]] const char* lost_rank() noexcept;

}  // namespace weir
