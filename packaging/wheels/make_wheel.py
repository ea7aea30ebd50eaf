#!/usr/bin/env python3
"""Puts the Python package and the libraries of one build into a wheel for this kind of processor. build.sh calls it.

Usage: make_wheel.py PACKAGE MPI FOLDER OUT    PACKAGE: python of a build folder; MPI: openmpi or mpich; FOLDER: what was
installed: lib/*, share/doc/weir/licenses/*; OUT: where the wheel goes
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
MPI_NEEDS = {"openmpi": "openmpi>=5,<6", "mpich": "mpich>=4.1,<6"}


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
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}",
             f"Summary: {project['description']}, with the library for PyPI's {mpi}", f"Requires-Python: {project['requires-python']}",
             "License: BSD-3-Clause", *(f"License-File: {path}" for path in licenses), "Description-Content-Type: text/markdown"]
    lines += [f"Requires-Dist: {need}" for need in [*project["dependencies"], MPI_NEEDS[mpi]]]
    return "\n".join(lines) + "\n\n" + (HERE / "description.md").read_text()


def main():
    if len(sys.argv) != 5 or sys.argv[2] not in MPI_NEEDS:
        sys.exit(__doc__.strip())
    package, mpi, installed, out = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3]), pathlib.Path(sys.argv[4])
    libraries = sorted((installed / "lib").iterdir())
    licenses = {"LICENSE": ROOT / "LICENSE"}
    licenses |= {f"licenses/{path.name}": path for path in sorted((installed / "share/doc/weir/licenses").iterdir())}
    check_paths(libraries)
    project = tomllib.loads((ROOT / "capi/python/pyproject.toml").read_text())["project"]
    name, version, tag = f"weir-{mpi}", version_of(package), f"py3-none-linux_{platform.machine()}"
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"

    files = {f"weir/{path.relative_to(package / 'weir')}": path.read_bytes() for path in sorted((package / "weir").rglob("*"))
             if path.is_file() and "__pycache__" not in path.parts}
    files |= {f"weir/{path.name}": path.read_bytes() for path in libraries}
    files[f"{info}/METADATA"] = metadata(project, name, version, mpi, licenses).encode()
    files |= {f"{info}/{path}": text.read_bytes() for path, text in licenses.items()}
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: weir\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
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
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, data)
    print(wheel)


main()
