/* One allreduce from C. */
#include <stdio.h>
#include <stdlib.h>
#include <weir/mpi.h>

int main(void) {
  MPI_Init(NULL, NULL);
  weir_comm* comm = NULL;
  weir_plan* plan = NULL;
  int size = 0;
  float* gradient = calloc(1000, sizeof(float));
  weir_allreduce_config config = WEIR_ALLREDUCE_CONFIG_INIT;
  config.count = 1000;
  config.density = 0.01;
  if (gradient == NULL || weir_comm_create_mpi(MPI_COMM_WORLD, &comm) != WEIR_OK || weir_comm_size(comm, &size) != WEIR_OK)
    return 1;
  if (weir_plan_create(comm, &config, &plan) != WEIR_OK || weir_plan_run(plan, gradient) != WEIR_OK) return 1;
  printf("%d rank\n", size);
  weir_plan_destroy(plan);
  weir_comm_destroy(comm);
  free(gradient);
  MPI_Finalize();
  return 0;
}
