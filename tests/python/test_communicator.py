import ctypes
import json
import pathlib
import tempfile
import threading

import pytest

import weir


def test_ranks(comm):
    assert 0 <= comm.rank < comm.size
    assert repr(comm) == f"<weir.Communicator: rank {comm.rank} of {comm.size}>"


def test_topology_is_a_tree(comm):
    tree = comm.topology
    assert repr(tree) == str(tree) and tree.startswith("node")
    nested = weir.Topology("switch 1\n  node a\n    rank 0\n  node <b>\n    rank 1\nswitch 2")
    assert nested._repr_html_() == (
        "<ul><li>switch 1<ul><li>node a<ul><li>rank 0</li></ul></li><li>node &lt;b&gt;<ul><li>rank 1</li></ul></li></ul></li>"
        "<li>switch 2</li></ul>"
    )


def test_levels_and_groups(comm):
    assert comm.level(comm.rank) == weir.Level.self
    assert comm.group("self") == [comm.rank]
    assert comm.group(weir.Level.system) == list(range(comm.size))
    for peer in range(comm.size):
        assert peer in comm.group(comm.level(peer))
    with pytest.raises(weir.ArgumentError, match="level is 'rack': it must be one of self, l3"):
        comm.group("rack")
    with pytest.raises(weir.ArgumentError, match="does not exist"):
        comm.level(comm.size)


def test_stragglers_and_dump(comm):
    shares = comm.stragglers()
    assert len(shares) == comm.size and (abs(sum(shares) - 1) < 1e-9 or sum(shares) == 0)
    with pytest.raises(weir.ArgumentError):
        comm.stragglers(0)
    with tempfile.TemporaryDirectory() as folder:  # pytest's own are for one process at a time
        file = pathlib.Path(folder) / "dump.json"
        comm.dump(file)
        json.loads(file.read_text())
        with pytest.raises(weir.ArgumentError, match=folder):
            comm.dump(file / "below a file")


@pytest.mark.parametrize(
    "runs, text", [("x", "runs is 'x': it must be a whole number"), (2**32 + 5, "must fit into 32 bits"), (0, "0 runs")]
)
def test_bad_stragglers_of_one_rank(comm, runs, text):
    with pytest.raises(weir.ArgumentError, match=text if comm.rank == 0 else "rank 0: 0 runs"):
        comm.stragglers(runs if comm.rank == 0 else 5)


@pytest.mark.parametrize("text", [b"", b"x", bytes(range(256)) * 100])
def test_a_few_bytes(comm, text):
    for root in range(comm.size):
        assert comm.broadcast(text if comm.rank == root else None, root) == text
    mine = text[: comm.rank * 7]
    assert comm.allgather(mine) == [text[: rank * 7] for rank in range(comm.size)]


def test_bad_bytes_of_one_rank(comm):
    text = "data is of type str: give bytes" if comm.rank == 0 else "rank 0 gives no bytes"
    with pytest.raises(weir.ArgumentError, match=text):
        comm.broadcast("text" if comm.rank == 0 else None)
    with pytest.raises(weir.ArgumentError, match=text):
        comm.allgather("text" if comm.rank == 0 else b"")
    with pytest.raises(weir.ArgumentError, match="root is 'x'" if comm.rank == 0 else "root is -1"):
        comm.broadcast(b"", "x" if comm.rank == 0 else -1)
    with pytest.raises(weir.ArgumentError, match="rank 0 gives 1048577 bytes: it takes 0 to 1048576"):
        comm.broadcast(bytes((1 << 20) + 1))
    released = memoryview(b"gone")
    released.release()
    with pytest.raises(weir.ArgumentError, match="data cannot be read" if comm.rank == 0 else "rank 0 gives no bytes"):
        comm.allgather(released if comm.rank == 0 else b"")
    assert comm.broadcast(b"on") == b"on"


def test_numbers_that_c_cannot_hold(comm):
    for call in (comm.level, weir.Communicator):
        with pytest.raises(weir.ArgumentError, match="is 4294967296: it must fit into 32 bits"):
            call(2**32)


def test_bad_paths_of_dumps(comm):
    with pytest.raises(weir.ArgumentError, match="null characters"):
        comm.dump("/tmp/a\0b")
    with pytest.raises(weir.ArgumentError, match="type int: give a str"):
        comm.dump(5)


def test_nearest_gpu(comm):
    assert comm.nearest_gpu() >= -1


def test_closing(comm):
    with weir.Communicator() as other:
        plan = weir.AllreducePlan(other, count=10, name="of another")
        table = weir.EmbeddingTable(other, rows=4, width=2, largest_batch=2)
    other.close()
    assert "closed" in repr(other) and "closed" in repr(plan) and "closed" in repr(table)
    with pytest.raises(weir.StateError, match="plan 'of another' is closed"):
        plan.reset()
    with pytest.raises(weir.StateError, match="the communicator is closed"):
        other.group("node")
    with pytest.raises(weir.StateError, match="the communicator is closed"):
        weir.AllreducePlan(other, count=10)
    plan.close()


def test_what_is_no_communicator(comm):
    with pytest.raises(weir.ArgumentError, match="type str: give one of mpi4py"):
        weir.Communicator("world")
    with pytest.raises(weir.ArgumentError, match="type NoneType: give a weir.Communicator"):
        weir.AllreducePlan(None, count=1)


def test_an_exception_in_a_block_leaves_the_other_ranks_alone(comm):
    with pytest.raises(KeyError):
        with weir.Communicator() as other:
            raise KeyError
    assert "closed" in repr(other)


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


def test_what_is_no_communicator(comm, mpi4py):
    """Data types, operations and infos of mpi4py have Fortran handles, too."""
    for other in (mpi4py.BYTE, mpi4py.SUM, mpi4py.INFO_ENV, mpi4py.ERRORS_RETURN, True, 1.0, "world"):
        with pytest.raises(weir.ArgumentError, match="the communicator is of type .*: give one of mpi4py, its Fortran handle, or none"):
            weir.Communicator(other)


def test_a_second_thread(comm):
    """While one thread is in a call, another one's is refused, and the first one's ends well."""
    inside, refused = threading.Event(), []

    def second():
        inside.wait()
        try:
            comm.group("node")
        except weir.BusyError as error:
            refused.append(str(error))

    thread = threading.Thread(target=second)
    comm._handle.enter()
    thread.start()
    inside.set()
    thread.join()
    comm._handle.lock.release()
    assert refused and "one thread at a time" in refused[0]
    assert comm.group("self") == [comm.rank]
