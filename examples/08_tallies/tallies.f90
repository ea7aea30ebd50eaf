! tallies.f90: Monte Carlo transport. Particles start in the middle of a box and score in the cells where they collide. After each
! batch, all ranks sum their scores: with run of a weir_sparse_sum, or with --dense with MPI_Allreduce.
program tallies
  use, intrinsic :: iso_fortran_env, only: error_unit, int64, real64
  use mpi_f08
  use weir
  implicit none
  character(len=*), parameter :: usage(*) = [character(len=76) :: &
    'Usage: tallies [--cells N] [--particles N] [--batches N] [--dense]', &
    '  --cells N      most cells of the box, which is a cube (2000000)', &
    '  --particles N  particles of a batch, of all ranks together (20000)', &
    '  --batches N    number of batches, each of which ends with a sum (5)', &
    '  --dense        sum whole arrays with MPI_Allreduce']
  real(real64), parameter :: box_width = 10 ! in mean free paths
  real(real64), parameter :: scattering = 0.7_real64 ! part of a particle's weight that a collision leaves
  real(real64), parameter :: unit = 2.0_real64**30 ! scores are integers, multiples of 2^-30: sums are exact on any number of ranks

  type(weir_communicator) :: comm
  type(weir_sparse_sum) :: sum
  integer :: rank, ranks
  integer(int64) :: most_cells = 2000000, particles = 20000, batches = 5
  logical :: dense = .false.
  integer(int64) :: edge = 1, n ! cells along an edge of the box, and of the whole box
  ! Cells and scores of the collisions of one batch on this rank. With --dense, `scores` has the scores of all cells.
  integer(int64), allocatable :: cells(:), scores(:)
  integer(int64) :: entries ! number of collisions
  integer(int64), allocatable :: totals(:) ! of all batches and ranks: scores of all cells
  integer(int64) :: batch, all_bytes = 0
  real(real64) :: all_seconds = 0

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call read_options()
  do while ((edge + 1)**3 <= most_cells)
    edge = edge + 1
  end do
  n = edge**3
  allocate (totals(n), source=0_int64)
  allocate (cells(merge(0_int64, 4096_int64, dense)), scores(merge(n, 4096_int64, dense)))

  call comm%create(MPI_COMM_WORLD)
  call sum%create(comm, weir_sparse_sum_config(count=n, type=WEIR_SUM_TYPE_INT64, name='tallies'))

  if (rank == 0) then
    print '(i0, a, i0, a, i0)', n, ' cells, ', particles, ' particles a batch, ranks: ', ranks
    print '(2a)', 'batch     entries  % of cells    s of sum    bytes sent', trim(merge(' (computed)', '           ', dense))
  end if
  do batch = 1, batches
    call run_batch()
  end do
  if (rank == 0) call report()
  call sum%destroy()
  call comm%destroy()
  call MPI_Finalize()

contains

  ! ---- transport ----

  !> Each particle has random numbers of its own (splitmix64, begun from its number), so that any rank may follow it.
  elemental integer(int64) function mix(from) result(x)
    integer(int64), intent(in) :: from

    x = ieor(from, shiftr(from, 30))*(-4658895280553007687_int64) ! products wrap around
    x = ieor(x, shiftr(x, 27))*(-7723592293110705685_int64)
    x = ieor(x, shiftr(x, 31))
  end function

  real(real64) function uniform(state)
    integer(int64), intent(inout) :: state

    state = state - 7046029254386353131_int64
    uniform = real(shiftr(mix(state), 11), real64)/2.0_real64**53
  end function

  subroutine score(cell, value)
    integer(int64), intent(in) :: cell, value

    if (dense) then
      scores(cell) = scores(cell) + value
      return
    end if
    if (entries == size(cells)) then ! twice the room
      cells = [cells, cells]
      scores = [scores, scores]
    end if
    entries = entries + 1
    cells(entries) = cell
    scores(entries) = value
  end subroutine

  subroutine follow(particle)
    integer(int64), intent(in) :: particle
    integer(int64) :: random
    real(real64) :: place(3), path, up, across, angle, weight

    random = mix(particle)
    place = 0.5_real64*edge ! in cells
    weight = 1
    do
      path = -log(1 - uniform(random))*(edge/box_width)
      up = 2*uniform(random) - 1
      across = sqrt(1 - up*up)
      angle = 6.283185307179586_real64*uniform(random)

      place(1) = place(1) + path*(across*cos(angle))
      place(2) = place(2) + path*(across*sin(angle))
      place(3) = place(3) + path*up
      if (any(place < 0 .or. place >= edge)) return
      call score((int(place(3), int64)*edge + int(place(2), int64))*edge + int(place(1), int64) + 1, nint(weight*unit, int64))
      weight = weight*scattering
      if (weight < 0.1_real64) then ! Russian roulette keeps the expected weight
        if (uniform(random) < 0.5_real64) return
        weight = 2*weight
      end if
    end do
  end subroutine

  ! ---- sums ----

  !> Adds the scores of all ranks to the totals, on every rank.
  subroutine sum_scores()
    if (.not. dense) then
      call sum%run(cells(:entries), scores(:entries), totals, adds=.true.)
    else
      call MPI_Allreduce(MPI_IN_PLACE, scores, int(n), MPI_INTEGER8, MPI_SUM, MPI_COMM_WORLD)
      totals = totals + scores
    end if
  end subroutine

  subroutine run_batch()
    type(weir_sparse_sum_statistics) :: did
    integer(int64) :: i, bytes, touched
    real(real64) :: seconds, slowest

    entries = 0
    if (dense) scores = 0
    do i = particles*rank/ranks, particles*(rank + 1)/ranks - 1
      call follow((batch - 1)*particles + i)
    end do
    if (dense) touched = count(scores /= 0, kind=int64)

    call MPI_Barrier(MPI_COMM_WORLD)
    seconds = MPI_Wtime()
    call sum_scores()
    seconds = MPI_Wtime() - seconds
    call MPI_Reduce(seconds, slowest, 1, MPI_DOUBLE_PRECISION, MPI_MAX, 0, MPI_COMM_WORLD)
    if (dense) then
      bytes = 2*n*8/ranks*(ranks - 1)
      did%algorithm = 'MPI_Allreduce'
    else
      call sum%statistics(did)
      touched = did%entries
      bytes = did%payload_bytes_sent + did%control_bytes_sent
    end if
    if (rank /= 0) return
    print '(i5, i12, f12.4, f12.5, i14, 2x, a)', batch, touched, 100*real(touched, real64)/n, slowest, bytes, did%algorithm
    all_seconds = all_seconds + slowest
    all_bytes = all_bytes + bytes
  end subroutine

  subroutine report()
    integer(int64) :: i, scored, checksum
    real(real64) :: collisions

    scored = 0
    checksum = 0
    collisions = 0
    do i = 1, n
      if (totals(i) == 0) cycle
      scored = scored + 1
      collisions = collisions + totals(i)/unit
      checksum = checksum + mix(totals(i) + mix(i - 1))
    end do
    print '(a, t25, i16)', 'cells with a score', scored
    print '(a, t25, f16.4)', '  in % of all cells', 100*real(scored, real64)/n
    print '(a, t25, f16.6)', 'collisions of a particle', collisions/(particles*batches)
    print '(a, t25, f16.5)', 's of all sums', all_seconds
    print '(a, t25, i16)', 'bytes sent by rank 0', all_bytes
    print '(a, t25, z16.16)', 'checksum', checksum
  end subroutine

  ! ---- options ----

  subroutine read_options()
    character(len=100) :: name, value
    integer :: i

    i = 1
    do while (i <= command_argument_count())
      call get_command_argument(i, name)
      call get_command_argument(i + 1, value)
      select case (name)
      case ('-h', '--help')
        if (rank == 0) print '(a)', (trim(usage(i)), i=1, size(usage))
        call MPI_Finalize()
        stop
      case ('--cells')
        call read_number(name, value, most_cells)
      case ('--particles')
        call read_number(name, value, particles)
      case ('--batches')
        call read_number(name, value, batches)
      case ('--dense')
        dense = .true.
        i = i - 1
      case default
        call refuse('there is no option '//trim(name))
      end select
      i = i + 2
    end do
  end subroutine

  subroutine read_number(name, value, number)
    character(len=*), intent(in) :: name, value
    integer(int64), intent(inout) :: number
    integer :: error

    read (value, *, iostat=error) number
    if (error /= 0 .or. number < 1 .or. number > huge(1)) call refuse('give a number from 1 to 2147483647 after '//trim(name))
  end subroutine

  subroutine refuse(why)
    character(len=*), intent(in) :: why

    if (rank == 0) write (error_unit, '(2a)') 'tallies: ', why
    call MPI_Finalize()
    stop 2, quiet=.true.
  end subroutine

end program
