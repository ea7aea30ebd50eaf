#!/bin/bash
# Installs two builds, $1 and $2, for Open MPI and for MPICH, into one prefix and uses each.
set -euo pipefail
build=$1 other=${2:-}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
fail() { echo "test_side_by_side: $*" >&2; exit 1; }
if [ ! -e "$other/CMakeCache.txt" ] || ! compgen -G "$other/lib/libweir-*.so" >/dev/null; then
  echo "skipped: no build for the other MPI in '$other'; see WEIR_OTHER_BUILD" && exit
fi
if ! command -v mpicc.openmpi >/dev/null || ! command -v mpicc.mpich >/dev/null; then echo "skipped: no mpicc.openmpi or no mpicc.mpich" && exit; fi
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
cmake --install "$other" --prefix "$work/prefix" >/dev/null
cmake --install "$build" --prefix "$work/prefix" >/dev/null
cmp -s "$work/prefix/bin/weir" "$work/prefix/bin/$(basename "$(readlink "$build/bin/weir")")" || fail "bin/weir is not that of the build installed last"

for mpi in openmpi mpich; do
  library="mpi (Open MPI v"
  [ $mpi = openmpi ] || library="mpi (MPICH Version: "
  WEIR_TIMEOUT=20 "$work/prefix/bin/weir-$mpi" info | grep -F "$library" >/dev/null || fail "weir-$mpi does not run on $library"
  cmake -S "$here/c" -B "$work/$mpi" -DCMAKE_PREFIX_PATH="$work/prefix" -DMPI_C_COMPILER=mpicc.$mpi >/dev/null
  cmake --build "$work/$mpi" >/dev/null
  ldd "$work/$mpi/my_code" | grep "libweir-$mpi.so.0 => $work/prefix" >/dev/null || fail "find_package with mpicc.$mpi did not take libweir-$mpi"
  [ "$("$work/$mpi/my_code")" = "1 rank" ] || fail "the program with $mpi said something else"
  if command -v pkg-config >/dev/null; then
    flags=$(PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name weir-$mpi.pc)") pkg-config --libs "weir-$mpi")
    [[ " $flags " == *" -lweir-$mpi "* ]] || fail "pkg-config weir-$mpi says $flags"
  fi
  echo "$mpi: ok"
done
