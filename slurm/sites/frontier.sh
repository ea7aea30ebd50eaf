# Not run there. Frontier of OLCF, processors only: a job has 56 of the 64 cores of a node. Weir has no code for AMD GPUs.
# Written from the readable part of docs.olcf.ornl.gov: check modules and options.
# shellcheck shell=bash disable=SC2034
site_clusters="frontier"
site_mpi=mpich
site_modules=(PrgEnv-gnu cray-mpich)
# Users add --account=PROJECT. The system reserves one core of each L3 cache, so 8 ranks per node have 7 cores each.
site_sbatch=(--partition=batch --ntasks-per-node=8 --cpus-per-task=7)
site_launcher=(srun --cpu-bind=cores)
site_scratch=${SLURM_JOB_ACCOUNT:+/lustre/orion/$SLURM_JOB_ACCOUNT/scratch/${USER:-}}
site_environment() {
  # Each rank uses the network card of its NUMA domain.
  export MPICH_OFI_NIC_POLICY=NUMA
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
}
