#!/bin/bash
# Kills a run of 3 ranks repeatedly, all ranks or one, at random moments, and starts it again. Each start compares the restored
# state with an undisturbed run.
# Usage: test_killed_runs.sh RUNS PROGRAM LAUNCHER...; one in TEST_EVERY of them.
set -euo pipefail
runs=$(($1 / ${TEST_EVERY:-1})) program=$2
shift 2
launch=("$@")
folder=$(mktemp -d)
job=
trap '[ -z "$job" ] || kill -KILL -- "-$job" 2>/dev/null || true; rm -rf "$folder"' EXIT
RANDOM=${SEED:-$((11 + ${TEST_OFFSET:-0}))}
export WEIR_TIMEOUT=20 WEIR_DUMP=
segments() { find /dev/shm -maxdepth 1 -name 'weir*' 2>/dev/null | wc -l; }
before=$(segments)

"${launch[@]}" "$program" record "$folder/expected" $((2000 + 60 * runs))
touch "$folder/started"
last=0 saved=0 span=150
for ((run = 0; run < runs; ++run)); do
  : >"$folder/out"
  setsid "${launch[@]}" "$program" train "$folder" "$folder/expected" >"$folder/out" 2>"$folder/err" &
  job=$!
  # The run prints a line after restoring; then wait for a random time.
  for ((try = 0; try < 400; ++try)); do
    [ ! -s "$folder/out" ] || break
    kill -0 "$job" 2>/dev/null || break
    sleep 0.02
  done
  if ! [ -s "$folder/out" ]; then
    wait "$job" || true
    echo "run $run did not start: $(cat "$folder/err")"
    exit 1
  fi
  step=$(head -n 1 "$folder/out")
  if ((step < last)); then
    echo "run $run began at step $step, the one before at $last"
    exit 1
  fi
  # On a busy machine, runs need longer until they save.
  if ((step == last)); then
    span=$((span < 5000 ? 2 * span : span))
  else
    saved=$((saved + 1)) span=150
  fi
  last=$step
  milliseconds=$((RANDOM % span))
  sleep "$((milliseconds / 1000)).$(printf %03d $((milliseconds % 1000)))"
  ranks=$(pgrep -f "^$program train $folder" || true)
  if ((run % 3 == 0)) && [ -n "$ranks" ]; then
    mapfile -t each <<<"$ranks"
    kill -KILL "${each[RANDOM % ${#each[@]}]}" 2>/dev/null || true
  else
    # shellcheck disable=SC2086
    kill -KILL $ranks 2>/dev/null || true
  fi
  wait "$job" 2>/dev/null || true
  job=
  if grep -q '^killed_run:' "$folder/err"; then
    grep '^killed_run:' "$folder/err"
    exit 1
  fi
  while pgrep -f "^$program train $folder" >/dev/null; do sleep 0.02; done
done
# Another test's processes may exist for a moment.
for ((try = 0; try < 100; ++try)); do
  after=$(segments)
  ((after > before)) || break
  sleep 0.1
done
echo "$runs runs killed, $saved of them saved something; step $last; shared memory segments $before -> $after"
((saved > runs / 4)) || { echo "hardly any run has saved anything: nothing was tested"; exit 1; }
((after <= before)) || { echo "segments of shared memory are left"; exit 1; }
