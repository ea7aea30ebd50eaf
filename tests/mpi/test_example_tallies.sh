#!/bin/bash
# Runs the programs of example 08, sparse and dense, on 1, 2 and 4 ranks. All have the same checksum. In all
# languages they print the same, except for times.
# Usage: test_example_tallies.sh PROGRAM... -- LAUNCHER...   the number of ranks follows LAUNCHER
set -euo pipefail
programs=()
while [ "$1" != -- ]; do programs+=("$1") && shift; done
shift
launcher=("$@")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { cat "$folder/log" && echo "$*" && exit 1; }
without_times() { sed -E 's/[0-9]+\.[0-9]{5}( |$)/-\1/' "$folder/log"; }

for ranks in 1 2 4; do
  for sum in "" --dense; do
    for program in "${programs[@]}"; do
      "${launcher[@]}" "$ranks" "$program" --cells 30000 --particles 3001 --batches 2 $sum >"$folder/log" 2>&1 ||
        fail "$program ended with $?"
      checksum=$(awk '$1 == "checksum" {print $2}' "$folder/log")
      [ -n "$checksum" ] || fail "$program printed no checksum"
      [ "$checksum" = "${first:=$checksum}" ] || fail "$program $sum on $ranks ranks: $checksum is not $first"
      if [ "$program" = "${programs[0]}" ]; then
        without_times >"$folder/expected"
      else
        without_times | diff "$folder/expected" - || fail "$program prints something else than ${programs[0]}"
      fi
    done
  done
done

for program in "${programs[@]}"; do
  "${launcher[@]}" 1 "$program" --help >"$folder/log" 2>&1 || fail "$program --help ended with $?"
  grep -q "^  --dense " "$folder/log" || fail "$program --help has no list of options"
  for wrong in --cell "--cells 0" "--particles many" --batches; do
    # shellcheck disable=SC2086
    if "${launcher[@]}" 2 "$program" $wrong >"$folder/log" 2>&1; then fail "$program took $wrong"; fi
    [ "$(grep -c "^tallies: .*${wrong%% *}\$" "$folder/log")" = 1 ] || fail "$program $wrong: a text is missing or comes twice"
  done
done
