import array
import asyncio
import ctypes
import gc
import os
import pathlib
import signal
import threading
import time
import weakref

import numpy as np
import pytest
from conftest import is_last, of_last, random_gradient, refused, through_dlpack

import weir
from weir import _handles
from weir._library import lib

def make(comm, count=1000, **keywords):
    return weir.AllreducePlan(comm, count=count, **keywords)


def gradient_of(comm, turn=0):
    return random_gradient(comm.rank, 1000, turn)


@pytest.fixture
def peers(comm):
    if comm.size == 1:
        pytest.skip("one rank waits for nobody")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_results_and_residuals(comm, add, dtype):
    """The ranks' gradients equal the delivered updates plus the residuals, in arrays of the plan's type."""
    with make(comm, type=dtype, algorithm="gtopk", density=0.02) as plan:
        gradient = random_gradient(comm.rank, 1000, 0, dtype)
        indices, values = plan.run_sparse(gradient)
        begin, residual = plan.residual
        assert indices.dtype == np.uint32 and values.dtype == residual.dtype == dtype
        delivered, kept = np.zeros(1000), np.zeros(1000)
        delivered[indices] = values
        kept[begin : begin + residual.size] = residual
        np.testing.assert_allclose(add(gradient), add(kept) + delivered * comm.size, rtol=1e-4, atol=1e-4)
        plan.scale_residual(0.25)
        np.testing.assert_array_equal(plan.residual.values, kept[kept.size - residual.size :].astype(dtype) / 4)
        for factor, text in ((0, "cannot be scaled by 0"), ("x", "factor is 'x': it must be a number")):
            with pytest.raises(weir.ArgumentError, match=text):
                plan.scale_residual(factor)
        plan.reset()
        assert plan.statistics.iteration == 0 and not plan.residual.values.any()


def test_in_place_without_a_copy(comm):
    """The library gets the array's own address, and its results are the plan's own memory."""
    gradient = gradient_of(comm)
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
    ones = np.ones(20, np.float32)
    arrays = [ones.reshape(4, 5).copy(), ones.copy(), array.array("f", ones), memoryview(ones.copy()), through_dlpack(ones)]
    with make(comm, 20, algorithm="dense_ring", average=False) as plan:
        for one in arrays:
            plan.run(one)
        assert arrays[0].sum() == 20 * comm.size and arrays[2][3] == arrays[3][3] == ones[3] == comm.size
    with make(comm, 0) as plan:  # what has no elements has none of a wrong type
        plan.run(np.empty(0, of_last(comm, np.float64, np.float32)))
    frozen = gradient_of(comm)
    frozen.flags.writeable = False
    with make(comm) as plan:  # will do for a sparse result
        assert len(plan.run_sparse(frozen).indices) == 10


def test_torch_tensors(comm):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    tensor = torch.ones(20, dtype=torch.float64)
    with make(comm, 20, type=tensor.dtype, algorithm="dense_ring", average=False) as plan:
        assert plan.start(tensor).result() is tensor
        assert tensor.sum() == 20 * comm.size
        for bad, text in (
            (tensor.clone().requires_grad_(), "requires a gradient: give tensor.detach"),
            (torch.ones(40, dtype=torch.float64)[::2], "not contiguous: .* tensor.contiguous"),
            (tensor.float(), "has type float32; the plan takes float64"),
        ):
            with pytest.raises(weir.ArgumentError, match=text):
                plan.run(bad)
        address, operation = tensor.data_ptr(), plan.start(tensor)
        tensor.data = torch.zeros(1)  # other memory during its run
        kept = plan._handle().runs["run"].arrays
        assert kept.data_ptr() == address and kept.numel() == 20
        operation.wait()


def test_operations(comm):
    first, second = gradient_of(comm), gradient_of(comm, 1)
    with make(comm, name="one") as one, make(comm, name="two") as two:
        operations = one.start(first), two.start_sparse(second)
        while not operations[0].test():
            pass
        assert operations[0].result() is first and len(operations[1].result().values) == 10
        assert "finished" in repr(operations[1]) and "two" in repr(operations[1])
        operations[1].wait()
        two.run(second)
        with pytest.raises(weir.StateError, match="the result of this run is gone"):
            operations[1].result()

        async def both():
            return await asyncio.gather(one.start(gradient_of(comm)), two.start_sparse(gradient_of(comm)))

        dense, sparse = asyncio.run(both())
        assert np.count_nonzero(dense) == 10 and len(sparse.values) == 10


def test_lifetimes(comm):
    """Arrays live as long as their run, even if the program drops the operation, and results longer than their plan."""
    with weir.Communicator() as other:
        with weir.AllreducePlan(other, count=1000) as plan:
            operation = plan.start(gradient_of(comm))
            gc.collect()
            assert np.isfinite(operation.result()).all()
            indices, values = plan.run_sparse(gradient_of(comm))
            residual = plan.residual.values
            expected = [indices.copy(), values.copy(), residual.copy()]
        del plan
        for now, then in zip((indices, values, residual), expected):
            np.testing.assert_array_equal(now, then)
        del now, indices, values, residual
    with make(comm) as plan:
        plan.start(gradient_of(comm))  # the operation is dropped
        gc.collect()
        plan.wait()


def test_queries(comm):
    with make(comm, threshold="reuse", wire_values=weir.WireValues.bfloat16, type=np.float32, name="named", average=False) as plan:
        plan.run(gradient_of(comm))
        config, statistics = plan.config, plan.statistics
        assert (config.count, config.threshold, config.wire_values) == (1000, "reuse", weir.WireValues.bfloat16)
        assert config.average is False and config.type is weir.DataType.float32 and "threshold='reuse'" in repr(config)
        assert plan.memory_bytes > 4000 and repr(plan) == "<weir.AllreducePlan 'named': 1000 float32>"
        assert statistics.iteration == 1 and statistics.k == 10 and 0 < statistics.seconds_total < 60
        assert list(statistics.bytes_sent) == list(weir.Level)
        assert sum(statistics.bytes_sent.values()) == statistics.payload_bytes_sent + statistics.control_bytes_sent
        assert repr(statistics).startswith("Statistics(iteration=1, k=10,")
        assert "<td" in statistics._repr_html_() and "seconds_total" in str(statistics)
        names = next(a.counters for a in weir.algorithms() if a.name == "oktopk").split(",")
        assert all(0 <= plan.counter(name) <= 1 for name in names)
        for name, text in (("rounds", "there is no counter 'rounds': plans count rethresholded"), (5, "name is 5")):
            with pytest.raises(weir.ArgumentError, match=text):
                plan.counter(name)


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
    "masked": (lambda: np.ma.array(np.zeros(1000, np.float32), mask=[True] + [False] * 999), "has masked elements"),
    "bytes": (lambda: bytearray(4000), "has type uint8"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_arrays_of_one_rank(comm, what):
    """Every rank gets an error, the rank with the bad array its own text, and the plan still works."""
    bad, text = BAD[what]
    mine = bad() if is_last(comm) else np.zeros(1000, np.float32)
    with make(comm) as plan:
        with refused(comm, text, f"rank {comm.size - 1} gave a null gradient") as caught:
            plan.run(mine)
        assert caught.value.status is weir.Status.ARGUMENT and isinstance(caught.value, ValueError)
        operation = plan.start(mine)
        for _ in range(2):
            with refused(comm, text):
                operation.result()
        gradient = gradient_of(comm)
        plan.run(gradient)
        assert np.count_nonzero(gradient) == 10


@pytest.mark.parametrize("stream, text", [("x", "stream is 'x': it must be a whole"), (1.5, "stream is 1.5"), (2**70, "64 bits")])
def test_a_bad_stream_of_one_rank(comm, stream, text):
    with make(comm) as plan:
        for call in (plan.run, plan.run_sparse, lambda *given, **more: plan.start(*given, **more).wait()):
            with refused(comm, text, f"rank {comm.size - 1} gave a null gradient"):
                call(gradient_of(comm), **of_last(comm, {"stream": stream}, {}))


def test_an_error_that_nobody_has_waited_for(comm):
    """The next start is refused, and the error stays with its operation."""
    gradient = np.full(1000, np.nan, np.float32)
    with make(comm) as plan, make(comm) as other:
        operation = plan.start(gradient)
        other.run(gradient_of(comm))  # gets on with all that is in flight
        with pytest.raises(weir.BusyError, match=r"has a run in flight: wait for its operation, or call wait\(\)"):
            plan.start(gradient)
        errors = []
        for _ in range(2):
            with pytest.raises(weir.NonFiniteError) as caught:
                operation.wait()
            errors.append(caught.value)
        assert errors[0] is errors[1] and errors[0].status is weir.Status.NON_FINITE
        plan.run(gradient_of(comm))


@pytest.mark.parametrize(
    "keywords, text",
    [
        ({"count": 2**70}, "count is .*: it must fit into 64 bits"),
        ({"count": 1.5}, "count is 1.5: it must be a whole number"),
        ({"seed": 2**31}, "seed is 2147483648: it must fit into 32 bits"),
        ({"density": 10**400}, "density is a number that no double can hold"),
        ({"density": "much"}, "density is 'much': it must be a number"),
        ({"name": "a\0b"}, "without null characters"),
        ({"algorithm": "quick"}, "known are dense_ring"),
        ({"type": np.int32}, "type is 'int32': it must be one of float32"),
        ({"memory": "disk"}, "memory is 'disk': it must be one of host, cuda"),
        ({"wire_format": weir.DataType.float64}, "wire_format is DataType.float64: it must be one of weir.WireFormat"),
    ],
)
def test_bad_configurations_of_one_rank(comm, keywords, text):
    with refused(comm, text, f"plan 'allreduce', rank {comm.size - 1}: .*{text}"):
        weir.AllreducePlan(comm, **{"count": 1000, **of_last(comm, keywords, {})})


def test_what_a_configuration_needs(comm):
    for keywords, text in (({"count": 9, "hue": 3}, r"has no keyword 'hue'$"), ({"density": 0.1}, "needs the keyword 'count'")):
        with pytest.raises(TypeError if is_last(comm) else weir.ArgumentError, match=rf"AllreducePlan\(\) {text}"):
            weir.AllreducePlan(comm, **of_last(comm, keywords, {"count": 1000}))
    if comm.size > 1:
        with pytest.raises(weir.MismatchError, match="count"):
            make(comm, 1000 + comm.rank)


def is_destroyed(pointer):
    return lib.weir_plan_memory_bytes(pointer, ctypes.c_int64()) == weir.Status.ARGUMENT


def test_closing_finishes_what_is_in_flight(comm):
    """It also ends a plan that something still refers to, such as the traceback of an exception."""
    plan = make(comm, name="short-lived")
    handle = plan._handle()
    pointer = handle.pointer
    operation = plan.start(gradient_of(comm))
    assert not is_destroyed(pointer)
    plan.close()
    assert is_destroyed(pointer)
    with pytest.raises(weir.StateError, match="closed before this call was waited for"):
        operation.wait()
    plan = make(comm)
    result = plan.run_sparse(gradient_of(comm))  # which is still there
    gradient = gradient_of(comm)
    operation = plan.start(gradient)
    plan.close()
    operation.wait()
    assert len(result.values) == np.count_nonzero(gradient) == 10


def test_a_refused_start_leaves_the_run_in_flight_alone(comm, peers):
    gradient = gradient_of(comm)
    with make(comm, name="first") as plan, make(comm, 1, algorithm="dense_ring", name="gate") as gate:
        if comm.rank == 0:
            operation = plan.start(gradient)
            for call in (lambda: plan.start(gradient), plan.save_state):
                with pytest.raises(weir.BusyError):
                    call()
            assert not operation.test()
            gate.run(np.zeros(1, np.float32))
            operation.wait()
        else:
            gate.run(np.zeros(1, np.float32))
            plan.run(gradient)
    assert np.count_nonzero(gradient) == 10


def test_closing_while_another_thread_waits(comm):
    """It is refused, and so is the communicator's end; nothing has changed."""
    with weir.Communicator() as other, weir.AllreducePlan(other, count=1000) as plan:
        other._handle.enter()  # as a call does
        other._handle.user = 0  # which is another thread
        for close in (plan.close, other.close):
            with pytest.raises(weir.BusyError, match="one thread at a time"):
                close()
        other._handle.lock.release()
        plan.run(gradient_of(comm))


@pytest.mark.parametrize("algorithm", ["oktopk", "dense_ring"])
@pytest.mark.parametrize("before", [True, False])
def test_ctrl_c_around_a_start(comm, monkeypatch, algorithm, before):
    """The array in flight stays alive, and the program may wait for the call, even if it has not reached C."""
    begin = _handles.Run.begin

    def interrupted(run):
        if not before:
            begin(run)
        raise KeyboardInterrupt

    with make(comm, algorithm=algorithm) as plan:
        with monkeypatch.context() as patch:
            for call in (plan.run, plan.start):
                gradient = gradient_of(comm)
                alive = weakref.ref(gradient)
                patch.setattr(_handles.Run, "begin", interrupted)
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
        plan.run(gradient_of(comm))
        assert plan.statistics.iteration == 3


def test_forks_are_refused(comm):
    """Calls in a child process are refused, because other ranks would take its messages for its parent's."""
    gradient = gradient_of(comm)
    with make(comm) as plan:
        child = os.fork()
        if child == 0:
            refusals = 0
            for call in (lambda: plan.run(gradient), weir.Communicator, lambda: make(comm), comm.stragglers):
                try:
                    call()
                except weir.StateError as error:
                    refusals += "forked from a rank" in str(error)
            plan.close()
            comm.close()
            os._exit(refusals)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
        plan.run(gradient)
        assert np.count_nonzero(gradient) == 10


@pytest.mark.parametrize("started", [True, False])
def test_ctrl_c_ends_a_wait(comm, peers, started):
    """Rank 0 waits for peers that wait for it to be interrupted. It may wait again, by the plan where it holds no operation."""
    gradient = gradient_of(comm)
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


def test_other_threads_run_during_a_wait(comm, peers, folder, monkeypatch):
    """The interpreter is free while the library works, within a slice, too."""
    monkeypatch.setattr(weir._handles, "SLICE", 60.0)
    ran, gradient = pathlib.Path(folder) / "ran", gradient_of(comm)
    with make(comm) as plan:
        if comm.rank == 0:
            thread = threading.Timer(0.1, ran.touch)  # during the wait: the others come only then
            thread.start()
            plan.run(gradient)
            thread.join()
        else:
            end = time.monotonic() + 20
            while not ran.exists() and time.monotonic() < end:
                time.sleep(0.001)
            assert ran.exists(), "no other thread of rank 0 ran while it waited"
            plan.run(gradient)


def test_what_a_wait_takes_is_counted(comm, peers):
    """However often Python looks for signals in between."""
    with make(comm) as plan:
        for gap in (0, 0.5):
            if is_last(comm):
                time.sleep(gap)
            begin = time.perf_counter()
            plan.start(gradient_of(comm)).wait()
            assert plan.statistics.seconds_waited <= time.perf_counter() - begin
        if comm.rank == 0:
            assert plan.statistics.seconds_waited > 0.4


def test_a_plan_dropped_in_another_thread(comm):
    """It is destroyed there, or by the next call if the communicator is in use."""
    plans = [make(comm, name="dropped")]
    comm._handle.enter()
    thread = threading.Thread(target=plans.clear)
    thread.start()
    thread.join()
    comm._handle.lock.release()
    assert len(comm._handle.left) == 1
    comm.group("self")
    assert not comm._handle.left
