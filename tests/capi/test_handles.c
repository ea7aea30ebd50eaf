/* Handles used wrongly, structs of newer headers, saved states, encoded gradients, schedules, levels and groups, and what the
 * library says of itself. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#include <weir/embedding.h>
#include <weir/fusion.h>
#include <weir/optim.h>

#include "expect.h"

enum { n = 1000 };

static void fill(float* gradient, int step) {
  int i;
  for (i = 0; i < n; ++i) gradient[i] = (float)((i * 7919 + step * 104729 + rank * 31) % 1009 - 504) / 504.0f;
}

static weir_plan* make_plan(weir_comm* comm, const char* algorithm) {
  weir_allreduce_config config = WEIR_ALLREDUCE_CONFIG_INIT;
  weir_plan* plan = NULL;
  config.count = n;
  config.algorithm = algorithm;
  config.threshold = "reuse";
  OK(weir_plan_create(comm, &config, &plan));
  return plan;
}

/* A destroyed handle, or one of another kind, is refused. */
static void check_dead_handles(void) {
  weir_comm* comm = NULL;
  weir_plan* plan;
  float gradient[n] = {0};
  int value = 0;
  OK(weir_comm_create_world(&comm));
  plan = make_plan(comm, "oktopk");
  REFUSED(weir_plan_run((weir_plan*)comm, gradient), NULL, "the plan does not exist");
  OK(weir_plan_destroy(plan));
  REFUSED(weir_plan_run(plan, gradient), NULL, "it was destroyed before, or never made");
  EXPECT(weir_plan_wait(plan) == WEIR_ERR_ARGUMENT && weir_plan_destroy(plan) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_plan_explanation(plan) == NULL);
  WRONG(weir_embedding_update_wait((weir_embedding*)plan));
  WRONG(weir_schedule_wait_all((weir_schedule*)plan));
  WRONG(weir_fused_wait_all((weir_fused*)plan));
  WRONG(weir_operator_wait((weir_operator*)plan));
  WRONG(weir_optimizer_reset((weir_layer_optimizer*)plan));
  OK(weir_comm_destroy(comm));
  EXPECT(weir_comm_rank(comm, &value) == WEIR_ERR_ARGUMENT && weir_comm_destroy(comm) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_comm_topology(comm) == NULL);
  EXPECT_TEXT(weir_last_error(comm), "the communicator does not exist");
}

/* Fields that this library does not know must be 0, and become 0. */
static void check_newer_structs(weir_comm* comm) {
  struct {
    weir_allreduce_config known;
    int64_t later[3];
  } config = {.known = WEIR_ALLREDUCE_CONFIG_INIT, .later = {0, 5, 0}};
  struct {
    weir_statistics known;
    double later;
  } statistics = {.later = 7};
  weir_plan* plan = NULL;
  config.known.struct_size = sizeof(config);
  config.known.count = n;
  REFUSED(weir_plan_create(comm, &config.known, &plan), comm, "the config is of a newer header");
  config.later[1] = 0;
  config.known.struct_size = sizeof(size_t) + 4; /* half of `count` */
  REFUSED(weir_plan_create(comm, &config.known, &plan), comm, "struct_size of the config is 12");
  config.known.struct_size = sizeof(config);
  OK(weir_plan_create(comm, &config.known, &plan));
  statistics.known.struct_size = sizeof(statistics);
  OK(weir_plan_get_statistics(plan, &statistics.known));
  EXPECT(statistics.known.iteration == 0 && statistics.later == 0);
  OK(weir_plan_destroy(plan));
}

/* Counters, memory, residuals and states of plans. */
static void check_saved_state(weir_comm* comm) {
  weir_plan *first = make_plan(comm, "oktopk"), *second = make_plan(comm, "oktopk");
  weir_residual residual = {.struct_size = sizeof(residual)};
  weir_allreduce_config in_force = {.struct_size = sizeof(in_force)};
  float a[n], b[n];
  int64_t bytes = 0, again = -1;
  char* state;
  fill(a, 0);
  OK(weir_plan_run(first, a));
  OK(weir_plan_counter(first, "balanced", &again));
  EXPECT(again == 0 || again == 1);
  EXPECT(weir_plan_counter(first, "rounds", &again) == WEIR_ERR_ARGUMENT &&
         weir_plan_counter(first, NULL, &again) == WEIR_ERR_ARGUMENT);
  WRONG(weir_plan_counter(first, "balanced", NULL));
  OK(weir_plan_memory_bytes(first, &bytes));
  EXPECT(bytes > (int64_t)sizeof(a));
  OK(weir_plan_get_config(first, &in_force));
  EXPECT(in_force.count == n && strcmp(in_force.algorithm, "oktopk") == 0 && strcmp(in_force.threshold, "reuse") == 0);
  OK(weir_plan_state_bytes(first, &bytes));
  state = malloc((size_t)bytes);
  REFUSED(weir_plan_save_state(first, state, bytes - 8), comm, "bytes for the state of plan 'allreduce'");
  OK(weir_plan_save_state(first, state, bytes));
  REFUSED(weir_plan_restore_state(second, state, bytes - 8), comm, "checksum");
  EXPECT(weir_plan_restore_state(second, NULL, 0) == WEIR_ERR_ARGUMENT &&
         weir_plan_restore_state(second, state, -1) == WEIR_ERR_ARGUMENT);
  OK(weir_plan_restore_state(second, state, bytes));
  fill(a, 1);
  fill(b, 1);
  EXPECT(weir_plan_run(first, a) == WEIR_OK && weir_plan_run(second, b) == WEIR_OK && memcmp(a, b, sizeof(a)) == 0);
  OK(weir_plan_residual(first, &residual));
  EXPECT(residual.begin == 0 && residual.count == n && residual.values != NULL);
  OK(weir_plan_start(first, a));
  EXPECT(weir_plan_state_bytes(first, &again) == WEIR_ERR_BUSY || weir_plan_wait(first) == WEIR_OK); /* a lone rank has finished */
  OK(weir_plan_wait(first));
  free(state);
  EXPECT(weir_plan_destroy(first) == WEIR_OK && weir_plan_destroy(second) == WEIR_OK);
}

/* Blocks have priorities, and are tested and awaited. */
static void check_schedule(weir_comm* comm) {
  const char* const blocks[] = {"encoder", "decoder"};
  const char* const twice[] = {"encoder", "encoder"};
  weir_schedule* schedule = NULL;
  weir_plan* plan = make_plan(comm, "oktopk");
  float gradient[n];
  int value = 0;
  WRONG(weir_schedule_create(comm, twice, 2, &schedule));
  WRONG(weir_schedule_create(comm, blocks, -1, &schedule));
  EXPECT(schedule == NULL);
  OK(weir_schedule_create(comm, blocks, 2, &schedule));
  EXPECT(weir_schedule_priority(schedule, "encoder", &value) == WEIR_OK && value == 2);
  REFUSED(weir_schedule_priority(schedule, "softmax", &value), comm, "decoder");
  EXPECT(weir_schedule_started(schedule, "decoder", plan) == WEIR_ERR_STATE);
  fill(gradient, 0);
  OK(weir_plan_start(plan, gradient));
  OK(weir_schedule_started(schedule, "decoder", plan));
  OK(weir_schedule_wait(schedule, "encoder"));
  EXPECT(weir_schedule_test(schedule, "encoder", &value) == WEIR_OK && value == 1);
  OK(weir_schedule_wait_all(schedule));
  EXPECT(weir_schedule_pending(schedule, "decoder", &value) == WEIR_OK && value == 0);
  EXPECT(weir_comm_destroy(comm) == WEIR_ERR_BUSY);
  EXPECT(weir_schedule_destroy(schedule) == WEIR_OK && weir_plan_destroy(plan) == WEIR_OK);
}

/* Encoded gradients, valid and invalid. */
static void check_encoding(weir_comm* comm) {
  weir_allreduce_config config = WEIR_ALLREDUCE_CONFIG_INIT;
  weir_encoded_info info = {.struct_size = sizeof(info)};
  weir_plan* plan = NULL;
  float gradient[n], mine[n], sum[n];
  int64_t most = 0, bytes = 0, i;
  unsigned char* encoded;
  config.count = n;
  config.algorithm = "packed_allgather";
  config.compressor = "qsgd";
  config.compressor_parameters = "levels=3";
  OK(weir_plan_create(comm, &config, &plan));
  EXPECT(weir_plan_encoded_bytes(plan, &most) == WEIR_OK && most > 48 && most < (int64_t)sizeof(gradient));
  encoded = malloc((size_t)most);
  fill(gradient, 0);
  EXPECT(weir_plan_encode(plan, gradient, encoded, most, &bytes) == WEIR_OK && bytes <= most);
  OK(weir_encoded_inspect(encoded, bytes, &info));
  EXPECT(info.version == 1 && info.count == n && info.bytes == bytes);
  EXPECT(strcmp(info.compressor, "qsgd") == 0 && strcmp(info.parameters, "levels=3,bucket=512") == 0);
  for (i = 0; i < n; ++i) sum[i] = 1;
  EXPECT(weir_decode(encoded, bytes, mine, n, 0) == WEIR_OK && weir_decode(encoded, bytes, sum, n, 1) == WEIR_OK);
  for (i = 0; i < n; ++i) EXPECT(sum[i] == 1 + mine[i]);
  REFUSED(weir_plan_encode(plan, gradient, encoded, most - 1, &bytes), comm, "encode needs encoded_bytes()");
  WRONG(weir_plan_encode(plan, NULL, encoded, most, &bytes));
  WRONG(weir_plan_encode(plan, gradient, NULL, most, &bytes));
  WRONG(weir_plan_encode(plan, gradient, encoded, most, NULL));
  WRONG(weir_plan_encode(plan, gradient, encoded, -1, &bytes));
  WRONG(weir_plan_encoded_bytes(plan, NULL));
  REFUSED(weir_decode(encoded, bytes, mine, n - 1, 0), NULL, "it is of 1000 elements, and there is room for 999");
  REFUSED(weir_decode(encoded, bytes - 1, mine, n, 0), NULL, "truncated");
  EXPECT(weir_decode(NULL, bytes, mine, n, 0) == WEIR_ERR_ARGUMENT && weir_decode(encoded, bytes, NULL, n, 0) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_decode(encoded, bytes, mine, -1, 0) == WEIR_ERR_ARGUMENT &&
         weir_decode(encoded, -1, mine, n, 0) == WEIR_ERR_ARGUMENT);
  WRONG(weir_encoded_inspect(NULL, 0, &info));
  free(encoded);
  OK(weir_plan_destroy(plan));
  plan = make_plan(comm, "dense_ring");
  FAILS(weir_plan_encoded_bytes(plan, &most), WEIR_ERR_STATE, comm, "cannot encode: its compressor has dense values summed");
  OK(weir_plan_destroy(plan));
}

/* The library's lists: texts, flags, and their ends. */
static void check_lists(void) {
  weir_algorithm_info algorithm = {.struct_size = sizeof(algorithm)};
  weir_compressor_info compressor = {.struct_size = sizeof(compressor)};
  weir_exchange_info exchange = {.struct_size = sizeof(exchange)};
  weir_setting_info setting = {.struct_size = sizeof(setting)};
  int index, found = 0;
  for (index = 0; weir_algorithm(index, &algorithm) == WEIR_OK; ++index) {
    EXPECT(strcmp(algorithm.name, weir_algorithm_name(index)) == 0 && strlen(algorithm.description) > 10);
    if (strcmp(algorithm.name, "oktopk") == 0) found += algorithm.sparse && algorithm.host_memory && !algorithm.packed;
    if (strcmp(algorithm.name, "packed_allgather") == 0) found += algorithm.packed && !algorithm.sparse;
  }
  EXPECT(found == 2 && weir_algorithm_name(index) == NULL && weir_algorithm_name(-1) == NULL);
  for (index = 0, found = 0; weir_compressor(index, &compressor) == WEIR_OK; ++index) {
    EXPECT(strcmp(compressor.name, weir_compressor_name(index)) == 0 && strlen(compressor.description) > 10);
    EXPECT(strlen(compressor.source) > 5 && strlen(compressor.carriage) == 6);
    if (strcmp(compressor.name, "qsgd") == 0)
      found += compressor.random && strcmp(compressor.parameters, "levels=7,bucket=512") == 0;
    if (strcmp(compressor.name, "top_k") == 0) found += compressor.feedback && !compressor.random && compressor.parameters[0] == 0;
  }
  EXPECT(found == 2 && weir_compressor_name(index) == NULL && weir_compressor_name(-1) == NULL);
  REFUSED(weir_compressor(index, &compressor), NULL, "there is no compressor");
  EXPECT(weir_exchange(0, &exchange) == WEIR_OK && strcmp(exchange.name, weir_exchange_name(0)) == 0);
  WRONG(weir_exchange(1000, &exchange));
  for (index = 0, found = 0; weir_setting(index, &setting) == WEIR_OK; ++index) found += strcmp(setting.name, "WEIR_TIMEOUT") == 0;
  EXPECT(found == 1);
  EXPECT(strcmp(weir_level_name(WEIR_LEVEL_NODE), "node") == 0 && weir_level_name(7) == NULL && weir_level_name(-1) == NULL);
  EXPECT(strlen(weir_mpi_library()) > 0 && strlen(weir_mpi_family()) > 0);
}

/* The functions of a communicator without plans. */
static void check_communicator(weir_comm* comm) {
  int count = 0, told = last ? 42 : 0, group[64], gpu = -2;
  int32_t level = -1;
  double shares[64], sums[2];
  const double values[4] = {1e20, 1 - 1e20, 2.5, 3};
  char path[64];
  EXPECT(weir_comm_level(comm, rank, &level) == WEIR_OK && level == WEIR_LEVEL_SELF);
  WRONG(weir_comm_level(comm, ranks, &level));
  EXPECT(weir_comm_group(comm, WEIR_LEVEL_SYSTEM, NULL, 0, &count) == WEIR_OK && count == ranks);
  EXPECT(weir_comm_group(comm, WEIR_LEVEL_SYSTEM, group, ranks, &count) == WEIR_OK && group[ranks - 1] == ranks - 1);
  EXPECT(weir_comm_group(comm, WEIR_LEVEL_SELF, group, ranks, &count) == WEIR_OK && count == 1 && group[0] == rank);
  WRONG(weir_comm_group(comm, WEIR_LEVEL_SYSTEM, group, ranks - 1, &count));
  WRONG(weir_comm_group(comm, 7, group, ranks, &count));
  EXPECT_TEXT(weir_comm_topology(comm), "rank");
  EXPECT(weir_comm_broadcast(comm, &told, sizeof told, ranks - 1) == WEIR_OK && told == 42);
  WRONG(weir_comm_broadcast(comm, &told, sizeof told, ranks));
  WRONG(weir_comm_broadcast(comm, NULL, sizeof told, 0));
  OK(weir_comm_broadcast(comm, NULL, 0, 0));
  EXPECT(weir_comm_allgather(comm, &rank, sizeof rank, group) == WEIR_OK && group[0] == 0 && group[ranks - 1] == ranks - 1);
  WRONG(weir_comm_allgather(comm, &rank, -1, group));
  EXPECT(weir_comm_sum(comm, values, 4, WEIR_FLOAT64, sums, 2) == WEIR_OK && sums[0] == 0 && sums[1] == 5.5 * ranks);
  WRONG(weir_comm_sum(comm, values, 3, WEIR_FLOAT64, sums, 2));
  WRONG(weir_comm_sum(comm, values, 4, WEIR_BFLOAT16, sums, 2));
  WRONG(weir_comm_sum(comm, NULL, 4, WEIR_FLOAT64, sums, 2));
  EXPECT(weir_comm_nearest_gpu(comm, &gpu) == WEIR_OK && gpu >= -1);
  EXPECT(weir_comm_stragglers(comm, 5, shares, ranks) == WEIR_OK && shares[0] >= 0 && shares[ranks - 1] <= 1);
  WRONG(weir_comm_stragglers(comm, 0, shares, ranks));
  snprintf(path, sizeof(path), "/tmp/weir-test-dump-%ld", (long)getpid());
  EXPECT(weir_comm_dump(comm, path) == WEIR_OK && unlink(path) == 0);
  REFUSED(weir_comm_dump(comm, "/dev/null/dump"), comm, "/dev/null");
}

/* The ranks of this one's parity make a subgroup, last one first, and of that each makes one of itself, which outlives it. */
static void check_subgroup(weir_comm* comm) {
  weir_comm *parity = NULL, *alone = NULL;
  int list[65], gathered[64], count = 0, place = -1, value = -1, i;
  for (i = ranks - 1; i >= 0; --i)
    if (i % 2 == rank % 2) list[count++] = i;
  OK(weir_comm_subgroup(comm, list, count, &parity));
  EXPECT(weir_comm_size(parity, &value) == WEIR_OK && value == count);
  EXPECT(weir_comm_rank(parity, &place) == WEIR_OK && list[place] == rank);
  OK(weir_comm_allgather(parity, &rank, sizeof rank, gathered));
  EXPECT(memcmp(gathered, list, (size_t)count * sizeof list[0]) == 0);
  EXPECT_TEXT(weir_comm_topology(parity), "rank");
  OK(weir_comm_subgroup(parity, &place, 1, &alone));
  OK(weir_comm_destroy(parity));
  EXPECT(weir_comm_size(alone, &value) == WEIR_OK && value == 1);
  OK(weir_plan_destroy(make_plan(alone, "oktopk")));
  OK(weir_comm_destroy(alone));
  REFUSED(weir_comm_subgroup(parity, list, count, &alone), NULL, "the communicator does not exist");
  EXPECT(alone == NULL);
  REFUSED(weir_comm_subgroup(comm, list, 0, &alone), comm, "subgroup: the list is empty");
  REFUSED(weir_comm_subgroup(comm, NULL, 1, &alone), comm, "the ranks are NULL");
  REFUSED(weir_comm_subgroup(comm, list, -1, &alone), comm, "the number of ranks is negative");
  for (i = 0; i <= ranks; ++i) list[i] = i;
  REFUSED(weir_comm_subgroup(comm, list, ranks + 1, &alone), comm, "subgroup: rank 0: the list has rank");
  REFUSED(weir_comm_subgroup(comm, list, ranks, last ? NULL : &alone), comm, "the address for the subgroup is NULL");
  list[ranks] = 0;
  REFUSED(weir_comm_subgroup(comm, list, last ? ranks + 1 : ranks, &alone), comm, "the list has rank 0 twice");
  if (ranks > 1 && rank < 2) {
    const int one[2] = {1, 0}, other[2] = {0, 1};
    FAILS(weir_comm_subgroup(comm, rank == 0 ? one : other, 2, &alone), WEIR_ERR_MISMATCH, comm, "rank 1 has 0, 1");
    OK(weir_comm_subgroup(comm, one, 2, &alone));
    OK(weir_comm_destroy(alone));
  }
}

static int messages;
static weir_comm* shared;
static weir_status nested;
/* A log function that uses the communicator whose call it is in. */
static void count_message(void* context, int32_t level, const char* text) {
  int value = 0;
  if (shared != NULL) nested = weir_comm_rank(shared, &value);
  messages += context == &messages && level >= WEIR_LOG_LEVEL_ERROR && strlen(text) > 0;
}

/* A log function that is called once and sets the next one. */
static void give_way(void* context, int32_t level, const char* text) {
  static int calls;
  EXPECT(++calls == 1 && level >= WEIR_LOG_LEVEL_ERROR && strlen(text) > 0);
  OK(weir_set_log_function(count_message, context));
}

/* A second thread is refused: it is inside the communicator while the first one waits there. */
static volatile int stop;
static weir_status seen;
static void* intrude(void* unused) {
  int value = 0;
  while (!stop && seen != WEIR_ERR_BUSY) seen = weir_comm_rank(shared, &value);
  return unused;
}
static void check_second_thread(weir_comm* comm) {
  pthread_t thread;
  weir_plan* plan;
  float gradient[n] = {0};
  int tries;
  shared = comm;
  plan = make_plan(comm, "dense_ring"); /* which is logged */
  EXPECT(nested == WEIR_ERR_BUSY);
  EXPECT(pthread_create(&thread, NULL, intrude, NULL) == 0);
  for (tries = 0; tries < 50; ++tries) {
    const weir_status status = weir_plan_start(plan, gradient);
    EXPECT(status == WEIR_OK || status == WEIR_ERR_BUSY); /* the intruder may be the one inside */
    while (status == WEIR_OK && weir_plan_wait(plan) == WEIR_ERR_BUSY) continue;
    if (status == WEIR_ERR_BUSY) --tries;
    if (ranks == 1 && seen == WEIR_ERR_BUSY) break;
  }
  stop = 1;
  pthread_join(thread, NULL);
  EXPECT(seen == WEIR_OK || seen == WEIR_ERR_BUSY);
  shared = NULL;
  OK(weir_plan_destroy(plan));
}

int main(void) {
  weir_comm *comm = NULL, *fortran = NULL;
  int value = 0;
  EXPECT(weir_comm_create_world(&comm) == WEIR_ERR_ARGUMENT && comm == NULL);
  EXPECT(weir_init() == WEIR_OK && weir_init() == WEIR_OK);
  find_ranks();
  EXPECT(weir_comm_create_fortran(123456789, &fortran) == WEIR_ERR_ARGUMENT && fortran == NULL);
  WRONG(weir_comm_create_fortran((int32_t)MPI_Comm_c2f(MPI_COMM_NULL), &fortran));
  OK(weir_comm_create_fortran((int32_t)MPI_Comm_c2f(MPI_COMM_WORLD), &fortran));
  EXPECT(weir_comm_size(fortran, &value) == WEIR_OK && value == ranks && weir_comm_destroy(fortran) == WEIR_OK);
  check_dead_handles();
  OK(weir_set_log_function(give_way, &messages));
  OK(weir_comm_create_world(&comm));
  check_newer_structs(comm);
  check_saved_state(comm);
  check_schedule(comm);
  check_lists();
  check_communicator(comm);
  check_subgroup(comm);
  check_encoding(comm);
  check_second_thread(comm);
  OK(weir_comm_destroy(comm));
  EXPECT(messages > 0); /* the test sets WEIR_LOG=info */
  OK(weir_set_log_function(NULL, NULL));
  if (rank == 0) printf("test_handles passed on %d ranks\n", ranks);
  EXPECT(weir_finalize() == WEIR_OK && weir_finalize() == WEIR_OK);
  EXPECT(weir_comm_create_world(&comm) != WEIR_OK && weir_init() == WEIR_ERR_STATE);
  return 0;
}
