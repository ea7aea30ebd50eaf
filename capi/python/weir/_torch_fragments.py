"""Parts of a model that DiLoCo exchanges together: how parameters are divided, where they lie in one array, and its plan."""
from __future__ import annotations

import re
from typing import Any, Collection, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import torch

from ._torch_models import SUM_TYPES
from ._types import ArgumentError, Error
from .communicator import Communicator
from .operation import Operation
from .plan import AllreducePlan

# Plans without compression. Dense algorithms in CUDA memory need NCCL; a sparse one that delivers everything does not.
DENSE: Dict[str, Any] = {"algorithm": "dense_rabenseifner", "error_feedback": "none"}
DENSE_CUDA: Dict[str, Any] = {"algorithm": "topk_dsa", "density": 1.0, "error_feedback": "none"}
Fragments = Union[int, Sequence[Sequence[str]]]


class Fragment:
    """Parameters that are exchanged together: they lie one after another in one array, which has a plan."""

    def __init__(
        self,
        comm: Communicator,
        number: int,
        first: int,
        parameters: Dict[str, Any],
        keywords: Mapping[str, Any],
        momentum: bool,
    ) -> None:
        one = next(iter(parameters.values()))
        sides = sides_of(keywords)
        # Matrices in blocks come first, so that each block is a chunk of the compressor.
        ordered = sorted(parameters, key=lambda name: blocks_of(parameters[name].shape, sides) is None)
        self.parameters = {name: parameters[name] for name in ordered}
        self.shapes = {name: tuple(parameter.shape) for name, parameter in self.parameters.items()}
        self.sides = sides
        self.first = first  # it is exchanged at the steps that leave this remainder when divided by H
        elements = sum(parameter.numel() for parameter in parameters.values())
        self.shared = torch.zeros(elements, dtype=SUM_TYPES[one.dtype], device=one.device)
        self.velocity = torch.zeros_like(self.shared) if momentum else None
        self.update = torch.zeros_like(self.shared)  # the pseudo-gradient of this rank, then the mean
        self.shared_views = self.views(self.shared)
        self.update_views = self.views(self.update)
        self.config = {
            "count": elements,
            "type": self.shared.dtype,
            "memory": "cuda" if one.is_cuda else "host",
            "name": f"diloco {number}",
        }
        self.plan = AllreducePlan(comm, **self.config, **keywords)
        self.since = 0  # the inner step at which its last exchange has begun
        self.due: Optional[int] = None  # the inner step at which the exchange in flight is applied; None: nothing is in flight
        self.arrived = False  # the mean is in `update`
        self.skipped = False  # the plan has met NaN or infinity, and has delivered nothing
        self.last: Any = None  # the plan's run before this exchange
        self.operation: Optional[Operation[Any]] = None
        self.problem: Optional[Exception] = None  # why this rank takes part without a pseudo-gradient
        self.failure: Optional[Error] = None  # what the start has raised

    def views(self, flat: Any) -> Dict[str, Any]:
        """Returns the part of `flat` of each parameter, in the parameter's shape; of a matrix in blocks, in the shape (block rows,
        rows of a block, block columns, columns of a block)."""
        parts = flat.split([parameter.numel() for parameter in self.parameters.values()])
        return {name: self.view(part, shape) for (name, shape), part in zip(self.shapes.items(), parts)}

    def view(self, part: Any, shape: Tuple[int, ...]) -> Any:
        blocks = blocks_of(shape, self.sides)
        return part.view(shape) if blocks is None else part.view(blocks).permute(0, 2, 1, 3)

    def by_name(self, flat: Any) -> Dict[str, Any]:
        """Returns a copy of `flat` by parameter, in the parameters' shapes."""
        return {name: view.reshape(self.shapes[name]).clone() for name, view in self.views(flat).items()}

    def fill(self, flat: Any, values: Mapping[str, Any]) -> None:
        """Does the opposite of by_name()."""
        for name, view in self.views(flat).items():
            view.copy_(values[name].reshape(view.shape))

    def broadcast(self, comm: Communicator) -> None:
        """Collective. Makes the parameters of rank 0 the shared ones, and those of every rank."""
        if comm.rank == 0:
            for name, view in self.shared_views.items():
                view.copy_(self.parameters[name].detach().view(view.shape))
        if comm.size > 1:
            dense = DENSE_CUDA if self.shared.is_cuda else DENSE
            with AllreducePlan(comm, **self.config, **dense, average=False) as plan:
                plan.run(self.shared)
        self.give(0.0)

    def give(self, mix: float) -> None:
        """Sets the model's parameters to `mix` times themselves plus 1 - `mix` times the shared ones."""
        for name, view in self.shared_views.items():
            mine = self.parameters[name].detach().view(view.shape)
            mine.copy_(view if mix == 0 else view.mul(1 - mix).add_(mine.to(view.dtype).mul_(mix)))

    def begin(self, step: int, delay: int) -> None:
        """Begins an exchange, which launch() starts."""
        self.since, self.due, self.arrived = step, step + delay, False
        self.last, self.operation, self.problem, self.failure = self.plan._last_run(), None, None, None

    def started(self) -> bool:
        """Returns whether the plan has been started in this exchange, or failed to."""
        return self.arrived or self.failure is not None or self.plan._last_run() is not self.last

    def launch(self, of_gradients: bool, problem: Optional[Exception]) -> None:
        """Starts the plan, once. With a problem, takes part without a pseudo-gradient, so that all ranks end with an error. May be
        called again if Ctrl-C has ended it."""
        if self.due is None or self.started():
            return
        self.problem = problem
        if problem is None:
            for name, view in self.update_views.items():
                self.take(name, view, of_gradients)
        try:
            self.operation = self.plan.start(self.update if problem is None else None)
        except Error as error:
            self.failure = error

    def take(self, name: str, to: Any, of_gradients: bool) -> None:
        """Writes the pseudo-gradient of a parameter: from where it has started, which for 16-bit types is the shared value rounded,
        minus where it is; or its gradient."""
        parameter = self.parameters[name]
        if not of_gradients:
            to.copy_(self.shared_views[name].to(parameter.dtype)).sub_(parameter.detach().view(to.shape))
        elif parameter.grad is None:
            to.zero_()
        else:
            to.copy_(parameter.grad.detach().reshape(to.shape))

    def wait(self) -> None:
        """Waits for the exchange, and raises its error. May be called again if Ctrl-C has ended it."""
        if self.arrived:
            return
        if self.failure is not None:
            raise self.failure
        # Where Ctrl-C has ended start(), there is no operation.
        (self.operation or self.plan).wait()
        self.arrived, self.skipped = True, self.plan.statistics.skipped

    def apply(self, lr: float, momentum: float, sign: bool, weight_decay: float, mix: float) -> None:
        """Makes the outer step, and gives its result to the model. Every multiplication and addition is rounded by itself, so that
        ranks get the same bits with any vector instructions and any number of threads."""
        if self.skipped:  # all ranks go back to the shared parameters
            self.give(0.0)
            return
        direction = self.update
        if self.velocity is not None:
            self.velocity.mul_(momentum).add_(direction)
            direction.add_(self.velocity.mul(momentum))
        if sign:
            direction.sign_()
        if weight_decay:
            self.shared.mul_(1 - lr * weight_decay)
        self.shared.sub_(direction.mul_(lr))
        self.give(mix)

    def not_finite(self) -> str:
        """Returns the first parameter whose pseudo-gradient is not finite, or an empty text. For runs that have failed for that."""
        return next((name for name, view in self.update_views.items() if not bool(torch.isfinite(view).all())), "")


def sides_of(keywords: Mapping[str, Any]) -> Optional[Tuple[int, int]]:
    """Returns rows and columns of the matrix as which chunked_topk transforms a chunk; None with other compressors."""
    if keywords.get("compressor") != "chunked_topk":
        return None
    given = re.search(r"\bchunk=(\d+)", str(keywords.get("compressor_parameters", "")))
    bits = (int(given[1]) if given else 4096).bit_length() - 1
    return 1 << bits // 2, 1 << (bits + 1) // 2


def blocks_of(shape: Collection[int], sides: Optional[Tuple[int, int]]) -> Optional[Tuple[int, int, int, int]]:
    """Returns (block rows, block columns, rows of a block, columns of a block) of a matrix that consists of whole chunks; None for
    other parameters, whose elements are chunked in their order."""
    if sides is None or len(shape) != 2:
        return None
    rows, columns = shape
    if not rows or not columns or rows % sides[0] or columns % sides[1]:
        return None
    return rows // sides[0], columns // sides[1], sides[0], sides[1]


def equal_parts(parameters: Mapping[str, Any], count: int) -> List[Dict[str, Any]]:
    """Returns `count` fragments of consecutive parameters, with numbers of elements as equal as whole parameters allow. There are
    at least `count` parameters."""
    total = sum(parameter.numel() for parameter in parameters.values())
    parts: List[Dict[str, Any]] = [{} for _ in range(count)]
    number = before = 0
    for left, (name, parameter) in zip(range(len(parameters), 0, -1), parameters.items()):
        belongs_behind = (before + parameter.numel() / 2) * count >= total * (number + 1)
        must_leave_some = left <= count - number - 1
        if parts[number] and number + 1 < count and (belongs_behind or must_leave_some):
            number += 1
        parts[number][name] = parameter
        before += parameter.numel()
    return parts


def named_parts(parameters: Mapping[str, Any], fragments: Sequence[Sequence[str]]) -> List[Dict[str, Any]]:
    """Returns fragments as lists of names of parameters or modules describe them."""
    owner: Dict[str, int] = {}
    for number, names in enumerate(fragments):
        if not isinstance(names, (list, tuple)) or not names:
            raise ArgumentError(f"fragment {number} is {names!r}: it must be a list of names of parameters or modules")
        for entry in names:
            members = [name for name in parameters if name == entry or name.startswith(f"{entry}.")]
            if not members:
                raise ArgumentError(f"fragment {number} has '{entry}', which has no parameter of the model that needs a gradient")
            for name in members:
                if name in owner:
                    raise ArgumentError(
                        f"the parameter '{name}' is in the fragments {owner[name]} and {number}: it must be in one"
                    )
                owner[name] = number
    missing = [name for name in parameters if name not in owner]
    if missing:
        raise ArgumentError(f"the parameter '{missing[0]}' is in no fragment: each must be in one")
    return [
        {name: parameter for name, parameter in parameters.items() if owner[name] == number} for number in range(len(fragments))
    ]
