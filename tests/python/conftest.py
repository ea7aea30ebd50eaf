"""Shared parts of the tests. Every rank runs all tests in the same order."""
import gc
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import pytest

import weir

# Kept in a script's environment, from which mpirun's variables for its ranks are removed.
KEPT = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_pml", "OMPI_MCA_btl")
FOLDER = pathlib.Path(__file__).resolve().parent


def pytest_report_header(config):
    return f"weir {weir.__version__}, {weir.versions().mpi_library.splitlines()[0]}"


def pytest_terminal_summary(terminalreporter):
    """Reports skipped tests in the form that tests/run.sh expects."""
    for report in terminalreporter.stats.get("skipped", []):
        print(f"\nskipped: {report.nodeid}: {report.longrepr[2].removeprefix('Skipped: ')}")


def pytest_collection_finish():
    """Freezes pytest's objects, so that gc.collect, which many tests call, skips them."""
    gc.freeze()


def why_no_mpi4py():
    """Returns why this process must not load mpi4py, or an empty text, without loading the MPI that mpi4py was built for."""
    try:
        import mpi4py
    except ImportError:
        return "mpi4py is not installed"
    compiler = mpi4py.get_config().get("mpicc", "")
    family = weir.versions().mpi_family
    fits = ("mpich" in compiler) == (family == "MPICH")
    return "" if fits else f"mpi4py was built with {compiler}, Weir for {family}"


@pytest.fixture(scope="session")
def comm():
    return weir.Communicator()


@pytest.fixture(scope="session")
def mpi4py(comm):
    why = why_no_mpi4py()
    if why:
        pytest.skip(why)
    from mpi4py import MPI

    return MPI


@pytest.fixture
def add(comm):
    """Sums arrays over the ranks, as float64."""
    plans = {}

    def total(array):
        array = np.array(array, np.float64)
        if array.size not in plans:
            plans[array.size] = weir.AllreducePlan(
                comm, count=array.size, type="float64", algorithm="dense_ring", average=False, name="add"
            )
        plans[array.size].run(array)
        return array

    yield total
    for plan in plans.values():
        plan.close()


def shared_folder(comm):
    """Returns a new folder of rank 0 on all ranks."""
    return comm.broadcast(tempfile.mkdtemp().encode() if comm.rank == 0 else None).decode()


@pytest.fixture
def folder(comm):
    path = shared_folder(comm)
    yield path
    barrier(comm)  # others may still look into it
    if comm.rank == 0:
        shutil.rmtree(path, ignore_errors=True)


def barrier(comm):
    comm.allgather(b"")


def random_gradient(rank, count, seed=0, dtype=np.float32):
    """Returns the gradient of a rank. Each rank can make those of all ranks."""
    return np.random.default_rng([seed, rank]).standard_normal(count).astype(dtype)


def is_last(comm):
    """Returns whether this is the rank that passes the wrong argument."""
    return comm.rank == comm.size - 1


def of_last(comm, bad, good):
    """Returns this rank's argument if the last rank passes a wrong one."""
    return bad if is_last(comm) else good


def refused(comm, text, others=None, kind=weir.ArgumentError):
    """Expects `text` on the last rank. Expects the others' own text on them, or a text that names the last rank."""
    return pytest.raises(kind, match=of_last(comm, text, f"rank {comm.size - 1}" if others is None else others))


class Foreign:
    """An array of a library that speaks one protocol only."""

    def __init__(self, **attributes):
        for name, value in attributes.items():
            setattr(self, name, value)


def through_dlpack(array):
    """`array` as an object that has nothing but DLPack."""

    class OnlyDLPack:
        def __dlpack__(self, stream=None):
            return array.__dlpack__()

        def __dlpack_device__(self):
            return array.__dlpack_device__()

    return OnlyDLPack()


def run_alone(script, *arguments, **environment):
    """Runs a script in its own process, which is the only rank of its program."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "PMIX_", "PMI_", "HYDRA", "MPI"))}
    clean.update({name: value for name, value in os.environ.items() if name in KEPT})
    clean.update({name: value for name, value in environment.items() if value is not None})
    for name in (name for name, value in environment.items() if value is None):
        clean.pop(name, None)
    return subprocess.run([sys.executable, "-c", script, *arguments], env=clean, capture_output=True, text=True, timeout=120)
