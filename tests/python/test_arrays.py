"""Arrays of libraries that need not be installed, read by their protocols."""
import ctypes

import numpy as np
import pytest
from conftest import Foreign, through_dlpack

from weir import _arrays
from weir._arrays import memory_of, problem_of


def on_gpu(**changes):
    described = {"shape": (3, 4), "typestr": "<f4", "data": (0x7F0000000100, False), "version": 3, "strides": None, "stream": 7}
    return Foreign(__cuda_array_interface__={**described, **changes})


def test_cuda_array_interface():
    memory = memory_of(on_gpu())
    assert memory[:8] == (0x7F0000000100, 12, (3, 4), "float32", True, True, True, 7)
    assert not memory_of(on_gpu(strides=(4, 12))).contiguous
    assert memory_of(on_gpu(strides=(16, 4))).contiguous
    assert not memory_of(on_gpu(data=(256, True))).writable
    assert memory_of(on_gpu(typestr="<f8")).dtype == "float64"
    assert memory_of(on_gpu(typestr="|V2")).dtype == "|V2"
    assert "is in GPU memory: it must be in host memory, or make this one with memory='cuda'" in problem_of(
        memory, ("float32",), False, True
    )
    assert problem_of(memory, ("float32",), True, True) is None
    gaps = memory_of(on_gpu(strides=(4, 12)))
    assert "as those of cupy.ascontiguousarray(a) do" in problem_of(gaps, ("float32",), True, True)


def test_dlpack():
    array = np.arange(12, dtype=np.int32).reshape(3, 4)
    memory = memory_of(through_dlpack(array))
    assert memory[:8] == (array.ctypes.data, 12, (3, 4), "int32", True, True, False, None)
    assert not memory_of(through_dlpack(array.T)).contiguous
    assert not memory_of(through_dlpack(array[:, ::2])).contiguous
    assert memory_of(through_dlpack(array[1:])).pointer == array[1:].ctypes.data
    assert memory_of(through_dlpack(np.zeros(3, np.uint8))).dtype == "uint8"


def test_a_dlpack_of_version_1():
    """Tests DLPack capsules that NumPy 1 cannot make: made by hand, on a GPU, and read-only."""
    shape = (ctypes.c_int64 * 1)(5)
    tensor = _arrays.DLTensor(0x1000, 2, 0, 1, 4, 16, 1, shape, None, 64)
    managed = _arrays.DLManagedTensorVersioned(1, 0, None, None, _arrays.DL_READ_ONLY, tensor)
    new_capsule = ctypes.pythonapi.PyCapsule_New
    new_capsule.restype, new_capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    capsule = new_capsule(ctypes.addressof(managed), b"dltensor_versioned", None)
    streams = []
    array = Foreign(__dlpack_device__=lambda: (2, 0), __dlpack__=lambda stream, max_version: streams.append(stream) or capsule)
    assert memory_of(array)[:8] == (0x1040, 5, (5,), "bfloat16", True, False, True, None)
    assert streams == [1]


def test_what_is_no_array():
    with pytest.raises(ValueError, match="DLPack's device 8"):
        memory_of(Foreign(__dlpack_device__=lambda: (8, 0), __dlpack__=None))
    for thing in ("text", 3, [1.0], None, object()):
        with pytest.raises(TypeError, match=f"is of type {type(thing).__name__}: give a NumPy array"):
            memory_of(thing)


def test_numpy_kinds(tmp_path):
    assert memory_of(np.ma.array([1.0, 2.0], mask=False)).elements == 2
    with pytest.raises(ValueError, match=r"has masked elements, whose values would count: give array.filled\(0\)"):
        memory_of(np.ma.array([1.0, 2.0], mask=[False, True]))
    mapped = np.memmap(tmp_path / "file", np.float64, "w+", shape=(2, 3))
    assert memory_of(mapped)[1:5] == (6, (2, 3), "float64", True)
    assert memory_of(np.float32(1).reshape(())).elements == 1 and memory_of(np.zeros((3, 0), np.float32)).elements == 0
    assert memory_of(np.zeros(4, np.float32)[::-1]).contiguous is False
