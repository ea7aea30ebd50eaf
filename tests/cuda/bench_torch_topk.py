#!/usr/bin/env python3
"""Measures torch.topk of magnitudes on this machine's GPU, for bench_gpu --torch: bench_torch_topk.py [FILE.json]

Needs PyTorch with CUDA. The magnitudes are there before the clock starts, and the result need not be sorted: both in torch's favour.
"""
import json
import statistics
import sys

REPEATS = 20
SHAPES = [(1 << 28, round((1 << 28) * density)) for density in (0.01, 0.001)] + [
    (1 << n, 1 << k) for n in (16, 20, 24, 28, 30) for k in (3, 7, 11, 15, 19, 23) if k < n
]


def milliseconds(torch, x, k):
    times = []
    for repeat in range(-3, REPEATS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        torch.topk(x, k, sorted=False)
        end.record()
        end.synchronize()
        if repeat >= 0:
            times.append(begin.elapsed_time(end))
    return statistics.median(times)


def main():
    if len(sys.argv) > 2 or (len(sys.argv) == 2 and sys.argv[1].startswith("-")):
        print(__doc__)
        return 0 if sys.argv[1] in ("-h", "--help") else 2
    try:
        import torch
    except ImportError:
        print("bench_torch_topk.py: this Python has no PyTorch", file=sys.stderr)
        return 77
    if not torch.cuda.is_available():
        print("bench_torch_topk.py: PyTorch sees no GPU", file=sys.stderr)
        return 77
    rows = []
    x = None
    for count, k in SHAPES:
        try:
            if x is None or x.numel() != count:
                x = None  # free it before the next allocation
                x = (1 - torch.rand(count, device="cuda")) ** 3  # as bench_gpu makes them
            ms = milliseconds(torch, x, k)
        except torch.cuda.OutOfMemoryError:
            print(f"{count:>11} {k:>9} skipped: out of memory")
            continue
        print(f"{count:>11} {k:>9} {ms:10.4f} ms")
        rows.append({"benchmark": "torch_topk", "count": count, "k": k, "entropy": "1.000", "ms": ms, "torch": torch.__version__})
    if len(sys.argv) == 2:
        with open(sys.argv[1], "w") as file:
            json.dump(rows, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
