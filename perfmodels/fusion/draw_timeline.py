#!/usr/bin/env python3
"""Draws a training step of `weir bench fusion` on one rank from its trace, with several schemes one below the other: what the GPU
computes, what the host selects and waits for, and which buffers are in flight.

    WEIR_TRACE=traces mpirun -n 4 weir bench fusion --model resnet50
    perfmodels/fusion/draw_timeline.py traces/weir-trace.c0.rank0.json timeline.svg
    perfmodels/fusion/draw_timeline.py traces/weir-trace.c0.rank0.json timeline.svg --schemes none ahead_inter_intra --title "..."

Draws the step of median length among the last steps.
"""
import argparse
import collections
import json
import re

import matplotlib

matplotlib.use("Agg")
import matplotlib.patches  # noqa: E402
import matplotlib.pyplot as plt  # noqa: E402

SCHEMES = ["none", "behind", "ahead", "ahead_inter", "ahead_inter_intra", "ahead_tapered"]
PARTS = ["backward", "ready", "wait", "forward"]
COLOURS = {"backward": "#5b7a99", "forward": "#a9bfd3", "ready": "#e8b23f", "wait": "#d9694f", "exchange": "#3c9a6b"}
WORDS = {"backward": "GPU: backward pass", "forward": "GPU: next forward pass", "ready": "host: select, hand in", "wait": "host: wait",
         "exchange": "exchange of a buffer"}
LAST = 7  # steps to choose from
LEAST = 0.002  # ms: thinner bars are not drawn by themselves


def load(file):
    """Returns a rank's events. The last bracket of a trace may be missing."""
    text = open(file).read().strip().rstrip(",")
    return json.loads(text if text.endswith("]") else text + "]")


class Trace:
    def __init__(self, events):
        names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
        self.rows = collections.defaultdict(list)  # name: (begin ms, end ms, number)
        for e in events:
            if e.get("cat") == "run":
                self.rows[names[e["tid"]]].append((e["ts"] / 1e3, (e["ts"] + e["dur"]) / 1e3, e["args"]["run"]))

    def steps(self, scheme):
        """Returns [begin, end, {part: bars}] of every step, in order. A step begins with the first gradient."""
        first = max(number for _, _, number in self.rows[f"{scheme}: backward"])
        begins = [begin for begin, _, number in self.rows[f"{scheme}: backward"] if number == first]
        steps = []
        for begin, after in zip(begins, begins[1:] + [float("inf")]):
            parts = {part: [bar for bar in self.rows[f"{scheme}: {part}"] if begin <= bar[0] < after] for part in PARTS}
            end = max(bar[1] for part in PARTS for bar in parts[part])
            parts["exchange"] = sorted(bar for name, bars in self.rows.items() if self.is_exchange(name, scheme) for bar in bars
                                       if begin <= bar[0] < end)
            steps.append((begin, end, parts))
        return steps

    @staticmethod
    def is_exchange(name, scheme):
        """Returns whether the bar is a buffer's exchange. A trace numbers buffers: "behind 0: ..." for the object named
        `behind`."""
        return re.match(rf"{re.escape(scheme)} \d+:", name)


def lanes(bars):
    """Puts each bar into the first free lane. Returns [(lane, bar), ...] and the number of lanes."""
    ends, placed = [], []
    for bar in bars:
        lane = next((i for i, end in enumerate(ends) if end <= bar[0]), len(ends))
        if lane == len(ends):
            ends.append(0)
        ends[lane] = bar[1]
        placed.append((lane, bar))
    return placed, len(ends)


def merged(bars):
    """Merges bars that touch, because many tensors are too thin to see."""
    out = []
    for begin, end, _ in sorted(bars):
        if out and begin - out[-1][1] < LEAST:
            out[-1][1] = max(out[-1][1], end)
        else:
            out.append([begin, end])
    return out


def draw_scheme(axis, scheme, step):
    begin, end, parts = step
    computing = sum(last - first for part in ("backward", "forward") for first, last, _ in parts[part])

    def bars(part, spans, y, height, edge="none"):
        axis.broken_barh([(first - begin, max(last - first, LEAST)) for first, last in spans], (y, height), facecolors=COLOURS[part],
                         edgecolors=edge, linewidth=0.4)

    for part in ("backward", "forward"):
        bars(part, merged(parts[part]), 2.1, 0.8)
    for part in ("ready", "wait"):
        bars(part, merged([bar for bar in parts[part] if bar[1] - bar[0] >= LEAST]), 1.1, 0.8)
    placed, count = lanes(parts["exchange"])
    for lane, (first, last, _) in placed:
        height = 0.9 / count
        bars("exchange", [(first, last)], 0.95 - (lane + 1) * height, 0.92 * height, "white" if count < 12 else "none")
    axis.set_yticks([2.5, 1.5, 0.5], ["GPU", "host", "network"])
    axis.set_ylim(0, 3)
    axis.axvline(end - begin, color="#222", linewidth=1)
    axis.set_title(f"{scheme}: {end - begin:.1f} ms, of which {end - begin - computing:.1f} ms are not computing; {len(parts['exchange'])} "
                   "exchanges", loc="left", fontsize=10)
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(axis="y", length=0)
    return end - begin


def median_step(steps):
    last = sorted(steps[-LAST:], key=lambda step: step[1] - step[0])
    return last[len(last) // 2]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", help="of one rank")
    parser.add_argument("picture", help="an .svg or .png file")
    parser.add_argument("--schemes", nargs="+", help="the usual ones by default, as far as they are in the trace")
    parser.add_argument("--title", default="")
    options = parser.parse_args()
    trace = Trace(load(options.trace))
    schemes = options.schemes or [scheme for scheme in SCHEMES if f"{scheme}: backward" in trace.rows]
    absent = [scheme for scheme in schemes if f"{scheme}: backward" not in trace.rows]
    if absent or not schemes:
        parser.error(f"{options.trace} has no steps of {', '.join(absent) or 'any scheme'}: it must be the trace of `weir bench fusion`")
    figure, axes = plt.subplots(len(schemes), 1, figsize=(11, 1.45 * len(schemes) + 1.1), sharex=True, squeeze=False)
    longest = max(draw_scheme(axis, scheme, median_step(trace.steps(scheme))) for axis, scheme in zip(axes[:, 0], schemes))
    axes[-1, 0].set_xlim(0, 1.01 * longest)
    axes[-1, 0].set_xlabel("ms since the backward pass began")
    handles = [matplotlib.patches.Patch(color=COLOURS[part], label=WORDS[part]) for part in ("backward", "forward", "ready", "wait", "exchange")]
    height = figure.get_figheight()
    figure.legend(handles=handles, ncols=5, loc="upper center", frameon=False, fontsize=9, bbox_to_anchor=(0.5, 1 - (0.3 if options.title else 0) / height))
    figure.suptitle(options.title, fontsize=12, weight="bold", y=1 - 0.08 / height)
    figure.tight_layout(rect=(0, 0, 1, 1 - (0.55 if options.title else 0.25) / height))
    figure.savefig(options.picture, dpi=110)


main()
