#!/bin/bash
# Tests the `weir` command, $1: what it prints, writes and refuses. $2: a library to preload that makes MPI sum wrongly. The other
# arguments start ranks: mpirun ... -n.
set -euo pipefail
weir=$1 wrong_sum=$2
mpirun=("${@:3}")
# shellcheck source=../support/thinning.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/thinning.sh"
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
fail() { echo "test_cli: $*" >&2; exit 1; }
expect() { grep -qE -- "$2" <<<"$1" || fail "no '$2' in: $1"; }
expect_not() { if grep -qE -- "$2" <<<"$1"; then fail "'$2' in: $1"; fi; }
refuse() { # PATTERN COMMAND...: must fail with this text
  local pattern=$1 out; shift
  if out=$("$@" 2>&1); then fail "accepted: $*"; fi
  expect "$out" "$pattern"
}

info=$(WEIR_TIMEOUT=5 WEIR_TYPO=1 "$weir" info)
# Start no daemon, which Open MPI otherwise starts for each rank without a launcher.
export OMPI_MCA_ess_singleton_isolated=1
expect "$info" "^weir [0-9]+\.[0-9]+\.[0-9]+"
expect "$info" "WEIR_TIMEOUT +5 +\(environment\)"
expect "$info" "WEIR_LOG +warn +\(default\)"
expect "$info" "^progress threads: none, WEIR_PROGRESS_THREAD is off. With on:"
expect "$(WEIR_PROGRESS_THREAD=anywhere "$weir" info)" "^progress threads: one for each rank, on any core, WEIR_PROGRESS_THREAD is anywhere"
expect "$(WEIR_PROGRESS_THREAD=on "$weir" info 2>&1)" "^  rank 0: (on core [0-9]+|not started: )"
expect "$info" "^  threads +(oneTBB 20|none: built without)"
expect "$info" "^threads: the cores that a rank has for itself"
expect "$(WEIR_THREADS=3 "$weir" info 2>&1)" "^  rank 0: 3$"
expect "$info" "WEIR_TYPO .*not a setting of Weir"
expect "$info" "oktopk"
expect "$info" "CUDA memory +(direct|staged through pinned memory): "
expect "$(WEIR_CUDA_AWARE_MPI=off "$weir" info)" "CUDA memory +staged through pinned memory: WEIR_CUDA_AWARE_MPI is off"
expect "$info" "^node .*: rank 0"
expect "$info" "hwloc +API 2\.[0-9]+\.[0-9]+ \(built with 2\."
expect "$(WEIR_MACHINE=/a/path/longer/than/the/column "$weir" info)" "WEIR_MACHINE +/a/path/longer/than/the/column \(environment\)"
if grep -qE "^  none: " <<<"$info"; then expect_not "$info" "(no|without) NCCL"; fi # without a GPU it does not matter

# There is one status for a wrong command line, another for output that cannot be written.
ends() { # STATUS PATTERN COMMAND...
  local status=0 out
  out=$("${@:3}" 2>&1 >"$output") || status=$?
  [ $status = "$1" ] || fail "$status, not $1, from: ${*:3}: $out"
  expect "$out" "$2"
}
output=/dev/null
ends 2 "'inof' is no subcommand: did you mean 'info'" "$weir" inof
ends 2 "--nonsense" "$weir" info --nonsense
ends 2 "not in range" "$weir" predict --nodes 0
ends 2 "nan must be a number from 1e-09 to 1" "$weir" predict --density nan
ends 2 "0 must be a number from 1e-09 to 1" "$weir" info --plan --density 0
ends 2 "machine file 'none.json' cannot be read: No such file" env WEIR_MACHINE=none.json "$weir" predict
ends 2 "none. cannot be read: No such file" "$weir" trace summary none
ends 2 "not in range" "$weir" bench select --count 99999999999999999999
ends 2 "x,y" "$weir" predict --network x,y
ends 2 "levels of qsgd is .0.: it must be" "$weir" bench compress --count 1000 --compressor qsgd --compressor-parameters levels=0
ends 2 "--input excludes --smooth" "$weir" bench compress --smooth --input "$0"
ends 2 "nonsense" "$weir" bench fusion --model nonsense
ends 0 "" "$weir" info --help
if [ -w /dev/full ]; then
  output=/dev/full
  ends 1 "weir: the output cannot be written: No space left" "$weir" info --compressors
  ends 2 "weir: the output cannot be written: No space left" "$weir" checkpoint --help
  # Without a reader, the status is the same.
  for command in inof "predict --network x,y"; do
    status=0
    # shellcheck disable=SC2086
    "$weir" $command 2>/dev/full || status=$?
    [ $status = 2 ] || fail "$status, not 2, from: $command, where stderr cannot be written"
  done
fi
output=/dev/null
# Started by the other MPI's launcher, each of several ranks believes that it is the only one.
if ldd "$weir" | grep -q libmpich; then other=(OMPI_COMM_WORLD_SIZE=2); else other=(PMI_SIZE=2); fi
ends 1 "built for (Open MPI|MPICH), and (Open MPI|MPICH)'s launcher has started this process as one of 2: start the program with" env "${other[@]}" "$weir" selftest

# the compressors: each with what carries it, and its parameters with default and range
compressors=$("$weir" info --compressors)
expect "$compressors" "^packed, carried by packed_allgather, packed_reduce_scatter$"
expect "$compressors" "^sparse, carried by topk_allgather, .*oktopk"
expect "$compressors" "^linear, carried by dense_ring, "
expect "$compressors" "^  qsgd +[a-z]"
expect "$compressors" "^    levels +7 \(1 to 127\): "
expect "$compressors" "^    format +int8 \(int8, int4, fp8\): "
expect "$compressors" "^    error feedback +off by default$"
expect "$compressors" "^    random +yes, by .seed.$"
expect_not "$compressors" "topology"

# the algorithms, with their parameters
algorithms=$("$weir" info --algorithms)
expect "$algorithms" "^  oktopk +[A-Z]"
expect "$algorithms" "^    window +4 \(1 to 65536\): "
expect "$algorithms" "^    schedule +automatic \(automatic, direct, phased, one_round, shared\): "
expect_not "$algorithms" "topology"
refuse "algorithm_parameters: auto has no parameter 'radius': it has window .4.," "$weir" bench allreduce --algorithm-parameters radius=4

# a misspelt setting is warned of once, by rank 0
warnings=$(WEIR_TIMOUT=5 "${mpirun[@]}" 2 "$weir" bench allreduce --count 1000 --iterations 1 --result sparse 2>&1 >/dev/null)
[ "$(grep -c "weir: WEIR_TIMOUT is not a setting of Weir and is ignored: did you mean WEIR_TIMEOUT?" <<<"$warnings")" = 1 ] ||
  fail "no warning, or more than one, of WEIR_TIMOUT: $warnings"
expect_not "$(WEIR_TIMOUT=5 WEIR_LOG=error "$weir" info 2>&1 >/dev/null)" "did you mean"

"$weir" bench select --count 100000 --iterations 2 --json "$work/select.json" >/dev/null
for method in reuse exact exact_cold mstopk sampled gaussian sidco; do
  grep -q "\"algorithm\": \"$method\"" "$work/select.json" || fail "no row for $method"
done
for key in kernels count_error_mean count_error_max overlap allocations_per_iteration; do
  grep -q "\"$key\"" "$work/select.json" || fail "no $key in select.json"
done
expect "$("$weir" bench select --help)" "error is .count - k. / k"
"$weir" bench allreduce --count 10000 --iterations 2 --algorithm all --json "$work/allreduce.json" >/dev/null
beside=$("$weir" bench allreduce --count 10000 --iterations 2 --algorithm oktopk,dense_ring,auto --algorithm-parameters schedule=direct --side-by-side)
for name in oktopk dense_ring auto; do grep -q " $name " <<<"$beside" || fail "no row of $name side by side"; done
for key in benchmark algorithm count density ranks median_ms min_ms baseline baseline_ms ratio bytes_sent_max selected_local_min \
  selected_local_max selected_global_min selected_global_max bytes_in_node bytes_across bytes_in_switch bytes_across_switches; do
  for file in select allreduce; do grep -q "\"$key\"" "$work/$file.json" || fail "no $key in $file.json"; done
done
"$weir" bench sum --count 20000 --iterations 2 --warmup 0 --type int32 --distribution uniform,clustered,powerlaw --density 0.001,0.1 \
  --json "$work/sum.json" >"$work/sum"
for row in mpi_allreduce "mpi_allgatherv, merged" "mpi_allgatherv, dense" "mpi_reduce, runs" auto gather split doubling dense; do
  [ "$(grep -c "^$row " "$work/sum")" -eq 6 ] || fail "not 6 rows of $row in bench sum"
done
for key in distribution ratio ratio_allgatherv ratio_best ran_as entries_sum bytes_sent_max; do
  grep -q "\"$key\"" "$work/sum.json" || fail "no $key in sum.json"
done
[ "$(grep -o '"entries_sum": *[0-9]*' "$work/sum.json" | sort -u | wc -l)" -le 6 ] || fail "bench sum and MPI have other entries"
refuse "nearby" "$weir" bench sum --distribution nearby
"$weir" bench sum --count 20000 --iterations 1 --warmup 0 --operation reproducible_sum >"$work/sum"
if ! grep -q "^split " "$work/sum" || grep -q "^doubling " "$work/sum"; then fail "not the algorithms of a reproducible sum"; fi

# compressors: what carries them, and their parameters
few=(--count 10000 --iterations 1 --warmup 0)
carried=$("$weir" bench allreduce "${few[@]}" --compressor block_quantise,power_sgd)
for row in "packed_allgather block_quantise" "packed_reduce_scatter block_quantise" "dense_ring power_sgd" "dense_mpi power_sgd"; do
  expect "$carried" "^allreduce_dense +$row "
done
expect_not "$carried" "oktopk|auto"
expect "$("$weir" bench allreduce "${few[@]}" --algorithm packed_allgather)" "packed_allgather block_quantise "
refuse "there is no compressor 'quick': known are" "$weir" bench allreduce "${few[@]}" --compressor quick,none
refuse "compressor is block_quantise: dense_ring cannot carry it; .* packed_allgather, packed_reduce_scatter, auto$" \
  "$weir" bench allreduce "${few[@]}" --algorithm dense_ring --compressor none,block_quantise
refuse "compressor is none: oktopk cannot carry it; .* dense_ring, .*auto$" "$weir" bench allreduce "${few[@]}" --algorithm oktopk --compressor none
refuse "compressor is qsgd: auto_sparse cannot carry it" "$weir" bench allreduce "${few[@]}" --algorithm auto_sparse --compressor qsgd
refuse "compressor is qsgd.none: oktopk cannot choose among these; .* may be auto$" \
  "$weir" bench allreduce "${few[@]}" --algorithm oktopk --compressor "qsgd|none"
refuse "compressor is power_sgd: dense_nccl cannot carry it; in cuda memory" \
  "$weir" bench allreduce "${few[@]}" --memory cuda --algorithm dense_nccl --compressor power_sgd
refuse "in cuda memory automatic choice is among sparse ones" "$weir" bench allreduce "${few[@]}" --memory cuda --compressor "qsgd|none"
refuse "result is sparse: none of the algorithms delivers one" "$weir" bench allreduce "${few[@]}" --algorithm dense_ring --result sparse
expect "$("$weir" bench allreduce "${few[@]}" --algorithm oktopk --compressor all 2>&1)" "^left out, since oktopk cannot carry them: none, .*power_sgd$"
every=$("${mpirun[@]}" 2 "$weir" bench allreduce "${few[@]}" --compressor all --result in_place --json "$work/every.json" 2>&1)
for name in $("$weir" info --compressors | sed -n 's/^  \([a-z0-9_]*\) .*/\1/p') none; do expect "$every" "^allreduce_dense +[a-z0-9_]+ $name "; done
expect_not "$every" "left out"
chosen=$("$weir" bench allreduce "${few[@]}" --compressor "block_quantise|qsgd|none" --compressor-parameters "format=int4|levels=3")
expect "$chosen" "^allreduce_dense +auto \([a-z_0-9]+\) (none|qsgd levels=3|block_quantise format=int4) +host "
# the column fits what is in it: all rows have their count in the same place
"$weir" bench allreduce "${few[@]}" --compressor qsgd,qsgd,none --compressor-parameters "levels=3,bucket=1024|levels=4|" --json "$work/two.json" >"$work/two"
expect "$(cat "$work/two")" "packed_reduce_scatter qsgd levels=3,bucket=1024 host "
[ "$(grep '^allreduce' "$work/two" | sed 's/ host .*//' | awk '{ print length }' | sort -u | wc -l)" = 1 ] || fail "columns are not aligned: $(cat "$work/two")"
for key in compressor compressor_parameters ran_as ran_compressor; do grep -q "\"$key\"" "$work/two.json" || fail "no $key in two.json"; done
grep -q '"compressor_parameters": "levels=3,bucket=1024"' "$work/two.json" || fail "no parameters in two.json"
for command in "bench allreduce" "bench compress" predict "info --plan"; do
  read -ra words <<<"$command"
  refuse "qsgd has no parameter 'format': it has levels .7., bucket .512." "$weir" "${words[@]}" --compressor qsgd --compressor-parameters format=int4
  expect "$("$weir" "${words[@]}" --help)" "--compressor-parameters "
done
for command in "bench allreduce" "bench compress" predict; do
  read -ra words <<<"$command"
  refuse "qsgd has no parameter 'format': .*give each its own, joined by" \
    "$weir" "${words[@]}" --compressor block_quantise,qsgd --compressor-parameters format=int4
  refuse "eight_bit has no parameter 'transform': .*give each its own" "$weir" "${words[@]}" --compressor all --compressor-parameters transform=dct
  refuse "it is of more compressors than the 2 that compressor names" \
    "$weir" "${words[@]}" --compressor block_quantise,qsgd --compressor-parameters "format=int4|levels=3|levels=3"
done
for command in "bench allreduce" predict "info --plan"; do
  read -ra words <<<"$command"
  refuse "compressor-parameters is 'levels=3': say with --compressor" "$weir" "${words[@]}" --compressor-parameters levels=3
done
compressed=$("$weir" bench compress --count 10000 --iterations 1 --compressor block_quantise,qsgd --compressor-parameters "format=int4|levels=3" \
  --json "$work/compress.json" 2>/dev/null)
expect "$compressed" "^block_quantise format=int4 +packed +0\.5"
expect "$compressed" "^qsgd levels=3 +packed "
grep -q '"parameters": "levels=3,bucket=512"' "$work/compress.json" || fail "no parameters in compress.json"
expect "$("$weir" bench compress --count 10000 --iterations 1 --compressor block_quantise,qsgd --compressor-parameters bucket=128 2>/dev/null)" \
  "^qsgd bucket=128 +packed "
# Kernels of every instruction set that this processor has give the same, and no other is taken.
read -ra sets <<<"$(sed -n 's/^  kernels  *//p' <<<"$info")"
for set in "${sets[@]}"; do
  capped=$("$weir" bench compress --count 10000 --iterations 1 --smooth --compressor error_bounded --compressor-parameters relative=1e-3 \
    --instructions "$set" --json "$work/$set.json" 2>/dev/null)
  expect "$capped" "Instruction set: $set$"
  grep -q "\"kernels\": \"$set\"" "$work/$set.json" || fail "no $set in its rows"
  [ "$(grep -E '"(bytes_per_element|relative_error)"' "$work/$set.json")" = "$(grep -E '"(bytes_per_element|relative_error)"' "$work/${sets[0]}.json")" ] ||
    fail "$set gives something else than ${sets[0]}"
done
ends 2 "--instructions: there is no instruction set 'AVX4': kernels are compiled for .*${sets[0]}" "$weir" bench compress --instructions AVX4
for set in $("$weir" bench compress --instructions AVX4 2>&1 | sed -n 's/.*compiled for //p' | tr -d ,); do
  [[ " ${sets[*]} " == *" $set "* ]] || ends 2 "this processor has no $set: it has ${sets[0]}" "$weir" bench compress --instructions "$set"
done
prices=$("$weir" predict --nodes 8 --network 1Gbit,50us --compressor qsgd qsgd,none --compressor-parameters levels=3 --json "$work/prices.json")
expect "$prices" "^packed_reduce_scatter of qsgd levels=3 "
expect "$prices" "^cheapest: packed_reduce_scatter of qsgd levels=3, .* times as fast as dense_"
expect "$prices" "^These are prices only; .*docs/compressors.md"
grep -q '"compressor_parameters": "levels=3,bucket=512"' "$work/prices.json" || fail "no parameters in prices.json"
refuse "'qsgd.none': give names separated by spaces or commas" "$weir" predict --compressor "qsgd|none"
expect "$("$weir" info --plan --compressor "qsgd|block_quantise|none" --compressor-parameters "levels=3|format=int4")" "^. packed_allgather +block_quantise "
expect "$("$weir" info --plan --algorithm packed_allgather --compressor qsgd --compressor-parameters levels=3)" "^packed_allgather of qsgd levels=3,bucket=512, error_feedback none: as asked for"
refuse "compressor requires --plan" "$weir" info --compressor qsgd
refuse "algorithm requires --plan" "$weir" info --algorithm oktopk

cat >"$work/tiny.json" <<'END'
{"model": "tiny", "sample": "a word", "batch": 2, "tensors": [["first", 3000, 1000000], ["bias", 10, 0], ["last", 20000, 2000000]]}
END
"${mpirun[@]}" 2 "$weir" bench fusion --model "$work/tiny.json" --rate 1 --batch 1 --iterations 2 --warmup 1 --buffer-mib 0.02 --json "$work/fusion.json" >"$work/fusion"
expect "$(cat "$work/fusion")" "^tiny: 3 tensors, 23010 elements, 2 ranks; 18.000 ms of computing: 1 x a word at 1 GFLOP/s; card: "
for scheme in none behind ahead ahead_inter ahead_inter_intra omgs cupcake ahead_fitted ahead_tapered dense; do
  grep -q "^$scheme " "$work/fusion" || fail "no row of $scheme in bench fusion"
  grep -q "\"scheme\": \"$scheme\"" "$work/fusion.json" || fail "no row of $scheme in fusion.json"
done
for key in model algorithm threshold ranks elements tensors shrink density buffer_mib batch gflops compute_ms card_mb_per_s median_ms min_ms exposed_ms \
  select_ms waited_ms startups sent_mb received_mb control_mb tensors_missing regroupings memory_bytes limit_ms limit_ratio none_ratio best_of_none_and_behind_ratio; do
  grep -q "\"$key\"" "$work/fusion.json" || fail "no $key in fusion.json"
done
expect "$(cat "$work/fusion")" "^ahead_inter to ahead: [0-9.]+ times as fast \(Weir's goal: 1.1\)"
expect "$("$weir" bench fusion --model resnet50 --shrink 1000 --rate 1e6 --scheme none --iterations 1 --warmup 0)" "^resnet50: 161 tensors, .*\(shrunk by 1000\), 1 ranks"
refuse "there is no model 'resnet51' and no file of that name: known in .* are bert_base, .*vgg19" "$weir" bench fusion --model resnet51
echo '{"model": "odd", "sample": "", "batch": 1, "tensors": [["a", 0, 1]]}' >"$work/odd.json"
refuse "odd.json' is no table of tensors .*: tensor 'a' has 0 elements" "$weir" bench fusion --model "$work/odd.json"
refuse "is none of|not in" "$weir" bench fusion --scheme sideways

small=(bench embedding --width 6 --warmup 1 --dense-count 100)
"$weir" "${small[@]}" --rows 100 --tokens 20 --iterations 2 --compute-ms 2 --exchange allgather,rows --json "$work/embedding.json" >"$work/embedding"
for line in columns rows allgather Zipf "LM " fifo horizontal 2d "bounds for nodes of one rank at 1 Gbit/s" "bound for 4 nodes"; do
  grep -q "^$line" "$work/embedding" || fail "no line '$line' in bench embedding"
done
for key in benchmark ranks rows width tokens ids exchange median_ms lookup_ms update_ms baseline baseline_ms ratio id_bytes vector_bytes \
  gradient_bytes total_bytes volume volume_with_ids allocations_per_iteration original_mb coalesced_mb prior_mb scheme compute_ms \
  scheduled_ratio bound; do
  grep -q "\"$key\"" "$work/embedding.json" || fail "no $key in embedding.json"
done
# 4 steps x 20 words of three kinds; rows for two: every step has 2 distinct ids, both needed again
for _ in $(seq 1 20); do echo "The cat, the-HAT; THE"; done >"$work/words.txt"
"$weir" "${small[@]}" --rows 2 --tokens 20 --iterations 2 --exchange columns --text "$work/words.txt" --json "$work/text.json" >/dev/null
grep -q '"original_mb": 0.00048,' "$work/text.json" || fail "20 x 6 floats are not 0.00048 MB"
grep -q '"coalesced_mb": 4.8' "$work/text.json" || fail "2 x 6 floats are not 4.8e-05 MB"
grep -q '"prior_saves_percent": 0.0' "$work/text.json" || fail "both rows are not prior"
refuse "has 100 words: 1 ranks x 6 steps x 20 tokens take 120" "$weir" "${small[@]}" --tokens 20 --iterations 4 --text "$work/words.txt"
refuse "tokens" "$weir" "${small[@]}" --tokens 0
refuse "quick" "$weir" "${small[@]}" --exchange quick
refuse "compute-ms" "$weir" "${small[@]}" --compute-ms -1

# the self-test: everything passes, on odd sizes, and faults are found
algorithms=$("$weir" info | sed -n '/algorithms$/,/^$/s/^  \([a-z0-9_]*\) .*/\1/p')
for ranks in $(in_turn_of 1 2 3); do
  tested=$("${mpirun[@]}" "$ranks" "$weir" selftest --json "$work/selftest.json")
  expect "$tested" "^passed: .*; ranks: $ranks, nodes: 1"
  for name in dense_ring dense_torus2d topk_allgather gtopk gaussiank hitopk oktopk hi_oktopk $algorithms; do
    [ "$name" = dense_nccl ] || expect "$tested" "^allreduce +$name( of lossless)? +4 steps .* ok$"
  done
  for name in columns rows hashed_rows server allgather dense_allreduce; do expect "$tested" "^embedding +$name .* ok$"; done
done
expect "$tested" "^allreduce +packed_allgather of lossless +4 steps"
for key in benchmark kind algorithm compressor ranks nodes steps seconds ok wrong; do grep -q "\"$key\"" "$work/selftest.json" || fail "no $key in selftest.json"; done
expect "$("${mpirun[@]}" 2 "$weir" selftest --count 1 --density 1 --steps 2)" "^passed"
expect "$("${mpirun[@]}" 3 "$weir" selftest --steps 2)" "^passed"
expect "$("$weir" selftest --seconds 0.3)" "^allreduce +oktopk +[0-9]*[0-9] steps"
if wrong=$(LD_PRELOAD=$wrong_sum "${mpirun[@]}" 2 "$weir" selftest --steps 1 2>/dev/null); then fail "a wrong sum passes: $wrong"; fi
expect "$wrong" "^allreduce +dense_mpi .* FAILED: rank 0: step 0: .*element 0"
expect "$wrong" "^FAILED: 1 of "
refuse "steps" "$weir" selftest --steps 0

# recorded gradients: 2 iterations x 1 rank x 1000 floats, raw and as .npy
head -c 8000 /dev/urandom | tr '\000-\377' '\101-\132' >"$work/raw.f32"
"$weir" bench allreduce --count 1000 --iterations 2 --input "$work/raw.f32" >/dev/null
header="{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1, 1000), }"
printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "$header" >"$work/g.npy"
cat "$work/raw.f32" >>"$work/g.npy"
"$weir" bench allreduce --iterations 2 --input "$work/g.npy" | grep " 1000 " >/dev/null || fail "the .npy count was not taken"
ends 2 "--input excludes --smooth" "$weir" bench allreduce --smooth --input "$work/g.npy"
"$weir" bench allreduce --count 1000 --iterations 2 --smooth --algorithm packed_allgather --compressor error_bounded |
  grep "packed_allgather error_bounded" >/dev/null || fail "smooth fields were not summed"
refuse "not a multiple of 1 ranks x 999 floats" "$weir" bench allreduce --count 999 --input "$work/raw.f32"
sed 's/<f4/<f8/' "$work/g.npy" >"$work/f8.npy"
refuse "float32 array in C order" "$weir" bench allreduce --input "$work/f8.npy"
for length in $(in_turn_of 6 9 10 64 127); do
  head -c "$length" "$work/g.npy" >"$work/cut.npy"
  refuse "cut.npy' ends within its .npy header" "$weir" bench allreduce --input "$work/cut.npy"
done
npy() { # SHAPE: a file with 8000 bytes of data
  printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': ($1), }"
  cat "$work/raw.f32"
}
mapfile -t shapes < <(in_turn_of "2, 1, 0" "0, 1, 1000" "2, 0, 1000" "2, 2, 1000" "2, 1, 4611686018427387904" "4611686018427387904, 1, 1000" \
  "2, 4611686018427387905, 1000" "2, 1, 12345678901234567890123" "2, 1, -1000" "2, 1, 10x0" "2, 1, 1e3" "2 1 1000" "2, 1" "2, 1, , 1000" "")
for shape in "${shapes[@]}"; do
  npy "$shape" >"$work/shape.npy"
  refuse "has shape \($shape\): it must be iterations x 1 ranks x count, each from 1 to 2\^31 - 1" \
    "$weir" bench allreduce --input "$work/shape.npy"
done
for shape in "2147483647, 1, 2147483647" "2, 1, 2001"; do
  npy "$shape" >"$work/shape.npy"
  refuse "holds 8000 bytes of data: not a multiple of 1 ranks x ${shape##* } floats" "$weir" bench allreduce --input "$work/shape.npy"
done
npy "2147483647, 1, 1000" >"$work/shape.npy"
refuse "holds 2 iterations: its shape says 2147483647" "$weir" bench allreduce --input "$work/shape.npy"
npy "2,1 ,1000," >"$work/shape.npy"
"$weir" bench allreduce --iterations 1 --input "$work/shape.npy" >/dev/null

# machines and predictions
export XDG_CONFIG_HOME=$work/config
builtin=$("$weir" predict --nodes 4)
expect "$builtin" "^machine: built in"
expect "$builtin" "^caution: these are round figures"
expect "$builtin" "^no cheapest one is named, since nobody has measured the network"
expect "$("$weir" predict --nodes 1 --ranks-per-node 4)" "^no cheapest one is named, since nobody has measured this machine"
expect "$("$weir" info --plan)" "by built-in figures, since nobody has measured this machine"
refuse "one rank has nobody to talk to.*mpirun -n 2 or more, or name a file with --output" "$weir" calibrate --seconds 0.1
[ ! -e "$work/config/weir" ] || fail "a refused calibration has left something"
calibrated=$("${mpirun[@]}" 2 "$weir" calibrate --seconds 0.1 2>/dev/null)
machine=$(echo "$work"/config/weir/machines/*.json)
[ -f "$machine" ] || fail "no machine file at the default place"
expect "$calibrated" "^latency: one way"
expect "$calibrated" "^written to $machine"
expect "$calibrated" "^jobs whose rank 0 is on this host use it from now on"
expect "$("$weir" info --plan)" "by the figures of $machine:"
expect "$("$weir" predict --nodes 1 --ranks-per-node 2)" "^(cheapest|do not compress): "
one_node=$("$weir" predict --nodes 4 --ranks-per-node 2)
expect "$one_node" "^machine: $machine"
expect "$one_node" "^caution: the network between nodes is priced like the inside of a node"
expect "$one_node" "^no cheapest one is named"
expect "$("$weir" predict --nodes 4 --network 1Mbit,50us)" "^cheapest: .* times as fast as dense_" # slower than any figures of a busy machine
expect "$("$weir" predict --nodes 4 --network 1Gbit,50us)" "^machine: $machine, with 1Gbit,50us between nodes"
for network in 25Gbit 25Gbit,5 25,5us -1Gbit,5us 0Gbit,5us 25Gbit,5us,1 "fast," ,5us; do
  refuse "--network is '$network': it must be a node's bandwidth" "$weir" predict --network "$network"
done
seconds() { "$weir" predict --nodes 2 --network "$1" --json "$work/network.json" >/dev/null; sed -n 's/.*"total_ms": \([0-9]*\).*/\1/p' "$work/network.json" | tail -1; }
# 2 nodes: the slowest of all sends more than n floats, 16.8 MB: 134 ms at 1 Gbit/s; 1000 Mbit are as many; latency is added
slow_ms=$(seconds 1Gbit,50us)
if [ "$slow_ms" -lt 134 ] || [ "$(seconds 1000Mbit,0.05ms)" != "$slow_ms" ] || [ "$(seconds 1Gbit,1s)" -lt 1134 ]; then
  fail "odd prices of networks: $slow_ms"
fi
processors=$(getconf _NPROCESSORS_ONLN)
if [ "$processors" -le 8 ]; then
  expect "$("${mpirun[@]}" $((processors + 1)) "$weir" calibrate --seconds 0.1 --output "$work/crowded.json" 2>&1 >/dev/null)" \
    "caution: $((processors + 1)) ranks share $processors processors"
fi
alone=$("$weir" calibrate --seconds 0.1 --output "$work/machine.json" 2>/dev/null)
expect "$alone" "WEIR_MACHINE=$work/machine.json"
expect "$alone" "the levels are built-in figures"
sed -i 's/"bandwidth": [0-9.e+]*/"bandwidth": 1e5/; s/"shared": [0-9.e+]*/"shared": 1e5/' "$work/machine.json"
sed -i 's/"nodes": 1/"nodes": 4/' "$work/machine.json" # as if it had been measured there
slow=$("$weir" predict --machine "$work/machine.json" --nodes 4 --density 0.001 --wire coo --values bfloat16 --json "$work/predict.json")
expect "$slow" "^cheapest: .* times as fast as dense_"
expect "$("$weir" predict --nodes 4 --density 0.9 --network 1Gbit,50us)" "^do not compress: dense_"
for key in machine verdict predictions algorithm total_ms select_ms in_node_ms exchange_ms apply_ms bytes_in_node bytes_across to_dense; do
  grep -q "\"$key\"" "$work/predict.json" || fail "no $key in predict.json"
done
sed 's/"schema": 1/"schema": 7/' "$work/machine.json" >"$work/old.json"
refuse "old.json': key schema is 7: it must be 1" "$weir" predict --machine "$work/old.json"
refuse "none.json' cannot be read" "$weir" predict --machine "$work/none.json"
WEIR_MACHINE=$work/none.json refuse "none.json' cannot be read" "$weir" predict
WEIR_MACHINE=$work/none.json refuse "^weir: looking for a machine file: rank 0: machine file '.*none.json' cannot be read" "$weir" info --plan
refuse "one rank exchanges nothing" "$weir" predict --nodes 1
refuse "--count is 8000000000: a gradient has at most 4294967295 elements" "$weir" predict --count 8000000000

# sums, by built-in figures, which are the same everywhere
sum_prices() { XDG_CONFIG_HOME=$work/nowhere "$weir" predict --sum "$@"; }
sums=$(sum_prices --density 0.001 --nodes 16 --ranks-per-node 4 --network 25Gbit,5us --json "$work/sums.json")
expect "$sums" "^sum of 4194304 float64, density 0.001, 16 nodes of 4 ranks"
for row in gather split doubling dense "allreduce, dense_[a-z0-9]*"; do
  expect "$sums" "^[> ] $row "
done
[ "$(grep -c '^> ' <<<"$sums")" = 1 ] || fail "auto takes one sum"
chosen=$(sed -n 's/^> \([a-z]*\) .*/\1/p' <<<"$sums")
expect "$sums" "^cheapest: $chosen, .* times as fast as dense_"
for key in machine verdict chosen predictions collective algorithm total_ms bytes_in_node bytes_across to_dense; do
  grep -q "\"$key\"" "$work/sums.json" || fail "no $key in sums.json"
done
grep -q "\"chosen\": \"$chosen\"" "$work/sums.json" || fail "$chosen is not the choice in sums.json"
expect "$(sum_prices --density 1 --nodes 16 --network 25Gbit,5us)" "^take an allreduce: dense_.* the cheapest sum"
integers=$(sum_prices --nodes 2 --type int32 --count 8000000000)
expect "$integers" "^sum of 8000000000 int32"
expect "$integers" "^  allreduce, dense_mpi "
expect "$("$weir" predict --sum --machine "$work/machine.json" --nodes 4)" "^machine: $work/machine.json"
ends 2 "excludes" "$weir" predict --sum --wire coo
ends 2 "--type requires --sum" "$weir" predict --type int32
ends 2 "'complex' is none of" "$weir" predict --sum --type complex

# an output that cannot be written is refused before any measurement
before_measuring() { # COMMAND...
  local out
  if out=$("$@" 2>&1); then fail "accepted: $*"; fi
  expect "$out" "'$work/no/file' cannot be written: name a file in a folder that exists and is yours"
  expect_not "$out" "measuring|median|ratio|bytes/entry|alone|total ms"
}
before_measuring "$weir" calibrate --seconds 0.1 --output "$work/no/file"
before_measuring "$weir" predict --json "$work/no/file"
before_measuring "$weir" selftest --json "$work/no/file"
for bench in allreduce select embedding; do before_measuring "$weir" bench $bench --json "$work/no/file"; done
echo kept >"$work/old.txt" # what is there stays until it is replaced
if "$weir" bench allreduce --count 999 --input "$work/raw.f32" --json "$work/old.txt" >/dev/null 2>&1; then fail "999 does not divide"; fi
[ "$(cat "$work/old.txt")" = kept ] || fail "a benchmark that was refused has emptied its output"
if "$weir" bench allreduce --count 999 --input "$work/raw.f32" --json "$work/new.txt" >/dev/null 2>&1; then fail "999 does not divide"; fi
[ ! -e "$work/new.txt" ] || fail "a benchmark that was refused has left an empty output"

if "$weir" info | grep -E "^  none: " >/dev/null; then # no GPU
  for bench in select allreduce; do refuse "--memory cuda cannot run here: rank 0 has no GPU: " "$weir" bench $bench --memory cuda --count 1000; done
fi
refuse "density" "$weir" bench select --density 2
refuse "samplings of mstopk is .0." "$weir" bench select --threshold mstopk --threshold-parameters samplings=0 --count 1000
refuse "say with --threshold whose they are" "$weir" bench select --threshold-parameters samplings=9 --count 1000
refuse "dense_ring" "$weir" bench allreduce --algorithm quick
refuse "/no/such/file. cannot be read: No such file or directory" "$weir" bench select --input /no/such/file
# Files that have no end, or that wait for a writer.
mkfifo "$work/pipe"
refuse "pipe. cannot be read: it is no regular file" "$weir" bench select --input "$work/pipe"
refuse "pipe. cannot be read: it is no regular file" "$weir" bench embedding --text "$work/pipe"
refuse "pipe. cannot be read: it is no regular file" "$weir" predict --machine "$work/pipe"
refuse "zero. cannot be read: it is no regular file" env WEIR_MACHINE=/dev/zero "$weir" info --plan --count 100
refuse "pipe. cannot be read: it is no regular file" "$weir" cache check "$work/pipe"
refuse "there is no model '.*pipe'" "$weir" bench fusion --model "$work/pipe"
refuse "subcommand" "$weir"
refuse "'bogus' is no subcommand: did you mean '.*'\? There are info, .*predict" "$weir" bogus
refuse "there is no option --verison: did you mean --version\?" "$weir" --verison
refuse "there is no option --cuont: did you mean --count\?" "$weir" bench select --cuont=3 --iterations 2
refuse "'clibrate' is no subcommand: did you mean 'calibrate'" "$weir" clibrate --seconds 1
refuse "'compres' is no subcommand: did you mean 'compress'\? There are select, allreduce, sum, compress" "$weir" bench compres
refuse "--memory: 'gpu' is none of cuda, host \(the default\)" "$weir" bench allreduce --memory gpu
help=$("$weir" bench allreduce --help)
expect "$help" "--memory NAME +where the gradient is"
expect_not "$help" "ENUM|->|value in"
expect "$("$weir" bench embedding --help)" "--optimizer NAME +optimizer of the rows: adagrad, adam, momentum, sgd \(the default\)"
expect "$("$weir" bench allreduce --count 1000 --iterations 1)" "^What goes through memory that a node shares.* is not among them"
expect "$builtin" "^busiest rank, to its own node and to others; to dense: total ms"
WEIR_TIMEOUT=soon refuse "WEIR_TIMEOUT is 'soon'" "$weir" info
expect "$("$weir" --help)" "bench"
echo "test_cli: passed"
