// mpi_transport.hpp: the transport over MPI point-to-point messages.
#pragma once

#include <mpi.h>

#include <memory>

#include "transport/transport.hpp"

namespace weir {

/// Makes a transport over a duplicate of `comm`. Collective. Throws Error(WEIR_ERR_ARGUMENT) for MPI_COMM_NULL or if MPI is not
/// running, Error(WEIR_ERR_TIMEOUT) if not all ranks call it in time, and Error(WEIR_ERR_UNSUPPORTED) on another MPI than Weir's.
/// `connections`: among how many duplicates large messages are divided; that of rank 0 counts.
[[nodiscard]] std::unique_ptr<Transport> make_mpi_transport(MPI_Comm comm, double timeout_seconds, int connections = 1);

}  // namespace weir
