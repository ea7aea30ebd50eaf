! weir_text.f90: converts texts between C and Fortran.
module weir_text
  use, intrinsic :: iso_c_binding, only: c_associated, c_char, c_f_pointer, c_loc, c_null_char, c_ptr, c_size_t
  implicit none
  private
  public :: c_text, text_of

  interface
    function c_strlen(text) bind(C, name='strlen') result(length)
      import :: c_ptr, c_size_t
      type(c_ptr), value :: text
      integer(c_size_t) :: length
    end function
  end interface

contains

  !> Returns the address of `text` without trailing blanks, copied to `buffer`, which must have room for it and a null character.
  function c_text(text, buffer) result(address)
    character(len=*), intent(in) :: text
    character(kind=c_char), intent(out), target :: buffer(:)
    type(c_ptr) :: address
    integer :: i, length

    length = min(len_trim(text), size(buffer) - 1)
    do i = 1, length
      buffer(i) = text(i:i)
    end do
    buffer(length + 1) = c_null_char
    address = c_loc(buffer(1))
  end function

  !> Returns a copy of the text at `address`, or an empty text if that is null.
  function text_of(address) result(text)
    type(c_ptr), intent(in) :: address
    character(len=:), allocatable :: text
    character(kind=c_char), pointer :: letters(:)
    integer :: i

    if (.not. c_associated(address)) then
      text = ''
      return
    end if
    call c_f_pointer(address, letters, [c_strlen(address)])
    allocate (character(len=size(letters)) :: text)
    do i = 1, size(letters)
      text(i:i) = letters(i)
    end do
  end function

end module
