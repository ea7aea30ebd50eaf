import gc
import os
import shutil
import signal

import numpy as np
import pytest
from conftest import barrier, is_last, of_last, random_gradient, refused, shared_folder

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
def checkpoint(comm, folder):
    with weir.Checkpoint(comm, folder=folder) as made:
        yield made


class Everything:
    """One object of every kind that a checkpoint saves."""

    def __init__(self, comm):
        self.rank = comm.rank
        self.objects = {
            "gradient": weir.AllreducePlan(comm, count=1000),
            "words": weir.EmbeddingTable(comm, rows=20, width=3, largest_batch=4, optimizer="adam"),
            "model": weir.FusedAllreduce(comm, {"encoder": 600, "decoder": 400}, scheme="ahead_inter"),
            "optimizer": weir.LayerOptimizer(comm, {"all": 1000}, rule="lamb"),
            "adam": weir.SparseAdam(count=1000),
            "step": weir.StepSchedule(comm, ["encoder", "decoder"]),
        }

    def train(self, step):
        plan, table, fused, optimizer, adam, _ = self.objects.values()
        gradient, fusing, weights, sparse = (random_gradient(rank, 1000, step) for rank in (self.rank, self.rank, 0, 0))
        plan.run(gradient)
        vectors = table.lookup(np.arange(4) * (step + 1) % 20).result()
        table.update(vectors).wait()
        fused.ready("decoder", fusing[600:])
        fused.ready("encoder", fusing[:600])
        fused.wait_all()
        optimizer.step([weights], [random_gradient(0, 1000, step + 9)], 0.1)
        adam.step((np.array([0, step + 1, 999], np.uint32), random_gradient(0, 3, step)), sparse, 0.1)
        return gradient, vectors, fusing, weights, sparse

    def close(self):
        for one in self.objects.values():
            one.close()


def test_going_on(comm, folder):
    """Bit for bit, with other objects of the same configuration."""
    trained = Everything(comm)
    with weir.Checkpoint(comm, folder=folder, run="test") as checkpoint:
        for name, one in trained.objects.items():
            checkpoint.add(name, one)
        trained.objects["step"].close()  # its blocks are known
        assert checkpoint.restore() is None and checkpoint.steps() == [] and checkpoint.statistics.step == -1
        trained.train(0)
        checkpoint.save(3)
        expected = trained.train(1)  # behind the save
    trained.close()
    restored = Everything(comm)
    with weir.Checkpoint(comm, folder=folder, run="test") as checkpoint:
        for name, one in restored.objects.items():
            if name == "step":
                with pytest.raises(weir.MismatchError, match="it has schedule 'step', which was not added"):
                    checkpoint.restore()
            checkpoint.add(name, one)
        assert checkpoint.restore() == 3 and checkpoint.statistics.ranks == comm.size
        for got, wanted in zip(restored.train(1), expected):
            np.testing.assert_array_equal(got, wanted)
        restored.objects["adam"].step_part((np.array([1], np.uint32), np.ones(1, np.float32)), np.zeros(1000, np.float32), 0.1)
        with pytest.raises(weir.BusyError, match="between the parts of a step"):
            checkpoint.save(4).wait()
        restored.close()
        with pytest.raises(weir.StateError, match="'gradient' was destroyed"):
            checkpoint.save(4).wait()
        for name in ("gradient", "adam", "step"):
            with pytest.raises(weir.StateError, match="is closed"):
                checkpoint.add("again", restored.objects[name])
    with pytest.raises(weir.Error, match="belongs to another run: .* of 'test', this one is 'other'"):
        weir.Checkpoint(comm, folder=folder, run="other")


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
    model = torch.nn.BatchNorm1d(3)
    tensors = {**model.state_dict(), "narrow": torch.arange(5).to(torch.bfloat16)}
    for name, tensor in tensors.items():
        checkpoint.add_replicated(name, tensor)
    expected = {name: tensor.clone() for name, tensor in tensors.items()}
    checkpoint.save(1)
    for tensor in tensors.values():
        tensor.zero_()
    assert checkpoint.restore() == 1 and all(torch.equal(tensor, expected[name]) for name, tensor in tensors.items())
    with pytest.raises(weir.ArgumentError, match="array 'weight' requires a gradient: give tensor.detach"):
        checkpoint.add_replicated("weight", model.weight)


def test_what_is_added_lives(comm, checkpoint):
    checkpoint.add_local("mine", np.arange(1000.0) + comm.rank)
    checkpoint.add("gradient", weir.AllreducePlan(comm, count=10))
    gc.collect()
    garbage = [np.zeros(1000) for _ in range(10)]
    checkpoint.save(1).wait()
    assert checkpoint.restore() == 1 and len(garbage) == 10
    np.testing.assert_array_equal(checkpoint._added[0], np.arange(1000.0) + comm.rank)


def test_values(comm, folder):
    values = {"epoch": 3, "rate": 0.1, "model": "größer\n", "empty": "", "large": 2**62, "whole": 2.0}
    with weir.Checkpoint(comm, folder=folder) as checkpoint:
        for name, value in {**values, "numpy": np.int32(5), "numpy.float": np.float32(0.5), "flag": True}.items():
            checkpoint[name] = value
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
        for value, text in ((None, "must be an int, a float or a str"), (2**63, "64 bits"), ("a\0", "null characters")):
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
        assert checkpoint.steps() == [20, 30, 40] and checkpoint.restore(30) == 30
        with pytest.raises(weir.FileError, match="those of steps 20, 30, 40"):
            checkpoint.restore(10)
        config = checkpoint.config
        assert (config.folder, config.keep, config.compression, config.name, config.run) == (folder, 3, 0, "mine", "")
        assert "seconds_save" in str(checkpoint.statistics)
    assert repr(checkpoint) == "<weir.Checkpoint 'mine', closed>"
    with pytest.raises(weir.StateError, match="checkpoint 'mine' is closed"):
        checkpoint.save(1)
    with weir.Checkpoint.from_config(comm, config) as again:
        assert again.steps() == [20, 30, 40]
    for keywords, kind, text in (
        ({}, TypeError, "needs the keyword 'folder'"),
        ({"folders": folder}, TypeError, "did you mean 'folder'"),
        ({"folder": ""}, weir.ArgumentError, "folder is empty"),
        ({"folder": 5}, weir.ArgumentError, "folder is 5: it must be a str"),
    ):
        with pytest.raises((kind, weir.Error), match=text):
            weir.Checkpoint(comm, **of_last(comm, keywords, {"folder": folder}))


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
    for first, total, text in ((1, 3, "not within 0 to total"), ("a", 3, "first is 'a'"), (0, 2**63, "total is")):
        with pytest.raises(weir.ArgumentError, match=text):
            checkpoint.add_block("x", np.zeros(3), first, total)
    with weir.Communicator() as other, weir.AllreducePlan(other, count=10) as foreign, weir.AllreducePlan(comm, count=10) as plan:
        checkpoint.add("plan", plan)
        for call, text in (
            (lambda: checkpoint.add_block("x", np.zeros(3, np.int16), 2**62, 2**62 + 3), "first, in bytes, is"),
            (lambda: checkpoint.add("x", np.zeros(3)), "'x' is of type ndarray: give a plan, a table, a FusedAllreduce"),
            (lambda: checkpoint.add_local(5, np.zeros(3)), "name is 5"),
            (lambda: checkpoint.add("plan", plan), "names must differ"),
            (lambda: checkpoint.add("foreign", foreign), "of another communicator than the checkpoint"),
        ):
            with pytest.raises(weir.ArgumentError, match=text):
                call()


def test_refused_steps(comm, checkpoint):
    """A wrong argument on one rank is an error on all. The next save raises an error that no call has waited for."""
    operation = checkpoint.save(of_last(comm, "ten", 10))
    with refused(comm, "step is 'ten'", "step", kind=weir.Error):
        operation.wait()
    operation = checkpoint.save(of_last(comm, -1, 10))
    with refused(comm, "step is -1", "step", kind=weir.Error):
        checkpoint.save(11).wait()
    with pytest.raises(weir.Error):
        operation.wait()
    checkpoint.save(12)
    for bad, good, text in ((0.5, 12, "step is 0.5"), (-1, None, "step is -1")):
        with refused(comm, text, "step", kind=weir.Error):
            checkpoint.restore(of_last(comm, bad, good))
    assert checkpoint.restore() == 12


def test_failed_save(comm, checkpoint, folder):
    """The next save fails on all ranks, independent of which ranks know the failure. The save after it begins on all."""
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
    assert checkpoint.steps() == [0, 3] and checkpoint.restore() == 3


def test_ctrl_c_in_wait(comm, checkpoint, monkeypatch):
    """The save continues, and can be waited for again."""
    checkpoint.add_local("mine", np.zeros(100_000))
    operation = checkpoint.save(1)
    if not operation._run.done:
        with monkeypatch.context() as patch:
            patch.setattr(_handles.Run, "advance", lambda run, seconds: signal.raise_signal(signal.SIGINT))
            with pytest.raises(KeyboardInterrupt):
                operation.wait()
    checkpoint.wait()
    operation.wait()
    assert checkpoint.restore() == 1


def test_signals(comm, checkpoint):
    for signum, text in ((signal.SIGKILL, "cannot be caught"), (1000, "cannot be caught"), ("SIGUSR1", "signum is 'SIGUSR1'")):
        with pytest.raises(weir.ArgumentError, match=text):
            weir.catch_signal(signum)
    weir.catch_signal(signal.SIGUSR1)
    assert not checkpoint.stop_requested()
    if is_last(comm):
        os.kill(os.getpid(), signal.SIGUSR1)
    assert checkpoint.stop_requested()
