#!/bin/bash
# Checks that no kernel in the PTX files "$@" has a trap. If GPU code reads data that only the host has, for example a constexpr
# array, CUDA's compiler inserts a trap without a warning.
set -euo pipefail
[ $# -gt 0 ] || { echo "test_traps.sh: give PTX files" >&2; exit 2; }
for file in "$@"; do grep -q '\.entry ' "$file" || { echo "$file has no kernel" >&2; exit 1; }; done
if traps=$(awk '/\.entry / {kernel = $0} /^[ \t]*trap;/ {print FILENAME ": " kernel}' "$@") && [ -n "$traps" ]; then
  printf 'kernels with a trap:\n%s\n' "$traps" >&2
  exit 1
fi
echo "$# files without a trap"
