#!/usr/bin/env bash
# Trains example 05 densely and sparsely on a cluster of network namespaces (tests/cluster), as root, and draws the picture.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cluster=$here/../../tests/cluster/cluster

usage() {
  cat <<END
Usage: cluster_run.sh LIBRARY OUT_DIR [OPTION...]

Starts a cluster, trains example 05 on it with and without the hook, stops it, prints a table, and leaves there:
summary.json, dense.json, sparse.json, dense.csv, sparse.csv, accuracy.svg. OPTIONs go to train.py; see its --help.

  LIBRARY           libweir-openmpi.so of a build, such as build/lib/libweir-openmpi.so
  NODES=4           nodes, a rank on each
  RATE=1gbit        of each node's network card
  PYTHON=python3    one that has torch and numpy
END
}

main() {
  if [ "${1:-}" = -h ] || [ "${1:-}" = --help ]; then usage && exit 0; fi
  [ $# -ge 2 ] || { usage >&2 && exit 2; }
  local nodes=${NODES:-4} mode python
  WEIR_LIBRARY=$(realpath "$1")
  export WEIR_LIBRARY
  local output
  output=$(realpath -m "$2")
  shift 2
  python=$(command -v "${PYTHON:-python3}")
  [ -f "$WEIR_LIBRARY" ] || { echo "cluster_run.sh: no $WEIR_LIBRARY" >&2 && exit 1; }
  mkdir -p "$output"
  trap '"$cluster" down' EXIT
  "$cluster" up -n "$nodes" -r "${RATE:-1gbit}"
  for mode in dense sparse; do
    "$cluster" mpirun -n "$nodes" -p 1 -- env OMP_NUM_THREADS=1 PYTHONPATH="$(dirname "$WEIR_LIBRARY")/../python" "$python" "$here/train.py" --mode $mode \
      --output "$output" "$@"
  done
  "$python" "$here/summary.py" "$output"
  if command -v gnuplot >/dev/null; then
    gnuplot -e "folder='$output'" "$here/plot.gp"
    echo "Picture:  $output/accuracy.svg"
  else
    echo "No picture: apt-get install gnuplot-nox"
  fi
}

main "$@"
