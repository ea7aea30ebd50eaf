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
    integer :: i

    exchanges = weir_exchanges()
    call expect(size(exchanges) >= 6 .and. exchanges(1)%name == 'columns', 'exchanges have names')
    do i = 1, size(exchanges)
      call expect(len(exchanges(i)%description) > 0, 'exchanges have descriptions')
      call check_training(comm, exchanges(i)%name)
    end do
    call check_restart(comm)
    call check_refused_arrays(comm)
    call check_refused_calls(comm)
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

  !> Row i is i everywhere.
  subroutine import_simple_rows(table)
    type(weir_embedding_table), intent(inout) :: table
    real(real32) :: values(width, 0:rows - 1), nothing(width, 0)
    integer :: i

    do i = 0, rows - 1
      values(:, i) = real(i, real32)
    end do
    if (rank == 0) call table%import_rows(0_int64, values)
    if (rank /= 0) call table%import_rows(0_int64, nothing)
  end subroutine

  !> Rank r looks up rows 11 and r, each twice; the gradient of each vector is 1.
  subroutine check_training(comm, exchange)
    type(weir_communicator), intent(in) :: comm
    character(len=*), intent(in) :: exchange
    type(weir_embedding_table) :: table
    type(weir_embedding_config) :: config
    type(weir_embedding_statistics) :: statistics
    integer(int64), target :: ids(batch)
    integer(int32), target :: narrow_ids(batch)
    real(real32), asynchronous :: vectors(width, batch)
    real(real32), target :: addressed(width, batch), gradients(width, batch), row(width, 1)
    logical :: done

    ids = [11, rank, 11, rank]
    narrow_ids = int(ids, int32)
    gradients = 1
    config = small_table()
    config%exchange = exchange
    call table%create(comm, config)
    call table%lookup_wait() ! for nothing
    call import_simple_rows(table)

    call table%lookup(narrow_ids, vectors)
    done = .false.
    do while (.not. done)
      call table%lookup_test(done)
    end do
    call expect(all(vectors(:, 1) == 11) .and. all(vectors(:, 4) == rank), exchange//': vectors are rows')
    call table%prefetch(ids)
    call table%update(gradients)
    done = .false.
    do while (.not. done)
      call table%prefetch_test(done)
    end do
    call table%lookup(ids, vectors)
    call table%lookup_wait()
    call expect(all(vectors(:, 3) == 11.0 - ranks) .and. all(vectors(:, 2) == rank - 1.0), exchange//': rows follow gradients')
    done = .false.
    do while (.not. done)
      call table%update_test(done)
    end do
    call table%statistics(statistics)
    call expect(statistics%tokens == batch .and. statistics%distinct_rows == 2 .and. statistics%prefetched, &
                exchange//': statistics count tokens')

    ! by addresses, as for CUDA memory, and another learning rate
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
    call expect(all(addressed(:, 2) == rank - 3.0), exchange//': another learning rate')
    call table%update(gradients)
    call table%update_wait()
    call table%prefetch(narrow_ids(:2))
    call table%prefetch_wait()
    call table%export_rows(11_int64, row)
    call expect(all(row == 11.0 - 5*ranks), exchange//': exported rows are those of the table')
    call table%config(config)
    call expect(config%exchange == exchange .and. config%rows == rows .and. config%name == 'words' .and. .not. config%average, &
                exchange//': a table knows its configuration')
    call expect(table%memory_bytes() > 0, exchange//': a table needs memory')
  end subroutine

  subroutine check_restart(comm)
    type(weir_communicator), intent(in) :: comm
    type(weir_embedding_table) :: saved, restored
    type(weir_embedding_config) :: config
    integer(int8), allocatable :: state(:)
    real(real32), asynchronous :: expected(width, batch), vectors(width, batch)
    integer :: i, ierr

    config = small_table()
    config%optimizer = WEIR_OPTIMIZER_ADAM
    call saved%create(comm, config)
    call restored%create(comm, config)
    do i = 1, 3
      call train(saved, i, expected)
    end do
    call saved%save_state(state)
    call restored%restore_state(state)
    do i = 4, 6
      call train(saved, i, expected)
      call train(restored, i, vectors)
      call expect(all(vectors == expected), 'a restored table goes on bit for bit')
    end do
    call restored%restore_state(state(:size(state) - 1), ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'a state cut short')
  end subroutine

  subroutine train(table, step, vectors)
    type(weir_embedding_table), intent(inout) :: table
    integer, intent(in) :: step
    real(real32), intent(inout), asynchronous :: vectors(:, :)
    real(real32) :: gradients(width, batch)
    integer :: i

    call table%lookup([(modulo(i*step + rank, rows), i=1, batch)], vectors)
    call table%lookup_wait()
    gradients = vectors + 0.1*step
    call table%update(gradients)
    call table%update_wait()
  end subroutine

  !> What one rank, the last, gives wrongly is an error on all.
  subroutine check_refused_arrays(comm)
    type(weir_communicator), intent(in) :: comm
    type(weir_embedding_table) :: table
    integer(int64) :: ids(batch), wide_ids(2*batch)
    real(real32), asynchronous :: vectors(width, batch), gaps(width + 1, batch), few(width, batch - 1)
    real(real32) :: gradients(width, batch)
    real(real32), allocatable :: gone(:, :)
    logical :: bad
    integer :: ierr

    bad = rank == ranks - 1
    ids = [0, 1, 2, 3]
    wide_ids = 1
    gradients = 1
    gaps = 1
    few = 1
    call table%create(comm, small_table())

    if (bad) call table%lookup(ids, gaps(:width, :))
    if (.not. bad) call table%lookup(ids, vectors)
    call table%lookup_wait(ierr)
    call expect_refused('vectors with gaps', 'the array of vectors is not contiguous')
    allocate (gone(width, batch))
    deallocate (gone)
    if (bad) call table%lookup(ids, gone)
    if (.not. bad) call table%lookup(ids, vectors)
    call table%lookup_wait(ierr)
    call expect_refused('vectors that are not allocated', 'the array of vectors is not allocated: allocate it before')
    if (bad) call table%lookup(ids, few)
    if (.not. bad) call table%lookup(ids, vectors)
    call table%lookup_wait(ierr)
    call expect_refused('too few vectors', 'the shape of vectors is (3, 3): it must be (3, 4)')
    if (bad) call table%lookup(wide_ids(::2), vectors)
    if (.not. bad) call table%lookup(ids, vectors)
    call table%lookup_wait(ierr)
    call expect_refused('ids with gaps', 'the array of ids is not contiguous')
    if (bad) call table%prefetch(wide_ids(::2))
    if (.not. bad) call table%prefetch(ids)
    call table%prefetch_wait(ierr)
    call expect_refused('ids with gaps', 'the array of ids is not contiguous')
    if (bad) ids(3) = rows
    call table%lookup(ids, vectors)
    call table%lookup_wait(ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'an id beyond the table')
    call expect_text(comm%last_error(), 'looks up id 12 at position 2: ids go from 0 to 11')
    ids(3) = 2

    call table%lookup(ids, vectors)
    call table%lookup_wait()
    if (bad) call table%update(gaps(:width, :), ierr)
    if (.not. bad) call table%update(gradients)
    if (.not. bad) call table%update_wait(ierr)
    call expect_refused('gradients with gaps', 'the array of gradients is not contiguous')
    if (bad) call table%update(gaps, ierr)
    if (.not. bad) call table%update(gradients)
    if (.not. bad) call table%update_wait(ierr)
    call expect_refused('gradients of another width', 'the shape of gradients is (4, 4): it must be (3, :)')
    call table%update(gradients)
    call table%update_wait()

    if (bad) call table%export_rows(2_int64, gaps(:width, :), ierr)
    if (.not. bad) call table%export_rows(2_int64, vectors, ierr)
    call expect_refused('exported to an array with gaps', 'the array of values is not contiguous')
    if (bad) call table%import_rows(2_int64, gaps, ierr)
    if (.not. bad) call table%import_rows(2_int64, vectors, ierr)
    call expect_refused('imported from an array of another width', 'the shape of values is (4, 4)')
    call expect(all(gaps == 1) .and. all(few == 1), 'refused arrays stay')

  contains

    subroutine expect_refused(what, text)
      character(len=*), intent(in) :: what, text

      call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, what)
      if (bad) call expect_text(comm%last_error(), 'table ''words'': '//text)
    end subroutine
  end subroutine

  subroutine check_refused_calls(comm)
    type(weir_communicator), intent(in) :: comm
    type(weir_embedding_table) :: table, no_table
    type(weir_embedding_config) :: config
    type(weir_embedding_statistics) :: statistics
    real(real32), asynchronous :: vectors(width, batch)
    integer(int64) :: no_ids(0)
    logical :: done
    integer :: ierr

    config = small_table()
    if (rank == 0) config%width = 0
    call table%create(comm, config, ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'no width on one rank')
    call expect_text(comm%last_error(), 'width is 0: it must be at least 1')
    config = small_table()
    config%exchange = 'pigeons'
    call table%create(comm, config, ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'an unknown exchange')
    config = small_table()
    config%seed = rank
    call table%create(comm, config, ierr)
    if (ranks > 1) call expect_status(ierr, WEIR_ERR_MISMATCH, comm, 'different seeds')
    vectors = 0
    call no_table%lookup(no_ids, vectors(:, :0), ierr)
    call expect(ierr == WEIR_ERR_ARGUMENT .and. index(weir_last_error(), 'table') > 0, 'a table that was never made is refused')
    call no_table%lookup_test(done, ierr)
    call expect(ierr == WEIR_ERR_ARGUMENT, 'no table has no lookup')
    call no_table%update(vectors, ierr)
    call expect(ierr == WEIR_ERR_ARGUMENT, 'no table has no update')
    call no_table%statistics(statistics, ierr)
    call expect(ierr == WEIR_ERR_ARGUMENT, 'no table has no statistics')
    call table%create(comm, small_table())
    call table%lookup(no_ids, vectors(:, :0))
    call table%lookup_wait()
    call table%destroy(ierr)
    call expect_status(ierr, WEIR_OK, comm, 'the end of a table')
    call table%set_learning_rate(1.0_real64, ierr)
    call expect(ierr == WEIR_ERR_ARGUMENT, 'a table that has ended is refused')
  end subroutine

end module
