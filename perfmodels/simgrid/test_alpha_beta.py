#!/usr/bin/env python3
"""test_alpha_beta.py PROGRAM: tests on the flat network that dense_ring, dense_rabenseifner and a sum take the time of their formulas,
that n / S elements on bandwidths / S take as long as n elements, and that calibration finds the figures of the platform file."""
import json
import math
import os
import sys
import tempfile

import machines


def seconds(program, machine, ranks, scale, count, algorithm="dense_ring", kind="--algorithms"):
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "rows.json")
        arguments = ["--count", str(count), kind, algorithm, "--iterations", "1", "--warmup", "1", "--json", file]
        machines.simulate(program, machine, ranks, scale, arguments)
        with open(file) as rows:
            return json.load(rows)[0]


def calibrated(program, machine, ranks):
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "machine.json")
        machines.simulate(program, machine, ranks, 1, ["--calibrate", file])
        with open(file) as found:
            return json.load(found)


def ring_formula(ranks, count, scale=1):
    """Returns the time of 2 (P - 1) messages of n / P floats, of checking n floats, adding P - 1 parts and scaling one, and of
    agreeing on one word in log2 P rounds. Parts travel in pieces of 32 KiB, which do not shrink with `scale`. Where there are
    several, only additions of the first one take time: the others hide behind messages. The pieces of the first step arrive
    together. After the second, they are staggered, and latencies hide, too."""
    alpha, beta, memory = machines.FLAT_LATENCY, 1 / machines.FLAT_BANDWIDTH, 1 / machines.FLAT_SPEED
    part = count / ranks
    pieces = max(1, int(part / scale) // 8192)
    latencies = 2 * (ranks - 1) if pieces == 1 else 2
    messages = latencies * alpha + 2 * (ranks - 1) * 4 * part * beta + (ranks - 1).bit_length() * alpha
    return messages + (4 * count + (12 * (ranks - 1) * part + 8 * part) / pieces) * memory


def halving_formula(count):
    """Returns the time in which two ranks check n floats, agree on one word, send each other half of the floats, add and scale them,
    and send them again. Messages travel in pieces of 1 MiB, and four of them together."""
    alpha, beta, memory = machines.FLAT_LATENCY, 1 / machines.FLAT_BANDWIDTH, 1 / machines.FLAT_SPEED
    half = 4 * count / 2
    message = math.ceil(half / 2**22) * alpha + half * beta
    return alpha + 2 * message + (4 * count + 3 * half + 2 * half) * memory


def sum_formula(row):
    """Returns the time in which two ranks gather each other's lists: two messages, of which one is the announcement, and the bytes
    that a rank's loops move."""
    alpha, beta, memory = machines.FLAT_LATENCY, 1 / machines.FLAT_BANDWIDTH, 1 / machines.FLAT_SPEED
    entries, message = row["selected_local"], row["payload_bytes_sent"]
    code = 16 * entries + message  # values are copied, indices are written or read
    return 2 * alpha + (16 + message) * beta + (2 * code + 16 * (2 * entries + row["selected_global"])) * memory


def expect_near(what, got, wanted, tolerance):
    print(f"{what}: {got:.6g}, expected {wanted:.6g}")
    if abs(got - wanted) > tolerance * wanted:
        sys.exit(f"test_alpha_beta: {what} is off by more than {tolerance:.0%}")


def main():
    program = sys.argv[1]
    for ranks, count in ((2, 100000), (8, 1000000), (16, 16000)):
        row = seconds(program, "flat", ranks, 1, count)
        if row["nodes"] != ranks:
            sys.exit(f"test_alpha_beta: {ranks} hosts are {row['nodes']} nodes")
        expect_near(f"dense_ring, {ranks} ranks, {count} floats", row["seconds"], ring_formula(ranks, count), 0.01)
    row = seconds(program, "flat", 8, 10, 100000)
    expect_near("dense_ring, 8 ranks, scaled by 10", row["seconds"], ring_formula(8, 1000000, 10), 0.01)
    row = seconds(program, "flat", 2, 1, 5000000, "dense_rabenseifner")
    expect_near("dense_rabenseifner, 2 ranks", row["seconds"], halving_formula(5000000), 0.001)
    row = seconds(program, "commlib", 16, 1, 10000, "oktopk")
    if row["nodes"] != 2 or set(row["bytes_sent"]) != {"node", "system"}:
        sys.exit(f"test_alpha_beta: 2 instances of 8 ranks are seen as {row}")
    row = seconds(program, "flat", 2, 1, 1000000, "gather", "--sums")  # 1 % of the elements
    expect_near("a sum by gather, 2 ranks", row["seconds"], sum_formula(row), 0.02)
    found = calibrated(program, "flat", 2)
    expect_near("calibrated latency", found["levels"]["system"]["latency"], machines.FLAT_LATENCY, 0.01)
    expect_near("calibrated bandwidth", found["levels"]["system"]["bandwidth"], machines.FLAT_BANDWIDTH, 0.01)
    expect_near("calibrated adding", found["rates"]["add"], machines.FLAT_SPEED / 3, 0.01)


if __name__ == "__main__":
    main()
