#!/bin/bash
# Runs the suites of two ranks with a small /dev/shm (64 MB, as in containers) and with one that cannot be written: $1 the build
# folder, $2 the MPI it was built with. Results must be right, by messages if there is no room for shared memory.
set -euo pipefail

build=$1 mpi=$2
if [ "${3:-}" != inside ]; then
  [ "$(id -u)" = 0 ] || { echo "skipped: needs root to mount another /dev/shm in a namespace of its own"; exit 77; }
  unshare -m true 2>/dev/null || { echo "skipped: this machine lets nobody make mount namespaces"; exit 77; }
  failed=0
  for options in size=64m ro; do
    unshare -m --propagation private "$0" "$build" "$mpi" inside "$options" || failed=1
  done
  exit $failed
fi

options=$4
mount -t tmpfs -o "$options" tmpfs /dev/shm
echo "== /dev/shm mounted with $options"
case $mpi in
  openmpi) # starts in both cases without changes
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    start=(mpirun.openmpi --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 -n 2)
    ;;
  mpich)
    start=(mpiexec.mpich -n 2)
    # If UCX cannot write to /dev/shm, MPI_Init fails, so tell it not to use POSIX shared memory.
    [ "$options" != ro ] || export UCX_TLS=^posix
    ;;
  *) echo "no MPI '$mpi': openmpi or mpich" >&2 && exit 2 ;;
esac

failed=0
# two_ranks SECONDS PROGRAM ARGS...
two_ranks() {
  local seconds=$1
  shift
  echo "-- ${*##*/}"
  timeout --kill-after 5 "$seconds" "${start[@]}" "$@" || {
    echo "FAILED ($?): $* where /dev/shm has $options"
    failed=1
  }
}
two_ranks 60 "$build/bin/test_capi"
two_ranks 60 "$build/bin/test_embedding"
two_ranks 120 "$build/bin/test_mpi"
two_ranks 120 "$build/bin/test_mpi_table"
two_ranks 120 "$build/bin/test_large_shared"
TEST_EVERY=20 two_ranks 120 "$build/bin/test_lives"
exit $failed
