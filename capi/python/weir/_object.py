"""Base of plans, tables, checkpoints, fused allreduces, operators, optimizers and sums: made from a configuration, refuse arrays
on all ranks, close."""
from __future__ import annotations

import ctypes
from types import TracebackType
from typing import Any, Callable, NoReturn, Optional, Tuple, Type, TypeVar

from ._arrays import NOWHERE, Memory, memory_of, problem_of
from ._handles import CommHandle, Handle, Process, Run, because
from ._library import lib
from ._struct import Struct, Text, real_number, whole_number
from ._types import ArgumentError, BusyError, Error, StateError
from .communicator import Communicator

Self = TypeVar("Self", bound="Object")
Filled = TypeVar("Filled", bound=Struct)


CREATE = {
    "plan": lib.weir_plan_create,
    "table": lib.weir_embedding_create,
    "checkpoint": lib.weir_checkpoint_create,
    "fused": lib.weir_fused_create,
    "operator": lib.weir_operator_create,
    "optimizer": lib.weir_optimizer_create,
    "sum": lib.weir_sparse_sum_create,
    "cache": lib.weir_cache_create,
    "loader": lib.weir_loader_create,
}


def as_bytes(reason: str) -> bytes:
    """Returns the text as bytes for the library, whose texts end with a null character."""
    return reason.replace("\0", " ").encode(errors="replace")


def refuse_making(comm: CommHandle, kind: str, problem: Exception, reason: Optional[str] = None) -> NoReturn:
    """Raises what is wrong with this rank's configuration. The other ranks are in the call already: they get `reason`, or the text
    of the problem."""
    try:
        comm.call(lib.weir_comm_refuse, comm.address(), kind.encode(), as_bytes(reason or str(problem)))
    except Error as refused:
        raise because(problem, refused)
    raise problem


class Object:
    """Base class of plans, tables, checkpoints, fused allreduces, operators and optimizers."""

    _kind: str  # for messages
    _taker: Optional[str] = None  # the same for messages about arrays, if that differs
    _functions: str  # what the names of its functions begin with
    _name = ""
    _open_handle: Optional[Handle] = None

    def _create(
        self,
        comm: CommHandle,
        config: Struct,
        wanted: Type[Struct],
        more: Callable[[], Tuple[Any, ...]] = tuple,
        origin: Any = None,
    ) -> None:
        """Makes the object. `more` gives what it takes besides a configuration, and raises what is wrong with that. `origin` is
        what it is made from, if not the communicator."""
        self._name = str(getattr(config, "name", self._name))
        try:
            if not isinstance(config, wanted):
                raise TypeError(f"the configuration is of type {type(config).__name__}: give a weir.{wanted.__name__}")
            c, others = config._to_c(), more()
        except Exception as error:
            refuse_making(comm, self._kind, self._refusal(str(error)), str(error))
        self._open_handle = Handle(comm, self._function("destroy"))  # before the call: Ctrl-C may come as it returns
        comm.adopt(self)
        comm.call(CREATE[self._kind], origin or comm.address(), c, *others, self._open_handle.pointer)

    def _refused(self, comm: Any, error: Exception) -> NoReturn:
        """Raises an error about the keywords, on all ranks."""
        if isinstance(comm, Communicator) and comm._handle.pointer is not None:
            refuse_making(comm._handle, self._kind, error)
        raise error

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(f"{self._kind} '{self._name}' cannot be copied or pickled: what it stands for is in the library")

    def _function(self, name: str) -> Any:
        return getattr(lib, self._functions + name)

    def _handle(self) -> Handle:
        if self._open_handle is None:
            raise StateError(f"{self._kind} '{self._name}' is closed")
        return self._open_handle

    def _call(self, name: str, *arguments: Any) -> None:
        handle = self._handle()
        handle.comm.call(self._function(name), handle.pointer, *arguments)

    def _int64(self, name: str, *arguments: Any) -> int:
        """Returns a number that the library fills in."""
        value = ctypes.c_int64()
        self._call(name, *arguments, value)
        return value.value

    def _filled(self, name: str, wanted: Type[Filled]) -> Filled:
        """Returns a struct that the library fills."""
        c = wanted._c(ctypes.sizeof(wanted._c))
        self._call(name, c)
        return wanted._from_c(c)

    def _text(self, name: str) -> Text:
        """Returns a text that the library makes of the object."""
        handle = self._handle()
        handle.comm.enter()
        try:
            return Text((self._function(name)(handle.pointer) or b"").decode(errors="replace"))
        finally:
            handle.comm.lock.release()

    def _memory(
        self, what: str, array: Any, dtypes: Optional[Tuple[str, ...]], cuda: Optional[bool], writable: bool
    ) -> Tuple[Memory, Optional[Exception]]:
        """Returns the memory of an array and None; or NOWHERE and what is wrong with the array. `dtypes` are the allowed types;
        None: any."""
        try:
            memory = memory_of(array)
            problem = problem_of(memory, dtypes, cuda, writable, self._taker or self._kind)
        except (TypeError, ValueError) as error:
            problem = str(error)
        except Exception as error:  # what the array's own library has against it
            problem = f"cannot be used: {error}"
        return (memory, None) if problem is None else (NOWHERE, self._refusal(f"{what} {problem}"))

    def _stream(self, stream: Any) -> Tuple[Optional[int], Optional[Exception]]:
        """Returns the caller's stream and None; or None and what is wrong with the stream."""
        try:
            return (None if stream is None else whole_number("stream", stream, 64)), None
        except (TypeError, ValueError) as error:
            return None, self._refusal(f"{error}, a cudaStream_t")

    def _refusal(self, text: str) -> ArgumentError:
        return ArgumentError(self._where() + text)

    def _real(self, what: str, value: Any) -> float:
        """Returns a real number for a call of this rank alone."""
        try:
            return real_number(what, value)
        except (TypeError, ValueError) as error:
            raise self._refusal(str(error)) from None

    def _where(self) -> str:
        return f"{self._kind} '{self._name}': "

    def _reason(self, refusal: Exception) -> bytes:
        """Returns what the other ranks get of a refusal, without the place, which the library adds."""
        return as_bytes(str(refusal)[len(self._where()) :])

    def _begin(
        self,
        kind: str,
        start: Callable[..., int],
        wait_for: Callable[..., int],
        arguments: Tuple[Any, ...],
        arrays: Any,
        refusal: Optional[Exception],
        at_once: bool = False,
    ) -> Run:
        """Starts a call, the only one of its kind. Until the caller has waited for it, the next one is refused, whether the call is
        still in flight or not, so that all ranks refuse the same. With `at_once`, waits for the previous call instead, and the
        arrays may be used again as soon as the new one has started."""
        handle = self._handle()
        previous = handle.runs.get(kind)
        if previous is not None and not previous.done:
            if at_once:
                previous.wait()
            else:
                raise BusyError(f"{self._kind} '{self._name}' has a {kind} in flight: wait for its operation, or call wait()")
        handle.comm.enter()
        try:
            run = handle.runs[kind] = Run(handle, start, arguments, wait_for, arrays, refusal)
            run.begin()
        except BaseException:
            Process.abandoned.update(handle.in_flight())
            raise
        finally:
            handle.comm.lock.release()
        if run.error is not None:
            raise run.error
        if at_once:
            run.arrays = None
        return run

    def wait(self) -> None:
        """Waits for everything that this object has in flight, and raises its error. Meant for calls that Ctrl-C has ended before
        they could return an operation. Does nothing if nothing is in flight, because Ctrl-C came before the call or after its end.
        """
        for run in self._handle().in_flight():
            run.wait()

    def close(self) -> None:
        """Not collective. Ends the object, and finishes what is in flight, since the other ranks wait for that. May be called
        twice. BusyError while another thread is in a call."""
        if self._open_handle is not None:
            self._open_handle.close(self._kind)
            self._open_handle = None

    def _give_up(self) -> None:
        if self._open_handle is not None:
            self._open_handle.give_up(self._kind)
            self._open_handle = None

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        if kind is None:
            self.close()
        else:
            self._give_up()


class Stateful(Object):
    """Base class of plans, tables, fused allreduces and optimizers."""

    @property
    def memory_bytes(self) -> int:
        """Bytes that this object holds on this rank, besides the caller's arrays."""
        return self._int64("memory_bytes")

    def save_state(self) -> bytes:
        """Returns what lives from one iteration to the next on this rank. All ranks must save at the same iteration. BusyError
        while a call is in flight."""
        size = self._int64("state_bytes")
        state = ctypes.create_string_buffer(size)
        self._call("save_state", state, size)
        return state.raw

    def restore_state(self, state: bytes) -> None:
        """Continues where the object that saved `state` left off. That object had the same size, type, algorithm, threshold and
        error feedback (a table: the same configuration), on the same rank and with the same number of ranks. ArgumentError, naming
        the field, if the state is damaged or does not fit; then nothing changes. Sends nothing: the caller sees to it that all
        ranks restore the same iteration, or none."""
        try:
            whole = bytes(memoryview(state))
        except TypeError:
            raise self._refusal(f"the state is of type {type(state).__name__}: give the bytes of save_state()") from None
        self._call("restore_state", whole, len(whole))
