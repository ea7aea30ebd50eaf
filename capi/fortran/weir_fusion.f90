! weir_fusion.f90: reduces the gradients of a whole model while back-propagation computes them.
module weir_fusion
  use, intrinsic :: iso_c_binding, only: c_char, c_int, c_int64_t, c_loc, c_null_char, c_null_ptr, c_ptr, c_sizeof
  use, intrinsic :: iso_fortran_env, only: int8, int64, real32, real64
  use weir_arrays, only: array_view, view_of, why_unusable
  use weir_c
  use weir_calls, only: add_user, comm_owner, end_call, end_user, handle_of, number, remove_user, stop_with
  use weir_communicators, only: owner_of, weir_communicator
  use weir_plans, only: copy_values
  use weir_text, only: text_of
  use weir_types
  implicit none
  private
  public :: weir_fused_allreduce, c_handle_of_fused

  !> The gradients of one model. The library decides which of them travel together. It cannot be copied. It ends with destroy or
  !> with its scope.
  !>
  !> Tensors are numbered from 1, in the order given to create, which is that of the forward pass.
  !>
  !> An iteration has two parts. First, each tensor's gradient is handed in once with ready. The order may differ between ranks.
  !> Then come the waits. From the first wait on, no more gradients are taken. wait_all ends the iteration: every rank calls it
  !> before its next ready.
  !>
  !> A gradient is an array of rank 1 to 3, real32 or real64 as configured, with as many elements as its tensor's description says.
  !> It is never copied, so it must be contiguous. Do not touch it from ready until wait for its tensor, or wait_all, and declare it
  !> asynchronous. It then holds the update.
  !>
  !> An error of one rank ends the iteration on every rank: wait of the tensors concerned, or wait_all, returns it. A wait that
  !> returns an error has ended the iteration as wait_all does. The next iteration is unaffected.
  type :: weir_fused_allreduce
    private
    type(c_ptr) :: handle = c_null_ptr
    type(comm_owner), pointer :: owner => null()
    integer(int64), allocatable :: counts(:) !< elements by tensor
    character(len=6) :: type = '' !< of gradients, as in array_view
    character(len=WEIR_TEXT_LENGTH) :: name = ''
    character(len=:), allocatable :: refusal !< the first error in a call of this iteration
  contains
    !> Collective. (comm, config, tensors, ierr): takes a weir_fusion_config, and an array of weir_fused_tensor in the order of the
    !> forward pass. An object that this variable had before ends first, with its residuals.
    procedure :: create
    !> (ierr): finishes exchanges in flight, because the other ranks wait for them.
    procedure :: destroy
    !> (tensor, gradient, ierr): hands in the complete gradient of a tensor, given by its number. Every rank calls it for every
    !> tensor that is not optional. The waits of all ranks report errors of the call.
    !@ for kind = real32 | real64
    !@ for rank = 1 | 2 | 3
    generic :: ready => ready_@kind@_@rank@
    procedure, private :: ready_@kind@_@rank@
    !@ end
    !@ end
    !> (tensor, gradient, ierr): states that this rank has no gradient for an optional tensor in this iteration. The rank
    !> contributes nothing, and its residual stays. The array gets the update of the other ranks.
    !@ for kind = real32 | real64
    !@ for rank = 1 | 2 | 3
    generic :: skip => skip_@kind@_@rank@
    procedure, private :: skip_@kind@_@rank@
    !@ end
    !@ end
    !> (tensor, done, ierr): makes progress on everything in flight on the communicator. `done` is true once the update of this
    !> tensor is in its gradient. The iteration then takes no more gradients.
    procedure :: test
    !> (tensor, ierr): waits until the update of this tensor is in its gradient.
    procedure :: wait
    !> (ierr): waits until all updates are delivered and all ranks have ended the iteration.
    procedure :: wait_all
    !> (ierr): makes progress on everything in flight on the communicator, without waiting.
    procedure :: progress
    !> (name, ierr): returns the number of the tensor of this name.
    procedure :: find_tensor
    !> (tensor, ierr): returns the number of the buffer that the tensor travels in at present. Buffers count from 1, in the order in
    !> which they are expected to start. 0 with WEIR_FUSION_AHEAD, because each rank then decides as gradients come.
    procedure :: buffer_of
    !> (tensor, values, ierr): returns a copy of a tensor's residual on this rank. It is empty without error feedback, and for dense
    !> tensors. (tensor, count, values, ierr) with type(c_ptr): returns the address, valid until the next ready, reset or
    !> restore_state.
    generic :: residual => residual_real32, residual_real64, residual_address
    !> (statistics, ierr): returns what the last complete iteration did on this rank, a weir_fusion_statistics.
    procedure :: statistics => get_statistics
    !> (config, ierr): returns the configuration in force. `algorithm` and `error_feedback` have the values that automatic choice
    !> has set.
    procedure :: config => get_config
    !> (): returns which buffers there are and why, as text.
    procedure :: explanation
    !> (ierr): returns the bytes that this object holds, without the caller's gradients, int64.
    procedure :: memory_bytes
    !> (state, ierr): returns the state kept between iterations in an allocatable array of int8, which is allocated to its size.
    procedure :: save_state
    !> (state, ierr): continues from a saved `state`. It must have the same tensors, scheme, algorithm and error feedback, and be
    !> from the same rank of the same number of ranks.
    procedure :: restore_state
    !> (ierr): clears residuals, thresholds and iteration count. All ranks must call it before the same iteration.
    procedure :: reset
    !> (factor, ierr): does for all tensors what scale_residual of a weir_allreduce_plan does.
    procedure :: scale_residuals
    generic :: assignment(=) => refuse_copy
    procedure, private :: residual_real32, residual_real64, residual_address
    procedure, private :: refuse_copy
    final :: finalise
  end type

contains

  subroutine create(self, comm, config, tensors, ierr)
    class(weir_fused_allreduce), intent(inout) :: self
    class(weir_communicator), intent(in) :: comm
    type(weir_fusion_config), intent(in) :: config
    type(weir_fused_tensor), intent(in) :: tensors(:)
    integer, intent(out), optional :: ierr
    type(c_fusion_config) :: c
    type(c_fused_tensor), allocatable, target :: all(:)
    character(kind=c_char), target :: texts(WEIR_LONG_TEXT_LENGTH + 1, fusion_config_texts)
    character(kind=c_char), allocatable, target :: names(:, :)
    integer(c_int) :: status
    integer :: i

    call finalise(self)
    call to_c(config, c, texts)
    allocate (all(max(1, size(tensors))), names(WEIR_LONG_TEXT_LENGTH + 1, size(tensors)))
    do i = 1, size(tensors)
      call to_c(tensors(i), all(i), names(:, i:i))
    end do
    status = c_fused_create(handle_of(owner_of(comm)), c, c_loc(all(1)), int(size(tensors), c_int), self%handle)
    if (status == WEIR_OK) then
      call add_user(owner_of(comm), self%owner)
      self%counts = tensors%count
      self%type = merge('real64', 'real32', config%type == WEIR_FLOAT64)
      self%name = config%name
    end if
    call end_call(status, owner_of(comm), ierr)
  end subroutine

  !> Returns the tensor's number in C, from 0. If there is no such tensor, returns a number that all ranks refuse, and the reason.
  subroutine place(self, tensor, c_number, refusal)
    class(weir_fused_allreduce), intent(in) :: self
    integer, intent(in) :: tensor
    integer(c_int), intent(out) :: c_number
    character(len=:), allocatable, intent(out) :: refusal

    c_number = -1
    if (.not. allocated(self%counts)) return
    if (tensor >= 1 .and. tensor <= size(self%counts)) then
      c_number = int(tensor - 1, c_int)
    else
      refusal = 'fused '''//trim(self%name)//''': there is no tensor '//number(int(tensor, int64))//': they are numbered 1 to '// &
                number(size(self%counts, kind=int64))
    end if
  end subroutine

  !> Keeps the first error of an iteration, which is reported at its end.
  subroutine remember(self, refusal)
    class(weir_fused_allreduce), intent(inout) :: self
    character(len=:), allocatable, intent(inout) :: refusal

    if (allocated(refusal) .and. .not. allocated(self%refusal)) call move_alloc(refusal, self%refusal)
  end subroutine

  subroutine hand_in(self, tensor, gradient, contributes, ierr)
    class(weir_fused_allreduce), intent(inout) :: self
    integer, intent(in) :: tensor
    type(array_view), intent(in) :: gradient
    logical, intent(in) :: contributes
    integer, intent(out), optional :: ierr
    character(len=:), allocatable :: refusal
    type(array_view) :: checked
    integer(c_int) :: c_number, status

    checked = gradient
    call place(self, tensor, c_number, refusal)
    if (c_number >= 0 .and. (gradient%type /= self%type .or. .not. gradient%usable)) then
      refusal = 'fused '''//trim(self%name)//''': the gradient of tensor '//number(int(tensor, int64))//' '
      if (gradient%type /= self%type) then
        refusal = refusal//'is '//gradient%type//': it takes '//self%type
      else
        refusal = refusal//why_unusable(gradient)
      end if
      ! All ranks refuse a null gradient. For a tensor without elements null is valid, so a wrong number of elements is passed
      ! instead.
      checked%address = c_null_ptr
      checked%count = max(1_int64, self%counts(tensor))
    end if
    if (contributes) then
      status = c_fused_ready(self%handle, c_number, checked%address, checked%count)
    else
      status = c_fused_skip(self%handle, c_number, checked%address, checked%count)
    end if
    if (status == WEIR_OK) call remember(self, refusal)
    call end_call(status, self%owner, ierr)
  end subroutine

  !@ for call, contributes = ready; .true. | skip; .false.
  !@ for kind = real32 | real64
  !@ for rank, shape = 1; : | 2; :, : | 3; :, :, :
  subroutine @call@_@kind@_@rank@(self, tensor, gradient, ierr)
    class(weir_fused_allreduce), intent(inout) :: self
    integer, intent(in) :: tensor
    real(@kind@), intent(inout), target, asynchronous :: gradient(@shape@)
    integer, intent(out), optional :: ierr

    call hand_in(self, tensor, view_of(gradient), @contributes@, ierr)
  end subroutine

  !@ end
  !@ end
  !@ end
  !> Ends the iteration if a wait has returned an error.
  subroutine end_wait(self, status, ierr)
    class(weir_fused_allreduce), intent(inout) :: self
    integer(c_int), intent(in) :: status
    integer, intent(out), optional :: ierr

    if (status == WEIR_OK) then
      call end_call(status, self%owner, ierr)
    else
      call end_call(status, self%owner, ierr, self%refusal)
      if (allocated(self%refusal)) deallocate (self%refusal)
    end if
  end subroutine

  subroutine test(self, tensor, done, ierr)
    class(weir_fused_allreduce), intent(inout) :: self
    integer, intent(in) :: tensor
    logical, intent(out) :: done
    integer, intent(out), optional :: ierr
    character(len=:), allocatable :: refusal
    integer(c_int) :: c_number, status, c_done

    call place(self, tensor, c_number, refusal)
    call remember(self, refusal)
    c_done = 0
    status = c_fused_test(self%handle, c_number, c_done)
    done = c_done /= 0
    call end_wait(self, status, ierr)
  end subroutine

  subroutine wait(self, tensor, ierr)
    class(weir_fused_allreduce), intent(inout) :: self
    integer, intent(in) :: tensor
    integer, intent(out), optional :: ierr
    character(len=:), allocatable :: refusal
    integer(c_int) :: c_number

    call place(self, tensor, c_number, refusal)
    call remember(self, refusal)
    call end_wait(self, c_fused_wait(self%handle, c_number), ierr)
  end subroutine

  subroutine wait_all(self, ierr)
    class(weir_fused_allreduce), intent(inout) :: self
    integer, intent(out), optional :: ierr

    call end_wait(self, c_fused_wait_all(self%handle), ierr)
  end subroutine

  function find_tensor(self, name, ierr) result(tensor)
    class(weir_fused_allreduce), intent(in) :: self
    character(len=*), intent(in) :: name
    integer, intent(out), optional :: ierr
    integer :: tensor
    integer(c_int) :: found

    found = -1
    call end_call(c_fused_find_tensor(self%handle, trim(name)//c_null_char, found), self%owner, ierr)
    tensor = found + 1
  end function

  function buffer_of(self, tensor, ierr) result(buffer)
    class(weir_fused_allreduce), intent(in) :: self
    integer, intent(in) :: tensor
    integer, intent(out), optional :: ierr
    integer :: buffer
    character(len=:), allocatable :: refusal
    integer(c_int) :: c_number, found, status

    found = -1
    call place(self, tensor, c_number, refusal)
    status = c_fused_buffer_of(self%handle, c_number, found)
    call end_call(status, self%owner, ierr, refusal)
    buffer = found + 1
  end function

  !@ for kind = real32 | real64
  subroutine residual_@kind@(self, tensor, values, ierr)
    class(weir_fused_allreduce), intent(in) :: self
    integer, intent(in) :: tensor
    real(@kind@), allocatable, intent(inout) :: values(:)
    integer, intent(out), optional :: ierr
    character(len=:), allocatable :: refusal
    type(c_residual) :: c
    integer(c_int) :: status

    call find_residual(self, tensor, '@kind@', c, status, refusal)
    if (status == WEIR_OK .and. .not. allocated(refusal)) call copy_values(c%values, c%count, values)
    call end_call(status, self%owner, ierr, refusal)
  end subroutine

  !@ end
  subroutine residual_address(self, tensor, count, values, ierr)
    class(weir_fused_allreduce), intent(in) :: self
    integer, intent(in) :: tensor
    integer(int64), intent(out) :: count
    type(c_ptr), intent(out) :: values
    integer, intent(out), optional :: ierr
    character(len=:), allocatable :: refusal
    type(c_residual) :: c
    integer(c_int) :: status

    call find_residual(self, tensor, self%type, c, status, refusal)
    count = c%count
    values = c%values
    call end_call(status, self%owner, ierr, refusal)
  end subroutine

  !> Finds the residual of a tensor for an array of `type`, or the reason why it cannot be copied there.
  subroutine find_residual(self, tensor, type, c, status, refusal)
    class(weir_fused_allreduce), intent(in) :: self
    integer, intent(in) :: tensor
    character(len=*), intent(in) :: type
    type(c_residual), intent(inout) :: c
    integer(c_int), intent(out) :: status
    character(len=:), allocatable, intent(out) :: refusal
    integer(c_int) :: c_number

    call place(self, tensor, c_number, refusal)
    c%struct_size = c_sizeof(c)
    status = c_fused_residual(self%handle, c_number, c)
    if (associated(self%owner) .and. .not. allocated(refusal) .and. type /= self%type) then
      refusal = 'fused '''//trim(self%name)//''': its residuals are '//self%type//': the array for the values is '//type
    end if
  end subroutine

  subroutine forget(self)
    class(weir_fused_allreduce), intent(inout) :: self

    if (allocated(self%refusal)) deallocate (self%refusal)
    if (allocated(self%counts)) deallocate (self%counts)
  end subroutine

  !@ procedures of weir_fused

end module
