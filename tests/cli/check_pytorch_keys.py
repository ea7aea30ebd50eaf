#!/usr/bin/env python3
"""Checks that dumps have the keys that PyTorch's analyser of flight recorders needs (torch.distributed.flight_recorder).
check_pytorch_keys.py FILE..."""
import ast
import json
import sys

COLLECTIVES = {"all_reduce", "all_gather", "all_to_all"}  # collectives that it knows
ENTRY = {"record_id", "pg_id", "process_group", "collective_seq_id", "p2p_seq_id", "op_id", "profiling_name", "time_created_ns",
         "input_sizes", "input_dtypes", "output_sizes", "output_dtypes", "state", "time_discovered_started_ns",
         "time_discovered_completed_ns", "retired", "is_p2p", "frames"}
for file in sys.argv[1:]:
    dump = json.load(open(file))
    assert [int(part) for part in dump["version"].split(".")] >= [2, 7], "without these versions, it reads entries otherwise"
    assert dump["entries"], f"{file}: no entries"
    seen = set()
    for entry in dump["entries"]:
        assert not ENTRY - entry.keys(), f"{file}: no {ENTRY - entry.keys()}"
        group, name = entry["process_group"]
        config = dump["pg_config"][group]
        assert config["desc"] == name, f"{file}: a group of two names, {name} and {config['desc']}"
        assert ast.literal_eval(config["ranks"]) == list(range(dump["weir"]["ranks"]))
        library, collective = entry["profiling_name"].split(":")
        assert library == "nccl" and collective in COLLECTIVES, entry["profiling_name"]
        assert entry["state"] in ("scheduled", "started", "completed")
        assert entry["input_sizes"] == entry["output_sizes"] and isinstance(entry["input_sizes"][0][0], int)
        number = group, entry["collective_seq_id"]
        assert number not in seen, f"{file}: two runs {number}, which it takes for a coalesced one"
        seen.add(number)
