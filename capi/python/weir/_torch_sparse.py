"""The exact sum of sparse COO tensors over ranks."""
from __future__ import annotations

import ctypes
import zlib
from typing import Any, Callable, Dict, Generator, List, Sequence, Tuple

import numpy as np
import torch

from ._library import check, lib

Start = Callable[..., int]
SMALL = 1 << 20  # bytes of a rank's values: up to there, fewer steps matter more than fewer bytes
BYTE, LONG = 0, 4  # codes of types
NUMBERS = "uint8 int8 int16 int32 int64 uint16 uint32 uint64 float32 float64".split()  # types that are summed, by their code
MOST = 2**63 - 1


class ListOf(ctypes.Structure):
    """weir_entry_list of capi/entry_lists.hpp."""

    _fields_ = [("coded", ctypes.c_void_p)] + [(name, ctypes.c_int64) for name in ("bytes", "width", "first", "count")]


LONGS = ctypes.POINTER(ctypes.c_int64)
for _name, _types in {
    "positions": [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p],
    "code": [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, LONGS, LONGS],
    "decode": [ctypes.POINTER(ListOf), ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64],
    "sum": [ctypes.POINTER(ListOf), ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32, ctypes.c_int64]
    + [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, LONGS],
}.items():
    getattr(lib, f"weir_entries_{_name}").argtypes = _types


def coded(positions: Any, first: int) -> Tuple[Any, int]:
    """Returns ascending positions, from `first` on, as bytes: the distances from one to the next; and their width."""
    room = np.empty(12 * len(positions), np.uint8)
    size, width = ctypes.c_int64(), ctypes.c_int64()
    check(lib.weir_entries_code(positions.ctypes.data, len(positions), first, room.ctypes.data, size, width))
    return room[: size.value], width.value


class Lists:
    """Coded positions of several lists, one after another in `room`."""

    def __init__(self, room: Any, counts: Sequence[int], sizes: Sequence[int], widths: Sequence[int], begins: Sequence[int]) -> None:
        self.room, self.entries = room, sum(counts)
        self.lists = (ListOf * len(counts))()
        at = room.ctypes.data
        for one, *given in zip(self.lists, sizes, widths, begins, counts):
            one.coded, one.bytes, one.width, one.first, one.count = at, *given
            at += one.bytes

    def indices(self, shape: Any) -> Any:
        """Returns the indices of all entries, list after list, in an array of that shape."""
        found = torch.empty((len(shape), self.entries), dtype=torch.int64)
        check(lib.weir_entries_decode(self.lists, len(self.lists), shape.ctypes.data, len(shape), found.data_ptr(), self.entries))
        return found

    def summed(self, shape: Any, values: Any) -> Tuple[Any, Any]:
        """Returns each index once, in ascending order, with the sum of its values in their order."""
        wide = values.float() if values.dtype in (torch.bfloat16, torch.float16) else values
        numbers = torch.view_as_real(wide) if wide.is_complex() else wide
        sums = torch.empty_like(numbers)
        found = torch.empty((len(shape), self.entries), dtype=torch.int64)
        merged = ctypes.c_int64()
        check(lib.weir_entries_sum(self.lists, len(self.lists), shape.ctypes.data, len(shape),
                                   NUMBERS.index(str(numbers.dtype).partition(".")[2]), numbers[:1].numel(),
                                   numbers.data_ptr(), sums.data_ptr(), found.data_ptr(), self.entries, merged))
        sums = sums[: merged.value]
        return found[:, : merged.value], torch.view_as_complex(sums) if wide.is_complex() else sums


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
        self.shape = np.array(self.sizes[: self.sparse], np.int64)
        elements = int(np.prod(self.shape, dtype=object))
        if elements > MOST:
            raise ValueError(f"all_reduce: the sparse dimensions {tuple(self.shape.tolist())} have more than {MOST} elements together")
        self.bounds = [elements * part // ranks for part in range(ranks + 1)]
        indices = given.indices().contiguous()
        self.flat = np.empty(len(self.values), np.int64)
        check(lib.weir_entries_positions(indices.data_ptr(), self.shape.ctypes.data, self.sparse, len(self.flat), self.flat.ctypes.data))

    def gathered(self, numbers: List[int]) -> Generator[int, None, Any]:
        """Returns the numbers of all ranks, one row for each."""
        mine = torch.tensor(numbers)
        theirs = torch.empty((self.ranks, len(numbers)), dtype=torch.int64)
        yield self.start("all_gather", send=mine, recv=theirs, count=len(numbers), type=LONG, in_turn=1)
        return theirs.numpy()

    def all_entries(self, given: Any, values: Any, sizes: Any, begins: List[int]) -> Generator[int, None, Tuple[Lists, Any]]:
        """Returns the positions and values of all ranks. `given` has those of this rank, and `sizes` what rows of all ranks say:
        entries, bytes and width of the positions, which are coded from `begins` on."""
        counts, lengths, widths = sizes[:, :3].T.tolist()
        received = values.new_empty((sum(counts), *self.dense))
        positions = np.empty(sum(lengths), np.uint8)
        common: Dict[str, Any] = {"type": BYTE, "in_turn": 1}
        own, room = torch.from_numpy(given), torch.from_numpy(positions)
        self.start("all_gather_v", send=own, count=len(own), recv=room, recv_counts=lengths, **common)
        count, sizes_of = len(values) * self.bytes_of_entry, [count * self.bytes_of_entry for count in counts]
        yield self.start("all_gather_v", send=values, count=count, recv=received, recv_counts=sizes_of, **common)
        return Lists(positions, counts, lengths, widths, begins), received

    def entries_of_range(self) -> Generator[int, None, Tuple[Lists, Any]]:
        """Returns the positions and values that all ranks have in this rank's range."""
        cuts = np.searchsorted(self.flat, self.bounds)
        parts = [coded(self.flat[cuts[to] : cuts[to + 1]], self.bounds[to]) for to in range(self.ranks)]
        mine = np.array([(cuts[to + 1] - cuts[to], len(part), width) for to, (part, width) in enumerate(parts)])
        theirs = np.empty_like(mine)
        common: Dict[str, Any] = {"type": LONG, "in_turn": 1, "send_counts": [3] * self.ranks, "recv_counts": [3] * self.ranks}
        yield self.start("all_to_all_v", send=torch.from_numpy(mine), recv=torch.from_numpy(theirs), **common)
        counts, lengths, widths = theirs.T.tolist()
        positions = np.empty(sum(lengths), np.uint8)
        received = self.values.new_empty((sum(counts), *self.dense))
        own, room = torch.from_numpy(np.concatenate([part for part, _ in parts])), torch.from_numpy(positions)
        common = {"type": BYTE, "in_turn": 1, "send_counts": mine[:, 1], "recv_counts": theirs[:, 1]}
        self.start("all_to_all_v", send=own, recv=room, **common)
        common |= {"send_counts": mine[:, 0] * self.bytes_of_entry, "recv_counts": theirs[:, 0] * self.bytes_of_entry}
        yield self.start("all_to_all_v", send=self.values, recv=received, **common)
        return Lists(positions, counts, lengths, widths, [self.bounds[self.rank]] * self.ranks), received

    def divided(self, sums: Any) -> Any:
        if self.divide > 1:
            sums = torch.div(sums, self.divide, rounding_mode=None if sums.is_floating_point() or sums.is_complex() else "trunc")
        return sums.to(self.dtype)

    def steps(self) -> Generator[int, None, None]:
        """Sums, and writes the result into the tensor. Yields after each step, whose calls have to be over then."""
        agreed = zlib.crc32(repr((self.sizes, self.sparse, self.dtype)).encode())
        mine, width = coded(self.flat, 0)
        rows = yield from self.gathered([len(self.flat), len(mine), width, agreed])
        others = [peer for peer in range(self.ranks) if rows[peer, 3] != agreed]
        if others:
            raise ValueError(
                f"all_reduce: the sparse tensors of ranks {others} have another shape, type or number of sparse dimensions than this "
                f"one, {self.sizes} of {self.dtype}"
            )
        if self.ranks < 3 or int(rows[:, 0].max()) * self.bytes_of_entry < SMALL:
            lists, values = yield from self.all_entries(mine, self.values, rows, [0] * self.ranks)
            indices, sums = lists.summed(self.shape, values)
            values = self.divided(sums)
        else:
            lists, values = yield from self.entries_of_range()
            flat, sums = lists.summed(np.array([self.bounds[-1]]), values)
            mine, width = coded(flat[0].numpy(), self.bounds[self.rank])
            rows = yield from self.gathered([flat.shape[1], len(mine), width])
            lists, values = yield from self.all_entries(mine, self.divided(sums), rows, self.bounds)
            indices = lists.indices(self.shape)
        result = torch.sparse_coo_tensor(indices, values, self.sizes, is_coalesced=True, check_invariants=False)
        self.tensor.copy_(result)
