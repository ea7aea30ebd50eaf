"""weir.torch.LayerOptimizer, in the place of an optimizer of PyTorch."""
import copy
import io
import shutil

import numpy as np
import pytest
from conftest import barrier, shared_folder
from optim_references import Lamb, Lars

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


def same(a, b):
    return all(torch.equal(first, second) for first, second in zip(a.parameters(), b.parameters()))


@pytest.mark.parametrize("rule", ["lars", "lamb"])
def test_parameters_are_those_of_the_papers(comm, rule):
    model = network()
    reference = (Lars if rule == "lars" else Lamb)(weight_decay=0.01)
    expected = {name: parameter.detach().numpy().astype(np.float64) for name, parameter in model.named_parameters()}
    optimizer = weir.torch.LayerOptimizer(model, comm, lr=0.1, rule=rule, weight_decay=0.01, update="all")
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    for step in range(6):
        loss = optimizer.step(lambda: backward(model, step))
        assert loss.item() > 0
        for name, parameter in model.named_parameters():
            gradient = parameter.grad.numpy().astype(np.float64)
            rate = 0.1 * 0.5 ** (step // 2)
            expected[name], _ = reference.step(name, expected[name], gradient, rate, parameter.dim() < 2)
            np.testing.assert_allclose(parameter.detach().numpy(), expected[name], rtol=1e-3, atol=1e-4)
        schedule.step()
    assert [layer.excluded for layer in optimizer.optimizer.layers] == [False, True, True, True, False, True]
    assert optimizer.optimizer.statistics.steps == 6 and "6 layers" in repr(optimizer)
    optimizer.zero_grad()
    optimizer.close()


def test_states(comm):
    model = network()
    optimizer = weir.torch.LayerOptimizer(model, comm, lr=0.1, rule="lamb", update="all")
    for step in range(3):
        backward(model, step)
        optimizer.step()
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    other = copy.deepcopy(model)
    again = weir.torch.LayerOptimizer(other, comm, lr=7, rule="lamb", update="all")
    again.load_state_dict(torch.load(file))
    assert again.param_groups[0]["lr"] == 0.1
    for step in range(3, 5):
        for one, its in ((model, optimizer), (other, again)):
            backward(one, step)
            its.step()
    assert same(model, other)
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


def test_in_a_checkpoint(comm):
    """As its `optimizer` would be."""
    model, folder = network(), shared_folder(comm)
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
    barrier(comm)
    if comm.rank == 0:
        shutil.rmtree(folder, ignore_errors=True)
    optimizer.close()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_parameters_of_16_bits(comm, dtype):
    """They are the rounded ones of float32, which the optimizer keeps: steps that are too small for 16 bits are not lost."""
    narrow = network().to(dtype)
    wide = copy.deepcopy(narrow).float()
    optimizers = [weir.torch.LayerOptimizer(model, comm, lr=1e-4, rule="lamb", update="all") for model in (narrow, wide)]
    for step in range(20):
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


def test_refused_on_every_rank(comm):
    culprit = comm.size - 1
    here = comm.rank == culprit
    model = network()
    cases = (
        (lambda: weir.torch.LayerOptimizer(5, comm, lr=0.1), "the model is of type int"),
        (lambda: weir.torch.LayerOptimizer(network().double(), comm, lr=0.1), "'0.weight' has type float64: all must be float32"),
        (lambda: weir.torch.LayerOptimizer(model, comm, lr=0.1, type="float32"), "type is no keyword here"),
        (lambda: weir.torch.LayerOptimizer(model, comm, lr=0.1, memory="host"), "memory is no keyword here"),
        (lambda: weir.torch.LayerOptimizer(model, comm, lr=0.1, rul="lars"), "did you mean 'rule'"),
        (lambda: weir.torch.LayerOptimizer(model, comm, lr=0.1, excluded=["9.bias"]), "excluded has '9.bias', which is no parameter"),
        (lambda: weir.torch.LayerOptimizer(model, comm, lr=0.1, excluded="0.bias"), "excluded is '0.bias': give a list"),
        (lambda: weir.torch.LayerOptimizer(model, comm, lr=0.1, momentum=2), "momentum is 2"),
    )
    for wrong, text in cases:
        with pytest.raises((TypeError, weir.Error), match=text if here else ""):
            wrong() if here else weir.torch.LayerOptimizer(model, comm, lr=0.1)
    optimizer = weir.torch.LayerOptimizer(model, comm, lr=0.1, excluded=["0.weight"])
    assert [layer.excluded for layer in optimizer.optimizer.layers][:2] == [True, False]
    with pytest.raises(weir.ArgumentError, match="has one group"):
        optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(2))]})
    backward(model, 0)
    if here:
        model[3].bias.grad = None
    with pytest.raises(weir.ArgumentError, match="'3.bias' has no gradient: every layer, or" if here else f"rank {culprit}: '3.bias' has no gradient"):
        optimizer.step()
    backward(model, 0)
    optimizer.step()
    optimizer.close()
