! test_optim.f90: divided work, LARS and LAMB: every procedure, failures of bodies, states, refused calls.
module optim_of_layers
  use, intrinsic :: iso_c_binding, only: c_loc, c_null_ptr, c_ptr
  use, intrinsic :: iso_fortran_env, only: int8, int64, real32, real64
  use checks
  use weir
  implicit none
  private
  public :: check_optim

  integer, parameter :: parts = 7, wide = 2000, narrow = 40, bias = 3, whole = wide + narrow + bias

  !> The data of bodies.
  type :: settings
    integer :: calls(parts) = 0, failing = 0
    integer(int64) :: bytes = 8
  end type

contains

  subroutine check_optim(comm)
    type(weir_communicator), intent(in) :: comm

    call check_operator(comm)
    call check_failing_bodies(comm)
    call check_optimizer(comm)
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

  !> Writes as many bytes as the part's number, less one.
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

  subroutine make(comm, variable, work)
    type(weir_communicator), intent(in) :: comm
    logical, intent(in) :: variable
    type(weir_parallel_operator), intent(inout) :: work
    type(weir_operator_part) :: described(parts)
    integer :: i

    described%result_bytes = 8
    described%seconds = [(1e-3_real64 * mod(i, 3), i = 1, parts)]
    call work%create(comm, weir_operator_config(division=WEIR_OPERATOR_ALL, variable=variable, name='squares'), described)
  end subroutine

  !> Tests runs and starts with arrays of each kind, and queries.
  subroutine check_operator(comm)
    type(weir_communicator), intent(in) :: comm
    type(weir_parallel_operator) :: work
    type(weir_operator_statistics) :: statistics
    type(weir_operator_config) :: config
    type(settings) :: context
    real(real64), asynchronous :: results(parts)
    real(real32), asynchronous :: halves(2 * parts)
    integer(int8), asynchronous :: bytes(8 * parts)
    character(len=4) :: text
    logical :: done
    integer :: i

    call make(comm, .false., work)
    call expect(work%bytes() == 8 * parts, 'bytes of all results')
    call work%test(done)
    call expect(done, 'nothing is in flight')
    call work%run(square, results, context)
    call expect_squares(results)
    results = 0
    call work%start(square, results, context)
    done = .false.
    do while (.not. done)
      call work%test(done)
    end do
    call expect_squares(results)
    call work%run(square, halves)
    call expect_squares(transfer(halves, results))
    call work%run(square, bytes)
    call expect_squares(transfer(bytes, results))
    halves = 0
    bytes = 0
    call work%start(square, halves)
    call work%wait()
    call expect_squares(transfer(halves, results))
    call work%start(square, bytes)
    call work%wait()
    call expect_squares(transfer(bytes, results))
    do i = 1, parts
      call expect(work%offset(i) == 8 * (i - 1) .and. work%result_bytes(i) == 8, 'where results are')
      call expect(context%calls(i) == merge(2, 0, work%works_on(i)), 'bodies are called for parts of this rank')
    end do
    call work%config(config)
    call work%statistics(statistics)
    call expect(config%name == 'squares' .and. config%division == WEIR_OPERATOR_ALL .and. statistics%runs == 6, 'in force')
    call expect(work%memory_bytes() >= 0, 'bytes held')
    call expect_text(work%explanation(), '7 parts are worked on')
    call work%destroy()

    text = 'some'
    call make(comm, .true., work) ! results may be shorter than their places
    call work%run(some, bytes, text)
    do i = 2, parts
      call expect(work%result_bytes(i) == i - 1 .and. all(bytes(8 * i - 7:9 * i - 9) == i), 'a shorter result')
    end do
  end subroutine

  subroutine expect_squares(results)
    real(real64), intent(in) :: results(parts)
    integer :: i

    call expect(all(nint(results) == [(i * i, i = 1, parts)]), 'squares')
  end subroutine

  !> Tests that a failure of one rank's body, and wrong arrays, are errors on all ranks, and that the next run works.
  subroutine check_failing_bodies(comm)
    type(weir_communicator), intent(in) :: comm
    type(weir_parallel_operator) :: work
    type(settings) :: context
    type(weir_operator_part) :: described(2)
    real(real64), asynchronous :: results(parts), longer(2 * parts)
    integer(int64) :: found
    integer :: ierr
    logical :: done

    described%seconds = -1
    call work%create(comm, weir_operator_config(), described, ierr)
    call expect_refused(ierr, comm, 'part 0: seconds is -1')
    found = work%bytes(ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'an operator that was not made')
    context%failing = 1
    call make(comm, .false., work)
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
    call work%run(square, longer, ierr=ierr)
    call expect_refused(ierr, comm, 'there are 112 bytes for results: they take 56')
    call work%run(square, longer(::2), ierr=ierr)
    call expect_refused(ierr, comm, "operator 'squares': the array for results is not contiguous")
    call work%start(square, longer(::2))
    call work%wait(ierr)
    call expect_refused(ierr, comm, "operator 'squares': the array for results is not contiguous")
    call work%wait(ierr)
    call expect_status(ierr, WEIR_OK, comm, 'a refusal that a wait has reported before')
    found = work%offset(parts + 1, ierr)
    call expect_refused(ierr, comm, 'there is no part 8: they are numbered 1 to 7')
    found = work%result_bytes(0, ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'a part that there is not')
    call expect(.not. work%works_on(0, ierr) .and. ierr == WEIR_ERR_ARGUMENT, 'no rank works on part 0')
    call work%start(square, longer(::2))
    call work%wait(ierr)
    call work%run(square, results)
    call expect_squares(results)
    call work%test(done, ierr)
    call expect(done .and. ierr == WEIR_OK, 'a good run ends with no report of an earlier start')
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

  !> Tests queries, and that another optimizer continues from a state, with arrays by their addresses.
  subroutine check_optimizer(comm)
    type(weir_communicator), intent(in) :: comm
    type(weir_layer_optimizer) :: first, second
    type(weir_optimizer_statistics) :: statistics
    type(weir_optimizer_config) :: config
    integer(int8), allocatable, target :: state(:)
    real(real32), target :: a(whole), b(whole), gradients(whole)
    real(real64), allocatable :: rates(:)
    integer :: ierr

    config%update = WEIR_OPERATOR_ALL
    config%weight_decay = 0.01_real64
    config%name = 'lars'
    call first%create(comm, config, layers())
    call second%create(comm, config, layers())
    a = sample(100)
    gradients = sample(0)
    call first%step(a, gradients, 0.1_real64)
    call first%rates(rates)
    call expect(size(rates) == 4 .and. rates(1) < 1 .and. rates(4) == 1 .and. any(a /= sample(100)), 'a step')
    call first%statistics(statistics)
    call first%config(config)
    call expect(statistics%steps == 1 .and. config%name == 'lars' .and. config%weight_decay == 0.01_real64, 'in force')
    call expect(first%memory_bytes() > 0, 'bytes held')
    call expect_text(first%explanation(), 'norms: ')
    call first%save_state(state)
    call second%restore_state(state(::2), ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'a state with gaps')
    call second%restore_state(state)
    b = a
    call first%step(a, gradients, 0.1_real64)
    call second%step(places(b), places(gradients), 0.1_real64)
    call expect(all(a == b), 'weights that go on')
    call second%reset()
    call first%step(a, gradients, 0.1_real64)
    call second%step(b, gradients, 0.1_real64)
    call expect(any(a /= b), 'momentum is forgotten')
    call first%destroy()
  end subroutine

  function places(values) result(addresses)
    real(real32), intent(in), target :: values(whole)
    type(c_ptr) :: addresses(4)

    addresses = [c_loc(values(1)), c_null_ptr, c_loc(values(wide + 1)), c_loc(values(wide + narrow + 1))]
  end function

  !> Tests that arrays of another kind or size, with gaps, or of too many layers are refused.
  subroutine check_refused_steps(comm)
    type(weir_communicator), intent(in) :: comm
    type(weir_layer_optimizer) :: optimizer
    type(weir_optimized_layer) :: twice(2)
    real(real32), target :: weights(whole), gradients(whole)
    type(c_ptr) :: nowhere(5)
    integer :: ierr

    twice%name = 'twice'
    call optimizer%create(comm, weir_optimizer_config(), twice, ierr)
    call expect_refused(ierr, comm, "its name, 'twice', is that of an earlier one")
    weights = sample(0)
    gradients = sample(1)
    call optimizer%step(weights, gradients, 0.1_real64, ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'an optimizer that was not made')
    call optimizer%create(comm, weir_optimizer_config(name='half', type=WEIR_FLOAT16), layers())
    call optimizer%step(weights, gradients, 0.1_real64, ierr)
    call expect_refused(ierr, comm, "'half': the array of weights is real32: it takes those of 16 bits, by addresses")
    call optimizer%create(comm, weir_optimizer_config(name='sgd'), layers())
    call optimizer%step(weights, gradients(:whole - merge(1, 0, bad)), 0.1_real64, ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'gradients of too few elements on one rank')
    if (bad) call expect_text(comm%last_error(), "'sgd': the array of gradients has 2042 elements: layers have 2043")
    if (.not. bad) call expect_text(comm%last_error(), "layer 'fc1.weight': its weights or its gradient are null")
    call optimizer%step(weights(::2), gradients, 0.1_real64, ierr)
    call expect_refused(ierr, comm, "optimizer 'sgd': the array of weights is not contiguous")
    nowhere = c_null_ptr
    call optimizer%step(nowhere, nowhere, 0.1_real64, ierr)
    call expect_refused(ierr, comm, 'there are weights of 5 layers and gradients of 5: it has 4')
    call optimizer%step(nowhere(:4), nowhere(:4), 0.1_real64, c_loc(weights(1)), ierr)
    call expect_status(ierr, WEIR_ERR_ARGUMENT, comm, 'a stream in host memory')
    call optimizer%step(nowhere(:4), nowhere, 0.1_real64, ierr)
    call expect_refused(ierr, comm, "optimizer 'sgd': there are weights of 4 layers and gradients of 5")
  end subroutine
end module
