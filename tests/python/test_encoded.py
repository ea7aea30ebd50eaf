"""Gradients as bytes: what ranks encode, others decode without a plan."""
import os

import numpy as np
import pytest

import weir

N = 2000
DENSE = [row for row in weir.compressors() if row.carriage == "linear"]
CARRIERS = {"sparse": "topk_allgather", "packed": "packed_allgather"}


def gradient_of(rank, step, count=N):
    return np.random.default_rng([rank, step]).standard_normal(count).astype(np.float32) ** 3


def make(comm, compressor="top_k", **keywords):
    carriage = {row.name: row.carriage for row in weir.compressors()}[compressor]
    keywords = {"count": N, "density": 0.05, "average": False, **keywords}
    return weir.AllreducePlan(comm, algorithm=CARRIERS[carriage], compressor=compressor, **keywords)


@pytest.mark.parametrize("compressor", ["top_k", "random_k", "qsgd", "block_quantise", "chunked_topk", "lossless"])
def test_sums_are_what_runs_deliver(comm, add, compressor):
    with make(comm, compressor) as plan, make(comm, compressor) as runs:
        for step in range(3):
            given = gradient_of(comm.rank, step)
            data = plan.encode(given)
            assert data.dtype == np.uint8 and data.size <= plan.encoded_bytes
            info = weir.inspect(data)
            assert (info.version, info.count, info.bytes, info.compressor) == (1, N, data.size, compressor)
            values = weir.decode(data)
            update = given.copy()
            runs.run(update)
            assert np.allclose(add(values), update, rtol=1e-5, atol=1e-5)
            assert np.array_equal(plan.residual.values, runs.residual.values)
            assert plan.statistics.iteration == step + 1


def test_gossip_through_files(comm, tmp_path_factory, add):
    """Every rank writes its contribution into a folder and adds up what it finds there: no collective call is made for it."""
    world = np.zeros(1)
    folder = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"weir-gossip-{int(add(world + (os.getpid() if comm.rank == 0 else 0))[0])}")
    os.makedirs(folder, exist_ok=True)
    with make(comm, error_feedback="residual") as plan:
        given = np.zeros(N)
        for step in range(4):
            gradient = gradient_of(comm.rank, step)
            given += gradient
            with open(os.path.join(folder, f"{step}.{comm.rank}"), "wb") as file:
                file.write(plan.encode(gradient))
        add(world)  # all have written
        model = np.zeros(N, np.float32)
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name), "rb") as file:
                assert weir.decode(file.read(), out=model, add=True) is model
        assert np.allclose(add(given), model + add(plan.residual.values), atol=1e-3)
        add(world)  # all have read
        os.remove(os.path.join(folder, f"{0}.{comm.rank}"))
        for step in range(1, 4):
            os.remove(os.path.join(folder, f"{step}.{comm.rank}"))
        add(world)
        if comm.rank == 0:
            os.rmdir(folder)


def test_decode_takes_any_buffer(comm):
    with make(comm) as plan:
        data = plan.encode(gradient_of(comm.rank, 0))
    values = weir.decode(data)
    for other in (data.tobytes(), bytearray(data), memoryview(data), np.repeat(data, 2)[::2].copy()):
        assert np.array_equal(weir.decode(other), values)
    out = np.ones((40, 50), np.float32)
    assert weir.decode(data, out=out, add=True) is out and np.allclose(out.ravel(), values + 1)
    assert np.array_equal(weir.decode(data, out=out).ravel(), values)


def test_what_decode_refuses(comm):
    with make(comm) as plan:
        data = plan.encode(gradient_of(comm.rank, 0)).tobytes()
    out = np.full(N, 7, np.float32)
    for bad, text in (
        (b"", "0 bytes are too few"),
        (data[:-1], "truncated"),
        (data[:100] + bytes([data[100] ^ 1]) + data[101:], "damaged"),
        (data + b"x", "give exactly those"),
        (b"x" * 200, "does not begin with WEIRCODE"),
        (5, "the encoded gradient is of type int"),
    ):
        with pytest.raises(weir.ArgumentError, match=text):
            weir.decode(bad, out=out, add=True)
        with pytest.raises(weir.ArgumentError, match=text):
            weir.inspect(bad)
    assert (out == 7).all()
    with pytest.raises(weir.ArgumentError, match=f"it is of {N} elements, and there is room for 5"):
        weir.decode(data, out=np.zeros(5, np.float32))
    with pytest.raises(weir.ArgumentError, match="has type float64"):
        weir.decode(data, out=np.zeros(N))
    with pytest.raises(weir.ArgumentError, match="not contiguous"):
        weir.decode(data, out=np.zeros(2 * N, np.float32)[::2])
    with pytest.raises(weir.ArgumentError, match="give out"):
        weir.decode(data, add=True)


def test_what_encode_refuses(comm):
    with make(comm) as plan:
        with pytest.raises(weir.ArgumentError, match=f"has 5 elements; the plan takes {N}"):
            plan.encode(np.zeros(5, np.float32))
        with pytest.raises(weir.ArgumentError, match="has type float64; the plan takes float32"):
            plan.encode(np.zeros(N))
        with pytest.raises(weir.NonFiniteError, match="holds NaN"):
            plan.encode(np.full(N, np.nan, np.float32))
    with weir.AllreducePlan(comm, count=N, algorithm="dense_ring") as plan:
        with pytest.raises(weir.StateError, match="its compressor has dense values summed"):
            plan.encode(np.zeros(N, np.float32))
    with pytest.raises(weir.StateError, match="closed"):
        plan.encode(np.zeros(N, np.float32))
