! checks.f90: shared parts of the tests of module weir.
module checks
  use, intrinsic :: iso_fortran_env, only: error_unit, real64
  use mpi_f08
  use weir
  implicit none
  private
  public :: set_up, expect, expect_text, expect_status, expect_refused, total, rank, ranks, bad

  integer, protected :: rank = 0, ranks = 1
  logical, protected :: bad = .false. !< true on the last rank, which passes the wrong arguments

contains

  subroutine set_up()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    bad = rank == ranks - 1
  end subroutine

  !> Ends all ranks unless the condition holds.
  subroutine expect(condition, what)
    logical, intent(in) :: condition
    character(len=*), intent(in) :: what

    if (condition) return
    write (error_unit, '(a, i0, 4a)') 'rank ', rank, ': not so: ', what, '; last error without a communicator: ', weir_last_error()
    call MPI_Abort(MPI_COMM_WORLD, 1)
  end subroutine

  subroutine expect_text(text, part)
    character(len=*), intent(in) :: text, part

    call expect(index(text, part) > 0, "'"//text//"' contains '"//part//"'")
  end subroutine

  !> Expects that a call has ended with this status.
  subroutine expect_status(ierr, status, comm, what)
    integer, intent(in) :: ierr, status
    type(weir_communicator), intent(in) :: comm
    character(len=*), intent(in) :: what

    if (ierr == status) return
    call expect(.false., what//' ends with '''//weir_status_text(status)//''' and not '''//weir_status_text(ierr)//''': '// &
                comm%last_error())
  end subroutine

  !> Expects that a call was refused with a text that contains `part`.
  subroutine expect_refused(ierr, comm, part)
    integer, intent(in) :: ierr
    type(weir_communicator), intent(in) :: comm
    character(len=*), intent(in) :: part

    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'the call that says '''//part//'''')
    call expect_text(comm%last_error(), part)
  end subroutine

  !> Collective. Returns the sum over all ranks.
  function total(values) result(sums)
    real(real64), intent(in) :: values(:)
    real(real64) :: sums(size(values))

    call MPI_Allreduce(values, sums, size(values), MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
  end function

end module
