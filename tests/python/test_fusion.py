import gc
import os
import signal
import threading
import time
import weakref

import numpy as np
import pytest
from conftest import random_gradient, through_dlpack

import weir
from weir import _object
from weir._library import lib

SIZES = {"encoder.weight": 3000, "decoder.weight": 800, "decoder.bias": 9, "unused.weight": 200}
TENSORS = [
    weir.FusedTensor(name="encoder.weight", count=3000, k=20),
    weir.FusedTensor(name="decoder.weight", count=800),
    weir.FusedTensor(name="decoder.bias", count=9, dense=True),
    weir.FusedTensor(name="unused.weight", count=200, optional=True),
]


def make(comm, tensors=TENSORS, **keywords):
    return weir.FusedAllreduce(comm, tensors, **{"density": 0.05, "buffer_bytes": 16384, **keywords})


def gradients_of(rank, turn=0, dtype=np.float32):
    return {name: random_gradient(rank, count, 10 * turn + number, dtype) for number, (name, count) in enumerate(SIZES.items())}


def hand_in(fused, gradients):
    for name, gradient in reversed(gradients.items()):
        fused.ready(name, gradient)


@pytest.mark.each("scheme")
@pytest.mark.parametrize("scheme", list(weir.FusionScheme))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nothing_is_lost(comm, add, scheme, dtype):
    with make(comm, scheme=scheme, type=dtype, algorithm="topk_allgather") as fused:
        given = {name: np.zeros(count) for name, count in SIZES.items()}
        delivered = {name: np.zeros(count) for name, count in SIZES.items()}
        for turn in range(4):
            gradients = gradients_of(comm.rank, turn, dtype)
            if turn == 1 and comm.rank == 0:
                gradients["unused.weight"][:] = 0
            for name in given:
                given[name] += gradients[name]
            for name in reversed(list(SIZES)):
                if turn == 1 and comm.rank == 0 and name == "unused.weight":
                    fused.skip(name, gradients[name])
                else:
                    fused.ready(name, gradients[name])
            if turn % 2:
                fused.wait("decoder.weight")
                while not fused.test(2):
                    pass
            fused.wait_all()
            for name in delivered:
                delivered[name] += gradients[name]
        for name in SIZES:
            residual = fused.residual(name)
            kept = residual if residual.size else np.zeros(SIZES[name])
            assert residual.dtype == dtype and residual.size == (0 if name == "decoder.bias" else SIZES[name])
            np.testing.assert_allclose(add(given[name]), add(kept) + delivered[name] * comm.size, rtol=1e-4, atol=1e-4)


def test_what_it_says_of_itself(comm):
    with make(comm, scheme="ahead_inter", name="model", algorithm="auto") as fused:
        assert repr(fused) == "<weir.FusedAllreduce 'model': 4 tensors, 4009 float32>"
        assert [tensor.name for tensor in fused.tensors] == list(SIZES) and fused.tensors[0] == TENSORS[0]
        assert "buffer 0" in fused.explanation() and fused.memory_bytes > 4 * 3000
        config = fused.config
        assert config.scheme is weir.FusionScheme.ahead_inter and config.algorithm != "auto" and config.name == "model"
        assert config.error_feedback is weir.Feedback.residual
        assert fused.buffer_of("decoder.bias") == fused.buffer_of(2) >= 0
        hand_in(fused, gradients_of(comm.rank))
        with pytest.raises(weir.BusyError, match="within an iteration"):
            fused.residual(0)
        fused.wait()
        statistics = fused.statistics
        assert statistics.iteration == 1 and statistics.selected_local >= 20 and statistics.exchanges >= 1
        with weir.FusedAllreduce.from_config(comm, config, TENSORS) as same:
            assert same.config == config
        kept = fused.residual("encoder.weight").copy()
        with pytest.raises(weir.ArgumentError, match="factor is None: it must be a number"):
            fused.scale_residuals(None)
        fused.scale_residuals(2)
        np.testing.assert_array_equal(fused.residual("encoder.weight"), 2 * kept)
        fused.reset()
        assert fused.statistics.iteration == 0 and not fused.residual("encoder.weight").any()
    assert repr(fused) == "<weir.FusedAllreduce 'model', closed>"
    with pytest.raises(weir.StateError, match="fused 'model' is closed"):
        fused.ready(0, np.zeros(3000, np.float32))
    with make(comm, scheme="ahead") as fused:
        assert fused.buffer_of("encoder.weight") == -1


def test_every_way_to_name_tensors(comm):
    arrays = {name: np.zeros((count, 1), np.float32) for name, count in SIZES.items()}
    for tensors in (SIZES, list(SIZES.items()), arrays, iter(SIZES.items())):
        with make(comm, tensors) as fused:
            assert {tensor.name: tensor.count for tensor in fused.tensors} == SIZES
            hand_in(fused, gradients_of(comm.rank))
            fused.wait_all()
    with make(comm, []) as fused:
        fused.wait_all()


def test_every_kind_of_array(comm):
    with make(comm, {"all": 20}, density=1.0, average=False) as fused:
        for one in (np.ones((4, 5), np.float32), memoryview(np.ones(20, np.float32)), through_dlpack(np.ones(20, np.float32))):
            fused.ready("all", one)
            fused.wait_all()
        matrix = np.ones((4, 5), np.float32)
        fused.ready(0, matrix)
        fused.wait(0)
        fused.wait_all()
        assert matrix.sum() == 20 * comm.size


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


def test_arrays_live_until_their_update_is_there(comm):
    with make(comm, scheme="none") as fused:
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


def test_residuals_live_longer(comm):
    with weir.Communicator() as other:
        with make(other) as fused:
            hand_in(fused, gradients_of(comm.rank))
            fused.wait_all()
            residual = fused.residual("encoder.weight")
            expected = residual.copy()
            assert not residual.flags.writeable
        del fused
        np.testing.assert_array_equal(residual, expected)
        del residual


def test_saved_states(comm):
    with make(comm, scheme="ahead_inter") as one, make(comm, scheme="ahead_inter") as two, make(comm, scheme="behind") as other:
        for turn in range(2):
            hand_in(one, gradients_of(comm.rank, turn))
            one.wait_all()
        state = one.save_state()
        two.restore_state(state)
        for turn in range(2, 4):
            first, second = gradients_of(comm.rank, turn), gradients_of(comm.rank, turn)
            hand_in(one, first)
            hand_in(two, second)
            one.wait_all()
            two.wait_all()
            for name in SIZES:
                np.testing.assert_array_equal(first[name], second[name])
        for fused, bad in ((two, state[:-1]), (two, b""), (other, state)):
            with pytest.raises(weir.ArgumentError):
                fused.restore_state(bad)


BAD = {
    "a list": (lambda: [0.0] * 800, "the gradient of 'decoder.weight' is of type list: give a NumPy array", "gave a null gradient"),
    "another type": (lambda: np.zeros(800), "has type float64; the fused allreduce takes float32", "gave a null gradient"),
    "gaps": (lambda: np.zeros(1600, np.float32)[::2], "not contiguous: .* numpy.ascontiguousarray", "gave a null gradient"),
    "read-only": (lambda: np.frombuffer(bytes(3200), np.float32), "read-only", "gave a null gradient"),
    "too short": (lambda: np.zeros(799, np.float32), "gave a gradient of 799 elements", "gave a gradient of 799 elements"),
}


@pytest.mark.parametrize("what", BAD)
@pytest.mark.parametrize("wait", ["wait", "wait_all"])
def test_bad_arrays_of_one_rank(comm, what, wait):
    """Every rank gets an error as it waits, the one with the bad array its own text; the next iteration is as any other."""
    bad, mine, theirs = BAD[what]
    culprit = comm.size - 1
    with make(comm, scheme="none") as fused:
        gradients = gradients_of(comm.rank)
        if comm.rank == culprit:
            gradients["decoder.weight"] = bad()
        hand_in(fused, gradients)
        with pytest.raises(weir.ArgumentError, match=mine if comm.rank == culprit else f"rank {culprit} {theirs}"):
            fused.wait("decoder.weight") if wait == "wait" else fused.wait_all()
        gradients = gradients_of(comm.rank)
        hand_in(fused, gradients)
        fused.wait_all()
        assert np.count_nonzero(gradients["encoder.weight"]) >= 20


def test_bad_calls_of_one_rank(comm):
    culprit = comm.size - 1
    here = comm.rank == culprit
    zeros = np.zeros(3000, np.float32)
    cases = (
        (lambda fused: fused.ready("encoder.weigh", zeros), "encoder.weight", "named a tensor by a number that is none"),
        (lambda fused: fused.ready("encoder\0", zeros), "there is no tensor", "named a tensor by a number that is none"),
        (lambda fused: fused.ready(4, zeros), "there is no tensor 4: they are numbered 0 to 3", "that is none"),
        (lambda fused: fused.ready(1.5, zeros), "the tensor is 1.5: give its name or its number", "that is none"),
        (lambda fused: fused.ready("encoder.weight", zeros), "was ready twice", "was ready twice on rank"),
    )
    with make(comm) as fused:
        for wrong, mine, theirs in cases:
            hand_in(fused, gradients_of(comm.rank))
            if here:
                wrong(fused)
            with pytest.raises(weir.ArgumentError, match=mine if here else theirs):
                fused.wait_all()
        for call in (fused.residual, fused.buffer_of):
            with pytest.raises(weir.ArgumentError, match="decoder.bias"):
                call("decoder.bia")
            with pytest.raises(weir.ArgumentError, match="numbered 0 to 3"):
                call(-1)
        hand_in(fused, {name: gradient for name, gradient in gradients_of(comm.rank).items() if not here or "bias" not in name})
        with pytest.raises(weir.ArgumentError, match=f"'decoder.bias': rank {culprit} did not hand it in before"):
            fused.wait_all()
        hand_in(fused, gradients_of(comm.rank))
        fused.wait_all()
        assert fused.statistics.tensors_skipped == 0


def test_optional_tensors(comm):
    with make(comm, {"empty": 0, "all": 20}, density=1.0) as fused:
        fused.ready("empty", np.zeros(0, np.float32))
        fused.ready("all", np.ones(20, np.float32))
        fused.wait_all()
        fused.ready("empty", [])
        fused.ready("all", np.ones(20, np.float32))
        with pytest.raises(weir.ArgumentError, match="'empty' is of type list"):
            fused.wait_all()
    with make(comm) as fused:
        gradients = gradients_of(comm.rank)
        del gradients["unused.weight"]
        hand_in(fused, gradients)
        fused.wait_all()
        assert fused.statistics.tensors_skipped == 1


@pytest.mark.parametrize(
    "tensors, text",
    [
        (None, "the tensors are of type NoneType: give a list"),
        ([5], "tensor 0 is 5: give a weir.FusedTensor"),
        (["ab", "cd"], "tensor 'a' is 'b': give its number of elements"),
        ({"a": "many"}, "tensor 'a' is 'many': give its number of elements"),
        ({"a\0": 5}, "must be a str without null characters"),
        ([weir.FusedTensor(name="a", count=1.5)], "tensor 'a': count is 1.5: it must be a whole number"),
        ([("same", 5), ("same", 6)], "same"),
    ],
)
def test_bad_tensors_of_one_rank(comm, tensors, text):
    mine = tensors if comm.rank == comm.size - 1 else {"a": 5}
    with pytest.raises((weir.ArgumentError, weir.MismatchError), match=text if comm.rank == comm.size - 1 else ""):
        make(comm, mine)
    with pytest.raises((TypeError, weir.Error), match="missing a required argument: 'tensors'" if comm.rank == 0 else ""):
        weir.FusedAllreduce(comm) if comm.rank == 0 else make(comm, {"a": 5})
    with pytest.raises((TypeError, weir.Error), match="did you mean 'scheme'" if comm.rank == 0 else ""):
        make(comm, {"a": 5}, **({"schema": "none"} if comm.rank == 0 else {}))


def test_nan(comm):
    with make(comm, scheme="none") as fused:
        gradients = gradients_of(comm.rank)
        if comm.rank == 0:
            gradients["decoder.weight"][3] = np.nan
        hand_in(fused, gradients)
        fused.wait("encoder.weight")
        assert np.count_nonzero(gradients["encoder.weight"]) >= 20
        with pytest.raises(weir.NonFiniteError, match="'decoder.weight'"):
            fused.wait_all()


def test_what_a_wait_takes_is_counted(comm):
    if comm.size == 1:
        pytest.skip("one rank waits for nobody")
    with make(comm) as fused:
        for gap in (0, 0.5):
            if comm.rank == comm.size - 1:
                time.sleep(gap)
            gradients = gradients_of(comm.rank)
            hand_in(fused, gradients)
            fused.wait("encoder.weight")
            fused.wait_all()
        if comm.rank == 0:
            assert fused.statistics.seconds_waited > 0.4


def test_closed_within_an_iteration(comm):
    """Destruction finishes what the other ranks wait for, who hear of it."""
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
    fused.close()


@pytest.mark.parametrize("tensor", ["decoder.weight", None])
def test_ctrl_c_ends_a_wait(comm, tensor):
    """Rank 0 waits for peers that wait for it to be interrupted. It may wait again."""
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
            hand_in(fused, gradients)
        fused.wait_all()
    assert np.count_nonzero(gradients["encoder.weight"]) >= 20


@pytest.mark.parametrize("before", [True, False])
def test_ctrl_c_around_a_call(comm, monkeypatch, before):
    """What was interrupted is made up for by the next call, where C has not heard of it, and not made twice where it has."""

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
        hand_in(fused, gradients_of(comm.rank))
        fused.wait_all()


def test_ctrl_c_as_one_is_made(comm, monkeypatch):
    with weir.Communicator() as other:
        with monkeypatch.context() as patch:

            def interrupted(*arguments):
                lib.weir_fused_create(*arguments)
                raise KeyboardInterrupt

            patch.setitem(_object.CREATE, "fused", interrupted)
            with pytest.raises(KeyboardInterrupt) as caught:
                make(other)
        assert other._handle.living == 1
        other.close()
        assert other._handle.living == 0
        del caught
