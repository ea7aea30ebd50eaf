"""Sparse exchange of a PyTorch model's gradients, under DistributedDataParallel and in plain training loops. Import it by name:

    import weir.torch

    model = DistributedDataParallel(model)
    model.register_comm_hook(*weir.torch.ddp_hook(model, density=0.01))

    fully_shard(model)
    gradients = weir.torch.fsdp_hook(model, density=0.01)     # the same for FSDP2

    weir.torch.all_reduce_gradients(model, density=0.01)      # a plain loop: between backward() and the optimizer's step()

    gradients = weir.torch.fuse_gradients(model, density=0.01)
    loss.backward(); gradients.wait_all(); optimizer.step()   # the same, exchanged while backward() computes

    optimizer = weir.torch.LayerOptimizer(model, lr=0.1)      # LARS or LAMB, whose work the ranks share
    embed = weir.torch.Embedding(32000, 512, largest_batch=4096)    # a table that is divided among the ranks

    diloco = weir.torch.DiLoCo(model, optimizer, H=30)        # steps of each rank's own, and an exchange every 30 of them

The part of a gradient that is not delivered waits in a residual of its parameter. Optimizers get the ranks' averaged sparse update,
which is 0 where nothing was delivered. To save, use state_dict() and load_state_dict() of a GradientAllreduce or a DiLoCo; the
`allreduce` of FusedGradients goes into a weir.Checkpoint.

Needs PyTorch 1.13 or later. torchrun or mpirun starts the programs. Under mpirun, init_process_group() makes the process group that
DDP needs for itself; under torchrun, torch.distributed's own does.
"""
from __future__ import annotations

import contextlib
import weakref
from typing import Any, Callable, Collection, ContextManager, Dict, Iterator, List, Mapping, Optional, Tuple

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ._object import refuse_making
from ._struct import refuse_unknown, whole_number
from ._torch_diloco import DiLoCo
from ._torch_embedding import Embedding
from ._torch_fsdp import ShardedGradients, fsdp_hook
from ._torch_models import SUM_TYPES, contiguous, entry_of, parameters_of, trainable
from ._torch_optimizer import LayerOptimizer
from ._torch_start import everybody, init_process_group, register_backend
from ._types import AllreduceConfig, ArgumentError, BusyError, Error, FusedTensor, FusionConfig
from .communicator import Communicator, handle_of
from .fusion import FusedAllreduce
from .operation import Operation
from .plan import AllreducePlan

__all__ = [
    "DiLoCo",
    "Embedding",
    "FusedGradients",
    "GradientAllreduce",
    "LayerOptimizer",
    "ShardedGradients",
    "all_reduce_gradients",
    "ddp_hook",
    "fsdp_hook",
    "fuse_gradients",
    "init_process_group",
]

register_backend()
STATE_VERSION = 1
RENEW = "call close(), and make a new one, on all ranks"


class Group:
    """Parameters whose gradients share a plan: they lie one after another in one array."""

    def __init__(self, comm: Communicator, name: str, parameters: Dict[str, Any], keywords: Mapping[str, Any]) -> None:
        first = next(iter(parameters.values()))
        elements = sum(parameter.numel() for parameter in parameters.values())
        self.keywords = dict(keywords)
        self.flat = torch.zeros(elements, dtype=SUM_TYPES[first.dtype], device=first.device)
        self.plan = AllreducePlan(
            comm, count=elements, type=self.flat.dtype, memory="cuda" if self.flat.is_cuda else "host", name=name, **keywords
        )
        self.carried: Optional[Any] = None  # what the next run adds to the gradients
        self.late: Optional[Any] = None  # delivered in steps that an overflow has made useless
        self.pending = False  # a step that has begun, and not ended
        self.last: Any = None  # the plan's run before this step
        self.operation: Optional[Operation[Any]] = None
        self.failure: Optional[Error] = None  # what this step has ended with
        self.gradients: Dict[str, Any] = {}  # of this step, those that have arrived
        self.views = self.split(self.flat, parameters)

    @staticmethod
    def split(flat: Any, parameters: Mapping[str, Any]) -> Dict[str, Any]:
        """Returns `flat` by parameter, in the parameters' shapes."""
        parts = flat.split([parameter.numel() for parameter in parameters.values()])
        return {name: part.view(parameter.shape) for (name, parameter), part in zip(parameters.items(), parts)}

    def take(self, name: str, gradient: Any) -> None:
        """Takes a gradient. The last one starts the plan."""
        if not self.pending:
            self.prepare({})
        self.views[name].copy_(gradient)
        self.gradients[name] = gradient
        if len(self.gradients) == len(self.views):
            self.start()

    def prepare(self, gradients: Mapping[str, Any]) -> None:
        """Begins a step with these gradients."""
        self.gradients = {name: gradients[name] for name in self.views if name in gradients}
        self.operation = self.failure = None
        self.last = self.plan._last_run()
        self.pending = True

    def started(self) -> bool:
        """Returns whether the plan has been started in this step, or failed to."""
        return self.failure is not None or self.plan._last_run() is not self.last

    def take_all(self) -> None:
        """Does the same as take() for gradients that are all there. May be called again if Ctrl-C has ended it."""
        if self.pending and not self.started():
            for name, gradient in self.gradients.items():
                self.views[name].copy_(gradient)
            self.start()

    def start(self) -> None:
        if self.carried is not None:
            self.flat.add_(self.carried)
        self.begin(self.flat)

    def refuse(self) -> None:
        """Takes part without a gradient, so that all ranks end this step with an error."""
        if self.pending and not self.started():
            self.begin(None)

    def begin(self, flat: Any) -> None:
        try:
            self.operation = self.plan.start(flat)
        except Error as error:  # out of a hook, PyTorch 1.13 would make a RuntimeError of it
            self.failure = error

    def wait(self) -> None:
        """Waits for the run of this step. May be called again if Ctrl-C has ended it."""
        if self.pending and self.started() and self.failure is None:
            try:
                # Where Ctrl-C has ended start(), there is no operation.
                (self.operation or self.plan).wait()
            except Error as error:
                self.failure = error

    def skipped(self) -> bool:
        """Returns whether the run that wait() has waited for met NaN or infinity on some rank, and delivered nothing."""
        return self.pending and self.started() and self.failure is None and self.plan.statistics.skipped

    def finish(self, unused: Collection[str], overflow: bool) -> None:
        """Ends a step after wait(). Writes the update over the gradients; after an overflow, infinity: the update then adds to the
        next one. What is delivered to unused parameters is kept on each rank, since the next run averages it again. May be called
        again if Ctrl-C has ended it."""
        if not self.pending or not self.started():
            return
        if self.failure is None:
            skipped = self.plan.statistics.skipped
            if not skipped:
                self.carried = None
            if overflow:
                for gradient in self.gradients.values():
                    gradient.fill_(float("inf"))
                self.late = self.flat.clone() if self.late is None else self.late + self.flat
            else:
                if self.late is not None:
                    self.flat.add_(self.late)
                    self.late = None
                for name, gradient in self.gradients.items():
                    gradient.copy_(self.views[name])
                self.keep([name for name in self.views if name in unused])
        self.pending = False
        self.gradients = {}

    def keep(self, unused: Collection[str]) -> None:
        if not unused:
            return
        if self.carried is None:
            self.carried = torch.zeros_like(self.flat)
        carried = self.split(self.carried, self.views)
        for name in unused:
            carried[name].add_(self.views[name])
            self.gradients[name].zero_()

    def scale(self, factor: float) -> None:
        self.plan.scale_residual(factor)
        for kept in (self.carried, self.late):
            if kept is not None:
                kept.mul_(factor)

    def restore(self, saved: Mapping[str, Any]) -> None:
        self.plan.restore_state(saved["state"].cpu().numpy().tobytes())
        self.carried, self.late = (
            None if saved.get(name) is None else saved[name].to(self.flat.device) for name in ("carried", "late")
        )

    def residuals(self) -> Dict[str, Any]:
        """Returns what waits here on this rank, by parameter, in host memory."""
        begin, values = self.plan.residual
        whole = torch.zeros(self.flat.numel(), dtype=self.flat.dtype)
        if values.shape[0]:
            here = torch.as_tensor(values, device=self.flat.device) if self.flat.is_cuda else torch.tensor(values)
            whole[begin : begin + values.shape[0]] = here
        for kept in (self.carried, self.late):
            if kept is not None:
                whole += kept.cpu()
        return self.split(whole, self.views)

    def carry(self, residuals: Mapping[str, Any]) -> None:
        """Starts the plan anew, with these residuals in its next gradient."""
        self.plan.reset()
        self.carried, self.late = torch.zeros_like(self.flat), None
        for name, view in self.split(self.carried, self.views).items():
            if name in residuals:
                view.copy_(residuals[name])


class GradientAllreduce:
    """Averages the gradients of a model over the ranks, sparsely. ddp_hook() makes one for DistributedDataParallel. In a plain
    loop:

        gradients = weir.torch.GradientAllreduce(model, density=0.01)
        loss.backward()
        gradients.run()
        optimizer.step()

    Parameters that need gradients are put into groups of up to `group_elements` elements. The last ones come first, since their
    gradients do; a larger parameter is a group of its own. A group is one array and one weir.AllreducePlan, which delivers the
    `density` largest of its entries. Larger groups need fewer messages; several groups let the exchange begin before the backward
    pass has ended. Parameters of fewer than `min_elements` elements, such as biases and norms, travel dense, all in one message.

    With a GradScaler, give it as `scaler`, and exchange before it looks at the gradients, here as under DDP:

        gradients = weir.torch.GradientAllreduce(model, density=0.01, scaler=scaler)
        scaler.scale(loss).backward()
        gradients.run()                     # not with DDP, whose backward() exchanges
        scaler.unscale_(optimizer)          # if gradients are clipped
        scaler.step(optimizer)
        scaler.update()

    An overflow on any rank becomes infinity on all: all skip the step, and all lower their scales. What waits in residuals follows
    the scale.

    `comm` is a weir.Communicator, by default one of all ranks. Further keywords are those of weir.AllreducePlan: algorithm,
    wire_values, warmup_iterations and so on. They do not include `count`, `type`, `memory` and `average`.

    A GradientAllreduce is made for the parameters that need gradients then. If others need them later, or some are replaced or
    resized, run() raises on all ranks: call close(), and make a new one. state_dict() and load_state_dict() take residuals along,
    if the parameters that have them keep names and shapes.

    Making it is collective; so are run() and each backward pass of a model that has its hook. All ranks have the same model. It
    belongs to one thread at a time. In CUDA memory, the current stream orders work. Besides the plans it holds a copy of the
    gradients. It does not broadcast initial parameters: DDP does that; a plain loop must, or seed all ranks with the same number.
    """

    def __init__(
        self,
        model: Any,
        comm: Optional[Communicator] = None,
        *,
        density: float = 0.01,
        min_elements: int = 8192,
        group_elements: int = 1 << 22,
        scaler: Any = None,
        **keywords: Any,
    ) -> None:
        self._comm = everybody() if comm is None else comm
        handle = handle_of(self._comm)
        try:
            keywords = with_scaler(scaler, keywords)
            refuse_keywords(type(self).__name__, keywords, min_elements, group_elements)
            parameters = parameters_of(model)
        except Exception as error:
            refuse_making(handle, "plan", error)
        first = next(iter(parameters.values()))
        self._model = weakref.ref(model)
        self._names = {id(parameter): name for name, parameter in parameters.items()}
        self._number_of = {name: number for number, name in enumerate(parameters)}
        self._parameters = parameters
        self._cuda = torch.cuda.Stream(first.device) if first.is_cuda else None
        self._devices = [first.device] if first.is_cuda else []
        self._groups: List[Group] = []
        self._group_of: Dict[str, Group] = {}
        self._scale = Scale(scaler)
        self._running = False  # run() has begun, and not ended
        self._problem: Optional[Exception] = None  # why this rank takes no part in that run
        self._closed = False
        self._in_flight: List[Tuple[Any, Any]] = []  # futures of DDP's buckets, and the buckets' memory
        self._ends_in_hook = False  # the last bucket's hook waits
        self._use: Optional[AllreducePlan] = None  # sums up how many ranks use each parameter
        self._used = np.zeros(len(parameters), np.float32)
        sparse = {"density": density, **keywords}
        # Dense algorithms in CUDA memory need NCCL; a sparse one that delivers everything does not.
        everything = {"algorithm": "topk_dsa", "density": 1.0} if first.is_cuda else {"algorithm": "dense_rabenseifner"}
        dense = {**everything, "error_feedback": False, "priority": keywords.get("priority", 0)}
        if "non_finite" in keywords:
            dense["non_finite"] = keywords["non_finite"]
        with self._stream():
            for dtype in dict.fromkeys(parameter.dtype for parameter in parameters.values()):
                ours = {name: parameter for name, parameter in parameters.items() if parameter.dtype == dtype}
                for members in in_groups(ours, min_elements, group_elements):
                    self._add(members, sparse)
                small = {name: parameter for name, parameter in ours.items() if 0 < parameter.numel() < min_elements}
                if small:
                    self._add(small, dense)

    def _find_unused(self) -> None:
        """Prepares to find unused parameters: DDP will throw away what is delivered to parameters that no rank has used."""
        self._use = AllreducePlan(
            self._comm, count=self._used.size, algorithm="dense_rabenseifner", average=False, name="used parameters"
        )

    def _unused(self) -> List[str]:
        """Returns the parameters whose gradient is 0 on all ranks, since DDP does not say whether they have been used."""
        if self._use is None:
            return []
        self._use.run(self._used)
        return [name for name, ranks in zip(self._parameters, self._used) if ranks == 0]

    def _add(self, parameters: Dict[str, Any], keywords: Mapping[str, Any]) -> None:
        group = Group(self._comm, f"gradients {len(self._groups)}", parameters, keywords)
        self._groups.append(group)
        self._group_of.update(dict.fromkeys(parameters, group))

    def run(self) -> None:
        """Collective. Overwrites each parameter's `grad` with the update. A `grad` of None counts as 0, and is made.

        ArgumentError on all ranks if one rank's model no longer has the parameters that it had when this was made: others need
        gradients, some were replaced, or have another shape. If Ctrl-C ends it, it is still in flight: wait() goes on with it.
        """
        self._run(None)

    def wait(self) -> None:
        """Goes on with a run() that Ctrl-C has ended, and raises its error. Does nothing without such a run."""
        if not self._running:
            return
        with self._stream():
            for group in self._groups:
                if self._problem is None:
                    group.take_all()
                else:
                    group.refuse()
            failure = self._finish_groups(())
        if self._cuda is not None:
            torch.cuda.current_stream(self._cuda.device).wait_stream(self._cuda)
        self._running = False
        if self._problem is not None:
            raise self._problem from failure
        if failure is not None:
            raise failure

    def _run(self, problem: Optional[Exception]) -> None:
        if self._running:
            raise BusyError("a run() of these gradients was interrupted, and is still in flight: call wait()")
        try:
            self._refuse_changes()
            self._follow_scale()
            gradients = {name: self._gradient(name) for name in self._group_of}
        except Exception as error:  # the other ranks wait for this one
            problem, gradients = problem or error, {}
        for group in self._groups:
            group.prepare(gradients)
        self._problem = problem
        self._running = True
        self.wait()

    def _refuse_changes(self) -> None:
        """Refuses changes of the model's parameters: what is not exchanged would differ between ranks."""
        model = self._model()
        if model is None:
            return
        now = trainable(model)
        if len(now) == len(self._parameters) and all(now.get(name) is parameter for name, parameter in self._parameters.items()):
            return
        changed = [name for name in {**self._parameters, **now} if now.get(name) is not self._parameters.get(name)]
        raise ArgumentError(
            f"the model's parameters that need gradients have changed since this was made ({shortened(changed)}): {RENEW}"
        )

    def _gradient(self, name: str) -> Any:
        parameter, shape = self._parameters[name], self._group_of[name].views[name].shape
        if parameter.shape != shape:
            raise ArgumentError(
                f"the parameter '{name}' has the shape {tuple(parameter.shape)}, and had {tuple(shape)} when this was made: {RENEW}"
            )
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        refuse_sparse(name, parameter.grad)
        if parameter.grad.shape != shape:
            raise ArgumentError(
                f"the gradient of '{name}' has the shape {tuple(parameter.grad.shape)}: the parameter has {tuple(shape)}"
            )
        return parameter.grad.detach()

    def _finish_groups(self, unused: Collection[str]) -> Optional[Error]:
        """Finishes all groups, even if one ends with an error, and returns the first error. The next step must find no group in
        flight."""
        for group in self._groups:
            group.wait()
        overflow = self._scale.scaler is not None and any(group.skipped() for group in self._groups)
        for group in self._groups:
            group.finish(unused, overflow)
        return next((group.failure for group in self._groups if group.failure is not None), None)

    def _follow_scale(self) -> None:
        """Follows the scale of the scaler, between steps."""
        factor = self._scale.change()
        if factor != 1:
            for group in self._groups:
                group.scale(factor)

    def _stream(self) -> ContextManager[Any]:
        """Returns the context of the stream on which everything happens in CUDA memory, after what is on the current one."""
        if self._cuda is None:
            return contextlib.nullcontext()
        self._cuda.wait_stream(torch.cuda.current_stream(self._cuda.device))
        return torch.cuda.stream(self._cuda)  # type: ignore[no-any-return]

    def _reduce(self, bucket: Any) -> Any:
        """Takes a bucket of DDP that is ready. Its future is set at the end of the backward pass, when DDP begins to wait."""
        if bucket.index() == 0:
            try:
                # DDP queues its own after the last bucket; they are called in turn.
                torch.autograd.Variable._execution_engine.queue_callback(self._finish)
            except RuntimeError:  # no backward pass: DDP shadows those of other ranks, in join()
                self._ends_in_hook = True
            self._follow_scale()
        future = torch.futures.Future(devices=self._devices) if self._devices else torch.futures.Future()
        self._in_flight.append((future, bucket.buffer()))
        with self._stream():
            for parameter, gradient in zip(bucket.parameters(), bucket.gradients()):
                self._take_from_ddp(parameter, gradient)
            self._progress()
        if self._ends_in_hook and bucket.is_last():
            self._finish()
            self._ends_in_hook = False
        return future

    def _take_from_ddp(self, parameter: Any, gradient: Any) -> None:
        name = self._names.get(id(parameter))
        if name is None:
            raise ArgumentError("a bucket has a parameter that the hook's model has not: make the hook of this model")
        if name in self._group_of:
            refuse_sparse(name, gradient)
            self._group_of[name].take(name, gradient.detach())
        if self._use is not None:
            self._used[self._number_of[name]] = bool(gradient.any())

    def _progress(self) -> None:
        """Makes progress: that of any plan is that of all. finish() raises errors."""
        with contextlib.suppress(Error):
            for group in self._groups:
                if group.operation is not None and not group.operation.test():
                    return

    def _finish(self) -> None:
        if not self._in_flight:
            return
        with self._stream():
            failure = self._finish_groups(self._unused())
            if failure is not None:
                raise failure
            for future, buffer in self._in_flight:
                future.set_result(buffer)
        self._in_flight = []

    @property
    def plans(self) -> Dict[str, AllreducePlan]:
        """The plans by their names, "gradients 0" and so on: for statistics and explanation()."""
        return {group.plan.config.name: group.plan for group in self._groups}

    @property
    def bytes_sent(self) -> int:
        """Bytes that this rank sent in the last step, of all groups together."""
        return sum(sum(group.plan.statistics.bytes_sent.values()) for group in self._groups)

    def state_dict(self) -> Dict[str, Any]:
        """Returns what lives from one step to the next on this rank, for torch.save. Every rank saves its own, after the same step.

        "residual" has a tensor for each parameter that travels sparsely, of its shape and in host memory. "groups" has what else is
        needed to go on bit for bit. Together they take twice the size of the parameters. Residuals are of the scale that the scaler
        has: save and load both, at the same place of the loop.
        """
        self._follow_scale()
        residual: Dict[str, Any] = {}
        groups = []
        for group in self._groups:
            if group.plan.residual.values.shape[0] or group.carried is not None or group.late is not None:
                residual.update(group.residuals())
            groups.append(
                {
                    "parameters": list(group.views),
                    "keywords": plain(group.keywords),
                    "state": torch.from_numpy(np.frombuffer(bytearray(group.plan.save_state()), np.uint8)),
                    "carried": None if group.carried is None else group.carried.cpu(),
                    "late": None if group.late is None else group.late.cpu(),
                }
            )
        return {"version": STATE_VERSION, "rank": self._comm.rank, "ranks": self._comm.size, "residual": residual, "groups": groups}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Not collective. Goes on where state_dict() was called, with as many ranks, each with its own state, all at the same step.
        With the same keywords the next step has the same bits. With others, or other groups, residuals find their parameters, while
        thresholds and schedules start anew. ArgumentError if the state is of another rank or model, or damaged, and BusyError while
        a run is in flight; then nothing changes."""
        self._check_state(state)
        layout = [(group["parameters"], group["keywords"]) for group in state["groups"]]
        same = layout == [(list(group.views), plain(group.keywords)) for group in self._groups]
        if same:
            for group, saved in zip(self._groups, state["groups"]):
                for name in ("carried", "late"):
                    check_carried(group, saved.get(name))
        before = [(group.plan.save_state(), group.carried, group.late) for group in self._groups]
        try:
            for number, group in enumerate(self._groups):
                if same:
                    group.restore(state["groups"][number])
                else:
                    group.carry(state["residual"])
        except BaseException:
            for group, (plan_state, carried, late) in zip(self._groups, before):
                group.plan.restore_state(plan_state)
                group.carried, group.late = carried, late
            raise

    def _check_state(self, state: Mapping[str, Any]) -> None:
        if entry_of("the state", state, "version", object, required=False) != STATE_VERSION:
            raise ArgumentError(f"the state has the version {state.get('version')}: this Weir reads {STATE_VERSION}")
        of = entry_of("the state", state, "rank", int), entry_of("the state", state, "ranks", int)
        mine = (self._comm.rank, self._comm.size)
        if of != mine:
            raise ArgumentError(f"the state is of rank {of[0]} of {of[1]}: this is rank {mine[0]} of {mine[1]}; each loads its own")
        residual = entry_of("the state", state, "residual", Mapping)
        for name in residual:
            parameter = self._parameters.get(name)
            if parameter is None:
                raise ArgumentError(f"the state has a residual of '{name}': the model has no such parameter that needs a gradient")
            values = entry_of("the residual", residual, name, torch.Tensor)
            if values.shape != parameter.shape or not values.is_floating_point():
                raise ArgumentError(
                    f"the residual of '{name}' has the shape {tuple(values.shape)}: the parameter has {tuple(parameter.shape)}"
                    if values.shape != parameter.shape
                    else f"the residual of '{name}' has type {values.dtype}: it must be one of floating point"
                )
        for number, group in enumerate(entry_of("the state", state, "groups", list)):
            what = f"group {number} of the state"
            entry_of(what, group, "parameters", list)
            entry_of(what, group, "keywords", Mapping)
            entry_of(what, group, "carried", (torch.Tensor, type(None)))
            if "late" in group:
                entry_of(what, group, "late", (torch.Tensor, type(None)))
            if entry_of(what, group, "state", torch.Tensor).dtype != torch.uint8:
                raise ArgumentError(f"the plan's state in {what} has type {group['state'].dtype}: it must be uint8")

    def close(self) -> None:
        """Not collective. Ends the plans; what waits in residuals is lost."""
        for group in self._groups:
            group.plan.close()
        if self._use is not None:
            self._use.close()
        self._closed, self._running = True, False

    def __repr__(self) -> str:
        elements = sum(group.flat.numel() for group in self._groups)
        return f"<weir.torch.GradientAllreduce: {elements:,} elements in {len(self._groups)} groups>"


def refuse_keywords(maker: str, keywords: Mapping[str, Any], min_elements: Any, group_elements: Any) -> None:
    for name in ("count", "type", "memory", "average", "name"):
        if name in keywords:
            raise ArgumentError(f"{name} is no keyword here: it follows from the model's parameters")
    refuse_unknown(maker, keywords, [*AllreduceConfig._kinds, "density", "min_elements", "group_elements"])
    for name, value, least in (("min_elements", min_elements, 0), ("group_elements", group_elements, 1)):
        try:
            number = whole_number(name, value, 64)
        except (TypeError, ValueError) as error:
            raise ArgumentError(str(error)) from None
        if number < least:
            raise ArgumentError(f"{name} is {number}: it must be at least {least}")


class Scale:
    """The factor by which a GradScaler multiplies the loss, if there is one."""

    def __init__(self, scaler: Any) -> None:
        self.scaler = scaler
        self._last: Optional[float] = None

    def change(self) -> float:
        """Returns the factor divided by that of the last call; 1 at the first call and without a scaler."""
        if self.scaler is None:
            return 1.0
        last, self._last = self._last, float(self.scaler.get_scale())
        return 1.0 if last is None else self._last / last


def with_scaler(scaler: Any, keywords: Dict[str, Any]) -> Dict[str, Any]:
    """Returns the keywords of a plan whose gradients `scaler` multiplies; without a scaler, `keywords` as they are."""
    if scaler is None:
        return keywords
    if not callable(getattr(scaler, "get_scale", None)):
        raise ArgumentError(f"scaler is of type {type(scaler).__name__}: it must be a torch.cuda.amp.GradScaler, or have its get_scale()")
    given = keywords.get("non_finite", "skip")
    if getattr(given, "name", given) != "skip":
        raise ArgumentError(f"non_finite is {given!r}: with a scaler it must be 'skip'")
    return {**keywords, "non_finite": "skip"}


def check_carried(group: Group, carried: Any) -> None:
    if carried is not None and (carried.shape != group.flat.shape or carried.dtype != group.flat.dtype):
        raise ArgumentError(
            f"what the state carries for '{group.plan.config.name}' has the shape {tuple(carried.shape)} and type {carried.dtype}: "
            f"it must have {tuple(group.flat.shape)} and {group.flat.dtype}"
        )


def shortened(names: List[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def in_groups(parameters: Dict[str, Any], min_elements: int, group_elements: int) -> List[Dict[str, Any]]:
    """Returns the large parameters in groups, last ones first, as many in a group as fit."""
    groups: List[Dict[str, Any]] = []
    elements = 0
    for name, parameter in reversed(list(parameters.items())):
        size = parameter.numel()
        if size == 0 or size < min_elements:
            continue
        if not groups or elements + size > group_elements:
            groups.append({})
            elements = 0
        groups[-1][name] = parameter
        elements += size
    return groups


def refuse_sparse(name: str, gradient: Any) -> None:
    if gradient.is_sparse:
        raise ArgumentError(f"the gradient of '{name}' is sparse: use sparse=False, or a weir.EmbeddingTable")


def plain(keywords: Mapping[str, Any]) -> Dict[str, Any]:
    """Returns values for files: enumerators by name."""
    return {name: getattr(value, "name", value) for name, value in keywords.items()}


def ddp_hook(model: Any, comm: Optional[Communicator] = None, **keywords: Any) -> Tuple[GradientAllreduce, Any]:
    """Collective. Returns a state and a communication hook for a DistributedDataParallel:

        state, hook = weir.torch.ddp_hook(model, density=0.01)
        model.register_comm_hook(state, hook)

    The state is a GradientAllreduce, made with `keywords`. `comm` must have as many ranks as DDP's process group. The hook copies
    what a bucket of DDP has into the groups, in whichever buckets DDP puts parameters. It starts the plans of complete groups, and
    advances those in flight. DDP's futures are set at the end of the backward pass, before DDP waits for them. Gradient
    accumulation under no_sync(), unused parameters, static graphs and join() work as without the hook. So does DDP's mixed
    precision, whose gradients are summed in float32.

    With find_unused_parameters=True, DDP leaves alone the gradient of a parameter that no rank has used; what would be delivered to
    it waits for a step that uses it.

    If the exchange fails (NaN with non_finite="error", a timeout), backward() raises on all ranks, and DDP cannot be used any
    further. Nor can it if Ctrl-C has ended backward(): unlike run(), the exchange cannot be waited for again.
    """
    if comm is None:
        comm = everybody()
    if not isinstance(model, DistributedDataParallel):
        text = f"the model is of type {type(model).__name__}: give the DistributedDataParallel, or use all_reduce_gradients(model)"
        refuse_making(handle_of(comm), "plan", ArgumentError(text))
    ranks = dist.get_world_size(model.process_group)
    if ranks != comm.size:
        raise ArgumentError(
            f"the process group of the model has {ranks} ranks, the communicator {comm.size}: start all ranks by one mpirun or "
            "torchrun, and make both of the same ranks"
        )
    state = GradientAllreduce(model, comm, **keywords)
    # The first backward pass of a static graph waits in the callback that runs all hooks, before later callbacks.
    state._ends_in_hook = bool(model.static_graph)
    if model.find_unused_parameters:
        state._find_unused()
    return state, weir_hook


def weir_hook(state, bucket):  # type: ignore[no-untyped-def]  # DDP refuses annotations that are not its own
    return state._reduce(bucket)


caches: weakref.WeakKeyDictionary[Any, Tuple[Dict[str, Any], GradientAllreduce]] = weakref.WeakKeyDictionary()


def all_reduce_gradients(model: Any, comm: Optional[Communicator] = None, **keywords: Any) -> GradientAllreduce:
    """Collective. Overwrites the gradients of `model` with their averaged sparse update. Call it between backward() and the
    optimizer's step(). The first call makes a GradientAllreduce with `keywords`, which lives as long as the model; every call
    returns it. After its close() the next call makes another one: close it if parameters are unfrozen or replaced. To load a saved
    state before the first step, make a GradientAllreduce yourself. Initial parameters are not broadcast."""
    if isinstance(model, DistributedDataParallel):
        raise ArgumentError("the model is a DistributedDataParallel, which averages gradients itself: use ddp_hook(model)")
    given = {"comm": comm, **keywords}
    made_with, gradients = caches.get(model, (given, None)) if isinstance(model, torch.nn.Module) else (given, None)
    if gradients is None or gradients._closed:
        made_with, gradients = given, GradientAllreduce(model, comm, **keywords)
        caches[model] = (made_with, gradients)
    problem = None
    if given != made_with:
        problem = ArgumentError(f"the keywords are {given}, those of this model's first call {made_with}: give the same")
    gradients._run(problem)
    return gradients


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
