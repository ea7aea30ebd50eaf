"""For pytest, `-p thinning`: runs part of the cases of @pytest.mark.parametrize, as thinning.hpp does, but at least one of each test.

With @pytest.mark.each("a", "b"), runs at least one for each pair of values of these parameters. All ranks run the same cases.

If CTest starts the same tests with several numbers of ranks, TEST_TURN is i/n: each test runs in one of n starts, and in another
one with the next offset. So n * TEST_EVERY offsets run everything. Without thinning, each start runs all tests.
"""
import os

EVERY = int(os.environ.get("TEST_EVERY") or 1) or 1
OFFSET = int(os.environ.get("TEST_OFFSET") or 0)
TURN, TURNS = (int(part) for part in os.environ.get("TEST_TURN", "0/1").split("/"))


def pytest_configure(config):
    config.addinivalue_line("markers", "each(*names): thinning leaves a case for each value of these parameters")


def of_one_kind(item):
    names = [name for mark in item.iter_markers("each") for name in mark.args]
    return item.nodeid.partition("[")[0], *(repr(item.callspec.params[name]) for name in names)


def pytest_collection_modifyitems(config, items):
    kinds = {}
    for item in items:
        kinds.setdefault(of_one_kind(item), []).append(item)
    kept = set()
    for number, cases in enumerate(kinds.values()):
        if EVERY > 1 and (number + OFFSET) % TURNS != TURN:
            continue
        every = min(EVERY, len(cases))
        of_now = [case for i, case in enumerate(cases) if (i * 0x9E3779B97F4A7C15 >> 32) % every == OFFSET % every]
        kept.update(of_now or [cases[OFFSET % len(cases)]])
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]
