import gc
import os
import shutil
import signal

import numpy as np
import pytest
from conftest import barrier, random_gradient, shared_folder

import weir
from weir import _handles


@pytest.fixture(scope="module", autouse=True)
def with_hdf5(comm):
    path = shared_folder(comm)
    try:
        weir.Checkpoint(comm, folder=path).close()
    except weir.UnsupportedError as error:
        assert "this build of Weir has no HDF5" in str(error)
        pytest.skip("this build of Weir has no HDF5")
    finally:
        shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def folder(comm):
    path = shared_folder(comm)
    yield path + "/checkpoints"
    barrier(comm)  # others may still look into it
    if comm.rank == 0:
        shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def checkpoint(comm, folder):
    with weir.Checkpoint(comm, folder=folder) as made:
        yield made


def train(comm, plan, table, step):
    gradient = random_gradient(comm.rank, 1000, step)
    plan.run(gradient)
    vectors = table.lookup(np.arange(4) * (step + 1) % 20).result()
    table.update(vectors).wait()
    return gradient, vectors


def make_pair(comm):
    return weir.AllreducePlan(comm, count=1000), weir.EmbeddingTable(comm, rows=20, width=3, largest_batch=4, optimizer="adam")


def test_going_on(comm, folder):
    """Bit for bit, with other objects of the same configuration."""
    plan, table = make_pair(comm)
    schedule = weir.StepSchedule(comm, ["encoder", "decoder"])
    with weir.Checkpoint(comm, folder=folder, run="test") as checkpoint:
        checkpoint.add("gradient", plan)
        checkpoint.add("words", table)
        checkpoint.add("step", schedule)
        schedule.close()  # its blocks are known
        assert checkpoint.restore() is None and checkpoint.steps() == [] and checkpoint.statistics.step == -1
        for step in range(3):
            train(comm, plan, table, step)
        checkpoint.save(3)
        expected = train(comm, plan, table, 3)  # behind the save
    plan.close()
    table.close()
    plan, table = make_pair(comm)
    with weir.Checkpoint(comm, folder=folder, run="test") as checkpoint:
        checkpoint.add("gradient", plan)
        checkpoint.add("words", table)
        with pytest.raises(weir.MismatchError, match="it has schedule 'step', which was not added"):
            checkpoint.restore()
        checkpoint.add("step", weir.StepSchedule(comm, ["encoder", "decoder"]))
        assert checkpoint.restore() == 3 and checkpoint.statistics.ranks == comm.size
        for got, wanted in zip(train(comm, plan, table, 3), expected):
            np.testing.assert_array_equal(got, wanted)
        plan.close()
        operation = checkpoint.save(4)
        with pytest.raises(weir.StateError, match="plan 'gradient' was destroyed"):
            operation.wait()
    with pytest.raises(weir.Error, match="belongs to another run: .* of 'test', this one is 'other'"):
        weir.Checkpoint(comm, folder=folder, run="other")
    table.close()


def test_fused_tensors_go_on(comm, folder):
    def train(fused, step):
        gradient = np.random.default_rng([step, comm.rank]).standard_normal(1000).astype(np.float32)
        fused.ready("decoder", gradient[600:])
        fused.ready("encoder", gradient[:600])
        fused.wait_all()
        return gradient

    with weir.FusedAllreduce(comm, {"encoder": 600, "decoder": 400}, scheme="ahead_inter") as fused:
        with weir.Checkpoint(comm, folder=folder) as checkpoint:
            checkpoint.add("model", fused)
            for step in range(3):
                train(fused, step)
            checkpoint.save(3)
            expected = train(fused, 3)  # behind the save
    with weir.FusedAllreduce(comm, {"encoder": 600, "decoder": 400}, scheme="ahead_inter") as fused:
        with weir.Checkpoint(comm, folder=folder) as checkpoint:
            checkpoint.add("model", fused)
            assert checkpoint.restore() == 3
            np.testing.assert_array_equal(train(fused, 3), expected)
            fused.close()
            with pytest.raises(weir.StateError, match="'model' was destroyed"):
                checkpoint.save(4).wait()


@pytest.mark.parametrize("rule", list(weir.OptimizerRule))
def test_optimizers_go_on(comm, folder, rule):
    """With another division of the update, too."""
    layers = {"encoder": 70000, "decoder": 400}

    def train(optimizer, weights, step):
        gradients = [random_gradient(0, count, 10 * step + i) for i, count in enumerate(layers.values())]
        optimizer.step(weights, gradients, 0.1)

    weights = [random_gradient(0, count, 99) for count in layers.values()]
    with weir.LayerOptimizer(comm, layers, rule=rule, update="all") as optimizer:
        with weir.Checkpoint(comm, folder=folder) as checkpoint:
            checkpoint.add("optimizer", optimizer)
            for step in range(3):
                train(optimizer, weights, step)
            operation = checkpoint.save(3)
            restored = [weight.copy() for weight in weights]
            train(optimizer, weights, 3)  # behind the save
            operation.wait()
    with weir.LayerOptimizer(comm, layers, rule=rule, update="replicated") as optimizer:
        with weir.Checkpoint(comm, folder=folder) as checkpoint:
            checkpoint.add("optimizer", optimizer)
            assert checkpoint.restore() == 3 and optimizer.statistics.steps == 0
            train(optimizer, restored, 3)
            assert optimizer.statistics.steps == 4
            optimizer.close()
            with pytest.raises(weir.StateError, match="optimizer 'optimizer' was destroyed"):
                checkpoint.save(4).wait()
    for weight, expected in zip(restored, weights):
        np.testing.assert_array_equal(weight, expected)


@pytest.mark.parametrize("exact", [False, True])
def test_sparse_adam_goes_on(comm, folder, exact):
    def train(adam, weights, step):
        adam.step((np.array([0, step, 100000], np.uint32), random_gradient(0, 3, step)), weights, 0.1)

    weights = random_gradient(0, 200000, 99)
    with weir.SparseAdam(count=200000, exact=exact) as adam, weir.Checkpoint(comm, folder=folder) as checkpoint:
        checkpoint.add("adam", adam)
        for step in range(1, 4):
            train(adam, weights, step)
        operation = checkpoint.save(3)
        restored = weights.copy()
        train(adam, weights, 4)  # behind the save
        operation.wait()
    adam = weir.SparseAdam(count=200000, exact=exact)
    with weir.Checkpoint(comm, folder=folder) as checkpoint:
        checkpoint.add("adam", adam)
        assert checkpoint.restore() == 3 and adam.steps == 3
        train(adam, restored, 4)
        adam.step_part((np.array([1], np.uint32), np.ones(1, np.float32)), restored.copy(), 0.1)
        with pytest.raises(weir.BusyError, match="between the parts of a step"):
            checkpoint.save(4).wait()
        adam.close()
        with pytest.raises(weir.StateError, match="optimizer 'adam' was destroyed"):
            checkpoint.save(4).wait()
        with pytest.raises(weir.StateError, match="optimizer 'sparse_adam' is closed"):
            checkpoint.add("again", adam)
    np.testing.assert_array_equal(restored, weights)


@pytest.mark.parametrize("compression", [0, 3])
def test_arrays(comm, folder, compression):
    rank, size = comm.rank, comm.size
    replicated = {
        name: np.arange(24).astype(name).reshape(2, 3, 4)
        for name in ("float32", "float64", "int32", "int64", "uint8", "float16", "int8", "bool", "complex128", ">f4")
    }
    block, local, scalar = np.arange(3.0) + 3 * rank, np.full(2, rank), np.array(7.5)
    halves = np.arange(2, dtype=np.uint16) + 2 * rank
    with weir.Checkpoint(comm, folder=folder, compression=compression) as checkpoint:
        for number, array in enumerate(replicated.values()):
            checkpoint.add_replicated(f"array.{number}", array)
        checkpoint.add_block("block", block, 3 * rank, 3 * size)
        checkpoint.add_block("halves", halves, first=2 * rank, total=2 * size)
        checkpoint.add_local("local", local)
        checkpoint.add_replicated("scalar", scalar)
        checkpoint.add_local("nothing", np.empty(0))
        everything = [*replicated.values(), block, halves, local, scalar]
        expected = [array.copy() for array in everything]
        checkpoint.save(0)
        for array in everything:
            array[...] = 0
        assert checkpoint.restore(0) == 0
        for array, wanted in zip(everything, expected):
            np.testing.assert_array_equal(array, wanted)


def test_torch_tensors(comm, checkpoint):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3)).to(torch.float32)
    narrow = torch.arange(5).to(torch.bfloat16)
    for name, tensor in model.state_dict().items():
        checkpoint.add_replicated(name, tensor)
    checkpoint.add_replicated("narrow", narrow)
    expected = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    checkpoint.save(1)
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.zero_()
        narrow.zero_()
    assert checkpoint.restore() == 1
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, expected[name])
    assert narrow.tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(weir.ArgumentError, match="array 'weight' requires a gradient: give tensor.detach"):
        checkpoint.add_replicated("weight", model[0].weight)


def test_what_is_added_lives(comm, checkpoint):
    checkpoint.add_local("mine", np.arange(1000.0) + comm.rank)
    checkpoint.add("gradient", weir.AllreducePlan(comm, count=10))
    gc.collect()
    garbage = [np.zeros(1000) for _ in range(10)]
    checkpoint.save(1).wait()
    assert checkpoint.restore() == 1 and len(garbage) == 10
    np.testing.assert_array_equal(checkpoint._added[0], np.arange(1000.0) + comm.rank)


def test_values(comm, folder):
    with weir.Checkpoint(comm, folder=folder) as checkpoint:
        values = {"epoch": 3, "rate": 0.1, "model": "größer\n", "empty": "", "large": 2**62, "whole": 2.0}
        for name, value in values.items():
            checkpoint[name] = value
        checkpoint["numpy"] = np.int32(5)
        checkpoint["numpy.float"] = np.float32(0.5)
        checkpoint["flag"] = True
        assert "epoch" in checkpoint and "other" not in checkpoint and 5 not in checkpoint
        checkpoint.save(7)
    with weir.Checkpoint(comm, folder=folder) as checkpoint:
        with pytest.raises(KeyError, match="epoch"):
            checkpoint["epoch"]
        assert checkpoint.restore() == 7
        for name, value in values.items():
            assert checkpoint[name] == value and type(checkpoint[name]) is type(value)
        assert checkpoint["numpy"] == 5 and checkpoint["numpy.float"] == 0.5 and checkpoint["flag"] == 1
        checkpoint["epoch"] = "four"
        assert checkpoint["epoch"] == "four"
        for value, text in ((None, "must be an int, a float or a str"), ([1], "an int"), (2**63, "64 bits"), ("a\0", "null characters")):
            with pytest.raises(weir.ArgumentError, match=text):
                checkpoint["bad"] = value
        for name in ("a/b", "", ".hidden", 5, "a\0b"):
            with pytest.raises(weir.ArgumentError, match="name"):
                checkpoint[name] = 1
        with pytest.raises(TypeError, match="the name of a value is 5"):
            checkpoint[5]


def test_files(comm, folder):
    with weir.Checkpoint(comm, folder=folder, keep=3, name="mine") as checkpoint:
        for step in range(0, 50, 10):
            operation = checkpoint.save(step)
        assert "Operation of <weir.Checkpoint 'mine' in " in repr(operation)
        assert operation.result() is None and operation.test()
        barrier(comm)
        assert checkpoint.steps() == [20, 30, 40]
        assert checkpoint.restore(30) == 30 and checkpoint.restore() == 40
        with pytest.raises(weir.FileError, match="those of steps 20, 30, 40"):
            checkpoint.restore(10)
        config = checkpoint.config
        assert (config.folder, config.keep, config.compression, config.name, config.run) == (folder, 3, 0, "mine", "")
        assert checkpoint.statistics.snapshot_bytes >= 0 and "seconds_save" in str(checkpoint.statistics)
    assert repr(checkpoint) == "<weir.Checkpoint 'mine', closed>"
    checkpoint.close()
    with pytest.raises(weir.StateError, match="checkpoint 'mine' is closed"):
        checkpoint.save(1)
    with weir.Checkpoint.from_config(comm, config) as again:
        assert again.steps() == [20, 30, 40]


def test_refused_configurations(comm, folder):
    with pytest.raises(TypeError, match="needs the keyword 'folder'"):
        weir.Checkpoint(comm)
    with pytest.raises(TypeError, match="did you mean 'folder'"):
        weir.Checkpoint(comm, folders=folder)
    for keywords, text in (
        ({"folder": ""}, "folder is empty"),
        ({"folder": 5}, "folder is 5: it must be a str"),
        ({"folder": folder, "keep": 0}, "keep is 0"),
        ({"folder": folder, "compression": 10}, "compression is 10"),
        ({"folder": folder + "/not/there"}, "not"),
    ):
        with pytest.raises(weir.Error, match=text):
            weir.Checkpoint(comm, **keywords)
    if comm.size > 1:
        with pytest.raises(weir.Error, match="folder is"):
            weir.Checkpoint(comm, folder=f"{folder}{comm.rank}")
        with pytest.raises(weir.ArgumentError, match="folder is 5: it must be a str"):
            weir.Checkpoint(comm, folder=5 if comm.rank == 1 else folder)


def test_refused_arguments(comm, checkpoint):
    frozen = np.zeros(3)
    frozen.flags.writeable = False
    for array, text in (
        ([1, 2], "array 'x' is of type list"),
        (np.zeros((4, 4))[:, 1], "array 'x' is not contiguous"),
        (frozen, "array 'x' is read-only: restore writes into it"),
        (np.array(["a", None], object), "array 'x' has type object: give numbers"),
        (np.zeros(2, [("a", "i4")]), "give numbers"),
    ):
        with pytest.raises(weir.ArgumentError, match=text):
            checkpoint.add_replicated("x", array)
    for first, total, text in ((1, 3, "not within 0 to total"), (-1, 9, "not within"), ("a", 3, "first is 'a'"), (0, 2**63, "total is")):
        with pytest.raises(weir.ArgumentError, match=text):
            checkpoint.add_block("x", np.zeros(3), first, total)
    with pytest.raises(weir.ArgumentError, match="first, in bytes, is"):
        checkpoint.add_block("x", np.zeros(3, np.int16), 2**62, 2**62 + 3)
    with pytest.raises(weir.ArgumentError, match="'x' is of type ndarray: give a plan, a table, a FusedAllreduce, a LayerOptimizer, a SparseAdam"):
        checkpoint.add("x", np.zeros(3))
    with pytest.raises(weir.ArgumentError, match="name is 5"):
        checkpoint.add_local(5, np.zeros(3))
    with weir.AllreducePlan(comm, count=10) as plan:
        checkpoint.add("plan", plan)
        with pytest.raises(weir.ArgumentError, match="names must differ"):
            checkpoint.add("plan", plan)
    with pytest.raises(weir.StateError, match="is closed"):
        checkpoint.add("closed", plan)
    other = weir.Communicator()
    with weir.AllreducePlan(other, count=10) as foreign:
        with pytest.raises(weir.ArgumentError, match="of another communicator than the checkpoint"):
            checkpoint.add("foreign", foreign)
    other.close()


def test_refused_steps(comm, checkpoint):
    """What makes no sense on one rank is an error on all."""
    bad = comm.rank == comm.size - 1
    operation = checkpoint.save("ten" if bad else 10)
    with pytest.raises(weir.Error, match="step is 'ten'" if bad else "step"):
        operation.wait()
    operation = checkpoint.save(-1 if bad else 10)
    with pytest.raises(weir.Error, match="step is -1" if bad else "step"):
        checkpoint.save(11).wait()  # hears of the save before
    with pytest.raises(weir.Error):
        operation.wait()
    checkpoint.save(12)
    with pytest.raises(weir.Error, match="step is 0.5" if bad else "step"):
        checkpoint.restore(0.5 if bad else 12)
    with pytest.raises(weir.Error, match="step is -1" if bad else "step"):
        checkpoint.restore(-1 if bad else None)
    assert checkpoint.restore() == 12
    if comm.size > 1:
        with pytest.raises(weir.MismatchError, match="ranks save different steps"):
            checkpoint.save(20 + comm.rank).wait()


def test_failed_save(comm, checkpoint, folder):
    """The next save fails on all ranks, whichever ranks have heard of the failure; the one after it begins on all."""
    checkpoint.add_replicated("x", np.ones(1000))
    checkpoint.save(0).wait()
    barrier(comm)
    if comm.rank == 0:
        os.rename(folder, folder + ".away")
    barrier(comm)
    operation = checkpoint.save(1)
    if comm.rank == 0:
        with pytest.raises(weir.FileError):
            operation.wait()
        os.rename(folder + ".away", folder)
    barrier(comm)
    if comm.size > 1:
        with pytest.raises(weir.Error):
            checkpoint.save(2).wait()
    checkpoint.save(3).wait()
    assert checkpoint.steps() == [0, 3]
    assert checkpoint.restore() == 3


def test_ctrl_c_in_wait(comm, checkpoint, monkeypatch):
    """The save goes on, and can be waited for again."""
    checkpoint.add_local("mine", np.zeros(100_000))
    operation = checkpoint.save(1)
    if not operation._run.done:
        advance = _handles.Run.advance
        monkeypatch.setattr(_handles.Run, "advance", lambda run, seconds: signal.raise_signal(signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            operation.wait()
        monkeypatch.setattr(_handles.Run, "advance", advance)
    checkpoint.wait()
    operation.wait()
    assert checkpoint.restore() == 1


def test_signals(comm, checkpoint):
    for signum, text in ((signal.SIGKILL, "cannot be caught"), (1000, "cannot be caught"), ("SIGUSR1", "signum is 'SIGUSR1'")):
        with pytest.raises(weir.ArgumentError, match=text):
            weir.catch_signal(signum)
    weir.catch_signal(signal.SIGUSR1)
    assert not checkpoint.stop_requested()
    if comm.rank == comm.size - 1:
        os.kill(os.getpid(), signal.SIGUSR1)
    assert checkpoint.stop_requested()
