// signals.hpp: counts a signal, so that code that polls can see that it has come.
#pragma once

namespace weir {

/// From now on this process counts that signal. Other handlers of it are replaced.
void count_signal(int signal);
/// Returns how often it has come.
[[nodiscard]] int signals_so_far() noexcept;

}  // namespace weir
