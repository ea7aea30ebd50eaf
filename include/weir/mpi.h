/* weir/mpi.h: communicators from MPI. The only public header that includes mpi.h. For C and C++; from C++20 on it has the classes
 * of weir/weir.hpp, before that what C has. */
#ifndef WEIR_MPI_H
#define WEIR_MPI_H

/* Without these, mpi.h of Open MPI and MPICH pulls in the C++ bindings that MPI itself has dropped, and needs their library. */
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>
#include <weir/weir.h>

#ifdef __cplusplus
#if __cplusplus >= 202002L
#include <weir/weir.hpp>
#endif
extern "C" {
#endif
#pragma GCC visibility push(default)

/** Collective over `mpi_comm`. Makes a communicator from it; MPI must be initialised. Duplicates `mpi_comm`, so that the caller
 *  may free its own at any time. The caller owns `*comm`, and destroys it with weir_comm_destroy, which is collective, too.
 *
 *  Returns WEIR_ERR_ARGUMENT for MPI_COMM_NULL, before MPI_Init or after MPI_Finalize, and WEIR_ERR_SETTING for a WEIR_*
 *  variable whose value makes no sense. Returns WEIR_ERR_UNSUPPORTED in a program that runs on another MPI than Weir was built
 *  for, or that another MPI's launcher has started as one of several, where each process would work alone. */
weir_status weir_comm_create_mpi(MPI_Comm mpi_comm, weir_comm** comm);

#ifdef __cplusplus
}
#endif

#if defined(__cplusplus) && __cplusplus >= 202002L
namespace weir::detail {
/// Returns MPI_Get_library_version of the library that the program runs on, of any family.
std::string mpi_library_version();
/// Throws Error(WEIR_ERR_UNSUPPORTED), naming both, if the program runs on a library of another family than Weir was built for. May
/// be called at any time, and must be called before any MPI handle is touched.
void check_mpi_library();
/// Initialises MPI with the thread level MPI_THREAD_*, unless that has been done. Collective if no launcher of MPI has started this
/// process, and RANK and WORLD_SIZE say that it is one of several: Weir then connects them. Returns whether it has initialised MPI.
/// Throws what weir_init returns.
bool start_mpi(int thread_level);
/// Collective. Finalises MPI. Throws Error(WEIR_ERR_STATE) if a rank has ended before, for which MPI_Finalize would wait for ever.
void finalise_mpi();
/// Returns which rank has ended without finalising MPI; null as long as no rank is known to have. Only where Weir has started MPI.
const char* lost_rank() noexcept;
/// Returns false while MPI still waits for ranks that did not come for a communicator in time. Open MPI then crashes in
/// MPI_Finalize.
bool all_copies_made();
/// Collective. Makes the state of a communicator. `refusal` says why this rank cannot have one after all; then no rank gets one.
std::shared_ptr<CommunicatorState> communicator_from_mpi(MPI_Comm comm, const char* refusal = nullptr);
template <>
struct CommunicatorFrom<MPI_Comm> {
  static std::shared_ptr<CommunicatorState> make(MPI_Comm comm) { return communicator_from_mpi(comm); }
};
}  // namespace weir::detail
#endif

#pragma GCC visibility pop
#endif
