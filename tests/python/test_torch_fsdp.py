import numpy as np
import pytest
from conftest import of_last, refused

import weir

torch = pytest.importorskip("torch", reason="torch is not installed")
import torch.distributed as dist  # noqa: E402
import weir.torch  # noqa: E402
from torch import nn  # noqa: E402

if int(torch.__version__.split(".")[0]) < 2:
    pytest.skip(f"torch {torch.__version__} has no fully_shard", allow_module_level=True)
fsdp = pytest.importorskip("torch.distributed.fsdp", reason="torch has no FSDP")
if not hasattr(getattr(fsdp, "FSDPModule", None), "set_custom_reduce_scatter"):
    pytest.skip(f"torch {torch.__version__} has no set_custom_reduce_scatter", allow_module_level=True)


@pytest.fixture(scope="module")
def mesh(comm):
    from torch.distributed.device_mesh import init_device_mesh

    ours = not dist.is_initialized()
    if ours:
        weir.torch.init_process_group(comm)
    yield init_device_mesh("cpu", (comm.size,))
    if ours:
        dist.destroy_process_group()


@pytest.fixture(scope="module")
def hybrid(comm, mesh):
    """Two nodes of two ranks each."""
    from torch.distributed.device_mesh import init_device_mesh

    if comm.size != 4:
        pytest.skip("hybrid sharding is tested with 4 ranks")
    return init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(50, 200), nn.ReLU(), nn.Linear(200, 70), nn.ReLU(), nn.Linear(70, 3))


def sharded(mesh):
    model = network()
    for layer in (model[0], model[2]):
        fsdp.fully_shard(layer, mesh=mesh)
    return fsdp.fully_shard(model, mesh=mesh)


def train(model, comm, steps, first=0):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(first, first + steps):
        torch.manual_seed(100 * step + comm.rank)
        optimizer.zero_grad()
        model(torch.randn(16, 50)).square().sum().backward()
        optimizer.step()
    return [parameter.full_tensor().detach().clone() for parameter in model.parameters()]


def test_density_1_is_what_pytorch_does(comm, mesh):
    expected = train(sharded(mesh), comm, 3)
    model = sharded(mesh)
    gradients = weir.torch.fsdp_hook(model, comm, density=1.0)
    for mine, theirs in zip(train(model, comm, 3), expected):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
    assert sorted(gradients.plans) == (["", "0", "2"] if comm.size > 1 else [])
    gradients.close()


@pytest.mark.parametrize("layout", ["plain", "hybrid"])
@pytest.mark.parametrize("keywords", [{"algorithm": "dense_ring"}, {"algorithm": "auto"}, {"dense_iterations": 3}], ids=str)
def test_dense_exchanges_are_what_pytorch_does(comm, layout, keywords, request):
    mesh = request.getfixturevalue(layout if layout == "hybrid" else "mesh")
    expected = train(sharded(mesh), comm, 3)
    model = sharded(mesh["shard"] if layout == "hybrid" else mesh)
    gradients = weir.torch.fsdp_hook(model, comm, density=1.0, **keywords)
    for mine, theirs in zip(train(model, comm, 3), expected):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
    gradients.close()


@pytest.mark.parametrize("keywords", [
    {"error_feedback": "ef21"}, {"algorithm": "auto", "compressor": "power_sgd"},
    {"algorithm": "packed_reduce_scatter", "compressor": "block_quantise"}, {"algorithm": "auto"}, {"dense_iterations": 2},
], ids=str)
def test_any_update_keeps_ranks_alike(comm, mesh, keywords):
    model = sharded(mesh)
    gradients = weir.torch.fsdp_hook(model, comm, density=0.05, **keywords)
    weights = torch.cat([one.flatten() for one in train(model, comm, 4)])
    assert torch.isfinite(weights).all()
    assert not torch.equal(weights, torch.cat([one.detach().flatten() for one in network().parameters()]))
    assert len(set(comm.allgather(weights.numpy().tobytes()))) == 1
    gradients.close()


def test_nothing_is_lost(comm, mesh):
    """What one step does not deliver, the next ones do: the sum of updates and residuals is the sum of gradients."""
    if comm.size == 1:
        pytest.skip("one rank has nothing to exchange")
    model = sharded(mesh)
    gradients = weir.torch.fsdp_hook(model, comm, density=0.05, min_elements=0)
    total = [torch.zeros_like(parameter.full_tensor()) for parameter in model.parameters()]
    inputs = torch.full((4, 50), 0.1 * (comm.rank + 1))
    for _ in range(60):
        model.zero_grad()
        model(inputs).sum().backward()
        for sum_, parameter in zip(total, model.parameters()):
            sum_ += parameter.grad.full_tensor()
    reference = network()
    for rank in range(comm.size):
        (reference(torch.full((4, 50), 0.1 * (rank + 1))).sum() / comm.size).backward()
    for sum_, parameter in zip(total, reference.parameters()):
        largest = parameter.grad.abs() > 0.5 * parameter.grad.abs().max()
        torch.testing.assert_close((sum_ / 60)[largest], parameter.grad[largest], rtol=0.4, atol=1e-3)
    gradients.close()


def test_hybrid_at_density_1_is_what_pytorch_does(comm, hybrid):
    expected = train(sharded(hybrid), comm, 3)
    model = sharded(hybrid["shard"])
    gradients = weir.torch.fsdp_hook(model, comm, density=1.0)
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(train(model, comm, 3), expected))
    assert sorted(gradients.plans) == ["", "0", "2"]
    gradients.close()


def test_hybrid_loses_nothing(comm, hybrid):
    """The sum of what is applied, plus the average of what waits in residuals, is the average of all gradients."""
    model = sharded(hybrid["shard"])
    gradients = weir.torch.fsdp_hook(model, comm, density=0.05, min_elements=0)
    given, applied = {}, {}

    def spied(name, part):
        def hook(shard):
            given[name] = given.get(name, 0) + shard.double()
            part(shard)
            applied[name] = applied.get(name, 0) + shard.double()
            assert 0 < shard.count_nonzero() < 0.3 * shard.numel()

        return hook

    for name, part in gradients._parts.items():
        model.get_submodule(name).set_all_reduce_hook(spied(name, part))
    train(model, comm, 5)
    for name, plan in gradients.plans.items():
        replicas = gradients._parts[name]._comm
        assert replicas.size == 2 and len(plan.residual.values) == given[name].numel()
        kept = torch.tensor(np.array(plan.residual.values), dtype=torch.float64)
        parts = replicas.allgather((given[name] - kept).numpy().tobytes())
        expected = sum(torch.frombuffer(bytearray(part), dtype=torch.float64) for part in parts) / 2
        torch.testing.assert_close(applied[name], expected, rtol=1e-4, atol=1e-4)
        assert kept.abs().max() > 0
    gradients.close()


@pytest.mark.parametrize("layout", ["plain", "hybrid"])
def test_a_state_continues(comm, layout, request):
    mesh = request.getfixturevalue("mesh") if layout == "plain" else request.getfixturevalue("hybrid")["shard"]
    model = sharded(mesh)
    gradients = weir.torch.fsdp_hook(model, comm, density=0.05)
    train(model, comm, 3)
    state, weights = gradients.state_dict(), {name: value.clone() for name, value in model.state_dict().items()}
    expected = train(model, comm, 2, 3)
    other = sharded(mesh)
    again = weir.torch.fsdp_hook(other, comm, density=0.05)
    other.load_state_dict(weights)
    again.load_state_dict(state)
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(train(other, comm, 2, 3), expected))
    with pytest.raises(weir.ArgumentError, match=f"that of rank {comm.rank + 1} of {comm.size}: this is rank {comm.rank}"):
        again.load_state_dict({**state, "rank": comm.rank + 1})
    with pytest.raises(weir.ArgumentError, match="the state has a module 'absent'"):
        again.load_state_dict({**state, "modules": {"absent": torch.zeros(1)}})
    with pytest.raises(weir.ArgumentError, match="'0' in the state is of type int"):
        again.load_state_dict({**state, "modules": {"0": 5}})


def test_hybrid_refuses(comm, hybrid):
    with pytest.raises(weir.ArgumentError, match="is sharded by a mesh of 2 dimensions.*give fully_shard the dimension of"):
        weir.torch.fsdp_hook(sharded(hybrid), comm)
    if comm.rank < 3:
        with comm.subgroup(range(3)) as few:
            with pytest.raises(weir.ArgumentError, match=r"has the ranks \[0, 1, 2\]: give one of the ranks of its mesh"):
                weir.torch.fsdp_hook(sharded(hybrid["shard"]), few)


def test_what_it_refuses(comm, mesh):
    with pytest.raises(weir.ArgumentError, match="no module of the model is sharded"):
        weir.torch.fsdp_hook(network(), comm)
    with refused(comm, "the model is of type int"):
        weir.torch.fsdp_hook(of_last(comm, 5, sharded(mesh)), comm)
    with pytest.raises((TypeError, weir.ArgumentError), match="has no keyword 'densty': did you mean"):
        weir.torch.fsdp_hook(sharded(mesh), comm, densty=0.1)
