! reconstruction.f90: reconstructs the image from its projections; read this file first. Every rank has the whole image and the
! projections of its own angles. In each step it computes a correction from some of these. The ranks' mean is added to the image.
module reconstruction
  use, intrinsic :: iso_fortran_env, only: int64, real32, real64
  use mpi_f08
  use phantom, only: phantom_image, phantom_projection
  use projector, only: add_correction, scan_geometry
  use weir
  implicit none
  private
  public :: options, progress, reconstruct

  type :: options
    integer :: size = 512 !< of the image, in pixels
    integer :: angles = 720 !< over half a turn, of all ranks together
    integer :: angles_a_step = 2 !< angles that one rank uses in a step
    integer :: steps = 360
    integer :: report_every = 30
    real(real32) :: relaxation = 0.8
    character(len=WEIR_TEXT_LENGTH) :: algorithm = 'oktopk'
    real(real64) :: density = 0.03
    logical :: overlapped = .false. !< compute corrections while those of the previous step travel
  end type

  !> The state after `step` steps. Bytes and times are means over ranks.
  type :: progress
    integer :: step = 0
    real(real64) :: error = 0 !< norm of the difference to the phantom over that of the phantom
    real(real64) :: bytes = 0 !< sent by a rank so far
    real(real64) :: seconds = 0 !< so far, without the calculation of errors
    real(real64) :: seconds_exchanging = 0 !< part of `seconds` spent in Weir
  end type

contains

  !> Collective. Reconstructs the image and returns the progress of the error in `curve`.
  subroutine reconstruct(comm, given, curve)
    type(weir_communicator), intent(in) :: comm
    type(options), intent(in) :: given
    type(progress), allocatable, intent(out) :: curve(:)
    type(weir_allreduce_plan) :: plan
    type(weir_allreduce_config) :: config
    type(scan_geometry) :: geometry
    type(progress) :: now
    real(real32), allocatable :: image(:, :), truth(:, :), measured(:, :), next(:, :)
    real(real32), allocatable, asynchronous :: correction(:, :)
    real(real64), allocatable :: angles(:)
    real(real64) :: begin
    integer :: step

    call geometry%set_up(given%size)
    call measure(geometry, given%angles, comm%rank(), comm%size(), angles, measured)
    truth = phantom_image(given%size)
    allocate (image, correction, next, mold=truth)
    image = 0

    config%count = size(image)
    config%algorithm = given%algorithm
    config%density = given%density
    config%name = 'image'
    call plan%create(comm, config)

    allocate (curve(0))
    call correct(1, next)
    do step = 1, given%steps
      begin = MPI_Wtime()
      correction = next
      if (given%overlapped) then
        call exchange('start')
        call correct(step + 1, next) ! from the image without the correction in flight
        call exchange('wait')
        image = image + correction
      else
        call exchange('run')
        image = image + correction
        call correct(step + 1, next)
      end if
      now%seconds = now%seconds + MPI_Wtime() - begin
      call count_bytes()
      if (modulo(step, given%report_every) == 0) then
        now%step = step
        now%error = norm2(image - truth)/norm2(truth)
        curve = [curve, mean_over_ranks(now)]
      end if
    end do

  contains

    !> Computes the correction from this rank's projections of a step.
    subroutine correct(step, correction)
      integer, intent(in) :: step
      real(real32), intent(out) :: correction(:, :)
      integer :: i, angle

      correction = 0
      do i = 1, given%angles_a_step
        angle = 1 + modulo(((step - 1)*given%angles_a_step + i - 1)*stride(size(angles)), size(angles))
        call add_correction(geometry, angles(angle), measured(:, angle), image, correction)
      end do
      correction = given%relaxation/given%angles_a_step*correction
    end subroutine

    subroutine exchange(what)
      character(len=*), intent(in) :: what
      real(real64) :: begin

      begin = MPI_Wtime()
      select case (what)
      case ('run')
        call plan%run(correction) ! in place: the mean of the entries delivered; the rest stays in the plan's residual
      case ('start')
        call plan%start(correction)
      case ('wait')
        call plan%wait()
      end select
      now%seconds_exchanging = now%seconds_exchanging + MPI_Wtime() - begin
    end subroutine

    subroutine count_bytes()
      type(weir_statistics) :: statistics

      call plan%statistics(statistics)
      now%bytes = now%bytes + real(statistics%payload_bytes_sent + statistics%control_bytes_sent, real64)
    end subroutine
  end subroutine

  !> Computes the projections of this rank's angles, one in each column, in pixels.
  subroutine measure(geometry, count, rank, ranks, angles, measured)
    type(scan_geometry), intent(in) :: geometry
    integer, intent(in) :: count, rank, ranks
    real(real64), allocatable, intent(out) :: angles(:)
    real(real32), allocatable, intent(out) :: measured(:, :)
    real(real64), parameter :: half_turn = acos(-1.0_real64)
    real(real64) :: half
    integer :: i, ray

    half = 0.5_real64*geometry%size
    angles = [(half_turn*(rank + (i - 1)*ranks)/count, i=1, count/ranks)]
    allocate (measured(geometry%rays(), size(angles)))
    do i = 1, size(angles)
      do ray = 1, geometry%rays()
        measured(ray, i) = real(half*phantom_projection(angles(i), geometry%offset(ray)/half), real32)
      end do
    end do
  end subroutine

  !> Returns a stride that visits the whole list, with successive places far apart: near the golden section, coprime with `length`.
  pure function stride(length) result(step)
    integer, intent(in) :: length
    integer :: step, a, b, rest

    step = max(1, nint(0.618*length))
    do
      a = length
      b = step
      do while (b /= 0)
        rest = modulo(a, b)
        a = b
        b = rest
      end do
      if (a == 1) return
      step = step + 1
    end do
  end function

  function mean_over_ranks(now) result(mean)
    type(progress), intent(in) :: now
    type(progress) :: mean
    real(real64) :: sums(3)
    integer :: ranks

    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    call MPI_Allreduce([now%bytes, now%seconds, now%seconds_exchanging], sums, 3, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
    mean = progress(now%step, now%error, sums(1)/ranks, sums(2)/ranks, sums(3)/ranks)
  end function

end module
