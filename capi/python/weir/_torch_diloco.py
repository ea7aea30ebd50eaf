"""Low-communication training for PyTorch: DiLoCo, Streaming DiLoCo, SparseLoCo and DeMo.

theta are the shared parameters, theta_m those of rank m, and g_m its gradient:

    DiLoCo             d_m = theta - theta_m after H inner steps; D = mean of the d_m; v <- mu v + D;
                       theta <- theta - lr (D + mu v); theta_m <- theta
                       (Douillard et al., arXiv 2311.08105, algorithm 1, with Nesterov's momentum as PyTorch has it)
    Streaming DiLoCo   the same for each fragment of the parameters, at inner steps of its own. D is applied `delay` inner steps
                       later, and theta_m <- mix theta_m + (1 - mix) theta (Douillard et al., arXiv 2501.18512, algorithm 2)
    SparseLoCo         e_m <- beta e_m + d_m; s_m = the largest entries of each chunk of e_m, quantised; e_m <- e_m - s_m;
                       D = mean of the s_m; theta <- theta - lr D; theta_m <- theta (Sarfi et al., arXiv 2508.15706)
    DeMo               e_m <- beta e_m + g_m; q_m = the largest coefficients of each chunk's cosine transform;
                       e_m <- e_m - the inverse of q_m; D = the inverse of the mean of the q_m; theta <- theta - lr sign(D)
                       (Peng, Quesnelle, Kingma, arXiv 2411.19870)

e_m is the residual of a plan's error feedback, and beta its `feedback_decay`.
"""
from __future__ import annotations

import contextlib
import hashlib
import json
import math
import weakref
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, NoReturn, Optional

import numpy as np
import torch

from ._struct import real_number, refuse_unknown, whole_number
from ._torch_fragments import DENSE, DENSE_CUDA, Fragment, Fragments, equal_parts, named_parts
from ._torch_models import SUM_TYPES, entry_of, parameters_of, trainable
from ._torch_plans import bytes_sent_by, plans_by_name
from ._torch_start import everybody
from ._types import AllreduceConfig, ArgumentError, BusyError, Error, MismatchError, NonFiniteError
from .communicator import Communicator, handle_of
from .plan import AllreducePlan
from .registry import compressors

STATE_VERSION = 1


class Method(NamedTuple):
    """Defaults of a published method."""

    H: int
    outer_lr: Optional[float]  # None: it must be given
    outer_momentum: float
    sign: bool
    plan: Dict[str, Any]  # keywords of AllreducePlan


METHODS = {
    "diloco": Method(500, 0.7, 0.9, False, {}),
    "sparseloco": Method(30, 1.0, 0.0, False, {"compressor": "chunked_topk", "feedback_decay": 0.95}),
    "demo": Method(
        1,
        None,
        0.0,
        True,
        {
            "compressor": "chunked_topk",
            "compressor_parameters": "k=32,values=float32,transform=dct,mean=senders",
            "feedback_decay": 0.999,
        },
    ),
}
ALGORITHMS = {"packed": "packed_allgather", "sparse": "oktopk", "linear": "dense_rabenseifner"}  # by what carries a compressor
KEYWORDS = ("H", "method", "fragments", "delay", "mix", "outer_lr", "outer_momentum", "sign", "weight_decay")


class DiLoCo:
    """Trains with little communication. Each rank makes H steps of its own by an optimizer of torch.optim. Then all ranks exchange
    how far their parameters have moved, and go on from shared parameters:

        inner = torch.optim.AdamW(model.parameters(), lr=4e-4)
        diloco = weir.torch.DiLoCo(model, inner, method="sparseloco", H=30)
        for batch in batches:                       # each rank has its own
            inner.zero_grad()
            loss_of(model, batch).backward()
            diloco.step()                           # inner.step(), and every H-th time the exchange
        diloco.synchronize()                        # the model has the same parameters on all ranks

    The pseudo-gradient of a rank is the shared parameters minus its own. Its mean over the ranks is the gradient of the outer step:
    SGD with Nesterov's momentum, on the shared parameters. Every rank makes the outer step itself, with the same bits.

    `method` chooses defaults. Keywords override them:

        "diloco"      H=500, outer_lr=0.7, outer_momentum=0.9, without a compressor
        "sparseloco"  H=30, outer_lr=1, compressor="chunked_topk" (64 of 4096 entries, with values of 2 bits), feedback_decay=0.95
        "demo"        H=1, sign=True, compressor="chunked_topk" (32 of 4096 cosine coefficients, mean over those that sent one),
                      feedback_decay=0.999; inner is None, and outer_lr, the learning rate, must be given

    These are the settings:

        inner           an optimizer of this model's parameters; its state stays on its rank. None: H is 1, and the pseudo-gradient
                        is the parameters' `grad`
        H               number of inner steps between two exchanges of a parameter
        outer_lr        learning rate of the outer step; it may be set later, on all ranks before the same step
        outer_momentum  momentum of the outer step, at least 0 and less than 1
        sign            the outer step goes along the sign of its direction
        weight_decay    the outer step multiplies shared parameters by 1 - outer_lr * weight_decay before; 0 by default
        fragments       number of parts of the model that are exchanged at different inner steps, at most H; or a list of parts,
                        each a list of names of parameters or modules; each parameter is in one of them
        delay           number of inner steps after which the result of an exchange is applied, less than H. They run meanwhile
        mix             share of its own parameters that a rank keeps when a result is applied, at least 0 and less than 1. By
                        default 0.5 with a delay, and else 0

    Further keywords are those of weir.AllreducePlan, except `count`, `type`, `memory`, `average` and `name`. If `compressor` is
    given and `algorithm` is not, packed_allgather, oktopk or dense_rabenseifner carries it.

    Making it is collective. It sets the model's parameters to those of rank 0. step() is collective if an exchange begins or is
    due. All settings are the same on all ranks, and all ranks call step() equally often. `comm` is a weir.Communicator, by default
    one of all ranks. A DiLoCo belongs to one thread at a time.

    Parameters that need gradients are exchanged. They are float32, float64, float16 or bfloat16; shared parameters and momentum
    are float32 for 16-bit types. Packed and linear compressors do not take float64. Buffers, such as the statistics of BatchNorm,
    stay on their rank. In CUDA memory, the current stream orders work. Besides what plans hold, it takes two or, with momentum,
    three arrays of the model's size.

    All ranks raise the same errors, which name the rank. MismatchError: settings or models differ. ArgumentError: a setting makes
    no sense, the model has no parameter that needs a gradient or one of another type, or its parameters have changed.
    NonFiniteError, which names the parameter: a rank's pseudo-gradient has NaN or infinity. After an error of an exchange, shared
    parameters, momentum, residuals and the model are as before it, and load_shared() returns to the shared parameters. With
    non_finite="skip", step() does that itself, on all ranks.
    """

    def __init__(
        self,
        model: Any,
        inner: Any,
        comm: Optional[Communicator] = None,
        *,
        method: str = "diloco",
        H: Optional[int] = None,
        outer_lr: Optional[float] = None,
        outer_momentum: Optional[float] = None,
        sign: Optional[bool] = None,
        weight_decay: float = 0.0,
        fragments: Fragments = 1,
        delay: int = 0,
        mix: Optional[float] = None,
        **keywords: Any,
    ) -> None:
        self._comm = everybody() if comm is None else comm
        handle_of(self._comm)
        self._inner = inner
        problem: Optional[Exception] = None
        settings: Dict[str, Any] = {}
        try:
            defaults = METHODS.get(method) if isinstance(method, str) else None
            if defaults is None:
                raise ArgumentError(f"method is {method!r}: it must be one of {', '.join(METHODS)}")
            parameters = parameters_of(model)
            refuse_inner(inner, model)
            plan_keywords = self._plan_keywords(defaults, keywords, next(iter(parameters.values())).is_cuda)
            self._H = whole("H", defaults.H if H is None else H, 1)
            self._delay = whole("delay", delay, 0)
            self._momentum = share("outer_momentum", defaults.outer_momentum if outer_momentum is None else outer_momentum)
            self._mix = share("mix", (0.5 if self._delay else 0.0) if mix is None else mix)
            self._sign = bool(defaults.sign if sign is None else sign)
            self._weight_decay = share("weight_decay", weight_decay)
            if outer_lr is None and defaults.outer_lr is None:
                raise ArgumentError(f"method '{method}' needs outer_lr: give the learning rate")
            self._outer_lr = positive("outer_lr", defaults.outer_lr if outer_lr is None else outer_lr)
            if inner is None and self._H != 1:
                raise ArgumentError(f"H is {self._H} and inner is None: without an inner optimizer, H must be 1")
            if self._delay >= self._H:
                raise ArgumentError(f"delay is {self._delay}: it must be less than H, {self._H}")
            if self._comm.rank == 0:
                refuse_values(parameters)
            parts = parts_of(parameters, fragments, self._H)
            settings = {
                "method": method,
                "H": self._H,
                "delay": self._delay,
                "mix": self._mix,
                "outer_lr": self._outer_lr,
                "outer_momentum": self._momentum,
                "sign": self._sign,
                "weight_decay": self._weight_decay,
                "inner": "None" if inner is None else "an optimizer",
                "the number of fragments": len(parts),
                "the model": described(parameters),
                "the division into fragments": digest([list(part) for part in parts]),
            }
        except Exception as error:
            problem = error
        agree(self._comm, settings, problem)
        self._model = weakref.ref(model)
        self._parameters = parameters
        self._steps = 0
        self._todo: Optional[Callable[[], Optional[Error]]] = None  # what is to be done of a call that has begun, and not ended
        self._fragments: List[Fragment] = []
        with torch.no_grad():
            for number, part in enumerate(parts):
                first = (number + 1) * self._H // len(parts) % self._H
                for dtype in dict.fromkeys(SUM_TYPES[parameter.dtype] for parameter in part.values()):
                    ours = {name: parameter for name, parameter in part.items() if SUM_TYPES[parameter.dtype] == dtype}
                    number_of_plan = len(self._fragments)
                    self._fragments.append(Fragment(self._comm, number_of_plan, first, ours, plan_keywords, self._momentum > 0))
            for fragment in self._fragments:  # once all plans are made: an error leaves the model as it was
                fragment.broadcast(self._comm)

    def _plan_keywords(self, defaults: Method, keywords: Mapping[str, Any], cuda: bool) -> Dict[str, Any]:
        """Returns the keywords of the plans."""
        for name in ("count", "type", "memory", "average", "name"):
            if name in keywords:
                raise ArgumentError(f"{name} is no keyword here: it follows from the model's parameters")
        refuse_unknown(type(self).__name__, keywords, [*AllreduceConfig._kinds, *KEYWORDS])
        merged = {**defaults.plan, **keywords}
        if "compressor" in keywords and "compressor_parameters" not in keywords:
            merged.pop("compressor_parameters", None)  # which are those of the method's own compressor
        if "algorithm" in merged:
            return merged
        name = merged.get("compressor", "none")
        if name in ("", "none"):
            return {**(DENSE_CUDA if cuda else DENSE), **keywords}
        carriage = {info.name: info.carriage for info in compressors()}
        if name not in carriage:
            raise ArgumentError(f"compressor is {name!r}: without an algorithm it must be one of none, {', '.join(carriage)}")
        return {"algorithm": ALGORITHMS[carriage[name]], **merged}

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Makes the inner optimizer's step, then begins the exchanges of this step and applies those that are due: collective then.
        Returns what inner.step(closure) returns. Raises the error of an exchange. If Ctrl-C ends its wait, call wait() to go on."""
        self._refuse_interrupted()
        result = None
        if self._inner is not None:
            result = self._inner.step(closure)
        elif closure is not None:
            with torch.enable_grad():
                result = closure()
        self.after_step()
        return result

    def after_step(self) -> None:
        """Does what step() does after the inner step. Call it instead if the inner step is made elsewhere, for example by
        scaler.step(inner) of a GradScaler."""
        self._refuse_interrupted()
        self._steps += 1
        self._todo = self._exchange
        self.wait()

    def synchronize(self) -> None:
        """Collective. Applies what is in flight, exchanges what has been trained since, and sets the model's parameters to the
        shared ones, which have the same bits on all ranks. Call it at the end of the training. It counts as an exchange, so calls
        in between change the result."""
        self._refuse_interrupted()
        self._todo = self._exchange_all
        self.wait()

    def wait(self) -> None:
        """Goes on with a step() or synchronize() that Ctrl-C has ended, and raises its error. Does nothing without such a call."""
        if self._todo is None:
            return
        with torch.no_grad():
            failure = self._todo()
        self._todo = None
        if failure is not None:
            raise failure

    def _refuse_interrupted(self) -> None:
        if self._todo is not None:
            raise BusyError("a step() or synchronize() was interrupted, and its exchange is still in flight: call wait()")

    def _exchange(self) -> Optional[Error]:
        """Does what is due at this step. Returns the first error. May be called again if Ctrl-C has ended it, as what it calls."""
        failure = self._apply(self._steps)
        self._start([fragment for fragment in self._fragments if self._steps % self._H == fragment.first], self._delay)
        failure = self._apply(self._steps) or failure
        self._progress()
        return failure

    def _exchange_all(self) -> Optional[Error]:
        failure = self._apply(math.inf)
        if self._inner is not None:
            self._start(self._fragments, 0)
            failure = self._apply(math.inf) or failure
        if failure is None:
            self.load_shared()
        return failure

    def _start(self, fragments: List[Fragment], delay: int) -> None:
        """Starts the exchanges of those fragments that have not been exchanged at this step."""
        for fragment in fragments:
            if fragment.since != self._steps:
                fragment.begin(self._steps, delay)
        problem: Optional[Exception] = None
        if any(fragment.due is not None and not fragment.started() for fragment in fragments):
            try:
                self._refuse_changes()
            except Exception as error:  # the other ranks wait for this one
                problem = error
        for fragment in fragments:
            fragment.launch(self._inner is None, problem)

    def _apply(self, upto: float) -> Optional[Error]:
        """Applies the exchanges that are due up to a step, all of them, even if one ends with an error. Returns the first error."""
        failure: Optional[Error] = None
        for fragment in self._fragments:
            if fragment.due is None or fragment.due > upto or not fragment.started():
                continue
            try:
                self._wait_for(fragment)
                fragment.apply(self._outer_lr, self._momentum, self._sign, self._weight_decay, self._mix)
            except Error as error:
                failure = failure or error
            fragment.due, fragment.operation = None, None
        return failure

    def _progress(self) -> None:
        """Makes progress: that of any plan is that of all. Waits raise errors."""
        for fragment in self._fragments:
            if fragment.due is not None and fragment.operation is not None:
                with contextlib.suppress(Error):
                    fragment.operation.test()
                return

    def _wait_for(self, fragment: Fragment) -> None:
        """Waits for an exchange. If a rank's parameters were refused, all ranks raise what that rank has to say of them."""
        try:
            fragment.wait()
        except NonFiniteError as error:
            self._explain(error, fragment.not_finite(), None)
        except ArgumentError as error:
            self._explain(error, "" if fragment.problem is None else str(fragment.problem), fragment.problem)

    def _explain(self, error: Error, mine: str, problem: Optional[Exception]) -> NoReturn:
        """Collective. Raises an error that all ranks have had, with the first reason that a rank gives."""
        reasons = [text.decode() for text in self._comm.allgather(mine.encode())]
        if isinstance(problem, Error):
            raise problem from error
        for rank, reason in enumerate(reasons):
            if reason and isinstance(error, NonFiniteError):
                raise NonFiniteError(
                    f"the parameter '{reason}' of rank {rank} has moved to NaN or infinity by step {self._steps}: shared "
                    "parameters, momentum and residuals are as before, and load_shared() returns to them"
                ) from error
            if reason:
                raise ArgumentError(f"rank {rank}: {reason}") from error
        raise error

    def _refuse_changes(self) -> None:
        """Refuses changes of the model's parameters: what is not exchanged would differ between ranks."""
        model = self._model()
        now = self._parameters if model is None else trainable(model)
        changed = [name for name in {**self._parameters, **now} if now.get(name) is not self._parameters.get(name)]
        if changed:
            raise ArgumentError(
                f"the model's parameters that need gradients have changed since DiLoCo was made ({', '.join(changed[:3])}): call "
                "close(), and make a new one, on all ranks"
            )
        for fragment in self._fragments:
            for name, shape in fragment.shapes.items():
                parameter = fragment.parameters[name]
                if tuple(parameter.shape) != shape:
                    raise ArgumentError(
                        f"the parameter '{name}' has the shape {tuple(parameter.shape)}, and had {shape} when DiLoCo was made: "
                        "call close(), and make a new one, on all ranks"
                    )
                if self._inner is None and parameter.grad is not None and parameter.grad.layout != torch.strided:
                    raise ArgumentError(f"the gradient of '{name}' is sparse: use sparse=False")

    def load_shared(self) -> None:
        """Not collective. Sets the model's parameters to the shared ones. What this rank has trained since the last exchange is
        lost."""
        with torch.no_grad():
            for fragment in self._fragments:
                fragment.give(0.0)

    @contextlib.contextmanager
    def shared_model(self) -> Iterator[None]:
        """Not collective. Makes a context in which the model has the shared parameters, to evaluate or save it. Afterwards it has
        its own parameters again. Do not train within it."""
        own = {name: parameter.detach().clone() for name, parameter in self._parameters.items()}
        self.load_shared()
        try:
            yield
        finally:
            with torch.no_grad():
                for name, values in own.items():
                    self._parameters[name].copy_(values)

    @property
    def shared(self) -> Dict[str, Any]:
        """Copies of the shared parameters by name, in the parameters' shapes. They are float32, or float64 for such parameters."""
        return self._by_name(lambda fragment: fragment.shared)

    @property
    def residuals(self) -> Dict[str, Any]:
        """Copies of what error feedback keeps on this rank, by parameter, in host memory. Empty without error feedback, and with
        algorithms that divide the residual among the ranks of a node. BusyError while an exchange is in flight."""
        return self._by_name(residual_of)

    def _by_name(self, flat_of: Callable[[Fragment], Any]) -> Dict[str, Any]:
        """Returns copies of an array of the fragments by parameter, in the model's order."""
        found: Dict[str, Any] = {}
        for fragment in self._fragments:
            flat = flat_of(fragment)
            if flat is not None:
                found.update(fragment.by_name(flat))
        return {name: found[name] for name in self._parameters if name in found}

    @property
    def steps(self) -> int:
        """Number of inner steps so far."""
        return self._steps

    @property
    def outer_lr(self) -> float:
        """Learning rate of the outer step. Set it on all ranks before the same step."""
        return self._outer_lr

    @outer_lr.setter
    def outer_lr(self, value: float) -> None:
        self._outer_lr = positive("outer_lr", value)

    @property
    def plans(self) -> Dict[str, AllreducePlan]:
        """The plans by their names, "diloco 0" and so on: for statistics and explanation()."""
        return plans_by_name(self._fragments)

    @property
    def bytes_sent(self) -> int:
        """Bytes that this rank has sent in the last exchange of each fragment, all together. BusyError while one is in flight."""
        return bytes_sent_by(self._fragments)

    def state_dict(self) -> Dict[str, Any]:
        """Returns what lives from one step to the next on this rank, for torch.save: shared parameters, momentum, residuals, the
        number of steps, and results that are not applied yet. With a delay it is collective, since it waits for exchanges in
        flight. Every rank saves its own after the same step, beside those of the model and of the inner optimizer."""
        self._refuse_interrupted()
        for fragment in self._fragments:
            if fragment.due is not None:
                fragment.wait()
        return {
            "version": STATE_VERSION,
            "rank": self._comm.rank,
            "ranks": self._comm.size,
            "steps": self._steps,
            "shared": {name: values.cpu() for name, values in self.shared.items()},
            "momentum": {name: values.cpu() for name, values in self._by_name(lambda fragment: fragment.velocity).items()},
            "fragments": [
                {
                    "parameters": list(fragment.parameters),
                    "state": torch.from_numpy(np.frombuffer(bytearray(fragment.plan.save_state()), np.uint8)),
                    "since": fragment.since,
                    "due": fragment.due,
                    "update": None if fragment.due is None else fragment.update.cpu().clone(),
                    "skipped": fragment.skipped,
                }
                for fragment in self._fragments
            ],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Collective. Goes on where state_dict() was called, with the same model, fragments and compressor, and as many ranks, each
        with its own state. Make DiLoCo first, then load model, inner optimizer and this: the next steps have the same bits.
        ArgumentError on all ranks if a state is damaged, or of another rank or model, and MismatchError if it is of another step;
        then nothing changes."""
        problem: Optional[Exception] = None
        before: List[bytes] = []
        try:
            self._refuse_interrupted()
            self._check_state(state)
            for fragment, saved in zip(self._fragments, state["fragments"]):
                before.append(fragment.plan.save_state())
                fragment.plan.restore_state(saved["state"].cpu().numpy().tobytes())
        except Exception as error:
            problem = error
        try:
            agree(self._comm, {} if problem else {"the number of steps in the state": state["steps"]}, problem)
        except BaseException:
            for fragment, plan_state in zip(self._fragments, before):
                fragment.plan.restore_state(plan_state)
            raise
        self._steps = state["steps"]
        with torch.no_grad():
            for fragment, saved in zip(self._fragments, state["fragments"]):
                fragment.fill(fragment.shared, state["shared"])
                if fragment.velocity is not None:
                    fragment.velocity.zero_()
                    if state["momentum"]:
                        fragment.fill(fragment.velocity, state["momentum"])
                fragment.since, fragment.due, fragment.skipped = saved["since"], saved["due"], saved["skipped"]
                fragment.operation = fragment.failure = None
                fragment.arrived = fragment.due is not None
                if fragment.arrived:
                    fragment.update.copy_(saved["update"])

    def _check_state(self, state: Mapping[str, Any]) -> None:
        if entry_of("the state", state, "version", object, required=False) != STATE_VERSION:
            raise ArgumentError(f"the state has the version {state.get('version')}: this Weir reads {STATE_VERSION}")
        of = entry_of("the state", state, "rank", int), entry_of("the state", state, "ranks", int)
        mine = (self._comm.rank, self._comm.size)
        if of != mine:
            raise ArgumentError(f"the state is of rank {of[0]} of {of[1]}: this is rank {mine[0]} of {mine[1]}; each loads its own")
        entry_of("the state", state, "steps", int)
        for name in ("shared", "momentum"):
            values = entry_of("the state", state, name, dict)
            if values or name == "shared":
                self._check_values(f"'{name}' in the state", values)
        saved = entry_of("the state", state, "fragments", list)
        if len(saved) != len(self._fragments):
            raise ArgumentError(f"the state has {len(saved)} fragments: this DiLoCo has {len(self._fragments)}")
        for number, (fragment, one) in enumerate(zip(self._fragments, saved)):
            what = f"fragment {number} of the state"
            if entry_of(what, one, "parameters", list) != list(fragment.parameters):
                raise ArgumentError(f"{what} has other parameters: make DiLoCo with the fragments and compressor that it had")
            entry_of(what, one, "since", int)
            entry_of(what, one, "skipped", bool)
            due = entry_of(what, one, "due", (int, type(None)))
            update = entry_of(what, one, "update", (torch.Tensor, type(None)))
            if (update is None) != (due is None) or (update is not None and update.shape != fragment.update.shape):
                raise ArgumentError(f"'update' in {what} does not fit: give what state_dict() has returned")
            if entry_of(what, one, "state", torch.Tensor).dtype != torch.uint8:
                raise ArgumentError(f"the plan's state in {what} has type {one['state'].dtype}: it must be uint8")

    def _check_values(self, what: str, values: Mapping[str, Any]) -> None:
        for fragment in self._fragments:
            for name, shape in fragment.shapes.items():
                tensor = entry_of(what, values, name, torch.Tensor)
                if tuple(tensor.shape) != shape:
                    raise ArgumentError(f"'{name}' in {what} has the shape {tuple(tensor.shape)}: the parameter has {shape}")

    def close(self) -> None:
        """Not collective. Ends the plans, after what is in flight. What waits in residuals is lost; the model stays as it is."""
        for fragment in self._fragments:
            fragment.plan.close()
        self._todo = None

    def __repr__(self) -> str:
        elements = sum(fragment.shared.numel() for fragment in self._fragments)
        return f"<weir.torch.DiLoCo: {elements:,} elements in {len(self._fragments)} plans, exchanged every {self._H} steps>"


def residual_of(fragment: Fragment) -> Any:
    """Returns the residual of a fragment in host memory; None if this rank does not have all of it."""
    values = fragment.plan.residual.values
    if values.shape[0] != fragment.shared.numel():
        return None
    return torch.as_tensor(values, device=fragment.shared.device).cpu() if fragment.shared.is_cuda else torch.tensor(values)


def whole(name: str, value: Any, least: int) -> int:
    try:
        number = whole_number(name, value, 64)
    except (TypeError, ValueError) as error:
        raise ArgumentError(str(error)) from None
    if number < least:
        raise ArgumentError(f"{name} is {number}: it must be at least {least}")
    return number


def real(name: str, value: Any) -> float:
    try:
        return real_number(name, value)
    except (TypeError, ValueError) as error:
        raise ArgumentError(str(error)) from None


def share(name: str, value: Any) -> float:
    number = real(name, value)
    if not 0 <= number < 1:
        raise ArgumentError(f"{name} is {number}: it must be at least 0 and less than 1")
    return number


def positive(name: str, value: Any) -> float:
    number = real(name, value)
    if not 0 < number < math.inf:
        raise ArgumentError(f"{name} is {number}: it must be positive and finite")
    return number


def agree(comm: Communicator, settings: Mapping[str, Any], problem: Optional[Exception]) -> None:
    """Collective. Raises on all ranks if a rank has a problem, or if settings differ."""
    mine = dict(settings) if problem is None else {"problem": str(problem)}
    everybodys = [json.loads(text) for text in comm.allgather(json.dumps(mine).encode())]
    if problem is not None:
        raise problem
    for rank, theirs in enumerate(everybodys):
        if "problem" in theirs:
            raise ArgumentError(f"rank {rank}: {theirs['problem']}")
    for rank, theirs in enumerate(everybodys):
        for name, value in everybodys[0].items():
            if theirs[name] != value:
                raise MismatchError(f"ranks disagree about {name}: rank 0 has {value}, rank {rank} has {theirs[name]}")


def refuse_inner(inner: Any, model: Any) -> None:
    """Refuses what is not an optimizer of the model's parameters."""
    if inner is None:
        return
    if not isinstance(inner, torch.optim.Optimizer):
        raise ArgumentError(f"inner is of type {type(inner).__name__}: give an optimizer of torch.optim, or None")
    ours = {id(parameter) for parameter in model.parameters()}
    others = sum(id(parameter) not in ours for group in inner.param_groups for parameter in group["params"])
    if others:
        raise ArgumentError(f"the inner optimizer has {others} parameters that are not the model's: make it of model.parameters()")


def refuse_values(parameters: Mapping[str, Any]) -> None:
    for name, parameter in parameters.items():
        if not bool(torch.isfinite(parameter.detach()).all()):
            raise ArgumentError(f"the parameter '{name}' has NaN or infinity: training must begin with finite ones")


def described(parameters: Mapping[str, Any]) -> str:
    """Returns a text that differs if models differ."""
    shapes = [[name, list(parameter.shape), str(parameter.dtype)] for name, parameter in parameters.items()]
    elements = sum(parameter.numel() for parameter in parameters.values())
    return f"one of {len(parameters)} parameters with {elements} elements ({digest(shapes)})"


def digest(what: Any) -> str:
    return hashlib.blake2b(json.dumps(what).encode(), digest_size=4).hexdigest()


def parts_of(parameters: Mapping[str, Any], fragments: Fragments, H: int) -> List[Dict[str, Any]]:
    """Returns the parameters that have elements, in fragments."""
    filled = {name: parameter for name, parameter in parameters.items() if parameter.numel()}
    if not filled:
        raise ArgumentError("the model's parameters have no elements")
    if isinstance(fragments, (list, tuple)):
        parts = named_parts(filled, fragments)
    else:
        count = whole("fragments", fragments, 1)
        if count > len(filled):
            raise ArgumentError(f"fragments is {count}: the model has only {len(filled)} parameters")
        parts = equal_parts(filled, count)
    if len(parts) > H:
        raise ArgumentError(f"the model is in {len(parts)} fragments: there may be at most H, {H}, each at a step of its own")
    return parts
