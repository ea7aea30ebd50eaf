#!/bin/bash
# Tests every job script of slurm/ on a real SLURM: $1 the build folder, $2 the MPI it was built with, $3 a stand-in for a training
# program, $4 a program with a late rank. Everything that ends jobs interrupts a training at random moments, and it must end like an
# undisturbed run. SEED=... repeats the moments of a run.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
scripts=$(cd "$here/../../slurm" && pwd)
build=$(realpath "$1") mpi=$2 trainee=$(realpath "$3") late_rank=$(realpath "$4")
cluster=$here/cluster
"$cluster" check
for command in slurmctld slurmd sbatch munged; do
  command -v $command >/dev/null || { echo "skipped: there is no $command on this machine: apt-get install slurm-wlm munge"; exit 77; }
done
export WEIR_CLUSTER_STATE=${WEIR_CLUSTER_STATE:-/tmp/weir-cluster-test}
RANDOM=${SEED:=$RANDOM}
echo "-- SEED=$SEED"
"$cluster" up -n 4 -r 1gbit
work=$(mktemp -d)
trap '"$cluster" down >/dev/null; rm -rf "$work"' EXIT
"$cluster" slurm up
cd "$work"
export OPENBLAS_NUM_THREADS=1 WEIR_DUMP=
weir=$build/bin/weir

slurm() { "$cluster" slurm "$@"; }
show() { for file in "$@"; do echo "== $file"; cat "$file"; done; }
fail() {
  echo "test_slurm: $*"
  slurm squeue || true
  show ./*.out | cut -c 1-200 | grep -vE '^ |^$' | tail -n 150
  exit 1
}
batch() { slurm sbatch --parsable --ntasks-per-node=1 "$@"; }
# wait_for SECONDS WHAT COMMAND...: waits until the command succeeds.
wait_for() {
  local left=$1 what=$2
  shift 2
  for ((left *= 5; left > 0; left--)); do
    ! "$@" >/dev/null 2>&1 || return 0
    sleep 0.2
  done
  fail "$what: not within the time"
}
state() { slurm scontrol -o show job "$1" | sed 's/.*JobState=\([A-Z_]*\).*/\1/'; }
over() { [[ $(state "$1") =~ ^(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL|PREEMPTED)$ ]]; }

# ---- bad input

# refused NAME PATTERN SBATCH_OPTIONS... SCRIPT OPTIONS...: the job must fail with the pattern on the first line of its output. All
# such jobs run at once.
refused=()
refused() {
  refused+=("$1:$(batch --job-name="$1" --output="$1.out" "${@:3}"):$2")
}
train=$scripts/weir-train.sbatch
mkdir taken held free
printf '0\nother --program\n' >taken/weir-train.run
refused unknown_site "there is no site 'mars': choose one of .*generic-openmpi" -N1 "$scripts/weir-test.sbatch" --site mars
refused no_module "site .*(module no/such cannot be loaded: see 'module avail'|there is no module command)|module no/such cannot be loaded" -N1 \
  "$scripts/weir-test.sbatch" --weir "$weir" --module no/such
refused no_folder "there is no checkpoint folder nowhere: make it" -N1 "$train" --weir "$weir" --checkpoint nowhere -- "$trainee"
refused no_checkpoint "which folder for checkpoints" -N1 "$train" --weir "$weir" -- "$trainee"
refused unwritable "checkpoint folder /sys cannot be written: check its owner" -N1 "$train" --weir "$weir" --checkpoint /sys -- "$trainee"
refused other_run "belongs to another run \(other --program\): choose another --checkpoint" -N1 "$train" --weir "$weir" --checkpoint taken -- "$trainee"
refused node_count "the model cannot use 2 nodes: submit with --nodes one of 1,4" -N2 "$train" --weir "$weir" --checkpoint free --node-counts 1,4 -- "$trainee"
refused no_program "there is no program ./nothing" -N1 "$train" --weir "$weir" --checkpoint free -- ./nothing
refused array_index "array index 7 is out of range: these options make 2 tasks, so submit with --array=0-1" -N2 --array=7 "$scripts/weir-bench.sbatch" --weir "$weir" \
  --algorithms oktopk --sizes 1000,2000
refused one_rank "1 ranks on 1 nodes, but it takes at least 2" -N1 "$scripts/weir-calibrate.sbatch" --weir "$weir"
refused unknown_option "what is '--fast'" -N1 "$scripts/weir-bench.sbatch" --weir "$weir" --fast
refused no_python "there is no program absent.py" -N1 "$scripts/weir-python.sbatch" -- absent.py
other=mpich
[ "$mpi" = openmpi ] || other=openmpi
refused other_mpi "was built for $mpi, but site generic-$other has $other: build it with that MPI" -N1 "$scripts/weir-test.sbatch" --weir "$weir" --site "generic-$other"
IFS=: read -r _ failing _ <<<"${refused[0]}"
chained=$(batch -N1 --dependency=afterok:"$failing" --kill-on-invalid-dep=yes --output=chained.out --wrap "echo ran")

# ---- the jobs that run once, one after another, and a report of them

submitted=$(slurm "$scripts/submit" test calibrate bench --nodes 1,2,4 --ranks-per-node 2 --weir "$weir" -- --algorithms dense_ring,oktopk --sizes 10000 \
  --densities 0.01,0.1 --iterations 2)
cat >program.py <<'END_OF_PROGRAM'
import weir
comm = weir.Communicator()
if comm.rank == 0:
    print(f"{comm.size} ranks in Python")
END_OF_PROGRAM
python=
if /usr/bin/python3 -c "import numpy" 2>/dev/null && compgen -G "$build/lib/libweir-*.so" >/dev/null; then
  python=$(PYTHONPATH=$build/python WEIR_LIBRARY=$(compgen -G "$build/lib/libweir-*.so" | head -1) batch -N2 --output=python.out \
    "$scripts/weir-python.sbatch" --weir "$weir" --python /usr/bin/python3 -- program.py)
else
  echo "no Python package here: weir-python.sbatch is not run"
fi
late=
if [ "$mpi" = openmpi ]; then
  mkdir late
  late=$(batch -N2 --output=late.out "$train" --weir "$weir" --checkpoint late -- "$late_rank")
fi
# In one case SLURM signals the end while the script still checks its options.
mkdir early
printf 'site_mpi=%s\n[ -e told ] || { touch told; kill -s USR1 $$; }\n' "$mpi" >early.sh
early=$(batch -N1 --output=early.out "$train" --weir "$weir" --site ./early.sh --checkpoint early -- true)
if slurm "$scripts/submit" test --nodes 9 >refused_submit.out 2>&1; then fail "submit takes 9 of 4 nodes"; fi
grep -q "SLURM refuses this job: .*not available" refused_submit.out || fail "submit does not say why"
shown=$(slurm "$scripts/submit" train --nodes 2 --dry-run -- --checkpoint free --elastic)
grep -q -- "--no-kill .*weir-train.sbatch .*--elastic" <<<"$shown" || fail "submit forgets --no-kill: $shown"

if shown=$(slurm "$scripts/submit" test bench python --nodes 1,9 --dry-run -- -- none.py 2>&1); then fail "a dry run of a job that SLURM refuses ends with 0: $shown"; fi
grep -q "^python: .*--dependency=afterok:JOB_OF_BENCH0:JOB_OF_BENCH1 .*weir-python.sbatch" <<<"$shown" || fail "a dry run shows no dependencies: $shown"
[ "$(grep -c "SLURM refuses this job" <<<"$shown")" -ge 2 ] || fail "a dry run ends at the first refusal: $shown"
for script in "$scripts"/weir-*.sbatch; do
  "$script" --help | grep -q "sbatch $(basename "$script")\|$(basename "$script") " || fail "$script does not explain itself"
done

check_refused() {
  local entry name job pattern first
  for entry in "${refused[@]}"; do
    IFS=: read -r name job pattern <<<"$entry"
    wait_for 60 "job $name" over "$job"
    [ "$(state "$job")" = FAILED ] || fail "$name: the job ended as $(state "$job")"
    first=$(head -n 1 "$name.out")
    [[ $first =~ ^weir-[a-z]+.sbatch:\ error:\  && $first =~ $pattern ]] || fail "$name: the first line is: $first"
    rm "$name.out"
  done
  wait_for 30 "the job after a failed one" over "$chained"
  [ ! -e chained.out ] || fail "a job ran after one that it needs had failed"
  echo "bad input: ${#refused[@]} jobs refused, each on its first line; what depends on them does not run"
}
check_refused
arrays=$(sed -n 's/^[a-z]*: job \([0-9]*\): .*/\1/p' <<<"$submitted")
[ "$(wc -w <<<"$arrays")" = 5 ] || fail "submit: $submitted"
all_gone() { [ -z "$(slurm squeue -h -j "$(paste -sd , <<<"$arrays")" 2>/dev/null)" ]; }
wait_for 120 "the chain of jobs" all_gone
"$scripts/report" results >report.out || fail "report: $(cat report.out)"
[ "$(compgen -G "results/bench/strong/nodes-000[124]/*.json" | wc -l)" = 9 ] || fail "not every task of the bench has written its file"
for text in "self-test, 8 ranks on 4 nodes: all .* passed" "machine file" "| strong | 10,000 | 0.1 | oktopk | 4 | 8 |" "bytes in switch | bytes across switches" "exchange ms"; do
  grep -q "$text" results/report.md || fail "no '$text' in the report: $(cat report.out)"
done
if command -v gnuplot >/dev/null; then
  for picture in scaling bytes stages; do grep -q "</svg>" results/$picture.svg || fail "no picture $picture"; done
fi
rm -f weir-*.out report.out refused_submit.out
if [ -n "$python" ]; then
  wait_for 60 "the Python job" over "$python"
  grep -qx "2 ranks in Python" python.out || fail "the Python job: $(cat python.out)"
fi
if [ -n "$late" ]; then
  wait_for 120 "the job with a late rank" over "$late"
  [ "$(state "$late")" = COMPLETED ] || fail "ranks do not wait for one that is late: $(cat late.out)"
fi
wait_for 120 "the job that was told early" over "$early"
[ "$(state "$early")" = COMPLETED ] || fail "the job that was told early ended as $(state "$early")"
grep -q "asked to stop before the program was started; requeued" early.out || fail "a job has forgotten what it was told early: $(cat early.out)"
grep -q "Name=weir-test JobState=COMPLETED" "$WEIR_CLUSTER_STATE/slurm/jobcomp" || fail "no record of the self-test's job"
echo "self-test, calibration, bench array, Python and report: done"

# ---- training, undisturbed and interrupted

program=("$trainee" --steps 600 --ms 50)
data=/usr/share/datasets/fashion-mnist
if [ -x "$build/bin/fashion_mnist" ] && [[ $(ldd "$build/bin/weir") == *hdf5* ]] && [ -d $data ]; then
  program=("$build/bin/fashion_mnist" --epochs 3 --evaluate-every 1000000 --progress lines)
else
  echo "no fashion_mnist, no HDF5 in this build, or no $data: a stand-in is trained"
fi
# training NAME SBATCH_OPTIONS... -- OPTIONS...
declare -A job
training() {
  local name=$1 options=()
  shift
  while [ "$1" != -- ]; do options+=("$1"); shift; done
  shift
  mkdir "checkpoint-$name" "output-$name"
  # The command line identifies the run; the output's folder is the job's own.
  job[$name]=$(slurm sbatch --parsable --job-name="$name" --output="$name.out" --ntasks-per-node=1 --nodes=2 --time=10 "${options[@]}" "$train" --weir "$weir" \
    --checkpoint "checkpoint-$name" --every 20 "$@" -- "${program[@]}" --output "$(output_of "$name")")
}
output_of() { if [ "${program[0]}" = "$trainee" ]; then echo "output-$1/result.json"; else echo "output-$1"; fi; }
has_saved() { [ -n "$(find "checkpoint-$1" -type f ! -name 'weir-train.*' ! -name .weir-train -print -quit)" ]; }
# hit NAME COMMAND...: runs the command in the background, some time after the training's first checkpoint.
hits=()
hit() {
  local name=$1 tenths=$((RANDOM % 25))
  shift
  (
    wait_for 60 "the first checkpoint of $name" has_saved "$name"
    sleep $((tenths / 10)).$((tenths % 10))
    echo "$(date +%T) $name: ${*##*/}"
    "$@" || fail "$name: could not be hit"
  ) &
  hits+=($!)
}
# The training must not end before SLURM, which checks limits twice a minute, signals its limit.
stop_until_told() {
  slurm scancel --signal=STOP "${job[limit]}" || return 1
  wait_for 120 "SLURM to tell of the time limit" grep -q "asked to stop" limit.out
  slurm scancel --signal=CONT "${job[limit]}" || [ "$(starts limit)" -ge 1 ] # the signal came before it was stopped
}
lose_node() {
  "$cluster" kill weir3 || return 1
  wait_for 90 "SLURM to notice that weir3 is dead" grep -q "NODE FAILURE" death.out
  "$cluster" start weir3
}
starts() { slurm scontrol -o show job "${job[$1]}" | sed 's/.*Restarts=\([0-9]*\).*/\1/'; }

training undisturbed --nodelist=weir[0-1] --
training signal --nodelist=weir[0-1] --
training limit --nodelist=weir[0-1] --time=2 --signal=B:USR1@30 -- # signalled after 60 to 90 s
training requeue --nodelist=weir[0-1] --
training preemption --nodelist=weir2 --nodes=1 --ntasks-per-node=2 --
training death --exclude=weir0,weir2 --
training elastic --nodes=3 --no-kill --exclude=weir2 -- --elastic
if [ "$mpi" = openmpi ]; then # also with a user's site file
  printf 'site_mpi=openmpi\nsite_launcher=(mpirun.openmpi)\n' >mine.sh
  training mpirun --nodelist=weir[0-1] -- --site ./mine.sh
  hit mpirun slurm scancel --signal=USR1 --batch "${job[mpirun]}"
fi
training cancelled --nodelist=weir[0-1] --
printf '#!/bin/bash\nexit 75\n' >never_saves
chmod +x never_saves
stalled=$(batch -N1 --nodelist=weir0 --output=stalled.out "$train" --weir "$weir" --checkpoint free -- ./never_saves)
hit signal slurm scancel --signal=USR1 "${job[signal]}"
hit limit stop_until_told
hit cancelled slurm scancel "${job[cancelled]}"
hit requeue slurm scontrol requeue "${job[requeue]}"
hit preemption slurm sbatch --partition=urgent --nodelist=weir2 --ntasks=1 --cpus-per-task=8 --output=urgent.out --wrap "sleep 1"
wait_for 60 "the first checkpoint of elastic" has_saved elastic
second=$(batch -N1 --nodelist=weir2 --output=second.out "$train" --weir "$weir" --checkpoint checkpoint-elastic -- "${program[@]}" --output "$(output_of elastic)")
hit death lose_node
for pid in "${hits[@]}"; do wait "$pid" || exit 1; done

requeued=(signal limit requeue preemption death)
[ "$mpi" != openmpi ] || requeued+=(mpirun)
for name in undisturbed "${requeued[@]}" elastic; do
  wait_for 150 "training '$name'" over "${job[$name]}"
  [ "$(state "${job[$name]}")" = COMPLETED ] || fail "training '$name' ended as $(state "${job[$name]}")"
done
for name in "${requeued[@]}"; do [ "$(starts "$name")" -ge 1 ] || fail "training '$name' was not hit"; done
wait_for 60 "the cancelled training" over "${job[cancelled]}"
[ "$(state "${job[cancelled]}") $(starts cancelled)" = "CANCELLED 0" ] || fail "a training that was cancelled has come back"
wait_for 60 "a second job with the same folder" over "$second"
[ "$(state "$second")" = FAILED ] || fail "two jobs share a folder"
grep -q "error: job ${job[elastic]} is writing to the checkpoint folder" <(head -n 1 second.out) || fail "the second job does not say why: $(cat second.out)"
wait_for 90 "the training that never saves" over "$stalled"
[ "$(state "$stalled")" = FAILED ] || fail "the training that never saves ended as $(state "$stalled")"
grep -q "error: 3 starts in a row have ended before a checkpoint was written" stalled.out || fail "the training that never saves does not say so"
grep -q "a node has died: 2 are left" elastic.out || fail "training 'elastic' has not gone on without its node"
[ "$(starts elastic)" = 0 ] || fail "training 'elastic' was requeued"

python3 - "${requeued[@]}" <<'END_OF_PROGRAM' || fail "not all have ended alike"
import json, pathlib, sys

def result(name):
    files = list(pathlib.Path(f"output-{name}").glob("*.json"))
    if len(files) != 1:
        sys.exit(f"{name}: {len(files)} results")
    content = json.loads(files[0].read_text())
    values = {key: value for part in [content, *content.values()] if isinstance(part, dict) for key, value in part.items()}
    return values["steps"], values["accuracy"], values["ranks"]

steps, accuracy, _ = result("undisturbed")
print(f"undisturbed: {steps} steps, accuracy {accuracy}")
for name in sys.argv[1:]:
    if result(name)[:2] != (steps, accuracy):
        sys.exit(f"{name}: {result(name)} instead of {steps} steps, accuracy {accuracy}")
final = result("elastic")
print(f"elastic: {final[0]} steps, accuracy {final[1]}, {final[2]} ranks in the end")
if final[2] != 2 or abs(final[1] - accuracy) > 0.02:
    sys.exit("elastic: not as good as the undisturbed run, or not on two ranks")
END_OF_PROGRAM
echo "training: as undisturbed after a signal, a time limit, a requeue, preemption, a node's death, and on fewer nodes; cancelled, it stays so"
