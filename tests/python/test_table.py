import copy
import pickle
import signal

import numpy as np
import pytest

import weir
from weir import _handles

ROWS, WIDTH = 50, 6


@pytest.fixture
def table(comm):
    with weir.EmbeddingTable(comm, rows=ROWS, width=WIDTH, largest_batch=16, learning_rate=0.5) as made:
        yield made


def ids_of(rank, turn=0, dtype=np.int64):
    return np.random.default_rng([turn, rank]).integers(0, ROWS, 8).astype(dtype)


def all_rows(table):
    return table.export_rows(0, ROWS)


@pytest.mark.each("exchange")
@pytest.mark.parametrize("exchange", [row.name for row in weir.exchanges()])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_training(comm, exchange, dtype):
    """Against a table that NumPy trains, from what all ranks look up."""
    with weir.EmbeddingTable(comm, rows=ROWS, width=WIDTH, largest_batch=16, learning_rate=0.5, exchange=exchange) as table:
        expected = all_rows(table)
        for turn in range(3):
            ids = ids_of(comm.rank, turn, dtype)
            vectors = table.lookup(ids).result()
            assert vectors.shape == (8, WIDTH) and vectors.dtype == np.float32
            np.testing.assert_allclose(vectors, expected[ids], rtol=1e-5, atol=1e-6)
            table.prefetch(ids_of(comm.rank, turn + 1, dtype))
            table.update(np.full((8, WIDTH), comm.rank + 1, np.float32))
            for rank in range(comm.size):
                np.subtract.at(expected, ids_of(rank, turn), 0.5 * (rank + 1) / comm.size)
        np.testing.assert_allclose(all_rows(table), expected, rtol=1e-5, atol=1e-5)
        statistics = table.statistics
        assert statistics.tokens == 8 and statistics.prefetched == (exchange != "none") and "tokens" in str(statistics)


def test_given_vectors_and_shapes(comm, table):
    ids = ids_of(comm.rank).reshape(2, 4)
    mine = np.empty((2, 4, WIDTH), np.float32)
    operation = table.lookup(ids, mine)
    assert operation.result() is mine
    assert table.lookup(ids).result().shape == (2, 4, WIDTH)
    np.testing.assert_array_equal(table.lookup(ids).result(), mine)
    assert table.lookup(np.empty(0, np.int64)).result().shape == (0, WIDTH)


def test_torch_ids(comm, table):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    vectors = table.lookup(torch.tensor([1, 2, 3])).result()
    assert isinstance(vectors, torch.Tensor) and tuple(vectors.shape) == (3, WIDTH)
    table.update(torch.ones(3, WIDTH)).wait()


def test_import_and_export(comm, table):
    new = np.arange(ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH)
    table.import_rows(0, new if comm.rank == 0 else np.empty((0, WIDTH), np.float32))
    np.testing.assert_array_equal(all_rows(table), new)
    mine = np.empty((2, WIDTH), np.float32)
    assert table.export_rows(comm.rank, 2, mine) is mine
    np.testing.assert_array_equal(mine, new[comm.rank : comm.rank + 2])


def test_saved_states(comm, table):
    before = all_rows(table)
    state = table.save_state()
    table.lookup(ids_of(comm.rank)).wait()
    table.update(np.ones((8, WIDTH), np.float32)).wait()
    assert (all_rows(table) != before).any()
    table.restore_state(state)
    np.testing.assert_array_equal(all_rows(table), before)
    with pytest.raises(weir.ArgumentError):
        table.restore_state(state[:-4])


def test_configuration(comm, table):
    config = table.config
    assert (config.rows, config.width, config.exchange, config.optimizer) == (ROWS, WIDTH, "columns", weir.Optimizer.sgd)
    table.set_learning_rate(0.25)
    assert table.memory_bytes > 0 and repr(table) == "<weir.EmbeddingTable 'embedding': 50 x 6>"
    with weir.EmbeddingTable.from_config(comm, config) as same:
        assert same.config == config


def of_one(comm, culprit, bad, good):
    """What each rank gives where one rank's is bad, and what it may expect to hear."""
    return bad if comm.rank == culprit else good


IDS = np.array([1, 2], np.int64)
VECTORS = np.zeros((2, WIDTH), np.float32)


@pytest.mark.parametrize(
    "bad, own, others",
    [
        ("12", "the array of ids is of type str", "null pointer"),
        ([1.5, 2], "the array of ids has type float64; the table takes int32 or int64", "null pointer"),
        ([[1], [2, 3]], "the list of ids makes no array: ", "null pointer"),
        (np.array([1.0]), "the array of ids has type float64; the table takes int32 or int64", "null pointer"),
        (np.arange(8)[::2], "the array of ids is not contiguous", "null pointer"),
        (np.array([1, ROWS]), "id 50 at position 1", "id 50 at position 1"),
        (np.array([-1]), "id -1 at position 0", "id -1 at position 0"),
        (np.zeros(17, np.int64), "17 ids at once", "17 ids at once"),
    ],
)
def test_bad_ids_of_one_rank(comm, table, bad, own, others):
    culprit = comm.size - 1
    text = own if comm.rank == culprit else others
    for call in (table.lookup, table.prefetch):
        with pytest.raises(weir.ArgumentError, match=text):
            call(of_one(comm, culprit, bad, IDS)).wait()
    assert table.lookup(IDS).result().shape == (2, WIDTH)


@pytest.mark.parametrize(
    "bad, own",
    [
        (np.zeros((2, WIDTH)), "the array for vectors has type float64"),
        (np.zeros((3, WIDTH), np.float32), "has 18 elements: it must have 2 ids x width 6"),
        (np.zeros((WIDTH, 2), np.float32).T, "not contiguous"),
        (np.frombuffer(bytes(48), np.float32).reshape(2, WIDTH), "read-only"),
    ],
)
def test_bad_vectors_of_one_rank(comm, table, bad, own):
    with pytest.raises(weir.ArgumentError, match=own if comm.rank == 0 else "rank 0 looks up with a null pointer"):
        table.lookup(IDS, of_one(comm, 0, bad, VECTORS)).wait()
    assert table.lookup(IDS).result().shape == (2, WIDTH)


@pytest.mark.parametrize(
    "bad, own, others",
    [
        (np.zeros((2, WIDTH)), "the array of gradients has type float64", "null pointer"),
        (np.zeros(WIDTH + 1, np.float32), "the array of gradients has 7 elements", "null pointer"),
        (np.zeros((3, WIDTH), np.float32), "gradients of 18 elements", "gradients of 18 elements"),
        ("gradients", "of type str", "null pointer"),
    ],
)
def test_bad_gradients_of_one_rank(comm, table, bad, own, others):
    table.lookup(IDS).wait()
    with pytest.raises(weir.ArgumentError, match=own if comm.rank == 0 else others):
        table.update(of_one(comm, 0, bad, VECTORS)).wait()
    table.update(VECTORS).wait()
    with pytest.raises(weir.ArgumentError, match="without a finished lookup"):
        table.update(VECTORS).wait()


@pytest.mark.parametrize(
    "bad, own",
    [
        (np.zeros((2, WIDTH)), "the array of values has type float64"),
        (np.zeros(WIDTH + 1, np.float32), "the array of values has 7 elements: it must have rows x width 6"),
        (None, "of type NoneType"),
    ],
)
def test_bad_rows_of_one_rank(comm, table, bad, own):
    with pytest.raises(weir.ArgumentError, match=own if comm.rank == 0 else "rank 0 imports with a null pointer"):
        table.import_rows(0, of_one(comm, 0, bad, VECTORS))
    with pytest.raises(weir.ArgumentError, match="rows from row 49 on"):
        table.export_rows(*of_one(comm, 0, (49, 2), (0, 1)))
    assert all_rows(table).shape == (ROWS, WIDTH)


def test_lists_of_ids(comm, table):
    expected = table.lookup(np.array([[3, 4], [4, 9]])).result()
    np.testing.assert_array_equal(table.lookup([[3, 4], [4, 9]]).result(), expected)
    np.testing.assert_array_equal(table.lookup(((3, 4), (4, 9))).result(), expected)
    assert table.lookup([]).result().shape == (0, WIDTH)


def test_copies_are_refused(comm, table):
    for what in (table, comm):
        for copier in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="cannot be copied or pickled"):
                copier(what)


def test_bad_arguments_of_one_rank_where_there_is_nothing(comm, table):
    none, some = np.empty(0, np.int64), np.empty((0, WIDTH), np.float32)
    assert table.lookup(none, some.astype(float) if comm.rank == 0 else some).result().size == 0
    with pytest.raises(weir.ArgumentError, match="type list" if comm.rank == 0 else "rank 0"):
        table.lookup(none, of_one(comm, 0, [], some)).wait()
    with pytest.raises(weir.ArgumentError, match="type list" if comm.rank == 0 else "rank 0"):
        table.export_rows(0, 0, of_one(comm, 0, [], some))


def test_bad_streams_of_one_rank(comm, table):
    mine = {"stream": 1.5} if comm.rank == 0 else {}
    text = "stream is 1.5" if comm.rank == 0 else "null pointer"
    table.lookup(IDS).wait()
    for call, array in ((table.update, VECTORS), (table.prefetch, IDS), (table.lookup, IDS)):
        with pytest.raises(weir.ArgumentError, match=text):
            call(array, **mine).wait()


def test_learning_rates(comm, table):
    for rate, text in (("x", "learning_rate is 'x': it must be a number"), (10**400, "no double can hold")):
        with pytest.raises(weir.ArgumentError, match=text):
            table.set_learning_rate(rate)


def test_starts_wait_for_updates_and_prefetches(comm, table):
    """Of which nobody keeps the operations."""
    for turn in range(3):
        table.prefetch(ids_of(comm.rank, turn))
        table.prefetch(ids_of(comm.rank, turn))
        table.lookup(ids_of(comm.rank, turn)).wait()
        table.update(np.ones((8, WIDTH), np.float32))
    table.wait()


def test_ctrl_c_before_a_start(comm, table, monkeypatch):
    """wait() makes the call, and what it reads is still there."""
    before = all_rows(table)
    table.lookup(IDS).wait()
    with monkeypatch.context() as patch:
        patch.setattr(_handles.Run, "begin", lambda run: signal.raise_signal(signal.SIGINT))
        for call, array in ((table.update, np.ones((2, WIDTH), np.float32)), (table.prefetch, IDS.copy())):
            with pytest.raises(KeyboardInterrupt):
                call(array)
            del array
    table.wait()
    assert (all_rows(table)[IDS] != before[IDS]).all()
    assert table.lookup(IDS).result().shape == (2, WIDTH)


def test_bad_configurations_of_one_rank(comm):
    with pytest.raises(weir.ArgumentError, match="optimizer is 'adamw'" if comm.rank == 0 else "rank 0: optimizer is 'adamw'"):
        weir.EmbeddingTable(comm, rows=4, width=2, largest_batch=1, optimizer=of_one(comm, 0, "adamw", "adam"))
    with pytest.raises(weir.ArgumentError, match="width"):
        weir.EmbeddingTable(comm, rows=4, width=of_one(comm, 0, 0, 2), largest_batch=1)
