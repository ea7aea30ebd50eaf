#!/bin/bash
# Trains an example twice: undisturbed, and stopped repeatedly by signals to some of its ranks. Both learn the same, bit for bit.
# Usage: test_example_resumes.sh RESULT.json PROGRAM [ARGS...] -- LAUNCHER...
set -euo pipefail
result=$1 program=$2
shift 2
arguments=()
while [ "$1" != -- ]; do arguments+=("$1") && shift; done
shift
folder=$(mktemp -d)
trap 'pkill -KILL -f "^$program .*$folder" 2>/dev/null || true; rm -rf "$folder"' EXIT
train() { "$@" "$program" "${arguments[@]}" --progress lines --output "$folder/$into" "${more[@]}" >"$folder/$into.log" 2>&1; }

into=whole more=()
train "$@" || { cat "$folder/whole.log"; exit 1; }
mkdir "$folder/checkpoints"
into=parts more=(--checkpoint "$folder/checkpoints" --every 7)
stops=0
for signal in USR1 TERM USR1 none; do
  train "$@" &
  job=$!
  if [ $signal != none ]; then
    # Once there is a file, it trains. Before that, it does not catch the signal.
    files=$(find "$folder/checkpoints" -name 'checkpoint-*' 2>/dev/null | sort | tail -n 1)
    for ((try = 0; try < 600; ++try)); do
      kill -0 $job 2>/dev/null || break
      [ "$(find "$folder/checkpoints" -name 'checkpoint-*' 2>/dev/null | sort | tail -n 1)" = "$files" ] || break
      sleep 0.05
    done
    pkill -n -$signal -f "^$program .*$folder" || true
  fi
  status=0
  wait $job || status=$?
  [ $status -ne 75 ] || { stops=$((stops + 1)) && continue; }
  [ $status -eq 0 ] || { cat "$folder/parts.log"; exit 1; }
  break
done
echo "stopped $stops times"
[ $stops -gt 0 ] || { echo "it was never stopped: nothing was tested"; exit 1; }
python3 - "$folder/whole/$result" "$folder/parts/$result" <<'END_OF_PYTHON'
import json, sys
whole, parts = (json.load(open(path))["curve"] for path in sys.argv[1:])
learnt = ("step", "loss", "accuracy", "perplexity")
for a, b in zip(whole, parts, strict=True):
    if any(a.get(key) != b.get(key) for key in learnt):
        sys.exit(f"undisturbed, the training had {a}; stopped and started again, {b}")
print(f"{len(whole)} points of the curve are the same, bit for bit")
END_OF_PYTHON
