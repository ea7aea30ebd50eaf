#!/bin/bash
# Tests the program `weir-benchmarks`, $1: what it prints, writes and refuses. The other arguments start ranks: mpirun ... -n.
set -euo pipefail
benchmarks=$1
mpirun=("${@:2}")
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
fail() { echo "test_benchmarks: $*" >&2; exit 1; }
expect() { grep -qE -- "$2" <<<"$1" || fail "no '$2' in: $1"; }
expect_not() { if grep -qE -- "$2" <<<"$1"; then fail "'$2' in: $1"; fi; }
refuse() { # PATTERN COMMAND...: must fail with this text
  local pattern=$1 out; shift
  if out=$("$@" 2>&1); then fail "accepted: $*"; fi
  expect "$out" "$pattern"
}

"$benchmarks" codec --count 100000 --iterations 2 --json "$work/codec.json" | grep "elias_fano_8 " >/dev/null || fail "no format in codec"
for key in benchmark count density entries values format bytes_per_entry encode_gbs decode_gbs baseline baseline_gbs encode_ratio \
  decode_ratio; do
  grep -q "\"$key\"" "$work/codec.json" || fail "no $key in codec.json"
done

"$benchmarks" threads --count 100000 --threads 2 --iterations 2 --json "$work/threads.json" | grep "^select " >/dev/null || fail "no selection in threads"
for key in benchmark loop count density threads one_thread_ms median_ms speedup baseline baseline_speedup; do
  grep -q "\"$key\"" "$work/threads.json" || fail "no $key in threads.json"
done

"$benchmarks" adam --count 10000 --density 0.01 --iterations 2 --json "$work/adam.json" | grep "^step: " >/dev/null || fail "no legend in adam"
for key in benchmark count density entries median_ms min_ms ns_per_entry baseline baseline_ms baseline_min_ms speedup; do
  grep -q "\"$key\"" "$work/adam.json" || fail "no $key in adam.json"
done

"$benchmarks" rows --rows 1000 --tokens 300 --width 7 64 --iterations 2 --json "$work/rows.json" | grep "^bounds: " >/dev/null || fail "no bounds in rows"
for key in benchmark rows width tokens distinct gather_ms coalesce_ms baseline gather_baseline_ms coalesce_baseline_ms gather_ratio \
  coalesce_ratio gather_bound coalesce_bound; do
  grep -q "\"$key\"" "$work/rows.json" || fail "no $key in rows.json"
done
grep -q '"width": 64' "$work/rows.json" || fail "no row of the second width in rows.json"

"$benchmarks" overlap --count 100000 --urgent-count 1000 --urgent-algorithm oktopk --iterations 2 --json "$work/overlap.json" >"$work/overlap"
for mode in alone in_order equal priority; do
  grep -q "^$mode " "$work/overlap" || fail "no mode $mode in overlap"
  grep -q "\"overlap_${mode}_urgent\"" "$work/overlap.json" || fail "no row of mode $mode in overlap.json"
done

"$benchmarks" capi --calls 100 --rounds 2 --json "$work/capi.json" | grep "^weir_plan_run " >/dev/null || fail "no run in capi"
for key in benchmark algorithm median_ms baseline_ms; do
  grep -q "\"$key\"" "$work/capi.json" || fail "no $key in capi.json"
done

cat >"$work/tiny.json" <<'END'
{"model": "tiny", "sample": "a word", "batch": 2, "tensors": [["first", 3000, 1000000], ["bias", 10, 0], ["last", 20000, 2000000]]}
END
"${mpirun[@]}" 2 "$benchmarks" plans --model "$work/tiny.json" --iterations 2 --warmup 1 --json "$work/plans.json" >"$work/plans"
for mode in one in_flight in_order; do
  grep -q "^$mode " "$work/plans" || fail "no mode $mode in plans"
  grep -q "\"plans_$mode\"" "$work/plans.json" || fail "no row of mode $mode in plans.json"
done
"${mpirun[@]}" 2 "$benchmarks" schedules --count 1000,2000 --iterations 2 --warmup 1 --json "$work/schedules.json" >/dev/null
for schedule in direct phased one_round; do
  grep -q "$schedule" "$work/schedules.json" || fail "no row of $schedule in schedules.json"
done
"${mpirun[@]}" 2 "$benchmarks" pto --model "$work/tiny.json" --smallest 100 --iterations 2 --warmup 1 --json "$work/pto.json" >"$work/pto"
for rule in lars lamb; do
  grep -q "^tiny, $rule: 3 layers" "$work/pto" || fail "no table of $rule in pto"
  grep -q "\"rule\": \"$rule\"" "$work/pto.json" || fail "no row of $rule in pto.json"
done

# an output that cannot be written is refused before any measurement
for benchmark in codec overlap plans rows threads adam schedules pto; do
  refuse "'$work/no/file' cannot be written: name a file in a folder that exists and is yours" "$benchmarks" "$benchmark" --json "$work/no/file"
  expect_not "$("$benchmarks" "$benchmark" --json "$work/no/file" 2>&1 || true)" "median|ratio|bytes/entry|alone"
done
refuse "quick" "$benchmarks" overlap --urgent-algorithm quick
refuse "zip" "$benchmarks" codec --format zip
refuse "width" "$benchmarks" rows --width 0
refuse "density" "$benchmarks" adam --density 2
refuse "'codek' is no subcommand: did you mean 'codec'\? There are capi, codec" "$benchmarks" codek
refuse "subcommand" "$benchmarks"
expect "$("$benchmarks" --help)" "schedules"
echo "test_benchmarks: passed"
