// give_way.hpp: how a thread that waits lets others have its core.
#pragma once

namespace weir {

/// Yields: returns at once if no other thread wants this core. Thread-safe.
///
/// Returns false if other threads compute on this core: this yield, or one of the last 100, took as long as a time slice. The
/// caller should then sleep. A thread that wakes gets the core at once; one that yields waits for a time slice (milliseconds) each
/// time.
bool yield_core() noexcept;

/// Yields, or sleeps for the system's shortest time (some 50 us) if other threads compute on this core. Thread-safe.
void give_way() noexcept;

}  // namespace weir
