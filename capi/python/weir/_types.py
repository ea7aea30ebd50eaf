"""Enumerations, exceptions, configurations and results.

Made by capi/interface/generate.py from interface.toml and the C headers. Edit those files."""
from __future__ import annotations

import builtins
from dataclasses import dataclass
from enum import IntEnum
from typing import Dict, Type, Union

from . import _abi
from ._struct import Struct, TypeLike

__all__ = [
    "Status", "Error", "ArgumentError", "MismatchError", "BusyError", "StateError", "NonFiniteError", "TimeoutError",
    "TransportError", "MemoryError", "SettingError", "UnsupportedError", "InternalError", "DeviceError", "FileError", "DataType",
    "MemorySpace", "WireFormat", "WireValues", "Feedback", "NonFinite", "Level", "Optimizer", "Routing", "FusionScheme",
    "OperatorDivision", "OptimizerRule", "SumType", "SumOperation", "SampleErrors", "Shuffle", "ProgressDisplay", "LogLevel",
    "ElementType", "Distribution", "AllreduceConfig", "Statistics", "AlgorithmInfo", "CompressorInfo", "EncodedInfo",
    "SettingInfo", "EmbeddingConfig", "EmbeddingStatistics", "ExchangeInfo", "CheckpointConfig", "CheckpointStatistics",
    "FusedTensor", "FusionConfig", "FusionStatistics", "OperatorPart", "OperatorConfig", "OperatorStatistics", "OptimizedLayer",
    "OptimizerConfig", "OptimizerStatistics", "SparseAdamConfig", "SparseSumConfig", "SparseSumStatistics", "SampleCacheConfig",
    "SampleCacheStatistics", "SampleLoaderConfig",
]


class Status(IntEnum):
    """How a call of the library ended."""

    OK = 0  # success
    ARGUMENT = 1  # an argument is wrong
    MISMATCH = 2  # ranks disagree about a plan
    BUSY = 3  # the object is in use
    STATE = 4  # the call does not fit the state of the object
    NON_FINITE = 5  # the gradient holds NaN or infinity
    TIMEOUT = 6  # a peer did not answer in time
    TRANSPORT = 7  # the transport failed
    MEMORY = 8  # out of memory
    SETTING = 9  # a WEIR_* setting has a value that makes no sense
    UNSUPPORTED = 10  # this build of Weir lacks the feature
    INTERNAL = 11  # an internal assumption of Weir failed
    DEVICE = 12  # the GPU or its driver failed
    FILE = 13  # a file cannot be written or read, or is damaged


class Error(Exception):
    """Exception that every call raises: a status, and a text that says what was wrong and what would be right."""

    __module__ = "weir"  # as tracebacks name it
    status: Status = Status.INTERNAL


class ArgumentError(Error, ValueError):
    """An argument is wrong."""

    __module__ = "weir"
    status = Status.ARGUMENT


class MismatchError(Error):
    """Ranks disagree about a plan."""

    __module__ = "weir"
    status = Status.MISMATCH


class BusyError(Error):
    """The object is in use."""

    __module__ = "weir"
    status = Status.BUSY


class StateError(Error):
    """The call does not fit the state of the object."""

    __module__ = "weir"
    status = Status.STATE


class NonFiniteError(Error):
    """The gradient holds NaN or infinity."""

    __module__ = "weir"
    status = Status.NON_FINITE


class TimeoutError(Error, builtins.TimeoutError):
    """A peer did not answer in time."""

    __module__ = "weir"
    status = Status.TIMEOUT


class TransportError(Error):
    """The transport failed."""

    __module__ = "weir"
    status = Status.TRANSPORT


class MemoryError(Error, builtins.MemoryError):
    """Out of memory."""

    __module__ = "weir"
    status = Status.MEMORY


class SettingError(Error):
    """A WEIR_* setting has a value that makes no sense."""

    __module__ = "weir"
    status = Status.SETTING


class UnsupportedError(Error):
    """This build of Weir lacks the feature."""

    __module__ = "weir"
    status = Status.UNSUPPORTED


class InternalError(Error):
    """An internal assumption of Weir failed."""

    __module__ = "weir"
    status = Status.INTERNAL


class DeviceError(Error):
    """The GPU or its driver failed."""

    __module__ = "weir"
    status = Status.DEVICE


class FileError(Error):
    """A file cannot be written or read, or is damaged."""

    __module__ = "weir"
    status = Status.FILE


ERRORS: Dict[int, Type[Error]] = {
    1: ArgumentError,
    2: MismatchError,
    3: BusyError,
    4: StateError,
    5: NonFiniteError,
    6: TimeoutError,
    7: TransportError,
    8: MemoryError,
    9: SettingError,
    10: UnsupportedError,
    11: InternalError,
    12: DeviceError,
    13: FileError,
}


class DataType(IntEnum):
    """Element type of gradients. In plans, the 16-bit types are for CUDA memory only; residuals, sums and updates are then float32.
    """

    float32 = 0
    float64 = 1
    float16 = 2
    bfloat16 = 3


class MemorySpace(IntEnum):
    """Memory that holds gradient, residual and update."""

    host = 0
    cuda = 1


class WireFormat(IntEnum):
    """How messages encode the indices of sparse vectors.

    compact: the smallest of COO, Elias-Fano, bitmap and dense, chosen per message
    coo: always a 32-bit index and a value
    """

    compact = 0
    coo = 1


class WireValues(IntEnum):
    """How messages encode the values of sparse vectors. Sums are computed in the plan's type. The residual keeps what rounding
    loses.

    native: no rounding
    bfloat16: needs float32
    float16: needs float32
    """

    native = 0
    bfloat16 = 1
    float16 = 2


class Feedback(IntEnum):
    """Error feedback: what a rank keeps of what it did not deliver. GRACE section IV calls it memory.

    none: keeps nothing; what is not delivered is lost
    residual: keeps a residual r. The rank compresses m = decay r + gain g; the new r is the part of m that was not delivered
        (Ok-Topk Algorithm 2, the default of GRACE)
    ef21: EF21 (Richtarik, Sokolov, Fatkhullin 2021). The rank compresses the gradient minus the sum of all that it delivered
        before; the update is the sum of all that was delivered so far. Updates are dense, so only `run` and `start` work
    automatic: residual; none for compressors whose paper uses none (`weir info --compressors` lists them) and for compressors that
        must have none
    """

    none = 0
    residual = 1
    ef21 = 2
    automatic = 3


class NonFinite(IntEnum):
    """What happens in an iteration in which any rank's gradient holds NaN or infinity.

    error: ends the run with NonFiniteError on every rank. The gradient stays untouched; the residual stays as before, up to
        rounding
    skip: no rank contributes anything. The update is zero; the residual stays as before, up to rounding
    propagate: sends NaN like other values. If entries are chosen by magnitude, NaN counts as the largest. Packed and linear
        compressors may spread it (qsgd to its whole bucket, power_sgd to the whole update) or hide it (sign_sgd and signum take its
        sign)
    """

    error = 0
    skip = 1
    propagate = 2


class Level(IntEnum):
    """How near two ranks are: the innermost part of the machine that they share. Traffic is counted by level.

    self: the rank itself
    l3: the same L3 cache
    numa: the same NUMA node
    socket: the same socket
    node: the same node
    switch_group: the same switch
    system: no nearer part in common
    """

    self = 0
    l3 = 1
    numa = 2
    socket = 3
    node = 4
    switch_group = 5
    system = 6


class Optimizer(IntEnum):
    """How the gradient of a batch changes the rows of a table. l is the learning rate and g the gradient of a row. Rows that no
    rank has looked up keep their values and their state.

    sgd: w -= l g
    momentum: v = beta1 v + g;  w -= l v
    adagrad: s += g^2;  w -= l g / (sqrt(s) + epsilon)
    adam: m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;  w -= l m' / (sqrt(v') + epsilon), where m' = m / (1 -
        beta1^t) and v' = v / (1 - beta2^t). t counts updates; all rows of an update have the same t, including the delayed ones
        (EmbRace section 5.7)
    """

    sgd = 0
    momentum = 1
    adagrad = 2
    adam = 3


class Routing(IntEnum):
    """How messages to the ranks of another node travel.

    automatic: the cost function chooses
    direct: each message travels by itself
    by_node: the messages from one node to another travel as one: gathered in the node, sent across, scattered
    """

    automatic = 0
    direct = 1
    by_node = 2


class FusionScheme(IntEnum):
    """Which tensors travel together and what is sparsified. The "ahead" schemes sparsify each tensor by itself; "behind" sparsifies
    what travels together as one.

    none: sends each tensor alone (wait-free back-propagation)
    behind: fuses gradients into buffers of a fixed size, then sparsifies each buffer, as a compressing hook of PyTorch's DDP does.
        Small gradients beside large ones may not be delivered
    ahead: SAFusion: sparsifies each tensor by itself. A rank fills buffers of a fixed size with entries in the order in which
        gradients come. Buffers of different ranks may hold different tensors, so a tensor has arrived only when all buffers have
    ahead_inter: SAFusion-Inter: like `ahead`, but a buffer holds the same tensors on all ranks, whatever their sizes
    ahead_inter_intra: SAFusion-(Inter+Intra): like `ahead_inter`, but adapts the number of tensors in a buffer to measured times
        until its exchange takes as long as filling the next buffer
    omgs: OMGS-SGD (Shi et al. 2020): like `ahead_inter`, but the cost functions merge buffers before the first iteration. Two
        neighbours become one if this saves more startup time than it makes the first one wait
    cupcake: Cupcake (Wang et al. 2023): like `ahead_inter`, but with the division that the cost functions find cheapest of all
        before the first iteration
    ahead_fitted: like `ahead_inter_intra`, but with the division whose last exchange ends first by measured times
    ahead_tapered: like `ahead_inter`, but the first and last buffers are small: a sixteenth of the size, then a quarter. The first
        exchange begins early, and little is left to exchange after the last gradient
    """

    none = 0
    behind = 1
    ahead = 2
    ahead_inter = 3
    ahead_inter_intra = 4
    omgs = 5
    cupcake = 6
    ahead_fitted = 7
    ahead_tapered = 8


class OperatorDivision(IntEnum):
    """Which ranks share the parts of a parallel operator.

    automatic: the one of the following that the cost functions predict to end first
    replicated: no division: every rank works on all parts
    node: the ranks of each node: every node works on all parts, and nothing crosses the network
    all: all ranks
    """

    automatic = 0
    replicated = 1
    node = 2
    all = 3


class OptimizerRule(IntEnum):
    """Rule by which a LayerOptimizer steps.

    lars: layer-wise adaptive rate scaling, on momentum SGD (You et al. 2018; CommLib equation 11)
    lamb: layer-wise adaptive moments, on Adam (You et al. 2020, Algorithm 2)
    """

    lars = 0
    lamb = 1


class SumType(IntEnum):
    """Element type of a sparse sum."""

    float32 = 0
    float64 = 1
    int32 = 2
    int64 = 3


class SumOperation(IntEnum):
    """How a sparse sum combines the entries that ranks have for one index. Ranks without an entry for it do not count: absent is
    not zero.

    sum: the sum; integers wrap around
    min: the smallest; NaN if one of them is NaN
    max: the largest; NaN if one of them is NaN
    reproducible_sum: the sum, with the same bits on any number of ranks, however entries are divided among ranks and ordered; with
        `algorithm` gather, split or auto. Integers: as sum
    checked_sum: the sum of integers; an addition that overflows is an error on all ranks
    """

    sum = 0
    min = 1
    max = 2
    reproducible_sum = 3
    checked_sum = 4


class SampleErrors(IntEnum):
    """What happens to a sample that cannot be read or decoded.

    error: ends the batch with an error on all ranks, which names the sample
    skip: gives the sample size -1 and a value of zeros. The sample is counted, and tried again when it is next requested
    retry: reads and decodes the sample again, `retries` times, after longer and longer pauses; then ends as with error
    substitute: puts the next good sample of the batch in its place, with value and size; the first sample follows the last. The bad
        sample is counted and tried again as with skip. A batch without a good sample ends as with skip
    """

    error = 0
    skip = 1
    retry = 2
    substitute = 3


class Shuffle(IntEnum):
    """Order of the samples in an epoch.

    none: the order of the data set
    global_: a new permutation of all samples in each epoch
    node: each node permutes its own samples anew in each epoch, except a share of them, `exchanged_share`, which go to any node
    """

    none = 0
    global_ = 1
    node = 2


class ProgressDisplay(IntEnum):
    """Whether rank 0 shows the progress of the first epoch on standard error.

    automatic: shows it on a terminal
    off: never shows it
    on: always shows it
    """

    automatic = 0
    off = 1
    on = 2


class LogLevel(IntEnum):
    """Severity of a log message. Weir logs a message if its level is at most the one that WEIR_LOG names."""

    error = 0
    warn = 1
    info = 2
    debug = 3


class ElementType(IntEnum):
    """Element type of a caller's array in a checkpoint.

    uint8: bytes of any other data
    """

    float32 = 0
    float64 = 1
    int32 = 2
    int64 = 3
    uint8 = 4


class Distribution(IntEnum):
    """How the ranks hold a caller's array in a checkpoint, and how it is restored to another number of ranks.

    replicated: the same on all ranks; saved once and delivered to all
    block: each rank holds a range of one long array, in any division; each gets the range that it asks for
    local: each rank has its own; rank r gets the array of rank r. If no rank r saved one, the array stays as it is
    """

    replicated = 0
    block = 1
    local = 2


@dataclass(repr=False)
class AllreduceConfig(Struct):
    """Describes one tensor and how it is reduced. All fields except `name`, `priority` and `threads` must be equal on all ranks.

    count: number n of elements of the gradient; at most 2^48, for sparse algorithms at most 2^32 - 1
    type: type of the gradient's elements
    memory: memory that holds gradient, residual and update. With cuda, they are on the GPU that is current when the plan is made.
        Every sparse algorithm runs there. dense_nccl, dense_torus2d, `dense_iterations` and the sums in nodes of hitopk and
        hi_oktopk need NCCL; without it, hitopk and hi_oktopk run flat. If messages go to MPI as GPU memory (`weir info` says so),
        that GPU must also be current where runs are started and waited for
    density: share k / n of the entries to deliver, in (0, 1]. k is rounded to nearest, and is at least 1 if n > 0. Sparse
        compressors and shared_random_k use it; others ignore it
    k: number of entries to deliver, 0 <= k <= n; -1: from `density`. Sparse compressors and shared_random_k use it; others ignore
        it
    algorithm: name of an algorithm. "auto": the one that the cost functions find cheapest on this machine, which may be dense;
        "auto_sparse": the cheapest sparse one
    algorithm_parameters: parameters of the algorithm, by name: "window=8,schedule=direct". Parameters that are not named keep their
        defaults; `weir info --algorithms` lists them. With `algorithm = auto`, each algorithm takes those that it has
    trial_iterations: number of trial runs of each of up to five candidates, at most 10^6, with `algorithm = auto`. The plan then
        keeps the one that was fastest by the clock. 0: the prediction decides
    compressor: name of a compressor. Empty: the algorithm's own: top_k for sparse, block_quantise for packed, none for dense
        algorithms. "none": no compression, for dense algorithms only. Several names, joined by |, need `algorithm = auto`, which
        takes the cheapest: "qsgd|top_k|none"
    compressor_parameters: parameters of the compressor, by name: "levels=16,bucket=512". Parameters that are not named keep their
        defaults. With several compressors, the parameters of each are joined by | in the same order: "levels=16||"; the last ones
        may be left out
    seed: seed of random compressors, not negative. Their numbers depend only on seed, iteration, rank and element
    error_feedback: what a rank keeps of what it did not deliver. Some compressors work only without error feedback, and refuse
        `residual` and `ef21`
    feedback_decay: beta of GRACE section IV: share of the residual that is kept, 0 to 1. Must be 1 without a residual
    feedback_gain: gamma of GRACE section IV: factor of the gradients, finite and not 0. Must be 1 with ef21 and without compression
    average: divides the delivered sum by the number of ranks
    threshold: how a rank selects the entries that it contributes, with top_k and dgc; other compressors ignore it. "exact" or
        "reuse", or one of the thresholds of papers: "mstopk", "sampled", "gaussian", "sidco" or "redsync". `exact` and `mstopk`
        select k entries, `reuse` selects 0.8 k to 1.25 k, the others select 0.75 k to 1.25 k. The residual keeps what a rank does
        not select. gaussiank has its own threshold
    threshold_parameters: parameters of the threshold, by name: "period=8" for reuse, "samplings=20" for mstopk and redsync.
        Parameters that are not named keep their defaults
    wire_format: how messages encode indices, with sparse compressors; others ignore it. With `algorithm = auto` and compact, Weir
        may also choose coo
    wire_values: how messages encode values, with sparse compressors; others ignore it. bfloat16 and float16 do not take gradients
        of float64. With `algorithm = auto`, Weir may also choose native
    threads: number of threads of this rank that select, merge and apply in host memory. May differ between ranks. The result does
        not depend on it. 0: WEIR_THREADS, else the number of cores that this rank has to itself
    non_finite: what happens if a gradient holds NaN or infinity
    dense_iterations: number of first iterations that run dense, at most 2^48. The Ok-Topk authors use 512
    warmup_iterations: number of iterations after the dense ones in which density falls exponentially from 25 % to its target (DGC),
        with sparse compressors; at most 2^48
    priority: priority of this plan's messages; a higher one makes progress first. May differ between ranks
    name: name in error messages and dumps
    """

    count: int = 0
    type: TypeLike = DataType.float32
    memory: Union[MemorySpace, str] = MemorySpace.host
    density: float = 0.01
    k: int = -1
    algorithm: str = "oktopk"
    algorithm_parameters: str = ""
    trial_iterations: int = 0
    compressor: str = ""
    compressor_parameters: str = ""
    seed: int = 1
    error_feedback: Union[Feedback, str] = Feedback.automatic
    feedback_decay: float = 1.0
    feedback_gain: float = 1.0
    average: bool = True
    threshold: str = "exact"
    threshold_parameters: str = ""
    wire_format: Union[WireFormat, str] = WireFormat.compact
    wire_values: Union[WireValues, str] = WireValues.native
    threads: int = 0
    non_finite: Union[NonFinite, str] = NonFinite.error
    dense_iterations: int = 0
    warmup_iterations: int = 0
    priority: int = 0
    name: str = "allreduce"

    _c = _abi.weir_allreduce_config
    _kinds = {
        "count": int, "type": DataType, "memory": MemorySpace, "density": float, "k": int, "algorithm": str,
        "algorithm_parameters": str, "trial_iterations": int, "compressor": str, "compressor_parameters": str, "seed": int,
        "error_feedback": Feedback, "feedback_decay": float, "feedback_gain": float, "average": bool, "threshold": str,
        "threshold_parameters": str, "wire_format": WireFormat, "wire_values": WireValues, "threads": int, "non_finite": NonFinite,
        "dense_iterations": int, "warmup_iterations": int, "priority": int, "name": str,
    }


@dataclass(frozen=True, repr=False)
class Statistics(Struct):
    """What one run of a plan did on this rank. Times are in seconds.

    iteration: number of runs so far, including this one. Density schedules count only runs that delivered
    k: target number of entries of this iteration; n for dense and packed algorithms
    selected_local: number of entries that this rank contributed; n for dense and packed algorithms
    selected_global: number of entries of the update; n for dense and packed algorithms
    payload_bytes_sent: bytes sent: values, indices, packed bytes and factors
    payload_bytes_received: bytes received: values, indices, packed bytes and factors
    control_bytes_sent: bytes sent: sizes, histograms and boundaries
    control_bytes_received: bytes received: sizes, histograms and boundaries
    bytes_sent: bytes sent, payload and control, by Level of the peer. Only Weir's own messages count: neither traffic through
        memory that the ranks of a node share, nor what MPI's or NCCL's own collectives send (dense_mpi, dense_nccl)
    bytes_received: bytes received, by Level of the peer
    messages_sent: number of messages sent, by Level of the peer
    messages_received: number of messages received, by Level of the peer
    seconds_select: time for compensation, local selection and the compressor's encoding
    seconds_in_node: time for the dense reduce-scatter and the sparse allgather of algorithms that shard within nodes
    seconds_exchange: time from the first message to the last. Includes reductions and what the caller computed meanwhile; excludes
        encoding and decoding
    seconds_apply: time for the residual update, the dense result and the compressor's decoding; in CUDA memory, until they are on
        the stream
    seconds_total: time from start to completion, without the time that the caller takes to fetch the result
    seconds_waited: time that the caller spent in wait, test or run until this run had finished
    skipped: NonFinite.skip took effect
    """

    iteration: int
    k: int
    selected_local: int
    selected_global: int
    payload_bytes_sent: int
    payload_bytes_received: int
    control_bytes_sent: int
    control_bytes_received: int
    bytes_sent: Dict[Level, int]
    bytes_received: Dict[Level, int]
    messages_sent: Dict[Level, int]
    messages_received: Dict[Level, int]
    seconds_select: float
    seconds_in_node: float
    seconds_exchange: float
    seconds_apply: float
    seconds_total: float
    seconds_waited: float
    skipped: bool

    _c = _abi.weir_statistics
    _kinds = {
        "iteration": int, "k": int, "selected_local": int, "selected_global": int, "payload_bytes_sent": int,
        "payload_bytes_received": int, "control_bytes_sent": int, "control_bytes_received": int, "bytes_sent": [Level],
        "bytes_received": [Level], "messages_sent": [Level], "messages_received": [Level], "seconds_select": float,
        "seconds_in_node": float, "seconds_exchange": float, "seconds_apply": float, "seconds_total": float,
        "seconds_waited": float, "skipped": bool,
    }


@dataclass(frozen=True, repr=False)
class AlgorithmInfo(Struct):
    """Describes one algorithm, which AllreduceConfig's `algorithm` may name.

    name: name for `algorithm`
    description: what it does, as text
    sparse: delivers k entries; a dense algorithm delivers all
    host_memory: takes gradients in host memory
    cuda_memory: takes gradients in CUDA memory
    packed: carries the bytes that compressors make of float32 gradients
    parameters: parameters with their defaults: "window=4"; empty: no parameters
    counters: names of the events that plans count: "rethresholded,recut"; empty: plans count nothing
    """

    name: str
    description: str
    sparse: bool
    host_memory: bool
    cuda_memory: bool
    packed: bool
    parameters: str
    counters: str

    _c = _abi.weir_algorithm_info
    _kinds = {
        "name": str, "description": str, "sparse": bool, "host_memory": bool, "cuda_memory": bool, "packed": bool,
        "parameters": str, "counters": str,
    }


@dataclass(frozen=True, repr=False)
class CompressorInfo(Struct):
    """Describes one compressor, which AllreduceConfig's `compressor` may name.

    name: name for `compressor`
    description: what it does, as text
    source: paper that describes it
    carriage: what carries it. "sparse": sparse algorithms carry its entries; "packed": packed algorithms carry its bytes; "linear":
        dense algorithms carry its dense values
    parameters: all parameters with their defaults: "levels=7,bucket=512"; empty: no parameters
    random: draws random numbers, which depend on `seed`
    feedback: keeps a residual with `error_feedback` automatic, unless its parameters rule that out (`unbiased=1`)
    """

    name: str
    description: str
    source: str
    carriage: str
    parameters: str
    random: bool
    feedback: bool

    _c = _abi.weir_compressor_info
    _kinds = {
        "name": str, "description": str, "source": str, "carriage": str, "parameters": str, "random": bool, "feedback": bool,
    }


@dataclass(frozen=True, repr=False)
class EncodedInfo(Struct):
    """What the header of an encoded gradient says.

    version: version of the format
    count: number of elements of the gradient
    entries: number of elements that have a value; the others are 0. Packed messages have values for all elements: `count`
    bytes: size, including header and checksum
    compressor: name of the compressor
    parameters: all parameters of the compressor: "levels=7,bucket=512"
    """

    version: int
    count: int
    entries: int
    bytes: int
    compressor: str
    parameters: str

    _c = _abi.weir_encoded_info
    _kinds = {
        "version": int, "count": int, "entries": int, "bytes": int, "compressor": str, "parameters": str,
    }


@dataclass(frozen=True, repr=False)
class SettingInfo(Struct):
    """One WEIR_* environment variable, the value in force, and where that value comes from.

    name: name of the variable
    value: value in force
    origin: where the value comes from
    description: what the variable sets, as text
    """

    name: str
    value: str
    origin: str
    description: str

    _c = _abi.weir_setting_info
    _kinds = {
        "name": str, "value": str, "origin": str, "description": str,
    }


@dataclass(repr=False)
class EmbeddingConfig(Struct):
    """Describes one table of `rows` x `width` float32 values. All fields except `name` and the priorities must be equal on all
    ranks.

    rows: number V of rows, 1 to 2^32 - 1
    width: number D of columns, at least 1. It need not be divisible by the number of ranks
    largest_batch: largest number of ids that a rank looks up at once
    memory: memory that holds values, optimizer state, vectors and gradients. With cuda, they are on the GPU that is current when
        the table is made. dense_allreduce does not take cuda
    exchange: name of an exchange: how rows are divided among the ranks and how they travel
    optimizer: how gradients change rows
    learning_rate: learning rate, finite as float32, the type of rows
    beta1: beta1 of momentum and Adam
    beta2: beta2 of Adam
    epsilon: epsilon of Adagrad and Adam, which need it positive
    average: divides gradients by the number of ranks
    wire_values: how messages encode vectors and gradients; dense_allreduce always sends float32. Sums are float32
    routing: how messages to the ranks of another node travel
    seed: seed of the initial values, which otherwise depend only on row, column and `initial_range`
    initial_range: range of the initial values, which are uniform in [-initial_range, initial_range); finite as float32
    priority: priority of ids, vectors, and gradients of rows that the next batch needs
    delayed_priority: priority of the other gradients
    name: name in error messages and dumps
    """

    rows: int = 0
    width: int = 0
    largest_batch: int = 0
    memory: Union[MemorySpace, str] = MemorySpace.host
    exchange: str = "columns"
    optimizer: Union[Optimizer, str] = Optimizer.sgd
    learning_rate: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-08
    average: bool = True
    wire_values: Union[WireValues, str] = WireValues.native
    routing: Union[Routing, str] = Routing.automatic
    seed: int = 1
    initial_range: float = 0.05
    priority: int = 1000000
    delayed_priority: int = -1000000
    name: str = "embedding"

    _c = _abi.weir_embedding_config
    _kinds = {
        "rows": int, "width": int, "largest_batch": int, "memory": MemorySpace, "exchange": str, "optimizer": Optimizer,
        "learning_rate": float, "beta1": float, "beta2": float, "epsilon": float, "average": bool, "wire_values": WireValues,
        "routing": Routing, "seed": int, "initial_range": float, "priority": int, "delayed_priority": int, "name": str,
    }


@dataclass(frozen=True, repr=False)
class EmbeddingStatistics(Struct):
    """What the last lookup and the last update of this rank did. Times are in seconds; in CUDA memory they end when the work is on
    its stream. The rows of the update are known once update() has returned. Which of them are prior is known later, while the
    operation runs.

    tokens: number of ids in the batch
    distinct_rows: number of distinct rows in the batch: vectors received and gradients sent
    prior_rows: number of rows of the update that the next batch of any rank needs; all rows if the next batch is not known
    updated_rows: number of rows that this rank's optimizer stepped; if the table is divided by columns, parts of rows
    prefetched: the ids of the lookup were known before
    by_node: Routing.by_node is in force
    id_bytes_sent: bytes of the batch's ids, sent by lookup or by the prefetch that it used
    lookup_bytes_sent: bytes of vectors
    gradient_bytes_sent: bytes of gradients of rows
    control_bytes_sent: all other bytes of lookup, its prefetch and update
    bytes_sent: all these bytes, by Level of the peer
    seconds_lookup: time of the lookup from start to completion
    seconds_coalesce: time for summing gradients of equal ids, before update() returns
    seconds_prior: time from update() until the prior rows were applied
    seconds_update: time from update() until all rows were applied
    """

    tokens: int
    distinct_rows: int
    prior_rows: int
    updated_rows: int
    prefetched: bool
    by_node: bool
    id_bytes_sent: int
    lookup_bytes_sent: int
    gradient_bytes_sent: int
    control_bytes_sent: int
    bytes_sent: Dict[Level, int]
    seconds_lookup: float
    seconds_coalesce: float
    seconds_prior: float
    seconds_update: float

    _c = _abi.weir_embedding_statistics
    _kinds = {
        "tokens": int, "distinct_rows": int, "prior_rows": int, "updated_rows": int, "prefetched": bool, "by_node": bool,
        "id_bytes_sent": int, "lookup_bytes_sent": int, "gradient_bytes_sent": int, "control_bytes_sent": int,
        "bytes_sent": [Level], "seconds_lookup": float, "seconds_coalesce": float, "seconds_prior": float, "seconds_update": float,
    }


@dataclass(frozen=True, repr=False)
class ExchangeInfo(Struct):
    """Describes one way to divide and exchange a table.

    name: name for `exchange`
    description: what it does, as text
    """

    name: str
    description: str

    _c = _abi.weir_exchange_info
    _kinds = {
        "name": str, "description": str,
    }


@dataclass(repr=False)
class CheckpointConfig(Struct):
    """Describes where checkpoints go. All fields except `name` must be equal on all ranks.

    folder: folder for the files, which all ranks must see. Weir makes it if its parent exists
    run: text that identifies the training run. A folder with files of another run is refused. Empty: any run
    keep: number of newest files that stay
    compression: compression of large arrays. 0: none; 1 to 9: deflate, from fastest to smallest, after shuffling bytes by their
        place in an element
    strict: restore() throws if the newest file is damaged; otherwise it warns and takes the newest file that is whole
    name: name in error messages and dumps
    """

    folder: str = ""
    run: str = ""
    keep: int = 2
    compression: int = 0
    strict: bool = False
    name: str = "checkpoint"

    _c = _abi.weir_checkpoint_config
    _kinds = {
        "folder": str, "run": str, "keep": int, "compression": int, "strict": bool, "name": str,
    }


@dataclass(frozen=True, repr=False)
class CheckpointStatistics(Struct):
    """What the last save and the last restore of this rank did. Times are in seconds.

    step: step saved or restored last; -1: none yet
    ranks: number of ranks that saved what was restored last
    snapshot_bytes: memory of the snapshot on this rank, which is kept from one save to the next
    bytes_written: bytes that this rank wrote to the file
    bytes_read: bytes that this rank read from the file
    seconds_snapshot: time until save() returned
    seconds_save: time from save() until the file was in its place
    seconds_restore: time of the restore
    """

    step: int
    ranks: int
    snapshot_bytes: int
    bytes_written: int
    bytes_read: int
    seconds_snapshot: float
    seconds_save: float
    seconds_restore: float

    _c = _abi.weir_checkpoint_statistics
    _kinds = {
        "step": int, "ranks": int, "snapshot_bytes": int, "bytes_written": int, "bytes_read": int, "seconds_snapshot": float,
        "seconds_save": float, "seconds_restore": float,
    }


@dataclass(repr=False)
class FusedTensor(Struct):
    """Describes one tensor of a model. Must be equal on all ranks.

    name: name in error messages and checkpoints; all tensors have different names
    count: number of elements of its gradient; at most 2^32 - 1, with `dense` at most 2^48
    density: share k / count of the entries, in (0, 1]; 0: that of the FusionConfig
    k: number of entries that each rank selects, 0 <= k <= count; -1: from the density, at least 1 if count > 0
    dense: sends the tensor whole, together with the other tensors of its buffer; for biases and norms
    optional: some or all ranks may leave the tensor out of an iteration. It then contributes nothing there, and its residual stays
    """

    name: str = ""
    count: int = 0
    density: float = 0.0
    k: int = -1
    dense: bool = False
    optional: bool = False

    _c = _abi.weir_fused_tensor
    _kinds = {
        "name": str, "count": int, "density": float, "k": int, "dense": bool, "optional": bool,
    }


@dataclass(repr=False)
class FusionConfig(Struct):
    """Describes how the gradients of a model are fused and reduced. All fields except `name` and `priority` must be equal on all
    ranks.

    scheme: which tensors travel together and what is sparsified
    buffer_bytes: size of a buffer, in bytes of gradients. With `behind`, a buffer takes this many bytes; with `ahead`,
        `ahead_inter` and `ahead_tapered`, it takes as many entries as the density selects from this many bytes. `ahead_inter_intra`
        and `ahead_fitted` begin with it, and `ahead_inter_intra` makes no larger buffers. The other schemes ignore it
    type: type of the gradients' elements: float32 or float64, in host memory
    density: share k / count of the entries, in (0, 1], for tensors that do not set their own
    algorithm: name of a sparse algorithm, which exchanges the entries of a buffer. Algorithms that shard within nodes run flat.
        gtopk, oktopk and hi_oktopk deliver the largest entries of a buffer, so tensors may be missing from an update; the others
        deliver all entries that ranks have selected. "auto", "auto_sparse": topk_allgather or topk_dsa, the one that is predicted
        to be cheaper
    algorithm_parameters: parameters of the algorithm, as in AllreduceConfig
    threshold: how a rank selects entries, as in AllreduceConfig
    threshold_parameters: parameters of the threshold, as in AllreduceConfig
    error_feedback: residual or none; automatic is residual
    average: divides the delivered sum by the number of ranks
    wire_format: how messages encode indices
    wire_values: how messages encode values; bfloat16 and float16 need float32. Dense tensors are sent without rounding
    non_finite: what happens to the buffer of a tensor with NaN or infinity; other buffers are delivered
    priority: priority of the buffer with the last tensor of the forward pass. A buffer that is needed earlier has a higher
        priority. May differ between ranks
    name: name in error messages and dumps
    """

    scheme: Union[FusionScheme, str] = FusionScheme.ahead_tapered
    buffer_bytes: int = 26214400
    type: TypeLike = DataType.float32
    density: float = 0.01
    algorithm: str = "auto"
    algorithm_parameters: str = ""
    threshold: str = "exact"
    threshold_parameters: str = ""
    error_feedback: Union[Feedback, str] = Feedback.automatic
    average: bool = True
    wire_format: Union[WireFormat, str] = WireFormat.compact
    wire_values: Union[WireValues, str] = WireValues.native
    non_finite: Union[NonFinite, str] = NonFinite.error
    priority: int = 0
    name: str = "fused"

    _c = _abi.weir_fusion_config
    _kinds = {
        "scheme": FusionScheme, "buffer_bytes": int, "type": DataType, "density": float, "algorithm": str,
        "algorithm_parameters": str, "threshold": str, "threshold_parameters": str, "error_feedback": Feedback, "average": bool,
        "wire_format": WireFormat, "wire_values": WireValues, "non_finite": NonFinite, "priority": int, "name": str,
    }


@dataclass(frozen=True, repr=False)
class FusionStatistics(Struct):
    """What one iteration of a FusedAllreduce did on this rank, up to wait_all(). Times are in seconds.

    iteration: number of iterations so far, including this one
    exchanges: number of buffers that were exchanged, that is, of communication startups
    tensors_skipped: number of optional tensors that this rank skipped or left out
    tensors_missing: number of tensors with k above 0 of which no entry was delivered, including those that all ranks skipped; the
        same on all ranks
    buffers_skipped: number of buffers for which NonFinite.skip took effect
    selected_local: number of entries that this rank contributed, without dense tensors
    selected_global: number of entries of the updates, without dense tensors; with `ahead`, counted by buffer
    payload_bytes_sent: bytes sent: values and indices
    payload_bytes_received: bytes received: values and indices
    control_bytes_sent: bytes sent: sizes, histograms, boundaries and agreement
    control_bytes_received: bytes received: sizes, histograms, boundaries and agreement
    bytes_sent: bytes sent, payload and control, by Level of the peer
    bytes_received: bytes received, by Level of the peer
    messages_sent: number of messages sent, by Level of the peer
    messages_received: number of messages received, by Level of the peer
    seconds_select: time for compensation and selection, in ready()
    seconds_exchange: time during which at least one exchange was in flight
    seconds_backward: time from the first ready() to the end of the last
    seconds_waited: time that the caller spent in wait(), test() and wait_all(): communication that nothing overlapped
    seconds_total: time from the first ready() to the end of the last exchange
    regroupings: number of times so far that buffers were divided anew (ahead_inter_intra, ahead_fitted)
    settled: the division into buffers is final
    """

    iteration: int
    exchanges: int
    tensors_skipped: int
    tensors_missing: int
    buffers_skipped: int
    selected_local: int
    selected_global: int
    payload_bytes_sent: int
    payload_bytes_received: int
    control_bytes_sent: int
    control_bytes_received: int
    bytes_sent: Dict[Level, int]
    bytes_received: Dict[Level, int]
    messages_sent: Dict[Level, int]
    messages_received: Dict[Level, int]
    seconds_select: float
    seconds_exchange: float
    seconds_backward: float
    seconds_waited: float
    seconds_total: float
    regroupings: int
    settled: bool

    _c = _abi.weir_fusion_statistics
    _kinds = {
        "iteration": int, "exchanges": int, "tensors_skipped": int, "tensors_missing": int, "buffers_skipped": int,
        "selected_local": int, "selected_global": int, "payload_bytes_sent": int, "payload_bytes_received": int,
        "control_bytes_sent": int, "control_bytes_received": int, "bytes_sent": [Level], "bytes_received": [Level],
        "messages_sent": [Level], "messages_received": [Level], "seconds_select": float, "seconds_exchange": float,
        "seconds_backward": float, "seconds_waited": float, "seconds_total": float, "regroupings": int, "settled": bool,
    }


@dataclass(repr=False)
class OperatorPart(Struct):
    """Describes one part of work that every rank would otherwise do whole. Must be equal on all ranks.

    seconds: estimated time of this part on one rank, at least 0. Work is divided by these estimates
    result_bytes: size of its result; with `variable`, the largest size
    """

    seconds: float = 0.0
    result_bytes: int = 0

    _c = _abi.weir_operator_part
    _kinds = {
        "seconds": float, "result_bytes": int,
    }


@dataclass(repr=False)
class OperatorConfig(Struct):
    """Describes work that is divided among ranks. All fields except `name` and `priority` must be equal on all ranks.

    division: which ranks share the parts
    variable: results may be shorter than described, with other sizes in each run. The sizes are gathered first
    priority: priority of gathering; a higher one makes progress first. May differ between ranks
    name: name in error messages and dumps
    """

    division: Union[OperatorDivision, str] = OperatorDivision.automatic
    variable: bool = False
    priority: int = 0
    name: str = "operator"

    _c = _abi.weir_operator_config
    _kinds = {
        "division": OperatorDivision, "variable": bool, "priority": int, "name": str,
    }


@dataclass(frozen=True, repr=False)
class OperatorStatistics(Struct):
    """What the last run of a parallel operator did on this rank. Times are in seconds.

    runs: number of runs so far, including those that ended in an error
    seconds_work: time in the body
    seconds_gather: time for agreeing and gathering, including waiting for slower ranks
    bytes_sent: bytes sent, by Level of the peer
    bytes_received: bytes received, by Level of the peer
    messages_sent: number of messages sent, by Level of the peer
    messages_received: number of messages received, by Level of the peer
    """

    runs: int
    seconds_work: float
    seconds_gather: float
    bytes_sent: Dict[Level, int]
    bytes_received: Dict[Level, int]
    messages_sent: Dict[Level, int]
    messages_received: Dict[Level, int]

    _c = _abi.weir_operator_statistics
    _kinds = {
        "runs": int, "seconds_work": float, "seconds_gather": float, "bytes_sent": [Level], "bytes_received": [Level],
        "messages_sent": [Level], "messages_received": [Level],
    }


@dataclass(repr=False)
class OptimizedLayer(Struct):
    """Describes weights that have a learning rate of their own. Must be equal on all ranks.

    name: name in error messages and checkpoints, without '/' and control characters; all layers have different names
    count: number of elements
    excluded: steps without weight decay and at the plain learning rate; for biases and norms
    """

    name: str = ""
    count: int = 0
    excluded: bool = False

    _c = _abi.weir_optimized_layer
    _kinds = {
        "name": str, "count": int, "excluded": bool,
    }


@dataclass(repr=False)
class OptimizerConfig(Struct):
    """Describes how the layers of a model step. All fields except `name` and `priority` must be equal on all ranks.

    rule: how layers step
    momentum: momentum of lars, from 0 to below 1
    weight_decay: weight decay, at least 0
    trust_coefficient: gamma of lars (CommLib equation 11), above 0
    largest_rate: limit of a layer's rate, which multiplies the learning rate; 0: no limit
    beta1: beta1 of lamb, from 0 to below 1
    beta2: beta2 of lamb, from 0 to below 1
    epsilon: epsilon of lamb, above 0
    norms: which ranks share the norms; with lamb, the same as `update`
    update: which ranks share the update and momentum. Each rank keeps the momentum of its part, and weights are gathered (ZeRO
        stage 1)
    type: type of weights and gradients: float32, float16 or bfloat16. Momentum and moments are float32. With 16-bit weights, the
        optimizer also keeps float32 weights of its own
    memory: memory that holds weights, gradients, momentum and moments. With cuda, they are on the GPU that is current when the
        optimizer is made
    priority: priority of gathering; a higher one makes progress first. May differ between ranks
    name: name in error messages and checkpoints
    """

    rule: Union[OptimizerRule, str] = OptimizerRule.lars
    momentum: float = 0.9
    weight_decay: float = 0.0001
    trust_coefficient: float = 0.001
    largest_rate: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-06
    norms: Union[OperatorDivision, str] = OperatorDivision.automatic
    update: Union[OperatorDivision, str] = OperatorDivision.automatic
    type: TypeLike = DataType.float32
    memory: Union[MemorySpace, str] = MemorySpace.host
    priority: int = 0
    name: str = "optimizer"

    _c = _abi.weir_optimizer_config
    _kinds = {
        "rule": OptimizerRule, "momentum": float, "weight_decay": float, "trust_coefficient": float, "largest_rate": float,
        "beta1": float, "beta2": float, "epsilon": float, "norms": OperatorDivision, "update": OperatorDivision, "type": DataType,
        "memory": MemorySpace, "priority": int, "name": str,
    }


@dataclass(frozen=True, repr=False)
class OptimizerStatistics(Struct):
    """What the last step of a LayerOptimizer did on this rank. Times are in seconds.

    steps: number of steps so far
    seconds_norms: time for norms, without those of other ranks
    seconds_update: time for stepping weights
    seconds_gather: time for agreeing and gathering, including waiting for slower ranks
    """

    steps: int
    seconds_norms: float
    seconds_update: float
    seconds_gather: float

    _c = _abi.weir_optimizer_statistics
    _kinds = {
        "steps": int, "seconds_norms": float, "seconds_update": float, "seconds_gather": float,
    }


@dataclass(repr=False)
class SparseAdamConfig(Struct):
    """Describes Adam for sparse updates. Must be equal on all ranks if their weights are to stay equal.

    count: number of weights
    beta1: beta1 of Adam, from 0 to below 1
    beta2: beta2 of Adam, from 0 to below 1
    epsilon: epsilon of Adam, above 0
    exact: also moves weights that no update touches, as dense Adam does. A step then takes time in proportion to `count`
    name: name in error messages and checkpoints
    """

    count: int = 0
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-08
    exact: bool = False
    name: str = "sparse_adam"

    _c = _abi.weir_sparse_adam_config
    _kinds = {
        "count": int, "beta1": float, "beta2": float, "epsilon": float, "exact": bool, "name": str,
    }


@dataclass(repr=False)
class SparseSumConfig(Struct):
    """Describes sums of arrays that are mostly zero. All fields except `name` and `priority` must be equal on all ranks.

    count: number n of elements of the arrays, at most 2^56
    type: type of the elements
    operation: how entries with the same index are combined
    expected_entries: the most entries that a rank is expected to give, at most 2^40: memory for them is allocated in advance. With
        more, memory grows, and rank 0 logs it once. 0: memory grows as needed
    algorithm: name of an algorithm: gather, split, hash, doubling, dense, blocks, shared or hierarchical. "auto": in each run the
        one that is predicted to end first with the entries of that run. The result has the same bits with every algorithm
    priority: priority of the run; a higher one makes progress first. May differ between ranks
    name: name in error messages and dumps
    """

    count: int = 0
    type: Union[SumType, str] = SumType.float64
    operation: Union[SumOperation, str] = SumOperation.sum
    expected_entries: int = 0
    algorithm: str = "auto"
    priority: int = 0
    name: str = "sum"

    _c = _abi.weir_sparse_sum_config
    _kinds = {
        "count": int, "type": SumType, "operation": SumOperation, "expected_entries": int, "algorithm": str, "priority": int,
        "name": str,
    }


@dataclass(frozen=True, repr=False)
class SparseSumStatistics(Struct):
    """What the last run of a sparse sum did on this rank.

    runs: number of runs so far that ended without an error
    algorithm: name of the algorithm of the last run; "none" on one rank
    entries: number of entries of this rank, after those with the same index were combined
    entries_total: the same, of all ranks together
    entries_sum: number of entries of the result
    payload_bytes_sent: bytes sent: values and indices
    payload_bytes_received: bytes received: values and indices
    control_bytes_sent: bytes sent: sizes and samples of indices
    control_bytes_received: bytes received: sizes and samples of indices
    bytes_sent: bytes sent, by Level of the peer
    bytes_received: bytes received, by Level of the peer
    messages_sent: number of messages sent, by Level of the peer
    messages_received: number of messages received, by Level of the peer
    """

    runs: int
    algorithm: str
    entries: int
    entries_total: int
    entries_sum: int
    payload_bytes_sent: int
    payload_bytes_received: int
    control_bytes_sent: int
    control_bytes_received: int
    bytes_sent: Dict[Level, int]
    bytes_received: Dict[Level, int]
    messages_sent: Dict[Level, int]
    messages_received: Dict[Level, int]

    _c = _abi.weir_sparse_sum_statistics
    _kinds = {
        "runs": int, "algorithm": str, "entries": int, "entries_total": int, "entries_sum": int, "payload_bytes_sent": int,
        "payload_bytes_received": int, "control_bytes_sent": int, "control_bytes_received": int, "bytes_sent": [Level],
        "bytes_received": [Level], "messages_sent": [Level], "messages_received": [Level],
    }


@dataclass(repr=False)
class SampleCacheConfig(Struct):
    """Describes where samples are kept. All fields except `folder`, `folder_bytes`, `threads` and `priority` must be equal on all
    ranks.

    folder: folder of level 1, in the node's own storage; runs and data sets share it. Weir makes it if its parent exists. Empty: no
        level 1
    folder_bytes: limit of the folder, in bytes. What was used least recently is removed first. 0: no limit
    memory_bytes: limit of level 2 on each node, in bytes. 0: nothing stays in memory; -1: half of what the smallest node has
        available, or what the samples take if that is less
    largest_batch: largest number of samples that a rank requests at once
    in_flight: number of batches that may be in flight at once
    pack_samples: number of samples in a pack, which is read from the store at once and is one file of level 1
    threads: number of threads of this rank that read and decode
    on_error: what happens to a sample that cannot be read or decoded
    retries: number of further attempts with `retry`: after 0.1 s, 0.2 s, 0.4 s, ..., at most 10 s each
    priority: priority of messages; the default is below the 0 of plans. May differ between ranks
    name: name of the data set and of its folder within level 1. 1 to 64 letters, digits, '_', '-' and '.', not beginning with '.'
    """

    folder: str = ""
    folder_bytes: int = 0
    memory_bytes: int = -1
    largest_batch: int = 256
    in_flight: int = 2
    pack_samples: int = 64
    threads: int = 1
    on_error: Union[SampleErrors, str] = SampleErrors.error
    retries: int = 3
    priority: int = -1
    name: str = "samples"

    _c = _abi.weir_sample_cache_config
    _kinds = {
        "folder": str, "folder_bytes": int, "memory_bytes": int, "largest_batch": int, "in_flight": int, "pack_samples": int,
        "threads": int, "on_error": SampleErrors, "retries": int, "priority": int, "name": str,
    }


@dataclass(frozen=True, repr=False)
class SampleCacheStatistics(Struct):
    """What a sample cache has done on this rank so far. Times are in seconds, of all threads together.

    batches: number of batches that have ended
    asked: number of samples that this rank has requested. It has read itself those that `from_node` and `from_ranks` do not count
    from_node: number of requested samples that were read from memory of this node
    from_ranks: number of requested samples that were received from their owners
    served: number of samples that this rank has sent to others
    kept: number of samples of this rank's part that are in memory now
    decoded: number of decodings of samples
    from_folder: number of samples that level 1 had
    from_store: number of samples that were read from the store
    folder_bytes_read: bytes read from level 1
    store_bytes_read: bytes read from the store
    damaged: number of samples of level 1 whose checksum was wrong and which were read from the store again
    retried: number of times that a sample was tried again
    skipped: number of samples that this rank has requested and not got
    seconds_store: time for reading from the store
    seconds_folder: time for reading and writing level 1
    seconds_decode: time for decoding
    seconds_waited: time that the caller spent in get(), next() and the operations
    bytes_sent: bytes sent, by Level of the peer
    bytes_received: bytes received, by Level of the peer
    """

    batches: int
    asked: int
    from_node: int
    from_ranks: int
    served: int
    kept: int
    decoded: int
    from_folder: int
    from_store: int
    folder_bytes_read: int
    store_bytes_read: int
    damaged: int
    retried: int
    skipped: int
    seconds_store: float
    seconds_folder: float
    seconds_decode: float
    seconds_waited: float
    bytes_sent: Dict[Level, int]
    bytes_received: Dict[Level, int]

    _c = _abi.weir_sample_cache_statistics
    _kinds = {
        "batches": int, "asked": int, "from_node": int, "from_ranks": int, "served": int, "kept": int, "decoded": int,
        "from_folder": int, "from_store": int, "folder_bytes_read": int, "store_bytes_read": int, "damaged": int, "retried": int,
        "skipped": int, "seconds_store": float, "seconds_folder": float, "seconds_decode": float, "seconds_waited": float,
        "bytes_sent": [Level], "bytes_received": [Level],
    }


@dataclass(repr=False)
class SampleLoaderConfig(Struct):
    """Describes the epochs of a data set. All fields except `progress` must be equal on all ranks.

    batch: number of samples of a rank in a step, at most the cache's `largest_batch`
    seed: seed of all permutations
    exchanged_share: share of a node's samples, from 0 to 1, that go to any node, with the order `node`
    shuffle: order of samples
    progress: whether rank 0 shows the progress of the first epoch
    """

    batch: int = 32
    seed: int = 0
    exchanged_share: float = 0.1
    shuffle: Union[Shuffle, str] = Shuffle.global_
    progress: Union[ProgressDisplay, str] = ProgressDisplay.automatic

    _c = _abi.weir_sample_loader_config
    _kinds = {
        "batch": int, "seed": int, "exchanged_share": float, "shuffle": Shuffle, "progress": ProgressDisplay,
    }
