! test_communicators.f90: communicators, how long they live, and what belongs to none.
module communicators_of_mpi
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64
  use checks
  use mpi_f08
  use weir
  implicit none
  private
  public :: check_library, check_communicators

  integer :: messages = 0

contains

  subroutine check_library()
    type(weir_algorithm_info), allocatable :: algorithms(:)
    type(weir_compressor_info), allocatable :: compressors(:)
    type(weir_setting_info), allocatable :: settings(:)
    integer :: major, minor, patch, ierr, i
    logical :: found

    call weir_set_log_procedure(count_message)
    call weir_version(major, minor, patch)
    call expect(major == 0 .and. minor >= 1 .and. patch >= 0, 'the version is a version')
    call expect(weir_status_text(WEIR_OK) == 'success' .and. weir_status_text(WEIR_ERR_DEVICE) == 'the GPU or its driver failed', &
                'statuses have texts')
    call expect(weir_level_name(WEIR_LEVEL_SWITCH_GROUP) /= '' .and. weir_level_name(77) == '', 'levels have names')
    call expect(weir_mpi_family() == 'Open MPI' .or. weir_mpi_family() == 'MPICH', 'the MPI has a family')
    call expect(weir_mpi_library() /= '', 'the MPI says what it is')
    algorithms = weir_algorithms()
    found = .false.
    do i = 1, size(algorithms)
      if (algorithms(i)%name /= 'oktopk') cycle
      found = algorithms(i)%sparse .and. algorithms(i)%host_memory .and. algorithms(i)%description /= ''
    end do
    call expect(found, 'oktopk is among the algorithms')
    call expect(any([(algorithms(i)%packed, i=1, size(algorithms))]), 'some algorithm is packed')
    compressors = weir_compressors()
    found = .false.
    do i = 1, size(compressors)
      if (compressors(i)%name /= 'qsgd') cycle
      found = compressors(i)%carriage == 'packed' .and. compressors(i)%parameters == 'levels=7,bucket=512' .and. &
              compressors(i)%random .and. compressors(i)%source /= '' .and. compressors(i)%description /= ''
    end do
    call expect(found, 'qsgd is among the compressors')
    settings = weir_settings()
    found = .false.
    do i = 1, size(settings)
      if (settings(i)%name == 'WEIR_TIMEOUT') &
        found = settings(i)%value /= '' .and. settings(i)%origin /= '' .and. settings(i)%description /= ''
    end do
    call expect(found, 'WEIR_TIMEOUT is among the settings')
    call weir_init(ierr)
    call expect(ierr == WEIR_OK, 'weir_init where MPI is initialised does nothing')
    call weir_finalize(ierr)
    call expect(ierr == WEIR_OK, 'weir_finalize where the program has initialised MPI does nothing')
  end subroutine

  subroutine check_communicators()
    type(weir_communicator) :: comm, half, world, same, no_comm
    type(MPI_Comm) :: mpi_half, mpi_null
    real(real64), allocatable :: shares(:), everybody(:)
    integer(int32) :: told(2)
    character(len=12) :: word
    integer :: i
    integer :: ierr, unit, found
    logical :: there
    character(len=20) :: path

    call comm%create(MPI_COMM_WORLD)
    call expect(comm%rank() == rank .and. comm%size() == ranks, 'ranks are those of MPI')
    call same%create(MPI_COMM_WORLD%mpi_val) ! as module mpi has it
    call expect(same%rank() == rank .and. same%size() == ranks, 'handles of module mpi are as good')
    call world%create_world()
    call expect(world%rank() == rank .and. world%size() == ranks, 'the world is that of MPI')
    call MPI_Comm_split(MPI_COMM_WORLD, modulo(rank, 2), rank, mpi_half)
    call half%create(mpi_half)
    call MPI_Comm_free(mpi_half)
    call expect(half%size() == (ranks + 1 - modulo(rank, 2))/2, 'a part of the world is smaller, and lives after its MPI_Comm')
    call comm%create(MPI_COMM_WORLD) ! the other one ends first

    call expect_text(comm%topology(), 'rank')
    call expect(comm%level(rank) == WEIR_LEVEL_SELF, 'a rank is its own neighbour')
    call expect(comm%level(modulo(rank + 1, ranks)) <= WEIR_LEVEL_NODE, 'all ranks of this test are on one node')
    call expect(size(comm%group(WEIR_LEVEL_SELF)) == 1 .and. all(comm%group(WEIR_LEVEL_SELF) == rank), &
                'the smallest group is the rank')
    call expect(size(comm%group(WEIR_LEVEL_NODE)) == ranks, 'the group of a node has all its ranks')
    call expect(comm%nearest_gpu() >= -1, 'a GPU or none')
    shares = comm%stragglers(10)
    call expect(size(shares) == ranks .and. abs(sum(shares)) <= 1 + 1e-6, 'shares of waiting are shares')
    told = [rank, -rank]
    call comm%broadcast(told, ranks - 1)
    call expect(all(told == [ranks - 1, 1 - ranks]), 'numbers of the last rank')
    word = 'mine'
    if (rank == 0) word = 'everybody''s'
    call comm%broadcast(word, 0)
    call expect(word == 'everybody''s', 'the text of rank 0')
    allocate (everybody(ranks))
    call comm%allgather([real(rank, real64)], everybody)
    call expect(all(nint(everybody) == [(i, i=0, ranks - 1)]), 'a number of each rank')
    call comm%broadcast(told, ranks, ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'there is no such root')
    call comm%allgather(told, told, ierr)
    if (ranks > 1) call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'too little room')
    write (path, '(a, i0, a)') 'dump.', rank, '.json'
    call comm%dump(path)
    inquire (file=path, exist=there)
    call expect(there, 'a dump is a file')
    open (newunit=unit, file=path, status='old')
    close (unit, status='delete')

    found = comm%level(ranks, ierr)
    call expect(found == -1 .and. ierr == WEIR_ERR_ARGUMENT, 'there is no such peer')
    found = size(comm%group(77, ierr))
    call expect(found == 0 .and. ierr == WEIR_ERR_ARGUMENT, 'there is no such level')
    shares = comm%stragglers(0, ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'shares of no runs')
    call comm%dump('/dev/null/dump.json', ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'a dump to nowhere')
    call expect_text(comm%last_error(), '/dev/null')
    mpi_null = MPI_COMM_NULL
    call no_comm%create(mpi_null, ierr)
    call expect(ierr == WEIR_ERR_ARGUMENT .and. weir_last_error() /= '', 'MPI_COMM_NULL is refused')
    found = no_comm%size(ierr)
    call expect(found == 0 .and. ierr == WEIR_ERR_ARGUMENT, 'no communicator has no size')
    found = no_comm%rank(ierr)
    call expect(found == -1 .and. ierr == WEIR_ERR_ARGUMENT, 'no communicator has no rank')
    call expect(no_comm%topology() == '', 'no communicator has no topology')

    call check_lives()
    call check_messages(comm)
    call world%destroy(ierr)
    call expect_status(ierr, WEIR_OK, comm, 'the end of a communicator')
    call world%destroy(ierr)
    call expect_status(ierr, WEIR_OK, comm, 'the end of no communicator')
    found = world%size(ierr)
    call expect(found == 0 .and. ierr == WEIR_ERR_ARGUMENT, 'a communicator that has ended is refused')
  end subroutine

  !> Communicators, plans, tables and schedules end with their scope, whichever is first, and none too early.
  subroutine check_lives()
    type(weir_communicator), allocatable :: early
    type(weir_allreduce_plan), allocatable :: plans(:)
    type(weir_allreduce_config) :: config
    real(real32) :: gradient(10)
    integer :: i, ierr

    config%count = size(gradient)
    do i = 1, 3
      block
        type(weir_communicator) :: comm
        type(weir_allreduce_plan) :: plan
        type(weir_schedule) :: schedule
        call comm%create(MPI_COMM_WORLD)
        call plan%create(comm, config)
        call schedule%create(comm, ['all'])
        gradient = 1
        call plan%run(gradient, ierr)
        call expect_status(ierr, WEIR_OK, comm, 'a run in a scope')
      end block
    end do

    allocate (early, plans(3))
    call early%create(MPI_COMM_WORLD)
    do i = 1, size(plans)
      call plans(i)%create(early, config)
    end do
    call early%destroy(ierr)
    call expect_status(ierr, WEIR_ERR_BUSY, early, 'the end of a communicator that is in use')
    call expect_text(early%last_error(), '3 plan(s), table(s), fused allreduce(s), schedule(s) or checkpoint(s) still use')
    deallocate (early) ! its plans keep it
    gradient = 1
    call plans(2)%run(gradient)
    call expect(any(gradient == 1), 'a plan outlives the variable of its communicator')
    deallocate (plans)
  end subroutine

  !> What was logged so far has come here; for a moment, it goes to stderr.
  subroutine check_messages(comm)
    type(weir_communicator), intent(in) :: comm
    type(weir_allreduce_plan) :: plan
    type(weir_allreduce_config) :: config

    integer :: before

    config%count = 10
    before = messages
    call plan%create(comm, config)
    call expect(messages > before, 'messages come to the procedure, where WEIR_LOG is info')
    before = messages
    call weir_set_log_procedure()
    call plan%create(comm, config)
    call expect(messages == before, 'messages no longer come to the procedure')
    call weir_set_log_procedure(count_message)
  end subroutine

  subroutine count_message(level, text)
    integer, intent(in) :: level
    character(len=*), intent(in) :: text

    call expect(level >= WEIR_LOG_LEVEL_ERROR .and. level <= WEIR_LOG_LEVEL_DEBUG .and. text /= '', &
                'a message has a level and a text')
    messages = messages + 1
  end subroutine

end module
