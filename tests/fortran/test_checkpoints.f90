! test_checkpoints.f90: files from which a run continues.
module checkpoints_of_runs
  use, intrinsic :: iso_c_binding, only: c_int
  use, intrinsic :: iso_fortran_env, only: int8, int32, int64, real32, real64
  use checks
  use mpi_f08
  use weir
  implicit none
  private
  public :: check_checkpoints

  integer, parameter :: n = 500, each = 3, sigusr1 = 10, sigkill = 9
  character(len=:), allocatable :: folder !< longer than most texts in configurations

  !> One object of every kind that a checkpoint saves.
  type :: objects
    type(weir_allreduce_plan) :: plan
    type(weir_embedding_table) :: table
    type(weir_fused_allreduce) :: fused
    type(weir_layer_optimizer) :: optimizer
    type(weir_sparse_adam) :: adam
    real(real32) :: gradient(n) = 0, update(n) = 0, weights(n) = 1, sparse(n) = 1, vectors(2, 3) = 0
  end type

  interface
    function c_getpid() bind(C, name='getpid') result(pid)
      import :: c_int
      integer(c_int) :: pid
    end function
    function c_raise(signal) bind(C, name='raise') result(status)
      import :: c_int
      integer(c_int), value :: signal
      integer(c_int) :: status
    end function
  end interface

contains

  subroutine check_checkpoints(comm)
    type(weir_communicator), intent(in) :: comm
    type(weir_checkpoint) :: checkpoint
    character(len=20) :: number
    integer :: pid, ierr

    pid = c_getpid()
    call MPI_Bcast(pid, 1, MPI_INTEGER, 0, MPI_COMM_WORLD)
    write (number, '(i0)') pid
    folder = '/tmp/weir-test-fortran-'//trim(number)//'-'//repeat('long', 20)
    call checkpoint%create(comm, weir_checkpoint_config(folder=folder), ierr)
    if (ierr == WEIR_ERR_UNSUPPORTED) then
      call expect_text(comm%last_error(), 'this build of Weir has no HDF5')
      if (rank == 0) print '(a)', 'skipped: this build of Weir has no HDF5: checkpoints in Fortran'
      return
    end if
    call expect_status(ierr, WEIR_OK, comm, 'making a checkpoint')
    call checkpoint%destroy()
    call check_going_on(comm)
    call clear()
    call check_arrays(comm)
    call clear()
    call check_files(comm)
    call clear()
    call check_refusals(comm)
    call clear()
  end subroutine

  !> Removes the folder once all ranks have looked.
  subroutine clear()
    call MPI_Barrier(MPI_COMM_WORLD)
    if (rank == 0) call execute_command_line('rm -rf '//folder)
    call MPI_Barrier(MPI_COMM_WORLD)
  end subroutine

  !> Makes one object of every kind, and adds it to a checkpoint.
  subroutine make(comm, checkpoint, of)
    type(weir_communicator), intent(in) :: comm
    type(weir_checkpoint), intent(inout) :: checkpoint
    type(objects), intent(inout) :: of
    type(weir_embedding_config) :: config
    type(weir_schedule) :: schedule

    config%rows = 10
    config%width = 2
    config%largest_batch = 3
    call of%plan%create(comm, weir_allreduce_config(count=n))
    call of%table%create(comm, config)
    call of%fused%create(comm, weir_fusion_config(scheme=WEIR_FUSION_AHEAD_INTER), &
                         [weir_fused_tensor(name='encoder', count=n / 2), weir_fused_tensor(name='decoder', count=n / 2)])
    call of%optimizer%create(comm, weir_optimizer_config(), &
                             [weir_optimized_layer(name='encoder', count=n / 2), weir_optimized_layer(name='decoder', count=n / 2)])
    call of%adam%create(weir_sparse_adam_config(count=n))
    call schedule%create(comm, ['encoder', 'decoder'])
    call checkpoint%create(comm, weir_checkpoint_config(folder=folder))
    call checkpoint%add('gradient  ', of%plan)
    call checkpoint%add('words', of%table)
    call checkpoint%add('model', of%fused)
    call checkpoint%add('optimizer', of%optimizer)
    call checkpoint%add('adam', of%adam)
    call checkpoint%add('step', schedule)
  end subroutine

  subroutine train(of, step)
    type(objects), intent(inout), asynchronous :: of
    integer, intent(in) :: step
    real(real32) :: shared(n)
    integer :: i

    shared = [(real(mod(i * 7919 + step * 1049, 1009) - 504, real32), i = 1, n)]
    of%gradient = shared * (rank + 1)
    of%update = of%gradient
    call of%plan%run(of%gradient)
    call of%fused%ready(2, of%update(n / 2 + 1:))
    call of%fused%ready(1, of%update(:n / 2))
    call of%fused%wait_all()
    call of%optimizer%step(of%weights, shared, 0.1_real64)
    call of%adam%step([1_int64, step + 2_int64], [real(step + 1, real32), -1.0_real32], of%sparse, 0.1_real64)
    call of%table%lookup([mod(step, 10), 1, 2], of%vectors)
    call of%table%lookup_wait()
    call of%table%update(of%vectors)
    call of%table%update_wait()
  end subroutine

  !> Tests that other objects of the same configuration continue bit for bit.
  subroutine check_going_on(comm)
    type(weir_communicator), intent(in) :: comm
    type(objects), asynchronous :: first, second
    type(weir_checkpoint) :: saving, loading
    integer(int64) :: found
    integer :: ierr

    call make(comm, saving, first)
    call make(comm, loading, second)
    call loading%restore(found)
    call expect(found == -1, 'an empty folder restores nothing')
    call train(first, 0)
    call saving%save(3_int64)
    second%weights = first%weights
    second%sparse = first%sparse
    call train(first, 1) ! during the save
    call saving%wait()
    call loading%restore(found)
    call expect(found == 3, 'the step that was saved is restored')
    call train(second, 1)
    call expect(all(first%gradient == second%gradient) .and. all(first%update == second%update) .and. &
                all(first%weights == second%weights) .and. all(first%sparse == second%sparse) .and. &
                all(first%vectors == second%vectors), 'a restored run goes on bit for bit')
    call first%plan%destroy()
    call saving%save(4_int64)
    call saving%wait(ierr)
    call expect_status(ierr, WEIR_ERR_STATE, comm, 'saving a plan that has ended')
    call expect_text(comm%last_error(), 'plan ''gradient'' was destroyed')
  end subroutine

  !> Tests arrays of every kind and rank.
  subroutine check_arrays(comm)
    type(weir_communicator), intent(in) :: comm
    type(weir_checkpoint) :: checkpoint
    type(weir_checkpoint_statistics) :: statistics
    integer(int8), target :: bytes(7)
    integer(int32), target :: counters(2)
    integer(int64), target :: large(2)
    real(real32), target :: weights(4, 5), filters(2, 3, 4), line(6)
    real(real64), target :: block(each), plane(2, 2), cube(2, 2, 2)
    real(real64), allocatable, target :: nowhere(:)
    integer(int64) :: found
    integer :: ierr

    call set(1)
    call checkpoint%create(comm, weir_checkpoint_config(folder=folder))
    call checkpoint%add_array('bytes', bytes, WEIR_DISTRIBUTION_REPLICATED)
    call checkpoint%add_array('counters', counters, WEIR_DISTRIBUTION_LOCAL)
    call checkpoint%add_array('large', large, WEIR_DISTRIBUTION_LOCAL)
    call checkpoint%add_array('weights', weights, WEIR_DISTRIBUTION_REPLICATED)
    call checkpoint%add_array('filters', filters, WEIR_DISTRIBUTION_REPLICATED)
    call checkpoint%add_array('line', line, WEIR_DISTRIBUTION_REPLICATED)
    call checkpoint%add_array('block', block, WEIR_DISTRIBUTION_BLOCK, rank * each + 1_int64, ranks * each + 0_int64)
    call checkpoint%add_array('plane', plane, WEIR_DISTRIBUTION_LOCAL)
    call checkpoint%add_array('cube', cube, WEIR_DISTRIBUTION_LOCAL)
    call checkpoint%save(0_int64)
    call set(0)
    call checkpoint%restore(found, 0_int64)
    call expect(found == 0, 'step 0 is restored')
    call expect(all(bytes == 7) .and. all(counters == rank + 1) .and. all(large == 2_int64**40 + rank) .and. &
                all(weights == 1.5) .and. all(filters == 2.5) .and. all(line == 3.5) .and. all(block == rank + 0.25_real64) .and. &
                all(plane == rank + 0.5_real64) .and. all(cube == rank + 0.75_real64), 'arrays come back')
    call checkpoint%statistics(statistics)
    call expect(statistics%step == 0 .and. statistics%ranks == ranks .and. statistics%bytes_written > 0, 'statistics')
    call checkpoint%add_array('nowhere', nowhere, WEIR_DISTRIBUTION_LOCAL, ierr=ierr)
    call expect_refused(ierr, comm, 'array ''nowhere'' is not allocated')
    call checkpoint%add_array('section', weights(1:4:2, :), WEIR_DISTRIBUTION_LOCAL, ierr=ierr)
    call expect_refused(ierr, comm, 'array ''section'' is not contiguous')
    call checkpoint%add_array('part', block, WEIR_DISTRIBUTION_BLOCK, ierr=ierr)
    call expect_refused(ierr, comm, 'give the number of its first element')
    call checkpoint%add_array('part', block, WEIR_DISTRIBUTION_BLOCK, 0_int64, 9_int64, ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'adding a block that begins at 0')
    call checkpoint%add_array('part', block, 7, ierr=ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'there is no such distribution')

  contains

    !> Returns the values to save, or 0.
    subroutine set(factor)
      integer, intent(in) :: factor

      bytes = int(7 * factor, int8)
      counters = (rank + 1) * factor
      large = (2_int64**40 + rank) * factor
      weights = 1.5 * factor
      filters = 2.5 * factor
      line = 3.5 * factor
      block = (rank + 0.25_real64) * factor
      plane = (rank + 0.5_real64) * factor
      cube = (rank + 0.75_real64) * factor
    end subroutine
  end subroutine

  !> Tests values, steps, and texts of any length.
  subroutine check_files(comm)
    type(weir_communicator), intent(in) :: comm
    type(weir_checkpoint) :: checkpoint, later
    type(weir_checkpoint_config) :: config
    character(len=:), allocatable :: text
    real(real64) :: rate
    integer(int64), allocatable :: steps(:)
    integer(int64) :: epoch, found
    integer :: ierr
    logical :: done

    config%folder = folder
    config%run = repeat('a run in its own words ', 5)
    config%keep = 3
    call checkpoint%create(comm, config)
    call later%create(comm, config)
    call checkpoint%steps(steps)
    call checkpoint%test(done)
    call expect(size(steps) == 0 .and. done, 'an empty folder has no steps, and nothing is in flight')
    call checkpoint%set('epoch', 3_int64)
    call checkpoint%set('rate', 0.1_real64)
    call checkpoint%set('model', 'two words ')
    call checkpoint%set('two words', 1_int64, ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'a name with a blank')
    epoch = 7
    call later%get('epoch', epoch, ierr)
    call expect(ierr == WEIR_ERR_ARGUMENT .and. epoch == 7, 'a value that is not there')
    call checkpoint%save(10_int64)
    call checkpoint%save(20_int64)
    done = .false.
    do while (.not. done)
      call checkpoint%test(done)
    end do
    call MPI_Barrier(MPI_COMM_WORLD)
    call checkpoint%steps(steps)
    call expect(size(steps) == 2 .and. all(steps == [10, 20]), 'steps of files')
    call later%restore(found, 10_int64)
    call expect(found == 10, 'a step that is asked for')
    call later%get('epoch', epoch)
    call later%get('rate', rate)
    call later%get('model', text)
    call expect(epoch == 3 .and. rate == 0.1_real64 .and. text == 'two words ' .and. len(text) == 10, 'values come back')
    call later%get('epoch', rate, ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'a value of another type')
    call checkpoint%restore(found, 15_int64, ierr)
    call expect_status(ierr, WEIR_ERR_FILE, comm, 'a step that is not there')
    call checkpoint%restore(found, -1_int64, ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'a step below 0')
    config = weir_checkpoint_config()
    call checkpoint%config(config)
    call expect(config%folder == folder .and. config%run == repeat('a run in its own words ', 5) .and. config%keep == 3, &
                'texts of any length are in force')
  end subroutine

  !> Tests refused calls, and a signal, which stops all ranks.
  subroutine check_refusals(comm)
    type(weir_communicator), intent(in) :: comm
    type(weir_checkpoint) :: checkpoint
    type(weir_allreduce_plan) :: plan
    integer(int64), allocatable :: steps(:)
    integer :: ierr

    call checkpoint%create(comm, weir_checkpoint_config(), ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'a checkpoint without a folder')
    call checkpoint%create(comm, weir_checkpoint_config(folder='/tmp/'//repeat('d', WEIR_LONG_TEXT_LENGTH - 5)), ierr)
    call expect(ierr /= WEIR_OK, 'a folder whose name is longer than any may be')
    call checkpoint%add('plan', plan, ierr)
    call expect(ierr == WEIR_ERR_ARGUMENT, 'there is no checkpoint')
    call checkpoint%steps(steps, ierr)
    call expect(ierr == WEIR_ERR_ARGUMENT .and. size(steps) == 0, 'there is no folder')
    call checkpoint%create(comm, weir_checkpoint_config(folder=folder))
    call checkpoint%add('plan', plan, ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'adding a plan that was not made')
    call plan%create(comm, weir_allreduce_config(count=n))
    call checkpoint%add('plan', plan)
    call checkpoint%add('plan', plan, ierr)
    call expect_refused(ierr, comm, 'names must differ')
    call weir_catch_signal(sigkill, ierr)
    call expect(ierr == WEIR_ERR_ARGUMENT, 'SIGKILL cannot be caught')
    call weir_catch_signal(sigusr1)
    call expect(.not. checkpoint%stop_requested(), 'no signal has come')
    if (bad) call expect(c_raise(sigusr1) == 0, 'a signal comes')
    call expect(checkpoint%stop_requested(), 'one rank''s signal stops all')
    call checkpoint%destroy()
    call checkpoint%destroy() ! of no checkpoint
  end subroutine

end module
