#!/usr/bin/env python3
"""Trains examples 01 and 02 to the end with every compressor, on 4 ranks, and compares: accuracy or perplexity, bytes, time.

Writes results/compressors.json and .md, and docs/compressors.svg; skips what is in the JSON with the same settings. Ranks are nodes of
tests/cluster, which needs root. settings.py says how each compressor is trained, and why.
"""
import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import report
from settings import EXAMPLES, TRAININGS

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLUSTER = ROOT / "tests/cluster/cluster"
RANKS = 4
QUICK = {"fashion_mnist": ["--epochs", "1", "--batch", "1000", "--evaluate-every", "5"],
         "language_model": ["--steps", "20", "--evaluate-every", "10", "--vocabulary", "2000", "--embedding", "32", "--hidden", "32", "--negatives",
                            "64", "--evaluation-words", "512"]}


def say(text):
    print(time.strftime("%H:%M:%S"), text, file=sys.stderr, flush=True)


def command(build, example, training, settings, folder):
    if example == "fashion_mnist":
        how = ["--algorithm", training.travels_by]
    else:
        how = ["--scheme", "embrace", "--seconds", "0", "--dense-algorithm", training.travels_by]
    if training.compressor != "none":
        how += ["--compressor", training.compressor]
    return [str(build / "bin" / example), *how, *training.options(example), *settings, "--progress", "lines", "--output", str(folder)]


def train(build, example, training, settings, limit):
    """Returns the run's JSON, or None if it failed."""
    with tempfile.TemporaryDirectory() as folder:
        line = [str(CLUSTER), "mpirun", "-n", str(RANKS), "-p", "1", "--", *command(build, example, training, settings, folder)]
        log = pathlib.Path(folder) / "log"
        with log.open("w") as out:
            process = subprocess.Popen(line, stdout=out, stderr=subprocess.STDOUT, env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
                                       start_new_session=True)
            try:
                status = process.wait(timeout=limit)
            except subprocess.TimeoutExpired:
                status = f"over {limit} s"
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGTERM)
                    process.wait()
        files = [f for f in pathlib.Path(folder).glob("*.json") if f.name != "summary.json"]
        if status != 0 or len(files) != 1:
            say(f"  failed ({status}): " + " | ".join(log.read_text().splitlines()[-3:]))
            return None
        return json.loads(files[0].read_text())


def figures(example, run):
    """Returns the figures to compare, with the same keys for both examples."""
    images = example == "fashion_mnist"
    steps = run["steps"]
    sent = "bytes_per_rank" if images else "dense_bytes"
    return {"quality": run["accuracy"] if images else run["perplexity"], "steps": steps, "seconds": run["seconds"],
            "bytes_per_step": run["bytes_per_rank_per_step" if images else "dense_bytes_per_step"],
            "other_bytes_per_step": 0 if images else run["table_bytes_per_step"], "ms_per_step": run["ms_per_step"],
            "ms_compression_per_step": run["ms_compression_per_step" if images else "ms_dense_compression_per_step"],
            "curve": [[p["step"], round(p[sent]), round(p["seconds"], 3), round(p["accuracy" if images else "perplexity"], 5)]
                      for p in run["curve"]]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, nargs="?", default=ROOT / "build", help="a build with Open MPI and both examples (default: build)")
    parser.add_argument("--only", nargs="+", metavar="COMPRESSOR", help="these alone; none: the dense training")
    parser.add_argument("--examples", nargs="+", default=list(EXAMPLES), choices=EXAMPLES)
    parser.add_argument("--epochs", type=int, default=8, help="of fashion_mnist (default: 8)")
    parser.add_argument("--steps", type=int, default=1500, help="of language_model (default: 1500)")
    parser.add_argument("--rate", default="1gbit", help="of every node's network card (default: 1gbit)")
    parser.add_argument("--limit", type=float, default=1800, help="seconds that one training may take (default: 1800)")
    parser.add_argument("--quick", action="store_true", help="a few steps of each, into a temporary folder: does everything run?")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "perfmodels/results", help="folder for compressors.{json,md}")
    parser.add_argument("--report-only", action="store_true", help="only table and picture, from the JSON that is there")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the training and the cluster, too
    known = {t.compressor for t in TRAININGS}
    for name in options.only or ():
        if name not in known:
            parser.error(f"--only: there is no compressor {name}: known are {', '.join(sorted(known))}")
    picture = ROOT / "docs/compressors.svg"
    if options.quick:
        options.results = pathlib.Path(tempfile.mkdtemp(prefix="weir_compressors_"))
        picture = options.results / "compressors.svg"
    options.results.mkdir(parents=True, exist_ok=True)
    file = options.results / "compressors.json"
    results = json.loads(file.read_text()) if file.exists() else {}
    failed = 0 if options.report_only else train_all(options, results, file)
    report.write(results, options.results / "compressors.md", picture)
    say(f"{options.results / 'compressors.md'}, {picture}")
    sys.exit(1 if failed else 0)


def train_all(options, results, file):
    """Returns the number of failed trainings."""
    if os.geteuid() != 0:
        sys.exit("train.py: the cluster needs root")
    settings = QUICK if options.quick else {"fashion_mnist": ["--epochs", str(options.epochs)],
                                            "language_model": ["--steps", str(options.steps)]}
    todo = []
    for training in TRAININGS:
        # Without the dense training there is nothing to compare with.
        if options.only and training.compressor not in [*options.only, "none"]:
            continue
        for example in options.examples:
            said = [training.travels_by, *training.options(example), *settings[example]]
            if results.get(example, {}).get(training.name, {}).get("settings") != said:
                todo.append((example, training, said))
    if not todo:
        return 0
    failed = 0
    subprocess.run([str(CLUSTER), "up", "-n", str(RANKS), "-r", options.rate], check=True, stdout=subprocess.DEVNULL)
    try:
        for i, (example, training, said) in enumerate(todo):
            say(f"{i + 1}/{len(todo)} {example}: {training.name} ({' '.join(said)})")
            run = train(options.build.resolve(), example, training, settings[example], options.limit)
            if run is None:
                failed += 1
                continue
            results.setdefault(example, {})[training.name] = {"settings": said} | figures(example, run)
            file.write_text(report.dump(results))
            say(f"  {'accuracy' if example == 'fashion_mnist' else 'perplexity'} {results[example][training.name]['quality']:.4f}, "
                f"{run['seconds']:.0f} s")
    finally:
        subprocess.run([str(CLUSTER), "down"], check=False, stdout=subprocess.DEVNULL)
    return failed


if __name__ == "__main__":
    main()
