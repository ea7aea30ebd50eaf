# Any HPE Cray EX with Cray MPICH, host memory. Not run there: written from public documentation.
# shellcheck shell=bash disable=SC2034
site_clusters=""
site_mpi=mpich
site_modules=(PrgEnv-gnu cray-mpich)
site_sbatch=(--hint=nomultithread)
site_launcher=(srun --cpu-bind=cores)
