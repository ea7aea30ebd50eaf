#!/usr/bin/env python3
"""Makes from interface.toml, and from the functions that the C headers declare, what depends on them.

Usage: generate.py           writes the files that have changed
       generate.py --check   writes nothing; exits with 1 and names those that are stale
       generate.py --list    names all of them
"""
import sys

import emit_c
import emit_fortran
import emit_python
import emit_reference
import model

EMITTERS = (emit_c, emit_fortran, emit_python, emit_reference)


def main():
    if sys.argv[1:] not in ([], ["--check"], ["--list"]):
        sys.exit(__doc__.strip())
    mode = sys.argv[1] if sys.argv[1:] else ""
    interface = model.load()
    stale = []
    for emitter in EMITTERS:
        for path, lines in emitter.files(interface).items():
            if mode == "--list":
                print(path)
                continue
            file, text = model.ROOT / path, "\n".join(lines) + "\n"
            if file.exists() and file.read_text() == text:
                continue
            stale.append(path)
            if mode != "--check":
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
                print(f"wrote {path}")
    if mode == "--check" and stale:
        sys.exit("\n".join(f"{path} is stale: run capi/interface/generate.py" for path in stale))


main()
