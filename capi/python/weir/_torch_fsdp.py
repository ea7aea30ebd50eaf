"""Sparse gradients under PyTorch's fully_shard (FSDP2)."""
from __future__ import annotations

from typing import Any, Dict, Mapping, Optional

import numpy as np
import torch
import torch.distributed as dist

from ._struct import refuse_unknown, whole_number
from ._torch_models import SUM_TYPES, entry_of
from ._torch_start import everybody
from ._types import AllreduceConfig, ArgumentError
from .communicator import Communicator
from .plan import AllreducePlan

FIXED = ("count", "type", "memory", "average", "name", "density")  # keywords of a plan that follow from the model


def sharded_modules(model: Any) -> Dict[str, Any]:
    """Returns the modules that fully_shard has been called for, by name."""
    try:
        from torch.distributed.fsdp import FSDPModule
    except (ImportError, ValueError):  # Python 3.11 refuses that part of PyTorch 1.13 with a ValueError
        raise ArgumentError(f"PyTorch {torch.__version__} has no fully_shard: this needs PyTorch 2.8 or later") from None
    if not isinstance(model, torch.nn.Module):
        raise ArgumentError(f"the model is of type {type(model).__name__}: give a torch.nn.Module")
    found = {name: module for name, module in model.named_modules() if isinstance(module, FSDPModule)}
    if not found:
        raise ArgumentError("no module of the model is sharded: call torch.distributed.fsdp.fully_shard first")
    if not all(hasattr(module, "set_custom_reduce_scatter") for module in found.values()):
        raise ArgumentError(f"PyTorch {torch.__version__} has no set_custom_reduce_scatter: this needs PyTorch 2.8 or later")
    return found


class SparseReduceScatter:
    """What fully_shard calls for the gradients of one module, of which each rank gets its shard: a ReduceScatter of PyTorch."""

    def __init__(self, comm: Communicator, name: str, density: float, min_elements: int, keywords: Mapping[str, Any]) -> None:
        self._comm, self._name, self._density, self._min_elements = comm, name, density, min_elements
        self._keywords = keywords
        self.plan: Optional[AllreducePlan] = None  # made in the first backward pass, which knows the number of elements
        self.saved: Optional[bytes] = None  # for a plan that does not exist yet

    def allocate(self, size: Any, *, dtype: Any, device: Any) -> Any:
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(self, output_tensor: Any, input_tensor: Any, group: Any, op: Any, async_op: bool = False) -> None:
        gradient = input_tensor.to(SUM_TYPES.get(input_tensor.dtype, input_tensor.dtype))
        if self.plan is None:
            self._make_plan(gradient, group, op)
        assert self.plan is not None
        indices, values = self.plan.run_sparse(gradient)
        shard = output_tensor.numel()
        first = group.rank() * shard  # the communicator may order the ranks in another way
        output_tensor.zero_()
        if gradient.is_cuda:
            indices, values = torch.as_tensor(indices, device=gradient.device), torch.as_tensor(values, device=gradient.device)
            mine = (indices.to(torch.int64) >= first) & (indices.to(torch.int64) < first + shard)
            output_tensor[indices.to(torch.int64)[mine] - first] = values[mine].to(output_tensor.dtype)
            return
        begin, end = np.searchsorted(indices, [first, first + shard])
        at = torch.from_numpy(indices[begin:end].astype(np.int64) - first)
        output_tensor[at] = torch.from_numpy(np.array(values[begin:end])).to(output_tensor.dtype)

    def _make_plan(self, gradient: Any, group: Any, op: Any) -> None:
        if group.size() != self._comm.size:
            raise ArgumentError(
                f"'{self._name}' is sharded over {group.size()} ranks, and the communicator has {self._comm.size}: give a "
                "communicator of the ranks of its mesh"
            )
        everything = gradient.numel() < self._min_elements
        self.plan = AllreducePlan(
            self._comm,
            count=gradient.numel(),
            type=gradient.dtype,
            memory="cuda" if gradient.is_cuda else "host",
            average=op == dist.ReduceOp.AVG,
            density=1.0 if everything else self._density,
            name=self._name,
            **self._keywords,
        )
        if self.saved is not None:
            self.plan.restore_state(self.saved)
            self.saved = None


class ShardedGradients:
    """The sparse exchange of a model that fully_shard has divided. fsdp_hook() makes one."""

    def __init__(
        self, model: Any, comm: Optional[Communicator] = None, *, density: float = 0.01, min_elements: int = 8192, **keywords: Any
    ) -> None:
        self._comm = everybody() if comm is None else comm
        problem: Optional[Exception] = None
        modules: Dict[str, Any] = {}
        try:
            known = [name for name in AllreduceConfig._kinds if name not in FIXED]
            refuse_unknown("fsdp_hook", keywords, [*known, "density", "min_elements"])
            min_elements = whole_number("min_elements", min_elements, 64)
            modules = sharded_modules(model)
        except Exception as error:
            problem = error
        self._agree(problem)
        self._parts = {
            name: SparseReduceScatter(self._comm, f"gradients of {name or 'the model'}", density, min_elements, keywords)
            for name in modules
        }
        for name, module in modules.items():
            module.set_custom_reduce_scatter(self._parts[name])

    def _agree(self, problem: Optional[Exception]) -> None:
        """Raises on all ranks if any has a problem."""
        texts = self._comm.allgather(str(problem or "").encode()[:1000])
        if problem is not None:
            raise problem
        for rank, text in enumerate(texts):
            if text:
                raise ArgumentError(f"fsdp_hook: rank {rank}: {text.decode(errors='replace')}")

    @property
    def plans(self) -> Dict[str, AllreducePlan]:
        """The plans by the names of their modules; none before the first backward pass."""
        return {name: part.plan for name, part in self._parts.items() if part.plan is not None}

    def state_dict(self) -> Dict[str, Any]:
        """Collective. Returns this rank's residuals, for torch.save. They fit the same number of ranks only."""
        states = {name: np.frombuffer(plan.save_state(), np.uint8).copy() for name, plan in self.plans.items()}
        return {"version": 1, "rank": self._comm.rank, "ranks": self._comm.size,
                "modules": {name: torch.from_numpy(state) for name, state in states.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Collective. Restores what state_dict() of this rank has returned, also before the first backward pass."""
        where = (entry_of("the state", state, "rank", int), entry_of("the state", state, "ranks", int))
        if where != (self._comm.rank, self._comm.size):
            raise ArgumentError(f"the state is that of rank {where[0]} of {where[1]}: this is rank {self._comm.rank} of {self._comm.size}")
        modules = entry_of("the state", state, "modules", Mapping)
        unknown = next((name for name in modules if name not in self._parts), None)
        if unknown is not None:
            raise ArgumentError(f"the state has a module '{unknown}': the model has no such module that is sharded")
        for name in modules:
            part, data = self._parts[name], entry_of("the state", modules, name, torch.Tensor).cpu().numpy().tobytes()
            if part.plan is None:
                part.saved = data
            else:
                part.plan.restore_state(data)

    def close(self) -> None:
        """Ends the plans; what waits in residuals is lost. The model cannot run backward() any more."""
        for plan in self.plans.values():
            plan.close()


def fsdp_hook(model: Any, comm: Optional[Communicator] = None, **keywords: Any) -> ShardedGradients:
    """Collective. Makes the backward pass of a model that torch.distributed.fsdp.fully_shard has divided exchange gradients sparsely:

        for layer in model.layers:
            fully_shard(layer)
        fully_shard(model)
        gradients = weir.torch.fsdp_hook(model, density=0.01)     # the rest of the program stays as it is

    For each sharded module, the ranks' `density` largest gradients travel in place of all, each rank keeps those of its shard, and
    the rest waits in the rank's residual, which is as large as the module's gradients. Modules of fewer than `min_elements` elements
    travel whole. The exchange of a module ends before the backward pass goes on.

    `comm` has the ranks over which the model is sharded, by default all. Further keywords are those of weir.AllreducePlan:
    algorithm, wire_values, warmup_iterations and so on. Keep what this returns, for state_dict(). Raises ArgumentError on all ranks
    if no module is sharded. Needs PyTorch 2.8 or later, and one group of parameters a module. Tested on the CPU.
    """
    return ShardedGradients(model, comm, **keywords)
