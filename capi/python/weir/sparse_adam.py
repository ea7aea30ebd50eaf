"""Adam for sparse updates."""
from __future__ import annotations

import contextlib
import ctypes
import threading
import weakref
from types import TracebackType
from typing import Any, Iterator, NoReturn, Optional, Type

from . import _abi
from ._arrays import Memory, memory_of, problem_of
from ._keywords import SparseAdamKeywords
from ._library import check, lib
from ._struct import real_number
from ._types import ArgumentError, BusyError, SparseAdamConfig, StateError


class SparseAdam(SparseAdamKeywords):
    """Adam for the sparse updates of plans, in time proportional to their entries. Its keywords are the fields of SparseAdamConfig.

        plan = weir.AllreducePlan(comm, count=weights.size, density=0.01)
        adam = weir.SparseAdam(count=weights.size)
        adam.step(plan.run_sparse(gradient), weights, learning_rate=1e-3)     # every rank: the same weights, bit for bit

    Moments are those of dense Adam with a gradient that is 0 wherever an update has no entry. Weights that an update does not touch
    stand still, unless `exact`. A SparseAdam belongs to no communicator, and sends nothing: ranks that are given the same updates
    keep the same weights. One thread uses it at a time.

    Weights are float32, in any shape, contiguous, in host memory: an array of NumPy, a tensor of PyTorch, or anything with DLPack
    or the buffer protocol.
    """

    _pointer: Optional[ctypes.c_void_p] = None

    def _make(self, config: SparseAdamConfig) -> None:
        self._name = str(getattr(config, "name", ""))
        try:
            if not isinstance(config, SparseAdamConfig):
                raise TypeError(f"the configuration is of type {type(config).__name__}: give a weir.SparseAdamConfig")
            c = config._to_c()
        except (TypeError, ValueError) as error:
            raise self._refusal(str(error)) from None
        pointer = ctypes.c_void_p()
        check(lib.weir_sparse_adam_create(c, pointer))
        self._pointer = pointer
        self._lock = threading.Lock()
        self._end = weakref.finalize(self, lib.weir_sparse_adam_destroy, pointer)

    @classmethod
    def from_config(cls, config: SparseAdamConfig) -> SparseAdam:
        """Makes a SparseAdam from an existing configuration."""
        made = cls.__new__(cls)
        made._make(config)
        return made

    def _refused(self, owner: Any, error: Exception) -> NoReturn:
        """Raises an error about the keywords."""
        raise error

    def _refusal(self, text: str) -> ArgumentError:
        return ArgumentError(f"optimizer '{self._name}': {text}")

    def _handle(self) -> ctypes.c_void_p:
        if self._pointer is None:
            raise StateError(f"optimizer '{self._name}' is closed")
        return self._pointer

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._lock.acquire(False):
            raise BusyError(f"another thread uses optimizer '{self._name}': it belongs to one thread at a time")
        try:
            yield
        finally:
            self._lock.release()

    def _call(self, function: str, *arguments: Any) -> None:
        with self._alone():
            check(getattr(lib, f"weir_sparse_adam_{function}")(self._handle(), *arguments))

    def _int64(self, function: str) -> int:
        value = ctypes.c_int64()
        self._call(function, value)
        return value.value

    def step(self, update: Any, weights: Any, learning_rate: float) -> None:
        """Makes one step, which overwrites the weights. `update` is what a plan delivers, its SparseResult, or a pair of arrays:
        indices, uint32 and ascending, none twice, and values, float32. ArgumentError if one of these is wrong; nothing has changed
        then."""
        self._step("step", update, weights, learning_rate)

    def step_part(self, part: Any, weights: Any, learning_rate: float) -> None:
        """Takes one part of an update that comes in several, for example its prior rows. No index is in two parts. step() with the
        last part ends the step and counts it. With `exact`, weights move only then."""
        self._step("step_part", part, weights, learning_rate)

    def _step(self, function: str, update: Any, weights: Any, learning_rate: float) -> None:
        try:
            indices, values = update
        except (TypeError, ValueError):
            kind = type(update).__name__
            raise self._refusal(f"the update is of type {kind}: give the SparseResult of a plan, or indices and values") from None
        i, v = self._memory("the array of indices", indices, "uint32"), self._memory("the array of values", values, "float32")
        w = self._memory("the array of weights", weights, "float32", True)
        if i.elements != v.elements:
            raise self._refusal(f"an update has {i.elements} indices and {v.elements} values: as many of each")
        try:
            rate = real_number("learning_rate", learning_rate)
        except (TypeError, ValueError) as error:
            raise self._refusal(str(error)) from None
        self._call(function, i.pointer or None, v.pointer or None, i.elements, w.pointer or None, w.elements, rate)

    def _memory(self, what: str, array: Any, dtype: str, writable: bool = False) -> Memory:
        try:
            memory = memory_of(array)
            problem = problem_of(memory, (dtype,), None, writable, "optimizer")
            if problem is None and memory.cuda and memory.elements:
                problem = "is in GPU memory: it must be in host memory"
        except (TypeError, ValueError) as error:
            problem = str(error)
        except Exception as error:  # what the array's own library has against it
            problem = f"cannot be used: {error}"
        if problem is not None:
            raise self._refusal(f"{what} {problem}")
        return memory

    @property
    def steps(self) -> int:
        """Number of steps that have ended."""
        return self._int64("steps")

    @property
    def config(self) -> SparseAdamConfig:
        """The configuration in force."""
        c = _abi.weir_sparse_adam_config(ctypes.sizeof(_abi.weir_sparse_adam_config))
        self._call("get_config", c)
        return SparseAdamConfig._from_c(c)

    @property
    def memory_bytes(self) -> int:
        """Bytes that this object holds, besides the caller's arrays."""
        return self._int64("memory_bytes")

    def save_state(self) -> bytes:
        """Returns moments and the number of steps, the same on all ranks. BusyError between the parts of a step."""
        state = ctypes.create_string_buffer(self._int64("state_bytes"))
        self._call("save_state", state, len(state))
        return state.raw

    def restore_state(self, state: Any) -> None:
        """Continues where the object that saved `state` left off. That object had the same `count` and `exact`, on any number of
        ranks."""
        try:
            whole = bytes(memoryview(state))
        except TypeError:
            raise self._refusal(f"the state is of type {type(state).__name__}: give the bytes of save_state()") from None
        self._call("restore_state", whole, len(whole))

    def reset(self) -> None:
        """Forgets moments, steps, and the parts of a step that has not ended."""
        self._call("reset")

    def close(self) -> None:
        """Ends the object. May be called twice."""
        with self._alone():
            self._pointer = None
            self._end()

    def __enter__(self) -> SparseAdam:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._pointer is None:
            return f"<weir.SparseAdam '{self._name}', closed>"
        return f"<weir.SparseAdam '{self._name}': {self.config.count} float32, {self.steps} steps>"
