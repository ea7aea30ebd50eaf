#!/usr/bin/env python3
"""Checks a merged trace of RANKS ranks: valid JSON, runs with one number overlap across ranks, stages nest.
check_merged_trace.py FILE RANKS"""
import collections
import json
import sys

file, ranks = sys.argv[1], int(sys.argv[2])
events = json.load(open(file))
merged = [e for e in events if e["name"] == "weir_merged"]
assert len(merged) == 1 and len(merged[0]["args"]["clocks"]) == ranks, "no clocks of all ranks"
slack = max(c["half_width_ns"] for c in merged[0]["args"]["clocks"]) / 1e3 + 1  # microseconds

rows = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
runs = collections.defaultdict(dict)
for e in events:
    if e.get("cat") == "run" and rows[e["pid"], e["tid"]] not in ("caller", "setup"):
        runs[rows[e["pid"], e["tid"]], e["args"]["run"]][e["pid"]] = (e["ts"], e["ts"] + e["dur"])
assert len(runs) == 20, f"{len(runs)} runs, not 10 of 2 plans"
for (plan, number), spans in runs.items():
    assert len(spans) == ranks, f"{plan}, run {number}: {len(spans)} ranks"
    last_begin, first_end = max(b for b, _ in spans.values()), min(e for _, e in spans.values())
    assert last_begin <= first_end + slack, f"{plan}, run {number}: rank starts begin {last_begin - first_end} us after another's end"

rounding = 0.0021
of_row = collections.defaultdict(list)
for e in events:
    if e["ph"] == "X":
        of_row[e["pid"], e["tid"]].append((e["ts"], e["ts"] + e["dur"], e["name"], e["cat"]))
stages = set()
for row, spans in of_row.items():
    spans.sort(key=lambda s: (s[0], -s[1]))
    open_spans = []
    for begin, end, name, category in spans:
        while open_spans and open_spans[-1][1] <= begin + rounding:
            open_spans.pop()
        if open_spans:
            assert end <= open_spans[-1][1] + rounding, f"{rows[row]}: {name} does not nest in {open_spans[-1][2]}"
        if category == "stage":
            assert open_spans and any(s[3] == "run" for s in open_spans), f"{rows[row]}: {name} is in no run"
            stages.add(name)
        open_spans.append((begin, end, name, category))
assert {"select", "exchange", "split_reduce", "allgatherv"} <= stages, stages

ids = collections.Counter((e["id"], e["ph"]) for e in events if e["ph"] in "be")
assert ids and set(ids.values()) == {1}, "messages of different ranks have one id"
assert min(e["ts"] for e in events if "ts" in e) >= 0, "an event before the beginning"
