"""Training samples that are read and decoded once, and live in the memory of the nodes."""
from __future__ import annotations

import contextlib
import ctypes
from typing import Any, Iterator, NoReturn, Optional, Tuple

import numpy as np

from ._handles import Handle, Process, Run, lend
from ._keywords import CacheKeywords, LoaderKeywords
from ._library import lib
from ._object import Object, refuse_making
from ._struct import Text
from ._types import Error, SampleCacheConfig, SampleCacheStatistics, SampleLoaderConfig
from .communicator import Communicator, handle_of
from .operation import Operation
from .sources import SampleSource


class weir_sample_batch(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("epoch", ctypes.c_int64),
        ("step", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("value_bytes", ctypes.c_int64),
        ("samples", ctypes.c_void_p),
        ("values", ctypes.c_void_p),
        ("sizes", ctypes.c_void_p),
    ]


class SampleBatch:
    """Samples of one step. `samples` are their numbers. `values` is an array of len(batch) x value_bytes bytes. `sizes` are the
    bytes of each; a skipped sample has -1 and a value of zeros. A loader's batch also has `epoch` and `step`.

    The fields of the source's dtype are attributes: arrays whose first dimension is the batch. Sources of files have `items`, and
    `labels` if there are any. With dtype=[("images", "u1", (28, 28)), ("labels", "i4")] there are `images` and `labels`. `array` is
    everything as one structured array. All of these are views of `values`, without a copy."""

    def __init__(self, samples: Any, values: Any, sizes: Any, dtype: Any, epoch: int = 0, step: int = 0) -> None:
        self.samples, self.values, self.sizes = samples, values, sizes
        self.epoch, self.step = epoch, step
        self.array = values.reshape(-1).view(dtype)

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, field: str) -> Any:
        return self.array[field]

    def __getattr__(self, name: str) -> Any:
        array = self.__dict__.get("array")
        if array is not None and name in array.dtype.names:
            return array[name]
        fields = "" if array is None else f": it has {', '.join(array.dtype.names)}, besides array, values, samples and sizes"
        raise AttributeError(f"the batch has no '{name}'{fields}")

    def __repr__(self) -> str:
        return f"<weir.SampleBatch of epoch {self.epoch}, step {self.step}: {len(self)} samples>"


class Asked(Run):
    """A requested batch."""

    def __init__(self, handle: Handle, start: Any, arguments: Tuple[Any, ...], arrays: Any, refusal: Optional[Exception]) -> None:
        self.number = ctypes.c_int64()

        def wait_for(pointer: Any, seconds: float, done: Any) -> int:
            return int(lib.weir_cache_wait_for(pointer, self.number.value, seconds, done))

        super().__init__(handle, start, (*arguments, self.number), wait_for, arrays, refusal)


def numbers_of(samples: Any) -> Any:
    """Returns the numbers of samples as an array of int64. Raises TypeError."""
    try:
        numbers = np.array(samples if len(samples) else [], None if len(samples) else np.int64).reshape(-1)
    except (TypeError, ValueError):  # no sequence, or one of sequences of many lengths
        kind = type(samples).__name__
        raise TypeError(f"the samples are of type {kind}: give a list of their numbers, or an array of integers") from None
    if numbers.dtype.kind not in "iu" or numbers.dtype == np.uint64:
        for number in numbers.tolist():
            if type(number) is not int or not -(2**63) <= number < 2**63:
                raise TypeError(f"{number!r} is among the samples: give their numbers, which are integers")
    return numbers.astype(np.int64)


def int64s_at(array: Any) -> Any:
    return array.ctypes.data_as(ctypes.POINTER(ctypes.c_int64))


class SampleCache(CacheKeywords, Object):
    """Samples of a source by number, kept by the ranks of the nodes. Its keywords are the fields of SampleCacheConfig.

        source = weir.idx_source("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
        cache = weir.SampleCache(comm, source, folder="/local/weir-cache", name="mnist")
        for epoch in range(10):
            for batch in loader:                      # weir.SampleLoader(cache, batch=64, seed=1)
                train(batch.items, batch.labels)

    Each sample belongs to one rank. That rank reads it when a rank first asks for it, decodes it, and keeps it in memory that its
    node shares, and in `folder`, in the node's own storage, where later runs find it.

    Making it is collective, and so are get and start.
    """

    _kind = "cache"
    _functions = "weir_cache_"

    def _make(self, comm: Communicator, config: SampleCacheConfig, source: SampleSource) -> None:
        def arguments() -> Tuple[Any, ...]:
            if not isinstance(source, SampleSource):
                raise TypeError(f"the source is {source!r}: give a weir.SampleSource")
            return (source._pointer,)

        self._create(handle_of(comm), config, SampleCacheConfig, arguments)
        self._handle().keeps = source  # its functions may be called as long as the library has the cache
        self._source = source
        self._in_flight = self.config.in_flight
        self._asked = 0

    @classmethod
    def from_config(cls, comm: Communicator, config: SampleCacheConfig, source: SampleSource) -> SampleCache:
        """Collective. Makes a cache from an existing configuration."""
        cache = cls.__new__(cls)
        cache._make(comm, config, source)
        return cache

    def get(self, samples: Any) -> SampleBatch:
        """Collective, blocking. Same as start(samples).result()."""
        return self.start(samples).result()

    def start(self, samples: Any) -> Operation[SampleBatch]:
        """Collective, nonblocking. Each rank asks for samples of its own: a sequence of numbers, possibly empty, at most
        `largest_batch`. The operation's result is a SampleBatch with new arrays. As many as `in_flight` batches may be in flight;
        one more start waits for the first of them."""
        refusal: Optional[Exception] = None
        try:
            numbers = numbers_of(samples)
            values = np.empty((len(numbers), self._source.value_bytes), np.uint8)
        except (TypeError, ValueError, MemoryError) as error:
            refusal, numbers = self._refusal(str(error)), np.empty(0, np.int64)
            values = np.empty((0, self._source.value_bytes), np.uint8)
        sizes = np.empty(len(numbers), np.int64)
        handle = self._handle()
        place = f"batch {self._asked % self._in_flight}"
        before = handle.runs.get(place)
        if before is not None and not before.done:
            with contextlib.suppress(Error):  # which its operation raises
                before.wait()
        start = lib.weir_cache_start if refusal is None else lib.weir_cache_refuse
        arguments: Tuple[Any, ...] = (numbers.ctypes.data, len(numbers), values.ctypes.data, int64s_at(sizes))
        if refusal is not None:
            arguments = (self._reason(refusal),)
        handle.comm.enter()
        try:
            run = handle.runs[place] = Asked(handle, start, arguments, (numbers, values, sizes), refusal)
            self._asked += 1
            run.begin()
        except BaseException:
            Process.abandoned.update(handle.in_flight())
            raise
        finally:
            handle.comm.lock.release()
        if run.error is not None:
            raise run.error
        dtype = self._source.dtype
        return Operation(self, run, lambda: SampleBatch(numbers, values, sizes, dtype))

    def __len__(self) -> int:
        """Returns the number of samples of the data set."""
        return self._number("size")

    @property
    def value_bytes(self) -> int:
        """Bytes of a decoded sample, at most."""
        return self._number("value_bytes")

    def owner(self, sample: int) -> int:
        """Returns the rank that owns a sample."""
        rank = ctypes.c_int()
        self._call("owner", sample, rank)
        return rank.value

    @property
    def memory_bytes(self) -> int:
        """Bytes that this rank holds: its part of the node's memory, and what batches in flight take."""
        return self._number("memory_bytes")

    @property
    def statistics(self) -> SampleCacheStatistics:
        """What the cache has done on this rank so far. Times are in seconds, of all threads together."""
        return self._filled("get_statistics", SampleCacheStatistics)

    @property
    def config(self) -> SampleCacheConfig:
        """The configuration in force."""
        return self._filled("get_config", SampleCacheConfig)

    def explanation(self) -> Text:
        """Returns, as text, how much of the data set fits into which level."""
        return self._text("explanation")

    def _number(self, name: str) -> int:
        number = ctypes.c_int64()
        self._call(name, number)
        return number.value

    def __repr__(self) -> str:
        if self._open_handle is None:
            return f"<weir.SampleCache '{self._name}', closed>"
        return f"<weir.SampleCache '{self._name}': {len(self._source)} samples of {self._source.value_bytes} bytes>"


class SampleLoader(LoaderKeywords, Object):
    """Goes through the samples of a cache in epochs. In each epoch every sample comes exactly once, on one rank. Its keywords are
    the fields of SampleLoaderConfig.

        loader = weir.SampleLoader(cache, batch=64, seed=1)
        for epoch in range(loader.epoch, 10):         # from 0, or from where seek has led to
            for batch in loader:                      # one epoch, or what is left of it; len(loader) steps
                train(batch.items, batch.labels)

    A batch's arrays are views of the loader's memory: the next batch overwrites them. Copy what is to last. If a loop ends early,
    the next one goes on with the rest of that epoch.

    In a checkpoint, save the position: checkpoint["loader"] = loader.position. Go on by loader.seek(checkpoint["loader"]).

    Making it is collective, and so are next, which loops call, and seek.
    """

    _kind = "loader"
    _functions = "weir_loader_"

    def _make(self, cache: SampleCache, config: SampleLoaderConfig) -> None:
        if not isinstance(cache, SampleCache):
            raise TypeError(f"the cache is of type {type(cache).__name__}: give a weir.SampleCache")
        there = cache._handle()
        self._name = cache._name
        self._create(there.comm, config, SampleLoaderConfig, origin=there.pointer)
        self._source = cache._source
        self._handle().keeps = cache._source

    @classmethod
    def from_config(cls, cache: SampleCache, config: SampleLoaderConfig) -> SampleLoader:
        """Collective. Makes a loader from an existing configuration."""
        loader = cls.__new__(cls)
        loader._make(cache, config)
        return loader

    def _refused(self, comm: Any, error: Exception) -> NoReturn:
        if isinstance(comm, SampleCache) and comm._open_handle is not None:
            refuse_making(comm._open_handle.comm, self._kind, error)
        raise error

    def next(self) -> Optional[SampleBatch]:
        """Collective. Returns the next batch, as soon as it is there. At the end of an epoch returns None, on all ranks; the next
        call begins the next epoch. Towards the end of an epoch batches have fewer samples, and possibly none on some ranks."""
        c = weir_sample_batch(ctypes.sizeof(weir_sample_batch))
        there = ctypes.c_int()
        self._call("next", ctypes.byref(c), there)
        if not there.value:
            return None
        handle = self._handle()
        samples = lend(handle, c.samples, c.count, "int64", False)
        sizes = lend(handle, c.sizes, c.count, "int64", False)
        values = lend(handle, c.values, c.count * c.value_bytes, "uint8", False).reshape(c.count, c.value_bytes)
        return SampleBatch(samples, values, sizes, self._source.dtype, c.epoch, c.step)

    def __iter__(self) -> Iterator[SampleBatch]:
        """Yields the batches that are left of the present epoch, or else those of the next one."""
        batch = self.next()
        if batch is None:  # nothing was left
            batch = self.next()
        while batch is not None:
            yield batch
            batch = self.next()

    def __len__(self) -> int:
        """Returns the number of steps of the present epoch."""
        return self.steps

    @property
    def epoch(self) -> int:
        """Epoch of the next batch, from 0; at the end of an epoch, the next one. To go on: range(loader.epoch, epochs)."""
        return self._number("epoch") + self._ended()

    @property
    def step(self) -> int:
        """Step of the next batch, from 0."""
        return 0 if self._ended() else self._number("step")

    def _ended(self) -> bool:
        """Returns whether the next batch is that of another epoch."""
        return len(self._source) > 0 and self._number("step") == self._number("steps")

    @property
    def steps(self) -> int:
        """Number of steps of the present epoch; at its end, still of that one."""
        return self._number("steps")

    @property
    def position(self) -> str:
        """Where the run is after the batches that were given, as a line of text. The same on all ranks."""
        return str(self._text("position"))

    def seek(self, position: str) -> None:
        """Collective. Goes on from a position of a loader over the same number of samples, on any number of ranks. What is left of
        its epoch comes exactly once. From the end of an epoch it goes on with the next one. ArgumentError on all ranks for other
        text."""
        text = position if isinstance(position, str) and "\0" not in position else repr(position).replace("\0", "")
        self._call("seek", text.encode(errors="replace"))

    @property
    def config(self) -> SampleLoaderConfig:
        """The configuration in force."""
        return self._filled("get_config", SampleLoaderConfig)

    def _number(self, name: str) -> int:
        number = ctypes.c_int64()
        self._call(name, number)
        return number.value

    def __repr__(self) -> str:
        if self._open_handle is None:
            return f"<weir.SampleLoader of '{self._name}', closed>"
        return f"<weir.SampleLoader of '{self._name}': epoch {self.epoch}, step {self.step} of {self.steps}>"
