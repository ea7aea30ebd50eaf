import gc
import os
import struct
import threading

import numpy as np
import pytest
from conftest import barrier, is_last, of_last, refused

import weir
from weir import _handles


def only_rank_0(comm, make):
    """Returns a folder of files that all ranks read."""
    if comm.rank == 0:
        make()
    barrier(comm)


def write_idx(path, array):
    codes = {"u1": 8, "i2": 11, "f8": 14}
    kind = array.dtype.str[1:]
    with open(path, "wb") as file:
        file.write(struct.pack(f">HBB{array.ndim}I", 0, codes[kind], array.ndim, *array.shape))
        file.write(array.astype(f">{kind}").tobytes())


IMAGES = (np.arange(50 * 4 * 6, dtype=np.int64) * 37 % 251).astype(np.uint8).reshape(50, 4, 6)
LABELS = (np.arange(50) * 7 % 10).astype(np.uint8)


@pytest.fixture
def source(comm, folder):
    only_rank_0(comm, lambda: (write_idx(f"{folder}/images", IMAGES), write_idx(f"{folder}/labels", LABELS)))
    return weir.idx_source(f"{folder}/images", f"{folder}/labels")


class Squares(weir.SampleSource):
    """Of the caller's own: sample i is i, and becomes i * i."""

    def __init__(self, count=40, **given):
        self.reads, self.threads = [], set()
        super().__init__(size=count, value_bytes=8, identity=f"{count} squares", dtype="i8", **given)

    def read(self, first, count):
        self.reads.append((first, count))
        self.threads.add(threading.get_ident())
        return [struct.pack("q", i) for i in range(first, first + count)]

    def decode(self, sample, encoded):
        assert encoded == struct.pack("q", sample)
        return np.array([sample * sample])


def test_idx_source(comm, source, folder):
    assert len(source) == 50 and source.value_bytes == 28
    assert source.dtype.names == ("items", "labels") and source.dtype["items"].shape == (4, 6)
    assert "uint8 50x4x6 from 16; labels" in source.identity and "50 samples of 28 bytes" in repr(source)
    for i in (0, 49, -1):
        np.testing.assert_array_equal(source[i]["items"], IMAGES[i])
        assert source[i]["labels"] == LABELS[i]
    with pytest.raises(IndexError, match="no sample 50"):
        source[50]
    assert sum(1 for _ in source) == 50
    for kind in ("i2", "f8"):
        array = (np.arange(5 * 3 * 2) * 11 - 60).astype(kind).reshape(5, 3, 2)
        only_rank_0(comm, lambda: write_idx(f"{folder}/{kind}", array))
        np.testing.assert_array_equal(np.stack([value["items"] for value in weir.idx_source(f"{folder}/{kind}")]), array)


@pytest.mark.parametrize("kind", ["?", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("order", "<>")
def test_npy_source_against_numpy(comm, folder, kind, order):
    array = (np.arange(6 * 3 * 2) * 5 - 20).astype(np.dtype(kind).newbyteorder(order)).reshape(6, 3, 2)
    labels = np.arange(6).astype(np.dtype("i8").newbyteorder(order)) - 3

    def make():
        np.save(f"{folder}/a.npy", array)
        np.save(f"{folder}/b.npy", labels)
        with open(f"{folder}/c.npy", "wb") as file:
            np.lib.format.write_array(file, array, version=(2, 0))

    only_rank_0(comm, make)
    source = weir.npy_source(f"{folder}/a.npy", f"{folder}/b.npy")
    values = np.stack([source[i] for i in range(6)])
    assert values["items"].dtype == np.dtype(kind) and values["labels"].dtype == np.int32
    np.testing.assert_array_equal(values["items"], array)
    np.testing.assert_array_equal(values["labels"], labels)
    np.testing.assert_array_equal(weir.npy_source(f"{folder}/c.npy")[5]["items"], array[5])


def test_files_that_numpy_writes_and_weir_refuses(comm, folder):
    path = f"{folder}/a{comm.rank}.npy"
    for array, text in (
        (np.array([{}, {}], object), "Python objects"),
        (np.zeros(3, [("a", "f4"), ("b", "i4")]), "structured array"),
        (np.asfortranarray(np.zeros((3, 2))), "order of Fortran"),
        (np.array(["a", "b"]), "elements of type"),
        (np.zeros((), "f4"), "a single number"),
        (np.zeros(3, "M8[s]"), "elements of type"),
    ):
        np.save(path, array)
        with pytest.raises(weir.FileError, match=text):
            weir.npy_source(path)
    np.savez(f"{folder}/{comm.rank}.npz", np.zeros(3))
    for make, text in (
        (lambda: weir.npy_source(f"{folder}/{comm.rank}.npz"), "archive of NumPy files"),
        (lambda: weir.record_source(f"{folder}/none", 12), "No such file"),
        (lambda: weir.hdf5_source(f"{folder}/none", "a"), ""),
        (lambda: weir.jpeg_source(f"{folder}/none", 4, 4), ""),
    ):
        with pytest.raises((weir.FileError, weir.UnsupportedError), match=text):
            make()


def test_records_and_dtypes(comm, folder):
    table = np.zeros(9, [("image", "u1", (2, 3)), ("weight", "<f2"), ("label", "<i4")])
    table["image"] = np.arange(54).reshape(9, 2, 3)
    table["label"] = np.arange(9) - 4
    only_rank_0(comm, lambda: (open(f"{folder}/a", "wb").write(b"head" + table.tobytes())))
    source = weir.record_source(f"{folder}/a", table.itemsize, 4, dtype=table.dtype)
    assert source[3] == table[3] and weir.record_source(f"{folder}/a", 12, 4)[2]["items"].tobytes() == table[2].tobytes()
    source.dtype = "V12"
    assert source[3]["items"].tobytes() == table[3].tobytes()
    with pytest.raises(ValueError, match="of 4 bytes: values have 12 bytes"):
        source.dtype = "i4"
    with pytest.raises(ValueError, match="record_bytes"):
        weir.record_source(f"{folder}/a", 2**70)
    with pytest.raises(TypeError, match="whole number"):
        weir.record_source(f"{folder}/a", "12")


class Forgetful(weir.SampleSource):
    def __init__(self):
        self.given = 3


def test_sources_in_python(comm):
    source = Squares()
    assert len(source) == 40 and source[7]["items"] == 49 and source.reads == [(7, 1)]
    before = len(weir.SampleSource._of_python)
    del source
    gc.collect()
    assert len(weir.SampleSource._of_python) == before - 1
    with pytest.raises(weir.FileError, match="NotImplementedError: SampleSource has no read"):
        weir.SampleSource(size=2, value_bytes=1, identity="")[0]
    for keywords, text in (({"value_bytes": 0}, "value_bytes is below 1"), ({"identity": 3}, "identity")):
        with pytest.raises((weir.ArgumentError, TypeError), match=text):
            weir.SampleSource(**{"size": 2, "value_bytes": 1, "identity": "", **keywords})
    forgetful = Forgetful()
    assert repr(forgetful) == "<weir.Forgetful, whose __init__ has not called super().__init__>" and forgetful.given == 3
    assert not hasattr(forgetful, "more")
    text = r"Forgetful.__init__ has not called super\(\).__init__\(size="
    names = "value_bytes", "identity", "dtype"
    for use in (lambda: forgetful[0], lambda: len(forgetful), *(lambda name=name: getattr(forgetful, name) for name in names)):
        with pytest.raises(weir.StateError, match=text):
            use()
    with pytest.raises(weir.ArgumentError, match=text):
        weir.SampleCache(comm, forgetful)


class Odd(weir.SampleSource):
    def __init__(self, given, **more):
        self.given = given
        super().__init__(size=3, value_bytes=4, identity="odd", **more)

    def read(self, first, count):
        return self.given(first, count)


@pytest.mark.parametrize(
    "given, text",
    [
        (lambda first, count: [], "has given 0 samples"),
        (lambda first, count: [b"12345"], "at most 4 are expected|has given 5 bytes"),
        (lambda first, count: ["text"], "TypeError"),
        (lambda first, count: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda first, count: [b"123"], "says that sample 1 has 3 bytes"),
    ],
)
def test_what_a_source_in_python_does_wrong(given, text):
    with pytest.raises(weir.Error, match=text):
        Odd(given)[1]
    assert Odd(lambda first, count: [b"123"] * count, variable=True)[1] == b"123"
    assert Odd(lambda first, count: [np.arange(4, dtype="u1")[::-1]])[0]["items"].tolist() == [3, 2, 1, 0]


def test_get(comm, source):
    with weir.SampleCache(comm, source, largest_batch=64, pack_samples=8, name="images") as cache:
        assert len(cache) == 50 and cache.value_bytes == 28 and "50 samples of 28 bytes" in repr(cache)
        asked = (np.arange(30) * 13 + comm.rank) % 50
        batch = cache.get(asked)
        np.testing.assert_array_equal(batch.items, IMAGES[asked])
        np.testing.assert_array_equal(batch.labels, LABELS[asked])
        np.testing.assert_array_equal(batch["labels"], batch.array["labels"])
        assert batch.values.shape == (30, 28) and batch.sizes.tolist() == [28] * 30 and len(batch) == 30
        with pytest.raises(AttributeError, match="no 'images': it has items, labels, besides"):
            batch.images
        assert len(cache.get([])) == 0 and cache.get([]).items.shape == (0, 4, 6)
        operations = [cache.start([i, i + comm.rank]) for i in range(5)]  # more than may be in flight
        for i, operation in enumerate(operations):
            assert operation.result().labels.tolist() == [LABELS[i], LABELS[i + comm.rank]]
        assert cache.statistics.asked == 40 and cache.config.name == "images" and "from_store" in str(cache.statistics)
        assert "50 samples" in cache.explanation() and cache.owner(49) == comm.size - 1
        with pytest.raises(weir.ArgumentError, match="no sample 50"):
            cache.owner(50)


@pytest.mark.parametrize(
    "wrong, text",
    [
        ([50], "no sample 50"),
        ([0.5], "0.5 is among the samples: give their numbers, which are integers"),
        (["a"], "'a' is among the samples"),
        ("ab", "'ab' is among the samples"),
        ([True], "True is among the samples"),
        ([2**63], f"{2**63} is among the samples"),
        (3, "the samples are of type int: give a list of their numbers, or an array of integers"),
        ([[1], [2, 3]], "give"),
    ],
)
def test_wrong_questions(comm, source, wrong, text):
    """A wrong request of one rank is an error on all. All ranks can continue."""
    with weir.SampleCache(comm, source, name="images") as cache:
        with pytest.raises(weir.ArgumentError) as caught:
            cache.get(of_last(comm, wrong, [1]))
        assert text in str(caught.value)
        assert caught.value.__cause__ is None if is_last(comm) else f"rank {comm.size - 1}: " in str(caught.value)
        assert cache.get(np.array([1, 2], object)).labels.tolist() == LABELS[1:3].tolist()


class Torn(Squares):
    def decode(self, sample, encoded):
        if sample == 5:
            raise OSError("the tape is torn")
        return super().decode(sample, encoded)


def test_a_source_in_python_in_a_cache(comm):
    """It is called from threads of the library, lives as long as the cache, and its errors reach all ranks."""
    source = Squares()
    cache = weir.SampleCache(comm, source, threads=2, pack_samples=4, name="squares")
    asked = list(range(comm.rank, 40, 3))
    assert cache.get(asked).items.tolist() == [i * i for i in asked]
    assert threading.get_ident() not in source.threads
    del source
    gc.collect()
    assert cache.get([39]).items.tolist() == [39 * 39]
    cache.close()
    with pytest.raises(weir.StateError, match="closed"):
        cache.get([1])
    with weir.SampleCache(comm, Torn(), name="torn") as cache:
        with pytest.raises(weir.FileError, match="fails at sample 5: OSError: the tape is torn"):
            cache.get([5] if comm.rank == 0 else [1])
    with weir.SampleCache(comm, Torn(), name="torn", on_error="skip") as cache:
        batch = cache.get([4, 5, 6])
        assert batch.items.tolist() == [16, 0, 36] and batch.sizes.tolist() == [8, -1, 8]


def test_refused_making(comm, source):
    with pytest.raises((weir.ArgumentError, TypeError)):
        weir.SampleCache(comm, of_last(comm, 3, source))
    with weir.SampleCache(comm, source) as cache:
        with pytest.raises((weir.ArgumentError, TypeError), match="did you mean 'batch'"):
            weir.SampleLoader(cache, **of_last(comm, {"bach": 2}, {}))
        with pytest.raises(weir.ArgumentError, match="batch is"):
            weir.SampleLoader(cache, batch=of_last(comm, 100000, 8))
        with refused(comm, "^loader 'samples': shuffle", f"rank {comm.size - 1}: shuffle is 'some'"):
            weir.SampleLoader(cache, shuffle=of_last(comm, "some", "node"))
        with pytest.raises(TypeError, match="give a weir.SampleCache"):
            weir.SampleLoader(comm)


@pytest.fixture
def cache(comm, source):
    with weir.SampleCache(comm, source, pack_samples=8, name="images") as made:
        yield made


def test_epochs(comm, add, cache):
    loader = weir.SampleLoader(cache, batch=4, seed=5)
    with weir.SampleLoader.from_config(cache, loader.config) as again:
        assert again.config == loader.config
    steps = -(-50 // (4 * comm.size))
    assert len(loader) == loader.steps == steps and loader.epoch == 0 and loader.step == 0 and loader.config.seed == 5
    for epoch in range(2):
        seen = np.zeros(50)
        for step, batch in enumerate(loader):
            assert (batch.epoch, batch.step) == (epoch, step) and not batch.values.flags.writeable and repr(batch)
            np.testing.assert_array_equal(batch.items, IMAGES[batch.samples])
            np.add.at(seen, batch.samples, 1)
        assert step + 1 == steps and (add(seen) == 1).all()
        cache.close()  # the loader goes on
    assert "'images'" in repr(loader) and "epoch" in repr(loader)
    loader.close()
    with pytest.raises(weir.StateError, match="loader 'images' is closed"):
        loader.next()
    with weir.SampleCache(comm, Squares(0), name="nothing") as nothing, weir.SampleLoader(nothing, batch=4) as loader:
        assert (loader.epoch, loader.step, loader.steps) == (0, 0, 0) and list(loader) == [] and list(loader) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_progress_that_cannot_be_written(comm, cache):
    stderr, full = os.dup(2), os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, 2)
    try:
        loader = weir.SampleLoader(cache, batch=4, progress="on")
        assert sum(1 for _ in loader) == loader.steps > 0
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(full)


@pytest.mark.parametrize("stop", ["in the middle", "after the last batch", "behind the end"])
def test_a_loop_over_epochs_resumes(comm, cache, stop):
    """range(loader.epoch, epochs) has as many passes as there are epochs, none of them empty, wherever the position was taken."""
    loader, other = weir.SampleLoader(cache, batch=4, seed=1), weir.SampleLoader(cache, batch=4, seed=1)
    for batch in loader:
        if batch.step == {"in the middle": 1, "after the last batch": loader.steps - 1, "behind the end": -1}[stop]:
            break
    over = stop != "in the middle"
    other.seek(loader.position)
    for one in (loader, other):
        assert (one.epoch, one.step) == ((1, 0) if over else (0, 2))
    assert over or other.position == loader.position
    passes = [[[batch.samples.tolist() for batch in one] for _ in range(one.epoch, 3)] for one in (loader, other)]
    assert passes[0] == passes[1] and len(passes[0]) == (2 if over else 3) and all(passes[0])
    for wrong in ("nowhere", 3, None, "a\0b"):
        with pytest.raises(weir.ArgumentError):
            other.seek(wrong)
    loader.close()
    other.close()


def test_lifetimes(comm, cache):
    """Batches outlive their loader. Objects that are not closed are destroyed with their last reference."""
    batch = weir.SampleLoader(cache, batch=4, shuffle="none").next()
    images, samples = batch.items, batch.samples.copy()
    cache.close()
    del batch
    gc.collect()
    np.testing.assert_array_equal(images, IMAGES[samples])
    del images
    living = comm._handle.living
    squares = weir.SampleCache(comm, Squares(), name="squares")
    loader = weir.SampleLoader(squares, batch=4)
    operation = squares.start([1, 2])
    assert loader.next() is not None
    barrier(comm)
    operation.wait()
    del squares, loader, operation
    gc.collect()
    barrier(comm)
    assert comm._handle.living == living and not _handles.Process.abandoned
