"""Sparse gradients under PyTorch's fully_shard (FSDP2)."""
from __future__ import annotations

import json
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple

import numpy as np
import torch
import torch.distributed as dist

from ._struct import refuse_unknown, whole_number
from ._torch_models import SUM_TYPES, entry_of
from ._torch_start import everybody
from ._types import AllreduceConfig, ArgumentError, Feedback
from .communicator import Communicator
from .plan import AllreducePlan
from .registry import algorithms

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


def own_parameters(module: Any, wrapped: Iterable[Any]) -> Iterator[Any]:
    """Yields the parameters of a sharded module that no sharded module within it has."""
    yield from module.parameters(recurse=False)
    for child in module.children():
        if child not in wrapped:
            yield from own_parameters(child, wrapped)


def shard_ranks(name: str, module: Any, wrapped: Iterable[Any]) -> List[int]:
    """Returns the ranks of torch.distributed over which a module is sharded, in order; none if its mesh does not say."""
    from torch.distributed.tensor import DTensor

    parameter = next((one for one in own_parameters(module, wrapped) if isinstance(one, DTensor)), None)
    if parameter is None:
        return []
    mesh, placements = parameter.device_mesh, parameter.placements
    if mesh.ndim > 1 and placements[0].is_replicate():
        raise ArgumentError(
            f"{name or 'the model'} is sharded by a mesh of {mesh.ndim} dimensions, and PyTorch itself averages its gradients over "
            "the first one: give fully_shard the dimension of the shards alone, such as mesh['shard']"
        )
    return list(dist.get_process_group_ranks(mesh.get_group())) if mesh.ndim == 1 else []


class Part:
    """The exchange of one module's gradients, by a plan."""

    def __init__(self, comm: Communicator, name: str, density: float, min_elements: int, keywords: Mapping[str, Any]) -> None:
        self._comm, self._name, self._density, self._min_elements = comm, name, density, min_elements
        self._keywords = keywords
        self.plan: Optional[AllreducePlan] = None  # made in the first backward pass, which knows the number of elements
        self.saved: Optional[bytes] = None  # for a plan that does not exist yet

    def _plan_for(self, gradient: Any, average: bool) -> AllreducePlan:
        if self.plan is None:
            everything = gradient.numel() < self._min_elements
            self.plan = AllreducePlan(
                self._comm,
                count=gradient.numel(),
                type=gradient.dtype,
                memory="cuda" if gradient.is_cuda else "host",
                average=average,
                density=1.0 if everything else self._density,
                name=self._name,
                **self._keywords,
            )
            if self.saved is not None:
                self.plan.restore_state(self.saved)
                self.saved = None
        return self.plan


def always_sparse(config: AllreduceConfig) -> bool:
    """Returns whether every run of a plan with this configuration in force has a sparse update."""
    sparse = any(info.sparse for info in algorithms() if info.name == config.algorithm)
    return sparse and config.error_feedback != Feedback.ef21 and config.dense_iterations == 0


class SparseReduceScatter(Part):
    """What fully_shard calls for the gradients of one module, of which each rank gets its shard: a ReduceScatter of PyTorch."""

    def allocate(self, size: Any, *, dtype: Any, device: Any) -> Any:
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(self, output_tensor: Any, input_tensor: Any, group: Any, op: Any, async_op: bool = False) -> None:
        if group.size() != self._comm.size:
            raise ArgumentError(
                f"'{self._name}' is sharded over {group.size()} ranks, and the communicator has {self._comm.size}: give a "
                "communicator of the ranks of its mesh"
            )
        gradient = input_tensor.to(SUM_TYPES.get(input_tensor.dtype, input_tensor.dtype))
        plan = self._plan_for(gradient, op == dist.ReduceOp.AVG)
        shard = output_tensor.numel()
        first = group.rank() * shard  # the communicator may order the ranks in another way
        if not always_sparse(plan.config):
            plan.run(gradient)  # overwrites a copy that PyTorch has made for this exchange
            output_tensor.copy_(gradient.view(-1)[first : first + shard].view_as(output_tensor))
            return
        indices, values = plan.run_sparse(gradient)
        output_tensor.zero_()
        if gradient.is_cuda:
            indices, values = torch.as_tensor(indices, device=gradient.device), torch.as_tensor(values, device=gradient.device)
            mine = (indices.to(torch.int64) >= first) & (indices.to(torch.int64) < first + shard)
            output_tensor[indices.to(torch.int64)[mine] - first] = values[mine].to(output_tensor.dtype)
            return
        begin, end = np.searchsorted(indices, [first, first + shard])
        at = torch.from_numpy(indices[begin:end].astype(np.int64) - first)
        output_tensor[at] = torch.from_numpy(np.array(values[begin:end])).to(output_tensor.dtype)


class SparseReplicas(Part):
    """What fully_shard calls for a rank's shard of the gradients of one module, once PyTorch has summed it over the ranks of the
    shards: an all-reduce hook of PyTorch. Averages over the ranks that have the same shard."""

    def __call__(self, reduce_output: Any) -> None:
        gradient = reduce_output.to(SUM_TYPES.get(reduce_output.dtype, reduce_output.dtype))
        self._plan_for(gradient, True).run(gradient)
        if gradient is not reduce_output:
            reduce_output.copy_(gradient)


class ShardedGradients:
    """The sparse exchange of a model that fully_shard has divided. fsdp_hook() makes one."""

    def __init__(
        self, model: Any, comm: Optional[Communicator] = None, *, density: float = 0.01, min_elements: int = 8192, **keywords: Any
    ) -> None:
        self._comm = everybody() if comm is None else comm
        problem: Optional[Exception] = None
        modules: Dict[str, Any] = {}
        shards: Dict[str, List[int]] = {}
        try:
            known = [name for name in AllreduceConfig._kinds if name not in FIXED]
            refuse_unknown("fsdp_hook", keywords, [*known, "density", "min_elements"])
            min_elements = whole_number("min_elements", min_elements, 64)
            modules = sharded_modules(model)
            wrapped = set(modules.values())
            shards = {name: shard_ranks(name, module, wrapped) for name, module in modules.items()}
        except Exception as error:
            problem = error
        self._agree(problem)
        replicas = self._replicas(shards)
        self._subgroups: Dict[Tuple[int, ...], Communicator] = {}
        self._parts: Dict[str, Part] = {}
        for name, module in modules.items():
            settings = (f"gradients of {name or 'the model'}", density, min_elements, keywords)
            if name in replicas:
                module.set_all_reduce_hook(self._part(name, SparseReplicas(self._subgroup(replicas[name]), *settings)))
            else:
                module.set_custom_reduce_scatter(self._part(name, SparseReduceScatter(self._comm, *settings)))

    def _part(self, name: str, part: Part) -> Part:
        self._parts[name] = part
        return part

    def _subgroup(self, ranks: Tuple[int, ...]) -> Communicator:
        if ranks not in self._subgroups:
            self._subgroups[ranks] = self._comm.subgroup(ranks)
        return self._subgroups[ranks]

    def _replicas(self, shards: Mapping[str, List[int]]) -> Dict[str, Tuple[int, ...]]:
        """Returns the ranks of the communicator that have the same shard as this one, by module; none for a module that is sharded
        over all ranks. Collective. Raises on all ranks if shards and communicator do not fit."""
        me = dist.get_rank()
        texts = self._comm.allgather(json.dumps([me, list(shards.values())]).encode())
        told = [json.loads(text) for text in texts]
        where = {torch_rank: rank for rank, (torch_rank, _) in enumerate(told)}
        replicas: Dict[str, Tuple[int, ...]] = {}
        problem: Optional[Exception] = None
        for number, (name, mine) in enumerate(shards.items()):
            groups = [meshes[number] if number < len(meshes) else [] for _, meshes in told]
            if not mine:
                continue
            if any(len(group) != len(mine) or not where.keys() >= set(group) for group in groups) or self._comm.size % len(mine):
                problem = ArgumentError(
                    f"{name or 'the model'} is sharded over the ranks {mine} of torch.distributed, and the communicator has the "
                    f"ranks {sorted(where)}: give one of the ranks of its mesh, or of all ranks of several copies of the model"
                )
                break
            if len(mine) < self._comm.size:
                place = mine.index(me)
                replicas[name] = tuple(rank for rank, group in enumerate(groups) if group[place] == told[rank][0])
        self._agree(problem)
        return replicas

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
        for subgroup in self._subgroups.values():
            subgroup.close()


def fsdp_hook(model: Any, comm: Optional[Communicator] = None, **keywords: Any) -> ShardedGradients:
    """Collective. Makes the backward pass of a model that torch.distributed.fsdp.fully_shard has divided exchange gradients sparsely:

        for layer in model.layers:
            fully_shard(layer)
        fully_shard(model)
        gradients = weir.torch.fsdp_hook(model, density=0.01)     # the rest of the program stays as it is

    For each sharded module, the ranks' `density` largest gradients travel in place of all, each rank keeps those of its shard, and
    the rest waits in the rank's residual, which is as large as the module's gradients. The exchange of a module ends before the
    backward pass goes on.

    Hybrid sharding (HSDP) has a copy of the model on each node, sharded over the ranks of the node. Give fully_shard the dimension
    of the shards alone:

        mesh = init_device_mesh("cuda", (nodes, gpus), mesh_dim_names=("replicate", "shard"))
        fully_shard(model, mesh=mesh["shard"])
        gradients = weir.torch.fsdp_hook(model, density=0.01)

    PyTorch then sums gradients within a node as before, and this averages each rank's shard over the ranks that have the same one,
    also after set_gradient_divide_factor. Residuals are as large as the shards.

    `comm` has the ranks over which the model is sharded, or those of all its copies; by default all ranks. Exchanges of fewer than
    `min_elements` elements are whole. Further keywords are those of weir.AllreducePlan: algorithm, wire_values, warmup_iterations
    and so on. Keep what this returns, for state_dict(). Raises ArgumentError on all ranks if no module is sharded. Needs PyTorch
    2.8 or later, and one group of parameters a module. Tested on the CPU.
    """
    return ShardedGradients(model, comm, **keywords)
