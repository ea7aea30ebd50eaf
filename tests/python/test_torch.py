"""weir.torch, under DistributedDataParallel and in plain loops."""
import copy
import io
import itertools
import os
import pickle
import signal
import threading

import numpy as np
import pytest
from conftest import is_last, of_last, refused

import weir

torch = pytest.importorskip("torch", reason="torch is not installed")
import weir.torch  # noqa: E402
from weir._torch_start import interfaces, own_address  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def process_group(comm):
    torch.set_num_threads(1)
    assert weir.torch.init_process_group(comm) is comm
    yield
    torch.distributed.destroy_process_group()


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(50, 400), nn.ReLU(), nn.Linear(400, 600), nn.ReLU(), nn.Linear(600, 400), nn.ReLU(), nn.Linear(400, 7)
    )


def parameter(*shape, **keywords):
    return nn.Parameter(torch.zeros(shape, **keywords))


def of(**parameters):
    module = nn.Module()
    for name, value in parameters.items():
        module.register_parameter(name, value)
    return module


def three():
    return of(one=parameter(100, 100), two=parameter(100, 100), small=parameter(7))


def with_gradients(model, comm, step=0):
    for number, one in enumerate(model.parameters()):
        values = np.random.default_rng([step, comm.rank, number]).standard_normal(one.shape).astype(np.float32)
        one.grad = torch.from_numpy(values) if one.requires_grad else None
    return model


class Hooked:
    """A network under DDP with the hook, in buckets of DDP of about 0.3 MB, and the parameters of each of its buckets. The groups have
    one large parameter, two, and the small ones."""

    def __init__(self, comm, module=None, ddp=None, **keywords):
        self.module = network() if module is None else module
        self.ddp = DistributedDataParallel(self.module, **{"bucket_cap_mb": 0.3, **(ddp or {})})
        self.state, hook = weir.torch.ddp_hook(self.ddp, comm, **{"group_elements": 270_000, **keywords})
        self.buckets = []

        def watched(state, bucket):
            if bucket.index() == 0:
                self.buckets.append([])
            self.buckets[-1].append([tuple(parameter.shape) for parameter in bucket.parameters()])
            return hook(state, bucket)

        self.ddp.register_comm_hook(self.state, watched)

    def backward(self, inputs):
        self.ddp.zero_grad()
        loss_of(self.ddp, inputs).backward()
        return gradients_of(self.module)


def inputs_of(comm, step):
    return torch.from_numpy(np.random.default_rng([step, comm.rank]).standard_normal((8, 50)).astype(np.float32))


def loss_of(model, inputs):
    return (model(inputs) ** 2).mean()


def gradients_of(module):
    """Returns copies of the gradients by name, or zeros for parameters without a gradient."""
    return {
        name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
        for name, parameter in module.named_parameters()
    }


def own_gradients(module, inputs):
    """Returns the gradients of this rank alone at the parameters of `module`, which does not change."""
    values = torch.autograd.grad(loss_of(module, inputs), list(module.parameters()), allow_unused=True)
    return {
        name: torch.zeros_like(parameter) if value is None else value
        for (name, parameter), value in zip(module.named_parameters(), values)
    }


class Balance:
    """Checks that the ranks' gradients equal the delivered updates plus the residuals."""

    def __init__(self, comm, add):
        self.comm, self.add = comm, add
        self.given, self.delivered = {}, {}

    def enter(self, given, delivered):
        for sums, values in ((self.given, given), (self.delivered, delivered)):
            for name, value in values.items():
                sums[name] = sums.get(name, 0) + value.double().numpy()

    def train(self, hooked, steps):
        for step in steps:
            inputs = inputs_of(self.comm, step)
            self.enter(own_gradients(hooked.module, inputs), hooked.backward(inputs))

    def check(self, state, scale=1.0):
        if hasattr(state, "allreduce"):
            residual = {tensor.name: state.allreduce.residual(tensor.name) for tensor in state.allreduce.tensors}
        else:
            residual = state.state_dict()["residual"]
        assert residual
        for name, given in self.given.items():
            kept = np.asarray(residual.get(name, ()), np.float64).ravel()
            kept = kept / scale if kept.size else np.zeros(given.size)
            total = self.add(kept).reshape(given.shape) + self.delivered[name] * self.comm.size
            np.testing.assert_allclose(total, self.add(given.ravel()).reshape(given.shape), rtol=1e-4, atol=1e-6)


def assert_same(first, second):
    for name in first:
        assert torch.equal(first[name], second[name]), name


def test_all_of_it_is_what_ddp_itself_gives(comm):
    plain = DistributedDataParallel(network(), bucket_cap_mb=0.3)
    hooked = Hooked(comm, density=1.0)
    for step in range(3):
        inputs = inputs_of(comm, step)
        plain.zero_grad()
        loss_of(plain, inputs).backward()
        expected = gradients_of(plain.module)
        for name, gradient in hooked.backward(inputs).items():
            np.testing.assert_allclose(gradient, expected[name], rtol=1e-5, atol=1e-7)
    assert len(hooked.buckets[-1]) > 1 and len(hooked.state.plans) > 2


@pytest.mark.parametrize("ddp", [{}, {"gradient_as_bucket_view": True}, {"static_graph": True}])
def test_nothing_is_lost_when_buckets_are_rebuilt(comm, add, ddp):
    hooked = Hooked(comm, ddp=ddp)
    balance = Balance(comm, add)
    for step in range(4):
        inputs = inputs_of(comm, step)
        given, delivered = own_gradients(hooked.module, inputs), hooked.backward(inputs)
        balance.enter(given, delivered)
        assert 0 < int((delivered["2.weight"] != 0).sum()) < 0.1 * delivered["2.weight"].numel()
        mean = add(given["4.bias"].numpy()) / comm.size  # what small parameters get
        np.testing.assert_allclose(delivered["4.bias"], mean, rtol=1e-4, atol=1e-7)
    assert "static_graph" in ddp or hooked.buckets[0] != hooked.buckets[1]
    balance.check(hooked.state)
    assert comm.size == 1 or 0 < hooked.state.bytes_sent < 4 * 504_207


def train(hooked, comm, steps):
    optimizer = torch.optim.SGD(hooked.ddp.parameters(), lr=0.1)
    for step in steps:
        hooked.backward(inputs_of(comm, step))
        optimizer.step()


@pytest.mark.parametrize("keywords", [{}, {"threshold": "reuse", "warmup_iterations": 6}])
def test_a_saved_state_goes_on_bit_for_bit(comm, keywords):
    first, second = Hooked(comm, **keywords), Hooked(comm, **keywords)
    train(first, comm, range(3))
    file = io.BytesIO()
    torch.save({"model": first.module.state_dict(), "gradients": first.state.state_dict()}, file)
    train(first, comm, range(3, 6))
    file.seek(0)
    saved = torch.load(file)
    second.module.load_state_dict(saved["model"])
    second.state.load_state_dict(saved["gradients"])
    train(second, comm, range(3, 6))
    assert_same(first.module.state_dict(), second.module.state_dict())
    assert_same(first.state.state_dict()["residual"], second.state.state_dict()["residual"])


@pytest.mark.parametrize("changed", [{"group_elements": 1000}, {"min_elements": 100_000}, {"algorithm": "topk_dsa"}])
def test_residuals_find_their_parameters_in_other_groups(comm, add, changed):
    first, second = Hooked(comm), Hooked(comm, **changed)
    balance = Balance(comm, add)
    balance.train(first, range(2))
    second.state.load_state_dict(first.state.state_dict())
    balance.check(second.state)
    second.state.load_state_dict(second.state.state_dict())
    balance.train(second, [2])
    balance.check(second.state)


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.third = nn.Linear(50, 300), nn.Linear(50, 300), nn.Linear(50, 300)
        self.used = "first", "second"

    def forward(self, inputs):
        return sum(getattr(self, name)(inputs) for name in self.used)


@pytest.mark.parametrize("group_elements", [1, 250_000])
def test_unused_parameters(comm, add, group_elements):
    """Of one rank, and of all ranks, to which nothing may be delivered that DDP would throw away."""
    hooked = Hooked(comm, Branches(), {"find_unused_parameters": True}, group_elements=group_elements)
    balance = Balance(comm, add)
    every_step = ("first", "second", "third"), ("first",) if comm.rank else ("first", "second"), ("second",), ("first", "third")
    for step, used in enumerate(every_step):
        hooked.module.used = used
        balance.train(hooked, [step])
        balance.check(hooked.state)
        if step == 2:
            delivered = gradients_of(hooked.module)
            assert not delivered["first.weight"].any() and not delivered["third.weight"].any()
            hooked.state.load_state_dict(hooked.state.state_dict())


def test_accumulated_gradients(comm, add):
    hooked = Hooked(comm)
    balance = Balance(comm, add)
    for step in (0, 2):
        hooked.ddp.zero_grad()
        with hooked.ddp.no_sync():
            loss_of(hooked.ddp, inputs_of(comm, step)).backward()
        loss_of(hooked.ddp, inputs_of(comm, step + 1)).backward()
        balance.enter(own_gradients(hooked.module, inputs_of(comm, step)), gradients_of(hooked.module))
        balance.enter(own_gradients(hooked.module, inputs_of(comm, step + 1)), {name: torch.zeros(1) for name in balance.given})
    balance.check(hooked.state)


def test_ranks_with_fewer_inputs(comm, add):
    hooked = Hooked(comm)
    balance = Balance(comm, add)
    with hooked.ddp.join():
        balance.train(hooked, range(2 * (comm.rank + 1)))
    # Ranks that have joined early have not seen the last updates: the last rank has seen all.
    balance.delivered = {name: add(value.ravel() * is_last(comm)).reshape(value.shape) for name, value in balance.delivered.items()}
    assert len(hooked.buckets) == 2 * comm.size
    balance.check(hooked.state)


def test_runs_go_on_after_nan(comm, add):
    inputs = inputs_of(comm, 0)
    inputs[0, 0] = float("nan") if comm.rank == 0 else 0
    with pytest.raises(weir.NonFiniteError):
        Hooked(comm).backward(inputs)
    model = three()
    gradients = weir.torch.GradientAllreduce(model, comm, group_elements=1)
    balance = Balance(comm, add)
    for step in range(4):
        with_gradients(model, comm, step)
        if step == 1:
            model.two.grad[3, 3] = float("inf") if comm.rank == 0 else 0
            given = gradients_of(model)
            with pytest.raises(weir.NonFiniteError):
                gradients.run()
            np.testing.assert_array_equal(model.two.grad, given["two"])
            given["two"] = torch.zeros(100, 100)  # of which nothing has been taken
            balance.enter(given, {**gradients_of(model), "two": given["two"]})
        else:
            given = gradients_of(model)
            gradients.run()
            balance.enter(given, gradients_of(model))
    balance.check(gradients)


def test_plain_loops(comm, add):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 64, 7), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 4, 50)).to(memory_format=torch.channels_last)
    model.register_parameter("unused", nn.Parameter(torch.ones(100, 100)))
    balance = Balance(comm, add)
    states = []
    for step in range(3):
        images = torch.from_numpy(np.random.default_rng([step, comm.rank]).standard_normal((4, 3, 8, 8)).astype(np.float32))
        model.zero_grad()
        loss_of(model, images).backward()
        given = gradients_of(model)
        states.append(weir.torch.all_reduce_gradients(model, comm, density=0.02, wire_values="bfloat16"))
        balance.enter(given, gradients_of(model))
    assert states[0] is states[1] is states[2]
    assert model.unused.grad is not None and not model.unused.grad.any()
    balance.check(states[0])
    with refused(comm, "density.*0.5.*density.*0.02", f"rank {comm.size - 1} gave a null gradient"):
        weir.torch.all_reduce_gradients(model, comm, density=of_last(comm, 0.5, 0.02), wire_values="bfloat16")


def test_gradients_of_any_layout(comm):
    """A group's only gradient is exchanged where it lies, one of another layout in a copy: with the same result."""
    results = []
    for laid_out in (lambda gradient: gradient, lambda gradient: gradient.t().contiguous().t()):
        model = of(one=parameter(100, 100), two=parameter(200, 100))
        gradients = weir.torch.GradientAllreduce(model, comm, density=0.05, group_elements=1)
        for step in range(3):
            with_gradients(model, comm, step)
            for one in model.parameters():
                one.grad = laid_out(one.grad)
            places = [one.grad.data_ptr() for one in model.parameters()]
            gradients.run()
            assert [one.grad.data_ptr() for one in model.parameters()] == places
            assert all((group.copies is None) == model.one.grad.is_contiguous() for group in gradients._groups)
        results.append({**gradients_of(model), **{f"residual of {name}": one for name, one in gradients.state_dict()["residual"].items()}})
    assert_same(*results)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
def test_types(comm, dtype):
    model = of(weight=parameter(100, 100, dtype=getattr(torch, dtype)), other=parameter(100, 100))
    for one in model.parameters():
        one.grad = torch.full_like(one, float(comm.rank))
    gradients = weir.torch.GradientAllreduce(model, comm, density=1.0)
    gradients.run()
    for one in model.parameters():
        assert one.grad.dtype == one.dtype and torch.equal(one.grad, torch.full_like(one, (comm.size - 1) / 2))
    assert "20,000 elements in 2 groups" in repr(gradients)
    gradients.close()


FROZEN = of(one=nn.Parameter(torch.zeros(2), requires_grad=False))


@pytest.mark.parametrize(
    "model, keywords, error, text",
    [
        ("model", {}, weir.ArgumentError, "type str: give a torch.nn.Module"),
        (of(), {}, weir.ArgumentError, "no parameter that needs a gradient"),
        (FROZEN, {}, weir.ArgumentError, "no parameter that"),
        (of(one=parameter(2), two=parameter(2, device="meta")), {}, weir.ArgumentError, "on the devices cpu, meta: they must be"),
        (of(one=parameter(2, device="meta")), {}, weir.ArgumentError, "on the device 'meta': it must be on the CPU or a CUDA GPU"),
        (of(one=parameter(2, dtype=torch.complex64)), {}, weir.ArgumentError, "'one' has type complex64; it must be one of"),
        (None, {"count": 3}, weir.ArgumentError, "count is no keyword here"),
        (None, {"densty": 0.1}, TypeError, r"GradientAllreduce\(\) has no keyword 'densty': did you mean 'density'"),
        (None, {"min_elements": None}, weir.ArgumentError, "min_elements is None: it must be a whole number"),
        (None, {"min_elements": -1}, weir.ArgumentError, "min_elements is -1: it must be at least 0"),
        (None, {"group_elements": 0}, weir.ArgumentError, "group_elements is 0: it must be at least 1"),
        (None, {"density": "much"}, weir.ArgumentError, "density is 'much'"),
    ],
)
def test_bad_models_and_keywords_of_one_rank(comm, model, keywords, error, text):
    for make in (weir.torch.GradientAllreduce, weir.torch.all_reduce_gradients):
        with refused(comm, text, kind=error if is_last(comm) else weir.ArgumentError):
            make(of_last(comm, network() if model is None else model, network()), comm, **of_last(comm, keywords, {}))


def changed_model(model, change):
    if change == "unfrozen":
        model.frozen.requires_grad_(True)
    elif change == "frozen":
        model.one.requires_grad_(False)
    elif change == "replaced":
        model.two = parameter(100, 100)
    elif change == "added":
        model.more = parameter(3)
    elif change == "removed":
        del model.two


@pytest.mark.parametrize("change", ["unfrozen", "frozen", "replaced", "added", "removed"])
@pytest.mark.parametrize("everywhere", [True, False])
def test_parameters_that_change(comm, change, everywhere):
    """Of all ranks, or of the last one only: an error on all ranks. After close() the next call makes new plans."""

    def reduce(step):
        return weir.torch.all_reduce_gradients(with_gradients(model, comm, step), comm, group_elements=1)

    model = three()
    model.frozen = nn.Parameter(torch.zeros(100, 100), requires_grad=False)
    state = reduce(0)
    here = everywhere or is_last(comm)
    if here:
        changed_model(model, change)
    for _ in range(2):
        text = r"have changed since this was made \(\w+\): call close\(\), and make a new one, on all ranks"
        with pytest.raises(weir.ArgumentError, match=text if here else f"rank {comm.size - 1} gave a null gradient"):
            reduce(1)
    if not here:
        changed_model(model, change)
    state.close()
    new = reduce(2)
    assert new is not state and new is reduce(3)


@pytest.mark.parametrize("shape", [(99, 100), (1, 100), ()])
def test_shapes_that_change_on_one_rank(comm, shape):
    """Also such as would be broadcast."""
    model = three()
    gradients = weir.torch.GradientAllreduce(with_gradients(model, comm), comm, group_elements=1)
    gradients.run()
    before = gradients.state_dict()["residual"]
    for text in (r"'one' has the shape .*had \(100, 100\)", "gradient of 'one' has the shape", "is sparse"):
        with_gradients(model, comm, 1)
        if is_last(comm):
            if "had" in text:
                model.one.grad = None
                model.one.data = torch.zeros(shape)
            elif "sparse" in text:
                model.one.grad = torch.zeros(100, 100).to_sparse()
            else:
                model.one.grad.data = torch.zeros(shape)
        with refused(comm, text, f"rank {comm.size - 1} gave a null"):
            gradients.run()
        if "had" in text:
            for name, kept in gradients.state_dict()["residual"].items():
                np.testing.assert_allclose(kept, before[name], atol=1e-5)
            model.one.data = torch.zeros(100, 100)
    with_gradients(model, comm, 1)
    gradients.run()


def test_ctrl_c_in_a_run(comm, add):
    """wait() continues it, and nothing is lost."""
    if comm.size == 1:
        pytest.skip("one rank waits for nobody")
    model = three()
    gradients = weir.torch.GradientAllreduce(model, comm, group_elements=1)
    balance = Balance(comm, add)
    with weir.AllreducePlan(comm, count=1, algorithm="dense_ring", name="gate") as gate:
        for step in range(3):
            given = gradients_of(with_gradients(model, comm, step))
            if step == 1 and comm.rank == 0:
                threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
                with pytest.raises(KeyboardInterrupt):
                    gradients.run()
                with pytest.raises(weir.BusyError, match=r"interrupted, and is still in flight: call wait\(\)"):
                    gradients.run()
                with pytest.raises(weir.BusyError):
                    gradients.load_state_dict({"version": 1, "rank": comm.rank, "ranks": comm.size, "residual": {}, "groups": []})
                gate.run(np.zeros(1, np.float32))
                gradients.wait()
            else:
                if step == 1:
                    gate.run(np.zeros(1, np.float32))
                gradients.run()
            balance.enter(given, gradients_of(model))
    gradients.wait()
    balance.check(gradients)


@pytest.mark.parametrize("place", ["before", "in", "after", "end"])
def test_ctrl_c_anywhere_in_a_run(comm, add, monkeypatch, place):
    """In its second group: as its gradients are put together, right before C is called, as its plan has been started, or as it has
    ended."""
    model = three()
    gradients = weir.torch.GradientAllreduce(model, comm, group_elements=1, density=1.0)
    given = gradients_of(with_gradients(model, comm))
    group = gradients._groups[1]
    pointer = group.plan._handle().pointer
    owner, name = {
        "before": (group, "start"),
        "in": (weir._handles.Run, "begin"),
        "after": (group.plan, "start"),
        "end": (group, "finish"),
    }[place]
    original = getattr(owner, name)

    def interrupted(*arguments):
        if place == "in" and arguments[0].pointer is not pointer:
            original(*arguments)
            return
        if place in ("after", "end"):
            original(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            gradients.run()
    gradients.wait()
    assert [plan.statistics.iteration for plan in gradients.plans.values()] == [1, 1, 1]
    for name, gradient in gradients_of(model).items():
        np.testing.assert_allclose(gradient.ravel(), add(given[name].ravel()) / comm.size, rtol=1e-5, atol=1e-6)


def test_bad_use(comm):
    ddp = DistributedDataParallel(network())
    embedding = nn.Embedding(100, 100, sparse=True)
    embedding(torch.tensor([3])).sum().backward()
    for call, text in (
        (lambda: weir.torch.ddp_hook(network(), comm), "type Sequential: give the DistributedDataParallel, or use"),
        (lambda: weir.torch.all_reduce_gradients(ddp, comm), "which averages gradients itself: use ddp_hook"),
        (lambda: weir.torch.fuse_gradients(ddp, comm), "use ddp_hook"),
        (lambda: weir.torch.all_reduce_gradients(embedding, comm), "is sparse: use sparse=False, or a weir.EmbeddingTable"),
        (lambda: weir.torch.GradientAllreduce(network(), comm, scaler=1), "scaler is of type int"),
        (lambda: weir.torch.GradientAllreduce(network(), comm, count=1), "count is no keyword here"),
        (lambda: weir.torch.fuse_gradients(network(), comm, scaler=Scaler(1.0), non_finite="error"), "it must be 'skip'"),
        (lambda: weir.torch.fuse_gradients(network().half(), comm), "all float32 or all float64"),
        (lambda: weir.torch.fuse_gradients("model", comm), "give a torch.nn.Module"),
        (lambda: weir.torch.fuse_gradients(network(), comm, type="float32"), "type is no keyword here"),
    ):
        with pytest.raises(weir.ArgumentError, match=text):
            call()
    with pytest.raises(TypeError, match="did you mean 'density'"):
        weir.torch.fuse_gradients(network(), comm, densty=0.1)


def test_sparse_gradients_under_ddp(comm):
    embedding = nn.Embedding(100, 100, sparse=True)
    ddp = DistributedDataParallel(embedding)
    ddp.register_comm_hook(*weir.torch.ddp_hook(ddp, comm))
    with pytest.raises((weir.ArgumentError, RuntimeError), match="the gradient of 'weight' is sparse: use sparse=False"):
        ddp(torch.tensor([3])).sum().backward()


def test_states_of_hooks_are_not_copied(comm):
    hooked = Hooked(comm, name="first model")
    assert list(hooked.state.plans)[0] == "first model 0"
    for way in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="copy the module that DistributedDataParallel wraps"):
            way(hooked.state)
    copy.deepcopy(hooked.ddp.module)


def test_ranks_that_another_launcher_has_started(comm, monkeypatch):
    """torchrun's processes are each alone in MPI."""
    makers = (
        lambda: weir.torch.init_process_group(),
        lambda: weir.torch.all_reduce_gradients(network()),
        lambda: weir.torch.fuse_gradients(network()),
        lambda: weir.torch.LayerOptimizer(network(), lr=0.1),
        lambda: weir.torch.ddp_hook(DistributedDataParallel(network())),
    )
    with monkeypatch.context() as patch:
        patch.setattr(torch.distributed, "get_world_size", lambda group=None: 99)
        for make in makers:
            with pytest.raises(weir.ArgumentError, match=f"torch.distributed has 99 ranks, and MPI has {comm.size}: start"):
                make()
        with pytest.raises(weir.ArgumentError, match=f"has 99 ranks, the communicator {comm.size}: start all ranks by one mpirun"):
            weir.torch.ddp_hook(DistributedDataParallel(network()), comm)
    with monkeypatch.context() as patch:
        patch.setattr(torch.distributed, "is_initialized", lambda: False)
        patch.setenv("WORLD_SIZE", "98")
        for make in makers[:4]:
            with pytest.raises(weir.ArgumentError, match=f"WORLD_SIZE says 98 ranks, and MPI has {comm.size}: start"):
                make()


def test_a_rank_0_that_cannot_listen(comm, monkeypatch):
    """Nor is a loopback address tried that Debian writes into /etc/hosts for the host's name."""
    hosts = []

    def fail(host, *arguments, **keywords):
        hosts.append(host)
        raise RuntimeError("no address")

    with pytest.raises(weir.StateError, match="torch.distributed is initialised already: .* call weir.Communicator"):
        weir.torch.init_process_group(comm)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.distributed, "TCPStore", fail)
    monkeypatch.setattr("socket.gethostname", lambda: "127.0.1.1")
    with pytest.raises(weir.StateError, match="rank 0 cannot listen: see that its host"):
        weir.torch.init_process_group(comm)
    assert "127.0.1.1" not in hosts
    addresses = interfaces()
    assert addresses["127.0.0.1"] == "lo" and own_address() in addresses
    assert own_address("127.0.0.1") == "127.0.0.1"


@pytest.mark.skipif(int(torch.__version__.split(".")[0]) >= 2, reason="this torch has fully_shard")
def test_sharded_models_need_a_newer_torch(comm):
    with pytest.raises(weir.ArgumentError, match="has no fully_shard: this needs PyTorch 2.8 or later"):
        weir.torch.fsdp_hook(network(), comm)


class Compiled(nn.Module):
    """As torch.compile makes of a module."""

    def __init__(self, module):
        super().__init__()
        self._orig_mod = module


def test_names_without_what_wraps_a_model(comm):
    inner, ddp = network(), DistributedDataParallel
    inner[2] = Compiled(inner[2])
    for model in (network(), Compiled(network()), ddp(network()), Compiled(ddp(network())), ddp(Compiled(network())), inner):
        gradients = weir.torch.GradientAllreduce(model, comm)
        assert sorted(gradients._parameters) == sorted(name for name, _ in network().named_parameters())
        gradients.close()


def test_bad_states(comm):
    """Wherever among the groups something is wrong, nothing changes."""
    model = three()
    gradients = weir.torch.GradientAllreduce(with_gradients(model, comm), comm, group_elements=1)
    gradients.run()
    good = gradients.state_dict()
    with_gradients(model, comm, 1)
    gradients.run()
    before = [group.plan.save_state() for group in gradients._groups]
    other = weir.torch.GradientAllreduce(of(four=parameter(100, 100)), comm).state_dict()
    larger = weir.torch.GradientAllreduce(of(one=parameter(100, 200)), comm).state_dict()
    cases = [
        ({**good, "version": 99}, "version 99: this Weir reads 1"),
        ({}, "version None"),
        (5, "the state is of type int: give what state_dict"),
        ({"version": 1}, "the state has no 'rank'"),
        ({**good, "rank": [0]}, "'rank' in the state is of type list"),
        ({**good, "groups": None}, "'groups' in the state is of type NoneType"),
        ({**good, "groups": [5]}, "group 0 of the state is of type int"),
        ({**good, "groups": [{}]}, "group 0 of the state has no 'parameters'"),
        ({**good, "residual": {"one": 3}}, "'one' in the residual is of type int"),
        ({**good, "residual": {"one": torch.zeros(100, 100, dtype=torch.int32)}}, "residual of 'one' has type torch.int32"),
        ({**good, "rank": comm.rank + 1}, f"of rank {comm.rank + 1} of {comm.size}: this is rank {comm.rank} of {comm.size}"),
        (other, "a residual of 'four': the model has no such parameter"),
        (larger, r"'one' has the shape \(100, 200\): the parameter has \(100, 100\)"),
    ]
    for number in range(3):
        state = good["groups"][number]["state"]
        for change, text in (
            ({"state": state[:-8]}, "damaged"),
            ({"state": state.float()}, "has type torch.float32: it must be uint8"),
            ({"state": None}, "'state' in group . of the state is of type NoneType"),
            ({"carried": torch.zeros(3)}, r"has the shape \(3,\)"),
            ({"carried": torch.zeros(10000, dtype=torch.int64)}, "int64"),
            ({"carried": 3}, "'carried' in group . of the state is of type int"),
        ):
            bad = copy.deepcopy(good)
            bad["groups"][number].update(change)
            cases.append((bad, text))
    for state, text in cases:
        with pytest.raises(weir.ArgumentError, match=text):
            gradients.load_state_dict(state)
        assert [group.plan.save_state() for group in gradients._groups] == before
        assert all(group.carried is None for group in gradients._groups)
    gradients.load_state_dict(good)
    assert gradients._groups[0].plan.save_state() != before[0]


def test_fused_gradients(comm, add):
    """Of every step, what ranks give is what they are given and what waits; gradients come in while backward() runs."""
    model = network()
    fused = weir.torch.fuse_gradients(model, comm, density=0.05, buffer_bytes=1 << 18, algorithm="topk_allgather")
    assert [tensor.name for tensor in fused.allreduce.tensors] == [name for name, _ in model.named_parameters()]
    assert [tensor.dense for tensor in fused.allreduce.tensors] == [parameter.numel() < 8192 for parameter in model.parameters()]
    balance = Balance(comm, add)
    for step in range(3):
        inputs = inputs_of(comm, step)
        own = own_gradients(model, inputs)
        model.zero_grad()
        if step == 2:
            with fused.no_sync():
                loss_of(model, inputs).backward()
            own = {name: 2 * gradient for name, gradient in own.items()}
        loss_of(model, inputs).backward()
        fused.wait_all()
        balance.enter(own, gradients_of(model))
    assert fused.allreduce.statistics.iteration == 3 and fused.allreduce.statistics.tensors_missing == 0
    balance.check(fused)
    assert "FusedAllreduce 'fused'" in repr(fused)
    fused.close()
    model.zero_grad()
    loss_of(model, inputs_of(comm, 0)).backward()
    assert_same(gradients_of(model), own_gradients(model, inputs_of(comm, 0)))


class Either(nn.Module):
    """Two layers, of which a pass uses one."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(20, 500), nn.Linear(20, 500)

    def forward(self, inputs, which):
        return getattr(self, which)(inputs)


def test_fused_gradients_of_unused_parameters(comm):
    model, inputs = Either(), torch.ones(4, 20)
    strict = weir.torch.fuse_gradients(model, comm, density=1.0)
    model(inputs, "first").sum().backward()
    with pytest.raises(weir.ArgumentError, match="'second.(weight|bias)': rank 0 did not hand it in before"):
        strict.wait_all()
    strict.close()
    model.zero_grad(set_to_none=True)
    gradients = weir.torch.fuse_gradients(model, comm, density=1.0, optional=True, average=False)
    model(inputs, "first" if comm.rank == 0 else "second").sum().backward()
    gradients.wait_all()
    assert (model.first.weight.grad == 4).all() and (model.second.weight.grad == 4 * (comm.size - 1)).all()
    model.zero_grad()
    (model(inputs, "first").sum() + model(inputs, "second").sum()).backward()
    gradients.wait_all()
    assert (model.first.weight.grad == 4 * comm.size).all() and (model.second.weight.grad == 4 * comm.size).all()
    gradients.close()


def test_fused_models_that_change(comm):
    def train(step):
        loss_of(model, inputs_of(comm, step)).backward()
        gradients.wait_all()

    model = network()
    first = next(model.parameters())
    first.requires_grad_(False)
    changes = (
        (lambda: first.requires_grad_(True), "other parameters of the model need gradients"),
        (lambda: model.add_module("more", nn.Linear(7, 7)), r"close\(\) and call fuse_gradients"),
    )
    for step, (change, text) in enumerate(changes):
        gradients = weir.torch.fuse_gradients(model, comm, density=1.0)
        train(step)
        change()
        with pytest.raises(weir.ArgumentError, match=text):
            train(step)
        gradients.close()


def test_fused_gradients_of_any_layout(comm):
    model = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    inputs = torch.ones(2, 3, 8, 8).to(memory_format=torch.channels_last)
    gradients = weir.torch.fuse_gradients(model, comm, density=1.0, average=False, min_elements=0)
    for _ in range(2):
        model.zero_grad(set_to_none=True)
        model(inputs).sum().backward()
        model.zero_grad(set_to_none=True)  # too early: what was handed in comes back all the same
        gradients.wait_all()
        assert (model.weight.grad == 72 * comm.size).all() and (model.bias.grad == 72 * comm.size).all()
    gradients.close()


def test_fused_gradients_that_are_refused(comm):
    model = network()
    gradients = weir.torch.fuse_gradients(model, comm, scheme="none")
    with pytest.raises(weir.ArgumentError, match="fused already"):
        weir.torch.fuse_gradients(model, comm)
    (np.nan * loss_of(model, inputs_of(comm, 0))).backward()
    with pytest.raises(weir.NonFiniteError):
        gradients.wait_all()
    model.zero_grad()
    loss_of(model, inputs_of(comm, 1)).backward()
    gradients.wait_all()
    gradients.close()
    words = nn.Embedding(30, 4, sparse=is_last(comm))
    gradients = weir.torch.fuse_gradients(words, comm)
    words(torch.arange(5)).sum().backward()
    with refused(comm, "has the layout torch.sparse_coo", f"rank {comm.size - 1} gave a null"):
        gradients.wait_all()
    gradients.close()


class Scaler:
    """Does the same as torch.cuda.amp.GradScaler, also without a GPU: PyTorch 1.13 has one for GPUs only."""

    def __init__(self, scale, growth_interval=2000):
        self._value, self._interval, self._good, self._found = scale, growth_interval, 0, False

    def get_scale(self):
        return self._value

    def scale(self, loss):
        return loss * self._value

    def unscale_(self, optimizer):
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._found |= not bool(torch.isfinite(parameter.grad).all())
                    parameter.grad.mul_(1 / self._value)

    def step(self, optimizer):
        self.unscale_(optimizer)
        if not self._found:
            optimizer.step()

    def update(self):
        self._good = 0 if self._found else self._good + 1
        if self._found:
            self._value /= 2
        elif self._good == self._interval:
            self._value, self._good = self._value * 2, 0
        self._found = False


def scalers(scale, growth_interval):
    """PyTorch's own scaler, if it has one for CPUs."""
    yield Scaler(scale, growth_interval)
    if hasattr(torch, "amp") and hasattr(torch.amp, "GradScaler"):
        yield torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=growth_interval)


LOOPS = ("run", "ddp", "fused")


def exchange_of(comm, loop, model, **keywords):
    """The network to train, and the object that exchanges its gradients."""
    ddp = model
    if loop == "ddp":
        ddp = DistributedDataParallel(model)
        exchange, hook = weir.torch.ddp_hook(ddp, comm, density=0.02, group_elements=250_000, **keywords)
        ddp.register_comm_hook(exchange, hook)
    elif loop == "run":
        exchange = weir.torch.GradientAllreduce(model, comm, density=0.02, group_elements=250_000, **keywords)
    else:
        exchange = weir.torch.fuse_gradients(model, comm, density=0.02, buffer_bytes=1 << 18, **keywords)
    return ddp, exchange


def steps_with(comm, loop, scaler, steps, loss, **keywords):
    """Trains a network, and returns its parameters."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    ddp, exchange = exchange_of(comm, loop, model, scaler=scaler, **keywords)
    for step in range(steps):
        optimizer.zero_grad()
        value = loss(ddp, step)
        (value if scaler is None else scaler.scale(value)).backward()
        if loop != "ddp":
            exchange.run() if loop == "run" else exchange.wait_all()
        if scaler is None:
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update()
    exchange.close()
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("loop", LOOPS)
def test_a_scale_that_grows_changes_nothing_else(comm, loop):
    """Powers of two: the same bits as without a scaler."""
    def loss(model, step):
        return loss_of(model, inputs_of(comm, step))

    plain = steps_with(comm, loop, None, 7, loss, threshold="reuse")
    for scaler in scalers(2.0**4, 2):
        assert_same(plain, steps_with(comm, loop, scaler, 7, loss, threshold="reuse"))
        assert scaler.get_scale() == 2.0**7


@pytest.mark.parametrize("loop", LOOPS)
def test_an_overflow_on_one_rank_is_seen_by_all(comm, add, loop):
    """From init_scale 2**40: the gradients of the last rank are infinite until the scale has fallen far enough."""
    def loss(model, step):
        scales.append(scaler.get_scale())
        outputs = model(inputs_of(comm, step))
        if is_last(comm):
            outputs = (outputs * 1e-32) * 1e32  # on the way back, gradients are 1e32 times as large in between
        return (outputs**2).mean()

    for scaler in scalers(2.0**40, 2000):
        scales = []
        trained = steps_with(comm, loop, scaler, 20, loss)
        numbers = np.array([*scales, scaler.get_scale()])
        np.testing.assert_array_equal(add(numbers), comm.size * numbers)
        assert numbers[0] == 2.0**40 and numbers[1] == 2.0**39 and numbers[-2] == numbers[-1] < 2.0**38
        for (name, start), value in zip(network().named_parameters(), trained.values()):
            assert torch.isfinite(value).all() and (value != start).any(), name
            np.testing.assert_array_equal(add(value.numpy()), comm.size * value.double().numpy())


@pytest.mark.parametrize("loop, interrupted", [("run", 0), ("run", 1), ("run", 4), ("fused", 0)])
def test_what_an_overflow_makes_useless_is_not_lost(comm, add, monkeypatch, loop, interrupted):
    """Only the first layer overflows. The updates of the other layers in that step are delivered with the next step. Ctrl-C comes after
    a gradient has been made infinite: the first one, or one after those of the layer that overflows."""
    model, scaler, balance = network(), Scaler(2.0), Balance(comm, add)
    original, fills = torch.Tensor.fill_, itertools.count(1)

    def fill(tensor, value):
        original(tensor, value)
        if next(fills) == interrupted:
            raise KeyboardInterrupt

    if loop == "run":
        exchange = weir.torch.GradientAllreduce(model, comm, density=0.02, scaler=scaler, group_elements=1)
    else:
        exchange = weir.torch.fuse_gradients(model, comm, density=0.02, scaler=scaler, scheme="none")
    for step in range(4):
        poisoned = step == 1
        own = own_gradients(model, inputs_of(comm, step))
        handle = model[0].weight.register_hook(lambda gradient: gradient * (np.nan if poisoned and comm.rank == 0 else 1))
        model.zero_grad()
        (loss_of(model, inputs_of(comm, step)) * scaler.get_scale()).backward()
        handle.remove()
        if poisoned and interrupted:
            with monkeypatch.context() as patch:
                patch.setattr(torch.Tensor, "fill_", fill)
                with pytest.raises(KeyboardInterrupt):
                    exchange.run()
            exchange.wait()
        else:
            exchange.run() if loop == "run" else exchange.wait_all()
        updates = gradients_of(model)
        assert all(bool(torch.isinf(update).all()) == poisoned for update in updates.values())
        if poisoned:
            own.pop("0.weight")
            balance.enter(own, {})
            scaler._value /= 2
        else:
            balance.enter(own, {name: update / scaler.get_scale() for name, update in updates.items()})
    balance.check(exchange, scaler.get_scale())
    exchange.close()
