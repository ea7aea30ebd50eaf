"""The parallel operator, which divides work among ranks that every rank would otherwise do whole; LARS and LAMB on it."""
from __future__ import annotations

import ctypes
import dataclasses
import operator
from typing import Any, Callable, List, Mapping, Optional, Sequence, Tuple, Type, TypeVar

import numpy as np

from . import _abi
from ._arrays import NOWHERE, Memory, item_bytes, product
from ._handles import because
from ._keywords import OperatorKeywords, OptimizerKeywords
from ._library import lib
from ._object import Object, Stateful
from ._struct import LayersLike, PartsLike, Struct, Text, real_number, whole_number
from ._types import (
    DataType,
    Error,
    MemorySpace,
    OperatorConfig,
    OperatorPart,
    OperatorStatistics,
    OptimizedLayer,
    OptimizerConfig,
    OptimizerStatistics,
    Status,
)
from .communicator import Communicator, handle_of
from .embedding import stream_of
from .operation import Operation

Described = TypeVar("Described", bound=Struct)
Body = Callable[[int, Any], Optional[int]]


def listed(what: str, given: Any) -> List[Any]:
    """Returns what describes parts or layers, as a list. Raises TypeError."""
    try:
        return list(given.items() if isinstance(given, Mapping) else given)
    except TypeError:
        raise TypeError(f"the {what} are of type {type(given).__name__}: give a list") from None


def part_of(number: int, given: Any) -> OperatorPart:
    if isinstance(given, OperatorPart):
        return dataclasses.replace(given)
    try:
        seconds, result_bytes = given
    except (TypeError, ValueError):
        raise TypeError(
            f"part {number} is {given!r}: give a weir.OperatorPart, or its seconds and the bytes of its result"
        ) from None
    return OperatorPart(seconds=seconds, result_bytes=result_bytes)


def layer_of(number: int, given: Any) -> OptimizedLayer:
    if isinstance(given, OptimizedLayer):
        return dataclasses.replace(given)
    try:
        name, what = given
    except (TypeError, ValueError):
        name = None
    if not isinstance(name, str):
        raise TypeError(f"layer {number} is {given!r}: give a weir.OptimizedLayer, or a name and a number of elements or an array")
    if not isinstance(what, (int, np.integer)) and hasattr(what, "shape"):
        return OptimizedLayer(name=name, count=product(what.shape))
    try:
        return OptimizedLayer(name=name, count=operator.index(what))
    except TypeError:
        raise TypeError(f"layer '{name}' is {what!r}: give its number of elements, or an array") from None


def array_of(kind: Type[ctypes.Structure], what: str, described: Sequence[Described]) -> Any:
    """Returns the structs of C. Raises TypeError and ValueError, naming the struct that is wrong."""

    def to_c(number: int, one: Struct) -> Any:
        try:
            return one._to_c()
        except (TypeError, ValueError) as error:
            raise type(error)(f"{what} {number}: {error}") from None

    return (kind * len(described))(*(to_c(number, one) for number, one in enumerate(described)))


class Place:
    """The place of a result, within memory that `owner` keeps alive. NumPy sees an array of bytes in it."""

    def __init__(self, pointer: int, count: int, owner: Any) -> None:
        self.owner = owner
        self.__array_interface__ = {"shape": (count,), "typestr": "|u1", "data": (pointer, False), "strides": None, "version": 3}


def status_of(thrown: BaseException) -> int:
    """Returns the status that the other ranks get for it."""
    if isinstance(thrown, Error):
        return thrown.status
    return Status.MEMORY if isinstance(thrown, MemoryError) else Status.INTERNAL


class ParallelOperator(OperatorKeywords, Object):
    """Work in parts that every rank would otherwise do whole, divided among ranks; every rank then has all results (CommLib,
    section 4.2). Its keywords are the fields of OperatorConfig.

        norms = weir.ParallelOperator(comm, [(seconds, 8) for seconds in costs])

        def norm(part, result):                                 # called for the parts of this rank
            result.view(np.float64)[0] = np.linalg.norm(layers[part])

        all_norms = norms.run(norm, np.empty(len(layers)))      # filled with those of all ranks

    `parts` are a list of OperatorPart, or of pairs: the estimated seconds of a part on one rank, and the bytes of its result. They
    are the same on all ranks. Making it is collective, and so are run() and start().

    Results lie one after the other, in the order of parts. With `variable`, a result that is shorter leaves the rest of its place
    as it was. An operator has one run at a time.
    """

    _kind = "operator"
    _functions = "weir_operator_"
    _parts: Sequence[OperatorPart] = ()

    def _make(self, comm: Communicator, config: OperatorConfig, parts: PartsLike) -> None:
        def arguments() -> Tuple[Any, int]:
            self._parts = [part_of(number, one) for number, one in enumerate(listed("parts", parts))]
            return array_of(_abi.weir_operator_part, "part", self._parts), len(self._parts)

        self._create(handle_of(comm), config, OperatorConfig, arguments)

    @classmethod
    def from_config(cls, comm: Communicator, config: OperatorConfig, parts: PartsLike) -> ParallelOperator:
        """Collective. Makes an operator from an existing configuration."""
        made = cls.__new__(cls)
        made._make(comm, config, parts)
        return made

    def run(self, body: Body, results: Any = None) -> Any:
        """Collective, blocking. Calls body(part, result) for the parts of this rank, in order. `part` is the number of the part,
        from 0; `result` is an array of the bytes of its result, to be written. The body returns None or, only with `variable`, the
        number of bytes of a shorter result. The same part must have the same result on every rank.

        Returns `results`, which then has the results of all parts: a contiguous array of any type, of as many bytes; by default a
        new array of bytes. What body raises on one rank, run() raises on all, as an Error with its text; on that rank it is the
        error's __cause__. The body must not use this communicator."""
        return self.start(body, results).result()

    def start(self, body: Body, results: Any = None) -> Operation[Any]:
        """Collective, nonblocking. Does the same as run(), whose result the operation has. Calls body here, and gathers results in
        the operation's test() and wait(), which also raise what body has raised."""
        size = self.bytes
        if results is None:
            results = np.empty(size, np.uint8)
        memory, refusal = self._results(results, size)
        if refusal is None and not callable(body):
            refusal = self._refusal(f"the body is of type {type(body).__name__}: give a function of a part's number and its result")
        handle = self._handle()
        texts: List[bytes] = []  # that the library may read until the call has returned

        def call(context: Optional[int], part: int, place: Optional[int], count: int, error: Any) -> int:
            try:
                result = np.asarray(Place(place, count, memory.owner)) if place and count else np.empty(0, np.uint8)
                written = body(part, result)
                return count if written is None else whole_number("what the body returns", written, 64)
            except BaseException as thrown:  # Ctrl-C, too: the other ranks wait for this one's results
                handle.runs["run"].cause = thrown
                texts.append(f"part {part}: {type(thrown).__name__}: {thrown}".replace("\0", " ").encode())
                error[0] = texts[0]
                return -status_of(thrown)

        start = lib.weir_operator_start if refusal is None else lib.weir_operator_refuse
        arguments: Tuple[Any, ...] = (_abi.OPERATOR_BODY(call), None, memory.pointer or None, size)
        if refusal is not None:
            arguments = (self._reason(refusal),)
        run = self._begin("run", start, lib.weir_operator_wait_for, arguments, memory.owner, refusal)
        run.arguments = ()  # the body is not called any more
        return Operation(self, run, lambda: results)

    def _results(self, results: Any, size: int) -> Tuple[Memory, Optional[Exception]]:
        """Returns the memory for results and None; or NOWHERE and what is wrong with it."""
        memory, refusal = self._memory("the array for results", results, None, None, True)
        if refusal is not None:
            return NOWHERE, refusal
        problem: Optional[str] = None
        try:
            there = memory.elements * item_bytes(memory)
            if memory.cuda and there:
                problem = "is in GPU memory: it must be in host memory"
            elif there != size:
                problem = f"has {there} bytes: results take {size}"
        except ValueError as error:
            problem = str(error)
        return (memory, None) if problem is None else (NOWHERE, self._refusal(f"the array for results {problem}"))

    @property
    def bytes(self) -> int:
        """Bytes of all results."""
        return self._int64("bytes")

    def offset(self, part: int) -> int:
        """Returns where a part's result begins, in bytes."""
        return self._int64("offset", self._known(part))

    def result_bytes(self, part: int) -> int:
        """Returns the bytes of a part's result in the last run."""
        return self._int64("result_bytes", self._known(part))

    def works_on(self, part: int) -> bool:
        """Returns whether this rank works on the part."""
        works = ctypes.c_int()
        self._call("works_on", self._known(part), works)
        return bool(works.value)

    def _known(self, part: Any) -> int:
        try:
            return whole_number("the part", part, 32)
        except (TypeError, ValueError) as error:
            raise self._refusal(str(error)) from None

    @property
    def parts(self) -> Sequence[OperatorPart]:
        """The parts as described."""
        return tuple(self._parts)

    @property
    def statistics(self) -> OperatorStatistics:
        """What the last run did on this rank. Times are in seconds."""
        return self._filled("get_statistics", OperatorStatistics)

    @property
    def config(self) -> OperatorConfig:
        """The configuration in force; `division` is what automatic choice stands for."""
        return self._filled("get_config", OperatorConfig)

    @property
    def memory_bytes(self) -> int:
        """Bytes that this object holds on this rank, besides the caller's results."""
        return self._int64("memory_bytes")

    def explanation(self) -> Text:
        """Returns, as text, why work is divided as it is."""
        return self._text("explanation")

    def __repr__(self) -> str:
        if self._open_handle is None:
            return f"<weir.ParallelOperator '{self._name}', closed>"
        return f"<weir.ParallelOperator '{self._name}': {len(self._parts)} parts, {self.bytes} bytes>"


class LayerOptimizer(OptimizerKeywords, Stateful):
    """LARS (You et al. 2018) and LAMB (You et al. 2020): each layer has a rate of its own, in proportion to the norm of its
    weights. Its keywords are the fields of OptimizerConfig.

        layers = [weir.OptimizedLayer(name="fc.weight", count=4096), weir.OptimizedLayer(name="fc.bias", count=16, excluded=True)]
        optimizer = weir.LayerOptimizer(comm, layers, rule="lars", weight_decay=5e-5)
        optimizer.step([weight, bias], [weight_gradient, bias_gradient], learning_rate=0.1)

    `layers` are the same on all ranks. They are a list of OptimizedLayer, which can say most, a list of pairs of a name and a
    number of elements, or a mapping of these. An array may stand for its number of elements. Making it is collective.

    Weights and gradients are of the optimizer's type, in any shape, contiguous, in its memory space: arrays of NumPy, PyTorch or
    CuPy, or anything with DLPack, __cuda_array_interface__ or the buffer protocol. They are the same on all ranks. After a step the
    weights are still the same, bit for bit, whether work was divided or not, and on any number of ranks.

    With memory="cuda", arrays are on the GPU that is current when the optimizer is made, and streams are as for plans.
    """

    _kind = "optimizer"
    _functions = "weir_optimizer_"
    _layers: Sequence[OptimizedLayer] = ()

    def _make(self, comm: Communicator, config: OptimizerConfig, layers: LayersLike) -> None:
        def arguments() -> Tuple[Any, int]:
            self._layers = [layer_of(number, one) for number, one in enumerate(listed("layers", layers))]
            return array_of(_abi.weir_optimized_layer, "layer", self._layers), len(self._layers)

        self._create(handle_of(comm), config, OptimizerConfig, arguments)
        in_force = self.config
        self._type = DataType(in_force.type)
        self._cuda = in_force.memory == MemorySpace.cuda

    @classmethod
    def from_config(cls, comm: Communicator, config: OptimizerConfig, layers: LayersLike) -> LayerOptimizer:
        """Collective. Makes an optimizer from an existing configuration."""
        made = cls.__new__(cls)
        made._make(comm, config, layers)
        return made

    def step(self, weights: Any, gradients: Any, learning_rate: float, stream: Optional[int] = None) -> None:
        """Collective, blocking. Overwrites the weights. `weights` and `gradients` are lists of arrays in the order of layers, or
        mappings from their names. In CUDA memory, the step comes after the work that is on `stream`, or else on the stream of the
        first array that has one, and work put onto it after the call sees the weights.

        NonFiniteError on all ranks, naming the layer, if a norm is not finite. With LARS nothing has changed then. With LAMB the
        moments have taken the gradient up: call reset() before the next step. If one rank's arrays are refused, the other ranks'
        moments have taken it up, too."""
        self._handle()  # which refuses a closed one
        places = [(ctypes.c_void_p * len(self._layers))() for _ in range(2)]
        arrays_used: List[Memory] = []
        stream, refusal = self._stream(stream)
        rate, count = 0.0, len(self._layers)
        try:
            given = [self._in_order("weights", weights), self._in_order("gradients", gradients)]
            for what, arrays in zip(("weights", "gradients"), given):
                if len(arrays) != len(self._layers):
                    raise ValueError(f"there are {what} of {len(arrays)} layers: it has {len(self._layers)}")
            if refusal is None:
                rate = real_number("learning_rate", learning_rate)
        except (TypeError, ValueError) as error:
            refusal = self._refusal(str(error))
        for number, layer in enumerate(self._layers if refusal is None else ()):
            for place, arrays, what in zip(places, given, ("weights", "gradient")):
                memory, problem = self._layer_memory(layer, what, arrays[number])
                place[number] = memory.pointer or None
                arrays_used.append(memory)
                refusal = refusal or problem
        if refusal is not None:
            try:
                self._call("refuse", self._reason(refusal))
            except Error as error:
                raise because(refusal, error)
            raise refusal
        if self._cuda or stream is not None:
            self._call("step_on_stream", *places, count, rate, stream_of(stream, *arrays_used))
        else:
            self._call("step", *places, count, rate)

    def _in_order(self, what: str, arrays: Any) -> List[Any]:
        """Returns the arrays as a list. Raises TypeError and ValueError."""
        if not isinstance(arrays, Mapping):
            if not isinstance(arrays, (list, tuple)):
                kind = type(arrays).__name__
                raise TypeError(f"the {what} are of type {kind}: give a list of arrays, or a mapping from layers' names")
            return list(arrays)
        names = [layer.name for layer in self._layers]
        for name in names:
            if name not in arrays:
                raise ValueError(f"there are no {what} of layer '{name}'")
        for name in arrays:
            if name not in names:
                raise ValueError(f"there are {what} of '{name}', which is none of its layers")
        return [arrays[name] for name in names]

    def _layer_memory(self, layer: OptimizedLayer, what: str, array: Any) -> Tuple[Memory, Optional[Exception]]:
        """Returns the memory of a layer's array and None; or NOWHERE and what is wrong with the array."""
        text = f"layer '{layer.name}': the array of {what}" if what == "weights" else f"layer '{layer.name}': the {what}"
        if array is None and what == "gradient":
            problem = f"'{layer.name}' has no gradient: every layer, or parameter of a model, needs one in each step"
            return NOWHERE, self._refusal(problem)
        memory, refusal = self._memory(text, array, (self._type.name,), self._cuda, what == "weights")
        if refusal is None and memory.elements != layer.count:
            refusal = self._refusal(f"{text} has {memory.elements} elements: the layer has {layer.count}")
        return (memory, None) if refusal is None else (NOWHERE, refusal)

    @property
    def layers(self) -> Sequence[OptimizedLayer]:
        """The layers as described."""
        return tuple(self._layers)

    @property
    def rates(self) -> Any:
        """Returns the rates that layers had in the last step, besides the learning rate: a new array of float64."""
        rates = np.empty(len(self._layers))
        self._call("rates", rates.ctypes.data_as(ctypes.POINTER(ctypes.c_double)), rates.size)
        return rates

    @property
    def statistics(self) -> OptimizerStatistics:
        """What the last step did on this rank. Times are in seconds."""
        return self._filled("get_statistics", OptimizerStatistics)

    @property
    def config(self) -> OptimizerConfig:
        """The configuration in force; `norms` and `update` are what automatic choice stands for."""
        return self._filled("get_config", OptimizerConfig)

    def explanation(self) -> Text:
        """Returns, as text, why work is divided as it is."""
        return self._text("explanation")

    def reset(self) -> None:
        """Forgets momentum or moments, and the number of steps. Sends nothing, but every rank must call it before the same step."""
        self._call("reset")

    def __repr__(self) -> str:
        if self._open_handle is None:
            return f"<weir.LayerOptimizer '{self._name}', closed>"
        elements = sum(layer.count for layer in self._layers)
        return f"<weir.LayerOptimizer '{self._name}': {len(self._layers)} layers, {elements} {self._type.name}>"
