"""Arrays of NumPy, PyTorch, CuPy and other libraries with DLPack, __cuda_array_interface__ or the buffer protocol: where their
elements are and of what kind, without a copy."""
from __future__ import annotations

import ctypes
import sys
from typing import Any, NamedTuple, Optional, Sequence, Tuple

import numpy as np

KINDS = "a NumPy array, a PyTorch or CuPy tensor, or anything with DLPack, __cuda_array_interface__ or the buffer protocol"
# Names of the types that the library takes, and of int32 and int64, the types of ids.
NUMPY_NAMES = {np.dtype(name): name for name in ("float32", "float64", "float16", "int32", "int64")}


class Memory(NamedTuple):
    """What is known of the memory of an array."""

    pointer: int
    elements: int
    shape: Tuple[int, ...]
    dtype: str  # "float32"
    contiguous: bool  # in the order of C
    writable: bool
    cuda: bool  # in GPU memory
    stream: Optional[int]  # the cudaStream_t with work on it that comes before; None: unknown
    owner: Any  # what keeps the memory alive


# What the library gets if an array is refused: the other ranks are in the call already, and all refuse it.
NOWHERE = Memory(0, 1, (), "", True, True, False, None, None)


def memory_of(array: Any) -> Memory:
    """Returns the memory of an array. Raises TypeError if it is no array, and ValueError if its elements have no address."""
    if isinstance(array, np.ndarray):
        return of_numpy(array, array)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return of_torch(torch, array)
    if hasattr(array, "__cuda_array_interface__"):
        return of_cuda_array_interface(array)
    if hasattr(array, "__dlpack__"):
        return of_dlpack(array)
    try:
        view = memoryview(array)
    except TypeError:
        raise TypeError(f"is of type {type(array).__name__}: give {KINDS}") from None
    return of_numpy(np.asarray(view), view)


BYTES = {"bfloat16": 2}  # of elements of types that NumPy does not know


def item_bytes(memory: Memory) -> int:
    """Returns the bytes of one element. Raises ValueError for what is no number."""
    if memory.dtype in BYTES:
        return BYTES[memory.dtype]
    try:
        dtype = np.dtype(memory.dtype)
    except TypeError:
        dtype = np.dtype(object)
    if dtype.kind not in "biufc":
        raise ValueError(f"has type {memory.dtype}: give numbers, or a view of them as bytes, array.view('uint8')")
    return dtype.itemsize


def of_numpy(array: Any, owner: Any) -> Memory:
    if isinstance(array, np.ma.MaskedArray) and bool(np.any(array.mask)):
        raise ValueError("has masked elements, whose values would count: give array.filled(0)")
    flags = array.flags
    dtype = NUMPY_NAMES.get(array.dtype) or str(array.dtype)
    pointer = array.__array_interface__["data"][0]
    return Memory(pointer, array.size, array.shape, dtype, flags.c_contiguous, flags.writeable, False, None, owner)


def of_torch(torch: Any, tensor: Any) -> Memory:
    if tensor.layout != torch.strided:
        raise ValueError(f"has the layout {tensor.layout}: it must be dense, as tensor.to_dense() is")
    if tensor.device.type not in ("cpu", "cuda"):
        raise ValueError(f"is on the device '{tensor.device}': it must be on the CPU or a CUDA GPU")
    if tensor.requires_grad:
        raise ValueError("requires a gradient: give tensor.detach(), which shares its memory")
    if tensor.is_neg():
        raise ValueError("is negated lazily: give tensor.resolve_neg()")
    cuda = tensor.device.type == "cuda"
    stream = torch.cuda.current_stream(tensor.device).cuda_stream if cuda else None
    dtype = str(tensor.dtype)[len("torch.") :]
    alive = tensor.detach()  # keeps the memory if the tensor gets another one
    return Memory(tensor.data_ptr(), tensor.numel(), tuple(tensor.shape), dtype, tensor.is_contiguous(), True, cuda, stream, alive)


def is_contiguous(shape: Sequence[int], strides: Optional[Sequence[int]], item: int) -> bool:
    """Returns whether elements of `item` bytes lie one behind the other, in C order."""
    if strides is None or 0 in shape:
        return True
    expected = item
    for length, stride in zip(reversed(shape), reversed(strides)):
        if length != 1 and stride != expected:
            return False
        expected *= length
    return True


def product(shape: Sequence[int]) -> int:
    elements = 1
    for length in shape:
        elements *= int(length)
    return elements


def of_cuda_array_interface(array: Any) -> Memory:
    described = array.__cuda_array_interface__
    shape, dtype = tuple(described["shape"]), np.dtype(described["typestr"])
    pointer, read_only = described["data"]
    contiguous = is_contiguous(shape, described.get("strides"), dtype.itemsize)
    name = NUMPY_NAMES.get(dtype) or str(dtype)
    stream = described.get("stream")  # 1 and 2 stand for the default streams; CUDA's runtime has the same numbers for them
    return Memory(int(pointer or 0), product(shape), shape, name, contiguous, not read_only, True, stream, array)


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("dl_tensor", DLTensor),
    ]


DL_HOST = (1, 3)  # the processor's memory, and what CUDA has pinned of it
DL_CUDA = (2, 13)  # a GPU's, and managed memory
DL_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}
DL_READ_ONLY = 1
DL_DEFAULT_STREAM = 1

capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
capsule_pointer.restype = ctypes.c_void_p
capsule_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
capsule_is = ctypes.pythonapi.PyCapsule_IsValid
capsule_is.restype = ctypes.c_int
capsule_is.argtypes = (ctypes.py_object, ctypes.c_char_p)


def of_dlpack(array: Any) -> Memory:
    device = array.__dlpack_device__()[0]
    if device not in DL_HOST + DL_CUDA:
        raise ValueError(f"is on DLPack's device {device}: it must be in host memory or on a CUDA GPU")
    stream = {"stream": DL_DEFAULT_STREAM} if device in DL_CUDA else {}
    try:
        capsule = array.__dlpack__(max_version=(1, 0), **stream)
    except TypeError:  # older than DLPack 1.0
        capsule = array.__dlpack__(**stream)
    writable = True
    if capsule_is(capsule, b"dltensor_versioned"):
        managed = DLManagedTensorVersioned.from_address(capsule_pointer(capsule, b"dltensor_versioned"))
        writable = not managed.flags & DL_READ_ONLY
        tensor = managed.dl_tensor
    else:
        tensor = DLTensor.from_address(capsule_pointer(capsule, b"dltensor"))
    shape = tuple(tensor.shape[: tensor.ndim]) if tensor.ndim else ()
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.ndim and tensor.strides else None
    dtype = f"{DL_CODES.get(tensor.code, 'unknown')}{tensor.bits}" + (f"x{tensor.lanes}" if tensor.lanes != 1 else "")
    pointer = (tensor.data or 0) + tensor.byte_offset
    # The capsule frees the tensor when nothing refers to it any more.
    contiguous = is_contiguous(shape, strides, 1)
    return Memory(pointer, product(shape), shape, dtype, contiguous, writable, device in DL_CUDA, None, capsule)


def contiguous_copy(memory: Memory) -> str:
    """Returns the call that makes a contiguous copy, in the array's own library."""
    if hasattr(memory.owner, "contiguous"):
        return "tensor.contiguous()"
    return "cupy.ascontiguousarray(a)" if memory.cuda else "numpy.ascontiguousarray(a)"


def problem_of(
    memory: Memory, dtypes: Optional[Tuple[str, ...]], cuda: Optional[bool], writable: bool, taker: str = "plan"
) -> Optional[str]:
    """Returns what is wrong with an array that should have one of these types, be in GPU memory or not (None: either), and take
    values. `taker` is what it is for. An array without elements has nothing wrong."""
    if not memory.elements:
        return None
    if dtypes is not None and memory.dtype not in dtypes:
        return f"has type {memory.dtype}; the {taker} takes {' or '.join(dtypes)}"
    if not memory.contiguous:
        return f"is not contiguous: its elements must follow each other in memory, as those of {contiguous_copy(memory)} do"
    if cuda is not None and memory.cuda != cuda:
        here, there = ("GPU", "host") if memory.cuda else ("host", "GPU")
        return (
            f"is in {here} memory: it must be in {there} memory, or make this one with memory='{'cuda' if memory.cuda else 'host'}'"
        )
    if writable and not memory.writable:
        return "is read-only: the result is written into it"
    return None
