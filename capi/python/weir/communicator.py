"""Groups of ranks."""
from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from html import escape
from types import TracebackType
from typing import Any, Iterable, List, NoReturn, Optional, Type, Union

import numpy as np

from . import _library
from ._arrays import NOWHERE, memory_of
from ._handles import CommHandle, Process
from ._library import check, lib
from ._struct import Text, enumerator, whole_number
from ._types import ArgumentError, DataType, Error, Level, StateError, UnsupportedError


MOST_BYTES = 1 << 20  # of broadcast() and allgather()


class Topology(Text):
    """The machine as a communicator sees it: an indented tree of switch groups, nodes, sockets and ranks."""

    def _repr_html_(self) -> str:
        html: List[str] = []
        indents: List[int] = []
        for line in filter(str.strip, self.splitlines()):
            indent = len(line) - len(line.lstrip())
            while indents and indents[-1] > indent:
                html.append("</li></ul>")
                indents.pop()
            if indents and indents[-1] == indent:
                html.append("</li><li>")
            else:
                html.append("<ul><li>")
                indents.append(indent)
            html.append(escape(line.strip()))
        return "".join(html) + "</li></ul>" * len(indents)


def refuse(problem: Optional[str]) -> None:
    """Raises what is wrong with the library, if anything is."""
    if problem is not None:
        raise UnsupportedError(f"the library is {_library.path}: {problem}")


def fortran_handle(comm: Any) -> int:
    mpi4py = sys.modules.get("mpi4py.MPI")
    if mpi4py is not None and isinstance(comm, mpi4py.Comm):
        if mpi4py.Is_finalized():
            raise StateError("MPI has been finalised: make communicators before that")
        comm = comm.py2f()
    elif type(comm) is not int:  # data types and operations of mpi4py have Fortran handles, too, and True is a number
        raise ArgumentError(f"the communicator is of type {type(comm).__name__}: give one of mpi4py, its Fortran handle, or none")
    return c_int_of("the Fortran handle", comm)


def c_int_of(what: str, value: Any) -> int:
    """Returns `value` if C's int can hold it: ctypes would cut it off otherwise."""
    try:
        return whole_number(what, value, 32)
    except (TypeError, ValueError) as error:
        raise ArgumentError(str(error)) from None


def bytes_of(what: str, value: Any) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise ArgumentError(f"{what} is of type {type(value).__name__}: give bytes")
    try:
        return bytes(value)
    except (BufferError, ValueError) as error:  # a memoryview that was released, for example
        raise ArgumentError(f"{what} cannot be read: {error}") from None


def require_few(call: str, rank: int, size: int) -> None:
    """Raises if `size` is out of range. All ranks know the size, and raise the same."""
    if size < 0:
        raise ArgumentError(f"{call}: rank {rank} gives no bytes")
    if size > MOST_BYTES:
        raise ArgumentError(f"{call}: rank {rank} gives {size} bytes: it takes 0 to {MOST_BYTES}; larger arrays are for plans")


def initialise() -> None:
    """Calls weir_init, which may wait for other processes. Ctrl-C ends this process meanwhile: Python's own handler would only be
    called when the library returns."""
    main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGINT) if main else None
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        check(lib.weir_init())
    finally:
        if handler is signal.default_int_handler:
            signal.signal(signal.SIGINT, handler)


class Communicator:
    """A group of ranks and the machine under them.

    Communicator()              all ranks of the program, which mpirun, srun or torchrun has started. Initialises MPI, unless that
                                has been done; needs no mpi4py.
    Communicator(mpi4py_comm)   the ranks of an intracommunicator of mpi4py, which is duplicated. An MPI_Fint is fine, too.

    Making it is collective, and so is close(). `with` calls close(); otherwise the end of the process does, for several
    communicators in the order in which they were made. Plans and tables made from a communicator are closed before it.

    A communicator and everything made from it belong to one thread at a time. A call from another thread meanwhile is a BusyError.
    """

    def __init__(self, comm: Any = None) -> None:
        pointer = ctypes.c_void_p()
        refuse(_library.family_problem(lib))
        Process.refuse_forks()
        try:
            if comm is None:
                initialise()
                check(lib.weir_comm_create_world(pointer))
            else:
                check(lib.weir_comm_create_fortran(fortran_handle(comm), pointer))
        finally:  # Ctrl-C may come as the call returns
            self._own(pointer)

    def _own(self, pointer: ctypes.c_void_p) -> None:
        """Takes over a communicator of the library, if there is one."""
        if pointer.value is None:
            return
        self._handle = CommHandle(pointer.value)
        self._rank = self._number(lib.weir_comm_rank)
        self._size = self._number(lib.weir_comm_size)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a communicator cannot be copied or pickled: what it stands for is in the library")

    def _number(self, function: Any, *arguments: Any, kind: Any = ctypes.c_int) -> int:
        number = kind()
        self._handle.call(function, self._handle.address(), *arguments, number)
        return int(number.value)

    @property
    def rank(self) -> int:
        """Rank of this process, from 0."""
        return self._rank

    @property
    def size(self) -> int:
        """Number of ranks."""
        return self._size

    @property
    def topology(self) -> Topology:
        """The machine under the ranks, as a tree."""
        return Topology(lib.weir_comm_topology(self._handle.address()).decode(errors="replace"))

    def level(self, peer: int) -> Level:
        """Returns the nearest level that this rank and `peer` have in common."""
        return Level(self._number(lib.weir_comm_level, c_int_of("peer", peer), kind=ctypes.c_int32))

    def group(self, level: Union[Level, str]) -> List[int]:
        """Returns the ranks that share `level` with this one, in ascending order; group("node") returns those of its node. This
        rank is one of them."""
        try:
            wanted = enumerator(Level, "level", level)
        except ValueError as error:
            raise ArgumentError(str(error)) from None
        ranks = (ctypes.c_int * self._size)()
        count = self._number(lib.weir_comm_group, wanted, ranks, self._size)
        return list(ranks[:count])

    def subgroup(self, ranks: Iterable[int]) -> Communicator:
        """Collective over `ranks` alone: no other rank calls it. Returns a communicator of these ranks of this one. All of them give
        the same list; ranks[i] becomes rank i. For example, comm.subgroup(comm.group("node")) has the ranks of this node. Ranks that
        are in several subgroups make these in the same order. The new communicator has the settings of this one, and what it knows
        of the machine. Either may be closed first.

        Raises ArgumentError for a list that is empty or has a rank twice or a rank that does not exist, MismatchError if the lists
        differ, and TimeoutError, naming the missing ranks, if not all come in time."""
        try:
            numbers = list(ranks)
        except TypeError:
            raise ArgumentError(f"the ranks are of type {type(ranks).__name__}: give a list of numbers") from None
        members = [c_int_of("a rank", number) for number in numbers]
        made, pointer = Communicator.__new__(Communicator), ctypes.c_void_p()
        array = (ctypes.c_int * len(members))(*members)
        try:
            self._handle.call(lib.weir_comm_subgroup, self._handle.address(), array, len(members), pointer)
        finally:  # Ctrl-C may come as the call returns
            made._own(pointer)
        return made

    def nearest_gpu(self) -> int:
        """Collective. Returns the number of the GPU that this rank should use; -1 if it sees none. The ranks of a node share its
        GPUs evenly."""
        return self._number(lib.weir_comm_nearest_gpu)

    def stragglers(self, runs: int = 100) -> List[float]:
        """Collective. Returns, for each rank, its share of the time for which ranks have waited for others in their last `runs`
        calls (1 to 2048). The shares add up to 1, or to 0 if no rank has waited. A rank with far more than 1 / size is late, or has
        the slow link."""
        shares = (ctypes.c_double * self._size)()
        problem: Optional[ArgumentError] = None
        try:
            runs = c_int_of("runs", runs)
        except ArgumentError as error:
            problem, runs = error, 0  # which every rank hears of
        try:
            self._handle.call(lib.weir_comm_stragglers, self._handle.address(), runs, shares, self._size)
        except Error as error:
            if problem is None:
                raise
            raise problem from error
        return list(shares)

    def broadcast(self, data: Optional[bytes] = None, root: int = 0) -> bytes:
        """Collective, blocking. Returns the `data` of rank `root`, at most 1 MiB; other ranks give no data. Meant for the few bytes
        of a setup, such as addresses, seeds and options."""
        problem: Optional[ArgumentError] = None  # which every rank hears of
        mine = b""
        size = ctypes.c_int64(-1)
        try:
            root = c_int_of("root", root)
        except ArgumentError as error:
            problem, root = error, -1
        if root == self._rank:
            try:
                mine = bytes_of("data", data)
                size.value = len(mine)
            except ArgumentError as error:
                problem = error
        self._small(problem, lib.weir_comm_broadcast, ctypes.byref(size), 8, root)
        if problem is not None:
            raise problem
        require_few("broadcast", root, size.value)
        buffer = ctypes.create_string_buffer(mine, max(1, size.value))
        self._small(None, lib.weir_comm_broadcast, buffer, size.value, root)
        return buffer.raw[: size.value]

    def allgather(self, data: bytes) -> List[bytes]:
        """Collective, blocking. Returns the `data` of every rank, in rank order. Ranks may give different numbers of bytes, each at
        most 1 MiB."""
        problem: Optional[ArgumentError] = None
        mine = b""
        try:
            mine = bytes_of("data", data)
        except ArgumentError as error:
            problem = error  # which every rank hears of
        size = ctypes.c_int64(-1 if problem else len(mine))
        sizes = (ctypes.c_int64 * self._size)()
        self._small(None, lib.weir_comm_allgather, ctypes.byref(size), 8, sizes)
        if problem is not None:
            raise problem
        for rank, given in enumerate(sizes):
            require_few("allgather", rank, given)
        largest = max(sizes)
        buffer = ctypes.create_string_buffer(mine, max(1, largest))
        everybody = ctypes.create_string_buffer(max(1, largest * self._size))
        self._small(None, lib.weir_comm_allgather, buffer, largest, everybody)
        together = everybody.raw
        return [together[rank * largest : rank * largest + given] for rank, given in enumerate(sizes)]

    def sum(self, values: Any) -> Any:
        """Collective, blocking. Returns the sum of `values` over all ranks, a float, with the same bits however the values are
        divided among ranks, and in whatever order they come. `values` is an array of float32 or float64 in host memory, or a
        number. An array of two or more dimensions gives one sum for each row of the first, as an array of float64; all ranks then
        have as many rows, each of any length, and a rank without values gives an array such as numpy.empty((rows, 0)). What is below
        2^-84 times the largest magnitude of any rank is rounded away; the sum of the rest is exact, and is rounded once."""
        problem: Optional[ArgumentError] = None
        memory = NOWHERE
        try:
            if isinstance(values, (int, float)):
                values = np.array([values], np.float64)
            memory = memory_of(values)
            if memory.cuda or not memory.contiguous or memory.dtype not in ("float32", "float64"):
                order, place = "" if memory.contiguous else "not ", "GPU" if memory.cuda else "host"
                raise ValueError(f"is {order}contiguous, of type {memory.dtype} and in {place} memory: give a contiguous array of "
                                 "float32 or float64 in host memory")
        except Exception as error:  # also what the array's own library has against it: the other ranks are in the call already
            problem = ArgumentError(f"values {error}")
        rows = memory.shape[0] if len(memory.shape) > 1 else 1
        sums = np.zeros(rows)
        number = -1 if problem else memory.elements
        kind = DataType.float64 if memory.dtype == "float64" else DataType.float32
        address = sums.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
        self._small(problem, lib.weir_comm_sum, memory.pointer, number, int(kind), address, rows)
        return sums if len(memory.shape) > 1 else float(sums[0])

    def _small(self, problem: Optional[ArgumentError], function: Any, *arguments: Any) -> None:
        """Makes a call that every rank makes. `problem` is what is wrong with this rank's arguments."""
        try:
            self._handle.call(function, self._handle.address(), *arguments)
        except Error as error:
            if problem is None:
                raise
            raise problem from error

    def dump(self, path: Union[str, os.PathLike[str]]) -> None:
        """Not collective. Writes the last 2,048 calls of this rank to the file `path`, as JSON, for `weir trace diagnose`. Makes
        missing folders of the path."""
        try:
            encoded = os.fsencode(path)
        except TypeError:
            raise ArgumentError(f"the path is of type {type(path).__name__}: give a str or a pathlib.Path") from None
        if b"\0" in encoded:
            raise ArgumentError(f"the path is {path!r}: it must not have null characters")
        self._handle.call(lib.weir_comm_dump, self._handle.address(), encoded)

    def close(self) -> None:
        """Collective. Closes plans, tables and schedules made from it, then itself. May be called twice. BusyError while another
        thread is in a call.

        Arrays that plans have given (run_sparse, residual) stay valid. While any exists, the communicator ends only with the
        process.
        """
        self._handle.close()

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        if kind is None:
            self.close()
        else:
            self._handle.give_up()

    def __repr__(self) -> str:
        closed = ", closed" if self._handle.pointer is None else ""
        return f"<weir.Communicator: rank {self._rank} of {self._size}{closed}>"


def handle_of(comm: Any) -> CommHandle:
    """Returns the handle of an open communicator."""
    if not isinstance(comm, Communicator):
        raise ArgumentError(f"the communicator is of type {type(comm).__name__}: give a weir.Communicator")
    if comm._handle.pointer is None:
        raise StateError("the communicator is closed")
    return comm._handle
