"""What the next forward pass needs first travels first."""
from __future__ import annotations

import ctypes
from typing import Any, Dict, List, Sequence

from ._handles import Handle
from ._library import lib
from ._types import ArgumentError, StateError
from .communicator import Communicator, handle_of
from .operation import Operation
from .plan import AllreducePlan


class StepSchedule:
    """Priorities of a model's dense blocks, and which of their runs are in flight (EmbRace section 4.2.1).

        schedule = weir.StepSchedule(comm, ["encoder", "decoder"])         # in the order of the forward pass
        plan = weir.AllreducePlan(comm, count=n, priority=schedule.priority("encoder"))
        schedule.started("encoder", plan.start(gradient))                  # in the backward pass, in any order
        schedule.wait("encoder")                                           # in the next forward pass, before its turn

    Purely local: it communicates only through the runs that it is given. The names of the blocks must be different.
    """

    def __init__(self, comm: Communicator, blocks: Sequence[str]) -> None:
        handle = handle_of(comm)
        names = [block.encode() for block in blocks]
        pointer = ctypes.c_void_p()
        handle.call(lib.weir_schedule_create, handle.address(), (ctypes.c_char_p * len(names))(*names), len(names), pointer)
        assert pointer.value is not None
        self._open_handle: Any = Handle(handle, pointer.value, lib.weir_schedule_destroy)
        self._in_flight: Dict[str, List[Operation[Any]]] = {block: [] for block in blocks}
        handle.adopt(self)

    def _call(self, function: Any, *arguments: Any) -> None:
        if self._open_handle is None:
            raise StateError("the schedule is closed")
        self._open_handle.comm.call(function, self._open_handle.pointer, *arguments)

    def _number(self, function: Any, block: str) -> int:
        number = ctypes.c_int()
        self._call(function, str(block).encode(), number)
        return number.value

    def priority(self, block: str) -> int:
        """For everything in this block: the first block's is the number of blocks, the last one's is 1."""
        return self._number(lib.weir_schedule_priority, block)

    def started(self, block: str, operation: Operation[Any]) -> None:
        """Notes a plan's run as one of this block, which may have any number of them."""
        plan = getattr(operation, "_owner", None)
        if not isinstance(plan, AllreducePlan):
            raise ArgumentError(
                f"block '{block}' was given a {type(operation).__name__}: give what a plan's start() or start_sparse() has returned"
            )
        self._call(lib.weir_schedule_started, str(block).encode(), plan._handle().pointer)
        self._in_flight[block].append(operation)

    def test(self, block: str) -> bool:
        """Makes progress on everything in flight; True once nothing of this block is. Throws what a run has ended with."""
        self.priority(block)  # is there such a block?
        running = self._in_flight[block]
        while running and running[0].test():
            running.pop(0)
        if not running:
            self._call(lib.weir_schedule_wait, str(block).encode())
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
        self._call(lib.weir_schedule_wait, str(block).encode())

    def wait_all(self) -> None:
        """The same for all blocks."""
        for block in self._in_flight:
            self.wait(block)

    def pending(self, block: str) -> int:
        """How many runs of this block were in flight as of the last test or wait."""
        return self._number(lib.weir_schedule_pending, block)

    def close(self) -> None:
        """Forgets what is in flight; the plans still finish it. Closing twice is fine."""
        self._open_handle = None
        for running in self._in_flight.values():
            running.clear()

    _give_up = close

    def __repr__(self) -> str:
        return f"<weir.StepSchedule of {', '.join(self._in_flight)}>"
