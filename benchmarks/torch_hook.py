#!/usr/bin/env python3
"""Compares training steps under DistributedDataParallel over gloo with those that use the hook of weir.torch.

    mpirun -n 2 python3 benchmarks/torch_hook.py [--json OUT.json]     or by torchrun

One program trains the same network several times, in turns: without DDP; under DDP with a hook that exchanges nothing, which is the
limit; under DDP over gloo; and with the hook of weir.torch, by each of --algorithms. Rank 0 prints its median time of a step, and the
ratio to gloo's. The last column is the hook's own time for a bucket, without the plans' start() and the operations' test(), but with
the copies into groups of several parameters.
"""
import argparse
import functools
import json
import pathlib
import statistics
import time

import torch
import weir
import weir.torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

TURN = 10  # steps of a network until the next one's turn


class Stopwatch:
    """The time in the functions that it wraps, and how often they were called."""

    def __init__(self):
        self.seconds, self.calls = 0.0, 0

    def around(self, function):
        @functools.wraps(function)  # DDP looks at a hook's parameters
        def timed(*arguments, **keywords):
            begin = time.perf_counter()
            try:
                return function(*arguments, **keywords)
            finally:
                self.seconds += time.perf_counter() - begin
                self.calls += 1

        return timed


def leave_alone(_, bucket):
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


class Training:
    """A network, and the times of its steps."""

    def __init__(self, given, width, comm, exchange):
        torch.manual_seed(0)
        self.batch, self.exchange, self.seconds, self.hook = given.batch, exchange, [], Stopwatch()
        self.model = nn.Sequential(nn.Linear(784, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))
        if exchange != "no DDP":
            self.model = DistributedDataParallel(self.model, gradient_as_bucket_view=True)
        if exchange == "nothing":
            self.model.register_comm_hook(None, leave_alone)
        elif exchange not in ("no DDP", "gloo"):
            gradients, hook = weir.torch.ddp_hook(self.model, comm, density=given.density, algorithm=exchange)
            self.model.register_comm_hook(gradients, self.hook.around(hook))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.random = torch.Generator().manual_seed(comm.rank)

    def step(self):
        images = torch.randn(self.batch, 784, generator=self.random)
        labels = torch.randint(10, (self.batch,), generator=self.random)
        begin = time.perf_counter()
        self.optimizer.zero_grad(set_to_none=False)
        nn.functional.cross_entropy(self.model(images), labels).backward()
        self.optimizer.step()
        self.seconds.append(time.perf_counter() - begin)

    def forget(self):
        """Forgets the steps in which DDP formed its buckets and plans tried algorithms."""
        self.seconds, self.hook.seconds, self.hook.calls = [], 0.0, 0


def measure(given, width, comm, library):
    """Returns a row for each training."""
    trainings = [Training(given, width, comm, exchange) for exchange in ("no DDP", "nothing", "gloo", *given.algorithms)]
    for turn in range(given.turns // 2 + given.turns):
        for training in trainings:
            if turn == given.turns // 2:
                training.forget()
            torch.distributed.barrier()
            before = library.seconds
            for _ in range(TURN):
                training.step()
            training.hook.seconds -= library.seconds - before
    parameters = sum(parameter.numel() for parameter in trainings[0].model.parameters())
    gloo = statistics.median(next(training.seconds for training in trainings if training.exchange == "gloo"))
    rows = []
    for training in trainings:
        step, hook = statistics.median(training.seconds), training.hook
        rows.append({"exchange": training.exchange, "ranks": comm.size, "parameters": parameters, "torch": torch.__version__,
                     "seconds": step, "of_gloo": step / gloo, "hook_seconds": hook.seconds / hook.calls if hook.calls else None})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--widths", type=int, nargs="+", default=[350, 1800], help="of the hidden layers: 0.4 and 4.7 M parameters")
    parser.add_argument("--batch", type=int, default=8, help="images of a rank and step")
    parser.add_argument("--density", type=float, default=0.01)
    parser.add_argument("--algorithms", nargs="+", default=["oktopk", "auto"])
    parser.add_argument("--turns", type=int, default=30, help=f"of {TURN} steps; half as many come before, unmeasured")
    parser.add_argument("--json", type=pathlib.Path, metavar="OUT.json")
    given = parser.parse_args()

    torch.set_num_threads(1)
    comm = weir.torch.init_process_group()
    library = Stopwatch()
    weir.AllreducePlan.start = library.around(weir.AllreducePlan.start)
    weir.Operation.test = library.around(weir.Operation.test)
    found = [row for width in given.widths for row in measure(given, width, comm, library)]
    if comm.rank == 0:
        print(f"{'parameters':>12} {'exchange':<16} {'ms a step':>10} {'of gloo':>8} {'hook, us a bucket':>18}")
        for row in found:
            hook = "" if row["hook_seconds"] is None else f"{1e6 * row['hook_seconds']:.0f}"
            print(f"{row['parameters']:>12,} {row['exchange']:<16} {1e3 * row['seconds']:>10.2f} {row['of_gloo']:>8.2f} {hook:>18}")
        if given.json:
            given.json.write_text(json.dumps(found, indent=1))
    torch.distributed.destroy_process_group()


main()
