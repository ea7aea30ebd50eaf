/* The C interface, used from plain C under mpirun: what a C code would do, and what it would do wrong. */
#include <math.h>
#include <weir/mpi.h>

#include "expect.h"

/* Everything that the first header did not have: thresholds by estimate, wire formats, and its own, smaller structs. */
static void check_later_fields(weir_comm* comm) {
  enum { n = 1000, first_config_size = 96, first_statistics_size = 328 };
  float gradient[n];
  weir_plan* plan = NULL;
  weir_allreduce_config config = WEIR_ALLREDUCE_CONFIG_INIT;
  weir_statistics statistics = {.struct_size = sizeof(statistics)};
  const char* const thresholds[] = {"exact", "reuse", "mstopk", "sampled", "gaussian", "sidco"};
  int threshold, i;
  EXPECT(strcmp(config.threshold, "exact") == 0 && strcmp(config.threshold_parameters, "") == 0 && config.wire_format == WEIR_WIRE_FORMAT_COMPACT && config.wire_values == WEIR_WIRE_VALUES_NATIVE);
  config.count = n;

  for (threshold = 0; threshold < 6; ++threshold) {
    config.algorithm = threshold % 2 ? "hi_oktopk" : "oktopk";
    config.threshold = thresholds[threshold];
    config.threshold_parameters = threshold == 2 ? "samplings=20" : "";
    config.wire_format = threshold % 2 ? WEIR_WIRE_FORMAT_COO : WEIR_WIRE_FORMAT_COMPACT;
    config.wire_values = threshold % 3; /* each of native, bfloat16, float16 */
    EXPECT(weir_plan_create(comm, &config, &plan) == WEIR_OK);
    for (i = 0; i < n; ++i) gradient[i] = 1e-6f * (float)i;
    for (i = 0; i < 10; ++i) gradient[100 * i] = (float)(1 << i); /* exact in all formats */
    EXPECT(weir_plan_run(plan, gradient) == WEIR_OK);
    EXPECT(gradient[900] == 512.0f);
    EXPECT(threshold != 0 || gradient[0] == 1.0f);
    EXPECT(weir_plan_get_statistics(plan, &statistics) == WEIR_OK);
    EXPECT(statistics.seconds_in_node >= 0 && statistics.seconds_in_node <= statistics.seconds_total);
    EXPECT(weir_plan_destroy(plan) == WEIR_OK);
  }

  config.algorithm = "auto";
  config.threshold = "exact";
  config.wire_values = WEIR_WIRE_VALUES_NATIVE;
  config.trial_iterations = 1;
  EXPECT(weir_plan_create(comm, &config, &plan) == WEIR_OK);
  EXPECT_TEXT(weir_plan_explanation(plan), "auto of 1000 float32");
  EXPECT(weir_plan_explanation(NULL) == NULL);
  for (i = 0; i < 6; ++i) EXPECT(weir_plan_run(plan, gradient) == WEIR_OK);
  EXPECT(weir_plan_destroy(plan) == WEIR_OK);
  config.trial_iterations = 0;

  config.threshold = "sampler";
  EXPECT(weir_plan_create(comm, &config, &plan) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "there is no threshold 'sampler'");
  config.threshold = "exact";
  config.wire_format = -1;
  EXPECT(weir_plan_create(comm, &config, &plan) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "wire_format is -1");
  config.wire_format = WEIR_WIRE_FORMAT_COMPACT;
  config.wire_values = WEIR_WIRE_VALUES_BFLOAT16;
  config.type = WEIR_FLOAT64;
  EXPECT(weir_plan_create(comm, &config, &plan) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "needs float32");

  /* a caller with the first header's config: what lies beyond its struct is not read */
  config.struct_size = first_config_size;
  config.wire_values = 77;
  config.threshold_parameters = "nothing=that is read";
  EXPECT(weir_plan_create(comm, &config, &plan) == WEIR_OK);
  EXPECT(weir_plan_destroy(plan) == WEIR_OK);
  config.struct_size = sizeof(config);
  EXPECT(weir_plan_create(comm, &config, &plan) == WEIR_ERR_ARGUMENT);

  /* and with its statistics: what lies beyond is not written */
  config.struct_size = first_config_size;
  config.type = WEIR_FLOAT32;
  EXPECT(weir_plan_create(comm, &config, &plan) == WEIR_OK);
  EXPECT(weir_plan_run(plan, gradient) == WEIR_OK);
  statistics.struct_size = first_statistics_size;
  statistics.seconds_in_node = -1;
  EXPECT(weir_plan_get_statistics(plan, &statistics) == WEIR_OK);
  EXPECT(statistics.struct_size == first_statistics_size && statistics.iteration == 1 && statistics.seconds_in_node == -1);
  EXPECT(weir_plan_destroy(plan) == WEIR_OK);
}

/* A wrong call of one rank in what is collective: the others must not wait for it. */
static void check_refused_communicator(void) {
  weir_comm* comm = NULL;
  int size;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  EXPECT(weir_comm_create_mpi(MPI_COMM_WORLD, rank == size - 1 ? NULL : &comm) == WEIR_ERR_ARGUMENT);
  EXPECT(comm == NULL);
  EXPECT_TEXT(weir_last_error(NULL), "the address for the communicator is NULL");
}

int main(int argc, char** argv) {
  enum { n = 1000 };
  weir_comm* comm = NULL;
  weir_plan* plan = NULL;
  weir_allreduce_config config = WEIR_ALLREDUCE_CONFIG_INIT;
  weir_sparse_result result = {sizeof(result), 0, NULL, NULL};
  weir_statistics statistics = {.struct_size = sizeof(statistics)};
  float gradient[n];
  int size = 0, my_rank = -1, done = 0, major = -1, i;

  EXPECT(weir_comm_create_mpi(MPI_COMM_WORLD, &comm) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(NULL), "MPI is not running");
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);

  weir_version(&major, NULL, NULL);
  EXPECT(major == WEIR_VERSION_MAJOR);
  EXPECT(strcmp(weir_status_string(WEIR_OK), "success") == 0);
  EXPECT(weir_algorithm_name(0) != NULL && weir_algorithm_name(-1) == NULL && weir_algorithm_name(1000) == NULL);

  EXPECT(weir_comm_create_mpi(MPI_COMM_NULL, &comm) == WEIR_ERR_ARGUMENT && comm == NULL);
  check_refused_communicator();
  EXPECT(weir_comm_create_mpi(MPI_COMM_WORLD, &comm) == WEIR_OK);
  EXPECT(weir_comm_rank(comm, &my_rank) == WEIR_OK && my_rank == rank);
  EXPECT(weir_comm_size(comm, &size) == WEIR_OK);
  EXPECT(weir_comm_size(NULL, &size) == WEIR_ERR_ARGUMENT);

  /* a config that one rank spoils is refused on all */
  config.count = n;
  if (rank == 0) config.density = 2;
  EXPECT(weir_plan_create(comm, &config, &plan) == WEIR_ERR_ARGUMENT && plan == NULL);
  EXPECT_TEXT(weir_last_error(comm), "density is 2");
  config.density = 0.01;
  EXPECT(weir_plan_create(comm, rank == 0 ? NULL : &config, &plan) == WEIR_ERR_ARGUMENT && plan == NULL);
  EXPECT((rank == 0 ? weir_comm_refuse(comm, "plan", "it is too late") : weir_plan_create(comm, &config, &plan)) ==
         WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), rank == 0 ? "plan '', rank 0: it is too late" : "plan 'allreduce', rank 0: it is too late");
  EXPECT(weir_comm_refuse(comm, NULL, NULL) == WEIR_ERR_ARGUMENT && weir_comm_refuse(NULL, "plan", "") == WEIR_ERR_ARGUMENT);
  config.struct_size = rank == 0 ? 3 : sizeof(config);
  EXPECT(weir_plan_create(comm, &config, &plan) == WEIR_ERR_ARGUMENT && plan == NULL);
  config.struct_size = sizeof(config);
  config.algorithm = "quick";
  EXPECT(weir_plan_create(comm, &config, &plan) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "known are dense_ring");
  config.algorithm = "oktopk";
  EXPECT(weir_plan_create(comm, &config, &plan) == WEIR_OK);

  /* in place: every rank has one large entry at its own index, all have one at 500 */
  for (i = 0; i < n; ++i) gradient[i] = 0.001f;
  gradient[500] = 10.0f;
  gradient[rank] = 5.0f;
  EXPECT(weir_plan_run(plan, gradient) == WEIR_OK);
  EXPECT(gradient[500] == 10.0f);
  EXPECT(fabsf(gradient[0] - 5.0f / (float)size) < 0.01f); /* the others' 0.001 ties are selected there as well */
  EXPECT(weir_plan_get_statistics(plan, &statistics) == WEIR_OK);
  EXPECT(statistics.iteration == 1 && statistics.k == 10 && statistics.selected_global == 10);

  /* sparse, nonblocking */
  EXPECT(weir_plan_start_sparse(plan, gradient) == WEIR_OK);
  while (!done) EXPECT(weir_plan_test(plan, &done) == WEIR_OK);
  EXPECT(weir_plan_wait(plan) == WEIR_OK);
  EXPECT(weir_plan_start_sparse(plan, gradient) == WEIR_OK);
  for (done = 0; !done;) EXPECT(weir_plan_wait_for(plan, 0.001, &done) == WEIR_OK);
  EXPECT(weir_plan_wait_for(plan, 0, NULL) == WEIR_ERR_ARGUMENT && weir_plan_wait_for(NULL, 0, &done) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_plan_sparse_result(plan, &result) == WEIR_OK);
  EXPECT(result.count == 10 && result.indices != NULL && result.values != NULL);
  EXPECT(weir_plan_run_sparse(plan, gradient, NULL) == WEIR_OK);

  /* a start that is refused: the one in flight is still waited for */
  EXPECT(weir_plan_start_sparse(plan, gradient) == WEIR_OK);
  if (weir_plan_start_sparse(plan, gradient) == WEIR_ERR_BUSY) EXPECT_TEXT(weir_last_error(comm), "is running");
  EXPECT(weir_plan_wait(plan) == WEIR_OK);
  EXPECT(weir_plan_start_sparse(plan, gradient) == WEIR_OK && weir_plan_wait(plan) == WEIR_OK);

  /* bad calls, on every rank alike; the plan stays usable */
  EXPECT(weir_plan_run(plan, rank == 0 ? NULL : gradient) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "rank 0 gave a null gradient");
  EXPECT(weir_plan_run(plan, rank == 0 ? (char*)gradient + 1 : (char*)gradient) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "not aligned");
  gradient[3] = rank == size - 1 ? NAN : 1.0f;
  EXPECT(weir_plan_run(plan, gradient) == WEIR_ERR_NON_FINITE);
  gradient[3] = 1.0f;
  EXPECT(weir_plan_run(plan, gradient) == WEIR_OK);
  EXPECT(weir_plan_run(NULL, gradient) == WEIR_ERR_ARGUMENT);
  result.struct_size = 0;
  EXPECT(weir_plan_sparse_result(plan, &result) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_plan_get_statistics(plan, NULL) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_plan_scale_residual(plan, 0.5) == WEIR_OK);
  EXPECT(weir_plan_scale_residual(plan, NAN) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "the factor must be positive and finite");
  EXPECT(weir_plan_reset(plan) == WEIR_OK);

  check_later_fields(comm);

  /* a communicator freed early is refused and stays usable */
  EXPECT(weir_comm_destroy(comm) == WEIR_ERR_BUSY);
  EXPECT_TEXT(weir_last_error(comm), "1 plan(s), table(s), fused allreduce(s), schedule(s) or checkpoint(s) still use");
  EXPECT(weir_plan_run(plan, gradient) == WEIR_OK);
  EXPECT(weir_plan_destroy(plan) == WEIR_OK);
  EXPECT(weir_plan_destroy(NULL) == WEIR_OK);
  EXPECT(weir_comm_destroy(comm) == WEIR_OK);
  EXPECT(weir_comm_destroy(NULL) == WEIR_OK);

  if (rank == 0) printf("test_capi passed on %d ranks\n", size);
  MPI_Finalize();
  return 0;
}
