"""Data sets on a slow store, whose samples a SampleCache keeps."""
from __future__ import annotations

import ctypes
import operator
import os
import re
import weakref
from typing import Any, Callable, ClassVar, List, Optional, Sequence, Tuple

import numpy as np

from ._handles import Process
from ._library import check, lib
from ._struct import whole_number
from ._types import Error, StateError, Status

READ = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.POINTER(ctypes.c_int64), ctypes.c_void_p
)
DECODE = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_int64,
    ctypes.c_void_p,
    ctypes.c_int64,
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_int64),
    ctypes.c_void_p,
)
RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class weir_source_functions(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("size", ctypes.c_int64),
        ("value_bytes", ctypes.c_int64),
        ("identity", ctypes.c_char_p),
        ("variable", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        ("read", READ),
        ("decode", DECODE),
        ("release", RELEASE),
    ]


def bytes_of(data: Any) -> memoryview:
    """Raises TypeError for what has no bytes that follow each other."""
    if isinstance(data, np.ndarray):
        data = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    return memoryview(data).cast("B")


def memory_at(address: Optional[int], size: int) -> memoryview:
    if not size:
        return memoryview(bytearray())
    return memoryview((ctypes.c_ubyte * size).from_address(address or 0)).cast("B")


def told(call: Optional[int], error: BaseException) -> int:
    """Tells the library why a sample cannot be read or decoded."""
    lib.weir_source_fail(call, f"{type(error).__name__}: {error}".encode(errors="replace"))
    return int(getattr(error, "status", Status.FILE) if isinstance(error, Error) else Status.FILE)


def source_of(number: Optional[int]) -> SampleSource:
    source = SampleSource._of_python.get(number or 0)
    if source is None:
        raise StateError("the source does not exist any more")
    return source


def read(user: Any, first: int, count: int, sizes: Any, call: Any) -> int:
    try:
        samples = [bytes_of(sample) for sample in source_of(user).read(first, count)]
        if len(samples) != count:
            raise ValueError(f"read({first}, {count}) has given {len(samples)} samples")
        room = ctypes.c_void_p()
        check(lib.weir_source_append(call, sum(map(len, samples)), ctypes.byref(room)))
        there, at = memory_at(room.value, sum(map(len, samples))), 0
        for i, sample in enumerate(samples):
            there[at : at + len(sample)] = sample
            at += len(sample)
            sizes[i] = len(sample)
        return int(Status.OK)
    except BaseException as error:  # nothing may cross the library
        return told(call, error)


def decode(user: Any, sample: int, encoded: Any, encoded_bytes: int, value: Any, value_bytes: Any, call: Any) -> int:
    try:
        room = value_bytes[0]
        decoded = bytes_of(source_of(user).decode(sample, ctypes.string_at(encoded, encoded_bytes) if encoded_bytes else b""))
        if len(decoded) > room:
            raise ValueError(f"decode({sample}) has given {len(decoded)} bytes: value_bytes is {room}")
        memory_at(value, len(decoded))[:] = decoded
        value_bytes[0] = len(decoded)
        return int(Status.OK)
    except BaseException as error:
        return told(call, error)


# Never collected: the library's threads call them.
read_function, decode_function = READ(read), DECODE(decode)


def layout_type(layout: str, value_bytes: int) -> Optional[np.dtype[Any]]:
    """Returns what SampleSource::layout says, as a dtype with the fields `items` and, if there are labels, `labels`."""
    found = re.fullmatch(r"(\w+)\[([\d,]*)\](?: (\w+)\[\])?", layout)
    if found is None:
        return None
    try:
        items = np.dtype((found[1], tuple(int(length) for length in found[2].split(",") if length)))
        fields = {"names": ["items"], "formats": [items], "offsets": [0], "itemsize": value_bytes}
        if found[3]:
            fields["names"], fields["formats"] = ["items", "labels"], [items, np.dtype(found[3])]
            fields["offsets"] = [0, (items.itemsize + 3) // 4 * 4]
        return np.dtype(fields)  # type: ignore[call-overload, no-any-return]
    except (TypeError, ValueError):  # NumPy has no such type, or not so many dimensions
        return None


def close_all() -> None:
    """Closes all sources before Python ends: after an exception, threads of the library may still read samples."""
    for source in list(SampleSource._of_python.values()):
        lib.weir_source_close(source._pointer)


Process.last_calls.append(close_all)


class SampleSource:
    """A data set: numbered samples, and how they are read and decoded. Every rank makes its own source for the same data.
    record_source, idx_source, npy_source, hdf5_source and jpeg_source make sources of files. Derive from this class for a format of
    your own:

        class Lines(weir.SampleSource):
            def __init__(self, path):
                self.lines = open(path, "rb").readlines()
                super().__init__(size=len(self.lines), value_bytes=80, identity=f"lines of {path}", variable=True)

            def read(self, first, count):                       # from the store: bytes of each sample
                return self.lines[first : first + count]

            def decode(self, sample, encoded):                  # what read has given, perhaps in an earlier run
                return encoded.upper()

    The `threads` threads of a cache call read() and decode(), one at a time, since they need Python's lock. But one goes on when
    another gives the lock back, as NumPy, Pillow and the reading of files do for long work, and between any two steps of the
    interpreter. What the calls share must be safe for that. What they raise is the error of that sample.

    `size` is the number of samples. `value_bytes` is the number of bytes of a decoded sample, with `variable` the largest number.
    `identity` is a line that changes when the data change, the same on all ranks. `dtype` says what a value is, for the arrays of a
    batch: a structured type of `value_bytes`, whose fields batches have as attributes.
    """

    _of_python: ClassVar[weakref.WeakValueDictionary[int, SampleSource]] = weakref.WeakValueDictionary()
    _made: ClassVar[int] = 0

    def __init__(self, *, size: int, value_bytes: int, identity: str, variable: bool = False, dtype: Any = None) -> None:
        if not isinstance(identity, str) or "\0" in identity:
            raise TypeError(f"identity is {identity!r}: it must be a str without null characters")
        functions = weir_source_functions(
            ctypes.sizeof(weir_source_functions),
            whole_number("size", size, 64),
            whole_number("value_bytes", value_bytes, 64),
            identity.encode(),
            int(variable),
            0,
            read_function,
            decode_function,
        )
        SampleSource._made += 1
        number = SampleSource._made
        self._open(lib.weir_source_create, (ctypes.byref(functions), number), dtype)
        SampleSource._of_python[number] = self

    def _open(self, make: Callable[..., int], arguments: Tuple[Any, ...], dtype: Any) -> None:
        self._pointer = ctypes.c_void_p()
        check(make(*arguments, self._pointer))
        weakref.finalize(self, lib.weir_source_destroy, self._pointer).atexit = False  # close_all comes later
        size = ctypes.c_int64()
        check(lib.weir_source_size(self._pointer, size))
        self._size = size.value
        check(lib.weir_source_value_bytes(self._pointer, size))
        self._value_bytes = size.value
        self.dtype = dtype

    def __getattr__(self, name: str) -> Any:
        if name in ("_pointer", "_size", "_value_bytes", "_dtype"):
            raise StateError(
                f"{type(self).__name__}.__init__ has not called super().__init__(size=..., value_bytes=..., identity=...), which "
                "makes the source"
            )
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __len__(self) -> int:
        """Returns the number of samples of the data set."""
        return self._size

    @property
    def value_bytes(self) -> int:
        """Bytes of a decoded sample, at most."""
        return self._value_bytes

    @property
    def identity(self) -> str:
        """A line that changes when the data change."""
        return (lib.weir_source_identity(self._pointer) or b"").decode(errors="replace")

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of a value, with fields. Sources of files have `items` and `labels` unless another type is given or assigned. If
        nothing is known, there is one field `items`, of bytes."""
        return self._dtype

    @dtype.setter
    def dtype(self, dtype: Any) -> None:
        if dtype is None:
            layout = (lib.weir_source_layout(self._pointer) or b"").decode()
            known = layout_type(layout or f"uint8[{self._value_bytes}]", self._value_bytes)
            self._dtype = known if known is not None else np.dtype([("items", np.uint8, (self._value_bytes,))])
            return
        given = np.dtype(dtype)
        if given.itemsize != self._value_bytes or given.hasobject:
            raise ValueError(f"dtype is {given}, of {given.itemsize} bytes: values have {self._value_bytes} bytes")
        self._dtype = given if given.names else np.dtype([("items", given)])

    def __getitem__(self, sample: int) -> Any:
        """Reads and decodes one sample here and now, without a cache. Returns an array of `dtype`'s fields, or bytes if the value
        is shorter."""
        number = operator.index(sample)
        if not -self._size <= number < self._size:
            raise IndexError(f"there is no sample {number}: there are {self._size}")
        value = np.zeros(self._value_bytes, np.uint8)
        size = ctypes.c_int64()
        check(lib.weir_source_get(self._pointer, number % self._size, value.ctypes.data, size))
        if size.value < self._value_bytes:
            return value[: size.value].tobytes()
        return value.view(self._dtype)[0]

    def read(self, first: int, count: int) -> Sequence[Any]:
        """Returns samples [first, first + count) as the store has them: bytes, arrays, or anything with the buffer protocol.
        Classes that derive from this one define it."""
        raise NotImplementedError(f"{type(self).__name__} has no read(first, count)")

    def decode(self, sample: int, encoded: bytes) -> Any:
        """Returns the value of a sample: at most `value_bytes` bytes, an array, or anything with the buffer protocol. It must be
        the same for the same bytes on every rank. By default returns the bytes as they are."""
        return encoded

    def __repr__(self) -> str:
        if "_size" not in vars(self):
            return f"<weir.{type(self).__name__}, whose __init__ has not called super().__init__>"
        return f"<weir.{type(self).__name__}: {self._size} samples of {self._value_bytes} bytes>"


def path_of(what: str, path: Any) -> bytes:
    """Returns the bytes of a path, as the file system has them."""
    name = os.fsencode(path)
    if b"\0" in name:
        raise ValueError(f"{what} is {path!r}: it must not have null characters")
    return name


def of_files(make: Callable[..., int], arguments: List[Any], dtype: Any) -> SampleSource:
    source = SampleSource.__new__(SampleSource)
    source._open(make, tuple(arguments), dtype)
    return source


def record_source(path: Any, record_bytes: int, header_bytes: int = 0, *, dtype: Any = None) -> SampleSource:
    """Returns a source for a file of records of equal size, after a header. Values are the records.

    All sources of files throw FileError for a file that cannot be read, or is not of their kind."""
    sizes = [whole_number("record_bytes", record_bytes, 64), whole_number("header_bytes", header_bytes, 64)]
    return of_files(lib.weir_source_create_records, [path_of("path", path), *sizes], dtype)


def idx_source(path: Any, labels: Any = None, *, dtype: Any = None) -> SampleSource:
    """Returns a source for a decompressed file in the IDX format, such as MNIST's, with items along the first dimension. `labels`
    is another such file with one integer for each item; labels become int32."""
    paths = [path_of("path", path), None if labels is None else path_of("labels", labels)]
    return of_files(lib.weir_source_create_idx, paths, dtype)


def npy_source(path: Any, labels: Any = None, *, dtype: Any = None) -> SampleSource:
    """Does the same for a file of numpy.save: an array of numbers in the order of C."""
    paths = [path_of("path", path), None if labels is None else path_of("labels", labels)]
    return of_files(lib.weir_source_create_npy, paths, dtype)


def hdf5_source(path: Any, dataset: str, labels: Optional[str] = None, *, dtype: Any = None) -> SampleSource:
    """Does the same for a data set of integers or real numbers in an HDF5 file. `labels` names another data set of the same file.
    Only one thread of the process reads at a time. If h5py shares the library, use it while nothing is read, or with a library that
    is thread-safe."""
    names = [path_of("dataset", dataset), None if labels is None else path_of("labels", labels)]
    return of_files(lib.weir_source_create_hdf5, [path_of("path", path), *names], dtype)


def jpeg_source(folder: Any, height: int, width: int, *, dtype: Any = None) -> SampleSource:
    """Returns a source for JPEG files in the subfolders of `folder`. Each subfolder is a class; the classes are in the order of
    their names' bytes. Items are images of height x width x 3 bytes: the largest centred part of that shape, resized. Labels are
    the numbers of the classes."""
    extent = [whole_number("height", height, 32), whole_number("width", width, 32)]
    return of_files(lib.weir_source_create_jpeg, [path_of("folder", folder), *extent], dtype)
