"""LARS and LAMB for PyTorch's training loops."""
from __future__ import annotations

import contextlib
from typing import Any, Callable, Collection, Dict, Mapping, Optional

import numpy as np
import torch

from . import optim
from ._object import refuse_making
from ._struct import refuse_unknown
from ._torch_models import contiguous, entry_of, parameters_of
from ._torch_start import everybody
from ._types import ArgumentError, MemorySpace, OptimizedLayer, OptimizerConfig
from .communicator import Communicator, handle_of

TYPES = (torch.float32, torch.float16, torch.bfloat16)


class LayerOptimizer(torch.optim.Optimizer):  # type: ignore[misc]
    """LARS or LAMB, by weir.LayerOptimizer, in the place of an optimizer of torch.optim:

        optimizer = weir.torch.LayerOptimizer(model, lr=0.1, rule="lars", weight_decay=5e-5)
        loss_of(model, batch).backward()
        gradients.run()                         # or another exchange: gradients are the same on all ranks
        optimizer.step()

    A parameter is a layer. `excluded` names the parameters without weight decay whose learning rate stays as it is; by default,
    those of fewer than two dimensions, such as biases and norms. Further keywords are those of weir.LayerOptimizer. The learning
    rate is that of param_groups, so that schedulers of torch.optim.lr_scheduler change it; it must be the same on all ranks.

    Parameters are contiguous, and all float32, all float16 or all bfloat16. They have the same values on all ranks, which must all
    give each of them a gradient before step(). On a GPU, the current stream orders step(). `optimizer` is the weir.LayerOptimizer:
    it has rates and statistics, and goes into a weir.Checkpoint.

    Making it is collective, and so is step(). It is made for the parameters that need gradients then.
    """

    def __init__(
        self,
        model: Any,
        comm: Optional[Communicator] = None,
        *,
        lr: float,
        excluded: Optional[Collection[str]] = None,
        **keywords: Any,
    ) -> None:
        if comm is None:
            comm = everybody()
        try:
            for name in ("type", "memory"):
                if name in keywords:
                    raise ArgumentError(f"{name} is no keyword here: it follows from the model's parameters")
            refuse_unknown(type(self).__name__, keywords, [*OptimizerConfig._kinds, "lr", "excluded"])
            parameters = parameters_of(model)
            dtype = type_of(parameters)
            layers = layers_of(parameters, excluded)
        except Exception as error:
            refuse_making(handle_of(comm), "optimizer", error)
        self._of = (comm.rank, comm.size)
        device = next(iter(parameters.values())).device  # of all: parameters_of has seen to it
        with torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext():
            self.optimizer = optim.LayerOptimizer(comm, layers, type=dtype, memory=memory_of(device), **keywords)
        super().__init__(parameters.values(), {"lr": lr})

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Collective, blocking. Steps all parameters by their `grad`. Calls `closure` before, and returns what it returns.
        NonFiniteError on all ranks, naming the parameter, if a norm is not finite."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        parameters = self.param_groups[0]["params"]
        gradients = [None if parameter.grad is None else contiguous(parameter.grad.detach()) for parameter in parameters]
        self.optimizer.step([parameter.detach() for parameter in parameters], gradients, self.param_groups[0]["lr"])
        return loss

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        """Raises for a second group: the only one has the parameters of the model."""
        if self.param_groups:
            raise ArgumentError("all parameters of the model are there already: a LayerOptimizer has one group of them")
        super().add_param_group(param_group)

    def state_dict(self) -> Dict[str, Any]:
        """Returns what lives from one step to the next on this rank, for torch.save. Every rank saves its own, after the same step.
        To go on with another number of ranks, add `optimizer` to a weir.Checkpoint instead."""
        state = torch.from_numpy(np.frombuffer(bytearray(self.optimizer.save_state()), np.uint8))
        rank, ranks = self._of
        return {**super().state_dict(), "rank": rank, "ranks": ranks, "optimizer": state}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Not collective. Goes on where state_dict() was called, with as many ranks, each with its own state, all at the same step.
        ArgumentError if the state is of another rank, rule, model or division, or damaged; then nothing changes."""
        of = entry_of("the state", state_dict, "rank", int), entry_of("the state", state_dict, "ranks", int)
        if of != self._of:
            mine = self._of
            raise ArgumentError(f"the state is of rank {of[0]} of {of[1]}: this is rank {mine[0]} of {mine[1]}; each loads its own")
        state = entry_of("the state", state_dict, "optimizer", torch.Tensor)
        groups = entry_of("the state", state_dict, "param_groups", list)
        before = self.optimizer.save_state()
        self.optimizer.restore_state(state.cpu().numpy().tobytes())
        try:
            super().load_state_dict({"state": {}, "param_groups": groups})
        except BaseException:
            self.optimizer.restore_state(before)
            raise

    def close(self) -> None:
        """Not collective. Ends the weir.LayerOptimizer."""
        self.optimizer.close()

    def __repr__(self) -> str:
        return f"<weir.torch.LayerOptimizer: {self.optimizer!r}>"


def type_of(parameters: Mapping[str, Any]) -> Any:
    """Returns the type of all parameters."""
    dtype = next(iter(parameters.values())).dtype
    for name, parameter in parameters.items():
        if parameter.dtype != dtype or dtype not in TYPES:
            kind = str(parameter.dtype)[len("torch.") :]
            raise ArgumentError(f"the parameter '{name}' has type {kind}: all must be float32, all float16 or all bfloat16")
    return dtype


def memory_of(device: Any) -> MemorySpace:
    return MemorySpace.cuda if device.type == "cuda" else MemorySpace.host


def layers_of(parameters: Mapping[str, Any], excluded: Optional[Collection[str]]) -> Any:
    if excluded is not None:
        if isinstance(excluded, str):
            raise ArgumentError(f"excluded is '{excluded}': give a list of names of parameters")
        for name in excluded:
            if name not in parameters:
                raise ArgumentError(f"excluded has '{name}', which is no parameter of the model that needs a gradient")
    return [
        OptimizedLayer(
            name=name, count=parameter.numel(), excluded=parameter.dim() < 2 if excluded is None else name in excluded
        )
        for name, parameter in parameters.items()
    ]
