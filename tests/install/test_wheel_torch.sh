#!/bin/bash
# Runs the wheel with PyPI's PyTorch in a fresh virtual environment: a first program under torchrun, and the tests of weir.torch.
set -euo pipefail
[ $# -eq 2 ] || { echo "Usage: test_wheel_torch.sh SOURCE WHEELS    WHEELS: a folder with weir-*.whl" >&2; exit 2; }
source=$1
wheel=$(find "$2" -name 'weir-*.whl' 2>/dev/null | head -1)
[ -n "$wheel" ] || { echo "skipped: there is no wheel in $2; test_wheel makes it"; exit; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "test_wheel_torch: $*" >&2; exit 1; }
unset WEIR_LIBRARY WEIR_MPI_LIBRARY PYTHONPATH LD_LIBRARY_PATH LD_PRELOAD
for variable in $(compgen -v | grep -E '^(OMPI_COMM|PMI_|PMIX_)' || true); do unset "$variable"; done
export WEIR_TIMEOUT=60 WEIR_DUMP='' OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1

# Lists what torch loads on a machine without a GPU. It asks for many more.
torch=(torch==2.15.0 nvidia-cufile nvidia-cusparselt-cu13==0.8.1 nvidia-nccl-cu13==2.30.7 nvidia-nvshmem-cu13==3.7.2)
others=(filelock fsspec jinja2 networkx numpy pytest 'setuptools>=77' sympy typing-extensions)
python3 -m venv "$work/venv"
PATH=$work/venv/bin:/usr/bin:/bin
pip=(pip --disable-pip-version-check)
"${pip[@]}" download -q --no-deps --retries 0 --timeout 20 -d "$work/downloads" "${torch[@]}" 2>"$work/pip.log" || {
  echo "skipped: pip cannot download ${torch[*]} from PyPI: $(grep -m 1 ERROR "$work/pip.log" || tail -1 "$work/pip.log")"
  exit
}
begin=$SECONDS
"${pip[@]}" install -q "$wheel" mpich "${others[@]}"
"${pip[@]}" install -q --no-deps "$work"/downloads/*.whl
out=$(torchrun --nproc-per-node 4 "$source/tests/install/first_torch.py") || fail "a first program under torchrun"
[ "$(grep -c '^rank [0-3] of 4: [1-9][0-9]* bytes' <<<"$out")" = 4 ] || fail "a first program under torchrun: $out"
echo "   installed, and run under torchrun on 4 ranks: $((SECONDS - begin)) s"
cd "$source/tests/python"
out=$(python -W ignore torch_lost_rank.py 2>&1) || fail "a rank that is killed: $out"
echo "   a rank that is killed: ok"
out=$(python -W ignore torch_alone_in_mpi.py 2>&1) || fail "processes that are alone in MPI: $out"
echo "   processes that are alone in MPI: ok"
for ranks in 1 2 4; do
  mpiexec -n $ranks python -m pytest -x -q --color=no -p no:cacheprovider test_torch*.py >"$work/out" || { cat "$work/out"; fail "$ranks ranks"; }
  grep -E '^(skipped:|[0-9]+ passed)' "$work/out" | sort | uniq -c | sed "s/^/   $ranks ranks: /"
done
echo "tested in $((SECONDS - begin)) s"
