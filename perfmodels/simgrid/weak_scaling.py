#!/usr/bin/env python3
"""Simulates the papers' scaling experiments with every allreduce algorithm of the registry.

    weak_scaling.py PROGRAM [--cases vgg16 lstm bert commlib] [--ranks 16 32 ...] [--algorithms NAME[+THRESHOLD] ...]

PROGRAM is weir_simulate.so (build.sh). Every case, one model on one number of ranks, is one JSON file in --results; algorithms that
it has are not run again unless --force. Then a table and an SVG picture (gnuplot) per experiment are made of all files there are.
"""
import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile

import machines

# Ok-Topk, Table 2 and figures 8, 10, 12: parameters, density, ranks, and by how much Ok-Topk's whole iteration beats the others there.
MODELS = {
    "vgg16": {"count": 14728266, "density": 0.02, "ranks": [16, 32], "paper": "1.51x-8.83x at 32 ranks"},
    "lstm": {"count": 27569568, "density": 0.02, "ranks": [16, 32, 64], "paper": "1.34x-7.71x at 64 ranks"},
    "bert": {"count": 133547324, "density": 0.01, "ranks": [16, 32, 64, 128, 256], "paper": "3.29x-12.95x at 256 ranks"},
}
# CommLib, figure 7: data aggregation time over vector length on 16 instances of 8 ranks.
COMMLIB_COUNTS = [2**e for e in (18, 20, 22, 24, 26, 27)]


def experiment_cases(name, ranks):
    """(machine, ranks, count, density) of every case."""
    if name == "commlib":
        return [("commlib", 128, count, 0.01) for count in COMMLIB_COUNTS]
    model = MODELS[name]
    return [("piz_daint", p, model["count"], model["density"]) for p in model["ranks"] if not ranks or p in ranks]


def case_file(options, name, case):
    machine, ranks, count, _ = case
    return os.path.join(options.results, f"{name}-{machine}-p{ranks}-n{count}.json")


def simulate_rows(options, machine, ranks, scale, arguments):
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "rows.json")
        seconds, memory = machines.simulate(options.program, machine, ranks, scale, [*arguments, "--json", file])
        with open(file) as rows:
            return [row | {"scale": scale, "real_seconds": round(seconds, 1), "peak_memory_bytes": memory} for row in json.load(rows)]


def registry(options):
    rows = simulate_rows(options, "flat", 1, 1, ["--count", "64", "--iterations", "1", "--warmup", "0"])
    return [row["algorithm"] for row in rows]


def run_case(options, name, case):
    """Runs the algorithms that the case's file lacks, one at a time, and adds each to the file."""
    machine, ranks, count, density = case
    file = case_file(options, name, case)
    scale = max(1, math.ceil(count * ranks / options.elements))
    result = {"experiment": name, "machine": machine, "ranks": ranks, "count": count, "density": density, "rows": []}
    if os.path.exists(file) and not options.force:
        with open(file) as found:
            result = json.load(found)
    for algorithm in options.algorithms:
        if any(row["algorithm"] == algorithm and "error" not in row for row in result["rows"]):
            continue
        print(f"{name}: {algorithm}, {ranks} ranks of {machine}, {count} elements, scaled by {scale}", file=sys.stderr, flush=True)
        arguments = ["--count", str(round(count / scale)), "--density", str(density), "--algorithms", algorithm]
        arguments += ["--iterations", str(options.iterations), "--warmup", str(options.warmup)]
        rows = simulate_rows(options, machine, ranks, scale, arguments)
        result["rows"] = [row for row in result["rows"] if row["algorithm"] != algorithm] + rows
        with open(file + ".partial", "w") as partial:
            json.dump(result, partial, indent=1)
        os.replace(file + ".partial", file)


def load_cases(options, name):
    found = []
    for case in experiment_cases(name, None):
        if os.path.exists(case_file(options, name, case)):
            with open(case_file(options, name, case)) as file:
                found.append(json.load(file))
    return found


def table(name, cases):
    """Markdown: simulated communication and sparsification, and its ratio to oktopk's in the same case."""
    lines = [f"# {name}, simulated", "", "Milliseconds of one allreduce: selection, exchange, apply. control: its share of the bytes a rank "
             "sends, overrated by the scale. x: times oktopk's of the same case."]
    lines += ["", "| ranks | elements | scale | algorithm | ms | select | exchange | apply | control | x |"]
    lines.append("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for case in cases:
        best = next((r["seconds"] for r in case["rows"] if r["algorithm"] == "oktopk" and "seconds" in r), None)
        for row in case["rows"]:
            start = f"| {case['ranks']} | {case['count']} | {row['scale']} | {row['algorithm']} |"
            if "error" in row:
                lines.append(f"{start} {row['error']} | | | | | |")
                continue
            ms = [f"{row[key] * 1e3:.3f}" for key in ("seconds", "seconds_select", "seconds_exchange", "seconds_apply")]
            control = row["control_bytes_sent"] / (row["control_bytes_sent"] + row["payload_bytes_sent"])
            factor = f"{row['seconds'] / best:.2f}" if best else ""
            lines.append(f"{start} {' | '.join(ms)} | {control:.0%} | {factor} |")
    if name in MODELS:
        lines += ["", f"The paper: Ok-Topk's whole training iteration, forward and backward pass included, is {MODELS[name]['paper']} "
                  "faster than the others'. The factors above are of communication and sparsification alone, and of Weir's own "
                  "algorithms on both sides."]
    return "\n".join(lines) + "\n"


def draw(options, name, cases):
    over = "count" if name == "commlib" else "ranks"
    names = []
    for case in cases:
        names += [row["algorithm"] for row in case["rows"] if "seconds" in row and row["algorithm"] not in names]
    blocks = []
    for algorithm in names:
        points = [(case[over], row["seconds"] * 1e3) for case in cases for row in case["rows"]
                  if row["algorithm"] == algorithm and "seconds" in row]
        blocks.append("\n".join(f"{x} {y}" for x, y in points))
    plots = ", ".join(f"$data index {i} using 1:2 with linespoints lw 2 pt 7 ps 0.6 title '{n}'" for i, n in enumerate(names))
    script = f"""set terminal svg size 820,560 font 'DejaVu Sans,13' background rgb 'white'
set output '{os.path.join(options.results, name)}.svg'
set title '{name}: one allreduce, simulated' noenhanced
set key noenhanced left top
set logscale xy
set border 3
set tics nomirror out
set grid lc rgb '#e2e2e2'
set xlabel '{"elements" if over == "count" else "ranks"}'
set ylabel 'selection + exchange + apply (ms)'
{"set xtics (" + ", ".join(str(c["ranks"]) for c in cases) + ")" if over == "ranks" else "set format x '%.0s%c'"}
$data << END
{(chr(10) * 3).join(blocks)}
END
plot {plots}
"""
    subprocess.run(["gnuplot"], input=script, text=True, check=True)


def parse():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="weir_simulate.so")
    parser.add_argument("--cases", nargs="+", choices=[*MODELS, "commlib"], default=[*MODELS, "commlib"])
    parser.add_argument("--ranks", nargs="+", type=int, help="only these numbers of ranks")
    parser.add_argument("--algorithms", nargs="+", help="NAME or NAME+THRESHOLD; all of the registry by default")
    parser.add_argument("--iterations", type=int, default=2)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--elements", type=float, default=2.5e8, help="ranks x elements to simulate at most; 10 bytes each")
    parser.add_argument("--results", default=os.path.join(here, "..", "results", "simgrid"))
    parser.add_argument("--force", action="store_true", help="run cases again that have results")
    return parser.parse_args()


def main():
    options = parse()
    os.makedirs(options.results, exist_ok=True)
    options.algorithms = options.algorithms or registry(options)
    for name in options.cases:
        for case in experiment_cases(name, options.ranks):
            run_case(options, name, case)
        cases = load_cases(options, name)
        text = table(name, cases)
        print(text)
        with open(os.path.join(options.results, name + ".md"), "w") as file:
            file.write(text)
        if cases and shutil.which("gnuplot"):
            draw(options, name, cases)


if __name__ == "__main__":
    main()
