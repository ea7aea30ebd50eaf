"""Prints a table of the runs in a folder, dense against sparse, and writes summary.json: python3 summary.py FOLDER"""
import json
import os
import sys

STEPS_FASTER, POINTS = 3, 1  # the example's goals: at least this many times faster, at most this many points less accurate

folder = sys.argv[1]
runs = {}
for mode in ("dense", "sparse"):
    with open(os.path.join(folder, mode + ".json")) as file:
        runs[mode] = json.load(file)
dense, sparse = runs["dense"], runs["sparse"]
print(
    f"{dense['parameters']:,} parameters, {dense['ranks']} ranks, {dense['batch']} images a rank and step, {dense['steps']:,} steps"
)
print(f"{'':<8}{'accuracy':>10}{'ms a step':>12}{'sent by a rank and step':>26}{'by its network card':>22}")
for mode, run in runs.items():
    print(
        f"{mode:<8}{run['accuracy']:>10.1%}{run['seconds_per_step'] * 1e3:>12,.1f}{run['bytes_per_step'] / 1e6:>23,.3f} MB"
        f"{run['card_bytes_per_step'] / 1e6:>19,.3f} MB"
    )
summary = {
    **runs,
    "steps_faster": dense["seconds_per_step"] / sparse["seconds_per_step"],
    "fewer_bytes": dense["bytes_per_step"] / sparse["bytes_per_step"],
    "accuracy_difference": sparse["accuracy"] - dense["accuracy"],
}
print(
    f"steps {summary['steps_faster']:.1f} x faster (the goal is at least {STEPS_FASTER} x), {summary['fewer_bytes']:.0f} x fewer bytes, "
    f"accuracy {summary['accuracy_difference'] * 100:+.1f} points (the goal is a loss of at most {POINTS})"
)
with open(os.path.join(folder, "summary.json"), "w") as file:
    json.dump(summary, file, indent=1)
