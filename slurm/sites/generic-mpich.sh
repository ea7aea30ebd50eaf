# Any cluster with MPICH, or an MPI of its ABI such as MVAPICH or Intel MPI. Tested on tests/cluster.
# shellcheck shell=bash disable=SC2034
site_clusters=""
site_mpi=mpich
site_modules=()
site_sbatch=()
site_launcher=(srun --mpi=pmi2)
