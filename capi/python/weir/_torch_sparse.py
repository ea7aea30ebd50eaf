"""The exact sum of sparse COO tensors over ranks."""
from __future__ import annotations

import zlib
from typing import Any, Callable, Dict, Generator, List, Tuple

import numpy as np
import torch

Start = Callable[..., int]
SMALL = 1 << 20  # bytes of a rank's values: up to there, fewer steps matter more than fewer bytes
BYTE, LONG = 0, 4  # codes of types
# Types of distances, by their width in bytes, and their largest numbers.
KINDS: Dict[int, Tuple[Any, int]] = {
    1: (np.uint8, 2**8 - 1),
    2: (np.uint16, 2**16 - 1),
    4: (np.uint32, 2**32 - 1),
    8: (np.int64, 2**63 - 1),
}


def gaps(positions: Any, first: int) -> Tuple[Any, int]:
    """Returns ascending positions, from `first` on, as bytes: the distances from one to the next, in the width that suits them. The
    largest number of the width stands for a distance without an entry."""
    distances = np.diff(positions, prepend=first)
    mean = (int(positions[-1]) - first) // len(positions) if len(positions) else 0
    width = 1 if mean < 100 else 2 if mean < 25000 else 4 if mean < 2**31 else 8
    kind, most = KINDS[width]
    empty = distances // most
    coded = np.full(len(positions) + int(empty.sum()), most, kind)
    coded[np.cumsum(empty + 1) - 1] = distances % most
    return coded.view(np.uint8), width


def positions_of(coded: Any, width: int, first: int) -> Any:
    """Returns the positions that gaps() has coded."""
    kind, most = KINDS[width]
    distances = coded.view(kind)
    return (np.cumsum(distances, dtype=np.int64) + first)[distances != most]


class Sum:
    """The sum of one tensor. Indices travel as distances from one to the next.

    Small tensors go to all ranks, each of which sums them. Of a larger one, every rank sends each other one its entries of that
    rank's range of indices. That rank sums them, and sends the sums to all. Either way, the sums are in the order of ranks."""

    def __init__(self, start: Start, tensor: Any, rank: int, ranks: int, divide: int) -> None:
        self.start, self.tensor, self.rank, self.ranks, self.divide = start, tensor, rank, ranks, divide
        given = tensor.coalesce()
        self.sizes, self.sparse, self.dtype = tuple(given.shape), given.sparse_dim(), given.dtype
        self.dense = self.sizes[self.sparse :]
        self.values = given.values().contiguous()
        self.bytes_of_entry = self.values.element_size() * int(np.prod(self.dense, dtype=np.int64))
        indices = given.indices().numpy()
        few = self.sizes[: self.sparse]
        self.flat = np.ravel_multi_index(tuple(indices), few) if few else np.zeros(len(self.values), int)
        elements = int(np.prod(few, dtype=object))
        self.bounds = [elements * part // ranks for part in range(ranks + 1)]

    def gathered(self, numbers: List[int]) -> Generator[int, None, Any]:
        """Returns the numbers of all ranks, one row for each."""
        mine = torch.tensor(numbers)
        theirs = torch.empty((self.ranks, len(numbers)), dtype=torch.int64)
        yield self.start("all_gather", send=mine, recv=theirs, count=len(numbers), type=LONG, in_turn=1)
        return theirs.numpy()

    def all_entries(self, given: Any, values: Any, sizes: Any, begins: List[int]) -> Generator[int, None, Tuple[Any, Any]]:
        """Returns the positions and values of all ranks. `given` has those of this rank, and `sizes` what rows of all ranks say:
        entries, bytes and width of the positions, which are coded from `begins` on."""
        received = values.new_empty((int(sizes[:, 0].sum()), *self.dense))
        positions = np.empty(int(sizes[:, 1].sum()), np.uint8)
        common: Dict[str, Any] = {"type": BYTE, "in_turn": 1}
        coded, room = torch.from_numpy(given), torch.from_numpy(positions)
        self.start("all_gather_v", send=coded, count=len(coded), recv=room, recv_counts=sizes[:, 1], **common)
        count, counts = len(values) * self.bytes_of_entry, sizes[:, 0] * self.bytes_of_entry
        yield self.start("all_gather_v", send=values, count=count, recv=received, recv_counts=counts, **common)
        parts = np.split(positions, np.cumsum(sizes[:-1, 1]))
        return np.concatenate([positions_of(*one) for one in zip(parts, sizes[:, 2].tolist(), begins)]), received

    def entries_of_range(self) -> Generator[int, None, Tuple[Any, Any]]:
        """Returns the positions and values that all ranks have in this rank's range."""
        cuts = np.searchsorted(self.flat, self.bounds)
        parts = [gaps(self.flat[cuts[to] : cuts[to + 1]], self.bounds[to]) for to in range(self.ranks)]
        mine = np.array([(cuts[to + 1] - cuts[to], len(coded), width) for to, (coded, width) in enumerate(parts)])
        theirs = np.empty_like(mine)
        common: Dict[str, Any] = {"type": LONG, "in_turn": 1, "send_counts": [3] * self.ranks, "recv_counts": [3] * self.ranks}
        yield self.start("all_to_all_v", send=torch.from_numpy(mine), recv=torch.from_numpy(theirs), **common)
        positions = np.empty(int(theirs[:, 1].sum()), np.uint8)
        received = self.values.new_empty((int(theirs[:, 0].sum()), *self.dense))
        coded, room = torch.from_numpy(np.concatenate([coded for coded, _ in parts])), torch.from_numpy(positions)
        common = {"type": BYTE, "in_turn": 1, "send_counts": mine[:, 1], "recv_counts": theirs[:, 1]}
        self.start("all_to_all_v", send=coded, recv=room, **common)
        common |= {"send_counts": mine[:, 0] * self.bytes_of_entry, "recv_counts": theirs[:, 0] * self.bytes_of_entry}
        yield self.start("all_to_all_v", send=self.values, recv=received, **common)
        found = np.split(positions, np.cumsum(theirs[:-1, 1]))
        first = self.bounds[self.rank]
        return np.concatenate([positions_of(one, width, first) for one, width in zip(found, theirs[:, 2].tolist())]), received

    def summed(self, positions: Any, values: Any) -> Tuple[Any, Any]:
        """Returns each position once, in ascending order, with the sum of its values in their order."""
        wide = torch.float32 if self.dtype in (torch.bfloat16, torch.float16) else self.dtype
        once, place = np.unique(positions, return_inverse=True)
        sums = torch.zeros((len(once), *self.dense), dtype=wide)
        sums.index_add_(0, torch.from_numpy(place.reshape(-1)), values.to(wide))
        if self.divide > 1:
            sums = torch.div(sums, self.divide, rounding_mode=None if sums.is_floating_point() or sums.is_complex() else "trunc")
        return once, sums.to(self.dtype)

    def steps(self) -> Generator[int, None, None]:
        """Sums, and writes the result into the tensor. Yields after each step, whose calls have to be over then."""
        agreed = zlib.crc32(repr((self.sizes, self.sparse, self.dtype)).encode())
        coded, width = gaps(self.flat, 0)
        rows = yield from self.gathered([len(self.flat), len(coded), width, agreed])
        others = [peer for peer in range(self.ranks) if rows[peer, 3] != agreed]
        if others:
            raise ValueError(
                f"all_reduce: the sparse tensors of ranks {others} have another shape, type or number of sparse dimensions than this "
                f"one, {self.sizes} of {self.dtype}"
            )
        if self.ranks < 3 or int(rows[:, 0].max()) * self.bytes_of_entry < SMALL:
            flat, values = self.summed(*(yield from self.all_entries(coded, self.values, rows, [0] * self.ranks)))
        else:
            flat, values = self.summed(*(yield from self.entries_of_range()))
            coded, width = gaps(flat, self.bounds[self.rank])
            rows = yield from self.gathered([len(flat), len(coded), width])
            flat, values = yield from self.all_entries(coded, values, rows, self.bounds)
        indices = np.stack(np.unravel_index(flat, self.sizes[: self.sparse])) if self.sparse else np.zeros((0, len(flat)), int)
        result = torch.sparse_coo_tensor(torch.from_numpy(indices), values, self.sizes, is_coalesced=True, check_invariants=False)
        self.tensor.copy_(result)
