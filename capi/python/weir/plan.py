"""Sparse and dense allreduce of one tensor, iteration after iteration."""
from __future__ import annotations

import ctypes
from typing import Any, NamedTuple, Optional, Tuple, TypeVar

import numpy as np

from . import _abi
from ._arrays import NOWHERE
from ._handles import Run, lend
from ._keywords import PlanKeywords
from ._library import lib
from ._object import Stateful
from ._struct import Text
from ._types import AllreduceConfig, ArgumentError, DataType, MemorySpace, StateError, Statistics
from .communicator import Communicator, handle_of
from .operation import Operation

Array = TypeVar("Array")


class SparseResult(NamedTuple):
    """The delivered update, sorted by index, the same on all ranks. The arrays are views of the plan's memory, without a copy.
    Their contents are valid until the plan's next start, reset or restore_state."""

    indices: Any  # uint32, ascending
    values: Any  # in the plan's type; float32 for plans of 16-bit types


class Residual(NamedTuple):
    """What error feedback keeps on this rank. A view of the plan's memory, without a copy. Its contents are valid until the plan's
    next start, reset or restore_state."""

    begin: int  # first element; 0 except with algorithms that shard within nodes (hitopk, hi_oktopk, packed_reduce_scatter)
    values: Any  # in the plan's type, or float32; empty without error feedback, and on ranks that own no shard


class AllreducePlan(PlanKeywords, Stateful):
    """One tensor's allreduce: described once, run in every iteration. Its keywords are the fields of AllreduceConfig.

        plan = weir.AllreducePlan(comm, count=gradient.size, density=0.01)
        plan.run(gradient)                       # in place: the averaged sparse update
        operation = plan.start(gradient); compute(); operation.wait()      # the same, overlapped

    A gradient has `count` elements of the plan's type, in any shape, contiguous, in the plan's memory space. It is an array of
    NumPy, PyTorch or CuPy, or anything with DLPack, __cuda_array_interface__ or the buffer protocol. It is never copied. If one
    rank's gradient is refused, all ranks get an ArgumentError; that rank's own says what is wrong.

    In CUDA memory, a stream orders the work: the current one of PyTorch, that of __cuda_array_interface__, or `stream`, a
    cudaStream_t as a number. A run comes after the work that is on the stream, and work put onto it once the run has finished sees
    the result.

    Making it is collective, and so are run, run_sparse, start and start_sparse. A plan has one run in flight at a time; many plans
    may be in flight. After Ctrl-C in one of these calls the run may still be in flight: wait() waits for it.
    """

    _kind = "plan"
    _functions = "weir_plan_"

    def _make(self, comm: Communicator, config: AllreduceConfig) -> None:
        self._create(handle_of(comm), config, AllreduceConfig)
        self._count = int(config.count)
        in_force = self.config
        self._type = DataType(in_force.type)
        self._cuda = in_force.memory == MemorySpace.cuda
        self._wide = "float64" if self._type == DataType.float64 else "float32"  # of sums

    @classmethod
    def from_config(cls, comm: Communicator, config: AllreduceConfig) -> AllreducePlan:
        """Collective. Makes a plan from an existing configuration, for example that of another plan."""
        plan = cls.__new__(cls)
        plan._make(comm, config)
        return plan

    def run(self, gradient: Any, stream: Optional[int] = None) -> None:
        """Collective. Overwrites `gradient` with the update: the delivered entries, averaged, and 0 elsewhere."""
        self._start(gradient, False, stream).wait()

    def run_sparse(self, gradient: Any, stream: Optional[int] = None) -> SparseResult:
        """Collective. Only reads `gradient`. Returns the update's indices and values, without a copy."""
        self._start(gradient, True, stream).wait()
        return self.sparse_result

    def start(self, gradient: Array, stream: Optional[int] = None) -> Operation[Array]:
        """Collective, nonblocking. Selects here, and communicates in test, wait and `await` of the operation, whose result is the
        gradient. Leave the gradient alone until then. If it is wrong on any rank, the operation raises on all."""
        return Operation(self, self._start(gradient, False, stream), lambda: gradient)

    def start_sparse(self, gradient: Any, stream: Optional[int] = None) -> Operation[SparseResult]:
        """Does the same without a dense result: only reads `gradient`, and the operation's result is a SparseResult."""
        run = self._start(gradient, True, stream)
        return Operation(self, run, lambda: self._result_of(run))

    def _start(self, gradient: Any, sparse: bool, stream: Optional[int]) -> Run:
        memory, refusal = self._memory("the gradient", gradient, (self._type.name,), self._cuda, not sparse)
        if refusal is None and memory.elements != self._count:
            refusal = self._refusal(f"the gradient has {memory.elements} elements; the plan takes {self._count}")
        stream, problem = self._stream(stream)
        refusal = refusal or problem
        if refusal is not None:
            memory = NOWHERE
        if self._cuda or stream is not None:
            start = lib.weir_plan_start_sparse_on_stream if sparse else lib.weir_plan_start_on_stream
            arguments: Tuple[Any, ...] = (memory.pointer, memory.stream if stream is None else stream)
        else:
            start = lib.weir_plan_start_sparse if sparse else lib.weir_plan_start
            arguments = (memory.pointer,)
        return self._begin("run", start, lib.weir_plan_wait_for, arguments, memory.owner, refusal)

    def _last_run(self) -> Optional[Run]:
        return self._open_handle.runs.get("run") if self._open_handle is not None else None

    def _result_of(self, run: Run) -> SparseResult:
        if self._handle().runs.get("run") is not run:
            raise StateError(f"plan '{self._name}' has been started again since: the result of this run is gone")
        return self.sparse_result

    @property
    def sparse_result(self) -> SparseResult:
        """The update of the last finished run; empty after dense ones. BusyError while a run is in flight."""
        c = _abi.weir_sparse_result(ctypes.sizeof(_abi.weir_sparse_result))
        self._call("sparse_result", c)
        handle = self._handle()
        return SparseResult(
            lend(handle, c.indices, c.count, "uint32", self._cuda), lend(handle, c.values, c.count, self._wide, self._cuda)
        )

    @property
    def residual(self) -> Residual:
        """What error feedback keeps for later iterations. BusyError while a run is in flight."""
        c = _abi.weir_residual(ctypes.sizeof(_abi.weir_residual))
        self._call("residual", c)
        return Residual(c.begin, lend(self._handle(), c.values, c.count, self._wide, self._cuda))

    @property
    def statistics(self) -> Statistics:
        """What the last run did on this rank. Times are in seconds."""
        return self._filled("get_statistics", Statistics)

    def counter(self, name: str) -> int:
        """Returns how many of this plan's runs did what `name` says, such as "recut", on this rank since the plan was made, reset
        or restored; 0 for what only other algorithms count. AlgorithmInfo.counters lists the names of an algorithm."""
        if not isinstance(name, str):
            raise ArgumentError(f"name is {name!r}: it must be a str, such as 'recut'")
        return self._int64("counter", name.encode())

    @property
    def config(self) -> AllreduceConfig:
        """The configuration in force. With automatic choice, `algorithm`, `wire_format` and `wire_values` are as chosen now."""
        return self._filled("get_config", AllreduceConfig)

    def explanation(self) -> Text:
        """Returns, as text, why the plan uses its algorithm; with automatic choice, with a table of predictions."""
        return self._text("explanation")

    @property
    def encoded_bytes(self) -> int:
        """The largest number of bytes that encode() returns. StateError if the plan cannot encode. To encode, it must be in host
        memory, of float32, with a flat algorithm that is sparse or packed, without EF21 and dense iterations."""
        return self._int64("encoded_bytes")

    def encode(self, gradient: Any) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Not collective. Meant for callers that move the bytes themselves. Returns what this rank contributes, compressed as its
        next run would, as an array of uint8. weir.decode() reads it anywhere. Counts as a run that delivered everything: residual,
        momentum and schedules move on. BusyError while a run is in flight."""
        memory, refusal = self._memory("the gradient", gradient, (self._type.name,), False, False)
        if refusal is None and memory.elements != self._count:
            refusal = self._refusal(f"the gradient has {memory.elements} elements; the plan takes {self._count}")
        room = np.empty(self.encoded_bytes, np.uint8)
        if refusal is not None:
            raise refusal
        size = ctypes.c_int64()
        self._call("encode", memory.pointer, room.ctypes.data, room.size, size)
        encoded: np.ndarray[Any, np.dtype[np.uint8]] = room[: size.value].copy()
        return encoded

    def reset(self) -> None:
        """Forgets residual, thresholds, boundaries and iteration count. Sends nothing, but every rank must call it before the same
        run. BusyError while a run is in flight."""
        self._call("reset")

    def scale_residual(self, factor: float) -> None:
        """Says that gradients will be `factor` times what they have been, for example because a loss scale changes. Multiplies
        residual, momentum, EF21's states and thresholds by `factor`; a value beyond the range of the type becomes its largest
        finite value. Sends nothing, but every rank must call it before the same run, with the same factor. BusyError while a run is
        in flight."""
        self._call("scale_residual", self._real("factor", factor))

    def __repr__(self) -> str:
        if self._open_handle is None:
            return f"<weir.AllreducePlan '{self._name}', closed>"
        return f"<weir.AllreducePlan '{self._name}': {self._count} {self._type.name}>"
