"""The backend "weir" of torch.distributed when a rank is killed: the other ranks' calls end with an error that names it.

Starts its ranks itself, as torchrun does. Needs a Weir that was built for MPICH, and PyTorch 2.15."""
import datetime
import os
import signal
import socket
import subprocess
import sys

RANKS = 3
ENOUGH = 120  # seconds; the calls themselves would wait for an hour
CALLS = ["all_reduce", "large", "future", "large future", "receive", "barrier", "sparse", "new group", "DDP"]


def call(which, rank):
    import torch
    import torch.distributed as dist
    import weir.torch  # noqa: F401  registers the backend; an installed package needs no import

    dist.init_process_group("weir", timeout=datetime.timedelta(hours=1))
    model = None
    if which == "DDP":
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(100, 500))
    tensor = torch.ones(100_000 if "large" in which else 10)
    dist.all_reduce(tensor)
    if rank == RANKS - 1:
        if which == "new group":  # the others know of this rank, and wait for it
            import weir._torch_group

            weir._torch_group.Calls = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
            dist.new_group()
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        if "future" in which:
            dist.all_reduce(tensor, async_op=True).get_future().wait()
        elif which == "receive":
            dist.recv(tensor, RANKS - 1)
        elif which == "barrier":
            dist.barrier()
        elif which == "sparse":
            dist.all_reduce(torch.sparse_coo_tensor([[rank]], [1.0], (RANKS,)))
        elif which == "new group":
            dist.new_group()
        elif which == "DDP":
            model(torch.randn(8, 100)).sum().backward()
        else:
            dist.all_reduce(tensor)
    except Exception as error:
        assert f"rank {RANKS - 1} (process" in str(error) and "has ended without finalising MPI" in str(error), error
    else:
        raise AssertionError(f"{which}: no error")


def main():
    for which in CALLS:
        with socket.create_server(("", 0)) as one:
            port = one.getsockname()[1]
        common = {**os.environ, "WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        ranks = [subprocess.Popen([sys.executable, __file__, which], env={**common, "RANK": str(rank)}) for rank in range(RANKS)]
        try:
            ends = [rank.wait(ENOUGH) for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
        assert ends == [0, 0, -signal.SIGKILL], (which, ends)
        print(f"{which}: ok", flush=True)
    print("a rank that is killed: all ok")


if len(sys.argv) > 1:
    call(sys.argv[1], int(os.environ["RANK"]))
    sys.stdout.flush()
    os._exit(0)  # MPI cannot be finalised
else:
    main()
