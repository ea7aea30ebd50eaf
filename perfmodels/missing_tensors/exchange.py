"""Exchanges the gradients of a step: in one process with torch, or with the library under mpirun.

An exchange takes an array of a row for each rank of this process and a column for each element of the model, and returns the update:
the mean over all ranks of what they selected. It keeps residuals. `sizes` are those of the tensors that are sparsified, in the order of
the forward pass; the columns behind them travel whole.
"""
import itertools
import math


def wanted(density, count):
    """Returns the number of entries to select, rounded as the library does."""
    return max(1, math.floor(density * count + 0.5))


def buffers(sizes, buffer_bytes):
    """Returns (first, last + 1) of the tensors in each buffer, in the order of back-propagation. A buffer takes tensors from the
    end of the model until the next would not fit. A tensor larger than a buffer has its own."""
    begin = end = len(sizes)
    found = []
    while begin > 0:
        if begin < end and 4 * sum(sizes[begin - 1 : end]) > buffer_bytes:
            found.append((begin, end))
            end = begin
        begin -= 1
    return [*found, (0, end)]


def parts(scheme, sizes, density, buffer_bytes):
    """Returns the ranges to select from: (first element, last + 1, entries to select). All schemes select the same number."""
    offsets = [0, *itertools.accumulate(sizes)]
    groups = [(i, i + 1) for i in range(len(sizes))] if scheme == "ahead" else buffers(sizes, buffer_bytes)
    return [(offsets[a], offsets[b], sum(wanted(density, size) for size in sizes[a:b])) for a, b in groups]


def mean(rows):
    """Returns the mean, added in pairs as the library adds the ranks' entries, so that results are the same bit for bit."""
    count, rows = len(rows), list(rows)
    while len(rows) > 1:
        rows = [a + b for a, b in zip(rows[::2], rows[1::2])] + rows[len(rows) // 2 * 2 :]
    return rows[0] / count


class Dense:
    entries = 0

    def __call__(self, gradients):
        return mean(gradients)


class Frozen:
    """A dense exchange that never delivers the columns after the first `count`: the most that missing them can cost."""
    entries = 0

    def __init__(self, count):
        self.count = count

    def __call__(self, gradients):
        update = mean(gradients)
        update[self.count :] = 0
        return update


class Simulated:
    """All ranks in this process. `behind` selects the largest entries of each buffer, `ahead` those of each tensor."""

    def __init__(self, scheme, sizes, density, buffer_bytes, residual=True):
        self.parts = parts(scheme, sizes, density, buffer_bytes)
        self.entries = sum(k for _, _, k in self.parts)  # selected by a rank
        self.residual = 0 if residual else None

    def __call__(self, gradients):
        if self.residual is not None:
            gradients = gradients + self.residual
        chosen = gradients.clone()
        chosen[:, : self.parts_end()] = 0
        for begin, end, k in self.parts:
            here = gradients[:, begin:end]
            largest = here.abs().topk(k, dim=1, sorted=False).indices
            chosen[:, begin:end].scatter_(1, largest, here.gather(1, largest))
        if self.residual is not None:
            self.residual = gradients - chosen
        return mean(chosen)

    def parts_end(self):
        return max(end for _, end, _ in self.parts)


class Library:
    """The same with weir.FusedAllreduce, one rank in each process."""

    def __init__(self, comm, scheme, sizes, density, buffer_bytes, residual=True, whole=0):
        import weir
        # The last columns are first here. They are handed in last, so they do not change which other tensors share a buffer.
        counts = [("whole", whole)] * (whole > 0) + [(str(i), size) for i, size in enumerate(sizes)]
        tensors = [weir.FusedTensor(name=name, count=count, dense=name == "whole") for name, count in counts]
        self.fused = weir.FusedAllreduce(comm, tensors, scheme=scheme, density=density, buffer_bytes=buffer_bytes, algorithm="topk_allgather",
                                         error_feedback="residual" if residual else "none")
        self.entries = sum(wanted(density, size) for size in sizes)
        self.whole, self.ends = whole, [*itertools.accumulate(sizes)]

    def __call__(self, gradients):
        (update,) = gradients.clone()
        begins = [0, *self.ends]
        for i in reversed(range(len(self.ends))):
            self.fused.ready(str(i), update[begins[i] : begins[i + 1]])
        if self.whole:
            self.fused.ready("whole", update[self.ends[-1] :])
        self.fused.wait_all()
        return update
