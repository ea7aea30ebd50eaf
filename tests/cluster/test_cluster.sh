#!/bin/bash
# Runs the contract across real nodes: $1 the test program, $2 the weir command, $3 the MPI both were built with.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
program=$1 weir=$2 mpi=$3
"$here/cluster" check
export WEIR_CLUSTER_STATE=${WEIR_CLUSTER_STATE:-/tmp/weir-cluster-test}
"$here/cluster" up -n 4 -r 1gbit  # cleans up after itself when it fails
trap '"$here/cluster" down >/dev/null' EXIT

echo "-- topology, 2 ranks a node"
info=$("$here/cluster" mpirun -m "$mpi" -n 4 -p 2 -- "$weir" info)
echo "$info" | sed -n '/^topology/,$p'
for node in "node weir0: ranks 0-1" "node weir1: ranks 2-3"; do
  grep -q "$node" <<<"$info" || { echo "no '$node' in the topology"; exit 1; }
done

echo "-- the contract, 4 nodes x 1 rank"
"$here/cluster" mpirun -m "$mpi" -n 4 -p 1 -- "$program" "~ranks of one machine*"
"$here/cluster" mpirun -m "$mpi" -n 4 -p 1 -- "$program" "[tcp]"
echo "-- the contract, 2 nodes x 2 ranks"
"$here/cluster" mpirun -m "$mpi" -n 4 -p 2 -- "$program" "~ranks of one machine*"
