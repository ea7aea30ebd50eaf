"""Block-level scheduling: what the next forward pass needs first travels first."""
from __future__ import annotations

import ctypes
from typing import Any, Dict, Iterable, List, Optional

from ._handles import Handle
from ._library import lib
from ._types import ArgumentError, StateError
from .communicator import Communicator, handle_of
from .operation import Operation
from .plan import AllreducePlan


def names_of(blocks: Iterable[str]) -> List[str]:
    """Returns the names of the blocks. Raises ArgumentError if they are no names."""
    if isinstance(blocks, str):
        raise ArgumentError(f"the blocks are {blocks!r}: give a list of names")
    try:
        names = list(blocks)
    except TypeError:
        raise ArgumentError(f"the blocks are of type {type(blocks).__name__}: give a list of names") from None
    for name in names:
        if not isinstance(name, str) or "\0" in name:
            raise ArgumentError(f"the name of a block is {name!r}: it must be a str without null characters")
    return names


class StepSchedule:
    """Priorities of a model's dense blocks, and which of their runs are in flight (EmbRace section 4.2.1).

        schedule = weir.StepSchedule(comm, ["encoder", "decoder"])         # in the order of the forward pass
        plan = weir.AllreducePlan(comm, count=n, priority=schedule.priority("encoder"))
        schedule.started("encoder", plan.start(gradient))                  # in the backward pass, in any order
        schedule.wait("encoder")                                           # in the next forward pass, before its turn

    Purely local: communicates only through the runs that it is given. The names of the blocks must be different.
    """

    def __init__(self, comm: Communicator, blocks: Iterable[str]) -> None:
        self._open_handle: Optional[Handle] = None
        handle = handle_of(comm)
        names = names_of(blocks)
        encoded = [name.encode() for name in names]
        self._in_flight: Dict[str, List[Operation[Any]]] = {name: [] for name in names}
        self._open_handle = Handle(handle, lib.weir_schedule_destroy)
        handle.adopt(self)
        handle.call(
            lib.weir_schedule_create,
            handle.address(),
            (ctypes.c_char_p * len(encoded))(*encoded),
            len(encoded),
            self._open_handle.pointer,
        )

    def _handle(self) -> Handle:
        if self._open_handle is None:
            raise StateError("the schedule is closed")
        return self._open_handle

    def _call(self, function: Any, *arguments: Any) -> None:
        handle = self._handle()
        handle.comm.call(function, handle.pointer, *arguments)

    def _block(self, function: Any, block: str, *arguments: Any) -> None:
        if block not in self._in_flight:
            raise ArgumentError(f"there is no block {block!r}: there are {', '.join(self._in_flight)}")
        self._call(function, block.encode(), *arguments)

    def _number(self, function: Any, block: str) -> int:
        number = ctypes.c_int()
        self._block(function, block, number)
        return number.value

    def priority(self, block: str) -> int:
        """Returns the priority for everything in this block. The first block's is the number of blocks; the last one's is 1."""
        return self._number(lib.weir_schedule_priority, block)

    def started(self, block: str, operation: Operation[Any]) -> None:
        """Notes a plan's run as one of this block, which may have any number of them."""
        plan = getattr(operation, "_owner", None)
        if not isinstance(plan, AllreducePlan):
            raise ArgumentError(
                f"block '{block}' was given a {type(operation).__name__}: give what a plan's start() or start_sparse() has returned"
            )
        self._block(lib.weir_schedule_started, block, plan._handle().pointer)
        self._in_flight[block].append(operation)

    def test(self, block: str) -> bool:
        """Makes progress on everything in flight. Returns True once nothing of this block is in flight. Raises a run's error."""
        self.priority(block)  # is there such a block?
        running = self._in_flight[block]
        while running and running[0].test():
            running.pop(0)
        if not running:
            self._block(lib.weir_schedule_wait, block)
        return not running

    def wait(self, block: str) -> None:
        """Waits until nothing of this block is in flight. Ctrl-C ends the wait."""
        self.priority(block)
        running = self._in_flight[block]
        while running:
            try:
                running[0].wait()
            finally:
                if running[0]._run.done:
                    running.pop(0)
        self._block(lib.weir_schedule_wait, block)

    def wait_all(self) -> None:
        """Waits until nothing of any block is in flight."""
        for block in self._in_flight:
            self.wait(block)

    def pending(self, block: str) -> int:
        """Returns the number of this block's runs that were in flight as of the last test or wait."""
        return self._number(lib.weir_schedule_pending, block)

    def close(self) -> None:
        """Forgets what is in flight; the plans still finish it. May be called twice. BusyError during another thread's call."""
        if self._open_handle is not None:
            self._open_handle.close("schedule")
        self._forget()

    def _give_up(self) -> None:
        if self._open_handle is not None:
            self._open_handle.give_up("schedule")
        self._forget()

    def _forget(self) -> None:
        self._open_handle = None
        for running in self._in_flight.values():
            running.clear()

    def __repr__(self) -> str:
        return f"<weir.StepSchedule of {', '.join(self._in_flight)}>"
