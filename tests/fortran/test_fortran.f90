! test_fortran.f90: every procedure of module weir, and what it refuses, under mpirun.
program test_fortran
  use checks
  use communicators_of_mpi, only: check_communicators, check_library
  use mpi_f08
  use plans_of_real32, only: check_real32 => check_plans
  use plans_of_real64, only: check_real64 => check_plans
  use tables_of_words, only: check_tables
  use weir
  implicit none
  type(weir_communicator) :: comm
  integer :: ierr

  call comm%create(MPI_COMM_WORLD, ierr)
  call expect_text(weir_last_error(), 'MPI is not running')
  call MPI_Init()
  call set_up()
  call check_library()
  call check_communicators()
  call comm%create(MPI_COMM_WORLD)
  call check_real32(comm)
  call check_real64(comm)
  call check_tables(comm)
  call comm%destroy()
  call MPI_Finalize()
  call comm%create_world(ierr)
  if (ierr == WEIR_OK .or. weir_last_error() == '') error stop 'a communicator was made after MPI_Finalize'
  if (rank == 0) print '(a, i0, a)', 'test_fortran passed on ', ranks, ' ranks'
end program
