/* A program that was written and compiled when Weir was young: against the first headers (first_header/), on today's library. */
#include <stdlib.h>
#include <weir/mpi.h>

#include "expect.h"

int main(int argc, char** argv) {
  enum { n = 1000 };
  weir_allreduce_config config = WEIR_ALLREDUCE_CONFIG_INIT;
  weir_statistics statistics = {.struct_size = sizeof(statistics)};
  weir_sparse_result result = {.struct_size = sizeof(result)};
  weir_comm* comm = NULL;
  weir_plan* plan = NULL;
  float* gradient = malloc(n * sizeof(float));
  int size = 0, i, done = 0;

  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  EXPECT(sizeof(config) == 96 && sizeof(statistics) == 328); /* as then */

  EXPECT(weir_comm_create_mpi(MPI_COMM_WORLD, &comm) == WEIR_OK);
  EXPECT(weir_comm_size(comm, &size) == WEIR_OK);
  config.count = n;
  EXPECT(weir_plan_create(comm, &config, &plan) == WEIR_OK);
  for (i = 0; i < n; ++i) gradient[i] = 0.001f;
  gradient[500] = 10.0f;
  EXPECT(weir_plan_run(plan, gradient) == WEIR_OK && gradient[500] == 10.0f);
  EXPECT(weir_plan_start_sparse(plan, gradient) == WEIR_OK);
  while (!done) EXPECT(weir_plan_test(plan, &done) == WEIR_OK);
  EXPECT(weir_plan_wait(plan) == WEIR_OK);
  EXPECT(weir_plan_sparse_result(plan, &result) == WEIR_OK && result.count == 10);
  EXPECT(weir_plan_get_statistics(plan, &statistics) == WEIR_OK);
  EXPECT(statistics.iteration == 2 && statistics.k == 10);
  EXPECT(statistics.struct_size == sizeof(statistics));
  config.density = 2;
  EXPECT(weir_plan_destroy(plan) == WEIR_OK);
  EXPECT(weir_plan_create(comm, &config, &plan) == WEIR_ERR_ARGUMENT && plan == NULL);
  EXPECT_TEXT(weir_last_error(comm), "density is 2");
  EXPECT(weir_comm_destroy(comm) == WEIR_OK);

  free(gradient);
  if (rank == 0) printf("test_first_header passed on %d ranks\n", size);
  MPI_Finalize();
  return 0;
}
