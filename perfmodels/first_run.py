#!/usr/bin/env python3
"""Measures how long making a plan and its first run take, in later runs of the same plan: mpirun -n 4 python3 first_run.py 1048576 oktopk

Prints a line for each algorithm. Name one twice to see a second plan of it. All plans stay, so that none gets another's memory. The
limit is what the plan's memory takes when it is touched for the first time: each line has that, too, measured after the plan.
"""
import argparse
import mmap
import statistics
import time

import numpy as np
import weir

RUNS, PAUSE = 12, 4  # runs of a plan, and the first of them, which count as no later ones


def touch(size):
    """Returns the seconds that it takes to touch `size` new bytes, in huge pages from 4 MB on, as plans have them."""
    if size == 0:
        return 0.0
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size >= 1 << 22:
        memory.madvise(mmap.MADV_HUGEPAGE)
    begin = time.perf_counter()
    np.frombuffer(memory, np.uint8).fill(0)
    return time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, help="elements of the gradient")
    parser.add_argument("algorithm", nargs="+")
    parser.add_argument("--density", type=float, default=0.01)
    given = parser.parse_args()
    comm = weir.Communicator()
    gradient = np.random.default_rng(comm.rank).standard_normal(given.count).astype(np.float32)
    # The host of a virtual machine takes back memory that is not in use. To get that again is not the plan's time.
    touch(32 * given.count + (1 << 26))
    plans = []
    for algorithm in given.algorithm:
        comm.sum(np.ones(1))  # ranks begin together
        begin = time.perf_counter()
        plan = weir.AllreducePlan(comm, count=given.count, density=given.density, algorithm=algorithm)
        made, runs = time.perf_counter() - begin, []
        plans.append(plan)
        for _ in range(RUNS):
            data = gradient.copy()
            begin = time.perf_counter()
            plan.run(data)
            runs.append(time.perf_counter() - begin)
        later = statistics.median(runs[PAUSE:])
        touched = statistics.median(touch(plan.memory_bytes) for _ in range(5))
        if comm.rank == 0:
            print(f"{algorithm}: made in {1e3 * made:.2f} ms, first run {1e3 * runs[0]:.2f}, later ones {1e3 * later:.3f}: "
                  f"{(made + runs[0]) / later:.1f} later runs; to touch its {plan.memory_bytes / 1e6:.2f} MB takes "
                  f"{touched / later:.1f}", flush=True)


main()
