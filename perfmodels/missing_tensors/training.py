#!/usr/bin/env python3
"""Trains the network once on 4 ranks, all in this process, or, with --exchange library, one in each of mpirun's processes. Measures
the accuracy over epochs, and which tensors get no entry. Prints a line of JSON."""
import argparse
import dataclasses
import itertools
import json
import math
import sys
import time

import numpy as np
import torch
from torch.nn import functional

import exchange
import network

RANKS, MOMENTUM = 4, 0.9


@dataclasses.dataclass(frozen=True)
class Setting:
    scheme: str = "dense"  # dense, behind, ahead; frozen: dense, but tensors that travel whole do not change
    density: float = 0.01
    buffer_kib: int = 25600  # of gradients, in one buffer of `behind`
    residual: bool = True
    whole: bool = False  # tensors of one dimension (norms, biases) travel whole
    # sgd_before: SGD with momentum on each rank's gradient, and the exchange includes the learning rate. sgd_after, adam: the
    # optimizer works on the update.
    optimizer: str = "sgd_before"
    spread: float = 0.0  # each tensor is multiplied by a number from 10^-spread to 10^spread before the exchange, and divided after it
    seed: int = 1
    epochs: float = 1.5  # of 60,000 images
    batch: int = 16  # images of a rank and step
    rate: float = 0.1  # learning rate: a warm-up of 50 steps, then a cosine to 0
    evaluations: int = 8


def exchange_of(setting, model, comm):
    if setting.scheme == "dense":
        return exchange.Dense()
    if setting.scheme == "frozen":
        return exchange.Frozen(sum(model.sizes[: model.sparse]))
    keywords = dict(scheme=setting.scheme, sizes=model.sizes[: model.sparse], density=setting.density, buffer_bytes=setting.buffer_kib << 10,
                    residual=setting.residual)
    return exchange.Library(comm, whole=sum(model.sizes[model.sparse :]), **keywords) if comm else exchange.Simulated(**keywords)


def rate_at(setting, step, steps):
    return setting.rate * min(1, (step + 1) / 50) * 0.5 * (1 + math.cos(math.pi * step / steps))


def factors_of(setting, sizes):
    """Returns the factor of each element's magnitude. Dense training and `ahead` hardly depend on the factors; the selection of
    `behind` does."""
    exponents = np.random.default_rng(setting.seed).uniform(-setting.spread, setting.spread, len(sizes))
    return torch.from_numpy(np.repeat(10.0 ** exponents, sizes).astype(np.float32))


class Batches:
    """Draws batches from one rank's share of the images, in another order in each epoch."""

    def __init__(self, images, labels, rank, setting):
        self.images, self.labels, self.batch = images[rank::RANKS], labels[rank::RANKS], setting.batch
        self.random = torch.Generator().manual_seed(1000 * setting.seed + rank)
        self.left = torch.empty(0, dtype=torch.int64)

    def next(self):
        if len(self.left) < self.batch:
            self.left = torch.randperm(len(self.images), generator=self.random)
        some, self.left = self.left[: self.batch], self.left[self.batch :]
        return self.images[some], self.labels[some]


class Model:
    """The network with its parameters as one array: sparsified tensors in the order of the forward pass, then those that travel
    whole."""

    def __init__(self, setting):
        torch.manual_seed(setting.seed)
        self.module = network.ResNet20()
        named = sorted(self.module.named_parameters(), key=lambda item: setting.whole and item[1].dim() == 1)
        self.names = [name for name, _ in named]
        self.parameters = [parameter for _, parameter in named]
        self.sizes = [parameter.numel() for parameter in self.parameters]
        self.sparse = sum(not setting.whole or parameter.dim() > 1 for parameter in self.parameters)
        self.weights = torch.cat([parameter.detach().flatten() for parameter in self.parameters])
        for parameter, part in zip(self.parameters, self.weights.split(self.sizes)):
            parameter.data = part.view_as(parameter)

    def gradient(self, images, labels):
        loss = functional.cross_entropy(self.module(images), labels)
        return torch.cat([gradient.flatten() for gradient in torch.autograd.grad(loss, self.parameters)])


class Missing:
    """Counts tensors without an entry."""

    def __init__(self, sizes):
        self.offsets = [0, *itertools.accumulate(sizes[:-1])]
        self.times, self.share = np.zeros(len(sizes), np.int64), []

    def count(self, update):
        without = np.add.reduceat(update.numpy() != 0, self.offsets, dtype=np.int64) == 0
        self.times += without
        self.share.append(without.mean())

    def figures(self, pieces=30):
        """Returns the share of missing tensors: the mean, over time, and for each tensor."""
        return {"missing": round(np.mean(self.share), 4), "missing_over_time": [round(p.mean(), 4) for p in np.array_split(self.share, min(pieces, len(self.share)))],
                "missing_of_tensor": [round(times / len(self.share), 4) for times in self.times]}


class SgdBefore:
    """SGD with momentum on each rank. The ranks exchange changes of the weights, and so do residuals hold them."""

    def __init__(self):
        self.velocity = 0

    def step(self, weights, gradients, rate, send):
        self.velocity = MOMENTUM * self.velocity + gradients
        update = send(rate * self.velocity)
        weights -= update
        return update


class SgdAfter:
    """SGD with momentum on the update."""

    def __init__(self):
        self.velocity = 0

    def step(self, weights, gradients, rate, send):
        update = send(gradients)
        self.velocity = MOMENTUM * self.velocity + update
        weights -= rate * self.velocity
        return update


class Adam:
    """Adam on the update, as in fine-tuning of transformers, with a hundredth of the rate."""

    def __init__(self):
        self.first = self.second = 0
        self.steps = 0

    def step(self, weights, gradients, rate, send):
        update = send(gradients)
        self.steps += 1
        self.first = 0.9 * self.first + 0.1 * update
        self.second = 0.999 * self.second + 0.001 * update * update
        mean, variance = self.first / (1 - 0.9 ** self.steps), self.second / (1 - 0.999 ** self.steps)
        weights -= 0.01 * rate * mean / (variance.sqrt() + 1e-8)
        return update


OPTIMIZERS = {"sgd_before": SgdBefore, "sgd_after": SgdAfter, "adam": Adam}


def train(setting, comm=None, watch=None, most_steps=None):
    """Trains once. Calls `watch(step, model, gradients)` in each step."""
    torch.set_num_threads(1)
    begin = time.time()
    model = Model(setting)
    images, labels = network.load("train")
    held_out = network.load("t10k")
    batches = [Batches(images, labels, rank, setting) for rank in ([comm.rank] if comm else range(RANKS))]
    send, factors = exchange_of(setting, model, comm), factors_of(setting, model.sizes)
    steps = round(setting.epochs * len(images) / RANKS / setting.batch)
    optimizer = OPTIMIZERS[setting.optimizer]()
    missing, curve = Missing(model.sizes), []
    for step in range(min(steps, most_steps or steps)):
        gradients = torch.stack([model.gradient(*b.next()) for b in batches])
        if watch:
            watch(step, model, gradients)
        update = optimizer.step(model.weights, gradients, rate_at(setting, step, steps), lambda given: send(given * factors) / factors)
        missing.count(update)
        if (step + 1) * setting.evaluations // steps > step * setting.evaluations // steps:
            tested = [part if step + 1 == steps else part[:5000] for part in held_out]
            curve.append([round((step + 1) / steps * setting.epochs, 3), network.accuracy(model.module, *tested, images[:2000])])
    return {"accuracy": curve[-1][1] if curve else None, "curve": curve, "steps": len(missing.share), "entries": send.entries,
            "whole": sum(model.sizes[model.sparse :]), **missing.figures(), "seconds": round(time.time() - begin, 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for field in dataclasses.fields(Setting):
        name = "--" + field.name.replace("_", "-")
        if isinstance(field.default, bool):
            parser.add_argument(name, action=argparse.BooleanOptionalAction, default=field.default)
        else:
            choices = {"scheme": ("dense", "behind", "ahead", "frozen"), "optimizer": tuple(OPTIMIZERS)}.get(field.name)
            parser.add_argument(name, type=type(field.default), default=field.default, choices=choices)
    parser.add_argument("--exchange", choices=("simulated", "library"), default="simulated", help="library: weir.FusedAllreduce, under mpirun -np 4")
    parser.add_argument("--steps", type=int, help="stop after so many")
    given = vars(parser.parse_args())
    by, most = given.pop("exchange"), given.pop("steps")
    comm = None
    if by == "library":
        import weir
        comm = weir.Communicator()
        if comm.size != RANKS:
            sys.exit(f"training.py: --exchange {by} needs {RANKS} ranks; there are {comm.size}: mpirun -np {RANKS}")
    result = train(Setting(**given), comm, most_steps=most)
    if not comm or comm.rank == 0:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
