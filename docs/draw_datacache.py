#!/usr/bin/env python3
"""Draws docs/datacache.svg, images per second over the time of a training with the sample cache and without, from
perfmodels/results/datacache.json.

    docs/draw_datacache.py              # writes it
    docs/draw_datacache.py --check      # exits with 1 where it is not what it would write
"""
import argparse
import json
import math
import sys

from draw_measured import BEST, INK, ROOT, SOFT, SPARSE, svg, text

FILE = ROOT / "docs/datacache.svg"
WIDTH, LEFT, RIGHT, TOP, HEIGHT, BIN = 900, 70, 30, 116, 300, 0.5  # BIN: seconds
RUNS = [("without", "#c1664f", "without the cache: every image from the store, in every epoch"),
        ("cache", SPARSE, "with the cache: the store in the first epoch, then the memory of the nodes"),
        ("later", BEST, "a later run: what the folders have of the first one, then memory")]


def rates(steps):
    """[(begin, end, images per second)] in equal parts of the run's time; a step's images are spread over the time since the last one."""
    end = steps[-1][0]
    bins = [0.0] * max(1, round(end / BIN))
    width = end / len(bins)
    before = 0
    for seconds, _, images, _ in steps:
        for i in range(int(before / width), min(int(seconds / width), len(bins) - 1) + 1):
            share = min(seconds, (i + 1) * width) - max(before, i * width)
            bins[i] += images * max(share, 0) / (seconds - before)
        before = seconds
    return [(i * width, (i + 1) * width, images / width) for i, images in enumerate(bins)]


def epoch_ends(steps):
    return [max(step[0] for step in steps if step[1] == epoch) for epoch in sorted({step[1] for step in steps})]


def draw(training):
    runs = training["runs"]
    latest = max(steps[-1][0] for steps in runs.values())
    highest = max(rate for steps in runs.values() for *_, rate in rates(steps))
    power = 10 ** math.floor(math.log10(highest))
    tick = 2 * power if highest > 4 * power else power // 2 if highest > 2 * power else power // 5

    def x(seconds):
        return LEFT + (WIDTH - LEFT - RIGHT) * seconds / latest

    def y(rate):
        return TOP + HEIGHT * (1 - rate / highest)

    parts = [text(LEFT, 26, f"Training on {training['images']:,} images behind HTTP, {training['nodes']} nodes at 1 Gbit/s: images per second", 16, weight="bold")]
    for i, (_, colour, words) in enumerate(RUNS):
        parts += [f"<rect x='{LEFT}' y='{40 + 19 * i}' width='22' height='4' fill='{colour}'/>", text(LEFT + 30, 46 + 19 * i, words, 12.5, INK)]
    for i in range(int(highest / tick) + 1):
        parts += [f"<line x1='{LEFT}' y1='{y(i * tick):.1f}' x2='{WIDTH - RIGHT}' y2='{y(i * tick):.1f}' stroke='#e3e6ea'/>",
                  text(LEFT - 8, y(i * tick) + 4, f"{i * tick:,}", 12, SOFT, "end")]
    for seconds in range(0, int(latest) + 1, 5):
        parts.append(text(x(seconds), TOP + HEIGHT + 20, f"{seconds} s", 12, SOFT, "middle"))
    for name, colour, _ in RUNS:
        points = [point for begin, end, rate in rates(runs[name]) for point in ((begin, rate), (end, rate))]
        line = " ".join(f"{x(seconds):.1f},{y(rate):.1f}" for seconds, rate in points)
        parts.append(f"<polyline points='{line}' fill='none' stroke='{colour}' stroke-width='2.2'/>")
        for i, end in enumerate(epoch_ends(runs[name])):
            at = y(next(rate for begin, last, rate in rates(runs[name]) if end <= last))
            parts += [f"<circle cx='{x(end):.1f}' cy='{at:.1f}' r='4.5' fill='{colour}'/>", text(x(end), at - 9, str(i + 1), 12, colour, "middle", "bold")]
    parts.append(text(LEFT, TOP + HEIGHT + 42, "Dots: ends of epochs. All three learn the same.", 12.5, SOFT))
    return svg(WIDTH, TOP + HEIGHT + 56, parts, "Images per second over the time of a training, with the sample cache and without")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    picture = draw(json.loads((ROOT / "perfmodels/results/datacache.json").read_text())["training"])
    if not options.check:
        FILE.write_text(picture)
    elif not FILE.exists() or FILE.read_text() != picture:
        sys.exit(f"{FILE.relative_to(ROOT)}: not what perfmodels/results/datacache.json says. docs/draw_datacache.py draws anew.")


if __name__ == "__main__":
    main()
