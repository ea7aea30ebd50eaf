# weir_mpi_test(NAME name RANKS n PROGRAM target [ARGS ...]): runs a program under the build's own mpirun.
execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version OUTPUT_VARIABLE weir_mpiexec_version ERROR_QUIET)
if(weir_mpiexec_version MATCHES "Open MPI|OpenRTE|PRRTE")
  set(weir_mpiexec_flags --oversubscribe --bind-to none --mca mpi_yield_when_idle 1)
  set(weir_mpiexec_environment "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_rmaps_base_oversubscribe=1")
  # Set what ranks on one machine choose anyway. Searching for alternatives takes a third of a second per start, because a driver
  # sleeps while it is loaded.
  list(APPEND weir_mpiexec_environment "OMPI_MCA_pml=ob1" "OMPI_MCA_btl=self,vader")
  # When a job must end, mpirun does not wait a second for ranks to do so.
  list(APPEND weir_mpiexec_environment "OMPI_MCA_odls_base_sigkill_timeout=0")
  # At its end, mpirun removes its folder on the host if that is empty, even if another mpirun has just found it. This folder is
  # never empty.
  cmake_host_system_information(RESULT host QUERY HOSTNAME)
  string(REGEX REPLACE "\\..*" "" host "${host}")
  execute_process(COMMAND id -u OUTPUT_VARIABLE user OUTPUT_STRIP_TRAILING_WHITESPACE)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/sessions/ompi.${host}.${user}/never_empty)
  list(APPEND weir_mpiexec_environment "OMPI_MCA_orte_tmpdir_base=${CMAKE_BINARY_DIR}/sessions")
  set(weir_mpi_alone OFF)
else()
  set(weir_mpi_alone ON) # waiting ranks do not yield, and would starve another job's
endif()

function(weir_mpi_test)
  cmake_parse_arguments(arg "" "NAME;RANKS;PROGRAM" "ARGS" ${ARGN})
  add_test(NAME ${arg_NAME} COMMAND ${MPIEXEC_EXECUTABLE} ${weir_mpiexec_flags} ${MPIEXEC_NUMPROC_FLAG} ${arg_RANKS} $<TARGET_FILE:${arg_PROGRAM}> ${arg_ARGS})
  set_tests_properties(${arg_NAME} PROPERTIES LABELS mpi ENVIRONMENT "${weir_mpiexec_environment}" TIMEOUT 300 RUN_SERIAL ${weir_mpi_alone})
  if(NOT TARGET tests_of_mpi)
    add_custom_target(tests_of_mpi)
  endif()
  add_dependencies(tests_of_mpi ${arg_PROGRAM})
endfunction()

# weir_resume_test(NAME name RANKS n PROGRAM target RESULT file ARGS ...): stops and resumes an example, with
# mpi/test_example_resumes.sh.
function(weir_resume_test)
  cmake_parse_arguments(arg "" "NAME;RANKS;PROGRAM;RESULT" "ARGS" ${ARGN})
  add_test(NAME ${arg_NAME} COMMAND ${weir_SOURCE_DIR}/tests/mpi/test_example_resumes.sh ${arg_RESULT} $<TARGET_FILE:${arg_PROGRAM}> ${arg_ARGS} --
                                    ${MPIEXEC_EXECUTABLE} ${weir_mpiexec_flags} ${MPIEXEC_NUMPROC_FLAG} ${arg_RANKS})
  set_tests_properties(${arg_NAME} PROPERTIES LABELS examples ENVIRONMENT "${weir_mpiexec_environment};OPENBLAS_NUM_THREADS=1" TIMEOUT 300 RUN_SERIAL ${weir_mpi_alone})
endfunction()

# weir_compressors_test(NAME name RANKS n PROGRAM target OPTION option ARGS ...): runs an example with three compressors, with
# mpi/test_example_compressors.sh. OPTION names the option for the algorithm.
function(weir_compressors_test)
  cmake_parse_arguments(arg "" "NAME;RANKS;PROGRAM;OPTION" "ARGS" ${ARGN})
  add_test(NAME ${arg_NAME} COMMAND ${weir_SOURCE_DIR}/tests/mpi/test_example_compressors.sh ${arg_OPTION} $<TARGET_FILE:${arg_PROGRAM}> ${arg_ARGS} --
                                    ${MPIEXEC_EXECUTABLE} ${weir_mpiexec_flags} ${MPIEXEC_NUMPROC_FLAG} ${arg_RANKS})
  set_tests_properties(${arg_NAME} PROPERTIES LABELS examples ENVIRONMENT "${weir_mpiexec_environment};OPENBLAS_NUM_THREADS=1" TIMEOUT 300 RUN_SERIAL ${weir_mpi_alone})
endfunction()
