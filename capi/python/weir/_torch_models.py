"""Helpers of weir.torch for models, and states that torch.load has read."""
from __future__ import annotations

from typing import Any, Dict, Iterable, Mapping

import torch
from torch.nn.parallel import DistributedDataParallel

from ._types import ArgumentError

# The 16-bit types are summed in float32, as in all of Weir.
SUM_TYPES = {
    torch.float32: torch.float32,
    torch.float64: torch.float64,
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
}


def parameters_of(model: Any) -> Dict[str, Any]:
    """Returns the parameters that need gradients, by the names that they have in the model itself."""
    if not isinstance(model, torch.nn.Module):
        raise ArgumentError(f"the model is of type {type(model).__name__}: give a torch.nn.Module")
    parameters = trainable(model)
    if not parameters:
        raise ArgumentError("the model has no parameter that needs a gradient")
    devices = sorted({str(parameter.device) for parameter in parameters.values()})
    if len(devices) > 1:
        raise ArgumentError(f"the model's parameters are on the devices {', '.join(devices)}: they must be on one")
    if devices[0] != "cpu" and not devices[0].startswith("cuda"):
        raise ArgumentError(f"the model is on the device '{devices[0]}': it must be on the CPU or a CUDA GPU")
    for name, parameter in parameters.items():
        if parameter.dtype not in SUM_TYPES:
            types = ", ".join(str(dtype)[len("torch.") :] for dtype in SUM_TYPES)
            raise ArgumentError(
                f"the parameter '{name}' has type {str(parameter.dtype)[len('torch.'):]}; it must be one of {types}"
            )
    return parameters


def contiguous(gradient: Any) -> Any:
    """Returns the gradient, or a copy in one piece. A gradient that is not dense stays as it is; the library refuses it."""
    return gradient.contiguous() if gradient.layout == torch.strided else gradient


COMPILED = "_orig_mod"  # what torch.compile calls the module that it wraps


def trainable(model: Any) -> Dict[str, Any]:
    """Returns the trainable parameters under the names that they have without DistributedDataParallel and torch.compile, so that a
    state fits a model with any of these wrappers."""
    ignored: Iterable[str] = ()
    while True:
        if isinstance(model, DistributedDataParallel):
            ignored, model = model.parameters_to_ignore, model.module
        elif isinstance(getattr(model, COMPILED, None), torch.nn.Module):
            model = getattr(model, COMPILED)
        else:
            break
    return {
        name.replace(f"{COMPILED}.", ""): parameter
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and name not in ignored
    }


def entry_of(what: str, mapping: Any, name: str, kind: Any, required: bool = True) -> Any:
    """Returns mapping[name], if it may be what state_dict() has put there."""
    if not isinstance(mapping, Mapping):
        raise ArgumentError(f"{what} is of type {type(mapping).__name__}: give what state_dict() has returned")
    if required and name not in mapping:
        raise ArgumentError(f"{what} has no '{name}': give what state_dict() has returned")
    value = mapping.get(name)
    if required and not isinstance(value, kind):
        raise ArgumentError(f"'{name}' in {what} is of type {type(value).__name__}: give what state_dict() has returned")
    return value
