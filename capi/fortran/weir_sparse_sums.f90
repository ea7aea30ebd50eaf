! weir_sparse_sums.f90: exact sums of arrays that are mostly zero.
module weir_sparse_sums
  use, intrinsic :: iso_c_binding, only: c_char, c_f_pointer, c_int, c_int64_t, c_loc, c_null_char, c_null_ptr, c_ptr, c_sizeof
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64
  use weir_arrays, only: array_view, view_of, why_unusable
  use weir_c
  use weir_calls, only: add_user, comm_owner, end_call, end_user, handle_of, number, remove_user, stop_with
  use weir_communicators, only: owner_of, weir_communicator
  use weir_types
  implicit none
  private
  public :: weir_sparse_sum

  !> Sums of arrays of one length, type and operation. Each rank gives the entries that it has, and every rank gets the sum. It
  !> cannot be copied. It ends with destroy or with its scope.
  !>
  !> Elements are numbered from 1. `indices`, int64, are in any order, and one may come several times. `values` are a contiguous
  !> array of rank 1 of the configured type, with as many elements: real32, real64, int32 or int64. `output` is an optional array of
  !> the same type, with all elements of the sum: without `adds`, or if that is false, it becomes the dense sum; otherwise each
  !> entry of the sum is combined into its element. One run may be in flight at a time.
  type :: weir_sparse_sum
    private
    type(c_ptr) :: handle = c_null_ptr
    type(comm_owner), pointer :: owner => null()
    integer(int64) :: count = 0
    character(len=6) :: type = ''
    character(len=WEIR_TEXT_LENGTH) :: name = ''
    integer(c_int64_t), allocatable :: offsets(:) !< indices of a call, from 0
  contains
    !> Collective. (comm, config, ierr): takes a weir_sparse_sum_config. A sum that this variable had before ends first.
    procedure :: create
    !> (ierr): finishes a run in flight, because the other ranks wait for it.
    procedure :: destroy
    !> Collective, blocking. (indices, values, output, adds, ierr)
    generic :: run => run_real32, run_real64, run_int32, run_int64
    !> Collective, blocking. (indices, values, output, adds, ierr): does the same, but each rank gets the part of the sum from
    !> range_begin(rank) to before range_begin(rank + 1), with rank from 0. `output` has the elements of that range.
    generic :: run_reduce_scatter => run_reduce_scatter_real32, run_reduce_scatter_real64, run_reduce_scatter_int32, &
      run_reduce_scatter_int64
    !> Collective, blocking. (values, output, adds, ierr): takes a whole array, whose elements that are not 0 are entries.
    generic :: run_dense => run_dense_real32, run_dense_real64, run_dense_int32, run_dense_int64
    !> Collective, nonblocking. (indices, values, output, adds, ierr): as run. The entries are read here; `output` belongs to the
    !> sum until the run has ended: declare it asynchronous.
    generic :: start => start_real32, start_real64, start_int32, start_int64
    !> (done, ierr): makes progress on everything in flight on the communicator. `done` is true once the run has ended, and if there
    !> was no run.
    procedure :: test
    !> (ierr): waits until the run has ended.
    procedure :: wait
    !> (indices, values, ierr): copies the entries of the last sum to allocatable arrays, which get their size. Indices ascend from
    !> 1.
    generic :: result => result_real32, result_real64, result_int32, result_int64
    !> (rank, ierr): returns the number of the first element in the range of a rank, int64; of the number of ranks, count + 1.
    procedure :: range_begin
    !> (statistics, ierr): sets `statistics`, a weir_sparse_sum_statistics, to what the last run did on this rank.
    procedure :: statistics => get_statistics
    !> (config, ierr): returns the configuration in force.
    procedure :: config => get_config
    !> (ierr): returns the bytes that this object holds, without the caller's arrays, int64.
    procedure :: memory_bytes
    generic :: assignment(=) => refuse_copy
    procedure, private :: run_real32, run_real64, run_int32, run_int64
    procedure, private :: run_reduce_scatter_real32, run_reduce_scatter_real64, run_reduce_scatter_int32, run_reduce_scatter_int64
    procedure, private :: run_dense_real32, run_dense_real64, run_dense_int32, run_dense_int64
    procedure, private :: start_real32, start_real64, start_int32, start_int64
    procedure, private :: result_real32, result_real64, result_int32, result_int64
    procedure, private :: refuse_copy
    final :: finalise
  end type

contains

  subroutine create(self, comm, config, ierr)
    class(weir_sparse_sum), intent(inout) :: self
    class(weir_communicator), intent(in) :: comm
    type(weir_sparse_sum_config), intent(in) :: config
    integer, intent(out), optional :: ierr
    type(c_sparse_sum_config) :: c
    character(kind=c_char), target :: texts(WEIR_TEXT_LENGTH + 1, sparse_sum_config_texts)
    character(len=6), parameter :: types(0:3) = ['real32', 'real64', 'int32 ', 'int64 ']
    integer(c_int) :: status

    call finalise(self)
    call to_c(config, c, texts)
    status = c_sparse_sum_create(handle_of(owner_of(comm)), c, self%handle)
    if (status == WEIR_OK) then
      call add_user(owner_of(comm), self%owner)
      self%count = config%count
      self%type = types(config%type)
      self%name = config%name
    end if
    call end_call(status, owner_of(comm), ierr)
  end subroutine

  !> Begins a run. With `waits`, also ends it. Without `indices`, `values` are a whole array.
  subroutine begin(self, waits, scatters, values, output, has_output, adds, indices, ierr)
    class(weir_sparse_sum), intent(inout), target :: self
    logical, intent(in) :: waits, scatters, has_output
    type(array_view), intent(in) :: values, output
    logical, intent(in), optional :: adds
    integer(int64), intent(in), optional :: indices(:)
    integer, intent(out), optional :: ierr
    character(len=:), allocatable :: refusal
    type(c_ptr) :: offsets
    integer(c_int) :: status, index_bytes, c_adds

    if (has_output) call check(self, 'output', output, refusal)
    call check(self, 'values', values, refusal)
    offsets = c_null_ptr
    index_bytes = 0
    if (present(indices)) then
      index_bytes = 8
      if (.not. allocated(refusal)) call shift(self, indices, values%count, offsets, refusal)
    end if
    c_adds = 0
    if (present(adds)) c_adds = merge(1, 0, adds)
    if (allocated(refusal)) then
      status = c_sparse_sum_refuse(self%handle, refusal//c_null_char)
      if (status == WEIR_OK .and. waits) status = c_sparse_sum_wait(self%handle)
    else if (waits .and. scatters) then
      status = c_sparse_sum_run_reduce_scatter(self%handle, offsets, index_bytes, values%address, values%count, output%address, &
                                               output%count, c_adds)
    else if (waits) then
      status = c_sparse_sum_run(self%handle, offsets, index_bytes, values%address, values%count, output%address, output%count, &
                                c_adds)
    else
      status = c_sparse_sum_start(self%handle, offsets, index_bytes, values%address, values%count, output%address, output%count, &
                                  c_adds)
    end if
    call end_call(status, self%owner, ierr)
  end subroutine

  !> Sets `refusal` if an array cannot be used.
  subroutine check(self, what, array, refusal)
    class(weir_sparse_sum), intent(in) :: self
    character(len=*), intent(in) :: what
    type(array_view), intent(in) :: array
    character(len=:), allocatable, intent(inout) :: refusal

    if (.not. array%usable) then
      refusal = 'the array of '//what//' '//why_unusable(array)
    else if (associated(self%owner) .and. array%type /= self%type) then
      refusal = 'the array of '//what//' is of type '//trim(array%type)//': it must be of type '//trim(self%type)
    end if
  end subroutine

  !> Makes indices from 0 of those from 1.
  subroutine shift(self, indices, values, offsets, refusal)
    class(weir_sparse_sum), intent(inout), target :: self
    integer(int64), intent(in) :: indices(:), values
    type(c_ptr), intent(inout) :: offsets
    character(len=:), allocatable, intent(inout) :: refusal
    integer(int64) :: i

    if (size(indices, kind=int64) /= values) then
      refusal = 'there are '//number(size(indices, kind=int64))//' indices and '//number(values)//' values: give as many of each'
      return
    end if
    if (allocated(self%offsets)) then
      if (size(self%offsets, kind=int64) < size(indices, kind=int64)) deallocate (self%offsets)
    end if
    if (.not. allocated(self%offsets)) allocate (self%offsets(max(1_int64, size(indices, kind=int64))))
    do i = 1, size(indices, kind=int64)
      if (indices(i) < 1 .or. indices(i) > self%count) then
        refusal = 'index '//number(indices(i))//' of entry '//number(i)//' is out of range: indices are 1 to '//number(self%count)
        return
      end if
      self%offsets(i) = indices(i) - 1
    end do
    offsets = c_loc(self%offsets(1))
  end subroutine

  !@ for type, kind = real; real32 | real; real64 | integer; int32 | integer; int64
  !@ for call, waits, cuts, more = run; .true.; .false.; target | run_reduce_scatter; .true.; .true.; target | start; .false.; .false.; asynchronous, target
  subroutine @call@_@kind@(self, indices, values, output, adds, ierr)
    class(weir_sparse_sum), intent(inout) :: self
    integer(int64), intent(in) :: indices(:)
    @type@(@kind@), intent(in), target :: values(:)
    @type@(@kind@), intent(inout), optional, @more@ :: output(:)
    logical, intent(in), optional :: adds
    integer, intent(out), optional :: ierr
    type(array_view) :: to

    if (present(output)) to = view_of(output)
    call begin(self, @waits@, @cuts@, view_of(values), to, present(output), adds, indices, ierr)
  end subroutine

  !@ end
  subroutine run_dense_@kind@(self, values, output, adds, ierr)
    class(weir_sparse_sum), intent(inout) :: self
    @type@(@kind@), intent(in), target :: values(:)
    @type@(@kind@), intent(inout), optional, target :: output(:)
    logical, intent(in), optional :: adds
    integer, intent(out), optional :: ierr
    type(array_view) :: to

    if (present(output)) to = view_of(output)
    call begin(self, .true., .false., view_of(values), to, present(output), adds, ierr=ierr)
  end subroutine

  subroutine result_@kind@(self, indices, values, ierr)
    class(weir_sparse_sum), intent(in) :: self
    integer(int64), allocatable, intent(inout) :: indices(:)
    @type@(@kind@), allocatable, intent(inout) :: values(:)
    integer, intent(out), optional :: ierr
    type(c_ptr), target :: c_indices, c_values
    integer(c_int64_t) :: found
    integer(c_int64_t), pointer :: all_indices(:)
    @type@(@kind@), pointer :: all_values(:)
    integer(c_int) :: status

    found = 0
    status = c_sparse_sum_result(self%handle, c_loc(c_indices), c_loc(c_values), found)
    if (status == WEIR_OK .and. self%type /= '@kind@') then
      call end_call(WEIR_ERR_ARGUMENT, self%owner, ierr, 'sum '''//trim(self%name)//''': its result is of type '//trim(self%type))
      return
    end if
    if (status == WEIR_OK) then
      if (allocated(indices)) deallocate (indices)
      if (allocated(values)) deallocate (values)
      allocate (indices(found), values(found))
      if (found > 0) then
        call c_f_pointer(c_indices, all_indices, [found])
        call c_f_pointer(c_values, all_values, [found])
        indices = all_indices + 1
        values = all_values
      end if
    end if
    call end_call(status, self%owner, ierr)
  end subroutine

  !@ end
  function range_begin(self, rank, ierr) result(begin)
    class(weir_sparse_sum), intent(in) :: self
    integer, intent(in) :: rank
    integer, intent(out), optional :: ierr
    integer(int64) :: begin
    integer(c_int64_t) :: found
    integer(c_int) :: status

    found = 0
    status = c_sparse_sum_range_begin(self%handle, int(rank, c_int), found)
    call end_call(status, self%owner, ierr)
    begin = found + 1
  end function

  subroutine forget(self)
    class(weir_sparse_sum), intent(inout) :: self

    if (allocated(self%offsets)) deallocate (self%offsets)
    self%count = 0
  end subroutine

  !@ procedures of weir_sparse_sum

end module
