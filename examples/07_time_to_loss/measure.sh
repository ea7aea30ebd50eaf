#!/usr/bin/env bash
# Measures example 07: curves of the loss, steps on a cluster of network namespaces (tests/cluster), tables, picture.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cluster=$here/../../tests/cluster/cluster
networks=(1gbit 10gbit uncapped)

usage() {
  cat <<END
Usage: measure.sh PHASE LIBRARY OUT_DIR [OPTION...]

  curves            trains with every method and seed on this machine: OUT_DIR/curves.json; resumable
  time              measures steps on clusters of 4 nodes, as root: OUT_DIR/time-NETWORK.json
  check             trains on the cluster at 1 Gbit/s with two methods, as root, and prints seconds to compare with the tables
  report            makes the tables and the picture of what is there: OUT_DIR/report.md, report.json, time_to_loss.svg
  all               curves, time and report

OPTIONs go to train.py; see its --help.

  LIBRARY           libweir-mpich.so of a build, such as build/lib/libweir-mpich.so
  PYTHON=python3    one that has torch and numpy
  WEIR=             command of a build, such as build/bin/weir-mpich, for the predictions
  UCX_TLS=tcp,self  Debian's MPICH otherwise uses shared memory between nodes
END
}

fail() {
  echo "measure.sh: $*" >&2
  exit 1
}

curves() {
  "$python" -m torch.distributed.run --nproc-per-node 4 --master-port "${MASTER_PORT:-29500}" "$here/train.py" curves \
    --output "$output" "$@"
}

# on_nodes OPTION...: starts train.py on each node of the cluster.
on_nodes() {
  local node pids=() status=0
  for node in 0 1 2 3; do
    UCX_TLS=${UCX_TLS:-tcp,self} WEIR_CALIBRATE=1 GLOO_SOCKET_IFNAME=eth0 timeout 600 "$cluster" exec "weir$node" \
      "$python" -m torch.distributed.run --nnodes 4 --node-rank "$node" --nproc-per-node 1 --master-addr weir0 \
      --master-port 29400 "$here/train.py" "$@" --output "$output" &
    pids+=($!)
  done
  for node in "${pids[@]}"; do wait "$node" || status=$?; done
  return $status
}

up() {
  trap '"$cluster" down' EXIT
  "$cluster" up -n 4 -r "$1"
}

# The cluster always caps its cards; at a terabit, this machine is the limit.
time_steps() {
  local network
  for network in "${networks[@]}"; do
    up "${network/uncapped/1000gbit}"
    on_nodes time --network "$network" "$@"
    "$cluster" down
  done
}

report() {
  "$python" "$here/report.py" "$output" --weir "${WEIR:-}"
  if command -v gnuplot >/dev/null; then
    gnuplot -e "folder='$output'" "$here/plot.gp"
    echo "Picture:  $output/time_to_loss.svg"
  else
    echo "No picture: apt-get install gnuplot-nox"
  fi
}

main() {
  if [ "${1:-}" = -h ] || [ "${1:-}" = --help ]; then usage && exit 0; fi
  [ $# -ge 3 ] || { usage >&2 && exit 2; }
  local phase=$1 python output
  WEIR_LIBRARY=$(realpath "$2")
  output=$(realpath -m "$3")
  shift 3
  python=$(command -v "${PYTHON:-python3}")
  [ -f "$WEIR_LIBRARY" ] || fail "no $WEIR_LIBRARY"
  export WEIR_LIBRARY OMP_NUM_THREADS=1 PYTHONPATH=${PYTHONPATH:-$(dirname "$WEIR_LIBRARY")/../python}
  mkdir -p "$output"
  case $phase in
    curves) curves "$@" ;;
    time) time_steps "$@" ;;
    check)
      up 1gbit
      on_nodes check --methods ddp "weir 1 %, dense start" --seeds 1 "$@" ;;
    report) report ;;
    all)
      curves "$@"
      time_steps
      report ;;
    *) fail "no phase '$phase'; see measure.sh --help" ;;
  esac
}

main "$@"
