import ctypes
import json
import pathlib
import threading

import numpy as np
import pytest
from conftest import of_last, refused

import weir


def test_ranks_and_levels(comm):
    assert 0 <= comm.rank < comm.size and comm.nearest_gpu() >= -1
    assert repr(comm) == f"<weir.Communicator: rank {comm.rank} of {comm.size}>"
    assert comm.level(comm.rank) == weir.Level.self and comm.group("self") == [comm.rank]
    assert comm.group(weir.Level.system) == list(range(comm.size))
    for peer in range(comm.size):
        assert peer in comm.group(comm.level(peer))
    for call, text in (
        (lambda: comm.group("rack"), "level is 'rack': it must be one of self, l3"),
        (lambda: comm.level(comm.size), "does not exist"),
        (lambda: comm.level(2**32), "is 4294967296: it must fit into 32 bits"),
    ):
        with pytest.raises(weir.ArgumentError, match=text):
            call()


def test_topology_is_a_tree(comm):
    tree = comm.topology
    assert repr(tree) == str(tree) and tree.startswith("node")
    nested = weir.Topology("switch 1\n  node a\n    rank 0\n  node <b>\n    rank 1\nswitch 2")
    assert nested._repr_html_() == (
        "<ul><li>switch 1<ul><li>node a<ul><li>rank 0</li></ul></li><li>node &lt;b&gt;<ul><li>rank 1</li></ul></li></ul></li>"
        "<li>switch 2</li></ul>"
    )


def test_sums(comm):
    for dtype in (np.float32, np.float64):
        values = np.array([[1e20, 1, -1e20], [0.5, 0.25, comm.rank]], dtype)
        assert comm.sum(values).tolist() == [comm.size, 0.75 * comm.size + sum(range(comm.size))]
        assert comm.sum(values[1]) == comm.sum(values).tolist()[1]
        assert comm.sum(np.empty(0, dtype) if comm.rank else values[0]) == 1
    assert comm.sum(2) == 2 * comm.size
    for wrong, text in ((np.array(["a"]), "float32 or float64"), (values[:, ::2], "contiguous"), ("a", "give a NumPy array")):
        with pytest.raises(weir.ArgumentError, match=text if comm.rank == comm.size - 1 else "sum: rank"):
            comm.sum(of_last(comm, wrong, 1.0))


def test_stragglers_and_dumps(comm, folder):
    shares = comm.stragglers()
    assert len(shares) == comm.size and (abs(sum(shares) - 1) < 1e-9 or sum(shares) == 0)
    for runs, text in (("x", "runs is 'x': it must be a whole number"), (2**32 + 5, "must fit into 32 bits"), (0, "0 runs")):
        with refused(comm, text, f"rank {comm.size - 1}: 0 runs"):
            comm.stragglers(of_last(comm, runs, 5))
    file = pathlib.Path(folder) / f"dump{comm.rank}.json"
    comm.dump(file)
    json.loads(file.read_text())
    for path, text in ((file / "below a file", folder), ("/tmp/a\0b", "null characters"), (5, "type int: give a str")):
        with pytest.raises(weir.ArgumentError, match=text):
            comm.dump(path)


@pytest.mark.parametrize("text", [b"", b"x", bytes(range(256)) * 100])
def test_a_few_bytes(comm, text):
    for root in range(comm.size):
        assert comm.broadcast(text if comm.rank == root else None, root) == text
    assert comm.allgather(text[: comm.rank * 7]) == [text[: rank * 7] for rank in range(comm.size)]


def test_bad_bytes_of_one_rank(comm):
    last, released = comm.size - 1, memoryview(b"gone")
    released.release()
    for bad, text in (("text", "data is of type str: give bytes"), (released, "data cannot be read")):
        with refused(comm, text, f"rank {last} gives no bytes"):
            comm.broadcast(of_last(comm, bad, None), last)
        with refused(comm, text, f"rank {last} gives no bytes"):
            comm.allgather(of_last(comm, bad, b""))
    with refused(comm, "root is 'x'", "root is -1"):
        comm.broadcast(b"", of_last(comm, "x", -1))
    with pytest.raises(weir.ArgumentError, match="rank 0 gives 1048577 bytes: it takes 0 to 1048576"):
        comm.broadcast(bytes((1 << 20) + 1))
    assert comm.broadcast(b"on") == b"on"


def test_closing(comm):
    with weir.Communicator() as other:
        plan = weir.AllreducePlan(other, count=10, name="of another")
        table = weir.EmbeddingTable(other, rows=4, width=2, largest_batch=2)
    other.close()
    assert "closed" in repr(other) and "closed" in repr(plan) and "closed" in repr(table)
    for call, text in (
        (plan.reset, "plan 'of another' is closed"),
        (lambda: other.group("node"), "the communicator is closed"),
        (lambda: weir.AllreducePlan(other, count=10), "the communicator is closed"),
    ):
        with pytest.raises(weir.StateError, match=text):
            call()
    plan.close()
    with pytest.raises(KeyError), weir.Communicator() as other:  # an exception in a block leaves the other ranks alone
        raise KeyError
    assert "closed" in repr(other)


def test_subgroups(comm):
    parity = list(range(comm.rank % 2, comm.size, 2))[::-1]
    with comm.subgroup(parity) as half:
        assert (parity[half.rank], half.size) == (comm.rank, len(parity))
        assert half.allgather(bytes([comm.rank])) == [bytes([rank]) for rank in parity]
        with weir.AllreducePlan(half, count=1, type="float64", algorithm="dense_ring", average=False) as plan:
            ranks = ctypes.c_double(comm.rank)
            plan.run(ranks)
        assert ranks.value == sum(parity)
        alone = half.subgroup(rank for rank in (half.rank,))
    assert alone.size == 1 and alone.topology.startswith("node") and "of 1" in repr(alone)
    alone.close()
    everybody = list(range(comm.size))
    for bad, text in (
        ([], "subgroup: the list is empty"),
        ([*everybody, comm.size], f"subgroup: rank 0: the list has rank {comm.size}"),
        ([*everybody, 0], "the list has rank 0 twice"),
        ([-1], f"subgroup: rank {comm.rank}: the list has rank -1"),
        (5, "the ranks are of type int: give a list of numbers"),
        (["x"], "a rank is 'x': it must be a whole number"),
        ([2**32], "must fit into 32 bits"),
    ):
        with pytest.raises(weir.ArgumentError, match=text):
            comm.subgroup(bad)
    if comm.size > 1:
        with pytest.raises(weir.MismatchError, match="ranks disagree about the list: rank 0 has 0, 1"):
            comm.subgroup(of_last(comm, everybody[::-1], everybody))
    with comm.subgroup(everybody) as same:
        assert same.size == comm.size


def test_mpi4py(comm, mpi4py):
    parity = mpi4py.COMM_WORLD.Split(comm.rank % 2, comm.rank)
    with weir.Communicator(parity) as half:
        assert (half.rank, half.size) == (parity.rank, parity.size)
        with weir.AllreducePlan(half, count=1, type="float64", algorithm="dense_ring", average=False) as plan:
            ranks = ctypes.c_double(comm.rank)
            plan.run(ranks)
        assert ranks.value == sum(range(comm.rank % 2, comm.size, 2))
    with weir.Communicator(mpi4py.COMM_WORLD.py2f()) as same:
        assert same.size == comm.size
    parity.Free()
    with pytest.raises(weir.ArgumentError, match="MPI_COMM_NULL"):
        weir.Communicator(mpi4py.COMM_NULL)
    # data types, operations and infos of mpi4py have Fortran handles, too
    for other in (mpi4py.BYTE, mpi4py.SUM, mpi4py.INFO_ENV, mpi4py.ERRORS_RETURN):
        with pytest.raises(weir.ArgumentError, match="of type .*: give one of mpi4py, its Fortran handle, or none"):
            weir.Communicator(other)


def test_what_is_no_communicator():
    for other, text in ((True, "of type bool"), (1.0, "of type float"), ("world", "of type str"), (2**32, "32 bits")):
        with pytest.raises(weir.ArgumentError, match=text):
            weir.Communicator(other)


def test_a_second_thread(comm):
    """While one thread is in a call, a call of another thread is refused, and the first call succeeds."""
    refusals = []

    def second():
        try:
            comm.group("node")
        except weir.BusyError as error:
            refusals.append(str(error))

    thread = threading.Thread(target=second)
    comm._handle.enter()
    thread.start()
    thread.join()
    comm._handle.lock.release()
    assert "one thread at a time" in refusals[0]
    assert comm.group("self") == [comm.rank]
