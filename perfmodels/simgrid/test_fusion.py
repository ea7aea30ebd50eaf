#!/usr/bin/env python3
"""test_fusion.py PROGRAM: tests on 32 ranks, with several buffers in flight, that a training step takes about as long as its
computing or as its bytes through the network card. Waiting costs nothing more, whether a rank polls often or seldom."""
import json
import os
import pathlib
import sys
import tempfile

import machines

ROOT = pathlib.Path(__file__).resolve().parents[2]
RANKS, SHRINK = 32, 409
MOST = 1.2  # times the limit: the last buffer's exchange has nothing to hide behind


def step_over_limit(program, poll_us):
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "rows.json")
        arguments = ["--model", str(ROOT / "perfmodels/models/resnet50.json"), "--shrink", str(SHRINK), "--scheme", "ahead_inter",
                     "--algorithm", "topk_allgather", "--warmup", "1", "--iterations", "1", "--poll-us", str(poll_us), "--json", file]
        machines.simulate(program, "ethernet_10gbit", RANKS, SHRINK, arguments)
        with open(file) as rows:
            return json.load(rows)[0]["limit_ratio"]


def main():
    for poll_us in (200, 2000):
        ratio = step_over_limit(sys.argv[1], poll_us)
        if not 1 <= ratio <= MOST:
            sys.exit(f"test_fusion: polling every {poll_us} us, a step takes {ratio:.2f} times as long as its limit; at most {MOST} are due")


if __name__ == "__main__":
    main()
