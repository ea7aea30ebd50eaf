# Not run there. Alps of CSCS (Daint), 4 NVIDIA GH200 a node. Written from docs.cscs.ch.
# shellcheck shell=bash disable=SC2034
site_clusters="daint clariden santis"
site_mpi=mpich
# Cray MPICH and the compilers come with a uenv, not with modules.
site_modules=()
# Users add --account=gNNN. Each GPU has one rank, with the 72 cores next to it.
site_sbatch=(--uenv=prgenv-gnu/24.11:v2 --view=default --ntasks-per-node=4 --gpus-per-task=1 --cpus-per-task=72 --hint=nomultithread)
site_launcher=(srun --cpu-bind=cores)
site_scratch=${SCRATCH:-}
site_environment() {
  export MPICH_GPU_SUPPORT_ENABLED=1
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
}
