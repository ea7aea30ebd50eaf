"""Weir: topology-aware sparse collectives for distributed training and HPC codes.

    import numpy as np
    import weir

    comm = weir.Communicator()                                            # all ranks that mpirun has started
    plan = weir.AllreducePlan(comm, count=gradient.size, density=0.01)    # made once per tensor
    plan.run(gradient)                                                    # in place: the averaged sparse update

Calls are collective if they say so: every rank makes them. Errors are weir.Error, with a subclass for each status. Bad input of one
rank is an error on every rank. Weir finds its library through WEIR_LIBRARY, in the package's own folder, or by the loader.
"""
try:
    from ._abi import VERSION
except ModuleNotFoundError as missing:
    if missing.name != "weir._abi":
        raise
    raise ImportError(
        "this is the source of the package weir, of which two modules are made when it is built: install it with "
        "`cmake --install BUILD` or `pip install capi/python` (not -e), or take BUILD/python"
    ) from None
from . import _types
from ._library import LibraryError
from ._struct import Text
from ._types import *
from .checkpoint import Checkpoint, catch_signal
from .communicator import Communicator, Topology
from .datacache import SampleBatch, SampleCache, SampleLoader
from .embedding import EmbeddingTable
from .encoded import decode, inspect
from .fusion import FusedAllreduce
from .operation import Operation
from .optim import LayerOptimizer, ParallelOperator
from .plan import AllreducePlan, Residual, SparseResult
from .registry import Versions, algorithms, compressors, exchanges, log_to, set_log_function, settings, versions
from .schedule import StepSchedule
from .sources import SampleSource, hdf5_source, idx_source, jpeg_source, npy_source, record_source
from .sparse_adam import SparseAdam
from .sums import SparseSum, SumResult

__version__ = ".".join(map(str, VERSION))
__all__ = [
    "AllreducePlan",
    "Checkpoint",
    "Communicator",
    "EmbeddingTable",
    "FusedAllreduce",
    "LayerOptimizer",
    "LibraryError",
    "Operation",
    "ParallelOperator",
    "Residual",
    "SampleBatch",
    "SampleCache",
    "SampleLoader",
    "SampleSource",
    "SparseAdam",
    "SparseResult",
    "SparseSum",
    "StepSchedule",
    "SumResult",
    "Text",
    "Topology",
    "Versions",
    "algorithms",
    "catch_signal",
    "compressors",
    "decode",
    "exchanges",
    "hdf5_source",
    "idx_source",
    "inspect",
    "jpeg_source",
    "log_to",
    "npy_source",
    "record_source",
    "set_log_function",
    "settings",
    "versions",
]
__all__ += _types.__all__
