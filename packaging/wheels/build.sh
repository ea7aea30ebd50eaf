#!/bin/bash
# Builds the wheels weir-openmpi and weir-mpich: the Python package with the library inside.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=$root/dist
build=$root/build-wheels

usage() {
  cat <<END
Usage: build.sh [--out DIR] [--build DIR] [openmpi] [mpich]

Needs what building Weir needs (but for MPI), python3-venv, and PyPI for its wheels of Open MPI and MPICH, whose compilers are used.
The wheels go to DIR, dist unless given.
END
}

mpis=()
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --out) out=$(realpath -m "$2") && shift ;;
    --build) build=$(realpath -m "$2") && shift ;;
    openmpi | mpich) mpis+=("$1") ;;
    *) echo "build.sh: unknown option $1; see --help" >&2 && exit 2 ;;
  esac
  shift
done
[ ${#mpis[@]} -gt 0 ] || mpis=(openmpi mpich)

for mpi in "${mpis[@]}"; do
  venv=$build/$mpi-venv tree=$build/$mpi
  [ -d "$venv" ] || python3 -m venv "$venv"
  needs=$(sed -n "s/^MPI_NEEDS = .*\"$mpi\": \"\([^\"]*\)\".*/\1/p" "$root/packaging/wheels/make_wheel.py")
  "$venv/bin/pip" install -q "$needs"
  # From site-packages/weir, the virtual environment's lib is three folders up; there PyPI's wheels put MPI.
  # MPI_C_LINK_FLAGS: mpicc would add an rpath to the folder that it is in here; CMake asks it again where this is empty.
  cmake -S "$root" -B "$tree" -G Ninja -DMPI_C_COMPILER="$venv/bin/mpicc" -DWEIR_BUILD_TESTS=OFF -DWEIR_BUILD_EXAMPLES=OFF -DWEIR_WITH_CUDA=OFF \
    -DWEIR_WITH_FORTRAN=OFF -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON -DCMAKE_INSTALL_RPATH_USE_LINK_PATH=OFF -DCMAKE_INSTALL_LIBDIR=lib -DMPI_C_LINK_FLAGS=-pthread \
    "-DCMAKE_INSTALL_RPATH=\$ORIGIN/../../.." >/dev/null
  cmake --build "$tree" --target weir
  rm -rf "$tree/wheel"
  cmake --install "$tree" --component bundled --prefix "$tree/wheel" --strip >/dev/null
  cp "$tree/lib/libweir-$mpi.so.0" "$tree/wheel/lib"
  strip --strip-unneeded "$tree"/wheel/lib/*
  python3 "$root/packaging/wheels/make_wheel.py" "$root/capi/python" "$mpi" "$tree/wheel/lib" "$out"
done
