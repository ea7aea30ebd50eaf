import threading

import numpy as np
import pytest
from conftest import random_gradient, through_dlpack

import weir

COUNT = 1000


def dense_adam(t, gradient, moves, m, v, weights):
    """In double precision; weights stand still where they do not move."""
    m[:] = 0.9 * m + 0.1 * gradient
    v[:] = 0.999 * v + 0.001 * gradient**2
    weights[moves] -= (0.01 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8))[moves]


@pytest.mark.parametrize("exact", [False, True])
def test_steps_by_updates_of_a_plan(comm, add, exact):
    weights = random_gradient(0, COUNT, 99)
    expected, m, v = weights.astype(np.float64), np.zeros(COUNT), np.zeros(COUNT)
    with weir.AllreducePlan(comm, count=COUNT, density=0.05) as plan, weir.SparseAdam(count=COUNT, exact=exact) as adam:
        for turn in range(1, 13):
            update = plan.run_sparse(random_gradient(comm.rank, COUNT, turn))
            gradient, moves = np.zeros(COUNT), np.full(COUNT, exact)
            gradient[update.indices], moves[update.indices] = update.values, True
            adam.step(update, weights.reshape(10, 100), 0.01)
            dense_adam(turn, gradient, moves, m, v, expected)
        np.testing.assert_allclose(weights, expected, rtol=1e-4, atol=1e-5)
        assert adam.steps == 12 and adam.memory_bytes >= (16 if exact else 12) * COUNT
        np.testing.assert_array_equal(add(weights), comm.size * weights.astype(np.float64))


def test_parts_of_a_step():
    indices, values = np.array([0, 2, 5, 6], np.uint32), np.array([1, -2, 0.5, 3], np.float32)
    whole, parts = weir.SparseAdam(count=7), weir.SparseAdam(count=7, name="parts")
    first, second = np.zeros(7, np.float32), np.zeros(7, np.float32)
    for _ in range(3):
        whole.step((indices, values), first, 0.1)
        parts.step_part((indices[3:], values[3:]), second, 0.1)
        with pytest.raises(weir.BusyError, match="optimizer 'parts' is between the parts of a step"):
            parts.save_state()
        with pytest.raises(weir.ArgumentError, match="entry 6 is in two parts of one step"):
            parts.step((indices, values), second, 0.1)
        parts.step_part((indices[:0], values[:0]), second, 0.1)
        parts.step((indices[:3], through_dlpack(values[:3])), second, 0.1)
        np.testing.assert_array_equal(first, second)
    assert parts.steps == 3


def test_saved_states():
    update = np.arange(0, 10, 3, dtype=np.uint32), np.ones(4, np.float32)
    one, two = weir.SparseAdam(count=10), weir.SparseAdam.from_config(weir.SparseAdamConfig(count=10))
    first = np.ones(10, np.float32)
    one.step(update, first, 0.1)
    second = first.copy()
    state = one.save_state()
    two.restore_state(state)
    assert two.steps == 1 and two.save_state() == state
    one.step(update, first, 0.1)
    two.step(update, second, 0.1)
    np.testing.assert_array_equal(first, second)
    two.reset()
    assert two.steps == 0
    for bad, kind in ((state[:-1], weir.ArgumentError), (b"", weir.ArgumentError), (5, weir.ArgumentError)):
        with pytest.raises(kind):
            two.restore_state(bad)
    with pytest.raises(weir.ArgumentError, match="count"):
        weir.SparseAdam(count=11).restore_state(state)


def test_what_it_says_of_itself():
    adam = weir.SparseAdam(count=5, beta2=0.99, name="words")
    assert repr(adam) == "<weir.SparseAdam 'words': 5 float32, 0 steps>"
    assert adam.config == weir.SparseAdamConfig(count=5, beta2=0.99, name="words")
    adam.close()
    adam.close()
    assert repr(adam) == "<weir.SparseAdam 'words', closed>"
    for call in (lambda: adam.step(([], []), [], 0.1), lambda: adam.steps, adam.reset, adam.save_state):
        with pytest.raises((weir.StateError, weir.ArgumentError)):
            call()


def test_any_thread_in_turn():
    adam, weights = weir.SparseAdam(count=3), np.zeros(3, np.float32)
    update = np.array([1], np.uint32), np.ones(1, np.float32)
    threads = [threading.Thread(target=adam.step, args=(update, weights, 0.1)) for _ in range(3)]
    for thread in threads:
        thread.start()
        thread.join()
    assert adam.steps == 3
    with adam._alone():
        with pytest.raises(weir.BusyError, match="another thread uses optimizer 'sparse_adam'"):
            adam.step(update, weights, 0.1)


I, V, W = np.array([1, 4], np.uint32), np.ones(2, np.float32), np.zeros(5, np.float32)
BAD = {
    "no update": (5, W, 0.1, "the update is of type int: give the SparseResult of a plan, or indices and values"),
    "int64": ((I.astype(np.int64), V), W, 0.1, "the array of indices has type int64; the optimizer takes uint32"),
    "float64": ((I, V.astype(float)), W, 0.1, "the array of values has type float64; the optimizer takes float32"),
    "a list": (([1], V), W, 0.1, "the array of indices is of type list"),
    "fewer values": ((I, V[:1]), W, 0.1, "an update has 2 indices and 1 values: as many of each"),
    "falling": ((I[::-1].copy(), V), W, 0.1, "the update's indices do not ascend"),
    "beyond": ((I + np.uint32(1), V), W, 0.1, "the update has an entry 5: weights are numbered 0 to 4"),
    "too many": ((I, V), np.zeros(6, np.float32), 0.1, "there are 6 weights: it has 5"),
    "gaps": ((I, V), np.zeros(10, np.float32)[::2], 0.1, "the array of weights is not contiguous"),
    "read-only": ((I, V), np.frombuffer(bytes(20), np.float32), 0.1, "the array of weights is read-only"),
    "a rate": ((I, V), W, "high", "learning_rate is 'high': it must be a number"),
    "an infinite rate": ((I, V), W, np.inf, "learning_rate is inf: it must be finite"),
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
        ({"count": -1}, weir.ArgumentError, "count is -1"),
        ({"count": 5, "beta1": 1.0}, weir.ArgumentError, "beta1 is 1: it must be from 0 to below 1"),
    ):
        with pytest.raises(kind, match=text):
            weir.SparseAdam(**keywords)
    with pytest.raises(TypeError, match="SparseAdam\\(\\)"):
        weir.SparseAdam(5)
    with pytest.raises(weir.ArgumentError, match="give a weir.SparseAdamConfig"):
        weir.SparseAdam.from_config(5)
