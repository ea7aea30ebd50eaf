// calibrate.hpp: measures a machine with the ranks at hand, over Weir's own transport.
#pragma once

#include "async/channel.hpp"
#include "async/task.hpp"
#include "model/machine.hpp"

namespace weir {

/// Told what is measured next, on rank 0.
using CalibrationProgress = void (*)(const char* what);

/// Collective. Links of every level that has a pair of ranks: one pair alone, then every pair of the level at once; then the rates,
/// with all ranks computing at once (the median of the ranks counts). Takes about `seconds`, longer on networks below 1 Gbit/s; the
/// result is the same on every rank. Allocates 64 MiB on every rank. `progress` may be null. Leaves all of the provenance but the
/// numbers of ranks and nodes, and mpi_allreduce_factor, to the caller. A single rank has no links: those of the built-in machine
/// are kept.
task<Machine> calibrate(Channel channel, double seconds, CalibrationProgress progress);

}  // namespace weir
