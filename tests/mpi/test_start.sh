#!/bin/bash
# Starts ranks without a launcher of MPI, well and badly. The argument is the program `started`, linked with an MPI of MPICH's ABI.
set -uo pipefail
program=$1
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$work"' EXIT
export WEIR_TIMEOUT=60 WEIR_DUMP=
unset "${!PMI@}" "${!PMIX@}" "${!OMPI@}" "${!TORCHELASTIC@}" LOCAL_WORLD_SIZE
port=$((35000 + $$ % 4000 * 2))

fail() {
  echo "FAILED: $1"
  head -50 "$work"/*.out "$work"/*.err
  exit 1
}

# start RANK SIZE [VARIABLE=VALUE...] [-- ARGUMENT...]: one rank in the background. Its output is in $work/RANK.out and .err.
start() {
  local rank=$1 size=$2
  shift 2
  local set=()
  while [ $# -gt 0 ] && [ "$1" != -- ]; do set+=("$1"); shift; done
  [ $# -gt 0 ] && shift
  env RANK="$rank" WORLD_SIZE="$size" MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" "${set[@]}" "$program" "$@" > "$work/$rank.out" 2> "$work/$rank.err" &
  pid[rank]=$!
}

# ended RANK STATUS: the rank ends with this status.
ended() {
  wait "${pid[$1]}"
  local status=$?
  [ "$status" = "$2" ] || fail "rank $1 ended with $status, not $2"
}

# says RANK FILE TEXT: the file has the text.
says() { grep -qF -- "$3" "$work/$1.$2" || fail "rank $1 does not say: $3"; }

# anew: another port, so that cases do not meet.
anew() {
  rm -f "$work"/*
  port=$((port + 20))
}

for size in 1 2 3 7 16; do
  anew
  for ((rank = size - 1; rank >= 0; rank--)); do start $rank $size; done  # rank 0 comes last
  for ((rank = 0; rank < size; rank++)); do
    ended $rank 0
    [ -s "$work/$rank.err" ] && fail "rank $rank warns"
    says $rank out "rank $rank of $size, $size on its node: $(python3 -c "print('%g' % (($size - 1) / 2))")"
  done
done
echo "1, 2, 3, 7 and 16 ranks"

anew # twice on one port, as after a restart by torchrun; programs that end without MPI_Finalize
for round in 0 1; do
  for rank in 0 1; do start $rank 2 TORCHELASTIC_RUN_ID=run TORCHELASTIC_RESTART_COUNT=$((round * rank)) PMI_RANK=0 -- leaves; done
  for rank in 0 1; do ended $rank 0; done
done
echo "restarts"

anew # two jobs at once whose ports overlap: each finds its own
start 0 2 TORCHELASTIC_RUN_ID=a
start 2 3 TORCHELASTIC_RUN_ID=b
start 1 3 TORCHELASTIC_RUN_ID=b
sleep 0.5
env RANK=0 WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port TORCHELASTIC_RUN_ID=b "$program" > "$work/b0.out" 2> "$work/b0.err" &
other=$!
ended 1 0; ended 2 0; wait $other || fail "rank 0 of the second job"
says 1 out "rank 1 of 3"
start 1 2 TORCHELASTIC_RUN_ID=a
ended 0 0; ended 1 0
echo "two jobs on the same ports"

anew
WEIR_TIMEOUT=1
for rank in 0 2; do start $rank 4; done
for rank in 0 2; do
  ended $rank 1
  says $rank err "after 1 s, ranks 1 and 3 of 4 have not come to rank 0, which listens at 127.0.0.1:$((port + 1))"
done
anew
start 1 2
ended 1 1
says 1 err "rank 1 of 2 on $(hostname) has not found rank 0 at 127.0.0.1 in 1 s (127.0.0.1:$((port + 1)): Connection refused"
anew
start 1 2 MASTER_ADDR=no-such-host.invalid
ended 1 1
says 1 err "the name no-such-host.invalid cannot be resolved"
WEIR_TIMEOUT=60
echo "ranks that do not come, addresses that lead nowhere"

anew
start 0 3; start 1 2; start 2 3
for rank in 0 1 2; do
  ended $rank 1
  says $rank err "WORLD_SIZE is 2 at rank 1 on $(hostname), and 3 at rank 0 on $(hostname): give all processes of a job the same, and each job another MASTER_PORT"
done
anew
start 0 2; start 1 2 WEIR_INTERFACE=absent
for rank in 0 1; do
  ended $rank 1
  says $rank err "rank 1 on $(hostname): WEIR_INTERFACE is 'absent': this host has lo"
done
anew
start 0 2 MASTER_ADDR=
ended 0 1
says 0 err "rank 0 of 2, and MASTER_ADDR is not set"
anew
start 0 2 -- too_late
ended 0 1
says 0 err "rank 0 of 2, and MPI was initialised before Weir, for this process alone"
echo "wrong variables"

for what in dies forks; do
  anew
  lost=$([ $what = dies ] && echo 2 || echo 1)
  for rank in 0 1 2 3; do start $rank 4 -- $what; done
  for rank in 0 1 2 3; do
    [ $rank = "$lost" ] && { ended $rank 9; continue; }
    ended $rank 1
    says $rank err "rank $lost (process ${pid[lost]} on $(hostname)) has ended without finalising MPI"
  done
done
anew
for rank in 0 1 2; do start $rank 3 -- aborts; done
for rank in 0 1 2; do ended $rank 7; done
says 0 err "rank 1 has called MPI_Abort"
anew # a process that says hello, and ends while MPI starts
start 0 3
start 1 3
for ((i = 0; i < 100; i++)); do
  exec {false_rank}<> /dev/tcp/127.0.0.1/$((port + 1)) && break
  sleep 0.05
done 2> "$work/connect"
version=$(strings "$program" 2> /dev/null | grep -m 1 -x "0\.[0-9]*\.[0-9]*" || echo 0.1.0)
echo "weir-start-1 job.$port 2 3 $version 77 elsewhere 0 tcp" >&"$false_rank"
read -r answer <&"$false_rank"
read -r answer <&"$false_rank"
[[ $answer == go* ]] || fail "the false rank heard: $answer"
exec {false_rank}>&-
for rank in 0 1; do
  ended $rank 1
  says $rank err "weir: MPI cannot start: rank 2 (process 77 on elsewhere) has ended without finalising MPI"
done
echo "ranks that end early"

if [ "$(id -u)" = 0 ] && unshare -mn true 2> /dev/null; then
  anew
  # shellcheck disable=SC2016  # the inner shell expands it
  unshare -mn bash -c '
    ip link set lo up
    mount -t tmpfs -o ro none /dev/shm
    export WORLD_SIZE=2 MASTER_ADDR=::1 MASTER_PORT=29500
    RANK=1 "$0" & RANK=0 "$0"; wait' "$program" > "$work/0.out" 2> "$work/0.err"
  says 0 out "rank 0 of 2"
  says 0 out "rank 1 of 2"
  says 0 err "/dev/shm is missing or cannot be written to; MPICH takes up to 6 MiB there for each rank"
  echo "IPv6 only, no /dev/shm"

  anew # the name of the host as Debian writes it into /etc/hosts
  echo "127.0.1.1 trap" > "$work/hosts"
  # shellcheck disable=SC2016  # the inner shell expands it
  unshare -m bash -c '
    mount --bind "$1" /etc/hosts
    export WORLD_SIZE=2 MASTER_ADDR=trap MASTER_PORT=$2
    RANK=1 "$0" & RANK=0 "$0"; wait' "$program" "$work/hosts" "$port" > "$work/0.out" 2> "$work/0.err"
  says 0 out "rank 0 of 2"
  echo "a name that resolves to 127.0.1.1"

  anew # packets that nobody answers, as behind a firewall
  # shellcheck disable=SC2016  # the inner shell expands it
  unshare -mn bash -c '
    ip link set lo up
    ip link add dead type dummy && ip addr add 10.99.0.1/24 dev dead && ip link set dead up
    RANK=1 WORLD_SIZE=2 MASTER_ADDR=10.99.0.2 MASTER_PORT=29500 WEIR_TIMEOUT=1 "$0"' "$program" > "$work/0.out" 2> "$work/0.err"
  says 0 err "has not found rank 0 at 10.99.0.2 in 1 s (10.99.0.2:29501: "
  says 0 err "that no firewall closes ports 29501 to 29516"
  echo "a firewall"
else
  echo "namespaces (IPv6 only, no /dev/shm, 127.0.1.1, firewalls): skipped, which needs root"
fi
