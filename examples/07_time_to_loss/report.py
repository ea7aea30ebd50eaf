"""Makes tables, and the data of a picture, from what train.py has written: python3 report.py FOLDER [--weir COMMAND]

Writes report.md, report.json and, for plot.gp, loss-NETWORK.csv. With --weir, a build's command, also predicts larger machines.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile

NETWORKS = {"1gbit": "1 Gbit/s", "10gbit": "10 Gbit/s", "uncapped": "no cap"}
NODES = (8, 16, 32, 64, 128)
RATES = ("1Gbit,50us", "10Gbit,20us", "25Gbit,5us", "100Gbit,2us")
INT4 = "format=int4,bucket=128"
# What `weir predict` is asked for each method, and the algorithm whose row is taken. It knows nothing of PyTorch's hooks.
PREDICTED = {
    "ddp": ((), "dense_ring"),
    "weir 1 %, dense start": ((), "oktopk"),
    "weir 1 %, dense start, bf16": (("--values", "bfloat16"), "oktopk"),
    "weir 1 %, warm-up, dgc": (("--compressor", "dgc"), "oktopk"),
    "weir 10 %, dense start": (("--density", "0.1"), "oktopk"),
    "weir block_quantise": (("--compressor", "block_quantise"), "packed_reduce_scatter"),
    "weir int4": (("--compressor", "block_quantise", "--compressor-parameters", INT4), "packed_reduce_scatter"),
}


class Curve:
    """The loss over steps of one training."""

    def __init__(self, saved):
        self.dense_steps = saved["dense_steps"]
        self.steps, self.losses, _ = zip(*saved["points"])

    def at(self, step):
        return self.losses[self.steps.index(step)]

    def steps_to(self, target):
        """Returns the step at which the loss is first at most `target`, by interpolation; None if it never is."""
        for i in range(1, len(self.steps)):
            if self.losses[i] <= target:
                share = (self.losses[i - 1] - target) / (self.losses[i - 1] - self.losses[i])
                return self.steps[i - 1] + share * (self.steps[i] - self.steps[i - 1])
        return None


def spread(values, digits):
    """Returns the median of what seeds gave, and their range."""
    if None in values:
        return f"not reached by {values.count(None)} of {len(values)}"
    return f"{statistics.median(values):,.{digits}f} ({min(values):,.{digits}f} to {max(values):,.{digits}f})" if values else ""


def learns_as(method, timed):
    """Returns the method whose curves are those of `method`. An automatic choice learns as what it has chosen."""
    if method == "weir dense":
        return "ddp"
    if not method.startswith("weir auto"):
        return method
    chosen = "weir 1 %, dense start" if method == "weir auto" else "weir int4"
    return "ddp" if all(name.startswith("dense") for name in timed["algorithms"]) else chosen


def costs(methods, method, dense_steps, steps, kind):
    """Returns the seconds, or the bytes, of so many steps. Those of a dense start, or of a warm-up, cost what dense steps cost."""
    dense = methods["weir dense" if method.startswith("weir") and "weir dense" in methods else "ddp"][kind]
    return min(steps, dense_steps) * dense + max(0, steps - dense_steps) * methods[method][kind]


def rows_of(methods, curves):
    """Returns what a network's table shows, by method."""
    rows = {}
    for method, timed in methods.items():
        if method == "no exchange":
            continue
        seeds = curves.get(learns_as(method, timed), {})
        row = {"timed": timed, "learns_as": learns_as(method, timed), "steps": [], "seconds": [], "bytes": [], "loss": []}
        row["dense_steps"] = max((curve.dense_steps for curve in seeds.values()), default=0)
        for seed, curve in seeds.items():
            end, target = curves["ddp"][seed].steps[-1], curves["ddp"][seed].losses[-1]
            steps = end if row["learns_as"] == "ddp" else curve.steps_to(target)
            row["loss"].append(curve.at(end))
            row["steps"].append(steps)
            for name, kind in (("seconds", "seconds"), ("bytes", "card_bytes")):
                row[name].append(None if steps is None else costs(methods, method, curve.dense_steps, steps, kind))
        rows[method] = row
    return rows


def table_of(network, timing, rows):
    methods, dense = timing["methods"], statistics.median(rows["ddp"]["loss"])
    fastest = min((name for name in rows if not name.startswith("weir auto")), key=lambda name: methods[name]["seconds"])
    lines = [f"## {NETWORKS[network]}", "",
             f"{timing['ranks']} nodes of one rank, {timing['parameters']:,} parameters. A step without exchange takes "
             f"{methods['no exchange']['seconds'] * 1e3:.1f} ms. The machine's load average was {timing['load']:.1f}.", "",
             "| method | ms a step | of CPU | times as fast | MB a step | steps to the loss | s to the loss | MB to the loss "
             "| loss after the epoch | to DDP |",
             "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for method, row in rows.items():
        timed = row["timed"]
        to_dense = f"{statistics.median(row['loss']) / dense - 1:+.1%}" if row["loss"] else ""
        cells = [
            method, f"{timed['seconds'] * 1e3:.1f}", f"{timed['cpu_seconds'] * 1e3:.1f}",
            f"{methods['ddp']['seconds'] / timed['seconds']:.2f}", f"{timed['card_bytes'] / 1e6:.3f}",
            spread(row["steps"], 0), spread(row["seconds"], 1), spread([value and value / 1e6 for value in row["bytes"]], 0),
            spread(row["loss"], 3), to_dense,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    for method, auto in methods.items():
        if method.startswith("weir auto"):
            lines += ["", f"`{method}` chose {', '.join(dict.fromkeys(auto['algorithms']))}, and takes "
                          f"{auto['seconds'] / methods['ddp']['seconds']:.2f} times as long as `ddp`, and "
                          f"{auto['seconds'] / methods[fastest]['seconds']:.2f} times as long as the fastest, `{fastest}`."]
    return lines + [""]


def csv_of(methods, rows, curves):
    """Returns a block of lines for each method: seconds, bytes, and the loss, which is the mean over seeds."""
    lines = []
    for method, row in rows.items():
        seeds = list(curves.get(method, {}).values())
        if seeds:
            shortest = min(seeds, key=lambda curve: len(curve.steps))
            lines.append(method.replace(",", ";"))  # gnuplot splits at commas
            for i, step in enumerate(shortest.steps):
                at = [costs(methods, method, row["dense_steps"], step, kind) for kind in ("seconds", "card_bytes")]
                lines.append(f"{at[0]},{at[1]},{statistics.mean(curve.losses[i] for curve in seeds)}")
            lines += ["", ""]
    return "\n".join(lines)


def check_of(saved, methods):
    """Compares trainings on the cluster with the product of steps and the median time of a step."""
    lines = ["## Checked by training at 1 Gbit/s", "",
             "| method | seed | steps | s, trained | s, by the median step | ratio |", "| --- | ---: | ---: | ---: | ---: | ---: |"]
    for run in saved:
        steps, _, seconds = run["points"][-1]
        product = costs(methods, run["method"], run["dense_steps"], steps, "seconds")
        lines.append(f"| {run['method']} | {run['seed']} | {steps} | {seconds:.1f} | {product:.1f} | {seconds / product:.2f} |")
    return lines + [""]


def exchange_of(weir, count, nodes, rate, method):
    """Returns the seconds of an exchange by the formulas of the library."""
    options, algorithm = PREDICTED[method]
    compressor = options[1] if "--compressor" in options else None
    with tempfile.NamedTemporaryFile() as file:
        problem = ["--nodes", str(nodes), "--network", rate, "--count", str(count), "--json", file.name, *options]
        subprocess.run([weir, "predict", *problem], check=True, stdout=subprocess.DEVNULL)
        rows = json.load(file)["predictions"]
    fits = [row for row in rows if row["algorithm"] == algorithm and compressor in (None, row["compressor"])]
    return fits[0]["total_ms"] / 1e3


def predictions_of(weir, timing, rows):
    alone, result = timing["methods"]["no exchange"]["seconds"], []
    for rate in RATES:
        for nodes in NODES:
            step = {method: alone + exchange_of(weir, timing["parameters"], nodes, rate, method) for method in PREDICTED}
            row = {"network": rate, "nodes": nodes, "seconds": {}}
            for method in PREDICTED:
                if method in rows and rows[method]["steps"] and None not in rows[method]["steps"]:
                    steps = statistics.median(rows[method]["steps"])
                    dense = min(steps, rows[method]["dense_steps"])
                    row["seconds"][method] = dense * step["ddp"] + (steps - dense) * step[method]
            result.append(row)
    return result


def table_of_predictions(predictions, alone):
    lines = ["## Predicted, not measured", "",
             "Seconds to the loss on other machines: the steps measured above, with 4 ranks, times the sum of a step without "
             f"exchange ({alone * 1e3:.1f} ms, as measured here) and the exchange that `weir predict` says. Nothing overlaps. "
             "The number of steps is taken to be the same with more ranks.", "",
             "| network | nodes | " + " | ".join(PREDICTED) + " |", "| --- | ---: |" + " ---: |" * len(PREDICTED)]
    for row in predictions:
        cells = [f"{row['seconds'][method]:,.1f}" if method in row["seconds"] else "" for method in PREDICTED]
        lines.append(f"| {row['network']} | {row['nodes']} | " + " | ".join(cells) + " |")
    return lines + [""]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--weir", default="", help="the command weir of a build, for predictions")
    given = parser.parse_args()

    def read(name):
        path = os.path.join(given.folder, name)
        if not os.path.exists(path):
            return None
        with open(path) as file:
            return json.load(file)

    def write(name, text):
        with open(os.path.join(given.folder, name), "w") as file:
            file.write(text)

    curves = {}
    for saved in read("curves.json"):
        curves.setdefault(saved["method"], {})[saved["seed"]] = Curve(saved)
    report, lines = {}, ["# Time to the loss of plain DDP", ""]
    timings = {network: read(f"time-{network}.json") for network in NETWORKS}
    for network, timing in timings.items():
        if timing:
            rows = report[network] = rows_of(timing["methods"], curves)
            lines += table_of(network, timing, rows)
            write(f"loss-{network}.csv", csv_of(timing["methods"], rows, curves))
    if timings["1gbit"]:
        methods = timings["1gbit"]["methods"]
        if read("check.json"):
            lines += check_of(read("check.json"), methods)
        if given.weir:
            report["predicted"] = predictions_of(given.weir, timings["1gbit"], report["1gbit"])
            lines += table_of_predictions(report["predicted"], methods["no exchange"]["seconds"])
    write("report.json", json.dumps(report, indent=1))
    write("report.md", "\n".join(lines))
    print("\n".join(lines))


main()
