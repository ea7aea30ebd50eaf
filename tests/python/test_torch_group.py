"""The backend "weir" of torch.distributed, against NumPy and against Gloo."""
import datetime
import functools
import operator
import os

import numpy as np
import pytest

import weir

torch = pytest.importorskip("torch", reason="torch is not installed")
if tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2]) < (2, 15):
    pytest.skip(f"the backend weir needs torch 2.15; this is {torch.__version__}", allow_module_level=True)
import torch.distributed as dist  # noqa: E402
import weir.torch  # noqa: E402
from torch import nn  # noqa: E402

TYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8]
SHORT = datetime.timedelta(seconds=1)


@pytest.fixture(scope="module", autouse=True)
def group(comm):
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    weir.torch.init_process_group(comm, backend="weir")
    yield dist.group.WORLD
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def gloo(group):
    return dist.new_group(backend="gloo")


def of_rank(rank, shape, dtype=torch.float32):
    values = np.random.default_rng(rank).integers(0, 5, shape)
    return torch.from_numpy(values).to(dtype)


def all_of(comm, shape, dtype=torch.float32):
    return torch.stack([of_rank(rank, shape, dtype) for rank in range(comm.size)])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("elements", [0, 1, 1000, 100_000])
def test_sums(comm, dtype, elements):
    tensor = of_rank(comm.rank, elements, dtype)
    dist.all_reduce(tensor)
    assert torch.equal(tensor, all_of(comm, elements, dtype).sum(0).to(dtype))
    tensor = of_rank(comm.rank, elements, dtype)
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
    assert torch.equal(tensor, all_of(comm, elements, dtype).amax(0))


@pytest.mark.parametrize("name", ["SUM", "AVG", "PRODUCT", "MIN", "MAX"])
def test_operations(comm, gloo, name):
    tensor = of_rank(comm.rank, (3, 7)) + 1
    expected = {"SUM": torch.sum, "AVG": torch.mean, "PRODUCT": torch.prod, "MIN": torch.amin, "MAX": torch.amax}[name]
    dist.all_reduce(tensor, op=getattr(dist.ReduceOp, name))
    torch.testing.assert_close(tensor, expected(all_of(comm, (3, 7)) + 1, 0))


def test_bitwise_operations_and_bool(comm):
    for name, function in (("BAND", np.bitwise_and), ("BOR", np.bitwise_or), ("BXOR", np.bitwise_xor)):
        tensor = of_rank(comm.rank, 50, torch.int32)
        dist.all_reduce(tensor, op=getattr(dist.ReduceOp, name))
        assert np.array_equal(tensor, function.reduce(all_of(comm, 50, torch.int32).numpy()))
    tensor = of_rank(comm.rank, 50) > 2
    dist.all_reduce(tensor)
    assert torch.equal(tensor, (all_of(comm, 50) > 2).any(0))


def test_nan_goes_through(comm):
    tensor = torch.zeros(100_000)
    if comm.rank == comm.size - 1:
        tensor[7] = float("nan")
    dist.all_reduce(tensor)
    assert tensor[7].isnan() and tensor.isnan().sum() == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_extremes_are_the_same_on_all_ranks(comm, dtype):
    """If one rank has NaN, all get it. Of 0 and -0, all get the same."""
    for rank in range(comm.size):
        for operation, zero in ((dist.ReduceOp.MAX, 0.0), (dist.ReduceOp.MIN, -0.0)):
            tensor = torch.tensor([float(comm.rank), 0.0, 0.0], dtype=dtype)
            if comm.rank == rank:
                tensor[1:] = torch.tensor([float("nan"), -0.0], dtype=dtype)
            dist.all_reduce(tensor, op=operation)
            assert tensor[0] == (comm.size - 1 if operation == dist.ReduceOp.MAX else 0) and tensor[1].isnan(), tensor
            if comm.size > 1:
                assert tensor[2].signbit() == torch.tensor(zero).signbit(), tensor
    scattered = torch.empty(1, dtype=dtype)
    given = torch.full((comm.size,), float("nan") if comm.rank == 0 else 1.0, dtype=dtype)
    dist.reduce_scatter_tensor(scattered, given, op=dist.ReduceOp.MAX)
    assert scattered.isnan()


def test_what_only_moves(comm):
    for dtype in (*TYPES, torch.bool, torch.complex64, torch.complex128, torch.float8_e4m3fn):
        mine = of_rank(comm.rank, (2, 3)).to(dtype)
        expected = [of_rank(rank, (2, 3)).to(dtype) for rank in range(comm.size)]
        equal = lambda one, other: torch.equal(one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))  # noqa: E731

        outputs = [torch.zeros(2, 3).to(dtype) for _ in expected]
        dist.all_gather(outputs, mine)
        assert all(map(equal, outputs, expected))
        output = torch.zeros(2 * comm.size, 3).to(dtype)
        dist.all_gather_into_tensor(output, mine)
        assert equal(output, torch.cat(expected))
        root = comm.size - 1
        outputs = [torch.zeros(2, 3).to(dtype) for _ in expected] if comm.rank == root else None
        dist.gather(mine, outputs, dst=root)
        assert outputs is None or all(map(equal, outputs, expected))
        output = torch.zeros(2, 3).to(dtype)
        dist.scatter(output, expected if comm.rank == root else None, src=root)
        assert equal(output, mine)
        output = mine.clone()
        dist.broadcast(output, src=root)
        assert equal(output, expected[root])


def test_other_layouts(comm):
    tensor = of_rank(comm.rank, (4, 6)).t()
    dist.all_reduce(tensor)
    assert torch.equal(tensor, all_of(comm, (4, 6)).sum(0).t())
    tensor = of_rank(comm.rank, (4, 6))[:, ::2]
    dist.broadcast(tensor, src=0)
    assert torch.equal(tensor, of_rank(0, (4, 6))[:, ::2])


def test_views_that_are_to_be_negated(comm):
    """Their memory has the numbers before the negation, which all calls respect."""

    def view(rank):
        return torch.complex(of_rank(rank, 12), of_rank(rank + 50, 12)).conj().imag

    assert view(0).is_neg()
    last, every = comm.size - 1, [view(rank).clone() for rank in range(comm.size)]
    tensor = view(comm.rank)
    dist.all_reduce(tensor)
    assert torch.equal(tensor, sum(every))
    tensor = view(comm.rank)
    dist.broadcast(tensor, src=last)
    assert torch.equal(tensor, every[last])
    outputs = [view(comm.rank) for _ in every]
    dist.all_gather(outputs, view(comm.rank))
    assert all(map(torch.equal, outputs, every))
    output = torch.zeros(12 * comm.size, dtype=torch.complex64).conj().imag
    dist.all_gather_into_tensor(output, view(comm.rank))
    assert torch.equal(output, torch.cat(every))
    output = view(comm.rank)
    dist.reduce_scatter(output, [view(comm.rank)] * comm.size)
    assert torch.equal(output, sum(every))
    output = view(comm.rank)
    dist.scatter(output, [view(rank) for rank in range(comm.size)] if comm.rank == last else None, src=last)
    assert torch.equal(output, every[comm.rank])
    output = torch.zeros(12 * comm.size, dtype=torch.complex64).conj().imag
    dist.all_to_all_single(output, torch.cat(every))
    assert torch.equal(output, every[comm.rank].repeat(comm.size))
    if comm.size > 1 and comm.rank == 0:
        dist.send(view(0), 1)
    elif comm.rank == 1:
        tensor = view(1)
        dist.recv(tensor, 0)
        assert torch.equal(tensor, every[0])


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_reduce_scatter_of_complex_numbers(comm, dtype):
    for shape in ((), (5,), (2, 3)):
        given = [torch.full(shape, complex(comm.rank, rank), dtype=dtype) for rank in range(comm.size)]
        total = comm.size * (comm.size - 1) / 2
        output = torch.empty(shape, dtype=dtype)
        dist.reduce_scatter(output, given)
        assert torch.equal(output, torch.full(shape, complex(total, comm.size * comm.rank), dtype=dtype))


def test_reduce_and_reduce_scatter(comm, gloo):
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        tensor = of_rank(comm.rank, 9, dtype)
        dist.reduce(tensor, dst=0)
        assert torch.equal(tensor, all_of(comm, 9, dtype).sum(0) if comm.rank == 0 else of_rank(comm.rank, 9, dtype))
        expected = all_of(comm, (comm.size, 5), dtype).sum(0)[comm.rank]
        output = torch.zeros(5, dtype=dtype)
        dist.reduce_scatter_tensor(output, of_rank(comm.rank, (comm.size, 5), dtype).reshape(-1))
        assert torch.equal(output, expected)
        output = torch.zeros(5, dtype=dtype)
        dist.reduce_scatter(output, list(of_rank(comm.rank, (comm.size, 5), dtype)))
        assert torch.equal(output, expected)
    inside = of_rank(comm.rank, (comm.size, 5))  # the output is a part of the input, as in FSDP
    dist.reduce_scatter_tensor(inside[comm.rank], inside.view(-1))
    assert torch.equal(inside[comm.rank], all_of(comm, (comm.size, 5)).sum(0)[comm.rank])


def test_all_to_all(comm):
    sends = [torch.full((comm.rank + to,), float(10 * comm.rank + to)) for to in range(comm.size)]
    outputs = [torch.zeros(comm.rank + peer) for peer in range(comm.size)]
    dist.all_to_all(outputs, sends)
    assert all((output == 10 * peer + comm.rank).all() for peer, output in enumerate(outputs))
    output = torch.zeros(sum(map(len, outputs)))
    dist.all_to_all_single(output, torch.cat(sends), [len(one) for one in outputs], [len(one) for one in sends])
    assert torch.equal(output, torch.cat(outputs))


def test_messages(comm):
    if comm.size == 1:
        return
    peers = [rank for rank in range(comm.size) if rank != comm.rank]
    received = {peer: torch.zeros(1000) for peer in peers}
    works = [dist.irecv(received[peer], peer, tag=comm.rank) for peer in peers]
    dist.barrier()  # a collective behind receives that have not come
    works += [dist.isend(torch.full((1000,), float(comm.rank)), peer, tag=peer) for peer in peers]
    for work in works:
        work.wait()
        assert work.is_completed()
    assert all((received[peer] == peer).all() for peer in peers)
    dist.barrier()
    if comm.rank == 0:
        seen = {dist.recv(received[peers[0]]) for _ in peers}
        assert seen == set(peers)
    else:
        dist.send(torch.ones(1000), 0)


def test_overlap_of_many(comm):
    tensors = [of_rank(comm.rank, 10 + 40_000 * (i % 2)) for i in range(8)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    futures = [work.get_future() for work in works[::2]]
    for work in reversed(works):
        work.wait()
    for i, tensor in enumerate(tensors):
        assert torch.equal(tensor, all_of(comm, 10 + 40_000 * (i % 2)).sum(0))
    assert all(future.wait()[0] is tensors[2 * i] for i, future in enumerate(futures))


def sparse_of(rank, shape, entries, dense=(), dtype=torch.float32):
    random = np.random.default_rng(rank)
    indices = torch.from_numpy(np.stack([random.integers(0, size, entries) for size in shape]))  # with duplicates
    values = torch.from_numpy(random.integers(-4, 5, (entries, *dense))).to(dtype)
    return torch.sparse_coo_tensor(indices, values, (*shape, *dense), check_invariants=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("shape, entries, dense", [((1000,), 50, ()), ((30, 40), 100, (3,)), ((10**9,), 200, ()), ((7,), 0, ()), ((300,), 300, (2,))])
def test_sparse_sums(comm, dtype, shape, entries, dense):
    many = entries * (comm.rank + 1)  # not the same on all ranks
    tensor = sparse_of(comm.rank, shape, many, dense, dtype)
    work = dist.all_reduce(tensor, async_op=True)
    after = torch.ones(3)
    dist.all_reduce(after)
    work.wait()
    given = (sparse_of(rank, shape, entries * (rank + 1), dense, dtype).double() for rank in range(comm.size))
    expected = functools.reduce(operator.add, given).coalesce()
    found = tensor.coalesce()
    assert tensor.dtype == dtype and torch.equal(found.indices(), expected.indices())
    assert torch.equal(found.values(), expected.values().to(dtype)) and after[0] == comm.size


def test_sparse_tensors_of_other_shapes(comm):
    if comm.size > 1:
        with pytest.raises(ValueError, match="another shape"):
            dist.all_reduce(sparse_of(0, (10 + comm.rank,), 5))
    tensor = sparse_of(comm.rank, (10,), 5)
    dist.all_reduce(tensor)  # the group goes on
    assert torch.equal(tensor.to_dense(), sum(sparse_of(rank, (10,), 5).to_dense() for rank in range(comm.size)))


def test_subgroups_and_meshes(comm):
    ranks = [0, comm.size - 1] if comm.size > 1 else [0]
    group = dist.new_group(ranks)
    if comm.rank in ranks:
        tensor = torch.ones(50_000)
        dist.all_reduce(tensor, group=group)
        assert (tensor == len(ranks)).all()
        dist.destroy_process_group(group)
    if comm.size == 4:
        mesh = dist.device_mesh.init_device_mesh("cpu", (2, 2), mesh_dim_names=("rows", "columns"))
        tensor = torch.tensor([float(comm.rank)])
        dist.all_reduce(tensor, group=mesh.get_group("columns"))
        assert tensor.item() == 4 * (comm.rank // 2) + 1


def test_beside_another_backend(comm):
    group = dist.new_group(backend="cpu:weir,cuda:gloo")
    tensor = torch.ones(50_000)
    work = dist.all_reduce(tensor, group=group, async_op=True)
    assert (work.get_future().wait()[0] == comm.size).all()
    output = torch.zeros(2 * comm.size)
    dist.all_gather_into_tensor(output, torch.full((2,), float(comm.rank)), group=group)
    assert output.tolist() == [rank for rank in range(comm.size) for _ in range(2)]
    dist.destroy_process_group(group)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_functional_collectives(comm):
    import torch.distributed._functional_collectives as functional

    world = dist.group.WORLD
    assert torch.equal(functional.all_reduce(torch.ones(4), "sum", world), torch.full((4,), float(comm.size)))
    assert torch.equal(functional.all_gather_tensor(torch.ones(2), 0, world), torch.ones(2 * comm.size))
    assert torch.equal(functional.reduce_scatter_tensor(torch.ones(2 * comm.size), "avg", 0, world), torch.ones(2))


def test_refusals(comm):
    with pytest.raises(ValueError, match="elements"):
        dist.all_gather_into_tensor(torch.zeros(3 * comm.size + 1), torch.zeros(3))
    with pytest.raises(ValueError, match="host memory"):
        dist.all_reduce(torch.zeros(3, device="meta"))
    with pytest.raises(ValueError, match="bitwise operations"):
        dist.all_reduce(torch.zeros(3), op=dist.ReduceOp.BOR)
    with pytest.raises(ValueError, match="PREMUL_SUM"):
        dist.all_reduce(torch.zeros(3), op=dist._make_nccl_premul_sum(2.0))
    dist.barrier()


def test_timeout(comm):
    if comm.size == 1:
        return
    group = dist.new_group(timeout=SHORT)
    if comm.rank == 0:
        with pytest.raises(RuntimeError, match="barrier: Timed out waiting 1000ms"):
            dist.barrier(group)
    else:
        import time

        time.sleep(1.5)
        dist.barrier(group)  # the thread of rank 0 has gone on
    dist.barrier()


def test_futures_time_out(comm):
    """DDP waits for futures."""
    if comm.size == 1:
        return
    group = dist.new_group(timeout=SHORT)
    if comm.rank == 0:
        with pytest.raises(RuntimeError, match="barrier: Timed out waiting 1000ms"):
            dist.barrier(group, async_op=True).get_future().wait()
    else:
        import time

        time.sleep(1.5)
        dist.barrier(group)
    dist.barrier()
    dist.destroy_process_group(group)  # nothing is left in flight


def test_ddp_that_times_out(comm):
    if comm.size == 1:
        return
    group = dist.new_group(timeout=SHORT)
    model = nn.parallel.DistributedDataParallel(nn.Linear(10, 50), process_group=group)
    if comm.rank == 0:
        with pytest.raises(RuntimeError, match="all_reduce: Timed out waiting 1000ms"):
            model(torch.ones(3, 10)).sum().backward()
    else:
        import time

        time.sleep(1.5)
        dist.all_reduce(torch.zeros(sum(parameter.numel() for parameter in model.parameters())), group=group)
    dist.barrier()
    dist.destroy_process_group(group)


def test_calls_that_nobody_has_waited_for(comm):
    """The end of a group waits for them."""
    group = dist.new_group()
    for dtype in (torch.float32, torch.bfloat16):
        large = [torch.ones(50_000, dtype=dtype) for _ in range(4)]
        for tensor in large:
            dist.all_reduce(tensor, group=group, async_op=True)
    sparse = torch.sparse_coo_tensor([[comm.rank]], [1.0], (comm.size,))
    dist.all_reduce(sparse, group=group, async_op=True)
    dist.destroy_process_group(group)
    assert all((tensor == comm.size).all() for tensor in large) and (sparse.to_dense() == 1).all()
    assert not weir._handles.Process.ended


def test_ranks_that_disagree_about_a_group(comm):
    if comm.size < 3:
        return
    try:  # who comes first decides whether 1 and 2 make their group
        dist.new_group([0, 1] if comm.rank == 0 else [1, 2])
        assert comm.rank > 0
    except weir.MismatchError as error:
        assert "ranks disagree about the process group: this one makes it of ranks" in str(error)
    dist.barrier()


def test_a_rank_that_makes_no_group():
    from weir._torch_group import places

    store = dist.HashStore()
    store.set_timeout(SHORT)
    with pytest.raises(dist.DistBackendError, match=r"ranks \[7\] have not come to make the process group of ranks \[4, 7\]"):
        places(store, 0, 2, [4, 7])


@pytest.fixture
def compared(monkeypatch):
    """A group that compares the calls of its ranks."""
    monkeypatch.setattr(dist, "get_debug_level", lambda: dist.DebugLevel.DETAIL)
    group = dist.new_group()
    yield group
    dist.destroy_process_group(group)


def test_comparisons(comm, compared):
    total = torch.ones(100_000)
    dist.all_reduce(total, group=compared)
    assert (total == comm.size).all()
    rows = torch.arange(comm.size) + 1
    output = torch.zeros(int(rows[comm.rank]) * comm.size)
    given = torch.ones(int(rows.sum()))
    dist.all_to_all_single(output, given, [int(rows[comm.rank])] * comm.size, rows.tolist(), group=compared)
    assert (output == 1).all()
    future = dist.all_reduce(total, group=compared, async_op=True).get_future()
    assert (future.wait()[0] == comm.size**2).all()
    # What a future calls cannot wait for the comparison.
    future = dist.all_reduce(total, group=compared, async_op=True).get_future()
    future = future.then(lambda done: dist.all_reduce(done.value()[0], group=compared, async_op=True))
    future.wait().wait()
    assert (total == comm.size**4).all()
    found = [None] * comm.size
    dist.all_gather_object(found, "x" * comm.rank, group=compared)
    dist.barrier(group=compared)
    assert found[-1] == "x" * (comm.size - 1)


@pytest.mark.parametrize("call, text", [
    (lambda last, group: dist.all_reduce(torch.ones(5 if last else 4), group=group),
     "rank 0 all_reduce of 4 elements of torch.float32 by SUM, rank {last} all_reduce of 5 elements"),
    (lambda last, group: dist.all_reduce(torch.ones(4), op=getattr(dist.ReduceOp, "AVG" if last else "SUM"), group=group),
     "by SUM, rank {last} all_reduce .* by AVG"),
    (lambda last, group: dist.broadcast(torch.ones(4, dtype=torch.int32 if last else torch.float32), 0, group=group),
     "rank 0 broadcast of 4 elements of torch.float32 with root 0, rank {last} broadcast of 4 elements of torch.int32"),
])
def test_calls_that_differ(comm, compared, call, text):
    """With TORCH_DISTRIBUTED_DEBUG=DETAIL, all ranks hear how they differ."""
    if comm.size == 1:
        return
    last = comm.size - 1
    with pytest.raises(RuntimeError, match="ranks of the group make different calls: .*" + text.format(last=last)):
        call(comm.rank == last, compared)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(50, 300), nn.ReLU(), nn.Linear(300, 200), nn.ReLU(), nn.Linear(200, 3))


def train(model, comm):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(3):
        torch.manual_seed(100 * step + comm.rank)
        optimizer.zero_grad()
        model(torch.randn(16, 50)).square().mean().backward()
        optimizer.step()
    return [getattr(parameter, "full_tensor", lambda parameter=parameter: parameter)().detach() for parameter in model.parameters()]


def test_ddp(comm, gloo):
    weir_, gloo_ = (train(nn.parallel.DistributedDataParallel(network(), process_group=group), comm) for group in (None, gloo))
    for mine, theirs in zip(weir_, gloo_):
        torch.testing.assert_close(mine, theirs)


def test_fsdp(comm, gloo):
    from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
    from torch.distributed.fsdp import fully_shard

    found = []
    for mesh in (init_device_mesh("cpu", (comm.size,)), DeviceMesh.from_group(gloo, "cpu")):
        model = network()
        for layer in (model[0], model[2]):
            fully_shard(layer, mesh=mesh)
        found.append(train(fully_shard(model, mesh=mesh), comm))
    for mine, theirs in zip(*found):
        torch.testing.assert_close(mine, theirs)


def test_hook_of_weir(comm):
    model = nn.parallel.DistributedDataParallel(network())
    model.register_comm_hook(*weir.torch.ddp_hook(model, density=0.5))
    train(model, comm)
    dist.barrier()


def test_objects_and_monitored_barrier(comm):
    found = [None] * comm.size
    dist.all_gather_object(found, {"rank": comm.rank})
    assert [one["rank"] for one in found] == list(range(comm.size))
    dist.monitored_barrier()
    if comm.size > 1:
        if comm.rank == comm.size - 1:
            with pytest.raises(RuntimeError, match="received errors"):
                __import__("time").sleep(1.5)
                dist.monitored_barrier()
        else:
            with pytest.raises(RuntimeError, match=f"Rank {comm.size - 1} failed" if comm.rank == 0 else "received errors"):
                dist.monitored_barrier(timeout=SHORT if comm.rank == 0 else None)
