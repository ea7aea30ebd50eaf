"""Tests that need separate processes, each the only rank of its program."""
import ctypes
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from conftest import run_alone, why_no_mpi4py

import weir
from weir import _abi, datacache, sources

OTHER_ABI = os.environ["OTHER_ABI"]  # the library that other_abi.c makes
LIBRARY = os.environ["WEIR_LIBRARY"]
PACKAGE = pathlib.Path(weir.__file__).parent


def error_of(finished):
    assert finished.returncode == 1, finished
    return finished.stderr


def test_struct_sizes():
    other = ctypes.CDLL(OTHER_ABI)
    other.size_of.restype = ctypes.c_size_t
    structs = {
        name: struct
        for module in (_abi, datacache, sources)
        for name, struct in vars(module).items()
        if isinstance(struct, type) and issubclass(struct, ctypes.Structure) and name.startswith("weir_")
    }
    assert len(structs) == 30
    for name, struct in structs.items():
        assert other.size_of(name.encode()) == ctypes.sizeof(struct), name


def path_of_library(tmp_path, **environment):
    finished = run_alone("import weir; print(weir.versions().path)", WEIR_LIBRARY=None, PYTHONPATH=str(tmp_path), **environment)
    return finished.stdout or finished.stderr


def test_where_the_library_is_looked_for(tmp_path):
    for library, text in (
        (tmp_path / "none.so", "none.so (WEIR_LIBRARY)"),
        (OTHER_ABI, "it is version 9.8.7: this package needs 0.1.0, or a later one of 0.x"),
        ("libc.so.6", "it is no libweir: it has no weir_version"),
    ):
        found = error_of(run_alone("import weir", WEIR_LIBRARY=str(library)))
        assert "LibraryError" in found and text in found and "libweir-openmpi.so.0" not in found
    shutil.copytree(PACKAGE, tmp_path / "weir", ignore=shutil.ignore_patterns("__pycache__", "*.so*"))
    text = path_of_library(tmp_path, LD_LIBRARY_PATH=None)
    assert f"{tmp_path}/weir/libweir-openmpi.so.0 (the package's own folder): not there" in text
    assert "libweir-mpich.so.0 (the loader's path)" in text and "set WEIR_LIBRARY" in text
    (tmp_path / "weir/libweir-openmpi.so.0").symlink_to(LIBRARY)
    assert path_of_library(tmp_path) == f"{tmp_path}/weir/libweir-openmpi.so.0\n"
    (tmp_path / "weir/libweir-openmpi.so.0").unlink()
    (tmp_path / "libweir-mpich.so.0").symlink_to(LIBRARY)
    assert path_of_library(tmp_path, LD_LIBRARY_PATH=str(tmp_path)) == "libweir-mpich.so.0\n"


def test_the_mpi_of_a_wheel(tmp_path):
    """A wheel's library asks for libmpi.so.12. Here no library of Weir is loaded, only what the wheel's package would give it."""
    (tmp_path / "lib/python3/site-packages/weir/mpi_of_another_name").mkdir(parents=True)
    folder = tmp_path / "lib/python3/site-packages/weir"
    (folder / "mpi_of_another_name/libmpi.so.12").touch()
    script = f"""
import ctypes, importlib.util, pathlib, sys
spec = importlib.util.spec_from_file_location("_mpi", {str(PACKAGE / "_mpi.py")!r})
sys.modules["_mpi"] = _mpi = importlib.util.module_from_spec(spec)
spec.loader.exec_module(_mpi)
if len(sys.argv) > 1:
    started = ctypes.CDLL(sys.argv[1])
    started.MPI_Init(None, None)
try:
    mpi = _mpi.find(pathlib.Path({str(folder)!r}))
    print(mpi.path, mpi.origin)
except _mpi.MpiError as error:
    print(error)
if len(sys.argv) > 1:
    started.MPI_Finalize()
"""

    def found(*arguments, **environment):
        finished = run_alone(script, *arguments, LD_LIBRARY_PATH=None, **environment)
        assert finished.returncode == 0, finished
        return finished.stdout

    assert "libc.so.6 (WEIR_MPI_LIBRARY): it is no MPI library\nSet WEIR_MPI_LIBRARY to" in found(WEIR_MPI_LIBRARY="libc.so.6")
    installed = {}
    for name in ("libmpi.so.12", "libmpich.so.12", "libmpi.so.40"):
        try:
            ctypes.CDLL(name, mode=os.RTLD_LAZY)
            installed[name] = True
        except OSError:
            installed[name] = False
    text = found()
    if installed["libmpi.so.12"] or installed["libmpich.so.12"]:
        name = "libmpi.so.12" if installed["libmpi.so.12"] else "libmpich.so.12"
        assert text == f"{name} the loader's path\n", text
        assert found(name).endswith(" loaded already\n")
        if not installed["libmpi.so.12"]:  # PyPI's mpich comes before Debian's
            of_pypi = tmp_path / "lib/libmpi.so.12"
            of_pypi.symlink_to(next(line.split()[-1] for line in open("/proc/self/maps") if "libmpich.so.12" in line))
            assert found() == f"{of_pypi} this environment\n"
    elif installed["libmpi.so.40"]:
        assert f"{tmp_path}/lib/libmpi.so.12 (this environment): not there" in text and "Only Open MPI v" in text, text
    else:
        assert "Install one: `pip install mpich`" in text, text
    if installed["libmpi.so.40"]:
        assert "(WEIR_MPI_LIBRARY): it is Open MPI v" in found(WEIR_MPI_LIBRARY="libmpi.so.40")
        assert "this process runs on Open MPI v" in found("libmpi.so.40")


def test_which_library_under_torchrun(tmp_path):
    """Weir can only start MPICH."""
    shutil.copytree(PACKAGE, tmp_path / "weir", ignore=shutil.ignore_patterns("__pycache__", "*.so*"))
    several = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    for environment, first in (
        ({}, "openmpi"),
        ({"WORLD_SIZE": "1"}, "openmpi"),
        (several, "mpich"),
        ({**several, "OMPI_COMM_WORLD_SIZE": "2"}, "openmpi"),
        ({**several, "OMPI_COMM_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "none"}, "mpich"),
        ({**several, "PMIX_RANK": "0"}, "openmpi"),
        ({**several, "PMI_SIZE": "2"}, "mpich"),
    ):
        tried = path_of_library(tmp_path, LD_LIBRARY_PATH=None, **environment).splitlines()
        line = next(line for line in tried if "(the package's own folder)" in line)
        assert f"libweir-{first}.so.0" in line, (environment, tried)


def test_mpi4py_first():
    why = why_no_mpi4py()
    if why and "built" not in why:
        pytest.skip(why)
    script = "from mpi4py import MPI; import weir; print(weir.Communicator().size); comm = weir.Communicator(MPI.COMM_WORLD)"
    finished = run_alone(script)
    if why:  # it was built for another MPI
        text = error_of(finished)
        assert (
            "it was built for MPICH, and mpi4py uses Open MPI" in text or "it was built for Open MPI, and mpi4py uses MPICH" in text
        )
    else:
        assert (finished.returncode, finished.stdout, finished.stderr) == (0, "1\n", ""), finished


def test_the_launcher_of_another_mpi():
    """It would start as many programs of one rank."""
    variable = "PMI_SIZE" if weir.versions().mpi_family == "Open MPI" else "OMPI_COMM_WORLD_SIZE"
    text = error_of(run_alone("import weir; weir.Communicator()", **{variable: "4"}))
    assert "UnsupportedError" in text and "launcher has started this process as one of 4: start the program with" in text


def test_before_and_after_mpi():
    script = """
import numpy, weir
from weir._library import lib
def error_of(call):
    try:
        call()
    except weir.Error as error:
        return f"{type(error).__name__} {error}"
print(error_of(lambda: weir.Communicator(0)))
plan = weir.AllreducePlan(weir.Communicator(), count=3)
lib.weir_finalize()
print(error_of(lambda: plan.run(numpy.zeros(3, numpy.float32))))
print(error_of(weir.Communicator))
"""
    finished = run_alone(script)
    lines = finished.stdout.splitlines()
    assert finished.returncode == 0 and len(lines) == 3, finished
    assert "MPI is not running" in lines[0] and lines[1].startswith("StateError MPI is not running") and "MPI" in lines[2], lines


def test_the_end_of_a_program_in_any_order():
    """Plans, results and communicators may still be there."""
    finished = run_alone(
        """
import weir, numpy
comms = [weir.Communicator() for _ in range(3)]
plans = [weir.AllreducePlan(comm, count=1000) for comm in comms]
result = plans[1].run_sparse(numpy.ones(1000, numpy.float32))
operation = plans[2].start(numpy.ones(1000, numpy.float32))
table = weir.EmbeddingTable(comms[0], rows=4, width=2, largest_batch=2)
schedule = weir.StepSchedule(comms[1], ["a"])
weir.log_to()
circle = [plans[0]]
circle.append(circle)
del comms[0], plans[0]
""",
        WEIR_LOG="debug",
    )
    assert finished.returncode == 0, finished
    assert "Traceback" not in finished.stderr and "Exception" not in finished.stderr, finished


def test_an_exception_while_python_reads_samples():
    """Threads of the library are in Python while it ends."""
    finished = run_alone(
        """
import struct, time, weir
class Slow(weir.SampleSource):
    def __init__(self):
        super().__init__(size=1000, value_bytes=8, identity="slow", dtype="i8")
    def read(self, first, count):
        time.sleep(0.001)
        return [struct.pack("q", i) for i in range(first, first + count)]
comm = weir.Communicator()
cache = weir.SampleCache(comm, Slow(), threads=3, pack_samples=1)
loader = weir.SampleLoader(cache, batch=200)
operation = cache.start(range(200))
del cache, loader
raise RuntimeError("of the program")
"""
    )
    assert finished.returncode == 1 and finished.stderr.strip().endswith("RuntimeError: of the program"), finished


def test_info_and_bench(tmp_path):
    script = "import runpy, sys; sys.argv[0] = 'weir'; runpy.run_module('weir', run_name='__main__')"
    finished = run_alone(script, "info")
    assert finished.returncode == 0, finished
    assert "oktopk" in finished.stdout and "WEIR_TIMEOUT" in finished.stdout and LIBRARY in finished.stdout
    finished = run_alone(script, *"bench --count 1000 --repeats 20 --json".split(), str(tmp_path / "rows.json"))
    assert finished.returncode == 0, finished
    assert "import weir" in finished.stdout and "Python over C" in (tmp_path / "rows.json").read_text()


def test_mypy():
    mypy = [sys.executable, "-m", "mypy"]
    if subprocess.run([*mypy, "--version"], capture_output=True).returncode != 0:
        pytest.skip("mypy is not installed")
    config = str(pathlib.Path(__file__).resolve().parents[2] / "capi/python/pyproject.toml")
    finished = subprocess.run([*mypy, "--config-file", config, str(PACKAGE)], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stdout


def test_after_mpi_has_been_finalised():
    why = why_no_mpi4py()
    if why:
        pytest.skip(why)
    for comm in ("MPI.COMM_WORLD", "0", "None"):
        text = error_of(run_alone(f"from mpi4py import MPI; import weir; MPI.Finalize(); weir.Communicator({comm})"))
        assert "MPI has been finalised" in text or "MPI_Finalize has been called" in text, text
