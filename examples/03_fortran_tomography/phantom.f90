! phantom.f90: the head phantom of Shepp and Logan (with Toft's intensities), as an image and as exact line integrals.
module phantom
  use, intrinsic :: iso_fortran_env, only: real32, real64
  implicit none
  private
  public :: phantom_image, phantom_projection

  real(real64), parameter :: degree = acos(-1.0_real64)/180
  !> Each column is an ellipse: intensity, semi-axes, centre, rotation in degrees. The head fills a circle of radius 1.
  real(real64), parameter :: ellipses(6, 10) = reshape(real([ &
    1.0, 0.69, 0.92, 0.0, 0.0, 0.0,           -0.8, 0.6624, 0.874, 0.0, -0.0184, 0.0, &
    -0.2, 0.11, 0.31, 0.22, 0.0, -18.0,       -0.2, 0.16, 0.41, -0.22, 0.0, 18.0, &
    0.1, 0.21, 0.25, 0.0, 0.35, 0.0,           0.1, 0.046, 0.046, 0.0, 0.1, 0.0, &
    0.1, 0.046, 0.046, 0.0, -0.1, 0.0,         0.1, 0.046, 0.023, -0.08, -0.605, 0.0, &
    0.1, 0.023, 0.023, 0.0, -0.606, 0.0,       0.1, 0.023, 0.046, 0.06, -0.605, 0.0], real64), [6, 10])

contains

  !> Returns the phantom in a square of side 2 as `size` x `size` pixels.
  function phantom_image(size) result(image)
    integer, intent(in) :: size
    real(real32) :: image(size, size)
    real(real64) :: x, y, along, across
    integer :: i, j, e

    image = 0
    do j = 1, size
      y = (2*j - 1.0_real64)/size - 1
      do i = 1, size
        x = (2*i - 1.0_real64)/size - 1
        do e = 1, 10
          associate (a => ellipses(2, e), b => ellipses(3, e), x0 => ellipses(4, e), y0 => ellipses(5, e), &
                     phi => ellipses(6, e)*degree)
            along = (x - x0)*cos(phi) + (y - y0)*sin(phi)
            across = (y - y0)*cos(phi) - (x - x0)*sin(phi)
            if ((along/a)**2 + (across/b)**2 <= 1) image(i, j) = image(i, j) + real(ellipses(1, e), real32)
          end associate
        end do
      end do
    end do
  end function

  !> Returns the integral along the line at distance `offset` from the centre whose normal has this angle.
  function phantom_projection(angle, offset) result(integral)
    real(real64), intent(in) :: angle, offset
    real(real64) :: integral, width, distance
    integer :: e

    integral = 0
    do e = 1, 10
      associate (a => ellipses(2, e), b => ellipses(3, e), x0 => ellipses(4, e), y0 => ellipses(5, e), phi => ellipses(6, e)*degree)
        width = (a*cos(angle - phi))**2 + (b*sin(angle - phi))**2
        distance = offset - x0*cos(angle) - y0*sin(angle)
        if (distance**2 < width) integral = integral + ellipses(1, e)*2*a*b*sqrt(width - distance**2)/width
      end associate
    end do
  end function

end module
