#!/usr/bin/env python3
"""Simulates exact sums of sparse arrays by every algorithm, against MPI_Allreduce of the dense array, and makes a table.

    sums.py PROGRAM WEIR [--machines piz_daint commlib] [--ranks 16 32 ...] [--densities 0.0001 ...] [--force]

PROGRAM is weir_simulate.so (build.sh), WEIR the command line tool of an ordinary build, for predictions. Sums are made by CPUs: a
rank moves 12 GB/s, about what a core does. The networks are those of machines.py, at full size. Writes sums.json and sums.md. Cases
that are already in sums.json are not run again unless --force.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import machines
from compare_predictions import RANKS_PER_NODE

CORE_SPEED = 12e9
BY_MPI = "mpi_allreduce"
IN_SHARED_MEMORY = ("shared", "hierarchical")  # simulated ranks share no memory


def memory_of(algorithm, case):
    """Returns about how many bytes all ranks need together."""
    count, ranks = case["count"], case["ranks"]
    entries = case["density"] * count
    union = min(count, ranks * entries)
    needs = {"gather": 42 * ranks * entries, "split": 25 * union + 60 * entries, "doubling": 66 * union, "dense": 30 * count,
             "hash": 42 * union + 60 * entries, "blocks": 34 * count}
    return ranks * needs.get(algorithm, 25 * count)


def predicted_seconds(weir, figures, case, folder):
    """Returns the predicted seconds of each sum."""
    per_node, output = RANKS_PER_NODE[case["machine"]], os.path.join(folder, "predictions.json")
    command = [weir, "predict", "--sum", "--machine", figures, "--json", output, "--count", str(case["count"])]
    command += ["--density", str(case["density"]), "--nodes", str(case["ranks"] // per_node), "--ranks-per-node", str(per_node)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=os.environ | {"WEIR_SHARED_MEMORY": "0"})
    with open(output) as file:
        rows = [row for row in json.load(file)["predictions"] if row["collective"] == "sum"]
    return {row["algorithm"]: row["total_ms"] / 1e3 for row in rows if row["algorithm"] not in IN_SHARED_MEMORY}


def run_case(options, case):
    """Simulates and predicts all algorithms. Returns the case with its rows."""
    with tempfile.TemporaryDirectory() as folder:
        file, figures = os.path.join(folder, "rows.json"), os.path.join(folder, "machine.json")
        machines.scaled_figures(case["machine"], 1, figures, CORE_SPEED)
        os.environ["WEIR_MACHINE"] = figures
        predicted = predicted_seconds(options.weir, figures, case, folder)
        algorithms = [name for name in options.algorithms or [BY_MPI, "auto", *predicted] if memory_of(name, case) <= options.memory]
        arguments = ["--count", str(case["count"]), "--density", str(case["density"]), "--iterations", "1", "--warmup", "0"]
        arguments += ["--sums", ",".join(algorithms), "--json", file]
        seconds, memory = machines.simulate(options.program, case["machine"], case["ranks"], 1, arguments, CORE_SPEED)
        with open(file) as found:
            rows = json.load(found)
    keys = ("algorithm", "error", "seconds", "payload_bytes_sent", "control_bytes_sent", "bytes_sent", "selected_local", "selected_global")
    names = {"selected_local": "entries", "selected_global": "entries_sum"}
    result = case | {"real_seconds": round(seconds, 1), "peak_memory_bytes": memory, "rows": []}
    for row in rows:
        kept = {names.get(key, key): row[key] for key in keys if key in row}
        kept["ran_as"] = row.get("explanation", "")
        if row["algorithm"] in predicted:
            kept["seconds_predicted"] = predicted[row["algorithm"]]
        result["rows"].append(kept)
    return result


def milliseconds(row):
    return f"{row['seconds'] * 1e3:.3f}" if row and "seconds" in row else ""


def table(cases):
    """Returns a table in Markdown."""
    sums = sorted({row["algorithm"] for case in cases for row in case["rows"]} - {BY_MPI, "auto"})
    lines = ["# Exact sums of sparse arrays, simulated", "",
             f"Milliseconds of one sum of {cases[0]['count']:,} doubles, simulated with SimGrid (`sums.py`). Each rank has entries at random "
             "places for a share of the elements, the density. `piz_daint` has one rank a node, `commlib` eight, which share a network "
             f"card. A rank's loops move {CORE_SPEED / 1e9:.0f} GB/s. The last column is the time of `MPI_Allreduce` of the dense array, in the "
             "same run, over that of `auto`. A cell is empty where the simulation would need too much memory.", ""]
    head = ["machine", "ranks", "density", "`MPI_Allreduce`", *(f"`{name}`" for name in sums), "`auto`", "`auto` takes", "times as fast"]
    lines += [f"| {' | '.join(head)} |", "| --- |" + " ---: |" * (len(head) - 1)]
    for case in cases:
        rows = {row["algorithm"]: row for row in case["rows"]}
        auto, dense = rows["auto"], rows[BY_MPI]
        cells = [case["machine"], str(case["ranks"]), f"{case['density'] * 100:g} %", milliseconds(dense)]
        cells += [milliseconds(rows.get(name)) for name in sums]
        cells += [milliseconds(auto), f"`{auto['ran_as']}`", f"{dense['seconds'] / auto['seconds']:.1f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines + [""] + choices(cases) + predictions(cases)) + "\n"


def choices(cases):
    """Returns how far `auto` is from the fastest algorithm."""
    losses = []
    for case in cases:
        seconds = {row["algorithm"]: row["seconds"] for row in case["rows"] if "seconds" in row and row["algorithm"] != BY_MPI}
        losses.append(seconds["auto"] / min(seconds.values()))
    best = sum(loss <= 1.01 for loss in losses)
    return [f"`auto` is within 1 % of the fastest algorithm in {best} of {len(cases)} cases, and takes at most {max(losses):.2f} times as long."]


def predictions(cases):
    lines = ["", "Predicted by `weir predict --sum` against simulated:", "", "| algorithm | median error | largest | predictions |",
             "| --- | ---: | ---: | ---: |"]
    errors = {}
    for case in cases:
        for row in case["rows"]:
            if "seconds" in row and "seconds_predicted" in row:
                errors.setdefault(row["algorithm"], []).append(row["seconds_predicted"] / row["seconds"] - 1)
    for name, own in sorted(errors.items()):
        lines.append(f"| `{name}` | {statistics.median(map(abs, own)):.1%} | {max(own, key=abs):+.1%} | {len(own)} |")
    return lines


def parse():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="weir_simulate.so")
    parser.add_argument("weir", help="the command line tool")
    parser.add_argument("--machines", nargs="+", choices=RANKS_PER_NODE, default=list(RANKS_PER_NODE))
    parser.add_argument("--ranks", nargs="+", type=int, default=[16, 32, 64, 128, 256])
    parser.add_argument("--densities", nargs="+", type=float, default=[0.0001, 0.001, 0.01, 0.1])
    parser.add_argument("--count", type=int, default=1000000, help="elements of the array")
    parser.add_argument("--algorithms", nargs="+", help="all by default")
    parser.add_argument("--memory", type=float, default=12e9, help="leaves out algorithms that need more bytes")
    parser.add_argument("--results", default=os.path.join(here, "..", "results", "simgrid"))
    parser.add_argument("--force", action="store_true", help="run cases again that have results")
    return parser.parse_args()


def main():
    options = parse()
    file, cases = os.path.join(options.results, "sums.json"), []
    if os.path.exists(file):
        with open(file) as found:
            cases = json.load(found)
    for machine in options.machines:
        for ranks in options.ranks:
            for density in options.densities:
                case = {"machine": machine, "ranks": ranks, "count": options.count, "density": density}
                same = [old for old in cases if all(old[key] == value for key, value in case.items())]
                if same and not options.force:
                    continue
                print(f"{ranks} ranks of {machine}, density {density:g}", file=sys.stderr, flush=True)
                cases = [old for old in cases if old not in same] + [run_case(options, case)]
                cases.sort(key=lambda old: (list(RANKS_PER_NODE).index(old["machine"]), old["ranks"], old["density"]))
                with open(file + ".partial", "w") as partial:
                    json.dump(cases, partial, indent=1)
                os.replace(file + ".partial", file)
    text = table(cases)
    print(text)
    with open(os.path.join(options.results, "sums.md"), "w") as out:
        out.write(text)


if __name__ == "__main__":
    main()
