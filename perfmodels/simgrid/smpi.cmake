# SimGrid's SMPI in place of an MPI: defines MPI::MPI_C. Its compiler wrappers are not used: they rename malloc, exit and others
# by macros, which C++ does not survive everywhere, and CMake's own checks do not survive what they link.
find_path(SMPI_INCLUDE_DIR smpi/smpi.h REQUIRED)
find_library(SIMGRID_LIBRARY simgrid REQUIRED)
add_library(MPI::MPI_C INTERFACE IMPORTED)
target_include_directories(MPI::MPI_C SYSTEM INTERFACE ${SMPI_INCLUDE_DIR} ${SMPI_INCLUDE_DIR}/smpi)
target_link_libraries(MPI::MPI_C INTERFACE ${SIMGRID_LIBRARY})
# Every rank loads a copy of the program. Unique symbols (static variables of templates and inline functions) would be shared by
# all copies.
target_compile_options(MPI::MPI_C INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fno-gnu-unique>)
