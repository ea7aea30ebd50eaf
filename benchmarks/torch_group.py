#!/usr/bin/env python3
"""Compares the backends "weir" and "gloo" of torch.distributed: all_reduce of a dense tensor and of a sparse COO tensor.

    torchrun --nproc-per-node 4 benchmarks/torch_group.py [MEGABYTES [DENSITY [OUT.json]]]     or by mpirun
    default: 32 MB, density 0.01; rank 0 prints a table, and writes OUT.json
"""
import json
import pathlib
import statistics
import sys
import time

import torch
import torch.distributed as dist

import weir.torch

WARM, RUNS = 2, 15


def milliseconds(groups, make):
    """Returns the times of the slowest rank by backend: the median, and the best. Backends take turns."""
    times = {backend: [] for backend in groups}
    for run in range(WARM + RUNS):
        for backend, group in groups.items():
            tensor = make(run)
            dist.barrier(group)
            begin = time.perf_counter()
            dist.all_reduce(tensor, group=group)
            took = torch.tensor([time.perf_counter() - begin])
            dist.all_reduce(took, op=dist.ReduceOp.MAX, group=group)
            times[backend].append(1000 * took.item())
    return {backend: {"median": statistics.median(of[WARM:]), "best": min(of[WARM:])} for backend, of in times.items()}


def main():
    megabytes, density = float(sys.argv[1]) if len(sys.argv) > 1 else 32.0, float(sys.argv[2]) if len(sys.argv) > 2 else 0.01
    elements = int(megabytes * 2**20) // 4
    comm = weir.torch.init_process_group(backend="weir")
    groups = {"weir": None, "gloo": dist.new_group(backend="gloo")}
    random = torch.Generator().manual_seed(comm.rank)
    width = 64  # of a row of an embedding
    rows = elements // width

    def entries(run):
        """Different entries on each rank."""
        return torch.sparse_coo_tensor(torch.randperm(elements, generator=random)[: int(density * elements)].sort().values[None],
                                       torch.ones(int(density * elements)), (elements,), is_coalesced=True, check_invariants=False)

    def embedding(run):
        """Rows of a table, as often as words of a text: most ranks have the frequent ones."""
        ids = (rows ** torch.rand(int(density * rows * 3), generator=random)).long().clamp(max=rows - 1)
        return torch.sparse_coo_tensor(ids[None], torch.ones(len(ids), width), (rows, width), check_invariants=False).coalesce()

    cases = {
        f"dense, {megabytes:g} MB": lambda run: torch.ones(elements),
        "dense, 4 KB": lambda run: torch.ones(1024),
        f"sparse, {density:.1%} of {megabytes:g} MB": entries,
        f"sparse rows of {width}, {megabytes:g} MB": embedding,
    }
    found = [{"case": name, "ranks": comm.size, **milliseconds(groups, make)} for name, make in cases.items()]
    if comm.rank == 0:
        print(f"{'ms, ' + str(comm.size) + ' ranks: median (best)':32} {'gloo':>18} {'weir':>18}   times as fast")
        for row in found:
            gloo, ours = row["gloo"], row["weir"]
            texts = (f"{one['median']:9.2f} ({one['best']:6.2f})" for one in (gloo, ours))
            ratios = f"{gloo['median'] / ours['median']:6.1f} ({gloo['best'] / ours['best']:.1f})"
            print(f"{row['case']:32}", *texts, " ", ratios)
        if len(sys.argv) > 3:
            pathlib.Path(sys.argv[3]).write_text(json.dumps(found, indent=1))
    dist.destroy_process_group()


main()
