#!/usr/bin/env python3
"""Checks docs/troubleshooting.md against the sources: Weir can produce every text that it quotes, and no status is missing.

Usage: test_error_texts.py ROOT
"""
import pathlib
import re
import sys


def texts_of(root):
    """Returns the string literals of the sources, with adjacent ones joined, and \\0 in place of placeholders."""
    found = []
    for folder in ("src", "cuda", "capi"):
        for file in sorted((root / folder).rglob("*")):
            if file.suffix in {".f90", ".F90", ".inc"}:
                found += [text.replace("''", "'") for text in re.findall(r"'((?:[^'\n]|'')*)'", file.read_text())]
            if file.suffix in {".cpp", ".hpp", ".cu", ".cuh", ".py"}:
                for run in re.findall(r'(?:"(?:[^"\\\n]|\\.)*"\s*)+', re.sub(r"(?m)^\s*//.*", "", file.read_text())):
                    text = "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', run))
                    found.append(re.sub(r"\{[^{}]*\}", "\0", text))
    return found


def quoted(page):
    """Yields the texts in the first column of every table, with their lines."""
    for number, line in enumerate(page.splitlines(), 1):
        cell = re.match(r"\| `([^`]+)` \|", line)
        if cell:
            yield number, cell[1]


def pattern(text):
    """Returns a pattern in which … matches a placeholder, or more words. Quotation marks around a placeholder are optional."""
    return re.compile(".*".join(re.escape(part.strip()) for part in text.split("…")))


def main():
    root = pathlib.Path(sys.argv[1])
    page = (root / "docs/troubleshooting.md").read_text()
    texts = texts_of(root)
    quotes = list(quoted(page))
    if len(quotes) < 10:
        sys.exit("docs/troubleshooting.md quotes hardly anything: has the form of its tables changed?")
    wrong = [f"docs/troubleshooting.md:{number}: no source says '{text}'"
             for number, text in quotes if not any(map(pattern(text).search, texts))]
    for status in re.findall(r"X\((ERR_\w+)", (root / "include/weir/status.h").read_text()):
        if f"`WEIR_{status}`" not in page:
            wrong.append(f"docs/troubleshooting.md: WEIR_{status} is missing")
    if wrong:
        sys.exit("\n".join(wrong))


main()
