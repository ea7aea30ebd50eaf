! projector.f90: projects an image along parallel rays, and back. Rays are sampled bilinearly at steps of one pixel.
module projector
  use, intrinsic :: iso_fortran_env, only: real32, real64
  implicit none
  private
  public :: scan_geometry, add_correction

  !> Parallel rays, one pixel apart, within the inscribed circle of a square image.
  type :: scan_geometry
    integer :: size = 0 !< of the image, in pixels
    real(real32) :: centre = 0, radius = 0
  contains
    procedure :: set_up
    procedure :: rays
    procedure :: offset
  end type

contains

  subroutine set_up(self, size)
    class(scan_geometry), intent(inout) :: self
    integer, intent(in) :: size

    self%size = size
    self%centre = 0.5_real32*real(size + 1, real32)
    self%radius = 0.5_real32*real(size, real32) - 1.5_real32
  end subroutine

  integer function rays(self)
    class(scan_geometry), intent(in) :: self

    rays = 2*int(self%radius) + 1
  end function

  !> Returns the distance of a ray from the centre, in pixels.
  real(real32) function offset(self, ray)
    class(scan_geometry), intent(in) :: self
    integer, intent(in) :: ray

    offset = real(ray - int(self%radius) - 1, real32)
  end function

  !> Adds SART's correction for one angle to `correction`: the difference between `measured`, in pixels, and the projection of
  !> `image`, spread evenly along each ray.
  subroutine add_correction(geometry, angle, measured, image, correction)
    type(scan_geometry), intent(in) :: geometry
    real(real64), intent(in) :: angle
    real(real32), intent(in) :: measured(:), image(:, :)
    real(real32), intent(inout) :: correction(:, :)
    real(real32) :: across_x, across_y, x, y, found, missing
    integer :: ray, t, reach

    across_x = real(cos(angle), real32)
    across_y = real(sin(angle), real32)
    do ray = 1, size(measured)
      reach = int(sqrt(max(0.0_real32, geometry%radius**2 - geometry%offset(ray)**2)))
      x = geometry%centre + geometry%offset(ray)*across_x
      y = geometry%centre + geometry%offset(ray)*across_y
      found = 0
      do t = -reach, reach
        found = found + sample(image, x - t*across_y, y + t*across_x)
      end do
      missing = (measured(ray) - found)/real(2*reach + 1, real32)
      do t = -reach, reach
        call spread_out(correction, x - t*across_y, y + t*across_x, missing)
      end do
    end do
  end subroutine

  pure function sample(image, x, y) result(value)
    real(real32), intent(in) :: image(:, :), x, y
    real(real32) :: value, fx, fy
    integer :: i, j

    i = int(x)
    j = int(y)
    fx = x - i
    fy = y - j
    value = (1 - fy)*((1 - fx)*image(i, j) + fx*image(i + 1, j)) + fy*((1 - fx)*image(i, j + 1) + fx*image(i + 1, j + 1))
  end function

  pure subroutine spread_out(image, x, y, value)
    real(real32), intent(inout) :: image(:, :)
    real(real32), intent(in) :: x, y, value
    real(real32) :: fx, fy
    integer :: i, j

    i = int(x)
    j = int(y)
    fx = x - i
    fy = y - j
    image(i, j) = image(i, j) + (1 - fy)*(1 - fx)*value
    image(i + 1, j) = image(i + 1, j) + (1 - fy)*fx*value
    image(i, j + 1) = image(i, j + 1) + fy*(1 - fx)*value
    image(i + 1, j + 1) = image(i + 1, j + 1) + fy*fx*value
  end subroutine

end module
