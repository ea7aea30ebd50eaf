"""Exact sums of arrays that are mostly zero."""
from __future__ import annotations

import ctypes
from typing import Any, NamedTuple, Optional, Tuple

import numpy as np

from ._arrays import NOWHERE, Memory
from ._keywords import SparseSumKeywords
from ._library import lib
from ._object import Object
from ._struct import whole_number
from ._types import SparseSumConfig, SparseSumStatistics, SumOperation, SumType
from .communicator import Communicator, handle_of
from .operation import Operation


class SumResult(NamedTuple):
    """The entries of a sum, by ascending index. The arrays are the caller's own."""

    indices: Any  # int64
    values: Any  # of the sum's type


class SparseSum(SparseSumKeywords, Object):
    """Exact sums of arrays that are mostly zero, without sending the zeros. Its keywords are the fields of SparseSumConfig.

        deposit = weir.SparseSum(comm, count=cells, expected_entries=most)
        indices, values = deposit.run(indices, values)          # this rank's entries; the sum of all ranks, on every rank
        deposit.run(indices, values, output=field, add=True)    # the same, added to a dense array

    Nothing is selected, rounded or kept for later. Ranks are combined in a fixed order, so that every rank, every run and every
    algorithm gives the same bits. For `min` and `max`, ranks without an entry for an index do not count. Making it is collective,
    and so are its runs.

    `values` are a contiguous array of the sum's type in host memory; `indices` as many int32 or int64, in any order, also several
    times. If they are None, `values` are the whole array, whose elements that are not 0 are entries. `output`, if it is given, is an
    array of all `count` elements: it becomes the dense sum or, with `add`, each entry is combined into its element.
    """

    _kind = "sum"
    _functions = "weir_sparse_sum_"
    _dtype = "float64"

    def _make(self, comm: Communicator, config: SparseSumConfig) -> None:
        self._create(handle_of(comm), config, SparseSumConfig)
        self._dtype = SumType(int(self.config.type)).name

    @classmethod
    def from_config(cls, comm: Communicator, config: SparseSumConfig) -> SparseSum:
        """Collective. Makes a sum from an existing configuration."""
        made = cls.__new__(cls)
        made._make(comm, config)
        return made

    def run(self, indices: Any, values: Any, output: Any = None, add: bool = False) -> SumResult:
        """Collective, blocking. Returns the sum over all indices, on every rank."""
        return self.start(indices, values, output, add).result()

    def run_reduce_scatter(self, indices: Any, values: Any, output: Any = None, add: bool = False) -> SumResult:
        """Collective, blocking. Returns the part of the sum whose indices are in this rank's range: from range_begin(rank) to
        before range_begin(rank + 1). `output` has the elements of the range."""
        return self.start_reduce_scatter(indices, values, output, add).result()

    def start(self, indices: Any, values: Any, output: Any = None, add: bool = False) -> Operation[SumResult]:
        """Collective, nonblocking. Does the same as run(), whose result the operation has. Reads the entries here; leave `output`
        alone until the operation has finished."""
        return self._start(lib.weir_sparse_sum_start, indices, values, output, add)

    def start_reduce_scatter(
        self, indices: Any, values: Any, output: Any = None, add: bool = False
    ) -> Operation[SumResult]:
        """Collective, nonblocking. Does the same for run_reduce_scatter()."""
        return self._start(lib.weir_sparse_sum_start_reduce_scatter, indices, values, output, add)

    def _start(self, start: Any, indices: Any, values: Any, output: Any, add: bool) -> Operation[SumResult]:
        dtype = (self._dtype,)
        v, refusal = self._memory("the array of values", values, dtype, False, False)
        i, index_bytes = NOWHERE._replace(elements=0), 0
        if refusal is None and indices is not None:
            i, refusal = self._memory("the array of indices", indices, ("int32", "int64"), False, False)
            index_bytes = 4 if i.dtype == "int32" else 8
        if refusal is None and indices is not None and i.elements != v.elements:
            refusal = self._refusal(f"there are {i.elements} indices and {v.elements} values: give as many of each")
        to: Memory = NOWHERE._replace(elements=0)
        if refusal is None and add and output is None:
            refusal = self._refusal("add is set, and there is no output to add to")
        if refusal is None and output is not None:
            to, refusal = self._memory("the output", output, dtype, False, True)
        given = (i.pointer or None, index_bytes, v.pointer or None, v.elements)
        arguments: Tuple[Any, ...] = (*given, to.pointer or None, to.elements, 1 if add else 0)
        if refusal is not None:
            start, arguments = lib.weir_sparse_sum_refuse, (self._reason(refusal),)
        run = self._begin("run", start, lib.weir_sparse_sum_wait_for, arguments, (v.owner, i.owner, to.owner), refusal)
        return Operation(self, run, self.result)

    def result(self) -> SumResult:
        """Returns the sum of the last run, or this rank's part of it. BusyError while a run is in flight."""
        indices, values, count = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int64()
        self._call("result", ctypes.byref(indices), ctypes.byref(values), count)
        return SumResult(copied(indices.value, count.value, "int64"), copied(values.value, count.value, self._dtype))

    def range_begin(self, rank: int) -> int:
        """Returns the first index of a rank's range; for the number of ranks, `count`."""
        try:
            place = whole_number("the rank", rank, 32)
        except (TypeError, ValueError) as error:
            raise self._refusal(str(error)) from None
        return self._int64("range_begin", place)

    @property
    def statistics(self) -> SparseSumStatistics:
        """What the last run did on this rank."""
        return self._filled("get_statistics", SparseSumStatistics)

    @property
    def config(self) -> SparseSumConfig:
        """The configuration in force."""
        return self._filled("get_config", SparseSumConfig)

    @property
    def memory_bytes(self) -> int:
        """Bytes that this object holds on this rank, besides the caller's arrays."""
        return self._int64("memory_bytes")

    def __repr__(self) -> str:
        if self._open_handle is None:
            return f"<weir.SparseSum '{self._name}', closed>"
        operation = SumOperation(int(self.config.operation)).name
        return f"<weir.SparseSum '{self._name}': {operation} of {self.config.count} {self._dtype}>"


def copied(address: Optional[int], count: int, dtype: str) -> Any:
    """Returns an array of its own with the elements at an address."""
    made = np.empty(count, dtype)
    if address and count:
        ctypes.memmove(made.ctypes.data, address, made.nbytes)
    return made
