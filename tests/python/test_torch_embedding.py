import numpy as np
import pytest
from conftest import of_last, refused

import weir

torch = pytest.importorskip("torch", reason="torch is not installed")
import weir.torch  # noqa: E402

ROWS, WIDTH = 40, 6


@pytest.fixture
def layer(comm):
    made = weir.torch.Embedding(ROWS, WIDTH, largest_batch=32, learning_rate=0.5, comm=comm)
    yield made
    made.table.close()


def ids_of(rank, step, count=12):
    return torch.from_numpy(np.random.default_rng([rank, step]).integers(0, ROWS, count))


def loss_of(vectors, rank):
    return ((vectors - 0.1 * rank) ** 2).sum()


@pytest.mark.parametrize("padding_idx", [None, -1])
def test_it_trains_like_torchs_own(comm, padding_idx):
    """The reference trains on the batches of all ranks, and divides by their number."""
    layer = weir.torch.Embedding(ROWS, WIDTH, largest_batch=32, learning_rate=0.5, padding_idx=padding_idx, comm=comm)
    reference = torch.nn.Embedding(ROWS, WIDTH, padding_idx=padding_idx, _weight=layer.weight())
    optimizer = torch.optim.SGD(reference.parameters(), lr=0.5)
    for step in range(4):
        ids = ids_of(comm.rank, step).reshape(3, 4)
        vectors = layer(ids)
        assert vectors.shape == (3, 4, WIDTH) and vectors.dtype == torch.float32
        if padding_idx is not None:
            assert not vectors[ids == ROWS - 1].any()
        layer.prefetch(ids_of(comm.rank, step + 1))
        loss_of(vectors, comm.rank).backward()
        optimizer.zero_grad()
        for rank in range(comm.size):
            batch = ids_of(rank, step)
            used = batch != layer.padding_idx
            (loss_of(reference(batch)[used], rank) / comm.size).backward()
        optimizer.step()
        keep = torch.arange(ROWS) != layer.padding_idx
        torch.testing.assert_close(layer.weight()[keep], reference.weight.detach()[keep], rtol=1e-4, atol=1e-6)
    layer.table.close()


def test_a_layer_among_others(comm, layer):
    """It has no parameters, and stays as it is where no gradients are needed."""
    model = torch.nn.Sequential(layer, torch.nn.Linear(WIDTH, 3))
    assert [name for name, _ in model.named_parameters()] == ["1.weight", "1.bias"] and not layer.state_dict()
    assert "40, 6" in repr(layer)
    before = layer.weight()
    with torch.no_grad():
        model(ids_of(comm.rank, 0))
    model(torch.empty(0, dtype=torch.int64)).sum().backward()
    assert torch.equal(layer.weight(), before)
    model(ids_of(comm.rank, 0)).sum().backward()
    assert not torch.equal(layer.weight(), before)


def test_weights_come_from_rank_0(comm, layer):
    new = torch.arange(ROWS * WIDTH, dtype=torch.float64).reshape(ROWS, WIDTH)
    layer.load_weight(new if comm.rank == 0 else None)
    assert torch.equal(layer.weight(), new.to(torch.float32))
    layer.set_learning_rate(0.25)
    layer(torch.tensor([1, 2])).sum().backward()
    torch.testing.assert_close(layer.weight()[1], new[1].to(torch.float32) - 0.25)
    assert torch.equal(layer.weight()[3], new[3].to(torch.float32))


def test_what_it_refuses(comm, layer):
    ids = ids_of(comm.rank, 0)
    first = layer(ids)
    second = layer(ids)
    with pytest.raises(weir.StateError, match="belongs to an earlier call of the layer"):
        first.sum().backward()
    loss = second.sum()
    loss.backward(retain_graph=True)
    with pytest.raises(weir.StateError, match="runs for the second time"):
        loss.backward()
    with refused(comm, "padding_idx is 40: it must be from -40 to 39"):
        weir.torch.Embedding(ROWS, WIDTH, largest_batch=4, padding_idx=of_last(comm, 40, 0), comm=comm)
    with refused(comm, "has no keyword 'rows'", kind=(TypeError, weir.ArgumentError)):
        weir.torch.Embedding(ROWS, WIDTH, largest_batch=4, comm=comm, **of_last(comm, {"rows": 4}, {}))
