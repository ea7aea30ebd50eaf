#!/usr/bin/env python3
"""Trains a small language model of characters on 4 ranks, all in this process, and keeps the gradients of each rank: steps x ranks x
elements of float32 as .npy, for `weir bench allreduce --input FILE`. Prints the number of elements. Needs PyTorch, and dict-gcide or
another text.
"""
import argparse
import gzip
import sys

import numpy as np
import torch
from torch import nn
from torch.nn import functional

TEXT = "/usr/share/dictd/gcide.dict.dz"  # from Debian's package dict-gcide
LENGTH, BATCH = 64, 8  # characters of a sample, samples of a rank and step


class Lstm(nn.Module):
    """1.4 M parameters."""

    def __init__(self):
        super().__init__()
        self.characters, self.layer, self.scores = nn.Embedding(128, 128), nn.LSTM(128, 512, batch_first=True), nn.Linear(512, 128)

    def forward(self, characters):
        return self.scores(self.layer(self.characters(characters))[0])


class Transformer(nn.Module):
    """1.6 M parameters."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(256, 4, 1024, 0, "gelu", batch_first=True, norm_first=True)
        self.characters, self.places, self.scores = nn.Embedding(128, 256), nn.Embedding(LENGTH, 256), nn.Linear(256, 128)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.later = torch.full((LENGTH, LENGTH), float("-inf")).triu(1)  # what a character does not see

    def forward(self, characters):
        return self.scores(self.layers(self.characters(characters) + self.places.weight, self.later))


def read_text(path):
    with (gzip.open if path.endswith(("z", "gz")) else open)(path, "rb") as file:
        return torch.from_numpy(np.frombuffer(file.read(), np.uint8).astype(np.int64) % 128)


def gradient_of(model, text, generator):
    begins = torch.randint(len(text) - LENGTH, (BATCH, 1), generator=generator)
    samples = text[begins + torch.arange(LENGTH + 1)]
    model.zero_grad()
    functional.cross_entropy(model(samples[:, :-1]).flatten(0, 1), samples[:, 1:].flatten()).backward()
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=("lstm", "transformer"))
    parser.add_argument("file", help="to write, as .npy")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--skip", type=int, default=100, help="first steps that are not kept (default: 100)")
    parser.add_argument("--steps", type=int, default=24, help="that are kept, one after another (default: 24)")
    parser.add_argument("--text", default=TEXT, help=f"(default: {TEXT})")
    given = parser.parse_args()
    torch.manual_seed(1)
    model, text = {"lstm": Lstm, "transformer": Transformer}[given.model](), read_text(given.text)
    generators = [torch.Generator().manual_seed(rank) for rank in range(given.ranks)]
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    elements = sum(parameter.numel() for parameter in model.parameters())
    kept = np.lib.format.open_memmap(given.file, "w+", np.float32, (given.steps, given.ranks, elements))
    for step in range(given.skip + given.steps):
        gradients = torch.stack([gradient_of(model, text, generator) for generator in generators])
        if step >= given.skip:
            kept[step - given.skip] = gradients.numpy()
        for parameter, part in zip(model.parameters(), gradients.mean(0).split([p.numel() for p in model.parameters()])):
            parameter.grad.copy_(part.view_as(parameter))
        optimizer.step()
        if (step + 1) % 20 == 0:
            print(f"step {step + 1} of {given.skip + given.steps}", file=sys.stderr, flush=True)
    print(elements)


main()
