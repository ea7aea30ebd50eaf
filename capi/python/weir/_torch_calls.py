"""Calls in flight of the "weir" backend of torch.distributed, as PyTorch's Work, and the library's groups on which they run.

A thread of each group advances its calls, so async_op=True overlaps with computation.
"""
from __future__ import annotations

import atexit
import ctypes
import datetime
import threading
import time
import zlib
from typing import Any, Callable, Dict, Generator, List, Optional, Sequence, Tuple

import numpy as np
import torch
import torch.distributed as dist

from ._handles import BROKEN, Process
from ._library import check, lib
from ._types import Error, MismatchError, StateError, Status

MOST = 2**31 - 1  # elements of a call: MPI counts by int
SLICE = 0.05  # seconds for which a wait may keep signals waiting
KINDS = (
    "barrier broadcast all_reduce reduce all_gather all_gather_v gather scatter reduce_scatter all_to_all_v send receive turn"
).split()
ROOTED = ("broadcast", "reduce", "gather", "scatter")
OPERATIONS = {"SUM": 0, "AVG": 0, "PRODUCT": 1, "MIN": 2, "MAX": 3, "BAND": 4, "BOR": 5, "BXOR": 6}
NUMBERS = "uint8 int8 int16 int32 int64 uint16 uint32 uint64 float32 float64".split()  # types that are reduced, by their code
TYPES = sorted({str(value) for value in vars(torch).values() if isinstance(value, torch.dtype)})


class CallOf(ctypes.Structure):
    """weir_group_call of capi/process_group.hpp."""

    _fields_ = (
        [(name, ctypes.c_int32) for name in ("kind", "operation", "type", "peer", "tag", "in_turn")]
        + [("count", ctypes.c_int64)]
        + [(name, ctypes.c_void_p) for name in ("send", "recv", "send_counts", "recv_counts")]
    )


here = threading.local()  # advances_calls: in the thread of a group
FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_int64)
INT = ctypes.POINTER(ctypes.c_int32)
for _name, _types in {
    "world": [INT, INT],
    "create": [ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p)],
    "start": [ctypes.c_void_p, ctypes.POINTER(CallOf), ctypes.POINTER(ctypes.c_int64)],
    "wait": [ctypes.c_void_p, ctypes.c_int64, ctypes.c_double, INT, INT],
    "notify": [ctypes.c_void_p, ctypes.c_int64, ctypes.c_double, FUNCTION, INT],
    "forget": [ctypes.c_void_p, ctypes.c_int64],
    "destroy": [ctypes.c_void_p, ctypes.c_double, INT],
}.items():
    getattr(lib, f"weir_group_{_name}").argtypes = _types


class Comparison:
    """What all ranks of a group have called, for TORCH_DISTRIBUTED_DEBUG=DETAIL."""

    def __init__(self, group: Calls, kind: str, name: str, fields: Dict[str, Any]) -> None:
        tensor = fields.get("recv", fields.get("send"))
        counts = [fields.get(which, [0] * group.size) for which in ("send_counts", "recv_counts")]
        numbers = [KINDS.index(kind), 0 if tensor is None else TYPES.index(str(tensor.dtype)), fields.get("count", 0)]
        numbers += [list(OPERATIONS).index(name) if name in OPERATIONS else -1, fields.get("peer", -1)]
        self.mine = torch.tensor([*numbers, *counts[0], *counts[1]])
        self.all = torch.empty((group.size, len(self.mine)), dtype=torch.int64)
        self.call = CallOf(kind=KINDS.index("all_gather"), type=NUMBERS.index("int64"), count=len(self.mine))
        self.call.send, self.call.recv = self.mine.data_ptr(), self.all.data_ptr()

    @staticmethod
    def told(numbers: List[int]) -> str:
        kind, dtype, count, operation, root = numbers
        text = KINDS[kind]
        if count:
            text += f" of {count} elements of {TYPES[dtype]}"
        if operation >= 0:
            text += f" by {list(OPERATIONS)[operation]}"
        return text + (f" with root {root}" if KINDS[kind] in ROOTED else "")

    def verdict(self) -> str:
        """Returns how the ranks differ, once the call has finished; an empty text if they do not."""
        heads = self.all[:, :5].tolist()
        other = next((rank for rank, head in enumerate(heads) if head != heads[0]), None)
        if other is not None:
            return f"ranks of the group make different calls: rank 0 {self.told(heads[0])}, rank {other} {self.told(heads[other])}"
        sends, receives = self.all[:, 5:].unflatten(1, (2, -1)).unbind(1)
        for sender, receiver in (sends != receives.t()).nonzero().tolist():
            return f"rank {sender} of the group sends {sends[sender, receiver]} elements to rank {receiver}, which expects " + str(
                receives[receiver, sender].item())
        return ""


class Work(dist._Work):  # type: ignore[misc]
    """A call, or several that are waited for together."""

    def __init__(self, group: Calls, name: str, timeout: float, results: Any) -> None:
        super().__init__()
        self._group = group
        self._name = name
        self._operation = ""
        self._comparisons: Dict[int, Comparison] = {}
        self._timeout = timeout
        self._results = results
        self._ids: List[int] = []
        self._keeps: List[Any] = []
        self._at_end: List[Callable[[], None]] = []
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._error: Optional[BaseException] = None
        self._source = -1
        self._thread = threading.get_ident()
        self._trigger: Optional[Any] = None
        self._future: Optional[Any] = None

    def _start(self, kind: str, **fields: Any) -> int:
        """Starts a call. Tensors stand for their addresses, and are kept."""
        if self._group.compares and kind not in ("send", "receive", "turn") and not fields.get("in_turn"):
            self._compare(Comparison(self._group, kind, self._operation, fields))
        call = CallOf(kind=KINDS.index(kind))
        for field, value in fields.items():
            if isinstance(value, torch.Tensor):
                self._keeps.append(value)
                value = value.data_ptr()
            elif isinstance(value, (list, np.ndarray)):
                if sum(value) > MOST:
                    raise ValueError(f"{self._name}: a call moves at most {MOST} elements")
                value = np.asarray(value, np.int32)
                self._keeps.append(value)
                value = value.ctypes.data
            setattr(call, field, value)
        if fields.get("count", 0) * (self._group.size if "all_gather" in kind else 1) > MOST:
            raise ValueError(f"{self._name}: a call moves at most {MOST} elements")
        return self._started(call)

    def _compare(self, comparison: Comparison) -> None:
        """Has all ranks compare what they are about to call, and waits for it. What a future calls from the group's thread cannot wait
        here, as that thread advances the calls: _settled() then looks at the comparison."""
        self._keeps.append(comparison)
        number = self._started(comparison.call)
        if getattr(here, "advances_calls", False):
            self._comparisons[number] = comparison
            return
        end = time.monotonic() + self._timeout
        try:
            while not self._group.wait(number, SLICE)[0]:
                if time.monotonic() >= end:
                    raise self._late(self._timeout)
        except Error as error:
            raise self._fail(error) from None
        self._ids.remove(number)
        self._group.forget(number)
        text = comparison.verdict()
        if text:
            raise dist.DistBackendError(f"{self._name}: {text}")

    def _late(self, seconds: float) -> Any:
        return dist.DistBackendError(
            f"{self._name}: Timed out waiting {seconds * 1000:.0f}ms for the other ranks of the group: not all of them have called it, "
            "or one of them has ended"
        )

    def _started(self, call: CallOf) -> int:
        number = self._group.start(call)
        self._ids.append(number)
        self._group.works[number] = self
        return number

    def _settled(self, seconds: float) -> bool:
        """Returns whether all calls have finished, waiting at most `seconds` for each. Ends the work then."""
        for number in list(self._ids):
            if self._over.is_set():
                break
            try:
                done, source = self._group.wait(number, seconds)
            except Error as error:
                if self._over.is_set():  # another thread has seen to it meanwhile
                    break
                self._fail(error)
                continue
            if not done:
                return False
            self._source = source
            text = self._comparisons[number].verdict() if number in self._comparisons else ""
            if text:
                self._fail(MismatchError(text))
                break
        self._end()
        return True

    def _fail(self, error: Error) -> BaseException:
        self._error = self._error or dist.DistBackendError(f"{self._name}: {error}")
        if error.status in (*BROKEN, Status.MISMATCH):  # MPI may still use them
            Process.kept.append(self._keeps)
        return self._error

    def _end(self) -> None:
        with self._lock:
            if self._over.is_set():
                return
            for number in self._ids:
                self._group.forget(number)
            try:
                if self._error is None:
                    with torch.no_grad():
                        for step in self._at_end:
                            step()
            except Exception as error:
                self._error = error
            self._keeps, self._at_end = [], []
            self._over.set()
            trigger = self._trigger
        if trigger is not None:
            trigger.set_result(None)

    def _outcome(self, _: Any) -> Any:
        if self._error is not None:
            raise self._error
        return self._results

    def wait(self, timeout: Optional[datetime.timedelta] = None) -> bool:
        limit = timeout.total_seconds() if timeout else self._timeout
        end = time.monotonic() + limit
        while not self._settled(min(SLICE, max(end - time.monotonic(), 0.0))):
            if time.monotonic() >= end:
                raise self._late(limit)
        if self._error is not None:
            raise self._error
        return True

    def is_completed(self) -> bool:
        return self._settled(0.0)

    def is_success(self) -> bool:
        return self._settled(0.0) and self._error is None

    def exception(self) -> Optional[BaseException]:
        return self._error

    def synchronize(self) -> None:
        self.wait()

    def result(self) -> Any:
        self.wait()
        return self._results

    def source_rank(self) -> int:
        return self._source

    _source_rank = source_rank

    def get_future(self) -> Any:
        with self._lock:
            if self._future is None:
                # What set_exception() stores is a result to PyTorch's C++: DDP would take it for tensors, and crash.
                self._trigger = torch.futures.Future()
                self._future = self._trigger.then(self._outcome)
                if self._over.is_set():
                    self._trigger.set_result(None)
                    return self._future
        self._watch()
        return self._future

    def _watch(self) -> None:
        """Ends the work as soon as its calls have finished: the group's thread calls this again for each of them."""
        for number in list(self._ids):
            if self._over.is_set() or not self._group.notify(number, self._timeout):
                return
            if number in self._comparisons and self._comparisons[number].verdict():
                break
        self._settled(0.0)


class Turns(Work):
    """A call in several steps, which `steps` yields: numbers of calls. It takes its turn among such calls of the group."""

    def __init__(self, group: Calls, name: str, timeout: float, results: Any) -> None:
        super().__init__(group, name, timeout, results)
        self._steps: Optional[Generator[int, None, None]] = None

    def _begin(self, steps: Generator[int, None, None]) -> Turns:
        self._steps = steps
        self._turn = self._start("turn")
        if self._group.notify(self._turn, self._timeout):
            self._watch()
        return self

    def _watch(self) -> None:
        if self._steps is None or self._over.is_set():
            return
        try:
            with torch.no_grad():
                while True:
                    if not all(self._group.notify(number, self._timeout) for number in self._ids):
                        return
                    for number in self._ids[1:]:
                        self._group.wait(number, 0.0)  # raises its error
                        self._group.forget(number)
                    del self._ids[1:]
                    next(self._steps)
        except StopIteration:
            pass
        except Error as error:
            self._fail(error)
        except Exception as error:
            self._error = error
        self._end()

    def _settled(self, seconds: float) -> bool:
        return self._over.wait(seconds)


def hear(number: int) -> None:
    work = Calls.works.get(number)
    if work is not None:
        here.advances_calls = True
        work._watch()


called_at_end = FUNCTION(hear)


class Calls:
    """A group of the library."""

    works: Dict[int, Work] = {}  # whose calls are in flight, of all groups; they keep the tensors
    living: List[Calls] = []

    def __init__(self, ranks: Sequence[int], name: str) -> None:
        self.pointer: Optional[int] = None
        self.size = len(ranks)
        self.compares = dist.get_debug_level() == dist.DebugLevel.DETAIL
        pointer = ctypes.c_void_p()
        numbers = (ctypes.c_int32 * len(ranks))(*ranks)
        check(lib.weir_group_create(numbers, len(ranks), zlib.crc32(name.encode()) % 32768, pointer))
        self.pointer = pointer.value
        Calls.living.append(self)

    def start(self, call: CallOf) -> int:
        Process.refuse_forks()
        if self.pointer is None:
            raise StateError("the process group is destroyed")
        number = ctypes.c_int64()
        check(lib.weir_group_start(self.pointer, call, number))
        return number.value

    def wait(self, number: int, seconds: float) -> Tuple[bool, int]:
        done, source = ctypes.c_int32(), ctypes.c_int32()
        if self.pointer is None:
            raise StateError("the process group was destroyed before this call had finished")
        check(lib.weir_group_wait(self.pointer, number, seconds, done, source))
        return bool(done.value), source.value

    def notify(self, number: int, seconds: float) -> bool:
        """Returns whether the call has finished. If not, called_at_end() hears of its end, which comes at most `seconds` after its
        start."""
        done = ctypes.c_int32()
        if self.pointer is not None:
            check(lib.weir_group_notify(self.pointer, number, seconds, called_at_end, done))
        return bool(done.value)

    def forget(self, number: int) -> None:
        Calls.works.pop(number, None)
        if self.pointer is not None:
            lib.weir_group_forget(self.pointer, number)

    def close(self) -> None:
        """Ends the group. Calls that other ranks have not joined are left as they are; MPI then cannot be finalised."""
        if self.pointer is None or not Process.usable():
            return
        end = time.monotonic() + 1.0
        for work in dict.fromkeys(work for work in Calls.works.copy().values() if work._group is self):
            work._settled(max(end - time.monotonic(), 0.0))
        left = ctypes.c_int32()
        pointer, self.pointer = self.pointer, None
        Calls.living.remove(self)
        check(lib.weir_group_destroy(pointer, 1.0, left))
        if left.value:
            Process.kept.append([work for work in Calls.works.copy().values() if work._group is self])
            Process.ended = True


@atexit.register  # before the end of the library's use, which was registered earlier
def close_all() -> None:
    for calls in list(Calls.living):
        calls.close()
