#!/usr/bin/env python3
"""Draws what perfmodels/results/cluster.json has measured: docs/measured.svg, how long every algorithm takes, and
docs/which-algorithm.svg, which one to use.

    docs/draw_measured.py              # writes both
    docs/draw_measured.py --check      # exits with 1 where they are not what it would write
"""
import argparse
import html
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FONT = "font-family='Helvetica, Arial, sans-serif'"
INK, SOFT, LINE, DENSE, SPARSE, BEST, BOX = "#222", "#666", "#5b6b7b", "#c9ced6", "#5fa8d3", "#1b4965", "#eef1f4"

LABELS = {"dense_mpi": "MPI_Iallreduce"}


class Results:
    def __init__(self, file):
        self.rows = {}
        for key, block in json.loads(file.read_text()).items():
            for row in block["rows"]:  # what was measured again, side by side, comes later and replaces the first
                self.rows[key, row["count"], None if row["group"] == "dense" else row["density"], row["algorithm"]] = row

    def row(self, key, count, density, name):
        return self.rows[key, count, None if name.startswith("dense") else density, name]

    def ms(self, *what):
        return self.row(*what)["median_ms"]


def text(x, y, words, size=12.5, colour=INK, anchor="start", weight="normal"):
    return (f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size}' fill='{colour}' text-anchor='{anchor}' font-weight='{weight}'>"
            f"{html.escape(words)}</text>")


def bar(x, y, width, height, colour):
    return f"<rect x='{x:.1f}' y='{y:.1f}' width='{max(width, 1):.1f}' height='{height}' fill='{colour}'/>"


def svg(width, height, parts, title):
    return "\n".join([f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' viewBox='0 0 {width} {height}' {FONT}>",
                      f"<title>{html.escape(title)}</title>", f"<rect width='{width}' height='{height}' fill='#fff'/>", *parts, "</svg>", ""])


def milliseconds(ms):
    return f"{ms:,.0f} ms" if ms >= 20 else f"{ms:.1f} ms"


def draw_times(results):
    """One allreduce of a large gradient, by every algorithm: bars."""
    key, count, density = "4x2 1gbit", 25_600_000, 0.01
    names = ["dense_mpi", "dense_ring", "dense_torus2d", "topk_allgather", "topk_dsa", "hitopk", "gtopk", "hi_oktopk", "oktopk"]
    left, right, top, height, step = 130, 150, 74, 18, 26
    scale = (900 - left - right) / max(results.ms(key, count, density, name) for name in names)
    parts = [text(left, 28, "One allreduce of 25.6 million floats, 4 nodes of 2 ranks at 1 Gbit/s", 16, weight="bold"),
             text(left, 50, "grey: all of them; blue: the largest 1 %, the rest stays in the residual", colour=SOFT)]
    for i, name in enumerate(names):
        ms, y = results.ms(key, count, density, name), top + i * step
        parts += [text(left - 10, y + 13.5, LABELS.get(name, name), anchor="end"),
                  bar(left, y, ms * scale, height, DENSE if name.startswith("dense") else BEST if "oktopk" in name else SPARSE),
                  text(left + ms * scale + 8, y + 13.5, milliseconds(ms))]
    return svg(900, top + len(names) * step + 14, parts, "Milliseconds of one allreduce by algorithm")


class Chart:
    """Questions one below the other on the left; what to use on the right, with what was measured."""
    question_x, question_width, leaf_x, leaf_width, gap = 24, 280, 376, 600, 22

    def __init__(self):
        self.parts, self.y, self.last = [], 76, None  # last: where the box of the last question ends

    def box(self, x, y, width, height, colour):
        self.parts.append(f"<rect x='{x}' y='{y}' width='{width}' height='{height}' rx='7' fill='{colour}' stroke='{LINE}'/>")

    def arrow(self, x1, y1, x2, y2, word, dx, dy):
        self.parts += [f"<line x1='{x1}' y1='{y1}' x2='{x2}' y2='{y2}' stroke='{LINE}' stroke-width='1.4' marker-end='url(#arrow)'/>",
                       text((x1 + x2) / 2 + dx, (y1 + y2) / 2 + dy, word, 12.5, SOFT, "middle", "bold")]

    def row(self, question, answer, leaf, why, bars):
        """`question` and `why`: lines; `bars`: (label, ms), of which the first is what to use."""
        top = 36 + 17 * len(why)
        height = top + 19 * len(bars) + 10
        middle, tall = self.y + height / 2, 26 + 18 * len(question)
        begin = middle - tall / 2
        self.box(self.question_x, begin, self.question_width, tall, "#fdf0d5")
        for i, line in enumerate(question):
            self.parts.append(text(self.question_x + 14, begin + 26 + 18 * i, line, 13, weight="normal" if i else "bold"))
        if self.last:
            self.arrow(self.question_x + 70, self.last, self.question_x + 70, begin - 2, "no", 16, 3)
        self.last = begin + tall
        self.box(self.leaf_x, self.y, self.leaf_width, height, BOX)
        self.arrow(self.question_x + self.question_width, middle, self.leaf_x - 2, middle, answer, 0, -7)
        self.parts.append(text(self.leaf_x + 14, self.y + 24, leaf, 15, BEST, weight="bold"))
        self.parts += [text(self.leaf_x + 14, self.y + 43 + 17 * i, line, 12, SOFT) for i, line in enumerate(why)]
        largest = max((ms for _, ms in bars), default=0)
        for i, (label, ms) in enumerate(bars):
            y, length = self.y + top + 3 + 19 * i, 330 * ms / largest
            self.parts += [text(self.leaf_x + 118, y + 10.5, label, 11.5, INK, "end"), bar(self.leaf_x + 126, y, length, 13, SPARSE if i else BEST),
                           text(self.leaf_x + 132 + length, y + 10.5, milliseconds(ms), 11.5)]
        self.y += height + self.gap


def draw_choice(results):
    large, small = 25_600_000, 4_194_304

    def bars(key, count, density, *names):
        return [(LABELS.get(name, name), results.ms(key, count, density, name)) for name in names]

    chart = Chart()
    chart.parts += ["<defs><marker id='arrow' markerWidth='9' markerHeight='9' refX='7' refY='4' orient='auto'>"
                    f"<path d='M0,0 L8,4 L0,8 z' fill='{LINE}'/></marker></defs>",
                    text(24, 32, "Which algorithm should I use?", 18, weight="bold"),
                    text(24, 54, "Times: medians of one allreduce on 8 ranks, from perfmodels/results/cluster.md", 12.5, SOFT)]
    chart.row(["Must every entry arrive at once?", "losses, dot products, statistics"], "yes", "dense_torus2d; with one rank a node, dense_ring",
              ["25.6 M floats, 4 nodes × 2 ranks, 1 Gbit/s; in GPU memory, dense_nccl"],
              bars("4x2 1gbit", large, 0.01, "dense_torus2d", "dense_ring", "dense_mpi"))
    chart.row(["Is the network fast for this size?", "Ask weir predict."], "yes", "a dense one",
              ["weir predict --nodes 16 --count 25557032 --network 800Gbit,2us says:", "\u201cdo not compress: dense_rabenseifner takes 13.751 ms,", "the cheapest sparse algorithm, oktopk, 15.296 ms\u201d"], [])
    chart.row(["Are only a few thousand entries", "delivered?  k = density × n"], "yes", "gtopk",
              ["few messages: k = 4,194, 8 nodes, 1 Gbit/s"], bars("8x1 1gbit", small, 0.001, "gtopk", "oktopk", "topk_allgather"))
    chart.row(["Do several ranks share a slow", "network card?"], "yes", "hi_oktopk",
              ["sums in the node first and sends half the bytes across:", "25.6 M floats, 1 %, 4 nodes × 2 ranks, 200 Mbit/s"],
              bars("4x2 200mbit", large, 0.01, "hi_oktopk", "oktopk", "hitopk"))
    chart.row(["Otherwise"], "", "oktopk, the default", ["25.6 M floats, 1 %, 8 nodes, 1 Gbit/s"],
              bars("8x1 1gbit", large, 0.01, "oktopk", "gtopk", "topk_dsa", "topk_allgather"))
    cases = within = 0
    for key in {key for key, *_ in results.rows}:
        for count in (large, small):
            for density in (0.01, 0.001):
                fixed = [row["median_ms"] for (k, c, d, name), row in results.rows.items() if (k, c) == (key, count) and d in (None, density) and name != "auto"]
                cases += 1
                within += results.ms(key, count, density, "auto") <= 1.15 * min(fixed)
    chart.parts.append(text(24, chart.y + 14, f"Or let Weir decide: algorithm = \"auto\". After its trials it was within 15 % of the best in {within} of {cases} cases.", 13.5, weight="bold"))
    return svg(1000, chart.y + 34, chart.parts, "Which algorithm should I use: five questions, with measured times")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    results = Results(ROOT / "perfmodels/results/cluster.json")
    stale = []
    for name, picture in (("docs/measured.svg", draw_times(results)), ("docs/which-algorithm.svg", draw_choice(results))):
        if not options.check:
            (ROOT / name).write_text(picture)
        elif not (ROOT / name).exists() or (ROOT / name).read_text() != picture:
            stale.append(name)
    if stale:
        sys.exit(f"{', '.join(stale)}: not what perfmodels/results/cluster.json says. docs/draw_measured.py draws anew.")


if __name__ == "__main__":
    main()
