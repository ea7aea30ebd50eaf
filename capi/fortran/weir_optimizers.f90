! weir_optimizers.f90: LARS and LAMB over the layers of a model.
module weir_optimizers
  use, intrinsic :: iso_c_binding, only: c_char, c_f_pointer, c_int, c_int64_t, c_loc, c_null_ptr, c_ptr, c_sizeof
  use, intrinsic :: iso_fortran_env, only: int8, int64, real32, real64
  use weir_arrays, only: array_view, view_of, why_unusable
  use weir_c
  use weir_calls, only: add_user, comm_owner, end_call, end_user, handle_of, number, remove_user, stop_with
  use weir_communicators, only: owner_of, weir_communicator
  use weir_text, only: text_of
  use weir_types
  implicit none
  private
  public :: weir_layer_optimizer, c_handle_of_optimizer

  !> LARS or LAMB: each layer has its own step size, in proportion to its weights' norm. It cannot be copied. It ends with destroy
  !> or with its scope.
  !>
  !> Weights and gradients are the same on all ranks. So are the weights after a step, bit for bit, on any number of ranks, and
  !> whether or not work is divided. They are real32. Fortran has no 16-bit reals: pass such weights, and those in CUDA memory, by
  !> address.
  type :: weir_layer_optimizer
    private
    type(c_ptr) :: handle = c_null_ptr
    type(comm_owner), pointer :: owner => null()
    integer(int64), allocatable :: counts(:) !< elements by layer
    type(c_ptr), allocatable :: weights(:), gradients(:) !< arguments of a step, by layer
    logical :: narrow = .false. !< true if weights and gradients have 16 bits
    character(len=WEIR_TEXT_LENGTH) :: name = ''
  contains
    !> Collective. (comm, config, layers, ierr): takes a weir_optimizer_config, and an array of weir_optimized_layer. An optimizer
    !> that this variable had before ends first, with its momentum.
    procedure :: create
    !> (ierr)
    procedure :: destroy
    !> Collective, blocking. (weights, gradients, learning_rate, ierr): takes one step. Weights and gradients are contiguous real32
    !> arrays of rank 1 with all layers one after the other, or arrays of type(c_ptr) with the address of each layer.
    !> `learning_rate` is real64. WEIR_ERR_NON_FINITE on all ranks, naming the layer, if a norm is not finite. With
    !> WEIR_OPTIMIZER_LARS nothing has changed then. With WEIR_OPTIMIZER_LAMB the moments have been updated with the gradient.
    !> In CUDA memory (weights, gradients, learning_rate, stream, ierr): arrays of addresses, and a cudaStream_t, all type(c_ptr).
    !> The step runs after the work on the stream, and work put onto the stream after the call sees the weights.
    generic :: step => step_flat, step_addresses, step_on_stream
    !> (rates, ierr): returns each layer's own rate in the last step, without the learning rate, in an allocatable array of real64.
    procedure :: rates => get_rates
    !> (statistics, ierr): returns what the last step did on this rank, a weir_optimizer_statistics.
    procedure :: statistics => get_statistics
    !> (config, ierr): returns the configuration in force. `norms` and `update` have the values that automatic choice has set.
    procedure :: config => get_config
    !> (): returns why work is divided as it is, as text.
    procedure :: explanation
    !> (ierr): returns the bytes that this object holds, without the caller's arrays, int64.
    procedure :: memory_bytes
    !> (state, ierr): returns momentum or moments, as this rank keeps them, and the number of steps, in an allocatable array of
    !> int8, which is allocated to its size.
    procedure :: save_state
    !> (state, ierr): continues from a saved `state`. It must have the same rule, layers and division, and be from the same rank of
    !> the same number of ranks.
    procedure :: restore_state
    !> (ierr): clears momentum or moments, and the number of steps. All ranks must call it before the same step.
    procedure :: reset
    generic :: assignment(=) => refuse_copy
    procedure, private :: step_flat, step_addresses, step_on_stream
    procedure, private :: refuse_copy
    final :: finalise
  end type

contains

  subroutine create(self, comm, config, layers, ierr)
    class(weir_layer_optimizer), intent(inout) :: self
    class(weir_communicator), intent(in) :: comm
    type(weir_optimizer_config), intent(in) :: config
    type(weir_optimized_layer), intent(in) :: layers(:)
    integer, intent(out), optional :: ierr
    type(c_optimizer_config) :: c
    type(c_optimized_layer), allocatable, target :: all(:)
    character(kind=c_char), target :: texts(WEIR_TEXT_LENGTH + 1, optimizer_config_texts)
    character(kind=c_char), allocatable, target :: names(:, :)
    integer(c_int) :: status
    integer :: i

    call finalise(self)
    call to_c(config, c, texts)
    allocate (all(max(1, size(layers))), names(WEIR_LONG_TEXT_LENGTH + 1, size(layers)))
    do i = 1, size(layers)
      call to_c(layers(i), all(i), names(:, i:i))
    end do
    status = c_optimizer_create(handle_of(owner_of(comm)), c, c_loc(all(1)), int(size(layers), c_int), self%handle)
    if (status == WEIR_OK) then
      call add_user(owner_of(comm), self%owner)
      self%counts = layers%count
      allocate (self%weights(size(layers)), self%gradients(size(layers)))
      self%narrow = config%type /= WEIR_FLOAT32
      self%name = config%name
    end if
    call end_call(status, owner_of(comm), ierr)
  end subroutine

  subroutine step_flat(self, weights, gradients, learning_rate, ierr)
    class(weir_layer_optimizer), intent(inout) :: self
    real(real32), intent(inout), target :: weights(:)
    real(real32), intent(in), target :: gradients(:)
    real(real64), intent(in) :: learning_rate
    integer, intent(out), optional :: ierr
    character(len=:), allocatable :: refusal
    type(array_view) :: w, g

    if (.not. allocated(self%counts)) then
      call end_call(c_optimizer_step(self%handle, c_null_ptr, c_null_ptr, 0_c_int, learning_rate), self%owner, ierr)
      return
    end if
    w = view_of(weights)
    g = view_of(gradients)
    call check_flat(self, 'the array of weights', w, refusal)
    if (.not. allocated(refusal)) call check_flat(self, 'the array of gradients', g, refusal)
    ! All ranks refuse null pointers.
    self%weights = c_null_ptr
    self%gradients = c_null_ptr
    if (.not. allocated(refusal)) then
      call place_layers(self%counts, w, self%weights)
      call place_layers(self%counts, g, self%gradients)
    end if
    call step_by(self, self%weights, self%gradients, learning_rate, c_null_ptr, ierr, refusal)
  end subroutine

  subroutine check_flat(self, what, view, refusal)
    class(weir_layer_optimizer), intent(in) :: self
    character(len=*), intent(in) :: what
    type(array_view), intent(in) :: view
    character(len=:), allocatable, intent(out) :: refusal

    if (self%narrow) then
      refusal = 'optimizer '''//trim(self%name)//''': '//what//' is real32: it takes those of 16 bits, by addresses'
    else if (.not. view%usable) then
      refusal = 'optimizer '''//trim(self%name)//''': '//what//' '//why_unusable(view)
    else if (view%count /= sum(self%counts)) then
      refusal = 'optimizer '''//trim(self%name)//''': '//what//' has '//number(view%count)//' elements: layers have '// &
                number(sum(self%counts))
    end if
  end subroutine

  !> Computes the address of each layer in an array of all.
  subroutine place_layers(counts, view, addresses)
    integer(int64), intent(in) :: counts(:)
    type(array_view), intent(in) :: view
    type(c_ptr), intent(inout) :: addresses(:)
    real(real32), pointer, contiguous :: all(:)
    integer(int64) :: begin
    integer :: i

    if (view%count == 0) return
    call c_f_pointer(view%address, all, [view%count])
    begin = 1
    do i = 1, size(counts)
      if (counts(i) > 0) addresses(i) = c_loc(all(begin))
      begin = begin + counts(i)
    end do
  end subroutine

  subroutine step_addresses(self, weights, gradients, learning_rate, ierr)
    class(weir_layer_optimizer), intent(inout) :: self
    type(c_ptr), intent(in) :: weights(:), gradients(:)
    real(real64), intent(in) :: learning_rate
    integer, intent(out), optional :: ierr

    call step_on_stream(self, weights, gradients, learning_rate, c_null_ptr, ierr)
  end subroutine

  subroutine step_on_stream(self, weights, gradients, learning_rate, stream, ierr)
    class(weir_layer_optimizer), intent(inout) :: self
    type(c_ptr), intent(in) :: weights(:), gradients(:), stream
    real(real64), intent(in) :: learning_rate
    integer, intent(out), optional :: ierr
    character(len=:), allocatable :: refusal
    type(c_ptr), allocatable :: nowhere(:)

    if (size(weights) == size(gradients)) then
      call step_by(self, weights, gradients, learning_rate, stream, ierr)
      return
    end if
    refusal = 'optimizer '''//trim(self%name)//''': there are weights of '//number(size(weights, kind=int64))// &
              ' layers and gradients of '//number(size(gradients, kind=int64))
    allocate (nowhere(max(size(weights), size(gradients))))
    nowhere = c_null_ptr
    call step_by(self, nowhere, nowhere, learning_rate, stream, ierr, refusal)
  end subroutine

  subroutine step_by(self, weights, gradients, learning_rate, stream, ierr, refusal)
    class(weir_layer_optimizer), intent(inout) :: self
    type(c_ptr), intent(in), target, contiguous :: weights(:), gradients(:)
    real(real64), intent(in) :: learning_rate
    type(c_ptr), intent(in) :: stream
    integer, intent(out), optional :: ierr
    character(len=*), intent(in), optional :: refusal
    type(c_ptr) :: w, g
    integer(c_int) :: status

    w = c_null_ptr
    g = c_null_ptr
    if (size(weights) > 0) w = c_loc(weights(1))
    if (size(gradients) > 0) g = c_loc(gradients(1))
    status = c_optimizer_step_on_stream(self%handle, w, g, int(size(weights), c_int), learning_rate, stream)
    call end_call(status, self%owner, ierr, refusal)
  end subroutine

  subroutine get_rates(self, rates, ierr)
    class(weir_layer_optimizer), intent(in) :: self
    real(real64), allocatable, intent(inout), target :: rates(:)
    integer, intent(out), optional :: ierr
    real(real64), target :: all(max(1, size(self%weights)))
    integer(c_int) :: status

    status = c_optimizer_rates(self%handle, c_loc(all), int(size(self%weights), c_int))
    if (status == WEIR_OK) rates = all(:size(self%weights))
    call end_call(status, self%owner, ierr)
  end subroutine

  subroutine forget(self)
    class(weir_layer_optimizer), intent(inout) :: self

    if (allocated(self%counts)) deallocate (self%counts, self%weights, self%gradients)
  end subroutine

  !@ procedures of weir_optimizer

end module
