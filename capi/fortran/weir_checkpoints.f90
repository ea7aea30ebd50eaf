! weir_checkpoints.f90: saves a run to files, from which it can continue.
module weir_checkpoints
  use, intrinsic :: iso_c_binding, only: c_char, c_int, c_int32_t, c_int64_t, c_loc, c_null_char, c_null_ptr, c_ptr, &
                                         c_sizeof
  use, intrinsic :: iso_fortran_env, only: int8, int32, int64, real32, real64
  use weir_arrays, only: array_view, view_of, why_unusable
  use weir_c
  use weir_calls, only: add_user, comm_owner, end_call, end_user, handle_of, remove_user, stop_with
  use weir_communicators, only: owner_of, weir_communicator
  use weir_fusion, only: c_handle_of_fused, weir_fused_allreduce
  use weir_optimizers, only: c_handle_of_optimizer, weir_layer_optimizer
  use weir_plans, only: c_handle_of_plan, weir_allreduce_plan
  use weir_schedules, only: c_handle_of_schedule, weir_schedule
  use weir_sparse_adams, only: c_handle_of_sparse_adam, weir_sparse_adam
  use weir_tables, only: c_handle_of_embedding, weir_embedding_table
  use weir_text, only: text_of
  use weir_types
  implicit none
  private
  public :: weir_checkpoint, weir_catch_signal

  !> Checkpoints of one run, in one folder. It cannot be copied. It ends with destroy or with its scope.
  !>
  !> Everything that was added is saved and restored together. Names must differ, must be the same on all ranks, and may have
  !> letters, digits, '_', '-' and '.'. Trailing blanks of names do not count. One save may be in flight at a time.
  !>
  !> A file gets its name, checkpoint-STEP.h5, once the parts of all ranks are on the disk. So a file of that name is always
  !> complete, whatever stops the run.
  type :: weir_checkpoint
    private
    type(c_ptr) :: handle = c_null_ptr
    type(comm_owner), pointer :: owner => null()
    character(len=WEIR_TEXT_LENGTH) :: name = ''
  contains
    !> Collective. (comm, config, ierr): opens the folder. Makes it if only the last part of its path is missing. A checkpoint that
    !> this variable had before ends first.
    procedure :: create
    !> (ierr): finishes a save in flight, because the other ranks wait for it.
    procedure :: destroy
    !> (name, plan, ierr), (name, table, ierr), (name, fused, ierr), (name, optimizer, ierr), (name, adam, ierr), (name, schedule,
    !> ierr): adds an object to be saved. All ranks add the same ones. If an object other than a schedule ends before the
    !> checkpoint, the checkpoint can no longer save or restore. For a schedule, restore checks the blocks. A weir_sparse_adam is
    !> saved between its steps.
    generic :: add => add_plan, add_embedding, add_fused, add_optimizer, add_sparse_adam, add_schedule
    !> (name, array, distribution, first, total, ierr): adds the caller's own array: int8, int32, int64, real32 or real64 of rank 1,
    !> or real32 or real64 of rank 2 or 3. It is never copied, so it must be contiguous. Restore writes into it. It must be a target
    !> (compilers check this) or a pointer, and must exist until the last save and restore. `distribution` is
    !> WEIR_DISTRIBUTION_REPLICATED, ...; for WEIR_DISTRIBUTION_BLOCK, `first`, int64, is the number of its first element, from 1,
    !> in a whole of `total` elements.
    !@ for array = int8_1 | int32_1 | int64_1 | real32_1 | real32_2 | real32_3 | real64_1 | real64_2 | real64_3
    generic :: add_array => add_@array@
    procedure, private :: add_@array@
    !@ end
    !> (name, value, ierr): sets a value, int64, real64 or text, that is saved with everything else. The file gets rank 0's.
    generic :: set => set_integer, set_real, set_text
    !> (name, value, ierr): returns a value as last set or restored. A text is allocatable. WEIR_ERR_ARGUMENT if no value has this
    !> name and type; `value` then stays as it was.
    generic :: get => get_integer, get_real, get_text
    !> Collective, nonblocking. (step, ierr): takes a snapshot of everything that was added, and returns. The caller may change all
    !> of it at once. The file of the int64 `step`, at least 0, is written while the program continues and calls Weir from time to
    !> time. No wait is needed: the next save waits for this one, and returns its error.
    procedure :: save => save_step
    !> (done, ierr): makes progress on everything in flight on the communicator. `done` is true once the file is complete.
    procedure :: test
    !> (ierr): waits until the file is complete.
    procedure :: wait
    !> Collective, blocking. (restored, step, ierr): restores everything that was added from the file of `step`, int64 and optional,
    !> or from the newest complete file (with `strict`, from the newest only). `restored`, int64, is set to its step, or to -1 if
    !> the folder has no file. WEIR_ERR_FILE if the file is damaged, WEIR_ERR_MISMATCH if it does not fit; everything then stays as
    !> it was.
    procedure :: restore
    !> (steps, ierr): returns the steps of the files in the folder, ascending, in an allocatable array of int64. Not collective.
    procedure :: steps => get_steps
    !> Collective, blocking. (ierr): returns whether any rank has received a signal given to weir_catch_signal. If so, save and end.
    procedure :: stop_requested
    !> (statistics, ierr): returns what the last save and the last restore did on this rank.
    procedure :: statistics => get_statistics
    !> (config, ierr): returns the configuration in force.
    procedure :: config => get_config
    generic :: assignment(=) => refuse_copy
    procedure, private :: add_plan, add_embedding, add_fused, add_optimizer, add_sparse_adam, add_schedule
    procedure, private :: set_integer, set_real, set_text, get_integer, get_real, get_text
    procedure, private :: refuse_copy
    final :: finalise
  end type

contains

  !> Keeps this signal, given by its number in C, from ending the process. stop_requested of checkpoints reports it.
  subroutine weir_catch_signal(signal, ierr)
    integer, intent(in) :: signal
    integer, intent(out), optional :: ierr
    type(comm_owner), pointer :: none

    nullify (none)
    call end_call(c_checkpoint_catch_signal(int(signal, c_int)), none, ierr)
  end subroutine

  subroutine create(self, comm, config, ierr)
    class(weir_checkpoint), intent(inout) :: self
    class(weir_communicator), intent(in) :: comm
    type(weir_checkpoint_config), intent(in) :: config
    integer, intent(out), optional :: ierr
    type(c_checkpoint_config) :: c
    character(kind=c_char), target :: texts(WEIR_LONG_TEXT_LENGTH + 1, checkpoint_config_texts)
    integer(c_int) :: status

    call finalise(self)
    call to_c(config, c, texts)
    status = c_checkpoint_create(handle_of(owner_of(comm)), c, self%handle)
    if (status == WEIR_OK) then
      call add_user(owner_of(comm), self%owner)
      self%name = config%name
    end if
    call end_call(status, owner_of(comm), ierr)
  end subroutine

  !> Adds an array of any type and rank.
  subroutine add_view(self, name, view, is_there, type, distribution, first, total, ierr)
    class(weir_checkpoint), intent(inout) :: self
    character(len=*), intent(in) :: name
    type(array_view), intent(in) :: view
    logical, intent(in) :: is_there
    integer, intent(in) :: type, distribution
    integer(int64), intent(in), optional :: first, total
    integer, intent(out), optional :: ierr
    character(len=:), allocatable :: refusal
    integer(c_int64_t) :: before, whole
    integer(c_int) :: status

    before = 0
    whole = -1
    if (present(first)) before = first - 1
    if (present(total)) whole = total
    if (.not. is_there) then
      refusal = 'checkpoint '''//trim(self%name)//''': array '''//trim(name)//''' is not allocated: allocate it before'
    else if (.not. view%usable) then
      refusal = 'checkpoint '''//trim(self%name)//''': array '''//trim(name)//''' '//why_unusable(view)
    else if (distribution == WEIR_DISTRIBUTION_BLOCK .and. .not. (present(first) .and. present(total))) then
      refusal = 'checkpoint '''//trim(self%name)//''': array '''//trim(name)// &
                ''' is a block of a whole: give the number of its first element, and of all'
    end if
    if (allocated(refusal)) then
      status = WEIR_ERR_ARGUMENT
    else
      status = c_checkpoint_add_array(self%handle, trim(name)//c_null_char, view%address, int(type, c_int32_t), &
                                      int(distribution, c_int32_t), view%count, before, whole)
    end if
    call end_call(status, self%owner, ierr, refusal)
  end subroutine

  !@ for kind, type, element = int8; integer; UINT8 | int32; integer; INT32 | int64; integer; INT64
  subroutine add_@kind@_1(self, name, array, distribution, first, total, ierr)
    class(weir_checkpoint), intent(inout) :: self
    character(len=*), intent(in) :: name
    @type@(@kind@), pointer, intent(in), asynchronous :: array(:) ! an array that is not a target is refused
    integer, intent(in) :: distribution
    integer(int64), intent(in), optional :: first, total
    integer, intent(out), optional :: ierr
    type(array_view) :: view

    if (associated(array)) view = view_of(array)
    call add_view(self, name, view, associated(array), WEIR_ELEMENT_@element@, distribution, first, total, ierr)
  end subroutine

  !@ end
  !@ for kind, element = real32; FLOAT32 | real64; FLOAT64
  !@ for rank, shape = 1; : | 2; :, : | 3; :, :, :
  subroutine add_@kind@_@rank@(self, name, array, distribution, first, total, ierr)
    class(weir_checkpoint), intent(inout) :: self
    character(len=*), intent(in) :: name
    real(@kind@), pointer, intent(in), asynchronous :: array(@shape@) ! an array that is not a target is refused
    integer, intent(in) :: distribution
    integer(int64), intent(in), optional :: first, total
    integer, intent(out), optional :: ierr
    type(array_view) :: view

    if (associated(array)) view = view_of(array)
    call add_view(self, name, view, associated(array), WEIR_ELEMENT_@element@, distribution, first, total, ierr)
  end subroutine

  !@ end
  !@ end
  subroutine set_text(self, name, value, ierr)
    class(weir_checkpoint), intent(inout) :: self
    character(len=*), intent(in) :: name, value
    integer, intent(out), optional :: ierr

    call end_call(c_checkpoint_set_text(self%handle, trim(name)//c_null_char, value//c_null_char), self%owner, ierr)
  end subroutine

  !@ for kind, type = integer; integer(int64) | real; real(real64)
  subroutine get_@kind@(self, name, value, ierr)
    class(weir_checkpoint), intent(in) :: self
    character(len=*), intent(in) :: name
    @type@, intent(inout) :: value
    integer, intent(out), optional :: ierr

    call end_call(c_checkpoint_get_@kind@(self%handle, trim(name)//c_null_char, value), self%owner, ierr)
  end subroutine

  !@ end
  subroutine get_text(self, name, value, ierr)
    class(weir_checkpoint), intent(in) :: self
    character(len=*), intent(in) :: name
    character(len=:), allocatable, intent(inout) :: value
    integer, intent(out), optional :: ierr
    type(c_ptr) :: address
    integer(c_int) :: status

    address = c_null_ptr
    status = c_checkpoint_get_text(self%handle, trim(name)//c_null_char, address)
    if (status == WEIR_OK) value = text_of(address)
    call end_call(status, self%owner, ierr)
  end subroutine

  subroutine save_step(self, step, ierr)
    class(weir_checkpoint), intent(inout) :: self
    integer(int64), intent(in) :: step
    integer, intent(out), optional :: ierr

    call end_call(c_checkpoint_save(self%handle, step), self%owner, ierr)
  end subroutine

  subroutine restore(self, restored, step, ierr)
    class(weir_checkpoint), intent(inout) :: self
    integer(int64), intent(out) :: restored
    integer(int64), intent(in), optional :: step
    integer, intent(out), optional :: ierr
    integer(c_int64_t) :: wanted
    integer(c_int) :: status

    restored = -1
    wanted = -1
    if (present(step)) wanted = merge(step, -2_int64, step /= -1) ! -1 would mean the newest
    status = c_checkpoint_restore(self%handle, wanted, restored)
    call end_call(status, self%owner, ierr)
  end subroutine

  subroutine get_steps(self, steps, ierr)
    class(weir_checkpoint), intent(in) :: self
    integer(int64), allocatable, intent(out) :: steps(:)
    integer, intent(out), optional :: ierr
    integer(c_int64_t), allocatable, target :: room(:)
    integer(c_int) :: status, count

    allocate (room(1))
    do
      count = 0
      status = c_checkpoint_steps(self%handle, c_loc(room(1)), int(size(room), c_int), count)
      if (status == WEIR_OK .or. count <= size(room)) exit
      deallocate (room)
      allocate (room(count))
    end do
    if (status /= WEIR_OK) count = 0
    steps = room(:count)
    call end_call(status, self%owner, ierr)
  end subroutine

  function stop_requested(self, ierr)
    class(weir_checkpoint), intent(inout) :: self
    integer, intent(out), optional :: ierr
    logical :: stop_requested
    integer(c_int) :: status, stop

    stop = 0
    status = c_checkpoint_stop_requested(self%handle, stop)
    stop_requested = stop /= 0
    call end_call(status, self%owner, ierr)
  end function

  !@ procedures of weir_checkpoint

end module
