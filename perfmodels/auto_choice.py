#!/usr/bin/env python3
"""Compares automatic choice with the fastest of ten algorithms, in place: auto_choice.py build/bin/weir --trial-iterations 20

Prints a line for each number of ranks, of elements, and density: how long the plan takes that `auto` makes, what the fastest
algorithm takes in the same run, and what another plan of the chosen algorithm takes. Calibrate the machine first (weir calibrate),
or set WEIR_CALIBRATE=1.
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


def measure(given, ranks, count, density):
    """Returns the algorithm that `auto` took, its median in ms, and those of all algorithms by name."""
    iterations = given.iterations or min(2000, max(30, (1 << 26) // count))
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "rows.json")
        command = [*given.start.replace("{}", str(ranks)).split(), given.weir, "bench", "allreduce", "--count", str(count),
                   "--density", str(density), "--algorithm", ",".join(["auto", *ALGORITHMS]), "--side-by-side", "--result", "in_place",
                   "--no-baseline", "--iterations", str(iterations), "--trial-iterations", str(given.trial_iterations), "--json", file]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
        with open(file, encoding="utf-8") as rows:
            auto, *others = json.load(rows)
    return auto["ran_as"], auto["median_ms"], {row["algorithm"]: row["median_ms"] for row in others}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weir", help="the command, build/bin/weir")
    parser.add_argument("--start", default="mpirun --oversubscribe -n {}", help="how to start {} ranks (default: %(default)s)")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--elements", type=int, nargs="+", default=[256, 4096, 65536, 1 << 20, 1 << 22])
    parser.add_argument("--iterations", type=int, help="default: 30 to 2,000, by the number of elements")
    parser.add_argument("--trial-iterations", type=int, default=0, help="of auto (default: %(default)s)")
    given = parser.parse_args()
    ratios, choices = [], []
    print(f"{'ranks':>5} {'elements':>8} {'density':>7} {'auto':>18} {'ms':>9} {'fastest':>18} {'ms':>9} {'ratio':>5} {'other plan':>10}")
    for ranks in given.ranks:
        for count in given.elements:
            for density in DENSITIES:
                chosen, taken, all_ms = measure(given, ranks, count, density)
                best = min(all_ms, key=all_ms.get)
                ratios.append(taken / all_ms[best])
                choices.append(all_ms[chosen] / all_ms[best])
                print(f"{ranks:5} {count:8} {density:7} {chosen:>18} {taken:9.4f} {best:>18} {all_ms[best]:9.4f} {ratios[-1]:5.2f} "
                      f"{all_ms[chosen]:10.4f}", flush=True)
    for what, of_all in (("the plan that auto made", ratios), ("another plan of the algorithm that it took", choices)):
        within = ", ".join(f"{limit}: {sum(ratio <= limit for ratio in of_all)}" for limit in (1.05, 1.1, 1.2))
        print(f"{what}: of {len(of_all)} cases within {within}; the worst takes {max(of_all):.2f} times as long as the fastest")


main()
