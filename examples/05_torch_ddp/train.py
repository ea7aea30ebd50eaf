"""A large network on Fashion-MNIST under DistributedDataParallel, dense or sparse: mpirun -np 4 python3 train.py --mode sparse"""
import argparse
import gzip
import json
import os
import time

import numpy as np
import torch
import weir
import weir.torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FOLDER = "/usr/share/datasets/fashion-mnist"  # from Debian's package dataset-fashion-mnist
PAUSE = 3  # first steps, in which DDP forms its buckets; they are not timed


def load(part, synthetic):
    """Returns the images of "train" or "t10k", standardised, and their labels."""
    if synthetic:
        generator = np.random.default_rng(0)
        prototypes = generator.standard_normal((10, 784), np.float32)
        generator = np.random.default_rng(len(part))
        labels = generator.integers(0, 10, 60000 if part == "train" else 10000)
        noise = generator.standard_normal((len(labels), 784), np.float32)
        return torch.from_numpy(prototypes[labels] * np.float32(0.1) + noise), torch.from_numpy(labels)

    def read(name, header):
        with gzip.open(f"{FOLDER}/{part}-{name}-ubyte.gz") as file:
            return np.frombuffer(file.read(), np.uint8, offset=header)

    images = torch.from_numpy(read("images-idx3", 16).reshape(-1, 784).astype(np.float32))
    return (images - 73) / 90, torch.from_numpy(read("labels-idx1", 8).astype(np.int64))


def card_bytes():
    """Returns the bytes that the network cards have sent. With one rank per node this is the rank's traffic, by MPI and by gloo."""
    with open("/proc/self/net/dev") as file:
        cards = (line.split(":") for line in file if ":" in line)
        return sum(int(numbers.split()[8]) for name, numbers in cards if name.strip() != "lo")


def network(width):
    return nn.Sequential(nn.Linear(784, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))


def accuracy(model, images, labels):
    with torch.no_grad():
        return float((model(images).argmax(1) == labels).float().mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mode", choices=("dense", "sparse"), default="sparse", help="dense: DDP alone, over gloo")
    parser.add_argument("--density", type=float, default=0.01, help="of the gradient's entries, those that a step delivers")
    parser.add_argument("--algorithm", default="oktopk")
    parser.add_argument("--width", type=int, default=2048, help="of the two hidden layers: 2048 makes 5.8 M parameters")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=16, help="images of a rank and step")
    parser.add_argument("--rate", type=float, default=0.05, help="of learning, with SGD")
    parser.add_argument("--every", type=int, default=100, help="steps between evaluations")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cuda: each rank on its nearest GPU")
    parser.add_argument("--synthetic", action="store_true", help="ten noisy prototypes instead of Fashion-MNIST")
    parser.add_argument("--output", default="", metavar="FOLDER", help="write MODE.csv and MODE.json there")
    given = parser.parse_args()

    torch.set_num_threads(1)
    comm = weir.torch.init_process_group()
    if given.device == "cuda":
        torch.cuda.set_device(comm.nearest_gpu())
    torch.manual_seed(0)
    model = DistributedDataParallel(network(given.width).to(given.device), gradient_as_bucket_view=True)
    gradients = None
    if given.mode == "sparse":
        gradients, hook = weir.torch.ddp_hook(model, comm, density=given.density, algorithm=given.algorithm)
        model.register_comm_hook(gradients, hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=given.rate)

    images, labels = (array[comm.rank :: comm.size].to(given.device) for array in load("train", given.synthetic))
    held_out = [array.to(given.device) for array in load("t10k", given.synthetic)]
    parameters = sum(parameter.numel() for parameter in model.parameters())
    batches = torch.Generator().manual_seed(comm.rank)
    rows, seconds, sent, cards = [], 0.0, 0, 0
    for step in range(1, given.steps + 1):
        some = torch.randint(len(images), (given.batch,), generator=batches)
        before, begin = card_bytes(), time.perf_counter()
        optimizer.zero_grad(set_to_none=False)
        loss = nn.functional.cross_entropy(model(images[some]), labels[some])
        loss.backward()
        optimizer.step()
        if given.device == "cuda":
            torch.cuda.synchronize()
        if step > PAUSE:
            seconds += time.perf_counter() - begin
            cards += card_bytes() - before
            # gloo's ring sends 2 (P - 1) / P of the gradient.
            sent += gradients.bytes_sent if gradients else 2 * (comm.size - 1) * 4 * parameters // comm.size
        if step % given.every == 0 or step == given.steps:
            if comm.rank == 0:
                steps = max(step - PAUSE, 1)
                correct = accuracy(model.module, *held_out)
                rows.append((step, correct, seconds / steps, sent / steps, cards / steps))
                print(f"{given.mode:>6}, step {step:>5}: accuracy {correct:.2%}, {seconds / steps * 1e3:,.1f} ms a step", flush=True)
            torch.distributed.barrier()

    if comm.rank == 0:
        step, correct, a_step, bytes_a_step, cards_a_step = rows[-1]
        summary = {
            "mode": given.mode, "ranks": comm.size, "parameters": parameters, "batch": given.batch, "steps": step,
            "accuracy": correct, "seconds_per_step": a_step, "bytes_per_step": bytes_a_step, "card_bytes_per_step": cards_a_step,
            "torch": torch.__version__, "weir": weir.__version__,
        }
        print(json.dumps(summary))
        if given.output:
            os.makedirs(given.output, exist_ok=True)
            with open(os.path.join(given.output, given.mode + ".json"), "w") as file:
                json.dump(summary, file, indent=1)
            with open(os.path.join(given.output, given.mode + ".csv"), "w") as file:
                file.write("step,accuracy,seconds,megabytes\n")
                for step, correct, a_step, bytes_a_step, _ in rows:
                    file.write(f"{step},{correct},{a_step * step},{bytes_a_step * step / 1e6}\n")
    torch.distributed.destroy_process_group()


main()
