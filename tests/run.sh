#!/bin/bash
# Installs what is missing, builds, and runs the whole test suite through CTest: with Open MPI, with MPICH, with the address and
# undefined-behaviour sanitizers, with the thread sanitizer, and on a small cluster of network namespaces.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build-tests
jobs=$(nproc)
install=yes
stages=(openmpi mpich cluster address thread)
packages=(g++ gfortran cmake ninja-build ccache pkg-config libopenmpi-dev openmpi-bin libmpich-dev mpich libhwloc-dev libhwy-dev libhdf5-dev libjpeg-dev libtbb-dev libxxhash-dev libfmt-dev libcli11-dev
  nlohmann-json3-dev catch2 libopenblas-dev zlib1g-dev dataset-fashion-mnist dict-gcide gnuplot-nox libsimgrid-dev python3 python3-numpy
  python3-pytest python3-mpi4py mypy iproute2 procps slurm-wlm munge environment-modules zsh shellcheck)

usage() {
  cat <<END
Usage: run.sh [--build DIR] [--no-install] [--only STAGE]...

Stages: ${stages[*]}
  openmpi   every test, on the build with Open MPI (and CUDA, where its compiler is), warnings as errors
  mpich     the tests that use MPI, on a build with MPICH, of which ccache has what does not see mpi.h
  cluster   the sparse algorithms across network namespaces, and where /dev/shm is small, with both MPIs (needs root; skipped with a reason otherwise)
  address   unit, collective, table, checkpoint and sample cache tests with AddressSanitizer and UndefinedBehaviorSanitizer, every eighth case of large grids
  thread    collective tests with ThreadSanitizer, likewise
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

# Most objects never see mpi.h: compiled once for Open MPI, MPICH and SimGrid. What the preprocessor gives decides, not where mpi.h would be.
release=(-DWEIR_WERROR=ON)
export CCACHE_NODIRECT=1 CCACHE_BASEDIR=$root  # of several clones, too
if command -v ccache >/dev/null; then release+=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
# Volumes and conservation run the same code on more inputs: nothing new for ThreadSanitizer, and minutes under it.
thread_tests="test_engine test_observation test_progress_thread test_exact test_dense test_plan test_common_resources test_large_index test_table_steady test_resume test_fused_errors test_pack_folder test_pack_processes test_sample_cache test_sample_loader test_elastic_optimizer"
# CUDA code is the same whatever the MPI: built in the first stage only.
mpi_tests="trainee fashion_mnist start_here_c start_here_cpp checkpoint_start_c checkpoint_start_cpp test_mpi test_mpi_table test_mpi_samples test_mpi_checkpoint killed_run odd_ends test_lives
  test_large_shared test_capi test_checkpoint test_embedding test_fusion test_optim test_adam test_datacache test_abi tests_fortran weir_cli stuck_ranks test_handles absent_rank test_first_header other_abi"
sanitize=(-DWEIR_WITH_CUDA=OFF -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1")

# build NAME MPICC TARGETS CMAKE_ARGS...
build() {
  local name=$1 mpicc=$2 targets=$3
  shift 3
  cmake -S "$root" -B "$build/$name" -G Ninja -DMPI_C_COMPILER="$(command -v "$mpicc")" -DMPIEXEC_EXECUTABLE="$(command -v "${mpicc/mpicc/mpiexec}")" \
    -DPython3_EXECUTABLE=/usr/bin/python3 "$@"
  # shellcheck disable=SC2086
  cmake --build "$build/$name" --parallel "$jobs" --target $targets
}

# build_stage STAGE: only what its tests need
build_stage() {
  case $1 in
    openmpi) build openmpi mpicc.openmpi all "${release[@]}" -DWEIR_CUDA_ARCHITECTURES=80 ;;
    mpich) build mpich mpicc.mpich "$mpi_tests" "${release[@]}" -DWEIR_WITH_CUDA=OFF -DWEIR_OTHER_BUILD="$build/openmpi" ;;
    address) build address mpicc.openmpi "tests_unit tests_collectives tests_embedding tests_checkpoint tests_datacache tests_compress" "${sanitize[@]}" -DWEIR_SANITIZE=address,undefined ;;
    thread) build thread mpicc.openmpi "$thread_tests" "${sanitize[@]}" -DWEIR_WITH_TBB=OFF -DWEIR_SANITIZE=thread ;;
    cluster)
      [[ " ${stages[*]} " == *" openmpi "* ]] || build openmpi mpicc.openmpi "$mpi_tests" "${release[@]}"
      [[ " ${stages[*]} " == *" mpich "* ]] || build mpich mpicc.mpich "$mpi_tests" "${release[@]}" -DWEIR_WITH_CUDA=OFF
      ;;
  esac
}

# run_tests NAME CTEST_ARGS...
run_tests() {
  local name=$1
  shift
  (cd "$build/$name" && ctest --output-on-failure --parallel "$jobs" "$@")
  grep -h '^skipped: ' "$build/$name/Testing/Temporary/LastTest.log" | sort -u || true
}

test_stage() {
  case $1 in
    openmpi) run_tests openmpi -LE cluster ;;
    mpich) run_tests mpich -L mpi ;;
    address) TEST_EVERY=8 run_tests address -L '^(unit|collectives|embedding|checkpoint|datacache|compress)$' ;;
    thread) TEST_EVERY=8 run_tests thread -R "^(${thread_tests// /|})$" ;;
    cluster)  # not joined by &&, before which a failure would not end the script
      run_tests openmpi -L cluster
      run_tests mpich -L cluster
      ;;
  esac
}

for name in "${stages[@]}"; do
  [[ $name =~ ^(openmpi|mpich|cluster|address|thread)$ ]] || fail "no stage '$name'; see --help"
done

for name in "${stages[@]}"; do
  echo "== $name"
  build_stage "$name"
  test_stage "$name"
done
echo "All stages passed: ${stages[*]}"
