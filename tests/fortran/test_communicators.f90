! test_communicators.f90: communicators, their lifetimes, and procedures without a communicator.
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

  !> Tests the library's texts and lists.
  subroutine check_library()
    type(weir_algorithm_info), allocatable :: algorithms(:)
    type(weir_compressor_info), allocatable :: compressors(:)
    type(weir_setting_info), allocatable :: settings(:)
    integer :: major, minor, patch, i, found

    call weir_set_log_procedure(count_message)
    call weir_version(major, minor, patch)
    call expect(major == 0 .and. minor >= 1 .and. patch >= 0, 'the version is a version')
    call expect(weir_status_text(WEIR_ERR_DEVICE) == 'the GPU or its driver failed', 'statuses have texts')
    call expect(weir_level_name(WEIR_LEVEL_SWITCH_GROUP) /= '' .and. weir_level_name(77) == '', 'levels have names')
    call expect((weir_mpi_family() == 'Open MPI' .or. weir_mpi_family() == 'MPICH') .and. weir_mpi_library() /= '', 'the MPI')
    algorithms = weir_algorithms()
    compressors = weir_compressors()
    settings = weir_settings()
    found = 0
    do i = 1, size(algorithms)
      if (algorithms(i)%name == 'oktopk' .and. algorithms(i)%sparse .and. algorithms(i)%description /= '') found = found + 1
      if (algorithms(i)%name == 'packed_allgather' .and. algorithms(i)%packed) found = found + 1
    end do
    do i = 1, size(compressors)
      if (compressors(i)%name == 'qsgd' .and. compressors(i)%carriage == 'packed' .and. compressors(i)%random .and. &
          compressors(i)%parameters == 'levels=7,bucket=512' .and. compressors(i)%source /= '') found = found + 1
    end do
    do i = 1, size(settings)
      if (settings(i)%name == 'WEIR_TIMEOUT' .and. settings(i)%value /= '' .and. settings(i)%origin /= '') found = found + 1
    end do
    call expect(found == 4, 'algorithms, compressors and settings are listed')
    call weir_init() ! does nothing if MPI is initialised
    call weir_finalize() ! does nothing if the program has initialised MPI
  end subroutine

  !> Tests communicators of every origin, their queries, and refused calls.
  subroutine check_communicators()
    type(weir_communicator) :: comm, half, world, same, no_comm
    type(MPI_Comm) :: mpi_half, mpi_null
    real(real64), allocatable :: shares(:), reals(:)
    integer(int32), allocatable :: integers(:)
    integer(int64), allocatable :: longs(:)
    character(len=20) :: word, path
    real(real64) :: total
    integer :: i, ierr, unit, found

    call same%create(MPI_COMM_WORLD%mpi_val) ! as module mpi has it
    call world%create_world()
    call expect(same%rank() == rank .and. same%size() == ranks .and. world%rank() == rank .and. world%size() == ranks, 'the world')
    call MPI_Comm_split(MPI_COMM_WORLD, modulo(rank, 2), rank, mpi_half)
    call half%create(mpi_half)
    call MPI_Comm_free(mpi_half)
    call expect(half%size() == (ranks + 1 - modulo(rank, 2))/2, 'a part of the world is smaller, and lives after its MPI_Comm')
    call comm%create(MPI_COMM_WORLD)
    call comm%create(MPI_COMM_WORLD) ! the other one ends first
    call expect_text(comm%topology(), 'rank')
    call expect(comm%level(rank) == WEIR_LEVEL_SELF, 'a rank is its own neighbour')
    call expect(all(comm%group(WEIR_LEVEL_SELF) == rank) .and. size(comm%group(WEIR_LEVEL_NODE)) == ranks, 'groups')
    call expect(comm%nearest_gpu() >= -1, 'a GPU or none')
    shares = comm%stragglers(10)
    call expect(size(shares) == ranks .and. abs(sum(shares)) <= 1 + 1e-6, 'shares of waiting are shares')

    integers = [rank, -rank]
    longs = integers + 2_int64**40
    reals = [rank + 0.5_real64]
    word = merge('everybody''s', 'mine       ', rank == 0)
    call comm%broadcast(integers, ranks - 1)
    call comm%broadcast(longs, ranks - 1)
    call comm%broadcast(reals, ranks - 1)
    call comm%broadcast(word, 0)
    call expect(all(integers == [ranks - 1, 1 - ranks]) .and. all(longs == integers + 2_int64**40) .and. &
                reals(1) == ranks - 0.5_real64 .and. word == 'everybody''s', 'what one rank broadcasts')
    deallocate (integers, longs, reals)
    allocate (integers(ranks), longs(ranks), reals(ranks))
    call comm%allgather([rank], integers)
    call comm%allgather([2_int64**40 + rank], longs)
    call comm%allgather([real(rank, real64)], reals)
    call expect(all(integers == [(i, i=0, ranks - 1)]) .and. all(longs == 2_int64**40 + integers) .and. &
                all(nint(reals) == integers), 'what all ranks gather')
    call comm%broadcast(integers, ranks, ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'there is no such root')
    call comm%allgather([1, 2], integers, ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'too little room')
    call comm%sum([1d20, 1.0d0, -1d20], total)
    call comm%sum(reshape([1.0, 2.0, 3.0, 4.0], [2, 2]), reals(:2))
    call expect(total == ranks .and. all(reals(:2) == ranks * [3, 7]), 'sums over all ranks')
    call comm%sum(reshape([1.0, 2.0, 3.0, 4.0], [2, 2]), reals(:1), ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'two columns and one total')
    write (path, '(a, i0, a)') 'dump.', rank, '.json'
    call comm%dump(path)
    open (newunit=unit, file=path, status='old')
    close (unit, status='delete')

    found = comm%level(ranks, ierr)
    call expect(found == -1 .and. ierr == WEIR_ERR_ARGUMENT, 'there is no such peer')
    found = size(comm%group(77, ierr))
    call expect(found == 0 .and. ierr == WEIR_ERR_ARGUMENT, 'there is no such level')
    shares = comm%stragglers(0, ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'shares of no runs')
    call comm%dump('/dev/null/dump.json', ierr)
    call expect_refused(ierr, comm, '/dev/null')
    mpi_null = MPI_COMM_NULL
    call no_comm%create(mpi_null, ierr)
    call expect(ierr == WEIR_ERR_ARGUMENT .and. weir_last_error() /= '', 'MPI_COMM_NULL is refused')
    call expect(no_comm%size(ierr) == 0 .and. ierr == WEIR_ERR_ARGUMENT, 'no communicator has no size')
    call expect(no_comm%rank(ierr) == -1 .and. no_comm%topology() == '', 'no communicator has no rank and no topology')
    call check_subgroups(comm)
    call check_lives()
    call check_messages(comm)
    call world%destroy()
    call world%destroy() ! of no communicator
    found = world%size(ierr)
    call expect(found == 0 .and. ierr == WEIR_ERR_ARGUMENT, 'a communicator that has ended is refused')
  end subroutine

  !> Tests communicators of some ranks of another one.
  subroutine check_subgroups(comm)
    type(weir_communicator), intent(inout) :: comm
    type(weir_communicator) :: half, alone
    type(weir_allreduce_plan) :: plan
    real(real32) :: gradient(10)
    integer, allocatable :: parity(:)
    integer :: i, ierr

    parity = [(i, i=modulo(rank, 2), ranks - 1, 2)]
    parity = parity(size(parity):1:-1)
    call half%create_subgroup(comm, parity)
    call expect(half%size() == size(parity) .and. parity(half%rank() + 1) == rank, 'a subgroup of one parity, reversed')
    call alone%create_subgroup(half, [half%rank()])
    call half%destroy()
    call plan%create(alone, weir_allreduce_config(count=10))
    gradient = 1
    call plan%run(gradient)
    call expect(alone%size() == 1 .and. any(gradient == 1), 'a subgroup outlives its communicator')
    call half%create_subgroup(comm, [(i, i=0, ranks)], ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'a subgroup with a rank that does not exist')
    call expect_text(comm%last_error(), 'the list has rank')
    call half%create_subgroup(comm, [integer ::], ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'a subgroup of no ranks')
    call half%create_subgroup(comm, [rank, rank], ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'a subgroup with a rank twice')
  end subroutine

  !> Tests that communicators, plans and schedules end with their scope, in any order, and not too early.
  subroutine check_lives()
    type(weir_communicator), allocatable :: early
    type(weir_allreduce_plan), allocatable :: plans(:)
    real(real32) :: gradient(10)
    integer :: i, ierr

    gradient = 1
    do i = 1, 3
      block
        type(weir_communicator) :: comm
        type(weir_allreduce_plan) :: plan
        type(weir_schedule) :: schedule
        call comm%create(MPI_COMM_WORLD)
        call plan%create(comm, weir_allreduce_config(count=10))
        call schedule%create(comm, ['all'])
        call plan%run(gradient)
      end block
    end do
    allocate (early, plans(3))
    call early%create(MPI_COMM_WORLD)
    do i = 1, size(plans)
      call plans(i)%create(early, weir_allreduce_config(count=10))
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

  !> Tests that, with WEIR_LOG info, messages go to the procedure until it is removed.
  subroutine check_messages(comm)
    type(weir_communicator), intent(in) :: comm
    type(weir_allreduce_plan) :: plan
    integer :: before

    before = messages
    call plan%create(comm, weir_allreduce_config(count=10))
    call expect(messages > before, 'messages come to the procedure')
    before = messages
    call weir_set_log_procedure()
    call plan%create(comm, weir_allreduce_config(count=10))
    call expect(messages == before, 'messages no longer come to the procedure')
    call weir_set_log_procedure(count_message)
  end subroutine

  subroutine count_message(level, text)
    integer, intent(in) :: level
    character(len=*), intent(in) :: text

    call expect(level >= WEIR_LOG_LEVEL_ERROR .and. level <= WEIR_LOG_LEVEL_DEBUG .and. text /= '', 'a message')
    messages = messages + 1
  end subroutine

end module
