! test_tables.f90: embedding tables.
module tables_of_words
  use, intrinsic :: iso_c_binding, only: c_loc, c_null_ptr
  use, intrinsic :: iso_fortran_env, only: int8, int32, int64, real32, real64
  use checks
  use weir
  implicit none
  private
  public :: check_tables

  integer, parameter :: rows = 12, width = 3, batch = 4

contains

  subroutine check_tables(comm)
    type(weir_communicator), intent(in) :: comm
    type(weir_exchange_info), allocatable :: exchanges(:)

    exchanges = weir_exchanges()
    call expect(exchanges(1)%name == 'columns' .and. len(exchanges(1)%description) > 0, 'exchanges have names and descriptions')
    call check_training(comm)
    call check_refusals(comm)
  end subroutine

  function small_table() result(config)
    type(weir_embedding_config) :: config

    config%rows = rows
    config%width = width
    config%largest_batch = batch
    config%learning_rate = 0.5_real64
    config%average = .false.
    config%name = 'words'
  end function

  !> Tests every call. Row i is i everywhere. Rank r looks up rows 11 and r, each twice; the gradient of each vector is 1.
  subroutine check_training(comm)
    type(weir_communicator), intent(in) :: comm
    type(weir_embedding_table) :: table
    type(weir_embedding_config) :: config
    type(weir_embedding_statistics) :: statistics
    integer(int64), target :: ids(batch)
    integer(int32), target :: narrow_ids(batch)
    real(real32), asynchronous :: vectors(width, batch)
    real(real32), target :: addressed(width, batch), gradients(width, batch), row(width, 1)
    real(real32) :: values(width, 0:rows - 1)
    integer(int8), allocatable :: state(:)
    logical :: done
    integer :: i, ierr

    ids = [11, rank, 11, rank]
    narrow_ids = int(ids, int32)
    gradients = 1
    do i = 0, rows - 1
      values(:, i) = real(i, real32)
    end do
    call table%create(comm, small_table())
    call table%lookup_wait() ! for nothing
    if (rank == 0) call table%import_rows(0_int64, values)
    if (rank /= 0) call table%import_rows(0_int64, values(:, :-1))
    call table%lookup(narrow_ids, vectors)
    done = .false.
    do while (.not. done)
      call table%lookup_test(done)
    end do
    call expect(all(vectors(:, 1) == 11) .and. all(vectors(:, 4) == rank), 'vectors are rows')
    call table%prefetch(ids)
    call table%update(gradients)
    done = .false.
    do while (.not. done)
      call table%prefetch_test(done)
    end do
    call table%lookup(ids, vectors)
    call table%lookup_wait()
    call expect(all(vectors(:, 3) == 11.0 - ranks) .and. all(vectors(:, 2) == rank - 1.0), 'rows follow gradients')
    done = .false.
    do while (.not. done)
      call table%update_test(done)
    end do
    call table%statistics(statistics)
    call expect(statistics%tokens == batch .and. statistics%distinct_rows == 2 .and. statistics%prefetched, 'statistics')
    call table%config(config)
    call expect(config%exchange == 'columns' .and. config%rows == rows .and. config%name == 'words' .and. .not. config%average, &
                'a table knows its configuration')
    call expect(table%memory_bytes() > 0, 'a table needs memory')

    ! by addresses, as for CUDA memory, and another learning rate
    call table%save_state(state)
    call table%set_learning_rate(1.0_real64)
    call table%prefetch_int64_on_stream(c_loc(ids), int(batch, int64), c_null_ptr)
    call table%prefetch_wait()
    call table%lookup_int64_on_stream(c_loc(ids), int(batch, int64), c_loc(addressed), c_null_ptr)
    call table%lookup_wait()
    call table%update_on_stream(c_loc(gradients), int(batch, int64), c_null_ptr)
    call table%update_wait()
    call table%prefetch_int32_on_stream(c_loc(narrow_ids), int(batch, int64), c_null_ptr)
    call table%lookup_int32_on_stream(c_loc(narrow_ids), int(batch, int64), c_loc(addressed), c_null_ptr)
    call table%lookup_wait()
    call expect(all(addressed(:, 2) == rank - 3.0), 'another learning rate')
    call table%prefetch(narrow_ids(:2))
    call table%prefetch_wait()
    call table%restore_state(state(:size(state) - 1), ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'a state cut short')
    call table%restore_state(state)
    call table%export_rows(11_int64, row)
    call expect(all(row == 11.0 - ranks), 'a restored table has its rows of before')
  end subroutine

  !> Tests that wrong arguments of the last rank are an error on all ranks.
  subroutine check_refusals(comm)
    type(weir_communicator), intent(in) :: comm
    type(weir_embedding_table) :: table
    type(weir_embedding_config) :: config
    integer(int64) :: ids(batch), wide_ids(2*batch)
    real(real32), asynchronous :: vectors(width, batch), gaps(width + 1, batch), few(width, batch - 1)
    real(real32), allocatable :: gone(:, :)
    integer :: ierr

    ids = [0, 1, 2, 3]
    wide_ids = 1
    gaps = 1
    few = 1
    allocate (gone(width, batch))
    deallocate (gone)
    config = small_table()
    if (bad) config%width = 0
    call table%create(comm, config, ierr)
    call expect_refused(ierr, comm, 'width is 0: it must be at least 1')
    call table%lookup(ids, vectors, ierr)
    call expect(ierr == WEIR_ERR_ARGUMENT .and. index(weir_last_error(), 'table') > 0, 'a table that was not made is refused')
    call table%create(comm, small_table())
    if (bad) call table%lookup(ids, gaps(:width, :))
    call expect_no_lookup('the array of vectors is not contiguous')
    if (bad) call table%lookup(ids, gone)
    call expect_no_lookup('the array of vectors is not allocated: allocate it before')
    if (bad) call table%lookup(ids, few)
    call expect_no_lookup('the shape of vectors is (3, 3): it must be (3, 4)')
    if (bad) call table%lookup(wide_ids(::2), vectors)
    call expect_no_lookup('the array of ids is not contiguous')
    if (bad) call table%prefetch(wide_ids(::2))
    if (.not. bad) call table%prefetch(ids)
    call table%prefetch_wait(ierr)
    call expect_wrong('the array of ids is not contiguous')
    if (bad) call table%lookup([0_int64, 12_int64], vectors(:, :2))
    if (.not. bad) call table%lookup(ids, vectors)
    call table%lookup_wait(ierr)
    call expect_refused(ierr, comm, 'looks up id 12 at position 1: ids go from 0 to 11')

    call table%lookup(ids, vectors)
    call table%lookup_wait()
    if (bad) call table%update(gaps(:width, :), ierr)
    if (.not. bad) call table%update(vectors)
    if (.not. bad) call table%update_wait(ierr)
    call expect_wrong('the array of gradients is not contiguous')
    if (bad) call table%update(gaps, ierr)
    if (.not. bad) call table%update(vectors)
    if (.not. bad) call table%update_wait(ierr)
    call expect_wrong('the shape of gradients is (4, 4): it must be (3, :)')
    if (bad) call table%export_rows(2_int64, gaps(:width, :), ierr)
    if (.not. bad) call table%export_rows(2_int64, vectors, ierr)
    call expect_wrong('the array of values is not contiguous')
    if (bad) call table%import_rows(2_int64, gaps, ierr)
    if (.not. bad) call table%import_rows(2_int64, vectors, ierr)
    call expect_wrong('the shape of values is (4, 4)')
    call expect(all(gaps == 1) .and. all(few == 1), 'refused arrays stay')
    call table%lookup(ids(:0), vectors(:, :0))
    call table%lookup_wait()
    call table%lookup(ids, few)
    call table%create(comm, small_table())
    call table%lookup_wait(ierr)
    call expect_status(ierr, WEIR_OK, comm, 'what the table before was refused')
    call table%destroy()
    call table%update_wait(ierr)
    call expect(ierr == WEIR_ERR_ARGUMENT, 'a table that has ended is refused')

  contains

    subroutine expect_no_lookup(text)
      character(len=*), intent(in) :: text

      if (.not. bad) call table%lookup(ids, vectors)
      call table%lookup_wait(ierr)
      call expect_wrong(text)
    end subroutine

    subroutine expect_wrong(text)
      character(len=*), intent(in) :: text

      call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, text)
      if (bad) call expect_text(comm%last_error(), 'table ''words'': '//text)
    end subroutine
  end subroutine

end module
