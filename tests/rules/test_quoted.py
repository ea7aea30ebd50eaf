#!/usr/bin/env python3
"""Holds what pages quote of `weir predict` against the program: the table of networks in docs/which-algorithm.md, and the sentences below it.

Usage: test_quoted.py WEIR PAGE
"""
import os
import re
import subprocess
import sys

# Without this machine's own figures.
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("WEIR_")}
CLEAN |= {"XDG_CONFIG_HOME": "/nonexistent", "HOME": "/nonexistent"}


def predict(weir, network, *more):
    command = [weir, "predict", "--nodes", "16", "--count", "25557032", "--network", network, *more]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30, env=CLEAN).stdout


def verdict(said, network):
    """In the words of the page."""
    if found := re.search(r"^cheapest: (\w+), ([\d.]+) ms, ([\d.]+) times as fast", said, re.M):
        return f"`{found[1]}`, {float(found[2]):.1f} ms, {found[3]} times as fast"
    found = re.search(r"^do not compress: (\w+) takes ([\d.]+) ms, the cheapest sparse algorithm, (\w+), ([\d.]+) ms", said, re.M)
    if not found:
        sys.exit(f"test_quoted: weir predict gives no verdict for {network}: {said}")
    return f"do not compress: `{found[1]}` takes {float(found[2]):.1f} ms, `{found[3]}` {float(found[4]):.1f} ms"


def main():
    weir, page = sys.argv[1:]
    with open(page, encoding="utf-8") as file:
        text = file.read()
    rows = re.findall(r"^\| `(\d+Gbit,\d+us)` \| (.*?)(?: as the best dense algorithm)? \|$", text, re.M)
    if len(rows) != 5:
        sys.exit(f"test_quoted: {page} has {len(rows)} rows of networks, not 5")
    wrong = [(network, quoted, verdict(predict(weir, network), network)) for network, quoted in rows]
    row = re.search(r"^oktopk +[\d.]+ +([\d.]+) +[\d.]+ +[\d.]+ +([\d.]+)", predict(weir, "25Gbit,5us"), re.M)
    wrong.append(("selecting and applying", re.search(r"(\d+) ms of it are selecting", text)[1], f"{float(row[1]) + float(row[2]):.0f}"))
    eight = verdict(predict(weir, "100Gbit,2us", "--ranks-per-node", "8"), "8 ranks a node")
    wrong.append(("8 ranks a node", re.search(r"is still ([\d.]+ times as fast)", text)[1], eight.split(" ms, ")[-1]))
    wrong = [f"{what}: the page says '{quoted}', weir predict '{right}'" for what, quoted, right in wrong if quoted != right]
    if wrong:
        sys.exit("test_quoted: " + "; ".join(wrong))
    print(f"test_quoted: {len(rows) + 2} statements are as weir predict has them")


main()
