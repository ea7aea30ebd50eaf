#include <weir/mpi.h>

#include "communicator/communicator.hpp"
#include "transport/mpi/mpi_transport.hpp"

namespace weir::detail {

std::shared_ptr<CommunicatorState> communicator_from_mpi(MPI_Comm comm, const char* refusal) {
  // make_communicator() reads the settings again and reports their errors on all ranks.
  Settings settings;
  static_cast<void>(outcome_of([&] { settings = read_settings(); }));
  return make_communicator(make_mpi_transport(comm, settings.timeout_seconds, settings.connections), {}, {}, refusal);
}

}  // namespace weir::detail
