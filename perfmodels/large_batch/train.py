#!/usr/bin/env python3
"""Trains example 01 with 8 times its batch: SGD and LARS, each with the best of the same number of settings.

    train.py build                    # takes an hour of one core; resumable
    train.py build --jobs 4

One rank takes the whole batch, because averaging over ranks gives the same gradients. Every setting is trained from SELECTION_SEED.
The best of each optimizer is then trained from SEEDS, which choose nothing. Writes ../results/large_batch.json and large_batch.md.
"""
import argparse
import concurrent.futures
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

RESULTS = pathlib.Path(__file__).resolve().parents[1] / "results/large_batch.json"
SMALL, TIMES = 512, 8
SELECTION_SEED, SEEDS = 1, [2, 3, 4]
DIVERGED = 0  # in place of an accuracy


def settings(batch, optimizer, rates, warmups, trusts=(None,)):
    return [{"batch": batch, "optimizer": optimizer, "learning_rate": rate, "warmup": warmup} | ({"trust": trust} if trust else {})
            for rate, warmup, trust in itertools.product(rates, warmups, trusts)]


CASES = {
    "SGD, batch 512": settings(SMALL, "after", [0.05, 0.1, 0.2, 0.4], [0.5]),
    # 1.6 is 8 times, 0.57 the square root of 8 times the example's 0.2.
    "SGD, batch 4096": settings(SMALL * TIMES, "after", [0.05, 0.1, 0.2, 0.57, 1.6], [1, 2]),
    # A layer's step is proportional to rate times trust. Biases step by the rate alone.
    "LARS, batch 4096": settings(SMALL * TIMES, "lars", [0.1, 0.2, 0.4], [1, 2], [0.02, 0.04]),
}


def key_of(setting, seed, epochs):
    return " ".join(f"{name} {value}" for name, value in setting.items()) + f" seed {seed} epochs {epochs}"


def train(program, setting, seed, epochs):
    with tempfile.TemporaryDirectory() as folder:
        command = [str(program), "--algorithm", "dense_ring", "--batch", str(setting["batch"]), "--optimizer", setting["optimizer"],
                   "--learning-rate", str(setting["learning_rate"]), "--learning-rate-warmup", str(setting["warmup"]), "--seed", str(seed),
                   "--epochs", str(epochs), "--evaluate-every", "1000000", "--output", folder]
        if "trust" in setting:
            command += ["--trust-coefficient", str(setting["trust"])]
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
        if "holds NaN or infinity" in done.stderr:
            return DIVERGED
        if done.returncode:
            sys.exit(f"{' '.join(command)}:\n{done.stderr}")
        return json.loads((pathlib.Path(folder) / "dense_ring.json").read_text())["accuracy"]


def train_all(options, results, wanted):
    """Trains the settings and seeds in `wanted` that have no result yet."""
    left = [w for w in wanted if key_of(*w, options.epochs) not in results]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        runs = {pool.submit(train, options.build / "bin/fashion_mnist", *w, options.epochs): w for w in left}
        for run in concurrent.futures.as_completed(runs):
            key = key_of(*runs[run], options.epochs)
            results[key] = run.result()
            print(key, f"{results[key]:.4f}", file=sys.stderr, flush=True)
            RESULTS.write_text(json.dumps(results, indent=1) + "\n")


def best_of(results, case, epochs):
    return max(CASES[case], key=lambda setting: results[key_of(setting, SELECTION_SEED, epochs)])


def words(setting):
    return f"{setting['learning_rate']:g}, warm-up {setting['warmup']:g}" + (f", trust {setting['trust']:g}" if "trust" in setting else "")


def percent(accuracy):
    return "diverged" if accuracy == DIVERGED else f"{100 * accuracy:.2f} %"


def report(results, epochs):
    lines = ["# Example 01 with 8 times its batch", "",
             f"Test accuracy after {epochs} epochs, by `perfmodels/large_batch/train.py build`; one rank takes the whole batch. Warm-up in epochs; momentum 0.9. The best",
             f"setting of each is chosen with seed {SELECTION_SEED} and trained again with seed {', '.join(map(str, SEEDS))}.", "",
             f"| | steps | best setting | seed {SELECTION_SEED} | mean of other seeds | lowest | highest |", "| --- | ---: | --- | ---: | ---: | ---: | ---: |"]
    for case in CASES:
        best = best_of(results, case, epochs)
        others = [100 * results[key_of(best, seed, epochs)] for seed in SEEDS]
        lines.append(f"| {case} | {epochs * (60000 // best['batch'])} | {words(best)} | {percent(results[key_of(best, SELECTION_SEED, epochs)])} | "
                     f"{statistics.mean(others):.2f} % | {min(others):.2f} % | {max(others):.2f} % |")
    for case, tried in CASES.items():
        lines += ["", f"## {case}, all settings, seed {SELECTION_SEED}", "", "| learning rate | accuracy |", "| --- | ---: |"]
        lines += [f"| {words(setting)} | {percent(results[key_of(setting, SELECTION_SEED, epochs)])} |" for setting in tried]
    RESULTS.with_suffix(".md").write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--epochs", type=int, default=16)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="trainings at a time")
    options = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    train_all(options, results, [(setting, SELECTION_SEED) for case in CASES.values() for setting in case])
    train_all(options, results, [(best_of(results, case, options.epochs), seed) for seed in SEEDS for case in CASES])
    report(results, options.epochs)


main()
