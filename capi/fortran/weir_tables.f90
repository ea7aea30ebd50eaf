! weir_tables.f90: embedding tables that are trained across ranks.
module weir_tables
  use, intrinsic :: iso_c_binding, only: c_char, c_int, c_int64_t, c_loc, c_null_ptr, c_ptr, c_sizeof
  use, intrinsic :: iso_fortran_env, only: int8, int32, int64, real32, real64
  use weir_arrays, only: array_view, view_of, why_unusable
  use weir_c
  use weir_calls, only: add_user, comm_owner, end_call, end_test, end_user, handle_of, number, remove_user, stop_with
  use weir_communicators, only: owner_of, weir_communicator
  use weir_types
  implicit none
  private
  public :: weir_embedding_table, c_handle_of_embedding

  !> One table, its optimizer's state, and the calls in flight on it. It cannot be copied. It ends with destroy or with its scope.
  !>
  !> Ids and rows count from 0, as in C: ids are data. Vectors and gradients are real32 arrays of rank 2, one column for each id:
  !> (width, number of ids). Arrays are never copied, so they must be contiguous. If an array's layout or shape is wrong, all ranks
  !> return WEIR_ERR_ARGUMENT at the end of the call.
  !>
  !> One prefetch, one lookup and one update may be in flight at once. Their errors are returned once, by their test or wait.
  type :: weir_embedding_table
    private
    type(c_ptr) :: handle = c_null_ptr
    type(comm_owner), pointer :: owner => null()
    integer(int64) :: width = 0 !< 0 if there is no table
    character(len=WEIR_TEXT_LENGTH) :: name = ''
    character(len=:), allocatable :: lookup_refusal, prefetch_refusal !< the error in the arrays of the call in flight
  contains
    !> Collective. (comm, config, ierr): makes the table. A table that this variable had before ends first, with its rows.
    procedure :: create
    !> (ierr): finishes calls in flight.
    procedure :: destroy
    !> Collective, nonblocking. (ids, vectors, ierr): sets vectors(:, i) to the row ids(i), as all earlier updates have left it.
    !> Declare vectors asynchronous, and do not touch them until the lookup has finished. ids, int32 or int64, may change at once.
    generic :: lookup => lookup_int32, lookup_int64
    !> (done, ierr): makes progress on everything in flight on the communicator. `done` is true once the last lookup has finished.
    procedure :: lookup_test
    !> (ierr): waits until the last lookup has finished.
    procedure :: lookup_wait
    !> Collective, nonblocking. (ids, ierr): announces the ids of the next lookup. No wait is needed.
    generic :: prefetch => prefetch_int32, prefetch_int64
    procedure :: prefetch_test
    procedure :: prefetch_wait
    !> Collective, nonblocking, once per lookup. (gradients, ierr): takes the gradients of the last lookup's vectors. They may
    !> change at once.
    procedure :: update
    procedure :: update_test
    procedure :: update_wait
    !> Do the same for tables in CUDA memory, by addresses, type(c_ptr): (ids, count, vectors, stream, ierr), (ids, count, stream,
    !> ierr) and (gradients, count, stream, ierr), count int64. Ids may be in host memory, too.
    procedure :: lookup_int32_on_stream
    procedure :: lookup_int64_on_stream
    procedure :: prefetch_int32_on_stream
    procedure :: prefetch_int64_on_stream
    procedure :: update_on_stream
    !> (learning_rate, ierr): sets the learning rate, real64, of all later updates. It must be equal on all ranks.
    procedure :: set_learning_rate
    !> Collective, blocking. (first, values, ierr): returns a range of rows for this rank, from the int64 `first` on, one for each
    !> column of values(width, :). The range may be empty.
    procedure :: export_rows
    !> Collective, blocking. (first, values, ierr): sets such ranges of rows. If ranges of ranks overlap, the highest rank's values
    !> win. The optimizer's state stays unchanged.
    procedure :: import_rows
    !> (config, ierr): returns the configuration in force.
    procedure :: config => get_config
    !> (statistics, ierr): returns what the last lookup and the last update did on this rank.
    procedure :: statistics => get_statistics
    !> (ierr): returns the bytes that this table holds on this rank, int64.
    procedure :: memory_bytes
    !> (state, ierr): returns this rank's rows and their state in an allocatable array of int8, which is allocated to its size.
    procedure :: save_state
    !> (state, ierr): continues from a saved `state`. It must have the same configuration, and be from the same rank of the same
    !> number of ranks.
    procedure :: restore_state
    generic :: assignment(=) => refuse_copy
    procedure, private :: lookup_int32, lookup_int64, prefetch_int32, prefetch_int64, refuse_copy
    final :: finalise
  end type

contains

  subroutine create(self, comm, config, ierr)
    class(weir_embedding_table), intent(inout) :: self
    class(weir_communicator), intent(in) :: comm
    type(weir_embedding_config), intent(in) :: config
    integer, intent(out), optional :: ierr
    type(c_embedding_config) :: c
    character(kind=c_char), target :: texts(WEIR_TEXT_LENGTH + 1, embedding_config_texts)
    integer(c_int) :: status

    call finalise(self)
    call to_c(config, c, texts)
    status = c_embedding_create(handle_of(owner_of(comm)), c, self%handle)
    if (status == WEIR_OK) then
      call add_user(owner_of(comm), self%owner)
      self%width = config%width
      self%name = config%name
    end if
    call end_call(status, owner_of(comm), ierr)
  end subroutine

  !> Records what is wrong with an array of `shape`. C then gets a null address, which fails the call on the other ranks, too.
  !> `columns`: the required number, or -1.
  subroutine check(name, width, what, view, shape, columns, refusal)
    character(len=*), intent(in) :: name, what
    integer(int64), intent(in) :: width, shape(2), columns
    type(array_view), intent(inout) :: view
    character(len=:), allocatable, intent(inout) :: refusal

    if (width == 0 .or. allocated(refusal)) return
    if (.not. view%exists) then
      refusal = 'table '''//trim(name)//''': the array of '//what//' '//why_unusable(view)
    else if (shape(1) /= width .or. (columns >= 0 .and. shape(2) /= columns)) then
      refusal = 'table '''//trim(name)//''': the shape of '//what//' is ('//number(shape(1))//', '//number(shape(2))// &
                     '): it must be ('//number(width)//', '
      if (columns >= 0) refusal = refusal//number(columns)//')'
      if (columns < 0) refusal = refusal//':)'
    else if (.not. view%usable) then
      refusal = 'table '''//trim(name)//''': the array of '//what//' '//why_unusable(view)
    end if
    if (allocated(refusal)) view%address = c_null_ptr
  end subroutine

  subroutine check_ids(name, view, refusal)
    character(len=*), intent(in) :: name
    type(array_view), intent(in) :: view
    character(len=:), allocatable, intent(inout) :: refusal

    if (.not. view%usable) refusal = 'table '''//trim(name)//''': the array of ids '//why_unusable(view)
  end subroutine

  !> Reports refused arrays at the end of the call, as the other ranks do.
  subroutine end_start(owner, status, refused, kept, ierr)
    type(comm_owner), pointer, intent(in) :: owner
    integer(c_int), intent(in) :: status
    character(len=:), allocatable, intent(inout) :: refused, kept
    integer, intent(out), optional :: ierr

    if (status == WEIR_OK) call move_alloc(refused, kept)
    call end_call(status, owner, ierr, refused)
  end subroutine

  !@ for kind = int32 | int64
  subroutine lookup_@kind@(self, ids, vectors, ierr)
    class(weir_embedding_table), intent(inout) :: self
    integer(@kind@), intent(in), target :: ids(:)
    real(real32), intent(inout), target, asynchronous :: vectors(:, :)
    integer, intent(out), optional :: ierr
    type(array_view) :: id_view, view
    character(len=:), allocatable :: refused

    id_view = view_of(ids)
    view = view_of(vectors)
    call check_ids(self%name, id_view, refused)
    call check(self%name, self%width, 'vectors', view, shape(vectors, int64), id_view%count, refused)
    call end_start(self%owner, c_embedding_lookup_@kind@(self%handle, id_view%address, id_view%count, view%address), &
                   refused, self%lookup_refusal, ierr)
  end subroutine

  !@ end
  !@ for kind = int32 | int64
  subroutine prefetch_@kind@(self, ids, ierr)
    class(weir_embedding_table), intent(inout) :: self
    integer(@kind@), intent(in), target :: ids(:)
    integer, intent(out), optional :: ierr
    type(array_view) :: view
    character(len=:), allocatable :: refused

    view = view_of(ids)
    call check_ids(self%name, view, refused)
    call end_start(self%owner, c_embedding_prefetch_@kind@(self%handle, view%address, view%count), &
                   refused, self%prefetch_refusal, ierr)
  end subroutine

  !@ end
  subroutine update(self, gradients, ierr)
    class(weir_embedding_table), intent(inout) :: self
    real(real32), intent(in), target :: gradients(:, :)
    integer, intent(out), optional :: ierr
    type(array_view) :: view
    character(len=:), allocatable :: refusal

    view = view_of(gradients)
    call check(self%name, self%width, 'gradients', view, shape(gradients, int64), -1_int64, refusal)
    call end_call(c_embedding_update(self%handle, view%address, size(gradients, 2, int64)), self%owner, ierr, refusal)
  end subroutine

  !@ for kind = int32 | int64
  subroutine lookup_@kind@_on_stream(self, ids, count, vectors, stream, ierr)
    class(weir_embedding_table), intent(inout) :: self
    type(c_ptr), intent(in) :: ids, vectors, stream
    integer(int64), intent(in) :: count
    integer, intent(out), optional :: ierr
    character(len=:), allocatable :: nothing

    call end_start(self%owner, c_embedding_lookup_@kind@_on_stream(self%handle, ids, count, vectors, stream), &
                   nothing, self%lookup_refusal, ierr)
  end subroutine

  !@ end
  !@ for kind = int32 | int64
  subroutine prefetch_@kind@_on_stream(self, ids, count, stream, ierr)
    class(weir_embedding_table), intent(inout) :: self
    type(c_ptr), intent(in) :: ids, stream
    integer(int64), intent(in) :: count
    integer, intent(out), optional :: ierr
    character(len=:), allocatable :: nothing

    call end_start(self%owner, c_embedding_prefetch_@kind@_on_stream(self%handle, ids, count, stream), &
                   nothing, self%prefetch_refusal, ierr)
  end subroutine

  !@ end
  subroutine update_on_stream(self, gradients, count, stream, ierr)
    class(weir_embedding_table), intent(inout) :: self
    type(c_ptr), intent(in) :: gradients, stream
    integer(int64), intent(in) :: count
    integer, intent(out), optional :: ierr

    call end_call(c_embedding_update_on_stream(self%handle, gradients, count, stream), self%owner, ierr)
  end subroutine

  !@ for call, self, values = export; in; inout | import; inout; in
  subroutine @call@_rows(self, first, values, ierr)
    class(weir_embedding_table), intent(@self@) :: self
    integer(int64), intent(in) :: first
    real(real32), intent(@values@), target :: values(:, :)
    integer, intent(out), optional :: ierr
    type(array_view) :: view
    character(len=:), allocatable :: refusal

    view = view_of(values)
    call check(self%name, self%width, 'values', view, shape(values, int64), -1_int64, refusal)
    call end_call(c_embedding_@call@_rows(self%handle, first, size(values, 2, int64), view%address), self%owner, ierr, refusal)
  end subroutine

  !@ end
  subroutine forget(self)
    class(weir_embedding_table), intent(inout) :: self

    self%width = 0
    if (allocated(self%lookup_refusal)) deallocate (self%lookup_refusal)
    if (allocated(self%prefetch_refusal)) deallocate (self%prefetch_refusal)
  end subroutine

  !@ procedures of weir_embedding

end module
