#!/bin/bash
# Tests switches known from SLURM on real nodes: $1 the test program, $2 the weir command, $3 the MPI both were built with.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
program=$1 weir=$2 mpi=$3
"$here/cluster" check
for command in slurmctld slurmd srun munged; do
  command -v "$command" >/dev/null || { echo "skipped: no $command on this machine"; exit 77; }
done
export WEIR_CLUSTER_STATE=${WEIR_CLUSTER_STATE:-/tmp/weir-cluster-switches}
"$here/cluster" up -n 4 -r 1gbit
trap '"$here/cluster" down >/dev/null' EXIT
"$here/cluster" slurm up

if [ "$mpi" = openmpi ]; then
  launch=(mpirun.openmpi -n 4)
else
  launch=(mpirun.mpich -n 4)
fi
# Runs in an allocation of all nodes. SLURM gives no address to ranks that mpirun starts on the first node; with MPICH, all ranks
# get that of the first node.
job() { timeout 120 "$here/cluster" slurm salloc -Q -N4 -n4 --ntasks-per-node=1 "$@" 2>&1; }

check_topology() {
  local expected
  expected=$(printf '%s\n' "switch spine.leaf0" "  node weir0: rank 0" "  node weir1: rank 1" "switch spine.leaf1" \
    "  node weir2: rank 2" "  node weir3: rank 3")
  grep -A5 "^switch spine.leaf0" <<<"$1" | diff <(echo "$expected") - || { echo "the topology by $2 is wrong"; exit 1; }
}

echo "-- topology by ${launch[0]}"
check_topology "$(job "${launch[@]}" "$weir" info)" "${launch[0]}"
if [ "$mpi" = mpich ]; then
  echo "-- topology by srun"
  check_topology "$(job srun --mpi=pmi2 "$weir" info)" srun
fi

echo "-- hi_oktopk by switch, against the oracle"
out=$(WEIR_LOG=info job "${launch[@]}" "$program" "every sparse algorithm over MPI*") || { tail -n 30 <<<"$out"; exit 1; }
grep -q "hi_oktopk goes by 2 switches of 2 to 2 nodes" <<<"$out" || { echo "hi_oktopk did not go by switches"; exit 1; }
