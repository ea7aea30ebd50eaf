#!/bin/bash
# Installs the build tree given as $1 into a fresh prefix and uses it as a stranger would: find_package(weir), pkg-config, the command,
# the examples' own CMakeLists. $2 is the source tree. Checks the exported symbols against the allow-list.
set -euo pipefail
build=$1 source=$2
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
mpi=$(sed -n 's/^MPI_C_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
fail() { echo "test_install: $*" >&2; exit 1; }

cat >"$work/my_code.c" <<'C'
#include <stdio.h>
#include <weir/mpi.h>

int main(void) {
  MPI_Init(NULL, NULL);
  weir_comm* comm = NULL;
  int size = 0;
  if (weir_comm_create_mpi(MPI_COMM_WORLD, &comm) != WEIR_OK || weir_comm_size(comm, &size) != WEIR_OK) return 1;
  printf("%d rank\n", size);
  weir_comm_destroy(comm);
  MPI_Finalize();
  return 0;
}
C
cat >"$work/my_code.cpp" <<'CPP'
#include <cstdio>
#include <vector>
#include <weir/mpi.h>

int main() {
  MPI_Init(nullptr, nullptr);
  {
    const weir::Communicator comm(MPI_COMM_WORLD);
    std::vector<float> gradient(1000, 1.0F);
    weir::AllreducePlan plan(comm, {.count = static_cast<std::int64_t>(gradient.size()), .density = 0.01});
    plan.run(gradient);
    std::printf("%d rank\n", comm.size());
  }
  MPI_Finalize();
}
CPP
pkg_config_consumer() { # PREFIX: the README's lines for C and C++
  local libdir line
  libdir=$(dirname "$(find "$1" -name 'libweir.so' -o -name 'libweir.a' | head -1)")
  if ! command -v pkg-config >/dev/null || [ ! -e "$libdir/libweir.so" ]; then return; fi
  line=$(grep -m1 "^    mpicc my_code.c " "$source/README.md")
  (cd "$work" && PKG_CONFIG_PATH=$libdir/pkgconfig eval "${line/mpicc/$mpi}")
  [ "$("$work/my_code")" = "1 rank" ] || fail "the C program in $1 said something else"
  rm "$work/my_code"
  line=$(grep -m1 "^    mpicxx -std=c++20 my_code.cpp " "$source/README.md")
  (cd "$work" && PKG_CONFIG_PATH=$libdir/pkgconfig eval "${line/mpicxx/${mpi/mpicc/mpicxx}}")
  [ "$("$work/my_code")" = "1 rank" ] || fail "the C++ program in $1 said something else"
  rm "$work/my_code"
  echo "pkg-config consumer: ok"
}

# All but the first look is at a tree that was moved.
cmake --install "$build" --prefix "$work/first" >/dev/null
pkg_config_consumer "$work/first"
prefix=$work/prefix
mv "$work/first" "$prefix"
pkg_config_consumer "$prefix"
libdir=$(dirname "$(find "$prefix" -name 'libweir.so' -o -name 'libweir.a' | head -1)")

mkdir "$work/consumer"
cat >"$work/consumer/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.22)
project(consumer CXX)
find_package(weir REQUIRED)
add_executable(consumer consumer.cpp)
target_link_libraries(consumer PRIVATE weir::weir)
CMAKE
cat >"$work/consumer/consumer.cpp" <<'CPP'
#include <weir/embedding.hpp>
#include <weir/mpi.h>
#include <weir/schedule.hpp>

#include <cstdio>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    const weir::Communicator comm(MPI_COMM_WORLD);
    weir::AllreducePlan plan(comm, {.count = 1000, .density = 0.01});
    std::vector<float> gradient(1000, 0.5F);
    plan.run(gradient);
    weir::EmbeddingTable table(comm, {.rows = 10, .width = 4, .largest_batch = 1, .exchange = std::string(weir::exchanges()[0].name)});
    const std::vector<std::int64_t> ids = {7};
    std::vector<float> vector(4);
    weir::StepSchedule schedule({"words"});
    schedule.started("words", table.lookup(std::span(ids), vector));
    schedule.wait("words");
    try {
      weir::AllreducePlan wrong(comm, {.count = -1});
    } catch (const weir::Error& error) {  // its type crosses the library's border
      std::printf("%zu entries; %s\n", plan.sparse_result<float>().indices.size(), error.what());
    }
  }
  MPI_Finalize();
}
CPP
cmake -S "$work/consumer" -B "$work/consumer/build" -DCMAKE_PREFIX_PATH="$prefix" -DMPI_C_COMPILER="$mpi" >/dev/null
cmake --build "$work/consumer/build" >/dev/null
out=$("$work/consumer/build/consumer")
echo "find_package consumer: $out"
[[ $out == "10 entries; "*"count is -1"* ]] || { echo "the consumer said something else"; exit 1; }

other_mpi=mpicc.mpich
if [[ $(realpath "$(command -v "$mpi")") == $(realpath "$(command -v mpicc.mpich || echo none)") || $mpi == *mpich ]]; then other_mpi=mpicc.openmpi; fi
if command -v $other_mpi >/dev/null; then
  if out=$(cmake -S "$work/consumer" -B "$work/consumer/other" -DCMAKE_PREFIX_PATH="$prefix" -DMPI_C_COMPILER=$other_mpi 2>&1); then
    fail "find_package(weir) took another MPI than Weir's"
  fi
  [[ $(tr -s ' \n' ' ' <<<"$out") == *"this Weir was built with "*", and this project's MPI is "*": choose the same for both"* ]] || fail "of another MPI it says: $out"
  echo "another MPI: refused"
fi

for example in "$source"/examples/[0-9]*/; do
  name=$(basename "$example")
  if ! cmake -S "$example" -B "$work/$name" -DCMAKE_PREFIX_PATH="$prefix" -DMPI_C_COMPILER="$mpi" -DCMAKE_BUILD_TYPE=Debug \
      -DCMAKE_CXX_FLAGS=-O0 >"$work/$name.log" 2>&1; then
    grep "Missing Debian packages" "$work/$name.log" || { cat "$work/$name.log"; exit 1; }
    continue
  fi
  cmake --build "$work/$name" --parallel 2 >"$work/$name.log" 2>&1 || { cat "$work/$name.log"; exit 1; }
  echo "$name: built alone"
done

layout() { # LIBDIR TREE THERE: with this CMAKE_INSTALL_LIBDIR, installed into $work/tree and moved to TREE, libraries are THERE
  local found dir
  rm -rf "$work/other" "$work/tree" "$work/moved"
  cmake -S "$source" -B "$work/other" -DMPI_C_COMPILER="$mpi" -DWEIR_WITH_CUDA=OFF -DWEIR_BUILD_TESTS=OFF -DWEIR_BUILD_EXAMPLES=OFF \
    -DCMAKE_INSTALL_LIBDIR="$1" >/dev/null
  cmake --install "$work/other" --component pkgconfig --prefix "$work/tree" >/dev/null
  mkdir -p "$work/tree/include"
  [ "$2" = "$work/tree" ] || mv "$work/tree" "$2"
  found=$(for dir in libdir includedir; do realpath "$(PKG_CONFIG_PATH=$3/pkgconfig pkg-config --variable=$dir weir)"; done)
  [ "$found" = "$3"$'\n'"$2/include" ] || fail "CMAKE_INSTALL_LIBDIR=$1: weir.pc says $found"
}
if command -v pkg-config >/dev/null; then
  layout lib/some-triplet "$work/moved" "$work/moved/lib/some-triplet"
  layout "$work/tree/lib64" "$work/moved" "$work/moved/lib64"
  layout "$work/elsewhere/lib" "$work/tree" "$work/elsewhere/lib"
  echo "pkg-config of other layouts: ok"
fi

LD_LIBRARY_PATH=$libdir "$prefix/bin/weir" info | grep -q "^weir "
echo "installed command: ok"

if [ -e "$libdir/libweir.so" ]; then
  foreign=$(nm -DC --defined-only "$libdir/libweir.so" | cut -c20- | grep -vE '^(weir_|weir::(Communicator|AllreducePlan|Operation|EmbeddingTable|StepSchedule|detail::communicator_from_mpi|version|algorithms|exchanges|settings|set_log_function|level_name)|.*weir::AllreducePlan::(residual|sparse_result)<|(typeinfo|typeinfo name|vtable) for weir::Error)' || true)
  [ -z "$foreign" ] || { echo "exported but not on the allow-list:"; echo "$foreign" | head; exit 1; }
  echo "exported symbols: ok"
fi
