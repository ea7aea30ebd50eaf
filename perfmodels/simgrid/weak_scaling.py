#!/usr/bin/env python3
"""Simulates the papers' scaling experiments with every allreduce algorithm of the registry.

    weak_scaling.py PROGRAM [--cases vgg16 lstm bert commlib] [--ranks 16 32 ...] [--counts N ...]
                            [--algorithms NAME[+THRESHOLD|:SCHEDULE] ...]

PROGRAM is weir_simulate.so (build.sh). Plans choose by the machine's calibrated figures (../machines). Every case, one model on
one number of ranks, is one JSON file in --results. Algorithms already in the file are not run again unless --force. Finally the
program makes tables and an SVG picture (gnuplot) for each experiment from all existing files.
"""
import argparse
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile

import machines

# Ok-Topk, Table 2 and figures 8, 10, 12: parameters, density, ranks, and the speed-up of Ok-Topk's whole iteration over the others.
MODELS = {
    "vgg16": {"count": 14728266, "density": 0.02, "ranks": [16, 32], "paper": "1.51x-8.83x at 32 ranks"},
    "lstm": {"count": 27569568, "density": 0.02, "ranks": [16, 32, 64], "paper": "1.34x-7.71x at 64 ranks"},
    "bert": {"count": 133547324, "density": 0.01, "ranks": [16, 32, 64, 128, 256, 1024], "paper": "3.29x-12.95x at 256 ranks"},
}
GATHERING = ["topk_allgather", "gaussiank", "topk_dsa"]  # up to P k entries per rank: about 80 bytes per element at 256 ranks
DELIVERING_K = ["gtopk", "oktopk", "hi_oktopk"]  # with any threshold or schedule; the others deliver up to P k entries
# CommLib, figure 7: data aggregation time over vector length on 16 instances of 8 ranks.
COMMLIB_COUNTS = [2**e for e in (18, 20, 22, 24, 26, 27)]


def experiment_cases(name, ranks=None, counts=None):
    """Returns (machine, ranks, count, density) of every case."""
    if name == "commlib":
        return [("commlib", 128, count, 0.01) for count in COMMLIB_COUNTS if not counts or count in counts]
    model = MODELS[name]
    return [("piz_daint", p, model["count"], model["density"]) for p in model["ranks"] if not ranks or p in ranks]


def case_file(options, name, case):
    machine, ranks, count, _ = case
    return os.path.join(options.results, f"{name}-{machine}-p{ranks}-n{count}.json")


def simulate_rows(options, machine, ranks, scale, arguments):
    with tempfile.TemporaryDirectory() as folder:
        file, figures = os.path.join(folder, "rows.json"), os.path.join(folder, "machine.json")
        machines.scaled_figures(machine, scale, figures)
        os.environ["WEIR_MACHINE"] = figures
        seconds, memory = machines.simulate(options.program, machine, ranks, scale, [*arguments, "--json", file])
        with open(file) as rows:
            return [row | {"scale": scale, "real_seconds": round(seconds, 1), "peak_memory_bytes": memory} for row in json.load(rows)]


def registry(options):
    rows = simulate_rows(options, "piz_daint", 1, 1, ["--count", "64", "--iterations", "1", "--warmup", "0"])
    return [row["algorithm"] for row in rows]


def run_case(options, name, case):
    """Runs the algorithms missing from the case's file, one at a time, and adds each to the file."""
    machine, ranks, count, density = case
    file = case_file(options, name, case)
    result = {"experiment": name, "machine": machine, "ranks": ranks, "count": count, "density": density, "rows": []}
    if os.path.exists(file):
        with open(file) as found:
            result = json.load(found)
    for algorithm in options.algorithms:
        if not options.force and any(row["algorithm"] == algorithm and "error" not in row for row in result["rows"]):
            continue
        elements = options.elements / (4 if algorithm in GATHERING else 1)
        scale = max(1, math.ceil(count * ranks / elements))
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
    for case in experiment_cases(name):
        if os.path.exists(case_file(options, name, case)):
            with open(case_file(options, name, case)) as file:
                found.append(json.load(file))
    return found


def share_of_control(row):
    """Returns the share of control messages in the bytes that the library sends, or "" for dense_mpi, whose bytes MPI sends."""
    if not row["payload_bytes_sent"]:
        return ""
    return f"{row['control_bytes_sent'] / (row['control_bytes_sent'] + row['payload_bytes_sent']):.0%}"


def schedule(row):
    found = re.search("schedule: (.*)", row.get("explanation", ""))
    return found[1] if found else ""


def table(name, cases):
    """Returns a table in Markdown: simulated communication and sparsification, and the ratio to oktopk's in the same case."""
    lines = [f"# {name}, simulated", "", "Milliseconds of one allreduce: selection, exchange, apply. control: its share of the bytes a rank "
             "sends, overrated by the scale. x: times oktopk's of the same case."]
    lines += ["", "| ranks | elements | scale | algorithm | schedule | ms | select | exchange | apply | control | x |"]
    lines.append("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for case in cases:
        best = next((r["seconds"] for r in case["rows"] if r["algorithm"] == "oktopk" and "seconds" in r), None)
        for row in case["rows"]:
            start = f"| {case['ranks']} | {case['count']} | {row['scale']} | {row['algorithm']} |"
            if "error" in row:
                lines.append(f"{start} {row['error']} | | | | | | |")
                continue
            ms = [f"{row[key] * 1e3:.3f}" for key in ("seconds", "seconds_select", "seconds_exchange", "seconds_apply")]
            control = share_of_control(row)
            factor = f"{row['seconds'] / best:.2f}" if best else ""
            lines.append(f"{start} {schedule(row)} | {' | '.join(ms)} | {control} | {factor} |")
    if name in MODELS:
        lines += ["", f"The paper: Ok-Topk's whole training iteration, forward and backward pass included, is {MODELS[name]['paper']} "
                  "faster than the others'. The factors above are of communication and sparsification alone, and of Weir's own "
                  "algorithms on both sides."]
    return "\n".join(lines + to_the_best(cases)) + "\n"


def to_the_best(cases):
    """Returns a table in Markdown: how far oktopk and hi_oktopk, with their own choice of schedules, are from the fastest algorithm
    that delivers k entries."""
    lines = ["", "Times the fastest algorithm that delivers k, as each chooses its schedule:", "",
             "| ranks | elements | fastest | ms | `oktopk` | `hi_oktopk` |", "| --- | --- | --- | --- | --- | --- |"]
    for case in cases:
        seconds = {r["algorithm"]: r["seconds"] for r in case["rows"]
                   if "seconds" in r and re.split("[+:]", r["algorithm"])[0] in DELIVERING_K}
        if not seconds:
            continue
        best = min(seconds, key=seconds.get)
        factors = [f"{seconds[own] / seconds[best]:.2f}" if own in seconds else "" for own in ("oktopk", "hi_oktopk")]
        lines.append(f"| {case['ranks']} | {case['count']} | `{best}` | {seconds[best] * 1e3:.3f} | {' | '.join(factors)} |")
    return lines


# Each curve has its own colour and point, because some curves coincide.
STYLES = {
    "dense_ring": "lc rgb '#000000' pt 4",
    "dense_rabenseifner": "lc rgb '#7f7f7f' pt 6",
    "dense_mpi": "lc rgb '#b8b8b8' pt 8",
    "dense_torus2d": "lc rgb '#4a6a8a' pt 12",
    "topk_allgather": "lc rgb '#e69f00' pt 5",
    "gaussiank": "lc rgb '#cc79a7' pt 6",
    "topk_dsa": "lc rgb '#56b4e9' pt 7",
    "gtopk": "lc rgb '#0072b2' pt 9",
    "hitopk": "lc rgb '#009e73' pt 11",
    "hitopk+mstopk": "lc rgb '#7fcf9e' pt 10",
    "hi_oktopk": "lc rgb '#8c510a' pt 13",
    "oktopk": "lc rgb '#d55e00' pt 15",
    "oktopk+reuse": "lc rgb '#f2b08a' pt 14",
    "oktopk:direct": "lc rgb '#d55e00' dt 2 pt 4",
    "hi_oktopk:direct": "lc rgb '#8c510a' dt 2 pt 12",
}


def draw(options, name, cases):
    over = "count" if name == "commlib" else "ranks"
    curves = {}
    for case in cases:
        for row in case["rows"]:
            if "seconds" in row:
                curves.setdefault(row["algorithm"], []).append((case[over], row["seconds"] * 1e3))
    names = sorted(curves, key=lambda algorithm: -curves[algorithm][-1][1])  # the key follows the order of the curves' right ends
    blocks = ["\n".join(f"{x} {y}" for x, y in curves[algorithm]) for algorithm in names]
    plots = ", ".join(f"$data index {i} using 1:2 with linespoints lw 2 ps 0.9 {STYLES.get(n, '')} title '{n}'"
                      for i, n in enumerate(names))
    first, last = cases[0][over], cases[-1][over]
    if over == "ranks":
        title = f"{name}: one allreduce of {cases[0]['count'] / 1e6:.1f} million floats, density {cases[0]['density']:g}"
        tics = "set xtics (" + ", ".join(str(case["ranks"]) for case in cases) + ")"
    else:
        title = f"{name}: one allreduce on 16 nodes of 8 ranks, density {cases[0]['density']:g}"
        tics = "set xtics (" + ", ".join(f"'2^{{{case['count'].bit_length() - 1}}}' {case['count']}" for case in cases) + ")"
    script = f"""set terminal svg size 900,520 font 'DejaVu Sans,13' background rgb 'white'
set output '{os.path.join(options.results, name)}.svg'
set title '{title}, simulated' noenhanced
set key noenhanced outside right center samplen 4
set logscale xy
set xrange [{first / 1.15}:{last * 1.15}]
set border 3
set tics nomirror out
set grid lc rgb '#e2e2e2'
set xlabel '{"elements (floats)" if over == "count" else "ranks, one a node"}'
set ylabel 'selection + exchange + apply (ms)'
{tics}
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
    parser.add_argument("--counts", nargs="+", type=int, help="of commlib, only these numbers of elements")
    parser.add_argument("--algorithms", nargs="+", help="NAME, NAME+THRESHOLD or NAME:SCHEDULE; all of the registry by default")
    parser.add_argument("--iterations", type=int, default=2)
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--elements", type=float, default=2.5e8, help="ranks x elements to simulate at most; 10 bytes each, a quarter of it for "
                        "algorithms that gather P k entries")
    parser.add_argument("--results", default=os.path.join(here, "..", "results", "simgrid"))
    parser.add_argument("--force", action="store_true", help="run cases again that have results")
    return parser.parse_args()


def main():
    options = parse()
    os.makedirs(options.results, exist_ok=True)
    options.algorithms = options.algorithms or registry(options)
    for name in options.cases:
        for case in experiment_cases(name, options.ranks, options.counts):
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
