#!/usr/bin/env python3
"""Measures how long making a plan and its first run take, in later runs of the same plan: mpirun -n 4 python3 first_run.py 1048576 oktopk

Prints a line for each algorithm. Name one twice to see a second plan of it.
"""
import argparse
import statistics
import time

import numpy as np
import weir

RUNS, PAUSE = 12, 4  # runs of a plan, and the first of them, which count as no later ones


def touch_memory(count):
    """Touches memory and gives it back, as much as a plan may need. The host of a virtual machine takes back what is not in use, and
    to get that again is not the plan's time. Returns the ms a MB."""
    words = 8 * count + (1 << 24)
    begin = time.perf_counter()
    np.ones(words, np.float32)
    return (time.perf_counter() - begin) * 1e3 / (4e-6 * words)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, help="elements of the gradient")
    parser.add_argument("algorithm", nargs="+")
    parser.add_argument("--density", type=float, default=0.01)
    given = parser.parse_args()
    comm = weir.Communicator()
    gradient = np.random.default_rng(comm.rank).standard_normal(given.count).astype(np.float32)
    first, again = touch_memory(given.count), touch_memory(given.count)
    if comm.rank == 0:
        print(f"touching memory: {first:.2f} ms a MB, and {again:.2f} once more", flush=True)
    for algorithm in given.algorithm:
        comm.sum(np.ones(1))  # ranks begin together
        begin = time.perf_counter()
        plan = weir.AllreducePlan(comm, count=given.count, density=given.density, algorithm=algorithm)
        made, runs = time.perf_counter() - begin, []
        for _ in range(RUNS):
            data = gradient.copy()
            begin = time.perf_counter()
            plan.run(data)
            runs.append(time.perf_counter() - begin)
        later = statistics.median(runs[PAUSE:])
        if comm.rank == 0:
            print(f"{algorithm}: made in {1e3 * made:.2f} ms, first run {1e3 * runs[0]:.2f}, later ones {1e3 * later:.2f}: "
                  f"{(made + runs[0]) / later:.1f} later runs; it has {plan.memory_bytes / 1e6:.2f} MB", flush=True)


main()
