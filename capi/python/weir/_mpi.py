"""Finds the MPI for the library of a wheel, which has all other libraries inside. Other builds of Weir need no help with that."""
from __future__ import annotations

import ctypes
import os
import pathlib
import re
import sys
from typing import Any, Iterator, List, NamedTuple, Tuple

# What MPICH, Cray MPICH, Intel MPI and MVAPICH call their library, and what Debian and Ubuntu call MPICH's.
NAME = "libmpi.so.12"
OTHER_NAMES = ("libmpich.so.12",)
OPEN_MPI = "libmpi.so.40"
STAND_IN = "mpi_of_another_name"  # the folder of a library that has NAME and nothing else; only the package of a wheel has it
LIBRARY_OF_MPI = re.compile(r"libmpi(ch)?(_\w+)?\.so")


class MpiError(OSError):
    """The process has no MPI that a wheel can use. The text says what to install."""


class Mpi(NamedTuple):
    """A library of the ABI of MPICH that has been loaded, and where it was found."""

    path: str
    origin: str
    library: Any


def family_of(vendor: str) -> str:
    """Returns the family of an MPI library, by the name that it gives itself. Libraries that share MPICH's ABI are one family."""
    if vendor.startswith("Open MPI"):
        return "Open MPI"
    return "MPICH" if any(name in vendor for name in ("MPICH", "Intel", "MVAPICH", "CRAY")) else ""


def vendor_of(library: Any) -> str:
    """Returns what an MPI library says of itself; empty if it is no MPI library."""
    if not hasattr(library, "MPI_Get_library_version"):
        return ""
    text = ctypes.create_string_buffer(16384)  # MPICH writes up to 8192 characters
    library.MPI_Get_library_version(text, ctypes.byref(ctypes.c_int()))
    return text.value.decode(errors="replace")


def is_running(library: Any) -> bool:
    running = ctypes.c_int(0)
    library.MPI_Initialized(ctypes.byref(running))
    return bool(running.value)


def name_of(vendor: str) -> str:
    """Returns the first words of what an MPI library says of itself, for example "Open MPI v4.1.4"."""
    return " ".join(re.split(r"[,\n]", vendor)[0].split())


def loaded() -> List[str]:
    """Returns the MPI libraries that this process has loaded, for example by mpi4py."""
    with open("/proc/self/maps") as maps:
        paths = {pathlib.Path(line.split(maxsplit=5)[5].strip()) for line in maps if "/libmpi" in line}
    found = [str(path) for path in paths if LIBRARY_OF_MPI.match(path.name) and path.parent.name != STAND_IN]
    return sorted(found, key=lambda path: (len(path), path))


def candidates(folder: pathlib.Path) -> Iterator[Tuple[str, str]]:
    """Yields what to load, and where that comes from."""
    for path in loaded():
        yield path, "loaded already"
    yield NAME, "the loader's path"
    # The data files of PyPI's mpich go to lib, three folders above site-packages/weir.
    for place in dict.fromkeys((folder.parents[2], pathlib.Path(sys.prefix) / "lib")):
        yield str(place / NAME), "this environment"
    for name in OTHER_NAMES:
        yield name, "the loader's path"


def find(folder: pathlib.Path) -> Mpi:
    """Loads the first library of MPICH's ABI, for a package in `folder`. Raises MpiError if it finds no such library."""
    chosen = os.environ.get("WEIR_MPI_LIBRARY")
    tried: List[str] = []
    for path, origin in [(chosen, "WEIR_MPI_LIBRARY")] if chosen else candidates(folder):
        if origin == "this environment" and not os.path.exists(path):
            tried.append(f"{path} ({origin}): not there")
            continue
        try:
            library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD if origin == "loaded already" else ctypes.DEFAULT_MODE)
        except OSError as error:
            tried.append(f"{path} ({origin}): {error}")
            continue
        vendor = vendor_of(library)
        if family_of(vendor) == "MPICH":
            return Mpi(path, origin, library)
        tried.append(f"{path} ({origin}): it is {name_of(vendor) or 'no MPI library'}")
        if vendor and origin == "loaded already" and is_running(library):
            raise MpiError(
                f"this process runs on {name_of(vendor)}, which mpi4py or another module has started ({path}), and this package is "
                "for MPICH and libraries of its ABI: use that module with MPICH, or build Weir for the MPI that is in use"
            )
    raise MpiError("\n  ".join(["no MPI library of MPICH's ABI was found. Tried:", *tried]) + f"\n{advice(folder)}")


def advice(folder: pathlib.Path) -> str:
    """Says what to install."""
    if os.environ.get("WEIR_MPI_LIBRARY"):
        return "Set WEIR_MPI_LIBRARY to a library of MPICH, Cray MPICH, Intel MPI or MVAPICH, or unset it"
    for path in (OPEN_MPI, str(folder.parents[2] / OPEN_MPI), os.path.join(sys.prefix, "lib", OPEN_MPI)):
        try:
            vendor = name_of(vendor_of(ctypes.CDLL(path)))
        except OSError:
            continue
        return (
            f"Only {vendor} is installed, which has another ABI: install MPICH beside it with `pip install mpich`, and start "
            "programs with the mpiexec that comes with it; or build Weir for Open MPI from its sources"
        )
    return "Install one: `pip install mpich`, which the extra weir[mpi] brings, too; or load the module of your site's MPI"


def stand_in(folder: pathlib.Path) -> pathlib.Path:
    return folder / STAND_IN / NAME


def provide(folder: pathlib.Path) -> None:
    """Loads an MPI for the library in `folder`, if that library has come in a wheel."""
    if not stand_in(folder).exists():
        return
    mpi = find(folder)
    try:
        ctypes.CDLL(NAME, mode=os.RTLD_NOLOAD)
    except OSError:
        # The wheel's library asks the loader for NAME. The stand-in answers, and MPI's symbols come from the global scope.
        ctypes.CDLL(mpi.path, mode=ctypes.RTLD_GLOBAL)
        ctypes.CDLL(str(stand_in(folder)))
