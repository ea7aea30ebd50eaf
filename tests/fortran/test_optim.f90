! test_optim.f90: divided work, LARS and LAMB: every procedure, what bodies fail with, states, what is refused.
module optim_of_layers
  use, intrinsic :: iso_c_binding, only: c_loc, c_null_ptr, c_ptr
  use, intrinsic :: iso_fortran_env, only: int8, int64, real32, real64
  use checks
  use weir
  implicit none
  private
  public :: check_optim

  integer, parameter :: parts = 7, wide = 70001, narrow = 40, bias = 3, whole = wide + narrow + bias

  !> What bodies are given.
  type :: settings
    integer :: calls(parts) = 0, failing = 0
    integer(int64) :: bytes = 8
  end type

contains

  subroutine check_optim(comm)
    type(weir_communicator), intent(in) :: comm
    integer :: division

    do division = WEIR_OPERATOR_AUTOMATIC, WEIR_OPERATOR_ALL
      call check_operator(comm, division)
      call check_lars(comm, division)
    end do
    call check_variable(comm)
    call check_failing_bodies(comm)
    call check_refused_runs(comm)
    call check_state(comm, WEIR_OPTIMIZER_LARS)
    call check_state(comm, WEIR_OPTIMIZER_LAMB)
    call check_refused_steps(comm)
  end subroutine

  subroutine square(context, part, output, bytes, error)
    class(*), intent(inout) :: context
    integer, intent(in) :: part
    integer(int8), intent(inout), target :: output(:)
    integer(int64), intent(inout) :: bytes
    character(len=:), allocatable, intent(inout) :: error

    call expect(.not. allocated(error) .and. bytes == 8 .and. size(output) == 8, 'what a body is given')
    output = transfer(real(part * part, real64), output)
    select type (context)
    type is (settings)
      context%calls(part) = context%calls(part) + 1
      bytes = context%bytes
      if (part == context%failing) error = 'no square of this one'
    type is (integer)
      call expect(context == 0, 'no context is 0')
    class default
      call expect(.false., 'the context')
    end select
  end subroutine

  !> As many bytes as the part's number less one says.
  subroutine some(context, part, output, bytes, error)
    class(*), intent(inout) :: context
    integer, intent(in) :: part
    integer(int8), intent(inout), target :: output(:)
    integer(int64), intent(inout) :: bytes
    character(len=:), allocatable, intent(inout) :: error

    bytes = part - 1
    output(:part - 1) = int(part, int8)
    select type (context)
    type is (character(len=*))
      if (context /= 'some') error = 'the context is '//context
    end select
  end subroutine

  subroutine make(comm, division, variable, work)
    type(weir_communicator), intent(in) :: comm
    integer, intent(in) :: division
    logical, intent(in) :: variable
    type(weir_parallel_operator), intent(inout) :: work
    type(weir_operator_part) :: described(parts)
    integer :: i

    described%result_bytes = 8
    described%seconds = [(1e-3_real64 * mod(i, 3), i = 1, parts)]
    call work%create(comm, weir_operator_config(division=division, variable=variable, name='squares'), described)
  end subroutine

  subroutine check_operator(comm, division)
    type(weir_communicator), intent(in) :: comm
    integer, intent(in) :: division
    type(weir_parallel_operator) :: work
    type(weir_operator_statistics) :: statistics
    type(weir_operator_config) :: config
    type(settings) :: context
    real(real64), asynchronous :: results(parts)
    real(real32) :: halves(2 * parts)
    integer(int8) :: bytes(8 * parts)
    real(real64) :: calls(1)
    logical :: done
    integer :: i, mine

    call make(comm, division, .false., work)
    call expect(work%bytes() == 8 * parts, 'bytes of all results')
    call work%test(done)
    call expect(done, 'nothing is in flight')
    call work%run(square, results, context)
    call expect(all_squares(results), 'squares')
    results = 0
    call work%start(square, results, context)
    done = .false.
    do while (.not. done)
      call work%test(done)
    end do
    call expect(all_squares(results), 'squares')
    results = 0
    call work%start(square, results)
    call work%wait()
    call expect(all_squares(results), 'squares')
    call work%run(square, halves)
    call expect(all_squares(transfer(halves, results)), 'squares in an array of real32')
    call work%run(square, bytes)
    call expect(all_squares(transfer(bytes, results)), 'squares in an array of int8')
    mine = 0
    do i = 1, parts
      call expect(work%offset(i) == 8 * (i - 1) .and. work%result_bytes(i) == 8, 'where results are')
      call expect(context%calls(i) == merge(2, 0, work%works_on(i)), 'bodies are called for parts of this rank')
      if (work%works_on(i)) mine = mine + 1
    end do
    call work%config(config)
    call expect(config%name == 'squares' .and. (config%division == division .or. division == WEIR_OPERATOR_AUTOMATIC), 'in force')
    calls = total([real(mine, real64)])
    if (config%division == WEIR_OPERATOR_ALL) call expect(nint(calls(1)) == parts, 'each part is worked on once')
    if (config%division == WEIR_OPERATOR_REPLICATED) call expect(mine == parts, 'all parts are worked on everywhere')
    call work%statistics(statistics)
    call expect(statistics%runs == 5, 'runs')
    call expect(work%memory_bytes() >= 0, 'bytes held')
    call expect_text(work%explanation(), '7 parts are worked on')
    call work%destroy()
  end subroutine

  pure logical function all_squares(results)
    real(real64), intent(in) :: results(:)
    integer :: i

    all_squares = size(results) == parts
    do i = 1, size(results)
      if (nint(results(i)) /= i * i) all_squares = .false.
    end do
  end function

  subroutine check_variable(comm)
    type(weir_communicator), intent(in) :: comm
    type(weir_parallel_operator) :: work
    integer(int8) :: results(8, parts), flat(8 * parts)
    character(len=4) :: context
    integer :: i

    context = 'some'
    call make(comm, WEIR_OPERATOR_ALL, .true., work)
    call work%run(some, flat, context)
    results = reshape(flat, shape(results))
    do i = 1, parts
      call expect(work%result_bytes(i) == i - 1, 'bytes of a result')
      call expect(count(results(:i - 1, i) == int(i, int8)) == i - 1, 'a shorter result')
    end do
  end subroutine

  !> What one rank's body fails with, all ranks hear; the next run is as any other.
  subroutine check_failing_bodies(comm)
    type(weir_communicator), intent(in) :: comm
    type(weir_parallel_operator) :: work
    type(settings) :: context
    real(real64), asynchronous :: results(parts)
    integer :: ierr

    call make(comm, WEIR_OPERATOR_ALL, .false., work)
    context%failing = 1
    call work%run(square, results, context, ierr)
    call expect_status(ierr, WEIR_ERR_INTERNAL, comm, 'a body that fails')
    call expect_text(comm%last_error(), "operator 'squares', rank 0: part 1: no square of this one")
    call work%start(square, results, context)
    call work%wait(ierr)
    call expect_status(ierr, WEIR_ERR_INTERNAL, comm, 'a body that fails')
    context%failing = 0
    context%bytes = -3
    call work%run(square, results, context, ierr)
    call expect_status(ierr, WEIR_ERR_INTERNAL, comm, 'a result of -3 bytes')
    call expect_text(comm%last_error(), 'its body says that its result has -3 bytes')
    context%bytes = 8
    call work%run(square, results, context)
    call expect(all_squares(results), 'squares after errors')
  end subroutine

  subroutine check_refused_runs(comm)
    type(weir_communicator), intent(in) :: comm
    type(weir_parallel_operator) :: work
    type(weir_operator_part) :: described(2)
    real(real64), asynchronous :: results(parts), longer(2 * parts)
    integer(int64) :: found
    integer :: ierr

    described%seconds = -1
    call work%create(comm, weir_operator_config(), described, ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'parts that take less than no time')
    call expect_text(comm%last_error(), 'part 0: seconds is -1')
    found = work%bytes(ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'an operator that was not made')
    call make(comm, WEIR_OPERATOR_ALL, .false., work)
    call work%run(square, longer, ierr=ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'an array that is too long')
    call expect_text(comm%last_error(), 'there are 112 bytes for results: they take 56')
    call work%run(square, longer(::2), ierr=ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'an array with gaps')
    call expect_text(comm%last_error(), "operator 'squares': the array for results is not contiguous")
    call work%start(square, longer(::2))
    call work%wait(ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'a start with an array with gaps')
    call expect_text(comm%last_error(), "operator 'squares': the array for results is not contiguous")
    found = work%offset(parts + 1, ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'a part that there is not')
    call expect_text(comm%last_error(), 'there is no part 8: they are numbered 1 to 7')
    found = work%result_bytes(0, ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'a part that there is not')
    call expect(.not. work%works_on(0, ierr) .and. ierr == WEIR_ERR_ARGUMENT, 'no rank works on part 0')
    call work%run(square, results)
    call expect(all_squares(results), 'squares after errors')
  end subroutine

  function layers() result(described)
    type(weir_optimized_layer) :: described(4)

    described = [weir_optimized_layer(name='fc1.weight', count=wide), weir_optimized_layer(name='none.weight', count=0), &
                 weir_optimized_layer(name='fc2.weight', count=narrow), &
                 weir_optimized_layer(name='fc2.bias', count=bias, excluded=.true.)]
  end function

  function sample(step) result(values)
    integer, intent(in) :: step
    real(real32) :: values(whole)
    integer :: i

    values = [(real(mod(i * 7919 + step * 104729, 1009) - 504, real32) / 504, i = 1, whole)]
  end function

  !> LARS as in the table of docs/optimizers.md, in double precision.
  subroutine lars(first, last, excluded, gradients, weights, momentum, rate)
    integer, intent(in) :: first, last
    logical, intent(in) :: excluded
    real(real32), intent(in) :: gradients(:)
    real(real64), intent(inout) :: weights(:), momentum(:)
    real(real64), intent(in) :: rate
    real(real64) :: decay, w, g, expected

    decay = merge(0.0_real64, 0.01_real64, excluded)
    w = norm2(weights(first:last))
    g = norm2(real(gradients(first:last), real64))
    expected = 1
    if (.not. excluded) expected = 1e-3_real64 * w / (g + 0.01_real64 * w)
    call expect(abs(rate - expected) < 1e-5_real64 * expected, 'the rate of a layer')
    momentum(first:last) = 0.9_real64 * momentum(first:last) + &
                           0.1_real64 * expected * (gradients(first:last) + decay * weights(first:last))
    weights(first:last) = weights(first:last) - momentum(first:last)
  end subroutine

  subroutine check_lars(comm, update)
    type(weir_communicator), intent(in) :: comm
    integer, intent(in) :: update
    type(weir_layer_optimizer) :: optimizer
    type(weir_optimizer_statistics) :: statistics
    type(weir_optimizer_config) :: config
    real(real32), allocatable :: weights(:), gradients(:)
    real(real64), allocatable :: expected(:), momentum(:), rates(:)
    integer :: t

    call optimizer%create(comm, weir_optimizer_config(weight_decay=0.01_real64, update=update, name='lars'), layers())
    weights = sample(100)
    expected = weights
    momentum = 0 * expected
    do t = 1, 4
      gradients = sample(t)
      call optimizer%step(weights, gradients, 0.1_real64)
      call optimizer%rates(rates)
      call expect(size(rates) == 4 .and. abs(rates(2) - 1) < 1e-12_real64, 'rates')
      call lars(1, wide, .false., gradients, expected, momentum, rates(1))
      call lars(wide + 1, wide + narrow, .false., gradients, expected, momentum, rates(3))
      call lars(wide + narrow + 1, whole, .true., gradients, expected, momentum, rates(4))
      call expect(maxval(abs(weights - expected)) < 1e-5_real64, 'weights')
    end do
    call optimizer%statistics(statistics)
    call expect(statistics%steps == 4, 'steps')
    call optimizer%config(config)
    call expect(config%name == 'lars' .and. config%update /= WEIR_OPERATOR_AUTOMATIC, 'what is in force')
    call expect(optimizer%memory_bytes() > 0, 'bytes held')
    call expect_text(optimizer%explanation(), 'norms: ')
    call optimizer%destroy()
  end subroutine

  !> One goes on, bit for bit, from what another one has saved; and arrays by their addresses are as one of all.
  subroutine check_state(comm, rule)
    type(weir_communicator), intent(in) :: comm
    integer, intent(in) :: rule
    type(weir_layer_optimizer) :: first, second, other
    type(weir_optimizer_config) :: config
    integer(int8), allocatable, target :: state(:)
    real(real32), allocatable, target :: a(:), b(:), gradients(:)
    type(c_ptr) :: weights_at(4), gradients_at(4)
    integer :: t, ierr

    config%rule = rule
    config%update = WEIR_OPERATOR_ALL
    call first%create(comm, config, layers())
    call second%create(comm, config, layers())
    config%rule = WEIR_OPTIMIZER_LARS + WEIR_OPTIMIZER_LAMB - rule
    call other%create(comm, config, layers())
    a = sample(100)
    do t = 1, 3
      gradients = sample(t)
      call first%step(a, gradients, 0.1_real64)
    end do
    b = a
    call first%save_state(state)
    call other%restore_state(state, ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'the state of another rule')
    call second%restore_state(state(::2), ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'a state with gaps')
    call second%restore_state(state)
    do t = 4, 6
      gradients = sample(t)
      call first%step(a, gradients, 0.1_real64)
      weights_at = [c_loc(b(1)), c_null_ptr, c_loc(b(wide + 1)), c_loc(b(wide + narrow + 1))]
      gradients_at = [c_loc(gradients(1)), c_null_ptr, c_loc(gradients(wide + 1)), c_loc(gradients(wide + narrow + 1))]
      call second%step(weights_at, gradients_at, 0.1_real64)
      call expect(maxval(abs(a - b)) <= 0, 'weights that go on')
    end do
    call second%reset()
    call first%step(a, gradients, 0.1_real64)
    call second%step(b, gradients, 0.1_real64)
    call expect(maxval(abs(a - b)) > 0, 'momentum is forgotten')
  end subroutine

  subroutine check_refused_steps(comm)
    type(weir_communicator), intent(in) :: comm
    type(weir_layer_optimizer) :: optimizer, none
    type(weir_optimized_layer) :: twice(2)
    real(real32), allocatable, target :: weights(:), gradients(:)
    type(c_ptr) :: nowhere(5)
    integer :: ierr

    twice%name = 'twice'
    call optimizer%create(comm, weir_optimizer_config(), twice, ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'two layers of one name')
    call expect_text(comm%last_error(), "its name, 'twice', is that of an earlier one")
    weights = sample(0)
    gradients = sample(1)
    call none%step(weights, gradients, 0.1_real64, ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'an optimizer that was not made')
    call optimizer%create(comm, weir_optimizer_config(name='half', type=WEIR_FLOAT16), layers())
    call optimizer%step(weights, gradients, 0.1_real64, ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'real32 for weights of 16 bits')
    call expect_text(comm%last_error(), "'half': the array of weights is real32: it takes those of 16 bits, by addresses")
    call optimizer%create(comm, weir_optimizer_config(name='sgd'), layers())
    call optimizer%step(weights, gradients(:whole - rank), 0.1_real64, ierr)
    call expect(ierr == merge(WEIR_OK, WEIR_ERR_ARGUMENT, ranks == 1), 'gradients of too few elements on one rank')
    if (rank == 1) call expect_text(comm%last_error(), "'sgd': the array of gradients has 70043 elements: layers have 70044")
    if (rank == 0 .and. ranks > 1) call expect_text(comm%last_error(), "layer 'fc1.weight': its weights or its gradient are null")
    call optimizer%step(weights(::2), gradients, 0.1_real64, ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'weights with gaps')
    call expect_text(comm%last_error(), "optimizer 'sgd': the array of weights is not contiguous")
    nowhere = c_null_ptr
    call optimizer%step(nowhere, nowhere, 0.1_real64, ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'five layers')
    call expect_text(comm%last_error(), 'there are weights of 5 layers and gradients of 5: it has 4')
    call optimizer%step(nowhere(:4), nowhere(:4), 0.1_real64, c_loc(weights(1)), ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'a stream in host memory')
    call optimizer%step(nowhere(:4), nowhere, 0.1_real64, ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'weights of four layers and gradients of five')
    call expect_text(comm%last_error(), "optimizer 'sgd': there are weights of 4 layers and gradients of 5")
    gradients(wide + 1) = huge(1.0_real32)
    gradients(wide + 1) = gradients(wide + 1) * 2
    call optimizer%step(weights, gradients, 0.1_real64, ierr)
    call expect_status(ierr, WEIR_ERR_NON_FINITE, comm, 'a gradient that is not finite')
    call expect_text(comm%last_error(), "layer 'fc2.weight': the norm of its gradient is not finite")
    call optimizer%destroy()
  end subroutine
end module
