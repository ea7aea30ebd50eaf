! weir_calls.f90: how calls end, and how long a communicator lives.
module weir_calls
  use, intrinsic :: iso_c_binding, only: c_associated, c_int, c_null_ptr, c_ptr
  use, intrinsic :: iso_fortran_env, only: error_unit, int64
  use weir_c, only: c_comm_destroy, c_last_error
  use weir_text, only: text_of
  use weir_types, only: WEIR_ERR_ARGUMENT, WEIR_OK
  implicit none
  private
  public :: comm_owner, handle_of, add_user, remove_user, end_user, end_call, end_test, last_text, number, stop_with

  !> Counts the users of one communicator. The communicator ends with its last user, so the order in which the variables of a scope
  !> are finalised does not matter. Owners stay until the program ends, because the language copies objects without an assignment
  !> (allocate with source=, arguments by value), and such copies still point here.
  type :: comm_owner
    type(c_ptr) :: handle = c_null_ptr
    integer :: users = 0 !< the communicator itself, and the objects made from it
    logical :: open = .true. !< the communicator itself is still a user
    logical :: refused = .false. !< the last error was found in Fortran, and `refusal` is its text
    character(len=:), allocatable :: refusal
  end type

contains

  function handle_of(owner) result(handle)
    type(comm_owner), pointer, intent(in) :: owner
    type(c_ptr) :: handle

    handle = c_null_ptr
    if (associated(owner)) handle = owner%handle
  end function

  !> Makes `user` one more pointer to the owner.
  subroutine add_user(owner, user)
    type(comm_owner), pointer, intent(in) :: owner
    type(comm_owner), pointer, intent(out) :: user

    user => owner
    owner%users = owner%users + 1
  end subroutine

  subroutine remove_user(owner)
    type(comm_owner), pointer, intent(inout) :: owner
    integer(c_int) :: status

    if (.not. associated(owner)) return
    owner%users = owner%users - 1
    if (owner%users == 0) then
      if (c_associated(owner%handle)) status = c_comm_destroy(owner%handle)
      owner%handle = c_null_ptr
    end if
    nullify (owner)
  end subroutine

  !> Ends a user when an object is finalised. `status` is that of destroying its handle. A copy's handle was destroyed before.
  subroutine end_user(owner, status)
    type(comm_owner), pointer, intent(inout) :: owner
    integer(c_int), intent(in) :: status

    if (status /= WEIR_ERR_ARGUMENT) call remove_user(owner)
    nullify (owner)
  end subroutine

  !> Ends a call with the status of C. `refusal`: an error found before C was called. C then got a null pointer, so that collective
  !> calls fail on all ranks. Without `ierr`, an error is printed and ends the program.
  subroutine end_call(status, owner, ierr, refusal)
    integer(c_int), intent(in) :: status
    type(comm_owner), pointer, intent(in) :: owner
    integer, intent(out), optional :: ierr
    character(len=*), intent(in), optional :: refusal
    integer :: code
    logical :: refused

    code = status
    refused = present(refusal) .and. (code == WEIR_OK .or. code == WEIR_ERR_ARGUMENT)
    if (refused) code = WEIR_ERR_ARGUMENT
    if (present(ierr)) ierr = code
    if (code == WEIR_OK) return
    if (associated(owner)) then
      owner%refused = refused
      if (refused) owner%refusal = refusal
    end if
    if (present(ierr)) return
    if (refused) call stop_with(refusal)
    call stop_with(text_of(c_last_error(c_null_ptr)))
  end subroutine

  !> Ends a call that tests for completion. Errors of the start are reported on completion only.
  subroutine end_test(status, done, owner, refusal, ierr)
    integer(c_int), intent(in) :: status
    logical, intent(in) :: done
    type(comm_owner), pointer, intent(in) :: owner
    character(len=:), allocatable, intent(inout) :: refusal
    integer, intent(out), optional :: ierr

    if (done .or. status /= WEIR_OK) then
      call end_call(status, owner, ierr, refusal)
      if (allocated(refusal)) deallocate (refusal)
    else if (present(ierr)) then
      ierr = WEIR_OK
    end if
  end subroutine

  function last_text(owner) result(text)
    type(comm_owner), pointer, intent(in) :: owner
    character(len=:), allocatable :: text

    if (associated(owner)) then
      if (owner%refused) then
        text = owner%refusal
        return
      end if
    end if
    text = text_of(c_last_error(handle_of(owner)))
  end function

  !> Prints the text and ends the program.
  subroutine stop_with(text)
    character(len=*), intent(in) :: text

    write (error_unit, '(2a)') 'weir: ', text
    error stop 1
  end subroutine

  !> Returns an integer as text.
  function number(value) result(text)
    integer(int64), intent(in) :: value
    character(len=:), allocatable :: text
    character(len=20) :: digits

    write (digits, '(i0)') value
    text = trim(digits)
  end function

end module
