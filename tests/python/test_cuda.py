"""Arrays in GPU memory, and their streams. On a machine with a GPU, PyTorch and a Weir that has CUDA; otherwise skipped."""
import numpy as np
import pytest
from conftest import random_gradient

import weir

torch = pytest.importorskip("torch", reason="torch is not installed")
if not torch.cuda.is_available():
    pytest.skip("PyTorch sees no GPU", allow_module_level=True)

import weir.torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

COUNT = 200_000
SPARSE = [row.name for row in weir.algorithms() if row.sparse and row.host_memory and row.cuda_memory]
SUMS_IN_NODES = ("hitopk", "hi_oktopk")  # in CUDA memory with NCCL only, which needs a GPU for each rank


@pytest.fixture(scope="module", autouse=True)
def gpu(comm):
    """Ranks share the GPU if there is only one."""
    torch.cuda.set_device(comm.rank % torch.cuda.device_count())
    try:
        weir.AllreducePlan(comm, count=1, density=1.0, memory="cuda").close()
    except weir.UnsupportedError as error:
        pytest.skip(str(error))


def busy(milliseconds=20):
    """Puts work on the current stream, so that later work is delayed."""
    torch.cuda._sleep(int(milliseconds * 1e6))


@pytest.mark.parametrize("algorithm", SPARSE)
def test_same_bits_as_in_host_memory(comm, algorithm):
    if algorithm in SUMS_IN_NODES and comm.size > torch.cuda.device_count():
        pytest.skip("ranks share a GPU: no sums within the node there")
    with weir.AllreducePlan(comm, count=COUNT, algorithm=algorithm, density=0.01) as host:
        with weir.AllreducePlan(comm, count=COUNT, algorithm=algorithm, density=0.01, memory="cuda") as cuda:
            for turn in range(3):
                gradient = random_gradient(comm.rank, COUNT, turn)
                there = torch.from_numpy(gradient).cuda()
                address = there.data_ptr()
                host.run(gradient)
                cuda.run(there)
                assert there.data_ptr() == address
                np.testing.assert_array_equal(there.cpu().numpy(), gradient)
            begin, values = cuda.residual
            expected_begin, expected = host.residual
            assert begin == expected_begin
            np.testing.assert_array_equal(torch.as_tensor(values, device="cuda").cpu().numpy(), expected)


def test_a_run_comes_after_the_current_stream_and_before_what_follows(comm):
    stream = torch.cuda.Stream()
    with weir.AllreducePlan(comm, count=COUNT, density=1.0, algorithm="topk_allgather", memory="cuda") as plan:
        for turn in range(5):
            expected = np.mean([random_gradient(rank, COUNT, turn) for rank in range(comm.size)], axis=0)
            source = torch.from_numpy(random_gradient(comm.rank, COUNT, turn)).cuda()
            torch.cuda.synchronize()
            with torch.cuda.stream(stream):
                busy()
                gradient = source * 1
                plan.start(gradient).wait()
                copy = gradient.clone()
            stream.synchronize()
            np.testing.assert_allclose(copy.cpu().numpy(), expected, rtol=1e-5, atol=1e-6)


def test_the_sparse_result_is_on_the_gpu(comm):
    with weir.AllreducePlan(comm, count=COUNT, density=0.01, memory="cuda") as plan:
        gradient = torch.from_numpy(random_gradient(comm.rank, COUNT)).cuda()
        result = plan.run_sparse(gradient)
        indices, values = (torch.as_tensor(part, device="cuda") for part in (result.indices, result.values))
        assert indices.is_cuda and indices.shape == values.shape and values.dtype == torch.float32
        dense = torch.zeros(COUNT, device="cuda")
        dense[indices.long()] = values
        again = torch.from_numpy(random_gradient(comm.rank, COUNT)).cuda()
    with weir.AllreducePlan(comm, count=COUNT, density=0.01, memory="cuda") as plan:
        plan.run(again)
    assert torch.equal(dense, again)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_types(comm, dtype):
    with weir.AllreducePlan(comm, count=1000, type=dtype, density=1.0, algorithm="topk_dsa", memory="cuda") as plan:
        gradient = torch.full((1000,), float(comm.rank + 1), dtype=dtype, device="cuda")
        result = plan.run_sparse(gradient)
        values = torch.as_tensor(result.values, device="cuda")
        assert values.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
        assert torch.all(values == (comm.size + 1) / 2)


def test_cupy(comm):
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    with weir.AllreducePlan(comm, count=1000, density=1.0, algorithm="topk_dsa", memory="cuda") as plan:
        with cupy.cuda.Device(torch.cuda.current_device()), cupy.cuda.Stream(non_blocking=True):
            gradient = cupy.full(1000, comm.rank + 1, cupy.float32)
            plan.run(gradient)
            assert (gradient == (comm.size + 1) / 2).all()


def test_errors_name_the_memory(comm):
    with weir.AllreducePlan(comm, count=10, density=1.0, memory="cuda") as plan:
        with pytest.raises(weir.ArgumentError, match="host memory"):
            plan.run(np.zeros(10, np.float32))
    with weir.AllreducePlan(comm, count=10, density=1.0) as plan:
        with pytest.raises(weir.ArgumentError, match="GPU memory"):
            plan.run(torch.zeros(10, device="cuda"))


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad"])
def test_tables_are_as_in_host_memory(comm, optimizer):
    rows, width = 500, 16
    keywords = {"rows": rows, "width": width, "largest_batch": 64, "learning_rate": 0.5, "optimizer": optimizer}
    with weir.EmbeddingTable(comm, **keywords) as host, weir.EmbeddingTable(comm, memory="cuda", **keywords) as cuda:
        for turn in range(3):
            random = np.random.default_rng([turn, comm.rank])
            ids = random.integers(0, rows, 64)
            gradients = random.standard_normal((64, width)).astype(np.float32)
            expected = host.lookup(ids).result()
            vectors = cuda.lookup(torch.from_numpy(ids).cuda()).result()
            assert vectors.is_cuda
            np.testing.assert_array_equal(vectors.cpu().numpy(), expected)
            host.update(gradients).wait()
            with torch.cuda.stream(torch.cuda.Stream()):
                busy()
                late = torch.from_numpy(gradients).cuda() * 1
                cuda.update(late).wait()


@pytest.mark.parametrize("rule", list(weir.OptimizerRule))
@pytest.mark.parametrize("update", ["replicated", "all"])
def test_optimizers_are_as_in_host_memory(comm, rule, update):
    layers = {"fc.weight": 70001, "fc.bias": 40}
    keywords = {"rule": rule, "update": update}

    def arrays(turn):
        return [np.random.default_rng([turn, i]).standard_normal(count).astype(np.float32) for i, count in enumerate(layers.values())]

    expected = arrays(100)
    weights = [torch.from_numpy(array).cuda() for array in expected]
    with weir.LayerOptimizer(comm, layers, **keywords) as host, weir.LayerOptimizer(comm, layers, memory="cuda", **keywords) as cuda:
        for turn in range(3):
            host.step(expected, arrays(turn), 0.1)
            with torch.cuda.stream(torch.cuda.Stream()):
                busy()
                late = [torch.from_numpy(array).cuda() * 1 for array in arrays(turn)]
                cuda.step(weights, late, 0.1)
                seen = [weight.cpu().numpy() for weight in weights]
            for array, there in zip(expected, seen):
                np.testing.assert_array_equal(there, array)
        with pytest.raises(weir.ArgumentError, match="is in host memory: it must be in GPU memory" if comm.rank == 0 else "rank 0"):
            cuda.step(expected if comm.rank == 0 else weights, late, 0.1)
        for optimizer in (host, cuda):  # of lamb, the other ranks' moments have taken the gradients up
            optimizer.reset()
        stream = torch.cuda.Stream()
        torch.cuda.synchronize()
        cuda.step(weights, late, 0.1, stream=stream.cuda_stream)
        host.step(expected, arrays(2), 0.1)
        stream.synchronize()
        np.testing.assert_array_equal(weights[0].cpu().numpy(), expected[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("rule", ["lars", "lamb"])
def test_an_optimizer_of_pytorch_is_as_on_the_cpu(comm, rule, dtype):
    models = [network().to(dtype), network().to(dtype).cuda()]
    optimizers = [weir.torch.LayerOptimizer(model, comm, lr=0.1, rule=rule) for model in models]
    for turn in range(3):
        for model, optimizer in zip(models, optimizers):
            for number, parameter in enumerate(model.parameters()):
                random = np.random.default_rng([turn, number]).standard_normal(tuple(parameter.shape))
                parameter.grad = torch.from_numpy(random.astype(np.float32)).to(dtype).to(parameter.device)
            optimizer.step()
    for on_cpu, on_gpu in zip(*(model.parameters() for model in models)):
        assert torch.equal(on_gpu.detach().cpu(), on_cpu.detach())
    for optimizer in optimizers:
        optimizer.close()


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(50, 400), nn.ReLU(), nn.Linear(400, 600), nn.ReLU(), nn.Linear(600, 7))


def inputs_of(comm, step):
    return torch.from_numpy(np.random.default_rng([step, comm.rank]).standard_normal((8, 50)).astype(np.float32))


def gradients_after(model, inputs):
    model.zero_grad(set_to_none=False)
    (model(inputs) ** 2).mean().backward()
    return {name.removeprefix("module."): parameter.grad.clone() for name, parameter in model.named_parameters()}


@pytest.fixture(scope="module")
def process_group(comm):
    weir.torch.init_process_group(comm)
    yield
    torch.distributed.destroy_process_group()


def test_the_hook_of_ddp(comm, process_group):
    """With density 1, the result is DDP's own. With a hundredth, it is that of a plain loop."""
    plain = DistributedDataParallel(network().cuda(), bucket_cap_mb=0.3)
    models = []
    for density in (1.0, 0.01):
        model = DistributedDataParallel(network().cuda(), bucket_cap_mb=0.3)
        state, hook = weir.torch.ddp_hook(model, comm, density=density, group_elements=250_000, algorithm="topk_dsa")
        model.register_comm_hook(state, hook)
        models.append(model)
    loop = network().cuda()
    for step in range(4):
        inputs = inputs_of(comm, step).cuda()
        expected = gradients_after(plain, inputs)
        for name, gradient in gradients_after(models[0], inputs).items():
            torch.testing.assert_close(gradient, expected[name], rtol=1e-4, atol=1e-6)
        sparse = gradients_after(models[1], inputs)
        assert 0 < int((sparse["2.weight"] != 0).sum()) < 0.1 * sparse["2.weight"].numel()
        gradients_after(loop, inputs)
        weir.torch.all_reduce_gradients(loop, comm, density=0.01, group_elements=250_000, algorithm="topk_dsa")
        for name, parameter in loop.named_parameters():
            torch.testing.assert_close(parameter.grad, sparse[name], rtol=1e-4, atol=1e-6)


def test_states_of_the_hook(comm):
    def made():
        model = network().cuda()
        return model, weir.torch.GradientAllreduce(model, comm, density=0.01)

    model, gradients = made()
    gradients_after(model, inputs_of(comm, 0).cuda())
    gradients.run()
    saved = gradients.state_dict()
    assert not next(iter(saved["residual"].values())).is_cuda
    again, restored = made()
    restored.load_state_dict(saved)
    for one, step in ((model, gradients), (again, restored)):
        gradients_after(one, inputs_of(comm, 1).cuda())
        step.run()
    for name, parameter in again.named_parameters():
        assert torch.equal(parameter.grad, dict(model.named_parameters())[name].grad)
