#!/bin/bash
# Installs wheels in fresh virtual environments and runs them with 1 and 2 ranks, using only the MPI of PyPI's wheels.
set -euo pipefail
fail() { echo "wheels/test.sh: $*" >&2; exit 1; }
[ $# -gt 0 ] || { echo "Usage: test.sh WHEEL..." >&2; exit 2; }
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
unset WEIR_LIBRARY PYTHONPATH LD_LIBRARY_PATH
cat >"$work/sum.py" <<'PY'
import ssl
import sys
import numpy
import weir

ssl.create_default_context()  # with Python's OpenSSL
comm = weir.Communicator()
plan = weir.AllreducePlan(comm, count=1000, density=1.0, average=False)
gradient = numpy.full(1000, comm.rank + 1, dtype=numpy.float32)
plan.run(gradient)
assert (gradient == comm.size * (comm.size + 1) / 2).all(), gradient[:3]
with weir.Checkpoint(comm, folder=sys.argv[1]) as checkpoint:  # with the HDF5 inside the wheel
    checkpoint.add("plan", plan)
    checkpoint.save(1).wait()
    assert checkpoint.restore() == 1
maps = {line.split()[-1] for line in open("/proc/self/maps") if "/lib" in line}
outside = [path for path in maps if any(name in path for name in ("libmpi", "libhwloc", "libhdf5", "libweir")) and not path.startswith(sys.prefix)]
assert not outside, outside
print(f"rank {comm.rank} of {comm.size}: ok")
PY
for wheel in "$@"; do
  family=$(basename "$wheel" | sed 's/^weir_\([a-z]*\)-.*/\1/')
  python3 -m venv "$work/$family"
  "$work/$family/bin/pip" install -q "$wheel" || fail "pip install $wheel"
  options=(--oversubscribe)
  [ "$family" = openmpi ] || options=()
  ls "$work/$family"/lib/python*/site-packages/weir_*.dist-info/licenses/{hdf5,libhwloc15}.txt >/dev/null || fail "$family lacks copyright texts"
  out=$(PATH=$work/$family/bin:/usr/bin:/bin "$work/$family/bin/python" "$work/sum.py" "$work/states-$family-1") || fail "$family, 1 rank"
  [ "$out" = "rank 0 of 1: ok" ] || fail "$family, 1 rank: $out"
  out=$(PATH=$work/$family/bin:/usr/bin:/bin "$work/$family/bin/mpiexec" "${options[@]}" -n 2 "$work/$family/bin/python" "$work/sum.py" "$work/states-$family-2") || fail "$family, 2 ranks"
  [ "$(sort <<<"$out")" = $'rank 0 of 2: ok\nrank 1 of 2: ok' ] || fail "$family, 2 ranks: $out"
  echo "$(basename "$wheel"): ok"
done
