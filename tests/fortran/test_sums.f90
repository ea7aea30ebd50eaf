! test_sums.f90: exact sparse sums: every procedure and type, and refused calls.
module sums_of_entries
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64
  use checks
  use weir
  implicit none
  private
  public :: check_sums

contains

  subroutine check_sums(comm)
    type(weir_communicator), intent(in) :: comm
    type(weir_sparse_sum) :: charge, least, same, checked
    type(weir_sparse_sum_config) :: config
    type(weir_sparse_sum_statistics) :: did
    integer(int64), allocatable :: indices(:)
    integer(int64) :: begin, end
    real(real64), allocatable :: values(:)
    integer(int32), allocatable :: numbers(:)
    real(real64), asynchronous :: field(12)
    real(real64) :: whole(12)
    real(real64), allocatable :: part(:)
    real(real64) :: many
    integer :: ierr
    logical :: done

    many = ranks
    call charge%create(comm, weir_sparse_sum_config(count=12, name='charge'))
    call charge%run([12_int64, 5_int64, 12_int64], [1.0_real64, 2.0_real64, 0.5_real64])
    call charge%result(indices, values)
    call expect(size(indices) == 2 .and. all(indices == [5, 12]) .and. all(values == [2*many, 1.5_real64*many]), 'entries of a sum')

    field = 100
    call charge%start([6_int64, 3_int64], [1.0_real64, 2.0_real64], field, .true.)
    done = .false.
    do while (.not. done)
      call charge%test(done)
    end do
    call charge%wait()
    call expect(field(6) == 100 + many .and. field(3) == 100 + 2*many .and. field(1) == 100, 'a sum added to an array')

    whole = 0
    whole(4) = 1
    call charge%run_dense(whole, field)
    call expect(field(4) == many .and. all(field(5:) == 0), 'a sum of whole arrays')

    begin = charge%range_begin(rank)
    end = charge%range_begin(rank + 1)
    allocate (part(end - begin))
    call charge%run_reduce_scatter([4_int64], [1.0_real64], part)
    call expect(sum(part) == merge(many, 0.0_real64, begin <= 4 .and. end > 4), 'a sum in part')

    call least%create(comm, weir_sparse_sum_config(count=12, type=WEIR_SUM_TYPE_INT32, operation=WEIR_SUM_OPERATION_MIN))
    call least%run([7_int64], [5_int32 - int(rank, int32)])
    call least%result(indices, numbers)
    call expect(size(numbers) == 1 .and. numbers(1) == 6 - ranks .and. indices(1) == 7, 'the least of integers')
    call least%result(indices, values, ierr)
    call expect(ierr == WEIR_ERR_ARGUMENT, 'a result of another type')

    call same%create(comm, weir_sparse_sum_config(count=12, operation=WEIR_SUM_OPERATION_REPRODUCIBLE_SUM))
    call same%run([7_int64, 7_int64, 7_int64], [merge(1.0e16_real64, 0.0_real64, rank == 0), 1.0_real64, &
      merge(-1.0e16_real64, 0.0_real64, rank == 0)])
    call same%result(indices, values)
    call expect(size(values) == 1 .and. values(1) == many, 'a reproducible sum')
    call checked%create(comm, weir_sparse_sum_config(count=12, type=WEIR_SUM_TYPE_INT32, operation=WEIR_SUM_OPERATION_CHECKED_SUM))
    call checked%run([7_int64, 7_int64], [huge(1_int32), merge(1_int32, 0_int32, bad)], ierr=ierr)
    call expect(ierr == WEIR_ERR_ARGUMENT, 'an addition that overflows')
    call same%destroy()
    call checked%destroy()

    call charge%run([5_int64, merge(13_int64, 6_int64, bad)], [1.0_real64, 2.0_real64], ierr=ierr)
    call expect(ierr == WEIR_ERR_ARGUMENT, 'an index out of range')
    call expect_text(comm%last_error(), 'index 13 of entry 2 is out of range: indices are 1 to 12')
    call charge%run([5_int64], [1.0_real32], ierr=ierr)
    call expect(ierr == WEIR_ERR_ARGUMENT, 'values of another type')
    call expect_text(comm%last_error(), 'the array of values is of type real32: it must be of type real64')
    call charge%run([5_int64], [1.0_real64, 2.0_real64], ierr=ierr)
    call expect(ierr == WEIR_ERR_ARGUMENT, 'one index for two values')

    call charge%statistics(did)
    call charge%config(config)
    call expect(did%runs == 4 .and. charge%memory_bytes() > 0, 'what it did')
    call expect(config%count == 12 .and. config%algorithm == 'auto', 'what is in force')
    call charge%destroy()
  end subroutine

end module
