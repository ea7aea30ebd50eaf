"""ddp_hook in a Trainer of PyTorch Lightning."""
import os

import pytest

import weir

torch = pytest.importorskip("torch", reason="torch is not installed")
lightning = pytest.importorskip("lightning", reason="lightning is not installed")
import weir.torch  # noqa: E402
from lightning.pytorch.plugins.environments import TorchElasticEnvironment  # noqa: E402


class SparseGradients(lightning.Callback):
    def on_train_start(self, trainer, module):
        model = trainer.strategy.model
        self.gradients, hook = weir.torch.ddp_hook(model, density=0.01)
        model.register_comm_hook(self.gradients, hook)


class Regression(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1))

    def training_step(self, batch, index):
        inputs, targets = batch
        return (self.net(inputs) - targets).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


def test_a_callback_registers_the_hook(comm, monkeypatch):
    weir.torch.init_process_group(comm)
    for name, value in {"RANK": comm.rank, "WORLD_SIZE": comm.size, "LOCAL_RANK": comm.rank, "LOCAL_WORLD_SIZE": comm.size}.items():
        monkeypatch.setitem(os.environ, name, str(value))
    torch.manual_seed(1)
    inputs = torch.randn(256, 64)
    data = torch.utils.data.TensorDataset(inputs, inputs[:, :1])
    sparse, model = SparseGradients(), Regression()
    trainer = lightning.Trainer(
        accelerator="cpu", devices=comm.size, strategy="ddp", plugins=[TorchElasticEnvironment()], max_epochs=1, callbacks=[sparse],
        logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(model, torch.utils.data.DataLoader(data, batch_size=16))
    weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    assert not torch.equal(weights, torch.cat([parameter.detach().flatten() for parameter in Regression().parameters()]))
    assert (sparse.gradients.bytes_sent > 0) == (comm.size > 1)
    assert comm.broadcast(weights.numpy().tobytes()) == weights.numpy().tobytes()
    torch.distributed.destroy_process_group()
