program sums_start
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use mpi_f08
  use weir
  implicit none
  type(weir_communicator) :: comm
  type(weir_sparse_sum) :: charge
  integer(int64), allocatable :: at(:)
  real(real64), allocatable :: sums(:)
  integer :: rank, ranks

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call comm%create(MPI_COMM_WORLD)
  call charge%create(comm, weir_sparse_sum_config(count=8000000000_int64, expected_entries=3)) ! cells of the whole mesh
  ! This rank's particles: a cell may come twice, in any order. Cells count from 1.
  call charge%run([7000000000_int64 + rank, 42_int64, 42_int64], [0.5_real64, 0.25_real64, 0.25_real64])
  call charge%result(at, sums) ! on every rank: the cells that any rank has
  print '(3(a, i0), a, f4.2, a, i0)', 'rank ', rank, ' of ', ranks, ': ', size(at), ' cells, ', sums(1), ' in cell ', at(1)

  call charge%destroy()
  call comm%destroy()
  call MPI_Finalize()
end program
