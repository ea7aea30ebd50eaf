#!/usr/bin/env python3
"""Follows what pages point at: relative links, their anchors, and paths in backquotes that begin with a folder of the repository.

Usage: test_paths.py ROOT
"""
import pathlib
import re
import sys

FOLDERS = "src|cuda|capi|include|tests|examples|perfmodels|docs|packaging"


def pages(root):
    return [page for page in root.rglob("*.md") if not page.relative_to(root).parts[0].startswith(("build", "."))]


def anchors(page):
    """The anchors of its headings, as GitHub makes them."""
    titles = re.findall(r"(?m)^#+ (.*)", page.read_text())
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken(root, page):
    text = page.read_text()
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http:", "https:", "mailto:")):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name) if name else page
        if not file.exists():
            yield target
        elif anchor and file.suffix == ".md" and anchor not in anchors(file):
            yield target
    for path in re.findall(rf"`((?:{FOLDERS})/[\w./-]*\w)`", text):
        if not re.search(r"[A-Z]{3}", path.replace("README", "")) and not any(place.exists() for place in
                                                                              (root / path, page.parent / path, root / "src" / path)):
            yield path


def main():
    root = pathlib.Path(sys.argv[1])
    found = [f"{page.relative_to(root)}: there is no {target}" for page in sorted(pages(root)) for target in broken(root, page)]
    if found:
        sys.exit("\n".join(found))


main()
