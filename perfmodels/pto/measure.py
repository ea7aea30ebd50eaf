#!/usr/bin/env python3
"""Measures LARS and LAMB, with the work divided among ranks and repeated on each, and compares with the predictions of the cost
functions: in shared memory, on tests/cluster, and simulated.

    measure.py shared build/bin/weir-benchmarks                            # 2 ranks that share memory
    measure.py cluster build/bin/weir-benchmarks                           # as root: 4 nodes at 1 and 10 Gbit/s
    measure.py simulated build-simgrid/bin/weir_simulate_pto.so            # 128 GPUs on 16 nodes, as in CommLib section 5
    measure.py report

Writes ../results/pto.json and, from it, pto.md; skips what is in the JSON unless --force.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = ROOT / "perfmodels/results/pto.json"
CLUSTER = ROOT / "tests/cluster/cluster"
sys.path.insert(0, str(ROOT / "perfmodels/simgrid"))
MODELS = ["resnet50", "bert_base"]
NODES, RATES = 4, [1, 10]  # Gbit/s
SHARED_RANKS, SIMULATED_RANKS = 2, 128
MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1", "-n", str(SHARED_RANKS)]


def say(text):
    print(time.strftime("%H:%M:%S"), text, file=sys.stderr, flush=True)


def load():
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


class Measured:
    """Holds the results so far, and runs `weir-benchmarks pto` for the missing ones."""

    def __init__(self, options, folder):
        self.options, self.results = options, load()
        self.machine, self.rows = folder / "machine.json", folder / "rows.json"

    def missing(self, where):
        return [model for model in self.options.models if self.options.force or f"{where} {model}" not in self.results]

    def arguments(self, model):
        table = ROOT / f"perfmodels/models/{model}.json"
        return ["--model", str(table), "--iterations", str(self.options.iterations), "--warmup", str(self.options.warmup), "--json", str(self.rows)]

    def keep(self, where, model):
        self.results[f"{where} {model}"] = json.loads(self.rows.read_text())
        RESULTS.write_text(json.dumps(self.results, indent=1) + "\n")

    def by_command(self, where, start):
        """Measures the missing models. `start` is the launcher's command line, before the program. Its folder also has the command
        weir."""
        program, models = str(self.options.program.resolve()), self.missing(where)
        if models:
            say(f"{where}: calibrate")
            subprocess.run([*start, str(self.options.program.resolve().with_name("weir")), "calibrate", "--output", str(self.machine)], check=True, stdout=subprocess.DEVNULL)
        for model in models:
            say(f"{where}: {model}")
            subprocess.run([*start, program, "pto", *self.arguments(model)], check=True, env=os.environ | {"WEIR_MACHINE": str(self.machine)})
            self.keep(where, model)


def measure_cluster(measured):
    for rate in measured.options.rates:
        subprocess.run([str(CLUSTER), "up", "-n", str(NODES), "-r", f"{rate}gbit"], check=True, stdout=subprocess.DEVNULL)
        try:
            measured.by_command(f"cluster-{rate}gbit", [str(CLUSTER), "mpirun", "-n", str(NODES), "-p", "1", "--"])
        finally:
            subprocess.run([str(CLUSTER), "down"], check=True, stdout=subprocess.DEVNULL)


def measure_simulated(measured):
    import machines  # only where SimGrid is

    os.environ["WEIR_MACHINE"] = str(ROOT / "perfmodels/machines/simulated_commlib.json")
    for model in measured.missing("simulated"):
        say(f"simulated: {model}")
        machines.simulate(str(measured.options.program), "commlib", SIMULATED_RANKS, 1, measured.arguments(model))
        measured.keep("simulated", model)


def title_of(key, ranks):
    where, model = key.split()
    if where.startswith("cluster"):
        return f"{model}, {ranks} nodes at {where.removeprefix('cluster-').removesuffix('gbit')} Gbit/s"
    return f"{model}, " + (f"{ranks} ranks that share memory" if where == "shared" else f"{ranks} simulated GPUs, 8 a node, at 25 Gbit/s")


def division_of(row):
    chosen = f"{row['norms_in_force']} / {row['update_in_force']}"
    return f"automatic: {chosen}" if "automatic" in (row["norms"], row["update"]) else chosen


def report(results):
    lines = ["# LARS and LAMB, divided and not", "",
             "By `perfmodels/pto/measure.py`. Milliseconds; in brackets, what the cost functions predict with a machine file by `weir calibrate`. A step is the slowest rank's,",
             "median and least; norms and update are work on a rank's share, gather is agreeing and gathering, waiting included: medians of the rank where they are most, which",
             "need not be the same rank. x: steps of `replicated / replicated` over this, by the least. On one machine, ranks share 2 cores: the cluster's 4 nodes as well. Simulated",
             "GPUs take as long as memory takes; launching kernels costs nothing there.", ""]
    for key, rows in results.items():
        lines += [f"## {title_of(key, rows[0]['ranks'])}", "", "| rule | norms / update | step | least | norms | update | gather | MB | x | x predicted |",
                  "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
        for row in rows:
            first = next(other for other in rows if other["rule"] == row["rule"])
            cells = " | ".join(f"{row[what]:.3f} ({row['predicted_' + what]:.3f})" for what in ("norms_ms", "update_ms", "gather_ms"))
            lines.append(f"| {row['rule']} | {division_of(row)} | {row['median_ms']:.3f} ({row['predicted_ms']:.3f}) | {row['min_ms']:.3f} | {cells} | "
                         f"{row['memory_bytes'] / 1e6:.0f} | {first['min_ms'] / row['min_ms']:.2f} | {first['predicted_ms'] / row['predicted_ms']:.2f} |")
        lines.append("")
    RESULTS.with_suffix(".md").write_text("\n".join(lines))


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="what", required=True)
    commands.add_parser("report")
    for name in ("shared", "cluster", "simulated"):
        command = commands.add_parser(name)
        command.add_argument("program", type=pathlib.Path)
        command.add_argument("--models", nargs="+", choices=MODELS, default=MODELS[:1] if name == "simulated" else MODELS)
        command.add_argument("--iterations", type=int, default=1 if name == "simulated" else 9)
        command.add_argument("--warmup", type=int, default=0 if name == "simulated" else 2)
        command.add_argument("--force", action="store_true", help="measure again what has results")
    commands.choices["cluster"].add_argument("--rates", nargs="+", type=int, default=RATES, help="Gbit/s")
    return parser.parse_args()


def main():
    options = parse()
    if options.what != "report":
        with tempfile.TemporaryDirectory() as folder:
            measured = Measured(options, pathlib.Path(folder))
            if options.what == "shared":
                measured.by_command("shared", MPIRUN)
            elif options.what == "cluster":
                measure_cluster(measured)
            else:
                measure_simulated(measured)
    report(load())


main()
