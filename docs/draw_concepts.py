#!/usr/bin/env python3
"""Follows a gradient of 16 numbers on 4 ranks through two iterations, and draws it: docs/concepts.svg. tests/python/test_concepts.py
holds the library against the same numbers.

    docs/draw_concepts.py              # writes it
    docs/draw_concepts.py --check      # exits with 1 where it is not what it would write
"""
import argparse
import pathlib
import sys

from draw_measured import BEST, INK, SOFT, svg, text

K = 4  # entries that each rank selects, and that are delivered
GRADIENTS = [  # by iteration and rank
    [[1, 0, -2, 8, 0, 1, 3, 0, 0, -1, 9, 0, 2, 0, -6, 1], [0, 2, -1, 7, 1, 0, 0, -1, 5, 0, 1, 0, -8, 1, 0, 2],
     [2, 0, 0, 6, 0, -1, 1, 0, 4, 0, 2, -3, 0, 7, 0, 0], [0, 1, 0, 5, -2, 0, 0, 2, 1, 0, 8, 0, -1, 0, 3, -6]],
    [[0, 1, 0, 2, -5, 0, 3, 1, 0, 0, 2, 0, 6, 0, 1, 0], [1, 0, 2, 0, 0, -4, 1, 0, 2, 0, 0, 1, 0, 7, 0, -1],
     [0, 3, 0, 1, 0, 0, -2, 5, 0, 1, 0, 0, 2, 0, 4, 0], [2, 0, -1, 0, 1, 0, 0, 0, 6, 0, 1, -3, 0, 1, 0, 5]]]
CELL, LEFT, ROW = 36, 96, 24
SENT, KEPT, PLAIN = "#5fa8d3", "#f2d7a1", "#f4f6f8"


def largest(values):
    """The places of the K largest magnitudes, ties to the lowest; zeros are never among them."""
    order = sorted(range(len(values)), key=lambda i: (-abs(values[i]), i))[:K]
    return {i for i in order if values[i] != 0}


def follow(gradients=GRADIENTS):
    """For each iteration: by rank the sums of gradient and residual, what is selected of them, and the new residuals; the sum of
    what all have selected, and the places that are delivered."""
    residuals = [[0] * len(gradients[0][0]) for _ in gradients[0]]
    steps = []
    for of_ranks in gradients:
        sums = [[r + g for r, g in zip(residual, gradient)] for residual, gradient in zip(residuals, of_ranks)]
        selected = [largest(values) for values in sums]
        total = [sum(values[i] for values, mine in zip(sums, selected) if i in mine) for i in range(len(sums[0]))]
        delivered = largest(total)
        residuals = [[0 if i in mine and i in delivered else value for i, value in enumerate(values)]
                     for values, mine in zip(sums, selected)]
        steps.append({"gradients": of_ranks, "sums": sums, "selected": selected, "total": total, "delivered": delivered,
                      "residuals": residuals})
    return steps


def cells(y, name, values, fill, bold=()):
    parts = [text(LEFT - 10, y + 16, name, 12, SOFT, "end")]
    for i, value in enumerate(values):
        x = LEFT + i * CELL
        parts.append(f"<rect x='{x}' y='{y}' width='{CELL - 2}' height='{ROW - 2}' rx='3' fill='{fill(i)}'/>")
        parts.append(text(x + CELL / 2 - 1, y + 16, "" if value is None else f"{value}".replace("-", "−"), 12.5,
                          INK if value != 0 else "#aab2bd", "middle", "bold" if i in bold else "normal"))
    return parts


def block(y, title, rows):
    """A heading and rows of cells; returns where the next block begins."""
    parts = [text(LEFT, y, title, 13.5, BEST, weight="bold")]
    y += 10
    for row in rows:
        parts += cells(y, *row)
        y += ROW
    return parts, y + 26


def draw():
    parts, y = [text(LEFT, 30, "A gradient of 16 numbers on 4 ranks, k = 4", 17, weight="bold")], 62
    for number, step in enumerate(follow(), 1):
        parts.append(text(LEFT, y, f"Iteration {number}", 15, weight="bold"))
        parts += [text(LEFT + (i + 0.5) * CELL - 1, y + 20, str(i), 10.5, SOFT, "middle") for i in range(16)]
        parts.append(text(LEFT - 10, y + 20, "index", 10.5, SOFT, "end"))
        ranks = range(len(step["sums"]))
        plain = lambda i: PLAIN  # noqa: E731
        delivered = {i: step["total"][i] for i in step["delivered"]}
        blocks = [("Gradient + residual: each rank selects its 4 largest" if number > 1 else "Gradients: each rank selects its 4 largest",
                    [(f"rank {r}", step["sums"][r], lambda i, mine=step["selected"][r]: SENT if i in mine else PLAIN,
                      step["selected"][r]) for r in ranks]),
                   ("Exchange: sums of what was selected; the 4 largest are delivered",
                    [("sum", step["total"], lambda i, d=step["delivered"]: SENT if i in d else PLAIN, step["delivered"])]),
                   ("Update, the same on every rank: a quarter of it, the mean",
                    [("update", [f"{delivered[i] / 4:g}" if i in delivered else 0 for i in range(16)], plain)]),
                   ("Residual: what was not delivered waits on its rank",
                    [(f"rank {r}", step["residuals"][r], lambda i, v=step["residuals"][r]: KEPT if v[i] else PLAIN) for r in ranks])]
        y += 46
        for title, rows in blocks:
            drawn, y = block(y, title, rows)
            parts += drawn
        y += 12
    return svg(LEFT + 16 * CELL + 20, y - 20, parts, "A gradient of 16 numbers on 4 ranks, followed through two iterations")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail where the picture is stale")
    options = parser.parse_args()
    path = pathlib.Path(__file__).with_name("concepts.svg")
    picture = draw()
    if not options.check:
        path.write_text(picture)
    elif not path.exists() or path.read_text() != picture:
        sys.exit(f"{path} is stale: run {sys.argv[0]}")


if __name__ == "__main__":
    main()
