#!/usr/bin/env python3
"""Writes the first images of MNIST's files in FROM, for tests that need few images.  few_images.py FROM TO TRAINING TEST"""
import gzip
import pathlib
import struct
import sys

source, folder = map(pathlib.Path, sys.argv[1:3])
folder.mkdir(exist_ok=True)
for name, count in (("train", int(sys.argv[3])), ("t10k", int(sys.argv[4]))):
    for kind, header, size in (("images-idx3", 16, 28 * 28), ("labels-idx1", 8, 1)):
        file = f"{name}-{kind}-ubyte.gz"
        data = gzip.decompress((source / file).read_bytes())
        few = data[:4] + struct.pack(">i", count) + data[8:header + count * size]
        (folder / file).write_bytes(gzip.compress(few, 1))
