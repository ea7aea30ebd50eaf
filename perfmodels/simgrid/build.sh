#!/bin/bash
# build.sh BUILD_DIR [CMAKE_ARGUMENT...]: builds the simulated programs BUILD_DIR/bin/weir_simulate.so,
# weir_simulate_fusion.so and weir_simulate_pto.so. Needs SimGrid 3.32 (libsimgrid-dev).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$1
shift
cmake -S "$here/../.." -B "$build" -G Ninja -DWEIR_WITH_MPI=OFF -DWEIR_WITH_CUDA=OFF -DWEIR_BUILD_TESTS=OFF "$@"
cmake --build "$build" --target weir_simulate weir_simulate_fusion weir_simulate_pto
