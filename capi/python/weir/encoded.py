"""Gradients that plans have encoded, read without a plan."""
from __future__ import annotations

import ctypes
from typing import Any, Optional

import numpy as np

from . import _abi
from ._arrays import Memory, memory_of, problem_of
from ._library import check, lib
from ._types import ArgumentError, EncodedInfo


def bytes_of(data: Any) -> Any:
    """Returns `data` as an array of bytes, without a copy if it is contiguous."""
    try:
        return np.asarray(memoryview(data).cast("B"))
    except (TypeError, ValueError, BufferError):
        pass
    raise ArgumentError(f"the encoded gradient is of type {type(data).__name__}: give what encode() has returned, or its bytes")


def values_of(out: Any) -> Memory:
    try:
        memory = memory_of(out)
        problem = problem_of(memory, ("float32",), False, True, "call")
    except (TypeError, ValueError) as error:
        problem = str(error)
    if problem is not None:
        raise ArgumentError(f"the array for the values {problem}")
    return memory


def inspect(data: Any) -> EncodedInfo:
    """Returns what an encoded gradient says of itself. `data` is bytes, or anything with the buffer protocol. ArgumentError if it
    is truncated, damaged, of another version, or something else."""
    given = bytes_of(data)
    c = _abi.weir_encoded_info(ctypes.sizeof(_abi.weir_encoded_info))
    check(lib.weir_encoded_inspect(given.ctypes.data, given.size, c))
    return EncodedInfo._from_c(c)


def decode(data: Any, out: Optional[Any] = None, add: bool = False) -> Any:
    """Returns the part of a gradient that was delivered: a new array of float32, or `out`, float32 in host memory with as many
    elements. With `add`, adds the values to `out`; a refused message then adds nothing."""
    given = bytes_of(data)
    if out is None:
        if add:
            raise ArgumentError("add needs an array to add to: give out")
        out = np.empty(inspect(given).count, np.float32)
    values = values_of(out)
    check(lib.weir_decode(given.ctypes.data, given.size, values.pointer, values.elements, 1 if add else 0))
    return out
