import ctypes
import gc
import os
import shutil
import struct
import threading

import numpy as np
import pytest
from conftest import barrier, shared_folder

import weir
from weir import _handles, datacache, sources


@pytest.fixture
def folder(comm):
    path = shared_folder(comm)
    yield path
    barrier(comm)  # others may still look into it
    if comm.rank == 0:
        shutil.rmtree(path, ignore_errors=True)


def only_rank_0(comm, make):
    """Files that all ranks read."""
    if comm.rank == 0:
        make()
    barrier(comm)


def write_idx(path, array):
    codes = {"u1": 8, "i1": 9, "i2": 11, "i4": 12, "f4": 13, "f8": 14}
    kind = array.dtype.str[1:]
    with open(path, "wb") as file:
        file.write(struct.pack(f">HBB{array.ndim}I", 0, codes[kind], array.ndim, *array.shape))
        file.write(array.astype(f">{kind}").tobytes())


IMAGES = (np.arange(50 * 4 * 6, dtype=np.int64) * 37 % 251).astype(np.uint8).reshape(50, 4, 6)
LABELS = (np.arange(50) * 7 % 10).astype(np.uint8)


@pytest.fixture
def source(comm, folder):
    def make():
        write_idx(f"{folder}/images", IMAGES)
        write_idx(f"{folder}/labels", LABELS)

    only_rank_0(comm, make)
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


def test_sizes_of_structs():
    other = ctypes.CDLL(os.environ["OTHER_ABI"])
    other.size_of.restype = ctypes.c_size_t
    assert other.size_of(b"weir_source_functions") == ctypes.sizeof(sources.weir_source_functions)
    assert other.size_of(b"weir_sample_batch") == ctypes.sizeof(datacache.weir_sample_batch)


def test_idx_source(comm, source):
    assert len(source) == 50 and source.value_bytes == 28
    assert source.dtype.names == ("items", "labels") and source.dtype["items"].shape == (4, 6)
    assert "uint8 50x4x6 from 16; labels" in source.identity and "50 samples of 28 bytes" in repr(source)
    for i in (0, 7, 49, -1):
        np.testing.assert_array_equal(source[i]["items"], IMAGES[i])
        assert source[i]["labels"] == LABELS[i]
    with pytest.raises(IndexError, match="no sample 50"):
        source[50]
    assert sum(1 for _ in source) == 50


@pytest.mark.parametrize("kind", ["u1", "i1", "i2", "i4", "f4", "f8"])
def test_idx_types(comm, folder, kind):
    array = (np.arange(5 * 3 * 2) * 11 - 60).astype(kind).reshape(5, 3, 2)
    only_rank_0(comm, lambda: write_idx(f"{folder}/a", array))
    np.testing.assert_array_equal(np.stack([value["items"] for value in weir.idx_source(f"{folder}/a")]), array)


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
    def refused(array, text, **given):
        path = f"{folder}/a{comm.rank}.npy"
        np.save(path, array, **given)
        with pytest.raises(weir.FileError, match=text):
            weir.npy_source(path)

    refused(np.array([{}, {}], object), "Python objects")
    refused(np.zeros(3, [("a", "f4"), ("b", "i4")]), "structured array")
    refused(np.asfortranarray(np.zeros((3, 2))), "order of Fortran")
    refused(np.array(["a", "b"]), "elements of type")
    refused(np.zeros((), "f4"), "a single number")
    refused(np.zeros(3, "M8[s]"), "elements of type")
    np.savez(f"{folder}/{comm.rank}.npz", np.zeros(3))
    with pytest.raises(weir.FileError, match="archive of NumPy files"):
        weir.npy_source(f"{folder}/{comm.rank}.npz")


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
    with pytest.raises(weir.FileError, match="No such file"):
        weir.record_source(f"{folder}/none", 12)


def test_other_sources(comm, folder):
    for make in (lambda: weir.hdf5_source(f"{folder}/none", "a"), lambda: weir.jpeg_source(f"{folder}/none", 4, 4)):
        with pytest.raises((weir.FileError, weir.UnsupportedError)):
            make()


def test_source_in_python():
    source = Squares()
    assert len(source) == 40 and source[7]["items"] == 49 and source.reads == [(7, 1)]
    with pytest.raises(weir.FileError, match="NotImplementedError: SampleSource has no read"):
        weir.SampleSource(size=2, value_bytes=1, identity="")[0]
    with pytest.raises(weir.ArgumentError, match="value_bytes is below 1"):
        weir.SampleSource(size=2, value_bytes=0, identity="")
    with pytest.raises(TypeError, match="identity"):
        weir.SampleSource(size=2, value_bytes=1, identity=3)


def test_a_source_whose_init_forgets_the_base(comm):
    class Forgetful(weir.SampleSource):
        def __init__(self):
            self.given = 3

    source = Forgetful()
    assert repr(source) == "<weir.Forgetful, whose __init__ has not called super().__init__>" and source.given == 3
    assert not hasattr(source, "more")
    text = r"Forgetful.__init__ has not called super\(\).__init__\(size="
    for use in (lambda: source[0], lambda: len(source), lambda: source.value_bytes, lambda: source.identity, lambda: source.dtype):
        with pytest.raises(weir.StateError, match=text):
            use()
    with pytest.raises(weir.ArgumentError, match=text):
        weir.SampleCache(comm, source)


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


def test_variable_values():
    assert Odd(lambda first, count: [b"123"] * count, variable=True)[1] == b"123"
    assert Odd(lambda first, count: [np.arange(4, dtype="u1")[::-1]])[0]["items"].tolist() == [3, 2, 1, 0]


def test_sources_end():
    source = Squares()
    before = len(weir.SampleSource._of_python)
    del source
    gc.collect()
    assert len(weir.SampleSource._of_python) == before - 1


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
        assert cache.get([3] if comm.rank == 0 else []).labels.tolist() == ([LABELS[3]] if comm.rank == 0 else [])
        operations = [cache.start([i, i + comm.rank]) for i in range(5)]  # more than may be in flight
        for i, operation in enumerate(operations):
            assert operation.result().labels.tolist() == [LABELS[i], LABELS[i + comm.rank]]
        assert cache.statistics.asked == 40 + (comm.rank == 0) and cache.config.name == "images"
        assert "50 samples" in cache.explanation() and cache.memory_bytes > 0
        assert cache.owner(0) == 0 and cache.owner(49) == comm.size - 1
        with pytest.raises(weir.ArgumentError, match="no sample 50"):
            cache.owner(50)


WRONG = [
    ([50], "no sample 50"),
    ([0.5], "0.5 is among the samples: give their numbers, which are integers"),
    (["a"], "'a' is among the samples"),
    ("ab", "'ab' is among the samples"),
    ([True], "True is among the samples"),
    ([2**63], f"{2**63} is among the samples"),
    ([2**70], f"{2**70} is among the samples"),
    (3, "the samples are of type int: give a list of their numbers, or an array of integers"),
    ([[1], [2, 3]], "give"),
]


@pytest.mark.parametrize("wrong, text", WRONG)
def test_wrong_questions(comm, source, wrong, text):
    """Of one rank are errors on all; then all goes on."""
    with weir.SampleCache(comm, source, name="images") as cache:
        with pytest.raises(weir.ArgumentError) as caught:
            cache.get(wrong if comm.rank == comm.size - 1 else [1])
        if comm.rank == comm.size - 1:
            assert caught.value.__cause__ is None
        else:
            assert f"rank {comm.size - 1}: " in str(caught.value)
        assert text in str(caught.value)
        assert cache.get(np.array([1, 2], object)).labels.tolist() == LABELS[1:3].tolist()
        assert cache.get([1]).labels.tolist() == [LABELS[1]]


def test_a_source_in_python_in_a_cache(comm):
    source = Squares()
    cache = weir.SampleCache(comm, source, threads=2, pack_samples=4, name="squares")
    asked = list(range(comm.rank, 40, 3))
    for _ in range(2):
        assert cache.get(asked).items.tolist() == [i * i for i in asked]
    assert threading.get_ident() not in source.threads
    del source
    gc.collect()
    assert cache.get([39]).items.tolist() == [39 * 39]
    cache.close()
    with pytest.raises(weir.StateError, match="closed"):
        cache.get([1])


def test_errors_in_python_sources(comm):
    class Torn(Squares):
        def decode(self, sample, encoded):
            if sample == 5:
                raise OSError("the tape is torn")
            return super().decode(sample, encoded)

    with weir.SampleCache(comm, Torn(), name="torn") as cache:
        with pytest.raises(weir.FileError, match="fails at sample 5: OSError: the tape is torn"):
            cache.get([5] if comm.rank == 0 else [1])
        assert cache.get([4]).items.tolist() == [16]
    with weir.SampleCache(comm, Torn(), name="torn", on_error="skip") as cache:
        batch = cache.get([4, 5, 6])
        assert batch.items.tolist() == [16, 0, 36] and batch.sizes.tolist() == [8, -1, 8]


def test_refused_making(comm, source):
    last = comm.rank == comm.size - 1
    with pytest.raises(weir.ArgumentError, match="largest_batch" if last else ""):
        weir.SampleCache(comm, source, largest_batch=0 if last else 8)
    with pytest.raises((weir.ArgumentError, TypeError)):
        weir.SampleCache(comm, 3 if last else source)
    with pytest.raises((weir.ArgumentError, TypeError), match="did you mean 'threads'"):
        weir.SampleCache(comm, source, **({"thread": 2} if last else {}))
    with weir.SampleCache(comm, source) as cache:
        with pytest.raises((weir.ArgumentError, TypeError), match="did you mean 'batch'"):
            weir.SampleLoader(cache, **({"bach": 2} if last else {}))
        with pytest.raises(weir.ArgumentError, match="batch is"):
            weir.SampleLoader(cache, batch=100000 if last else 8)
        with pytest.raises(weir.ArgumentError, match="^loader 'samples': shuffle" if last else f"rank {comm.size - 1}: shuffle is 'some'"):
            weir.SampleLoader(cache, shuffle="some" if last else "node")
        with pytest.raises(TypeError, match="give a weir.SampleCache"):
            weir.SampleLoader(comm)


def samples_of(add, batches):
    """How often each sample has come, on all ranks together."""
    seen = np.zeros(50)
    for samples in batches:
        np.add.at(seen, samples, 1)
    return add(seen).tolist()


def test_epochs(comm, add, source):
    cache = weir.SampleCache(comm, source, pack_samples=8, name="images")
    loader = weir.SampleLoader(cache, batch=4, seed=5)
    steps = -(-50 // (4 * comm.size))
    assert len(loader) == loader.steps == steps and loader.epoch == 0 and loader.step == 0 and loader.config.seed == 5
    for epoch in range(2):
        seen = []
        for step, batch in enumerate(loader):
            assert (batch.epoch, batch.step) == (epoch, step)
            np.testing.assert_array_equal(batch.items, IMAGES[batch.samples])
            np.testing.assert_array_equal(batch.labels, LABELS[batch.samples])
            assert not batch.values.flags.writeable
            seen.append(batch.samples.copy())
        assert step + 1 == steps and samples_of(add, seen) == [1] * 50
    text = repr(loader)
    assert "'images'" in text and "epoch" in text
    cache.close()  # the loader goes on
    assert samples_of(add, [batch.samples.copy() for batch in loader]) == [1] * 50
    loader.close()
    with pytest.raises(weir.StateError, match="loader 'images' is closed"):
        loader.next()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_progress_that_cannot_be_written(comm, source):
    stderr, full = os.dup(2), os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, 2)
    try:
        with weir.SampleCache(comm, source) as cache:
            loader = weir.SampleLoader(cache, batch=4, progress="on")
            assert sum(1 for _ in loader) == loader.steps > 0
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(full)


def test_positions(comm, source):
    with weir.SampleCache(comm, source, name="images") as cache:
        loader = weir.SampleLoader(cache, batch=3, seed=1)
        for batch in loader:
            if batch.step == 1:
                break
        position = loader.position
        rest = [batch.samples.tolist() for batch in loader] + [batch.samples.tolist() for batch in loader]
        other = weir.SampleLoader(cache, batch=3, seed=1)
        other.seek(position)
        assert (other.epoch, other.step) == (0, 2)
        assert [batch.samples.tolist() for batch in other] + [batch.samples.tolist() for batch in other] == rest
        for wrong in ("nowhere", 3, None, "a\0b"):
            with pytest.raises(weir.ArgumentError):
                other.seek(wrong)
        loader.close()
        other.close()


@pytest.mark.parametrize("stop", ["in the middle", "after the last batch", "behind the end"])
def test_a_loop_over_epochs_resumes(comm, add, source, stop):
    """range(loader.epoch, epochs) has as many passes as there are epochs, none of them empty, wherever the position was taken."""
    with weir.SampleCache(comm, source, name="images") as cache:
        loader = weir.SampleLoader(cache, batch=4, seed=1)
        seen = [[], [], []]
        for batch in loader:
            seen[0].append(batch.samples.copy())
            if batch.step == {"in the middle": 1, "after the last batch": loader.steps - 1, "behind the end": -1}[stop]:
                break
        over = stop != "in the middle"
        other = weir.SampleLoader(cache, batch=4, seed=1)
        other.seek(loader.position)
        for one in (loader, other):
            assert (one.epoch, one.step) == ((1, 0) if over else (0, 2))
        assert over or other.position == loader.position
        begun = len(seen[0])
        passes = []
        for epoch in range(other.epoch, 3):
            passes.append(epoch)
            for batch in other:
                assert batch.epoch == epoch
                seen[epoch].append(batch.samples.copy())
        assert passes == ([1, 2] if over else [0, 1, 2]) and (over or len(seen[0]) > begun)
        assert [samples_of(add, epoch) for epoch in seen] == [[1] * 50] * 3
        assert next(iter(loader)).epoch == over
        loader.close()
        other.close()


def test_epochs_of_nothing(comm):
    with weir.SampleCache(comm, Squares(0), name="nothing") as cache, weir.SampleLoader(cache, batch=4) as loader:
        assert (loader.epoch, loader.step, loader.steps) == (0, 0, 0)
        assert list(loader) == [] and list(loader) == []


def test_batches_outlive_their_loader(comm, source):
    cache = weir.SampleCache(comm, source, name="images")
    loader = weir.SampleLoader(cache, batch=4, shuffle="none")
    batch = loader.next()
    images, samples = batch.items, batch.samples.copy()
    loader.close()
    cache.close()
    del loader, cache, batch
    gc.collect()
    np.testing.assert_array_equal(images, IMAGES[samples])


def test_what_nobody_has_closed(comm):
    living = comm._handle.living
    cache = weir.SampleCache(comm, Squares(), name="squares")
    loader = weir.SampleLoader(cache, batch=4)
    operation = cache.start([1, 2])
    assert loader.next() is not None
    barrier(comm)
    operation.wait()
    del cache, loader, operation
    gc.collect()
    barrier(comm)
    assert comm._handle.living == living and not _handles.Process.abandoned


def test_a_folder(comm, folder, source):
    for run in range(2):
        with weir.SampleCache(comm, source, folder=f"{folder}/level 1", pack_samples=8, name="images") as cache:
            assert cache.get(range(50)).labels.tolist() == LABELS.tolist()
            statistics = cache.statistics
            assert (statistics.from_store == 0) == (run == 1) and statistics.from_folder > 0
            assert "from_store" in str(statistics)
        barrier(comm)
