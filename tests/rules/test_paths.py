#!/usr/bin/env python3
"""Follows what pages point at: relative links, their anchors, and paths in backquotes that begin with a folder of the repository. Every
page of docs/ must be in the list of docs/README.md.

Usage: test_paths.py ROOT
"""
import pathlib
import re
import sys

FOLDERS = "src|catalogue|cuda|capi|include|tests|examples|perfmodels|benchmarks|docs|packaging|slurm"


def pages(root):
    return [page for page in root.rglob("*.md") if not page.relative_to(root).parts[0].startswith(("build", "."))]


def without_blocks(text):
    """Removes code, which has its own brackets, parentheses and number signs."""
    return re.sub(r"(?m)^    .*", "", re.sub(r"(?ms)^```.*?^```$", "", text))


def anchors(page):
    """Returns the anchors of a page's headings, as GitHub makes them: the second of a title gets -1."""
    found = set()
    for title in re.findall(r"(?m)^#+ (.*)", without_blocks(page.read_text())):
        plain = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        found.add(next(name for name in (plain, *(f"{plain}-{i}" for i in range(1, 100))) if name not in found))
    return found


def broken(root, page):
    text = without_blocks(page.read_text())
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text)):
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
    index = (root / "docs/README.md").read_text()
    found += [f"docs/README.md: {page.name} is not in the list" for page in sorted(root.glob("docs/*.md"))
              if page.name != "README.md" and f"]({page.name})" not in index]
    if found:
        sys.exit("\n".join(found))


main()
