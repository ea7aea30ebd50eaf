"""python -m weir info: what is in use here; python -m weir bench: what a call from Python costs."""
from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any, Dict, List, Sequence, Tuple

import numpy as np

import weir
from weir import _mpi
from weir._library import lib

IMPORT = "import time; begin = time.perf_counter(); import weir; print(time.perf_counter() - begin)"


def columns(rows: Sequence[Tuple[str, ...]]) -> str:
    """Returns rows of texts as columns, each but the last as wide as its longest text."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join(f"{text:<{width}}" for text, width in zip(row, widths)).rstrip() for row in rows)


def carries(algorithm: weir.AlgorithmInfo) -> str:
    return "sparse" if algorithm.sparse else "packed" if algorithm.packed else "dense"


def info() -> None:
    """Prints what is in use, on rank 0. Collective."""
    versions = weir.versions()
    with weir.Communicator() as comm:
        if comm.rank != 0:
            return
        print(
            columns(
                [
                    ("weir", f"{weir.__version__} (Python {sys.version.split()[0]}, NumPy {np.__version__})"),
                    ("library", f"{'.'.join(map(str, versions.native))}, {versions.path}"),
                    ("built for", versions.mpi_family),
                    ("MPI", ", ".join([versions.mpi_library.splitlines()[0], *_mpi.loaded()[:1]])),
                    ("ranks", str(comm.size)),
                ]
            )
        )
        print(f"\nTopology\n{comm.topology.rstrip()}")
        print(
            "\nAlgorithms\n"
            + columns([(row.name, carries(row), row.description) for row in weir.algorithms()])
        )
        print("\nCompressors\n" + columns([(row.name, row.carriage, row.description) for row in weir.compressors()]))
        print("\nExchanges of tables\n" + columns([(row.name, row.description) for row in weir.exchanges()]))
        print("\nSettings\n" + columns([(row.name, row.value, row.origin) for row in weir.settings()]))


def seconds_of_import(repeats: int) -> float:
    """Returns the shortest time that `import weir` takes in a new process, since what else runs on the machine only adds to it."""
    return min(
        float(subprocess.run([sys.executable, "-c", IMPORT], check=True, capture_output=True, text=True).stdout)
        for _ in range(repeats)
    )


def seconds_of_calls(comm: weir.Communicator, count: int, repeats: int) -> Tuple[float, float]:
    """Medians of a run through this package, and of the same function of the library called bare, by turns."""
    gradient = np.zeros(count, np.float32)
    address = gradient.ctypes.data
    package: List[float] = []
    bare: List[float] = []
    with weir.AllreducePlan(comm, count=count, density=0.001) as plan:
        pointer = plan._handle().pointer
        for turn in range(2 * repeats):
            begin = time.perf_counter()
            if turn % 2:
                plan.run(gradient)
            else:
                lib.weir_plan_run(pointer, address)
            (package if turn % 2 else bare).append(time.perf_counter() - begin)
    return statistics.median(package), statistics.median(bare)


def bench(count: int, repeats: int, path: str) -> None:
    """On every rank collective; rank 0 prints."""
    results: List[Dict[str, Any]] = []
    with weir.Communicator() as comm:
        for elements in (1, count):
            package, bare = seconds_of_calls(comm, elements, repeats)
            results.append(
                {"what": f"run of {elements:,} floats, Python over C", "seconds": package - bare, "limit": 30e-6, "of": package}
            )
        if comm.rank == 0:
            results.append({"what": "import weir", "seconds": seconds_of_import(5), "limit": 0.3, "of": None})
            rows = [
                (
                    row["what"],
                    f"{row['seconds'] * 1e6:,.1f} us",
                    f"at most {row['limit'] * 1e6:,.0f} us",
                    f"of {row['of'] * 1e6:,.1f} us" if row["of"] else "",
                )
                for row in results
            ]
            print(columns(rows))
            if path:
                with open(path, "w") as file:
                    json.dump({"ranks": comm.size, "rows": results}, file, indent=1)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m weir", description="What is in use here, and what a call from Python costs.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("info", help="versions, library, MPI, topology, algorithms, settings")
    measure = commands.add_parser("bench", help="the time that Python adds to a call, and that of the import")
    measure.add_argument("--count", type=int, default=1_000_000, help="elements of the large plan (default: %(default)s)")
    measure.add_argument("--repeats", type=int, default=500, help="calls of each kind (default: %(default)s)")
    measure.add_argument("--json", default="", metavar="FILE", help="write the figures to FILE, in seconds")
    given = parser.parse_args()
    try:
        if given.command == "info":
            info()
        else:
            bench(given.count, given.repeats, given.json)
        sys.stdout.flush()
    except BrokenPipeError:  # of `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
