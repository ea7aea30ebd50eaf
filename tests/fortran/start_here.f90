program start_here
  use mpi_f08
  use weir
  implicit none
  type(weir_communicator) :: comm
  type(weir_allreduce_plan) :: plan
  type(weir_statistics) :: statistics
  real, asynchronous :: gradient(1000)
  integer :: rank

  call MPI_Init()
  call comm%create(MPI_COMM_WORLD)   ! finds nodes, sockets, caches
  rank = comm%rank()
  gradient = 0
  gradient(rank + 1) = 5             ! this rank's gradient
  gradient(501) = 10

  call plan%create(comm, weir_allreduce_config(count=1000, density=0.01d0))   ! made once per array
  call plan%run(gradient)            ! in place: the mean of the ranks' largest entries

  call plan%start(gradient)          ! the same, overlapped with your computation here
  call plan%wait()

  call plan%statistics(statistics)
  print '(2(a, i0), a, f4.2, 1x, f5.2, a, i0, a)', 'rank ', rank, ' of ', comm%size(), ': ', gradient(rank + 1), gradient(501), &
    ', ', statistics%payload_bytes_sent, ' bytes sent'
  call plan%destroy()
  call comm%destroy()                ! before MPI_Finalize
  call MPI_Finalize()
end program
