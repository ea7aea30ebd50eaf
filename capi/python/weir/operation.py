"""Calls in flight."""
from __future__ import annotations

from typing import Any, Callable, Generator, Generic, TypeVar

from ._handles import Run

T = TypeVar("T")
AWAIT_SLICE = 1e-4  # seconds for which an event loop is kept from its other tasks


class Operation(Generic[T]):
    """A call in flight: a plan's start() or start_sparse(), a table's lookup(), prefetch() or update(), an operator's start(), a
    checkpoint's save().

    Communication advances only inside calls of Weir: wait(), test() and `await`, of any operation of the communicator, advance
    everything in flight on it. If the caller makes no such call, most of a run happens in its wait, and other ranks may wait for
    this one. With WEIR_PROGRESS_THREAD a thread of the library advances it meanwhile; the next of these calls then fills the
    arrays.

    The arrays of the call live as long as it is in flight; leave them alone until it has finished. An error is the same on all
    ranks. Each of these functions raises it, however often they are called.
    """

    def __init__(self, owner: Any, run: Run, value: Callable[[], T]) -> None:
        self._owner = owner  # the plan or table; it lives as long as anything can wait
        self._run = run
        self._value = value

    def test(self) -> bool:
        """Makes progress on everything in flight. Returns True once this call has finished. Raises its error."""
        return self._run.settled(0.0)

    def wait(self) -> None:
        """Waits until the call has finished, and raises its error. Ctrl-C ends the wait; the call is then still in flight, and may
        be waited for again."""
        self._run.wait()

    def result(self) -> T:
        """Waits, and returns what the call was made for: the gradient that start() has filled, the SparseResult of start_sparse(),
        the vectors of lookup(), None otherwise."""
        self._run.wait()
        return self._value()

    def __await__(self) -> Generator[None, None, T]:
        """For asyncio. Lets other tasks run until the call has finished, then returns as result() does."""
        while not self._run.settled(AWAIT_SLICE):
            yield
        return self._value()

    def __repr__(self) -> str:
        state = "in flight" if not self._run.done else "finished" if self._run.error is None else f"ended with {self._run.error!r}"
        return f"<weir.Operation of {self._owner!r}: {state}>"
