! start_here.f90: the ten lines of docs/start-here.md.
program start_here
  use mpi_f08
  use weir
  implicit none
  type(weir_communicator) :: comm
  type(weir_allreduce_plan) :: plan
  real, asynchronous :: gradient(1000, 100)

  call MPI_Init()
  call comm%create(MPI_COMM_WORLD)
  call plan%create(comm, weir_allreduce_config(count=size(gradient), density=0.01d0))
  call random_number(gradient)
  call plan%run(gradient)      ! in place: the averaged sparse update
  call plan%start(gradient)    ! the same, overlapped with what stands here
  call plan%wait()
  print '(i0, a)', count(gradient /= 0), ' entries delivered'
  call plan%destroy()
  call comm%destroy()
  call MPI_Finalize()
end program
