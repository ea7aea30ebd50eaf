! stops.f90: an error without ierr ends the program with its text. The argument names the error.
program stops
  use mpi
  use weir
  implicit none
  type(weir_communicator) :: comm, copy
  type(weir_allreduce_plan) :: plan, plans(2), others(2)
  real :: gradient(10, 10)
  character(len=20) :: which
  integer :: ierr

  call get_command_argument(1, which)
  call MPI_Init(ierr)
  gradient = 1
  call comm%create(MPI_COMM_WORLD)
  call plan%create(comm, weir_allreduce_config(count=50, name='half'))
  select case (which)
  case ('section')
    call plan%run(gradient(:5, :))
  case ('copy')
    copy = comm
  case ('arrays')
    call plans(1)%create(comm, weir_allreduce_config(count=50))
    others = plans
  end select
  print '(a)', 'still here'
end program
