#!/bin/bash
# Tests `weir trace` on files of real ranks: $1 weir, $2 stuck_ranks, $3 python3 or empty, then the command that starts 4 ranks.
set -euo pipefail
weir=$1 program=$2 python=$3; shift 3
start=("$@")
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
fail() { echo "test_trace: $*" >&2; exit 1; }
expect() { grep -qE -- "$2" <<<"$1" || fail "no '$2' in: $1"; }
refuse() { # PATTERN COMMAND...: must fail with this text
  local pattern=$1 out; shift
  if out=$("$@" 2>&1); then fail "accepted: $*"; fi
  expect "$out" "$pattern"
}
ranks() { # HOW FOLDER [TIMEOUT]: runs the ranks and sets $said to their output
  said=$(WEIR_TIMEOUT=${3:-2} WEIR_DUMP=$2 timeout 60 "${start[@]}" "$program" "$1" 2>&1) || true
}
# Most of these runs wait, so two of them run beside the others.
WEIR_TRACE=$work/slow ranks delay "$work/unused-slow" 60 &
slow=$!
WEIR_TRACE=$work/broken WEIR_METRICS=$work/broken ranks delay "$work/delay" &
returned=$!
diagnose() { diagnosis=$("$weir" trace diagnose "$1" 2>&1); echo "$diagnosis"; }
verdict() { expect "$(head -1 <<<"$diagnosis")" "$1"; }

# Four ranks, traced: merged on one clock, and summed up.
WEIR_TRACE=$work/trace ranks none "$work/unused" 60
[ -z "$said" ] || fail "a run without trouble says: $said"
[ ! -e "$work/unused" ] || fail "a run without trouble has written a dump"
merged=$("$weir" trace merge "$work/trace")
expect "$merged" "traces of 4 of 4 ranks"
expect "$merged" "rank 0: all others are set by its clock"
[ "$(grep -c 'rank 3: the same clock' <<<"$merged")" = 1 ] || fail "ranks of one host have one clock: $merged"
if [ -n "$python" ]; then "$python" "$here/check_merged_trace.py" "$work/trace/weir-trace.c0.json" 4; fi
summary=$("$weir" trace summary "$work/trace" --json "$work/summary.json")
for line in "^late layers +40 " "^    select +40 " "^      split_reduce +40 " "^early layers +40 " "^(slowest: rank [0-3]|no rank is much slower)" "^longest waits"; do
  expect "$summary" "$line"
done
for key in stages ranks levels waits overlap slowest_rank median_ms awaited_ms; do
  grep -q "\"$key\"" "$work/summary.json" || fail "no $key in summary.json"
done
# cut in the middle of an event, as by a killed process or a full disk; a rank without a trace
cut=$(ls "$work"/trace/weir-trace.*.c0.rank1.json)
lines=$(($(wc -l < "$cut") * 2 / 3))
truncate -s $(($(head -n "$lines" "$cut" | wc -c) + 10)) "$cut"
rm "$work"/trace/weir-trace.*.c0.rank3.json
cut=$("$weir" trace merge "$work/trace" --output "$work/cut.json" 2>&1)
expect "$cut" "weir-trace\.[0-9a-f]+\.c0\.rank1\.json ends in the middle of an event: read up to there"
expect "$cut" "there is no trace of rank 3, of 4 ranks"
if [ -n "$python" ]; then "$python" -c 'import json, sys; json.load(open(sys.argv[1]))' "$work/cut.json"; fi
refuse "cannot be written" "$weir" trace merge "$work/trace" --output "$work/no/such/folder.json"
refuse "is one of the traces" "$weir" trace merge "$work/trace" --output "$(ls "$work"/trace/weir-trace.*.c0.rank0.json)"
touch "$work/target.json"
ln -s target.json "$work/link.json"
"$weir" trace merge "$work/trace" --output "$work/link.json" >/dev/null 2>&1
[[ -L $work/link.json && -s $work/target.json ]] || fail "merging has replaced a link"
if [ -w /dev/full ]; then refuse "cannot be written: No space left" "$weir" trace merge "$work/trace" --output /dev/full; fi
refuse "give the folder that WEIR_DUMP named" "$weir" trace diagnose "$work/trace"
refuse "none. cannot be read: No such file" "$weir" trace summary "$work/none"
refuse "no trace of communicator 7" "$weir" trace summary "$work/trace" --communicator 7

# A rank that is slow once.
wait $slow
summary=$("$weir" trace summary "$work/slow" --json "$work/slow.json")
late=$(tr -d ' \n' <"$work/slow.json" | grep -oE '"rank":2,"in_flight_ms"[^}]*' | grep -oE '"late_ms":[0-9]+' | cut -d: -f2)
[ "$late" -ge 2900 ] || fail "rank 2 slept for 3 s, and was late by $late ms"
expect "$(grep -A1 "^longest waits" <<<"$summary" | tail -1)" "rank [013], 'late layers', run 6, [0-9.]+ ms of it in [a-z_]+ for rank [0-3]$"

# A frozen rank.
ranks freeze "$work/freeze"
expect "$said" "without progress"
diagnose "$work/freeze"
verdict "^rank 2 wrote no dump: it is frozen, dead, or busy outside Weir; ranks 0, 1 and 3 wait in 'late layers', run 6, stage [a-z_]+$"
expect "$diagnosis" "^  rank [013]: 'late layers', run 6 \(oktopk, 30000 float32\), stage [a-z_]+, has waited [0-9]+ ms for rank 2$"
expect "$diagnosis" "^  rank 2 wrote no dump$"
expect "$diagnosis" "^  first error, on rank [013]: rank [013] waited 2.[0-9] s without progress"

# A dead one, behind a shell, so that the launcher does not end the others at once.
# shellcheck disable=SC2016
said=$(WEIR_TIMEOUT=2 WEIR_DUMP=$work/kill timeout 60 "${start[@]}" sh -c '"$0" kill; while [ "$(find "$WEIR_DUMP" -name "*.json" | wc -l)" -lt 3 ]; do sleep 0.1; done' "$program" 2>&1) || true
diagnose "$work/kill"
verdict "^rank 2 wrote no dump: .*'late layers', run 6, stage [a-z_]+$"

# A rank that comes too late, and one that leaves out a plan. Broken runs leave complete traces and metrics.
wait $returned
[ "$(tail -qn 1 "$work"/broken/weir-trace.*.c0.rank?.json)" = "]"$'\n'"]"$'\n'"]"$'\n'"]" ] || fail "a trace of a broken run has no end"
expect "$(cat "$work"/broken/weir.*.c0.rank0.prom)" 'weir_errors_total\{.*status="6"\} 1'
diagnose "$work/delay"
verdict "^rank 2 was late: it started 'late layers', run 6 (2\.[5-9]|[3-9]\.[0-9]) s after the first rank, and the deadline is 2.0 s"
ranks skip "$work/skip"
diagnose "$work/skip"
verdict "^rank 2 is behind: ranks 0, 1 and 3 wait in 'late layers', run 6, stage [a-z_]+; rank 2 waits in 'early layers', run 6, stage [a-z_]+: all ranks must make the same runs"

if [ -n "$python" ]; then "$python" "$here/check_pytorch_keys.py" "$work"/delay/*.json "$work"/skip/*.json; fi

# Nothing wrong; then an older dump among newer ones, and one that is cut short.
WEIR_DUMP_SIGNAL=USR1 ranks signal "$work/signal" 60
diagnose "$work/signal"
verdict "^nothing is wrong in the dumps of 4 of 4 ranks, which a signal has asked for: [0-9]+ runs? in flight"
of_rank_1=$(ls "$work"/signal/weir-dump.*.c0.rank1.json)
mv "$of_rank_1" "$work/whole.json"
cp "$work"/freeze/weir-dump.*.c0.rank1.json "$work/signal/"
diagnose "$work/signal"
expect "$diagnosis" "weir-dump\.[0-9a-f]+\.c0\.rank1\.json is of an earlier run: left out"
expect "$diagnosis" "^nothing is wrong in the dumps of 3 of 4 ranks, .*; rank 1 wrote none$"
head -c 1000 "$work/whole.json" >"$of_rank_1"
diagnose "$work/signal"
expect "$diagnosis" "weir-dump\.[0-9a-f]+\.c0\.rank1\.json cannot be read: it is not JSON: cut short"
expect "$diagnosis" "rank 1 wrote a dump that cannot be read"
echo "test_trace: passed"
