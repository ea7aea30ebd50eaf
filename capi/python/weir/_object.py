"""What plans and tables have in common: made from a configuration, refuse arrays on all ranks alike, save their state, close."""
from __future__ import annotations

import ctypes
from types import TracebackType
from typing import Any, Callable, Optional, Tuple, Type, TypeVar

from ._arrays import NOWHERE, Memory, memory_of, problem_of
from ._handles import CommHandle, Handle, Run
from ._library import lib
from ._struct import Struct
from ._types import ArgumentError, Error, StateError, Status

Self = TypeVar("Self", bound="Object")


class Object:
    """A plan or a table."""

    _kind: str  # for messages
    _functions: str  # what the names of its functions begin with
    _open_handle: Optional[Handle] = None

    def _create(self, comm: CommHandle, config: Struct) -> None:
        """Where this rank's configuration makes no sense, the other ranks are in the call already: they must hear of it."""
        create = lib.weir_allreduce_plan_create if self._kind == "plan" else lib.weir_embedding_create
        pointer = ctypes.c_void_p()
        self._name = str(getattr(config, "name"))
        try:
            c = config._to_c()
        except (TypeError, ValueError) as error:
            try:
                comm.call(create, comm.address(), None, pointer)
            except Error as refused:
                raise ArgumentError(f"{self._kind} '{self._name}': {error}") from refused
            raise
        comm.call(create, comm.address(), c, pointer)
        assert pointer.value is not None
        self._comm = comm
        self._open_handle = Handle(comm, pointer.value, self._function("destroy"))
        comm.adopt(self)

    def _function(self, name: str) -> Any:
        return getattr(lib, self._functions + name)

    def _handle(self) -> Handle:
        if self._open_handle is None:
            raise StateError(f"{self._kind} '{self._name}' is closed")
        return self._open_handle

    def _call(self, name: str, *arguments: Any) -> None:
        handle = self._handle()
        handle.comm.call(self._function(name), handle.pointer, *arguments)

    def _memory(
        self, what: str, array: Any, dtypes: Tuple[str, ...], cuda: Optional[bool], writable: bool
    ) -> Tuple[Memory, Optional[Exception]]:
        """Where an array is; or NOWHERE, and what is wrong with it."""
        try:
            memory = memory_of(array)
            problem = problem_of(memory, dtypes, cuda, writable, self._kind)
        except (TypeError, ValueError) as error:
            problem = str(error)
        except Exception as error:  # what the array's own library has against it
            problem = f"cannot be used: {error}"
        return (memory, None) if problem is None else (NOWHERE, self._refusal(f"{what} {problem}"))

    def _refusal(self, text: str) -> ArgumentError:
        return ArgumentError(f"{self._kind} '{self._name}': {text}")

    def _begin(
        self,
        kind: str,
        start: Callable[..., int],
        wait_for: Callable[..., int],
        arguments: Tuple[Any, ...],
        arrays: Any,
        refusal: Optional[Exception],
    ) -> Run:
        """Starts a call, the only one of its kind in flight."""
        handle = self._handle()
        previous = handle.runs.get(kind)
        try:
            handle.comm.call(start, handle.pointer, *arguments)
        except Error as error:
            # Perhaps what the last one has ended with, which nobody has waited for.
            if previous is not None and not previous.done and error.status != Status.BUSY:
                previous.finish(error)
            if refusal is not None:
                raise refusal from error
            raise
        if previous is not None and not previous.done:
            previous.finish(None)
        run = handle.runs[kind] = Run(handle, wait_for, arrays, refusal)
        return run

    @property
    def memory_bytes(self) -> int:
        """Bytes that this holds on this rank, besides the caller's arrays."""
        size = ctypes.c_int64()
        self._call("memory_bytes", size)
        return size.value

    def save_state(self) -> bytes:
        """What lives from one iteration to the next on this rank. All ranks must save at the same iteration. BusyError while a
        call is in flight."""
        size = ctypes.c_int64()
        self._call("state_bytes", size)
        state = ctypes.create_string_buffer(size.value)
        self._call("save_state", state, size.value)
        return state.raw

    def restore_state(self, state: bytes) -> None:
        """Goes on where the one was that saved `state`: of the same configuration, on the same rank of as many. ArgumentError,
        naming the field, where it is damaged or does not fit; then nothing changes. Sends nothing: see to it that all ranks
        restore the same iteration, or none."""
        try:
            whole = bytes(memoryview(state))
        except TypeError:
            raise self._refusal(f"the state is of type {type(state).__name__}: give the bytes of save_state()") from None
        self._call("restore_state", whole, len(whole))

    def close(self) -> None:
        """Not collective. Ends it, and finishes what is in flight, since the other ranks wait for that. Closing twice is fine."""
        if self._open_handle is not None:
            self._open_handle.close_runs(self._kind)
            self._open_handle = None

    def _give_up(self) -> None:
        if self._open_handle is not None:
            self._open_handle.give_up()
        self.close()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        if kind is None:
            self.close()
        else:
            self._give_up()
