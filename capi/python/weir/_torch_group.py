"""The "weir" backend of torch.distributed: collectives of tensors in host memory, by MPI, and large sums by Weir.

    torch.distributed.init_process_group("weir")                     # PyTorch finds the backend by itself
    torch.distributed.init_process_group("cpu:weir,cuda:nccl")

Needs PyTorch 2.15 or later.
"""
from __future__ import annotations

import ctypes
import datetime
import itertools
import threading
import time
from typing import Any, Callable, List, Optional, Sequence, Tuple, Type

import torch
import torch.distributed as dist

from ._handles import Process
from ._library import check, lib
from ._torch_calls import NUMBERS, OPERATIONS, Calls, Turns, Work
from ._torch_sparse import Sum
from ._torch_start import start_by_store
from ._types import MismatchError, UnsupportedError
from .communicator import initialise

C10D: Any = torch._C._distributed_c10d if dist.is_available() else None
OF_BOOL = {"SUM": 5, "MAX": 5, "BOR": 5, "PRODUCT": 4, "MIN": 4, "BAND": 4, "BXOR": 6}
BY_BYTES = {1: 0, 2: 5, 4: 6, 8: 7, 16: 10}  # codes of types that are only moved


def host(tensor: Any) -> Any:
    """Returns the tensor without its gradient. ValueError if it is not dense and in host memory."""
    if tensor.device.type != "cpu":
        raise ValueError(f"the weir backend takes tensors in host memory: this one is on {tensor.device}; for others, add their "
                         'backend, such as init_process_group("cpu:weir,cuda:nccl")')
    if tensor.layout != torch.strided:
        raise ValueError(f"the weir backend takes dense tensors here: this one has the layout {tensor.layout}")
    return tensor.detach()


def plain(tensor: Any) -> bool:
    """Returns whether memory has the elements one after another, and not what is still to be negated or conjugated."""
    return bool(tensor.is_contiguous() and not tensor.is_neg() and not tensor.is_conj())


def laid_out(tensor: Any) -> Any:
    """Returns the tensor itself if it is plain, else a copy that is."""
    return host(tensor).resolve_conj().resolve_neg().contiguous()


def of_size(tensor: Any, elements: int, like: Any, what: str) -> Any:
    tensor = host(tensor)
    if tensor.numel() != elements or tensor.dtype != like.dtype:
        raise ValueError(f"{what} has {tensor.numel()} elements of {tensor.dtype}: {elements} of {like.dtype} are needed")
    return tensor


def moved(tensor: Any) -> int:
    return BY_BYTES[tensor.element_size()]


def operand(tensor: Any, reduction: Any) -> Tuple[Any, int, int]:
    """Returns what is summed in place of a tensor: contiguous, perhaps of a wider type; and the codes of type and operation."""
    name = getattr(reduction, "op", reduction).name
    dtype = tensor.dtype
    tensor = laid_out(tensor)
    if name not in OPERATIONS:
        raise ValueError(f"the weir backend has no {name}: use {', '.join(OPERATIONS)}")
    if dtype == torch.bool:
        if name not in OF_BOOL:
            raise ValueError(f"{name} of bool makes no sense: use {', '.join(OF_BOOL)}")
        return tensor.view(torch.uint8), 0, OF_BOOL[name]
    if dtype.is_complex:
        if name not in ("SUM", "AVG"):
            raise ValueError(f"{name} of {dtype} makes no sense: use SUM or AVG")
        tensor = torch.view_as_real(tensor)
    elif dtype.is_floating_point:
        if name in ("BAND", "BOR", "BXOR"):
            raise ValueError(f"{name} of {dtype} makes no sense: bitwise operations are for integers and bool")
        if dtype.itemsize < 4:
            tensor = tensor.float()
    return tensor, NUMBERS.index(str(tensor.dtype).partition(".")[2]), OPERATIONS[name]


def settle(buffer: Any, tensor: Any, reduction: Any, ranks: int) -> None:
    """Ends a reduction: divides for AVG, and writes the result into `tensor`, unless it is there."""
    if getattr(reduction, "op", reduction).name == "AVG":
        buffer.div_(ranks, rounding_mode=None if buffer.is_floating_point() else "trunc")
    if buffer.data_ptr() != tensor.data_ptr():
        if tensor.is_complex() and not buffer.is_complex():
            buffer = torch.view_as_complex(buffer)
        tensor.copy_(buffer.view(tensor.dtype) if tensor.dtype == torch.bool else buffer)


def copy_parts(outputs: Sequence[Any], room: Any, counts: Sequence[int]) -> None:
    """Copies what lies one after another in `room`."""
    for output, part in zip(outputs, room.split(counts)):
        output.copy_(part.view(output.shape))


class Backend(C10D.Backend if C10D is not None else object):  # type: ignore[misc]
    """The collectives of one process group. Every function returns a Work."""

    def __init__(self, calls: Calls, store: Any, rank: int, size: int, timeout: datetime.timedelta, options: Any) -> None:
        super().__init__(rank, size)
        self._calls = calls
        self._store = store
        self._options = options or C10D.Backend.Options("weir", timeout=timeout)
        self._me, self._ranks = rank, size
        self._timeout = timeout.total_seconds()
        self._sequence = 0
        self._barriers = 0

    # The properties of the base class would call themselves.
    supports_coalescing = supports_splitting = supports_shrinking = supports_reconfigure = supports_window = False
    _supports_time_estimate = False

    def getBackendName(self) -> str:
        return "weir"

    @property
    def options(self) -> Any:
        return self._options

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        self._timeout = timeout.total_seconds()
        self._options._timeout = timeout

    def _set_sequence_number_for_group(self) -> None:
        self._sequence = 0

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    def shutdown(self) -> None:
        self._calls.close()

    abort = shutdown

    def _work(self, name: str, opts: Any, results: Any, kind: Type[Work] = Work) -> Any:
        seconds = opts.timeout.total_seconds() if opts is not None else -1.0
        self._sequence += 1
        try:
            oldest = list(itertools.islice(Calls.works.values(), 2))  # perhaps nobody waits for them
        except RuntimeError:  # a thread of a group has removed one meanwhile
            oldest = []
        for old in oldest:
            if old._thread == threading.get_ident():  # another thread may still be starting it
                old._settled(0.0)
        work = kind(self._calls, name, seconds if seconds > 0 else self._timeout, results)
        reduction = getattr(opts, "reduceOp", None)
        if reduction is not None:
            work._operation = getattr(reduction, "op", reduction).name
        return work

    def allreduce(self, tensors: Sequence[Any], opts: Any) -> Any:
        if any(tensor.layout == torch.sparse_coo for tensor in tensors):
            if len(tensors) != 1:
                raise ValueError("all_reduce takes one sparse tensor at a time")
            return self.allreduce_sparse(tensors, opts)
        operands = [(host(tensor), *operand(tensor, opts.reduceOp)) for tensor in tensors]
        work = self._work("all_reduce", opts, list(tensors))
        for tensor, buffer, code, operation in operands:
            work._at_end.append(lambda buffer=buffer, tensor=tensor: settle(buffer, tensor, opts.reduceOp, self._ranks))
            work._start("all_reduce", recv=buffer, count=buffer.numel(), type=code, operation=operation)
        return work

    allreduce_coalesced = allreduce

    def allreduce_sparse(self, tensors: Sequence[Any], opts: Any) -> Any:
        (tensor,) = tensors
        if tensor.device.type != "cpu":
            raise ValueError(f"the weir backend takes tensors in host memory: this one is on {tensor.device}")
        if opts.reduceOp.op.name not in ("SUM", "AVG") or tensor.dtype == torch.bool:
            raise ValueError("a sparse tensor can only be reduced with SUM or AVG, and not as bool")
        work = self._work("all_reduce of a sparse tensor", opts, list(tensors), Turns)
        divide = self._ranks if opts.reduceOp.op.name == "AVG" else 1
        return work._begin(Sum(work._start, tensor, self._me, self._ranks, divide).steps())

    def reduce(self, tensors: Sequence[Any], opts: Any) -> Any:
        operands = [(host(tensor), *operand(tensor, opts.reduceOp)) for tensor in tensors]
        work = self._work("reduce", opts, list(tensors))
        for tensor, buffer, code, operation in operands:
            if self._me == opts.rootRank:
                work._at_end.append(lambda buffer=buffer, tensor=tensor: settle(buffer, tensor, opts.reduceOp, self._ranks))
            work._start("reduce", recv=buffer, count=buffer.numel(), type=code, operation=operation, peer=opts.rootRank)
        return work

    def broadcast(self, tensors: Sequence[Any], opts: Any) -> Any:
        buffers = [laid_out(tensor) for tensor in tensors]
        work = self._work("broadcast", opts, list(tensors))
        for tensor, buffer in zip(tensors, buffers):
            if buffer.data_ptr() != tensor.data_ptr() and self._me != opts.rootRank:
                work._at_end.append(lambda buffer=buffer, tensor=tensor: tensor.detach().copy_(buffer))
            work._start("broadcast", recv=buffer, count=buffer.numel(), type=moved(buffer), peer=opts.rootRank)
        return work

    def _gathered(self, work: Work, kind: str, outputs: Sequence[Any], buffer: Any, root: int = 0) -> None:
        """Starts a gather of `buffer` into the tensors `outputs`, one for each rank; none at all where nothing is received."""
        room = buffer.new_empty(len(outputs) * buffer.numel())
        work._at_end.append(lambda: copy_parts(outputs, room, [buffer.numel()] * len(outputs)))
        work._start(kind, send=buffer, recv=room, count=buffer.numel(), type=moved(buffer), peer=root)

    def _outputs(self, outputs: Sequence[Any], tensor: Any, name: str) -> List[Any]:
        if len(outputs) != self._ranks:
            raise ValueError(f"{name}: the list has {len(outputs)} tensors: give one for each of the {self._ranks} ranks")
        return [of_size(output, tensor.numel(), tensor, f"{name}: a tensor of the list") for output in outputs]

    def allgather(self, output_lists: Sequence[Sequence[Any]], inputs: Sequence[Any], opts: Any) -> Any:
        outputs = [self._outputs(output, tensor, "all_gather") for output, tensor in zip(output_lists, inputs)]
        buffers = [laid_out(tensor) for tensor in inputs]
        work = self._work("all_gather", opts, [list(output) for output in output_lists])
        for output, buffer in zip(outputs, buffers):
            self._gathered(work, "all_gather", output, buffer)
        return work

    def allgather_coalesced(self, output_lists: Sequence[Sequence[Any]], inputs: Sequence[Any], opts: Any) -> Any:
        return self.allgather([[output[i] for output in output_lists] for i in range(len(inputs))], inputs, opts)

    def all_gather_single_coalesced(self, outputs: Sequence[Any], inputs: Sequence[Any], opts: Any) -> Any:
        pairs = []
        for output, tensor in zip(outputs, inputs):
            buffer = laid_out(tensor)
            pairs.append((of_size(output, self._ranks * buffer.numel(), buffer, "all_gather_into_tensor: the output"), buffer))
        work = self._work("all_gather_into_tensor", opts, list(outputs))
        for output, buffer in pairs:
            if plain(output):
                work._start("all_gather", send=buffer, recv=output, count=buffer.numel(), type=moved(buffer))
            else:
                self._gathered(work, "all_gather", output.chunk(self._ranks), buffer)
        return work

    def all_gather_single(self, output: Any, tensor: Any, opts: Any) -> Any:
        return self.all_gather_single_coalesced([output], [tensor], opts)

    def gather(self, output_lists: Sequence[Sequence[Any]], inputs: Sequence[Any], opts: Any) -> Any:
        (tensor,) = inputs
        root = self._me == opts.rootRank
        outputs = self._outputs(output_lists[0], tensor, "gather") if root else []
        buffer = laid_out(tensor)
        work = self._work("gather", opts, [list(outputs)])
        self._gathered(work, "gather", outputs, buffer, opts.rootRank)
        return work

    def gather_single(self, output: Any, tensor: Any, opts: Any) -> Any:
        return self.gather([output.chunk(self._ranks)] if self._me == opts.rootRank else [], [tensor], opts)

    def scatter(self, outputs: Sequence[Any], input_lists: Sequence[Sequence[Any]], opts: Any) -> Any:
        (output,) = outputs
        output = host(output)
        root = self._me == opts.rootRank
        parts = self._outputs(input_lists[0], output, "scatter") if root else []
        send = torch.cat([laid_out(part).reshape(-1) for part in parts]) if root else output
        room = laid_out(output)
        work = self._work("scatter", opts, list(outputs))
        work._at_end.append(lambda: settle(room, output, dist.ReduceOp.SUM, 1))
        work._start("scatter", send=send, recv=room, count=room.numel(), type=moved(room), peer=opts.rootRank)
        return work

    def _reduce_scattered(self, name: str, outputs: Sequence[Any], inputs: Sequence[Any], opts: Any) -> Any:
        pairs = []
        for output, tensor in zip(outputs, inputs):
            output = host(output)
            tensor = of_size(tensor, self._ranks * output.numel(), output, f"{name}: the input")
            shared = tensor.untyped_storage().data_ptr() == output.untyped_storage().data_ptr()
            send, code, operation = operand(tensor.clone() if shared else tensor, opts.reduceOp)
            direct = plain(output) and send.dtype == output.dtype
            room = output if direct else send.new_empty(send.numel() // self._ranks)
            pairs.append((output, room, send, code, operation))
        work = self._work(name, opts, list(outputs))
        for output, room, send, code, operation in pairs:
            shaped = room if room is output else room.view([*output.shape, *([2] if output.is_complex() else [])])
            work._at_end.append(lambda out=output, room=shaped: settle(room, out, opts.reduceOp, self._ranks))
            work._start("reduce_scatter", send=send, recv=room, count=room.numel(), type=code, operation=operation)
        return work

    def reduce_scatter(self, outputs: Sequence[Any], input_lists: Sequence[Sequence[Any]], opts: Any) -> Any:
        inputs = [
            torch.cat([laid_out(part).reshape(-1) for part in self._outputs(parts, output, "reduce_scatter")])
            for output, parts in zip(outputs, input_lists)
        ]
        return self._reduce_scattered("reduce_scatter", outputs, inputs, opts)

    def reduce_scatter_single_coalesced(self, outputs: Sequence[Any], inputs: Sequence[Any], opts: Any) -> Any:
        return self._reduce_scattered("reduce_scatter_tensor", outputs, inputs, opts)

    def reduce_scatter_single(self, output: Any, tensor: Any, opts: Any) -> Any:
        return self._reduce_scattered("reduce_scatter_tensor", [output], [tensor], opts)

    def alltoall(self, outputs: Sequence[Any], inputs: Sequence[Any], opts: Any) -> Any:
        if len(outputs) != self._ranks or len(inputs) != self._ranks:
            raise ValueError(f"all_to_all takes {self._ranks} tensors in each list, one for each rank")
        send = torch.cat([laid_out(tensor).reshape(-1) for tensor in inputs])
        counts = [host(output).numel() for output in outputs]
        room = send.new_empty(sum(counts))
        if any(output.dtype != send.dtype for output in outputs):
            raise ValueError("all_to_all: the tensors have different types")
        work = self._work("all_to_all", opts, list(outputs))
        work._at_end.append(lambda: copy_parts([output.detach() for output in outputs], room, counts))
        sizes = [tensor.numel() for tensor in inputs]
        work._start("all_to_all_v", send=send, recv=room, send_counts=sizes, recv_counts=counts, type=moved(send))
        return work

    def _rows(self, tensor: Any, sizes: Sequence[int], what: str) -> List[int]:
        """Returns the number of elements for each rank, of a tensor whose rows are divided by `sizes`, or evenly."""
        rows = tensor.size(0) if tensor.dim() else tensor.numel()
        if not sizes:
            if rows % self._ranks:
                raise RuntimeError(f"all_to_all_single: {self._ranks} ranks cannot share the {rows} rows of the {what} evenly")
            sizes = [rows // self._ranks] * self._ranks
        if len(sizes) != self._ranks or sum(sizes) != rows:
            raise RuntimeError(f"all_to_all_single: the sizes of the {what} are {list(sizes)}: give one for each of {self._ranks} "
                               f"ranks; together they are its {rows} rows")
        return [size * (tensor.numel() // rows if rows else 0) for size in sizes]

    def all_to_all_single(self, output: Any, tensor: Any, output_sizes: List[int], input_sizes: List[int], opts: Any) -> Any:
        send, out = laid_out(tensor), host(output)
        if out.dtype != send.dtype:
            raise ValueError(f"all_to_all_single: the output is of {out.dtype}, the input of {send.dtype}")
        sizes, counts = self._rows(send, input_sizes, "input"), self._rows(out, output_sizes, "output")
        room = laid_out(out)
        work = self._work("all_to_all_single", opts, [output])
        work._at_end.append(lambda: settle(room, out, dist.ReduceOp.SUM, 1))
        work._start("all_to_all_v", send=send, recv=room, send_counts=sizes, recv_counts=counts, type=moved(send))
        return work

    def _one(self, tensors: Sequence[Any], tag: int) -> Any:
        if len(tensors) != 1:
            raise ValueError("send and recv take one tensor")
        if not 0 <= tag < 1 << 24:
            raise ValueError(f"the tag is {tag}: it must be from 0 to {(1 << 24) - 1}")
        return host(tensors[0])

    def send(self, tensors: Sequence[Any], peer: int, tag: int) -> Any:
        buffer = laid_out(self._one(tensors, tag))
        work = self._work("send", None, list(tensors))
        work._start("send", send=buffer, count=buffer.numel(), type=moved(buffer), peer=peer, tag=tag)
        return work

    def recv(self, tensors: Sequence[Any], peer: int, tag: int) -> Any:
        tensor = self._one(tensors, tag)
        room = laid_out(tensor)
        work = self._work("recv", None, list(tensors))
        work._at_end.append(lambda: settle(room, tensor, dist.ReduceOp.SUM, 1))
        work._start("receive", recv=room, count=room.numel(), type=moved(room), peer=peer, tag=tag)
        return work

    def recv_anysource(self, tensors: Sequence[Any], tag: int) -> Any:
        return self.recv(tensors, -1, tag)

    def barrier(self, opts: Any) -> Any:
        work: Work = self._work("barrier", opts, [])
        work._start("barrier")
        return work

    def monitored_barrier(self, opts: Any, wait_all_ranks: bool = False) -> None:
        """Goes through PyTorch's store, so that rank 0 can name the ranks that are late."""
        limit = opts if isinstance(opts, datetime.timedelta) else getattr(opts, "timeout", None)
        if limit is None or limit.total_seconds() < 0:
            limit = datetime.timedelta(seconds=self._timeout)
        if not limit:
            raise RuntimeError(f"Rank {self._me} timed out in monitoredBarrier")
        self._barriers += 1
        key = f"weir/monitored/{self._barriers}"
        if self._me:
            self._store.set(f"{key}/{self._me}", b"")
            try:
                self._store.wait([f"{key}/end"], limit)
                end = self._store.get(f"{key}/end").decode()
            except RuntimeError as error:
                end = str(error)
            if end:
                raise RuntimeError(f"Rank {self._me} successfully reached monitoredBarrier, but received errors while waiting for "
                                   f"send/recv from rank 0. Please check rank 0 logs for faulty rank.\n Original exception: {end}")
            return
        late: List[int] = []
        last = time.monotonic() + limit.total_seconds()
        for rank in range(1, self._ranks):
            rest = max(last - time.monotonic(), 0.001)
            try:
                self._store.wait([f"{key}/{rank}"], datetime.timedelta(seconds=rest))
            except RuntimeError:
                late.append(rank)
                if not wait_all_ranks:
                    break
        which = f"Rank{'s' if wait_all_ranks else ''} {', '.join(map(str, late))}"
        text = f"{which} failed to pass monitoredBarrier in {limit.total_seconds() * 1000:.0f} ms" if late else ""
        self._store.set(f"{key}/end", text.encode())
        if late:
            raise RuntimeError(f"[Rank 0]: {text}")


def delegate(name: str, options: Optional[str]) -> Callable[..., Any]:
    """Returns a function that calls the backend, if its arguments are those that torch.distributed gives."""
    own = getattr(Backend, name)
    theirs = getattr(dist.ProcessGroup, name, None)
    kind = getattr(C10D, options) if options else int

    def call(self: Any, *arguments: Any, **keywords: Any) -> Any:
        given = (*arguments, *keywords.values())
        if theirs is not None and not (given and isinstance(given[-1], kind) and isinstance(given[0], (list, kind, torch.Tensor))):
            return theirs(self, *arguments, **keywords)
        return own(self.backend, *given)

    call.__name__ = name
    return call


class Group(dist.ProcessGroup):  # type: ignore[misc]
    """A process group that has no other backend. PyTorch would wrap the Work of a Backend in one whose is_completed() and
    source_rank() do not work; this hands it out itself."""

    def __init__(self, store: Any, rank: int, size: int, backend: Backend) -> None:
        super().__init__(store, rank, size)
        self.backend = backend
        self._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.CUSTOM, backend)
        self._set_default_backend(dist.ProcessGroup.BackendType.CUSTOM)

    def getBackendName(self) -> str:
        return "weir"

    def shutdown(self) -> None:
        self.backend.shutdown()

    abort = shutdown

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        self.backend.monitored_barrier(timeout, wait_all_ranks)

    def _set_sequence_number_for_group(self) -> None:
        self.backend._set_sequence_number_for_group()

    def _get_sequence_number_for_group(self) -> int:
        return self.backend._get_sequence_number_for_group()


if C10D is not None:
    for _options, _functions in {
        "AllreduceOptions": "allreduce",
        "AllreduceCoalescedOptions": "allreduce_coalesced",
        "ReduceOptions": "reduce",
        "BroadcastOptions": "broadcast",
        "AllgatherOptions": "allgather allgather_coalesced all_gather_single all_gather_single_coalesced",
        "GatherOptions": "gather gather_single",
        "ScatterOptions": "scatter",
        "ReduceScatterOptions": "reduce_scatter reduce_scatter_single reduce_scatter_single_coalesced",
        "AllToAllOptions": "alltoall all_to_all_single",
        "BarrierOptions": "barrier",
        "": "send recv recv_anysource",
    }.items():
        for _function in _functions.split():
            setattr(Group, _function, delegate(_function, _options))


def places(store: Any, rank: int, size: int, members: Sequence[int]) -> List[int]:
    """Returns the places of the group's ranks in MPI_COMM_WORLD. Waits until all have come, as the store's timeout says. MismatchError
    on all of them unless all name the same members."""
    number, ranks = ctypes.c_int32(), ctypes.c_int32()
    check(lib.weir_group_world(number, ranks))
    keys = [f"weir/place/{peer}" for peer in range(size)]
    store.compare_set(keys[rank], "", f"{number.value} {list(members)}")  # another process may take itself for this rank
    found = []
    for some in (keys[:1], keys[1:]):  # of those that are there, before others are waited for
        try:
            cards = store.multi_get(some) if some and store.has_extended_api() else list(map(store.get, some))
        except dist.DistStoreError as error:
            late = [members[peer] if members else peer for peer, key in enumerate(keys) if not store.check([key])]
            raise dist.DistBackendError(f"ranks {late} have not come to make the process group of ranks {list(members)}") from error
        for card in cards:
            place, theirs = card.decode().split(" ", 1)
            if theirs != str(list(members)):
                raise MismatchError(f"ranks disagree about the process group: this one makes it of ranks {list(members)}, rank {place} "
                                    f"of {theirs}")
            found.append(int(place))
    if len(set(found)) != size or max(found) >= ranks.value:
        raise UnsupportedError(
            f"torch.distributed has {size} ranks here, and MPI has started this one as one of {ranks.value}: start all by one mpirun "
            "or torchrun"
        )
    return found


def create(opts: Any, options: Any) -> Any:
    """Makes a process group, or its backend for host memory if it has others. Called by torch.distributed on the group's ranks."""
    store, rank, size = opts.store, opts.group_rank, opts.group_size
    timeout = opts.timeout if isinstance(opts.timeout, datetime.timedelta) else datetime.timedelta(seconds=opts.timeout)
    if Process.number is None:  # nothing of Weir has started MPI yet
        start_by_store(store, rank, size, timeout.total_seconds())
        initialise()
    Process.refuse_forks()
    calls = Calls(places(store, rank, size, opts.global_ranks_in_group), opts.group_id)
    backend = Backend(calls, store, rank, size, timeout, options)
    alone = opts.process_group is None or opts.process_group.name() == "custom"
    return Group(store, rank, size, backend) if alone else backend
