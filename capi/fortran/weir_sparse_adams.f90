! weir_sparse_adams.f90: Adam for sparse updates.
module weir_sparse_adams
  use, intrinsic :: iso_c_binding, only: c_associated, c_char, c_int, c_int32_t, c_int64_t, c_loc, c_null_ptr, c_ptr, c_sizeof
  use, intrinsic :: iso_fortran_env, only: int8, int64, real32, real64
  use weir_arrays, only: array_view, view_of, why_unusable
  use weir_c
  use weir_calls, only: comm_owner, end_call, last_text, number, stop_with
  use weir_types
  implicit none
  private
  public :: weir_sparse_adam, c_handle_of_sparse_adam

  !> Adam for the sparse updates of plans, in time proportional to their entries. It belongs to no communicator, and no call is
  !> collective. Ranks that are given the same updates keep the same weights, bit for bit. It cannot be copied. It ends with destroy
  !> or with its scope.
  type :: weir_sparse_adam
    private
    type(c_ptr) :: handle = c_null_ptr
    type(comm_owner), pointer :: owner => null() !< without a communicator: it holds the text of the last error
    integer(c_int32_t), allocatable :: offsets(:) !< arguments of a step, from 0, unsigned in C
    character(len=WEIR_TEXT_LENGTH) :: name = ''
  contains
    !> (config, ierr): takes a weir_sparse_adam_config. An optimizer that this variable had before ends first, with its moments.
    procedure :: create
    !> (ierr)
    procedure :: destroy
    !> (indices, values, weights, learning_rate, ierr): takes one step. `indices`, int64, ascend strictly from 1, and `values` are
    !> real32, as returned by sparse_result of a plan. `weights` are real32 of rank 1, contiguous, with the configured number of
    !> elements. (count, indices, values, weights, learning_rate, ierr): takes the addresses that sparse_result returns, without a
    !> copy. WEIR_ERR_ARGUMENT if an argument is wrong; nothing has changed then.
    generic :: step => step_arrays, step_addresses
    !> Takes a part of an update that comes in several, as step does. No index may be in two parts. step with the last part ends the
    !> step.
    generic :: step_part => step_part_arrays, step_part_addresses
    !> (ierr): returns the number of steps taken, int64.
    procedure :: steps
    !> (config, ierr): returns the configuration in force.
    procedure :: config => get_config
    !> (ierr): returns the bytes that this object holds, without the caller's arrays, int64.
    procedure :: memory_bytes
    !> (state, ierr): returns moments and the number of steps, the same on all ranks, in an allocatable array of int8, which is
    !> allocated to its size. WEIR_ERR_BUSY between the parts of a step.
    procedure :: save_state
    !> (state, ierr): continues from a saved `state` with the same count and `exact`, on any number of ranks.
    procedure :: restore_state
    !> (ierr): clears moments, the number of steps, and the parts of an unfinished step.
    procedure :: reset
    !> (): returns the text of the last error of such an optimizer. In errors found by C, entries count from 0.
    procedure :: last_error
    generic :: assignment(=) => refuse_copy
    procedure, private :: step_arrays, step_addresses, step_part_arrays, step_part_addresses
    procedure, private :: refuse_copy
    final :: finalise
  end type

contains

  subroutine create(self, config, ierr)
    class(weir_sparse_adam), intent(inout) :: self
    type(weir_sparse_adam_config), intent(in) :: config
    integer, intent(out), optional :: ierr
    type(c_sparse_adam_config) :: c
    character(kind=c_char), target :: texts(WEIR_TEXT_LENGTH + 1, sparse_adam_config_texts)
    integer(c_int) :: status

    call finalise(self)
    if (.not. associated(self%owner)) allocate (self%owner)
    call to_c(config, c, texts)
    status = c_sparse_adam_create(c, self%handle)
    if (status == WEIR_OK) self%name = config%name
    call end_call(status, self%owner, ierr)
  end subroutine

  subroutine destroy(self, ierr)
    class(weir_sparse_adam), intent(inout) :: self
    integer, intent(out), optional :: ierr
    integer(c_int) :: status

    status = c_sparse_adam_destroy(self%handle)
    if (status == WEIR_OK) self%handle = c_null_ptr
    call end_call(status, self%owner, ierr)
  end subroutine

  impure elemental subroutine finalise(self)
    type(weir_sparse_adam), intent(inout) :: self
    integer(c_int) :: status

    status = c_sparse_adam_destroy(self%handle)
    self%handle = c_null_ptr
    if (allocated(self%offsets)) deallocate (self%offsets)
  end subroutine

  !@ for call, last = step; .true. | step_part; .false.
  subroutine @call@_arrays(self, indices, values, weights, learning_rate, ierr)
    class(weir_sparse_adam), intent(inout) :: self
    integer(int64), intent(in) :: indices(:)
    real(real32), intent(in), target :: values(:)
    real(real32), intent(inout), target :: weights(:)
    real(real64), intent(in) :: learning_rate
    integer, intent(out), optional :: ierr

    call step_by(self, @last@, indices, view_of(values), view_of(weights), learning_rate, ierr)
  end subroutine

  !@ end
  subroutine step_by(self, last, indices, values, weights, learning_rate, ierr)
    class(weir_sparse_adam), intent(inout), target :: self
    logical, intent(in) :: last
    integer(int64), intent(in) :: indices(:)
    type(array_view), intent(in) :: values, weights
    real(real64), intent(in) :: learning_rate
    integer, intent(out), optional :: ierr
    character(len=:), allocatable :: refusal
    integer(int64) :: i
    type(c_ptr) :: offsets

    if (.not. values%usable) refusal = 'the array of values '//why_unusable(values)
    if (.not. weights%usable) refusal = 'the array of weights '//why_unusable(weights)
    if (size(indices, kind=int64) /= values%count) refusal = 'an update has '//number(size(indices, kind=int64))// &
      ' indices and '//number(values%count)//' values: as many of each'
    if (allocated(self%offsets)) then
      if (size(self%offsets) < size(indices)) deallocate (self%offsets)
    end if
    if (.not. allocated(self%offsets)) allocate (self%offsets(max(1, size(indices))))
    do i = 1, size(indices, kind=int64)
      if (indices(i) < 1 .or. indices(i) > weights%count) then
        refusal = 'the update has an entry '//number(indices(i))//': weights are numbered 1 to '//number(weights%count)
        exit
      end if
      self%offsets(i) = unsigned(indices(i) - 1)
    end do
    if (allocated(refusal)) then
      call refuse(self, refusal, ierr)
      return
    end if
    offsets = c_loc(self%offsets(1))
    if (last) then
      call end_call(c_sparse_adam_step(self%handle, offsets, values%address, values%count, weights%address, weights%count, &
                                        learning_rate), self%owner, ierr)
    else
      call end_call(c_sparse_adam_step_part(self%handle, offsets, values%address, values%count, weights%address, weights%count, &
                                             learning_rate), self%owner, ierr)
    end if
  end subroutine

  !> Returns the 32 bits of a number from 0 to 2**32 - 1.
  pure function unsigned(value) result(bits)
    integer(int64), intent(in) :: value
    integer(c_int32_t) :: bits
    integer(int64), parameter :: whole = 4294967296_int64

    bits = int(merge(value - whole, value, value >= whole / 2), c_int32_t)
  end function

  !> Ends a call that is refused here. C only checks the handle.
  subroutine refuse(self, refusal, ierr)
    class(weir_sparse_adam), intent(in) :: self
    character(len=*), intent(in) :: refusal
    integer, intent(out), optional :: ierr
    integer(c_int64_t) :: made

    made = 0
    call end_call(c_sparse_adam_steps(self%handle, made), self%owner, ierr, 'optimizer '''//trim(self%name)//''': '//refusal)
  end subroutine

  !@ for call = step | step_part
  subroutine @call@_addresses(self, count, indices, values, weights, learning_rate, ierr)
    class(weir_sparse_adam), intent(inout) :: self
    integer(int64), intent(in) :: count
    type(c_ptr), intent(in) :: indices, values
    real(real32), intent(inout), target :: weights(:)
    real(real64), intent(in) :: learning_rate
    integer, intent(out), optional :: ierr
    type(array_view) :: w

    w = view_of(weights)
    if (w%usable) then
      call end_call(c_sparse_adam_@call@(self%handle, indices, values, count, w%address, w%count, learning_rate), self%owner, ierr)
    else
      call refuse(self, 'the array of weights '//why_unusable(w), ierr)
    end if
  end subroutine

  !@ end
  function memory_bytes(self, ierr) result(bytes)
    class(weir_sparse_adam), intent(in) :: self
    integer, intent(out), optional :: ierr
    integer(int64) :: bytes
    integer(c_int64_t) :: found

    found = 0
    call end_call(c_sparse_adam_memory_bytes(self%handle, found), self%owner, ierr)
    bytes = found
    if (allocated(self%offsets)) bytes = bytes + 4 * size(self%offsets, kind=int64)
  end function

  subroutine restore_state(self, state, ierr)
    class(weir_sparse_adam), intent(inout) :: self
    integer(int8), intent(in), target :: state(:)
    integer, intent(out), optional :: ierr
    type(array_view) :: view

    view = view_of(state)
    if (view%usable) then
      call end_call(c_sparse_adam_restore_state(self%handle, view%address, view%count), self%owner, ierr)
    else
      call refuse(self, 'the state '//why_unusable(view), ierr)
    end if
  end subroutine

  function last_error(self) result(text)
    class(weir_sparse_adam), intent(in) :: self
    character(len=:), allocatable :: text

    text = last_text(self%owner)
  end function

  impure elemental subroutine refuse_copy(to, from)
    class(weir_sparse_adam), intent(inout) :: to
    type(weir_sparse_adam), intent(in) :: from

    if (c_associated(to%handle) .or. c_associated(from%handle)) &
      call stop_with('a weir_sparse_adam cannot be copied: pass it as an argument, or point to it')
  end subroutine

  !@ procedures of weir_sparse_adam

end module
