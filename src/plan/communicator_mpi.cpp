#include <weir/mpi.h>

#include "plan/communicator.hpp"
#include "transport/mpi/mpi_transport.hpp"

namespace weir::detail {

std::shared_ptr<CommunicatorState> communicator_from_mpi(MPI_Comm comm, const char* refusal) {
  return make_communicator(make_mpi_transport(comm), {}, {}, refusal);
}

}  // namespace weir::detail
