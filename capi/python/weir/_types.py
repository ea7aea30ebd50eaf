"""Enumerations, exceptions, configurations and results.

Made by capi/interface/generate.py from interface.toml and the C headers: change those."""
from __future__ import annotations

import builtins
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Dict, Type, Union

from . import _abi
from ._struct import LayersLike, PartsLike, Struct, TensorsLike, TypeLike, named

if TYPE_CHECKING:
    from .communicator import Communicator
    from .datacache import SampleCache
    from .sources import SampleSource


__all__ = [
    "Status", "Error", "ArgumentError", "MismatchError", "BusyError", "StateError", "NonFiniteError", "TimeoutError",
    "TransportError", "MemoryError", "SettingError", "UnsupportedError", "InternalError", "DeviceError", "FileError", "DataType",
    "MemorySpace", "WireFormat", "WireValues", "Feedback", "NonFinite", "Level", "Optimizer", "Routing", "FusionScheme",
    "OperatorDivision", "OptimizerRule", "SampleErrors", "Shuffle", "ProgressDisplay", "LogLevel", "ElementType", "Distribution",
    "AllreduceConfig", "Statistics", "AlgorithmInfo", "CompressorInfo", "EncodedInfo", "SettingInfo", "EmbeddingConfig",
    "EmbeddingStatistics", "ExchangeInfo", "CheckpointConfig", "CheckpointStatistics", "FusedTensor", "FusionConfig",
    "FusionStatistics", "OperatorPart", "OperatorConfig", "OperatorStatistics", "OptimizedLayer", "OptimizerConfig",
    "OptimizerStatistics", "SparseAdamConfig", "SampleCacheConfig", "SampleCacheStatistics", "SampleLoaderConfig",
]


class Status(IntEnum):
    """What a call of the library ends with."""

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
    """What every call throws: a status, and a text that says what was wrong and what would be right."""

    status: Status = Status.INTERNAL


class ArgumentError(Error, ValueError):
    """An argument is wrong."""

    status = Status.ARGUMENT


class MismatchError(Error):
    """Ranks disagree about a plan."""

    status = Status.MISMATCH


class BusyError(Error):
    """The object is in use."""

    status = Status.BUSY


class StateError(Error):
    """The call does not fit the state of the object."""

    status = Status.STATE


class NonFiniteError(Error):
    """The gradient holds NaN or infinity."""

    status = Status.NON_FINITE


class TimeoutError(Error, builtins.TimeoutError):
    """A peer did not answer in time."""

    status = Status.TIMEOUT


class TransportError(Error):
    """The transport failed."""

    status = Status.TRANSPORT


class MemoryError(Error, builtins.MemoryError):
    """Out of memory."""

    status = Status.MEMORY


class SettingError(Error):
    """A WEIR_* setting has a value that makes no sense."""

    status = Status.SETTING


class UnsupportedError(Error):
    """This build of Weir lacks the feature."""

    status = Status.UNSUPPORTED


class InternalError(Error):
    """An internal assumption of Weir failed."""

    status = Status.INTERNAL


class DeviceError(Error):
    """The GPU or its driver failed."""

    status = Status.DEVICE


class FileError(Error):
    """A file cannot be written or read, or is damaged."""

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
    """Element type of gradients. Of plans, the 16-bit types are for CUDA memory only; residuals, sums and updates are float32 with
    them."""

    float32 = 0
    float64 = 1
    float16 = 2
    bfloat16 = 3


class MemorySpace(IntEnum):
    """Where gradient, residual and update are."""

    host = 0
    cuda = 1


class WireFormat(IntEnum):
    """How indices of sparse vectors travel.

    compact: the smallest of COO, Elias-Fano, bitmap and dense, per message
    coo: 32-bit index and value, always
    """

    compact = 0
    coo = 1


class WireValues(IntEnum):
    """How values of sparse vectors travel. Sums are taken in the plan's type; what rounding loses stays in the residual.

    bfloat16: needs float32
    float16: needs float32
    """

    native = 0
    bfloat16 = 1
    float16 = 2


class Feedback(IntEnum):
    """Error feedback: what a rank remembers of what it did not deliver (GRACE section IV calls it memory).

    none: nothing: what is not delivered is lost
    residual: a residual r: m = decay r + gain g is compressed, and the new r is the part of m that was not delivered (Ok-Topk
        Algorithm 2, GRACE's default)
    ef21: EF21 (Richtarik, Sokolov, Fatkhullin 2021): what is compressed is the gradient minus the sum of what this rank delivered
        before; the update is the sum of all that was delivered. Updates are dense: `run` and `start` only
    automatic: residual; none where the compressor's paper has none (`weir info --compressors` says which), and where the compressor
        must have none
    """

    none = 0
    residual = 1
    ef21 = 2
    automatic = 3


class NonFinite(IntEnum):
    """What happens to an iteration in which any rank's gradient holds NaN or infinity.

    error: NonFiniteError on every rank; gradient untouched, residual as before up to rounding
    skip: the iteration contributes nothing anywhere: the update is zero, the residual as before up to rounding
    propagate: NaN travels. Where entries are chosen by magnitude, it counts as the largest. Packed and linear compressors may
        spread it: qsgd to its whole bucket, power_sgd to the whole update; or hide it: sign_sgd and signum take its sign
    """

    error = 0
    skip = 1
    propagate = 2


class Level(IntEnum):
    """How near two ranks are: the innermost part of the machine that they share. Traffic is counted by these levels.

    self: the rank itself
    l3: one L3 cache
    numa: one NUMA node
    socket: one socket
    node: one node
    switch_group: one switch
    system: nothing nearer
    """

    self = 0
    l3 = 1
    numa = 2
    socket = 3
    node = 4
    switch_group = 5
    system = 6


class Optimizer(IntEnum):
    """Which rows of the batch's gradient change what, with one learning rate l and gradient g of a row. Rows that no rank has
    looked up keep their values and their state.

    sgd: w -= l g
    momentum: v = beta1 v + g;  w -= l v
    adagrad: s += g^2;  w -= l g / (sqrt(s) + epsilon)
    adam: m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;  w -= l m' / (sqrt(v') + epsilon), where m' and v' are
        divided by 1 - beta1^t and 1 - beta2^t; t grows once per update, with its delayed rows (EmbRace section 5.7)
    """

    sgd = 0
    momentum = 1
    adagrad = 2
    adam = 3


class Routing(IntEnum):
    """How messages to the ranks of another node travel.

    automatic: as the cost function says
    direct: each by itself
    by_node: those from one node to another as one: gathered in the node, sent across, scattered
    """

    automatic = 0
    direct = 1
    by_node = 2


class FusionScheme(IntEnum):
    """Which tensors travel together, and what is sparsified: each tensor by itself ("ahead"), or what travels together as one
    ("behind").

    none: every tensor travels alone: wait-free back-propagation
    behind: buffers of a fixed size are fused first and then sparsified, as a compressing hook of PyTorch's DDP does. Small
        gradients may go missing beside large ones
    ahead: SAFusion: each tensor is sparsified by itself; a rank fills buffers of a fixed size with the entries as they come.
        Buffers of different ranks may hold different tensors, so that tensors have arrived only when all buffers have
    ahead_inter: SAFusion-Inter: as `ahead`, and a buffer holds the same tensors on all ranks, whatever their sizes
    ahead_inter_intra: SAFusion-(Inter+Intra): as `ahead_inter`, and the number of tensors in a buffer adapts to measured times
        until its exchange takes as long as the next buffer takes to fill
    omgs: as `ahead_inter`, with buffers merged by the cost functions before the first iteration: two neighbours become one where
        that saves more startup than it makes the first wait (OMGS-SGD, Shi et al. 2020)
    cupcake: as `ahead_inter`, with the division that the cost functions find cheapest of all before the first iteration (Cupcake,
        Wang et al. 2023)
    ahead_fitted: as `ahead_inter_intra`, with the division whose last exchange ends first, by measured times
    ahead_tapered: as `ahead_inter`, and the first and last buffers are small: a sixteenth of the size, then a quarter. The first
        exchange begins early, and little is left to exchange when the last gradient has come
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

    automatic: whichever of the following the cost functions predict to end first
    replicated: none: every rank does all of them
    node: the ranks of each node: every node does all of them, and nothing crosses the network
    all: all ranks
    """

    automatic = 0
    replicated = 1
    node = 2
    all = 3


class OptimizerRule(IntEnum):
    """How a LayerOptimizer steps.

    lars: layer-wise adaptive rate scaling, on momentum SGD (You et al. 2018; CommLib equation 11)
    lamb: layer-wise adaptive moments, on Adam (You et al. 2020, Algorithm 2)
    """

    lars = 0
    lamb = 1


class SampleErrors(IntEnum):
    """What happens to a sample that cannot be read or decoded.

    error: the batch ends in an error on all ranks, which names the sample
    skip: its size is -1 and its value all zeros; it is counted, and tried anew when it is next asked for
    retry: it is read and decoded anew, `retries` times, after longer and longer pauses; then as error
    substitute: its place in the batch takes size and value of the next sample of the batch that could be had, behind the last the
        first; counted and tried anew as with skip. A batch without any is as with skip
    """

    error = 0
    skip = 1
    retry = 2
    substitute = 3


class Shuffle(IntEnum):
    """The order in which an epoch's samples come.

    none: that of the data set
    global_: any permutation, anew in each epoch
    node: each node permutes its own samples anew in each epoch, except `exchanged_share` of them, which go to any node
    """

    none = 0
    global_ = 1
    node = 2


class ProgressDisplay(IntEnum):
    """Whether rank 0 writes to standard error how far the first epoch has got.

    automatic: on a terminal
    on: always
    """

    automatic = 0
    off = 1
    on = 2


class LogLevel(IntEnum):
    """How much it takes to be logged: a message is when its level is at most the one that WEIR_LOG names."""

    error = 0
    warn = 1
    info = 2
    debug = 3


class ElementType(IntEnum):
    """Elements of an array that a checkpoint keeps for its caller.

    uint8: bytes, of whatever else there is
    """

    float32 = 0
    float64 = 1
    int32 = 2
    int64 = 3
    uint8 = 4


class Distribution(IntEnum):
    """How an array that a checkpoint keeps for its caller lies on the ranks, and what happens to it at another number of ranks.

    replicated: the same on all ranks: saved once, delivered to all
    block: ranks hold ranges of one long array, in any division: each gets the range that it asks for
    local: each rank's own: rank r gets that of rank r; where no rank r has saved one, the array stays as it is
    """

    replicated = 0
    block = 1
    local = 2


@dataclass(repr=False)
class AllreduceConfig(Struct):
    """Describes one tensor and how it is reduced. All fields but `name` and `priority` must be equal on all ranks.

    count: n, elements of the gradient; at most 2^48, of sparse algorithms 2^32 - 1
    type: of the gradient's elements
    memory: cuda: gradient, residual and update are on the GPU that is current when the plan is made. Every sparse algorithm runs
        there; dense_nccl, dense_torus2d, dense_iterations and the sums in nodes of hitopk and hi_oktopk need NCCL (without it the
        latter run flat). Where messages go to MPI as GPU memory (`weir info` says so), that GPU must also be current where runs are
        started and waited for.
    density: k / n in (0, 1]; k is rounded to nearest, at least 1 when n > 0. For sparse compressors and shared_random_k; others
        ignore it
    k: entries to deliver, 0 <= k <= n; -1: from `density`. For sparse compressors and shared_random_k; others ignore it
    algorithm: a name from the list of algorithms; "auto": the cheapest on this machine by the cost functions, which may be dense;
        "auto_sparse": the cheapest sparse one
    algorithm_parameters: parameters of the algorithm, by name: "window=8,schedule=direct". Those not named have their defaults;
        `weir info --algorithms` lists them. With `algorithm = auto`, each algorithm takes those that it has
    trial_iterations: with `algorithm = auto`: this many runs of each of up to three candidates, then the fastest by the clock
        stays; 0: the prediction decides; at most 10^6
    compressor: a name from the list of compressors: what travels. Empty: the algorithm's own: top_k for sparse, block_quantise for
        packed, none for dense ones. "none": nothing is compressed; dense algorithms only. Several, joined by |, need `algorithm =
        auto`, which takes the cheapest: "qsgd|top_k|none"
    compressor_parameters: of the compressor, by name: "levels=16,bucket=512". Those not named have their defaults. With several
        compressors, those of each, joined by | in the same order: "levels=16||"; there may be fewer than compressors
    seed: for random compressors; not negative. Their numbers depend on seed, iteration, rank and element only
    error_feedback: what a rank remembers of what it did not deliver. Some compressors must have none, and refuse `residual` and
        `ef21`
    feedback_decay: beta of GRACE section IV: share of the residual that is kept, 0 to 1; must be 1 without a residual
    feedback_gain: gamma of GRACE section IV: gradients are multiplied by it; finite and not 0. Must be 1 with ef21, and where
        nothing is compressed
    average: divide the delivered sum by the number of ranks
    threshold: how a rank selects the entries that it contributes, with top_k and dgc; other compressors ignore it: "exact" or
        "reuse"; the thresholds of papers are "mstopk", "sampled", "gaussian", "sidco" and "redsync". `exact` and `mstopk` select k
        entries, `reuse` 0.8 k to 1.25 k, the others 0.75 k to 1.25 k. What a rank does not select stays in its residual. gaussiank
        has its own threshold
    threshold_parameters: parameters of the threshold, by name: "period=8" of reuse, "samplings=20" of mstopk and redsync. Those not
        named have their defaults
    wire_format: how indices travel, with sparse compressors; others ignore it. With `algorithm = auto` and compact, Weir may also
        choose coo
    wire_values: how values travel, with sparse compressors; others ignore it. bfloat16 and float16 do not take gradients of
        float64. With `algorithm = auto`, Weir may also choose native
    threads: threads of this rank that select, merge and apply, in host memory; may differ between ranks. The result does not depend
        on it. 0: WEIR_THREADS, else the cores that this rank has for itself
    non_finite: what NaN and infinity do
    dense_iterations: the first iterations run dense (the Ok-Topk authors use 512); at most 2^48
    warmup_iterations: after those, density falls exponentially from 25 % to its target (DGC), with sparse compressors; at most 2^48
    priority: larger is more urgent; may differ between ranks
    name: for messages and dumps
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


class PlanKeywords:
    """Made with the fields of AllreduceConfig as keywords."""

    @named
    def __init__(
        self,
        comm: Communicator,
        *,
        count: int,
        type: TypeLike = DataType.float32,
        memory: Union[MemorySpace, str] = MemorySpace.host,
        density: float = 0.01,
        k: int = -1,
        algorithm: str = "oktopk",
        algorithm_parameters: str = "",
        trial_iterations: int = 0,
        compressor: str = "",
        compressor_parameters: str = "",
        seed: int = 1,
        error_feedback: Union[Feedback, str] = Feedback.automatic,
        feedback_decay: float = 1.0,
        feedback_gain: float = 1.0,
        average: bool = True,
        threshold: str = "exact",
        threshold_parameters: str = "",
        wire_format: Union[WireFormat, str] = WireFormat.compact,
        wire_values: Union[WireValues, str] = WireValues.native,
        threads: int = 0,
        non_finite: Union[NonFinite, str] = NonFinite.error,
        dense_iterations: int = 0,
        warmup_iterations: int = 0,
        priority: int = 0,
        name: str = "allreduce",
    ) -> None:
        """Describes one tensor and how it is reduced. All fields but `name` and `priority` must be equal on all ranks.

        Collective. `comm` is a Communicator; the keywords are the fields of AllreduceConfig. An enumeration's value may be given as
        its name. `type` also takes the dtype of an array.

        count: n, elements of the gradient; at most 2^48, of sparse algorithms 2^32 - 1
        type: of the gradient's elements
        memory: cuda: gradient, residual and update are on the GPU that is current when the plan is made. Every sparse algorithm
            runs there; dense_nccl, dense_torus2d, dense_iterations and the sums in nodes of hitopk and hi_oktopk need NCCL (without
            it the latter run flat). Where messages go to MPI as GPU memory (`weir info` says so), that GPU must also be current
            where runs are started and waited for.
        density: k / n in (0, 1]; k is rounded to nearest, at least 1 when n > 0. For sparse compressors and shared_random_k; others
            ignore it
        k: entries to deliver, 0 <= k <= n; -1: from `density`. For sparse compressors and shared_random_k; others ignore it
        algorithm: a name from the list of algorithms; "auto": the cheapest on this machine by the cost functions, which may be
            dense; "auto_sparse": the cheapest sparse one
        algorithm_parameters: parameters of the algorithm, by name: "window=8,schedule=direct". Those not named have their defaults;
            `weir info --algorithms` lists them. With `algorithm = auto`, each algorithm takes those that it has
        trial_iterations: with `algorithm = auto`: this many runs of each of up to three candidates, then the fastest by the clock
            stays; 0: the prediction decides; at most 10^6
        compressor: a name from the list of compressors: what travels. Empty: the algorithm's own: top_k for sparse, block_quantise
            for packed, none for dense ones. "none": nothing is compressed; dense algorithms only. Several, joined by |, need
            `algorithm = auto`, which takes the cheapest: "qsgd|top_k|none"
        compressor_parameters: of the compressor, by name: "levels=16,bucket=512". Those not named have their defaults. With several
            compressors, those of each, joined by | in the same order: "levels=16||"; there may be fewer than compressors
        seed: for random compressors; not negative. Their numbers depend on seed, iteration, rank and element only
        error_feedback: what a rank remembers of what it did not deliver. Some compressors must have none, and refuse `residual` and
            `ef21`
        feedback_decay: beta of GRACE section IV: share of the residual that is kept, 0 to 1; must be 1 without a residual
        feedback_gain: gamma of GRACE section IV: gradients are multiplied by it; finite and not 0. Must be 1 with ef21, and where
            nothing is compressed
        average: divide the delivered sum by the number of ranks
        threshold: how a rank selects the entries that it contributes, with top_k and dgc; other compressors ignore it: "exact" or
            "reuse"; the thresholds of papers are "mstopk", "sampled", "gaussian", "sidco" and "redsync". `exact` and `mstopk`
            select k entries, `reuse` 0.8 k to 1.25 k, the others 0.75 k to 1.25 k. What a rank does not select stays in its
            residual. gaussiank has its own threshold
        threshold_parameters: parameters of the threshold, by name: "period=8" of reuse, "samplings=20" of mstopk and redsync. Those
            not named have their defaults
        wire_format: how indices travel, with sparse compressors; others ignore it. With `algorithm = auto` and compact, Weir may
            also choose coo
        wire_values: how values travel, with sparse compressors; others ignore it. bfloat16 and float16 do not take gradients of
            float64. With `algorithm = auto`, Weir may also choose native
        threads: threads of this rank that select, merge and apply, in host memory; may differ between ranks. The result does not
            depend on it. 0: WEIR_THREADS, else the cores that this rank has for itself
        non_finite: what NaN and infinity do
        dense_iterations: the first iterations run dense (the Ok-Topk authors use 512); at most 2^48
        warmup_iterations: after those, density falls exponentially from 25 % to its target (DGC), with sparse compressors; at most
            2^48
        priority: larger is more urgent; may differ between ranks
        name: for messages and dumps
        """
        self._make(
            comm,
            AllreduceConfig(
                count=count, type=type, memory=memory, density=density, k=k, algorithm=algorithm,
                algorithm_parameters=algorithm_parameters, trial_iterations=trial_iterations, compressor=compressor,
                compressor_parameters=compressor_parameters, seed=seed, error_feedback=error_feedback,
                feedback_decay=feedback_decay, feedback_gain=feedback_gain, average=average, threshold=threshold,
                threshold_parameters=threshold_parameters, wire_format=wire_format, wire_values=wire_values, threads=threads,
                non_finite=non_finite, dense_iterations=dense_iterations, warmup_iterations=warmup_iterations, priority=priority,
                name=name,
            ),
        )

    def _make(self, comm: Communicator, config: AllreduceConfig) -> None:
        raise NotImplementedError


@dataclass(frozen=True, repr=False)
class Statistics(Struct):
    """What one run of a plan did on this rank; times in seconds.

    iteration: runs so far, this one included; density schedules count only those that delivered
    k: target of this iteration; n with dense and packed algorithms
    selected_local: entries this rank contributed; n with dense and packed algorithms
    selected_global: entries of the update; n with dense and packed algorithms
    payload_bytes_sent: values, indices, packed bytes, factors
    control_bytes_sent: sizes, histograms, boundaries
    bytes_sent: by Level of the peer, payload and control. Only Weir's own messages count: not what goes through memory that the
        ranks of a node share, nor what MPI's or NCCL's own collectives send (dense_mpi, dense_nccl).
    bytes_received: by Level of the peer
    messages_sent: by Level of the peer
    messages_received: by Level of the peer
    seconds_select: compensation, local selection, and what a compressor takes to encode
    seconds_in_node: dense reduce-scatter and sparse allgather of algorithms that shard within nodes
    seconds_exchange: from the first message to the last. Includes reductions and what the caller computed meanwhile; not encoding
        and decoding
    seconds_apply: residual update, dense result, and what a compressor takes to decode; in CUDA memory: until they are on the
        stream
    seconds_total: from start to completion, without waiting for the caller to take the result
    seconds_waited: that the caller spent in wait, test or run until this run had finished
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
    """One row of the algorithm registry.

    sparse: delivers k entries; a dense algorithm delivers all
    host_memory: takes gradients in host memory
    cuda_memory: takes gradients in CUDA memory
    packed: carries bytes that compressors make of float32 gradients
    parameters: with their defaults: "window=4"; empty: it has none
    counters: what plans count: "rethresholded,recut"; empty: nothing
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
    """One row of the compressor registry: what AllreduceConfig's `compressor` may name.

    source: the paper
    carriage: what carries it: "sparse": entries, by sparse algorithms; "packed": bytes, by packed ones; "linear": dense values, by
        dense ones
    parameters: all of them with their defaults: "levels=7,bucket=512"; empty: it has none
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
    """What an encoded gradient says of itself.

    version: of the format
    count: elements of the gradient
    entries: elements that it has values for; the others are 0. Packed messages have values for all: `count`
    bytes: header and checksum included
    parameters: of the compressor, all of them: "levels=7,bucket=512"
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
    """One WEIR_* environment variable, its value in force and where that came from."""

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
    """Describes one table of `rows` x `width` float32 values. All fields but `name` and the priorities must be equal on all ranks.

    rows: V, 1 to 2^32 - 1
    width: D, at least 1; needs not be divisible by the number of ranks
    largest_batch: the most ids that a rank looks up at once
    memory: cuda: values, the optimizer's state, vectors and gradients are on the GPU that is current when the table is made. Not
        for dense_allreduce.
    exchange: a name from the list of exchanges: how rows are divided among the ranks and how they travel
    optimizer: how gradients change rows
    learning_rate: finite as float32, which rows are
    beta1: of momentum and Adam
    beta2: of Adam
    epsilon: of Adagrad and Adam, which need it positive
    average: gradients are divided by the number of ranks
    wire_values: how vectors and gradients travel (dense_allreduce: float32); sums are float32
    routing: how messages to the ranks of another node travel
    seed: of the initial values, which depend on nothing else but row, column and `initial_range`
    initial_range: they are uniform in [-initial_range, initial_range); finite as float32
    priority: of ids, vectors, and gradients of rows that the next batch needs
    delayed_priority: of the other gradients
    name: for messages and dumps
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


class TableKeywords:
    """Made with the fields of EmbeddingConfig as keywords."""

    @named
    def __init__(
        self,
        comm: Communicator,
        *,
        rows: int = 0,
        width: int = 0,
        largest_batch: int = 0,
        memory: Union[MemorySpace, str] = MemorySpace.host,
        exchange: str = "columns",
        optimizer: Union[Optimizer, str] = Optimizer.sgd,
        learning_rate: float = 0.01,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-08,
        average: bool = True,
        wire_values: Union[WireValues, str] = WireValues.native,
        routing: Union[Routing, str] = Routing.automatic,
        seed: int = 1,
        initial_range: float = 0.05,
        priority: int = 1000000,
        delayed_priority: int = -1000000,
        name: str = "embedding",
    ) -> None:
        """Describes one table of `rows` x `width` float32 values. All fields but `name` and the priorities must be equal on all
        ranks.

        Collective. `comm` is a Communicator; the keywords are the fields of EmbeddingConfig. An enumeration's value may be given as
        its name.

        rows: V, 1 to 2^32 - 1
        width: D, at least 1; needs not be divisible by the number of ranks
        largest_batch: the most ids that a rank looks up at once
        memory: cuda: values, the optimizer's state, vectors and gradients are on the GPU that is current when the table is made.
            Not for dense_allreduce.
        exchange: a name from the list of exchanges: how rows are divided among the ranks and how they travel
        optimizer: how gradients change rows
        learning_rate: finite as float32, which rows are
        beta1: of momentum and Adam
        beta2: of Adam
        epsilon: of Adagrad and Adam, which need it positive
        average: gradients are divided by the number of ranks
        wire_values: how vectors and gradients travel (dense_allreduce: float32); sums are float32
        routing: how messages to the ranks of another node travel
        seed: of the initial values, which depend on nothing else but row, column and `initial_range`
        initial_range: they are uniform in [-initial_range, initial_range); finite as float32
        priority: of ids, vectors, and gradients of rows that the next batch needs
        delayed_priority: of the other gradients
        name: for messages and dumps
        """
        self._make(
            comm,
            EmbeddingConfig(
                rows=rows, width=width, largest_batch=largest_batch, memory=memory, exchange=exchange, optimizer=optimizer,
                learning_rate=learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon, average=average, wire_values=wire_values,
                routing=routing, seed=seed, initial_range=initial_range, priority=priority, delayed_priority=delayed_priority,
                name=name,
            ),
        )

    def _make(self, comm: Communicator, config: EmbeddingConfig) -> None:
        raise NotImplementedError


@dataclass(frozen=True, repr=False)
class EmbeddingStatistics(Struct):
    """What the last lookup and the last update of this rank did; times in seconds, in CUDA memory until the work is on its stream.
    Rows of the update are known once update() has returned; which of them are prior, once the operation has got so far.

    tokens: ids of the batch
    distinct_rows: of the batch: vectors received, and gradients sent
    prior_rows: of the update: those that the next batch of any rank needs; all when it is not known
    updated_rows: rows (or, partitioned by columns, parts of rows) that this rank's optimizer stepped
    prefetched: the lookup's ids were known before
    by_node: Routing.by_node is in force
    id_bytes_sent: of the batch: ids, by lookup, or by the prefetch that it used
    lookup_bytes_sent: vectors
    gradient_bytes_sent: gradients of rows
    control_bytes_sent: everything else of lookup, its prefetch and update
    bytes_sent: all of these by Level of the peer
    seconds_lookup: from start to completion
    seconds_coalesce: summing gradients of equal ids, before update() returns
    seconds_prior: from update() until the prior rows were applied
    seconds_update: from update() until all rows were applied
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
    """One way to divide and exchange a table."""

    name: str
    description: str

    _c = _abi.weir_exchange_info
    _kinds = {
        "name": str, "description": str,
    }


@dataclass(repr=False)
class CheckpointConfig(Struct):
    """Describes where checkpoints go. All fields but `name` must be equal on all ranks.

    folder: where files go: one that all ranks see. Made if its parent is there
    run: of what training run they are, in its own words. A folder with files of another run is refused; empty: of any
    keep: so many of the newest files stay
    compression: of large arrays: 0: none; 1 to 9: deflate, faster or smaller, of bytes shuffled by their place in an element
    strict: restore() throws where the newest file is damaged; else it warns, and takes the newest one that is whole
    name: for messages and dumps
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


class CheckpointKeywords:
    """Made with the fields of CheckpointConfig as keywords."""

    @named
    def __init__(
        self,
        comm: Communicator,
        *,
        folder: str,
        run: str = "",
        keep: int = 2,
        compression: int = 0,
        strict: bool = False,
        name: str = "checkpoint",
    ) -> None:
        """Describes where checkpoints go. All fields but `name` must be equal on all ranks.

        Collective. `comm` is a Communicator; the keywords are the fields of CheckpointConfig.

        folder: where files go: one that all ranks see. Made if its parent is there
        run: of what training run they are, in its own words. A folder with files of another run is refused; empty: of any
        keep: so many of the newest files stay
        compression: of large arrays: 0: none; 1 to 9: deflate, faster or smaller, of bytes shuffled by their place in an element
        strict: restore() throws where the newest file is damaged; else it warns, and takes the newest one that is whole
        name: for messages and dumps
        """
        self._make(
            comm,
            CheckpointConfig(
                folder=folder, run=run, keep=keep, compression=compression, strict=strict, name=name,
            ),
        )

    def _make(self, comm: Communicator, config: CheckpointConfig) -> None:
        raise NotImplementedError


@dataclass(frozen=True, repr=False)
class CheckpointStatistics(Struct):
    """What the last save and the last restore of this rank did; times in seconds.

    step: saved or restored last; -1: none yet
    ranks: that had saved what was restored last
    snapshot_bytes: memory of the snapshot on this rank, kept from one save to the next
    bytes_written: to the file by this rank
    bytes_read: from the file by this rank
    seconds_snapshot: until save() returned
    seconds_save: from save() until the file was in its place
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
    """One tensor of a model. Equal on all ranks.

    name: for messages and checkpoints; no two tensors have the same
    count: elements of its gradient; at most 2^32 - 1, with `dense` 2^48
    density: k / count in (0, 1]; 0: that of the FusionConfig
    k: entries that each rank selects, 0 <= k <= count; -1: from the density, at least 1 when count > 0
    dense: travels whole: biases, norms. It rides along with the tensors of its buffer
    optional: may be left out of an iteration by some ranks or all: it contributes nothing there, and its residual stays
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
    """Describes how the gradients of a model are fused and reduced. All fields but `name` and `priority` must be equal on all
    ranks.

    scheme: which tensors travel together, and what is sparsified
    buffer_bytes: size of a buffer, as bytes of gradients: with `behind` a buffer takes so many; with `ahead`, `ahead_inter` and
        `ahead_tapered` as many entries as the density selects of so many. `ahead_inter_intra` and `ahead_fitted` begin with it, and
        the former takes no larger ones; the others ignore it
    type: of the gradients' elements: float32 or float64, in host memory
    density: k / count in (0, 1] of tensors that say nothing else
    algorithm: a sparse one from the list of algorithms: it exchanges the entries of a buffer. Those that shard within nodes run
        flat. gtopk, oktopk and hi_oktopk deliver the largest entries of a buffer, so that tensors may go missing again; the others
        deliver all that ranks have selected. "auto", "auto_sparse": topk_allgather or topk_dsa, whichever is predicted to be
        cheaper
    algorithm_parameters: parameters of the algorithm, as in AllreduceConfig
    threshold: how entries are selected, as in AllreduceConfig
    threshold_parameters: parameters of the threshold, as in AllreduceConfig
    error_feedback: residual or none; automatic is residual
    average: divide the delivered sum by the number of ranks
    wire_format: how indices travel
    wire_values: how values travel; bfloat16 and float16 need float32. Dense tensors travel as they are
    non_finite: what NaN and infinity do to the buffer of their tensor; other buffers are delivered
    priority: of the buffer with the last tensor of the forward pass; the earlier a buffer is needed, the higher its own. May differ
        between ranks
    name: for messages and dumps
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


class FusionKeywords:
    """Made with the fields of FusionConfig as keywords."""

    @named
    def __init__(
        self,
        comm: Communicator,
        tensors: TensorsLike,
        *,
        scheme: Union[FusionScheme, str] = FusionScheme.ahead_tapered,
        buffer_bytes: int = 26214400,
        type: TypeLike = DataType.float32,
        density: float = 0.01,
        algorithm: str = "auto",
        algorithm_parameters: str = "",
        threshold: str = "exact",
        threshold_parameters: str = "",
        error_feedback: Union[Feedback, str] = Feedback.automatic,
        average: bool = True,
        wire_format: Union[WireFormat, str] = WireFormat.compact,
        wire_values: Union[WireValues, str] = WireValues.native,
        non_finite: Union[NonFinite, str] = NonFinite.error,
        priority: int = 0,
        name: str = "fused",
    ) -> None:
        """Describes how the gradients of a model are fused and reduced. All fields but `name` and `priority` must be equal on all
        ranks.

        Collective. `comm` is a Communicator; the keywords are the fields of FusionConfig. An enumeration's value may be given as
        its name. `type` also takes the dtype of an array.

        scheme: which tensors travel together, and what is sparsified
        buffer_bytes: size of a buffer, as bytes of gradients: with `behind` a buffer takes so many; with `ahead`, `ahead_inter` and
            `ahead_tapered` as many entries as the density selects of so many. `ahead_inter_intra` and `ahead_fitted` begin with it,
            and the former takes no larger ones; the others ignore it
        type: of the gradients' elements: float32 or float64, in host memory
        density: k / count in (0, 1] of tensors that say nothing else
        algorithm: a sparse one from the list of algorithms: it exchanges the entries of a buffer. Those that shard within nodes run
            flat. gtopk, oktopk and hi_oktopk deliver the largest entries of a buffer, so that tensors may go missing again; the
            others deliver all that ranks have selected. "auto", "auto_sparse": topk_allgather or topk_dsa, whichever is predicted
            to be cheaper
        algorithm_parameters: parameters of the algorithm, as in AllreduceConfig
        threshold: how entries are selected, as in AllreduceConfig
        threshold_parameters: parameters of the threshold, as in AllreduceConfig
        error_feedback: residual or none; automatic is residual
        average: divide the delivered sum by the number of ranks
        wire_format: how indices travel
        wire_values: how values travel; bfloat16 and float16 need float32. Dense tensors travel as they are
        non_finite: what NaN and infinity do to the buffer of their tensor; other buffers are delivered
        priority: of the buffer with the last tensor of the forward pass; the earlier a buffer is needed, the higher its own. May
            differ between ranks
        name: for messages and dumps
        """
        self._make(
            comm,
            FusionConfig(
                scheme=scheme, buffer_bytes=buffer_bytes, type=type, density=density, algorithm=algorithm,
                algorithm_parameters=algorithm_parameters, threshold=threshold, threshold_parameters=threshold_parameters,
                error_feedback=error_feedback, average=average, wire_format=wire_format, wire_values=wire_values,
                non_finite=non_finite, priority=priority, name=name,
            ),
            tensors,
        )

    def _make(self, comm: Communicator, config: FusionConfig, tensors: TensorsLike) -> None:
        raise NotImplementedError


@dataclass(frozen=True, repr=False)
class FusionStatistics(Struct):
    """What one iteration of a FusedAllreduce did on this rank, up to wait_all(); times in seconds.

    iteration: iterations so far, this one included
    exchanges: buffers that were exchanged: communication startups
    tensors_skipped: optional tensors that this rank skipped or left out
    tensors_missing: tensors with k above 0 of which no entry was delivered, those that all skipped, too; the same on all ranks
    buffers_skipped: NonFinite.skip took effect on so many
    selected_local: entries this rank contributed, dense tensors aside
    selected_global: entries of the updates, dense tensors aside; of `ahead`, by buffer
    payload_bytes_sent: values, indices
    control_bytes_sent: sizes, histograms, boundaries, agreement
    bytes_sent: by Level of the peer, payload and control
    bytes_received: by Level of the peer
    messages_sent: by Level of the peer
    messages_received: by Level of the peer
    seconds_select: compensation and selection, in ready()
    seconds_exchange: while at least one exchange was in flight
    seconds_backward: from the first ready() to the end of the last
    seconds_waited: that the caller spent in wait(), test() and wait_all(): communication that nothing overlapped
    seconds_total: from the first ready() to the end of the last exchange
    regroupings: times that buffers were divided anew, so far (ahead_inter_intra, ahead_fitted)
    settled: they will not be again
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
    """One part of a work that every rank would otherwise do whole. Equal on all ranks.

    seconds: that one rank takes for it, as far as one knows: work is divided by these, at least 0
    result_bytes: of its result; with `variable`, at most
    """

    seconds: float = 0.0
    result_bytes: int = 0

    _c = _abi.weir_operator_part
    _kinds = {
        "seconds": float, "result_bytes": int,
    }


@dataclass(repr=False)
class OperatorConfig(Struct):
    """Describes work that is divided among ranks. All fields but `name` and `priority` must be equal on all ranks.

    division: which ranks share the parts
    variable: results may be shorter than described, anew in each run: their sizes are gathered first
    priority: of gathering: higher makes progress first. May differ between ranks
    name: for messages and dumps
    """

    division: Union[OperatorDivision, str] = OperatorDivision.automatic
    variable: bool = False
    priority: int = 0
    name: str = "operator"

    _c = _abi.weir_operator_config
    _kinds = {
        "division": OperatorDivision, "variable": bool, "priority": int, "name": str,
    }


class OperatorKeywords:
    """Made with the fields of OperatorConfig as keywords."""

    @named
    def __init__(
        self,
        comm: Communicator,
        parts: PartsLike,
        *,
        division: Union[OperatorDivision, str] = OperatorDivision.automatic,
        variable: bool = False,
        priority: int = 0,
        name: str = "operator",
    ) -> None:
        """Describes work that is divided among ranks. All fields but `name` and `priority` must be equal on all ranks.

        Collective. `comm` is a Communicator; the keywords are the fields of OperatorConfig. An enumeration's value may be given as
        its name.

        division: which ranks share the parts
        variable: results may be shorter than described, anew in each run: their sizes are gathered first
        priority: of gathering: higher makes progress first. May differ between ranks
        name: for messages and dumps
        """
        self._make(
            comm,
            OperatorConfig(
                division=division, variable=variable, priority=priority, name=name,
            ),
            parts,
        )

    def _make(self, comm: Communicator, config: OperatorConfig, parts: PartsLike) -> None:
        raise NotImplementedError


@dataclass(frozen=True, repr=False)
class OperatorStatistics(Struct):
    """What the last run of a parallel operator did on this rank; times in seconds.

    runs: so far, those included that ended in an error
    seconds_work: in the body
    seconds_gather: agreeing and gathering, waiting for slower ranks included
    bytes_sent: by Level of the peer
    bytes_received: by Level of the peer
    messages_sent: by Level of the peer
    messages_received: by Level of the peer
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
    """Weights with a learning rate of their own. Equal on all ranks.

    name: for messages and checkpoints, without '/' and control characters; no two layers have the same
    count: elements
    excluded: biases, norms: no weight decay, and the learning rate as it is
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
    """Describes how the layers of a model step. All fields but `name` and `priority` must be equal on all ranks.

    rule: how layers step
    momentum: of lars, from 0 to below 1
    weight_decay: at least 0
    trust_coefficient: gamma of lars (CommLib equation 11), above 0
    largest_rate: no layer's step is more than so many times the learning rate; 0: no limit
    beta1: of lamb, from 0 to below 1
    beta2: of lamb, from 0 to below 1
    epsilon: of lamb, above 0
    norms: which ranks share the norms; with lamb, as `update`
    update: which ranks share the update, and momentum: each keeps that of its part, and weights are gathered (ZeRO stage 1)
    type: of weights and gradients: float32, float16 or bfloat16. Momentum and moments are float32; beside 16-bit weights, so are
        weights of the optimizer's own
    memory: cuda: weights, gradients, momentum and moments are on the GPU that is current when the optimizer is made
    priority: of gathering. May differ between ranks
    name: for messages and checkpoints
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


class OptimizerKeywords:
    """Made with the fields of OptimizerConfig as keywords."""

    @named
    def __init__(
        self,
        comm: Communicator,
        layers: LayersLike,
        *,
        rule: Union[OptimizerRule, str] = OptimizerRule.lars,
        momentum: float = 0.9,
        weight_decay: float = 0.0001,
        trust_coefficient: float = 0.001,
        largest_rate: float = 0.0,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-06,
        norms: Union[OperatorDivision, str] = OperatorDivision.automatic,
        update: Union[OperatorDivision, str] = OperatorDivision.automatic,
        type: TypeLike = DataType.float32,
        memory: Union[MemorySpace, str] = MemorySpace.host,
        priority: int = 0,
        name: str = "optimizer",
    ) -> None:
        """Describes how the layers of a model step. All fields but `name` and `priority` must be equal on all ranks.

        Collective. `comm` is a Communicator; the keywords are the fields of OptimizerConfig. An enumeration's value may be given as
        its name. `type` also takes the dtype of an array.

        rule: how layers step
        momentum: of lars, from 0 to below 1
        weight_decay: at least 0
        trust_coefficient: gamma of lars (CommLib equation 11), above 0
        largest_rate: no layer's step is more than so many times the learning rate; 0: no limit
        beta1: of lamb, from 0 to below 1
        beta2: of lamb, from 0 to below 1
        epsilon: of lamb, above 0
        norms: which ranks share the norms; with lamb, as `update`
        update: which ranks share the update, and momentum: each keeps that of its part, and weights are gathered (ZeRO stage 1)
        type: of weights and gradients: float32, float16 or bfloat16. Momentum and moments are float32; beside 16-bit weights, so
            are weights of the optimizer's own
        memory: cuda: weights, gradients, momentum and moments are on the GPU that is current when the optimizer is made
        priority: of gathering. May differ between ranks
        name: for messages and checkpoints
        """
        self._make(
            comm,
            OptimizerConfig(
                rule=rule, momentum=momentum, weight_decay=weight_decay, trust_coefficient=trust_coefficient,
                largest_rate=largest_rate, beta1=beta1, beta2=beta2, epsilon=epsilon, norms=norms, update=update, type=type,
                memory=memory, priority=priority, name=name,
            ),
            layers,
        )

    def _make(self, comm: Communicator, config: OptimizerConfig, layers: LayersLike) -> None:
        raise NotImplementedError


@dataclass(frozen=True, repr=False)
class OptimizerStatistics(Struct):
    """What the last step of a LayerOptimizer did on this rank; times in seconds.

    steps: so far
    seconds_norms: for norms, those of other ranks not counted
    seconds_update: stepping weights
    seconds_gather: agreeing and gathering, waiting for slower ranks included
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
    """Describes Adam for sparse updates. Equal on all ranks, if their weights are to stay equal.

    count: weights
    beta1: from 0 to below 1
    beta2: from 0 to below 1
    epsilon: above 0
    exact: weights also move while no update touches them, as in dense Adam; a step then takes time in proportion to `count`
    name: for messages and checkpoints
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


class SparseAdamKeywords:
    """Made with the fields of SparseAdamConfig as keywords."""

    @named
    def __init__(
        self,
        *,
        count: int,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-08,
        exact: bool = False,
        name: str = "sparse_adam",
    ) -> None:
        """Describes Adam for sparse updates. Equal on all ranks, if their weights are to stay equal.

        The keywords are the fields of SparseAdamConfig.

        count: weights
        beta1: from 0 to below 1
        beta2: from 0 to below 1
        epsilon: above 0
        exact: weights also move while no update touches them, as in dense Adam; a step then takes time in proportion to `count`
        name: for messages and checkpoints
        """
        self._make(
            SparseAdamConfig(
                count=count, beta1=beta1, beta2=beta2, epsilon=epsilon, exact=exact, name=name,
            ),
        )

    def _make(self, config: SparseAdamConfig) -> None:
        raise NotImplementedError


@dataclass(repr=False)
class SampleCacheConfig(Struct):
    """Describes where samples are kept. All fields but `folder`, `folder_bytes`, `threads` and `priority` must be equal on all
    ranks.

    folder: level 1: a folder in the node's own storage, which runs and data sets share. Made if its parent is there. Empty: none
    folder_bytes: limit of the folder: what was used least recently goes first; 0: none
    memory_bytes: limit of level 2 on each node; 0: nothing stays in memory; -1: half of what the smallest node has available, or
        what the samples take
    largest_batch: samples that a rank asks for at once
    in_flight: batches asked for at once
    pack_samples: samples that are read from the store together, and are a file of level 1
    threads: of this rank, which read and decode
    on_error: what happens to a sample that cannot be read or decoded
    retries: with `retry`: after 0.1 s, 0.2 s, 0.4 s, ..., at most 10 s each
    priority: of messages: below the 0 of plans. May differ between ranks
    name: of the data set: its folder within level 1, 1 to 64 letters, digits, '_', '-' and '.', the first no '.'
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


class CacheKeywords:
    """Made with the fields of SampleCacheConfig as keywords."""

    @named
    def __init__(
        self,
        comm: Communicator,
        source: SampleSource,
        *,
        folder: str = "",
        folder_bytes: int = 0,
        memory_bytes: int = -1,
        largest_batch: int = 256,
        in_flight: int = 2,
        pack_samples: int = 64,
        threads: int = 1,
        on_error: Union[SampleErrors, str] = SampleErrors.error,
        retries: int = 3,
        priority: int = -1,
        name: str = "samples",
    ) -> None:
        """Describes where samples are kept. All fields but `folder`, `folder_bytes`, `threads` and `priority` must be equal on all
        ranks.

        Collective. `comm` is a Communicator; the keywords are the fields of SampleCacheConfig. An enumeration's value may be given
        as its name.

        folder: level 1: a folder in the node's own storage, which runs and data sets share. Made if its parent is there. Empty:
            none
        folder_bytes: limit of the folder: what was used least recently goes first; 0: none
        memory_bytes: limit of level 2 on each node; 0: nothing stays in memory; -1: half of what the smallest node has available,
            or what the samples take
        largest_batch: samples that a rank asks for at once
        in_flight: batches asked for at once
        pack_samples: samples that are read from the store together, and are a file of level 1
        threads: of this rank, which read and decode
        on_error: what happens to a sample that cannot be read or decoded
        retries: with `retry`: after 0.1 s, 0.2 s, 0.4 s, ..., at most 10 s each
        priority: of messages: below the 0 of plans. May differ between ranks
        name: of the data set: its folder within level 1, 1 to 64 letters, digits, '_', '-' and '.', the first no '.'
        """
        self._make(
            comm,
            SampleCacheConfig(
                folder=folder, folder_bytes=folder_bytes, memory_bytes=memory_bytes, largest_batch=largest_batch,
                in_flight=in_flight, pack_samples=pack_samples, threads=threads, on_error=on_error, retries=retries,
                priority=priority, name=name,
            ),
            source,
        )

    def _make(self, comm: Communicator, config: SampleCacheConfig, source: SampleSource) -> None:
        raise NotImplementedError


@dataclass(frozen=True, repr=False)
class SampleCacheStatistics(Struct):
    """What a sample cache has done on this rank so far; times in seconds, of all threads together.

    batches: that have ended
    asked: samples that this rank has asked for; those that neither of the following counts it has read itself
    from_node: of these: read from memory of this node
    from_ranks: of these: received from their owners
    served: samples that this rank has sent to others
    kept: samples of this rank's part that are in memory now
    decoded: samples, each time
    from_folder: samples that level 1 had
    from_store: samples that were read from the store
    folder_bytes_read: from level 1
    store_bytes_read: from the store
    damaged: samples of level 1 whose checksum was wrong: read from the store anew
    retried: times that a sample was tried again
    skipped: samples that this rank has asked for and not got
    seconds_store: reading from the store
    seconds_folder: reading and writing level 1
    seconds_decode: decoding
    seconds_waited: by the caller, in get(), next() and the operations
    bytes_sent: by Level of the peer
    bytes_received: by Level of the peer
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
    """Describes the epochs of a data set. All fields but `progress` must be equal on all ranks.

    batch: samples of a rank in a step, at most the cache's `largest_batch`
    seed: of all permutations
    exchanged_share: with `node`: of a node's samples, those that go to any node, from 0 to 1
    shuffle: the order of samples
    progress: whether the first epoch's progress is shown
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


class LoaderKeywords:
    """Made with the fields of SampleLoaderConfig as keywords."""

    @named
    def __init__(
        self,
        cache: SampleCache,
        *,
        batch: int = 32,
        seed: int = 0,
        exchanged_share: float = 0.1,
        shuffle: Union[Shuffle, str] = Shuffle.global_,
        progress: Union[ProgressDisplay, str] = ProgressDisplay.automatic,
    ) -> None:
        """Describes the epochs of a data set. All fields but `progress` must be equal on all ranks.

        Collective. `cache` is a SampleCache; the keywords are the fields of SampleLoaderConfig. An enumeration's value may be given
        as its name.

        batch: samples of a rank in a step, at most the cache's `largest_batch`
        seed: of all permutations
        exchanged_share: with `node`: of a node's samples, those that go to any node, from 0 to 1
        shuffle: the order of samples
        progress: whether the first epoch's progress is shown
        """
        self._make(
            cache,
            SampleLoaderConfig(
                batch=batch, seed=seed, exchanged_share=exchanged_share, shuffle=shuffle, progress=progress,
            ),
        )

    def _make(self, cache: SampleCache, config: SampleLoaderConfig) -> None:
        raise NotImplementedError
