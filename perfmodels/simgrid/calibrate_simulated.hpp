// calibrate_simulated.hpp: does the same as `weir calibrate`, on the simulated machine.
#pragma once

#include <string>
#include <weir/weir.hpp>

namespace weir::simulation {

/// Collective. Rank 0 writes the machine file. On a scaled machine, the file describes the scaled machine.
void calibrate_simulated(const Communicator& comm, const std::string& file);

}  // namespace weir::simulation
