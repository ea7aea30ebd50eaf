#!/usr/bin/env python3
"""Trains a small residual network on 4 ranks, dense and with tensor fusion: entries selected `behind` (from a fused buffer) or `ahead`
(from each tensor), by optimizer, density, size of the buffers, with and without error feedback. Accuracy over epochs, and which
tensors get no entry: in training, and on the gradients of dense training, recorded.

Writes results/missing_tensors.{json,md,svg}; skips what is in the JSON with the same settings. Needs python3-torch, python3-matplotlib and
dataset-fashion-mnist.
"""
import argparse
import dataclasses
import json
import multiprocessing
import pathlib
import sys
import tempfile
import time

import numpy as np

import exchange
import report
import training

RESULTS = pathlib.Path(__file__).resolve().parents[1] / "results"
RECORDED = (1, 10, 100, 400)  # steps whose gradients are kept
DENSITIES = (0.01, 0.001)
BUFFERS = (16, 64, report.WHOLE_MODEL)  # KiB


def compared(epochs, seed):
    """Returns the settings that every seed has, dense first."""
    optimizers = ("sgd_before", "adam")
    found = [training.Setting(epochs=epochs, seed=seed, optimizer=optimizer) for optimizer in optimizers]
    for density in DENSITIES:
        for optimizer in optimizers:
            keywords = {"epochs": epochs, "seed": seed, "optimizer": optimizer, "density": density}
            found += [training.Setting(scheme=scheme, **keywords) for scheme in ("behind", "ahead")]
            found += [training.Setting(scheme="ahead", whole=True, **keywords)]
    return found


def searched(epochs, seed):
    """Returns settings that may show a loss of accuracy that the others do not show, and settings with other sizes of buffers."""
    def some(scheme, optimizer, **keywords):
        return training.Setting(scheme=scheme, optimizer=optimizer, **{"epochs": epochs, "seed": seed, **keywords})
    found = [some("frozen", optimizer, whole=True) for optimizer in ("sgd_before", "adam")]
    found += [some("behind", "adam", spread=2.0), some("ahead", "adam", spread=2.0), some("behind", "adam", spread=1.0), some("behind", "sgd_before", spread=2.0)]
    found += [some(scheme, optimizer, residual=False) for optimizer in ("sgd_before", "adam") for scheme in ("behind", "ahead")]
    found += [some("behind", "adam", spread=2.0, residual=False)]
    found += [some(scheme, "sgd_after") for scheme in ("behind", "ahead")]
    found += [some("behind", optimizer, density=density, buffer_kib=kib) for optimizer, density in (("adam", 0.01), ("sgd_before", 0.001)) for kib in BUFFERS[:-1]]
    return found


def long(epochs, seed):
    keywords = {"epochs": epochs, "seed": seed}
    return [training.Setting(**keywords), training.Setting(scheme="ahead", whole=True, **keywords), training.Setting(scheme="ahead", **keywords),
            training.Setting(scheme="behind", **keywords)]


class Recorder:
    """Keeps the gradients of some steps: steps x ranks x elements."""

    def __init__(self):
        self.gradients = []

    def __call__(self, step, model, gradients):
        self.sizes, self.names = model.sizes, model.names
        self.dimensions = [parameter.dim() for parameter in model.parameters]
        if step + 1 in RECORDED:
            self.gradients.append(gradients.numpy().copy())


def missing_of(gradients, sizes, scheme, density, buffer_kib):
    """Returns the share of tensors without an entry if these gradients are exchanged with an empty residual."""
    missing = training.Missing(sizes)
    missing.count(exchange.Simulated(scheme, sizes, density, buffer_kib << 10)(training.torch.from_numpy(gradients)))
    return round(float(missing.share[0]), 4)


def record(epochs, file):
    """Returns, for dense training with seed 1, the magnitude of each tensor's gradient and the share of missing tensors."""
    recorder = Recorder()
    training.train(training.Setting(epochs=epochs, optimizer="sgd_after"), watch=recorder, most_steps=RECORDED[-1])
    if file:
        np.save(file, np.stack(recorder.gradients))
    rows = []
    for step, gradients in zip(RECORDED, recorder.gradients):
        ends = np.cumsum(recorder.sizes)
        sizes = [float(np.sqrt(np.mean(gradients[:, end - size : end] ** 2))) for end, size in zip(ends, recorder.sizes)]
        row = {"step": step, "root_mean_square": [float(f"{size:.3g}") for size in sizes]}
        for density in DENSITIES:
            row[f"missing {density}"] = {"ahead": missing_of(gradients, recorder.sizes, "ahead", density, 0)} | {
                f"behind {kib}": missing_of(gradients, recorder.sizes, "behind", density, kib) for kib in BUFFERS}
        rows.append(row)
    return {"tensors": recorder.names, "sizes": recorder.sizes, "dimensions": recorder.dimensions, "steps": rows}


def train(setting):
    return setting, training.train(setting)


def dump(results):
    """Returns JSON with a line for each training."""
    lines = [f"  {json.dumps(key)}: {json.dumps(run)}" for key, run in sorted(results["trainings"].items())]
    return f'{{\n "recorded": {json.dumps(results["recorded"])},\n "trainings": {{\n' + ",\n".join(lines) + "\n }\n}\n"


def say(text):
    print(time.strftime("%H:%M:%S"), text, file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="of initial weights and batches; what is only to be searched for has the first (default: 1 2 3)")
    parser.add_argument("--epochs", type=float, default=1.5, help="of 60,000 images (default: 1.5, 1,406 steps)")
    parser.add_argument("--long", type=float, default=4, help="epochs of a few that are longer (default: 4)")
    parser.add_argument("--only", default="", metavar="TEXT", help="trainings with this in their names, as the JSON has them")
    parser.add_argument("--jobs", type=int, default=2, help="trainings at a time, one core each (default: 2)")
    parser.add_argument("--record", metavar="FILE", help="keep the recorded gradients, steps x ranks x elements as .npy, as weir bench --input takes")
    parser.add_argument("--quick", action="store_true", help="a few steps of some, into a temporary folder: does everything run?")
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS, help="folder for missing_tensors.{json,md,svg}")
    parser.add_argument("--report-only", action="store_true", help="only table and picture, from the JSON that is there")
    given = parser.parse_args()
    if given.quick:
        given.results, given.seeds, given.epochs, given.long = pathlib.Path(tempfile.mkdtemp(prefix="weir_missing_tensors_")), [1], 0.01, 0.02
    given.results.mkdir(parents=True, exist_ok=True)
    file = given.results / "missing_tensors.json"
    results = json.loads(file.read_text()) if file.exists() else {"recorded": {}, "trainings": {}}
    if not given.report_only:
        measure(given, results, file)
    if not results["trainings"]:
        sys.exit("measure.py: nothing has been trained")
    report.write(results, given.results / "missing_tensors.md", given.results / "missing_tensors.svg")
    say(f"{given.results / 'missing_tensors.md'}, {given.results / 'missing_tensors.svg'}")


def measure(given, results, file):
    if not results["recorded"]:
        say("recorded gradients of dense training")
        results["recorded"] = record(given.epochs, given.record)
        file.write_text(dump(results))
    first, *others = given.seeds
    todo = compared(given.epochs, first) + searched(given.epochs, first) + long(given.long, first)
    for seed in others:
        todo += compared(given.epochs, seed)
    todo = [setting for setting in todo if given.only in report.key(setting)]
    todo = [setting for setting in todo if results["trainings"].get(report.key(setting), {}).get("setting") != dataclasses.asdict(setting)]
    with multiprocessing.get_context("spawn").Pool(given.jobs, maxtasksperchild=1) as pool:
        for done, (setting, run) in enumerate(pool.imap(train, todo), 1):
            results["trainings"][report.key(setting)] = {"setting": dataclasses.asdict(setting)} | run
            file.write_text(dump(results))
            say(f"{done}/{len(todo)} {report.key(setting)}: accuracy {run['accuracy']:.2%}, missing {run['missing']:.1%}, {run['seconds']:.0f} s")


if __name__ == "__main__":
    main()
