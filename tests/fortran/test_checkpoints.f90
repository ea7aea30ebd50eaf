! test_checkpoints.f90: files from which a run goes on.
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
    call check_values(comm)
    call clear()
    call check_files(comm)
    call clear()
    call check_refusals(comm)
    call check_signals(comm)
    call clear()
  end subroutine

  !> Removes the folder once all ranks have looked.
  subroutine clear()
    call MPI_Barrier(MPI_COMM_WORLD)
    if (rank == 0) call execute_command_line('rm -rf '//folder)
    call MPI_Barrier(MPI_COMM_WORLD)
  end subroutine

  subroutine open_folder(comm, checkpoint)
    type(weir_communicator), intent(in) :: comm
    type(weir_checkpoint), intent(inout) :: checkpoint

    call checkpoint%create(comm, weir_checkpoint_config(folder=folder))
  end subroutine

  subroutine train(plan, table, step, gradient, vectors)
    type(weir_allreduce_plan), intent(inout) :: plan
    type(weir_embedding_table), intent(inout) :: table
    integer, intent(in) :: step
    real(real32), intent(out), asynchronous :: gradient(n), vectors(2, 3)
    integer :: i

    gradient = [(real(mod(i * 7919 + step * 1049 + rank * 31, 1009) - 504, real32), i = 1, n)]
    call plan%run(gradient)
    call table%lookup([mod(step, 10), 1, 2], vectors)
    call table%lookup_wait()
    call table%update(vectors)
    call table%update_wait()
  end subroutine

  subroutine train_fused(fused, step, gradient)
    type(weir_fused_allreduce), intent(inout) :: fused
    integer, intent(in) :: step
    real(real32), intent(out), asynchronous :: gradient(n)
    integer :: i

    gradient = [(real(mod(i * 7919 + step * 1049 + rank * 31, 1009) - 504, real32), i = 1, n)]
    call fused%ready(2, gradient(n / 2 + 1:))
    call fused%ready(1, gradient(:n / 2))
    call fused%wait_all()
  end subroutine

  !> Gradients are the same on all ranks.
  subroutine train_optimizer(optimizer, step, weights)
    type(weir_layer_optimizer), intent(inout) :: optimizer
    integer, intent(in) :: step
    real(real32), intent(inout) :: weights(n)
    real(real32) :: gradient(n)
    integer :: i

    gradient = [(real(mod(i * 7919 + step * 1049, 1009) - 504, real32), i = 1, n)]
    call optimizer%step(weights, gradient, 0.1_real64)
  end subroutine

  !> Bit for bit, with other objects of the same configuration.
  subroutine check_going_on(comm)
    type(weir_communicator), intent(in) :: comm
    type(weir_allreduce_plan) :: first, second
    type(weir_embedding_table) :: trained, restored
    type(weir_fused_allreduce) :: fused, again
    type(weir_fused_tensor) :: tensors(2)
    type(weir_layer_optimizer) :: optimizer, optimizer_again
    type(weir_optimized_layer) :: layers(2)
    type(weir_sparse_adam) :: adam, adam_again
    type(weir_schedule) :: schedule
    type(weir_checkpoint) :: saving, loading
    type(weir_embedding_config) :: config
    real(real32), asynchronous :: a(n), b(n), c(n), d(n), weights(n), weights_again(n), rows_a(2, 3), rows_b(2, 3)
    real(real32) :: sparse(n), sparse_again(n)
    integer(int64) :: found
    integer :: step, ierr

    config%rows = 10
    config%width = 2
    config%largest_batch = 3
    call first%create(comm, weir_allreduce_config(count=n))
    call second%create(comm, weir_allreduce_config(count=n))
    call trained%create(comm, config)
    call restored%create(comm, config)
    tensors = [weir_fused_tensor(name='encoder', count=n / 2), weir_fused_tensor(name='decoder', count=n / 2)]
    call fused%create(comm, weir_fusion_config(scheme=WEIR_FUSION_AHEAD_INTER), tensors)
    call again%create(comm, weir_fusion_config(scheme=WEIR_FUSION_AHEAD_INTER), tensors)
    layers = [weir_optimized_layer(name='encoder', count=n / 2), weir_optimized_layer(name='decoder', count=n / 2)]
    call optimizer%create(comm, weir_optimizer_config(rule=WEIR_OPTIMIZER_LAMB, update=WEIR_OPERATOR_ALL), layers)
    call optimizer_again%create(comm, weir_optimizer_config(rule=WEIR_OPTIMIZER_LAMB), layers)
    call adam%create(weir_sparse_adam_config(count=n))
    call adam_again%create(weir_sparse_adam_config(count=n))
    call schedule%create(comm, ['encoder', 'decoder'])
    call open_folder(comm, saving)
    call saving%add('gradient  ', first)
    call saving%add('words', trained)
    call saving%add('model', fused)
    call saving%add('optimizer', optimizer)
    call saving%add('adam', adam)
    call saving%add('step', schedule)
    call open_folder(comm, loading)
    call loading%add('gradient', second)
    call loading%add('words', restored)
    call loading%add('model', again)
    call loading%add('optimizer', optimizer_again)
    call loading%add('adam', adam_again)
    call loading%add('step', schedule)
    call schedule%destroy()
    call loading%restore(found)
    call expect(found == -1, 'an empty folder restores nothing')
    weights = 1
    sparse = 1
    do step = 0, 2
      call train(first, trained, step, a, rows_a)
      call train_fused(fused, step, c)
      call train_optimizer(optimizer, step, weights)
      call adam%step([1_int64, n - 1_int64], [real(step + 1, real32), -1.0_real32], sparse, 0.1_real64)
    end do
    call saving%save(3_int64)
    weights_again = weights
    sparse_again = sparse
    call train_optimizer(optimizer, 3, weights) ! behind the save
    call adam%step([1_int64], [2.0_real32], sparse, 0.1_real64)
    call train(first, trained, 3, a, rows_a)
    call train_fused(fused, 3, c)
    call saving%wait()
    call loading%restore(found)
    call expect(found == 3, 'the step that was saved is restored')
    call train(second, restored, 3, b, rows_b)
    call train_fused(again, 3, d)
    call train_optimizer(optimizer_again, 3, weights_again)
    call adam_again%step([1_int64], [2.0_real32], sparse_again, 0.1_real64)
    call expect(all(a == b) .and. all(c == d) .and. all(rows_a == rows_b), 'a restored run goes on bit for bit')
    call expect(all(weights == weights_again), 'a restored optimizer goes on bit for bit')
    call expect(all(sparse == sparse_again), 'a restored sparse Adam goes on bit for bit')

    call first%destroy()
    call saving%save(4_int64)
    call saving%wait(ierr)
    call expect_status(ierr, WEIR_ERR_STATE, comm, 'saving a plan that has ended')
    call expect_text(comm%last_error(), 'plan ''gradient'' was destroyed')
  end subroutine

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
    integer :: i, ierr

    bytes = [(int(i, int8), i = 1, 7)]
    counters = rank
    large = 2_int64**40 + rank
    weights = 1.5
    filters = 2.5
    line = 3.5
    block = [(real(rank * each + i, real64), i = 1, each)]
    plane = rank + 0.5_real64
    cube = rank + 0.25_real64
    call open_folder(comm, checkpoint)
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
    bytes = 0
    counters = 0
    large = 0
    weights = 0
    filters = 0
    line = 0
    block = 0
    plane = 0
    cube = 0
    call checkpoint%restore(found, 0_int64)
    call expect(found == 0, 'step 0 is restored')
    call expect(all(bytes == [(int(i, int8), i = 1, 7)]) .and. all(counters == rank) .and. all(large == 2_int64**40 + rank), &
                'integers come back')
    call expect(all(weights == 1.5) .and. all(filters == 2.5) .and. all(line == 3.5), 'replicated arrays come back')
    call expect(all(block == [(real(rank * each + i, real64), i = 1, each)]), 'blocks come back')
    call expect(all(plane == rank + 0.5_real64) .and. all(cube == rank + 0.25_real64), 'local arrays come back')
    call checkpoint%statistics(statistics)
    call expect(statistics%step == 0 .and. statistics%ranks == ranks .and. statistics%bytes_written > 0, 'statistics')

    call checkpoint%add_array('nowhere', nowhere, WEIR_DISTRIBUTION_LOCAL, ierr=ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'adding an array that is not allocated')
    call expect_text(comm%last_error(), 'array ''nowhere'' is not allocated')
    call checkpoint%add_array('section', weights(1:4:2, :), WEIR_DISTRIBUTION_LOCAL, ierr=ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'adding a section with strides')
    call expect_text(comm%last_error(), 'array ''section'' is not contiguous')
    call checkpoint%add_array('part', block, WEIR_DISTRIBUTION_BLOCK, ierr=ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'adding a block without its place')
    call expect_text(comm%last_error(), 'give the number of its first element')
    call checkpoint%add_array('part', block, WEIR_DISTRIBUTION_BLOCK, 0_int64, 9_int64, ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'adding a block that begins at 0')
    call checkpoint%add_array('part', block, 7, ierr=ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'there is no such distribution')
  end subroutine

  subroutine check_values(comm)
    type(weir_communicator), intent(in) :: comm
    type(weir_checkpoint) :: checkpoint, later
    character(len=:), allocatable :: text
    real(real64) :: rate
    integer(int64) :: epoch, found
    integer :: ierr

    call open_folder(comm, checkpoint)
    call checkpoint%set('epoch', 3_int64)
    call checkpoint%set('rate', 0.1_real64)
    call checkpoint%set('model', 'two words ')
    call checkpoint%set('two words', 1_int64, ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'a name with a blank')
    call checkpoint%save(1_int64)
    call checkpoint%wait()
    call open_folder(comm, later)
    epoch = 7
    call later%get('epoch', epoch, ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'a value that is not there')
    call expect(epoch == 7, 'it stays as it was')
    call later%restore(found)
    call later%get('epoch', epoch)
    call later%get('rate', rate)
    call later%get('model', text)
    call expect(epoch == 3 .and. rate == 0.1_real64 .and. text == 'two words ' .and. len(text) == 10, 'values come back')
    call later%get('epoch', rate, ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'a value of another type')
  end subroutine

  subroutine check_files(comm)
    type(weir_communicator), intent(in) :: comm
    type(weir_checkpoint) :: checkpoint
    type(weir_checkpoint_config) :: config
    integer(int64), allocatable :: steps(:)
    integer(int64) :: found, step
    integer :: ierr
    logical :: done

    config%folder = folder
    config%run = repeat('a run in its own words ', 5)
    config%keep = 3
    call checkpoint%create(comm, config)
    call checkpoint%steps(steps)
    call expect(size(steps) == 0, 'an empty folder has no steps')
    call checkpoint%test(done)
    call expect(done, 'nothing is in flight before the first save')
    do step = 10, 40, 10
      call checkpoint%save(step)
    end do
    done = .false.
    do while (.not. done)
      call checkpoint%test(done)
    end do
    call MPI_Barrier(MPI_COMM_WORLD)
    call checkpoint%steps(steps)
    call expect(all(steps == [20, 30, 40]) .and. size(steps) == 3, 'the last three are kept')
    call checkpoint%restore(found, 30_int64)
    call expect(found == 30, 'a step that is asked for')
    call checkpoint%restore(found, 10_int64, ierr)
    call expect_status(ierr, WEIR_ERR_FILE, comm, 'a step that is not there')
    call checkpoint%restore(found, -1_int64, ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'a step below 0')
    call checkpoint%save(-1_int64)
    call checkpoint%wait(ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'saving a step below 0')
    config = weir_checkpoint_config()
    call checkpoint%config(config)
    call expect(config%folder == folder .and. config%run == repeat('a run in its own words ', 5) .and. config%keep == 3, &
                'texts of any length are in force')
    call MPI_Barrier(MPI_COMM_WORLD)
  end subroutine

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
    call open_folder(comm, checkpoint)
    call checkpoint%add('plan', plan, ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'adding a plan that was not made')
    call plan%create(comm, weir_allreduce_config(count=n))
    call checkpoint%add('plan', plan)
    call checkpoint%add('plan', plan, ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'adding the same twice')
    call expect_text(comm%last_error(), 'names must differ')
    call checkpoint%destroy(ierr)
    call expect_status(ierr, WEIR_OK, comm, 'destroying a checkpoint')
    call checkpoint%destroy(ierr)
    call expect_status(ierr, WEIR_OK, comm, 'destroying it twice')
  end subroutine

  subroutine check_signals(comm)
    type(weir_communicator), intent(in) :: comm
    type(weir_checkpoint) :: checkpoint
    integer :: ierr

    call open_folder(comm, checkpoint)
    call weir_catch_signal(sigkill, ierr)
    call expect(ierr == WEIR_ERR_ARGUMENT, 'SIGKILL cannot be caught')
    call weir_catch_signal(sigusr1)
    call expect(.not. checkpoint%stop_requested(), 'no signal has come')
    if (rank == ranks - 1) call expect(c_raise(sigusr1) == 0, 'a signal comes')
    call expect(checkpoint%stop_requested(), 'one rank''s signal stops all')
  end subroutine

end module
