import gc
import os
import signal
import threading
import time
import weakref

import numpy as np
import pytest
from conftest import is_last, of_last, random_gradient, refused, through_dlpack

import weir

SIZES = {"encoder.weight": 3000, "decoder.weight": 800, "decoder.bias": 9, "unused.weight": 200}
TENSORS = [
    weir.FusedTensor(name="encoder.weight", count=3000, k=20),
    weir.FusedTensor(name="decoder.weight", count=800),
    weir.FusedTensor(name="decoder.bias", count=9, dense=True),
    weir.FusedTensor(name="unused.weight", count=200, optional=True),
]


def make(comm, tensors=TENSORS, **keywords):
    return weir.FusedAllreduce(comm, tensors, **{"density": 0.05, "buffer_bytes": 16384, **keywords})


def gradients_of(rank, dtype=np.float32):
    return {name: random_gradient(rank, count, number, dtype) for number, (name, count) in enumerate(SIZES.items())}


def hand_in(fused, gradients):
    for name, gradient in reversed(gradients.items()):
        fused.ready(name, gradient)


def run(comm, fused):
    gradients = gradients_of(comm.rank)
    hand_in(fused, gradients)
    fused.wait_all()
    assert np.count_nonzero(gradients["encoder.weight"]) >= 20


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_calls(comm, add, dtype):
    """The ranks' gradients equal the delivered updates plus the residuals."""
    with make(comm, scheme="ahead_inter", type=dtype, algorithm="topk_allgather") as fused:
        gradients = gradients_of(comm.rank, dtype)
        given = {name: gradient.copy() for name, gradient in gradients.items()}
        fused.skip("unused.weight", gradients.pop("unused.weight"))
        hand_in(fused, gradients)
        with pytest.raises(weir.BusyError, match="within an iteration"):
            fused.residual(0)
        fused.progress()
        fused.wait("decoder.weight")
        while not fused.test(2):
            pass
        fused.wait_all()
        for name, gradient in gradients.items():
            residual = fused.residual(name)
            kept = residual if residual.size else np.zeros(SIZES[name])
            assert residual.dtype == dtype and residual.size == (0 if name == "decoder.bias" else SIZES[name])
            np.testing.assert_allclose(add(given[name]), add(kept) + gradient * comm.size, rtol=1e-4, atol=1e-4)
        statistics, kept = fused.statistics, fused.residual("encoder.weight").copy()
        assert statistics.iteration == 1 and statistics.exchanges >= 1 and statistics.tensors_skipped == 1
        fused.scale_residuals(2)
        np.testing.assert_array_equal(fused.residual("encoder.weight"), 2 * kept)
        with pytest.raises(weir.ArgumentError, match="factor is None: it must be a number"):
            fused.scale_residuals(None)
        fused.reset()
        assert fused.statistics.iteration == 0 and not fused.residual("encoder.weight").any()


def test_what_it_says_of_itself(comm):
    with make(comm, scheme="ahead_inter", name="model", algorithm="auto") as fused:
        assert repr(fused) == "<weir.FusedAllreduce 'model': 4 tensors, 4009 float32>"
        assert [tensor.name for tensor in fused.tensors] == list(SIZES) and fused.tensors[0] == TENSORS[0]
        assert fused.config.scheme is weir.FusionScheme.ahead_inter and fused.config.algorithm != "auto"
        assert fused.buffer_of("decoder.bias") == fused.buffer_of(2) >= 0
        for call in (fused.residual, fused.buffer_of):
            for tensor, text in (("decoder.bia", "decoder.bias"), (-1, "numbered 0 to 3")):
                with pytest.raises(weir.ArgumentError, match=text):
                    call(tensor)
    with make(comm, scheme="ahead") as fused:
        assert fused.buffer_of("encoder.weight") == -1


def test_every_way_to_name_tensors(comm):
    arrays = {name: np.zeros((count, 1), np.float32) for name, count in SIZES.items()}
    for tensors in (SIZES, list(SIZES.items()), arrays, iter(SIZES.items())):
        with make(comm, tensors) as fused:
            assert {tensor.name: tensor.count for tensor in fused.tensors} == SIZES
    with make(comm, []) as fused:
        fused.wait_all()


def test_every_kind_of_array(comm):
    with make(comm, {"empty": 0, "all": 20}, density=1.0, average=False) as fused:
        for kind in (lambda array: array.reshape(4, 5), memoryview, through_dlpack):
            array = np.ones(20, np.float32)
            fused.ready("empty", np.zeros(0, np.float32))
            fused.ready("all", kind(array))
            fused.wait()
            assert array.sum() == 20 * comm.size
        fused.ready("empty", [])
        fused.ready("all", array)
        with pytest.raises(weir.ArgumentError, match="'empty' is of type list"):
            fused.wait_all()


def test_torch_tensors(comm):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    parameter = torch.nn.Parameter(torch.ones(4, 5, dtype=torch.float64))
    parameter.grad = torch.ones(4, 5, dtype=torch.float64)
    with make(comm, {"all": parameter}, density=1.0, average=False, type=parameter.dtype) as fused:
        fused.ready("all", parameter.grad)
        fused.wait_all()
        assert parameter.grad.sum() == 20 * comm.size
        fused.ready("all", parameter)
        with pytest.raises(weir.ArgumentError, match="'all' requires a gradient: give tensor.detach"):
            fused.wait_all()


def test_lifetimes(comm):
    """Arrays live until their update has arrived, and residuals longer than the object."""
    with weir.Communicator() as other:
        with make(other, scheme="none") as fused:
            gradients = gradients_of(comm.rank)
            alive = {name: weakref.ref(gradient) for name, gradient in gradients.items()}
            hand_in(fused, gradients)
            gradients = None
            gc.collect()
            assert all(reference() is not None for reference in alive.values())
            fused.wait("encoder.weight")
            assert alive["encoder.weight"]() is None
            fused.wait_all()
            assert all(reference() is None for reference in alive.values())
            residual = fused.residual("encoder.weight")
            expected = residual.copy()
            assert not residual.flags.writeable
        del fused
        np.testing.assert_array_equal(residual, expected)
        del residual


BAD = {  # what the last rank hands in, its error, and the others' error
    "a list": (lambda: [0.0] * 800, "the gradient of 'decoder.weight' is of type list: give a NumPy array", "gave a null gradient"),
    "another type": (lambda: np.zeros(800), "has type float64; the fused allreduce takes float32", "gave a null gradient"),
    "too short": (lambda: np.zeros(799, np.float32), "gave a gradient of 799 elements", "gave a gradient of 799 elements"),
}


@pytest.mark.parametrize("what", BAD)
@pytest.mark.parametrize("tensor", ["decoder.weight", None])
def test_bad_arrays_of_one_rank(comm, what, tensor):
    """Every rank gets an error in its wait; the rank with the bad array gets its own text. The next iteration works."""
    bad, mine, theirs = BAD[what]
    with make(comm, scheme="none") as fused:
        hand_in(fused, {**gradients_of(comm.rank), **of_last(comm, {"decoder.weight": bad()}, {})})
        with refused(comm, mine, f"rank {comm.size - 1} {theirs}"):
            fused.wait(tensor)
        run(comm, fused)


def test_bad_calls_of_one_rank(comm):
    zeros = np.zeros(3000, np.float32)
    cases = (
        ("encoder.weigh", "encoder.weight", "named a tensor that does not exist"),
        ("encoder\0", "there is no tensor", "that does not exist"),
        (4, "there is no tensor 4: they are numbered 0 to 3", "that does not exist"),
        (1.5, "the tensor is 1.5: give its name or its number", "that does not exist"),
        ("encoder.weight", "was ready twice", "was ready twice on rank"),
    )
    with make(comm) as fused:
        for wrong, mine, theirs in cases:
            hand_in(fused, gradients_of(comm.rank))
            if is_last(comm):
                fused.ready(wrong, zeros)
            with refused(comm, mine, theirs):
                fused.wait_all()
        gradients = gradients_of(comm.rank)
        if is_last(comm):
            del gradients["decoder.bias"]
        hand_in(fused, gradients)
        with pytest.raises(weir.ArgumentError, match=f"'decoder.bias': rank {comm.size - 1} did not hand it in before"):
            fused.wait_all()
        run(comm, fused)
        assert fused.statistics.tensors_skipped == 0


@pytest.mark.parametrize(
    "tensors, text",
    [
        (None, "the tensors are of type NoneType: give a list"),
        ([5], "tensor 0 is 5: give a weir.FusedTensor"),
        (["ab", "cd"], "tensor 'a' is 'b': give its number of elements"),
        ({"a": "many"}, "tensor 'a' is 'many': give its number of elements"),
        ({"a\0": 5}, "must be a str without null characters"),
        ([weir.FusedTensor(name="a", count=1.5)], "tensor 'a': count is 1.5: it must be a whole number"),
    ],
)
def test_bad_tensors_of_one_rank(comm, tensors, text):
    with refused(comm, text, ""):
        make(comm, of_last(comm, tensors, {"a": 5}))
    with pytest.raises((TypeError, weir.Error), match="missing a required argument: 'tensors'"):
        weir.FusedAllreduce(comm) if is_last(comm) else make(comm, {"a": 5})


def test_closed_within_an_iteration(comm):
    """Destruction finishes the operations that other ranks wait for, and these get an error."""
    fused = make(comm, name="gone")
    gradients = gradients_of(comm.rank)
    if comm.rank == 0:
        fused.ready("decoder.bias", gradients["decoder.bias"])
        fused.close()
    else:
        hand_in(fused, gradients)
        with pytest.raises(weir.StateError, match="rank 0 destroyed it within an iteration"):
            fused.wait_all()
        fused.close()


@pytest.mark.parametrize("tensor", ["decoder.weight", None])
def test_ctrl_c_ends_a_wait(comm, tensor):
    """Rank 0 waits for peers that wait for it to be interrupted. It may wait again, and what it waits is counted."""
    if comm.size == 1:
        pytest.skip("one rank waits for nobody")
    gradients = gradients_of(comm.rank)
    with make(comm) as fused, weir.AllreducePlan(comm, count=1, algorithm="dense_ring", name="gate") as gate:
        if comm.rank == 0:
            hand_in(fused, gradients)
            threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            with pytest.raises(KeyboardInterrupt):
                fused.wait(tensor)
            gate.run(np.zeros(1, np.float32))
        else:
            gate.run(np.zeros(1, np.float32))
            if is_last(comm):
                time.sleep(0.3)
            hand_in(fused, gradients)
        fused.wait_all()
        assert comm.rank or fused.statistics.seconds_waited > 0.2
    assert np.count_nonzero(gradients["encoder.weight"]) >= 20


@pytest.mark.parametrize("before", [True, False])
def test_ctrl_c_around_a_call(comm, monkeypatch, before):
    """The next call repeats an interrupted call that has not reached C, and does not repeat one that has."""

    def interrupted(self):
        if not before:
            begin(self)
        raise KeyboardInterrupt

    with make(comm) as fused:
        begin = type(fused._iteration()).begin
        gradients = gradients_of(comm.rank)
        for name, gradient in reversed(gradients.items()):
            with monkeypatch.context() as patch:
                patch.setattr(type(fused._iteration()), "begin", interrupted)
                with pytest.raises(KeyboardInterrupt):
                    fused.ready(name, gradient)
        fused.wait_all()
        assert np.count_nonzero(gradients["encoder.weight"]) >= 20 and fused.statistics.iteration == 1
        run(comm, fused)
