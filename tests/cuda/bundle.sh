#!/bin/bash
# Packs all GPU tests and benchmarks for a machine that has only a driver: no MPI, no toolkit, no packages.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$root/build-gpu
architectures=

usage() {
  cat <<'END'
Usage: bundle.sh [--build DIR] [--architectures LIST]

Builds test_gpu_kernels, test_gpu_compressors, test_gpu_optim, test_gpu_plan, test_gpu_table and bench_gpu without MPI and packs them
with the libraries they need: DIR/weir-gpu-tests.tar.gz (DIR is build-gpu unless given). On the machine with the GPU:

  tar xf weir-gpu-tests.tar.gz && weir-gpu-tests/run.sh              tests, then benchmarks (minutes; bench_gpu.json)
  weir-gpu-tests/run.sh tests | bench | sanitize                     one of these; sanitize: tests under compute-sanitizer

LIST as WEIR_CUDA_ARCHITECTURES, for example 90.
END
}

while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --build) build=$(realpath -m "$2") && shift ;;
    --architectures) architectures=$2 && shift ;;
    *) echo "bundle.sh: unknown option $1; see --help" >&2 && exit 2 ;;
  esac
  shift
done

programs=(test_gpu_kernels test_gpu_compressors test_gpu_optim test_gpu_plan test_gpu_table bench_gpu)
# shellcheck disable=SC2016
cmake -S "$root" -B "$build" -G Ninja -DWEIR_WITH_MPI=OFF -DWEIR_WITH_CUDA=ON -DWEIR_WERROR=ON ${architectures:+"-DWEIR_CUDA_ARCHITECTURES=$architectures"} \
  -DCMAKE_EXE_LINKER_FLAGS="-static-libgcc -s -Wl,--disable-new-dtags" '-DCMAKE_BUILD_RPATH=$ORIGIN/lib' -DCMAKE_BUILD_RPATH_USE_ORIGIN=ON >/dev/null
cmake --build "$build" --target "${programs[@]}"

out=$build/weir-gpu-tests
rm -rf "$out"
mkdir -p "$out/lib"
for program in "${programs[@]}"; do
  cp "$build/bin/$program" "$out"
  # glibc must be the machine's own; all else travels, and is found beside the programs (an RPATH serves libraries of libraries, too).
  if ldd "$build/bin/$program" | grep 'not found'; then echo "bundle.sh: $program lacks libraries" >&2 && exit 1; fi
  ldd "$build/bin/$program" | awk '/=> \// {print $3}' | grep -vE '/(libc|libm|libdl|librt|libpthread)\.so' | xargs -r cp -u -t "$out/lib"
done
cp "$here/bench_torch_topk.py" "$out"
cat >"$out/run.sh" <<'END'
#!/bin/bash
# Runs the files beside it: tests, bench or sanitize. Without an argument, tests and bench.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
[ $# -gt 0 ] || set -- tests bench
for what in "$@"; do
  case $what in
    tests)
      ./test_gpu_kernels
      ./test_gpu_compressors
      ./test_gpu_optim
      ./test_gpu_plan
      ./test_gpu_table
      ;;
    bench)
      peer=()
      if python3 -c 'import torch' 2>/dev/null && ./bench_torch_topk.py bench_torch_topk.json; then peer=(--torch bench_torch_topk.json); fi
      ./bench_gpu --json bench_gpu.json "${peer[@]}"
      ;;
    sanitize) # compute-sanitizer comes with the CUDA toolkit
      command -v compute-sanitizer >/dev/null || { echo "run.sh: compute-sanitizer is not here" >&2 && exit 1; }
      # Not under the tool: what it needs itself of GPU memory, and NCCL's own calls that fail. For races every eighth case will do.
      for test in 'kernels ~*rows may begin*' 'compressors ~*nothing is allocated*' 'optim *' 'plan ~*no allocation*' 'table ~*no allocation*'; do
        compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 1 "./test_gpu_${test%% *}" "${test#* }"
      done
      TEST_EVERY=8 compute-sanitizer --tool racecheck --error-exitcode 1 ./test_gpu_kernels '~*rows may begin*' '~*graph*'
      ;;
    *) echo "run.sh: what is '$what'? tests, bench or sanitize" >&2 && exit 2 ;;
  esac
done
END
chmod +x "$out/run.sh"
tar -C "$build" -czf "$build/weir-gpu-tests.tar.gz" weir-gpu-tests
size=$(stat -c %s "$build/weir-gpu-tests.tar.gz")
echo "bundle: $build/weir-gpu-tests.tar.gz, $((size / 1048576)) MiB"
[ "$size" -lt $((60 * 1048576)) ] || { echo "bundle.sh: the bundle is larger than 60 MiB" >&2; exit 1; }
