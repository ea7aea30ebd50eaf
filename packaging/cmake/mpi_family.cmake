# mpi_family(OUT): returns openmpi or mpich, by the header of MPI::MPI_C. MPI handles can be exchanged within a family, but not
# between families.
include(CheckCSourceCompiles)
set(weir_name_of_openmpi "Open MPI")
set(weir_name_of_mpich "MPICH")
function(mpi_family out)
  set(CMAKE_REQUIRED_LIBRARIES MPI::MPI_C)
  set(CMAKE_REQUIRED_QUIET ON)
  unset(WEIR_MPI_IS_OPEN_MPI CACHE) # this project may have changed its MPI
  check_c_source_compiles("#include <mpi.h>\n#ifndef OPEN_MPI\n#error another\n#endif\nint main(void) { return 0; }" WEIR_MPI_IS_OPEN_MPI)
  if(WEIR_MPI_IS_OPEN_MPI)
    set(${out} openmpi PARENT_SCOPE)
  else()
    set(${out} mpich PARENT_SCOPE) # or one with its ABI: Cray MPICH, Intel MPI, MVAPICH2
  endif()
endfunction()
