// signals.hpp: counts a signal, so that code that polls can see that it has arrived.
#pragma once

namespace weir {

/// Makes this process count `signal` from now on. Replaces other handlers of it.
void count_signal(int signal);
/// Returns how often it has arrived.
[[nodiscard]] int signals_so_far() noexcept;

}  // namespace weir
