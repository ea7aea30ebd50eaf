program checkpoint_start
  use, intrinsic :: iso_fortran_env, only: int64
  use mpi_f08
  use weir
  implicit none
  integer, parameter :: sigterm = 15
  type(weir_communicator) :: comm
  type(weir_allreduce_plan) :: plan
  type(weir_checkpoint) :: checkpoint
  real, target :: weights(1000) = 0
  real, asynchronous :: gradient(1000)
  integer(int64) :: step
  integer :: rank, i
  character(len=WEIR_LONG_TEXT_LENGTH) :: folder

  call MPI_Init()
  call comm%create(MPI_COMM_WORLD)
  rank = comm%rank()
  call plan%create(comm, weir_allreduce_config(count=1000))

  folder = 'checkpoints'               ! a folder that all ranks share
  if (command_argument_count() > 0) call get_command_argument(1, folder)
  call checkpoint%create(comm, weir_checkpoint_config(folder=folder))
  call checkpoint%add('gradient', plan)   ! its residual and thresholds
  call checkpoint%add_array('weights', weights, WEIR_DISTRIBUTION_REPLICATED)
  call weir_catch_signal(sigterm)      ! sent by a batch system before the time limit

  call checkpoint%restore(step)        ! the newest file; step becomes -1 if there is no file
  step = max(step, 0_int64)
  if (rank == 0) print '(a, i0)', 'begins at step ', step
  do while (step < 300)
    if (mod(step, 100_int64) == 0) call checkpoint%save(step)   ! returns at once; writes during the next steps
    gradient = [(real(mod(i + rank + int(step), 7)), i = 0, 999)]   ! this rank's gradient
    call plan%run(gradient)
    weights = weights - 0.1 * gradient
    step = step + 1
    if (checkpoint%stop_requested()) exit   ! if any rank got a signal
  end do
  call checkpoint%save(step)
  call checkpoint%wait()               ! waits until the file is in place

  call checkpoint%destroy()
  call plan%destroy()
  call comm%destroy()
  call MPI_Finalize()
end program
