"""Parameters whose gradients share a plan, and how they are divided into such groups."""
from __future__ import annotations

from typing import Any, Collection, Dict, Iterable, List, Mapping, Optional

import torch

from ._torch_models import SUM_TYPES
from ._types import ArgumentError, Error
from .communicator import Communicator
from .operation import Operation
from .plan import AllreducePlan


class Group:
    """Parameters whose gradients share a plan. The plan takes them from one array, where they lie one after another. The only gradient
    of a group stays where it is, if the plan can work there."""

    def __init__(self, comm: Communicator, name: str, parameters: Dict[str, Any], keywords: Mapping[str, Any]) -> None:
        first = next(iter(parameters.values()))
        self.keywords = dict(keywords)
        self.shapes = {name: parameter.shape for name, parameter in parameters.items()}
        self.elements = sum(parameter.numel() for parameter in parameters.values())
        self.dtype, self.device = SUM_TYPES[first.dtype], first.device
        self.plan = AllreducePlan(
            comm, count=self.elements, type=self.dtype, memory="cuda" if first.is_cuda else "host", name=name, **keywords
        )
        self.copies: Optional[Any] = None  # the array of all gradients, since a step has needed it
        self.copy_of: Dict[str, Any] = {}  # its parts
        self.array: Any = None  # of this step's run: `copies`, or the memory of the only gradient
        self.carried: Optional[Any] = None  # what the next run adds to the gradients
        self.late: Optional[Any] = None  # delivered in steps that an overflow has made useless
        self.pending = False  # a step that has begun, and not ended
        self.last: Any = None  # the plan's run before this step
        self.operation: Optional[Operation[Any]] = None
        self.failure: Optional[Error] = None  # what this step has ended with
        self.gradients: Dict[str, Any] = {}  # of this step, those that have arrived

    def zeros(self) -> Any:
        return torch.zeros(self.elements, dtype=self.dtype, device=self.device)

    def split(self, array: Any) -> Dict[str, Any]:
        """Returns the parts of an array of the group by parameter, in the parameters' shapes."""
        parts = array.split([shape.numel() for shape in self.shapes.values()])
        return {name: part.view(shape) for (name, shape), part in zip(self.shapes.items(), parts)}

    def take(self, gradients: Mapping[str, Any]) -> None:
        """Takes gradients of some parameters. The last ones start the plan."""
        if not self.pending:
            self.prepare({})
        self.choose_array(gradients)
        self.gradients.update(gradients)
        if len(self.gradients) == len(self.shapes):
            self.start()

    def choose_array(self, gradients: Mapping[str, Any]) -> None:
        """Chooses the array of this step's run, and copies the gradients there, unless they are there."""
        if len(self.shapes) == 1 and self.carried is None:
            (gradient,) = gradients.values()
            if self.can_work_on(gradient):
                self.array = gradient.detach().view(-1)
                return
        if self.copies is None:
            self.copies = self.zeros()
            self.copy_of = self.split(self.copies)
        self.array = self.copies
        copy_all([self.copy_of[name] for name in gradients], list(gradients.values()))

    def can_work_on(self, gradient: Any) -> bool:
        """Returns whether the plan can work in the memory of a gradient. In CUDA memory this has not been tried."""
        alike = gradient.dtype == self.dtype and gradient.device == self.device
        return alike and not gradient.is_cuda and gradient.is_contiguous() and not gradient.is_neg()

    def prepare(self, gradients: Mapping[str, Any]) -> None:
        """Begins a step with these gradients."""
        self.gradients = {name: gradients[name] for name in self.shapes if name in gradients}
        self.operation = self.failure = self.array = None
        self.last = self.plan._last_run()
        self.pending = True

    def started(self) -> bool:
        """Returns whether the plan has been started in this step, or failed to."""
        return self.failure is not None or self.plan._last_run() is not self.last

    def take_all(self) -> None:
        """Does the same as take() for gradients that are all there. May be called again if Ctrl-C has ended it."""
        if self.pending and not self.started():
            self.choose_array(self.gradients)
            self.start()

    def start(self) -> None:
        if self.carried is not None:
            self.array.add_(self.carried)
        self.begin(self.array)

    def refuse(self) -> None:
        """Takes part without a gradient, so that all ranks end this step with an error."""
        if self.pending and not self.started():
            self.begin(None)

    def begin(self, array: Optional[Any]) -> None:
        try:
            self.operation = self.plan.start(array)
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
                if self.array is not None:  # in one statement: the array may be the gradient's own memory
                    self.late, self.array = self.array.clone() if self.late is None else self.late + self.array, None
                for gradient in self.gradients.values():
                    gradient.fill_(float("inf"))
            else:
                if self.late is not None:
                    self.array.add_(self.late)
                    self.late = None
                if self.array is self.copies:
                    copy_all(list(self.gradients.values()), [self.copy_of[name] for name in self.gradients])
                self.keep([name for name in self.shapes if name in unused])
        self.pending = False
        self.gradients = {}
        self.array = None

    def keep(self, unused: Collection[str]) -> None:
        if not unused:
            return
        if self.carried is None:
            self.carried = self.zeros()
        carried, delivered = self.split(self.carried), self.split(self.array)
        for name in unused:
            carried[name].add_(delivered[name])
            self.gradients[name].zero_()

    def scale(self, factor: float) -> None:
        self.plan.scale_residual(factor)
        for kept in (self.carried, self.late):
            if kept is not None:
                kept.mul_(factor)

    def restore(self, saved: Mapping[str, Any]) -> None:
        self.plan.restore_state(saved["state"].cpu().numpy().tobytes())
        self.carried, self.late = (
            None if saved.get(name) is None else saved[name].to(self.device) for name in ("carried", "late")
        )

    def residuals(self) -> Dict[str, Any]:
        """Returns what waits here on this rank, by parameter, in host memory."""
        begin, values = self.plan.residual
        whole = torch.zeros(self.elements, dtype=self.dtype)
        if values.shape[0]:
            here = torch.as_tensor(values, device=self.device) if self.device.type == "cuda" else torch.tensor(values)
            whole[begin : begin + values.shape[0]] = here
        for kept in (self.carried, self.late):
            if kept is not None:
                whole += kept.cpu()
        return self.split(whole)

    def carry(self, residuals: Mapping[str, Any]) -> None:
        """Starts the plan anew, with these residuals in its next gradient."""
        self.plan.reset()
        self.carried, self.late = self.zeros(), None
        for name, part in self.split(self.carried).items():
            if name in residuals:
                part.copy_(residuals[name])


def check_carried(group: Group, carried: Any) -> None:
    if carried is not None and (tuple(carried.shape) != (group.elements,) or carried.dtype != group.dtype):
        raise ArgumentError(
            f"what the state carries for '{group.plan.config.name}' has the shape {tuple(carried.shape)} and type {carried.dtype}: "
            f"it must have {(group.elements,)} and {group.dtype}"
        )


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


def plans_by_name(parts: Iterable[Any]) -> Dict[str, AllreducePlan]:
    return {part.plan.config.name: part.plan for part in parts}


def bytes_sent_by(parts: Iterable[Any]) -> int:
    """Returns the bytes that this rank sent in the last runs of the parts' plans."""
    return sum(sum(part.plan.statistics.bytes_sent.values()) for part in parts)


def copy_all(targets: List[Any], sources: List[Any]) -> None:
    """Copies each tensor of `sources` over the one of `targets`."""
    if hasattr(torch, "_foreach_copy_"):  # since PyTorch 2.1; one call costs less than many
        torch._foreach_copy_(targets, sources)
        return
    for target, source in zip(targets, sources):
        target.copy_(source)
