# Any cluster with Open MPI. Tested on tests/cluster.
# shellcheck shell=bash disable=SC2034
site_clusters=""
site_mpi=openmpi
site_modules=()
site_sbatch=()
# srun passes signals on to the ranks. mpirun of Open MPI passes on SIGUSR1, but ends at the SIGTERM of preemption.
if srun --mpi=list 2>&1 | grep -qw pmix; then
  site_launcher=(srun --mpi=pmix)
else
  site_launcher=(mpirun)
fi
# Fences without data, one of which ends Open MPI's MPI_Init, go over a tree unless told otherwise, and since 20.11 SLURM's tree does not leave the
# node where a job has fewer nodes than TreeWidth (50). A rank that is late then crashes at a message that comes too early.
site_environment() { export SLURM_PMIX_FENCE=ring; }
