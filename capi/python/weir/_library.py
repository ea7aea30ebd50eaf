"""Finds libweir, checks that it is the right one, and gives access to its functions."""
from __future__ import annotations

import ctypes
import os
import pathlib
import sys
from typing import Any, Iterator, List, Optional, Tuple

from . import _abi, _mpi
from ._mpi import family_of
from ._types import ERRORS, InternalError

MAJOR = _abi.VERSION[0]
NAMES = {"Open MPI": f"libweir-openmpi.so.{MAJOR}", "MPICH": f"libweir-mpich.so.{MAJOR}"}
# What a launcher leaves in the environment of the processes that it starts.
LAUNCHERS = {"OMPI_COMM_WORLD_SIZE": "Open MPI", "PMI_SIZE": "MPICH"}
OF_LAUNCHERS = ("PMI_FD", "PMI_PORT", "PMI_RANK", "PMI_SIZE", "PMIX_RANK", "PMIX_NAMESPACE", "OMPI_COMM_WORLD_SIZE")


class LibraryError(ImportError):
    """No libweir was found that fits. The text names everything that was tried, and why it was refused."""


def mpi4py_family() -> str:
    """Returns the family of the MPI that a loaded mpi4py uses; empty if mpi4py is not loaded, or its family is unknown."""
    mpi4py = sys.modules.get("mpi4py.MPI")
    return family_of(mpi4py.Get_library_version()) if mpi4py is not None else ""


def weir_starts_mpi() -> bool:
    """Returns whether Weir starts MPI in this process, because torchrun or the like has started it. It can only start MPICH."""
    size = os.environ.get("WORLD_SIZE", "")
    several = size.isdecimal() and int(size) > 1
    return several and ("TORCHELASTIC_RUN_ID" in os.environ or not any(name in os.environ for name in OF_LAUNCHERS))


def launcher() -> Tuple[str, str]:
    """Returns the family of the MPI that this process's launcher needs, and its number of processes; empty without a launcher."""
    if weir_starts_mpi():
        return "MPICH", os.environ["WORLD_SIZE"]
    return next(((family, os.environ[variable]) for variable, family in LAUNCHERS.items() if variable in os.environ), ("", ""))


def candidates() -> Iterator[Tuple[str, str]]:
    """Yields what to load, and where that comes from."""
    chosen = os.environ.get("WEIR_LIBRARY")
    if chosen:
        yield chosen, "WEIR_LIBRARY"
        return
    family = mpi4py_family() or launcher()[0]
    order = sorted(NAMES, key=lambda of: of != family)
    folder = pathlib.Path(__file__).resolve().parent
    for of in order:
        yield str(folder / NAMES[of]), "the package's own folder"
    for of in order:
        yield NAMES[of], "the loader's path"


def declared(path: str) -> Any:
    """Returns the library with the types of its functions. Raises OSError if it cannot be loaded or is not the right one."""
    library = ctypes.CDLL(path)
    missing = [name for name in _abi.FUNCTIONS if not hasattr(library, name)]
    if "weir_version" in missing:
        raise OSError("it is no libweir: it has no weir_version")
    version = (ctypes.c_int(), ctypes.c_int(), ctypes.c_int())
    library.weir_version(*map(ctypes.byref, version))
    found = tuple(part.value for part in version)
    wanted = ".".join(map(str, _abi.VERSION))
    if found[0] != MAJOR or found < _abi.VERSION:
        raise OSError(f"it is version {'.'.join(map(str, found))}: this package needs {wanted}, or a later one of {MAJOR}.x")
    if missing:
        raise OSError(
            f"it lacks {', '.join(missing[:3])}{' and others' if len(missing) > 3 else ''}: this package needs version {wanted}"
        )
    for name, (result, arguments) in _abi.FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def family_problem(library: Any) -> Optional[str]:
    """Returns why this library cannot work with the MPI that mpi4py has loaded, if it cannot."""
    mpi4py = sys.modules.get("mpi4py.MPI")
    if mpi4py is None:
        return None
    theirs, ours = family_of(mpi4py.Get_library_version()), library.weir_mpi_family().decode()
    if theirs and theirs != ours:
        return (
            f"it was built for {ours}, and mpi4py uses {theirs}: install Weir for {theirs}, name its library in WEIR_LIBRARY, "
            f"or use an mpi4py that was built for {ours}"
        )
    return None


def provide_mpi(folder: pathlib.Path) -> None:
    """Loads the MPI for the library in `folder`, if it has come in a wheel. Otherwise the loader does."""
    try:
        _mpi.provide(folder)
    except _mpi.MpiError as error:
        raise LibraryError(str(error)) from None


def load() -> Tuple[Any, str]:
    """Returns the library and its path."""
    tried: List[str] = []
    for path, origin in candidates():
        if os.path.isabs(path) and origin != "WEIR_LIBRARY" and not os.path.exists(path):
            tried.append(f"{path} ({origin}): not there")
            continue
        try:
            if origin == "the package's own folder":
                provide_mpi(pathlib.Path(path).parent)
            library = declared(path)
            problem = family_problem(library)
            if problem is None:
                return library, path
            tried.append(f"{path} ({origin}): {problem}")
        except OSError as error:
            tried.append(f"{path} ({origin}): {error}")
    listing = "\n  ".join(tried)
    raise LibraryError(
        f"no libweir that fits was found. Tried:\n  {listing}\n"
        "Install Weir, or set WEIR_LIBRARY to its library, for example /usr/local/lib/libweir-openmpi.so"
    )


lib, path = load()


def check(status: int, comm: Optional[int] = None) -> None:
    """Raises the error that a call on the communicator `comm` has ended with, if any."""
    if status:
        raise error_of(status, comm)


def error_of(status: int, comm: Optional[int] = None) -> Exception:
    text = lib.weir_last_error(comm) or lib.weir_last_error(None) or lib.weir_status_string(status)  # the first: unless it is closed
    return ERRORS.get(status, InternalError)(text.decode(errors="replace"))
