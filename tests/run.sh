#!/bin/bash
# Run this before each commit: it makes one build with Open MPI, and runs every test program and script at least once, large grids
# thinned, and a few programs under sanitizers. --all runs everything. See tests/README.md.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build-tests
jobs=$(nproc)
install=yes
every_label=no
half=both
all_stages=(cases mpich cluster address thread wheel)
# Run one of `every` cases in large grids, another one with each commit.
every=${TEST_EVERY:-8}
offset=${TEST_OFFSET:-$(git -C "$root" rev-list --count HEAD 2>/dev/null || echo 0)}
packages=(g++ gfortran cmake ninja-build pkg-config libopenmpi-dev openmpi-bin libmpich-dev mpich libhwloc-dev libhwy-dev libhdf5-dev libjpeg-dev libtbb-dev libxxhash-dev libfmt-dev libcli11-dev
  nlohmann-json3-dev catch2 libopenblas-dev zlib1g-dev dataset-fashion-mnist dict-gcide gnuplot-nox libsimgrid-dev python3 python3-numpy
  python3-pytest python3-mpi4py mypy iproute2 procps slurm-wlm munge environment-modules zsh shellcheck)

usage() {
  cat <<END
Usage: run.sh [--every-label | --all | --stage STAGE [--half 1|2]]... [--build DIR] [--no-install]

Installs the packages that are missing, builds, and runs tests through CTest.

  (no option)    every test program and script, one of $every cases of large grids; a part under sanitizers; MPI's contract with MPICH.
                 Where nothing has changed since they passed but files of one algorithm, compressor or the like: the labels that these can break
  --every-label  all of these, whatever has changed
  --all          everything: all stages below
  --stage STAGE  one of them; may be repeated
  --half 1|2     half of the stages that take long: every second case of cases, one MPI of cluster, half of the labels of address
  --build DIR    where to build (default: $build)
  --no-install   never call apt-get: stop when a package is missing

Stages of --all:
  cases          every case of every test, on the build with Open MPI (and CUDA, where its compiler is); the fuzzers under sanitizers
                 are among address and thread
  mpich          the tests that use MPI, on a build with MPICH, without precompiled headers
  cluster        the sparse algorithms across network namespaces, SLURM, and where /dev/shm is small, with both MPIs (needs root)
  address        unit, collective, table, checkpoint, sample cache and compressor tests with AddressSanitizer and UndefinedBehaviorSanitizer
  thread         tests of concurrency with ThreadSanitizer
  wheel          the wheel for Python in fresh virtual environments, also with PyPI's PyTorch (downloads 1.1 GB)

Environment: TEST_EVERY and TEST_OFFSET choose the cases of grids that run: now every ${every}th, from $((offset % every)) on.
END
}

fail() {
  echo "run.sh: $*" >&2
  exit 1
}

stages=()
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --no-install) install=no ;;
    --every-label) every_label=yes ;;
    --all) stages=("${all_stages[@]}") ;;
    --build | --stage | --half) [ $# -ge 2 ] || fail "$1 needs a value; see --help" ;;&
    --build) build=$(realpath -m "$2") && shift ;;
    --stage)
      [[ " ${all_stages[*]} " == *" $2 "* ]] || fail "there is no stage '$2': choose one of ${all_stages[*]}"
      stages+=("$2") && shift
      ;;
    --half)
      [ "$2" = 1 ] || [ "$2" = 2 ] || fail "there is no half '$2': choose 1 or 2"
      half=$2 && shift
      ;;
    *) fail "unknown option $1; see --help" ;;
  esac
  shift
done
[ "$half" = both ] || [ ${#stages[@]} -gt 0 ] || fail "--half needs a --stage; see --help"
[ ${#stages[@]} -gt 0 ] || stages=(usual)

[[ " ${stages[*]} " != *" wheel "* ]] || packages+=(python3-venv)
# Only the web site needs these packages; with their dependencies they are a download of 67 MB.
if [[ " ${stages[*]} " == *" cases "* ]]; then
  packages+=(doxygen python3-sphinx python3-myst-parser furo python3-breathe python3-sphinx-copybutton python3-sphinx-inline-tabs)
fi

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

# The compiler has more false warnings under sanitizers, so there is no -Werror. CUDA code is the same under sanitizers.
sanitize=(-DCMAKE_UNITY_BUILD=ON -DWEIR_WITH_CUDA=OFF -DWEIR_BUILD_EXAMPLES=OFF -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1")

# files_of NAME CTEST_ARGS...: prints the files of a build that its chosen tests name: programs, libraries.
files_of() {
  local directory=$build/$1 names
  shift
  names=$(cd "$directory" && ctest -N "$@" | sed -n 's/^ *Test *#[0-9]*: \(.*\)$/[=[\1]=]/p')
  find "$directory" -name CTestTestfile.cmake -exec grep -hF "$names" {} + | grep -oE "$directory/[^]\" ;:)[]+" | sed "s|^$directory/||" | sort -u |
    comm -12 - <(ninja -C "$directory" -t targets all | sed -n '/^ninja: /d; s/: .*//p' | sort -u)
}

# build NAME MPICC TARGETS CTEST_ARGS CMAKE_ARGS...: builds the targets, and what the tests chosen by CTEST_ARGS name.
build() {
  local name=$1 mpicc=$2 targets=$3 tests=$4
  shift 4
  cmake -S "$root" -B "$build/$name" -G Ninja -DMPI_C_COMPILER="$(command -v "$mpicc")" -DMPIEXEC_EXECUTABLE="$(command -v "${mpicc/mpicc/mpiexec}")" \
    -DPython3_EXECUTABLE=/usr/bin/python3 "$@" >"$build/$name.configure.log" 2>&1 || { cat "$build/$name.configure.log"; exit 1; }
  # shellcheck disable=SC2046,SC2086
  [ -z "$targets" ] || cmake --build "$build/$name" --parallel "$((jobs + 1))" --target $targets $([ -z "$tests" ] || files_of "$name" $tests)
}
# build_openmpi CUDA SANITIZED [TARGET...]: compiles the library as a unity build. build_mpich shows whether each file includes all
# it needs.
build_openmpi() { build openmpi mpicc.openmpi "${*:3}" "" -DWEIR_WERROR=ON -DCMAKE_UNITY_BUILD=ON -DWEIR_WITH_CUDA="$1" -DWEIR_CUDA_ARCHITECTURES=80 -DWEIR_SANITIZED_TESTS="$2"; }
build_mpich() {
  build mpich mpicc.mpich "weir_cli fashion_mnist" "-L mpi|cluster" -DWEIR_WERROR=ON -DWEIR_WITH_CUDA=OFF -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DWEIR_OTHER_BUILD="$build/openmpi"
}
build_address() { build address mpicc.openmpi weir_objects "-L ^($1)$" "${sanitize[@]}" -DWEIR_SANITIZE=address,undefined; }
build_thread() { build thread mpicc.openmpi weir_objects "$1" "${sanitize[@]}" -DWEIR_WITH_TBB=OFF -DWEIR_SANITIZE=thread; }

# run_tests NAME CTEST_ARGS...: runs tests, and prints the reasons for skipped tests, then ctest's result.
run_tests() {
  local name=$1 log=$build/$1.ctest.log
  shift
  (cd "$build/$name" && ctest --output-on-failure --parallel "$((jobs + 1))" "$@") | tee "$log"
  grep -h '^skipped: ' "$build/$name/Testing/Temporary/LastTest.log" | sort -u || true
  grep '% tests passed' "$log"
}

# Tests of volumes and conservation run the same code on more inputs. They take minutes, and show ThreadSanitizer nothing new.
thread_tests=(test_engine test_observation test_progress_thread test_exact test_dense test_plan test_common_resources test_large_index test_table_steady test_resume
  test_fused_errors test_fused_checkpoint test_pack_folder test_pack_processes test_sample_cache test_sample_loader test_elastic_optimizer fuzz_plan_progress_threads fuzz_table_progress_threads)

# Prints the labels that a change of a file can break. Fails for other files, which can break anything.
labels_of() {
  case $1 in
    src/collectives/allreduce_*.cpp | src/collectives/oktopk_schedules.cpp) echo checkpoint collectives contract failures fusion sanitized ;;
    src/collectives/oktopk*) echo checkpoint collectives contract cuda failures fusion sanitized ;;
    src/compress/*.cpp | catalogue/compressors/*.cpp) echo collectives compress sanitized ;;
    src/embedding/*) echo contract embedding failures optim sanitized ;;
    src/fusion/* | catalogue/fusion/*) echo checkpoint failures fusion ;;
    catalogue/algorithms/*) echo checkpoint collectives contract failures fusion sanitized ;;
    src/optim/* | src/schedule/*) echo checkpoint failures optim ;;
    src/sums/*) echo failures mpi sums ;;
    src/checkpoint/*) echo checkpoint optim ;;
    src/datacache/*) echo datacache ;;
    src/cli/* | benchmarks/*) echo cli ;;
    cuda/* | tests/cuda/*) echo cuda ;;
    tests/unit/* | tests/collectives/* | tests/compress/* | tests/embedding/* | tests/fusion/* | tests/optim/* | tests/sums/* | tests/checkpoint/* | tests/datacache/* | tests/cli/* | tests/rules/*)
      cut -d / -f 2 <<<"$1"
      ;;
    docs/* | *.md) echo rules ;;
    *) return 1 ;;
  esac
}

# choose_labels STAMP: sets labels by the files that are newer than the stamp of the last passing run. Empty labels mean all.
choose_labels() {
  local file chosen
  labels=
  [ $every_label = no ] && [ -e "$1" ] || return 0
  while IFS= read -r -d '' file; do
    [ "$root/$file" -nt "$1" ] || [ ! -e "$root/$file" ] || continue
    chosen=$(labels_of "$file") || { labels= && return; }
    changed+=("$file")
    labels+=" $chosen"
  done < <(git -C "$root" ls-files -z --cached --others --exclude-standard)
  [ -z "$labels" ] || labels=$(tr ' ' '\n' <<<"$labels rules" | sed '/^$/d' | sort -u | paste -sd '|')
}

run_usual() {
  local stamp=$build/passed labels changed=()
  export TEST_EVERY=$every TEST_OFFSET=$offset
  echo "Runs one of $every cases of large grids, from $((offset % every)) on. Leaves out the others, GPU code's compiler, and --all's stages mpich, cluster, address, thread, wheel."
  touch "$stamp.next" # before the check of files, so that later changes count next time
  choose_labels "$stamp"
  [ -z "$labels" ] || echo "Since all passed, only these have changed: ${changed[*]}. Runs the labels $labels; --every-label runs all."
  build_openmpi OFF ON all
  run_tests openmpi -LE 'cluster|wheel' ${labels:+-L "^($labels)$"}
  mv "$stamp.next" "$stamp"
}
run_cases() {
  if [ "$half" = both ]; then export TEST_EVERY=1; else export TEST_EVERY=2 TEST_OFFSET=$half; fi
  build_openmpi AUTO OFF all weir_simulate_fusion weir_simulate_pto
  run_tests openmpi -LE 'cluster|wheel'
}
run_mpich() {
  export TEST_EVERY=1
  build_mpich
  run_tests mpich -L mpi
}
run_cluster() {
  export TEST_EVERY=1
  build_openmpi OFF OFF all
  [ "$half" = 2 ] || run_tests openmpi -L cluster
  [ "$half" = 1 ] || build_mpich
  [ "$half" = 1 ] || run_tests mpich -L cluster
}
run_address() {
  export TEST_EVERY=$every TEST_OFFSET=$offset
  local labels="unit|collectives|compress|fusion|optim|sums|embedding|checkpoint|datacache"
  [ "$half" = 1 ] && labels="unit|collectives|compress"
  [ "$half" = 2 ] && labels="fusion|optim|sums|embedding|checkpoint|datacache"
  build_address "$labels"
  run_tests address -L "^($labels)$"
}
run_thread() {
  export TEST_EVERY=$every TEST_OFFSET=$offset
  local tests="${thread_tests[*]}"
  tests="-R ^(${tests// /|})$"
  build_thread "$tests"
  # shellcheck disable=SC2086
  run_tests thread $tests
}
run_wheel() {
  build_openmpi OFF OFF
  run_tests openmpi -L wheel
}

mkdir -p "$build"
for stage in "${stages[@]}"; do
  echo "== $stage"
  "run_$stage"
done
