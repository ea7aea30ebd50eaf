"""A first program with PyTorch, for torchrun."""
import torch
import torch.distributed as dist
import weir.torch

dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1000, 100))
gradients, hook = weir.torch.ddp_hook(model, density=0.01)
model.register_comm_hook(gradients, hook)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(10):
    optimizer.zero_grad()
    model(torch.randn(16, 1000)).square().mean().backward()
    optimizer.step()
weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
same = [torch.empty_like(weights) for _ in range(dist.get_world_size())]
dist.all_gather(same, weights)
assert all(torch.equal(weights, other) for other in same)
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: {gradients.bytes_sent} bytes in the last step\n", end="")
dist.destroy_process_group()
