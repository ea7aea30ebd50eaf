#!/usr/bin/env python3
"""Measures the sample cache on tests/cluster, as root. Each node has a rank; one more node is the store.

    measure.py build training     # example 06 without the cache, with it, and once more with level 1 filled
    measure.py build bench        # weir bench datacache: I/O of epochs, and the rate of samples from memory
    measure.py report             # only rewrites the tables

Writes ../results/datacache.json and, from it, datacache.md; docs/draw_datacache.py draws the trainings. BUILD must have
bin/weir-openmpi and bin/sample_cache.
"""
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = ROOT / "perfmodels/results/datacache.json"
CLUSTER = ROOT / "tests/cluster/cluster"
NODES, RATE, IMAGES, EPOCHS, PORT, REPEATS = 4, "1gbit", 8192, 3, 8000, 3
# For each name in the results: nodes including the store, ranks, ranks of a node, options. Without nodes, it runs on this machine.
BENCHES = {
    "4 nodes of 1 rank": (5, 5, 1, []),
    "4 nodes of 2 ranks": (5, 9, 2, ["--batch", "16"]),
    "1 node of 1 rank": (0, 2, 0, ["--samples", "2048", "--sample-bytes", "110592", "--compute-ms", "0", "--epochs", "1"]),
    "1 node of 2 ranks": (0, 3, 0, ["--samples", "2048", "--sample-bytes", "110592", "--compute-ms", "0", "--epochs", "1"]),
    "1 node of 2 ranks, large batches": (0, 3, 0, ["--samples", "2048", "--sample-bytes", "110592", "--compute-ms", "0", "--epochs", "1", "--batch", "256"]),
}


def say(text):
    print(time.strftime("%H:%M:%S"), text, file=sys.stderr, flush=True)


def load():
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


class Cluster:
    def __init__(self, nodes):
        self.nodes = nodes

    def __enter__(self):
        subprocess.run([CLUSTER, "up", "-n", str(self.nodes), "-r", RATE], check=True, stdout=subprocess.DEVNULL)
        return self

    def __exit__(self, *_):
        subprocess.run([CLUSTER, "down"], check=True)

    def mpirun(self, ranks, per_node, *command):
        subprocess.run([CLUSTER, "mpirun", "-n", str(ranks), "-p", str(per_node), "--", *map(str, command)], check=True)


def measure_training(build):
    program, runs = build / "bin/sample_cache", {}
    with tempfile.TemporaryDirectory() as scratch, Cluster(NODES + 1) as cluster:
        store, steps = pathlib.Path(scratch, "store"), pathlib.Path(scratch, "steps.csv")
        subprocess.run([program, "--store", store, "--make", str(IMAGES)], check=True)
        server = subprocess.Popen([CLUSTER, "exec", f"weir{NODES}", sys.executable, "-m", "http.server", str(PORT), "--directory", store],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(2)
        try:
            for run, arguments in {"without": ["--without-cache"], "cache": ["--folder", f"{scratch}/level1"],
                                   "later": ["--folder", f"{scratch}/level1"]}.items():
                say(f"training: {run}")
                cluster.mpirun(NODES, 1, "env", "OPENBLAS_NUM_THREADS=1", program, "--store", f"http://weir{NODES}:{PORT}", "--epochs", EPOCHS,
                               "--csv", steps, *arguments)
                with steps.open() as file:
                    runs[run] = [[round(float(row["seconds"]), 3), int(row["epoch"]), int(float(row["samples"])), round(float(row["loss"]), 4)]
                                 for row in csv.DictReader(file)]
        finally:
            server.terminate()
            server.wait()
    return {"training": {"nodes": NODES, "rate": RATE, "images": IMAGES, "columns": ["seconds", "epoch", "images", "loss"], "runs": runs}}


def measure_bench(build):
    found, command = {}, [build / "bin/weir-openmpi", "bench", "datacache"]
    with tempfile.TemporaryDirectory() as scratch, Cluster(NODES + 1) as cluster:
        out = pathlib.Path(scratch, "rows.json")
        for name, (nodes, ranks, per_node, options) in BENCHES.items():
            runs, loads = [], []
            for repeat in range(REPEATS):
                say(f"bench: {name}, run {repeat + 1} of {REPEATS}")
                loads.append(round(os.getloadavg()[0], 1))
                if nodes:
                    cluster.mpirun(ranks, per_node, *command, *options, "--json", out)
                else:
                    subprocess.run(["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1",
                                    "-np", str(ranks), *command, *options, "--json", out], check=True)
                runs.append(json.loads(out.read_text()))
            found[name] = {"options": options, "loads": loads, "runs": runs}
    return {"bench": found}


def epochs_of(run):
    """Returns (images per second, loss) of each epoch."""
    epochs = []
    begin = 0
    for epoch in sorted({row[1] for row in run}):
        rows = [row for row in run if row[1] == epoch]
        images = sum(row[2] for row in rows)
        epochs.append((images / (rows[-1][0] - begin), sum(row[2] * row[3] for row in rows) / images))
        begin = rows[-1][0]
    return epochs


def report(results):
    lines = ["# The sample cache, measured", "", "Written by `perfmodels/datacache/measure.py`."]
    if "training" in results:
        t = results["training"]
        lines += ["", f"## Example 06, {t['nodes']} nodes at {t['rate']}, {t['images']} images behind `python3 -m http.server`", "",
                  "| run | epoch | images/s | loss |", "| --- | ---: | ---: | ---: |"]
        for name, run in t["runs"].items():
            lines += [f"| {name} | {i + 1} | {rate:.0f} | {loss:.4f} |" for i, (rate, loss) in enumerate(epochs_of(run))]
    for name, bench in results.get("bench", {}).items():
        rows = list(zip(*bench["runs"]))  # over all runs

        def median(row, key, digits):
            return f"{statistics.median(run[key] for run in row):.{digits}f}"

        def each(row):
            return ", ".join(f"{run['ratio']:.2f}" for run in row)

        first = rows[0][0]
        lines += ["", f"## {' '.join(['`weir bench datacache', *bench['options']])}`, {name}", "",
                  f"{first['samples']} samples of {first['sample_bytes']} bytes, batches of {first['batch']}, {first['compute_ms']:.0f} ms of computing each. Medians of "
                  f"{len(bench['runs'])} runs, with a load of the machine of {', '.join(map(str, bench['loads']))} before them.", "",
                  "| run | epoch | I/O s | epoch s | MB from store |", "| --- | ---: | ---: | ---: | ---: |"]
        lines += [f"| {r[0]['run']} | {r[0]['epoch'] + 1} | {median(r, 'io_s', 4)} | {median(r, 'epoch_s', 3)} | {r[0]['store_bytes'] / 1e6:.1f} |"
                  for r in rows if r[0]["benchmark"] == "datacache"]
        lines += ["", "| samples from | GB/s a rank | | GB/s | times as long | in the runs |", "| --- | ---: | --- | ---: | ---: | --- |"]
        lines += [f"| {r[0]['from']} | {median(r, 'gigabytes_per_s', 3)} | {r[0]['baseline']} | {median(r, 'baseline_gigabytes_per_s', 3)} | "
                  f"{median(r, 'ratio', 2)} | {each(r)} |" for r in rows if r[0]["benchmark"] == "datacache_rate"]
    RESULTS.with_suffix(".md").write_text("\n".join(lines) + "\n")


def main():
    what = {"training": measure_training, "bench": measure_bench}
    arguments = sys.argv[1:]
    if arguments != ["report"] and (len(arguments) != 2 or arguments[1] not in what):
        sys.exit(__doc__)
    results = load()
    if arguments != ["report"]:
        results |= what[arguments[1]](pathlib.Path(arguments[0]).resolve())
        RESULTS.write_text(json.dumps(results).replace('"runs"', '\n"runs"').replace('"bench"', '\n"bench"') + "\n")
    report(results)


if __name__ == "__main__":
    main()
