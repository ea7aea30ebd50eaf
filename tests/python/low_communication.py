"""Trains a model with little communication, and prints what each method sends. Run it with mpirun -n 4."""
import torch

import weir
import weir.torch

comm = weir.Communicator()


def batches_of(rank):
    """Returns the data of a rank."""
    generator = torch.Generator().manual_seed(rank)
    for _ in range(30):
        inputs = torch.randn(32, 64, generator=generator)
        yield inputs, inputs.roll(1, dims=1).relu()


def loss_of(model, batch):
    inputs, targets = batch
    return (model(inputs) - targets).square().mean()


def network():
    return torch.nn.Sequential(torch.nn.Linear(64, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 64))


def report(name, model, diloco):
    bits = 8 * diloco.bytes_sent / sum(parameter.numel() for parameter in model.parameters())
    if comm.rank == 0:
        print(f"{name}: {bits:.2f} bits for each parameter in an exchange, on {comm.size} ranks")


model = network()
inner = torch.optim.AdamW(model.parameters(), lr=1e-3)
diloco = weir.torch.DiLoCo(model, inner, comm, method="sparseloco", H=30)  # all ranks begin with rank 0's parameters
for batch in batches_of(comm.rank):  # each rank has its own
    inner.zero_grad()
    loss_of(model, batch).backward()
    diloco.step()  # inner.step(), and after every 30 of them the exchange
diloco.synchronize()  # the model has the same parameters on all ranks
report("sparseloco", model, diloco)

for name, settings in {
    "diloco": {"method": "diloco", "H": 30},
    "diloco in 4 bits": {"method": "diloco", "H": 30, "compressor": "block_quantise", "compressor_parameters": "format=int4"},
    "demo": {"method": "demo", "outer_lr": 1e-3},
}.items():
    model = network()
    inner = None if name == "demo" else torch.optim.AdamW(model.parameters(), lr=1e-3)
    diloco = weir.torch.DiLoCo(model, inner, comm, **settings)
    for batch in batches_of(comm.rank):
        model.zero_grad()
        loss_of(model, batch).backward()
        diloco.step()
    diloco.synchronize()
    report(name, model, diloco)
