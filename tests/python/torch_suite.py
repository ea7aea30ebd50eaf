#!/usr/bin/env python3
"""Runs PyTorch's own tests of process groups (DistributedTest) with a backend, on CPUs.

Usage: torch_suite.py RANKS BACKEND OUT.json [NAME...]    runs the tests, or those whose names contain a NAME
       torch_suite.py --compare OTHER.json WEIR.json      lists what OTHER passes and WEIR does not

With the backend "as-gloo", Weir is registered under the name "gloo": PyTorch's tests then skip nothing that they run with Gloo,
and expect what Gloo does, texts of errors included. Needs PyTorch's requirements for tests: expecttest and hypothesis.
"""
import json
import os
import pathlib
import re
import sys
import time
import unittest


def compare(theirs, ours):
    theirs, ours = (json.loads(pathlib.Path(path).read_text()) for path in (theirs, ours))
    passed = [name for name, (outcome, _) in theirs.items() if outcome == "passed"]
    missed = [name for name in passed if ours.get(name, ["absent"])[0] != "passed"]
    print(f"{len(passed) - len(missed)} of {len(passed)}")
    for name in missed:
        print(f"{name}: {': '.join(ours.get(name, ['absent', ''])).strip()}")


def main():
    if sys.argv[1:2] == ["--compare"]:
        return compare(*sys.argv[2:4])
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    ranks, backend, out, names = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), sys.argv[4:]
    os.environ.update(WORLD_SIZE=ranks, BACKEND="gloo" if backend == "as-gloo" else backend, MASTER_ADDR="127.0.0.1",
                      GLOO_SOCKET_IFNAME="lo", WEIR_INTERFACE="lo")

    import torch
    import torch.distributed as dist
    if backend != "gloo":
        from weir import _handles, _torch_calls, _torch_group, _torch_start

        _torch_start.register_backend()
        if backend == "as-gloo":

            def create(opts, options):
                opts.process_group = None  # the group has no other backend
                return _torch_group.create(opts, options)

            dist.Backend._plugins["GLOO"] = dist.Backend._BackendPlugin(create, True)
    from torch.testing._internal.distributed import distributed_test
    from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend

    if backend == "as-gloo":  # Weir makes no events for the profiler
        for name in ("PROFILING_SUPPORTED_BACKENDS", "SEND_RECV_PROFILING_SUPPORTED_BACKENDS"):
            getattr(distributed_test, name).remove("gloo")

    class Test(TestDistBackend, DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)  # spawned processes would each import torch again

        @classmethod
        def _run(cls, *arguments, **keywords):
            try:
                super()._run(*arguments, **keywords)
            finally:
                if backend != "gloo":  # multiprocessing calls no functions of atexit after a fork
                    _torch_calls.close_all()
                    _handles.end()

    outcomes = {}

    class Result(unittest.TextTestResult):
        def note(self, test, outcome, text=""):
            lines = [line for line in str(text).splitlines() if line.strip()]
            errors = [line for line in lines if re.match(r"\s*[\w.]*(Error|Exception|Skip)\b|.*exit code", line)]
            outcomes[test._testMethodName] = [outcome, (errors or lines or [""])[-1].strip()[:200]]
            print(f"{time.monotonic() - start:7.1f} {test._testMethodName} {' '.join(outcomes[test._testMethodName])}", flush=True)

        def addSuccess(self, test):
            self.note(test, "passed")

        def addFailure(self, test, error):
            self.note(test, "failed", self._exc_info_to_string(error, test))

        addError = addFailure

        def addSkip(self, test, reason):
            self.note(test, "skipped", reason)

    start = time.monotonic()
    tests = unittest.defaultTestLoader.loadTestsFromTestCase(Test)
    chosen = [test for test in tests if not names or any(name in test._testMethodName for name in names)]
    unittest.TextTestRunner(stream=open(os.devnull, "w"), resultclass=Result).run(unittest.TestSuite(chosen))
    out.write_text(json.dumps(outcomes, indent=1))
    counts = {outcome: sum(1 for other, _ in outcomes.values() if other == outcome) for outcome in ("passed", "failed", "skipped")}
    print(", ".join(f"{number} {outcome}" for outcome, number in counts.items()))
    sys.exit(1 if names and counts["failed"] else 0)


if __name__ == "__main__":
    main()
