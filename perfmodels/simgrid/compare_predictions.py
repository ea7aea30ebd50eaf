#!/usr/bin/env python3
"""Compares the predictions of `weir predict` for the simulated machines with the simulations of weak_scaling.py.

    compare_predictions.py WEIR [--results FOLDER]

WEIR is the command line tool of an ordinary build. The machine files are ../machines/simulated_*.json, calibrated on the simulated
machines at full speed. They are scaled like the simulated problem, so that control messages cost the same on both sides. Rows with
a threshold (NAME+THRESHOLD) are left out, because `weir predict` has no thresholds. Writes predictions.md.
"""
import argparse
import glob
import json
import os
import statistics
import subprocess
import tempfile

import machines

HERE = os.path.dirname(os.path.abspath(__file__))
RANKS_PER_NODE = {"piz_daint": 1, "commlib": 8}
EXPERIMENTS = ["vgg16", "lstm", "bert", "commlib"]


def predicted_seconds(weir, case, scale):
    """Returns the predicted seconds of each algorithm."""
    per_node = RANKS_PER_NODE[case["machine"]]
    with tempfile.TemporaryDirectory() as folder:
        output, figures = os.path.join(folder, "predictions.json"), os.path.join(folder, "machine.json")
        machines.scaled_figures(case["machine"], scale, figures)
        command = [weir, "predict", "--machine", figures, "--json", output]
        command += ["--count", str(round(case["count"] / scale)), "--density", str(case["density"])]
        command += ["--nodes", str(case["ranks"] // per_node), "--ranks-per-node", str(per_node)]
        # The simulation has no shared-memory windows either.
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=os.environ | {"WEIR_SHARED_MEMORY": "0"})
        with open(output) as file:
            return {row["algorithm"]: row["total_ms"] / 1e3 for row in json.load(file)["predictions"]}


def compare(weir, experiment, case):
    """Returns (experiment, ranks, elements, algorithm, predicted s, simulated s) of every row that has both."""
    predicted = {scale: predicted_seconds(weir, case, scale) for scale in {row["scale"] for row in case["rows"]}}
    return [
        (experiment, case["ranks"], case["count"], row["algorithm"], predicted[row["scale"]][row["algorithm"]], row["seconds"])
        for row in case["rows"]
        if "seconds" in row and row["algorithm"] in predicted[row["scale"]]
    ]


def error(row):
    return row[4] / row[5] - 1


def summary(rows):
    errors = [abs(error(row)) for row in rows]
    lines = ["# Predicted against simulated", ""]
    lines.append(f"Median of the absolute errors of all {len(rows)} predictions: {statistics.median(errors):.1%}; "
                 f"within 20 %: {sum(e <= 0.2 for e in errors)} of {len(rows)}.")
    lines += ["", "| algorithm | median error | largest | predictions |", "| --- | --- | --- | --- |"]
    for algorithm in sorted({row[3] for row in rows}):
        own = [error(row) for row in rows if row[3] == algorithm]
        lines.append(f"| {algorithm} | {statistics.median(map(abs, own)):.1%} | {max(own, key=abs):+.1%} | {len(own)} |")
    return lines


def details(rows):
    lines = ["", "| experiment | ranks | elements | algorithm | predicted ms | simulated ms | error |"]
    lines.append("| --- | --- | --- | --- | --- | --- | --- |")
    for row in rows:
        experiment, ranks, count, algorithm, predicted, simulated = row
        lines.append(f"| {experiment} | {ranks} | {count} | {algorithm} | {predicted * 1e3:.3f} | {simulated * 1e3:.3f} | "
                     f"{error(row):+.1%} |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weir", help="the command line tool")
    parser.add_argument("--results", default=os.path.join(HERE, "..", "results", "simgrid"))
    options = parser.parse_args()
    rows = []
    for experiment in EXPERIMENTS:
        cases = []
        for path in glob.glob(os.path.join(options.results, f"{experiment}-*.json")):
            with open(path) as file:
                cases.append(json.load(file))
        for case in sorted(cases, key=lambda case: (case["ranks"], case["count"])):
            rows += compare(options.weir, experiment, case)
    text = "\n".join(summary(rows) + details(rows)) + "\n"
    print(text)
    with open(os.path.join(options.results, "predictions.md"), "w") as file:
        file.write(text)


if __name__ == "__main__":
    main()
