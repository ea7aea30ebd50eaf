! weir_schedules.f90: sends first what the next forward pass needs first.
module weir_schedules
  use, intrinsic :: iso_c_binding, only: c_char, c_int, c_loc, c_null_char, c_null_ptr, c_ptr
  use weir_c
  use weir_calls, only: add_user, comm_owner, end_call, end_user, handle_of, remove_user, stop_with
  use weir_communicators, only: owner_of, weir_communicator
  use weir_plans, only: c_handle_of_plan, weir_allreduce_plan
  use weir_text, only: c_text
  use weir_types, only: WEIR_OK
  implicit none
  private
  public :: weir_schedule, c_handle_of_schedule

  !> Priorities of a model's blocks, and the runs in flight for each. It communicates only through the runs that it is given. It
  !> cannot be copied. It ends with destroy or with its scope.
  type :: weir_schedule
    private
    type(c_ptr) :: handle = c_null_ptr
    type(comm_owner), pointer :: owner => null()
  contains
    !> (comm, blocks, ierr): takes the names of blocks, an array of texts, in the order of the forward pass, all different. Plans
    !> that are given to the schedule must come from `comm`, and outlive their runs. A schedule that this variable had before ends
    !> first.
    procedure :: create
    !> (ierr): forgets the runs in flight; the plans still finish them.
    procedure :: destroy
    !> (block, ierr): returns the priority for everything in this block: the number of blocks for the first block, 1 for the last.
    procedure :: priority
    !> (block, plan, ierr): records the plan's run in flight as one of this block.
    procedure :: started
    !> (block, done, ierr): makes progress on everything in flight. `done` is true once no run of this block is.
    procedure :: test
    !> (block, ierr): waits until no run of this block is in flight.
    procedure :: wait
    !> (ierr): waits for all blocks.
    procedure :: wait_all
    !> (block, ierr): returns how many runs of this block were in flight as of the last test or wait.
    procedure :: pending
    generic :: assignment(=) => refuse_copy
    procedure, private :: refuse_copy
    final :: finalise
  end type

contains

  subroutine create(self, comm, blocks, ierr)
    class(weir_schedule), intent(inout) :: self
    class(weir_communicator), intent(in) :: comm
    character(len=*), intent(in) :: blocks(:)
    integer, intent(out), optional :: ierr
    character(kind=c_char), allocatable, target :: texts(:, :)
    type(c_ptr), allocatable, target :: names(:)
    integer(c_int) :: status
    integer :: i

    call finalise(self)
    allocate (texts(len(blocks) + 1, size(blocks)), names(max(1, size(blocks))))
    do i = 1, size(blocks)
      names(i) = c_text(blocks(i), texts(:, i))
    end do
    status = c_schedule_create(handle_of(owner_of(comm)), c_loc(names(1)), int(size(blocks), c_int), self%handle)
    if (status == WEIR_OK) call add_user(owner_of(comm), self%owner)
    call end_call(status, owner_of(comm), ierr)
  end subroutine

  !@ procedures of weir_schedule

end module
