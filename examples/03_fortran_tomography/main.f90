! main.f90: reconstructs an image with a dense exchange, with a sparse one, and with a sparse one overlapped with computation.
! Prints what each costs.
program tomography
  use, intrinsic :: iso_fortran_env, only: error_unit, real64
  use mpi_f08
  use reconstruction, only: options, progress, reconstruct
  use weir
  implicit none
  character(len=*), parameter :: usage = &
    'Usage: tomography [--size PIXELS] [--angles N] [--angles-a-step N] [--steps N] [--report-every N] [--relaxation X]'// &
    ' [--algorithm NAME] [--density X] [--output FILE.csv] [--require-ratio X]'
  character(len=*), parameter :: schemes(3) = [character(len=10) :: 'dense', 'sparse', 'overlapped']
  type :: scheme_curve
    type(progress), allocatable :: points(:)
  end type
  type(options) :: given, scheme
  type(scheme_curve) :: curves(3)
  type(weir_communicator) :: comm
  character(len=1000) :: output = ''
  real(real64) :: required_ratio = 0
  integer :: i, rank

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call read_options()
  call comm%create(MPI_COMM_WORLD)
  do i = 1, 3
    scheme = given
    if (i == 1) scheme%algorithm = 'dense_ring'
    scheme%overlapped = i == 3
    call reconstruct(comm, scheme, curves(i)%points)
  end do
  if (rank == 0) call report()
  if (rank == 0 .and. output /= '') call write_csv()
  call comm%destroy()
  call MPI_Finalize()

contains

  subroutine read_options()
    character(len=100) :: name, value
    integer :: i, error

    i = 1
    do while (i <= command_argument_count())
      call get_command_argument(i, name)
      call get_command_argument(i + 1, value)
      error = 0
      select case (name)
      case ('-h', '--help')
        if (rank == 0) print '(a)', usage
        call MPI_Finalize()
        stop
      case ('--size')
        read (value, *, iostat=error) given%size
      case ('--angles')
        read (value, *, iostat=error) given%angles
      case ('--angles-a-step')
        read (value, *, iostat=error) given%angles_a_step
      case ('--steps')
        read (value, *, iostat=error) given%steps
      case ('--report-every')
        read (value, *, iostat=error) given%report_every
      case ('--relaxation')
        read (value, *, iostat=error) given%relaxation
      case ('--density')
        read (value, *, iostat=error) given%density
      case ('--require-ratio') ! for tests: at least this many times fewer bytes, with an error at most a tenth larger
        read (value, *, iostat=error) required_ratio
      case ('--algorithm')
        given%algorithm = value
      case ('--output')
        call get_command_argument(i + 1, output)
      case default
        error = 1
      end select
      if (error /= 0) then
        if (rank == 0) write (error_unit, '(a)') 'tomography: cannot read '//trim(name)//' '//trim(value), usage
        call MPI_Abort(MPI_COMM_WORLD, 1)
      end if
      i = i + 2
    end do
  end subroutine

  subroutine report()
    type(progress) :: last, dense
    integer :: i

    print '(2a, f6.4)', trim(given%algorithm), ' at density ', given%density
    print '(a)', 'exchange    error  sent by a rank, MB  ms a step  of it, exchange'
    do i = 1, 3
      associate (points => curves(i)%points)
        last = points(size(points))
      end associate
      if (i == 1) dense = last
      print '(a10, f7.4, f20.2, f11.2, f17.2)', schemes(i), last%error, last%bytes/1e6, 1e3*last%seconds/last%step, &
        1e3*last%seconds_exchanging/last%step
      if (last%error > 1.1*dense%error .or. last%bytes*merge(required_ratio, 0.0_real64, i > 1) > dense%bytes) then
        if (required_ratio > 0) error stop 'the sparse exchange was worse than it must be'
      end if
    end do
  end subroutine

  subroutine write_csv()
    integer :: i, j, unit

    open (newunit=unit, file=output, status='replace', action='write')
    write (unit, '(a)') 'scheme,step,error,bytes,seconds,seconds_exchanging'
    do i = 1, 3
      do j = 1, size(curves(i)%points)
        associate (point => curves(i)%points(j))
          write (unit, '(3a, i0, 4(",", es13.6))') '"', trim(schemes(i)), '",', point%step, point%error, point%bytes, &
            point%seconds, point%seconds_exchanging
        end associate
      end do
    end do
    close (unit)
  end subroutine

end program
