import numpy as np
import pytest
from conftest import is_last

import weir


def test_runs(comm):
    """Entries and whole arrays, to entries and dense arrays, all and in part."""
    ranks, rank = comm.size, comm.rank
    with weir.SparseSum(comm, count=12, name="charge") as total:
        assert repr(total) == "<weir.SparseSum 'charge': sum of 12 float64>"
        indices, values = total.run(np.array([11, 4, 11]), np.array([1, 2, 0.5]))
        np.testing.assert_array_equal(indices, [4, 11])
        np.testing.assert_array_equal(values, [2 * ranks, 1.5 * ranks])
        field = np.full((3, 4), 100.0)
        total.run(np.array([5, 2], np.int32), np.array([1.0, 2]), output=field, add=True)
        assert field[1, 1] == 100 + ranks and field[0, 2] == 100 + 2 * ranks and field[0, 0] == 100
        whole = np.zeros(12)
        whole[[3, 9]] = 1, rank
        operation = total.start(None, whole, output=field)
        while not operation.test():
            pass
        assert field[0, 3] == ranks and field[2, 1] == ranks * (ranks - 1) / 2 and field[1, 1] == 0
        begin, end = total.range_begin(rank), total.range_begin(rank + 1)
        part = np.empty(end - begin)
        mine = total.run_reduce_scatter(np.array([11, 4]), np.array([1.0, 2]), output=part)
        expected = np.zeros(12)
        expected[[11, 4]] = ranks, 2 * ranks
        np.testing.assert_array_equal(part, expected[begin:end])
        assert all(begin <= index < end for index in mine.indices)
        assert total.statistics.runs == 4 and total.config.count == 12 and total.memory_bytes > 0
    assert repr(total) == "<weir.SparseSum 'charge', closed>"


@pytest.mark.parametrize("type", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("operation", ["sum", "min", "max"])
def test_types_and_operations(comm, type, operation):
    """Every type and operation agrees with NumPy; absent entries do not count."""
    config = weir.SparseSumConfig(count=1000, type=type, operation=operation, algorithm="split")
    given = [np.unique(np.random.default_rng(rank).integers(0, 1000, 50)) for rank in range(comm.size)]
    expected = {}
    for rank, indices in enumerate(given):
        for index in indices.tolist():
            value = (index % 7 - 3) * (rank + 1)
            before = expected.get(index)
            both = {"sum": lambda a, b: a + b, "min": min, "max": max}[operation]
            expected[index] = value if before is None else both(before, value)
    with weir.SparseSum.from_config(comm, config) as total:
        mine = given[comm.rank]
        found = total.run(mine, ((mine % 7 - 3) * (comm.rank + 1)).astype(type))
        assert found.values.dtype == type and dict(zip(found.indices.tolist(), found.values.tolist())) == expected


def test_reproducible_sum(comm):
    """A sum has the same bits whichever rank gives which entry; so its large terms cancel."""
    terms = np.array([1e16, 1, -1e16, 1, 0.5] * 3)
    mine = terms[comm.rank :: comm.size].copy()
    with weir.SparseSum(comm, count=12, operation="reproducible_sum") as total:
        assert total.run(np.full(len(mine), 7), mine).values.tolist() == [7.5]
    with pytest.raises(weir.ArgumentError, match="algorithm 'dense' cannot make a reproducible_sum of float64"):
        weir.SparseSum(comm, count=12, operation="reproducible_sum", algorithm="dense")


def test_checked_sum(comm):
    """An addition that overflows on the last rank is an error on all, and leaves arrays alone."""
    field = np.full(12, 5, np.int32)
    with weir.SparseSum(comm, count=12, type="int32", operation=weir.SumOperation.checked_sum, name="hits") as total:
        for values in [[2**31 - 1, 1], [2**31 - 5, 0]]:  # in its entries, and in its array
            mine = np.array(values if is_last(comm) else [0, 0], np.int32)
            with pytest.raises(weir.ArgumentError, match="an addition at index 3, counted from 0, overflows int32: take int64"):
                total.run(np.array([3, 3]), mine, output=field, add=True)
            assert field.tolist() == [5] * 12
        assert total.run(np.array([3, 3]), np.array([1, 1], np.int32)).values.tolist() == [2 * comm.size]
    with pytest.raises(weir.ArgumentError, match="only sums of int32 or int64 can be checked"):
        weir.SparseSum(comm, count=12, operation="checked_sum")


def test_refusals(comm):
    """Wrong arguments of the last rank are an error on all, and the next run is right."""
    values, indices = np.ones(2), np.array([1, 4])
    wrong = [
        ({"indices": np.array([1, 12])}, "index 12 of entry 1 is out of range: indices are 0 to 11"),
        ({"indices": np.array([1])}, "there are 1 indices and 2 values"),
        ({"indices": np.array([1.0, 2])}, "the array of indices"),
        ({"values": np.ones(2, np.float32)}, "the array of values"),
        ({"output": np.empty(3)}, "the output has 3 elements: it must have 12"),
        ({"add": True}, "add is set, and there is no output to add to"),
        ({"output": "field"}, "the output is of type str"),
    ]
    with weir.SparseSum(comm, count=12) as total:
        for change, text in wrong:
            arguments = {"values": values, "indices": indices, **(change if is_last(comm) else {})}
            with pytest.raises(weir.ArgumentError, match=text.replace("(", ".")):
                total.run(**arguments)
            np.testing.assert_array_equal(total.run(indices, values).values, [comm.size] * 2)
        with pytest.raises(weir.ArgumentError, match="the rank is 'a'"):
            total.range_begin("a")
    with pytest.raises(weir.ArgumentError, match="count is -1"):
        weir.SparseSum(comm, count=-1)
