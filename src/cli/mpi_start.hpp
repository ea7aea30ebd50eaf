// mpi_start.hpp: how commands start MPI.
#pragma once

namespace weir::cli {

/// As MPI_Init; for more than one thread where WEIR_PROGRESS_THREAD asks for one.
void start_mpi();

}  // namespace weir::cli
