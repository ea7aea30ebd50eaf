! weir_library.f90: procedures that need no communicator. Any thread may call them at any time, unless they say otherwise.
module weir_library
  use, intrinsic :: iso_c_binding, only: c_funloc, c_int, c_int32_t, c_null_funptr, c_null_ptr, c_ptr, c_sizeof
  use weir_c
  use weir_calls, only: comm_owner, end_call, last_text
  use weir_text, only: text_of
  use weir_types
  implicit none
  private
  public :: weir_version, weir_status_text, weir_level_name, weir_last_error, weir_init, weir_finalize, weir_mpi_family, &
            weir_mpi_library, weir_algorithms, weir_compressors, weir_exchanges, weir_settings, weir_log_procedure, &
            weir_set_log_procedure

  abstract interface
    !> Takes one message of the library, which is one line. Any thread that calls Weir may call it. It may call only those
    !> procedures of Weir that need no communicator.
    subroutine weir_log_procedure(level, text)
      integer, intent(in) :: level !< WEIR_LOG_LEVEL_ERROR, ...
      character(len=*), intent(in) :: text
    end subroutine
  end interface

  procedure(weir_log_procedure), pointer :: log_procedure => null()

contains

  !> Gives the version of the library in use.
  subroutine weir_version(major, minor, patch)
    integer, intent(out) :: major, minor, patch
    integer(c_int) :: c_major, c_minor, c_patch

    call c_version(c_major, c_minor, c_patch)
    major = c_major
    minor = c_minor
    patch = c_patch
  end subroutine

  !> Returns the text of a status, as `ierr` has it.
  function weir_status_text(status) result(text)
    integer, intent(in) :: status
    character(len=:), allocatable :: text

    text = text_of(c_status_string(int(status, c_int)))
  end function

  !> Returns the name of a level, WEIR_LEVEL_SELF, ...; empty for any other number.
  function weir_level_name(level) result(name)
    integer, intent(in) :: level
    character(len=:), allocatable :: name

    name = text_of(c_level_name(int(level, c_int32_t)))
  end function

  !> Returns the text of this thread's last error that had no communicator. last_error of a communicator has the others.
  function weir_last_error() result(text)
    character(len=:), allocatable :: text
    type(comm_owner), pointer :: none

    nullify (none)
    text = last_text(none)
  end function

  !> Initialises MPI, unless the program has done so. Meant for programs that do not call MPI themselves. Two threads must not call
  !> it at once.
  subroutine weir_init(ierr)
    integer, intent(out), optional :: ierr
    type(comm_owner), pointer :: none

    nullify (none)
    call end_call(c_init(), none, ierr)
  end subroutine

  !> Collective. Finalises MPI if weir_init has initialised it, else does nothing. Destroy communicators before.
  subroutine weir_finalize(ierr)
    integer, intent(out), optional :: ierr
    type(comm_owner), pointer :: none

    nullify (none)
    call end_call(c_finalize(), none, ierr)
  end subroutine

  !> Returns the MPI that Weir was built for: Open MPI, or MPICH for all libraries of its ABI.
  function weir_mpi_family() result(text)
    character(len=:), allocatable :: text

    text = text_of(c_mpi_family())
  end function

  !> Returns the description that the MPI library in use gives of itself.
  function weir_mpi_library() result(text)
    character(len=:), allocatable :: text

    text = text_of(c_mpi_library())
  end function

  !@ for list, one, doc = algorithms; algorithm; algorithm that a plan's configuration may name | compressors; compressor; compressor besides 'none' | exchanges; exchange; exchange that a table's configuration may name | settings; setting; WEIR_* environment variable
  !> Returns every @doc@.
  function weir_@list@() result(list)
    type(weir_@one@_info), allocatable :: list(:)
    type(c_@one@_info) :: c
    integer :: i, length

    c%struct_size = c_sizeof(c)
    length = 0
    do while (c_@one@(int(length, c_int), c) == WEIR_OK)
      length = length + 1
    end do
    allocate (list(length))
    do i = 1, length
      if (c_@one@(int(i - 1, c_int), c) == WEIR_OK) call from_c(c, list(i))
    end do
  end function

  !@ end
  !> Sends messages to `receiver`, a module procedure, instead of stderr from now on; without it, brings stderr back. No other
  !> thread may call Weir meanwhile.
  subroutine weir_set_log_procedure(receiver, ierr)
    procedure(weir_log_procedure), optional :: receiver
    integer, intent(out), optional :: ierr
    type(comm_owner), pointer :: none
    integer(c_int) :: status

    nullify (none)
    if (present(receiver)) then
      log_procedure => receiver
      status = c_set_log_function(c_funloc(pass_message), c_null_ptr)
    else
      status = c_set_log_function(c_null_funptr, c_null_ptr)
    end if
    call end_call(status, none, ierr)
  end subroutine

  subroutine pass_message(context, level, text) bind(C, name='weir_fortran_pass_message')
    type(c_ptr), value :: context
    integer(c_int32_t), value :: level
    type(c_ptr), value :: text

    call log_procedure(int(level), text_of(text))
  end subroutine

end module
