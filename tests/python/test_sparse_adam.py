import threading

import numpy as np
import pytest
from conftest import through_dlpack

import weir

I, V, W = np.array([1, 4], np.uint32), np.ones(2, np.float32), np.zeros(5, np.float32)


def test_steps_and_parts(comm):
    """Parts make one step, also with an update of a plan."""
    config = weir.SparseAdamConfig(count=100, name="parts")
    whole, parts = weir.SparseAdam(count=100, name="words"), weir.SparseAdam.from_config(config)
    assert repr(whole) == "<weir.SparseAdam 'words': 100 float32, 0 steps>" and parts.config == config
    first, second = np.zeros(100, np.float32), np.zeros(100, np.float32)
    with weir.AllreducePlan(comm, count=100, density=0.1) as plan:
        update = plan.run_sparse(np.arange(100, dtype=np.float32))
        whole.step(update, first.reshape(10, 10), 0.1)
    indices, values = update.indices.copy(), update.values.copy()
    np.testing.assert_allclose(first[indices], -0.1, rtol=1e-5)  # Adam's first step
    parts.step_part((indices[6:], values[6:]), second, 0.1)
    with pytest.raises(weir.BusyError, match="optimizer 'parts' is between the parts of a step"):
        parts.save_state()
    parts.step_part((indices[:0], values[:0]), second, 0.1)
    parts.step((indices[:6], through_dlpack(values[:6])), second, 0.1)
    np.testing.assert_array_equal(first, second)
    assert whole.steps == parts.steps == 1 and parts.memory_bytes > 0
    state = whole.save_state()
    parts.reset()
    assert parts.steps == 0
    parts.restore_state(state)
    assert parts.steps == 1 and parts.save_state() == state
    for bad in (state[:-1], 5):
        with pytest.raises(weir.ArgumentError):
            parts.restore_state(bad)
    whole.close()
    whole.close()
    assert repr(whole) == "<weir.SparseAdam 'words', closed>"
    for call in (lambda: whole.step((I, V), first, 0.1), lambda: whole.steps, whole.reset, whole.save_state):
        with pytest.raises(weir.StateError, match="closed"):
            call()


def test_any_thread_in_turn():
    weights = np.zeros(5, np.float32)
    with weir.SparseAdam(count=5) as adam:
        for _ in range(3):
            thread = threading.Thread(target=adam.step, args=((I, V), weights, 0.1))
            thread.start()
            thread.join()
        assert adam.steps == 3
        with adam._alone(), pytest.raises(weir.BusyError, match="another thread uses optimizer 'sparse_adam'"):
            adam.step((I, V), weights, 0.1)


BAD = {
    "no update": (5, W, 0.1, "the update is of type int: give the SparseResult of a plan, or indices and values"),
    "int64": ((I.astype(np.int64), V), W, 0.1, "the array of indices has type int64; the optimizer takes uint32"),
    "float64": ((I, V.astype(float)), W, 0.1, "the array of values has type float64; the optimizer takes float32"),
    "a list": (([1], V), W, 0.1, "the array of indices is of type list"),
    "fewer values": ((I, V[:1]), W, 0.1, "an update has 2 indices and 1 values: as many of each"),
    "falling": ((I[::-1].copy(), V), W, 0.1, "the update's indices do not ascend"),
    "too many": ((I, V), np.zeros(6, np.float32), 0.1, "there are 6 weights: it has 5"),
    "gaps": ((I, V), np.zeros(10, np.float32)[::2], 0.1, "the array of weights is not contiguous"),
    "read-only": ((I, V), np.frombuffer(bytes(20), np.float32), 0.1, "the array of weights is read-only"),
    "a rate": ((I, V), W, "high", "learning_rate is 'high': it must be a number"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_steps(what):
    update, weights, rate, text = BAD[what]
    adam = weir.SparseAdam(count=5, name="words")
    for step in (adam.step, adam.step_part):
        with pytest.raises(weir.ArgumentError, match=f"optimizer 'words': {text}"):
            step(update, weights, rate)
    assert adam.steps == 0 and not weights.any()


def test_bad_configurations():
    for keywords, kind, text in (
        ({}, TypeError, "SparseAdam\\(\\) needs the keyword 'count'"),
        ({"count": 5, "beta": 0.9}, TypeError, "has no keyword 'beta': did you mean 'beta[12]'"),
        ({"count": 1.5}, weir.ArgumentError, "count is 1.5: it must be a whole number"),
        ({"count": 5, "beta1": 1.0}, weir.ArgumentError, "beta1 is 1: it must be from 0 to below 1"),
    ):
        with pytest.raises(kind, match=text):
            weir.SparseAdam(**keywords)
    with pytest.raises(TypeError, match="SparseAdam\\(\\)"):
        weir.SparseAdam(5)
    with pytest.raises(weir.ArgumentError, match="give a weir.SparseAdamConfig"):
        weir.SparseAdam.from_config(5)
