#!/usr/bin/env python3
"""Measures what the interfaces cost: C over C++, Fortran over C, Python over C, `import weir`, and, with torch and the cluster,
DistributedDataParallel with Weir's hook against plain gloo. Prints one table with the goal of each. Needs a quiet machine.

Usage: bindings.py BUILD [--python PYTHON] [--torch PYTHON] [--json FILE]

  BUILD     a build folder with weir-benchmarks (its target weir_benchmarks), libweir and weir_bench_fortran
  --python  an interpreter with NumPy (this one)
  --torch   an interpreter with torch and NumPy: also measures the hook, on 4 nodes at 1 Gbit/s (as root, some minutes)
  --json    also write the rows to this file
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]


def read(command, environment, file):
    """Runs `command` and returns the JSON that it writes to `file`."""
    subprocess.run(list(map(str, command)), check=True, env=environment, stdout=subprocess.DEVNULL)
    return json.loads(pathlib.Path(file).read_text())


def rows_of(args, folder):
    """Yields a row for each figure as soon as it is known. Leaves out figures whose program is missing."""
    library = next((args.build / "lib").glob("libweir-*.so"))
    environment = {**os.environ, "WEIR_LIBRARY": str(library), "PYTHONPATH": str(library.parents[1] / "python")}
    file = folder / "rows.json"

    def row(what, value, unit, most, command):
        return {"what": what, "value": value, "unit": unit, "at_most": most, "command": command}

    calls = read([args.build / "bin/weir-benchmarks", "capi", "--json", file], environment, file)
    yield row("call of C, over C++", max(r["median_ms"] - r["baseline_ms"] for r in calls) * 1e3, "us", 1, "weir-benchmarks capi")
    program = args.build / "bin/weir_bench_fortran"
    if program.exists():
        calls = read([program, file], environment, file)
        yield row("call of Fortran, over C", max(r["difference_us"] for r in calls.values()), "us", 1, "weir_bench_fortran")
    figures = {r["what"]: r["seconds"] for r in read([args.python, "-m", "weir", "bench", "--json", file], environment, file)["rows"]}
    run = "run of 1,000,000 floats, Python over C"
    yield row(run, figures[run] * 1e6, "us", 30, "python -m weir bench")
    yield row("import weir", figures["import weir"], "s", 0.3, "python -m weir bench")
    if args.torch:
        script = ROOT / "examples/05_torch_ddp/cluster_run.sh"
        hook = read([script, library, folder], {**environment, "PYTHON": args.torch}, folder / "summary.json")
        yield row("step of DDP with the hook, over gloo", 1 / hook["steps_faster"], "x", round(1 / 3, 3), script.relative_to(ROOT))
        yield row("accuracy lost by the hook", -100 * hook["accuracy_difference"], "points", 1, script.relative_to(ROOT))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--torch")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    args.build = args.build.resolve()
    rows = []
    print(f"{'what':<40} {'measured':>16} {'at most':>16}  command")
    with tempfile.TemporaryDirectory() as folder:
        for row in rows_of(args, pathlib.Path(folder)):
            rows.append(row)
            missed = "  MISSED" if row["value"] > row["at_most"] else ""
            print(f"{row['what']:<40} {row['value']:>9.3f} {row['unit']:<6} {row['at_most']:>9} {row['unit']:<6}  {row['command']}{missed}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1, default=str) + "\n")


main()
