// The C ABI of everything that touches MPI directly: its initialisation, and communicators made from MPI's.
#include "shim.hpp"

using namespace weir::capi;

namespace {

bool initialised_here = false;

void check_mpi(int code, const char* call) {
  if (code != MPI_SUCCESS) throw weir::Error(WEIR_ERR_TRANSPORT, std::string(call) + " failed with code " + std::to_string(code));
}

bool is_initialised() {
  int initialised = 0;
  MPI_Initialized(&initialised);
  return initialised != 0;
}

bool is_finalised() {
  int finalised = 0;
  MPI_Finalized(&finalised);
  return finalised != 0;
}

/// Returns whether MPI knows the handle, if it can be asked. MPI aborts the program on an unknown handle.
bool is_communicator(MPI_Comm comm) {
  if (comm == MPI_COMM_NULL || !is_initialised() || is_finalised()) return true;  // making the communicator reports what is wrong
  MPI_Errhandler before = MPI_ERRHANDLER_NULL;
  check_mpi(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before), "MPI_Comm_get_errhandler");
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  int size = 0;
  const bool known = MPI_Comm_size(comm, &size) == MPI_SUCCESS;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, before);
  MPI_Errhandler_free(&before);
  return known;
}

weir_status create(MPI_Comm mpi_comm, weir_comm** comm) {
  if (comm != nullptr) *comm = nullptr;
  return guard(nullptr, [&] {
    // Collective: pass on an error here, so that all ranks report it.
    const char* const refusal = comm == nullptr ? "the address for the communicator is NULL" : nullptr;
    *comm = communicator_handle(weir::Communicator(weir::detail::communicator_from_mpi(mpi_comm, refusal)));
  });
}

}  // namespace

extern "C" {

weir_status weir_init(void) {
  return guard(nullptr, [] {
    if (weir::detail::start_mpi(MPI_THREAD_MULTIPLE)) initialised_here = true;
  });
}

weir_status weir_finalize(void) {
  return guard(nullptr, [] {
    if (!initialised_here || is_finalised()) return;
    if (!weir::detail::all_copies_made())
      throw weir::Error(
          WEIR_ERR_STATE,
          "MPI cannot be finalised: not all ranks made a communicator that this one has waited for; end the process without");
    weir::detail::finalise_mpi();
  });
}

const char* weir_mpi_family(void) {
#ifdef OPEN_MPI
  return "Open MPI";
#else
  return "MPICH";
#endif
}

const char* weir_mpi_library(void) {
  static const std::string version = [] {
    std::string text;
    static_cast<void>(guard(nullptr, [&] { text = weir::detail::mpi_library_version(); }));
    return text;
  }();
  return version.c_str();
}

weir_status weir_comm_create_mpi(MPI_Comm mpi_comm, weir_comm** comm) { return create(mpi_comm, comm); }

weir_status weir_comm_create_world(weir_comm** comm) { return create(MPI_COMM_WORLD, comm); }

weir_status weir_comm_create_fortran(std::int32_t mpi_comm, weir_comm** comm) {
  if (comm != nullptr) *comm = nullptr;
  MPI_Comm converted = MPI_COMM_NULL;
  const weir_status status = guard(nullptr, [&] {
    weir::detail::check_mpi_library();
    if (!is_initialised() || is_finalised()) return;
    converted = MPI_Comm_f2c(static_cast<MPI_Fint>(mpi_comm));
#ifdef OPEN_MPI
    if (converted == nullptr) converted = MPI_COMM_NULL;
#endif
    if (!is_communicator(converted))
      throw weir::Error(WEIR_ERR_ARGUMENT, std::to_string(mpi_comm) + " is no Fortran handle of an MPI communicator");
  });
  return status == WEIR_OK ? create(converted, comm) : status;
}

}  // extern "C"
