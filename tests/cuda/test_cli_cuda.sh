#!/bin/bash
# Tests the `weir` command, $1, with CUDA memory on the SIMT machine.
set -euo pipefail
weir=$1
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
fail() { echo "test_cli_cuda: $*" >&2; exit 1; }

"$weir" bench select --memory cuda --count 20000 --iterations 2 --json "$work/select.json" >"$work/select"
for method in reuse exact exact_cold mstopk sampled gaussian sidco redsync; do
  grep -q "^$method .* copy " "$work/select" || fail "no row for $method"
done
grep -qE "^exact .* 200\.\.200 +0\.0000 +0\.0000 +1\.0000" "$work/select" || fail "exact selection is not exact: $(cat "$work/select")"

"$weir" bench allreduce --memory cuda --algorithm all --count 5000 --iterations 2 --json "$work/allreduce.json" >"$work/allreduce"
for algorithm in oktopk gtopk topk_dsa; do
  grep -qE "^allreduce_(dense|sparse) +$algorithm +(\(.*\) +)?cuda " "$work/allreduce" || fail "no row for $algorithm"
done
for file in select allreduce; do grep -q '"memory": "cuda"' "$work/$file.json" || fail "no memory in $file.json"; done
grep -qE "MPI_Allreduce" "$work/allreduce" || fail "no baseline"
"$weir" info | grep -E "emulated, compute capability 9.0, .* NUMA node" >/dev/null || fail "no NUMA node in weir info"
echo "test_cli_cuda: passed"
