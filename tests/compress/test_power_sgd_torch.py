#!/usr/bin/env python3
"""PowerSGD against PyTorch's own communication hook: the same gradients, the same first Q, both with error feedback and warm start.

Usage: test_power_sgd_torch.py POWER_SGD_RUNS [RECORDED...]     RECORDED: raw float32 files, one for each rank, as gradients besides
"""
import multiprocessing
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as hook


class Bucket:
    """The parts of a DDP bucket that the hook reads."""

    def __init__(self, gradient):
        self.gradient = gradient

    def buffer(self):
        return self.gradient.view(-1)

    def gradients(self):
        return [self.gradient]

    def parameters(self):
        return [self.gradient]

    def index(self):
        return 0

    def is_last(self):
        return True


def torch_rank(rank, store, gradients, first_q, output):
    """Runs one rank of PyTorch. Rank 0 writes the delivered update of each iteration."""
    torch.set_num_threads(1)
    iterations, ranks, rows, _ = gradients.shape
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    state = hook.PowerSGDState(None, matrix_approximation_rank=first_q.shape[1], start_powerSGD_iter=2, min_compression_rate=1e-6,
                               use_error_feedback=True, warm_start=True)
    state.iter = 2
    state.p_memory_dict[0] = torch.zeros(rows * first_q.shape[1])
    state.q_memory_dict[0] = torch.from_numpy(first_q.copy()).view(-1)
    delivered = []
    for t in range(iterations):
        gradient = torch.from_numpy(gradients[t, rank].copy())
        result = hook.powerSGD_hook(state, Bucket(gradient)).wait()
        delivered.append((result[0] if isinstance(result, (list, tuple)) else result).numpy().copy())
    if rank == 0:
        np.save(output, np.stack(delivered).reshape(iterations, rows, -1))
    dist.destroy_process_group()


def by_torch(gradients, first_q, folder):
    processes = [multiprocessing.Process(target=torch_rank, args=(rank, folder / "store", gradients, first_q, folder / "torch.npy"))
                 for rank in range(gradients.shape[1])]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    (folder / "store").unlink(missing_ok=True)
    return np.load(folder / "torch.npy")


def by_weir(program, gradients, first_q, folder):
    iterations, ranks, rows, columns = gradients.shape
    np.concatenate([first_q.T.ravel(), gradients.ravel()]).astype(np.float32).tofile(folder / "input")
    subprocess.run([program, *map(str, (ranks, rows, columns, first_q.shape[1], iterations)), folder / "input", folder / "output"],
                   check=True)
    return np.fromfile(folder / "output", np.float32).reshape(iterations, rows, columns)


def made_up(rows, columns, ranks, iterations, random):
    """Returns directions that all ranks share, each half as strong as the previous one, with noise of each rank and iteration."""
    shared = sum(0.5**k * np.outer(random.standard_normal(rows), random.standard_normal(columns)) for k in range(6))
    return (shared + 0.3 * random.standard_normal((iterations, ranks, rows, columns))).astype(np.float32)


def compare(name, program, gradients, rank, random):
    first_q = random.standard_normal((gradients.shape[3], rank)).astype(np.float32)
    with tempfile.TemporaryDirectory() as text:
        folder = pathlib.Path(text)
        ours, theirs = by_weir(program, gradients, first_q, folder), by_torch(gradients, first_q, folder)
    mean = gradients.astype(np.float64).mean(axis=1)
    scale = np.linalg.norm(mean)
    difference = np.linalg.norm(ours.astype(np.float64) - theirs) / scale
    # With error feedback, the sum of the updates comes close to the sum of the gradients.
    given = mean.sum(axis=0)
    errors = [np.linalg.norm(x.astype(np.float64).sum(axis=0) - given) / np.linalg.norm(given) for x in (ours, theirs)]
    print(f"{name}, rank {rank}: difference {difference:.2e}; error of the sum {errors[0]:.6f}, PyTorch's {errors[1]:.6f}")
    assert difference < 2e-5
    assert abs(errors[0] - errors[1]) < 1e-4


def main():
    program, *recorded = sys.argv[1:]
    random = np.random.default_rng(3)
    for rows, columns, ranks, rank in ((40, 30, 1, 1), (40, 30, 2, 2), (64, 200, 2, 4), (301, 57, 3, 3), (100, 100, 2, 8)):
        compare(f"{ranks} ranks, {rows} x {columns}", program, made_up(rows, columns, ranks, 6, random), rank, random)
    if recorded:
        vectors = np.stack([np.fromfile(file, np.float32) for file in recorded])
        side = int(np.sqrt(vectors.shape[1]))
        matrices = vectors[:, :side * side].reshape(1, len(recorded), side, side)
        compare(f"recorded, {side} x {side}", program, np.repeat(matrices, 3, axis=0), 4, random)


if __name__ == "__main__":
    main()
