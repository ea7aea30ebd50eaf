! weir_arrays.f90: arrays of the caller as C sees them.
module weir_arrays
  use, intrinsic :: iso_c_binding, only: c_loc, c_null_ptr, c_ptr
  use, intrinsic :: iso_fortran_env, only: int8, int32, int64, real32, real64
  implicit none
  private
  public :: array_view, view_of, not_contiguous

  !> What an array is to C. The array must live, unmoved, as long as C uses it: declare it target or asynchronous.
  type :: array_view
    type(c_ptr) :: address = c_null_ptr !< null for empty arrays and for those that are not contiguous
    integer(int64) :: count = 0 !< elements
    character(len=6) :: type = '' !< real32, ...
    logical :: contiguous = .true.
  end type

  character(len=*), parameter :: not_contiguous = &
    'is not contiguous: give a whole array, or a section without strides that leaves out no part of its leading dimensions'

  !> The view of an array, which is not copied.
  interface view_of
    module procedure view_of_int8_1, view_of_int32_1, view_of_int64_1, view_of_real32_1, view_of_real32_2, view_of_real32_3, &
      view_of_real64_1, view_of_real64_2, view_of_real64_3
  end interface

contains

  function view_of_int8_1(array) result(view)
    integer(int8), intent(in), target, asynchronous :: array(:)
    type(array_view) :: view
    view = array_view(count=size(array, kind=int64), type='int8', contiguous=is_contiguous(array))
    if (view%contiguous .and. view%count > 0) view%address = c_loc(array(1))
  end function

  function view_of_int32_1(array) result(view)
    integer(int32), intent(in), target, asynchronous :: array(:)
    type(array_view) :: view
    view = array_view(count=size(array, kind=int64), type='int32', contiguous=is_contiguous(array))
    if (view%contiguous .and. view%count > 0) view%address = c_loc(array(1))
  end function

  function view_of_int64_1(array) result(view)
    integer(int64), intent(in), target, asynchronous :: array(:)
    type(array_view) :: view
    view = array_view(count=size(array, kind=int64), type='int64', contiguous=is_contiguous(array))
    if (view%contiguous .and. view%count > 0) view%address = c_loc(array(1))
  end function

  function view_of_real32_1(array) result(view)
    real(real32), intent(in), target, asynchronous :: array(:)
    type(array_view) :: view
    view = array_view(count=size(array, kind=int64), type='real32', contiguous=is_contiguous(array))
    if (view%contiguous .and. view%count > 0) view%address = c_loc(array(1))
  end function

  function view_of_real32_2(array) result(view)
    real(real32), intent(in), target, asynchronous :: array(:, :)
    type(array_view) :: view
    view = array_view(count=size(array, kind=int64), type='real32', contiguous=is_contiguous(array))
    if (view%contiguous .and. view%count > 0) view%address = c_loc(array(1, 1))
  end function

  function view_of_real32_3(array) result(view)
    real(real32), intent(in), target, asynchronous :: array(:, :, :)
    type(array_view) :: view
    view = array_view(count=size(array, kind=int64), type='real32', contiguous=is_contiguous(array))
    if (view%contiguous .and. view%count > 0) view%address = c_loc(array(1, 1, 1))
  end function

  function view_of_real64_1(array) result(view)
    real(real64), intent(in), target, asynchronous :: array(:)
    type(array_view) :: view
    view = array_view(count=size(array, kind=int64), type='real64', contiguous=is_contiguous(array))
    if (view%contiguous .and. view%count > 0) view%address = c_loc(array(1))
  end function

  function view_of_real64_2(array) result(view)
    real(real64), intent(in), target, asynchronous :: array(:, :)
    type(array_view) :: view
    view = array_view(count=size(array, kind=int64), type='real64', contiguous=is_contiguous(array))
    if (view%contiguous .and. view%count > 0) view%address = c_loc(array(1, 1))
  end function

  function view_of_real64_3(array) result(view)
    real(real64), intent(in), target, asynchronous :: array(:, :, :)
    type(array_view) :: view
    view = array_view(count=size(array, kind=int64), type='real64', contiguous=is_contiguous(array))
    if (view%contiguous .and. view%count > 0) view%address = c_loc(array(1, 1, 1))
  end function

end module
