! One allreduce from Fortran.
program my_code
  use mpi_f08
  use weir
  implicit none
  type(weir_communicator) :: comm
  type(weir_allreduce_plan) :: plan
  real :: gradient(1000)

  call MPI_Init()
  call comm%create(MPI_COMM_WORLD)
  call plan%create(comm, weir_allreduce_config(count=1000_8, density=0.01d0))
  call random_number(gradient)
  call plan%run(gradient)
  print '(i0, a)', count(gradient /= 0), ' entries'
  call plan%destroy()
  call comm%destroy()
  call MPI_Finalize()
end program
