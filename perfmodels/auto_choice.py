#!/usr/bin/env python3
"""Compares automatic choice with the fastest of all algorithms, in place, on one machine: auto_choice.py build/bin/weir

Prints a line for each number of ranks, of elements, and density: how long the plan takes that `auto` makes, and what the fastest
algorithm takes in the same run. Ranks share cores if there are fewer. Calibrate the machine first (weir calibrate), or set
WEIR_CALIBRATE=1.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

ALGORITHMS = ["dense_ring", "dense_rabenseifner", "dense_torus2d", "dense_mpi", "topk_allgather", "topk_dsa", "gtopk", "hitopk", "oktopk",
              "hi_oktopk"]
DENSITIES = [0.001, 0.01, 0.1]
CASES = [(256, 2000), (4096, 2000), (65536, 400), (1 << 20, 60), (1 << 22, 30)]  # elements and iterations


def measure(given, ranks, count, iterations, density):
    """Returns the algorithm that `auto` took, its median in ms, and those of all algorithms by name."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "rows.json")
        command = [*given.mpirun.split(), "-n", str(ranks), given.weir, "bench", "allreduce", "--count", str(count), "--density", str(density),
                   "--algorithm", ",".join(["auto", *ALGORITHMS]), "--side-by-side", "--result", "in_place", "--no-baseline",
                   "--iterations", str(iterations), "--trial-iterations", str(given.trial_iterations),
                   "--warmup", str(max(3, 7 * given.trial_iterations)), "--json", file]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
        with open(file, encoding="utf-8") as rows:
            auto, *others = json.load(rows)
    return auto["ran_as"], auto["median_ms"], {row["algorithm"]: row["median_ms"] for row in others}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weir", help="the command, build/bin/weir")
    parser.add_argument("--mpirun", default="mpirun --oversubscribe", help="how to start ranks, without -n (default: %(default)s)")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--trial-iterations", type=int, default=3, help="of auto (default: %(default)s)")
    given = parser.parse_args()
    ratios = []
    print(f"{'ranks':>5} {'elements':>9} {'density':>7}  {'auto':<18} {'ms':>9}  {'fastest':<18} {'ms':>9} {'ratio':>6}")
    for ranks in given.ranks:
        for count, iterations in CASES:
            for density in DENSITIES:
                chosen, taken, all_ms = measure(given, ranks, count, iterations, density)
                best = min(all_ms, key=all_ms.get)
                ratios.append(taken / all_ms[best])
                print(f"{ranks:5} {count:9} {density:7} {chosen:>19} {taken:9.4f} {best:>19} {all_ms[best]:9.4f} {ratios[-1]:6.2f}  "
                      f"the chosen one's own row: {all_ms[chosen]:.4f}", flush=True)
    within = {limit: sum(ratio <= limit for ratio in ratios) for limit in (1.05, 1.1, 1.2)}
    print(f"within " + ", ".join(f"{limit}: {number} of {len(ratios)}" for limit, number in within.items()) + f"; worst: {max(ratios):.2f}")


main()
