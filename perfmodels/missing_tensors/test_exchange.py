#!/usr/bin/env python3
"""mpirun -np 4 test_exchange.py: tests that the exchange in one process (exchange.Simulated) and weir.FusedAllreduce deliver the
same bits, and that residuals and delivered entries add up to the gradients."""
import numpy as np
import torch
import weir

import exchange

SIZES, WHOLE = [144, 16, 2304, 16, 4608, 64, 10, 640], 26
STEPS, DENSITY = 6, 0.01


def gradients_of(step, ranks):
    """Returns heavy-tailed gradients, with magnitudes that differ between tensors."""
    random = np.random.default_rng(step)
    scales = np.repeat(10.0 ** random.uniform(-3, 0, len(SIZES) + 1), [*SIZES, WHOLE])
    return torch.from_numpy((random.standard_t(3, (ranks, len(scales))) * scales).astype(np.float32))


def check(comm, scheme, buffer_bytes, residual):
    keywords = dict(scheme=scheme, sizes=SIZES, density=DENSITY, buffer_bytes=buffer_bytes, residual=residual)
    simulated, library = exchange.Simulated(**keywords), exchange.Library(comm, whole=WHOLE, **keywords)
    what = f"{scheme}, buffers of {buffer_bytes} bytes, residual {residual}"
    given, delivered = 0, 0
    for step in range(STEPS):
        gradients = gradients_of(step, comm.size)
        expected, got = simulated(gradients), library(gradients[comm.rank : comm.rank + 1])
        sparse = sum(SIZES)
        assert torch.equal(expected[:sparse], got[:sparse]), f"{what}: step {step} delivers something else"
        torch.testing.assert_close(expected[sparse:], got[sparse:])  # dense sums are added in another order
        missing = sum(not part.any() for part in got[:sparse].split(SIZES))
        assert library.fused.statistics.tensors_missing == missing, f"{what}: step {step}: {missing} tensors are missing"
        given, delivered = given + gradients.double().sum(0), delivered + comm.size * expected.double()
    if residual:
        torch.testing.assert_close(given, delivered + simulated.residual.double().sum(0), rtol=1e-4, atol=1e-5)


def main():
    comm = weir.Communicator()
    torch.set_num_threads(1)
    assert exchange.buffers([10, 20, 30, 40], 4 * 60) == [(3, 4), (0, 3)]
    assert exchange.buffers([10, 90, 30, 40], 4 * 60) == [(3, 4), (2, 3), (1, 2), (0, 1)]
    for residual in (True, False):
        check(comm, "ahead", 4096, residual)
        for buffer_bytes in (4, 4096, 1 << 30):
            check(comm, "behind", buffer_bytes, residual)
    if comm.rank == 0:
        print(f"test_exchange: the same on {comm.size} ranks")


main()
