! weir_operators.f90: divides work that every rank would otherwise repeat.
module weir_operators
  use, intrinsic :: iso_c_binding, only: c_char, c_f_pointer, c_funloc, c_int, c_int64_t, c_loc, c_null_char, c_null_ptr, c_ptr, &
                                         c_sizeof
  use, intrinsic :: iso_fortran_env, only: int8, int64, real32, real64
  use weir_arrays, only: array_view, view_of, why_unusable
  use weir_c
  use weir_calls, only: add_user, comm_owner, end_call, end_test, end_user, handle_of, number, remove_user, stop_with
  use weir_communicators, only: owner_of, weir_communicator
  use weir_text, only: text_of
  use weir_types
  implicit none
  private
  public :: weir_parallel_operator, weir_operator_body

  abstract interface
    !> Works on one part, numbered from 1, on this rank, and writes its result. A part must give the same bytes on every rank. The
    !> body must not call anything of the operator's communicator: such calls return WEIR_ERR_BUSY.
    subroutine weir_operator_body(context, part, output, bytes, error)
      import :: int8, int64
      class(*), intent(inout) :: context !< the argument of the call; an integer if the call had none
      integer, intent(in) :: part
      integer(int8), intent(inout), target :: output(:) !< where to write the result: output = transfer(value, output)
      integer(int64), intent(inout) :: bytes !< bytes of the result: size(output) on entry; with `variable`, set it if there are
                                             !< fewer
      character(len=:), allocatable, intent(inout) :: error !< allocate it to fail: the run then ends on every rank with this text
    end subroutine
  end interface

  !> Work in parts that is divided among ranks. Every rank gets all results. It cannot be copied. It ends with destroy or with its
  !> scope.
  !>
  !> Parts are numbered from 1, in the order given to create. Results lie one after the other in that order. With `variable`, a
  !> shorter result leaves the rest of its place unchanged. Results are a contiguous array of rank 1, int8, real32 or real64, as
  !> long as all results: bytes(). One run may be in flight at a time.
  type :: weir_parallel_operator
    private
    type(c_ptr) :: handle = c_null_ptr
    type(comm_owner), pointer :: owner => null()
    integer :: parts = 0
    character(len=WEIR_TEXT_LENGTH) :: name = ''
    character(len=:), allocatable :: refusal !< the error of the last start
  contains
    !> Collective. (comm, config, parts, ierr): takes a weir_operator_config, and an array of weir_operator_part. An operator that
    !> this variable had before ends first.
    procedure :: create
    !> (ierr): finishes a run in flight, because the other ranks wait for it.
    procedure :: destroy
    !> Collective, blocking. (body, results, context, ierr): calls body, a weir_operator_body, for the parts of this rank in order,
    !> with the optional `context`, which may be of any type.
    generic :: run => run_int8, run_real32, run_real64
    !> Collective, nonblocking. Does the same, but gathers the results in test and wait. The body is called in start. The results
    !> belong to the operator until the run has ended: declare them asynchronous. test and wait return an error of the body.
    generic :: start => start_int8, start_real32, start_real64
    !> (done, ierr): makes progress on everything in flight on the communicator. `done` is true once the run has ended, and if there
    !> was no run.
    procedure :: test
    !> (ierr): waits until the run has ended.
    procedure :: wait
    !> (ierr): returns the bytes of all results, int64.
    procedure :: bytes
    !> (part, ierr): returns the bytes before the result of a part, int64.
    procedure :: offset
    !> (part, ierr): returns the bytes of a part's result in the last run, int64.
    procedure :: result_bytes
    !> (part, ierr): returns whether this rank works on a part.
    procedure :: works_on
    !> (statistics, ierr): returns what the last run did on this rank, a weir_operator_statistics.
    procedure :: statistics => get_statistics
    !> (config, ierr): returns the configuration in force. `division` has the value that automatic choice has set.
    procedure :: config => get_config
    !> (): returns why work is divided as it is, as text.
    procedure :: explanation
    !> (ierr): returns the bytes that this object holds, without the caller's results, int64.
    procedure :: memory_bytes
    generic :: assignment(=) => refuse_copy
    procedure, private :: run_int8, run_real32, run_real64, start_int8, start_real32, start_real64
    procedure, private :: refuse_copy
    final :: finalise
  end type

  !> One call of C, which C passes back to its body.
  type :: call_frame
    procedure(weir_operator_body), pointer, nopass :: body => null()
    class(*), pointer :: context => null()
    character(kind=c_char), allocatable :: text(:) !< why the body has failed
    integer(int8) :: nothing(1) = 0_int8 !< used for a result of no bytes
  end type

contains

  subroutine create(self, comm, config, parts, ierr)
    class(weir_parallel_operator), intent(inout) :: self
    class(weir_communicator), intent(in) :: comm
    type(weir_operator_config), intent(in) :: config
    type(weir_operator_part), intent(in) :: parts(:)
    integer, intent(out), optional :: ierr
    type(c_operator_config) :: c
    type(c_operator_part), allocatable, target :: all(:)
    character(kind=c_char), target :: texts(WEIR_TEXT_LENGTH + 1, operator_config_texts)
    integer(c_int) :: status
    integer :: i

    call finalise(self)
    call to_c(config, c, texts)
    allocate (all(max(1, size(parts))))
    do i = 1, size(parts)
      call to_c(parts(i), all(i))
    end do
    status = c_operator_create(handle_of(owner_of(comm)), c, c_loc(all(1)), int(size(parts), c_int), self%handle)
    if (status == WEIR_OK) then
      call add_user(owner_of(comm), self%owner)
      self%parts = size(parts)
      self%name = config%name
    end if
    call end_call(status, owner_of(comm), ierr)
  end subroutine

  !> Called by C: passes a part to the body of the call.
  function pass_part(context, part, output, bytes, error) bind(C, name='weir_fortran_pass_part') result(returned)
    type(c_ptr), value :: context, output
    integer(c_int), value :: part
    integer(c_int64_t), value :: bytes
    type(c_ptr), intent(inout) :: error
    integer(c_int64_t) :: returned
    type(call_frame), pointer :: frame
    integer(int8), pointer, contiguous :: place(:)
    character(len=:), allocatable :: why
    integer(int64) :: written
    integer :: i

    call c_f_pointer(context, frame)
    place => frame%nothing(1:0)
    if (bytes > 0) call c_f_pointer(output, place, [bytes])
    written = bytes
    call frame%body(frame%context, part + 1, place, written, why)
    returned = written
    if (.not. allocated(why) .and. written < 0) why = 'its body says that its result has '//number(written)//' bytes'
    if (.not. allocated(why)) return
    why = 'part '//number(part + 1_int64)//': '//trim(why)//c_null_char
    frame%text = [(why(i:i), i=1, len(why))]
    error = c_loc(frame%text)
    returned = -WEIR_ERR_INTERNAL
  end function

  !> Begins a run. With `whole`, also ends it.
  subroutine begin(self, body, results, context, whole, ierr)
    class(weir_parallel_operator), intent(inout) :: self
    procedure(weir_operator_body) :: body
    type(array_view), intent(in) :: results
    class(*), intent(inout), target, optional :: context
    logical, intent(in) :: whole
    integer, intent(out), optional :: ierr
    type(call_frame), target :: frame
    integer, target :: no_context
    integer(int64) :: room
    integer(c_int) :: status
    character(len=:), allocatable :: refusal

    no_context = 0
    frame%context => no_context
    if (present(context)) frame%context => context
    frame%body => body
    room = results%count
    if (results%type == 'real32') room = 4*room
    if (results%type == 'real64') room = 8*room
    if (.not. results%usable) refusal = 'operator '''//trim(self%name)//''': the array for results '//why_unusable(results)
    if (whole) then
      status = c_operator_run(self%handle, c_funloc(pass_part), c_loc(frame), results%address, room)
      if (status == WEIR_OK .and. allocated(self%refusal)) deallocate (self%refusal)
      call end_call(status, self%owner, ierr, refusal)
    else
      status = c_operator_start(self%handle, c_funloc(pass_part), c_loc(frame), results%address, room)
      if (status == WEIR_OK) call move_alloc(refusal, self%refusal)
      call end_call(status, self%owner, ierr)
    end if
  end subroutine

  !@ for call, attributes, whole = run; target; .true. | start; target, asynchronous; .false.
  !@ for kind, type = int8; integer | real32; real | real64; real
  subroutine @call@_@kind@(self, body, results, context, ierr)
    class(weir_parallel_operator), intent(inout) :: self
    procedure(weir_operator_body) :: body
    @type@(@kind@), intent(inout), @attributes@ :: results(:)
    class(*), intent(inout), optional :: context
    integer, intent(out), optional :: ierr

    call begin(self, body, view_of(results), context, @whole@, ierr)
  end subroutine

  !@ end
  !@ end
  !> Returns the part's number in C, from 0. If there is no such part, returns a number that C refuses, and the reason.
  subroutine place_of(self, part, c_part, refusal)
    class(weir_parallel_operator), intent(in) :: self
    integer, intent(in) :: part
    integer(c_int), intent(out) :: c_part
    character(len=:), allocatable, intent(out) :: refusal

    c_part = -1
    if (part >= 1 .and. part <= self%parts) then
      c_part = int(part - 1, c_int)
    else if (associated(self%owner)) then
      refusal = 'operator '''//trim(self%name)//''': there is no part '//number(int(part, int64))//': they are numbered 1 to '// &
                number(int(self%parts, int64))
    end if
  end subroutine

  !@ for call = offset | result_bytes
  function @call@(self, part, ierr) result(found)
    class(weir_parallel_operator), intent(in) :: self
    integer, intent(in) :: part
    integer, intent(out), optional :: ierr
    integer(int64) :: found
    character(len=:), allocatable :: refusal
    integer(c_int64_t) :: c_found
    integer(c_int) :: c_part, status

    c_found = 0
    call place_of(self, part, c_part, refusal)
    status = c_operator_@call@(self%handle, c_part, c_found)
    call end_call(status, self%owner, ierr, refusal)
    found = c_found
  end function

  !@ end
  function works_on(self, part, ierr) result(works)
    class(weir_parallel_operator), intent(in) :: self
    integer, intent(in) :: part
    integer, intent(out), optional :: ierr
    logical :: works
    character(len=:), allocatable :: refusal
    integer(c_int) :: c_part, status, c_works

    c_works = 0
    call place_of(self, part, c_part, refusal)
    status = c_operator_works_on(self%handle, c_part, c_works)
    call end_call(status, self%owner, ierr, refusal)
    works = c_works /= 0
  end function

  subroutine forget(self)
    class(weir_parallel_operator), intent(inout) :: self

    if (allocated(self%refusal)) deallocate (self%refusal)
    self%parts = 0
  end subroutine

  !@ procedures of weir_operator

end module
