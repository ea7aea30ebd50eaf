#include <stdio.h>
#include <weir/mpi.h>

static weir_comm* comm;

static void check(weir_status status) {
  if (status == WEIR_OK) return;
  fprintf(stderr, "%s\n", weir_last_error(comm));
  MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char** argv) {
  static float gradient[1000];
  weir_allreduce_config config = WEIR_ALLREDUCE_CONFIG_INIT;
  weir_statistics statistics = {.struct_size = sizeof(statistics)};
  weir_plan* plan;
  int rank, size;

  MPI_Init(&argc, &argv);
  check(weir_comm_create_mpi(MPI_COMM_WORLD, &comm)); /* finds nodes, sockets, caches */
  check(weir_comm_rank(comm, &rank));
  check(weir_comm_size(comm, &size));
  gradient[rank] = 5; /* this rank's gradient */
  gradient[500] = 10;

  config.count = 1000;
  config.density = 0.01;
  check(weir_plan_create(comm, &config, &plan)); /* made once per array */
  check(weir_plan_run(plan, gradient));          /* in place: the mean of the ranks' largest entries */

  check(weir_plan_start(plan, gradient)); /* the same, overlapped with your computation here */
  check(weir_plan_wait(plan));

  check(weir_plan_get_statistics(plan, &statistics));
  printf("rank %d of %d: %.2f %.2f, %lld bytes sent\n", rank, size, gradient[rank], gradient[500],
         (long long)statistics.payload_bytes_sent);
  check(weir_plan_destroy(plan));
  check(weir_comm_destroy(comm)); /* before MPI_Finalize */
  MPI_Finalize();
  return 0;
}
