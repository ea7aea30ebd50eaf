"""Gradients as bytes: other ranks decode them without a plan."""
import numpy as np
import pytest

import weir

N = 2000


def gradient_of(rank):
    return np.random.default_rng(rank).standard_normal(N).astype(np.float32) ** 3


def make(comm):
    return weir.AllreducePlan(comm, algorithm="topk_allgather", compressor="top_k", count=N, density=0.05, average=False)


def test_contributions_travel_as_bytes(comm, add):
    """The encoded bytes of all ranks and their residuals add up to their gradients."""
    given = gradient_of(comm.rank)
    with make(comm) as plan:
        data = plan.encode(given)
        assert data.dtype == np.uint8 and data.size <= plan.encoded_bytes and plan.statistics.iteration == 1
        info = weir.inspect(data)
        assert (info.version, info.count, info.bytes, info.compressor) == (1, N, data.size, "top_k")
        total = np.zeros(N, np.float32)
        for contribution in comm.allgather(data.tobytes()):
            assert weir.decode(contribution, out=total, add=True) is total
        np.testing.assert_allclose(add(given), total + add(plan.residual.values), atol=1e-3)


def test_decode_takes_any_buffer(comm):
    with make(comm) as plan:
        data = plan.encode(gradient_of(comm.rank))
    values = weir.decode(data)
    for other in (data.tobytes(), bytearray(data), memoryview(data), np.repeat(data, 2)[::2].copy()):
        assert np.array_equal(weir.decode(other), values)
    out = np.ones((40, 50), np.float32)
    assert weir.decode(data, out=out, add=True) is out and np.allclose(out.ravel(), values + 1)


def test_what_is_refused(comm):
    with make(comm) as plan:
        for bad, kind, text in (
            (np.zeros(5, np.float32), weir.ArgumentError, f"has 5 elements; the plan takes {N}"),
            (np.zeros(N), weir.ArgumentError, "has type float64; the plan takes float32"),
            (np.full(N, np.nan, np.float32), weir.NonFiniteError, "holds NaN"),
        ):
            with pytest.raises(kind, match=text):
                plan.encode(bad)
        data = plan.encode(gradient_of(comm.rank)).tobytes()
    with pytest.raises(weir.StateError, match="closed"):
        plan.encode(np.zeros(N, np.float32))
    out = np.full(N, 7, np.float32)
    for bad, text in ((data[:-1], "truncated"), (5, "the encoded gradient is of type int")):
        for call in (weir.inspect, lambda bad: weir.decode(bad, out=out, add=True)):
            with pytest.raises(weir.ArgumentError, match=text):
                call(bad)
    assert (out == 7).all()
    for given, text in (
        ({"out": np.zeros(5, np.float32)}, f"it is of {N} elements, and there is room for 5"),
        ({"out": np.zeros(N)}, "has type float64"),
        ({"out": np.zeros(2 * N, np.float32)[::2]}, "not contiguous"),
        ({"add": True}, "give out"),
    ):
        with pytest.raises(weir.ArgumentError, match=text):
            weir.decode(data, **given)
