#!/usr/bin/env bash
# Measures example 09 on a cluster of network namespaces (tests/cluster): 4 members, a node each.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cluster=$here/../../tests/cluster/cluster

if [ $# -ne 2 ] || [ "$1" = --help ]; then
  cat <<END
Usage: measure.sh PROGRAM OUT_DIR    as root

  PROGRAM  fields of a build, such as build/bin/fields
  OUT_DIR  gets table.md, rows.json and fields.svg

  NETWORK=1gbit  rate of the nodes' cards
  EDGE=1448      cells along each edge of the plane
  STEPS=4000     steps of the simulation
  EVERY=200      steps between two averages
END
  [ "${1:-}" = --help ] && exit 0 || exit 2
fi
program=$(realpath "$1") output=$(realpath -m "$2")
mkdir -p "$output"

trap '"$cluster" down' EXIT
"$cluster" up -n 4 -r "${NETWORK:-1gbit}"
"$cluster" mpirun -n 4 -p 1 -- "$program" --edge "${EDGE:-1448}" --steps "${STEPS:-4000}" --every "${EVERY:-200}" \
  --json "$output/rows.json" | tee "$output/table.md"
if command -v gnuplot >/dev/null; then
  gnuplot -e "folder='$output'" "$here/plot.gp"
else
  echo "No picture: apt-get install gnuplot-nox"
fi
