#!/bin/bash
# Tests weir checkpoint, $1, on files that make_checkpoints, $2, writes: output, exit status, refused calls. $3: a Python. The other
# arguments start ranks: mpirun ... -n.
set -euo pipefail
weir=$1 make=$2 python=$3
mpirun=("${@:4}")
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "test_checkpoint: $*" >&2; exit 1; }
expect() { grep -qE -- "$2" <<<"$1" || fail "no '$2' in: $1"; }
expect_not() { if grep -qE -- "$2" <<<"$1"; then fail "'$2' in: $1"; fi; }
ends() { # STATUS PATTERN COMMAND...: must end with the status and print the pattern, on stdout or stderr
  local status=$1 pattern=$2 out got=0; shift 2
  out=$("$@" 2>&1) || got=$?
  [ "$got" = "$status" ] || fail "status $got instead of $status: $*: $out"
  expect "$out" "$pattern"
}
flip() { # FILE BYTE: inverts the byte
  "$python" -c 'import sys; f = open(sys.argv[1], "r+b"); at = int(sys.argv[2]); f.seek(at); b = f.read(1)[0]; f.seek(at); f.write(bytes([b ^ 255]))' "$1" "$2"
}

"$make" a; "$make" same; "$make" other 5; "$make" packed 0 4

# ls: the two files that are kept
list=$("$weir" checkpoint ls a)
expect "$list" "^ +2  20[0-9-]+T[0-9:]+Z +4 +2 .* holds +test$"
expect "$list" "^ +3  .* holds +newest +test$"
expect_not "$list" "^ +1 |BROKEN|removes it|no manifest"
"$weir" checkpoint ls a --json - | "$python" -c '
import json, sys
there = json.load(sys.stdin)
assert [f["step"] for f in there["files"]] == [2, 3] and [f["newest"] for f in there["files"]] == [False, True], there
assert all(f["seal_holds"] and f["ranks"] == 4 and f["nodes"] == 2 and f["run"] == "test" for f in there["files"]), there
assert there["manifest"] and there["unfinished"] == [], there'
mkdir b; cp a/*.h5 b; cp a/checkpoint-3.h5 b/.checkpoint-4.h5
ends 0 "no manifest.json" "$weir" checkpoint ls b
ends 0 "b/.checkpoint-4.h5: of a save that is under way, or was interrupted" "$weir" checkpoint ls b
[ -e b/.checkpoint-4.h5 ] || fail "ls has removed a file"
mkdir empty
ends 0 "has no checkpoints" "$weir" checkpoint ls empty
ends 2 "nowhere" "$weir" checkpoint ls nowhere
ends 2 "required" "$weir" checkpoint ls
ends 2 "lss.* is no subcommand: did you mean 'ls'" "$weir" checkpoint lss

# show
file=a/checkpoint-3.h5
shown=$("$weir" checkpoint show "$file")
expect "$shown" "step 3, 4 ranks on 2 nodes, written 20.*Z by Weir [0-9.]+, run 'test'"
expect "$shown" "^  epoch = 3$"
expect "$shown" "^  loss = 0.5$"
expect "$shown" "^  note = 'a test'$"
expect "$shown" "^plan 'gradient', /plans/gradient$"
expect "$shown" "algorithm='oktopk'"
expect "$shown" " count=5000"
expect "$shown" "residual +float32 +summed .* 5000 on each of 4 ranks$"
expect "$shown" "^array 'parts', "
expect "$shown" "elements +float64 +block .* 25 on each of 4 ranks$"
expect "$shown" "elements +int64 +each .* 1 to 4 on each of 4 ranks$"
expect "$("$weir" checkpoint show packed/checkpoint-3.h5)" "deflate 4$"
"$weir" checkpoint show "$file" --json show.json >/dev/null
"$python" -c '
import json
there = json.load(open("show.json"))
assert there["step"] == 3 and there["ranks"] == 4 and there["node_of_rank"] == [0, 0, 1, 1] and there["values"]["epoch"] == 3, there
subjects = {s["name"]: s for s in there["subjects"]}
assert subjects.keys() == {"gradient", "words", "blocks", "weights", "parts", "own", "layers", "moments"}, subjects.keys()
assert subjects["gradient"]["configuration"]["algorithm"] == "oktopk"
assert [d["elements"] for d in subjects["own"]["datasets"]] == [[1, 2, 3, 4]], subjects["own"]'

# verify
ends 0 "^a/checkpoint-2.h5: whole: step 2, [0-9.]+ kB in [0-9]+ chunks$" "$weir" checkpoint verify a
cp "$file" flipped.h5
address=$("$python" -c 'print(open("flipped.h5", "rb").read().index(bytes([0, 0, 0, 0, 0, 0, 128, 63, 0, 0, 0, 64])))') # weights 0, 1, 2
flip flipped.h5 "$address"
ends 1 "flipped.h5 is damaged: dataset /arrays/weights/elements of rank 3 " "$weir" checkpoint verify flipped.h5
ends 0 "step 3" "$weir" checkpoint show flipped.h5
both=$("$weir" checkpoint verify flipped.h5 a/checkpoint-2.h5) && fail "status 0 for a damaged file"
expect "$both" "^a/checkpoint-2.h5: whole" # the others are looked at, too
# HDF5's heap of texts: some damage crashes the library, or makes it run in circles.
for at in 28 51; do
  "$python" -c '
import sys
file = bytearray(open(sys.argv[1], "rb").read())
file[file.index(b"GCOL") + int(sys.argv[2])] = 0x80
open("heap.h5", "wb").write(file)' "$file" $at
  ends 1 "heap.h5 is damaged: the HDF5 library crashes on it" "$weir" checkpoint verify --reseal heap.h5
done
cp "$file" cut.h5; truncate -s -100 cut.h5
ends 1 "cut.h5 is damaged, or no checkpoint" "$weir" checkpoint verify cut.h5
ends 1 "cut.h5 is damaged, or no checkpoint" "$weir" checkpoint show cut.h5
echo text >text.h5
ends 1 "text.h5 is no HDF5 file" "$weir" checkpoint verify text.h5
ends 2 "nowhere.h5" "$weir" checkpoint verify nowhere.h5
ends 2 "folder empty has no file checkpoint-STEP.h5" "$weir" checkpoint verify empty
mkdir broken; cp a/checkpoint-2.h5 broken; cp cut.h5 broken/checkpoint-3.h5
ends 1 "^ +3  \? .*BROKEN +newest" "$weir" checkpoint ls broken

# diff
[ -z "$("$weir" checkpoint diff "$file" same/checkpoint-3.h5)" ] || fail "the same run twice differs"
[ -z "$("$weir" checkpoint diff "$file" packed/checkpoint-3.h5)" ] || fail "compression makes a difference"
ends 1 "^step: 2 and 3$" "$weir" checkpoint diff a/checkpoint-2.h5 "$file"
ends 1 "^array 'weights': elements, rank 3: 1000 of 1000 elements differ, by at most 5$" \
  "$weir" checkpoint diff "$file" other/checkpoint-3.h5
ends 2 "flipped.h5 is damaged" "$weir" checkpoint diff "$file" flipped.h5
ends 2 "nowhere.h5" "$weir" checkpoint diff "$file" nowhere.h5

# reshard: back to the first division, the file is unchanged, whatever divisions came in between
cp "$file" before.h5
out=$("$weir" checkpoint reshard "$file" 7.h5 --ranks 7 --ranks-per-node 3 2>notes)
expect "$out" "^7.h5: step 3, of 7 ranks on 3 nodes now, of 4 in a/checkpoint-3.h5$"
expect "$(cat notes)" "array 'own' is local: it is empty on ranks 4 to 6"
ends 0 "whole" "$weir" checkpoint verify 7.h5
shown=$("$weir" checkpoint show 7.h5)
expect "$shown" "step 3, 7 ranks on 3 nodes, .*run 'test'"
expect "$shown" "^  epoch = 3$"
expect "$shown" "residual +float32 +summed .* 5000 on each of 7 ranks$"
expect "$shown" "layer/wide/second +float32 +block"
expect "$shown" "touched +uint32 +block"
expect "$shown" "elements +float64 +block .* 14 to 15 on each of 7 ranks$"
expect "$shown" "elements +int64 +each .* 0 to 4 on each of 7 ranks$"
ends 1 "^ranks: 4 and 7" "$weir" checkpoint diff "$file" 7.h5
"$weir" checkpoint reshard 7.h5 4.h5 --ranks 4 --ranks-per-node 2 >/dev/null 2>&1
back=$("$weir" checkpoint diff "$file" 4.h5) || true
expect_not "$back" "array|table|optimizer|schedule|value|^step|^run|nodes"
"$weir" checkpoint reshard "$file" 1.h5 --ranks 1 >/dev/null 2>notes
expect "$(cat notes)" "array 'own' is local: what ranks 1 to 3 have of it is not in the new file"
"$weir" checkpoint reshard "$file" again.h5 --ranks 4 >/dev/null # as many ranks on the same nodes
[ -z "$("$weir" checkpoint diff "$file" again.h5)" ] || fail "the same division is another file"
"$weir" checkpoint reshard packed/checkpoint-3.h5 small.h5 --ranks 2 >/dev/null 2>&1
expect "$("$weir" checkpoint show small.h5)" "deflate 4$"
# a resharded file is one that a run of that division saves again: nothing changes any more
"$weir" checkpoint reshard 7.h5 7again.h5 --ranks 7 --ranks-per-node 3 >/dev/null
[ -z "$("$weir" checkpoint diff 7.h5 7again.h5)" ] || fail "a file of 7 ranks changes among 7 ranks"

ends 2 "--ranks" "$weir" checkpoint reshard "$file" no.h5 --ranks 0
ends 2 "required" "$weir" checkpoint reshard "$file" no.h5
ends 2 "are the same file" "$weir" checkpoint reshard "$file" "$file" --ranks 2 --force
ends 2 "7.h5 exists: --force replaces it" "$weir" checkpoint reshard "$file" 7.h5 --ranks 2
ends 0 "of 2 ranks on 1 node now" "$weir" checkpoint reshard "$file" 7.h5 --ranks 2 --force
ends 2 "there is no folder .*nowhere" "$weir" checkpoint reshard "$file" nowhere/x.h5 --ranks 2
ends 2 "cannot make a folder in /proc: " "$weir" checkpoint reshard "$file" /proc/x.h5 --ranks 2
ends 1 "flipped.h5 is damaged: dataset /arrays/weights/elements" "$weir" checkpoint reshard flipped.h5 no.h5 --ranks 2
ends 1 "cut.h5 is damaged" "$weir" checkpoint reshard cut.h5 no.h5 --ranks 2
[ ! -e no.h5 ] || fail "a refused reshard has left a file"
cmp "$file" before.h5 || fail "reshard has changed what it reads"
if compgen -G ".reshard-*" >/dev/null; then fail "reshard has left $(compgen -G ".reshard-*")"; fi

# the benchmark leaves nothing in its folder
mkdir disk
bench=$("${mpirun[@]}" 2 "$weir" bench checkpoint --size 100000 --iterations 1 --compression 1 --folder disk --steps --count 262144 --batch 1 --json bench.json 2>/dev/null)
for row in "save " "load, cold " "load, warm " "with one in flight " "added: " "snapshot: "; do expect "$bench" "^$row"; done
"$python" -c '
import json
rows = json.load(open("bench.json"))
assert [r["benchmark"] for r in rows] == ["checkpoint_save", "checkpoint_load_cold", "checkpoint_load_warm", "checkpoint_steps"], rows
assert all(r["min_ms"] > 0 and r["baseline_min_ms"] > 0 for r in rows[:3]) and rows[3]["snapshot_bytes"] > 0, rows'
if compgen -G "disk/*" >/dev/null || compgen -G "disk/.*[a-z]*" >/dev/null; then fail "bench checkpoint has left $(ls -A disk)"; fi
ends 2 "nowhere" "$weir" bench checkpoint --folder nowhere
echo "test_checkpoint: all as it should be"
