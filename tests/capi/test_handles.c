/* Handles used wrongly, structs of newer headers, saved states, encoded gradients, schedules, and what the library says of itself.
 */
#include <pthread.h>
#include <stdlib.h>
#include <weir/embedding.h>
#include <weir/fusion.h>
#include <weir/mpi.h>
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
  EXPECT(weir_plan_create(comm, &config, &plan) == WEIR_OK);
  return plan;
}

static void check_dead_handles(void) {
  weir_comm* comm = NULL;
  weir_plan* plan;
  float gradient[n] = {0};
  int value = 0;
  EXPECT(weir_comm_create_world(&comm) == WEIR_OK);
  plan = make_plan(comm, "oktopk");
  EXPECT(weir_plan_run((weir_plan*)comm, gradient) == WEIR_ERR_ARGUMENT); /* alive, but no plan */
  EXPECT_TEXT(weir_last_error(NULL), "the plan is none");
  EXPECT(weir_plan_destroy(plan) == WEIR_OK);
  EXPECT(weir_plan_run(plan, gradient) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(NULL), "it was destroyed before, or never made");
  EXPECT(weir_plan_wait(plan) == WEIR_ERR_ARGUMENT && weir_plan_destroy(plan) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_plan_explanation(plan) == NULL);
  EXPECT(weir_embedding_update_wait((weir_embedding*)plan) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_schedule_wait_all((weir_schedule*)plan) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_fused_wait_all((weir_fused*)plan) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_operator_wait((weir_operator*)plan) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_optimizer_reset((weir_layer_optimizer*)plan) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_comm_destroy(comm) == WEIR_OK);
  EXPECT(weir_comm_rank(comm, &value) == WEIR_ERR_ARGUMENT && weir_comm_destroy(comm) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_comm_topology(comm) == NULL);
  EXPECT_TEXT(weir_last_error(comm), "the communicator is none");
}

static void check_newer_structs(weir_comm* comm) {
  struct {
    weir_allreduce_config known;
    int64_t later[3];
  } config = {.known = WEIR_ALLREDUCE_CONFIG_INIT, .later = {0, 0, 0}};
  struct {
    weir_statistics known;
    double later;
  } statistics = {.later = 7};
  weir_plan* plan = NULL;
  float gradient[n];
  config.known.struct_size = sizeof(config);
  config.known.count = n;
  config.later[1] = 5;
  EXPECT(weir_plan_create(comm, &config.known, &plan) == WEIR_ERR_ARGUMENT && plan == NULL);
  EXPECT_TEXT(weir_last_error(comm), "the config is of a newer header");
  config.later[1] = 0;
  config.known.struct_size = sizeof(size_t) + 4; /* half of `count` */
  EXPECT(weir_plan_create(comm, &config.known, &plan) == WEIR_ERR_ARGUMENT && plan == NULL);
  EXPECT_TEXT(weir_last_error(comm), "struct_size of the config is 12");
  config.known.struct_size = sizeof(config);
  EXPECT(weir_plan_create(comm, &config.known, &plan) == WEIR_OK);
  fill(gradient, 0);
  EXPECT(weir_plan_run(plan, gradient) == WEIR_OK);
  statistics.known.struct_size = sizeof(statistics);
  EXPECT(weir_plan_get_statistics(plan, &statistics.known) == WEIR_OK);
  EXPECT(statistics.known.iteration == 1 && statistics.later == 0);
  EXPECT(weir_plan_destroy(plan) == WEIR_OK);
}

/* A plan goes on, bit for bit, from what another one has saved. */
static void check_saved_state(weir_comm* comm) {
  weir_plan* first = make_plan(comm, "oktopk");
  weir_plan* second = make_plan(comm, "oktopk");
  weir_plan* other = make_plan(comm, "gtopk");
  weir_residual residual = {.struct_size = sizeof(residual)}, restored = {.struct_size = sizeof(restored)};
  float a[n], b[n];
  int64_t bytes = 0, again = 0, memory = 0;
  char* state;
  int step;
  for (step = 0; step < 5; ++step) {
    fill(a, step);
    EXPECT(weir_plan_run(first, a) == WEIR_OK);
  }
  EXPECT(weir_plan_counter(first, "balanced", &again) == WEIR_OK && again >= 0 && again <= 5);
  EXPECT(weir_plan_counter(first, "rounds", &again) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_plan_counter(first, NULL, &again) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_plan_counter(first, "balanced", NULL) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_plan_memory_bytes(first, &memory) == WEIR_OK && memory > (int64_t)(n * sizeof(float)));
  EXPECT(weir_plan_state_bytes(first, &bytes) == WEIR_OK && bytes > (int64_t)(n * sizeof(float)));
  state = malloc((size_t)bytes);
  EXPECT(weir_plan_save_state(first, state, bytes - 8) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "bytes for the state of plan 'allreduce'");
  EXPECT(weir_plan_save_state(first, state, bytes) == WEIR_OK);
  EXPECT(weir_plan_restore_state(other, state, bytes) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_plan_restore_state(second, state, bytes - 8) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "checksum");
  EXPECT(weir_plan_restore_state(second, NULL, 0) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_plan_restore_state(second, state, -1) == WEIR_ERR_ARGUMENT);
  state[bytes / 2] ^= 1;
  EXPECT(weir_plan_restore_state(second, state, bytes) == WEIR_ERR_ARGUMENT);
  state[bytes / 2] ^= 1;
  EXPECT(weir_plan_restore_state(second, state, bytes) == WEIR_OK);
  EXPECT(weir_plan_state_bytes(second, &again) == WEIR_OK && again == bytes);
  for (; step < 10; ++step) {
    fill(a, step);
    fill(b, step);
    EXPECT(weir_plan_run(first, a) == WEIR_OK && weir_plan_run(second, b) == WEIR_OK);
    EXPECT(memcmp(a, b, sizeof(a)) == 0);
  }
  EXPECT(weir_plan_residual(first, &residual) == WEIR_OK && weir_plan_residual(second, &restored) == WEIR_OK);
  EXPECT(residual.begin == 0 && residual.count == n && restored.count == n);
  EXPECT(memcmp(residual.values, restored.values, n * sizeof(float)) == 0);
  EXPECT(weir_plan_start(first, a) == WEIR_OK);
  EXPECT(weir_plan_state_bytes(first, &again) == WEIR_ERR_BUSY || weir_plan_wait(first) == WEIR_OK); /* a lone rank has finished */
  EXPECT(weir_plan_wait(first) == WEIR_OK);
  free(state);
  EXPECT(weir_plan_destroy(first) == WEIR_OK && weir_plan_destroy(second) == WEIR_OK && weir_plan_destroy(other) == WEIR_OK);
}

static void check_saved_table(weir_comm* comm) {
  enum { rows = 50, width = 4, batch = 6 };
  weir_embedding_config config = WEIR_EMBEDDING_CONFIG_INIT, in_force = {.struct_size = sizeof(in_force)};
  weir_embedding *first = NULL, *second = NULL;
  float vectors[batch * width], again[batch * width];
  int32_t ids[batch];
  int64_t bytes = 0;
  char* state;
  int step, i;
  config.rows = rows;
  config.width = width;
  config.largest_batch = batch;
  config.optimizer = WEIR_OPTIMIZER_ADAM;
  EXPECT(weir_embedding_create(comm, &config, &first) == WEIR_OK && weir_embedding_create(comm, &config, &second) == WEIR_OK);
  EXPECT(weir_embedding_get_config(first, &in_force) == WEIR_OK);
  EXPECT(in_force.rows == rows && in_force.optimizer == WEIR_OPTIMIZER_ADAM && strcmp(in_force.exchange, "columns") == 0);
  EXPECT(weir_embedding_memory_bytes(first, &bytes) == WEIR_OK && bytes > 0);
  for (step = 0; step < 4; ++step) {
    if (step == 2) {
      EXPECT(weir_embedding_update_wait(first) == WEIR_OK);
      EXPECT(weir_embedding_state_bytes(first, &bytes) == WEIR_OK);
      state = malloc((size_t)bytes);
      EXPECT(weir_embedding_save_state(first, state, bytes) == WEIR_OK);
      EXPECT(weir_embedding_restore_state(second, state, bytes) == WEIR_OK);
      free(state);
    }
    for (i = 0; i < batch; ++i) ids[i] = (i * i + step + rank) % rows;
    EXPECT(weir_embedding_lookup_int32(first, ids, batch, vectors) == WEIR_OK && weir_embedding_lookup_wait(first) == WEIR_OK);
    if (step >= 2) {
      EXPECT(weir_embedding_lookup_int32(second, ids, batch, again) == WEIR_OK && weir_embedding_lookup_wait(second) == WEIR_OK);
      EXPECT(memcmp(vectors, again, sizeof(vectors)) == 0);
      EXPECT(weir_embedding_update(second, again, batch) == WEIR_OK && weir_embedding_update_wait(second) == WEIR_OK);
    }
    EXPECT(weir_embedding_update(first, vectors, batch) == WEIR_OK);
  }
  EXPECT(weir_embedding_update_wait(first) == WEIR_OK);
  EXPECT(weir_embedding_destroy(first) == WEIR_OK && weir_embedding_destroy(second) == WEIR_OK);
}

static void check_schedule(weir_comm* comm) {
  const char* const blocks[] = {"encoder", "decoder"};
  const char* const twice[] = {"encoder", "encoder"};
  weir_schedule* schedule = NULL;
  weir_plan* plan = make_plan(comm, "oktopk");
  float gradient[n];
  int value = 0;
  EXPECT(weir_schedule_create(comm, twice, 2, &schedule) == WEIR_ERR_ARGUMENT && schedule == NULL);
  EXPECT(weir_schedule_create(comm, blocks, -1, &schedule) == WEIR_ERR_ARGUMENT && schedule == NULL);
  EXPECT(weir_schedule_create(comm, blocks, 2, &schedule) == WEIR_OK);
  EXPECT(weir_schedule_priority(schedule, "encoder", &value) == WEIR_OK && value == 2);
  EXPECT(weir_schedule_priority(schedule, "softmax", &value) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "decoder");
  EXPECT(weir_schedule_started(schedule, "decoder", plan) == WEIR_ERR_STATE);
  fill(gradient, 0);
  EXPECT(weir_plan_start(plan, gradient) == WEIR_OK);
  EXPECT(weir_schedule_started(schedule, "decoder", plan) == WEIR_OK);
  EXPECT(weir_schedule_wait(schedule, "encoder") == WEIR_OK);
  EXPECT(weir_schedule_test(schedule, "encoder", &value) == WEIR_OK && value == 1);
  EXPECT(weir_schedule_wait_all(schedule) == WEIR_OK);
  EXPECT(weir_schedule_pending(schedule, "decoder", &value) == WEIR_OK && value == 0);
  EXPECT(weir_comm_destroy(comm) == WEIR_ERR_BUSY);
  EXPECT(weir_schedule_destroy(schedule) == WEIR_OK && weir_plan_destroy(plan) == WEIR_OK);
}

/* What ranks encode adds up to what their runs deliver. */
static void check_encoding(weir_comm* comm, int size) {
  weir_allreduce_config config = WEIR_ALLREDUCE_CONFIG_INIT;
  weir_encoded_info info = {.struct_size = sizeof(info)};
  weir_plan *plan = NULL, *runs = NULL;
  float gradient[n], mine[n], sum[n];
  int64_t most = 0, bytes = 0, i;
  unsigned char* encoded;
  int step;
  config.count = n;
  config.algorithm = "packed_allgather";
  config.compressor = "qsgd";
  config.compressor_parameters = "levels=3";
  config.average = 0;
  EXPECT(weir_plan_create(comm, &config, &plan) == WEIR_OK);
  EXPECT(weir_plan_create(comm, &config, &runs) == WEIR_OK);
  EXPECT(weir_plan_encoded_bytes(plan, &most) == WEIR_OK && most > 48 && most < (int64_t)sizeof(gradient));
  encoded = malloc((size_t)most);
  for (step = 0; step < 3; ++step) {
    fill(gradient, step);
    EXPECT(weir_plan_encode(plan, gradient, encoded, most, &bytes) == WEIR_OK && bytes <= most);
    EXPECT(weir_encoded_inspect(encoded, bytes, &info) == WEIR_OK && info.version == 1 && info.count == n && info.bytes == bytes);
    EXPECT(strcmp(info.compressor, "qsgd") == 0 && strcmp(info.parameters, "levels=3,bucket=512") == 0);
    for (i = 0; i < n; ++i) sum[i] = 1;
    EXPECT(weir_decode(encoded, bytes, mine, n, 0) == WEIR_OK && weir_decode(encoded, bytes, sum, n, 1) == WEIR_OK);
    for (i = 0; i < n; ++i) EXPECT(sum[i] == 1 + mine[i]);
    EXPECT(weir_plan_run(runs, gradient) == WEIR_OK);
    MPI_Allreduce(mine, sum, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (i = 0; i < n; ++i) EXPECT(sum[i] - gradient[i] < 1e-4f * (float)size && gradient[i] - sum[i] < 1e-4f * (float)size);
  }
  EXPECT(weir_plan_encode(plan, gradient, encoded, most - 1, &bytes) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "encode needs encoded_bytes()");
  EXPECT(weir_plan_encode(plan, NULL, encoded, most, &bytes) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_plan_encode(plan, gradient, NULL, most, &bytes) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_plan_encode(plan, gradient, encoded, most, NULL) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_plan_encode(plan, gradient, encoded, -1, &bytes) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_plan_encoded_bytes(plan, NULL) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_plan_encode(plan, gradient, encoded, most, &bytes) == WEIR_OK);
  EXPECT(weir_decode(encoded, bytes, mine, n - 1, 0) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(NULL), "it is of 1000 elements, and there is room for 999");
  EXPECT(weir_decode(encoded, bytes - 1, mine, n, 0) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(NULL), "truncated");
  EXPECT(weir_decode(NULL, bytes, mine, n, 0) == WEIR_ERR_ARGUMENT && weir_decode(encoded, bytes, NULL, n, 0) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_decode(encoded, bytes, mine, -1, 0) == WEIR_ERR_ARGUMENT &&
         weir_decode(encoded, -1, mine, n, 0) == WEIR_ERR_ARGUMENT);
  encoded[100] ^= 1;
  EXPECT(weir_encoded_inspect(encoded, bytes, &info) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(NULL), "its checksum does not match: it is damaged");
  EXPECT(weir_encoded_inspect(NULL, 0, &info) == WEIR_ERR_ARGUMENT);
  free(encoded);
  EXPECT(weir_plan_destroy(plan) == WEIR_OK && weir_plan_destroy(runs) == WEIR_OK);
  plan = make_plan(comm, "dense_ring");
  EXPECT(weir_plan_encoded_bytes(plan, &most) == WEIR_ERR_STATE);
  EXPECT_TEXT(weir_last_error(comm), "cannot encode: its compressor has dense values summed");
  EXPECT(weir_plan_destroy(plan) == WEIR_OK);
}

static void check_library(weir_comm* comm, int size) {
  weir_algorithm_info algorithm = {.struct_size = sizeof(algorithm)};
  weir_compressor_info compressor = {.struct_size = sizeof(compressor)};
  weir_exchange_info exchange = {.struct_size = sizeof(exchange)};
  weir_setting_info setting = {.struct_size = sizeof(setting)};
  weir_allreduce_config in_force = {.struct_size = sizeof(in_force)};
  weir_plan* plan = make_plan(comm, "oktopk");
  int index, count = 0, found = 0;
  int32_t level = -1;
  int* ranks = malloc((size_t)size * sizeof(int));
  for (index = 0; weir_algorithm(index, &algorithm) == WEIR_OK; ++index) {
    EXPECT(strcmp(algorithm.name, weir_algorithm_name(index)) == 0 && strlen(algorithm.description) > 10);
    if (strcmp(algorithm.name, "oktopk") == 0)
      found = algorithm.sparse && algorithm.host_memory && algorithm.cuda_memory && !algorithm.packed;
    if (strcmp(algorithm.name, "topk_dsa") == 0) EXPECT(strcmp(algorithm.parameters, "window=4") == 0);
    if (strcmp(algorithm.name, "packed_allgather") == 0) EXPECT(algorithm.packed && !algorithm.sparse && algorithm.cuda_memory);
  }
  EXPECT(found && weir_algorithm_name(index) == NULL);
  for (index = 0, found = 0; weir_compressor(index, &compressor) == WEIR_OK; ++index) {
    EXPECT(strcmp(compressor.name, weir_compressor_name(index)) == 0 && strlen(compressor.description) > 10);
    EXPECT(strlen(compressor.source) > 5 && strlen(compressor.carriage) == 6);
    if (strcmp(compressor.name, "qsgd") == 0)
      found = compressor.random && strcmp(compressor.parameters, "levels=7,bucket=512") == 0;
    if (strcmp(compressor.name, "top_k") == 0)
      EXPECT(strcmp(compressor.carriage, "sparse") == 0 && compressor.feedback && !compressor.random &&
             compressor.parameters[0] == 0);
  }
  EXPECT(found && weir_compressor_name(index) == NULL && weir_compressor_name(-1) == NULL);
  EXPECT(weir_compressor(index, &compressor) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(NULL), "there is no compressor");
  EXPECT(weir_exchange(0, &exchange) == WEIR_OK && strcmp(exchange.name, weir_exchange_name(0)) == 0);
  EXPECT(weir_exchange(1000, &exchange) == WEIR_ERR_ARGUMENT);
  for (index = 0, found = 0; weir_setting(index, &setting) == WEIR_OK; ++index) found += strcmp(setting.name, "WEIR_TIMEOUT") == 0;
  EXPECT(found == 1);

  EXPECT(strcmp(weir_level_name(WEIR_LEVEL_NODE), "node") == 0 && weir_level_name(7) == NULL && weir_level_name(-1) == NULL);
  EXPECT(weir_comm_level(comm, rank, &level) == WEIR_OK && level == WEIR_LEVEL_SELF);
  EXPECT(weir_comm_level(comm, size, &level) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_comm_group(comm, WEIR_LEVEL_SYSTEM, NULL, 0, &count) == WEIR_OK && count == size);
  EXPECT(weir_comm_group(comm, WEIR_LEVEL_SYSTEM, ranks, size, &count) == WEIR_OK && ranks[size - 1] == size - 1);
  EXPECT(weir_comm_group(comm, WEIR_LEVEL_SELF, ranks, size, &count) == WEIR_OK && count == 1 && ranks[0] == rank);
  EXPECT(weir_comm_group(comm, WEIR_LEVEL_SYSTEM, ranks, size - 1, &count) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_comm_group(comm, 7, ranks, size, &count) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_comm_topology(comm), "rank");
  int told = rank == size - 1 ? 42 : 0, everybody[64];
  EXPECT(weir_comm_broadcast(comm, &told, sizeof told, size - 1) == WEIR_OK && told == 42);
  EXPECT(weir_comm_broadcast(comm, &told, sizeof told, size) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_comm_broadcast(comm, NULL, sizeof told, 0) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_comm_broadcast(comm, NULL, 0, 0) == WEIR_OK);
  EXPECT(weir_comm_allgather(comm, &rank, sizeof rank, everybody) == WEIR_OK && everybody[0] == 0 && everybody[size - 1] == size - 1);
  EXPECT(weir_comm_allgather(comm, &rank, -1, everybody) == WEIR_ERR_ARGUMENT);

  EXPECT(weir_plan_get_config(plan, &in_force) == WEIR_OK);
  EXPECT(in_force.count == n && strcmp(in_force.algorithm, "oktopk") == 0 && strcmp(in_force.threshold, "reuse") == 0);
  EXPECT(weir_plan_destroy(plan) == WEIR_OK);
  EXPECT(strlen(weir_mpi_library()) > 0 && strlen(weir_mpi_family()) > 0);
  free(ranks);
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

/* A log function that has had its say: it sets the next one. */
static void give_way(void* context, int32_t level, const char* text) {
  static int calls;
  EXPECT(++calls == 1 && level >= WEIR_LOG_LEVEL_ERROR && strlen(text) > 0);
  EXPECT(weir_set_log_function(count_message, context) == WEIR_OK);
}

/* A second thread inside the communicator while the first one waits there. */
static volatile int stop;
static weir_status seen;
static void* intrude(void* unused) {
  int value = 0;
  while (!stop && seen != WEIR_ERR_BUSY) seen = weir_comm_rank(shared, &value);
  return unused;
}
static void check_second_thread(weir_comm* comm, int size) {
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
    if (size == 1 && seen == WEIR_ERR_BUSY) break;
  }
  stop = 1;
  pthread_join(thread, NULL);
  EXPECT(seen == WEIR_OK || seen == WEIR_ERR_BUSY);
  shared = NULL;
  EXPECT(weir_plan_destroy(plan) == WEIR_OK);
}

int main(void) {
  weir_comm* comm = NULL;
  weir_comm* fortran = NULL;
  int size = 0, value = 0;
  EXPECT(weir_comm_create_world(&comm) == WEIR_ERR_ARGUMENT && comm == NULL);
  EXPECT(weir_init() == WEIR_OK && weir_init() == WEIR_OK);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  EXPECT(weir_comm_create_fortran(123456789, &fortran) == WEIR_ERR_ARGUMENT && fortran == NULL);
  EXPECT(weir_comm_create_fortran((int32_t)MPI_Comm_c2f(MPI_COMM_NULL), &fortran) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_comm_create_fortran((int32_t)MPI_Comm_c2f(MPI_COMM_WORLD), &fortran) == WEIR_OK);
  EXPECT(weir_comm_size(fortran, &value) == WEIR_OK && value == size);
  EXPECT(weir_comm_destroy(fortran) == WEIR_OK);
  check_dead_handles();
  EXPECT(weir_set_log_function(give_way, &messages) == WEIR_OK);
  EXPECT(weir_comm_create_world(&comm) == WEIR_OK);
  check_newer_structs(comm);
  check_saved_state(comm);
  check_saved_table(comm);
  check_schedule(comm);
  check_library(comm, size);
  check_encoding(comm, size);
  check_second_thread(comm, size);
  EXPECT(weir_comm_destroy(comm) == WEIR_OK);
  EXPECT(messages > 0); /* the test sets WEIR_LOG=info */
  EXPECT(weir_set_log_function(NULL, NULL) == WEIR_OK);
  if (rank == 0) printf("test_handles passed on %d ranks\n", size);
  EXPECT(weir_finalize() == WEIR_OK && weir_finalize() == WEIR_OK);
  EXPECT(weir_comm_create_world(&comm) != WEIR_OK && weir_init() == WEIR_ERR_STATE);
  return 0;
}
