import signal

import numpy as np
import pytest
from conftest import of_last, refused

import weir
from weir import _handles

ROWS, WIDTH = 50, 6
IDS = np.array([1, 2], np.int64)
VECTORS = np.zeros((2, WIDTH), np.float32)


@pytest.fixture
def table(comm):
    with weir.EmbeddingTable(comm, rows=ROWS, width=WIDTH, largest_batch=16, learning_rate=0.5) as made:
        yield made


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_training(comm, table, dtype):
    ids = np.array([[3, 4], [4, 9]], dtype)
    mine = np.empty((2, 2, WIDTH), np.float32)
    before = table.export_rows(0, ROWS)
    operation = table.lookup(ids, mine)
    assert operation.result() is mine
    np.testing.assert_array_equal(mine, before[ids])
    table.prefetch(ids)
    table.update(np.ones((4, WIDTH), np.float32))
    after = table.lookup(ids.tolist()).result()
    assert after.shape == (2, 2, WIDTH) and after.dtype == np.float32
    np.testing.assert_allclose(after[0, 0], before[3] - 0.5, rtol=1e-5)
    np.testing.assert_array_equal(table.lookup(((3, 4), (4, 9))).result(), after)
    statistics = table.statistics
    assert statistics.tokens == 4 and "tokens" in str(statistics)
    for nothing in ([], np.empty(0, np.int64)):
        assert table.lookup(nothing).result().shape == (0, WIDTH)
    for _ in range(2):  # the operations are dropped
        table.prefetch(ids)
        table.prefetch(ids)
        table.lookup(ids).wait()
        table.update(np.ones((4, WIDTH), np.float32))
    table.wait()


def test_torch_ids(comm, table):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    vectors = table.lookup(torch.tensor([1, 2, 3])).result()
    assert isinstance(vectors, torch.Tensor) and tuple(vectors.shape) == (3, WIDTH)
    table.update(torch.ones(3, WIDTH)).wait()


def test_rows_and_configuration(comm, table):
    new = np.arange(ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH)
    state = table.save_state()
    table.import_rows(0, new if comm.rank == 0 else np.empty((0, WIDTH), np.float32))
    mine = np.empty((2, WIDTH), np.float32)
    assert table.export_rows(comm.rank, 2, mine) is mine
    np.testing.assert_array_equal(mine, new[comm.rank : comm.rank + 2])
    table.restore_state(state)
    assert (table.export_rows(1, 2) != new[1:3]).any()
    config = table.config
    assert (config.rows, config.width, config.exchange, config.optimizer) == (ROWS, WIDTH, "columns", weir.Optimizer.sgd)
    assert repr(table) == "<weir.EmbeddingTable 'embedding': 50 x 6>"
    table.set_learning_rate(0.25)
    for rate, text in (("x", "learning_rate is 'x': it must be a number"), (10**400, "no double can hold")):
        with pytest.raises(weir.ArgumentError, match=text):
            table.set_learning_rate(rate)


NULL = "null pointer"


@pytest.mark.parametrize(
    "bad, own, others",
    [
        ("12", "the array of ids is of type str", NULL),
        ([1.5, 2], "the array of ids has type float64; the table takes int32 or int64", NULL),
        ([[1], [2, 3]], "the list of ids makes no array: ", NULL),
        (np.arange(8)[::2], "the array of ids is not contiguous", NULL),
        (np.array([1, ROWS]), "id 50 at position 1", "id 50 at position 1"),
    ],
)
def test_bad_ids_of_one_rank(comm, table, bad, own, others):
    for call in (table.lookup, table.prefetch):
        with refused(comm, own, others):
            call(of_last(comm, bad, IDS)).wait()
    assert table.lookup(IDS).result().shape == (2, WIDTH)


BAD = [  # the call, what the last rank gives, and its text
    ("lookup", np.zeros((2, WIDTH)), "the array for vectors has type float64"),
    ("lookup", np.zeros((3, WIDTH), np.float32), "has 18 elements: it must have 2 ids x width 6"),
    ("lookup", np.zeros((WIDTH, 2), np.float32).T, "not contiguous"),
    ("lookup", np.frombuffer(bytes(48), np.float32).reshape(2, WIDTH), "read-only"),
    ("update", np.zeros((2, WIDTH)), "the array of gradients has type float64"),
    ("update", np.zeros(WIDTH + 1, np.float32), "the array of gradients has 7 elements"),
    ("update", "gradients", "of type str"),
    ("import", np.zeros(WIDTH + 1, np.float32), "the array of values has 7 elements: it must have rows x width 6"),
    ("import", None, "of type NoneType"),
    ("export", [], "of type list"),
]


@pytest.mark.parametrize("name, bad, own", BAD)
def test_bad_arrays_of_one_rank(comm, table, name, bad, own):
    table.lookup(IDS).wait()
    call = {
        "lookup": lambda array: table.lookup(IDS, array).wait(),
        "update": lambda array: table.update(array).wait(),
        "import": lambda array: table.import_rows(0, array),
        "export": lambda array: table.export_rows(0, 2, array),
    }[name]
    with refused(comm, own, f"rank {comm.size - 1}.*{NULL}"):
        call(of_last(comm, bad, VECTORS.copy()))
    call(VECTORS.copy())


def test_other_bad_calls_of_one_rank(comm, table):
    table.lookup(IDS).wait()
    for call, array in ((table.update, VECTORS), (table.prefetch, IDS), (table.lookup, IDS)):
        with refused(comm, "stream is 1.5", NULL):
            call(array, **of_last(comm, {"stream": 1.5}, {})).wait()
    with pytest.raises(weir.ArgumentError, match="rows from row 49 on"):
        table.export_rows(*of_last(comm, (49, 2), (0, 1)))
    none, some = np.empty(0, np.int64), np.empty((0, WIDTH), np.float32)
    assert table.lookup(none, some.astype(of_last(comm, float, np.float32))).result().size == 0  # nothing has no type
    with refused(comm, "type list"):
        table.lookup(none, of_last(comm, [], some)).wait()


def test_ctrl_c_before_a_start(comm, table, monkeypatch):
    """wait() makes the call, and its arrays are still alive."""
    before = table.export_rows(0, ROWS)
    table.lookup(IDS).wait()
    with monkeypatch.context() as patch:
        patch.setattr(_handles.Run, "begin", lambda run: signal.raise_signal(signal.SIGINT))
        for call, array in ((table.update, np.ones((2, WIDTH), np.float32)), (table.prefetch, IDS.copy())):
            with pytest.raises(KeyboardInterrupt):
                call(array)
            del array
    table.wait()
    assert (table.export_rows(0, ROWS)[IDS] != before[IDS]).all()
    assert table.lookup(IDS).result().shape == (2, WIDTH)
