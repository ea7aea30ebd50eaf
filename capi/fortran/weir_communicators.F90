! weir_communicators.F90: groups of ranks. WEIR_MPI_F08 is defined if the compiler has MPI's module mpi_f08.
module weir_communicators
  use, intrinsic :: iso_c_binding, only: c_char, c_int, c_int32_t, c_int64_t, c_loc, c_null_char, c_null_ptr, c_ptr
  use, intrinsic :: iso_fortran_env, only: int8, int32, int64, real32, real64
#ifdef WEIR_MPI_F08
  use mpi_f08, only: MPI_Comm
#endif
  use weir_c
  use weir_calls, only: add_user, comm_owner, end_call, handle_of, last_text, remove_user, stop_with
  use weir_text, only: text_of
  use weir_types, only: WEIR_ERR_ARGUMENT, WEIR_FLOAT32, WEIR_FLOAT64, WEIR_OK
  implicit none
  private
  public :: weir_communicator, owner_of

  !> A group of ranks and the machine under them. It cannot be copied. It ends with destroy or with its scope, once no plan, table
  !> or schedule made from it is left. That end is collective, and comes before MPI_Finalize. Ranks count from 0, as in MPI.
  type :: weir_communicator
    private
    type(comm_owner), pointer :: owner => null()
  contains
    !> Collective. (communicator, ierr): makes it from a communicator of MPI, an integer of module mpi or mpif.h, or a
    !> type(MPI_Comm) of mpi_f08. Duplicates that communicator. A communicator that this variable had before ends first.
    generic :: create => create_mpi
#ifdef WEIR_MPI_F08
    generic :: create => create_mpi_f08
    procedure, private :: create_mpi_f08
#endif
    procedure, private :: create_mpi
    !> Collective. (ierr): makes it of all ranks of the program. If MPI is not initialised, call weir_init before.
    procedure :: create_world
    !> Collective over `ranks` alone. (communicator, ranks, ierr): makes it of these ranks of another communicator. All of them
    !> give the same list; ranks(i) becomes rank i - 1. Ranks that are in several subgroups make these in the same order. It has the
    !> settings of that communicator, and what that knows of the machine. Either may end first.
    procedure :: create_subgroup
    !> Collective. (ierr): ends it. WEIR_ERR_BUSY while plans or tables made from it exist; it then stays usable.
    procedure :: destroy
    !> (ierr): returns this rank's number.
    procedure :: rank => comm_rank
    !> (ierr): returns the number of ranks.
    procedure :: size => comm_size
    !> (): returns the machine as this communicator sees it, as an indented tree.
    procedure :: topology
    !> (peer, ierr): returns the nearest common level of this rank and `peer`, WEIR_LEVEL_SELF, ...
    procedure :: level
    !> (level, ierr): returns the ranks that share `level` with this one, in ascending order. This rank is one of them.
    procedure :: group
    !> Collective. (ierr): returns the number of the GPU that this rank should use; -1 if it sees none.
    procedure :: nearest_gpu
    !> Collective. (runs, ierr): returns, for each rank from 0 on, its share of the time for which ranks have waited in their last
    !> `runs` calls.
    procedure :: stragglers
    !> Collective, blocking. (data, root, ierr): copies the `data` of rank `root`, numbers or a text, to every rank. Meant for the
    !> few bytes of a setup. All ranks give the same number of bytes, at most 1 MiB, and the same root.
    generic :: broadcast => broadcast_int32, broadcast_int64, broadcast_real64, broadcast_text
    procedure, private :: broadcast_int32, broadcast_int64, broadcast_real64, broadcast_text
    !> Collective, blocking. (mine, all, ierr): gathers `mine` of every rank in `all`, in rank order. `all` is as many times as
    !> large as there are ranks. The same limit holds as for broadcast.
    generic :: allgather => allgather_int32, allgather_int64, allgather_real64
    procedure, private :: allgather_int32, allgather_int64, allgather_real64
    !> Collective, blocking. (values, total, ierr): sets `total`, real64, to the sum of `values` over all ranks, with the same bits
    !> however the values are divided among ranks, and in whatever order they come. `values` is an array of rank 1, or of rank 2
    !> for one total for each column. real32 or real64. Each rank may give another number of rows, also none. What is
    !> below 2^-84 times the largest magnitude of any rank is rounded away; the sum of the rest is exact, and is rounded once.
    generic :: sum => sum_real32, sum_real64, sums_real32, sums_real64
    procedure, private :: sum_real32, sum_real64, sums_real32, sums_real64
    !> (path, ierr): writes the flight recorder's dump to a file, for `weir trace diagnose`. Makes missing folders of the path.
    procedure :: dump
    !> (): returns the text of the last error of the communicator, or of a plan, table or schedule made from it.
    procedure :: last_error
    generic :: assignment(=) => refuse_copy
    procedure, private :: refuse_copy
    final :: finalise
  end type

  !> Returns the address of an array; null if it has no elements.
  interface address_of
    module procedure address_of_int32, address_of_int64, address_of_real32, address_of_real64
  end interface

contains

  !> Returns the owner of a communicator, for the modules of plans, tables and schedules.
  function owner_of(comm) result(owner)
    class(weir_communicator), intent(in) :: comm
    type(comm_owner), pointer :: owner

    owner => comm%owner
  end function

  subroutine create_mpi(self, communicator, ierr)
    class(weir_communicator), intent(inout) :: self
    integer, intent(in) :: communicator
    integer, intent(out), optional :: ierr
    type(c_ptr) :: handle
    integer(c_int) :: status

    call close(self)
    status = c_comm_create_fortran(int(communicator, c_int32_t), handle)
    call take(self, status, handle, ierr)
  end subroutine

#ifdef WEIR_MPI_F08
  subroutine create_mpi_f08(self, communicator, ierr)
    class(weir_communicator), intent(inout) :: self
    type(MPI_Comm), intent(in) :: communicator
    integer, intent(out), optional :: ierr

    call create_mpi(self, communicator%mpi_val, ierr)
  end subroutine
#endif

  subroutine create_world(self, ierr)
    class(weir_communicator), intent(inout) :: self
    integer, intent(out), optional :: ierr
    type(c_ptr) :: handle
    integer(c_int) :: status

    call close(self)
    status = c_comm_create_world(handle)
    call take(self, status, handle, ierr)
  end subroutine

  subroutine create_subgroup(self, communicator, ranks, ierr)
    class(weir_communicator), intent(inout) :: self
    class(weir_communicator), intent(in) :: communicator
    integer, intent(in) :: ranks(:)
    integer, intent(out), optional :: ierr
    integer(c_int), target :: list(size(ranks) + 1)
    type(c_ptr) :: handle
    integer(c_int) :: status

    call close(self)
    list(:size(ranks)) = int(ranks, c_int)
    status = c_comm_subgroup(handle_of(communicator%owner), c_loc(list), size(ranks, kind=c_int), handle)
    if (status == WEIR_OK) then
      call take(self, status, handle, ierr)
    else
      call end_call(status, communicator%owner, ierr)
    end if
  end subroutine

  !> Keeps the new communicator, or reports why it could not be made.
  subroutine take(self, status, handle, ierr)
    class(weir_communicator), intent(inout) :: self
    integer(c_int), intent(in) :: status
    type(c_ptr), intent(in) :: handle
    integer, intent(out), optional :: ierr
    type(comm_owner), pointer :: owner

    if (status == WEIR_OK) then
      allocate (owner)
      owner%handle = handle
      call add_user(owner, self%owner)
    end if
    call end_call(status, self%owner, ierr)
  end subroutine

  subroutine destroy(self, ierr)
    class(weir_communicator), intent(inout) :: self
    integer, intent(out), optional :: ierr
    integer(c_int) :: status

    status = c_comm_destroy(handle_of(self%owner))
    if (status == WEIR_OK .and. associated(self%owner)) then
      self%owner%handle = c_null_ptr
      call close(self)
    end if
    call end_call(status, self%owner, ierr)
  end subroutine

  !> Stops being a user of the communicator. A copy of `self` may have been closed before.
  subroutine close(self)
    class(weir_communicator), intent(inout) :: self

    if (.not. associated(self%owner)) return
    if (self%owner%open) then
      self%owner%open = .false.
      call remove_user(self%owner)
    end if
    nullify (self%owner)
  end subroutine

  impure elemental subroutine finalise(self)
    type(weir_communicator), intent(inout) :: self

    call close(self)
  end subroutine

  function comm_rank(self, ierr) result(rank)
    class(weir_communicator), intent(in) :: self
    integer, intent(out), optional :: ierr
    integer :: rank
    integer(c_int) :: found

    found = -1
    call end_call(c_comm_rank(handle_of(self%owner), found), self%owner, ierr)
    rank = found
  end function

  function comm_size(self, ierr) result(ranks)
    class(weir_communicator), intent(in) :: self
    integer, intent(out), optional :: ierr
    integer :: ranks
    integer(c_int) :: found

    found = 0
    call end_call(c_comm_size(handle_of(self%owner), found), self%owner, ierr)
    ranks = found
  end function

  function topology(self) result(text)
    class(weir_communicator), intent(in) :: self
    character(len=:), allocatable :: text

    text = text_of(c_comm_topology(handle_of(self%owner)))
  end function

  function level(self, peer, ierr)
    class(weir_communicator), intent(in) :: self
    integer, intent(in) :: peer
    integer, intent(out), optional :: ierr
    integer :: level
    integer(c_int32_t) :: found

    found = -1
    call end_call(c_comm_level(handle_of(self%owner), int(peer, c_int), found), self%owner, ierr)
    level = found
  end function

  function group(self, level, ierr) result(ranks)
    class(weir_communicator), intent(in) :: self
    integer, intent(in) :: level
    integer, intent(out), optional :: ierr
    integer, allocatable :: ranks(:)
    integer(c_int), allocatable, target :: found(:)
    integer(c_int) :: status, length

    length = 0
    status = c_comm_group(handle_of(self%owner), int(level, c_int32_t), c_null_ptr, 0_c_int, length)
    if (status /= WEIR_OK) length = 0
    allocate (found(max(1, length)))
    if (status == WEIR_OK) &
      status = c_comm_group(handle_of(self%owner), int(level, c_int32_t), c_loc(found(1)), int(size(found), c_int), length)
    call end_call(status, self%owner, ierr)
    allocate (ranks(length))
    ranks = found(:length)
  end function

  function nearest_gpu(self, ierr) result(gpu)
    class(weir_communicator), intent(in) :: self
    integer, intent(out), optional :: ierr
    integer :: gpu
    integer(c_int) :: found

    found = -1
    call end_call(c_comm_nearest_gpu(handle_of(self%owner), found), self%owner, ierr)
    gpu = found
  end function

  function stragglers(self, runs, ierr) result(shares)
    class(weir_communicator), intent(in) :: self
    integer, intent(in) :: runs
    integer, intent(out), optional :: ierr
    real(real64), allocatable, target :: shares(:)
    integer(c_int) :: status, ranks

    ranks = 0
    status = c_comm_size(handle_of(self%owner), ranks)
    if (status /= WEIR_OK) ranks = 0
    allocate (shares(0:max(1, ranks) - 1))
    shares = 0
    if (status == WEIR_OK) status = c_comm_stragglers(handle_of(self%owner), int(runs, c_int), c_loc(shares(0)), ranks)
    call end_call(status, self%owner, ierr)
  end function

  !@ for kind, type, bytes = int32; integer; 4 | int64; integer; 8 | real64; real; 8
  subroutine broadcast_@kind@(self, data, root, ierr)
    class(weir_communicator), intent(in) :: self
    @type@(@kind@), intent(inout), contiguous, target :: data(:)
    integer, intent(in) :: root
    integer, intent(out), optional :: ierr

    call broadcast_bytes(self, address_of(data), @bytes@_c_int64_t * size(data, kind=c_int64_t), root, ierr)
  end subroutine

  !@ end
  subroutine broadcast_text(self, data, root, ierr)
    class(weir_communicator), intent(in) :: self
    character(len=*), intent(inout) :: data
    integer, intent(in) :: root
    integer, intent(out), optional :: ierr
    integer(int8), target :: letters(len(data))
    type(c_ptr) :: place

    letters = transfer(data, letters, len(data))
    place = c_null_ptr
    if (len(data) > 0) place = c_loc(letters(1))
    call broadcast_bytes(self, place, int(len(data), c_int64_t), root, ierr)
    data = transfer(letters, data)
  end subroutine

  subroutine broadcast_bytes(self, place, bytes, root, ierr)
    class(weir_communicator), intent(in) :: self
    type(c_ptr), intent(in) :: place
    integer(c_int64_t), intent(in) :: bytes
    integer, intent(in) :: root
    integer, intent(out), optional :: ierr

    call end_call(c_comm_broadcast(handle_of(self%owner), place, bytes, int(root, c_int)), self%owner, ierr)
  end subroutine

  !@ for kind, type, bytes = int32; integer; 4 | int64; integer; 8 | real64; real; 8
  subroutine allgather_@kind@(self, mine, all, ierr)
    class(weir_communicator), intent(in) :: self
    @type@(@kind@), intent(in), contiguous, target :: mine(:)
    @type@(@kind@), intent(inout), contiguous, target :: all(:)
    integer, intent(out), optional :: ierr

    call allgather_bytes(self, address_of(mine), @bytes@_c_int64_t * size(mine, kind=c_int64_t), address_of(all), &
                         @bytes@_c_int64_t * size(all, kind=c_int64_t), ierr)
  end subroutine

  !@ end
  !> Gathers bytes. If `room` is not that for all ranks, passes a null address, which is an error on all ranks.
  subroutine allgather_bytes(self, mine, bytes, all, room, ierr)
    class(weir_communicator), intent(in) :: self
    type(c_ptr), intent(in) :: mine, all
    integer(c_int64_t), intent(in) :: bytes, room
    integer, intent(out), optional :: ierr
    integer(c_int) :: ranks, status

    ranks = 0
    status = c_comm_size(handle_of(self%owner), ranks)
    if (status == WEIR_OK) &
      status = c_comm_allgather(handle_of(self%owner), mine, bytes, merge(all, c_null_ptr, room == ranks * bytes))
    call end_call(status, self%owner, ierr)
  end subroutine

  !@ for kind, name = real32; FLOAT32 | real64; FLOAT64
  subroutine sum_@kind@(self, values, total, ierr)
    class(weir_communicator), intent(in) :: self
    real(@kind@), intent(in), contiguous, target :: values(:)
    real(real64), intent(out) :: total
    integer, intent(out), optional :: ierr
    real(real64), target :: totals(1)

    totals = 0
    call end_call(c_comm_sum(handle_of(self%owner), address_of(values), size(values, kind=c_int64_t), WEIR_@name@, c_loc(totals), &
                             1_c_int64_t), self%owner, ierr)
    total = totals(1)
  end subroutine

  subroutine sums_@kind@(self, values, totals, ierr)
    class(weir_communicator), intent(in) :: self
    real(@kind@), intent(in), contiguous, target :: values(:, :)
    real(real64), intent(inout), contiguous, target :: totals(:)
    integer, intent(out), optional :: ierr
    type(c_ptr) :: first
    integer(c_int64_t) :: fields
    integer(c_int) :: status

    first = c_null_ptr
    if (size(values, kind=c_int64_t) > 0) first = c_loc(values(1, 1))
    fields = size(totals, kind=c_int64_t)
    if (size(values, 2, kind=c_int64_t) /= fields) fields = -1 ! which every rank hears of
    status = c_comm_sum(handle_of(self%owner), first, size(values, kind=c_int64_t), WEIR_@name@, address_of(totals), fields)
    if (fields >= 0) then
      call end_call(status, self%owner, ierr)
    else
      call end_call(status, self%owner, ierr, 'sum: the values have another number of columns than there are totals')
    end if
  end subroutine

  !@ end
  !@ for kind, type = int32; integer | int64; integer | real32; real | real64; real
  function address_of_@kind@(array) result(address)
    @type@(@kind@), intent(in), contiguous, target :: array(:)
    type(c_ptr) :: address

    address = c_null_ptr
    if (size(array) > 0) address = c_loc(array(1))
  end function

  !@ end
  subroutine dump(self, path, ierr)
    class(weir_communicator), intent(in) :: self
    character(len=*), intent(in) :: path
    integer, intent(out), optional :: ierr

    call end_call(c_comm_dump(handle_of(self%owner), trim(path)//c_null_char), self%owner, ierr)
  end subroutine

  function last_error(self) result(text)
    class(weir_communicator), intent(in) :: self
    character(len=:), allocatable :: text

    text = last_text(self%owner)
  end function

  impure elemental subroutine refuse_copy(to, from)
    class(weir_communicator), intent(inout) :: to
    type(weir_communicator), intent(in) :: from

    if (associated(to%owner) .or. associated(from%owner)) &
      call stop_with('a weir_communicator cannot be copied: pass it as an argument, or point to it')
  end subroutine

end module
