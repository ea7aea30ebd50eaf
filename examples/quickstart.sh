#!/usr/bin/env bash
# Installs missing packages, builds Weir, trains example 01 densely and sparsely, and shows the difference.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build-quickstart
output=$PWD/quickstart-output
ranks=4
epochs=4
install=yes
packages=(g++ cmake ninja-build pkg-config python3 libopenmpi-dev openmpi-bin libhwloc-dev libhwy-dev libxxhash-dev libfmt-dev libcli11-dev
  nlohmann-json3-dev libopenblas-dev zlib1g-dev dataset-fashion-mnist gnuplot-nox)

usage() {
  cat <<END
Usage: quickstart.sh [--output DIR] [--build DIR] [--ranks N] [--epochs N] [--no-install]

Installs the Debian or Ubuntu packages that are missing, builds Weir, trains a network on Fashion-MNIST with MPI ranks,
once with a dense allreduce and once with a sparse one, then prints a table and draws accuracy over bytes and over time.
The build has only what this needs, on this processor: docs/building.md says how to build Weir for other programs.

  --output DIR   where results go (default: ./quickstart-output)
  --build DIR    where Weir is built (default: $build)
  --ranks N      MPI ranks (default: $ranks)
  --epochs N     passes over the training images (default: $epochs)
  --no-install   never call apt-get: stop when a package is missing
END
}

fail() {
  echo "quickstart.sh: $*" >&2
  exit 1
}

parse_arguments() {
  while [ $# -gt 0 ]; do
    case $1 in
      -h | --help) usage && exit 0 ;;
      --no-install) install=no && shift && continue ;;
      --output | --build | --ranks | --epochs) [ $# -ge 2 ] || fail "$1 needs a value" ;;
      *) fail "unknown option $1; see --help" ;;
    esac
    case $1 in
      --output) output=$(realpath -m "$2") ;;
      --build) build=$(realpath -m "$2") ;;
      --ranks) ranks=$2 ;;
      --epochs) epochs=$2 ;;
    esac
    shift 2
  done
}

is_installed() { dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null | grep -qx installed; }

install_packages() {
  if ! command -v dpkg-query >/dev/null; then
    echo "This is not Debian or Ubuntu: going on in the hope that these are there: ${packages[*]}"
    return
  fi
  local missing=() package
  for package in "${packages[@]}"; do
    # pkg-config is a virtual or transitional package in newer releases.
    [ "$package" = pkg-config ] && command -v pkg-config >/dev/null && continue
    is_installed "$package" || missing+=("$package")
  done
  if [ ${#missing[@]} -eq 0 ]; then
    echo "All packages are installed."
    return
  fi
  echo "Missing packages: ${missing[*]}"
  [ $install = yes ] || fail "install them first: apt-get install ${missing[*]}"
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fail "neither root nor sudo: ask your administrator for: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  "${as_root[@]}" apt-get update
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
}

build_weir() {
  local fresh=()
  # Build only what this training uses, for this processor. -w hides warnings of GCC 12 about its own vector code. An existing
  # build folder keeps its settings.
  if [ ! -e "$build/CMakeCache.txt" ]; then
    fresh=(-DWEIR_WITH_CUDA=OFF -DWEIR_WITH_FORTRAN=OFF -DWEIR_WITH_HDF5=OFF -DWEIR_WITH_JPEG=OFF -DWEIR_WITH_TBB=OFF -DCMAKE_UNITY_BUILD=ON
      "-DCMAKE_CXX_FLAGS=-march=native -DHWY_COMPILE_ONLY_STATIC -w")
    if command -v ninja >/dev/null; then fresh+=(-G Ninja); fi
  fi
  # With several MPIs installed, use the one that train() launches.
  local compiler=()
  if command -v mpicc.openmpi >/dev/null; then compiler=("-DMPI_C_COMPILER=$(command -v mpicc.openmpi)"); fi
  cmake -S "$root" -B "$build" "${fresh[@]}" "${compiler[@]}" -DCMAKE_BUILD_TYPE=Release -DWEIR_BUILD_TESTS=OFF -DWEIR_BUILD_EXAMPLES=ON
  cmake --build "$build" --parallel "$(nproc)" --target fashion_mnist
}

# train ALGORITHM [OPTION...]
train() {
  local launcher progress=lines
  launcher=$(command -v mpirun.openmpi || command -v mpirun) || fail "there is no mpirun"
  # The ranks' stderr is a pipe even if the user's is a terminal.
  if [ -t 2 ]; then progress=bar; fi
  if [ "$(id -u)" -eq 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
  OPENBLAS_NUM_THREADS=1 "$launcher" -np "$ranks" --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 \
    "$build/bin/fashion_mnist" --output "$output" --progress "$progress" --epochs "$epochs" --algorithm "$@"
}

main() {
  parse_arguments "$@"
  install_packages
  build_weir
  mkdir -p "$output"
  echo
  train dense_rabenseifner
  train oktopk
  echo
  "$build/bin/fashion_mnist" --summarise --output "$output"
  echo "Ranks of one machine exchange through its memory, where sending less need not save time. It does on a network: docs/which-algorithm.md."
  gnuplot -e "folder='$output'; algorithms='dense_rabenseifner oktopk'" "$root/examples/01_fashion_mnist/plot.gp"
  echo
  echo "Summary:  $output/summary.json"
  echo "Picture:  $output/accuracy.png"
  echo "Curves:   $output/dense_rabenseifner.csv, $output/oktopk.csv"
  echo "Program:  $build/bin/fashion_mnist --help"
}

main "$@"
