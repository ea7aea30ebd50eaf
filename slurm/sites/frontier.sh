# Not run there. Frontier of OLCF, its processors: 56 of 64 cores of a node are the job's. Written from docs.olcf.ornl.gov, as far as it could be read: check modules and options. Weir has no code for AMD GPUs.
# shellcheck shell=bash disable=SC2034
site_clusters="frontier"
site_mpi=mpich
site_modules=(PrgEnv-gnu cray-mpich)
# And --account=PROJECT. One core of each L3 cache is the system's, so that 8 ranks a node have 7 cores each.
site_sbatch=(--partition=batch --ntasks-per-node=8 --cpus-per-task=7)
site_launcher=(srun --cpu-bind=cores)
site_scratch=${SLURM_JOB_ACCOUNT:+/lustre/orion/$SLURM_JOB_ACCOUNT/scratch/${USER:-}}
site_environment() {
  # Each rank uses the network card of its NUMA domain.
  export MPICH_OFI_NIC_POLICY=NUMA
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
}
