// start_together.hpp: starts all ranks of a simulated machine at the same time.
#pragma once

#include <simgrid/actor.h>
#include <simgrid/engine.h>

#include <cmath>

/// Waits until the next multiple of a time that is longer than any step. Sends no messages, because remains of SMPI's collectives
/// slow down SimGrid 3.32.
inline void start_together() {
  constexpr double period = 1000;
  sg_actor_sleep_for((std::floor(simgrid_get_clock() / period) + 1) * period - simgrid_get_clock());
}
