"""Lists of entries of sparse tensors, against NumPy: positions, how they travel, and sums."""
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
from weir import _torch_sparse as sparse  # noqa: E402
from weir import ArgumentError  # noqa: E402

SHAPES = [(1,), (2,), (7,), (64,), (1000,), (33, 31), (100_000,), (5, 7, 11, 13), (2**40,), (2**31, 2**31), (3_000_000,)]
INTEGERS = [torch.int8, torch.int64]
TYPES = [torch.float32, torch.float64, torch.bfloat16, torch.complex64, *INTEGERS]


def some_positions(random, elements, most, among):
    """Returns ascending positions, of those in `among` if it is given."""
    if among is not None:
        return np.sort(random.choice(among, min(most, len(among)), replace=False))
    return np.unique(random.integers(0, elements, most))


def rows_of(positions, shape):
    return np.ascontiguousarray(np.stack(np.unravel_index(positions, shape)))


def positions_of(indices, shape):
    found = np.empty(indices.shape[1], np.int64)
    sizes = np.array(shape, np.int64)
    sparse.check(sparse.lib.weir_entries_positions(indices.ctypes.data, sizes.ctypes.data, len(shape), len(found), found.ctypes.data))
    return found


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 7, 33])
@pytest.mark.parametrize("shape", SHAPES)
def test_sums_of_lists(ranks, shape):
    random = np.random.default_rng(ranks)
    elements = int(np.prod(shape, dtype=object))
    sizes = np.array(shape, np.int64)
    for case, (most, dtype) in enumerate((most, dtype) for most in (0, 1, 5, 700) for dtype in TYPES):
        dense = (3,) if case % 3 == 1 else ()
        among = np.unique(random.integers(0, elements, most)) if case % 2 else None
        lists, begins = [], []
        for rank in range(ranks):
            count = most if rank % 3 == 0 else int(random.integers(0, most + 1))
            lists.append(some_positions(random, elements, count, among).astype(np.int64))
            begins.append(int(lists[-1][0]) if len(lists[-1]) and rank % 2 else 0)
        coded = [sparse.coded(positions, begin) for positions, begin in zip(lists, begins)]
        joined = np.concatenate(lists)
        values = torch.from_numpy(random.integers(-128, 128, (len(joined), *dense))).to(dtype) / (1 if dtype in INTEGERS else 7)
        values = values.to(dtype)
        found = sparse.Lists(np.concatenate([code for code, _ in coded]), [len(positions) for positions in lists],
                             [len(code) for code, _ in coded], [width for _, width in coded], begins)
        assert np.array_equal(found.indices(sizes).numpy(), rows_of(joined, shape))
        assert np.array_equal(positions_of(rows_of(lists[0], shape), shape), lists[0])
        indices, sums = found.summed(sizes, values)
        once, place = np.unique(joined, return_inverse=True)
        wide = torch.float32 if dtype == torch.bfloat16 else dtype
        expected = torch.zeros((len(once), *dense), dtype=wide).index_add_(0, torch.from_numpy(place.reshape(-1)), values.to(wide))
        assert np.array_equal(indices.numpy(), rows_of(once, shape))
        assert torch.equal(sums, expected)


def test_wrong_indices():
    with pytest.raises(ArgumentError, match="outside its shape"):
        positions_of(np.array([[0, 5]]), (5,))
    with pytest.raises(ArgumentError, match="do not ascend"):
        positions_of(np.array([[0, 0], [3, 3]]), (5, 5))


def test_long_distances():
    positions = np.array([0, 254, 510, 766, 2**16, 2**16 + 1, 2**33], np.int64)
    for last in range(1, len(positions) + 1):
        code, width = sparse.coded(positions[:last], 0)
        lists = sparse.Lists(code, [last], [len(code)], [width], [0])
        assert np.array_equal(lists.indices(np.array([2**34])).numpy()[0], positions[:last])
