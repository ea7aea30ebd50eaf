#!/usr/bin/env python3
"""Doxygen's input filter: prints a Markdown page as Doxygen 1.9 needs it. Headings get the anchors that GitHub gives them, links to pages become
references, and links to other files of the repository become their text: those are not on the web site.

Usage: doxygen_filter.py PAGE
"""
import pathlib
import re
import sys


DOCS = pathlib.Path(__file__).resolve().parent


def label(page, anchor=""):
    """Of a page, or of a heading in it."""
    name = page.stem if page.parent == DOCS else f"{page.parent.name}-{page.stem}"
    return re.sub(r"\W", "_", f"{name}-{anchor}" if anchor else name)


def link(match, page):
    words, target = match[1], match[2]
    if re.match(r"https?:", target):
        return match[0]
    name, _, anchor = target.partition("#")
    file = (page.parent / name).resolve() if name else page
    if file.suffix == ".md" and file.parent == DOCS:
        return f"[{words}](@ref {label(file, anchor)})"
    return words


class Filter:
    def __init__(self, page):
        self.page, self.titles = page, {}

    def anchor(self, title):
        """As GitHub makes it: the second of a title gets -1."""
        plain = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        self.titles[plain] = self.titles.get(plain, -1) + 1
        return f"{plain}-{self.titles[plain]}" if self.titles[plain] else plain

    def prose(self, line):
        heading = re.match(r"(#+) (.*)", line)
        if heading:
            return f"{line} {{#{label(self.page, '' if heading[1] == '#' else self.anchor(heading[2]))}}}"
        line = re.sub(r"%(?=\w)", "%%", line)  # Doxygen takes it for "no link here"
        return re.sub(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)", lambda match: link(match, self.page), line)


def main():
    page, in_block = pathlib.Path(sys.argv[1]).resolve(), False
    of_page = Filter(page)
    for line in page.read_text().splitlines():
        fence = line.startswith("```")
        print(line if in_block or fence or line.startswith("    ") else of_page.prose(line))
        in_block ^= fence


main()
