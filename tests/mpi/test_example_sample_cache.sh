#!/bin/bash
# Trains example 06 on a folder of images with the sample cache, without it, over HTTP, and from level 1 alone: it learns, and all learn the same.
# Usage: test_example_sample_cache.sh PROGRAM LAUNCHER...
set -euo pipefail
program=$1
shift
launcher=("$@")
folder=$(mktemp -d)
server=
trap 'if [ -n "$server" ]; then kill "$server"; fi; rm -rf "$folder"' EXIT
# What it prints without the times.
train() {
  "${launcher[@]}" "$program" --epochs 2 --batch 8 "$@" >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
  sed -n 's/^\(epoch .\):.*\(loss .*\)/\1: \2/p' "$folder/log"
}

"$program" --store "$folder/store" --make 601
cached=$(train --store "$folder/store" --folder "$folder/level1" --csv "$folder/steps.csv")
echo "$cached"
[ "$(grep -c , "$folder/steps.csv")" = 53 ] || { echo "not a row for each of 52 steps:"; cat "$folder/steps.csv"; exit 1; }
awk '/^epoch 2/ {right = $5} END {exit !(right > 50)}' <<<"$cached" || { echo "it has learnt too little"; exit 1; }

same() { [ "$2" = "$cached" ] || { echo "$1 it learns something else: $2"; exit 1; }; }
same "without the cache" "$(train --store "$folder/store" --without-cache)"
if command -v python3 >/dev/null; then
  : >"$folder/server" # there before the server is
  python3 -u -m http.server 0 --bind 127.0.0.1 --directory "$folder/store" >"$folder/server" 2>/dev/null &
  server=$!
  for ((try = 0; try < 200; try++)); do
    port=$(sed -n 's/.* port \([0-9]*\) .*/\1/p' "$folder/server")
    [ -z "$port" ] || break
    sleep 0.1
  done
  same "over HTTP" "$(train --store "http://127.0.0.1:$port")"
fi
find "$folder/store" -name '*.img' -delete
same "from level 1" "$(train --store "$folder/store" --folder "$folder/level1")"
if "${launcher[@]}" "$program" --store "$folder/store" >"$folder/log" 2>&1; then echo "images that are gone were read"; exit 1; fi
grep -q "cannot read .*\.img" "$folder/log" || { cat "$folder/log"; exit 1; }
