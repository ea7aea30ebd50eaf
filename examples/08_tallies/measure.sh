#!/usr/bin/env bash
# Measures example 08: sums by density, sparse and dense, on this machine and on a cluster of network namespaces (tests/cluster).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cluster=$here/../../tests/cluster/cluster

if [ $# -ne 3 ] || [ "$1" = --help ]; then
  cat <<END
Usage: measure.sh NETWORK PROGRAM OUT_DIR

  NETWORK  memory: 4 ranks on this machine; otherwise 4 nodes with cards of that rate, such as 1gbit, as root
  PROGRAM  tallies of a build, such as build/bin/tallies
  OUT_DIR  gets NETWORK.csv, with the medians of the batches after the first, and tallies.svg

  CELLS=2000000  cells of the box
  BATCHES=11     batches of a run
END
  [ "${1:-}" = --help ] && exit 0 || exit 2
fi
network=$1 program=$(realpath "$2") output=$3
mkdir -p "$output"

run() {
  if [ "$network" = memory ]; then
    mpirun -n 4 --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 "$program" "$@"
  else
    WEIR_CALIBRATE=1 "$cluster" mpirun -n 4 -p 1 -- "$program" "$@"
  fi
}

median() { sort -g | awk '{row[NR] = $1} END {print row[int((NR + 1) / 2)]}'; }

if [ "$network" != memory ]; then
  trap '"$cluster" down' EXIT
  "$cluster" up -n 4 -r "$network"
fi
echo "sum,cells,particles,entries,percent,seconds,bytes,algorithm,checksum" >"$output/$network.csv"
for particles in 100 1000 10000 50000 200000 1000000; do
  for sum in sparse dense; do
    option=()
    [ $sum = sparse ] || option=(--dense)
    log=$(run --cells "${CELLS:-2000000}" --particles $particles --batches "${BATCHES:-11}" "${option[@]}")
    column() { awk -v column="$1" 'NF == 6 && $1 > 1 && $1 ~ /^[0-9]+$/ {print $column}' <<<"$log"; }
    echo "$sum,$(awk 'NR == 1 {print $1}' <<<"$log"),$particles,$(column 2 | median),$(column 3 | median),$(column 4 | median)$(
    ),$(column 5 | median),$(column 6 | sort | uniq -c | sort -rn | awk 'NR == 1 {print $2}'),$(awk '$1 == "checksum" {print $2}' <<<"$log")" |
      tee -a "$output/$network.csv"
  done
done
if command -v gnuplot >/dev/null; then
  gnuplot -e "folder='$output'" "$here/plot.gp"
else
  echo "No picture: apt-get install gnuplot-nox"
fi
