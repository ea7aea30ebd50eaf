! test_fortran.f90: every procedure of module weir, and its refused calls, under mpirun.
program test_fortran
  use adam_of_updates, only: check_adam
  use checkpoints_of_runs, only: check_checkpoints
  use checks
  use fusion_of_real32, only: check_fusion32 => check_fusion
  use fusion_of_real64, only: check_fusion64 => check_fusion
  use communicators_of_mpi, only: check_communicators, check_library
  use mpi_f08
  use optim_of_layers, only: check_optim
  use plans_of_real32, only: check_real32 => check_plans
  use plans_of_real64, only: check_real64 => check_plans
  use sums_of_entries, only: check_sums
  use tables_of_words, only: check_tables
  use weir
  implicit none
  type(weir_communicator) :: comm
  type(weir_allreduce_plan) :: late
  real :: gradient(10)
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
  call check_fusion32(comm)
  call check_fusion64(comm)
  call check_optim(comm)
  call check_adam()
  call check_sums(comm)
  call check_checkpoints(comm)
  call late%create(comm, weir_allreduce_config(count=size(gradient)))
  call MPI_Finalize()
  gradient = 1
  call late%run(gradient, ierr)
  if (ierr == WEIR_OK .or. comm%last_error() == '') error stop 'a plan has run after MPI_Finalize'
  call late%destroy(ierr)
  if (ierr /= WEIR_OK) error stop 'a plan cannot end after MPI_Finalize'
  call comm%destroy(ierr)
  if (ierr /= WEIR_OK) error stop 'a communicator cannot end after MPI_Finalize'
  call comm%create_world(ierr)
  if (ierr == WEIR_OK .or. weir_last_error() == '') error stop 'a communicator was made after MPI_Finalize'
  if (rank == 0) print '(a, i0, a)', 'test_fortran passed on ', ranks, ' ranks'
end program
