#!/usr/bin/env python3
"""Finds turns of phrase that must be read twice, in comments and pages; string literals and quoted code may say anything. Finds lines of
more than 132 characters in pages for users.

Usage: test_english.py ROOT [FOLDER ...]   exits with 1 and one line per place; of some folders only, if any are named
"""
import pathlib
import re
import sys

SUFFIXES = {".hpp", ".cpp", ".h", ".c", ".cu", ".cuh", ".f90", ".F90", ".py", ".md", ".sh", ".toml"}
FOLDERS = ["benchmarks", "capi", "catalogue", "cuda", "docs", "examples", "include", "packaging", "perfmodels", "slurm", "src", "tests", "tools"]
FILES = ["CHANGELOG.md", "CONTRIBUTING.md", "README.md"]
PATTERNS = {
    r"\b(is|are|was|were) none\b": "say what is missing: 'there is no plan'",
    r"\b[Ww]hoever\b": "name who",
    r"\b(becomes|become|became) of\b": "say what happens to it",
    r"\bbut for\b": "'except'",
    r"\bfor people\b": "'as text', or nothing",
    r"^\s*(//[/!]?<?|!>?|#) Of ": "a comment begins with a verb, or names what is returned",
}
WIDTH = 132
GENERATED = {"docs/reference.md"}

QUOTED = {".md": re.compile(r"`[^`]*`")}
LITERAL = re.compile(r'(?<!")"(?!"")(\\.|[^"\\])*"')  # not of a docstring


def sources(root, folders):
    for folder in folders:
        yield from sorted(path for path in (root / folder).rglob("*") if path.suffix in SUFFIXES and path.is_file())
    if folders == FOLDERS:
        yield from (root / name for name in FILES)


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    found = 0
    for path in [*root.glob("docs/*.md"), *(root / name for name in FILES)]:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if len(line) > WIDTH and path.relative_to(root).as_posix() not in GENERATED:
                print(f"{path.relative_to(root)}:{number}: {len(line)} characters: {WIDTH} at most")
                found += 1
    for path in sources(root, sys.argv[2:] or FOLDERS):
        if path == pathlib.Path(__file__).resolve():
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            prose = QUOTED.get(path.suffix, LITERAL).sub("", line)
            for pattern, advice in PATTERNS.items():
                if re.search(pattern, prose):
                    print(f"{path.relative_to(root)}:{number}: {line.strip()}   [{advice}]")
                    found += 1
    if found:
        sys.exit(f"{found} places")


if __name__ == "__main__":
    main()
