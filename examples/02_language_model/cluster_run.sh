#!/usr/bin/env bash
# Trains example 02 with every scheme on a cluster of network namespaces (tests/cluster), as root, and draws the picture.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cluster=$here/../../tests/cluster/cluster
schemes="embrace embrace_no_schedule allgather server dense_allreduce"

usage() {
  cat <<END
Usage: cluster_run.sh BUILD_DIR OUT_DIR [OPTION...]

Starts a cluster, trains example 02 on it with every scheme, stops it, prints a table, and leaves there:
summary.json, <scheme>.json, <scheme>.csv, perplexity.svg. OPTIONs go to language_model; see its --help.

  NODES=4           nodes, a rank on each
  RATE=1gbit        of each node's network card
  BUILD_DIR         where Weir is built: it must hold bin/language_model
END
}

fail() {
  echo "cluster_run.sh: $*" >&2
  exit 1
}

main() {
  if [ "${1:-}" = -h ] || [ "${1:-}" = --help ]; then usage && exit 0; fi
  [ $# -ge 2 ] || { usage >&2 && exit 2; }
  local build output nodes=${NODES:-4} progress=lines outcome=0
  build=$(realpath "$1")
  output=$(realpath -m "$2")
  shift 2
  [ -x "$build/bin/language_model" ] || fail "no $build/bin/language_model: cmake --build $build --target language_model"
  if [ -t 2 ]; then progress=bar; fi
  mkdir -p "$output"
  trap '"$cluster" down' EXIT
  "$cluster" up -n "$nodes" -r "${RATE:-1gbit}"
  # The exit status is 1 if perplexities differ. Draw the curves then, too.
  OPENBLAS_NUM_THREADS=1 "$cluster" mpirun -n "$nodes" -p 1 -- "$build/bin/language_model" --scheme all --output "$output" \
    --progress "$progress" "$@" || outcome=$?
  if command -v gnuplot >/dev/null; then
    gnuplot -e "folder='$output'; schemes='$schemes'" "$here/plot.gp"
    echo "Picture:  $output/perplexity.svg"
  else
    echo "No picture: apt-get install gnuplot-nox"
  fi
  echo "Summary:  $output/summary.json"
  return $outcome
}

main "$@"
