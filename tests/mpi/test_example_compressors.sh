#!/bin/bash
# Trains an example with three compressors, one of each carriage. Each learns, and none overwrites the results of another.
# Usage: test_example_compressors.sh ALGORITHM_OPTION PROGRAM [ARGS...] -- LAUNCHER...
set -euo pipefail
option=$1 program=$2
shift 2
arguments=()
while [ "$1" != -- ]; do arguments+=("$1") && shift; done
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
train() { "${launcher[@]}" "$program" "${arguments[@]}" --progress lines --output "$folder/results" "$@" >"$folder/log" 2>&1; }

launcher=("$@")
train "$option" oktopk --compressor top_k --error-feedback residual --feedback-decay 0.99 || { cat "$folder/log"; exit 1; }
train "$option" packed_allgather --compressor ef_sign_sgd --compressor-parameters bucket=512 || { cat "$folder/log"; exit 1; }
train "$option" dense_ring --compressor power_sgd --error-feedback residual || { cat "$folder/log"; exit 1; }
if train "$option" oktopk --compressor nothing; then
  echo "a compressor that does not exist was taken" && exit 1
fi
grep -q "there is no compressor 'nothing'" "$folder/log" || { cat "$folder/log"; exit 1; }
"$program" --summarise --output "$folder/results"
python3 - "$folder/results" <<'END_OF_PYTHON'
import json, pathlib, sys
runs = json.loads((pathlib.Path(sys.argv[1]) / "summary.json").read_text())
for compressor in ("top_k", "ef_sign_sgd", "power_sgd"):
    name = next((name for name in runs if name.endswith("+" + compressor)), None)
    if name is None:
        sys.exit(f"no run with {compressor} among {', '.join(runs)}")
    begin, end = runs[name]["curve"][0], runs[name]["curve"][-1]
    learnt = end["accuracy"] > 0.6 if "accuracy" in end else end["perplexity"] < begin["perplexity"] / 4
    if not learnt:
        sys.exit(f"{name} has learnt too little: {end}")
if len(runs) != 3:
    sys.exit(f"three runs have left {len(runs)} results")
END_OF_PYTHON
