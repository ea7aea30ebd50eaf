# Not run there. Perlmutter of NERSC, GPU nodes: 4 NVIDIA A100 each.
# Written from general knowledge of its public documentation: check modules and options.
# shellcheck shell=bash disable=SC2034
site_clusters="perlmutter"
site_mpi=mpich
site_modules=(PrgEnv-gnu cray-mpich cudatoolkit craype-accel-nvidia80)
# Users add --account=mNNNN.
site_sbatch=(--constraint=gpu --qos=regular --ntasks-per-node=4 --cpus-per-task=32 --gpus-per-node=4)
# All GPUs of the node stay visible to its ranks, because messages between GPUs need that. Weir takes the nearest one.
site_launcher=(srun --cpu-bind=cores --gpu-bind=none)
site_scratch=${PSCRATCH:-}
site_environment() {
  export MPICH_GPU_SUPPORT_ENABLED=1
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
}
