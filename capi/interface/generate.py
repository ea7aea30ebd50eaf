#!/usr/bin/env python3
"""Makes all files that depend on interface.toml and on the functions that the C headers declare.

Usage: generate.py               writes the files that users read, which are committed, if they have changed
       generate.py --check       writes nothing; exits with 1 and names those that are stale
       generate.py --list        lists them
       generate.py --build DIR   writes the files that only compilers and Python read below DIR, if they have changed
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))  # PYTHONSAFEPATH leaves it out

import emit_c
import emit_fortran
import emit_fortran_sources
import emit_python
import emit_reference
import model


def written(root, files):
    """Writes those of `files` that have changed. Returns their paths."""
    changed = []
    for path, lines in files.items():
        file, text = root / path, "\n".join(lines) + "\n"
        if not file.exists() or file.read_text() != text:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            changed.append(path)
    return changed


def main():
    build = len(sys.argv) == 3 and sys.argv[1] == "--build"
    if not build and sys.argv[1:] not in ([], ["--check"], ["--list"]):
        sys.exit(__doc__.strip())
    interface = model.load()
    if build:
        for emitter in (emit_c, emit_fortran, emit_fortran_sources, emit_python):
            written(pathlib.Path(sys.argv[2]), emitter.built(interface))
        return
    files = {path: lines for emitter in (emit_c, emit_python, emit_reference) for path, lines in emitter.files(interface).items()}
    if sys.argv[1:] == ["--list"]:
        print("\n".join(files))
    elif sys.argv[1:] == ["--check"]:
        stale = [path for path, lines in files.items() if not (model.ROOT / path).exists() or (model.ROOT / path).read_text() != "\n".join(lines) + "\n"]
        if stale:
            sys.exit("\n".join(f"{path} is stale: run capi/interface/generate.py" for path in stale))
    else:
        print("\n".join(f"wrote {path}" for path in written(model.ROOT, files)))


main()
