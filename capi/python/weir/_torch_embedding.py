"""An embedding layer for PyTorch whose table is trained across ranks."""
from __future__ import annotations

from typing import Any, Optional

import numpy as np
import torch

from ._object import refuse_making
from ._struct import refuse_unknown, whole_number
from ._torch_start import everybody
from ._types import ArgumentError, EmbeddingConfig, StateError
from .communicator import Communicator, handle_of
from .embedding import EmbeddingTable


def hand_over(ctx: Any, gradients: Any) -> Any:
    ctx.layer._update(ctx.number, gradients)
    return None, None, None


class Lookup(torch.autograd.Function):  # type: ignore[misc]
    """Looks up vectors. Its backward pass hands their gradients to the table."""

    @staticmethod
    def forward(ctx: Any, anchor: Any, layer: Embedding, ids: Any) -> Any:
        ctx.layer = layer
        vectors = layer.table.lookup(ids).result()
        ctx.number = layer._lookups
        return vectors

    backward = staticmethod(torch.autograd.function.once_differentiable(hand_over))


class Embedding(torch.nn.Module):  # type: ignore[misc]
    """Takes the place of torch.nn.Embedding in a model that several ranks train, each with its own batch:

        embed = weir.torch.Embedding(32000, 512, largest_batch=4096, optimizer="adam", learning_rate=1e-3)
        vectors = embed(ids)                     # float32, of shape ids.shape + (512,)
        embed.prefetch(next_ids)                 # optional: these ids travel during the backward pass
        loss_of(vectors).backward()              # the ranks' mean gradient changes the rows that were looked up

    `table` is the weir.EmbeddingTable, divided among the ranks. Its own optimizer applies the gradients in backward(), so that the
    layer has no parameters: PyTorch's optimizers, DistributedDataParallel and weir.torch's exchanges do not see it. The next call
    has the new rows.

    Calling the layer is collective, and so is its backward pass. A training step calls it once on every rank, with all ids of the
    step (an empty tensor if a rank has none), and runs backward() once. Calls without gradients, as in evaluation, need no backward
    pass. `largest_batch` is the largest number of ids that a rank looks up at once. Vectors of `padding_idx` are 0, and their
    gradients have no effect.

    `comm` is a weir.Communicator, by default one of all ranks. Further keywords are those of weir.EmbeddingTable: optimizer,
    learning_rate, exchange, memory and so on. Gradients must not be scaled by a GradScaler: they are applied at once.

    To save, put `table` into a weir.Checkpoint; state_dict() has nothing of it. weight() returns the whole table, for inference.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        *,
        largest_batch: int,
        padding_idx: Optional[int] = None,
        comm: Optional[Communicator] = None,
        **keywords: Any,
    ) -> None:
        super().__init__()
        comm = everybody() if comm is None else comm
        try:
            refuse_unknown(type(self).__name__, keywords, [name for name in EmbeddingConfig._kinds if name not in ("rows", "width")])
            if padding_idx is not None:
                padding_idx = whole_number("padding_idx", padding_idx, 64)
                if not -num_embeddings <= padding_idx < num_embeddings:
                    raise ArgumentError(f"padding_idx is {padding_idx}: it must be from {-num_embeddings} to {num_embeddings - 1}")
                padding_idx %= num_embeddings
        except Exception as error:
            refuse_making(handle_of(comm), "table", error)
        self.num_embeddings, self.embedding_dim, self.padding_idx = num_embeddings, embedding_dim, padding_idx
        self.table = EmbeddingTable(comm, rows=num_embeddings, width=embedding_dim, largest_batch=largest_batch, **keywords)
        self._rank = comm.rank
        self._lookups = 0
        self._updated = 0  # the lookup whose gradients the table has taken
        self._anchor = torch.zeros((), requires_grad=True)  # for autograd to come by; no parameter

    def forward(self, ids: Any) -> Any:
        """Collective. Returns the vectors of the ids, a tensor of int32 or int64 of any shape."""
        self._lookups += 1
        vectors = Lookup.apply(self._anchor, self, ids)
        if self.padding_idx is not None:
            vectors = vectors.masked_fill((ids == self.padding_idx).unsqueeze(-1), 0.0)
        return vectors

    def prefetch(self, ids: Any) -> None:
        """Collective. Says which ids the next call will have, so that they travel behind the backward pass."""
        self.table.prefetch(ids)

    def set_learning_rate(self, learning_rate: float) -> None:
        """Sets the learning rate of all later updates. Not collective, but equal on all ranks."""
        self.table.set_learning_rate(learning_rate)

    def weight(self) -> Any:
        """Collective. Returns the whole table on every rank, as a float32 tensor of num_embeddings x embedding_dim."""
        return torch.from_numpy(self.table.export_rows(0, self.num_embeddings))

    def load_weight(self, weight: Any) -> None:
        """Collective. Replaces the table by rank 0's tensor of num_embeddings x embedding_dim; other ranks' are not looked at. The
        optimizer's state stays as it is."""
        values = np.empty((0, self.embedding_dim), np.float32)
        if self._rank == 0:
            values = weight.detach().to("cpu", torch.float32).contiguous().numpy()
        self.table.import_rows(0, values)

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"

    def _update(self, number: int, gradients: Any) -> None:
        if number != self._lookups or number == self._updated:
            raise StateError(
                "backward() belongs to an earlier call of the layer, or runs for the second time: call the layer once in each step, "
                "with all ids in one tensor, and evaluate before or after the step"
            )
        self._updated = number
        self.table.update(gradients.to(torch.float32).contiguous())
