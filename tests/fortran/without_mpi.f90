! without_mpi.f90: a program that leaves MPI to Weir, as a program without the module mpi would.
program without_mpi
  use weir
  implicit none
  type(weir_communicator) :: comm
  type(weir_allreduce_plan) :: plan
  double precision :: gradient(5, 4, 3)

  call weir_init()
  call comm%create_world()
  call plan%create(comm, weir_allreduce_config(count=size(gradient), type=WEIR_FLOAT64, algorithm='dense_ring', average=.false.))
  gradient = 1
  call plan%run(gradient)
  if (any(abs(gradient - comm%size()) > 1d-12)) error stop 'the sum is wrong'
  if (comm%rank() == 0) print '(a)', 'without_mpi passed'
  call plan%destroy()
  call comm%destroy()
  call weir_finalize()
end program
