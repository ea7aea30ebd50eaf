"""What the library has: algorithms, compressors, exchanges, settings, versions, messages."""
from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Callable, List, NamedTuple, Optional, Tuple, Type, TypeVar

from . import _abi, _library
from ._library import check, lib
from ._struct import Struct
from ._types import AlgorithmInfo, ArgumentError, CompressorInfo, ExchangeInfo, LogLevel, SettingInfo, Status

if TYPE_CHECKING:
    import logging

Info = TypeVar("Info", bound=Struct)


def listed(function: Any, info: Type[Info]) -> List[Info]:
    """Returns what a function of the library gives for 0, 1, 2, ..."""
    found: List[Info] = []
    while True:
        c = info._c(ctypes.sizeof(info._c))
        status = function(len(found), c)
        if status == Status.ARGUMENT:
            return found
        check(status)
        found.append(info._from_c(c))


def algorithms() -> List[AlgorithmInfo]:
    """Returns every algorithm that a plan may name."""
    return listed(lib.weir_algorithm, AlgorithmInfo)


def compressors() -> List[CompressorInfo]:
    """Returns every compressor that a plan may name, besides "none"."""
    return listed(lib.weir_compressor, CompressorInfo)


def exchanges() -> List[ExchangeInfo]:
    """Returns every exchange that a table may name."""
    return listed(lib.weir_exchange, ExchangeInfo)


def settings() -> List[SettingInfo]:
    """Returns every WEIR_* environment variable, its value in force, and where that value comes from. Raises SettingError if one
    makes no sense."""
    return listed(lib.weir_setting, SettingInfo)


class Versions(NamedTuple):
    """Versions of what is in use."""

    package: Tuple[int, int, int]
    native: Tuple[int, int, int]  # version of libweir
    path: str  # path of the library, or its name if the loader has found it
    mpi_family: str  # MPI that Weir was built for: "Open MPI", or "MPICH" for all libraries of its ABI
    mpi_library: str  # what the MPI library in use says of itself


def versions() -> Versions:
    """Returns the versions of this package, the library, and its MPI."""
    major, minor, patch = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    lib.weir_version(major, minor, patch)
    native = (major.value, minor.value, patch.value)
    return Versions(_abi.VERSION, native, _library.path, lib.weir_mpi_family().decode(), lib.weir_mpi_library().decode())


log_functions: List[Any] = []  # all that were ever set; one may set the next while it runs


def set_log_function(function: Optional[Callable[[LogLevel, str], None]]) -> None:
    """Sends the library's messages to `function` instead of stderr from now on; None brings stderr back. WEIR_LOG still says which
    messages are logged.

    The function gets one line at a time, on the thread whose call logs it. It must not use communicators or what is made from them.
    What it raises is printed and ignored."""
    if function is not None and not callable(function):
        raise ArgumentError(f"the log function is of type {type(function).__name__}: give a function, or None")

    def call(context: Optional[int], level: int, text: bytes) -> None:
        assert function is not None
        function(LogLevel(level), text.decode(errors="replace"))

    new = _abi.LOG_FUNCTION(call) if function is not None else _abi.LOG_FUNCTION(0)
    log_functions.append(new)
    check(lib.weir_set_log_function(new, None))


def log_to(logger: Optional[logging.Logger] = None) -> None:
    """Sends the library's messages to a logger of Python's logging, by default the one named "weir", at its levels ERROR, WARNING,
    INFO and DEBUG."""
    import logging

    target = logger if logger is not None else logging.getLogger("weir")
    if not isinstance(target, (logging.Logger, logging.LoggerAdapter)):
        raise ArgumentError(f"the logger is of type {type(logger).__name__}: give what logging.getLogger() returns")
    levels = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)
    set_log_function(lambda level, text: target.log(levels[level], "%s", text))
