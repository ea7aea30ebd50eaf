// mpi_transport.hpp: the transport over MPI point-to-point messages.
#pragma once

#include <mpi.h>

#include <memory>

#include "transport/transport.hpp"

namespace weir {

/// Collective over `comm`, which is duplicated. Throws Error(WEIR_ERR_ARGUMENT) for MPI_COMM_NULL or when MPI is not running, and
/// Error(WEIR_ERR_TIMEOUT) where not all ranks come for it in time, Error(WEIR_ERR_UNSUPPORTED) on another MPI than Weir's.
[[nodiscard]] std::unique_ptr<Transport> make_mpi_transport(MPI_Comm comm, double timeout_seconds);

}  // namespace weir
