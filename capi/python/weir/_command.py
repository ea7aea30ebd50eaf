"""The script `weir` of a wheel. It runs the command in the package's folder, on the MPI that the package has found."""
from __future__ import annotations

import os
import pathlib
import sys

from . import _mpi


def main() -> None:
    """Replaces this process by the command, with the same arguments. Does not return."""
    folder = pathlib.Path(__file__).resolve().parent
    program = str(folder / "bin/weir")
    if not os.path.exists(program):
        sys.exit("weir: only the package of a wheel has the command: use the one that was installed with the library")
    mpi = _mpi.find(folder)
    # The command needs _mpi.NAME, as the library does, and cannot choose its MPI before it starts.
    before = [mpi.path, str(_mpi.stand_in(folder)), os.environ.get("LD_PRELOAD", "")]
    os.environ["LD_PRELOAD"] = ":".join(filter(None, before))
    os.execv(program, ["weir", *sys.argv[1:]])
