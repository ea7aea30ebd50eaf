"""Tensor fusion: the gradients of a whole model, reduced while back-propagation brings them in."""
from __future__ import annotations

import ctypes
import dataclasses
import operator
from typing import Any, Callable, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import _abi
from ._arrays import NOWHERE, product
from ._handles import SLICE, Handle, Process, Run, lend
from ._keywords import FusionKeywords
from ._library import error_of, lib
from ._object import Stateful
from ._struct import TensorsLike, Text
from ._types import ArgumentError, DataType, FusedTensor, FusionConfig, FusionStatistics, Status
from .communicator import Communicator, handle_of

Name = Union[int, str]  # a tensor: its place in the order of the forward pass, or its name
UNKNOWN = -1  # a tensor that does not exist: all ranks refuse it


def described(tensors: TensorsLike) -> List[FusedTensor]:
    """Returns the tensors of a model. Raises TypeError."""
    if isinstance(tensors, Mapping):
        tensors = tensors.items()
    try:
        given = list(tensors)
    except TypeError:
        kind = type(tensors).__name__
        raise TypeError(f"the tensors are of type {kind}: give a list, or a mapping from names to numbers of elements") from None
    return [tensor_of(number, one) for number, one in enumerate(given)]


def tensor_of(number: int, given: Any) -> FusedTensor:
    if isinstance(given, FusedTensor):
        return dataclasses.replace(given)
    try:
        name, what = given
    except (TypeError, ValueError):
        name = None
    if not isinstance(name, str):
        raise TypeError(f"tensor {number} is {given!r}: give a weir.FusedTensor, or a name and a number of elements")
    if not isinstance(what, (int, np.integer)) and hasattr(what, "shape"):
        return FusedTensor(name=name, count=product(what.shape))
    try:
        return FusedTensor(name=name, count=operator.index(what))
    except TypeError:
        raise TypeError(f"tensor '{name}' is {what!r}: give its number of elements, or an array") from None


def to_c(tensor: FusedTensor) -> Any:
    try:
        return tensor._to_c()
    except (TypeError, ValueError) as error:
        raise type(error)(f"tensor '{tensor.name}': {error}") from None


class Iteration(Run):
    """One iteration, from the first gradient to the end of wait_all(). Keeps the gradients alive. Makes the calls that hand them in
    one after another; if Ctrl-C comes before one of them, the next call makes it."""

    def __init__(self, handle: Handle, tensors: int) -> None:
        super().__init__(handle, lib.weir_fused_ready, (), lib.weir_fused_wait_for, {}, None)
        self.tensors = tensors
        self.arrived = 0  # tensors, first ones first, that wait_all need not look at any more
        self.calls: List[Tuple[Callable[..., int], Tuple[Any, ...], List[int]]] = []  # with what each has returned
        self.ended: List[int] = []  # what the last wait has returned

    def hand_in(self, function: Callable[..., int], number: int, pointer: int, count: int, array: Any) -> None:
        """Hands in a gradient. The caller has the communicator's lock."""
        if array is not None:
            self.arrays.setdefault(number, array)
        self.calls.append((function, (number, pointer, count), []))
        self.begin()

    def begin(self) -> None:
        """Makes the calls that have not been made. The caller has the communicator's lock."""
        while self.calls and not self.done:
            function, arguments, returned = self.calls[0]
            if not returned:
                # One step of the interpreter: Ctrl-C cannot come between the call and the note of it.
                returned.extend(map(function, [self.pointer], *([argument] for argument in arguments)))
            if returned[0] != Status.OK:
                self.end(returned[0])
            self.calls.pop(0)
        if self.ended and not self.done:
            self.end(self.ended[0])

    def end(self, status: int) -> None:
        self.finish(error_of(status, self.comm.pointer) if status else None)

    def has_arrived(self, number: int, seconds: float) -> bool:
        """Makes progress until the update of a tensor is there, or the iteration has ended in an error, for at most `seconds`. The
        caller has the communicator's lock."""
        self.begin()
        if self.done:
            return True
        done = ctypes.c_int()
        for status in map(self.wait_for, [self.pointer], [number], [seconds], [done]):
            if status:
                self.ended.append(status)
        self.begin()
        return self.done or bool(done.value)

    def advance(self, seconds: float) -> bool:
        """Does the same for all tensors. After that, only the other ranks' wait_all() is waited for."""
        while self.arrived < self.tensors and not self.done:
            if not self.has_arrived(self.arrived, seconds):
                return False
            self.arrived += 1
        self.begin()
        if not self.done:
            self.ended.extend(map(lib.weir_fused_wait_all, [self.pointer]))
            self.begin()
        return True

    def wait_until_arrived(self, number: int) -> None:
        """Waits in slices, between which Python looks for signals."""
        self.comm.enter()
        try:
            while not self.has_arrived(number, SLICE):
                pass
        except BaseException:
            Process.abandoned.add(self)
            raise
        finally:
            self.comm.lock.release()
        self.leave(number)

    def leave(self, number: int) -> None:
        """Gives the array of a tensor back to the caller, since its update is there. Raises the error of the iteration."""
        if self.error is not None:
            raise self.error
        if not self.done:
            self.arrays.pop(number, None)


class FusedAllreduce(FusionKeywords, Stateful):
    """The gradients of one model, sparsified and exchanged in buffers of several tensors while back-propagation goes on. Its
    keywords are the fields of FusionConfig.

        fused = weir.FusedAllreduce(comm, [("layer1.weight", 4096), ("layer2.weight", 512)], density=0.01)
        fused.ready("layer2.weight", gradient2)         # in the backward pass, in whatever order gradients come
        fused.ready("layer1.weight", gradient1)
        fused.wait_all()                                # the gradients are the averaged sparse updates

    `tensors` are in the order of the forward pass, the same on all ranks. They are a list of FusedTensor, which can say most, a
    list of pairs of a name and a number of elements, or a mapping of these. An array may stand for its number of elements. Making
    it is collective.

    An iteration has two parts. First ready() hands in each tensor's gradient, once, in any order, which may differ between ranks.
    Then come the waits: wait() of a tensor before the next forward pass needs it, and wait_all(), which every rank calls before its
    next ready(). From the first wait on, no more gradients are taken. Optional tensors may be left out.

    A gradient has the described number of elements, in any shape, contiguous, writable, of the object's type, in host memory. It is
    an array of NumPy, a tensor of PyTorch, or anything with DLPack or the buffer protocol. It is never copied, and it is kept
    alive. Leave it alone until wait() for its tensor, or wait_all(), has returned.

    A mistake of one rank in an iteration ends the iteration on every rank: wait() of the tensors concerned, or wait_all(), raises.
    On the rank whose array is refused, the error says what is wrong with it. A wait() that raises has ended the iteration as
    wait_all() does. The next iteration is not affected.
    """

    _kind = "fused"
    _functions = "weir_fused_"
    _taker = "fused allreduce"
    _tensors: Sequence[FusedTensor] = ()

    def _make(self, comm: Communicator, config: FusionConfig, tensors: TensorsLike) -> None:
        def arguments() -> Tuple[Any, int]:
            self._tensors = described(tensors)
            return (_abi.weir_fused_tensor * len(self._tensors))(*map(to_c, self._tensors)), len(self._tensors)

        self._create(handle_of(comm), config, FusionConfig, arguments)
        self._numbers = {of.name: number for number, of in enumerate(self._tensors)}
        self._type = DataType(self.config.type)

    @classmethod
    def from_config(cls, comm: Communicator, config: FusionConfig, tensors: TensorsLike) -> FusedAllreduce:
        """Collective. Makes a FusedAllreduce from an existing configuration."""
        fused = cls.__new__(cls)
        fused._make(comm, config, tensors)
        return fused

    def ready(self, tensor: Name, gradient: Any) -> None:
        """Hands in the complete gradient of a tensor, which is named or numbered from 0. Compensates and selects, and starts the
        exchange of each buffer that is full. Every rank calls it for every tensor that is not optional. Raises only errors that
        break the object. If something is wrong with the call, the waits raise on all ranks."""
        self._hand_in(lib.weir_fused_ready, tensor, gradient)

    def skip(self, tensor: Name, gradient: Any) -> None:
        """Says that this rank has no gradient for an optional tensor in this iteration. The rank contributes nothing, and its
        residual stays. `gradient` gets the update that the other ranks make. Optional tensors may also be left out altogether."""
        self._hand_in(lib.weir_fused_skip, tensor, gradient)

    def progress(self) -> None:
        """Makes progress on everything in flight. Meant for callers that compute for long between two gradients."""
        handle = self._handle()
        handle.comm.call(lib.weir_fused_progress, handle.pointer)

    def test(self, tensor: Name) -> bool:
        """Makes progress on everything in flight. Returns True once the update of this tensor is in its gradient. Ends the part of
        the iteration that takes gradients. Raises the error of the iteration."""
        iteration, number = self._waiting(tensor)
        iteration.comm.enter()
        try:
            if not iteration.has_arrived(number, 0.0):
                return False
        finally:
            iteration.comm.lock.release()
        iteration.leave(number)
        return True

    def wait(self, tensor: Optional[Name] = None) -> None:
        """Waits until the update of this tensor is in its gradient; without a tensor, as wait_all(). Ctrl-C ends the wait, which
        may be repeated."""
        if tensor is None:
            self.wait_all()
            return
        iteration, number = self._waiting(tensor)
        iteration.wait_until_arrived(number)

    def wait_all(self) -> None:
        """Waits until all updates are there, and all ranks have ended the iteration. Every rank calls it. Ctrl-C ends the wait
        while updates are on their way; it may be repeated."""
        self._iteration().wait()

    def residual(self, tensor: Name) -> Any:
        """Returns what error feedback keeps of a tensor on this rank: a read-only view of the library's memory, whose contents are
        valid until the next ready, reset or restore_state. Empty without error feedback and for dense tensors. BusyError within an
        iteration."""
        c = _abi.weir_residual(ctypes.sizeof(_abi.weir_residual))
        self._call("residual", self._known(tensor), c)
        return lend(self._handle(), c.values, c.count, self._type.name, False)

    def buffer_of(self, tensor: Name) -> int:
        """Returns the number of the buffer that the tensor travels in at present. Buffers are numbered in the order in which they
        are expected to start. Returns -1 with the scheme `ahead`, since each rank decides as gradients come."""
        buffer = ctypes.c_int()
        self._call("buffer_of", self._known(tensor), buffer)
        return buffer.value

    @property
    def tensors(self) -> Sequence[FusedTensor]:
        """The tensors as described, in the order of the forward pass."""
        return tuple(self._tensors)

    @property
    def statistics(self) -> FusionStatistics:
        """What the last iteration that has ended did on this rank. Times are in seconds."""
        return self._filled("get_statistics", FusionStatistics)

    @property
    def config(self) -> FusionConfig:
        """The configuration in force; `algorithm` and `error_feedback` are what automatic choice stands for."""
        return self._filled("get_config", FusionConfig)

    def explanation(self) -> Text:
        """Returns, as text, which buffers there are and why."""
        return self._text("explanation")

    def reset(self) -> None:
        """Forgets residuals, thresholds and iteration count; the division into buffers stays. Sends nothing, but every rank must
        call it before the same iteration. BusyError within an iteration."""
        self._call("reset")

    def scale_residuals(self, factor: float) -> None:
        """Does the same as `AllreducePlan.scale_residual`, for all tensors. BusyError within an iteration."""
        self._call("scale_residuals", self._real("factor", factor))

    def _iteration(self) -> Iteration:
        """Returns the present iteration, or a new one."""
        handle = self._handle()
        iteration = handle.runs.get("iteration")
        if not isinstance(iteration, Iteration) or iteration.done:
            iteration = handle.runs["iteration"] = Iteration(handle, len(self._tensors))
        return iteration

    def _hand_in(self, function: Callable[..., int], tensor: Name, gradient: Any) -> None:
        iteration = self._iteration()
        refusal: Optional[Exception]
        number, refusal = self._place(tensor)
        memory, count = NOWHERE, 0
        if refusal is None:
            of = self._tensors[number]
            memory, refusal = self._memory(f"the gradient of '{of.name}'", gradient, (self._type.name,), None, True)
            if refusal is None and memory.cuda and memory.elements:
                refusal = self._refusal(f"the gradient of '{of.name}' is in GPU memory: it must be in host memory")
            # All ranks refuse what cannot be handed in. It goes in as null, and for a tensor without elements, where null is valid,
            # with a wrong number of elements.
            memory, count = (memory, memory.elements) if refusal is None else (NOWHERE, of.count or 1)
        if iteration.refusal is None:
            iteration.refusal = refusal
        iteration.comm.enter()
        try:
            iteration.hand_in(function, number, memory.pointer, count, memory.owner)
        except BaseException:
            Process.abandoned.add(iteration)
            raise
        finally:
            iteration.comm.lock.release()
        if iteration.error is not None:
            raise iteration.error

    def _waiting(self, tensor: Name) -> Tuple[Iteration, int]:
        """Returns what a wait is for: the iteration, and the number of the tensor. All ranks refuse an unknown tensor."""
        iteration = self._iteration()
        number, refusal = self._place(tensor)
        if iteration.refusal is None:
            iteration.refusal = refusal
        return iteration, number

    def _place(self, tensor: Name) -> Tuple[int, Optional[ArgumentError]]:
        """The number of a tensor; or UNKNOWN, and what is wrong with it."""
        try:
            return self._known(tensor), None
        except ArgumentError as error:
            return UNKNOWN, error

    def _known(self, tensor: Name) -> int:
        """The number of a tensor. Raises ArgumentError."""
        if isinstance(tensor, str):
            if tensor in self._numbers:
                return self._numbers[tensor]
            number = ctypes.c_int()
            if "\0" in tensor:
                raise self._refusal(f"there is no tensor {tensor!r}")
            self._call("find_tensor", tensor.encode(), number)  # which names the closest
            return number.value
        try:
            place = operator.index(tensor)
        except TypeError:
            raise self._refusal(f"the tensor is {tensor!r}: give its name or its number") from None
        if not 0 <= place < len(self._tensors):
            raise self._refusal(f"there is no tensor {place}: they are numbered 0 to {len(self._tensors) - 1}")
        return place

    def __repr__(self) -> str:
        if self._open_handle is None:
            return f"<weir.FusedAllreduce '{self._name}', closed>"
        elements = sum(tensor.count for tensor in self._tensors)
        return f"<weir.FusedAllreduce '{self._name}': {len(self._tensors)} tensors, {elements} {self._type.name}>"
