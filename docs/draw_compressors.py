#!/usr/bin/env python3
"""Draws what perfmodels/results/compressors.json has measured: docs/compressors.svg, accuracy and perplexity over bytes, and time.

    docs/draw_compressors.py              # writes it
    docs/draw_compressors.py --check      # exits with 1 where it is not what it would write
"""
import argparse
import json
import math
import pathlib
import sys

from draw_measured import BEST, DENSE, INK, LINE, ROOT, SOFT, SPARSE, bar, milliseconds, svg, text

WIDTH, LEFT, SCATTER, LIST, ROW = 1180, 70, 470, 610, 21
TITLES = {"fashion_mnist": ("Fashion-MNIST, 4 ranks: test accuracy over bytes", "test accuracy"),
          "language_model": ("Language model, 4 ranks: perplexity over bytes", "perplexity")}
COMPRESSION = "#d9541e"


def decimal(count):
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5 or unit == "GB":
            return f"{count:.3g} {unit}"
        count /= 1e3


def shown(example, value):
    return f"{100 * value:.1f} %" if example == "fashion_mnist" else f"{value:.1f}"


def dot(x, y, colour):
    return f"<circle cx='{x:.1f}' cy='{y:.1f}' r='8.5' fill='{colour}'/>"


def apart(points):
    """Places for numbered dots near these points, none on another."""
    places = [list(point) for point in points]
    for _ in range(400):
        for i in range(len(places)):
            for j in range(i):
                dx, dy = places[i][0] - places[j][0], places[i][1] - places[j][1]
                distance = math.hypot(dx, dy)
                if distance >= 18:
                    continue
                if distance < 0.01:
                    dx, dy, distance = 0, 1, 1
                push = (18 - distance) / 2 + 0.05
                for place, way in ((places[i], push), (places[j], -push)):
                    place[0] += way * dx / distance
                    place[1] += way * dy / distance
    return places


def colour_of(name, run):
    by = run["settings"][0]
    return INK if name == "none" else SPARSE if by == "oktopk" else BEST if by.startswith("packed") else "#3a8f4d"


def draw_example(example, runs, top):
    """Numbered dots on the left, the names with their times on the right. Returns parts and height."""
    title, quality = TITLES[example]
    better = 1 if example == "fashion_mnist" else -1
    dense = runs["none"]["quality"]
    order = sorted(runs, key=lambda name: runs[name]["bytes_per_step"])
    height = max(330, ROW * len(order) + 20)
    parts = [text(LEFT, top + 22, title, 16, weight="bold"),
             text(LIST, top + 22, "milliseconds a step", 13, SOFT), bar(LIST + 150, top + 12, 12, 11, COMPRESSION),
             text(LIST + 167, top + 22, "compression", 12, SOFT), bar(LIST + 250, top + 12, 12, 11, DENSE), text(LIST + 267, top + 22, "all else", 12, SOFT)]
    top += 44
    # What is far off is drawn at the edge.
    limit = dense - 0.045 if better > 0 else dense * 1.25
    values = [runs[name]["quality"] for name in order]
    worst = max(min(values), limit) if better > 0 else min(max(values), limit)
    best = max(values) if better > 0 else min(values)
    margin = 0.06 * abs(best - worst) or 0.01 * abs(best)
    low, high = math.log10(min(runs[n]["bytes_per_step"] for n in order)) - 0.1, math.log10(max(runs[n]["bytes_per_step"] for n in order)) + 0.1

    def x_of(value):
        return LEFT + SCATTER * (math.log10(value) - low) / (high - low)

    def y_of(value):
        value = max(value, worst) if better > 0 else min(value, worst)
        return top + 10 + (height - 50) * abs(best + better * margin - value) / abs(best - worst + 2 * better * margin)

    bottom = top + height - 40
    parts.append(f"<path d='M{LEFT} {top} V{bottom} H{LEFT + SCATTER}' fill='none' stroke='{LINE}'/>")
    parts.append(f"<path d='M{LEFT} {y_of(dense):.1f} H{LEFT + SCATTER}' stroke='{LINE}' stroke-dasharray='4 4'/>")
    for i in range(5):
        value = worst + (best - worst) * i / 4
        parts.append(text(LEFT - 8, y_of(value) + 4, shown(example, value), 11, SOFT, "end"))
    for power in range(math.ceil(low), math.floor(high) + 1):
        parts.append(text(x_of(10**power), bottom + 17, decimal(10**power), 11, SOFT, "middle"))
    parts.append(text(LEFT + SCATTER / 2, bottom + 34, f"sent by a rank in a step; dashed: the {quality} of dense training; ▾: beyond the edge", 12, SOFT, "middle"))
    longest = max(runs[name]["ms_per_step"] for name in order)
    exact = [(x_of(runs[name]["bytes_per_step"]), y_of(runs[name]["quality"])) for name in order]
    places = apart(exact)
    for (x, y), (at_x, at_y) in zip(exact, places):
        if math.hypot(at_x - x, at_y - y) > 1:
            parts.append(f"<path d='M{x:.1f} {y:.1f} L{at_x:.1f} {at_y:.1f}' stroke='{LINE}'/><circle cx='{x:.1f}' cy='{y:.1f}' r='2' fill='{LINE}'/>")
    for i, name in enumerate(order):
        run, y = runs[name], top + ROW * i
        colour = colour_of(name, run)
        beyond = " ▾" if (run["quality"] - worst) * better < 0 else ""
        parts += [dot(*places[i], colour), text(places[i][0], places[i][1] + 3.6, str(i + 1), 10, "#fff", "middle", "bold")]
        length = 190 * run["ms_per_step"] / longest
        within = 190 * min(run["ms_compression_per_step"], run["ms_per_step"]) / longest
        label = "dense" if name == "none" else name.replace("packed_", "")
        parts += [dot(LIST + 9, y + 7, colour), text(LIST + 9, y + 10.6, str(i + 1), 10, "#fff", "middle", "bold"),
                  text(LIST + 25, y + 11, label, 12), text(LIST + 245, y + 11, shown(example, run["quality"]) + beyond, 12, SOFT, "end"),
                  bar(LIST + 256, y, length, 14, DENSE), bar(LIST + 256, y, within, 14, COMPRESSION),
                  text(LIST + 262 + length, y + 11, milliseconds(run["ms_per_step"]), 11, SOFT)]
    return parts, height + 44


def draw(results):
    parts, top = [], 10
    for example, runs in results.items():
        if "none" in runs:
            more, height = draw_example(example, runs, top)
            parts += more
            top += height + 14
    parts += [dot(LEFT + 9, top + 12, BEST), text(LEFT + 24, top + 16, "bytes", 12, SOFT), dot(LEFT + 89, top + 12, SPARSE),
              text(LEFT + 104, top + 16, "entries", 12, SOFT), dot(LEFT + 179, top + 12, "#3a8f4d"),
              text(LEFT + 194, top + 16, "values or factors that are summed as they are", 12, SOFT)]
    return svg(WIDTH, top + 34, parts, "Training with every compressor: quality over bytes, and time")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "perfmodels/results/compressors.json")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "docs/compressors.svg")
    options = parser.parse_args()
    picture = draw(json.loads(options.results.read_text()))
    if not options.check:
        options.output.write_text(picture)
    elif not options.output.exists() or options.output.read_text() != picture:
        sys.exit(f"{options.output}: not what {options.results} says. docs/draw_compressors.py draws anew.")


main()
