# Not run there. LUMI of CSC, processors of LUMI-C: 128 cores per node. Weir has no code for AMD GPUs.
# Written from docs.lumi-supercomputer.eu: check the names of modules.
# shellcheck shell=bash disable=SC2034
site_clusters="lumi"
site_mpi=mpich
site_modules=(LUMI partition/C PrgEnv-gnu cray-mpich)
# Users add --account=project_NNNNNNNNN. Nodes of `standard` are exclusive; --mem=0 asks for all of their memory.
site_sbatch=(--partition=standard --mem=0 --hint=nomultithread)
site_launcher=(srun --cpu-bind=cores)
site_scratch=${SLURM_JOB_ACCOUNT:+/scratch/$SLURM_JOB_ACCOUNT}
site_environment() {
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
}
