# mpi_family(OUT): which MPI's header MPI::MPI_C has. Libraries of one family understand each other's handles; of two they do not.
include(CheckCSourceCompiles)
function(mpi_family out)
  set(CMAKE_REQUIRED_LIBRARIES MPI::MPI_C)
  set(CMAKE_REQUIRED_QUIET ON)
  unset(WEIR_MPI_IS_OPEN_MPI CACHE) # this project's MPI may have changed
  check_c_source_compiles("#include <mpi.h>\n#ifndef OPEN_MPI\n#error another\n#endif\nint main(void) { return 0; }" WEIR_MPI_IS_OPEN_MPI)
  if(WEIR_MPI_IS_OPEN_MPI)
    set(${out} "Open MPI" PARENT_SCOPE)
  else()
    set(${out} "MPICH" PARENT_SCOPE) # or one with its ABI: Cray MPICH, Intel MPI, MVAPICH2
  endif()
endfunction()
