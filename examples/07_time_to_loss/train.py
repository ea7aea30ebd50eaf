"""A character transformer under DistributedDataParallel, with each method of exchanging gradients. Started by torchrun:

    torchrun --nproc-per-node 4 train.py curves --output results     # trains with every method and seed; writes loss over steps
    torchrun --nproc-per-node 4 train.py time --output results       # measures a step of every method, all side by side
"""
import argparse
import contextlib
import copy
import gzip
import json
import os
import statistics
import time

import numpy as np
import torch
import torch.distributed as dist
import weir
import weir.torch
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

TEXT = "/usr/share/dictd/gcide.dict.dz"  # from Debian's package dict-gcide
ALPHABET = bytes([10, *range(32, 127)])  # every other byte becomes a space
DENSE_START = "dense start"  # in the name of a method whose first steps are dense, as those of PowerSGD always are
WARM_UP = "warm-up"  # in the name of a method whose density falls from 25 % to its own in the first steps

SMALL = 8192  # parameters of fewer elements travel dense: the default of weir.torch's min_elements

INT4 = "format=int4,bucket=128"
# What the hook of weir.torch is given.
WEIR = {
    "weir 1 %": {"density": 0.01},
    "weir 1 %, dense start": {"density": 0.01},
    "weir 1 %, dense start, bf16": {"density": 0.01, "wire_values": "bfloat16"},
    "weir 1 %, warm-up, dgc": {"density": 0.01, "compressor": "dgc"},
    "weir 10 %, dense start": {"density": 0.1},
    "weir block_quantise": {"algorithm": "packed_reduce_scatter", "compressor": "block_quantise"},
    "weir int4": {"algorithm": "packed_reduce_scatter", "compressor": "block_quantise", "compressor_parameters": INT4},
    "weir auto": {"density": 0.01, "algorithm": "auto"},
    "weir auto, int4 or dense": {"algorithm": "auto", "compressor": "block_quantise|none", "compressor_parameters": INT4 + "|"},
    "weir dense": {"algorithm": "dense_ring"},
}
METHODS = ("ddp", "ddp bf16", "powersgd 1", "powersgd 4", *WEIR)
# Only timed: they learn as plain DDP, or as what the automatic choice has taken.
NO_CURVE = ("weir auto", "weir auto, int4 or dense", "weir dense")


def read_text(path, characters):
    """Returns the text to train on, and the text held out from the end, as numbers of characters."""
    if path == "synthetic":
        words = [bytes(word) for word in np.random.default_rng(0).integers(97, 123, (200, 6), np.uint8)]
        text = b" ".join(words[i] for i in np.random.default_rng(1).zipf(1.3, 1 << 16) % 200)
    else:
        with (gzip.open if path.endswith(("z", "gz")) else open)(path, "rb") as file:
            text = file.read()
    table = bytes(ALPHABET.index(byte) if byte in ALPHABET else ALPHABET.index(b" ") for byte in range(256))
    numbers = torch.from_numpy(np.frombuffer(text.translate(table), np.uint8).astype(np.int64))
    held_out = len(numbers) // 20
    return numbers[:-held_out][:characters], numbers[-held_out:]


class Transformer(nn.Module):
    def __init__(self, width, layers, length):
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, max(width // 64, 1), 4 * width, 0, "gelu", batch_first=True, norm_first=True)
        self.characters, self.places = nn.Embedding(len(ALPHABET), width), nn.Embedding(length, width)
        self.layers = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width), enable_nested_tensor=False)
        self.scores = nn.Linear(width, len(ALPHABET))
        self.later = torch.full((length, length), float("-inf")).triu(1)  # what a character does not see
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, window):
        """Returns the mean cross-entropy of each next character, in nats."""
        x = self.characters(window[:, :-1]) + self.places.weight
        return functional.cross_entropy(self.scores(self.layers(x, self.later)).flatten(0, 1), window[:, 1:].flatten())


class Training:
    """A model that is trained with one method."""

    def __init__(self, given, method, seed, first_steps=0):
        torch.manual_seed(seed)
        # PowerSGD's hook starts collectives in callbacks. With several buckets their order differs between ranks, and gloo fails.
        buckets = {"bucket_cap_mb": 1000} if method.startswith("powersgd") else {}
        network = Transformer(given.width, given.layers, given.length)
        self.model = DistributedDataParallel(network, gradient_as_bucket_view=True, **buckets)
        self.method, self.given = method, given
        self.weir = None
        if method in WEIR:
            first = {"warmup_iterations" if WARM_UP in method else "dense_iterations": first_steps} if first_steps else {}
            self.weir, hook = weir.torch.ddp_hook(self.model, **WEIR[method], **first)
            self.model.register_comm_hook(self.weir, hook)
        elif method == "ddp bf16":
            self.model.register_comm_hook(None, default_hooks.bf16_compress_hook)
        elif method.startswith("powersgd"):
            state = powerSGD_hook.PowerSGDState(None, int(method.split()[1]), start_powerSGD_iter=max(first_steps, 2))
            self.model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        fused = {"fused": True} if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 4) else {}
        parameters = list(self.model.parameters())
        if method.endswith("dgc"):  # the hook has the momentum of what travels sparse
            sparse, small = ([p for p in parameters if (p.numel() >= SMALL) == large] for large in (True, False))
            parameters = [{"params": sparse, "betas": (0, 0.99)}, {"params": small}]
        self.optimizer = torch.optim.Adam(parameters, lr=given.rate, betas=(0.9, 0.99), **fused)

    def step(self, window, number):
        """Makes a training step. Returns seconds of the forward pass, the backward pass with the exchange, and the optimizer."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.given.rate * min(1, (number + 1) / self.given.warm_up)
        alone = self.model.no_sync() if self.method == "no exchange" else contextlib.nullcontext()
        begin = time.perf_counter()
        with alone:
            self.optimizer.zero_grad()
            loss = self.model(window)
            forward = time.perf_counter()
            loss.backward()
        backward = time.perf_counter()
        self.optimizer.step()
        return forward - begin, backward - forward, time.perf_counter() - backward


def windows_of(text, length, seed, rank, ranks):
    """Yields this rank's windows of the text, epoch after epoch, each in an order of its own. All ranks together read all."""
    windows = text[: (len(text) - 1) // length * length + 1].unfold(0, length + 1, length)
    order = torch.Generator().manual_seed(seed)
    while True:
        mixed = torch.randperm(len(windows), generator=order)
        for i in range(rank, len(windows) - len(windows) % ranks, ranks):
            yield windows[mixed[i]]


def batches_of(given, text, seed):
    windows = windows_of(text, given.length, seed, dist.get_rank(), dist.get_world_size())
    while True:
        yield torch.stack([next(windows) for _ in range(given.batch)])


def evaluate(module, text, given):
    """Collective. Returns the loss on the held-out text, of which each rank computes a part."""
    windows = text[: given.held_out + 1].unfold(0, given.length + 1, given.length)[dist.get_rank() :: dist.get_world_size()]
    with torch.no_grad():
        total = torch.tensor([module(windows).double() * len(windows), len(windows)])
    dist.all_reduce(total)
    return float(total[0] / total[1])


def write(given, name, what):
    if dist.get_rank() == 0 and given.output:
        os.makedirs(given.output, exist_ok=True)
        with open(os.path.join(given.output, name), "w") as file:
            json.dump(what, file)


def card_bytes():
    """Returns the bytes that the network cards of this node have sent."""
    with open("/proc/self/net/dev") as file:
        cards = (line.split(":") for line in file if ":" in line)
        return sum(int(numbers.split()[8]) for name, numbers in cards if name.strip() != "lo")


def curve(given, method, seed, first_steps, train, held_out, target):
    """Trains for an epoch, then for up to half an epoch until the loss is `target`. Returns steps, losses and seconds."""
    training = Training(given, method, seed, first_steps)
    mean = copy.deepcopy(training.model.module).requires_grad_(False)  # of the weights of the last 50 steps or so: less noise
    batches = batches_of(given, train, seed)
    points, seconds = [], 0.0
    for number in range(given.steps * 3 // 2 + 1):
        if number % 5 == 0:
            for kept, now in zip(mean.parameters(), training.model.parameters()):
                kept.lerp_(now.detach(), max(0.1, 1 / (number // 5 + 1)))
        if number % given.every == 0:
            points.append((number, evaluate(mean, held_out, given), seconds))
            if dist.get_rank() == 0:
                print(f"{method}, seed {seed}, step {number}: loss {points[-1][1]:.4f}, {seconds:.1f} s", flush=True)
            if number >= given.steps and points[-1][1] <= target:
                break
        seconds += sum(training.step(next(batches), number))
    if training.weir:
        training.weir.close()
    return points


def curves(given, train, held_out):
    """Trains with every method and seed whose curve is not yet in the file."""
    path, done = os.path.join(given.output, f"{given.phase}.json"), []
    if os.path.exists(path):
        with open(path) as file:
            done = json.load(file)
    dist.barrier()
    for seed in range(given.seeds):
        for method in sorted(set(given.methods) - set(NO_CURVE), key=METHODS.index):
            known = {(curve["method"], curve["seed"]): curve["points"][-1][1] for curve in done}
            if (method, seed) in known:
                continue
            dense_start = DENSE_START in method or method.startswith("powersgd")
            first_steps = given.warm if WARM_UP in method else given.dense if dense_start else 0
            target = float("inf") if method == "ddp" else known["ddp", seed]
            points = curve(given, method, seed, first_steps, train, held_out, target)
            done.append({"method": method, "seed": seed, "dense_steps": first_steps, "points": points})
            write(given, f"{given.phase}.json", done)


def time_steps(given, train):
    """Times steps of all methods by turns, so that what else the machine does meanwhile slows each of them down."""
    ours = [Training(given, method, 0) for method in ("no exchange", *given.methods)]
    batches = batches_of(given, train, 0)
    number, taken = 0, {training.method: [] for training in ours}
    for turn in range(given.turns + 1):
        for training in ours:
            dist.barrier()
            for i in range(given.turn if turn else 12):  # the first turn warms up
                before, cpu = card_bytes(), time.process_time()
                parts = training.step(next(batches), number)
                cpu = time.process_time() - cpu
                if turn and i:  # the first step of a turn follows another method
                    sent = training.weir.bytes_sent if training.weir else 0
                    taken[training.method].append((*parts, card_bytes() - before, sent, cpu))
        number += given.turn
    result = {}
    for training in ours:
        steps = torch.tensor(taken[training.method], dtype=torch.float64)
        seconds = steps[:, :3].sum(1).clone()
        dist.all_reduce(seconds, dist.ReduceOp.MAX)  # a step takes as long as on its slowest rank
        cards = steps[:, 3].mean()
        dist.all_reduce(cards)
        a_step = statistics.median(seconds.tolist())
        quartiles = statistics.quantiles(seconds.tolist(), n=4)
        result[training.method] = {
            "seconds": a_step, "quartiles": [quartiles[0], quartiles[2]], "steps": len(seconds),
            "parts": steps[:, :3].median(0).values.tolist(),  # of rank 0: forward, backward and exchange, optimizer
            "card_bytes": float(cards) / dist.get_world_size(), "bytes_sent": float(steps[:, 4].mean()),
            "cpu_seconds": float(steps[:, 5].median()),  # of rank 0, with polling
        }
        if training.weir:
            # The last group has the small parameters, which always travel dense.
            result[training.method]["algorithms"] = [plan.config.algorithm for plan in training.weir.plans.values()][:-1]
        if dist.get_rank() == 0:
            megabytes = float(cards) / dist.get_world_size() / 1e6
            print(f"{training.method:<28}{a_step * 1e3:>9.1f} ms a step{megabytes:>10.3f} MB", flush=True)
    write(given, f"time-{given.network}.json", {
        "network": given.network, "ranks": dist.get_world_size(), "load": os.getloadavg()[0], "methods": result,
        "parameters": sum(parameter.numel() for parameter in ours[0].model.parameters()),
    })


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("phase", choices=("curves", "time", "check"), help="check: as curves, on a capped network")
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS, metavar="METHOD", help="; ".join(METHODS))
    parser.add_argument("--seeds", type=int, default=3, help="of curves: trainings with each method")
    parser.add_argument("--steps", type=int, default=300, help="of an epoch")
    parser.add_argument("--dense", type=int, default=30, help="first steps that methods with a dense start leave dense")
    parser.add_argument("--warm", type=int, default=60, help="first steps in which the density of methods with a warm-up falls")
    parser.add_argument("--every", type=int, default=25, help="steps between evaluations")
    parser.add_argument("--turns", type=int, default=4, help="of each method, with time")
    parser.add_argument("--turn", type=int, default=9, help="steps of a turn; all but the first are timed")
    parser.add_argument("--network", default="unnamed", help="with time: the name of the network, for the file that is written")
    parser.add_argument("--text", default=TEXT, help="a file, plain or gzipped, or 'synthetic'")
    parser.add_argument("--held-out", type=int, default=4096, help="characters on which the loss is evaluated")
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--length", type=int, default=32, help="characters of a sequence")
    parser.add_argument("--batch", type=int, default=1, help="sequences of a rank and step")
    parser.add_argument("--rate", type=float, default=1e-3, help="of Adam")
    parser.add_argument("--warm-up", type=int, default=50, help="steps in which the rate grows")
    parser.add_argument("--output", default="", metavar="FOLDER")
    given = parser.parse_args()

    torch.set_num_threads(1)
    if dist.is_torchelastic_launched():
        dist.init_process_group("gloo")
    else:
        weir.torch.init_process_group()
    characters = given.steps * given.batch * given.length * dist.get_world_size() + 1
    train, held_out = read_text(given.text, characters)
    if given.phase == "time":
        time_steps(given, train)
    else:
        curves(given, train, held_out)
    dist.barrier()
    dist.destroy_process_group()


main()
