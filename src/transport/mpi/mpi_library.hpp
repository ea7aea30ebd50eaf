// mpi_library.hpp: which MPI library the process runs on. Handles and constants of one family mean nothing to another.
#pragma once

#include <string>
#include <string_view>

namespace weir {

/// "Open MPI", "MPICH" for all libraries of its ABI, or "" where the text of MPI_Get_library_version does not tell.
[[nodiscard]] std::string_view mpi_family_of(std::string_view library_version);
/// The family that Weir was compiled for.
[[nodiscard]] std::string_view mpi_family();
/// MPI_Get_library_version of the library in use, whatever its family.
[[nodiscard]] std::string mpi_library_version();
/// "Open MPI v4.1.4", "MPICH Version: 4.0.2"
[[nodiscard]] std::string mpi_library_name(std::string_view library_version);
/// Throws Error(WEIR_ERR_UNSUPPORTED), naming both, where the program runs on a library of another family. May be called at any
/// time, and must be before any MPI handle is touched.
void check_mpi_library();

}  // namespace weir
