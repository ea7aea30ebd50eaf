#!/usr/bin/env python3
"""Holds every #include in src/, catalogue/, cuda/ and capi/ against the table of layers in src/README.md.

Usage: test_layers.py ROOT     the repository; exits with 1 and one line per violation
       test_layers.py --self   checks the checker on a small tree with one violation of each kind
"""
import pathlib
import re
import sys
import tempfile

TABLE_HEADER = "| layer | what | may not see | libraries |"
SOURCES = {".hpp", ".cpp", ".h", ".cu", ".cuh"}
# The beginning of a library's includes, and its name in the table. All code may use the C++ standard library, POSIX, and Linux's futex.
LIBRARIES = {"mpi": "MPI", "weir/mpi.h": "MPI", "cuda_": "CUDA", "cub/": "CUDA", "nvtx3/": "CUDA", "nccl.h": "NCCL", "hwloc": "hwloc",
             "hwy/": "Highway", "fmt/": "fmt", "nlohmann/": "nlohmann-json", "CLI/": "CLI11",
             "zlib.h": "zlib", "oneapi/tbb/": "TBB", "xxhash.h": "xxHash", "hdf5.h": "HDF5", "H5FD": "HDF5", "jpeglib.h": "libjpeg", "jerror.h": "libjpeg"}
# Files that capi/interface/generate.py makes during the build, by the text of their include.
GENERATED = {"base/fields.hpp": "base/fields.hpp", "convert.hpp": "capi/convert.hpp"}
POSIX = re.compile(r"(sys/\w+|linux/futex|arpa/\w+|netinet/\w+|net/if|ifaddrs|netdb|unistd|sched|dlfcn|link|fcntl|signal|pthread|poll|time)\.h")


class Layer:
    """One row: a layer's name, its place, and the layers that it may include."""

    def __init__(self, name, place, hidden, libraries):
        self.name, self.place, self.libraries = name, place, libraries
        words = re.findall(r"`([^`]+)`", hidden)
        everything = hidden.startswith("all")
        self.sees = (lambda other: other in words) if everything else (lambda other: other not in words)


def read_table(readme):
    """Returns the layers by their files and folders, relative to src/ or to the root."""
    layers = {}
    rows = readme.read_text().split(TABLE_HEADER, 1)
    if len(rows) < 2:
        sys.exit(f"{readme}: no table that begins with '{TABLE_HEADER}'")
    for place, line in enumerate(rows[1].strip().splitlines()[1:]):
        if not line.startswith("|"):
            break
        names, _, hidden, libraries = (cell.strip() for cell in line.strip("|").split("|"))
        names = re.findall(r"`([^`]+)`", names)
        layer = Layer(names[0], place, hidden, [word.strip() for word in libraries.split(",")])
        layers |= {name: layer for name in names}
    known = {layer.name for layer in layers.values()}
    for line in rows[1].splitlines():
        if line.startswith("| `"):
            unknown = set(re.findall(r"`([^`]+)`", line.split("|")[3])) - known
            if unknown:
                sys.exit(f"{readme}: 'may not see' names {', '.join(sorted(unknown))}, which begins no row")
    return layers


def layer_of(path, layers):
    """Returns the layer of a file, by the most specific row that names it."""
    fitting = [name for name in layers if path == name or path.startswith(name + "/")]
    return layers[max(fitting, key=len)] if fitting else None


def resolve(root, file, name):
    """Returns the included file relative to src/ or to the root, as compilers look it up; None where no such file exists."""
    for folder in (file.parent, root / "src", root):
        for candidate in (folder / name, folder / (name + ".in")):
            if candidate.exists():
                return short(root, candidate)
    return GENERATED.get(name)


def short(root, file):
    path = file.resolve().relative_to(root.resolve()).as_posix()
    return path.removeprefix("src/")


def library_of(name):
    """Returns the library of <name>: '' if it needs no mention, None if it is unknown."""
    for start, library in LIBRARIES.items():
        if name.startswith(start):
            return library
    return "" if POSIX.fullmatch(name) or name.startswith("weir/") or re.fullmatch(r"\w+", name) else None


def complaint(root, file, bracket, name, layers):
    """Returns what is wrong with one #include, or None."""
    own = layer_of(short(root, file), layers)
    if own is None:
        return "the table has no row for this file"
    if bracket == "<":
        library = library_of(name)
        if library is None:
            return f"<{name}> is of a library that tests/rules/test_layers.py does not know: add it to LIBRARIES"
        if library and library not in own.libraries:
            return f"<{name}>: {own.name} may not use {library}"
        return None
    path = resolve(root, file, name)
    if path is None:
        return f'"{name}" is neither beside this file nor in src/ nor in the root: include a library with <>'
    other = layer_of(path, layers)
    if other is None:
        return f'"{name}": the table has no row for it'
    if other is own:
        return None
    if other.place > own.place:
        return f'"{name}": {other.name} stands below {own.name} in the table'
    return None if own.sees(other.name) else f'"{name}": {own.name} may not see {other.name}'


def check(root):
    """Returns all violations, one line each, and the number of files read."""
    layers = read_table(root / "src/README.md")
    files = [file for folder in ("src", "catalogue", "cuda", "capi") for file in sorted((root / folder).rglob("*")) if file.suffix in SOURCES]
    found = []
    for file in files:
        for number, line in enumerate(file.read_text().splitlines(), 1):
            include = re.match(r'\s*#\s*include\s*([<"])([^">]+)[">]', line)
            wrong = include and complaint(root, file, include[1], include[2], layers)
            if wrong:
                found.append(f"{file.relative_to(root)}:{number}: {wrong}")
    return found, len(files)


def self_test():
    files = {
        "src/README.md": f"{TABLE_HEADER}\n| --- | --- | --- | --- |\n| `low` | | | |\n| `high/pure.hpp` | | all but `low` | |\n| `middle` | | `low` | |\n"
                         "| `high` | | | fmt |\n| `cuda` | | all | CUDA |\n",
        "src/low/a.hpp": '#include <vector>\n#include <unistd.h>\n#include "low/b.hpp"\n#include "high/pure.hpp"\n',
        "src/low/b.hpp": "#include <fmt/format.h>\n#include <strange/strange.h>\n",
        "src/high/pure.hpp": '#include "low/a.hpp"\n#include "high/c.hpp"\n',
        "src/middle/m.hpp": '#include "low/a.hpp"\n#include "high/pure.hpp"\n',
        "src/high/c.hpp": '#include <fmt/format.h>\n#include "pure.hpp"\n#include "middle/m.hpp"\n#  include <cuda_runtime.h>\n#include "none.hpp"\n',
        "src/stray/s.hpp": "#include <vector>\n",
        "cuda/k.cu": '#include <cuda_runtime.h>\n#include "low/a.hpp"\n',
        "capi/c.cpp": '#include <weir/mpi.h>\n',
    }
    expected = {"src/low/a.hpp:4", "src/low/b.hpp:1", "src/low/b.hpp:2", "src/high/pure.hpp:2", "src/middle/m.hpp:1", "src/high/c.hpp:4",
                "src/high/c.hpp:5", "src/stray/s.hpp:1", "cuda/k.cu:2", "capi/c.cpp:1"}
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        found = {":".join(line.split(":")[:2]) for line in check(root)[0]}
    if found != expected:
        sys.exit(f"missed: {sorted(expected - found)}; wrongly found: {sorted(found - expected)}")


def main():
    if sys.argv[1:] == ["--self"]:
        return self_test()
    found, files = check(pathlib.Path(sys.argv[1]))
    if files < 3:
        sys.exit(f"only {files} files under {sys.argv[1]}: is this the repository?")
    if found:
        sys.exit("\n".join(found) + "\nThe table in src/README.md says what may include what.")


main()
