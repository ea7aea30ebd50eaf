#!/bin/bash
# Loads the libweir $1, built for $2 (openmpi or mpich), into a program of the other MPI. It must be refused with a text that names
# both.
set -euo pipefail
weir=$1 mpi=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
fail() { echo "test_other_mpi: $*" >&2; exit 1; }
other=openmpi ours=MPICH theirs="Open MPI"
if [ "$mpi" = openmpi ]; then other=mpich ours="Open MPI" theirs=MPICH; fi
if [[ $weir != *.so* ]]; then echo "skipped: libweir is a static library here" && exit; fi
if ! command -v "mpicc.$other" >/dev/null; then echo "skipped: no mpicc.$other" && exit; fi

work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
"mpicc.$other" -O1 "$here/other_mpi/main.c" -ldl -o "$work/program"
out=$("$work/program" "$weir") || fail "the program ended with $?: $out"
echo "$out"
text="this is libweir-$mpi, built for $ours, and the program runs on $theirs.* load libweir-$other instead"
[ "$(grep -cE "status 10, $text" <<<"$out")" = 3 ] || fail "not refused three times with '$text'"
grep -q "^rank 0 goes on" <<<"$out" || fail "the program did not go on"
