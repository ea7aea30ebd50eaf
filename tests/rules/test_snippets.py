#!/usr/bin/env python3
"""Holds the programs that pages show against the files that tests compile and run.

Usage: test_snippets.py ROOT            exits with 1 and one line per difference
       test_snippets.py ROOT --write    copies the files into the pages

A comment before a block or table says what must be so:
  <!-- snippet: FILE -->           the block is the whole file
  <!-- excerpt: FILE -->           the block's or table's lines stand in the file, in this order, however indented; "..." leaves some out
  <!-- columns: FILE FILE ... -->  what is in backquotes in the table's second column and on stands in the first file, and so on
"""
import pathlib
import re
import sys

MARK = re.compile(r"<!-- (snippet|excerpt|columns): (.*?) -->\s*")


def pages(root):
    return sorted([root / "README.md", *root.glob("docs/**/*.md")])


def squeezed(text):
    return re.sub(r"\s+", " ", text).strip()


def block_after(text, at):
    """Returns the place of the content of the fenced block, or of the table, that begins at `at`."""
    found = re.compile(r"```\w*\n(.*?)^```$|((?:\|[^\n]*\n)+)", re.S | re.M).match(text, at)
    return found and found.span(1 if found[1] is not None else 2)


def check_excerpt(block, file):
    lines = iter(squeezed(line) for line in file.splitlines())
    for line in map(squeezed, block.splitlines()):
        if line and line != "..." and not any(line == other for other in lines):
            yield f"'{line}' is not there, or not at that place"


def check_columns(table, files):
    for row in table.splitlines()[2:]:
        for cell, file in zip(row.strip("|").split("|")[1:], files):
            for code in re.findall(r"`([^`]+)`", cell):
                if squeezed(code) not in squeezed(file[1]):
                    yield f"'{code}' is not in {file[0]}"


def complaints(root, page):
    text = page.read_text()
    for mark in MARK.finditer(text):
        kind, names = mark[1], mark[2].split()
        missing = [name for name in names if not (root / name).exists()]
        if missing:
            yield f"there is no {', '.join(missing)}"
            continue
        files = [(name, (root / name).read_text()) for name in names]
        if kind == "columns":
            table = re.compile(r"(\|.*\n)+").match(text, mark.end())
            yield from check_columns(table[0], files) if table else [f"no table follows {mark[0].strip()}"]
            continue
        span = block_after(text, mark.end())
        if span is None:
            yield f"no block follows {mark[0].strip()}"
        elif kind == "excerpt":
            yield from check_excerpt(text[slice(*span)], files[0][1])
        elif text[slice(*span)] != files[0][1]:
            yield f"the block is not {names[0]}: tests/rules/test_snippets.py . --write copies it"


def write(root, page):
    text = page.read_text()
    for mark in reversed([mark for mark in MARK.finditer(text) if mark[1] == "snippet"]):
        span, file = block_after(text, mark.end()), root / mark[2]
        if span and file.exists():
            text = text[: span[0]] + file.read_text() + text[span[1] :]
    page.write_text(text)


def main():
    root = pathlib.Path(sys.argv[1])
    if sys.argv[2:] == ["--write"]:
        for page in pages(root):
            write(root, page)
    found = [f"{page.relative_to(root)}: {wrong}" for page in pages(root) for wrong in complaints(root, page)]
    if found:
        sys.exit("\n".join(found))
    if not any(MARK.search(page.read_text()) for page in pages(root)):
        sys.exit("no page shows a file: has the form of the marks changed?")


main()
