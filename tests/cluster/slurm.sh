# slurm.sh: SLURM on the nodes of the cluster; a part of the cluster script, which sources it.
# shellcheck shell=bash disable=SC2154

write_slurm_conf() {
  cat >"$slurm/slurm.conf" <<END
ClusterName=weir
SlurmctldHost=${nodes[0]}($subnet.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$slurm/munge/socket,cred_expire=10
StateSaveLocation=$slurm/state
SlurmdSpoolDir=$slurm/spool-%n
SlurmctldLogFile=$slurm/log/slurmctld.log
SlurmdLogFile=$slurm/log/slurmd-%n.log
SlurmctldPidFile=$slurm/slurmctld.pid
SlurmdPidFile=$slurm/slurmd-%n.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
TopologyPlugin=topology/tree
JobRequeue=1
MinJobAge=3600
ReturnToService=2
SlurmdTimeout=15
KillWait=10
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobCompType=jobcomp/filetxt
JobCompLoc=$slurm/jobcomp
SchedulerParameters=bf_interval=2,sched_interval=2
END
  local i
  for i in "${!nodes[@]}"; do
    echo "NodeName=${nodes[i]} NodeAddr=$subnet.$((i + 1)) CPUs=8 Sockets=1 CoresPerSocket=8"
  done >>"$slurm/slurm.conf"
  cat >>"$slurm/slurm.conf" <<END
PartitionName=weir Nodes=ALL Default=YES MaxTime=INFINITE OverSubscribe=YES PriorityTier=1 GraceTime=10
PartitionName=urgent Nodes=ALL MaxTime=INFINITE PriorityTier=2 PreemptMode=OFF
END
  echo "PMIxCliTmpDirBase=$slurm/pmix" >"$slurm/mpi.conf"
  echo "ConstrainCores=no" >"$slurm/cgroup.conf"
}

write_switches() {
  local i leaves=
  for ((i = 0; i < ${#nodes[@]}; i += 2)); do
    echo "SwitchName=leaf$((i / 2)) Nodes=${nodes[i]}${nodes[i + 1]:+,${nodes[i + 1]}}"
    leaves+=${leaves:+,}leaf$((i / 2))
  done >"$slurm/topology.conf"
  echo "SwitchName=spine Switches=$leaves" >>"$slurm/topology.conf"
}

# The cluster has its own munged, so that the machine's does not change.
start_munge() {
  local d=$slurm/munge
  mkdir -p "$d"
  chmod 755 "$state" "$slurm" "$d"
  (umask 077; head -c 128 /dev/urandom >"$d/key")
  start_daemon "${nodes[0]}" munged --socket="$d/socket" --key-file="$d/key" --pid-file="$d/pid" --seed-file="$d/seed" \
    --log-file="$d/log"
}

# start_daemon NODE CMD...: CMD puts itself into the background.
start_daemon() {
  (on_node "$@") >"$slurm/log/start" 2>&1 </dev/null || die "$2 on $1 failed: $(cat "$slurm/log/start")"
}

# The nodes of a real cluster would not share this folder: PMIx names its files only after the job.
start_slurmd() {
  local node=$1
  rm -rf "$slurm/spool-$node" # left by a dead node: PMIx cannot reuse its sockets for another step of the same number
  mkdir -p "$slurm/spool-$node" "$slurm/pmix"
  (on_node "$node" mount -t tmpfs tmpfs "$slurm/pmix")
  start_daemon "$node" slurmd -N "$node" -f "$slurm/slurm.conf"
}

slurm_up() {
  need slurmctld slurmctld
  need slurmd slurmd
  need sinfo slurm-client
  need munged munge
  local node try
  [ ! -e "$slurm" ] || die "SLURM was started before in this cluster; for a fresh one: cluster up, cluster slurm up"
  mkdir -p "$slurm/state" "$slurm/log"
  write_slurm_conf
  write_switches
  start_munge
  start_daemon "${nodes[0]}" slurmctld -c -f "$slurm/slurm.conf"
  for node in "${nodes[@]}"; do
    start_slurmd "$node"
  done
  for ((try = 0; try < 60; try++)); do
    if [ "$( (on_node "${nodes[0]}" sinfo -h -t idle -o %D) 2>/dev/null)" = "${#nodes[@]}" ]; then
      touch "$slurm/up"
      echo "cluster: SLURM is up on ${#nodes[@]} nodes"
      return
    fi
    sleep 1
  done
  die "SLURM did not come up within a minute; see $slurm/log"
}

slurm_run() {
  [ -f "$slurm/up" ] || die "SLURM is not up: cluster slurm up"
  need srun slurm-client
  on_node "${nodes[0]}" "$@"
}
