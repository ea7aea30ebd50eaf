! test_adam.f90: Adam for sparse updates: every procedure, states, refused calls.
module adam_of_updates
  use, intrinsic :: iso_c_binding, only: c_int32_t, c_loc, c_ptr
  use, intrinsic :: iso_fortran_env, only: int8, int64, real32, real64
  use checks
  use weir
  implicit none
  private
  public :: check_adam

contains

  !> Tests that whole steps, parts, and steps by addresses (indices count from 0) are the same, and that another optimizer continues
  !> from a state.
  subroutine check_adam()
    type(weir_sparse_adam) :: whole, parts, by_address
    type(weir_sparse_adam_config) :: config
    real(real32) :: a(7), b(7), c(7)
    integer(int64), parameter :: indices(4) = [1_int64, 3_int64, 6_int64, 7_int64]
    integer(c_int32_t), target :: offsets(4)
    real(real32), target :: values(4)
    integer(int8), allocatable, target :: state(:)
    integer :: ierr

    values = [1.0_real32, -2.0_real32, 0.5_real32, 3.0_real32]
    offsets = int(indices - 1, c_int32_t)
    a = 0
    b = 0
    c = 0
    call whole%create(weir_sparse_adam_config(count=7))
    call parts%create(weir_sparse_adam_config(count=7, name='parts'))
    call by_address%create(weir_sparse_adam_config(count=7))
    call whole%step(indices, values, a, 0.1_real64)
    call expect(abs(a(1) + 0.1) < 1e-5 .and. abs(a(3) - 0.1) < 1e-5 .and. all(a([2, 4, 5]) == 0), 'the first step of Adam')
    call parts%step_part(indices(4:), values(4:), b, 0.1_real64)
    call parts%save_state(state, ierr)
    call expect(ierr == WEIR_ERR_BUSY, 'a state between the parts of a step')
    call expect_text(parts%last_error(), "optimizer 'parts' is between the parts of a step")
    call parts%step(indices(:3), values(:3), b, 0.1_real64)
    call by_address%step_part(2_int64, c_loc(offsets(3)), c_loc(values(3)), c, 0.1_real64)
    call by_address%step(2_int64, c_loc(offsets(1)), c_loc(values(1)), c, 0.1_real64)
    call expect(all(a == b) .and. all(a == c), 'parts and addresses make the same step')
    call expect(whole%steps() == 1 .and. parts%steps() == 1 .and. whole%memory_bytes() > 0, 'steps and bytes')
    call parts%config(config)
    call expect(config%count == 7 .and. .not. config%exact .and. config%name == 'parts', 'what is in force')
    call whole%save_state(state)
    call parts%restore_state(state(::2), ierr)
    call expect(ierr == WEIR_ERR_ARGUMENT, 'a state with gaps')
    call expect_text(parts%last_error(), "optimizer 'parts': the state is not contiguous")
    call parts%reset()
    call expect(parts%steps() == 0, 'steps are forgotten')
    call parts%restore_state(state)
    call whole%step(indices, values, a, 0.1_real64)
    call parts%step(indices, values, b, 0.1_real64)
    call expect(all(a == b), 'weights that go on')
    call whole%destroy()
    call check_refused_updates()
  end subroutine

  !> Tests that updates and weights of wrong sizes are refused, with numbers that count from 1, and change nothing.
  subroutine check_refused_updates()
    type(weir_sparse_adam) :: adam
    real(real32) :: weights(10), values(2)
    integer(int64) :: made
    integer :: ierr

    weights = 0
    values = 1
    made = adam%steps(ierr)
    call expect_error('the sparse Adam optimizer is NULL')
    call adam%create(weir_sparse_adam_config(count=5, beta1=1.0_real64), ierr)
    call expect_error('beta1 is 1: it must be from 0 to below 1')
    call adam%create(weir_sparse_adam_config(count=5, name='five'))
    call adam%step([1_int64, 6_int64], values, weights(:5), 0.1_real64, ierr)
    call expect_error("optimizer 'five': the update has an entry 6: weights are numbered 1 to 5")
    call adam%step([0_int64, 1_int64], values, weights(:5), 0.1_real64, ierr)
    call expect_error('the update has an entry 0')
    call adam%step([1_int64], values, weights(:5), 0.1_real64, ierr)
    call expect_error('an update has 1 indices and 2 values: as many of each')
    call adam%step([1_int64, 2_int64], values, weights(::2), 0.1_real64, ierr)
    call expect_error('the array of weights is not contiguous')
    call adam%step([1_int64, 2_int64], values, weights, 0.1_real64, ierr)
    call expect_error('there are 10 weights: it has 5')
    call expect(all(weights == 0) .and. adam%steps() == 0, 'nothing has changed')

  contains

    subroutine expect_error(part)
      character(len=*), intent(in) :: part

      call expect(ierr == WEIR_ERR_ARGUMENT, part)
      call expect_text(adam%last_error(), part)
    end subroutine
  end subroutine
end module
