#!/bin/bash
# Tests weir cache, $1, on folders that make_packs, $2, writes: output, exit status, refused calls. $3: a Python.
set -euo pipefail
weir=$1 make=$2 python=$3
work=$(mktemp -d); writer=""
end() { [ -z "$writer" ] || kill -9 "$writer" 2>/dev/null || true; rm -rf "$work"; }
trap end EXIT
cd "$work"
fail() { echo "test_cache: $*" >&2; exit 1; }
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
packs() { (cd "$1" && find . -name 'pack-*' | sort | tr -d '\n'); } # FOLDER: prints its packs
size() { find "$1" -name '*pack-*' -printf '%s\n' | awk '{ sum += $1 } END { print sum + 0 }'; } # FOLDER: prints the packs' size
counted() { [ "$(cat "$1/.weir-cache")" = "weir-cache 1 $(printf %020d "$(size "$1")")" ] || fail "$1/.weir-cache is wrong: $(cat "$1/.weir-cache")"; }

"$make" cache mnist 5 8640000; "$make" cache cifar 3 864000; "$make" cache empty 0
echo mine >cache/letter; echo mine >cache/mnist/letter

# ls
list=$("$weir" cache ls cache)
expect "$list" "^data set +packs +size +last used +identity$"
expect "$list" "^mnist +5 of 5 +[0-9.]+ kB  20[0-9-]+T[0-9:]+Z  made up for mnist$"
expect "$list" "^cifar +3 of 5 "
expect "$list" "^empty +0 of 5 +0 B  - +made up for empty$"
expect_not "$list" "letter|works with|being written"
"$weir" cache ls cache --json - | "$python" -c '
import json, sys
there = json.load(sys.stdin)
assert there["folder"] == "cache" and there["in_use"] is False and there["unfinished"] == [], there
sets = {s["name"]: s for s in there["data_sets"]}
assert list(sets) == ["cifar", "empty", "mnist"], sets
assert sets["mnist"]["packs"] == 5 and sets["mnist"]["samples"] == 20 and sets["mnist"]["pack_samples"] == 4, sets
assert sets["mnist"]["identity"] == "made up for mnist" and sets["mnist"]["used"] < sets["cifar"]["used"] and "used" not in sets["empty"], sets
assert there["bytes"] == sum(s["bytes"] for s in there["data_sets"]) == int(sys.argv[1]), there' "$(size cache)"
"$weir" cache ls cache --json list.json >/dev/null
[ -s list.json ] || fail "no list.json"
mkdir none "with spaces"; "$make" "with spaces/gr""ö""ße" mnist 1
ends 0 "^mnist +1 of 5" "$weir" cache ls "with spaces/größe"
ends 2 "folder .*/none is no sample cache: it has no file .weir-cache" "$weir" cache ls none
ends 2 "nowhere" "$weir" cache ls nowhere
ends 2 "required" "$weir" cache ls
ends 2 "lss.* is no subcommand: did you mean 'ls'" "$weir" cache lss

# verify
cp -a cache damaged
ends 0 "^damaged/mnist: 5 packs whole$" "$weir" cache verify damaged
flip damaged/mnist/pack-2 60; truncate -s -1 damaged/cifar/pack-0; cp damaged/mnist/pack-0 damaged/mnist/pack-1; cp damaged/mnist/pack-0 damaged/mnist/pack-9
out=$("$weir" cache verify damaged) && fail "status 0 for damaged packs"
for pack in mnist/pack-1 mnist/pack-2 mnist/pack-9 cifar/pack-0; do expect "$out" "^damaged/$pack is damaged$"; done
expect "$out" "^damaged/mnist: 3 packs whole, 3 damaged$"
expect "$out" "^damaged/empty: 0 packs whole$"
[ -e damaged/mnist/pack-2 ] || fail "verify has removed a pack"
ends 1 "^damaged/mnist/pack-2 is damaged, and removed$" "$weir" cache verify damaged --remove
ends 0 "^damaged/mnist: 3 packs whole$" "$weir" cache verify damaged
"$weir" cache prune damaged >prune.txt # counts again, because the test has changed files
counted damaged
echo '{' >damaged/mnist/manifest.json
ends 1 "^damaged/mnist: manifest.json is damaged$" "$weir" cache verify damaged
ends 0 "^mnist +3 of \? .*manifest.json is damaged$" "$weir" cache ls damaged
ends 2 "no sample cache" "$weir" cache verify none

# prune: removes only left-overs by default
cp -a cache whole
before=$(packs cache)
head -c 1234 /dev/zero >cache/mnist/.pack-4
ends 0 "^1 file \(1.23 kB\) of packs being written, or left" "$weir" cache ls cache
ends 0 "^removed 1 file of dead writers, 1.23 kB$" "$weir" cache prune cache
ends 0 "^freed 0 B; [0-9.]+ kB in 8 packs are left$" "$weir" cache prune cache
[ "$(packs cache)" = "$before" ] || fail "prune has removed $before"
counted cache
ends 0 "^removed 0 packs" "$weir" cache prune cache --older-than 101
ends 0 "^removed 5 packs" "$weir" cache prune cache --older-than 99.5
[ "$(packs cache)" = ./cifar/pack-0./cifar/pack-1./cifar/pack-2 ] || fail "there is $(packs cache)"
counted cache
first=$(stat -c %s cache/cifar/pack-0) all=$(size cache)
ends 0 "^removed 0 packs" "$weir" cache prune cache --to "$all"
ends 0 "^removed 1 pack, " "$weir" cache prune cache --to $((all - first))
[ "$(packs cache)" = ./cifar/pack-1./cifar/pack-2 ] || fail "there is $(packs cache)"
ends 0 "^removed 0 packs" "$weir" cache prune cache --to 1G
ends 0 "^removed 0 packs" "$weir" cache prune cache --to 0 --older-than 11
ends 0 "^removed 2 packs.*" "$weir" cache prune cache --to 0K
counted cache
rm -rf cache; cp -a whole cache
ends 0 "^removed 3 packs" "$weir" cache prune cache --dataset cifar --to 0
[ "$(packs cache)" = ./mnist/pack-0./mnist/pack-1./mnist/pack-2./mnist/pack-3./mnist/pack-4 ] || fail "there is $(packs cache)"
ends 0 "^removed data set cifar: 0 packs, 0 B$" "$weir" cache prune cache --dataset cifar
[ ! -e cache/cifar ] || fail "cache/cifar is still there"
ends 0 "^removed data set mnist: 5 packs, [0-9.]+ kB$" "$weir" cache prune cache --dataset mnist
ends 0 "^freed 0 B; 0 B in 0 packs are left$" "$weir" cache prune cache
[ "$(cat cache/letter cache/mnist/letter)" = $'mine\nmine' ] || fail "other files are gone"
[ "$(ls cache/mnist)" = letter ] || fail "there is $(ls cache/mnist)"
counted cache
ends 2 "folder cache has no data set 'mnist': there are empty$" "$weir" cache prune cache --dataset mnist
ends 2 "has no data set '../whole/mnist'" "$weir" cache prune cache --dataset ../whole/mnist
ends 2 "--to" "$weir" cache prune cache --to much
ends 2 "--older-than" "$weir" cache prune cache --older-than -1
ends 2 "folder .*/none is no sample cache" "$weir" cache prune none
[ -z "$(ls -A none)" ] || fail "prune has written into a folder that is no cache"

# beside a run
rm -rf cache; cp -a whole cache
"$make" cache busy 2 writing & writer=$!
for _ in $(seq 300); do [ ! -e cache/writing ] || break; sleep 0.1; done
ends 0 "a run works with the folder" "$weir" cache ls cache
ends 0 "^freed 0 B" "$weir" cache prune cache
[ -e cache/busy/.pack-2 ] || fail "prune has removed what a run writes"
ends 0 "^removed 10 packs" "$weir" cache prune cache --to 0
kill -9 "$writer"; wait "$writer" 2>/dev/null || true; writer=""
ends 0 "^removed 1 file of dead writers" "$weir" cache prune cache
counted cache

# data sets: faults
head -c 60016 /dev/zero >numbers.idx
printf '\x00\x00\x08\x02\x00\x00\x03\xe8\x00\x00\x00\x3c' | dd of=numbers.idx conv=notrunc status=none
truncate -s 60012 numbers.idx
ends 0 "^numbers.idx: all 1000 samples can be had$" "$weir" cache check numbers.idx
truncate -s 60000 numbers.idx
ends 2 "numbers.idx" "$weir" cache check numbers.idx
ends 2 "there is no 'nothing'" "$weir" cache check nothing
mkdir -p hollow/class images/a
echo "no image" >images/a/1.jpg
if "$weir" info 2>/dev/null | grep -q "JPEG .*libjpeg"; then
  ends 2 "'hollow' has no samples" "$weir" cache check hollow
  ends 1 "^images: 1 of 1 samples cannot be had$" "$weir" cache check images
  ends 1 "^sample 0: images/a/1.jpg cannot be decoded" "$weir" cache check images
fi
echo "test_cache: all as it should be"
