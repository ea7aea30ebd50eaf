! weir.f90: the Fortran interface of Weir, over MPI. Fortran 2008. The contracts are beside the types in weir_communicators.F90,
! weir_plans.f90, weir_tables.f90, weir_schedules.f90, weir_fusion.f90, weir_operators.f90, weir_optimizers.f90,
! weir_sparse_adams.f90, weir_sparse_sums.f90 and weir_checkpoints.f90, beside the procedures in weir_library.f90, and beside the
! constants and configurations in weir_types.f90.
!
!   use weir
!   type(weir_communicator) :: comm
!   type(weir_allreduce_plan) :: plan
!   real, asynchronous :: gradient(1000, 1000)
!
!   call comm%create(MPI_COMM_WORLD)                              ! of module mpi_f08 or mpi
!   call plan%create(comm, weir_allreduce_config(count=size(gradient), density=0.01d0))
!   call plan%run(gradient)                                       ! in place: the averaged sparse update
!   call plan%start(gradient); call compute(); call plan%wait()   ! the same, overlapped
!
! Every call has an optional last argument `ierr`, which is set to WEIR_OK or WEIR_ERR_... comm%last_error() returns the text. For
! calls without a communicator, weir_last_error() does. Without `ierr`, an error prints its text and stops the program.
! "Collective" calls must be made by every rank. They report bad input on every rank.
! A communicator and everything made from it may be used by one thread at a time.
module weir
  use weir_checkpoints, only: weir_catch_signal, weir_checkpoint
  use weir_communicators, only: weir_communicator
  use weir_encoded, only: weir_decode, weir_inspect
  use weir_fusion, only: weir_fused_allreduce
  use weir_library
  use weir_operators, only: weir_operator_body, weir_parallel_operator
  use weir_optimizers, only: weir_layer_optimizer
  use weir_plans, only: weir_allreduce_plan
  use weir_schedules, only: weir_schedule
  use weir_sparse_adams, only: weir_sparse_adam
  use weir_sparse_sums, only: weir_sparse_sum
  use weir_tables, only: weir_embedding_table
  use weir_types
  implicit none
  public
end module
