"""weir.torch.LayerOptimizer in place of a PyTorch optimizer."""
import copy
import io

import numpy as np
import pytest
from conftest import is_last, of_last, refused

import weir

torch = pytest.importorskip("torch", reason="torch is not installed")
import weir.torch  # noqa: E402
from torch import nn  # noqa: E402


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(30, 50), nn.LayerNorm(50), nn.ReLU(), nn.Linear(50, 7))


def backward(model, step):
    """The same on all ranks."""
    inputs = np.random.default_rng(step).standard_normal((8, 30)).astype(np.float32)
    model.zero_grad()
    loss = model(torch.from_numpy(inputs)).square().sum()
    loss.backward()
    return loss


@pytest.mark.parametrize("rule", ["lars", "lamb"])
def test_parameters_are_those_of_an_optimizer_of_arrays(comm, rule):
    model = network()
    optimizer = weir.torch.LayerOptimizer(model, comm, lr=0.1, rule=rule, weight_decay=0.01, update="all")
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    layers = [weir.OptimizedLayer(name=name, count=one.numel(), excluded=one.dim() < 2) for name, one in model.named_parameters()]
    assert list(optimizer.optimizer.layers) == layers
    expected = [one.detach().numpy().copy() for one in model.parameters()]
    with weir.LayerOptimizer(comm, layers, rule=rule, weight_decay=0.01, update="all") as plain:
        for step in range(4):
            assert optimizer.step(lambda: backward(model, step)).item() > 0
            plain.step(expected, [one.grad.numpy() for one in model.parameters()], 0.1 * 0.5 ** (step // 2))
            for one, array in zip(model.parameters(), expected):
                np.testing.assert_array_equal(one.detach().numpy(), array)
            schedule.step()
    assert optimizer.optimizer.statistics.steps == 4 and "6 layers" in repr(optimizer)
    optimizer.zero_grad()
    optimizer.close()


def test_states(comm):
    model = network()
    optimizer = weir.torch.LayerOptimizer(model, comm, lr=0.1, rule="lamb", update="all")
    backward(model, 0)
    optimizer.step()
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    other = copy.deepcopy(model)
    again = weir.torch.LayerOptimizer(other, comm, lr=7, rule="lamb", update="all")
    again.load_state_dict(torch.load(file))
    assert again.param_groups[0]["lr"] == 0.1
    for one, its in ((model, optimizer), (other, again)):
        backward(one, 1)
        its.step()
    assert all(torch.equal(first, second) for first, second in zip(model.parameters(), other.parameters()))
    state = again.state_dict()
    for change, text in (
        ({"rank": 9}, "the state is of rank 9 of"),
        ({"optimizer": state["optimizer"][:-1]}, "optimizer 'optimizer'"),
        ({"optimizer": None}, "'optimizer' in the state is of type NoneType"),
    ):
        with pytest.raises(weir.ArgumentError, match=text):
            optimizer.load_state_dict({**state, **change})
    with pytest.raises(ValueError):
        optimizer.load_state_dict({**state, "param_groups": []})
    assert torch.equal(optimizer.state_dict()["optimizer"], state["optimizer"])
    optimizer.close()
    again.close()


def test_in_a_checkpoint(comm, folder):
    """As its `optimizer` would be."""
    model = network()
    optimizer = weir.torch.LayerOptimizer(model, comm, lr=0.1, rule="lamb")
    try:
        with weir.Checkpoint(comm, folder=folder) as checkpoint:
            checkpoint.add("optimizer", optimizer)
            backward(model, 0)
            optimizer.step()
            checkpoint.save(1).wait()
            state = optimizer.optimizer.save_state()
            optimizer.step()
            assert checkpoint.restore() == 1 and optimizer.optimizer.save_state() == state
    except weir.UnsupportedError as error:
        assert "this build of Weir has no HDF5" in str(error)
    optimizer.close()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_parameters_of_16_bits(comm, dtype):
    """They are the rounded ones of float32, which the optimizer keeps: steps that are too small for 16 bits are not lost."""
    narrow = network().to(dtype)
    wide = copy.deepcopy(narrow).float()
    optimizers = [weir.torch.LayerOptimizer(model, comm, lr=1e-4, rule="lamb", update="all") for model in (narrow, wide)]
    for step in range(10):
        backward(wide, step)
        for one, other in zip(narrow.parameters(), wide.parameters()):
            one.grad = other.grad.to(dtype)
            other.grad = one.grad.float()
        for optimizer in optimizers:
            optimizer.step()
        for one, other in zip(narrow.parameters(), wide.parameters()):
            assert torch.equal(one, other.to(dtype))
    for optimizer in optimizers:
        optimizer.close()


@pytest.mark.parametrize(
    "model, keywords, text",
    [
        (5, {}, "the model is of type int"),
        (network().double(), {}, "'0.weight' has type float64: all must be float32"),
        (None, {"type": "float32"}, "type is no keyword here"),
        (None, {"memory": "host"}, "memory is no keyword here"),
        (None, {"rul": "lars"}, "did you mean 'rule'"),
        (None, {"excluded": ["9.bias"]}, "excluded has '9.bias', which is no parameter"),
        (None, {"excluded": "0.bias"}, "excluded is '0.bias': give a list"),
        (None, {"momentum": 2}, "momentum is 2"),
    ],
)
def test_bad_models_and_keywords_of_one_rank(comm, model, keywords, text):
    given = of_last(comm, network() if model is None else model, network())
    with refused(comm, text, "", kind=(TypeError, weir.Error)):
        weir.torch.LayerOptimizer(given, comm, lr=0.1, **of_last(comm, keywords, {}))


def test_bad_steps_of_one_rank(comm):
    model = network()
    optimizer = weir.torch.LayerOptimizer(model, comm, lr=0.1, excluded=["0.weight"])
    assert [layer.excluded for layer in optimizer.optimizer.layers][:2] == [True, False]
    with pytest.raises(weir.ArgumentError, match="has one group"):
        optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(2))]})
    backward(model, 0)
    if is_last(comm):
        model[3].bias.grad = None
    with refused(comm, "'3.bias' has no gradient: every layer, or", f"rank {comm.size - 1}: '3.bias' has no gradient"):
        optimizer.step()
    backward(model, 0)
    optimizer.step()
    optimizer.close()
