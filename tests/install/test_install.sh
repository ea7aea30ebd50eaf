#!/bin/bash
# Installs the build tree given as $1 into a fresh prefix and uses it as a stranger would: find_package(weir), pkg-config, the command,
# the examples' own CMakeLists. $2 is the source tree. Checks the exported symbols against the allow-list.
set -euo pipefail
build=$1 source=$2
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
cmake --install "$build" --prefix "$prefix" >/dev/null
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
mpi=$(sed -n 's/^MPI_C_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
cmake -S "$work/consumer" -B "$work/consumer/build" -DCMAKE_PREFIX_PATH="$prefix" -DMPI_C_COMPILER="$mpi" >/dev/null
cmake --build "$work/consumer/build" >/dev/null
out=$("$work/consumer/build/consumer")
echo "find_package consumer: $out"
[[ $out == "10 entries; "*"count is -1"* ]] || { echo "the consumer said something else"; exit 1; }

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

if command -v pkg-config >/dev/null && [ -e "$libdir/libweir.so" ]; then
  flags=$(PKG_CONFIG_PATH=$libdir/pkgconfig pkg-config --define-variable=prefix="$prefix" --cflags --libs weir)
  # shellcheck disable=SC2086
  OMPI_CC=gcc "$mpi" -x c -std=c11 -DOMPI_SKIP_MPICXX - $flags -o "$work/pc" <<<'#include <weir/weir.h>
int main(void) { int major = -1; weir_version(&major, 0, 0); return major != WEIR_VERSION_MAJOR; }'
  LD_LIBRARY_PATH=$libdir "$work/pc"
  echo "pkg-config consumer: ok"
fi

LD_LIBRARY_PATH=$libdir "$prefix/bin/weir" info | grep -q "^weir "
echo "installed command: ok"

if [ -e "$libdir/libweir.so" ]; then
  foreign=$(nm -DC --defined-only "$libdir/libweir.so" | cut -c20- | grep -vE '^(weir_|weir::(Communicator|AllreducePlan|Operation|EmbeddingTable|StepSchedule|detail::communicator_from_mpi|version|algorithms|exchanges|settings|level_name)|.*weir::AllreducePlan::(residual|sparse_result)<|(typeinfo|typeinfo name|vtable) for weir::Error)' || true)
  [ -z "$foreign" ] || { echo "exported but not on the allow-list:"; echo "$foreign" | head; exit 1; }
  echo "exported symbols: ok"
fi
