! two_threads.f90: a second thread on one communicator is refused while the first is in a call.
program two_threads
  use checks
  use mpi_f08
  use omp_lib, only: omp_get_thread_num
  use weir
  implicit none
  type(weir_communicator) :: comm
  type(weir_allreduce_plan) :: plan
  type(weir_statistics) :: statistics
  real :: gradient(1000)
  double precision :: begin
  integer :: provided, ierr, seen
  logical :: finished

  call MPI_Init_thread(MPI_THREAD_FUNNELED, provided)
  call set_up()
  call comm%create(MPI_COMM_WORLD)
  call plan%create(comm, weir_allreduce_config(count=size(gradient)))
  gradient = rank
  seen = WEIR_OK
  finished = .false.
  begin = MPI_Wtime()
  if (rank == 0) then
    !$omp parallel num_threads(2) private(ierr) shared(finished, seen)
    if (omp_get_thread_num() == 0) then
      call plan%run(gradient)
      !$omp atomic write
      finished = .true.
    else
      do while (MPI_Wtime() - begin < 20)
        call plan%statistics(statistics, ierr)
        if (ierr == WEIR_ERR_BUSY) seen = ierr
        if (seen == WEIR_ERR_BUSY) exit
      end do
    end if
    !$omp end parallel
    call expect(finished .and. seen == WEIR_ERR_BUSY, 'a second thread is refused')
  else
    do while (MPI_Wtime() - begin < 1) ! for that long, rank 0 waits in its run
    end do
    call plan%run(gradient)
  end if
  call plan%statistics(statistics)
  call expect(statistics%iteration == 1, 'the run was not disturbed')
  if (rank == 0) print '(a)', 'two_threads passed'
  call plan%destroy()
  call comm%destroy()
  call MPI_Finalize()
end program
