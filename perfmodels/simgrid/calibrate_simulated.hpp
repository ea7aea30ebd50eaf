// calibrate_simulated.hpp: what `weir calibrate` does, on the simulated machine.
#pragma once

#include <string>
#include <weir/weir.hpp>

namespace weir::simulation {

/// Collective. Rank 0 writes the machine file. On a machine without scale, or the file describes the scaled one.
void calibrate_simulated(const Communicator& comm, const std::string& file);

}  // namespace weir::simulation
