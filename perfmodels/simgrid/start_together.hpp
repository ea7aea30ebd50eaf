// start_together.hpp: a common start of all ranks of a simulated machine.
#pragma once

#include <simgrid/actor.h>
#include <simgrid/engine.h>

#include <cmath>

/// All ranks go on at the next multiple of a time that no step takes. Without messages: what SMPI's collectives leave behind slows
/// SimGrid 3.32 down.
inline void start_together() {
  constexpr double period = 1000;
  sg_actor_sleep_for((std::floor(simgrid_get_clock() / period) + 1) * period - simgrid_get_clock());
}
