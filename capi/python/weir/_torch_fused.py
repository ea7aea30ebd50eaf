"""Gradients of a model, exchanged by tensor fusion while the backward pass computes them."""
from __future__ import annotations

import contextlib
import weakref
from typing import Any, Callable, Dict, Iterator, Mapping, Optional

import torch
from torch.nn.parallel import DistributedDataParallel

from ._object import refuse_making
from ._struct import refuse_unknown
from ._torch_models import contiguous, parameters_of
from ._torch_scaler import Scale, with_scaler
from ._torch_start import everybody
from ._types import ArgumentError, Error, FusedTensor, FusionConfig
from .communicator import Communicator, handle_of
from .fusion import FusedAllreduce

fusing: weakref.WeakSet[FusedGradients] = weakref.WeakSet()  # that have hooks on a model


class FusedGradients:
    """Hands the gradients of a model to a weir.FusedAllreduce while backward() computes them. fuse_gradients() makes one.

    `allreduce` is that FusedAllreduce, for statistics, explanation() and checkpoints. With a `scaler`, call follow_scale() before
    one is saved. Its tensors are the parameters that need gradients, in the model's order. FusedGradients belong to one thread at a
    time. Each iteration is one backward pass and wait_all().
    """

    def __init__(
        self,
        model: Any,
        comm: Optional[Communicator] = None,
        *,
        min_elements: int = 8192,
        optional: bool = False,
        scaler: Any = None,
        **keywords: Any,
    ) -> None:
        comm = everybody() if comm is None else comm
        try:
            keywords = with_scaler(scaler, keywords)
            if isinstance(model, DistributedDataParallel):
                raise ArgumentError("the model is a DistributedDataParallel, which averages gradients itself: use ddp_hook(model)")
            if "type" in keywords:
                raise ArgumentError("type is no keyword here: it follows from the model's parameters")
            refuse_unknown(type(self).__name__, keywords, [*FusionConfig._kinds, "min_elements", "optional"])
            self._parameters = parameters_of(model)
            if any(fused._has_any(self._parameters) for fused in fusing):
                raise ArgumentError("the model's gradients are fused already: use what fuse_gradients() returned, or close() that first")
            types = {parameter.dtype for parameter in self._parameters.values()}
            if len(types) > 1 or types - {torch.float32, torch.float64} or next(iter(self._parameters.values())).is_cuda:
                raise ArgumentError("the model's parameters must be all float32 or all float64, on the CPU")
            tensors = [
                FusedTensor(name=name, count=parameter.numel(), dense=parameter.numel() < min_elements, optional=optional)
                for name, parameter in self._parameters.items()
            ]
        except Exception as error:
            refuse_making(handle_of(comm), "fused", error)
        self.allreduce = FusedAllreduce(comm, tensors, type=types.pop(), **keywords)
        self._optional = optional
        self._scale = Scale(scaler)
        self._late: Dict[str, Any] = {}  # delivered in iterations that an overflow has made useless; the same on all ranks
        self._model = weakref.ref(model)
        self._paused = False
        self._arrived: Dict[str, Any] = {}  # of this iteration
        self._failure: Optional[Error] = None  # what a ready() of this iteration has raised
        # Nodes that add to a parameter's gradient live only as long as something refers to them.
        self._nodes = {name: accumulator(parameter) for name, parameter in self._parameters.items()}
        ours = weakref.ref(self)
        self._hooks = [node.register_hook(hook_of(ours, name)) for name, node in self._nodes.items()]
        fusing.add(self)

    def _has_any(self, parameters: Mapping[str, Any]) -> bool:
        """Returns whether it takes gradients of any of these parameters."""
        mine = {id(parameter) for parameter in self._parameters.values()}
        return any(id(parameter) in mine for parameter in parameters.values())

    def _take(self, name: str) -> None:
        """Takes the gradient of a parameter, which is complete."""
        if self._paused:
            return
        parameter = self._parameters[name]
        gradient = contiguous(parameter.grad)  # those of channels_last parameters are not, for example
        if gradient is not parameter.grad:
            parameter.grad = gradient
        if not self._arrived:
            self.follow_scale()
        self._arrived[name] = gradient
        try:
            self.allreduce.ready(name, gradient.detach())
        except Error as error:  # out of a hook, PyTorch 1.13 would make a RuntimeError of it
            self._failure = self._failure or error

    def wait_all(self) -> None:
        """Collective, once for each backward pass. Waits until each parameter's `grad` is the update. With `optional`, a `grad`
        that is None gets one. Raises what any rank's gradients had wrong, on all ranks. Ctrl-C ends it; it may be called again."""
        if self._optional:
            for name, parameter in self._parameters.items():
                if name not in self._arrived:
                    if parameter.grad is None:
                        parameter.grad = torch.zeros_like(parameter)
                    self._arrived[name] = parameter.grad
                    self.allreduce.skip(name, parameter.grad.detach())
        failure: Optional[Error] = None
        try:
            self.allreduce.wait_all()
        except Error as error:
            failure = error
        for name, gradient in self._arrived.items():
            self._parameters[name].grad = gradient  # the program may have set it to None meanwhile
        if failure is None and self._scale.scaler is not None:
            overflow = self.allreduce.statistics.buffers_skipped > 0
            for name, gradient in self._arrived.items():
                update = gradient.detach()
                if name in self._late:
                    update.add_(self._late.pop(name))
                if overflow:
                    self._late[name] = update.clone()
                    update.fill_(float("inf"))
        failure, self._failure = self._failure or failure or self._model_change(), None
        self._arrived = {}
        if failure is not None:
            raise failure

    def follow_scale(self) -> None:
        """Not collective, between iterations. Brings what is kept to the scale that the scaler has. Backward passes do so
        themselves; a checkpoint needs it."""
        factor = self._scale.change()
        if factor != 1:
            self.allreduce.scale_residuals(factor)
            for late in self._late.values():
                late.mul_(factor)

    def _model_change(self) -> Optional[Error]:
        """Returns what is wrong if the model's parameters are others than they were."""
        model = self._model()
        if model is None:
            return None
        now = parameters_of(model)
        if list(now) == list(self._parameters) and all(now[name] is parameter for name, parameter in self._parameters.items()):
            return None
        return ArgumentError("other parameters of the model need gradients than when they were fused, or some were replaced: close() "
                             "and call fuse_gradients() again")

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Makes a context in which backward passes only add to the gradients; the next pass outside hands them in."""
        self._paused, before = True, self._paused
        try:
            yield
        finally:
            self._paused = before

    def close(self) -> None:
        """Not collective. Takes the hooks off the model, and ends the allreduce; what waits in residuals is lost."""
        fusing.discard(self)
        for hook in self._hooks:
            hook.remove()
        self._hooks, self._nodes = [], {}
        self.allreduce.close()

    def __repr__(self) -> str:
        return f"<weir.torch.FusedGradients: {self.allreduce!r}>"


def accumulator(parameter: Any) -> Any:
    """Returns what adds to the parameter's gradient, at the end of its way back."""
    return parameter.expand_as(parameter).grad_fn.next_functions[0][0]


def hook_of(gradients: weakref.ref[FusedGradients], name: str) -> Callable[..., None]:
    def hook(*unused: Any) -> None:
        ours = gradients()
        if ours is not None:
            ours._take(name)

    return hook


def fuse_gradients(model: Any, comm: Optional[Communicator] = None, **keywords: Any) -> FusedGradients:
    """Collective. From now on backward() hands each gradient of `model` to a weir.FusedAllreduce as soon as it is complete, and
    exchanges begin while it goes on:

        gradients = weir.torch.fuse_gradients(model, density=0.01)
        for batch in batches:
            optimizer.zero_grad()
            loss_of(model, batch).backward()
            gradients.wait_all()
            optimizer.step()

    Parameters of fewer than `min_elements` elements (8192), such as biases and norms, travel whole, beside the entries of their
    buffer. Give `optional=True` if parameters may get no gradient in some iterations, on some ranks or all. Further keywords are
    those of weir.FusedAllreduce, except `type`. All parameters are float32, or all float64, on the CPU. Initial parameters are not
    broadcast.

    With a GradScaler, give it as `scaler`, and call wait_all() before it looks at the gradients: scale(loss).backward(),
    wait_all(), unscale_(), step(), update(). An overflow on any rank becomes infinity on all, so that all skip the step and lower
    their scales.

    To accumulate gradients of several passes, run all but the last within no_sync(). Call optimizer.step() and zero_grad() only
    after wait_all(). After a backward() that failed, call wait_all() on all ranks and catch what it raises. To freeze, add or
    replace parameters, close() this and fuse anew. Keep what this returns: the hooks do nothing without it.
    """
    return FusedGradients(model, comm, **keywords)
