"""Sparse exchange of a PyTorch model's gradients, under DistributedDataParallel and in plain training loops. Import it by name:

    import weir.torch

    model = DistributedDataParallel(model)
    model.register_comm_hook(*weir.torch.ddp_hook(model, density=0.01))

    fully_shard(model)
    gradients = weir.torch.fsdp_hook(model, density=0.01)     # the same for FSDP2

    weir.torch.all_reduce_gradients(model, density=0.01)      # a plain loop: between backward() and the optimizer's step()

    gradients = weir.torch.fuse_gradients(model, density=0.01)
    loss.backward(); gradients.wait_all(); optimizer.step()   # the same, exchanged while backward() computes

    optimizer = weir.torch.LayerOptimizer(model, lr=0.1)      # LARS or LAMB, whose work the ranks share
    embed = weir.torch.Embedding(32000, 512, largest_batch=4096)    # a table that is divided among the ranks

    diloco = weir.torch.DiLoCo(model, optimizer, H=30)        # steps of each rank's own, and an exchange every 30 of them

The part of a gradient that is not delivered waits in a residual of its parameter. Optimizers get the ranks' averaged sparse update,
which is 0 where nothing was delivered. To save, use state_dict() and load_state_dict() of a GradientAllreduce or a DiLoCo; the
`allreduce` of FusedGradients goes into a weir.Checkpoint.

Needs PyTorch 1.13 or later. torchrun or mpirun starts the programs. Under mpirun, init_process_group() makes the process group that
DDP needs for itself; under torchrun, torch.distributed's own does.
"""
from __future__ import annotations

from ._torch_diloco import DiLoCo
from ._torch_embedding import Embedding
from ._torch_fsdp import ShardedGradients, fsdp_hook
from ._torch_fused import FusedGradients, fuse_gradients
from ._torch_gradients import GradientAllreduce, all_reduce_gradients, ddp_hook
from ._torch_optimizer import LayerOptimizer
from ._torch_start import init_process_group, register_backend

__all__ = [
    "DiLoCo",
    "Embedding",
    "FusedGradients",
    "GradientAllreduce",
    "LayerOptimizer",
    "ShardedGradients",
    "all_reduce_gradients",
    "ddp_hook",
    "fsdp_hook",
    "fuse_gradients",
    "init_process_group",
]

register_backend()
