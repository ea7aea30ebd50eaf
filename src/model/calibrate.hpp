// calibrate.hpp: measures a machine with the ranks at hand, over Weir's own transport.
#pragma once

#include "async/channel.hpp"
#include "async/task.hpp"
#include "model/machine.hpp"

namespace weir {

/// Called on rank 0 with the name of what is measured next.
using CalibrationProgress = void (*)(const char* what);

/// Measures the machine. Collective. Measures links of every level that has a pair of ranks: first one pair alone, then every pair
/// of the level at once. Then measures the rates with all ranks computing at once, and takes the median of the ranks. Takes about
/// `seconds`, longer on networks below 1 Gbit/s. The result is the same on every rank. Allocates 64 MiB on every rank. `progress`
/// may be null. The caller sets mpi_allreduce_factor and the provenance, except its numbers of ranks and nodes. A single rank has
/// no links: it keeps those of the built-in machine.
task<Machine> calibrate(Channel channel, double seconds, CalibrationProgress progress);

}  // namespace weir
