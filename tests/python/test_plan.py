import array
import asyncio
import ctypes
import gc
import os
import pathlib
import shutil
import signal
import threading
import time
import weakref

import numpy as np
import pytest
from conftest import random_gradient, shared_folder, through_dlpack

import weir
from weir import _handles, _object
from weir._library import lib


def make(comm, count=1000, **keywords):
    return weir.AllreducePlan(comm, count=count, **keywords)


def test_dense_is_the_mean(comm):
    gradient = random_gradient(comm.rank, 999)
    expected = np.mean([random_gradient(rank, 999) for rank in range(comm.size)], axis=0)
    with make(comm, 999, algorithm="dense_ring") as plan:
        plan.run(gradient)
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.each("algorithm")
@pytest.mark.parametrize("algorithm", [row.name for row in weir.algorithms() if row.sparse and row.host_memory])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nothing_is_lost(comm, add, algorithm, dtype):
    count = 2000
    with make(comm, count, algorithm=algorithm, type=dtype, density=0.02) as plan:
        given, delivered = np.zeros(count), np.zeros(count)
        for turn in range(3):
            gradient = random_gradient(comm.rank, count, turn, dtype)
            given += gradient
            result = plan.run_sparse(gradient)
            assert result.indices.dtype == np.uint32 and result.values.dtype == dtype
            delivered[result.indices] += result.values
        begin, values = plan.residual
        kept = np.zeros(count)
        kept[begin : begin + values.size] = values
    np.testing.assert_allclose(add(given), add(kept) + delivered * comm.size, rtol=1e-4, atol=1e-4)


def test_in_place_without_a_copy(comm):
    """The library gets the array's own address, and its results are the plan's own memory."""
    gradient = random_gradient(comm.rank, 1000)
    with make(comm, density=0.1) as plan:
        given = []
        begin = plan._begin
        plan._begin = lambda kind, start, wait_for, arguments, *rest: given.append(arguments[0]) or begin(
            kind, start, wait_for, arguments, *rest
        )
        plan.run(gradient)
        assert given == [gradient.ctypes.data]
        first, again = plan.sparse_result, plan.sparse_result
        assert first.values.ctypes.data == again.values.ctypes.data and first.indices.ctypes.data == again.indices.ctypes.data
        assert not first.values.flags.owndata and not first.values.flags.writeable
        dense = np.zeros(1000, np.float32)
        dense[first.indices] = first.values
        np.testing.assert_array_equal(dense, gradient)


def test_every_kind_of_array(comm):
    arrays = [
        np.ones((4, 5), np.float32),
        np.ones(20, np.float32),
        array.array("f", [1] * 20),
        memoryview(np.ones(20, np.float32)),
        through_dlpack(np.ones(20, np.float32)),
    ]
    with make(comm, 20, algorithm="dense_ring", average=False) as plan:
        for one in arrays:
            plan.run(one)
        assert arrays[0].sum() == 20 * comm.size
        assert arrays[2][3] == arrays[3][3] == comm.size


def test_torch_tensors(comm):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    tensor = torch.ones(20, dtype=torch.float64)
    with make(comm, 20, type=tensor.dtype, algorithm="dense_ring", average=False) as plan:
        assert plan.start(tensor).result() is tensor
        assert tensor.sum() == 20 * comm.size
        with pytest.raises(weir.ArgumentError, match="requires a gradient: give tensor.detach"):
            plan.run(tensor.clone().requires_grad_())
        with pytest.raises(weir.ArgumentError, match="not contiguous: .* tensor.contiguous"):
            plan.run(torch.ones(40, dtype=torch.float64)[::2])
        with pytest.raises(weir.ArgumentError, match="has type float32; the plan takes float64"):
            plan.run(tensor.float())


def test_a_tensor_that_gets_other_memory_during_its_run(comm):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    tensor = torch.ones(1000)
    address = tensor.data_ptr()
    with make(comm, algorithm="dense_ring") as plan:
        operation = plan.start(tensor)
        tensor.data = torch.zeros(1)
        kept = plan._handle().runs["run"].arrays
        assert kept.data_ptr() == address and kept.numel() == 1000
        operation.wait()


def test_operations(comm):
    first, second = random_gradient(comm.rank, 1000), random_gradient(comm.rank, 1000, 1)
    with make(comm, name="one") as one, make(comm, name="two") as two:
        operations = one.start(first), two.start_sparse(second)
        while not operations[0].test():
            pass
        assert operations[0].result() is first
        indices, values = operations[1].result()
        assert len(indices) == len(values) == 10
        assert "finished" in repr(operations[1]) and "two" in repr(operations[1])
        operations[1].wait()
        two.run(second)
        with pytest.raises(weir.StateError, match="the result of this run is gone"):
            operations[1].result()


def test_await(comm):
    async def both():
        with make(comm, name="one") as one, make(comm, 500, name="two") as two:
            operations = one.start(random_gradient(comm.rank, 1000)), two.start_sparse(random_gradient(comm.rank, 500))
            return await asyncio.gather(*operations)

    dense, sparse = asyncio.run(both())
    assert np.count_nonzero(dense) == 10 and len(sparse.values) == 5


def test_arrays_live_as_long_as_their_run(comm):
    with make(comm, 100_000, algorithm="dense_ring") as plan:
        operation = plan.start(random_gradient(comm.rank, 100_000))
        gc.collect()
        assert np.isfinite(operation.result()).all()
        plan.start(random_gradient(comm.rank, 100_000))  # nobody keeps the operation either
        gc.collect()


def test_results_live_longer_than_their_plan(comm):
    with weir.Communicator() as other:
        with weir.AllreducePlan(other, count=1000) as plan:
            indices, values = plan.run_sparse(random_gradient(comm.rank, 1000))
            residual = plan.residual.values
            expected = [indices.copy(), values.copy(), residual.copy()]
        del plan
        for now, then in zip((indices, values, residual), expected):
            np.testing.assert_array_equal(now, then)
        del now, indices, values, residual


def test_counters(comm):
    names = next(a.counters for a in weir.algorithms() if a.name == "oktopk").split(",")
    assert names == ["rethresholded", "global_rethresholded", "recut", "balanced"]
    with make(comm, 10_000, algorithm="oktopk", threshold="reuse", threshold_parameters="period=2") as plan:
        for _ in range(4):
            plan.run(random_gradient(comm.rank, 10_000))
        assert 2 <= plan.counter("rethresholded") <= 4 and all(0 <= plan.counter(name) <= 4 for name in names)
        with pytest.raises(weir.ArgumentError, match="there is no counter 'rounds': plans count rethresholded, global_rethresholded"):
            plan.counter("rounds")
        plan.reset()
        assert plan.counter("rethresholded") == 0


def test_statistics(comm):
    with make(comm, 10_000, density=0.01) as plan:
        plan.run(random_gradient(comm.rank, 10_000))
        statistics = plan.statistics
        assert statistics.iteration == 1 and statistics.k == statistics.selected_global == 100
        assert 0 < statistics.seconds_total < 60
        assert list(statistics.bytes_sent) == list(weir.Level)
        assert sum(statistics.bytes_sent.values()) == statistics.payload_bytes_sent + statistics.control_bytes_sent
        assert repr(statistics).startswith("Statistics(iteration=1, k=100,")
        assert "<td" in statistics._repr_html_() and "seconds_total" in str(statistics)


def test_configuration(comm):
    with make(
        comm, 1000, threshold="reuse", wire_values=weir.WireValues.bfloat16, type=np.float32, name="named", average=False
    ) as plan:
        config = plan.config
        assert (config.count, config.threshold, config.wire_values, config.name) == (
            1000,
            "reuse",
            weir.WireValues.bfloat16,
            "named",
        )
        assert config.average is False and config.type is weir.DataType.float32
        assert "threshold='reuse'" in repr(config)
        with weir.AllreducePlan.from_config(comm, config) as same:
            assert same.config == config
        assert plan.memory_bytes > 4000
        assert repr(plan) == "<weir.AllreducePlan 'named': 1000 float32>"


def test_explanation(comm):
    with make(comm, 1000, algorithm="auto") as plan:
        assert "auto of 1000 float32" in plan.explanation() and repr(plan.explanation()) == str(plan.explanation())


def test_saved_states(comm):
    gradients = [random_gradient(comm.rank, 1000, turn) for turn in range(4)]
    with make(comm, threshold="reuse") as one, make(comm, threshold="reuse") as two:
        for gradient in gradients[:2]:
            one.run(gradient.copy())
        state = one.save_state()
        assert isinstance(state, bytes)
        two.restore_state(state)
        for gradient in gradients[2:]:
            first, second = gradient.copy(), gradient.copy()
            one.run(first)
            two.run(second)
            np.testing.assert_array_equal(first, second)
        for bad in (state[:-1], b"", state[:50] + bytes([state[50] ^ 1]) + state[51:]):
            with pytest.raises(weir.ArgumentError):
                two.restore_state(bad)
        with pytest.raises(weir.ArgumentError, match="type str: give the bytes"):
            two.restore_state("state")
        kept = two.residual.values.copy()
        two.scale_residual(0.25)
        np.testing.assert_array_equal(two.residual.values, kept / 4)
        with pytest.raises(weir.ArgumentError, match="cannot be scaled by 0: the factor must be positive and finite as float32"):
            two.scale_residual(0)
        with pytest.raises(weir.ArgumentError, match="factor is 'x': it must be a number"):
            two.scale_residual("x")
        two.reset()
        assert two.statistics.iteration == 0 and not two.residual.values.any()


BAD = {
    "a list": (lambda: [0.0] * 1000, "type list: give a NumPy array"),
    "None": (lambda: None, "type NoneType"),
    "another type": (lambda: np.zeros(1000), "has type float64; the plan takes float32"),
    "integers": (lambda: np.zeros(1000, np.int32), "has type int32"),
    "another byte order": (lambda: np.zeros(1000, ">f4"), "has type >f4"),
    "gaps": (lambda: np.zeros(2000, np.float32)[::2], "not contiguous: .* numpy.ascontiguousarray"),
    "Fortran's order": (lambda: np.zeros((20, 50), np.float32, order="F"), "not contiguous"),
    "read-only": (lambda: np.frombuffer(bytes(4000), np.float32), "read-only"),
    "too short": (lambda: np.zeros(999, np.float32), "has 999 elements; the plan takes 1000"),
    "too long": (lambda: np.zeros(1001, np.float32), "has 1001 elements"),
    "masked": (lambda: np.ma.array(np.zeros(1000, np.float32), mask=[True] + [False] * 999), "has masked elements"),
    "bytes": (lambda: bytearray(4000), "has type uint8"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_arrays_of_one_rank(comm, what):
    """Every rank gets an error, the one with the bad array its own text, and the plan goes on."""
    bad, text = BAD[what]
    culprit = comm.size - 1
    mine = bad() if comm.rank == culprit else np.zeros(1000, np.float32)
    expected = text if comm.rank == culprit else f"rank {culprit} gave a null gradient"
    with make(comm) as plan:
        with pytest.raises(weir.ArgumentError, match=expected) as caught:
            plan.run(mine)
        assert caught.value.status is weir.Status.ARGUMENT and isinstance(caught.value, ValueError)
        operation = plan.start(mine)
        for _ in range(2):
            with pytest.raises(weir.ArgumentError, match=expected):
                operation.result()
        gradient = random_gradient(comm.rank, 1000)
        plan.run(gradient)
        assert np.count_nonzero(gradient) == 10


@pytest.mark.parametrize(
    "stream, text", [("x", "stream is 'x': it must be a whole number"), (1.5, "stream is 1.5"), (2**70, "64 bits")]
)
def test_a_bad_stream_of_one_rank(comm, stream, text):
    keywords = {"stream": stream} if comm.rank == 0 else {}
    with make(comm) as plan:
        for call in (plan.run, plan.run_sparse, lambda *given, **more: plan.start(*given, **more).wait()):
            with pytest.raises(weir.ArgumentError, match=text if comm.rank == 0 else "rank 0 gave a null gradient"):
                call(random_gradient(comm.rank, 1000), **keywords)


def test_a_plan_of_nothing(comm):
    """What has no elements has none of a wrong type."""
    with make(comm, 0) as plan:
        plan.run(np.empty(0, np.float64 if comm.rank == 0 else np.float32))


def test_a_read_only_gradient_will_do_for_a_sparse_result(comm):
    gradient = random_gradient(comm.rank, 1000)
    gradient.flags.writeable = False
    with make(comm) as plan:
        assert len(plan.run_sparse(gradient).indices) == 10


def test_memory_that_is_not_aligned(comm):
    shifted = np.zeros(4001, np.uint8)[1:].view(np.float32)
    with make(comm) as plan:
        with pytest.raises(weir.ArgumentError, match="not aligned"):
            plan.run(shifted if comm.rank == 0 else np.zeros(1000, np.float32))


def test_nan(comm):
    gradient = random_gradient(comm.rank, 1000)
    gradient[7] = np.nan if comm.rank == 0 else 0
    with make(comm) as plan:
        with pytest.raises(weir.NonFiniteError) as caught:
            plan.run(gradient)
        assert caught.value.status is weir.Status.NON_FINITE


def test_an_error_that_nobody_has_waited_for(comm):
    """The next start is refused, and the error stays with its operation."""
    gradient = np.full(1000, np.nan, np.float32)
    with make(comm) as plan, make(comm) as other:
        operation = plan.start(gradient)
        other.run(random_gradient(comm.rank, 1000))  # gets on with all that is in flight
        with pytest.raises(weir.BusyError, match="has a run in flight"):
            plan.start(gradient)
        errors = []
        for _ in range(2):
            with pytest.raises(weir.NonFiniteError) as caught:
                operation.wait()
            errors.append(caught.value)
        assert errors[0] is errors[1]
        plan.run(random_gradient(comm.rank, 1000))


@pytest.mark.parametrize(
    "keywords, text",
    [
        ({"density": 2}, "density is 2"),
        ({"threshold": "fast"}, "there is no threshold 'fast': known are exact, reuse"),
        ({"count": 2**70}, "count is .*: it must fit into 64 bits"),
        ({"count": 1.5}, "count is 1.5: it must be a whole number"),
        ({"seed": 2**31}, "seed is 2147483648: it must fit into 32 bits"),
        ({"density": 10**400}, "density is a number that no double can hold"),
        ({"density": "much"}, "density is 'much': it must be a number"),
        ({"name": "a\0b"}, "without null characters"),
        ({"algorithm": "quick"}, "known are dense_ring"),
        ({"type": np.int32}, "type is 'int32': it must be one of float32"),
        ({"memory": "disk"}, "memory is 'disk': it must be one of host, cuda"),
        ({"wire_format": "fast"}, "wire_format is 'fast': it must be one of compact, coo"),
        ({"wire_format": weir.DataType.float64}, "wire_format is DataType.float64: it must be one of weir.WireFormat: compact, coo"),
        ({"type": weir.ElementType.float32}, "type is ElementType.float32: it must be one of weir.DataType: float32"),
        ({"algorithm_parameters": "radix=128"}, "radix of oktopk is '128': it must be a whole number from 0 to 64"),
        ({"algorithm": "gtopk", "algorithm_parameters": "radix=4"}, "gtopk has no parameter 'radix': it has none"),
    ],
)
def test_bad_configurations_of_one_rank(comm, keywords, text):
    mine = keywords if comm.rank == 0 else {}
    with pytest.raises(weir.ArgumentError, match=text if comm.rank == 0 else f"plan 'allreduce', rank 0: .*{text}"):
        weir.AllreducePlan(comm, **{"count": 1000, **mine})


@pytest.mark.parametrize(
    "keywords, text",
    [
        ({"count": 1000, "desnity": 0.1}, r"AllreducePlan\(\) has no keyword 'desnity': did you mean 'density'\?"),
        ({"count": 1000, "colour": 3}, r"AllreducePlan\(\) has no keyword 'colour'$"),
        ({"density": 0.1}, r"AllreducePlan\(\) needs the keyword 'count'"),
    ],
)
def test_wrong_keywords(comm, keywords, text):
    with pytest.raises(TypeError, match=text):
        weir.AllreducePlan(comm, **keywords)
    with pytest.raises(TypeError if comm.rank == 0 else weir.ArgumentError, match=text if comm.rank == 0 else f"rank 0: {text}"):
        weir.AllreducePlan(comm, **(keywords if comm.rank == 0 else {"count": 1000}))


def test_wrong_arguments_of_one_rank(comm):
    with pytest.raises(TypeError if comm.rank == 0 else weir.ArgumentError, match="too many" if comm.rank == 0 else "rank 0: .* too many"):
        weir.AllreducePlan(comm, *([1000] if comm.rank == 0 else []), count=1000)
    with make(comm) as plan:
        config = plan.config
    with pytest.raises(weir.ArgumentError, match=f"{'' if comm.rank == 0 else 'rank 0: '}.*NoneType: give a weir.AllreduceConfig"):
        weir.AllreducePlan.from_config(comm, None if comm.rank == 0 else config)


def test_ranks_that_disagree(comm):
    if comm.size == 1:
        pytest.skip("one rank cannot disagree with itself")
    with pytest.raises(weir.MismatchError, match="count"):
        make(comm, 1000 + comm.rank)


def test_a_run_in_flight(comm):
    gradient, other = random_gradient(comm.rank, 100_000), random_gradient(comm.rank, 100_000)
    with make(comm, 100_000, name="same", algorithm_parameters="schedule=direct") as plan:  # one round may end at once
        operation = plan.start(gradient)
        if comm.size > 1:
            with pytest.raises(weir.BusyError, match=r"plan 'same' has a run in flight: wait for its operation, or call wait\(\)"):
                plan.start(other)
            with pytest.raises(weir.BusyError):
                plan.save_state()
        assert operation.result() is gradient


def test_closing_finishes_what_is_in_flight(comm):
    plan = make(comm, 100_000, name="short-lived")
    operation = plan.start(random_gradient(comm.rank, 100_000))
    plan.close()
    with pytest.raises(weir.StateError, match="closed before this call was waited for"):
        operation.wait()
    with pytest.raises(weir.StateError, match="plan 'short-lived' is closed"):
        plan.run(np.zeros(100_000, np.float32))


def test_a_refused_start_leaves_the_run_in_flight_alone(comm):
    if comm.size == 1:
        pytest.skip("one rank waits for nobody")
    gradient = random_gradient(comm.rank, 1000)
    with make(comm, name="first") as plan, make(comm, 1, algorithm="dense_ring", name="gate") as gate:
        if comm.rank == 0:
            operation = plan.start(gradient)
            with pytest.raises(weir.BusyError):
                plan.start(gradient)
            assert not operation.test()
            gate.run(np.zeros(1, np.float32))
            operation.wait()
        else:
            gate.run(np.zeros(1, np.float32))
            plan.run(gradient)
    assert np.count_nonzero(gradient) == 10


def is_destroyed(pointer):
    return lib.weir_plan_memory_bytes(pointer, ctypes.c_int64()) == weir.Status.ARGUMENT


def test_closing_ends_it_whoever_refers_to_it(comm):
    """Such as the traceback of an exception."""
    plan = make(comm, 100_000)
    handle = plan._handle()
    pointer = handle.pointer
    plan.start(random_gradient(comm.rank, 100_000))
    assert not is_destroyed(pointer)
    plan.close()
    assert is_destroyed(pointer)


def test_closing_with_results_about_finishes_what_is_in_flight(comm):
    plan = make(comm, 1000)
    result = plan.run_sparse(random_gradient(comm.rank, 1000))
    gradient = random_gradient(comm.rank, 1000)
    operation = plan.start(gradient)
    plan.close()
    operation.wait()
    assert len(result.values) == np.count_nonzero(gradient) == 10


def test_closing_while_another_thread_waits(comm):
    """It is refused, and so is the communicator's end; nothing has changed."""
    with weir.Communicator() as other, weir.AllreducePlan(other, count=1000) as plan:
        other._handle.enter()  # as a call does
        other._handle.user = 0  # which is another thread
        for close in (plan.close, other.close):
            with pytest.raises(weir.BusyError, match="one thread at a time"):
                close()
        other._handle.lock.release()
        gradient = random_gradient(comm.rank, 1000)
        plan.run(gradient)
        assert np.count_nonzero(gradient) == 10


def interrupted_after(function):
    """Ctrl-C comes while C is in it, which Python notices as it returns."""

    def call(*arguments):
        function(*arguments)
        raise KeyboardInterrupt

    return call


def interrupted_before(function):
    def call(*arguments):
        raise KeyboardInterrupt

    return call


@pytest.mark.parametrize("algorithm", ["oktopk", "dense_ring"])
@pytest.mark.parametrize("interrupted", [interrupted_before, interrupted_after])
def test_ctrl_c_around_a_start(comm, monkeypatch, algorithm, interrupted):
    """The array in flight stays alive, and the call may be waited for, whether C has heard of it or not."""
    begin = _handles.Run.begin
    with make(comm, algorithm=algorithm) as plan:
        with monkeypatch.context() as patch:
            for call in (plan.run, plan.start):
                gradient = random_gradient(comm.rank, 1000)
                alive = weakref.ref(gradient)
                patch.setattr(_handles.Run, "begin", interrupted(begin))
                try:
                    call(gradient)
                except KeyboardInterrupt:
                    pass
                patch.setattr(_handles.Run, "begin", begin)
                del gradient
                gc.collect()
                assert alive() is not None
                plan.wait()
                assert alive() is None
        plan.wait()
        plan.run(random_gradient(comm.rank, 1000))
        assert plan.statistics.iteration == 3


def test_ctrl_c_as_a_plan_is_made(comm, monkeypatch):
    """It ends with its communicator."""
    with weir.Communicator() as other:
        with monkeypatch.context() as patch:
            patch.setitem(_object.CREATE, "plan", interrupted_after(_object.CREATE["plan"]))
            with pytest.raises(KeyboardInterrupt) as caught:
                weir.AllreducePlan(other, count=10)
        assert other._handle.living == 1
        other.close()
        assert other._handle.living == 0 and other._handle.pointer is None
        del caught


def test_forks_are_refused(comm):
    """What a child of a rank sends, the other ranks would take for its parent's."""
    gradient = random_gradient(comm.rank, 1000)
    with make(comm) as plan:
        child = os.fork()
        if child == 0:
            refused = 0
            for call in (lambda: plan.run(gradient), weir.Communicator, lambda: make(comm), comm.stragglers):
                try:
                    call()
                except weir.StateError as error:
                    refused += "forked from a rank" in str(error)
            plan.close()
            comm.close()
            os._exit(refused)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
        plan.run(gradient)
        assert np.count_nonzero(gradient) == 10


@pytest.mark.parametrize("started", [True, False])
def test_ctrl_c_ends_a_wait(comm, started):
    """Rank 0 waits for peers that wait for it to be interrupted. It may wait again, by the plan where it holds no operation."""
    if comm.size == 1:
        pytest.skip("one rank waits for nobody")
    gradient = random_gradient(comm.rank, 1000)
    with make(comm, name="interrupted") as plan, make(comm, 1, algorithm="dense_ring", name="gate") as gate:
        if comm.rank == 0:
            operation = plan.start(gradient) if started else None
            threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            with pytest.raises(KeyboardInterrupt):
                operation.wait() if operation else plan.run(gradient)
            with pytest.raises(weir.BusyError):
                plan.run(gradient)
            gate.run(np.zeros(1, np.float32))
            (operation or plan).wait()
        else:
            gate.run(np.zeros(1, np.float32))
            plan.run(gradient)
    assert np.count_nonzero(gradient) == 10


def test_other_threads_run_during_a_wait(comm, monkeypatch):
    """The interpreter is free while the library works, within a slice, too."""
    if comm.size == 1:
        pytest.skip("one rank waits for nobody")
    monkeypatch.setattr(weir._handles, "SLICE", 60.0)
    folder = pathlib.Path(shared_folder(comm))
    ran, gradient = folder / "ran", random_gradient(comm.rank, 1000)
    with make(comm) as plan:
        if comm.rank == 0:
            thread = threading.Timer(0.1, ran.touch)  # during the wait: the others come only then
            thread.start()
            plan.run(gradient)
            thread.join()
            shutil.rmtree(folder)
        else:
            end = time.monotonic() + 20
            while not ran.exists() and time.monotonic() < end:
                time.sleep(0.001)
            assert ran.exists(), "no other thread of rank 0 ran while it waited"
            plan.run(gradient)


def test_what_a_wait_takes_is_counted(comm):
    """However often Python looks for signals in between."""
    if comm.size == 1:
        pytest.skip("one rank waits for nobody")
    with make(comm) as plan:
        for gap in (0, 0.5):
            if comm.rank == comm.size - 1:
                time.sleep(gap)
            begin = time.perf_counter()
            plan.start(random_gradient(comm.rank, 1000)).wait()
            taken = time.perf_counter() - begin
            assert plan.statistics.seconds_waited <= taken
        if comm.rank == 0:
            assert plan.statistics.seconds_waited > 0.4


def test_a_run_that_nobody_waits_for_is_refused_alike(comm):
    with make(comm) as plan:
        operation = plan.start(random_gradient(comm.rank, 1000))
        if comm.rank == 0:
            time.sleep(0.1)
        with pytest.raises(weir.BusyError, match="has a run in flight: wait for its operation, or call wait"):
            plan.start(random_gradient(comm.rank, 1000))
        operation.wait()
        plan.start(random_gradient(comm.rank, 1000))  # an operation that nobody keeps
        plan.wait()
        plan.start(random_gradient(comm.rank, 1000)).wait()


def test_a_plan_dropped_in_another_thread(comm):
    """It is destroyed there, or by the next call where the communicator is in use."""
    plans = [make(comm, name="dropped")]
    comm._handle.enter()
    thread = threading.Thread(target=plans.clear)
    thread.start()
    thread.join()
    comm._handle.lock.release()
    assert len(comm._handle.left) == 1
    comm.group("self")
    assert not comm._handle.left
