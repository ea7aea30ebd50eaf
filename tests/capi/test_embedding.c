/* Embedding tables from plain C under mpirun: a few steps of training, and what a C code would do wrong. */
#include <weir/embedding.h>
#include <weir/mpi.h>

#include "expect.h"

static int size;

enum { rows = 12, width = 3, batch = 4, first_config_size = 120 };

static weir_embedding_config small_table(void) {
  weir_embedding_config config = WEIR_EMBEDDING_CONFIG_INIT;
  config.rows = rows;
  config.width = width;
  config.largest_batch = batch;
  config.learning_rate = 0.5;
  config.average = 0;
  return config;
}

/* Row i is i everywhere. */
static void import_simple_rows(weir_embedding* table) {
  float values[rows * width];
  int i;
  for (i = 0; i < rows * width; ++i) values[i] = (float)(i / width);
  EXPECT(weir_embedding_import_rows(table, 0, rank == 0 ? rows : 0, values) == WEIR_OK);
}

static void expect_row(weir_embedding* table, int64_t row, float value) {
  float out[width];
  int c;
  EXPECT(weir_embedding_export_rows(table, row, 1, out) == WEIR_OK);
  for (c = 0; c < width; ++c) EXPECT(out[c] == value);
}

static void check_config(weir_comm* comm) {
  weir_embedding_config config = WEIR_EMBEDDING_CONFIG_INIT;
  weir_embedding* table = NULL;
  const int last = size - 1;
  EXPECT(config.seed == 1 && config.learning_rate == 0.01 && config.beta1 == 0.9 && config.beta2 == 0.999 &&
         config.epsilon == 1e-8);
  EXPECT(config.initial_range == 0.05 && strcmp(config.exchange, "columns") == 0 && strcmp(config.name, "embedding") == 0);
  EXPECT(config.average == 1 && config.priority == 1000000 && config.delayed_priority == -1000000);

  /* what one rank spoils is refused on all */
  config = small_table();
  if (rank == last) config.width = 0;
  EXPECT(weir_embedding_create(comm, &config, &table) == WEIR_ERR_ARGUMENT && table == NULL);
  EXPECT_TEXT(weir_last_error(comm), "width is 0: it must be at least 1");
  config = small_table();
  EXPECT(weir_embedding_create(comm, rank == 0 ? NULL : &config, &table) == WEIR_ERR_ARGUMENT && table == NULL);
  EXPECT_TEXT(weir_last_error(comm), rank == 0 ? "the config is NULL" : "rank 0: the config is NULL");
  EXPECT(weir_embedding_create(comm, &config, rank == 0 ? NULL : &table) == WEIR_ERR_ARGUMENT && table == NULL);
  EXPECT_TEXT(weir_last_error(comm), rank == 0 ? "the address for the table is NULL" : "rank 0: the address for the table is NULL");
  config.struct_size = rank == last ? 3 : sizeof(config);
  EXPECT(weir_embedding_create(comm, &config, &table) == WEIR_ERR_ARGUMENT && table == NULL);
  EXPECT_TEXT(weir_last_error(comm), "start from WEIR_EMBEDDING_CONFIG_INIT");
  config = small_table();
  config.exchange = "pigeons";
  EXPECT(weir_embedding_create(comm, &config, &table) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "exchange is 'pigeons': it must be one of columns, rows, ");
  config.exchange = NULL;
  EXPECT(weir_embedding_create(comm, &config, &table) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "exchange is ''");
  config = small_table();
  config.optimizer = WEIR_OPTIMIZER_ADAM + 1;
  EXPECT(weir_embedding_create(comm, &config, &table) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "optimizer is 4");
  config = small_table();
  config.routing = -1;
  EXPECT(weir_embedding_create(comm, &config, &table) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "routing is -1");
  config = small_table();
  config.memory = 7;
  EXPECT(weir_embedding_create(comm, &config, &table) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "memory is 7");
  config.struct_size = first_config_size; /* a caller with the first header's config: what lies beyond is not read */
  EXPECT(weir_embedding_create(comm, &config, &table) == WEIR_OK);
  EXPECT(weir_embedding_destroy(table) == WEIR_OK);
  config = small_table();
  config.seed = rank == last && size > 1 ? 2 : 1;
  EXPECT(weir_embedding_create(comm, &config, &table) == (size > 1 ? WEIR_ERR_MISMATCH : WEIR_OK));
  if (size > 1) EXPECT_TEXT(weir_last_error(comm), "ranks disagree about seed");
  EXPECT(weir_embedding_destroy(table) == WEIR_OK);
  EXPECT(weir_embedding_create(NULL, &config, &table) == WEIR_ERR_ARGUMENT && table == NULL);
  EXPECT_TEXT(weir_last_error(NULL), "the communicator is NULL");
}

/* Rank r looks up rows r and 11 twice; each token's gradient is 1. */
static void check_training(weir_comm* comm, const char* exchange, int32_t wire_values) {
  weir_embedding_config config = small_table();
  weir_embedding* table = NULL;
  weir_embedding_statistics statistics = {.struct_size = sizeof(statistics)};
  const int32_t narrow_ids[batch] = {11, rank, 11, rank};
  const int64_t ids[batch] = {11, rank, 11, rank};
  float vectors[batch * width], gradients[batch * width];
  int done = 0, i;
  config.exchange = exchange;
  config.wire_values = wire_values;
  for (i = 0; i < batch * width; ++i) gradients[i] = 1.0f;
  EXPECT(weir_embedding_create(comm, &config, &table) == WEIR_OK);
  EXPECT(weir_embedding_lookup_wait(table) == WEIR_OK); /* of nothing */
  import_simple_rows(table);

  EXPECT(weir_embedding_lookup_int32(table, narrow_ids, batch, vectors) == WEIR_OK);
  while (!done) EXPECT(weir_embedding_lookup_test(table, &done) == WEIR_OK);
  for (i = 0; i < batch * width; ++i) EXPECT(vectors[i] == (float)ids[i / width]);
  EXPECT(weir_embedding_prefetch_int64(table, ids, batch) == WEIR_OK);
  EXPECT(weir_embedding_update(table, gradients, batch) == WEIR_OK);
  for (done = 0; !done;) EXPECT(weir_embedding_prefetch_wait_for(table, 0.001, &done) == WEIR_OK);
  EXPECT(weir_embedding_lookup_int64(table, ids, batch, vectors) == WEIR_OK);
  for (done = 0; !done;) EXPECT(weir_embedding_lookup_wait_for(table, 1, &done) == WEIR_OK);
  EXPECT(weir_embedding_lookup_wait(table) == WEIR_OK);
  EXPECT(weir_embedding_lookup_wait(table) == WEIR_OK); /* again: nothing to say */
  for (i = 0; i < width; ++i) {
    EXPECT(vectors[i] == 11.0f - 0.5f * 2 * (float)size);
    EXPECT(vectors[width + i] == (float)rank - 0.5f * 2);
  }
  for (done = 0; !done;) EXPECT(weir_embedding_update_test(table, &done) == WEIR_OK);
  EXPECT(weir_embedding_update_wait_for(table, 0, &done) == WEIR_OK && done == 1);
  EXPECT(weir_embedding_update_wait_for(table, 0, NULL) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_embedding_get_statistics(table, &statistics) == WEIR_OK);
  EXPECT(statistics.tokens == batch && statistics.distinct_rows == 2 && statistics.prior_rows == 2 && statistics.prefetched == 1);
  EXPECT(statistics.seconds_lookup > 0 && statistics.seconds_update >= statistics.seconds_prior);

  /* ids that were not announced, an empty batch on one rank, another learning rate */
  EXPECT(weir_embedding_prefetch_int32(table, narrow_ids, 1) == WEIR_OK);
  EXPECT(weir_embedding_set_learning_rate(table, 1.0) == WEIR_OK);
  EXPECT(weir_embedding_lookup_int32(table, narrow_ids, rank == 0 ? 0 : batch, rank == 0 ? NULL : vectors) == WEIR_OK);
  EXPECT(weir_embedding_lookup_wait(table) == WEIR_OK);
  EXPECT(weir_embedding_update(table, rank == 0 ? NULL : gradients, rank == 0 ? 0 : batch) == WEIR_OK);
  EXPECT(weir_embedding_update_wait(table) == WEIR_OK);
  expect_row(table, 11, 11.0f - (float)size - 2 * (float)(size - 1));
  expect_row(table, 0, -1.0f);
  expect_row(table, 5, 5.0f);
  EXPECT(weir_embedding_destroy(table) == WEIR_OK);
}

/* Where the update is wrong, the call itself says so at once; elsewhere its wait does. */
static weir_status update_ends_with(weir_embedding* table, const float* gradients, int64_t count, int wrong) {
  const weir_status status = weir_embedding_update(table, gradients, count);
  EXPECT((status != WEIR_OK) == (wrong != 0));
  return wrong ? status : weir_embedding_update_wait(table);
}

/* Each is the same error on all ranks, and the table stays usable. */
static void check_bad_calls(weir_comm* comm) {
  weir_embedding_config config = small_table();
  weir_embedding* table = NULL;
  weir_embedding_statistics statistics = {.struct_size = sizeof(statistics)};
  const int64_t good[batch] = {0, 1, 2, 3};
  int64_t bad[batch] = {0, 1, rows, 3};
  int32_t narrow[batch] = {-7, 1, 2, 3};
  const int wrong = rank == size - 1;
  float vectors[batch * width], gradients[batch * width] = {0};
  char text[100];
  int done = 0;
  config.name = "words";
  EXPECT(weir_embedding_create(comm, &config, &table) == WEIR_OK);

  EXPECT(weir_embedding_lookup_int64(table, wrong ? bad : good, batch, vectors) == WEIR_OK);
  EXPECT(weir_embedding_lookup_wait(table) == WEIR_ERR_ARGUMENT);
  snprintf(text, sizeof text, "table 'words': rank %d looks up id 12 at position 2: ids go from 0 to 11", size - 1);
  EXPECT_TEXT(weir_last_error(comm), text);
  EXPECT(weir_embedding_prefetch_int32(table, narrow, wrong ? 1 : 0) == WEIR_OK);
  EXPECT(weir_embedding_prefetch_wait(table) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "prefetches id -7 at position 0");
  EXPECT(weir_embedding_lookup_int64(table, good, wrong ? -3 : batch, vectors) == WEIR_OK);
  EXPECT(weir_embedding_lookup_wait(table) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "looks up -3 ids at once: largest_batch is 4");
  EXPECT(weir_embedding_lookup_int64(table, good, wrong ? INT64_MAX : batch, vectors) == WEIR_OK);
  EXPECT(weir_embedding_lookup_wait(table) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_embedding_lookup_int64(table, wrong ? NULL : good, batch, vectors) == WEIR_OK);
  EXPECT(weir_embedding_lookup_wait(table) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "looks up with a null pointer");
  EXPECT(weir_embedding_lookup_int64(table, good, batch, wrong ? NULL : vectors) == WEIR_OK);
  EXPECT(weir_embedding_lookup_wait(table) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_embedding_update(table, gradients, batch) == WEIR_ERR_ARGUMENT); /* no rank has looked up */
  EXPECT_TEXT(weir_last_error(comm), "updates without a finished lookup");
  EXPECT(weir_embedding_update_wait(table) == WEIR_OK);

  EXPECT(weir_embedding_lookup_int64(table, good, batch, vectors) == WEIR_OK);
  EXPECT(weir_embedding_lookup_wait(table) == WEIR_OK);
  EXPECT(update_ends_with(table, gradients, wrong ? batch - 1 : batch, wrong) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "elements: they must be as many as the ids of its last lookup x width");
  EXPECT(update_ends_with(table, wrong ? NULL : gradients, batch, wrong) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "gave gradients at a null pointer");
  EXPECT(weir_embedding_update(table, gradients, batch) == WEIR_OK);
  EXPECT(weir_embedding_update_wait(table) == WEIR_OK);

  EXPECT(weir_embedding_export_rows(table, 10, wrong ? 3 : 2, vectors) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "exports 3 rows from row 10 on: the table has 12 rows, 0 to 11");
  EXPECT(weir_embedding_export_rows(table, 10, wrong ? -1 : 2, vectors) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_embedding_export_rows(table, 10, 2, wrong ? NULL : vectors) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_embedding_import_rows(table, 10, 2, wrong ? NULL : vectors) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "null pointer");
  EXPECT(weir_embedding_export_rows(table, 10, 2, vectors) == WEIR_OK);

  /* streams are for tables in CUDA memory; the default stream, NULL, counts as no stream */
  EXPECT(weir_embedding_prefetch_int64_on_stream(table, good, batch, rank == 0 ? comm : NULL) == WEIR_OK);
  EXPECT(weir_embedding_prefetch_wait(table) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "rank 0 gave a stream, but the table is for host memory");
  EXPECT(weir_embedding_lookup_int64_on_stream(table, good, batch, vectors, rank == 0 ? comm : NULL) == WEIR_OK);
  EXPECT(weir_embedding_lookup_wait(table) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_embedding_lookup_int64_on_stream(table, good, batch, vectors, NULL) == WEIR_OK);
  EXPECT(weir_embedding_lookup_wait(table) == WEIR_OK);
  EXPECT(weir_embedding_update_on_stream(table, gradients, batch, rank == 0 ? comm : NULL) ==
         (rank == 0 ? WEIR_ERR_ARGUMENT : WEIR_OK));
  EXPECT(weir_embedding_update_wait(table) == (rank == 0 ? WEIR_OK : WEIR_ERR_ARGUMENT));
  EXPECT_TEXT(weir_last_error(comm), "rank 0 gave a stream");
  EXPECT(weir_embedding_update_on_stream(table, gradients, batch, NULL) == WEIR_OK);
  EXPECT(weir_embedding_update_wait(table) == WEIR_OK);

  EXPECT(weir_embedding_lookup_int64(NULL, good, batch, vectors) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(NULL), "the table is NULL");
  EXPECT(weir_embedding_update(NULL, gradients, batch) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_embedding_lookup_test(table, NULL) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_embedding_update_test(NULL, &done) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_embedding_prefetch_wait(NULL) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_embedding_get_statistics(table, NULL) == WEIR_ERR_ARGUMENT);
  statistics.struct_size = 0;
  EXPECT(weir_embedding_get_statistics(table, &statistics) == WEIR_ERR_ARGUMENT);
  statistics.struct_size = offsetof(weir_embedding_statistics, distinct_rows); /* what lies beyond is not written */
  statistics.distinct_rows = -5;
  EXPECT(weir_embedding_get_statistics(table, &statistics) == WEIR_OK && statistics.tokens == batch &&
         statistics.distinct_rows == -5);

  EXPECT(weir_comm_destroy(comm) == WEIR_ERR_BUSY);
  EXPECT_TEXT(weir_last_error(comm), "1 plan(s), table(s), fused allreduce(s), schedule(s) or checkpoint(s) still use");
  EXPECT(weir_embedding_lookup_int64(table, good, batch, vectors) == WEIR_OK); /* destroyed in flight */
  EXPECT(weir_embedding_destroy(table) == WEIR_OK);
  EXPECT(weir_embedding_destroy(NULL) == WEIR_OK);
}

/* With a width of 4, counts that differ by a multiple of 2^62 have the same product with it modulo 2^64. */
static void check_counts_that_wrap(weir_comm* comm) {
  weir_embedding_config config = small_table();
  weir_embedding* table = NULL;
  const int64_t good[batch] = {0, 1, 2, 3};
  const int64_t turns[3] = {INT64_C(1) << 62, -(INT64_C(1) << 62), INT64_MIN};
  const int wrong = rank == size - 1;
  float vectors[batch * 4], gradients[batch * 4] = {0};
  int i;
  config.width = 4;
  EXPECT(weir_embedding_create(comm, &config, &table) == WEIR_OK);
  for (i = 0; i < 3; ++i) {
    const int64_t more = wrong ? turns[i] : 0;
    EXPECT(weir_embedding_lookup_int64(table, good, batch + more, vectors) == WEIR_OK);
    EXPECT(weir_embedding_lookup_wait(table) == WEIR_ERR_ARGUMENT);
    EXPECT_TEXT(weir_last_error(comm), "ids at once: largest_batch is 4");
    EXPECT(weir_embedding_prefetch_int64(table, good, batch + more) == WEIR_OK);
    EXPECT(weir_embedding_prefetch_wait(table) == WEIR_ERR_ARGUMENT);
    EXPECT(weir_embedding_lookup_int64(table, good, batch, vectors) == WEIR_OK);
    EXPECT(weir_embedding_lookup_wait(table) == WEIR_OK);
    EXPECT(update_ends_with(table, gradients, batch + more, wrong) == WEIR_ERR_ARGUMENT);
    EXPECT_TEXT(weir_last_error(comm), "gave gradients of at least");
    EXPECT(weir_embedding_update(table, gradients, batch) == WEIR_OK);
    EXPECT(weir_embedding_update_wait(table) == WEIR_OK);
    EXPECT(weir_embedding_export_rows(table, 0, batch + more, vectors) == WEIR_ERR_ARGUMENT);
    EXPECT(weir_embedding_import_rows(table, 0, batch + more, vectors) == WEIR_ERR_ARGUMENT);
  }
  EXPECT(weir_embedding_destroy(table) == WEIR_OK);
}

int main(int argc, char** argv) {
  weir_comm* comm = NULL;
  const char* exchange;
  int i;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  EXPECT(weir_comm_create_mpi(MPI_COMM_WORLD, &comm) == WEIR_OK);
  EXPECT(weir_exchange_name(-1) == NULL && weir_exchange_name(1000) == NULL);
  check_config(comm);
  for (i = 0; (exchange = weir_exchange_name(i)) != NULL; ++i) check_training(comm, exchange, i % 3);
  EXPECT(i >= 6);
  check_bad_calls(comm);
  check_counts_that_wrap(comm);
  EXPECT(weir_comm_destroy(comm) == WEIR_OK);
  if (rank == 0) printf("test_embedding passed on %d ranks\n", size);
  MPI_Finalize();
  return 0;
}
