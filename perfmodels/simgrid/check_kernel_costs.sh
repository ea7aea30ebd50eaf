#!/bin/bash
# check_kernel_costs.sh KERNEL_COSTS_CPP OBJECT...: fails if a float kernel of the host has no row in kernel_costs.cpp, if a row
# names a symbol that no object defines, or if no object calls give_way(), in which simulated ranks wait.
set -euo pipefail
costs=$1; shift
defined=$(nm --defined-only "$@" | awk '$2 ~ /[TW]/ {print $3}' | sort -u)
rows=$(sed -n 's/^CHARGED[A-Z_]*(\(_[A-Za-z0-9_]*\),.*/\1/p' "$costs" | sort -u)
missing=$(comm -13 <(echo "$rows") <(grep -E '^_ZN4weir7kernels4host[0-9]+[a-z_0-9]+IfE' <<<"$defined"))
stale=$(comm -23 <(echo "$rows") <(echo "$defined"))
waits=$(nm --undefined-only "$@" | grep -c ' _ZN4weir8give_wayEv$' || true)
[[ -z $missing && -z $stale && $waits -gt 0 ]] && exit 0
# complain WHAT SYMBOLS
complain() {
  [[ -n $2 ]] || return 0
  echo "$costs: $1"
  while read -r symbol; do echo "  $symbol  $(c++filt "$symbol")"; done <<<"$2"
}
complain "what do these kernels cost? Add a row for each:" "$missing" >&2
[[ $waits -gt 0 ]] || echo "CMakeLists.txt: it wraps weir::give_way(), which no object calls. Wrap what ranks wait by now." >&2
complain "the library has no such functions any more. Mend their rows:" "$stale" >&2
exit 1
