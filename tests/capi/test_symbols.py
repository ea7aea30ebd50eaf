#!/usr/bin/env python3
"""Compares the exports of libweir with the declarations of the C headers, in both directions, and its C++ symbols with their
allow-list.

Usage: test_symbols.py LIBRARY
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "capi/interface"))
import model  # noqa: E402

VERSION = "WEIR_0.1"
CXX = re.compile(r"weir::(Communicator|AllreducePlan|Operation|EmbeddingTable|StepSchedule|FusedAllreduce|ParallelOperator|LayerOptimizer|SparseAdam|SparseSum|Checkpoint|SampleSource|SampleCache|SampleLoader|(record|idx|npy|hdf5|jpeg)_source|detail::communicator_from_mpi|version|algorithms|compressors|inspect|decode|exchanges"
                 r"|settings|set_log_function|level_name)\b|.*weir::(AllreducePlan|FusedAllreduce)::(residual|sparse_result)<|.*weir::SparseSum::result<|(typeinfo|typeinfo name|vtable) for weir::(Error|SampleSource)")


def exported(library, *options):
    """Returns {name: version} of the dynamic symbols that the library defines."""
    lines = subprocess.run(["nm", "-D", "--defined-only", *options, library], check=True, capture_output=True, text=True).stdout.splitlines()
    symbols = [line.split(maxsplit=2) for line in lines]
    return {name.split("@")[0]: name.split("@")[-1] for _, kind, name in symbols if kind != "A"}


def main():
    library = sys.argv[1]
    symbols = exported(library)
    declared = {function.name for header in ("weir.h", "embedding.h", "checkpoint.h", "fusion.h", "optim.h", "sparse_adam.h", "sums.h", "datacache.h", "mpi.h") for function in model.functions(header)}
    for header in ("process_group.hpp", "entry_lists.hpp"):  # for the Python package alone
        declared |= set(re.findall(r"weir_status (weir_\w+)\(", (ROOT / "capi" / header).read_text()))
    in_c = {name for name in symbols if not name.startswith("_Z")}
    if len(declared) < 20 or len(in_c) < 20:
        sys.exit(f"only {len(declared)} functions declared and {len(in_c)} exported: have headers or nm's output changed their form?")
    wrong = [f"{name}: declared in a C header, not exported" for name in sorted(declared - in_c)]
    wrong += [f"{name}: exported, declared in no C header" for name in sorted(in_c - declared)]
    wrong += [f"{name}: exported as of {version}, not {VERSION}" for name, version in sorted(symbols.items()) if version != VERSION]
    demangled = exported(library, "-C")
    wrong += [f"{name}: exported, not on the allow-list" for name in sorted(demangled) if name not in in_c and not CXX.match(name)]
    headers = "".join(file.read_text() for file in sorted((ROOT / "include/weir").glob("*.hpp")))
    classes = set(re.findall(r"^class (\w+) (?:final )?(?:: [^{]*)?{", headers, re.M)) - {"Owner", "Error", "Observer"}  # these are inline
    wrong += [f"weir::{name}: a class of the public headers, none of whose functions is exported"
              for name in sorted(classes) if not any(symbol.startswith(f"weir::{name}::") for symbol in demangled)]
    soname = re.search(r"SONAME +(\S+)", subprocess.run(["objdump", "-p", library], check=True, capture_output=True, text=True).stdout)
    if not soname or not re.fullmatch(r"libweir-(openmpi|mpich)\.so\.\d+", soname[1]):
        wrong.append(f"the soname is {soname and soname[1]}, not libweir-openmpi.so.MAJOR or libweir-mpich.so.MAJOR")
    if wrong:
        sys.exit("\n".join(wrong) + f"\nMend capi/libweir.map, the headers or this list. {library}")


main()
