#!/usr/bin/env python3
"""Doxygen's input filter: prints a Markdown page as Doxygen 1.9 needs it. Headings get the anchors that GitHub gives them, links to pages become
references, and links to other files of the repository become their text: those are not on the web site.

Usage: doxygen_filter.py PAGE
"""
import pathlib
import re
import sys


def label(page, title=""):
    """Of a page, or of a heading in it by its title or anchor."""
    anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
    name = page.stem if page.stem != "README" else f"{page.parent.name}-readme"
    return re.sub(r"\W", "_", f"{name}-{anchor}" if anchor else name)


def link(match, page):
    words, target = match[1], match[2]
    if re.match(r"https?:", target):
        return match[0]
    name, _, anchor = target.partition("#")
    file = (page.parent / name).resolve() if name else page.resolve()
    if file.suffix == ".md" and file.parent.name == "docs":
        return f"[{words}](@ref {label(file, anchor)})"
    return words


def prose(line, page):
    heading = re.match(r"(#+) (.*)", line)
    if heading:
        return f"{line} {{#{label(page, heading[2] if heading[1] != '#' else '')}}}"
    return re.sub(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)", lambda match: link(match, page), line)


def main():
    page, in_block = pathlib.Path(sys.argv[1]), False
    for line in page.read_text().splitlines():
        fence = line.startswith("```")
        print(line if in_block or fence or line.startswith("    ") else prose(line, page))
        in_block ^= fence


main()
