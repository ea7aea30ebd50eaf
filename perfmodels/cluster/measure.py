#!/usr/bin/env python3
"""Measures every allreduce algorithm, and automatic choice, on tests/cluster: layouts x rates x sizes x densities.

Writes JSON, Markdown tables and a picture; skips what is already in the JSON. Needs root (see tests/cluster), Open MPI and gnuplot.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLUSTER = ROOT / "tests/cluster/cluster"
LAYOUTS = {"4x2": (4, 2), "8x1": (8, 1)}  # nodes x ranks per node
COUNTS = [25_600_000, 4_194_304]
DENSITIES = [0.01, 0.001]
DENSE = ["dense_ring", "dense_rabenseifner", "dense_torus2d", "dense_mpi"]
SPARSE = ["topk_allgather", "topk_dsa", "gtopk", "gaussiank", "hitopk", "oktopk", "hi_oktopk"]
TRIALS = {25_600_000: 12, 4_194_304: 32}  # half of them count: short runs vary more
CLOSE = 1.5  # times the best: up to this, algorithms are measured again, side by side with automatic choice
WITHIN = 1.15  # times the best: the goal of automatic choice


def say(text):
    print(time.strftime("%H:%M:%S"), text, file=sys.stderr, flush=True)


def cluster(*args, env=None):
    subprocess.run([str(CLUSTER), *args], check=True, env=env, stdout=subprocess.DEVNULL)


def iterations(what, count, density):
    large = count > 10_000_000
    if what == "dense":
        return 1 if large else 5
    if what == "sparse":
        return 3 if large else 5
    return 60 if not large else 40 if density < 0.01 else 30


def warmup(what, count):
    return {"dense": 1, "sparse": 12, "close": 6 * TRIALS[count] + 1}[what]


def bench(program, layout, machine, count, density, what, algorithms):
    nodes, per_node = LAYOUTS[layout]
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "rows.json"
        cluster("mpirun", "-n", str(nodes * per_node), "-p", str(per_node), "--", "env", f"WEIR_MACHINE={machine}", str(program), "bench",
                "allreduce", "--count", str(count), "--density", str(density), "--algorithm", ",".join(algorithms), "--result",
                "in_place", "--no-baseline", "--iterations", str(iterations(what, count, density)), "--warmup",
                str(warmup(what, count)), "--trial-iterations", str(TRIALS[count]), *(["--side-by-side"] if what == "close" else []), "--json", str(out))
        return json.loads(out.read_text())


def measure(program, results, save, layouts, rates):
    for layout in layouts:
        nodes, per_node = LAYOUTS[layout]
        for rate in rates:
            done = results.setdefault(f"{layout} {rate}", {"rows": []})
            todo = [(c, d, what) for c in COUNTS for d in DENSITIES for what in ("dense", "sparse", "close")
                    if not (what == "dense" and d != DENSITIES[0])
                    and not any(r["count"] == c and r["group"] == what and (what == "dense" or r["density"] == d) for r in done["rows"])]
            if not todo:
                continue
            cluster("up", "-n", str(nodes), "-r", rate)
            machine = pathlib.Path(tempfile.gettempdir()) / f"weir_{layout}_{rate}.json"
            if "machine" not in done:
                say(f"{layout} at {rate}: calibrate")
                cluster("mpirun", "-n", str(nodes * per_node), "-p", str(per_node), "--", str(program), "calibrate", "--output",
                        str(machine))
                done["machine"] = json.loads(machine.read_text())
                save()
            machine.write_text(json.dumps(done["machine"]))
            for count, density, what in todo:
                say(f"{layout} at {rate}: {count} floats, density {density}, {what}")
                algorithms = {"dense": DENSE, "sparse": sparse(layout)}.get(what) or close(done["rows"], count, density) + ["auto"]
                rows = bench(program, layout, machine, count, density, what, algorithms)
                done["rows"] += [row | {"group": what} for row in rows]
                save()
            cluster("down")


def sparse(layout):
    """Returns the sparse algorithms to measure. With one rank per node, those that shard within nodes equal other algorithms."""
    return [name for name in SPARSE if not (LAYOUTS[layout][1] == 1 and name.startswith("hi"))]


def close(rows, count, density):
    times = {r["algorithm"]: r["median_ms"] for r in rows if r["count"] == count and r["group"] == "sparse" and r["density"] == density}
    return [name for name, ms in times.items() if ms <= CLOSE * min(times.values())]


def cells(results):
    """Returns a map from (layout, rate, count, density) to a row for every algorithm. Dense ones are in every density."""
    for key, block in results.items():
        layout, rate = key.split()
        for count in COUNTS:
            for density in DENSITIES:
                rows = [r for r in block["rows"] if r["count"] == count and (r["group"] == "dense" or r["density"] == density)]
                if rows:  # repeated measurements replace earlier ones
                    yield (layout, rate, count, density), {r["algorithm"]: r for r in rows}


def predict(program, machine, layout, count, density):
    nodes, per_node = LAYOUTS[layout]
    with tempfile.TemporaryDirectory() as folder:
        file, out = pathlib.Path(folder) / "machine.json", pathlib.Path(folder) / "out.json"
        file.write_text(json.dumps(machine))
        subprocess.run([str(program), "predict", "--machine", str(file), "--count", str(count), "--density", str(density), "--nodes",
                        str(nodes), "--ranks-per-node", str(per_node), "--json", str(out)], check=True, stdout=subprocess.DEVNULL)
        return {r["algorithm"]: r["total_ms"] for r in json.loads(out.read_text())["predictions"]}


def median(values):
    values = sorted(values)
    return values[len(values) // 2] if values else float("nan")


def report(program, results, file):
    lines = ["# All algorithms on the cluster of tests/cluster", "",
             f"Milliseconds (median over iterations of the slowest rank), delivered in place; what is within {CLOSE} x the best was measured side by side;",
             "bytes sent per rank (the most of any rank) inside and across nodes; predictions by the cost functions from the machine as calibrated in the same run.", ""]
    within, errors, ratios = {"auto": [], "prediction": []}, [], []
    for (layout, rate, count, density), rows in cells(results):
        predicted = predict(program, results[f"{layout} {rate}"]["machine"], layout, count, density)
        lines += [f"## {layout}, {rate}, {count:,} floats, density {density}", "",
                  "| algorithm | total | select | in node | exchange | apply | bytes in node | bytes across | predicted |",
                  "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]
        fixed = {name: r["median_ms"] for name, r in rows.items() if name != "auto"}
        for r in sorted(rows.values(), key=lambda r: r["median_ms"]):
            name = f"**auto** ({r['ran_as']})" if r["algorithm"] == "auto" else r["algorithm"]
            expected = predicted[r["ran_as"]]
            lines.append(f"| {name} | {r['median_ms']:.1f} | {r['select_ms']:.1f} | {r['in_node_ms']:.1f} | {r['exchange_ms']:.1f} | "
                         f"{r['apply_ms']:.1f} | {r['bytes_in_node']:,} | {r['bytes_across']:,} | {expected:.1f} |")
            if r["algorithm"] != "auto":
                errors.append(abs(expected - r["median_ms"]) / r["median_ms"])
        best, chosen = min(fixed, key=fixed.get), min(fixed, key=predicted.get)
        factors = {"auto": rows["auto"]["median_ms"] / fixed[best], "prediction": fixed[chosen] / fixed[best]}
        for group, factor in factors.items():
            within[group].append(factor <= WITHIN)
        lines += ["", f"Times {best}'s: auto {factors['auto']:.2f}, {chosen}, predicted to be the fastest, "
                      f"{factors['prediction']:.2f}."]
        sent = {name: r["bytes_across"] for name, r in rows.items()}
        if layout == "4x2" and "hi_oktopk" in sent and "oktopk" in sent:
            ratios.append(sent["hi_oktopk"] / sent["oktopk"])
            lines += ["", f"hi_oktopk sends {ratios[-1]:.2f} x what oktopk sends across nodes."]
        lines.append("")
    summary = ["## In short", ""]
    if ratios:
        summary.append(f"- hi_oktopk sends {min(ratios):.2f} to {max(ratios):.2f} x the bytes of oktopk across nodes at 4x2.")
    for group, name in (("prediction", "The algorithm predicted to be the fastest"), ("auto", f"auto with {TRIALS[COUNTS[0]]} trial iterations, {TRIALS[COUNTS[1]]} of the smaller problems,")):
        if within[group]:
            summary.append(f"- {name} is within {100 * (WITHIN - 1):.0f} % of the best in {sum(within[group])} of {len(within[group])} cases.")
    if errors:
        summary.append(f"- Prediction against measurement: median error {100 * median(errors):.0f} % over {len(errors)} rows.")
    file.write_text("\n".join(lines[:5] + summary + [""] + lines[5:]) + "\n")
    print("\n".join(summary))


def plot(results, file):
    """Draws one panel per layout and rate, with one group of bars per size and density."""
    with tempfile.TemporaryDirectory() as folder:
        panels = []
        for key in results:
            layout, rate = key.split()
            columns, names = [], DENSE + SPARSE + ["auto"]
            table = {}
            for (l, r, count, density), rows in cells(results):
                if (l, r) != (layout, rate):
                    continue
                column = f"{count / 1e6:.0f} M, {density * 100:g} %"
                columns.append(column)
                for name, row in rows.items():
                    table[(name, column)] = row["median_ms"]
            data = pathlib.Path(folder) / f"{layout}_{rate}.dat"
            with data.open("w") as out:
                out.write("algorithm " + " ".join(f'"{c}"' for c in columns) + "\n")
                for name in names:
                    out.write(name.replace("_", "\\\\_") + " " +
                              " ".join(str(table.get((name, c), "NaN")) for c in columns) + "\n")
            panels.append((layout, rate, data, len(columns)))
        script = [f"set terminal svg size 1500,{120 + 420 * ((len(panels) + 1) // 2)} font 'sans,13' background 'white'", f"set output '{file}'",
                  f"set multiplot layout {(len(panels) + 1) // 2},2 title 'Allreduce on a cluster of namespaces (less is better)' font ',17'",
                  "set style data histogram", "set style histogram clustered gap 1", "set style fill solid 0.9 noborder", "set logscale y",
                  "set ylabel 'milliseconds'", "set grid y", "set xtics rotate by -35 left nomirror font ',12'", "set key top right font ',11'",
                  "set yrange [1:*]", "set bmargin 8"]
        colours = ["#1b4965", "#5fa8d3", "#bc4b51", "#f4a259"]
        for layout, rate, data, columns in panels:
            script.append(f"set title '{layout.replace('x', ' nodes x ')} rank(s), {rate.replace('gbit', ' Gbit/s').replace('mbit', ' Mbit/s')}'")
            script.append("plot " + ", ".join(f"'{data}' using {i + 2}:xtic(1) title columnheader({i + 2}) lc rgb '{colours[i]}'"
                                              for i in range(columns)))
        subprocess.run(["gnuplot"], input="\n".join(script) + "\n", text=True, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path, help="the weir command of a build with Open MPI")
    parser.add_argument("--layouts", nargs="+", default=list(LAYOUTS), choices=list(LAYOUTS), help="nodes x ranks per node")
    parser.add_argument("--rates", nargs="+", default=["1gbit", "200mbit"], help="of every node's network card")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "perfmodels/results", help="folder for cluster.{json,md,svg}")
    parser.add_argument("--report-only", action="store_true", help="only tables and picture, from the JSON that is there")
    options = parser.parse_args()
    options.results.mkdir(parents=True, exist_ok=True)
    file = options.results / "cluster.json"
    results = json.loads(file.read_text()) if file.exists() else {}
    if not options.report_only:
        if os.geteuid() != 0:
            sys.exit("measure.py: the cluster needs root")
        measure(options.program.resolve(), results, lambda: file.write_text(json.dumps(results, indent=1) + "\n"), options.layouts,
                options.rates)
    report(options.program.resolve(), results, options.results / "cluster.md")
    plot(results, options.results / "cluster.svg")


if __name__ == "__main__":
    main()
