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
