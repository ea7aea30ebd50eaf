import numpy as np
import pytest
from conftest import random_gradient

import weir


def test_blocks(comm):
    with weir.AllreducePlan(comm, count=1000) as one, weir.AllreducePlan(comm, count=1000, algorithm="dense_ring") as two:
        schedule = weir.StepSchedule(comm, ["encoder", "decoder", "softmax"])
        assert [schedule.priority(block) for block in ("encoder", "decoder", "softmax")] == [3, 2, 1]
        assert repr(schedule) == "<weir.StepSchedule of encoder, decoder, softmax>"
        gradients = [random_gradient(comm.rank, 1000, turn) for turn in range(2)]
        schedule.started("decoder", two.start(gradients[1]))
        schedule.started("encoder", one.start(gradients[0]))
        assert schedule.pending("decoder") == 1
        schedule.wait("encoder")
        assert np.count_nonzero(gradients[0]) == 10 and schedule.pending("encoder") == 0
        while not schedule.test("decoder"):
            pass
        schedule.started("softmax", one.start(np.full(1000, np.nan, np.float32)))
        with pytest.raises(weir.NonFiniteError):  # what the run has ended with, once
            schedule.wait("softmax")
        schedule.wait_all()
        schedule.close()
        with pytest.raises(weir.StateError, match="the schedule is closed"):
            schedule.priority("encoder")


def test_bad_input(comm):
    for blocks, text in (
        (["same", "same"], "same"),
        ([1, 2], "the name of a block is 1"),
        (["a\0b"], "null characters"),
        ("ab", "the blocks are 'ab': give a list"),
        (None, "of type NoneType: give a list"),
    ):
        with pytest.raises(weir.ArgumentError, match=text):
            weir.StepSchedule(comm, blocks)
    assert weir.StepSchedule(comm, (name for name in "ab")).test("b")
    schedule = weir.StepSchedule(comm, ["only"])
    for call in (schedule.priority, schedule.test, schedule.wait, schedule.pending):
        for block in ("only\0", None, 5, "other"):
            with pytest.raises(weir.ArgumentError, match="there is no block|only"):
                call(block)
    with pytest.raises(weir.ArgumentError, match="give what a plan's start"):
        schedule.started("only", "run")
