"""Gradients of a model, averaged sparsely: GradientAllreduce, and the hook for DistributedDataParallel."""
from __future__ import annotations

import contextlib
import weakref
from typing import Any, Collection, ContextManager, Dict, List, Mapping, Optional, Tuple

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ._object import refuse_making
from ._struct import refuse_unknown, whole_number
from ._torch_models import entry_of, parameters_of, trainable
from ._torch_plans import Group, bytes_sent_by, check_carried, in_groups, plans_by_name
from ._torch_scaler import Scale, with_scaler
from ._torch_start import everybody
from ._types import AllreduceConfig, ArgumentError, BusyError, Error
from .communicator import Communicator, handle_of
from .plan import AllreducePlan

STATE_VERSION = 1
RENEW = "call close(), and make a new one, on all ranks"


class GradientAllreduce:
    """Averages the gradients of a model over the ranks, sparsely. ddp_hook() makes one for DistributedDataParallel. In a plain
    loop:

        gradients = weir.torch.GradientAllreduce(model, density=0.01)
        loss.backward()
        gradients.run()
        optimizer.step()

    Parameters that need gradients are put into groups of up to `group_elements` elements. The last ones come first, since their
    gradients do; a larger parameter is a group of its own. A group has one weir.AllreducePlan, which delivers the `density` largest
    of its entries. Larger groups need fewer messages; several groups let the exchange begin before the backward pass has ended.
    Parameters of fewer than `min_elements` elements, such as biases and norms, travel dense, all in one message.

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
    wire_values, warmup_iterations and so on. They do not include `count`, `type`, `memory` and `average`. `name` begins the names
    of the plans, which errors and traces show.

    A GradientAllreduce is made for the parameters that need gradients then. If others need them later, or some are replaced or
    resized, run() raises on all ranks: call close(), and make a new one. state_dict() and load_state_dict() take residuals along,
    if the parameters that have them keep names and shapes.

    Making it is collective; so are run() and each backward pass of a model that has its hook. All ranks have the same model. It
    belongs to one thread at a time. In CUDA memory, the current stream orders work. Besides the plans it holds a copy of the
    gradients. It needs no copy of a contiguous float32 or float64 gradient in host memory that is a group of its own. It does not
    broadcast initial parameters: DDP does that; a plain loop must, or seed all ranks with the same number.
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
        name: str = "gradients",
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
        self._overflow = False  # of a step whose groups are being finished
        self._problem: Optional[Exception] = None  # why this rank takes no part in that run
        self._closed = False
        self._plan_name = name
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
        group = Group(self._comm, f"{self._plan_name} {len(self._groups)}", parameters, keywords)
        self._groups.append(group)
        self._group_of.update(dict.fromkeys(parameters, group))

    def run(self) -> None:
        """Collective. Overwrites each parameter's `grad` with the update. A `grad` of None counts as 0, and is made.

        ArgumentError on all ranks if one rank's model no longer has the parameters that it had when this was made: others need
        gradients, some were replaced, or have another shape. If Ctrl-C ends it, it is still in flight: leave the gradients alone, and
        call wait(). If an exchange breaks off because of a timeout or a rank that has ended, gradients may be half summed.
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
        parameter, shape = self._parameters[name], self._group_of[name].shapes[name]
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
        self._overflow = self._overflow or (self._scale.scaler is not None and any(group.skipped() for group in self._groups))
        for group in self._groups:
            group.finish(unused, self._overflow)
        self._overflow = False
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
            if bucket.buffer().is_sparse:  # it has no list of gradients then
                refuse_sparse(self._name_of(bucket.parameters()[0]), bucket.buffer())
            shares: Dict[Group, Dict[str, Any]] = {}
            for parameter, gradient in zip(bucket.parameters(), bucket.gradients()):
                name = self._name_of(parameter)
                if name in self._group_of:
                    shares.setdefault(self._group_of[name], {})[name] = gradient
                if self._use is not None:
                    self._used[self._number_of[name]] = bool(gradient.any())
            for group, gradients in shares.items():
                group.take(gradients)
            self._progress()
        if self._ends_in_hook and bucket.is_last():
            self._finish()
            self._ends_in_hook = False
        return future

    def _name_of(self, parameter: Any) -> str:
        name = self._names.get(id(parameter))
        if name is None:
            raise ArgumentError("a bucket has a parameter that the hook's model has not: make the hook of this model")
        return name

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
        return plans_by_name(self._groups)

    @property
    def bytes_sent(self) -> int:
        """Bytes that this rank sent in the last step, of all groups together."""
        return bytes_sent_by(self._groups)

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
                    "parameters": list(group.shapes),
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
        same = layout == [(list(group.shapes), plain(group.keywords)) for group in self._groups]
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

    def __reduce__(self) -> Any:
        raise TypeError(
            "the state of a hook belongs to this process, and cannot be copied or pickled: copy the module that "
            "DistributedDataParallel wraps (model.module), and save state_dict()"
        )

    def __repr__(self) -> str:
        elements = sum(group.elements for group in self._groups)
        return f"<weir.torch.GradientAllreduce: {elements:,} elements in {len(self._groups)} groups>"


def refuse_keywords(maker: str, keywords: Mapping[str, Any], min_elements: Any, group_elements: Any) -> None:
    for name in ("count", "type", "memory", "average"):
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


def shortened(names: List[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


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

    The state is a GradientAllreduce, made with `keywords`. `comm` must have as many ranks as DDP's process group. The hook takes
    what a bucket of DDP has into the groups, in whichever buckets DDP puts parameters. It starts the plans of complete groups, and
    advances those in flight. DDP's futures are set at the end of the backward pass, before DDP waits for them. Gradient
    accumulation under no_sync(), unused parameters, static graphs and join() work as without the hook. So does DDP's mixed
    precision, whose gradients are summed in float32.

    With find_unused_parameters=True, DDP leaves alone the gradient of a parameter that no rank has used; what would be delivered to
    it waits for a step that uses it.

    If the exchange fails (NaN with non_finite="error", a timeout), backward() raises on all ranks, and DDP cannot be used any
    further: make another one of the module, or give non_finite="skip". Nor can it be used if Ctrl-C has ended backward(): unlike run(), the exchange cannot be waited for again.
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
