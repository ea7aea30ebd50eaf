#!/bin/bash
# Runs the program of example 09 on 1, 2 and 3 ranks. It ends with an error if a value is further off than its bound.
# Usage: test_example_fields.sh PROGRAM LAUNCHER...   the number of ranks follows LAUNCHER
set -euo pipefail
program=$1
launcher=("${@:2}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() { cat "$folder/log" && echo "$*" && exit 1; }

for ranks in 1 2 3; do
  for algorithm in "" packed_reduce_scatter; do
    "${launcher[@]}" "$ranks" "$program" --edge 67 --steps 60 --every 30 --relative 1e-2,1e-3,1e-5 ${algorithm:+--algorithm $algorithm} \
      --json "$folder/rows.json" >"$folder/log" 2>&1 || fail "$ranks ranks: it ended with $?"
    [ "$(grep -c '^| Weir, relative=' "$folder/log")" = 3 ] || fail "a row of the table is missing"
    # two fields, two averages and six ways
    [ "$(grep -c '"held":true' "$folder/rows.json")" = 24 ] || fail "a row of the JSON is missing: $(cat "$folder/rows.json")"
  done
done

"${launcher[@]}" 1 "$program" --help >"$folder/log" 2>&1 || fail "--help ended with $?"
grep -q "^  --relative " "$folder/log" || fail "--help has no list of options"
for wrong in --egde "--edge 1" "--steps many" "--relative 0" "--every 2000"; do
  # shellcheck disable=SC2086
  if "${launcher[@]}" 1 "$program" $wrong >"$folder/log" 2>&1; then fail "it took $wrong"; fi
  grep -q -- "${wrong%% *}" "$folder/log" || fail "$wrong: the text does not name it"
done
if "${launcher[@]}" 1 "$program" --edge 8 --steps 1 --every 1 --json "$folder/none/rows.json" >"$folder/log" 2>&1; then fail "it wrote nowhere"; fi
grep -q "^fields: cannot write .*/none/rows.json" "$folder/log" || fail "the text does not name the file"
