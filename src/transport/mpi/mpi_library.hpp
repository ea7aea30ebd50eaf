// mpi_library.hpp: the families of MPI libraries. Handles and constants of one mean nothing to another.
#pragma once

#include <weir/mpi.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace weir {

using detail::check_mpi_library;
using detail::mpi_library_version;

/// Returns "Open MPI", "MPICH" for all libraries of its ABI, or "" if the text of MPI_Get_library_version names neither.
[[nodiscard]] std::string_view mpi_family_of(std::string_view library_version);
/// Returns the family that Weir was compiled for.
[[nodiscard]] std::string_view mpi_family();
/// Returns, for example, "Open MPI v4.1.4" or "MPICH Version: 4.0.2".
[[nodiscard]] std::string mpi_library_name(std::string_view library_version);

/// Returns true if MPI sends messages of this size to other nodes over TCP, without asking the receiver first, as far as it says.
/// Only Open MPI says so. MPI must be initialised.
[[nodiscard]] bool sends_at_once_over_tcp(std::int64_t bytes);

/// Returns what is wrong if, as the environment says, the launcher of another MPI has started this process as one of several; else
/// an empty text.
[[nodiscard]] std::string other_launcher();
/// Throws Error(WEIR_ERR_UNSUPPORTED) if the launcher of another MPI has started this process as one of several. MPI then believes
/// that it is the only one, and each would work alone. MPI must be initialised.
void refuse_other_launcher();

}  // namespace weir
