#!/usr/bin/env python3
"""Measures tensor fusion by every scheme: on tests/cluster, and on simulated machines.

    measure.py cluster build/bin/weir                                      # as root: models x nodes x rates
    measure.py simulated build-simgrid/bin/weir_simulate_fusion.so --calibrate build-simgrid/bin/weir_simulate.so
    measure.py report

Writes ../results/fusion.json and, from it, fusion.md; skips what is in the JSON unless --force. Both shrink models by SHRINK, and
networks with them, as `weir bench fusion --help` explains; simulated GPUs shrink, too, so that selection takes as long as on the real
one.
"""
import argparse
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = ROOT / "perfmodels/results/fusion.json"
CLUSTER = ROOT / "tests/cluster/cluster"
sys.path.insert(0, str(ROOT / "perfmodels/simgrid"))
MODELS = ["resnet50", "resnet152", "vgg19", "bert_base", "gpt2_large"]
NODES, RATES = [4, 8], [1, 10]  # Gbit/s
# GFLOP/s of a GPU (a V100 with 32-bit floats, and six times as fast) and MiB of a buffer (PyTorch's DDP, Horovod, and unsuitable
# sizes).
SETTINGS = {"v100": (10000, 25), "fast": (60000, 25), "fast-64mib": (60000, 64), "fast-tiny": (60000, 0.25),
            "fast-whole": (60000, 4096), "v100-whole": (10000, 4096)}
SHRINK = {"resnet50": 16, "resnet152": 16, "vgg19": 16, "bert_base": 16, "gpt2_large": 64}
SIMULATED_RANKS = 64
SIMULATED_ELEMENTS = 8e7  # of all ranks together
SCHEMES = ["none", "behind", "ahead", "ahead_inter", "ahead_inter_intra", "ahead_fitted", "ahead_tapered", "omgs", "cupcake", "dense"]


def say(text):
    print(time.strftime("%H:%M:%S"), text, file=sys.stderr, flush=True)


def key_of(where, model, ranks, rate, setting):
    return f"{where} {model} {ranks} {rate}gbit {setting}"


def load():
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def save(results):
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


def bench_arguments(options, model, shrink, setting, out):
    gflops, mib = SETTINGS[setting]
    arguments = ["--model", str(ROOT / f"perfmodels/models/{model}.json"), "--shrink", str(shrink), "--iterations", str(options.iterations),
                 "--warmup", str(options.warmup), "--density", str(options.density), "--threshold", options.threshold, "--rate", str(gflops), "--buffer-mib", str(mib), "--json", str(out)]
    return arguments + (["--algorithm", options.algorithm] if options.algorithm else [])


def cluster(*args, env=None, quiet=True):
    subprocess.run([str(CLUSTER), *args], check=True, env=env, stdout=subprocess.DEVNULL if quiet else None)


def missing_schemes(options, results, key):
    kept = {row["scheme"] for row in results.get(key, [])}
    return [scheme for scheme in options.schemes if options.force or scheme not in kept]


def add_rows(results, key, rows):
    """Adds results to those of other schemes."""
    run = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
    kept = {row["scheme"]: row for row in results.get(key, [])} | {row["scheme"]: row | {"run": run} for row in rows}
    results[key] = sorted(kept.values(), key=lambda row: SCHEMES.index(row["scheme"]))
    save(results)


def measure_cluster(options, results, folder):
    for nodes in options.nodes:
        for rate in options.rates:
            for shrink in sorted({SHRINK[model] for model in options.models}):
                wanted = [(model, setting) for setting in options.settings for model in options.models if SHRINK[model] == shrink]
                wanted = [w for w in wanted if missing_schemes(options, results, key_of("cluster", w[0], nodes, rate, w[1]))]
                if wanted:
                    measure_shrunk(options, results, folder, nodes, rate, shrink, wanted)


def measure_shrunk(options, results, folder, nodes, rate, shrink, wanted):
    cluster("up", "-n", str(nodes), "-r", f"{rate * 1e6 / shrink:.0f}kbit")
    machine, out = folder / "machine.json", folder / "rows.json"
    ranks = ["mpirun", "-n", str(nodes), "-p", "1", "--"]
    say(f"{nodes} nodes at {rate} / {shrink} Gbit/s: calibrate")
    cluster(*ranks, str(options.program), "calibrate", "--output", str(machine))
    for model, setting in wanted:
        say(f"{nodes} nodes at {rate} / {shrink} Gbit/s: {model}, {setting}")
        # Measure all of them in one run, side by side, because the machine's speed varies over hours.
        cluster(*ranks, str(options.program), "bench", "fusion", *bench_arguments(options, model, shrink, setting, out), "--scheme",
                ",".join(options.schemes), quiet=False, env=os.environ | {"WEIR_MACHINE": str(machine)})
        add_rows(results, key_of("cluster", model, nodes, rate, setting), json.loads(out.read_text()))
    cluster("down")


def measure_simulated(options, results, folder):
    import machines  # only where SimGrid is

    for rate in options.rates:
        for model, setting in itertools.product(options.models, options.settings):
            key = key_of("simulated", model, SIMULATED_RANKS, rate, setting)
            wanted = missing_schemes(options, results, key)
            if not wanted:
                continue
            table = json.loads((ROOT / f"perfmodels/models/{model}.json").read_text())
            shrink = max(1, round(table["parameters"] * SIMULATED_RANKS / options.elements))
            machine, out, name = folder / "machine.json", folder / "rows.json", f"ethernet_{rate}gbit"
            say(f"{SIMULATED_RANKS} ranks of {name}: {model}, {setting}, shrunk by {shrink}")
            os.environ.pop("WEIR_MACHINE", None)
            machines.simulate(options.calibrate, name, 16, shrink, ["--calibrate", str(machine)])
            os.environ["WEIR_MACHINE"] = str(machine)
            arguments = bench_arguments(options, model, shrink, setting, out) + ["--scheme", ",".join(wanted)]
            machines.simulate(options.program, name, SIMULATED_RANKS, shrink, arguments)
            add_rows(results, key, json.loads(out.read_text()))


def title_of(key, first):
    where, model, ranks, rate, _ = key.split()
    return (f"{model}, {ranks} {'nodes' if where == 'cluster' else 'simulated nodes'} at {rate.removesuffix('gbit')} Gbit/s, "
            f"{first['gflops'] / 1000:g} TFLOP/s, buffers of {first['buffer_mib']:g} MiB")


def ratio_of(row, name):
    return f"{row[name]:.2f}" if name in row else ""


def summary(results):
    lines = ["| step, ms | computing | " + " | ".join(SCHEMES) + " | ahead_inter / limit |", "| --- |" + " ---: |" * (len(SCHEMES) + 2)]
    for key, rows in results.items():
        by_scheme = {row["scheme"]: row for row in rows}
        steps = " | ".join(f"{by_scheme[scheme]['median_ms']:.1f}" if scheme in by_scheme else "" for scheme in SCHEMES)
        ratio = ratio_of(by_scheme.get("ahead_inter", {}), "limit_ratio")
        lines.append(f"| {title_of(key, rows[0])} | {rows[0]['compute_ms']:.1f} | {steps} | {ratio} |")
    return lines + [""]


def report(results):
    lines = ["# Tensor fusion by every scheme", "",
             "A step: the backward pass and the next forward pass, whose layers wait for their updates. Milliseconds of the slowest rank, medians. NOCT: of the",
             "step, what is not computing. x none, x better: times as fast as `none`, and as the better of `none` and `behind`. / limit: step over the longer of",
             "computing and these bytes through the card. Models are shrunk, and networks with them: see `weir bench fusion --help`. Schemes of the same run took turns, step by step;",
             "hours differ by a tenth, so compare within a run. Where a step is shorter than that limit, the capped card had saved up for a burst while others computed.", ""]
    lines += summary(results)
    for key, rows in results.items():
        first = rows[0]
        lines += [f"## {title_of(key, first)}", "",
                  f"{first['tensors']} tensors, {first['elements'] * first['shrink'] / 1e6:.1f} M elements, shrunk by {' or '.join(str(shrink) for shrink in sorted({row['shrink'] for row in rows}))}; density {first['density']}, "
                  f"threshold {first['threshold']}; {first['compute_ms']:.1f} ms of computing; card: {first['card_mb_per_s'] * first['shrink']:.0f} MB/s.", "",
                  "| scheme | run | algorithm | step | min | NOCT | select | waited | startups | MB sent | missing | x none | x better | / limit |",
                  "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
        for row in rows:
            lines.append(f"| {row['scheme']} | {row.get('run', '')} | {row['algorithm']} | {row['median_ms']:.1f} | {row['min_ms']:.1f} | {row['exposed_ms']:.1f} | {row['select_ms']:.1f} | "
                         f"{row['waited_ms']:.1f} | {row['startups']:g} | {row['sent_mb'] * row['shrink']:.2f} | {row['tensors_missing']:g} | {ratio_of(row, 'none_ratio')} | "
                         f"{ratio_of(row, 'best_of_none_and_behind_ratio')} | {row['limit_ratio']:.2f} |")
        lines.append("")
    RESULTS.with_suffix(".md").write_text("\n".join(lines))


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="what", required=True)
    commands.add_parser("report")
    for name in ("cluster", "simulated"):
        command = commands.add_parser(name)
        command.add_argument("program", type=pathlib.Path)
        command.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
        command.add_argument("--rates", nargs="+", type=int, default=RATES, help="Gbit/s")
        command.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS))
        command.add_argument("--iterations", type=int, default=10 if name == "cluster" else 2)
        command.add_argument("--warmup", type=int, default=26 if name == "cluster" else 22, help="until buffers have settled")
        command.add_argument("--density", type=float, default=0.01)
        command.add_argument("--threshold", default="exact")
        command.add_argument("--algorithm")
        command.add_argument("--schemes", nargs="+", choices=SCHEMES, default=SCHEMES, help="measured in one run, beside what others have")
        command.add_argument("--force", action="store_true", help="measure again what has results")
    commands.choices["cluster"].add_argument("--nodes", nargs="+", type=int, default=NODES)
    commands.choices["simulated"].add_argument("--calibrate", type=pathlib.Path, required=True, help="weir_simulate.so")
    commands.choices["simulated"].add_argument("--elements", type=float, default=SIMULATED_ELEMENTS, help="of all ranks together, at most")
    return parser.parse_args()


def main():
    options, results = parse(), load()
    with tempfile.TemporaryDirectory() as folder:
        if options.what == "cluster":
            options.program = options.program.resolve()
            measure_cluster(options, results, pathlib.Path(folder))
        elif options.what == "simulated":
            measure_simulated(options, results, pathlib.Path(folder))
    report(results)


main()
