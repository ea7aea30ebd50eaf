/* Communicators and plans from plain C under mpirun: each call, each kind of wrong argument, and a config of the first header. */
#include <math.h>

#include "expect.h"

enum { n = 1000, first_config_size = 96, first_statistics_size = 328 };

/* A caller with the first header, which lacks newer fields. */
static void check_later_fields(weir_comm* comm) {
  float gradient[n] = {1};
  weir_plan* plan = NULL;
  weir_allreduce_config config = WEIR_ALLREDUCE_CONFIG_INIT;
  weir_statistics statistics = {.struct_size = sizeof(statistics)};
  EXPECT(strcmp(config.threshold, "exact") == 0 && config.threshold_parameters[0] == 0 &&
         config.wire_format == WEIR_WIRE_FORMAT_COMPACT);
  config.count = n;
  config.threshold = "sampler";
  REFUSED(weir_plan_create(comm, &config, &plan), comm, "there is no threshold 'sampler'");
  config.threshold = "mstopk";
  config.threshold_parameters = "samplings=20";
  config.wire_format = -1;
  REFUSED(weir_plan_create(comm, &config, &plan), comm, "wire_format is -1");
  config.wire_format = WEIR_WIRE_FORMAT_COO;
  config.wire_values = WEIR_WIRE_VALUES_BFLOAT16;
  OK(weir_plan_create(comm, &config, &plan));
  OK(weir_plan_run(plan, gradient));
  OK(weir_plan_get_statistics(plan, &statistics));
  EXPECT(gradient[0] == 1 && statistics.seconds_in_node >= 0);
  OK(weir_plan_destroy(plan));

  config.struct_size = first_config_size; /* bytes beyond the struct are not read */
  config.wire_values = 77;
  config.threshold_parameters = "nothing=that is read";
  OK(weir_plan_create(comm, &config, &plan));
  OK(weir_plan_run(plan, gradient));
  statistics.struct_size = first_statistics_size; /* nor written */
  statistics.seconds_in_node = -1;
  OK(weir_plan_get_statistics(plan, &statistics));
  EXPECT(statistics.struct_size == first_statistics_size && statistics.iteration == 1 && statistics.seconds_in_node == -1);
  OK(weir_plan_destroy(plan));
  config.struct_size = sizeof(config);
  WRONG(weir_plan_create(comm, &config, &plan));
}

/* Wrong arguments of one rank in making a communicator or a plan are refused on all ranks. */
static void check_refused_making(weir_comm* comm) {
  weir_allreduce_config config = WEIR_ALLREDUCE_CONFIG_INIT;
  weir_comm* refused = NULL;
  weir_plan* plan = NULL;
  int value = 0;
  WRONG(weir_comm_create_mpi(MPI_COMM_NULL, &refused));
  REFUSED(weir_comm_create_mpi(MPI_COMM_WORLD, last ? NULL : &refused), NULL, "the address for the communicator is NULL");
  EXPECT(refused == NULL);
  WRONG(weir_comm_size(NULL, &value));
  config.count = n;
  if (rank == 0) config.density = 2;
  REFUSED(weir_plan_create(comm, &config, &plan), comm, "density is 2");
  config.density = 0.01;
  WRONG(weir_plan_create(comm, rank == 0 ? NULL : &config, &plan));
  WRONG(rank == 0 ? weir_comm_refuse(comm, "plan", "it is too late") : weir_plan_create(comm, &config, &plan));
  EXPECT_TEXT(weir_last_error(comm), rank == 0 ? "plan '', rank 0: it is too late" : "plan 'allreduce', rank 0: it is too late");
  EXPECT(weir_comm_refuse(comm, NULL, NULL) == WEIR_ERR_ARGUMENT && weir_comm_refuse(NULL, "plan", "") == WEIR_ERR_ARGUMENT);
  config.struct_size = rank == 0 ? 3 : sizeof(config);
  WRONG(weir_plan_create(comm, &config, &plan));
  config.struct_size = sizeof(config);
  config.algorithm = "quick";
  REFUSED(weir_plan_create(comm, &config, &plan), comm, "known are dense_ring");
  EXPECT(plan == NULL);
}

/* Every form of a run, in host memory: streams are for plans in CUDA memory. */
static void check_runs(weir_comm* comm, weir_plan* plan) {
  weir_sparse_result result = {sizeof(result), 0, NULL, NULL};
  weir_statistics statistics = {.struct_size = sizeof(statistics)};
  float gradient[n];
  int done = 0, i;
  for (i = 0; i < n; ++i) gradient[i] = 0.001f;
  gradient[500] = 10.0f;
  gradient[rank] = 5.0f;
  OK(weir_plan_run(plan, gradient));
  EXPECT(gradient[500] == 10.0f && fabsf(gradient[0] - 5.0f / (float)ranks) < 0.01f);
  OK(weir_plan_get_statistics(plan, &statistics));
  EXPECT(statistics.iteration == 1 && statistics.k == 10);
  OK(weir_plan_start(plan, gradient));
  OK(weir_plan_wait(plan));
  OK(weir_plan_start_sparse(plan, gradient));
  while (!done) OK(weir_plan_test(plan, &done));
  OK(weir_plan_start_sparse(plan, gradient));
  for (done = 0; !done;) OK(weir_plan_wait_for(plan, 0.001, &done));
  EXPECT(weir_plan_wait_for(plan, 0, NULL) == WEIR_ERR_ARGUMENT && weir_plan_wait_for(NULL, 0, &done) == WEIR_ERR_ARGUMENT);
  OK(weir_plan_sparse_result(plan, &result));
  EXPECT(result.count == 10 && result.indices != NULL && result.values != NULL);
  OK(weir_plan_run_sparse(plan, gradient, NULL));
  OK(weir_plan_run_on_stream(plan, gradient, NULL));
  REFUSED(weir_plan_run_on_stream(plan, gradient, rank == 0 ? comm : NULL), comm, "rank 0 gave a stream");
  WRONG(weir_plan_run_sparse_on_stream(plan, gradient, rank == 0 ? comm : NULL, &result));
  OK(weir_plan_start_on_stream(plan, gradient, rank == 0 ? comm : NULL));
  WRONG(weir_plan_wait(plan));
  OK(weir_plan_start_sparse_on_stream(plan, gradient, NULL));
  if (weir_plan_start_sparse(plan, gradient) == WEIR_ERR_BUSY) EXPECT_TEXT(weir_last_error(comm), "is running");
  OK(weir_plan_wait(plan)); /* for the one that was not refused */

  REFUSED(weir_plan_run(plan, rank == 0 ? NULL : gradient), comm, "rank 0 gave a null gradient");
  REFUSED(weir_plan_run(plan, rank == 0 ? (char*)gradient + 1 : (char*)gradient), comm, "not aligned");
  gradient[3] = last ? NAN : 1.0f;
  EXPECT(weir_plan_run(plan, gradient) == WEIR_ERR_NON_FINITE);
  WRONG(weir_plan_run(NULL, gradient));
  result.struct_size = 0;
  WRONG(weir_plan_sparse_result(plan, &result));
  WRONG(weir_plan_get_statistics(plan, NULL));
  OK(weir_plan_scale_residual(plan, 0.5));
  REFUSED(weir_plan_scale_residual(plan, NAN), comm, "the factor must be positive and finite");
  OK(weir_plan_reset(plan));
}

int main(int argc, char** argv) {
  weir_comm* comm = NULL;
  weir_plan* plan = NULL;
  weir_allreduce_config config = WEIR_ALLREDUCE_CONFIG_INIT;
  float gradient[n] = {1};
  int size = 0, my_rank = -1, major = -1;

  REFUSED(weir_comm_create_mpi(MPI_COMM_WORLD, &comm), NULL, "MPI is not running");
  MPI_Init(&argc, &argv);
  find_ranks();
  weir_version(&major, NULL, NULL);
  EXPECT(major == WEIR_VERSION_MAJOR && strcmp(weir_status_string(WEIR_OK), "success") == 0);
  OK(weir_comm_create_mpi(MPI_COMM_WORLD, &comm));
  OK(weir_comm_rank(comm, &my_rank));
  OK(weir_comm_size(comm, &size));
  EXPECT(my_rank == rank && size == ranks);
  check_refused_making(comm);
  config.count = n;
  OK(weir_plan_create(comm, &config, &plan));
  EXPECT(strlen(weir_plan_explanation(plan)) > 0 && weir_plan_explanation(NULL) == NULL);
  check_runs(comm, plan);
  check_later_fields(comm);

  /* a communicator that is still in use is not destroyed, and stays usable */
  FAILS(weir_comm_destroy(comm), WEIR_ERR_BUSY, comm,
        "1 plan(s), table(s), fused allreduce(s), schedule(s) or checkpoint(s) still use");
  OK(weir_plan_run(plan, gradient));
  EXPECT(weir_plan_destroy(plan) == WEIR_OK && weir_plan_destroy(NULL) == WEIR_OK);
  EXPECT(weir_comm_destroy(comm) == WEIR_OK && weir_comm_destroy(NULL) == WEIR_OK);
  if (rank == 0) printf("test_capi passed on %d ranks\n", ranks);
  MPI_Finalize();
  return 0;
}
