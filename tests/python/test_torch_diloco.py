"""weir.torch.DiLoCo against slow, obvious loops over all ranks, which every rank computes in NumPy with float64."""
import copy
import hashlib
import io

import numpy as np
import pytest
from conftest import is_last, of_last, refused

import weir

torch = pytest.importorskip("torch", reason="torch is not installed")
import weir.torch  # noqa: E402
from torch import nn  # noqa: E402

# In the order in which chunks are cut: matrices of whole chunks come first, block by block.
SHAPES = {"matrix": (128, 64), "odd": (7, 3, 11), "vector": (70,), "number": ()}
LR = 0.25


class Bowl(nn.Module):
    """Parameters of which each rank is drawn to other targets at each step, so that gradients are known without autograd."""

    def __init__(self, dtype=torch.float32, seed=0):
        super().__init__()
        generator = np.random.default_rng(seed)
        for name in ("vector", "matrix", "number", "odd"):  # in another order than chunks
            values = torch.tensor(generator.standard_normal(SHAPES[name]), dtype=dtype)
            self.register_parameter(name, nn.Parameter(values))


def target(rank, step, name):
    return np.random.default_rng([rank, step, list(SHAPES).index(name)]).standard_normal(SHAPES[name])


def set_gradients(model, rank, step):
    for name, parameter in model.named_parameters():
        parameter.grad = (parameter.detach() - torch.tensor(target(rank, step, name))).to(parameter.dtype)


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=LR)


def values_of(model):
    return {name: parameter.detach().double().numpy().copy() for name, parameter in model.named_parameters()}


# What is compressed


def to_flat(values):
    """Returns the parameters one after another as chunks are cut: a matrix in blocks of 64 x 64."""
    blocks = [values["matrix"][row : row + 64] for row in (0, 64)]
    return np.concatenate([*(block.ravel() for block in blocks), *(values[name].ravel() for name in ("odd", "vector", "number"))])


def from_flat(flat):
    values, begin = {}, 0
    for name, shape in SHAPES.items():
        size = int(np.prod(shape))
        values[name] = flat[begin : begin + size].reshape(shape)
        begin += size
    return values


def cosine_matrix(n):
    """Row u has the orthonormal DCT-II's basis vector of frequency u."""
    u, x = np.mgrid[:n, :n]
    return np.sqrt(np.where(u == 0, 1, 2) / n) * np.cos(np.pi * (2 * x + 1) * u / (2 * n))


C = cosine_matrix(64)


def chosen(flat, k, dct):
    """Returns the k largest of each 4096 entries, or of their cosine transform, and 0 elsewhere; where they are; and by how much
    the smallest of them is larger than any other."""
    out, mask, margin = np.zeros_like(flat), np.zeros(flat.shape, bool), np.inf
    for begin in range(0, flat.size, 4096):
        chunk = flat[begin : begin + 4096]
        if dct and chunk.size == 4096:
            chunk = (C @ chunk.reshape(64, 64) @ C.T).ravel()
        order, count = np.argsort(-np.abs(chunk), kind="stable"), max(1, chunk.size * k // 4096)
        keep = order[:count]
        out[begin + keep], mask[begin + keep] = chunk[keep], True
        margin = min(margin, abs(chunk[order[count - 1]]) - abs(chunk[order[count]]))
    return out, mask, margin


def inverse(flat, dct):
    if not dct:
        return flat
    out = flat.copy()
    for begin in range(0, flat.size - 4095, 4096):
        out[begin : begin + 4096] = (C.T @ flat[begin : begin + 4096].reshape(64, 64) @ C).ravel()
    return out


def quantised(flat, mask):
    """Replaces the chosen values by the means of four bins over six standard deviations. Returns, too, how far all of them are from
    the edge of a bin."""
    values = flat[mask]
    width = 6 * values.std() / 4
    places = (values - values.mean()) / width + 2
    bins = np.clip(np.floor(places), 0, 3)
    out = flat.copy()
    out[mask] = [values[bins == one].mean() for one in bins]
    return out, min(np.abs(places - edge).min() for edge in (1, 2, 3))


def exchange(mine, residuals, decay=1.0, k=None, bits=32, dct=False, senders=False):
    """Returns the mean of what all ranks send of `mine` plus their residuals, the new residuals, and how far choices and codes are
    from others. Without k ranks send everything."""
    if k is None:
        return {name: np.mean([one[name] for one in mine], axis=0) for name in mine[0]}, residuals, np.inf
    total, count, left, margins = 0.0, 0, [], []
    for values, residual in zip(mine, residuals):
        flat = decay * residual + to_flat(values)
        sent, mask, margin = chosen(flat, k, dct)
        margins.append(margin)
        if bits == 2:
            sent, margin = quantised(sent, mask)
            margins.append(margin)
        total, count = total + sent, count + mask
        left.append(flat - inverse(sent, dct))
    mean = total / np.maximum(count, 1) if senders else total / len(mine)
    return from_flat(inverse(mean, dct)), left, min(margins)


class Reference:
    """All ranks' parameters, and the published formulas."""

    def __init__(
        self, ranks, start, H, lr, momentum=0, sign=False, weight_decay=0, parts=None, delay=0, mix=0, gradients=False, **sending
    ):
        self.own = [copy.deepcopy(start) for _ in range(ranks)]
        self.shared = copy.deepcopy(start)
        self.velocity = {name: 0.0 for name in start}
        self.residuals = [np.zeros(sum(int(np.prod(shape)) for shape in SHAPES.values()))] * ranks
        self.parts = parts or [list(SHAPES)]
        self.firsts = [(number + 1) * H // len(self.parts) % H for number in range(len(self.parts))]
        self.H, self.lr, self.momentum, self.sign, self.delay, self.mix = H, lr, momentum, sign, delay, mix
        self.weight_decay = weight_decay
        self.of_gradients, self.sending = gradients, sending
        self.in_flight = []  # (step at which it is applied, part, mean)
        self.steps = 0
        self.margin = np.inf  # of the last step's choices, codes and signs

    def step(self):
        self.steps += 1
        self.margin = np.inf
        gradients = [{name: own[name] - target(rank, self.steps, name) for name in own} for rank, own in enumerate(self.own)]
        if not self.of_gradients:
            for own, gradient in zip(self.own, gradients):
                for name in own:
                    own[name] = own[name] - LR * gradient[name]
        self.apply()
        for first, part in zip(self.firsts, self.parts):
            if self.steps % self.H == first:
                moved = [{name: self.shared[name] - own[name] for name in part} for own in self.own]
                given = gradients if self.of_gradients else moved
                mean, self.residuals, self.margin = exchange(given, self.residuals, **self.sending)
                self.in_flight.append((self.steps + self.delay, part, mean))
        self.apply()

    def apply(self):
        for due, part, mean in self.in_flight:
            if due == self.steps:
                for name in part:
                    self.velocity[name] = self.momentum * self.velocity[name] + mean[name]
                    direction = mean[name] + self.momentum * self.velocity[name]
                    if self.sign and direction.any():
                        self.margin = min(self.margin, np.abs(direction[direction != 0]).min())
                    decayed = self.shared[name] * (1 - self.lr * self.weight_decay)
                    self.shared[name] = decayed - self.lr * (np.sign(direction) if self.sign else direction)
                    for own in self.own:
                        own[name] = self.mix * own[name] + (1 - self.mix) * self.shared[name]
        self.in_flight = [one for one in self.in_flight if one[0] > self.steps]


    def follow(self, comm, model, diloco):
        """Goes on from what the ranks have, so that roundings do not add up to another choice."""
        self.shared = {name: values.double().numpy() for name, values in diloco.shared.items()}
        flats = [to_flat(values_of(model)), to_flat({name: values.double().numpy() for name, values in diloco.residuals.items()})]
        for rank, text in enumerate(comm.allgather(np.concatenate(flats).tobytes())):
            own, self.residuals[rank] = np.split(np.frombuffer(text), 2)
            self.own[rank] = from_flat(own)


def mean_of(comm, array):
    """Returns the mean over the ranks of an array of float64."""
    return np.mean([np.frombuffer(one).reshape(array.shape) for one in comm.allgather(array.tobytes())], axis=0)


def bytes_of(tensors):
    return b"".join(tensor.detach().numpy().tobytes() for tensor in tensors.values())


def assert_same_bits(comm, data):
    mine = hashlib.blake2b(data).digest()
    assert set(comm.allgather(mine)) == {mine}


def assert_close(model, diloco, reference, rank):
    for name, values in diloco.shared.items():
        np.testing.assert_allclose(values.numpy(), reference.shared[name], rtol=2e-5, atol=2e-6, err_msg=name)
    for name, values in values_of(model).items():
        np.testing.assert_allclose(values, reference.own[rank][name], rtol=2e-5, atol=2e-6, err_msg=name)
    if reference.sending:  # other plans keep none, and may be in flight
        for name, values in from_flat(reference.residuals[rank]).items():
            np.testing.assert_allclose(diloco.residuals[name].numpy(), values, rtol=2e-5, atol=5e-6, err_msg=name)


PUBLISHED = {
    "diloco": (dict(method="diloco", H=3), dict(H=3, lr=0.7, momentum=0.9)),
    "diloco, H=1": (dict(H=1, outer_lr=1.0, outer_momentum=0.5), dict(H=1, lr=1.0, momentum=0.5)),
    "sparseloco": (dict(method="sparseloco", H=3), dict(H=3, lr=1.0, decay=0.95, k=64, bits=2)),
    "sparseloco, float32": (
        dict(method="sparseloco", H=2, outer_lr=0.5, outer_momentum=0.5, compressor_parameters="k=8,values=float32"),
        dict(H=2, lr=0.5, momentum=0.5, decay=0.95, k=8),
    ),
    "demo": (
        dict(method="demo", outer_lr=0.01, inner=None, weight_decay=0.1),
        dict(H=1, lr=0.01, sign=True, weight_decay=0.1, decay=0.999, k=32, dct=True, senders=True, gradients=True),
    ),
    "demo, unsigned": (
        dict(method="demo", outer_lr=0.5, sign=False, inner=None, feedback_decay=0.5),
        dict(H=1, lr=0.5, decay=0.5, k=32, dct=True, senders=True, gradients=True),
    ),
    "streaming": (
        dict(H=4, fragments=[["odd", "number"], ["matrix"], ["vector"]], delay=2),
        dict(H=4, lr=0.7, momentum=0.9, parts=[["odd", "number"], ["matrix"], ["vector"]], delay=2, mix=0.5),
    ),
    "streaming, delay of H - 1": (
        dict(H=3, fragments=2, delay=2, mix=0.25),
        dict(H=3, lr=0.7, momentum=0.9, parts=[["vector", "matrix"], ["number", "odd"]], delay=2, mix=0.25),
    ),
}


@pytest.mark.parametrize("case", PUBLISHED)
def test_published_formulas(comm, case):
    keywords, expected = PUBLISHED[case]
    model = Bowl(seed=comm.rank)  # DiLoCo begins with rank 0's
    keywords = {"inner": sgd(model), **keywords}
    diloco = weir.torch.DiLoCo(model, comm=comm, **keywords)
    reference = Reference(comm.size, values_of(Bowl(seed=0)), **expected)
    history, certain = bytes_of(diloco.shared), 0
    for step in range(1, 11):
        set_gradients(model, comm.rank, step)
        diloco.step()
        reference.step()
        history += bytes_of(diloco.shared)
        if reference.margin > 1e-5:  # else rounding may have decided otherwise
            assert_close(model, diloco, reference, comm.rank)
            certain += 1
        if expected.get("k"):
            reference.follow(comm, model, diloco)
    assert_same_bits(comm, history)
    assert certain >= 5
    assert diloco.steps == 10 and f"every {expected['H']} steps" in repr(diloco)
    diloco.close()


@pytest.mark.parametrize("delay", [0, 2])
def test_synchronize(comm, delay):
    """All ranks end with the shared parameters, and what they have trained is in these."""
    model = Bowl()
    diloco = weir.torch.DiLoCo(model, sgd(model), comm, H=4, fragments=2, delay=delay, outer_lr=1, outer_momentum=0)
    for step in range(1, 8):
        set_gradients(model, comm.rank, step)
        diloco.step()
    mean = {name: mean_of(comm, values) for name, values in values_of(model).items()}
    with diloco.shared_model():
        assert_same_bits(comm, bytes_of(dict(model.named_parameters())))
    diloco.synchronize()
    assert_same_bits(comm, bytes_of(dict(model.named_parameters())))
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter.detach(), diloco.shared[name])
        if not delay:
            np.testing.assert_allclose(parameter.detach().numpy(), mean[name], rtol=1e-5, atol=1e-6)
    assert diloco.bytes_sent > 0 or comm.size == 1
    assert list(diloco.plans) == ["diloco 0", "diloco 1"]
    diloco.close()


@pytest.mark.parametrize(
    "keywords",
    [
        dict(method="sparseloco", H=3, outer_momentum=0.5),
        dict(method="demo", outer_lr=0.1, H=2),
        dict(method="sparseloco", H=4, fragments=3, delay=3),  # two exchanges are in flight
        dict(H=2, compressor="top_k", density=0.1),
        dict(H=2, compressor="block_quantise", compressor_parameters="format=int4"),
    ],
)
def test_states(comm, keywords):
    """A run that is stopped and resumed has the bits of one that is not."""

    def train(model, diloco, steps):
        for step in steps:
            set_gradients(model, comm.rank, step)
            diloco.step()

    model = Bowl()
    inner = torch.optim.Adam(model.parameters(), lr=0.1)
    diloco = weir.torch.DiLoCo(model, inner, comm, **keywords)
    train(model, diloco, range(1, 6))
    file = io.BytesIO()
    torch.save([model.state_dict(), inner.state_dict(), diloco.state_dict()], file)
    file.seek(0)
    states = torch.load(file)
    other = Bowl(seed=9)
    its = torch.optim.Adam(other.parameters(), lr=0.1)
    again = weir.torch.DiLoCo(other, its, comm, **keywords)
    for one, state in zip((other, its, again), states):
        one.load_state_dict(state)
    train(model, diloco, range(6, 13))
    train(other, again, range(6, 13))
    for mine, theirs in ((diloco.shared, again.shared), (dict(model.named_parameters()), dict(other.named_parameters()))):
        assert all(torch.equal(mine[name], theirs[name]) for name in SHAPES)
    for one in (diloco, again):
        one.close()


def test_bad_states(comm):
    model = Bowl()
    diloco = weir.torch.DiLoCo(model, sgd(model), comm, H=1, method="sparseloco")
    set_gradients(model, comm.rank, 1)
    diloco.step()
    state = diloco.state_dict()
    before = copy.deepcopy(state)
    fragment = state["fragments"][0]
    for change, text in (
        ({"rank": 9}, "the state is of rank 9 of"),
        ({"version": 0}, "the state has the version 0"),
        ({"shared": {**state["shared"], "odd": torch.zeros(3)}}, r"'odd' in 'shared' in the state has the shape \(3,\)"),
        ({"momentum": {"odd": torch.zeros(3)}}, "'momentum' in the state has no 'matrix'"),
        ({"fragments": []}, "the state has 0 fragments"),
        ({"fragments": [{**fragment, "parameters": ["odd"]}]}, "fragment 0 of the state has other parameters"),
        ({"fragments": [{**fragment, "due": 7}]}, "'update' in fragment 0 of the state does not fit"),
        ({"fragments": [{**fragment, "state": fragment["state"][:-1]}]}, "plan 'diloco 0'"),
    ):
        with refused(comm, text):
            diloco.load_state_dict(of_last(comm, {**state, **change}, state))
    if comm.size > 1:
        with pytest.raises(weir.MismatchError, match="disagree about the number of steps in the state: rank 0 has 1, rank . has 2"):
            diloco.load_state_dict({**state, "steps": of_last(comm, 2, 1)})
    with pytest.raises(weir.ArgumentError, match="the state is of type int"):
        diloco.load_state_dict(3)
    after = diloco.state_dict()
    assert torch.equal(after["fragments"][0]["state"], before["fragments"][0]["state"])
    assert all(torch.equal(after["shared"][name], before["shared"][name]) for name in SHAPES)
    diloco.close()


class Odd(nn.Module):
    """A model with one parameter, `odd`."""

    def __init__(self, **of):
        super().__init__()
        self.odd = nn.Parameter(torch.zeros(**of))


def infinite():
    model = Bowl()
    with torch.no_grad():
        model.odd[0, 0, 0] = float("inf")
    return model


@pytest.mark.parametrize(
    "model, keywords, text",
    [
        (None, {"H": 3}, "ranks disagree about H: rank 0 has 2, rank . has 3"),
        (None, {"H": 0}, "H is 0: it must be at least 1"),
        (None, {"H": 1.5}, "H is 1.5: it must be a whole number"),
        (None, {"method": "diloko"}, "method is 'diloko': it must be one of diloco, sparseloco, demo"),
        (None, {"method": "demo"}, "method 'demo' needs outer_lr"),
        (None, {"outer_lr": 0.5}, "ranks disagree about outer_lr: rank 0 has 0.7, rank"),
        (None, {"outer_lr": -1}, "outer_lr is -1.0: it must be positive"),
        (None, {"outer_momentum": 1}, "outer_momentum is 1.0: it must be at least 0 and less than 1"),
        (None, {"mix": "much"}, "mix is 'much': it must be a number"),
        (None, {"delay": 2}, "delay is 2: it must be less than H, 2"),
        (None, {"inner": None}, "H is 2 and inner is None"),
        (None, {"inner": 5}, "inner is of type int"),
        (None, {"inner": sgd(Bowl())}, "the inner optimizer has 4 parameters that are not the model's"),
        (None, {"fragments": 5}, "fragments is 5: the model has only 4 parameters"),
        (None, {"fragments": 3}, "the model is in 3 fragments: there may be at most H, 2"),
        (None, {"fragments": [["odd"], ["matrix", "vector"]]}, "'number' is in no fragment"),
        (None, {"fragments": [["odd"], ["odd", "vector"]]}, "'odd' is in the fragments 0 and 1"),
        (None, {"fragments": [["even"]]}, "fragment 0 has 'even', which has no parameter"),
        (None, {"fragments": ["odd"]}, "fragment 0 is 'odd': it must be a list"),
        (None, {"fragments": 2}, "ranks disagree about the number of fragments: rank 0 has 1, rank"),
        (None, {"compressor": "zip"}, "compressor is 'zip': without an algorithm it must be one of none, "),
        (None, {"count": 3}, "count is no keyword here"),
        (None, {"outer_rate": 3}, "did you mean 'outer_lr'"),
        (None, {"non_finite": "skip"}, "ranks disagree about non_finite"),
        (5, {}, "the model is of type int"),
        (nn.ReLU(), {}, "the model has no parameter that needs a gradient"),
        (Odd(size=(0,)), {}, "the model's parameters have no elements"),
        (Odd(size=(3,), dtype=torch.complex64), {}, "the parameter 'odd' has type complex64; it must be one of float32"),
        (nn.Linear(3, 3), {}, "ranks disagree about the model: rank 0 has one of 4 parameters with 8494 elements"),
        (Bowl(torch.float64), {"method": "sparseloco"}, "ranks disagree about|float64"),
    ],
)
def test_bad_settings_of_one_rank(comm, model, keywords, text):
    if text.startswith("ranks disagree") and comm.size == 1 and "float64" not in text:
        return
    given = of_last(comm, Bowl() if model is None else model, Bowl())
    inner = sgd(given) if isinstance(given, nn.Module) and list(given.parameters()) else None
    with refused(comm, text, "", kind=(TypeError, weir.Error)):
        weir.torch.DiLoCo(given, **{"inner": inner, "H": 2, **of_last(comm, keywords, {})}, comm=comm)


def test_a_bad_start(comm):
    model = infinite() if comm.rank == 0 else Bowl()
    with pytest.raises(weir.ArgumentError, match="the parameter 'odd' has NaN or infinity"):
        weir.torch.DiLoCo(model, sgd(model), comm)


@pytest.mark.parametrize("delay", [0, 1])
def test_errors_of_one_rank_in_an_exchange(comm, delay):
    """All ranks raise what is wrong, nothing has changed, and training goes on."""
    model = Bowl()
    last = comm.size - 1
    diloco = weir.torch.DiLoCo(model, sgd(model), comm, method="sparseloco", H=2, delay=delay)

    def train(steps, spoil=lambda: None):
        for _ in range(steps):
            if tuple(model.odd.shape) == SHAPES["odd"]:
                set_gradients(model, comm.rank, diloco.steps + 1)
            if diloco.steps % 2 == 1 and is_last(comm):
                spoil()
            diloco.step()

    def not_finite():
        model.vector.grad[3] = float("nan")

    def freeze():
        model.odd.requires_grad_(False)

    def replace():
        model.odd.grad = None
        with torch.no_grad():
            model.odd.set_(torch.zeros(3))

    train(2 + delay)
    for spoil, text, kind in (
        (not_finite, f"the parameter 'vector' of rank {last} has moved to NaN", weir.NonFiniteError),
        (freeze, r"have changed since DiLoCo was made \(odd\)", weir.ArgumentError),
        (replace, r"the parameter 'odd' has the shape \(3,\), and had \(7, 3, 11\)", weir.ArgumentError),
    ):
        shared, residuals, kept = diloco.shared, diloco.residuals, model.odd.detach().clone()
        with pytest.raises(kind, match=text):
            train(2, spoil)
        with torch.no_grad():
            model.odd.set_(kept)
        model.odd.requires_grad_(True)
        assert all(torch.equal(values, shared[name]) for name, values in diloco.shared.items())
        assert all(torch.equal(values, residuals[name]) for name, values in diloco.residuals.items())
        diloco.load_shared()
    train(2)
    diloco.synchronize()
    assert_same_bits(comm, bytes_of(dict(model.named_parameters())))
    assert not torch.equal(diloco.shared["matrix"], shared["matrix"])
    diloco.close()


@pytest.mark.parametrize("delay", [0, 1])
def test_a_step_that_ctrl_c_has_ended(comm, delay, monkeypatch):
    """wait() goes on with it."""
    models = [Bowl(), Bowl()]
    first, second = (weir.torch.DiLoCo(model, sgd(model), comm, H=2, delay=delay) for model in models)
    for step in range(1, 3 + delay):
        for model in models:
            set_gradients(model, comm.rank, step)
        first.step()
        if step < 2 + delay:
            second.step()
    with monkeypatch.context() as patch:
        patch.setattr(weir.operation.Operation, "wait", lambda self: (_ for _ in ()).throw(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            second.step()
    for refuses in (second.step, second.after_step, second.synchronize, second.state_dict):
        with pytest.raises(weir.BusyError, match="was interrupted, and its exchange is still in flight: call wait"):
            refuses()
    second.wait()
    second.wait()
    assert first.steps == second.steps and all(torch.equal(*pair) for pair in zip(*(model.parameters() for model in models)))
    first.close()
    second.close()


def test_an_exchange_that_is_skipped(comm):
    """All ranks go back to the shared parameters."""
    model = Bowl()
    diloco = weir.torch.DiLoCo(model, sgd(model), comm, H=1, outer_lr=1, non_finite="skip")
    start = diloco.shared
    set_gradients(model, comm.rank, 1)
    if is_last(comm):
        model.vector.grad[3] = float("nan")
    diloco.step()
    assert all(torch.equal(parameter, start[name]) for name, parameter in model.named_parameters())
    set_gradients(model, comm.rank, 2)
    diloco.step()
    assert not torch.equal(model.vector, start["vector"]) and bool(torch.isfinite(model.vector).all())
    diloco.close()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, None])
def test_other_types(comm, dtype):
    """Shared parameters of 16-bit types are float32: steps that are too small for 16 bits are not lost. None: several types."""
    model = Bowl(dtype or torch.float16)
    if dtype is None:
        model.odd = nn.Parameter(model.odd.detach().double())
        model.vector = nn.Parameter(model.vector.detach().float())
    diloco = weir.torch.DiLoCo(model, sgd(model), comm, H=2, outer_lr=2**-9, outer_momentum=0)
    expected = {name: values.double().numpy() for name, values in diloco.shared.items()}
    for step in range(1, 7):
        set_gradients(model, comm.rank, step)
        if step % 2 == 1:
            start = values_of(model)
            diloco.step()
            continue
        trained = copy.deepcopy(model)
        for mine, theirs in zip(trained.parameters(), model.parameters()):
            mine.grad = theirs.grad
        sgd(trained).step()
        diloco.step()
        for name, values in values_of(trained).items():
            expected[name] = expected[name] - 2**-9 * mean_of(comm, start[name] - values)
            np.testing.assert_allclose(diloco.shared[name].double(), expected[name], rtol=1e-6, atol=1e-7)
        assert_same_bits(comm, bytes_of(diloco.shared))
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter.detach(), diloco.shared[name].to(parameter.dtype))
    assert len(diloco.plans) == (2 if dtype is None else 1)
    diloco.close()


def test_learning(comm):
    """Ranks that have different data learn one model, with a scaler's step and a changed outer learning rate, too."""
    torch.manual_seed(comm.rank)
    truth = torch.randn(20, 1, generator=torch.Generator().manual_seed(7))
    model = nn.Linear(20, 1, bias=False)
    inner = torch.optim.AdamW(model.parameters(), lr=0.05, weight_decay=0)
    diloco = weir.torch.DiLoCo(model, inner, method="sparseloco", H=5, compressor_parameters="chunk=64,k=32")  # of all ranks
    for step in range(100):
        inputs = torch.randn(16, 20)
        inner.zero_grad()
        (model(inputs) - inputs @ truth).square().mean().backward()
        if step == 50:
            diloco.outer_lr = 0.5
        inner.step()
        diloco.after_step()
    diloco.synchronize()
    assert float((model.weight.detach().T - truth).norm() / truth.norm()) < 0.1
    with pytest.raises(weir.ArgumentError, match="outer_lr is nan"):
        diloco.outer_lr = float("nan")
    assert diloco.step(lambda: 3) == 3
    diloco.close()
