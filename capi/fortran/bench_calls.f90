! bench_calls.f90: measures the cost of a call in Fortran over the same call in C. `weir_bench_fortran [JSON]`, on one rank, prints
! a table, and writes it to the file JSON.
program bench_calls
  use, intrinsic :: iso_c_binding, only: c_int, c_loc, c_ptr, c_sizeof
  use, intrinsic :: iso_fortran_env, only: int64, real32, real64
  use weir
  use weir_c, only: c_plan_run, c_plan_start, c_plan_get_statistics, c_plan_test, c_plan_wait, c_statistics
  use weir_plans, only: c_handle_of_plan
  implicit none
  integer, parameter :: calls = 200, rounds = 401, n = 1000
  character(len=*), parameter :: titles(4) = [character(len=10) :: 'run', 'start_wait', 'test', 'statistics']
  type(weir_communicator) :: comm
  type(weir_allreduce_plan) :: plan
  type(c_ptr) :: handle
  real(real32), allocatable, target :: gradient(:, :)
  real(real64) :: in_c(rounds), in_fortran(rounds), medians(4, 2)
  integer :: i, which, unit
  character(len=1000) :: path

  call weir_init()
  call comm%create_world()
  if (comm%size() /= 1) error stop 'weir_bench_fortran is for one rank'
  call plan%create(comm, weir_allreduce_config(count=n, density=0.01_real64))
  handle = c_handle_of_plan(plan)
  allocate (gradient(n/10, 10))
  call random_number(gradient)
  do which = 1, size(titles)
    do i = 1, rounds
      in_c(i) = seconds_of(which, .false.)
      in_fortran(i) = seconds_of(which, .true.)
    end do
    medians(which, :) = [median(in_c), median(in_fortran)]*1e6_real64
  end do

  print '(a)', 'a plan of 1000 real32, 1 rank     C, us  Fortran, us  difference, us'
  do which = 1, size(titles)
    print '(a26, f13.3, f13.3, f16.3)', titles(which), medians(which, :), medians(which, 2) - medians(which, 1)
  end do
  call get_command_argument(1, path)
  if (path /= '') then
    open (newunit=unit, file=path, status='replace', action='write')
    write (unit, '(a)') '{'
    do which = 1, size(titles)
      write (unit, '(3a, 2(es11.4, a), es11.4, 2a)') '  "', trim(titles(which)), '": {"c_us": ', medians(which, 1), &
        ', "fortran_us": ', medians(which, 2), ', "difference_us": ', medians(which, 2) - medians(which, 1), '}', &
        merge(' ', ',', which == size(titles))
    end do
    write (unit, '(a)') '}'
    close (unit)
  end if
  call plan%destroy()
  call comm%destroy()
  call weir_finalize()

contains

  !> Returns the mean time of one call in seconds.
  function seconds_of(which, by_fortran) result(seconds)
    integer, intent(in) :: which
    logical, intent(in) :: by_fortran
    real(real64) :: seconds
    integer(int64) :: begin, end, rate
    type(weir_statistics) :: statistics
    type(c_statistics) :: c
    integer(c_int) :: status, done
    logical :: finished
    integer :: i

    status = WEIR_OK
    c%struct_size = c_sizeof(c)
    call system_clock(begin, rate)
    select case (merge(which, -which, by_fortran))
    case (1)
      do i = 1, calls
        call plan%run(gradient)
      end do
    case (-1)
      do i = 1, calls
        status = max(status, c_plan_run(handle, c_loc(gradient)))
      end do
    case (2)
      do i = 1, calls
        call plan%start(gradient)
        call plan%wait()
      end do
    case (-2)
      do i = 1, calls
        status = max(status, c_plan_start(handle, c_loc(gradient)))
        status = max(status, c_plan_wait(handle))
      end do
    case (3)
      do i = 1, calls
        call plan%test(finished)
      end do
    case (-3)
      do i = 1, calls
        status = max(status, c_plan_test(handle, done))
      end do
    case (4)
      do i = 1, calls
        call plan%statistics(statistics)
      end do
    case (-4)
      do i = 1, calls
        status = max(status, c_plan_get_statistics(handle, c))
      end do
    end select
    call system_clock(end)
    if (status /= WEIR_OK) error stop 'a call in C has failed'
    seconds = real(end - begin, real64)/real(rate, real64)/calls
  end function

  function median(values)
    real(real64), intent(in) :: values(:)
    real(real64) :: median, sorted(size(values)), value
    integer :: i, j

    sorted = values
    do i = 2, size(sorted)
      value = sorted(i)
      do j = i - 1, 1, -1
        if (sorted(j) <= value) exit
        sorted(j + 1) = sorted(j)
      end do
      sorted(j + 1) = value
    end do
    median = sorted((size(sorted) + 1)/2)
  end function

end program
