#!/bin/bash
# Builds the wheel into BUILD, and runs it in a fresh virtual environment on PyPI's MPICH and on the system's.
set -euo pipefail
[ $# -eq 2 ] || { echo "Usage: test_wheel.sh SOURCE BUILD    BUILD: where the library for the wheel is built, and stays" >&2; exit 2; }
source=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -c 'import tomllib, venv, ensurepip' 2>/dev/null || { echo "skipped: needs Python 3.11 with python3-venv"; exit; }
python3 -m venv "$work/venv"
"$work/venv/bin/pip" download -q --no-deps --retries 0 --timeout 20 -d "$work/downloads" mpich 2>"$work/pip.log" || {
  echo "skipped: pip cannot download mpich from PyPI: $(grep -m 1 ERROR "$work/pip.log" || tail -1 "$work/pip.log")"
  exit
}
begin=$SECONDS
if ! "$source/packaging/wheels/build.sh" --build "$build" --out "$build" >"$work/build.log" 2>&1; then
  if grep -q "'apt-get source hdf5' got nothing" "$work/build.log"; then echo "skipped: there are no sources of HDF5 to be had"; exit; fi
  tail -40 "$work/build.log" >&2
  echo "test_wheel: build.sh failed" >&2
  exit 1
fi
echo "built in $((SECONDS - begin)) s"
"$source/packaging/wheels/test.sh" "$build"/weir-*.whl
echo "tested after $((SECONDS - begin)) s"
