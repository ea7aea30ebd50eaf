"""Files from which a run goes on."""
from __future__ import annotations

import ctypes
import operator
from typing import Any, List, Optional, Tuple, Union, cast

import numpy as np

from ._arrays import Memory, contiguous_copy, item_bytes, memory_of
from ._keywords import CheckpointKeywords
from ._library import check, lib
from ._object import Object
from ._struct import whole_number
from ._types import ArgumentError, CheckpointConfig, CheckpointStatistics, Distribution, ElementType, Error
from .communicator import Communicator, c_int_of, handle_of
from .embedding import EmbeddingTable
from .fusion import FusedAllreduce
from .operation import Operation
from .optim import LayerOptimizer
from .plan import AllreducePlan
from .schedule import StepSchedule
from .sparse_adam import SparseAdam

Value = Union[int, float, str]
NEWEST = -1  # in place of a step
NO_STEP = -2  # of a call that makes no sense here: all ranks refuse it


def catch_signal(signum: int) -> None:
    """Catches a signal (signal.SIGTERM, signal.SIGUSR1) from now on. The signal no longer ends the process, and Python's own
    handler for it is not called; instead, Checkpoint.stop_requested() says that it has come. ArgumentError for a signal that cannot
    be caught."""
    check(lib.weir_checkpoint_catch_signal(c_int_of("signum", signum)))


def encoded(what: str, text: Any) -> bytes:
    if not isinstance(text, str) or "\0" in text:
        raise ArgumentError(f"{what} is {text!r}: it must be a str without null characters")
    return text.encode()


class Checkpoint(CheckpointKeywords, Object):
    """Checkpoints of one run, in one folder. Its keywords are the fields of CheckpointConfig.

        checkpoint = weir.Checkpoint(comm, folder="checkpoints")
        checkpoint.add("gradient", plan)                        # a plan, a table, fused tensors, an optimizer or a schedule
        checkpoint.add_replicated("weights", weights)           # an array of NumPy, or a tensor of PyTorch on the CPU
        step = checkpoint.restore() or 0                        # from the newest file, whatever number of ranks has written it
        while step < steps:
            if step % 100 == 0:
                checkpoint["epoch"] = epoch                     # an int, a float or a str
                checkpoint.save(step)                           # returns at once; the file is written during the next steps
            ...
            step += 1
        checkpoint.save(step).wait()

    Everything that is added is saved and restored together, under names that are the same on all ranks. Names have letters, digits,
    '_', '-' and '.', and are all different. The checkpoint keeps what is added alive. After a plan, table, FusedAllreduce or
    optimizer is closed, the next save raises StateError.

    A file gets its name, checkpoint-STEP.h5, once all ranks' parts are on the disk. Whatever stops a run, a file of that name is
    whole. Making a checkpoint is collective, and so are save, restore and stop_requested.
    """

    _kind = "checkpoint"
    _functions = "weir_checkpoint_"

    def _make(self, comm: Communicator, config: CheckpointConfig) -> None:
        self._added: List[Any] = []
        self._create(handle_of(comm), config, CheckpointConfig)

    @classmethod
    def from_config(cls, comm: Communicator, config: CheckpointConfig) -> Checkpoint:
        """Collective. Makes a checkpoint from an existing configuration."""
        checkpoint = cls.__new__(cls)
        checkpoint._make(comm, config)
        return checkpoint

    def add(
        self,
        name: str,
        what: Union[AllreducePlan, EmbeddingTable, FusedAllreduce, LayerOptimizer, SparseAdam, StepSchedule],
    ) -> None:
        """Adds an object of the checkpoint's communicator: a plan, a table, a FusedAllreduce between two of its iterations, a
        LayerOptimizer, or a schedule. Also adds a SparseAdam, between two of its steps. Not collective, but all ranks add the same
        objects; save and restore report it if they did not.

        An optimizer is saved as one whole, whether its update is divided or not. Of a weir.torch.LayerOptimizer, the `optimizer` is
        saved; what PyTorch has in param_groups, such as the learning rate, is not. For a schedule, restore checks the blocks."""
        inner = getattr(what, "optimizer", None)  # that of a weir.torch.LayerOptimizer
        if isinstance(inner, LayerOptimizer):
            what = inner
        if isinstance(what, AllreducePlan):
            self._call("add_plan", encoded("name", name), what._handle().pointer)
        elif isinstance(what, EmbeddingTable):
            self._call("add_embedding", encoded("name", name), what._handle().pointer)
        elif isinstance(what, FusedAllreduce):
            self._call("add_fused", encoded("name", name), what._handle().pointer)
        elif isinstance(what, LayerOptimizer):
            self._call("add_optimizer", encoded("name", name), what._handle().pointer)
        elif isinstance(what, SparseAdam):
            self._call("add_sparse_adam", encoded("name", name), what._handle())
        elif isinstance(what, StepSchedule):
            self._call("add_schedule", encoded("name", name), what._handle().pointer)
        else:
            raise self._refusal(
                f"'{name}' is of type {type(what).__name__}: give a plan, a table, a FusedAllreduce, a LayerOptimizer, a SparseAdam or "
                "a schedule; arrays go to add_replicated, add_block or add_local"
            )
        self._added.append(what)

    def add_replicated(self, name: str, array: Any) -> None:
        """Adds an array that is the same on all ranks: saved once, restored on all. It is a NumPy array, a PyTorch tensor on the
        CPU, or anything with DLPack or the buffer protocol, in host memory, contiguous and writable. It is never copied, so restore
        writes into it. float32, float64, int32 and int64 are saved as such, other numbers as their bytes."""
        self._add_array(name, array, Distribution.replicated)

    def add_block(self, name: str, array: Any, first: int, total: int) -> None:
        """Adds this rank's elements, from `first` on, of a whole of `total`. With another number of ranks, each gets the range that
        it asks for."""
        self._add_array(name, array, Distribution.block, first, total)

    def add_local(self, name: str, array: Any) -> None:
        """Adds an array of this rank's own. With another number of ranks, the ranks that existed before get theirs back, and others
        keep what they have."""
        self._add_array(name, array, Distribution.local)

    def _add_array(self, name: str, array: Any, distribution: Distribution, first: int = 0, total: int = 0) -> None:
        encoded_name = encoded("name", name)
        try:
            memory = memory_of(array)
            item = item_bytes(memory)
            check_memory(memory)
            first, total = whole_number("first", first, 64), whole_number("total", total, 64)
        except (TypeError, ValueError) as error:
            text = str(error)
            raise self._refusal(text if text.startswith(("first", "total")) else f"array '{name}' {text}") from None
        if memory.dtype in ElementType.__members__:
            kind, item = ElementType[memory.dtype], 1
        else:
            kind = ElementType.uint8
        arguments = (memory.elements * item, first * item, total * item)
        for what, number in zip(("the number of bytes", "first, in bytes,", "total, in bytes,"), arguments):
            try:
                whole_number(what, number, 64)
            except ValueError as error:
                raise self._refusal(f"array '{name}': {error}") from None
        self._call("add_array", encoded_name, memory.pointer or None, kind, distribution, *arguments)
        self._added.append(memory.owner)

    def __setitem__(self, name: str, value: Value) -> None:
        """Sets a value that is saved with everything. The file gets rank 0's value."""
        key = encoded("the name of a value", name)
        if isinstance(value, str):
            self._call("set_text", key, encoded(f"the value '{name}'", value))
        elif isinstance(value, (float, np.floating)):
            self._call("set_real", key, float(value))
        else:
            try:
                number = whole_number(f"the value '{name}'", operator.index(value), 64)
            except TypeError:
                raise self._refusal(f"the value '{name}' is {value!r}: it must be an int, a float or a str") from None
            except ValueError as error:
                raise self._refusal(str(error)) from None
            self._call("set_integer", key, number)

    def __getitem__(self, name: str) -> Value:
        """Returns a value as set or restored last. Raises KeyError if no value has that name."""
        if not isinstance(name, str):
            raise TypeError(f"the name of a value is {name!r}: it must be a str")
        key = encoded("the name of a value", name)
        kinds: Tuple[Tuple[str, Any], ...] = (
            ("get_integer", ctypes.c_int64()),
            ("get_real", ctypes.c_double()),
            ("get_text", ctypes.c_char_p()),
        )
        for getter, c in kinds:
            try:
                self._call(getter, key, c)
            except ArgumentError:  # of another type, or of none
                continue
            value = c.value
            return value.decode(errors="replace") if isinstance(value, bytes) else cast(Value, value)
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        try:
            self[name]  # type: ignore[index]
        except (KeyError, TypeError):
            return False
        return True

    def save(self, step: int) -> Operation[None]:
        """Collective, nonblocking. Takes a snapshot of everything that was added; the caller may go on with all of it at once. A
        thread of this rank writes the snapshot. Any call of Weir that makes progress advances what ranks must tell each other. The
        caller need not wait, because the next save does. If a rank has not heard that this save failed, the next save fails on all
        ranks.

        `step`, at least 0, names the file; a file of the same step is replaced. Files beyond the `keep` newest are removed. A save
        that fails, for example because the disk is full, raises the same FileError on all ranks. Earlier files stay whole, and the
        run can go on and save again."""
        number, refusal = self._step(step)
        previous = self._handle().runs.get("save")
        if previous is not None and not previous.done:
            try:
                previous.wait()
            except Error as error:  # other ranks may have heard it, and begin
                number, refusal = NO_STEP, error
        run = self._begin(
            "save", lib.weir_checkpoint_save, lib.weir_checkpoint_wait_for, (number,), None, refusal, at_once=True
        )
        return Operation(self, run, lambda: None)

    def restore(self, step: Optional[int] = None) -> Optional[int]:
        """Collective, blocking. Restores everything that was added from the file of `step`, or from the newest file that is whole
        (with `strict`, from the newest). Returns the step of the file; None if the folder has no file. With as many ranks on the
        same nodes as have saved, the run goes on bit for bit as if it had not stopped. Otherwise, what ranks hold is divided anew.

        FileError if the file is damaged, MismatchError if it does not fit, on all ranks; everything is then as it was."""
        number, refusal = (NEWEST, None) if step is None else self._step(step)
        restored = ctypes.c_int64(NEWEST)
        for run in self._handle().in_flight():  # in slices, between which Ctrl-C can come
            try:
                run.wait()
            except Error:  # of a save: other ranks may have heard it
                pass
        try:
            self._call("restore", number, restored)
        except Error as error:
            if refusal is None:
                raise
            raise refusal from error
        return None if restored.value == NEWEST else restored.value

    def _step(self, step: Any) -> Tuple[int, Optional[Exception]]:
        """Returns the step and None; or a step that all ranks refuse, and what is wrong with the given one."""
        try:
            number = whole_number("step", step, 64)
        except (TypeError, ValueError) as error:
            return NO_STEP, self._refusal(str(error))
        return (number, None) if number >= 0 else (NO_STEP, self._refusal(f"step is {number}: it must be at least 0"))

    def steps(self) -> List[int]:
        """Not collective. Returns the steps of the files in the folder, in ascending order."""
        count, room = ctypes.c_int(), 0
        while True:
            steps = (ctypes.c_int64 * max(1, room))()
            try:
                self._call("steps", steps, room, count)
                return list(steps[: count.value])
            except ArgumentError:
                if count.value <= room:
                    raise
                room = count.value  # a save may have added one since

    def stop_requested(self) -> bool:
        """Collective, blocking: takes as long as a barrier. Returns whether any rank has received a signal that catch_signal has
        named, since the process began: then it is time to save and end."""
        stop = ctypes.c_int()
        self._call("stop_requested", stop)
        return bool(stop.value)

    @property
    def statistics(self) -> CheckpointStatistics:
        """What the last save and the last restore did on this rank. Times are in seconds."""
        return self._filled("get_statistics", CheckpointStatistics)

    @property
    def config(self) -> CheckpointConfig:
        """The configuration in force."""
        return self._filled("get_config", CheckpointConfig)

    def close(self) -> None:
        """Not collective. Finishes a save in flight, since the other ranks wait for that, and ends the checkpoint. May be called
        twice. BusyError while another thread is in a call."""
        super().close()
        self._added = []

    def __repr__(self) -> str:
        if self._open_handle is None:
            return f"<weir.Checkpoint '{self._name}', closed>"
        return f"<weir.Checkpoint '{self._name}' in {self.config.folder}>"


def check_memory(memory: Memory) -> None:
    """Raises ValueError if elements cannot be saved and restored in place."""
    if memory.cuda:
        raise ValueError("is in GPU memory: give a copy in host memory, and copy it there before each save and back after restore")
    if not memory.elements:
        return
    if not memory.contiguous:
        raise ValueError(f"is not contiguous: its elements must follow each other in memory, as those of {contiguous_copy(memory)} do")
    if not memory.writable:
        raise ValueError("is read-only: restore writes into it")
