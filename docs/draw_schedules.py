#!/usr/bin/env python3
"""Draws what perfmodels/results/schedules-P.json have measured, for P = 2, 4 and 8 ranks: docs/schedules.svg, times of oktopk by each
of its schedules over the number of elements, and of MPI_Allreduce.

    mpirun -n 2 weir-benchmarks schedules --json perfmodels/results/schedules-2.json     # the same for 4 and 8
    docs/draw_schedules.py              # writes it
    docs/draw_schedules.py --check      # exits with 1 where it is not what it would write
"""
import argparse
import json
import math
import pathlib
import sys

from draw_measured import BEST, DENSE, INK, LINE, ROOT, SOFT, SPARSE, svg, text

RANKS = (2, 4, 8)
LEFT, TOP, WIDTH, HEIGHT, GAP = 62, 98, 320, 330, 34
CHOSEN = {"one_round": "#d9541e", "phased": "#3a8f4d", "direct": BEST, "shared": "#8250c4"}
# Colour, width and dashes of each row of the benchmark.
LINES = {"MPI_Allreduce": ("#8a93a0", 3, ""), "add": (DENSE, 2, "3 4"), "one_round": (CHOSEN["one_round"], 1, ""),
         "phased": (CHOSEN["phased"], 1, ""), "direct": (CHOSEN["direct"], 1, ""), "shared": (CHOSEN["shared"], 1, "")}


def count_label(count):
    for unit, power in (("M", 20), ("k", 10)):
        if count >= 1 << power:
            return f"{count >> power} {unit}"
    return str(count)


def time_label(ms):
    return f"{ms:g} ms" if ms >= 1 else f"{1000 * ms:g} µs"


class Axes:
    """Both logarithmic, the same in all panels."""

    def __init__(self, tables):
        counts = sorted({count for table in tables.values() for count, _ in table})
        times = [row["median_ms"] for table in tables.values() for (_, name), row in table.items() if name != "add"]
        self.counts = counts
        self.x_low, self.x_high = math.log2(counts[0]) - 0.4, math.log2(counts[-1]) + 0.4
        self.y_low, self.y_high = math.floor(2 * math.log10(min(times))) / 2, math.ceil(2 * math.log10(max(times))) / 2

    def x(self, count):
        return WIDTH * (math.log2(count) - self.x_low) / (self.x_high - self.x_low)

    def y(self, ms):
        return TOP + HEIGHT * (self.y_high - math.log10(ms)) / (self.y_high - self.y_low)

    def powers(self):
        return range(math.ceil(self.y_low), math.floor(self.y_high) + 1)


def draw_panel(ranks, table, axes, left):
    bottom = TOP + HEIGHT
    parts = [text(left, TOP - 12, f"{ranks} ranks", 14, weight="bold")]
    parts += [f"<path d='M{left} {axes.y(10**p):.1f} H{left + WIDTH}' stroke='#e6e9ee'/>" for p in axes.powers()]
    parts.append(f"<path d='M{left} {TOP} V{bottom} H{left + WIDTH}' fill='none' stroke='{LINE}'/>")
    for count in axes.counts:
        if (count.bit_length() - 1) % 2 == 0:
            parts.append(text(left + axes.x(count), bottom + 17, count_label(count), 11, SOFT, "middle"))
    for name, (colour, width, dashes) in LINES.items():
        points = [(left + axes.x(count), axes.y(table[count, name]["median_ms"])) for count in axes.counts
                  if (count, name) in table and math.log10(table[count, name]["median_ms"]) >= axes.y_low]
        path = " L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        parts.append(f"<path d='M{path}' fill='none' stroke='{colour}' stroke-width='{width}'" + (f" stroke-dasharray='{dashes}'" if dashes else "") + "/>")
    for count in axes.counts:
        row = table[count, "automatic"]
        schedule = row["ran_as"].split()[0]
        parts.append(f"<circle cx='{left + axes.x(count):.1f}' cy='{axes.y(row['median_ms']):.1f}' r='4.5' fill='{CHOSEN[schedule]}'/>")
    return parts


def draw(tables, density):
    axes = Axes(tables)
    width = LEFT + len(RANKS) * (WIDTH + GAP)
    parts = [text(LEFT, 28, f"oktopk on one machine: time of an allreduce over elements, density {100 * density:g} %", 16, weight="bold")]
    x = LEFT
    for name, (colour, thick, dashes) in LINES.items():
        label = {"add": "r[i] += g[i] by all ranks"}.get(name, name)
        parts += [f"<path d='M{x} 50 H{x + 22}' stroke='{colour}' stroke-width='{thick}'" + (f" stroke-dasharray='{dashes}'" if dashes else "") + "/>",
                  text(x + 28, 54, label, 12, SOFT)]
        x += 46 + 7 * len(label)
    parts += [f"<circle cx='{x + 6}' cy='50' r='4.5' fill='{INK}'/>", text(x + 16, 54, "automatic, in the colour of its choice", 12, SOFT)]
    for i, ranks in enumerate(RANKS):
        parts += draw_panel(ranks, tables[ranks], axes, LEFT + i * (WIDTH + GAP))
    parts += [text(LEFT - 8, axes.y(10**p) + 4, time_label(10.0**p), 11, SOFT, "end") for p in axes.powers()]
    parts.append(text(width / 2, TOP + HEIGHT + 36, "elements", 12, SOFT, "middle"))
    return svg(width, TOP + HEIGHT + 50, parts, "Times of oktopk by each of its schedules, and of MPI_Allreduce")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "perfmodels/results")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "docs/schedules.svg")
    options = parser.parse_args()
    rows = {ranks: json.loads((options.results / f"schedules-{ranks}.json").read_text()) for ranks in RANKS}
    tables = {ranks: {(row["count"], row["algorithm"]): row for row in some} for ranks, some in rows.items()}
    picture = draw(tables, rows[RANKS[0]][0]["density"])
    if not options.check:
        options.output.write_text(picture)
    elif not options.output.exists() or options.output.read_text() != picture:
        sys.exit(f"{options.output}: not what {options.results} says. docs/draw_schedules.py draws anew.")


main()
