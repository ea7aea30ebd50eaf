! weir_arrays.f90: converts arrays of the caller for C.
module weir_arrays
  use, intrinsic :: iso_c_binding, only: c_associated, c_loc, c_null_ptr, c_ptr
  use, intrinsic :: iso_fortran_env, only: int8, int32, int64, real32, real64
  implicit none
  private
  public :: array_view, view_of, why_unusable

  !> An array as C receives it. The array must exist and must not move while C uses it: declare it target or asynchronous.
  type :: array_view
    type(c_ptr) :: address = c_null_ptr !< null if the array is empty or not usable
    integer(int64) :: count = 0 !< elements
    character(len=6) :: type = '' !< real32, ...
    logical :: usable = .true. !< the array is allocated and contiguous
    logical :: exists = .true. !< the array is allocated, as far as can be known
  end type

  !> Returns the view of an array. Does not copy it.
  interface view_of
    module procedure view_of_int8_1, view_of_int32_1, view_of_int64_1, view_of_real32_1, view_of_real32_2, view_of_real32_3, &
      view_of_real64_1, view_of_real64_2, view_of_real64_3
  end interface

contains

  !> Sets the address; `first` is that of the first element. For an array that is not allocated, a compiler passes a null address,
  !> and any shape.
  subroutine place(view, first)
    type(array_view), intent(inout) :: view
    type(c_ptr), intent(in) :: first
    view%exists = c_associated(first)
    view%usable = view%usable .and. view%exists
    if (view%usable) view%address = first
  end subroutine

  !> Returns why a view is not usable, as the end of a sentence that begins with the array.
  pure function why_unusable(view) result(why)
    type(array_view), intent(in) :: view
    character(len=:), allocatable :: why
    if (.not. view%exists) then
      why = 'is not allocated: allocate it before'
    else
      why = 'is not contiguous: give a whole array, or a section without strides that leaves out no part of its leading dimensions'
    end if
  end function

  !@ for kind = int8 | int32 | int64
  function view_of_@kind@_1(array) result(view)
    integer(@kind@), intent(in), target, asynchronous :: array(:)
    type(array_view) :: view

    view = array_view(count=size(array, kind=int64), type='@kind@', usable=is_contiguous(array))
    if (view%count > 0) call place(view, c_loc(array(1)))
  end function

  !@ end
  !@ for kind = real32 | real64
  !@ for rank, shape, first = 1; :; 1 | 2; :, :; 1, 1 | 3; :, :, :; 1, 1, 1
  function view_of_@kind@_@rank@(array) result(view)
    real(@kind@), intent(in), target, asynchronous :: array(@shape@)
    type(array_view) :: view

    view = array_view(count=size(array, kind=int64), type='@kind@', usable=is_contiguous(array))
    if (view%count > 0) call place(view, c_loc(array(@first@)))
  end function

  !@ end
  !@ end

end module
