/* Embedding tables from plain C under mpirun: each call, and typical mistakes of C code. */
#include <stdlib.h>
#include <weir/embedding.h>

#include "expect.h"

enum { rows = 12, width = 3, batch = 4, first_config_size = 120 };

static weir_embedding_config small_table(void) {
  weir_embedding_config config = WEIR_EMBEDDING_CONFIG_INIT;
  config.rows = rows;
  config.width = width;
  config.largest_batch = batch;
  config.learning_rate = 0.5;
  config.average = 0;
  config.name = "words";
  return config;
}

static void expect_row(weir_embedding* table, int64_t row, float value) {
  float out[width];
  int c;
  OK(weir_embedding_export_rows(table, row, 1, out));
  for (c = 0; c < width; ++c) EXPECT(out[c] == value);
}

/* Wrong arguments of one rank in making a table are refused on all ranks. */
static void check_config(weir_comm* comm) {
  weir_embedding_config config = small_table();
  weir_embedding* table = NULL;
  if (last) config.width = 0;
  REFUSED(weir_embedding_create(comm, &config, &table), comm, "width is 0: it must be at least 1");
  config = small_table();
  REFUSED(weir_embedding_create(comm, rank == 0 ? NULL : &config, &table), comm,
          rank == 0 ? "the config is NULL" : "rank 0: the config is NULL");
  REFUSED(weir_embedding_create(comm, &config, rank == 0 ? NULL : &table), comm, "the address for the table is NULL");
  config.struct_size = last ? 3 : sizeof(config);
  REFUSED(weir_embedding_create(comm, &config, &table), comm, "start from WEIR_EMBEDDING_CONFIG_INIT");
  config = small_table();
  config.exchange = NULL;
  REFUSED(weir_embedding_create(comm, &config, &table), comm, "exchange is '': it must be one of columns, rows, ");
  config = small_table();
  config.memory = 7;
  REFUSED(weir_embedding_create(comm, &config, &table), comm, "memory is 7");
  EXPECT(table == NULL);
  config.struct_size = first_config_size; /* a caller with the first header's config: bytes beyond it are not read */
  EXPECT(weir_embedding_create(comm, &config, &table) == WEIR_OK && weir_embedding_destroy(table) == WEIR_OK);
  config = small_table();
  config.seed = last && ranks > 1 ? 2 : 1;
  EXPECT(weir_embedding_create(comm, &config, &table) == (ranks > 1 ? WEIR_ERR_MISMATCH : WEIR_OK));
  if (ranks > 1) EXPECT_TEXT(weir_last_error(comm), "ranks disagree about seed");
  OK(weir_embedding_destroy(table));
  REFUSED(weir_embedding_create(NULL, &config, &table), NULL, "the communicator is NULL");
}

/* Rank r looks up rows r and 11 twice, by ids of both kinds; the gradient of each token is 1. */
static void check_training(weir_comm* comm) {
  weir_embedding_config config = small_table(), in_force = {.struct_size = sizeof(in_force)};
  weir_embedding* table = NULL;
  weir_embedding_statistics statistics = {.struct_size = sizeof(statistics)};
  const int32_t narrow_ids[batch] = {11, rank, 11, rank};
  const int64_t ids[batch] = {11, rank, 11, rank};
  float values[rows * width], vectors[batch * width], gradients[batch * width];
  int64_t bytes = 0;
  char* state;
  int done = 0, i;
  for (i = 0; i < batch * width; ++i) gradients[i] = 1.0f;
  for (i = 0; i < rows * width; ++i) values[i] = (float)(i / width);
  OK(weir_embedding_create(comm, &config, &table));
  OK(weir_embedding_lookup_wait(table)); /* without a lookup */
  OK(weir_embedding_import_rows(table, 0, rank == 0 ? rows : 0, values));
  OK(weir_embedding_lookup_int32(table, narrow_ids, batch, vectors));
  while (!done) OK(weir_embedding_lookup_test(table, &done));
  for (i = 0; i < batch * width; ++i) EXPECT(vectors[i] == (float)ids[i / width]);
  OK(weir_embedding_prefetch_int64(table, ids, batch));
  OK(weir_embedding_update(table, gradients, batch));
  for (done = 0; !done;) OK(weir_embedding_prefetch_wait_for(table, 0.001, &done));
  EXPECT(weir_embedding_prefetch_test(table, &done) == WEIR_OK && done == 1);
  OK(weir_embedding_lookup_int64(table, ids, batch, vectors));
  for (done = 0; !done;) OK(weir_embedding_lookup_wait_for(table, 1, &done));
  for (i = 0; i < width; ++i) EXPECT(vectors[i] == 11.0f - (float)ranks && vectors[width + i] == (float)rank - 1);
  for (done = 0; !done;) OK(weir_embedding_update_test(table, &done));
  EXPECT(weir_embedding_update_wait_for(table, 0, &done) == WEIR_OK && done == 1);
  WRONG(weir_embedding_update_wait_for(table, 0, NULL));
  OK(weir_embedding_get_statistics(table, &statistics));
  EXPECT(statistics.tokens == batch && statistics.distinct_rows == 2 && statistics.prefetched == 1);
  EXPECT(weir_embedding_get_config(table, &in_force) == WEIR_OK && in_force.rows == rows &&
         strcmp(in_force.exchange, "columns") == 0);
  EXPECT(weir_embedding_memory_bytes(table, &bytes) == WEIR_OK && bytes > 0);

  OK(weir_embedding_state_bytes(table, &bytes));
  state = malloc((size_t)bytes);
  OK(weir_embedding_save_state(table, state, bytes));
  OK(weir_embedding_prefetch_int32(table, narrow_ids, 1));
  OK(weir_embedding_set_learning_rate(table, 1.0));
  OK(weir_embedding_lookup_int32(table, narrow_ids, rank == 0 ? 0 : batch, rank == 0 ? NULL : vectors)); /* an empty batch */
  OK(weir_embedding_lookup_wait(table));
  OK(weir_embedding_update(table, rank == 0 ? NULL : gradients, rank == 0 ? 0 : batch));
  OK(weir_embedding_update_wait(table));
  expect_row(table, 11, 11.0f - (float)ranks - 2 * (float)(ranks - 1));
  OK(weir_embedding_restore_state(table, state, bytes));
  WRONG(weir_embedding_restore_state(table, state, bytes - 1));
  expect_row(table, 11, 11.0f - (float)ranks);
  free(state);
  OK(weir_embedding_destroy(table));
}

/* A call with a wrong update fails at once; on other ranks the wait fails. */
static weir_status update_ends(weir_embedding* table, const float* gradients, int64_t count) {
  const weir_status status = weir_embedding_update(table, gradients, count);
  EXPECT((status != WEIR_OK) == last);
  return last ? status : weir_embedding_update_wait(table);
}

#define LOOKUP_REFUSED(ids, count, vectors, text)              \
  OK(weir_embedding_lookup_int64(table, ids, count, vectors)); \
  REFUSED(weir_embedding_lookup_wait(table), comm, text)

/* Each wrong call of the last rank is the same error on all ranks, and the table stays usable. */
static void check_bad_calls(weir_comm* comm) {
  weir_embedding_config config = small_table();
  weir_embedding* table = NULL;
  weir_embedding_statistics statistics = {.struct_size = sizeof(statistics)};
  const int64_t good[batch] = {0, 1, 2, 3}, bad[batch] = {0, 1, rows, 3};
  const int32_t narrow[batch] = {-7, 1, 2, 3};
  float vectors[batch * width], gradients[batch * width] = {0};
  int done = 0;
  OK(weir_embedding_create(comm, &config, &table));
  LOOKUP_REFUSED(last ? bad : good, batch, vectors, "looks up id 12 at position 2: ids go from 0 to 11");
  OK(weir_embedding_prefetch_int32(table, narrow, last ? 1 : 0));
  REFUSED(weir_embedding_prefetch_wait(table), comm, "prefetches id -7 at position 0");
  LOOKUP_REFUSED(good, last ? -3 : batch, vectors, "looks up -3 ids at once: largest_batch is 4");
  LOOKUP_REFUSED(good, last ? INT64_MAX : batch, vectors, "ids at once");
  LOOKUP_REFUSED(last ? NULL : good, batch, vectors, "looks up with a null pointer");
  LOOKUP_REFUSED(good, batch, last ? NULL : vectors, "null pointer");
  REFUSED(weir_embedding_update(table, gradients, batch), comm, "updates without a finished lookup"); /* no rank has looked up */
  OK(weir_embedding_lookup_int64(table, good, batch, vectors));
  OK(weir_embedding_lookup_wait(table));
  REFUSED(update_ends(table, gradients, last ? batch - 1 : batch), comm, "they must be as many as the ids of its last lookup");
  REFUSED(update_ends(table, last ? NULL : gradients, batch), comm, "gave gradients at a null pointer");
  OK(weir_embedding_update(table, gradients, batch));
  OK(weir_embedding_update_wait(table));
  REFUSED(weir_embedding_export_rows(table, 10, last ? 3 : 2, vectors), comm,
          "exports 3 rows from row 10 on: the table has 12 rows");
  WRONG(weir_embedding_export_rows(table, 10, last ? -1 : 2, vectors));
  WRONG(weir_embedding_export_rows(table, 10, 2, last ? NULL : vectors));
  REFUSED(weir_embedding_import_rows(table, 10, 2, last ? NULL : vectors), comm, "null pointer");

  /* streams are for tables in CUDA memory; the default stream, NULL, counts as no stream */
  OK(weir_embedding_prefetch_int64_on_stream(table, good, batch, rank == 0 ? comm : NULL));
  REFUSED(weir_embedding_prefetch_wait(table), comm, "rank 0 gave a stream, but the table is for host memory");
  OK(weir_embedding_prefetch_int32_on_stream(table, narrow + 1, 3, NULL));
  OK(weir_embedding_prefetch_wait(table));
  OK(weir_embedding_lookup_int64_on_stream(table, good, batch, vectors, rank == 0 ? comm : NULL));
  WRONG(weir_embedding_lookup_wait(table));
  OK(weir_embedding_lookup_int32_on_stream(table, narrow + 1, 3, vectors, NULL));
  OK(weir_embedding_lookup_wait(table));
  EXPECT(weir_embedding_update_on_stream(table, gradients, 3, rank == 0 ? comm : NULL) ==
         (rank == 0 ? WEIR_ERR_ARGUMENT : WEIR_OK));
  EXPECT(weir_embedding_update_wait(table) == (rank == 0 ? WEIR_OK : WEIR_ERR_ARGUMENT));
  EXPECT_TEXT(weir_last_error(comm), "rank 0 gave a stream");
  OK(weir_embedding_update_on_stream(table, gradients, 3, NULL));
  OK(weir_embedding_update_wait(table));

  REFUSED(weir_embedding_lookup_int64(NULL, good, batch, vectors), NULL, "the table is NULL");
  EXPECT(weir_embedding_update(NULL, gradients, batch) == WEIR_ERR_ARGUMENT &&
         weir_embedding_prefetch_wait(NULL) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_embedding_lookup_test(table, NULL) == WEIR_ERR_ARGUMENT &&
         weir_embedding_update_test(NULL, &done) == WEIR_ERR_ARGUMENT);
  WRONG(weir_embedding_get_statistics(table, NULL));
  statistics.struct_size = 0;
  WRONG(weir_embedding_get_statistics(table, &statistics));
  statistics.struct_size = offsetof(weir_embedding_statistics, distinct_rows); /* bytes beyond it are not written */
  statistics.distinct_rows = -5;
  OK(weir_embedding_get_statistics(table, &statistics));
  EXPECT(statistics.tokens == 3 && statistics.distinct_rows == -5);
  FAILS(weir_comm_destroy(comm), WEIR_ERR_BUSY, comm,
        "1 plan(s), table(s), fused allreduce(s), schedule(s) or checkpoint(s) still use");
  OK(weir_embedding_lookup_int64(table, good, batch, vectors)); /* destroyed in flight */
  EXPECT(weir_embedding_destroy(table) == WEIR_OK && weir_embedding_destroy(NULL) == WEIR_OK);
}

/* With a width of 4, counts that differ by a multiple of 2^62 have the same product with it modulo 2^64. */
static void check_counts_that_wrap(weir_comm* comm) {
  weir_embedding_config config = small_table();
  weir_embedding* table = NULL;
  const int64_t good[batch] = {0, 1, 2, 3};
  const int64_t turns[3] = {INT64_C(1) << 62, -(INT64_C(1) << 62), INT64_MIN};
  float vectors[batch * 4], gradients[batch * 4] = {0};
  int i;
  config.width = 4;
  OK(weir_embedding_create(comm, &config, &table));
  for (i = 0; i < 3; ++i) {
    const int64_t more = last ? turns[i] : 0;
    LOOKUP_REFUSED(good, batch + more, vectors, "ids at once: largest_batch is 4");
    OK(weir_embedding_prefetch_int64(table, good, batch + more));
    WRONG(weir_embedding_prefetch_wait(table));
    OK(weir_embedding_lookup_int64(table, good, batch, vectors));
    OK(weir_embedding_lookup_wait(table));
    REFUSED(update_ends(table, gradients, batch + more), comm, "gave gradients of at least");
    OK(weir_embedding_update(table, gradients, batch));
    OK(weir_embedding_update_wait(table));
    WRONG(weir_embedding_export_rows(table, 0, batch + more, vectors));
    WRONG(weir_embedding_import_rows(table, 0, batch + more, vectors));
  }
  OK(weir_embedding_destroy(table));
}

int main(int argc, char** argv) {
  weir_comm* const comm = start(&argc, &argv);
  EXPECT(weir_exchange_name(-1) == NULL && weir_exchange_name(1000) == NULL);
  check_config(comm);
  check_training(comm);
  check_bad_calls(comm);
  check_counts_that_wrap(comm);
  return end(comm);
}
