"""Common properties of all objects: configurations, keywords, states, their end, and Ctrl-C during construction."""
import copy
import pickle

import pytest
from conftest import is_last, of_last, refused

import weir
from weir import _object


class Numbers(weir.SampleSource):
    def __init__(self):
        super().__init__(size=8, value_bytes=1, identity="numbers")

    def read(self, first, count):
        return [bytes([i]) for i in range(first, first + count)]


# The class, what it is made from besides the communicator, its keywords, a keyword that makes no sense, and a misspelt one.
KINDS = {
    "plan": (weir.AllreducePlan, (), {"count": 100}, {"density": 2}, "desnity"),
    "table": (weir.EmbeddingTable, (), {"rows": 10, "width": 2, "largest_batch": 4}, {"width": 0}, "widht"),
    "fused": (weir.FusedAllreduce, ({"a": 100},), {}, {"scheme": "no"}, "schema"),
    "operator": (weir.ParallelOperator, ([(1, 8)],), {}, {"division": "no"}, "divison"),
    "optimizer": (weir.LayerOptimizer, ({"a": 100},), {}, {"momentum": 2}, "momentun"),
    "cache": (weir.SampleCache, (Numbers(),), {}, {"largest_batch": 0}, "largest_bach"),
}


def make(comm, kind, **keywords):
    cls, more, usual, _, _ = KINDS[kind]
    return cls(comm, *more, **{**usual, **keywords})


@pytest.mark.parametrize("kind", KINDS)
def test_what_it_says_of_itself(comm, kind):
    cls, more = KINDS[kind][:2]
    with make(comm, kind, name="mine") as made:
        config = made.config
        assert repr(made).startswith(f"<weir.{cls.__name__} 'mine': ") and config.name == "mine" and made.memory_bytes >= 0
        assert kind == "table" or repr(made.explanation()) == str(made.explanation()) != ""
        with cls.from_config(comm, config, *more) as again:
            assert again.config == config
        for copier in (copy.copy, copy.deepcopy, pickle.dumps):
            for one in (made, comm):
                with pytest.raises(TypeError, match="cannot be copied or pickled"):
                    copier(one)
    made.close()
    assert repr(made) == f"<weir.{cls.__name__} 'mine', closed>"
    with pytest.raises(weir.StateError, match=f"{kind} 'mine' is closed"):
        made.config
    with refused(comm, f"NoneType: give a weir.{type(config).__name__}"):
        cls.from_config(comm, of_last(comm, None, config), *more)


@pytest.mark.parametrize("kind", KINDS)
def test_bad_keywords_of_one_rank(comm, kind):
    """All ranks get the error."""
    cls, more, usual, wrong, misspelt = KINDS[kind]
    unknown = rf"{cls.__name__}\(\) has no keyword '{misspelt}': did you mean"
    for keywords, text in ((wrong, f"{next(iter(wrong))} is "), ({misspelt: 1}, unknown), ({"name": 5}, "name is 5")):
        with pytest.raises((TypeError, weir.ArgumentError), match=text) as caught:
            make(comm, kind, **of_last(comm, keywords, {}))
        assert is_last(comm) or f"rank {comm.size - 1}: " in str(caught.value)
    with pytest.raises(TypeError if is_last(comm) else weir.ArgumentError, match="too many|positional"):
        cls(comm, *more, *of_last(comm, [1], []), **usual)
    with pytest.raises(weir.ArgumentError, match="type NoneType: give a weir.Communicator"):
        cls(None, *more, **usual)
    make(comm, kind).close()


@pytest.mark.parametrize("kind", ["plan", "table", "fused", "optimizer"])
def test_states(comm, kind):
    with make(comm, kind) as one, make(comm, kind) as two:
        state = one.save_state()
        assert isinstance(state, bytes)
        two.restore_state(bytearray(state))
        assert two.save_state() == state
        for bad, text in ((state[:-1], ""), (b"", ""), ("state", "type str: give the bytes of save_state")):
            with pytest.raises(weir.ArgumentError, match=text):
                two.restore_state(bad)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "cache"])
def test_ctrl_c_as_one_is_made(comm, monkeypatch, kind):
    """It ends with its communicator."""
    created = _object.CREATE[kind]

    def interrupted(*arguments):
        created(*arguments)
        raise KeyboardInterrupt  # which Python notices as C returns

    with weir.Communicator() as other:
        with monkeypatch.context() as patch:
            patch.setitem(_object.CREATE, kind, interrupted)
            with pytest.raises(KeyboardInterrupt) as caught:
                make(other, kind)
        assert other._handle.living == 1
        other.close()
        assert other._handle.living == 0 and other._handle.pointer is None
        del caught
