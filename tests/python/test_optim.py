import asyncio
import gc
import os
import signal
import weakref

import numpy as np
import pytest
from conftest import through_dlpack
from optim_references import Lamb, Lars

import weir
from weir import _object
from weir._library import lib

DIVISIONS = list(weir.OperatorDivision)
COSTS = [1e-3, 2e-3, 0, 5e-4, 1e-3, 1e-3, 3e-3]


def squares(part, result):
    result.view(np.float64)[0] = part**2


def make(comm, parts=None, **keywords):
    return weir.ParallelOperator(comm, [(seconds, 8) for seconds in COSTS] if parts is None else parts, **keywords)


# Parallel operators.


@pytest.mark.parametrize("division", DIVISIONS)
def test_every_rank_has_all_results(comm, add, division):
    expected = np.arange(len(COSTS)) ** 2.0
    calls = []

    def body(part, result):
        calls.append(part)
        squares(part, result)

    with make(comm, division=division, name="squares") as work:
        results = np.empty(len(COSTS))
        assert work.run(body, results) is results
        np.testing.assert_array_equal(results, expected)
        np.testing.assert_array_equal(work.run(body).view(np.float64), expected)
        mine = [part for part in range(len(COSTS)) if work.works_on(part)]
        assert calls == 2 * mine
        operation = work.start(body, np.empty((len(COSTS), 2), np.float32))
        while not operation.test():
            pass
        np.testing.assert_array_equal(operation.result().view(np.float64)[:, 0], expected)
        assert work.bytes == 8 * len(COSTS) and [work.offset(part) for part in (0, 6)] == [0, 48]
        assert work.result_bytes(3) == 8 and work.memory_bytes >= 0 and work.statistics.runs == 3
        assert work.parts[1] == weir.OperatorPart(seconds=2e-3, result_bytes=8)
        assert division in (weir.OperatorDivision.automatic, work.config.division)
        assert "7 parts are worked on" in work.explanation()
        assert repr(work) == "<weir.ParallelOperator 'squares': 7 parts, 56 bytes>"
        on_ranks = add(np.bincount(mine, minlength=len(COSTS)))
        if work.config.division == weir.OperatorDivision.all:
            assert (on_ranks == 1).all()
        if work.config.division == weir.OperatorDivision.replicated:
            assert (on_ranks == comm.size).all()
    assert repr(work) == "<weir.ParallelOperator 'squares', closed>"


def test_results_of_fewer_bytes(comm):
    def body(part, result):
        assert result.size == 6
        result[:part] = part
        return part

    parts = [weir.OperatorPart(seconds=1e-3, result_bytes=6) for _ in range(6)]
    with weir.ParallelOperator.from_config(comm, weir.OperatorConfig(variable=True, division="all"), parts) as work:
        results = np.full((6, 6), 99, np.uint8)
        work.run(body, results)
        for part in range(6):
            assert work.result_bytes(part) == part and (results[part, :part] == part).all()


def test_nothing_to_do(comm):
    with make(comm, []) as work:
        assert work.run(squares).size == 0 and work.bytes == 0
    with make(comm, [(1e-3, 0)] * 3, division="all") as work:
        sizes = []
        work.run(lambda part, result: sizes.append(result.size), np.empty(0))
        assert set(sizes) <= {0}


def test_results_in_foreign_arrays(comm):
    array = np.zeros(len(COSTS))
    with make(comm) as work:
        work.run(squares, through_dlpack(array))
        assert array[6] == 36
        memory = bytearray(8 * len(COSTS))
        work.run(squares, memory)
        assert np.frombuffer(memory)[6] == 36
        assert asyncio.run(wait_for(work.start(squares, array))) is array


async def wait_for(operation):
    return await operation


class Odd(Exception):
    pass


@pytest.mark.parametrize(
    "thrown, kind",
    [
        (Odd("this one"), weir.InternalError),
        (ZeroDivisionError("by\0zero"), weir.InternalError),
        (MemoryError("none left"), weir.MemoryError),
        (weir.StateError("not now"), weir.StateError),
    ],
)
@pytest.mark.parametrize("division", ["all", "replicated"])
def test_what_a_body_throws_every_rank_throws(comm, thrown, kind, division):
    """The first part's body fails: where all ranks do all the work, on the last rank only."""

    def body(part, result):
        if part == 0 and (division == "all" or comm.rank == comm.size - 1):
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
        assert work.run(squares).view(np.float64)[6] == 36


def test_what_a_body_returns(comm):
    cases = (
        (3, weir.ArgumentError, "its body returned 3 bytes: it must be 8"),
        (1.5, weir.InternalError, "is 1.5: it must be a whole"),
    )
    with make(comm, division="all") as work:
        for returned, kind, text in cases:
            with pytest.raises(kind, match=text):
                work.run(lambda part, result: returned)
        assert work.run(lambda part, result: squares(part, result) or 8).view(np.float64)[6] == 36


def test_ctrl_c_in_a_body(comm):
    """The other ranks hear of it, and the next run is as any other."""

    def body(part, result):
        if part == 0:
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(1000):
                pass
        squares(part, result)

    with make(comm, division="all") as work:
        if comm.rank == 0:
            with pytest.raises(KeyboardInterrupt) as caught:
                work.run(body)
            assert isinstance(caught.value.__cause__, weir.InternalError)
        else:
            with pytest.raises(weir.InternalError, match="rank 0: part 0: KeyboardInterrupt"):
                work.run(body)
        assert work.run(squares).view(np.float64)[6] == 36


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


BAD_RUNS = {
    "no function": (lambda: (5, None), "the body is of type int: give a function of a part's number and its result"),
    "a list": (lambda: (squares, [0.0] * 7), "the array for results is of type list: give a NumPy array"),
    "too short": (lambda: (squares, np.zeros(6)), "the array for results has 48 bytes: results take 56"),
    "gaps": (lambda: (squares, np.zeros(14)[::2]), "the array for results is not contiguous"),
    "read-only": (lambda: (squares, np.frombuffer(bytes(56))), "read-only"),
    "objects": (lambda: (squares, np.zeros(7, object)), "has type object: give numbers"),
}


@pytest.mark.parametrize("what", BAD_RUNS)
def test_bad_runs_of_one_rank(comm, what):
    bad, text = BAD_RUNS[what]
    culprit = comm.size - 1
    with make(comm, division="all") as work:
        body, results = bad() if comm.rank == culprit else (squares, None)
        heard = text if comm.rank == culprit else f"rank {culprit}: .*{text}"
        with pytest.raises(weir.ArgumentError, match=heard) as caught:
            work.run(body, results)
        assert caught.value.__cause__ is None and (comm.rank != culprit or caught.value.__suppress_context__)
        operation = work.start(body, results)
        with pytest.raises(weir.ArgumentError, match=heard):
            operation.wait()
        assert work.run(squares).view(np.float64)[6] == 36


def test_wrong_parts(comm):
    with make(comm) as work:
        for part, text in ((7, "there is no part 7: they are numbered 0 to 6"), (-1, "no part -1"), ("a", "the part is 'a'")):
            for call in (work.offset, work.result_bytes, work.works_on):
                with pytest.raises(weir.ArgumentError, match=text):
                    call(part)


@pytest.mark.parametrize(
    "parts, text",
    [
        (None, "the parts are of type NoneType: give a list"),
        ([5], "part 0 is 5: give a weir.OperatorPart, or its seconds"),
        ([(1.0, 8), (1.0, 1.5)], "part 1: result_bytes is 1.5: it must be a whole number"),
        ([(-1, 8)], "part 0: seconds is -1"),
        ([(1, 8), (1, 8)], "its parts"),
    ],
)
def test_bad_parts_of_one_rank(comm, parts, text):
    if comm.size == 1 and text == "its parts":
        pytest.skip("one rank agrees with itself")
    here = comm.rank == comm.size - 1
    with pytest.raises((weir.ArgumentError, weir.MismatchError), match=text if here else ""):
        weir.ParallelOperator(comm, parts if here else [(1, 8)])
    with pytest.raises((TypeError, weir.Error), match="did you mean 'division'" if here else ""):
        make(comm, [(1, 8)], **({"divison": "all"} if here else {}))
    with pytest.raises((TypeError, weir.Error), match="missing a required argument: 'parts'" if here else ""):
        weir.ParallelOperator(comm) if here else make(comm)


def test_closed_operators(comm):
    work = make(comm)
    operation = work.start(squares)
    work.close()
    work.close()
    with pytest.raises(weir.StateError, match="operator was closed before this call was waited for"):
        operation.wait()
    with pytest.raises(weir.StateError, match="operator 'operator' is closed"):
        work.run(squares)


# Optimizers.

LAYERS = [
    weir.OptimizedLayer(name="stem.weight", count=300),
    weir.OptimizedLayer(name="stem.bias", count=20, excluded=True),
    weir.OptimizedLayer(name="fc.weight", count=70001),
    weir.OptimizedLayer(name="empty", count=0),
    weir.OptimizedLayer(name="zero", count=9),
]


def weights_of():
    weights = [np.random.default_rng([7, i]).standard_normal(layer.count).astype(np.float32) for i, layer in enumerate(LAYERS)]
    weights[4][:] = 0
    return weights


def gradients_of(turn):
    """The same on all ranks."""
    return [np.random.default_rng([turn, i]).standard_normal(layer.count).astype(np.float32) for i, layer in enumerate(LAYERS)]


@pytest.mark.each("rule")
@pytest.mark.parametrize("update", DIVISIONS)
@pytest.mark.parametrize("largest_rate", [0.0, 0.5])
@pytest.mark.parametrize("rule", list(weir.OptimizerRule))
def test_steps_are_those_of_the_papers(comm, rule, update, largest_rate):
    limit = {"largest_rate": largest_rate} if largest_rate else {}
    lars = rule is weir.OptimizerRule.lars
    reference = (Lars if lars else Lamb)(weight_decay=0.01, **limit)
    expected = [np.array(weight, np.float64) for weight in weights_of()]
    weights = weights_of()
    with weir.LayerOptimizer(comm, LAYERS, rule=rule, update=update, weight_decay=0.01, **limit) as optimizer:
        for turn in range(12):
            gradients, rate = gradients_of(turn), 0.1 / (1 + turn)
            optimizer.step(weights, gradients, rate)
            for number, layer in enumerate(LAYERS):
                step = reference.step(layer.name, expected[number], np.float64(gradients[number]), rate, layer.excluded)
                expected[number], rate_of_layer = step
                np.testing.assert_allclose(optimizer.rates[number], rate_of_layer, rtol=1e-5)
                np.testing.assert_allclose(weights[number], expected[number], rtol=2e-5, atol=2e-6)
        assert optimizer.statistics.steps == 12
        assert optimizer.rates[1] == optimizer.rates[3] == (largest_rate or 1)


def test_what_an_optimizer_says_of_itself(comm):
    config = weir.OptimizerConfig(rule="lamb", name="adam")
    with weir.LayerOptimizer.from_config(comm, config, LAYERS) as optimizer:
        assert repr(optimizer) == "<weir.LayerOptimizer 'adam': 5 layers, 70330 float32>"
        assert optimizer.layers == tuple(LAYERS) and optimizer.memory_bytes > 0
        assert optimizer.config.rule is weir.OptimizerRule.lamb
        assert optimizer.config.update is not weir.OperatorDivision.automatic
        assert optimizer.explanation().startswith("norms: ")
    assert repr(optimizer) == "<weir.LayerOptimizer 'adam', closed>"
    with pytest.raises(weir.StateError, match="optimizer 'adam' is closed"):
        optimizer.step([], [], 0.1)


def test_layers_and_arrays_by_name(comm):
    first, second = weights_of(), {layer.name: weight for layer, weight in zip(LAYERS, weights_of())}
    described = {layer.name: weight.reshape(-1, 1) for layer, weight in zip(LAYERS, first)}
    with weir.LayerOptimizer(comm, described) as one, weir.LayerOptimizer(comm, [(l.name, l.count) for l in LAYERS]) as two:
        one.step(tuple(first), gradients_of(0), 0.1)
        two.step(second, {layer.name: gradient for layer, gradient in zip(LAYERS, gradients_of(0))}, 0.1)
        for layer, weight in zip(LAYERS, first):
            np.testing.assert_array_equal(weight, second[layer.name])
        two.step([through_dlpack(weight) for weight in second.values()], gradients_of(1), 0.1)
        one.step(first, gradients_of(1), 0.1)
        np.testing.assert_array_equal(first[2], second["fc.weight"])


@pytest.mark.parametrize("rule", list(weir.OptimizerRule))
def test_saved_states(comm, rule):
    made = [weir.LayerOptimizer(comm, LAYERS, rule=rule, update="all") for _ in range(2)]
    one, two = made
    first = weights_of()
    for turn in range(3):
        one.step(first, gradients_of(turn), 0.1)
    second = [weight.copy() for weight in first]
    state = one.save_state()
    two.restore_state(state)
    for turn in range(3, 6):
        one.step(first, gradients_of(turn), 0.1)
        two.step(second, gradients_of(turn), 0.1)
    for a, b in zip(first, second):
        np.testing.assert_array_equal(a, b)
    two.reset()
    assert two.save_state() != one.save_state()
    for bad in (state[:-1], b""):
        with pytest.raises(weir.ArgumentError):
            two.restore_state(bad)
    for optimizer in made:
        optimizer.close()


def test_weights_of_16_bits(comm):
    """Those that the optimizer keeps are stepped as weights of float32 are, which LAMB makes its norms of."""
    narrow = [weight.astype(np.float16) for weight in weights_of()]
    wide = [weight.astype(np.float32) for weight in narrow]
    keywords = {"rule": "lamb", "update": "replicated"}
    with weir.LayerOptimizer(comm, LAYERS, type=np.float16, **keywords) as one, weir.LayerOptimizer(comm, LAYERS, **keywords) as two:
        assert repr(one).endswith("70330 float16>") and one.memory_bytes > two.memory_bytes
        for turn in range(4):
            gradients = [gradient.astype(np.float16) for gradient in gradients_of(turn)]
            one.step(narrow, gradients, 0.001)
            two.step(wide, [gradient.astype(np.float32) for gradient in gradients], 0.001)
            for a, b in zip(narrow, wide):
                np.testing.assert_array_equal(a, b.astype(np.float16))
        with pytest.raises(weir.ArgumentError, match="the array of weights has type float32; the optimizer takes float16"):
            one.step(wide, gradients, 0.1)


def change(arrays, number, array):
    return [*arrays[:number], array, *arrays[number + 1 :]]


BAD_STEPS = {
    "no list": (lambda w, g: (5, g, 0.1), "the weights are of type int: give a list of arrays"),
    "too few": (lambda w, g: (w[:4], g, 0.1), "there are weights of 4 layers: it has 5"),
    "names": (lambda w, g: ({"stem.weight": w[0]}, g, 0.1), "there are no weights of layer 'stem.bias'"),
    "more names": (
        lambda w, g: (w, {"more": 1, **{layer.name: one for layer, one in zip(LAYERS, g)}}, 0.1),
        "there are gradients of 'more', which is none of its layers",
    ),
    "a rate": (lambda w, g: (w, g, "high"), "learning_rate is 'high': it must be a number"),
    "an infinite rate": (lambda w, g: (w, g, np.inf), "learning_rate is inf: it must be finite"),
    "float64": (
        lambda w, g: (w, change(g, 2, np.zeros(70001)), 0.1),
        "layer 'fc.weight': the gradient has type float64; the optimizer takes float32",
    ),
    "no gradient": (
        lambda w, g: (w, change(g, 2, None), 0.1),
        "'fc.weight' has no gradient: every layer",
    ),
    "gaps": (
        lambda w, g: (change(w, 0, np.zeros(600, np.float32)[::2]), g, 0.1),
        "layer 'stem.weight': the array of weights is not contiguous",
    ),
    "read-only": (
        lambda w, g: (change(w, 4, np.frombuffer(bytes(36), np.float32)), g, 0.1),
        "layer 'zero': the array of weights is read-only",
    ),
    "too short": (
        lambda w, g: (change(w, 1, w[1][1:]), g, 0.1),
        "layer 'stem.bias': the array of weights has 19 elements: the layer has 20",
    ),
    "of nothing": (
        lambda w, g: (change(w, 3, np.zeros(1, np.float32)), g, 0.1),
        "layer 'empty': the array of weights has 1 elements: the layer has 0",
    ),
}


@pytest.mark.parametrize("what", BAD_STEPS)
def test_bad_steps_of_one_rank(comm, what):
    bad, text = BAD_STEPS[what]
    culprit = comm.size - 1
    with weir.LayerOptimizer(comm, LAYERS) as optimizer:
        weights, gradients, before = weights_of(), gradients_of(0), weights_of()
        given = bad(weights, gradients) if comm.rank == culprit else (weights, gradients, 0.1)
        with pytest.raises(weir.ArgumentError, match=text if comm.rank == culprit else f"rank {culprit}: {text}") as caught:
            optimizer.step(*given)
        assert caught.value.__cause__ is None
        for weight, was in zip(weights, before):
            np.testing.assert_array_equal(weight, was)
        optimizer.step(weights, gradients, 0.1)
        assert optimizer.statistics.steps == 1


@pytest.mark.parametrize(
    "stream, mine, theirs",
    [
        ("x", "stream is 'x': it must be a whole number", "stream is 'x': it must be a whole number"),
        (7, "gave a stream, but the optimizer is for host memory", "gave a stream"),
    ],
)
def test_a_bad_stream_of_one_rank(comm, stream, mine, theirs):
    here = comm.rank == comm.size - 1
    with weir.LayerOptimizer(comm, LAYERS) as optimizer:
        weights = weights_of()
        with pytest.raises(weir.ArgumentError, match=mine if here else theirs):
            optimizer.step(weights, gradients_of(0), 0.1, **({"stream": stream} if here else {}))
        np.testing.assert_array_equal(weights[0], weights_of()[0])
        optimizer.step(weights, gradients_of(0), 0.1)


def test_nan(comm):
    with weir.LayerOptimizer(comm, LAYERS) as optimizer:
        weights, gradients = weights_of(), gradients_of(0)
        gradients[2][70000] = np.nan
        with pytest.raises(weir.NonFiniteError, match="layer 'fc.weight': the norm of its gradient is not finite"):
            optimizer.step(weights, gradients, 0.1)
        np.testing.assert_array_equal(weights[2], weights_of()[2])


@pytest.mark.parametrize(
    "layers, text",
    [
        (None, "the layers are of type NoneType: give a list"),
        ([5], "layer 0 is 5: give a weir.OptimizedLayer"),
        ({"a": "many"}, "layer 'a' is 'many': give its number of elements"),
        ({"a\0": 5}, "layer 0: name is 'a.*must be a str without null characters"),
        ([weir.OptimizedLayer(name="a", count=1.5)], "layer 0: count is 1.5: it must be a whole number"),
        ([("same", 5), ("same", 6)], "same"),
    ],
)
def test_bad_layers_of_one_rank(comm, layers, text):
    here = comm.rank == comm.size - 1
    with pytest.raises((weir.ArgumentError, weir.MismatchError), match=text if here else ""):
        weir.LayerOptimizer(comm, layers if here else {"a": 5})
    with pytest.raises((TypeError, weir.Error), match="did you mean 'rule'" if here else ""):
        weir.LayerOptimizer(comm, {"a": 5}, **({"rul": "lars"} if here else {}))


def test_ctrl_c_as_one_is_made(comm, monkeypatch):
    with weir.Communicator() as other:
        with monkeypatch.context() as patch:

            def interrupted(*arguments):
                lib.weir_optimizer_create(*arguments)
                raise KeyboardInterrupt

            patch.setitem(_object.CREATE, "optimizer", interrupted)
            with pytest.raises(KeyboardInterrupt) as caught:
                weir.LayerOptimizer(other, LAYERS)
        assert other._handle.living == 1
        other.close()
        assert other._handle.living == 0
        del caught
