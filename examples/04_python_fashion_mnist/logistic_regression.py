"""Logistic regression on Fashion-MNIST, data-parallel: mpirun -np 4 python3 logistic_regression.py [ALGORITHM]"""
import gzip
import sys

import numpy as np
import weir


def load(part):
    """Returns the images of "train" or "t10k", with a column of ones, and their labels."""
    def read(name, header):
        with gzip.open(f"/usr/share/datasets/fashion-mnist/{part}-{name}-ubyte.gz") as file:
            return np.frombuffer(file.read(), np.uint8, offset=header)
    images = read("images-idx3", 16).reshape(-1, 784) / np.float32(255)
    return np.hstack([images, np.ones_like(images[:, :1])]), read("labels-idx1", 8)


comm = weir.Communicator()
images, labels = (array[comm.rank::comm.size] for array in load("train"))      # this rank's share
weights = np.zeros((785, 10), np.float32)
plan = weir.AllreducePlan(comm, count=weights.size, algorithm=sys.argv[1] if sys.argv[1:] else "oktopk", density=0.01)
steps, batch, rng, sent = 1000, 128, np.random.default_rng(comm.rank), 0
for step in range(steps):
    some = rng.integers(0, len(images), batch)
    scores = images[some] @ weights
    error = np.exp(scores - scores.max(axis=1, keepdims=True))
    error /= error.sum(axis=1, keepdims=True)
    error[np.arange(batch), labels[some]] -= 1
    change = images[some].T @ error * np.float32(0.1 / batch)                  # the residual keeps steps, with their rate
    plan.run(change)                                                           # in place: the mean over the ranks
    weights -= change
    sent += plan.statistics.payload_bytes_sent + plan.statistics.control_bytes_sent
images, labels = load("t10k")
if comm.rank == 0:
    accuracy = np.mean((images @ weights).argmax(axis=1) == labels)
    print(f"{plan.config.algorithm}: accuracy {accuracy:.1%}, {sent / steps:,.0f} bytes a rank and step")
