import logging

import pytest

import weir


def test_lists():
    algorithms = {row.name: row for row in weir.algorithms()}
    assert algorithms["oktopk"].sparse and not algorithms["dense_ring"].sparse and algorithms["oktopk"].description
    assert algorithms["topk_dsa"].parameters == "window=4" and algorithms["packed_allgather"].packed
    compressors = {row.name: row for row in weir.compressors()}
    assert compressors["top_k"].carriage == "sparse" and compressors["top_k"].feedback and not compressors["top_k"].parameters
    assert compressors["qsgd"].random and compressors["qsgd"].parameters == "levels=7,bucket=512" and compressors["qsgd"].source
    assert "columns" in [row.name for row in weir.exchanges()]
    assert {row.name: row for row in weir.settings()}["WEIR_TIMEOUT"].origin == "environment"
    assert "Algorithm" in algorithms["oktopk"]._repr_html_()
    versions = weir.versions()
    assert versions.package <= versions.native and versions.mpi_family in ("Open MPI", "MPICH") and versions.mpi_library


def test_errors(monkeypatch):
    monkeypatch.setenv("WEIR_TIMEOUT", "soon")
    with pytest.raises(weir.SettingError, match="WEIR_TIMEOUT is 'soon'"):
        weir.settings()
    for status in weir.Status:
        if status != weir.Status.OK:
            assert weir._types.ERRORS[status].status is status
    assert issubclass(weir.TimeoutError, TimeoutError) and issubclass(weir.MemoryError, MemoryError)


def test_messages(comm, monkeypatch, caplog):
    """They go to a logger, or to a function."""
    monkeypatch.setenv("WEIR_LOG", "info")
    lines = []
    for take in (weir.log_to, lambda: weir.set_log_function(lambda level, text: lines.append((level, text)))):
        take()
        try:
            with caplog.at_level(logging.INFO, "weir"), weir.Communicator() as other:
                weir.AllreducePlan(other, count=10, name="logged").close()
        finally:
            weir.set_log_function(None)
    assert any("plan 'logged'" in record.message and record.levelno == logging.INFO for record in caplog.records)
    assert lines and all(isinstance(level, weir.LogLevel) for level, _ in lines)
    with pytest.raises(weir.ArgumentError, match="type int: give a function, or None"):
        weir.set_log_function(5)
    with pytest.raises(weir.ArgumentError, match="type str: give what logging.getLogger"):
        weir.log_to("x")
