#!/usr/bin/env python3
"""Holds what pages quote of `weir predict` against the program: the table of networks in which-algorithm.md, the sentences below it and in its
picture, and the block in add-an-algorithm.md.

Usage: test_quoted.py WEIR DOCS
"""
import os
import pathlib
import re
import subprocess
import sys

# Run without this machine's own figures.
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("WEIR_")}
CLEAN |= {"XDG_CONFIG_HOME": "/nonexistent", "HOME": "/nonexistent"}


def predict(weir, *words):
    return subprocess.run([weir, "predict", *words], check=True, capture_output=True, text=True, timeout=30, env=CLEAN).stdout


def resnet(weir, network, *more):
    return predict(weir, "--nodes", "16", "--count", "25557032", "--network", network, *more)


def found(pattern, text):
    match = re.search(pattern, text, re.M)
    return match if match else sys.exit(f"test_quoted: nothing is like '{pattern}' in: {text}")


def verdict(said):
    """Returns the verdict in the words of the page."""
    if "\ncheapest: " in said:
        one = found(r"^cheapest: (\w+), ([\d.]+) ms, ([\d.]+) times as fast", said)
        return f"`{one[1]}`, {float(one[2]):.1f} ms, {one[3]} times as fast"
    one = found(r"^do not compress: (\w+) takes ([\d.]+) ms, the cheapest sparse algorithm, (\w+), ([\d.]+) ms", said)
    return f"do not compress: `{one[1]}` takes {float(one[2]):.1f} ms, `{one[3]}` {float(one[4]):.1f} ms"


def quotes_of_which_algorithm(weir, docs):
    """Yields what is compared, as quoted and as printed."""
    text = (docs / "which-algorithm.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\d+Gbit,\d+us)` \| (.*?)(?: as the best dense algorithm)? \|$", text, re.M)
    if len(rows) != 5:
        sys.exit(f"test_quoted: which-algorithm.md has {len(rows)} rows of networks, not 5")
    for network, quoted in rows:
        yield network, quoted, verdict(resnet(weir, network))
    row = found(r"^oktopk +[\d.]+ +([\d.]+) +[\d.]+ +[\d.]+ +([\d.]+)", resnet(weir, "25Gbit,5us"))
    yield "selecting and applying", found(r"(\d+) ms of it are selecting", text)[1], f"{float(row[1]) + float(row[2]):.0f}"
    quoted = found(r"is still ([\d.]+ times as fast) at `(\w+,\w+)`", text)
    eight = verdict(resnet(weir, quoted[2], "--ranks-per-node", "8"))
    yield "8 ranks a node", quoted[1], eight.split(" ms, ")[-1]
    picture = " ".join(" ".join(re.findall(r">([^<]+)<", (docs / "which-algorithm.svg").read_text(encoding="utf-8"))).split())
    quoted = found(r"weir predict ([-\w, ]+) says: \u201c([^\u201d]+)\u201d", picture)
    yield "which-algorithm.svg", quoted[2], found(r"^do not compress: .*$", predict(weir, *quoted[1].split()))[0]


def quotes_of_add_an_algorithm(weir, docs):
    """Returns all rows of the block except the added algorithm's."""
    block = found(r"^    \$ build/bin/weir predict (.*)\n((?:    .*\n)+)", (docs / "add-an-algorithm.md").read_text(encoding="utf-8"))
    said = predict(weir, *block[1].split())
    for quoted in re.findall(r"^    (\w+ +\d.*)$", block[2], re.M):
        name = quoted.split()[0]
        if name != "topk_ring":
            yield f"add-an-algorithm.md, {name}", quoted, found(rf"^{name} .*$", said)[0]


def main():
    weir, docs = sys.argv[1], pathlib.Path(sys.argv[2])
    quotes = [*quotes_of_which_algorithm(weir, docs), *quotes_of_add_an_algorithm(weir, docs)]
    wrong = [f"{what}: the page says '{quoted}', weir predict '{right}'" for what, quoted, right in quotes if quoted != right]
    if wrong:
        sys.exit("test_quoted: " + "; ".join(wrong))
    print(f"test_quoted: {len(quotes)} statements are as weir predict has them")


main()
