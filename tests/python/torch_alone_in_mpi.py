"""Processes of torch.multiprocessing, in each of which another module has started MPI for this one alone, as mpi4py does: both get an error
that says so. The environment has only some of torchrun's variables, as PyTorch Lightning leaves it.

Needs a Weir that was built for MPICH, and PyPI's mpich in the same environment."""
import ctypes
import os
import sys

import torch
import torch.distributed as dist


def rank_of_two(rank: int, port: int, partial: bool) -> None:
    if partial:
        os.environ["WORLD_SIZE"] = "2"
    ctypes.CDLL(os.path.join(sys.prefix, "lib", "libmpi.so.12"), mode=ctypes.RTLD_GLOBAL).MPI_Init(None, None)
    import weir.torch

    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    before = dict(os.environ)
    try:
        weir.torch.all_reduce_gradients(torch.nn.Linear(100, 100))
    except weir.UnsupportedError as error:
        assert f"this is rank {rank} of 2, and MPI was initialised before Weir, for this process alone" in str(error), error
    else:
        raise AssertionError("each process works alone")
    assert {name: os.environ.get(name) for name in before} == before and "RANK" not in os.environ
    dist.destroy_process_group()


if __name__ == "__main__":
    from weir._torch_start import free_port

    for partial in (False, True):
        torch.multiprocessing.spawn(rank_of_two, (free_port(), partial), 2)
    print("both are refused")
