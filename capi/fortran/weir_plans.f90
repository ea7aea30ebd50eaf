! weir_plans.f90: the allreduce of one tensor.
module weir_plans
  use, intrinsic :: iso_c_binding, only: c_associated, c_char, c_f_pointer, c_int, c_int32_t, c_int64_t, c_loc, c_null_char, &
                                         c_null_ptr, c_ptr, c_sizeof
  use, intrinsic :: iso_fortran_env, only: int8, int32, int64, real32, real64
  use weir_arrays, only: array_view, view_of, why_unusable
  use weir_c
  use weir_calls, only: add_user, comm_owner, end_call, end_test, end_user, handle_of, number, remove_user, stop_with
  use weir_communicators, only: owner_of, weir_communicator
  use weir_text, only: text_of
  use weir_types
  implicit none
  private
  public :: weir_allreduce_plan, c_handle_of_plan, copy_values

  !> The allreduce of one tensor, and its state. It cannot be copied. It ends with destroy or with its scope.
  !>
  !> A gradient is an array of rank 1 to 3, real32 or real64 as configured, with as many elements as the plan was made for. It is
  !> never copied, so it must be contiguous. If its layout, type or size is wrong, all ranks return WEIR_ERR_ARGUMENT at the end of
  !> the run. For plans in CUDA memory, give its address, a type(c_ptr), and a stream.
  !>
  !> Between start and wait, do not touch the gradient, and declare it asynchronous, so that the compiler does not, either. With
  !> dense algorithms it must exist until the run has finished. Sparse ones read it within start and never touch it after the run's
  !> end.
  type :: weir_allreduce_plan
    private
    type(c_ptr) :: handle = c_null_ptr
    type(comm_owner), pointer :: owner => null()
    integer(int64) :: count = 0
    character(len=6) :: type = '' !< of gradients, as in array_view; empty for 16-bit types
    character(len=6) :: result_type = '' !< of updates and residuals
    logical :: on_host = .true.
    character(len=WEIR_TEXT_LENGTH) :: name = ''
    character(len=:), allocatable :: refusal !< the error in the gradient of the run in flight
  contains
    !> Collective. (comm, config, ierr): makes the plan. A plan that this variable had before ends first, with its residual.
    procedure :: create
    !> (ierr): finishes a run in flight.
    procedure :: destroy
    !> Collective, blocking. (gradient, ierr): overwrites the gradient with the update. (address, stream, ierr) in CUDA memory.
    generic :: run => run_address
    !> Does the same, but only reads the gradient: see sparse_result.
    generic :: run_sparse => run_sparse_address
    !> Collective, nonblocking: selects entries here, and communicates in test and wait.
    generic :: start => start_address
    generic :: start_sparse => start_sparse_address
    !> (done, ierr): makes progress on everything in flight on the communicator. `done` is true once this plan's run has finished.
    procedure :: test
    !> (ierr): waits until the run has finished.
    procedure :: wait
    !> (indices, values, ierr): returns a copy of the delivered update, sorted by index, the same on all ranks. Indices are int64
    !> and count the gradient's elements in array element order, from 1. (count, indices, values, ierr) with type(c_ptr): returns
    !> the addresses of the plan's own 32-bit offsets from 0, and of its values. They are valid until its next start, reset or end.
    !> This works in CUDA memory, too.
    generic :: sparse_result => sparse_result_real32, sparse_result_real64, sparse_result_address
    !> (values, first, ierr): returns a copy of this rank's residual. `first`, int64 and optional, is set to the number of its first
    !> element, which is 1 except with algorithms that shard within nodes. (first, count, values, ierr) with type(c_ptr): returns
    !> the address, valid as above.
    generic :: residual => residual_real32, residual_real64, residual_address
    !> (statistics, ierr): returns what the last run did on this rank.
    procedure :: statistics => get_statistics
    !> (name, ierr): returns, as int64, how many runs did what `name` says, for example 'recut', since the plan was made or reset.
    !> The `counters` of a weir_algorithm_info list the names of an algorithm.
    procedure :: counter
    !> (config, ierr): returns the configuration in force.
    procedure :: config => get_config
    !> (ierr): returns the bytes that this plan holds, without the caller's gradient, int64.
    procedure :: memory_bytes
    !> (): returns why the plan uses this algorithm, as text.
    procedure :: explanation
    !> (ierr): clears residual, thresholds, boundaries and iteration count. All ranks must call it before the same run.
    procedure :: reset
    !> (factor, ierr): prepares for gradients that are `factor`, real64, times as large as before, for example if a loss scale
    !> changes. Multiplies residual, momentum, EF21's states and thresholds by `factor`. All ranks must call it before the same run,
    !> with the same factor, positive and finite.
    procedure :: scale_residual
    !> (state, ierr): returns the state kept between iterations in an allocatable array of int8, which is allocated to its size.
    procedure :: save_state
    !> (state, ierr): continues from a saved `state`. It must have the same configuration, and be from the same rank of the same
    !> number of ranks.
    procedure :: restore_state
    !> (ierr): returns the largest size of an encoded gradient in bytes, int64.
    procedure :: encoded_bytes
    !> (gradient, encoded, ierr): compresses a real32 gradient as this rank's next run would, without communication, for programs
    !> that move bytes themselves. `encoded` is an allocatable array of int8, which is allocated to its size. weir_decode reads it
    !> anywhere. This counts as a run that has delivered everything.
    generic :: encode => encode_1, encode_2, encode_3
    generic :: assignment(=) => refuse_copy
    procedure, private :: run_address, run_sparse_address, start_address, start_sparse_address
    procedure, private :: sparse_result_real32, sparse_result_real64, sparse_result_address
    procedure, private :: residual_real32, residual_real64, residual_address
    procedure, private :: encode_1, encode_2, encode_3
    procedure, private :: refuse_copy
    !@ for call = run | run_sparse | start | start_sparse
    !@ for kind = real32 | real64
    !@ for rank = 1 | 2 | 3
    generic :: @call@ => @call@_@kind@_@rank@
    procedure, private :: @call@_@kind@_@rank@
    !@ end
    !@ end
    !@ end
    final :: finalise
  end type

  !> Also used by the module of fused tensors.
  interface copy_values
    module procedure copy_real32, copy_real64
  end interface

contains

  subroutine create(self, comm, config, ierr)
    class(weir_allreduce_plan), intent(inout) :: self
    class(weir_communicator), intent(in) :: comm
    type(weir_allreduce_config), intent(in) :: config
    integer, intent(out), optional :: ierr
    type(c_allreduce_config) :: c
    character(kind=c_char), target :: texts(WEIR_LONG_TEXT_LENGTH + 1, allreduce_config_texts)
    integer(c_int) :: status

    call finalise(self)
    call to_c(config, c, texts)
    status = c_plan_create(handle_of(owner_of(comm)), c, self%handle)
    if (status == WEIR_OK) then
      call add_user(owner_of(comm), self%owner)
      self%count = config%count
      self%type = merge('real64', merge('real32', '      ', config%type == WEIR_FLOAT32), config%type == WEIR_FLOAT64)
      self%result_type = merge('real64', 'real32', config%type == WEIR_FLOAT64)
      self%on_host = config%memory == WEIR_MEMORY_HOST
      self%name = config%name
    end if
    call end_call(status, owner_of(comm), ierr)
  end subroutine

  !> Reports what is wrong with a gradient, if anything. C then gets a null address, which fails the run on the other ranks, too.
  subroutine check(self, gradient, refusal)
    class(weir_allreduce_plan), intent(in) :: self
    type(array_view), intent(inout) :: gradient
    character(len=:), allocatable, intent(out) :: refusal

    if (.not. associated(self%owner)) return
    if (gradient%usable .and. gradient%count == self%count .and. gradient%type == self%type) return
    gradient%address = c_null_ptr
    refusal = 'plan '''//trim(self%name)//''': the gradient '
    if (.not. gradient%exists) then
      refusal = refusal//why_unusable(gradient)
    else if (gradient%type /= self%type .and. self%type == '') then
      refusal = refusal//'is an array: plans of 16-bit types take the address of CUDA memory'
    else if (gradient%type /= self%type) then
      refusal = refusal//'is '//gradient%type//': the plan takes '//self%type
    else if (gradient%count /= self%count) then
      refusal = refusal//'has '//number(gradient%count)//' elements: the plan takes '//number(self%count)
    else
      refusal = refusal//why_unusable(gradient)
    end if
  end subroutine

  !> Reports a refused gradient at the end of the run, as the other ranks do.
  subroutine end_start(self, status, refusal, ierr)
    class(weir_allreduce_plan), intent(inout) :: self
    integer(c_int), intent(in) :: status
    character(len=:), allocatable, intent(inout) :: refusal
    integer, intent(out), optional :: ierr

    if (status == WEIR_OK) call move_alloc(refusal, self%refusal)
    call end_call(status, self%owner, ierr, refusal)
  end subroutine

  subroutine run_view(self, gradient, ierr)
    class(weir_allreduce_plan), intent(inout) :: self
    type(array_view), intent(in) :: gradient
    integer, intent(out), optional :: ierr
    type(array_view) :: checked
    character(len=:), allocatable :: refusal

    checked = gradient
    call check(self, checked, refusal)
    call end_call(c_plan_run(self%handle, checked%address), self%owner, ierr, refusal)
  end subroutine

  subroutine run_sparse_view(self, gradient, ierr)
    class(weir_allreduce_plan), intent(inout) :: self
    type(array_view), intent(in) :: gradient
    integer, intent(out), optional :: ierr
    type(array_view) :: checked
    type(c_sparse_result) :: unused
    character(len=:), allocatable :: refusal

    checked = gradient
    call check(self, checked, refusal)
    unused%struct_size = c_sizeof(unused)
    call end_call(c_plan_run_sparse(self%handle, checked%address, unused), self%owner, ierr, refusal)
  end subroutine

  subroutine run_address(self, gradient, stream, ierr)
    class(weir_allreduce_plan), intent(inout) :: self
    type(c_ptr), intent(in) :: gradient, stream
    integer, intent(out), optional :: ierr

    call end_call(c_plan_run_on_stream(self%handle, gradient, stream), self%owner, ierr)
  end subroutine

  !@ for call = start | start_sparse
  subroutine @call@_view(self, gradient, ierr)
    class(weir_allreduce_plan), intent(inout) :: self
    type(array_view), intent(in) :: gradient
    integer, intent(out), optional :: ierr
    type(array_view) :: checked
    character(len=:), allocatable :: refusal

    checked = gradient
    call check(self, checked, refusal)
    call end_start(self, c_plan_@call@(self%handle, checked%address), refusal, ierr)
  end subroutine

  subroutine @call@_address(self, gradient, stream, ierr)
    class(weir_allreduce_plan), intent(inout) :: self
    type(c_ptr), intent(in) :: gradient, stream
    integer, intent(out), optional :: ierr
    character(len=:), allocatable :: nothing

    call end_start(self, c_plan_@call@_on_stream(self%handle, gradient, stream), nothing, ierr)
  end subroutine

  !@ end
  !@ for call, attributes = run; intent(inout), target | run_sparse; intent(in), target | start; intent(inout), target, asynchronous | start_sparse; intent(in), target, asynchronous
  !@ for kind = real32 | real64
  !@ for rank, shape = 1; : | 2; :, : | 3; :, :, :
  subroutine @call@_@kind@_@rank@(self, gradient, ierr)
    class(weir_allreduce_plan), intent(inout) :: self
    real(@kind@), @attributes@ :: gradient(@shape@)
    integer, intent(out), optional :: ierr

    call @call@_view(self, view_of(gradient), ierr)
  end subroutine

  !@ end
  !@ end
  !@ end
  subroutine run_sparse_address(self, gradient, stream, ierr)
    class(weir_allreduce_plan), intent(inout) :: self
    type(c_ptr), intent(in) :: gradient, stream
    integer, intent(out), optional :: ierr
    type(c_sparse_result) :: unused

    unused%struct_size = c_sizeof(unused)
    call end_call(c_plan_run_sparse_on_stream(self%handle, gradient, stream, unused), self%owner, ierr)
  end subroutine

  !> Returns why a result cannot be copied into an array of `type`.
  subroutine check_copy(self, what, type, refusal)
    class(weir_allreduce_plan), intent(in) :: self
    character(len=*), intent(in) :: what, type
    character(len=:), allocatable, intent(out) :: refusal

    if (.not. associated(self%owner)) return
    if (.not. self%on_host) then
      refusal = 'plan '''//trim(self%name)//''': its '//what//' is in CUDA memory: ask for addresses, type(c_ptr), not for arrays'
    else if (type /= self%result_type) then
      refusal = 'plan '''//trim(self%name)//''': its '//what//' is '//self%result_type//': the array for the values is '//type
    end if
  end subroutine

  !@ for kind = real32 | real64
  subroutine sparse_result_@kind@(self, indices, values, ierr)
    class(weir_allreduce_plan), intent(in) :: self
    integer(int64), allocatable, intent(inout) :: indices(:)
    real(@kind@), allocatable, intent(inout) :: values(:)
    integer, intent(out), optional :: ierr
    character(len=:), allocatable :: refusal
    type(c_sparse_result) :: c
    integer(c_int) :: status

    call check_copy(self, 'update', '@kind@', refusal)
    c%struct_size = c_sizeof(c)
    status = c_plan_sparse_result(self%handle, c)
    if (status == WEIR_OK .and. .not. allocated(refusal)) then
      call copy_indices(c, indices)
      call copy_values(c%values, c%count, values)
    end if
    call end_call(status, self%owner, ierr, refusal)
  end subroutine

  !@ end
  !> Converts offsets from 0, unsigned in C, to indices from 1.
  subroutine copy_indices(c, indices)
    type(c_sparse_result), intent(in) :: c
    integer(int64), allocatable, intent(inout) :: indices(:)
    integer(c_int32_t), pointer :: offsets(:)
    integer(int64), parameter :: low_bits = 4294967295_int64

    if (allocated(indices)) then
      if (size(indices) /= c%count) deallocate (indices)
    end if
    if (.not. allocated(indices)) allocate (indices(c%count))
    if (c%count == 0) return
    call c_f_pointer(c%indices, offsets, [c%count])
    indices(:) = iand(int(offsets, int64), low_bits) + 1
  end subroutine

  !@ for kind = real32 | real64
  subroutine copy_@kind@(address, count, values)
    type(c_ptr), intent(in) :: address
    integer(int64), intent(in) :: count
    real(@kind@), allocatable, intent(inout) :: values(:)
    real(@kind@), pointer :: kept(:)

    if (allocated(values)) then
      if (size(values) /= count) deallocate (values)
    end if
    if (.not. allocated(values)) allocate (values(count))
    if (count == 0) return
    call c_f_pointer(address, kept, [count])
    values(:) = kept
  end subroutine

  !@ end
  subroutine sparse_result_address(self, count, indices, values, ierr)
    class(weir_allreduce_plan), intent(in) :: self
    integer(int64), intent(out) :: count
    type(c_ptr), intent(out) :: indices, values
    integer, intent(out), optional :: ierr
    type(c_sparse_result) :: c
    integer(c_int) :: status

    c%struct_size = c_sizeof(c)
    status = c_plan_sparse_result(self%handle, c)
    count = c%count
    indices = c%indices
    values = c%values
    call end_call(status, self%owner, ierr)
  end subroutine

  !@ for kind = real32 | real64
  subroutine residual_@kind@(self, values, first, ierr)
    class(weir_allreduce_plan), intent(in) :: self
    real(@kind@), allocatable, intent(inout) :: values(:)
    integer(int64), intent(out), optional :: first
    integer, intent(out), optional :: ierr
    character(len=:), allocatable :: refusal
    type(c_residual) :: c
    integer(c_int) :: status

    call check_copy(self, 'residual', '@kind@', refusal)
    c%struct_size = c_sizeof(c)
    status = c_plan_residual(self%handle, c)
    if (present(first)) first = c%begin + 1
    if (status == WEIR_OK .and. .not. allocated(refusal)) call copy_values(c%values, c%count, values)
    call end_call(status, self%owner, ierr, refusal)
  end subroutine

  !@ end
  subroutine residual_address(self, first, count, values, ierr)
    class(weir_allreduce_plan), intent(in) :: self
    integer(int64), intent(out) :: first, count
    type(c_ptr), intent(out) :: values
    integer, intent(out), optional :: ierr
    type(c_residual) :: c
    integer(c_int) :: status

    c%struct_size = c_sizeof(c)
    status = c_plan_residual(self%handle, c)
    first = c%begin + 1
    count = c%count
    values = c%values
    call end_call(status, self%owner, ierr)
  end subroutine

  subroutine encode_view(self, gradient, encoded, ierr)
    class(weir_allreduce_plan), intent(inout) :: self
    type(array_view), intent(in) :: gradient
    integer(int8), allocatable, intent(inout) :: encoded(:)
    integer, intent(out), optional :: ierr
    integer(int8), allocatable, target :: room(:)
    type(array_view) :: checked
    character(len=:), allocatable :: refusal
    integer(c_int) :: status
    integer(c_int64_t) :: bytes

    checked = gradient
    call check(self, checked, refusal)
    bytes = 0
    status = c_plan_encoded_bytes(self%handle, bytes)
    if (status == WEIR_OK .and. .not. allocated(refusal)) then
      allocate (room(bytes))
      status = c_plan_encode(self%handle, checked%address, c_loc(room(1)), bytes, bytes)
      if (status == WEIR_OK) encoded = room(:bytes)
    end if
    call end_call(status, self%owner, ierr, refusal)
  end subroutine

  !@ for rank, shape = 1; : | 2; :, : | 3; :, :, :
  subroutine encode_@rank@(self, gradient, encoded, ierr)
    class(weir_allreduce_plan), intent(inout) :: self
    real(real32), intent(in), target :: gradient(@shape@)
    integer(int8), allocatable, intent(inout) :: encoded(:)
    integer, intent(out), optional :: ierr

    call encode_view(self, view_of(gradient), encoded, ierr)
  end subroutine

  !@ end
  subroutine forget(self)
    class(weir_allreduce_plan), intent(inout) :: self

    if (allocated(self%refusal)) deallocate (self%refusal)
  end subroutine

  !@ procedures of weir_plan

end module
