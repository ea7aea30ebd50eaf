#!/bin/bash
# Installs what is missing, builds, and runs the whole test suite through CTest: with Open MPI, with MPICH, with the address and
# undefined-behaviour sanitizers, with the thread sanitizer, and on a small cluster of network namespaces.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build-tests
jobs=$(nproc)
install=yes
stages=(openmpi mpich address thread cluster)
packages=(g++ cmake ninja-build pkg-config libopenmpi-dev openmpi-bin libmpich-dev mpich libhwloc-dev libhwy-dev libfmt-dev libcli11-dev
  nlohmann-json3-dev catch2 libopenblas-dev zlib1g-dev dataset-fashion-mnist dict-gcide gnuplot-nox libsimgrid-dev python3 python3-numpy
  python3-pytest python3-mpi4py mypy iproute2 procps slurm-wlm munge)

usage() {
  cat <<END
Usage: run.sh [--build DIR] [--no-install] [--only STAGE]...

Stages: ${stages[*]}
  openmpi   every test, on the build with Open MPI (and CUDA, where its compiler is), warnings as errors
  mpich     the tests that use MPI, on a build with MPICH
  address   unit, collective and table tests with AddressSanitizer and UndefinedBehaviorSanitizer, every eighth case of large grids
  thread    collective tests with ThreadSanitizer, likewise
  cluster   the sparse algorithms across network namespaces, and where /dev/shm is small, with both MPIs (needs root; skipped with a reason otherwise)
END
}

fail() {
  echo "run.sh: $*" >&2
  exit 1
}

only=()
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --no-install) install=no ;;
    --build) build=$(realpath -m "$2") && shift ;;
    --only) only+=("$2") && shift ;;
    *) fail "unknown option $1; see --help" ;;
  esac
  shift
done
[ ${#only[@]} -eq 0 ] || stages=("${only[@]}")

is_installed() { dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null | grep -qx installed; }
if command -v dpkg-query >/dev/null; then
  missing=()
  for package in "${packages[@]}"; do
    [ "$package" = pkg-config ] && command -v pkg-config >/dev/null && continue
    is_installed "$package" || missing+=("$package")
  done
  if [ ${#missing[@]} -gt 0 ]; then
    echo "Missing packages: ${missing[*]}"
    [ $install = yes ] || fail "install them first: apt-get install ${missing[*]}"
    as_root=()
    [ "$(id -u)" -eq 0 ] || as_root=(sudo)
    "${as_root[@]}" apt-get update -q
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
  fi
fi

# stage NAME MPICC TARGETS CTEST_ARGS CMAKE_ARGS...: builds only what the tests of the stage need
stage() {
  local name=$1 mpicc=$2 targets=$3 selection=$4
  shift 4
  echo "== $name"
  cmake -S "$root" -B "$build/$name" -G Ninja -DMPI_C_COMPILER="$(command -v "$mpicc")" -DMPIEXEC_EXECUTABLE="$(command -v "${mpicc/mpicc/mpiexec}")" \
    -DPython3_EXECUTABLE=/usr/bin/python3 "$@" >/dev/null
  # shellcheck disable=SC2086
  cmake --build "$build/$name" --parallel "$jobs" --target $targets
  # shellcheck disable=SC2086
  (cd "$build/$name" && ctest --output-on-failure --parallel "$jobs" $selection)
  grep -h '^skipped: ' "$build/$name/Testing/Temporary/LastTest.log" | sort -u || true
}

# Volumes and conservation run the same code on more inputs: nothing new for ThreadSanitizer, and minutes under it.
thread_tests="test_engine test_observation test_exact test_dense test_plan test_common_resources test_large_index test_table_steady"
# CUDA code is the same whatever the MPI: built in the first stage only.
mpi_tests="test_mpi test_mpi_table odd_ends test_lives test_large_shared test_capi test_embedding test_abi weir_cli stuck_ranks other_abi"
for name in "${stages[@]}"; do
  case $name in
    openmpi) stage openmpi mpicc.openmpi all "-LE cluster" -DWEIR_WERROR=ON -DWEIR_CUDA_ARCHITECTURES=80 ;;
    mpich) stage mpich mpicc.mpich "$mpi_tests" "-L mpi" -DWEIR_WERROR=ON -DWEIR_WITH_CUDA=OFF -DCMAKE_CXX_FLAGS_RELEASE="-O1 -DNDEBUG" ;;
    address) TEST_EVERY=8 stage address mpicc.openmpi "tests_unit tests_collectives tests_embedding" "-L ^(unit|collectives|embedding)\$" -DWEIR_WITH_CUDA=OFF -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1" -DWEIR_SANITIZE=address,undefined ;;
    thread) TEST_EVERY=8 stage thread mpicc.openmpi "$thread_tests" "-R ^(${thread_tests// /|})$" -DWEIR_WITH_CUDA=OFF -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1" -DWEIR_SANITIZE=thread ;;
    cluster)
      stage openmpi mpicc.openmpi "$mpi_tests" "-L cluster"
      stage mpich mpicc.mpich "$mpi_tests" "-L cluster"
      ;;
    *) fail "no stage '$name'; see --help" ;;
  esac
done
echo "All stages passed: ${stages[*]}"
