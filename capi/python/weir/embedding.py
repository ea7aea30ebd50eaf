"""Tables of rows that are trained across ranks."""
from __future__ import annotations

import sys
from typing import Any, Optional, Tuple

import numpy as np

from ._arrays import NOWHERE, Memory
from ._handles import Run
from ._keywords import TableKeywords
from ._library import lib
from ._object import Stateful
from ._struct import whole_number
from ._types import EmbeddingConfig, EmbeddingStatistics, Error, MemorySpace
from .communicator import Communicator, handle_of
from .operation import Operation

IDS = ("int32", "int64")


def stream_of(given: Optional[int], *arrays: Memory) -> Optional[int]:
    """Returns the caller's stream: the given one, or that of the first array that has one."""
    return next((stream for stream in (given, *(array.stream for array in arrays)) if stream is not None), None)


class EmbeddingTable(TableKeywords, Stateful):
    """A table of `rows` x `width` float32 values across ranks. Its keywords are the fields of EmbeddingConfig.

        table = weir.EmbeddingTable(comm, rows=32000, width=512, largest_batch=4096)
        vectors = table.lookup(ids).result()      # ids.shape + (width,)
        table.prefetch(next_ids)                  # ids travel during the forward and backward pass
        table.update(gradients)                   # returns at once: rows of the next batch travel first
        vectors = table.lookup(next_ids).result()

    Ids are arrays of int32 or int64, vectors and gradients of float32. They are contiguous, of NumPy, PyTorch or CuPy, or anything
    with DLPack, __cuda_array_interface__ or the buffer protocol. Nothing is copied. If one rank's arrays are refused, the operation
    raises an ArgumentError on all ranks; that rank's own says what is wrong.

    With memory="cuda", vectors and gradients are on the table's GPU, ids there or in host memory. Streams are as for plans.

    Making it is collective, and so are lookup, prefetch, update, export_rows and import_rows. One prefetch, one lookup and one
    update may be in flight at once.
    """

    _kind = "table"
    _functions = "weir_embedding_"

    def _make(self, comm: Communicator, config: EmbeddingConfig) -> None:
        self._create(handle_of(comm), config, EmbeddingConfig)
        self._width = int(config.width)
        self._rows = int(config.rows)
        self._cuda = self.config.memory == MemorySpace.cuda
        self._tokens = 0  # ids of the last lookup

    @classmethod
    def from_config(cls, comm: Communicator, config: EmbeddingConfig) -> EmbeddingTable:
        """Collective. Makes a table from an existing configuration, for example that of another table."""
        table = cls.__new__(cls)
        table._make(comm, config)
        return table

    def lookup(self, ids: Any, vectors: Any = None, stream: Optional[int] = None) -> Operation[Any]:
        """Collective, nonblocking. The operation's result is the rows of these ids, as all earlier updates have left them. They are
        in `vectors`, of ids x width elements, or else in a new array of shape ids.shape + (width,), of PyTorch if the ids are, of
        NumPy otherwise.

        `ids` may be empty, and may be used again at once. `vectors` are written until the operation has finished."""
        there, refusal = self._ids(ids)
        if vectors is None and refusal is None:
            vectors = self._new_vectors(ids, there)
        rows, problem = self._memory("the array for vectors", vectors, ("float32",), self._cuda, True)
        if problem is None and rows.elements != there.elements * self._width:
            expected = f"{there.elements} ids x width {self._width}"
            problem = self._refusal(f"the array for vectors has {rows.elements} elements: it must have {expected}")
        stream, bad_stream = self._stream(stream)
        refusal = refusal or problem or bad_stream
        if refusal is not None:
            there = rows = NOWHERE
        self._tokens = there.elements
        narrow = there.dtype == "int32"
        start = lib.weir_embedding_lookup_int32_on_stream if narrow else lib.weir_embedding_lookup_int64_on_stream
        arguments = (there.pointer, there.elements, rows.pointer, stream_of(stream, rows, there))
        run = self._begin("lookup", start, lib.weir_embedding_lookup_wait_for, arguments, (there.owner, rows.owner), refusal)
        return Operation(self, run, lambda: vectors)

    def prefetch(self, ids: Any, stream: Optional[int] = None) -> Operation[None]:
        """Collective, nonblocking. Says what the next lookup will ask for. A lookup that asks for something else is still correct,
        but slower. `ids` may be used again at once. The caller need not wait for it."""
        there, refusal = self._ids(ids)
        stream, problem = self._stream(stream)
        refusal = refusal or problem
        if refusal is not None:
            there = NOWHERE
        narrow = there.dtype == "int32"
        start = lib.weir_embedding_prefetch_int32_on_stream if narrow else lib.weir_embedding_prefetch_int64_on_stream
        arguments = (there.pointer, there.elements, stream_of(stream, there))
        wait_for = lib.weir_embedding_prefetch_wait_for
        return self._nothing(self._begin("prefetch", start, wait_for, arguments, there.owner, refusal, True))

    def update(self, gradients: Any, stream: Optional[int] = None) -> Operation[None]:
        """Collective, nonblocking, once per lookup. Takes the gradients of the vectors of the last lookup, as many elements; they
        may be used again at once. Waits for the previous update. The caller need not wait for this one. If this rank's gradients
        are wrong, the call itself raises, and the operations of the other ranks do."""
        rows, refusal = self._memory("the array of gradients", gradients, ("float32",), self._cuda, False)
        if refusal is None and rows.elements % self._width:
            expected = f"as many as ids of the last lookup x width {self._width}"
            refusal = self._refusal(f"the array of gradients has {rows.elements} elements: it must have {expected}")
        stream, problem = self._stream(stream)
        refusal = refusal or problem
        if refusal is not None:
            rows = NOWHERE
        count = max(1, self._tokens) if refusal is not None else rows.elements // self._width
        arguments = (rows.pointer, count, stream_of(stream, rows))
        update, wait_for = lib.weir_embedding_update_on_stream, lib.weir_embedding_update_wait_for
        return self._nothing(self._begin("update", update, wait_for, arguments, rows.owner, refusal, True))

    def set_learning_rate(self, learning_rate: float) -> None:
        """Sets the learning rate of all later updates. Not collective, but equal on all ranks."""
        self._call("set_learning_rate", self._real("learning_rate", learning_rate))

    def export_rows(self, first: int, count: int, values: Any = None) -> Any:
        """Collective. Returns this rank's range of rows, which may be empty: in a new array of shape (count, width), or in
        `values`, of as many elements of float32 in host memory, wherever the table is. The values are exact."""
        refusal = None
        if values is None:
            try:
                values = np.empty((whole_number("count", count, 64), self._width), np.float32)
            except (TypeError, ValueError, MemoryError) as error:
                refusal = self._refusal(str(error))
        self._move_rows("export_rows", first, count, values, refusal)
        return values

    def import_rows(self, first: int, values: Any) -> None:
        """Collective. Replaces this rank's rows from `first` on by `values`, rows x width elements of float32 in host memory,
        possibly none. If ranges of ranks overlap, the values of the highest rank win. The optimizer's state stays as it is."""
        self._move_rows("import_rows", first, None, values, None)

    @property
    def statistics(self) -> EmbeddingStatistics:
        """What the last lookup and the last update did on this rank. Times are in seconds."""
        return self._filled("get_statistics", EmbeddingStatistics)

    @property
    def config(self) -> EmbeddingConfig:
        """The configuration in force."""
        return self._filled("get_config", EmbeddingConfig)

    def _ids(self, ids: Any) -> Tuple[Memory, Optional[Exception]]:
        if isinstance(ids, (list, tuple)):
            try:
                ids = np.asarray(ids, None if len(ids) else np.int64)
            except ValueError as error:  # of different lengths
                return NOWHERE, self._refusal(f"the list of ids makes no array: {error}")
        return self._memory("the array of ids", ids, IDS, None if self._cuda else False, False)

    def _new_vectors(self, ids: Any, there: Memory) -> Any:
        """Returns a new array for the vectors of these ids, in their library; None if that is not known."""
        shape = (*there.shape, self._width)
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(ids, torch.Tensor) and there.cuda == self._cuda:
            return torch.empty(shape, dtype=torch.float32, device=ids.device)
        return None if self._cuda else np.empty(shape, np.float32)

    def _nothing(self, run: Run) -> Operation[None]:
        return Operation(self, run, lambda: None)

    def _move_rows(self, function: str, first: int, count: Optional[int], values: Any, refusal: Optional[Exception]) -> None:
        """Moves a range of rows. `count` None: as many as there are values."""
        memory, problem = self._memory("the array of values", values, ("float32",), False, count is not None)
        refusal = refusal or problem
        if count is None:
            count = -(-memory.elements // self._width)
        if refusal is None and memory.elements != count * self._width:
            refusal = self._refusal(f"the array of values has {memory.elements} elements: it must have rows x width {self._width}")
        try:
            first, count = whole_number("first", first, 64), whole_number("count", count, 64)
        except (TypeError, ValueError) as error:
            refusal = self._refusal(str(error))
        if refusal is not None:
            first, count = 0, 1
        try:
            self._call(function, first, count, memory.pointer if refusal is None else None)
        except Error as error:
            if refusal is None:
                raise
            raise refusal from error
        if refusal is not None:
            raise refusal

    def __repr__(self) -> str:
        if self._open_handle is None:
            return f"<weir.EmbeddingTable '{self._name}', closed>"
        return f"<weir.EmbeddingTable '{self._name}': {self._rows} x {self._width}>"
