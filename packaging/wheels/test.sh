#!/bin/bash
# Installs wheels in fresh virtual environments and runs them with 1, 2 and 4 ranks, on PyPI's MPI and on that of the system.
set -euo pipefail
fail() { echo "wheels/test.sh: $*" >&2; exit 1; }
[ $# -gt 0 ] || { echo "Usage: test.sh WHEEL..." >&2; exit 2; }
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
unset WEIR_LIBRARY WEIR_MPI_LIBRARY PYTHONPATH LD_LIBRARY_PATH LD_PRELOAD
# The MPIs of a launcher that has started this script, for example CTest's.
for variable in $(compgen -v | grep -E '^(OMPI_COMM|PMI_|PMIX_)' || true); do unset "$variable"; done
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
maps = sorted({line.split()[-1] for line in open("/proc/self/maps") if "/lib" in line})
inside = [path for path in maps if path.startswith(sys.prefix)]
for name in ("libweir-hwloc", "libweir-fmt", "libweir-tbb", "libweir-hwy", "libweir-jpeg", "libweir-udev"):
    assert any(name in path for path in inside), (name, maps)
assert not any(name in path for path in maps for name in ("libhdf5", "libtbb", "libfmt", "libhwy")), maps
mpis = [path for path in maps if any(name in path for name in ("/libmpi.so", "/libmpich.so")) and "mpi_of_another_name" not in path]
assert len(mpis) == 1 and mpis[0].startswith(sys.argv[2]), mpis
sys.stdout.write(f"rank {comm.rank} of {comm.size}: ok\n")  # in one call, which other ranks cannot divide
PY

run() { # NAME MPIEXEC MPI: the program on 1, 2 and 4 ranks, with an MPI whose path begins so
  local ranks out options=()
  [ "$family" = mpich ] || options=(--oversubscribe)
  out=$(python "$work/sum.py" "$work/states-$1-1" "$3") || fail "$1, 1 rank without a launcher"
  [ "$out" = "rank 0 of 1: ok" ] || fail "$1, 1 rank: $out"
  for ranks in 2 4; do
    out=$("$2" "${options[@]}" -n "$ranks" python "$work/sum.py" "$work/states-$1-$ranks" "$3") || fail "$1, $ranks ranks"
    [ "$(sort <<<"$out")" = "$(expected "$ranks")" ] || fail "$1, $ranks ranks: $out"
  done
  echo "   $1: ok"
}
expected() { # RANKS: what the program prints, sorted
  local i
  for ((i = 0; i < $1; ++i)); do echo "rank $i of $1: ok"; done
}
run_without_launcher() { # NAME MPI: the program on 4 ranks, which are started as torchrun starts them
  local rank out port=$((20000 + RANDOM % 10000))
  out=$(for rank in 0 1 2 3; do
    RANK=$rank WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port python "$work/sum.py" "$work/states-$1-started" "$2" &
  done; wait)
  [ "$(sort <<<"$out")" = "$(expected 4)" ] || fail "$1, 4 ranks without a launcher: $out"
  echo "   $1, without a launcher: ok"
}

bench() { # MPIEXEC: the command on 2 ranks
  local out
  out=$("$1" -n 2 weir bench allreduce --count 10000 --iterations 2) || fail "weir bench allreduce by $1"
  grep -q oktopk <<<"$out" || fail "weir bench allreduce by $1: $out"
}

for wheel in "$@"; do
  wheel=$(realpath "$wheel")
  case $(basename "$wheel") in
    weir-*) family=mpich ;;
    weir_openmpi-*) family=openmpi ;;
    *) fail "$wheel is no wheel of Weir" ;;
  esac
  echo "-- $(basename "$wheel"), $(stat -c %s "$wheel") bytes"
  venv=$work/$family
  python3 -m venv "$venv"
  PATH=$venv/bin:/usr/bin:/bin
  pip install -q --disable-pip-version-check "$wheel" || fail "pip install $wheel"
  ls "$venv"/lib/python*/site-packages/weir*.dist-info/licenses/{hdf5,libhwloc15}.txt >/dev/null || fail "$wheel lacks copyright texts"
  if [ "$family" = openmpi ]; then
    run "PyPI's Open MPI" "$venv/bin/mpiexec" "$venv"
    continue
  fi
  # Without the extra, the system may have an MPI, or not.
  system=$(/sbin/ldconfig -p | sed -n 's/^\s*libmpi\(ch\)\?\.so\.12 .* => //p' | head -1)
  if [ -n "$system" ]; then
    run "the system's MPI" mpiexec.mpich "$(dirname "$(realpath "$system")")"
    run_without_launcher "the system's MPI" "$(dirname "$(realpath "$system")")"
    bench mpiexec.mpich
  else
    if out=$(python -c 'import weir' 2>&1); then fail "there is no MPI, and import weir did not say so"; fi
    grep -qE '^(Install one|Only Open MPI v[0-9.a-z]* is installed).* .pip install mpich.' <<<"$out" || fail "there is no MPI of MPICH's ABI: $out"
  fi
  pip install -q --disable-pip-version-check "weir[mpi] @ file://$wheel" || fail "pip install weir[mpi]"
  export WEIR_MPI_LIBRARY=$venv/lib/libmpi.so.12
  [ -n "$system" ] || unset WEIR_MPI_LIBRARY
  run "PyPI's MPICH" "$venv/bin/mpiexec" "$venv"
  run_without_launcher "PyPI's MPICH" "$venv"
  bench "$venv/bin/mpiexec"
  # With a table of a network that is inside the wheel.
  out=$("$venv/bin/mpiexec" -n 2 weir bench fusion --scheme dense --shrink 1000 --rate 1000000 --iterations 1 --warmup 0) || fail "weir bench fusion"
  if out=$(WEIR_MPI_LIBRARY=libm.so.6 python -c 'import weir' 2>&1); then fail "a wrong WEIR_MPI_LIBRARY is taken"; fi
  grep -q 'libm.so.6 (WEIR_MPI_LIBRARY): it is no MPI library' <<<"$out" || fail "a wrong WEIR_MPI_LIBRARY: $out"
  unset WEIR_MPI_LIBRARY
  echo "$(basename "$wheel"): ok"
done
