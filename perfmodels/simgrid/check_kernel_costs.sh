#!/bin/bash
# check_kernel_costs.sh KERNEL_COSTS_CPP OBJECT...: fails when a float kernel of the host has no row in kernel_costs.cpp.
set -euo pipefail
costs=$1; shift
missing=$(nm --defined-only "$@" | awk '$2 ~ /[TW]/ && $3 ~ /^_ZN4weir7kernels4host[0-9]+[a-z_0-9]+IfE/ {print $3}' | sort -u |
  while read -r symbol; do grep -q "$symbol\b" "$costs" || echo "  $symbol  $(c++filt "$symbol")"; done)
[[ -z $missing ]] && exit 0
echo "$costs: what do these kernels cost? Add a row for each:" >&2
echo "$missing" >&2
exit 1
