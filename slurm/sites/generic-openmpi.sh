# Any cluster with Open MPI. Tested on tests/cluster.
# shellcheck shell=bash disable=SC2034
site_clusters=""
site_mpi=openmpi
site_modules=()
site_sbatch=()
# srun forwards signals to the ranks. Open MPI's mpirun forwards SIGUSR1, but SIGTERM, which preemption sends, ends it.
if srun --mpi=list 2>&1 | grep -qw pmix; then
  site_launcher=(srun --mpi=pmix)
else
  site_launcher=(mpirun)
fi
# By default, fences without data use a tree, and Open MPI's MPI_Init ends with such a fence. Since 20.11 SLURM's tree does not
# leave the node if a job has fewer nodes than TreeWidth (50). A late rank then crashes when a message arrives too early.
site_environment() { export SLURM_PMIX_FENCE=ring; }
