#!/bin/bash
# Tests bench_gpu, $1, on the SIMT machine: what it prints, writes, skips and refuses. Its times mean nothing.
set -euo pipefail
bench=$1
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
fail() { echo "test_bench: $*" >&2; exit 1; }
expect() { grep -qE -- "$2" <<<"$1" || fail "no '$2' in: $1"; }
refuse() { # PATTERN COMMAND...: must fail with this text
  local pattern=$1 out; shift
  if out=$("$@" 2>&1); then fail "accepted: $*"; fi
  expect "$out" "$pattern"
}

echo '[{"benchmark": "torch_topk", "count": 65536, "k": 655, "entropy": "1.000", "ms": 1.5}]' >"$work/torch.json"
out=$("$bench" --largest 16 --headline 16 --plan 12 --ranks 2 --repeats 1 --torch "$work/torch.json" --json "$work/rows.json")
for name in "select, known threshold" "compensate and select" "exact, first iteration" "exact, warm" "exact, everything ranked" \
  "scatter_add" "settle" "merge_add" "fill_zero" "moments" "exceedances" "CUB radix sort"; do
  grep -qF "$name" <<<"$out" || fail "no row of $name"
done
expect "$out" "exact, warm +65536 +655 .* torch.topk +1.5000 .* bound 10.00 (PASS|below)"
for name in "oktopk +direct" "oktopk +staged" "gtopk +direct" "topk_dsa +staged"; do expect "$out" "^$name .* bound 0.40 (PASS|below)"; done
for entropy in 1.000 0.544 0.201 0.000; do expect "$out" "exact, .* 32768 +$entropy "; done
expect "$out" "[0-9]+ of [0-9]+ bounds met"
for key in copy kernel plan share bound met entropy exchange_share; do
  grep -q "\"$key\"" "$work/rows.json" || fail "no $key in rows.json"
done

expect "$("$bench" --parts kernels --headline 28 --repeats 1)" "kernels +268435456 .* skipped: out of memory: [0-9]+ MiB are needed"
expect "$("$bench" --parts grid --largest 16 --seconds 0.000001 --repeats 1)" "skipped: .* s are over"
refuse "nonsense" "$bench" --parts nonsense
refuse "/no/such/file. cannot be read: No such file" "$bench" --torch /no/such/file
echo '{"a": 1}' >"$work/bad.json"
refuse "bad.json' is not what bench_torch_topk.py writes" "$bench" --torch "$work/bad.json"
expect "$("$bench" --help)" "--seconds"
echo "test_bench: passed"
