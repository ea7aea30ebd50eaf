"""Calls in flight."""
from __future__ import annotations

from typing import Any, Callable, Generator, Generic, TypeVar

from ._handles import Run

T = TypeVar("T")
AWAIT_SLICE = 1e-4  # seconds for which an event loop is kept from its other tasks


class Operation(Generic[T]):
    """A call in flight: of a plan's start() and start_sparse(), a table's lookup(), prefetch() and update(), an operator's
    start(), a checkpoint's save().

    Communication advances only inside calls of Weir: wait(), test() and `await`, of any operation of the communicator, advance
    everything in flight on it. Where nobody calls, most of a run happens in its wait, and other ranks may wait for this one. With
    WEIR_PROGRESS_THREAD a thread of the library advances it meanwhile; the arrays are then filled by the next of these calls.

    The arrays of the call live as long as it is in flight; leave them alone until then. An error is the same on all ranks, and is
    thrown by each of these functions, however often they are called.
    """

    def __init__(self, owner: Any, run: Run, value: Callable[[], T]) -> None:
        self._owner = owner  # the plan or table: it lives until nobody can wait any more
        self._run = run
        self._value = value

    def test(self) -> bool:
        """Makes progress on everything in flight; True once this call has finished. Throws what it has ended with."""
        return self._run.settled(0.0)

    def wait(self) -> None:
        """Waits until the call has finished, and throws what it has ended with. Ctrl-C ends the wait; the call is then still in
        flight, and may be waited for again."""
        self._run.wait()

    def result(self) -> T:
        """Waits, and gives what the call was made for: the gradient that start() has filled, the SparseResult of start_sparse(),
        the vectors of lookup(), None otherwise."""
        self._run.wait()
        return self._value()

    def __await__(self) -> Generator[None, None, T]:
        """In asyncio: lets other tasks run until the call has finished, then as result()."""
        while not self._run.settled(AWAIT_SLICE):
            yield
        return self._value()

    def __repr__(self) -> str:
        state = "in flight" if not self._run.done else "finished" if self._run.error is None else f"ended with {self._run.error!r}"
        return f"<weir.Operation of {self._owner!r}: {state}>"
