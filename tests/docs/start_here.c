/* Averages an array over all ranks; of each rank's array, the largest 1 % cross the network. */
#include <inttypes.h>
#include <stdio.h>
#include <weir/mpi.h>

enum { n = 1000000 };
static float gradient[n];

static void check(weir_status status, const weir_comm* comm) {
  if (status == WEIR_OK) return;
  fprintf(stderr, "%s\n", weir_last_error(comm));
  MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char** argv) {
  weir_comm* comm = NULL;
  weir_plan* plan = NULL;
  weir_allreduce_config config = WEIR_ALLREDUCE_CONFIG_INIT;
  weir_statistics run = {.struct_size = sizeof(run)};
  int rank;

  MPI_Init(&argc, &argv);
  check(weir_comm_create_mpi(MPI_COMM_WORLD, &comm), NULL); /* finds nodes, sockets, caches */
  check(weir_comm_rank(comm, &rank), comm);
  config.count = n;
  config.density = 0.01;
  check(weir_allreduce_plan_create(comm, &config, &plan), comm); /* made once per array */

  for (int step = 1; step <= 3; ++step) {
    for (int64_t i = 0; i < n; ++i) gradient[i] = (float)((7919 * i + step + rank) % 1000003);
    check(weir_plan_start(plan, gradient), comm); /* returns at once; weir_plan_run(plan, gradient) does both */
    /* compute here what does not need the gradient */
    check(weir_plan_wait(plan), comm); /* now the gradient is the mean of the ranks' largest entries, and zero elsewhere */

    check(weir_plan_statistics(plan, &run), comm);
    if (rank == 0)
      printf("step %d: %" PRId64 " of %d entries, %" PRId64 " bytes sent\n", step, run.selected_global, n, run.payload_bytes_sent);
  }

  check(weir_plan_destroy(plan), comm);
  check(weir_comm_destroy(comm), comm); /* before MPI_Finalize */
  MPI_Finalize();
  return 0;
}
