"""Objects of the library: who owns them, and the order in which they end.

Communicators end together on all ranks, so the garbage collector must not end them: `close` does, or the end of the process, in
the order in which they were made. Plans, tables and schedules end when nothing refers to them or to their memory."""
from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import sys
import threading
import traceback
import weakref
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

import numpy as np

from . import _abi
from ._library import check, error_of, lib
from ._types import BusyError, Error, StateError, Status

SLICE = 0.05  # seconds for which a wait may keep signals waiting
# A run that ended so was broken off in its middle: the network may still use the caller's arrays.
BROKEN = (Status.STATE, Status.TIMEOUT, Status.TRANSPORT, Status.MEMORY, Status.INTERNAL, Status.DEVICE)


def because(refusal: Exception, error: BaseException) -> Exception:
    """Returns the error that this rank raises for what it has refused itself, if the call has ended with `error`. That becomes its
    cause, unless it only says to look here, or repeats it."""
    reason = str(refusal).partition("': ")[2][:200]  # behind the name of what has refused it
    repeats = "that rank's own error" in str(error) or reason in str(error)
    refusal.__cause__ = None if repeats else error
    refusal.__suppress_context__ = True
    return refusal


class Process:
    """State of the process, of which there is one."""

    communicators: List[CommHandle] = []  # that are open, in the order of making
    kept: List[Any] = []  # until the process ends
    number: Optional[int] = None  # of the process that has made the first communicator
    abandoned: Set[Run] = set()  # runs that this rank has not waited for to the end; other ranks may still wait for them
    last_calls: List[Callable[[], None]] = []  # to be made when nothing is called any more
    ended = False

    @classmethod
    def usable(cls) -> bool:
        """Returns whether objects of the library may still be destroyed: not at the end of the process, and not in a fork of it."""
        return not cls.ended and cls.number in (None, os.getpid())

    @classmethod
    def refuse_forks(cls) -> None:
        """Raises StateError in a fork. It has its parent's connections, so the other ranks would take what it sends for its
        parent's."""
        if cls.number is None:
            cls.number = os.getpid()
        if cls.number != os.getpid():
            raise StateError(
                "this process was forked from a rank, and is none itself: only the rank can use Weir. Start helpers by "
                "multiprocessing's 'spawn'"
            )


class CommHandle:
    """A communicator of the library, and what has been made from it."""

    def __init__(self, pointer: int) -> None:
        self.pointer: Optional[int] = pointer
        self.lock = threading.Lock()
        self.user = 0  # the thread that has taken the lock last
        self.children: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()  # in the order of making
        self.made = 0
        self.living = 0  # objects of the library made from it
        self.left: List[Tuple[Callable[..., int], ctypes.c_void_p]] = []  # to be destroyed once its lock is free
        Process.communicators.append(self)

    def address(self) -> int:
        if self.pointer is None:
            raise StateError("the communicator is closed")
        return self.pointer

    def enter(self) -> None:
        """Takes the lock. Destroys what could not be destroyed before."""
        Process.refuse_forks()
        if not self.lock.acquire(False):
            if self.user == threading.get_ident():
                raise BusyError(
                    "this call comes from within another one on this communicator, in the body of an operator or a log function: "
                    "the communicator and all that is made from it can be used again when that call has returned"
                )
            raise BusyError("another thread uses this communicator: it and all that is made from it belong to one thread at a time")
        self.user = threading.get_ident()
        while self.left:
            destroy, pointer = self.left.pop()
            destroy(pointer)
            self.living -= 1

    def call(self, function: Callable[..., int], *arguments: Any) -> None:
        """Calls the library, and raises the error that the call ends with."""
        self.enter()
        try:
            status = function(*arguments)
            if status:
                check(status, self.pointer)
        finally:
            self.lock.release()

    def adopt(self, child: Any) -> None:
        self.made += 1
        self.children[self.made] = child

    def open_children(self) -> List[Any]:
        return [child for _, child in sorted(self.children.items())]

    def close(self) -> None:
        if self.pointer is None:
            return
        if not Process.usable():
            self.forget()
            return
        self.enter()  # before anything ends: another thread's call may be under way
        self.lock.release()
        for child in self.open_children():
            child.close()
        if self.living:
            return  # arrays that plans have given still exist: they end with the process
        self.call(lib.weir_comm_destroy, self.pointer)
        self.forget()

    def give_up(self) -> None:
        """Closes the communicator without the other ranks, which may know nothing of the exception that ends it here."""
        for child in self.open_children():
            child._give_up()
        self.forget()

    def forget(self) -> None:
        self.pointer = None
        if self in Process.communicators:
            Process.communicators.remove(self)


class Handle:
    """A plan, table or schedule of the library."""

    counted = False  # among those that the communicator waits for

    def __init__(self, comm: CommHandle, destroy: Callable[..., int]) -> None:
        self.comm = comm
        self.pointer = ctypes.c_void_p()  # which the library fills in: NULL before it is made, and once it is destroyed
        self.destroy = destroy
        self.runs: Dict[str, Run] = {}  # the last one of each kind
        self.lent: weakref.WeakSet[Lent] = weakref.WeakSet()  # arrays in its memory
        self.keeps: Any = None  # what must live as long as this
        self.counted = True
        comm.living += 1

    def in_flight(self) -> List[Run]:
        return [run for run in self.runs.values() if not run.done]

    def end(self) -> None:
        """Destroys it, which finishes what is in flight. The caller has the communicator's lock."""
        pointer, self.pointer = self.pointer, ctypes.c_void_p()
        if pointer:
            self.destroy(pointer)
        if self.counted:
            self.counted = False
            self.comm.living -= 1

    def close(self, what: str) -> None:
        """Finishes what is in flight, then destroys the object, even while others refer to it. If arrays in its memory exist, it is
        destroyed with the last of them."""
        if not Process.usable():
            return
        if self.lent:
            for run in self.in_flight():
                with contextlib.suppress(Error):
                    run.wait()
        else:
            self.comm.enter()
            try:
                self.end()
            finally:
                self.comm.lock.release()
        for run in self.in_flight():
            run.finish(StateError(f"the {what} was closed before this call was waited for"))

    def give_up(self, what: str) -> None:
        """Leaves calls in flight as they are until the process ends. The other ranks may never hear of them, so destruction might
        wait for long."""
        in_flight = self.in_flight()
        for run in in_flight:
            run.finish(StateError("an exception has ended the block of this call"))
        Process.abandoned.update(in_flight)
        try:
            if not in_flight:
                self.close(what)
                return
        except BusyError:  # another thread is in a call
            pass
        Process.kept.append(self)

    def __del__(self) -> None:
        if not self.counted or not Process.usable():
            return
        in_flight = self.in_flight()
        if Process.abandoned.intersection(in_flight):
            Process.kept.append([self.keeps, *(run.arrays for run in in_flight)])
            return
        if not self.comm.lock.acquire(False):  # another thread's call, or one of this thread that the garbage collector came into
            self.comm.left.append((self.destroy, self.pointer))
            Process.kept.append([self.keeps, *(run.arrays for run in in_flight)])
            return
        self.comm.user = threading.get_ident()
        try:
            self.end()
        finally:
            self.comm.lock.release()


class Run:
    """A call in flight, and later its outcome. Keeps the caller's arrays alive. It is made before the call, since Ctrl-C may come
    as the call returns; if it comes before the call, the wait makes the call."""

    def __init__(
        self,
        handle: Handle,
        start: Callable[..., int],
        arguments: Tuple[Any, ...],
        wait_for: Callable[..., int],
        arrays: Any,
        refusal: Optional[Exception],
    ) -> None:
        self.comm = handle.comm
        self.pointer = handle.pointer
        self.start = start
        self.arguments = arguments
        self.status: List[int] = []  # what start has returned, once it has been called
        self.wait_for = wait_for
        self.arrays = arrays
        self.refusal = refusal  # what is wrong with this rank's arrays; the other ranks get an error, too
        self.cause: Optional[BaseException] = None  # what a function of the caller has raised; the other ranks get an error, too
        self.done = False
        self.error: Optional[BaseException] = None

    def begin(self) -> None:
        """Makes the call, unless it has been made. The caller has the communicator's lock."""
        if not self.status:
            # One step of the interpreter: Ctrl-C cannot come between the call and the note of it.
            self.status.extend(map(self.start, [self.pointer], *([argument] for argument in self.arguments)))
        if self.status[0] != Status.OK:
            self.finish(error_of(self.status[0], self.comm.pointer))

    def advance(self, seconds: float) -> bool:
        """Makes progress until the call has finished, for at most `seconds`. The caller has the communicator's lock."""
        self.begin()
        if self.done:
            return True
        done = ctypes.c_int()
        status = self.wait_for(self.pointer, seconds, done)
        if status == Status.OK and not done.value:
            return False
        self.finish(error_of(status, self.comm.pointer) if status else None)
        return True

    def finish(self, error: Optional[BaseException]) -> None:
        if error is not None and getattr(error, "status", None) in BROKEN:
            Process.kept.append(self.arrays)
        if error is not None and isinstance(self.cause, Exception):
            error.__cause__ = self.cause
        elif error is not None and self.cause is not None:  # Ctrl-C, for instance: what ends a program, ends this one
            self.cause.__cause__, error = error, self.cause
        if self.refusal is not None:
            error = self.refusal if error is None else because(self.refusal, error)
        self.done, self.error, self.arrays = True, error, None
        Process.abandoned.discard(self)

    def settled(self, seconds: float) -> bool:
        """Advances the call, and then raises its error. Returns whether it has finished."""
        if not self.done:
            self.comm.enter()
            try:
                if not self.advance(seconds):
                    return False
            finally:
                self.comm.lock.release()
        if self.error is not None:
            raise self.error
        return True

    def wait(self) -> None:
        """Waits in slices, between which Python looks for signals."""
        if not self.done:
            self.comm.enter()
            try:
                while not self.advance(SLICE):
                    pass
            except BaseException:
                if not self.done:
                    Process.abandoned.add(self)
                raise
            finally:
                self.comm.lock.release()
        if self.error is not None:
            raise self.error


class Lent:
    """Memory of a plan, which the plan keeps as long as this object lives. NumPy and CuPy see an array in it."""

    def __init__(self, owner: Handle, pointer: int, count: int, dtype: str, cuda: bool) -> None:
        self.owner = owner
        owner.lent.add(self)
        self.shape = (count,)
        described: Dict[str, Any] = {"shape": (count,), "typestr": np.dtype(dtype).str, "data": (pointer, not cuda), "version": 3}
        if cuda:
            self.__cuda_array_interface__ = {**described, "strides": None, "stream": None}
        else:
            self.__array_interface__ = described


def lend(owner: Handle, pointer: Optional[int], count: int, dtype: str, cuda: bool) -> Any:
    """Returns memory of a plan as an array of `count` elements: a read-only array of NumPy, or an object with
    __cuda_array_interface__."""
    if cuda:
        return Lent(owner, pointer or 0, count, dtype, True)
    if not count:
        empty = np.empty(0, dtype)
        empty.flags.writeable = False
        return empty
    return np.asarray(Lent(owner, pointer or 0, count, dtype, False))


@atexit.register
def end() -> None:
    """Ends the process's use of the library. If an exception that nobody has caught ends the process, other ranks may wait for this
    one: the launcher ends them, as long as MPI is not finalised here."""
    if not Process.usable():
        return
    abandoned = bool(Process.abandoned) or getattr(sys, "last_value", None) is not None
    if not abandoned:
        for comm in list(Process.communicators):
            try:
                comm.close()
            except BusyError:  # a thread that does not end is in a call
                abandoned = True
            except Exception:
                traceback.print_exc()
    lib.weir_set_log_function(_abi.LOG_FUNCTION(0), None)
    if not abandoned:
        lib.weir_finalize()
    for call in Process.last_calls:
        call()
    Process.ended = True
