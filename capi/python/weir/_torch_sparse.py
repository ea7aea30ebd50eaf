"""The sum of sparse COO tensors over ranks, exactly. Each rank sums a range of the indices."""
from __future__ import annotations

import zlib
from typing import Any, Callable, Generator, List, Tuple

import numpy as np
import torch

Start = Callable[..., int]
FLOAT, BYTE, LONG = 8, 0, 4  # codes of types


def gaps(positions: Any, first: int) -> Tuple[Any, int]:
    """Returns ascending positions, from `first` on, as bytes: the distances from one to the next, in the width that suits them. The
    largest number of the width stands for a distance without an entry."""
    distances = np.diff(positions, prepend=first)
    mean = (int(positions[-1]) - first) // len(positions) if len(positions) else 0
    kind = np.uint8 if mean < 100 else np.uint16 if mean < 25000 else np.uint32 if mean < 2**31 else np.int64
    most = np.iinfo(kind).max
    empty = distances // most
    coded = np.full(len(positions) + int(empty.sum()), most, kind)
    coded[np.cumsum(empty + 1) - 1] = distances % most
    return coded.view(np.uint8), np.dtype(kind).itemsize


def positions_of(coded: Any, width: int, first: int) -> Any:
    """Returns the positions that gaps() has coded."""
    kind = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.int64}[width]
    distances = coded.view(kind)
    return (np.cumsum(distances, dtype=np.int64) + first)[distances != np.iinfo(kind).max]


def sum_sparse(start: Start, tensor: Any, rank: int, ranks: int, divide: int) -> Generator[int, None, None]:
    """Sums `tensor` over the ranks, in place. Yields after each step, whose calls have to be over then.

    Every rank sends each other one its entries of that rank's range. The rank sums them in the order of ranks, and sends the sums to
    all. Indices travel as distances."""
    given = tensor.coalesce()
    sizes, sparse, dtype = given.shape, given.sparse_dim(), given.dtype
    wide = dtype if not dtype.is_floating_point or dtype.itemsize >= 4 else torch.float32
    dense = sizes[sparse:]
    elements = int(np.prod(sizes[:sparse], dtype=object))
    width = int(np.prod(dense, dtype=np.int64))  # elements of an entry
    indices = given.indices().numpy()
    values = given.values().contiguous()
    flat = np.ravel_multi_index(tuple(indices), sizes[:sparse]) if sparse > 1 else indices[0] if sparse else np.zeros(len(values), int)
    bounds = [elements * part // ranks for part in range(ranks + 1)]
    cuts = np.searchsorted(flat, bounds)
    parts = [gaps(flat[cuts[to] : cuts[to + 1]], bounds[to]) for to in range(ranks)]

    # How much each rank sends to each other one, and whether all have the same shape.
    agreed = zlib.crc32(repr((tuple(sizes), sparse, dtype)).encode())
    mine = np.array([(cuts[to + 1] - cuts[to], len(coded), wide_by, agreed) for to, (coded, wide_by) in enumerate(parts)], np.int64)
    theirs = torch.empty((ranks, 4), dtype=torch.int64)
    fours = [4] * ranks
    yield start("all_to_all_v", send=torch.from_numpy(mine), recv=theirs, send_counts=fours, recv_counts=fours, type=LONG, in_turn=1)
    if (theirs[:, 3] != agreed).any():
        others = [peer for peer in range(ranks) if theirs[peer, 3] != agreed]
        raise ValueError(f"all_reduce: the sparse tensors of ranks {others} have another shape, type or number of sparse dimensions "
                         f"than this one, {tuple(sizes)} of {dtype}")
    entries, lengths, widths = (theirs[:, column].tolist() for column in range(3))
    itemsize = values.element_size() * width
    positions = torch.empty(sum(lengths), dtype=torch.uint8)
    received = values.new_empty((sum(entries), *dense))
    coded = torch.from_numpy(np.concatenate([coded for coded, _ in parts]))
    start("all_to_all_v", send=coded, recv=positions, send_counts=[len(c) for c, _ in parts], recv_counts=lengths, type=BYTE, in_turn=1)
    yield start(
        "all_to_all_v", send=values, recv=received, send_counts=mine[:, 0] * itemsize, recv_counts=np.array(entries) * itemsize,
        type=BYTE, in_turn=1,
    )  # fmt: skip
    ends = np.cumsum([0, *lengths])
    found = [positions_of(positions.numpy()[ends[i] : ends[i + 1]], widths[i], bounds[rank]) for i in range(ranks)]
    where, inverse = np.unique(np.concatenate(found), return_inverse=True)
    sums = torch.zeros((len(where), *dense), dtype=wide)
    sums.index_add_(0, torch.from_numpy(inverse.reshape(-1)), received.to(wide))
    if divide > 1:
        sums = sums / divide if dtype.is_floating_point or dtype.is_complex else sums.div_(divide, rounding_mode="trunc")
    sums = sums.to(dtype)

    # The sums go to all ranks.
    coded_sums, width_of_sums = gaps(where, bounds[rank])
    mine = np.array([len(where), len(coded_sums), width_of_sums], np.int64)
    theirs = torch.empty((ranks, 3), dtype=torch.int64)
    yield start("all_gather", send=torch.from_numpy(mine), recv=theirs, count=3, type=LONG, in_turn=1)
    entries, lengths, widths = (theirs[:, column].tolist() for column in range(3))
    positions = torch.empty(sum(lengths), dtype=torch.uint8)
    received = values.new_empty((sum(entries), *dense))
    start("all_gather_v", send=torch.from_numpy(coded_sums), count=len(coded_sums), recv=positions, recv_counts=lengths, type=BYTE, in_turn=1)
    yield start(
        "all_gather_v", send=sums, count=len(where) * itemsize, recv=received, recv_counts=np.array(entries) * itemsize, type=BYTE,
        in_turn=1,
    )  # fmt: skip
    ends = np.cumsum([0, *lengths])
    flat = np.concatenate([positions_of(positions.numpy()[ends[i] : ends[i + 1]], widths[i], bounds[i]) for i in range(ranks)])
    places: List[Any] = list(np.unravel_index(flat, sizes[:sparse])) if sparse else []
    indices = np.stack(places) if places else np.zeros((0, len(flat)), np.int64)
    tensor.copy_(torch.sparse_coo_tensor(torch.from_numpy(indices), received, sizes, is_coalesced=True, check_invariants=False))
