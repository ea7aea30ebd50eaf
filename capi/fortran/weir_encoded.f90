! weir_encoded.f90: reads gradients that plans have encoded. Needs no plan. Any thread may call it at any time.
module weir_encoded
  use, intrinsic :: iso_c_binding, only: c_int, c_int32_t, c_sizeof
  use, intrinsic :: iso_fortran_env, only: int8, real32
  use weir_arrays, only: array_view, view_of, why_unusable
  use weir_c
  use weir_calls, only: comm_owner, end_call
  use weir_types
  implicit none
  private
  public :: weir_decode, weir_inspect

  !> (encoded, values, add, ierr): decodes `encoded`, which must be exactly the int8 array of encode, into `values`, a real32 array
  !> of rank 1 to 3 with as many elements as the gradient had. If the optional `add` is true, adds to `values` instead. A message
  !> that is refused adds nothing.
  interface weir_decode
    module procedure decode_1, decode_2, decode_3
  end interface

contains

  !> Returns the header of `encoded`.
  subroutine weir_inspect(encoded, info, ierr)
    integer(int8), intent(in), target :: encoded(:)
    type(weir_encoded_info), intent(inout) :: info
    integer, intent(out), optional :: ierr
    type(c_encoded_info) :: c
    type(comm_owner), pointer :: none
    type(array_view) :: view
    character(len=:), allocatable :: refusal
    integer(c_int) :: status

    nullify (none)
    view = view_of(encoded)
    if (.not. view%usable) refusal = 'the encoded gradient '//why_unusable(view)
    c%struct_size = c_sizeof(c)
    status = c_encoded_inspect(view%address, view%count, c)
    if (status == WEIR_OK) call from_c(c, info)
    call end_call(status, none, ierr, refusal)
  end subroutine

  subroutine decode_view(encoded, values, add, ierr)
    type(array_view), intent(in) :: encoded, values
    logical, intent(in), optional :: add
    integer, intent(out), optional :: ierr
    type(comm_owner), pointer :: none
    character(len=:), allocatable :: refusal
    integer(c_int32_t) :: adds

    nullify (none)
    adds = 0
    if (present(add)) adds = merge(1, 0, add)
    if (.not. encoded%usable) refusal = 'the encoded gradient '//why_unusable(encoded)
    if (.not. values%usable) refusal = 'the array for the values '//why_unusable(values)
    call end_call(c_decode(encoded%address, encoded%count, values%address, values%count, adds), none, ierr, refusal)
  end subroutine

  !@ for rank, shape = 1; : | 2; :, : | 3; :, :, :
  subroutine decode_@rank@(encoded, values, add, ierr)
    integer(int8), intent(in), target :: encoded(:)
    real(real32), intent(inout), target :: values(@shape@)
    logical, intent(in), optional :: add
    integer, intent(out), optional :: ierr

    call decode_view(view_of(encoded), view_of(values), add, ierr)
  end subroutine

  !@ end

end module
