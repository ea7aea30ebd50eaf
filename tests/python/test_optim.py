import asyncio
import gc
import os
import signal
import weakref

import numpy as np
import pytest
from conftest import is_last, of_last, refused, through_dlpack

import weir

COSTS = [1e-3, 2e-3, 0, 5e-4, 1e-3, 1e-3, 3e-3]
SQUARES = np.arange(len(COSTS)) ** 2.0


def squares(part, result):
    result.view(np.float64)[0] = part**2


def make(comm, **keywords):
    return weir.ParallelOperator(comm, [(seconds, 8) for seconds in COSTS], **keywords)


def run(work):
    """Checks that a run gives the right results."""
    np.testing.assert_array_equal(work.run(squares).view(np.float64), SQUARES)


# Parallel operators.


@pytest.mark.parametrize("division", ["all", "replicated"])
def test_every_rank_has_all_results(comm, division):
    calls = []

    def body(part, result):
        calls.append(part)
        squares(part, result)

    async def awaited(operation):
        return await operation

    with make(comm, division=division, name="squares") as work:
        results = np.empty(len(COSTS))
        assert work.run(body, results) is results
        np.testing.assert_array_equal(results, SQUARES)
        np.testing.assert_array_equal(work.run(body).view(np.float64), SQUARES)
        mine = [part for part in range(len(COSTS)) if work.works_on(part)]
        assert calls == 2 * mine
        operation = work.start(body, np.empty((len(COSTS), 2), np.float32))
        while not operation.test():
            pass
        np.testing.assert_array_equal(operation.result().view(np.float64)[:, 0], SQUARES)
        assert work.bytes == 8 * len(COSTS) and [work.offset(part) for part in (0, 6)] == [0, 48] and work.result_bytes(3) == 8
        assert work.statistics.runs == 3 and work.config.division == weir.OperatorDivision[division]
        assert work.parts[1] == weir.OperatorPart(seconds=2e-3, result_bytes=8)
        assert repr(work) == "<weir.ParallelOperator 'squares': 7 parts, 56 bytes>" and "7 parts are" in work.explanation()
        for part, text in ((7, "there is no part 7: they are numbered 0 to 6"), (-1, "no part -1"), ("a", "the part is 'a'")):
            for call in (work.offset, work.result_bytes, work.works_on):
                with pytest.raises(weir.ArgumentError, match=text):
                    call(part)
        memory = bytearray(8 * len(COSTS))
        for foreign in (through_dlpack(results), memory):
            assert asyncio.run(awaited(work.start(squares, foreign))) is foreign
        assert results[6] == np.frombuffer(memory)[6] == 36


def test_results_of_fewer_bytes(comm):
    def body(part, result):
        assert result.size == 6
        result[:part] = part
        return part

    parts = [weir.OperatorPart(seconds=1e-3, result_bytes=6) for _ in range(6)]
    with weir.ParallelOperator(comm, parts, variable=True, division="all") as work:
        results = np.full((6, 6), 99, np.uint8)
        work.run(body, results)
        for part in range(6):
            assert work.result_bytes(part) == part and (results[part, :part] == part).all()
    with weir.ParallelOperator(comm, []) as work:  # nothing to do
        assert work.run(squares).size == 0 and work.bytes == 0
    with make(comm, division="all") as work:
        for returned, text in ((3, "its body returned 3 bytes: it must be 8"), (1.5, "is 1.5: it must be a whole")):
            with pytest.raises((weir.ArgumentError, weir.InternalError), match=text):
                work.run(lambda part, result: returned)
        assert work.run(lambda part, result: squares(part, result) or 8).view(np.float64)[6] == 36


@pytest.mark.parametrize(
    "thrown, kind",
    [
        (LookupError("this one"), weir.InternalError),
        (ZeroDivisionError("by\0zero"), weir.InternalError),
        (MemoryError("none left"), weir.MemoryError),
        (weir.StateError("not now"), weir.StateError),
    ],
)
@pytest.mark.parametrize("division", ["all", "replicated"])
def test_what_a_body_throws_every_rank_throws(comm, thrown, kind, division):
    """The first part's body fails: where all ranks do all the work, on the last rank only."""

    def body(part, result):
        if part == 0 and (division == "all" or is_last(comm)):
            raise thrown
        squares(part, result)

    thrown.__traceback__ = None
    with make(comm, division=division, name="odd") as work:
        culprit = 0 if division == "all" else comm.size - 1
        text = f"operator 'odd', rank {culprit}: part 0: {type(thrown).__name__}: {str(thrown).split(chr(0))[0]}"
        operation = work.start(body)
        for call in (operation.wait, operation.result, lambda: work.run(body)):
            with pytest.raises(kind, match=text) as caught:
                call()
            assert caught.value.__cause__ is (thrown if comm.rank == culprit else None)
        run(work)


def test_ctrl_c_in_a_body(comm):
    """The other ranks get the error, and the next run works."""

    def body(part, result):
        if part == 0:
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(1000):
                pass
        squares(part, result)

    with make(comm, division="all") as work:
        with pytest.raises(KeyboardInterrupt if comm.rank == 0 else weir.InternalError) as caught:
            work.run(body)
        if comm.rank == 0:
            assert isinstance(caught.value.__cause__, weir.InternalError)
        else:
            assert "rank 0: part 0: KeyboardInterrupt" in str(caught.value)
        run(work)


def test_the_communicator_is_busy_within_a_body(comm):
    def body(part, result):
        with pytest.raises(weir.BusyError, match="from within another one on this communicator, in the body of an operator"):
            comm.level(0)
        with pytest.raises(weir.BusyError, match="from within another one"):
            work.run(squares)
        squares(part, result)

    with make(comm, division="all") as work:
        assert work.run(body).view(np.float64)[6] == 36


def test_bodies_and_results_are_let_go(comm):
    class Body:
        def __call__(self, part, result):
            squares(part, result)

    with make(comm, division="all") as work:
        body, results = Body(), np.empty(len(COSTS))
        alive = weakref.ref(body), weakref.ref(results)
        operation = work.start(body, results)
        body = results = None
        gc.collect()
        assert alive[0]() is None and alive[1]() is not None
        operation.wait()
        operation = None
        gc.collect()
        assert alive[1]() is None
    work = make(comm)
    operation = work.start(squares)
    work.close()
    with pytest.raises(weir.StateError, match="operator was closed before this call was waited for"):
        operation.wait()


BAD_RUNS = {
    "no function": (lambda: (5, None), "the body is of type int: give a function of a part's number and its result"),
    "a list": (lambda: (squares, [0.0] * 7), "the array for results is of type list: give a NumPy array"),
    "too short": (lambda: (squares, np.zeros(6)), "the array for results has 48 bytes: results take 56"),
    "gaps": (lambda: (squares, np.zeros(14)[::2]), "the array for results is not contiguous"),
    "objects": (lambda: (squares, np.zeros(7, object)), "has type object: give numbers"),
}


@pytest.mark.parametrize("what", BAD_RUNS)
def test_bad_runs_of_one_rank(comm, what):
    bad, text = BAD_RUNS[what]
    with make(comm, division="all") as work:
        given = of_last(comm, bad(), (squares, None))
        for call in (work.run, lambda *given: work.start(*given).wait()):
            with refused(comm, text, f"rank {comm.size - 1}: .*{text}") as caught:
                call(*given)
            assert caught.value.__cause__ is None and (not is_last(comm) or caught.value.__suppress_context__)
        run(work)


# Optimizers.

LAYERS = [
    weir.OptimizedLayer(name="stem.weight", count=300),
    weir.OptimizedLayer(name="stem.bias", count=20, excluded=True),
    weir.OptimizedLayer(name="fc.weight", count=7001),
    weir.OptimizedLayer(name="empty", count=0),
]


def arrays_of(turn):
    """The same on all ranks."""
    return [np.random.default_rng([turn, i]).standard_normal(layer.count).astype(np.float32) for i, layer in enumerate(LAYERS)]


def named(arrays):
    return {layer.name: array for layer, array in zip(LAYERS, arrays)}


def test_layers_and_arrays_by_name(comm):
    first, second = arrays_of(7), named(arrays_of(7))
    described = {name: weight.reshape(-1, 1) for name, weight in second.items()}
    with weir.LayerOptimizer(comm, described) as one, weir.LayerOptimizer(comm, [(l.name, l.count) for l in LAYERS]) as two:
        one.step(tuple(first), arrays_of(0), 0.1)
        two.step(second, named(arrays_of(0)), 0.1)
        two.step([through_dlpack(weight) for weight in second.values()], arrays_of(1), 0.1)
        one.step(first, arrays_of(1), 0.1)
        for layer, weight in zip(LAYERS, first):
            np.testing.assert_array_equal(weight, second[layer.name])
        assert one.statistics.steps == 2 and one.rates.shape == (4,) and one.rates[3] == 1


def test_what_an_optimizer_says_of_itself(comm):
    with weir.LayerOptimizer(comm, LAYERS, rule="lamb", name="adam", type=np.float16) as optimizer:
        assert repr(optimizer) == "<weir.LayerOptimizer 'adam': 4 layers, 7321 float16>"
        assert optimizer.layers == tuple(LAYERS) and optimizer.config.rule is weir.OptimizerRule.lamb
        assert optimizer.config.update is not weir.OperatorDivision.automatic and optimizer.explanation().startswith("norms: ")
        weights = [weight.astype(np.float16) for weight in arrays_of(7)]
        optimizer.step(weights, [gradient.astype(np.float16) for gradient in arrays_of(0)], 0.01)
        assert (weights[2] != arrays_of(7)[2].astype(np.float16)).any() and optimizer.rates[1] == 1
        state = optimizer.save_state()
        optimizer.reset()
        assert optimizer.statistics.steps == 0 and optimizer.save_state() != state
        with pytest.raises(weir.ArgumentError, match="the array of weights has type float32; the optimizer takes float16"):
            optimizer.step(arrays_of(7), arrays_of(0), 0.1)


def change(arrays, number, array):
    return [*arrays[:number], array, *arrays[number + 1 :]]


BAD_STEPS = {
    "no list": (lambda w, g: (5, g, 0.1), "the weights are of type int: give a list of arrays"),
    "too few": (lambda w, g: (w[:3], g, 0.1), "there are weights of 3 layers: it has 4"),
    "names": (lambda w, g: ({"stem.weight": w[0]}, g, 0.1), "there are no weights of layer 'stem.bias'"),
    "more names": (lambda w, g: (w, {"more": 1, **named(g)}, 0.1), "there are gradients of 'more', which is none of its layers"),
    "a rate": (lambda w, g: (w, g, "high"), "learning_rate is 'high': it must be a number"),
    "an infinite rate": (lambda w, g: (w, g, np.inf), "learning_rate is inf: it must be finite"),
    "float64": (lambda w, g: (w, change(g, 0, np.zeros(300)), 0.1), "the gradient has type float64; the optimizer takes float32"),
    "no gradient": (lambda w, g: (w, change(g, 2, None), 0.1), "'fc.weight' has no gradient: every layer"),
    "gaps": (lambda w, g: (change(w, 0, np.zeros(600, np.float32)[::2]), g, 0.1), "the array of weights is not contiguous"),
    "too short": (lambda w, g: (change(w, 1, w[1][1:]), g, 0.1), "the array of weights has 19 elements: the layer has 20"),
    "a stream": (lambda w, g: (w, g, 0.1, "x"), "stream is 'x': it must be a whole number"),
}


@pytest.mark.parametrize("what", BAD_STEPS)
def test_bad_steps_of_one_rank(comm, what):
    bad, text = BAD_STEPS[what]
    with weir.LayerOptimizer(comm, LAYERS) as optimizer:
        weights, gradients = arrays_of(7), arrays_of(0)
        with refused(comm, text, f"rank {comm.size - 1}: .*{text}") as caught:
            optimizer.step(*of_last(comm, bad(weights, gradients), (weights, gradients, 0.1)))
        assert caught.value.__cause__ is None
        with refused(comm, "gave a stream, but the optimizer is for host memory", "gave a stream"):
            optimizer.step(weights, gradients, 0.1, **of_last(comm, {"stream": 7}, {}))
        for weight, was in zip(weights, arrays_of(7)):
            np.testing.assert_array_equal(weight, was)
        optimizer.step(weights, gradients, 0.1)
        assert optimizer.statistics.steps == 1


@pytest.mark.parametrize(
    "cls, what, given, text",
    [
        (weir.ParallelOperator, "parts", None, "the parts are of type NoneType: give a list"),
        (weir.ParallelOperator, "parts", [5], "part 0 is 5: give a weir.OperatorPart, or its seconds"),
        (weir.ParallelOperator, "parts", [(1.0, 8), (1.0, 1.5)], "part 1: result_bytes is 1.5: it must be a whole number"),
        (weir.ParallelOperator, "parts", [(-1, 8)], "part 0: seconds is -1"),
        (weir.LayerOptimizer, "layers", None, "the layers are of type NoneType: give a list"),
        (weir.LayerOptimizer, "layers", [5], "layer 0 is 5: give a weir.OptimizedLayer"),
        (weir.LayerOptimizer, "layers", {"a": "many"}, "layer 'a' is 'many': give its number of elements"),
        (weir.LayerOptimizer, "layers", {"a\0": 5}, "layer 0: name is 'a.*must be a str without null characters"),
        (weir.LayerOptimizer, "layers", [weir.OptimizedLayer(name="a", count=1.5)], "layer 0: count is 1.5: it must be a whole"),
    ],
)
def test_bad_parts_and_layers_of_one_rank(comm, cls, what, given, text):
    good = [(1, 8)] if what == "parts" else {"a": 5}
    with refused(comm, text, ""):
        cls(comm, of_last(comm, given, good))
    with pytest.raises((TypeError, weir.Error), match=f"missing a required argument: '{what}'"):
        cls(comm, *of_last(comm, [], [good]))
