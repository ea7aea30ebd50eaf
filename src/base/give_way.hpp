// give_way.hpp: how a thread that waits lets others have its core.
#pragma once

namespace weir {

/// Yields: returns at once if no other thread wants this core. Thread-safe.
///
/// Returns false if other threads compute on this core: several yields in a row took a time slice each (milliseconds), and were not
/// 100 calls ago. The caller should then sleep: a thread that wakes gets the core at once.
bool yield_core() noexcept;

/// Yields, or sleeps for the system's shortest time (some 50 us) if other threads compute on this core. Thread-safe.
void give_way() noexcept;

}  // namespace weir
