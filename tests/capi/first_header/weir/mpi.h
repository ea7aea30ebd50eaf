/* weir/mpi.h: communicators from MPI. The only public header that includes mpi.h. C and C++. */
#ifndef WEIR_MPI_H
#define WEIR_MPI_H

#include <mpi.h>
#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Collective over `mpi_comm`, which is duplicated: the caller may free its own at any time.
 *  MPI must be initialised. `*comm` is owned by the caller; see weir_comm_destroy.
 *  @return WEIR_ERR_ARGUMENT for MPI_COMM_NULL or before MPI_Init, WEIR_ERR_SETTING for a nonsensical WEIR_* variable. */
weir_status weir_comm_create_mpi(MPI_Comm mpi_comm, weir_comm** comm);

#ifdef __cplusplus
}

#include <weir/weir.hpp>

namespace weir::detail {
std::shared_ptr<CommunicatorState> communicator_from_mpi(MPI_Comm comm);
template <>
struct CommunicatorFrom<MPI_Comm> {
  static std::shared_ptr<CommunicatorState> make(MPI_Comm comm) { return communicator_from_mpi(comm); }
};
}  // namespace weir::detail
#endif

#endif
