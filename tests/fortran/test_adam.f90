! test_adam.f90: Adam for sparse updates: every procedure, states, what is refused.
module adam_of_updates
  use, intrinsic :: iso_c_binding, only: c_ptr
  use, intrinsic :: iso_fortran_env, only: int8, int64, real32, real64
  use checks
  use weir
  implicit none
  private
  public :: check_adam

  integer, parameter :: n = 500

contains

  subroutine check_adam(comm)
    type(weir_communicator), intent(in) :: comm

    call check_steps(comm, .false.)
    call check_steps(comm, .true.)
    call check_parts_and_states()
    call check_refused_updates()
  end subroutine

  !> What plans deliver, as arrays and by addresses, against dense Adam in double precision.
  subroutine check_steps(comm, exact)
    type(weir_communicator), intent(in) :: comm
    logical, intent(in) :: exact
    type(weir_allreduce_plan) :: plan
    type(weir_sparse_adam) :: adam, by_address
    type(weir_sparse_adam_config) :: config
    real(real32) :: gradient(n), weights(n), same(n)
    real(real64) :: m(n), v(n), w(n), g(n)
    real(real32), allocatable :: values(:)
    integer(int64), allocatable :: indices(:)
    integer(int64) :: count
    type(c_ptr) :: indices_at, values_at
    logical :: moves(n)
    integer :: i, t

    call plan%create(comm, weir_allreduce_config(count=n, density=0.1_real64))
    call adam%create(weir_sparse_adam_config(count=n, exact=exact, name='words'))
    call by_address%create(weir_sparse_adam_config(count=n, exact=exact))
    weights = [(real(mod(i, 7), real32), i = 1, n)]
    same = weights
    w = weights
    m = 0
    v = 0
    do t = 1, 10
      gradient = [(real(mod(i * 7919 + (t + rank) * 1049, 1009) - 504, real32) / 504, i = 1, n)]
      call plan%run_sparse(gradient)
      call plan%sparse_result(indices, values)
      call plan%sparse_result(count, indices_at, values_at)
      call adam%step(indices, values, weights, 0.01_real64)
      call by_address%step(count, indices_at, values_at, same, 0.01_real64)
      call expect(all(abs(weights - same) <= 0), 'addresses are as arrays')
      g = 0
      g(indices) = values
      moves = exact
      moves(indices) = .true.
      m = 0.9_real64 * m + 0.1_real64 * g
      v = 0.999_real64 * v + 0.001_real64 * g**2
      where (moves) w = w - 0.01_real64 * (m / (1 - 0.9_real64**t)) / (sqrt(v / (1 - 0.999_real64**t)) + 1e-8_real64)
    end do
    call expect(maxval(abs(weights - w)) < 1e-4_real64, 'weights are those of Adam')
    call expect(adam%steps() == 10, 'steps')
    call expect(adam%memory_bytes() >= 12 * n, 'bytes held')
    call adam%config(config)
    call expect(config%count == n .and. (config%exact .eqv. exact) .and. config%name == 'words', 'what is in force')
    call adam%destroy()
  end subroutine

  subroutine check_parts_and_states()
    type(weir_sparse_adam) :: whole, parts, later
    real(real32) :: a(7), b(7), c(7)
    integer(int64), parameter :: indices(4) = [1_int64, 3_int64, 6_int64, 7_int64]
    real(real32), parameter :: values(4) = [1.0_real32, -2.0_real32, 0.5_real32, 3.0_real32]
    integer(int8), allocatable, target :: state(:)
    integer :: t, ierr

    call whole%create(weir_sparse_adam_config(count=7))
    call parts%create(weir_sparse_adam_config(count=7, name='parts'))
    call later%create(weir_sparse_adam_config(count=7))
    a = 0
    b = 0
    do t = 1, 3
      call whole%step(indices, values, a, 0.1_real64)
      call parts%step_part(indices(4:), values(4:), b, 0.1_real64)
      call parts%save_state(state, ierr)
      call expect(ierr == WEIR_ERR_BUSY, 'a state between the parts of a step')
      call expect_text(parts%last_error(), "optimizer 'parts' is between the parts of a step")
      call parts%step(indices(:3), values(:3), b, 0.1_real64)
      call expect(all(abs(a - b) <= 0), 'parts are as a whole')
    end do
    call whole%save_state(state)
    call later%restore_state(state(::2), ierr)
    call expect(ierr == WEIR_ERR_ARGUMENT, 'a state with gaps')
    call expect_text(later%last_error(), "optimizer 'sparse_adam': the state is not contiguous")
    call later%restore_state(state)
    c = a
    call whole%step(indices, values, a, 0.1_real64)
    call later%step(indices, values, c, 0.1_real64)
    call expect(all(abs(a - c) <= 0), 'weights that go on')
    call later%reset()
    call expect(later%steps() == 0, 'steps are forgotten')
  end subroutine

  subroutine check_refused_updates()
    type(weir_sparse_adam) :: adam
    real(real32) :: weights(10), values(2)
    integer(int64) :: made
    integer :: ierr

    weights = 0
    values = 1
    made = adam%steps(ierr)
    call expect(ierr == WEIR_ERR_ARGUMENT .and. made == 0, 'one that was not made')
    call expect_text(adam%last_error(), 'the sparse Adam optimizer is NULL')
    call adam%create(weir_sparse_adam_config(count=5, beta1=1.0_real64), ierr)
    call expect(ierr == WEIR_ERR_ARGUMENT, 'beta1 of 1')
    call expect_text(adam%last_error(), 'beta1 is 1: it must be from 0 to below 1')
    call adam%create(weir_sparse_adam_config(count=5, name='five'))
    call adam%step([1_int64, 6_int64], values, weights(:5), 0.1_real64, ierr)
    call expect(ierr == WEIR_ERR_ARGUMENT, 'an entry beyond the weights')
    call expect_text(adam%last_error(), "optimizer 'five': the update has an entry 6: weights are numbered 1 to 5")
    call adam%step([0_int64, 1_int64], values, weights(:5), 0.1_real64, ierr)
    call expect_text(adam%last_error(), 'the update has an entry 0')
    call adam%step([2_int64, 1_int64], values, weights(:5), 0.1_real64, ierr)
    call expect_text(adam%last_error(), 'do not ascend')
    call adam%step([1_int64], values, weights(:5), 0.1_real64, ierr)
    call expect_text(adam%last_error(), 'an update has 1 indices and 2 values: as many of each')
    call adam%step([1_int64, 2_int64], values, weights(::2), 0.1_real64, ierr)
    call expect_text(adam%last_error(), 'the array of weights is not contiguous')
    call adam%step([1_int64, 2_int64], values, weights, 0.1_real64, ierr)
    call expect(ierr == WEIR_ERR_ARGUMENT, 'too many weights')
    call expect_text(adam%last_error(), 'there are 10 weights: it has 5')
    call expect(all(abs(weights) <= 0) .and. adam%steps() == 0, 'nothing has changed')
  end subroutine
end module
