"""Structs of the library as dataclasses: their conversion to C and back, and how they look."""
from __future__ import annotations

import ctypes
import difflib
import functools
import inspect
import operator
from enum import IntEnum
from html import escape
from typing import Any, Callable, ClassVar, Collection, Dict, List, Mapping, Tuple, Type, TypeVar, cast

Self = TypeVar("Self", bound="Struct")
Init = TypeVar("Init", bound=Callable[..., None])
TypeLike = Any  # a DataType, its name, or the dtype of an array
TensorsLike = Any  # FusedTensors, or names with numbers of elements
PartsLike = Any  # OperatorParts, or pairs of seconds and bytes
LayersLike = Any  # OptimizedLayers, or names with numbers of elements


class Text(str):
    """A text of several lines that shells and notebooks show as it is."""

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self)}</pre>"


def enumerator(enum: Type[IntEnum], field: str, value: Any) -> IntEnum:
    """Returns the value of an enumeration, given itself, its name, its number, or for element types a dtype. Raises ValueError."""
    names = ", ".join(name.rstrip("_") for name in enum.__members__)
    if isinstance(value, IntEnum) and not isinstance(value, enum):
        raise ValueError(f"{field} is {type(value).__name__}.{value.name}: it must be one of weir.{enum.__name__}: {names}")
    if not isinstance(value, (str, int)):  # a dtype of NumPy or PyTorch
        value = str(getattr(value, "name", None) or getattr(value, "__name__", None) or value).rpartition(".")[2]
    try:
        return enum[value if value in enum.__members__ else f"{value}_"] if isinstance(value, str) else enum(value)
    except (KeyError, ValueError):
        raise ValueError(f"{field} is {value!r}: it must be one of {names}") from None


def whole_number(field: str, value: Any, bits: int) -> int:
    """Returns `value` if it is a whole number that a field of `bits` bits can hold. Raises TypeError and ValueError."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{field} is {value!r}: it must be a whole number") from None
    if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        raise ValueError(f"{field} is {number}: it must fit into {bits} bits")
    return number


def real_number(field: str, value: Any) -> float:
    """Returns `value` if it is a number. Raises TypeError and ValueError."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{field} is {value!r}: it must be a number") from None
    except OverflowError:
        raise ValueError(f"{field} is a number that no double can hold") from None


def refuse_unknown(maker: str, given: Collection[str], known: Collection[str]) -> None:
    """Raises TypeError for an unknown keyword, with the nearest known one."""
    for name in given:
        if name not in known:
            nearest = difflib.get_close_matches(name, known, 1)
            meant = f": did you mean '{nearest[0]}'?" if nearest else ""
            raise TypeError(f"{maker}() has no keyword '{name}'{meant}")


def named(init: Init) -> Init:
    """An __init__ whose errors about keywords name the class that is made, not the one that has the __init__, and reach the other
    ranks."""
    parameters = inspect.signature(init).parameters.values()
    keywords = {parameter.name: parameter.default for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}
    others = [parameter.name for parameter in parameters if parameter.name not in keywords]
    required = [name for name, default in keywords.items() if default is inspect.Parameter.empty]
    owner = others[1] if len(others) > 1 else ""  # what it is made from, if anything
    signature = inspect.signature(init)

    def check(self: Any, *arguments: Any, **given: Any) -> None:
        maker = type(self).__name__
        refuse_unknown(maker, given, [*keywords, *others])
        for name in required:
            if name not in given:
                raise TypeError(f"{maker}() needs the keyword '{name}'")
        try:
            signature.bind(self, *arguments, **given)
        except TypeError as error:
            raise TypeError(f"{maker}(): {error}") from None

    @functools.wraps(init)
    def checked(self: Any, *arguments: Any, **given: Any) -> None:
        try:
            check(self, *arguments, **given)
        except TypeError as error:
            self._refused(arguments[0] if arguments else given.get(owner), error)
        init(self, *arguments, **given)

    return cast(Init, checked)


class Struct:
    """Base class of configurations and results."""

    _c: ClassVar[Type[ctypes.Structure]]
    _kinds: ClassVar[Dict[str, Any]]  # how to convert each field: a type, or [enumeration] for an array by its values

    def _to_c(self) -> Any:
        """Returns the struct of C. Raises TypeError and ValueError, naming the field."""
        c: Any = self._c(ctypes.sizeof(self._c))
        types = dict((field[0], field[1]) for field in self._c._fields_)
        for name, kind in self._kinds.items():
            value = getattr(self, name)
            if kind is bool:
                value = int(bool(value))
            elif kind is int:
                value = whole_number(name, value, 8 * ctypes.sizeof(types[name]))
            elif kind is float:
                value = real_number(name, value)
            elif kind is str:
                if not isinstance(value, str) or "\0" in value:
                    raise TypeError(f"{name} is {value!r}: it must be a str without null characters")
                value = value.encode()
            else:
                value = enumerator(kind, name, value)
            setattr(c, name, value)
        return c

    @classmethod
    def _from_c(cls: Type[Self], c: Any) -> Self:
        return cls(**{name: from_c(kind, getattr(c, name)) for name, kind in cls._kinds.items()})

    def _rows(self) -> List[Tuple[str, str]]:
        return [(name, shown(name, getattr(self, name))) for name in self._kinds]

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={plain(getattr(self, name))}" for name in self._kinds)
        return f"{type(self).__name__}({fields})"

    def __str__(self) -> str:
        rows = self._rows()
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(name)}</th><td style='text-align:left'>{escape(value)}</td></tr>"
            for name, value in self._rows()
        )
        return f"<table><caption>{type(self).__name__}</caption>{rows}</table>"


def from_c(kind: Any, value: Any) -> Any:
    if isinstance(kind, list):
        return {by: value[by] for by in kind[0]}
    if kind is str:
        return value.decode(errors="replace") if value is not None else ""
    try:
        return kind(value)
    except ValueError:  # an enumerator that only a newer library knows
        return value


def plain(value: Any) -> str:
    """Returns a field for a repr; of arrays, only what is not 0."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{by.name}: {number}" for by, number in value.items() if number) + "}"
    return value.name.rstrip("_") if isinstance(value, IntEnum) else repr(value)


def shown(name: str, value: Any) -> str:
    """Returns a field for a table, with its unit."""
    if isinstance(value, Mapping):
        return ", ".join(f"{by.name} {number:,}" for by, number in value.items() if number) or "0"
    if name.startswith("seconds_"):
        return f"{value * 1e3:,.3f} ms"
    if isinstance(value, IntEnum):
        return value.name.rstrip("_")
    return f"{value:,}" if type(value) is int else str(value)
