/* Checkpoints through the C interface: everything that can be added, values, files, and what is refused. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include <weir/checkpoint.h>
#include <weir/mpi.h>

#include "expect.h"

enum { n = 1000, each = 5, rows = 40, width = 4, batch = 6 };

static int size;
static char folder[128]; /* a new one for each part */
static char made[64];    /* with all of them */

static void next_folder(void) {
  static int number;
  snprintf(folder, sizeof(folder), "%s/%d", made, ++number);
}

static weir_checkpoint* make(weir_comm* comm) {
  weir_checkpoint_config config = WEIR_CHECKPOINT_CONFIG_INIT;
  weir_checkpoint* checkpoint = NULL;
  config.folder = folder;
  EXPECT(weir_checkpoint_create(comm, &config, &checkpoint) == WEIR_OK && checkpoint != NULL);
  return checkpoint;
}

static weir_plan* make_plan(weir_comm* comm) {
  weir_allreduce_config config = WEIR_ALLREDUCE_CONFIG_INIT;
  weir_plan* plan = NULL;
  config.count = n;
  EXPECT(weir_plan_create(comm, &config, &plan) == WEIR_OK);
  return plan;
}

static void fill(float* gradient, int step) {
  int i;
  for (i = 0; i < n; ++i) gradient[i] = (float)((i * 7919 + step * 104729 + rank * 31) % 1009 - 504) / 504.0f;
}

static weir_embedding* make_table(weir_comm* comm) {
  weir_embedding_config config = WEIR_EMBEDDING_CONFIG_INIT;
  weir_embedding* table = NULL;
  config.rows = rows;
  config.width = width;
  config.largest_batch = batch;
  config.optimizer = WEIR_OPTIMIZER_ADAM;
  EXPECT(weir_embedding_create(comm, &config, &table) == WEIR_OK);
  return table;
}

static weir_fused* make_fused(weir_comm* comm) {
  weir_fusion_config config = WEIR_FUSION_CONFIG_INIT;
  weir_fused_tensor tensors[2] = {WEIR_FUSED_TENSOR_INIT, WEIR_FUSED_TENSOR_INIT};
  weir_fused* fused = NULL;
  config.scheme = WEIR_FUSION_AHEAD_INTER;
  tensors[0].name = "encoder";
  tensors[0].count = n / 2;
  tensors[1].name = "decoder";
  tensors[1].count = n - n / 2;
  EXPECT(weir_fused_create(comm, &config, tensors, 2, &fused) == WEIR_OK);
  return fused;
}

static void train_fused(weir_fused* fused, float* gradients) {
  EXPECT(weir_fused_ready(fused, 1, gradients + n / 2, n - n / 2) == WEIR_OK);
  EXPECT(weir_fused_ready(fused, 0, gradients, n / 2) == WEIR_OK);
  EXPECT(weir_fused_wait_all(fused) == WEIR_OK);
}

static weir_layer_optimizer* make_optimizer(weir_comm* comm, int update) {
  weir_optimizer_config config = WEIR_OPTIMIZER_CONFIG_INIT;
  weir_optimized_layer layers[2] = {WEIR_OPTIMIZED_LAYER_INIT, WEIR_OPTIMIZED_LAYER_INIT};
  weir_layer_optimizer* optimizer = NULL;
  config.update = update;
  layers[0].name = "encoder";
  layers[0].count = n / 2;
  layers[1].name = "decoder";
  layers[1].count = n - n / 2;
  EXPECT(weir_optimizer_create(comm, &config, layers, 2, &optimizer) == WEIR_OK);
  return optimizer;
}

/* Gradients are the same on all ranks. */
static void train_optimizer(weir_layer_optimizer* optimizer, int step, float* weights) {
  float gradients[n];
  void* const w[2] = {weights, weights + n / 2};
  const void* const g[2] = {gradients, gradients + n / 2};
  int i;
  for (i = 0; i < n; ++i) gradients[i] = (float)((i * 7919 + step * 104729) % 1009 - 504) / 504.0f;
  EXPECT(weir_optimizer_step(optimizer, w, g, 2, 0.1) == WEIR_OK);
}

static weir_sparse_adam* make_adam(void) {
  weir_sparse_adam_config config = WEIR_SPARSE_ADAM_CONFIG_INIT;
  weir_sparse_adam* adam = NULL;
  config.count = n;
  EXPECT(weir_sparse_adam_create(&config, &adam) == WEIR_OK);
  return adam;
}

/* Updates are the same on all ranks. */
static void train_adam(weir_sparse_adam* adam, int step, float* weights) {
  const uint32_t indices[3] = {0, (uint32_t)(step + 1), n - 1};
  const float values[3] = {(float)step - 2, 1, 0.5f};
  EXPECT(weir_sparse_adam_step(adam, indices, values, 3, weights, n, 0.1) == WEIR_OK);
}

/* One step of training; `vectors` become what was looked up. */
static void train(weir_embedding* table, int step, float vectors[batch * width]) {
  int32_t ids[batch];
  int i;
  for (i = 0; i < batch; ++i) ids[i] = (i * i + step + rank) % rows;
  EXPECT(weir_embedding_lookup_int32(table, ids, batch, vectors) == WEIR_OK && weir_embedding_lookup_wait(table) == WEIR_OK);
  EXPECT(weir_embedding_update(table, vectors, batch) == WEIR_OK && weir_embedding_update_wait(table) == WEIR_OK);
}

static weir_schedule* make_schedule(weir_comm* comm, const char* last) {
  const char* blocks[] = {"encoder", last};
  weir_schedule* schedule = NULL;
  EXPECT(weir_schedule_create(comm, blocks, 2, &schedule) == WEIR_OK);
  return schedule;
}

/* Plans, tables, fused tensors, optimizers and schedules go on from a file bit for bit. */
static void check_objects(weir_comm* comm) {
  weir_plan *first = make_plan(comm), *second = make_plan(comm);
  weir_embedding *trained = make_table(comm), *restored = make_table(comm);
  weir_schedule *same = make_schedule(comm, "decoder"), *other = make_schedule(comm, "softmax");
  weir_fused *fused = make_fused(comm), *again = make_fused(comm);
  weir_layer_optimizer* optimizer = make_optimizer(comm, WEIR_OPERATOR_ALL);
  weir_layer_optimizer* optimizer_again = make_optimizer(comm, WEIR_OPERATOR_REPLICATED);
  weir_sparse_adam *adam = make_adam(), *adam_again = make_adam();
  weir_checkpoint *saving, *loading, *refused;
  float a[n], b[n], c[n], d[n], weights[n] = {0}, weights_again[n], sparse[n] = {0}, sparse_again[n], rows_a[batch * width],
                                rows_b[batch * width];
  int64_t found = 7;
  int step;
  next_folder();
  saving = make(comm);
  loading = make(comm);
  refused = make(comm);
  EXPECT(weir_checkpoint_add_plan(saving, "gradient", first) == WEIR_OK);
  EXPECT(weir_checkpoint_add_embedding(saving, "words", trained) == WEIR_OK);
  EXPECT(weir_checkpoint_add_fused(saving, "model", fused) == WEIR_OK);
  EXPECT(weir_checkpoint_add_fused(loading, "model", again) == WEIR_OK);
  EXPECT(weir_checkpoint_add_fused(refused, "model", again) == WEIR_OK);
  EXPECT(weir_checkpoint_add_optimizer(saving, "optimizer", optimizer) == WEIR_OK);
  EXPECT(weir_checkpoint_add_optimizer(loading, "optimizer", optimizer_again) == WEIR_OK);
  EXPECT(weir_checkpoint_add_optimizer(refused, "optimizer", optimizer_again) == WEIR_OK);
  EXPECT(weir_checkpoint_add_optimizer(saving, "plan", NULL) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_checkpoint_add_sparse_adam(saving, "adam", adam) == WEIR_OK);
  EXPECT(weir_checkpoint_add_sparse_adam(loading, "adam", adam_again) == WEIR_OK);
  EXPECT(weir_checkpoint_add_sparse_adam(refused, "adam", adam_again) == WEIR_OK);
  EXPECT(weir_checkpoint_add_sparse_adam(saving, "plan", NULL) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_checkpoint_add_fused(saving, "plan", (weir_fused*)first) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_checkpoint_add_schedule(saving, "step", same) == WEIR_OK);
  EXPECT(weir_checkpoint_add_schedule(loading, "step", same) == WEIR_OK);
  EXPECT(weir_schedule_destroy(same) == WEIR_OK); /* before the checkpoint: its blocks are known */
  EXPECT(weir_checkpoint_add_plan(loading, "gradient", second) == WEIR_OK);
  EXPECT(weir_checkpoint_add_embedding(loading, "words", restored) == WEIR_OK);
  EXPECT(weir_checkpoint_add_plan(refused, "gradient", second) == WEIR_OK);
  EXPECT(weir_checkpoint_add_embedding(refused, "words", restored) == WEIR_OK);
  EXPECT(weir_checkpoint_add_schedule(refused, "step", other) == WEIR_OK);
  EXPECT(weir_checkpoint_restore(loading, -1, &found) == WEIR_OK && found == -1);
  for (step = 0; step < 4; ++step) {
    fill(a, step);
    EXPECT(weir_plan_run(first, a) == WEIR_OK);
    fill(c, step);
    train_fused(fused, c);
    train_optimizer(optimizer, step, weights);
    train_adam(adam, step, sparse);
    train(trained, step, rows_a);
  }
  EXPECT(weir_checkpoint_save(saving, step) == WEIR_OK);
  memcpy(weights_again, weights, sizeof(weights));
  train_optimizer(optimizer, step, weights); /* behind the save */
  memcpy(sparse_again, sparse, sizeof(sparse));
  train_adam(adam, step, sparse);
  fill(a, step);
  EXPECT(weir_plan_run(first, a) == WEIR_OK);
  fill(c, step);
  train_fused(fused, c);
  train(trained, step, rows_a);
  EXPECT(weir_checkpoint_wait(saving) == WEIR_OK);

  EXPECT(weir_checkpoint_restore(refused, -1, &found) == WEIR_ERR_MISMATCH);
  EXPECT_TEXT(weir_last_error(comm), "checkpoint-4.h5");
  EXPECT(weir_checkpoint_restore(loading, -1, &found) == WEIR_OK && found == 4);
  fill(b, step);
  EXPECT(weir_plan_run(second, b) == WEIR_OK && memcmp(a, b, sizeof(a)) == 0);
  fill(d, step);
  train_fused(again, d);
  EXPECT(memcmp(c, d, sizeof(c)) == 0);
  train_optimizer(optimizer_again, step, weights_again);
  EXPECT(memcmp(weights, weights_again, sizeof(weights)) == 0);
  train_adam(adam_again, step, sparse_again);
  EXPECT(memcmp(sparse, sparse_again, sizeof(sparse)) == 0);
  train(restored, step, rows_b);
  EXPECT(memcmp(rows_a, rows_b, sizeof(rows_a)) == 0);

  /* A plan or table that is no more cannot be saved, nor restored. */
  EXPECT(weir_plan_destroy(first) == WEIR_OK && weir_embedding_destroy(restored) == WEIR_OK);
  EXPECT(weir_checkpoint_save(saving, 5) == WEIR_OK && weir_checkpoint_wait(saving) == WEIR_ERR_STATE);
  EXPECT_TEXT(weir_last_error(comm), "'gradient' was destroyed");
  EXPECT(weir_checkpoint_restore(loading, -1, &found) == WEIR_ERR_STATE);
  EXPECT_TEXT(weir_last_error(comm), "'words' was destroyed");
  EXPECT(weir_checkpoint_destroy(saving) == WEIR_OK && weir_checkpoint_destroy(loading) == WEIR_OK);
  EXPECT(weir_checkpoint_destroy(refused) == WEIR_OK && weir_schedule_destroy(other) == WEIR_OK);
  EXPECT(weir_plan_destroy(second) == WEIR_OK && weir_embedding_destroy(trained) == WEIR_OK);
  EXPECT(weir_fused_destroy(fused) == WEIR_OK && weir_fused_destroy(again) == WEIR_OK);
  EXPECT(weir_optimizer_destroy(optimizer) == WEIR_OK && weir_optimizer_destroy(optimizer_again) == WEIR_OK);
  EXPECT(weir_sparse_adam_destroy(adam) == WEIR_OK && weir_sparse_adam_destroy(adam_again) == WEIR_OK);
}

/* The caller's arrays of every type, in every distribution. */
static void check_arrays(weir_comm* comm) {
  weir_checkpoint_statistics statistics = {.struct_size = sizeof(statistics)};
  weir_checkpoint* checkpoint;
  float weights[n];
  double block[each];
  int32_t counters[3];
  int64_t large[2];
  unsigned char bytes[7];
  int64_t found = 0;
  int i;
  next_folder();
  checkpoint = make(comm);
  for (i = 0; i < n; ++i) weights[i] = (float)i / 3;
  for (i = 0; i < each; ++i) block[i] = rank * each + i;
  for (i = 0; i < 3; ++i) counters[i] = 100 * rank + i;
  for (i = 0; i < 2; ++i) large[i] = ((int64_t)1 << 40) + rank + i;
  for (i = 0; i < 7; ++i) bytes[i] = (unsigned char)(200 + i);
  EXPECT(weir_checkpoint_add_array(checkpoint, "weights", weights, WEIR_ELEMENT_FLOAT32, WEIR_DISTRIBUTION_REPLICATED, n, 0, 0) ==
         WEIR_OK);
  EXPECT(weir_checkpoint_add_array(checkpoint, "field", block, WEIR_ELEMENT_FLOAT64, WEIR_DISTRIBUTION_BLOCK, each, rank * each,
                                   (int64_t)size * each) == WEIR_OK);
  EXPECT(weir_checkpoint_add_array(checkpoint, "counters", counters, WEIR_ELEMENT_INT32, WEIR_DISTRIBUTION_LOCAL, 3, 0, 0) ==
         WEIR_OK);
  EXPECT(weir_checkpoint_add_array(checkpoint, "large", large, WEIR_ELEMENT_INT64, WEIR_DISTRIBUTION_LOCAL, 2, 0, 0) == WEIR_OK);
  EXPECT(weir_checkpoint_add_array(checkpoint, "bytes", bytes, WEIR_ELEMENT_UINT8, WEIR_DISTRIBUTION_REPLICATED, 7, 0, 0) ==
         WEIR_OK);
  EXPECT(weir_checkpoint_add_array(checkpoint, "nothing", NULL, WEIR_ELEMENT_FLOAT32, WEIR_DISTRIBUTION_LOCAL, 0, 0, 0) == WEIR_OK);
  EXPECT(weir_checkpoint_save(checkpoint, 0) == WEIR_OK);
  memset(weights, 0, sizeof(weights)); /* at once: the save has its own copy */
  memset(block, 0, sizeof(block));
  memset(counters, 0, sizeof(counters));
  memset(large, 0, sizeof(large));
  memset(bytes, 0, sizeof(bytes));
  EXPECT(weir_checkpoint_restore(checkpoint, 0, &found) == WEIR_OK && found == 0);
  for (i = 0; i < n; ++i) EXPECT(weights[i] == (float)i / 3);
  for (i = 0; i < each; ++i) EXPECT(block[i] == rank * each + i);
  for (i = 0; i < 3; ++i) EXPECT(counters[i] == 100 * rank + i);
  for (i = 0; i < 2; ++i) EXPECT(large[i] == ((int64_t)1 << 40) + rank + i);
  for (i = 0; i < 7; ++i) EXPECT(bytes[i] == 200 + i);
  EXPECT(weir_checkpoint_get_statistics(checkpoint, &statistics) == WEIR_OK);
  EXPECT(statistics.step == 0 && statistics.ranks == size && statistics.bytes_written > 0 && statistics.bytes_read > 0);
  EXPECT(weir_checkpoint_destroy(checkpoint) == WEIR_OK);
}

static void check_values(weir_comm* comm) {
  weir_checkpoint *checkpoint, *later;
  const char* text = NULL;
  int64_t integer = 0, found = 0;
  double real = 0;
  next_folder();
  checkpoint = make(comm);
  later = make(comm);
  EXPECT(weir_checkpoint_get_integer(checkpoint, "epoch", &integer) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "has no integer 'epoch'");
  EXPECT(weir_checkpoint_set_integer(checkpoint, "epoch", 3) == WEIR_OK);
  EXPECT(weir_checkpoint_set_real(checkpoint, "rate", 0.1) == WEIR_OK);
  EXPECT(weir_checkpoint_set_text(checkpoint, "model", "two words") == WEIR_OK);
  EXPECT(weir_checkpoint_set_text(checkpoint, "a/b", "") == WEIR_ERR_ARGUMENT);
  EXPECT(weir_checkpoint_set_text(checkpoint, "model", NULL) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_checkpoint_set_real(checkpoint, NULL, 1) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "the name is NULL");
  EXPECT(weir_checkpoint_save(checkpoint, 11) == WEIR_OK && weir_checkpoint_wait(checkpoint) == WEIR_OK);
  EXPECT(weir_checkpoint_restore(later, -1, NULL) == WEIR_OK);
  EXPECT(weir_checkpoint_get_integer(later, "epoch", &integer) == WEIR_OK && integer == 3);
  EXPECT(weir_checkpoint_get_real(later, "rate", &real) == WEIR_OK && real == 0.1);
  EXPECT(weir_checkpoint_get_text(later, "model", &text) == WEIR_OK && strcmp(text, "two words") == 0);
  EXPECT(weir_checkpoint_get_real(later, "epoch", &real) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_checkpoint_get_text(later, "model", NULL) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_checkpoint_restore(later, 11, &found) == WEIR_OK && found == 11);
  EXPECT(weir_checkpoint_destroy(checkpoint) == WEIR_OK && weir_checkpoint_destroy(later) == WEIR_OK);
}

static void check_files(weir_comm* comm) {
  weir_checkpoint_config in_force = {.struct_size = sizeof(in_force)};
  weir_checkpoint* checkpoint;
  int64_t steps[4] = {0}, found = 0;
  int count = -1, done = 0, step;
  next_folder();
  checkpoint = make(comm);
  EXPECT(weir_checkpoint_get_config(checkpoint, &in_force) == WEIR_OK);
  EXPECT(strcmp(in_force.folder, folder) == 0 && strcmp(in_force.name, "checkpoint") == 0 && in_force.keep == 2);
  EXPECT(weir_checkpoint_steps(checkpoint, NULL, 0, &count) == WEIR_OK && count == 0);
  EXPECT(weir_checkpoint_test(checkpoint, &done) == WEIR_OK && done == 1); /* nothing was saved */
  for (step = 10; step <= 30; step += 10) EXPECT(weir_checkpoint_save(checkpoint, step) == WEIR_OK);
  do EXPECT(weir_checkpoint_wait_for(checkpoint, 0.01, &done) == WEIR_OK);
  while (!done);
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT(weir_checkpoint_steps(checkpoint, steps, 4, &count) == WEIR_OK && count == 2 && steps[0] == 20 && steps[1] == 30);
  EXPECT(weir_checkpoint_steps(checkpoint, steps, 1, &count) == WEIR_ERR_ARGUMENT && count == 2);
  EXPECT(weir_checkpoint_steps(checkpoint, steps, 4, NULL) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_checkpoint_restore(checkpoint, 20, &found) == WEIR_OK && found == 20);
  EXPECT(weir_checkpoint_restore(checkpoint, 10, &found) == WEIR_ERR_FILE);
  EXPECT_TEXT(weir_last_error(comm), "those of steps 20, 30");
  EXPECT(weir_checkpoint_wait_for(checkpoint, -1, &done) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_checkpoint_test(checkpoint, NULL) == WEIR_ERR_ARGUMENT);

  /* What ranks do differently is an error on all. */
  EXPECT(weir_checkpoint_save(checkpoint, -1) == WEIR_OK && weir_checkpoint_wait(checkpoint) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "step is -1");
  EXPECT(weir_checkpoint_restore(checkpoint, rank == size - 1 ? -2 : 20, &found) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "step is -2");
  if (size > 1) {
    EXPECT(weir_checkpoint_save(checkpoint, 40 + rank) == WEIR_OK && weir_checkpoint_wait(checkpoint) == WEIR_ERR_MISMATCH);
    EXPECT(weir_checkpoint_restore(checkpoint, rank == 0 ? 20 : 30, &found) == WEIR_ERR_MISMATCH);
    EXPECT_TEXT(weir_last_error(comm), "rank 0 restores step 20, rank 1 restores step 30");
    EXPECT(weir_checkpoint_restore(checkpoint, rank == 0 ? -1 : 30, &found) == WEIR_ERR_MISMATCH);
    EXPECT_TEXT(weir_last_error(comm), "rank 0 restores the newest");
  }
  EXPECT(weir_checkpoint_save(checkpoint, 50) == WEIR_OK && weir_checkpoint_destroy(checkpoint) == WEIR_OK); /* which finishes it */
  checkpoint = make(comm);
  EXPECT(weir_checkpoint_restore(checkpoint, -1, &found) == WEIR_OK && found == 50);
  EXPECT(weir_checkpoint_destroy(checkpoint) == WEIR_OK);
}

static void check_refusals(weir_comm* comm) {
  struct {
    weir_checkpoint_config known;
    int64_t later;
  } newer = {.known = WEIR_CHECKPOINT_CONFIG_INIT, .later = 5};
  weir_checkpoint_config config = WEIR_CHECKPOINT_CONFIG_INIT;
  weir_checkpoint* checkpoint = NULL;
  weir_comm* other = NULL;
  weir_plan *plan = make_plan(comm), *foreign, *dead = make_plan(comm);
  float data[4] = {0};
  int stop = 0;
  next_folder();
  EXPECT(weir_plan_destroy(dead) == WEIR_OK);
  EXPECT(weir_checkpoint_create(comm, &config, &checkpoint) == WEIR_ERR_ARGUMENT && checkpoint == NULL);
  EXPECT_TEXT(weir_last_error(comm), "folder is empty");
  config.folder = folder;
  EXPECT(weir_checkpoint_create(comm, rank == 0 ? NULL : &config, &checkpoint) == WEIR_ERR_ARGUMENT && checkpoint == NULL);
  EXPECT_TEXT(weir_last_error(comm), "the config is NULL");
  EXPECT(weir_checkpoint_create(comm, &config, rank == size - 1 ? NULL : &checkpoint) == WEIR_ERR_ARGUMENT && checkpoint == NULL);
  newer.known.struct_size = sizeof(newer);
  newer.known.folder = folder;
  EXPECT(weir_checkpoint_create(comm, &newer.known, &checkpoint) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "the config is of a newer header");
  config.keep = 0;
  EXPECT(weir_checkpoint_create(comm, &config, &checkpoint) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "keep is 0");
  config.keep = 2 + (rank == 0);
  if (size > 1) {
    EXPECT(weir_checkpoint_create(comm, &config, &checkpoint) == WEIR_ERR_MISMATCH && checkpoint == NULL);
    EXPECT_TEXT(weir_last_error(comm), "keep");
  }

  checkpoint = make(comm);
  EXPECT(weir_comm_create_world(&other) == WEIR_OK);
  foreign = make_plan(other);
  EXPECT(weir_checkpoint_add_plan(checkpoint, "plan", foreign) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "the plan is of another communicator than the checkpoint");
  EXPECT(weir_plan_destroy(foreign) == WEIR_OK && weir_comm_destroy(other) == WEIR_OK);
  EXPECT(weir_checkpoint_add_plan(checkpoint, "plan", dead) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "the plan is none");
  EXPECT(weir_checkpoint_add_embedding(checkpoint, "table", (weir_embedding*)plan) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_checkpoint_add_schedule(checkpoint, "schedule", NULL) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "the schedule is NULL");
  EXPECT(weir_checkpoint_add_plan(checkpoint, "plan", plan) == WEIR_OK);
  EXPECT(weir_checkpoint_add_plan(checkpoint, "plan", plan) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "names must differ");
  EXPECT(weir_checkpoint_add_plan(checkpoint, "no spaces", plan) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_checkpoint_add_plan(checkpoint, NULL, plan) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_checkpoint_add_array(checkpoint, "data", data, 5, WEIR_DISTRIBUTION_LOCAL, 4, 0, 0) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "type is 5");
  EXPECT(weir_checkpoint_add_array(checkpoint, "data", data, -1, WEIR_DISTRIBUTION_LOCAL, 4, 0, 0) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_checkpoint_add_array(checkpoint, "data", data, WEIR_ELEMENT_FLOAT32, 3, 4, 0, 0) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "distribution is 3");
  EXPECT(weir_checkpoint_add_array(checkpoint, "data", NULL, WEIR_ELEMENT_FLOAT32, WEIR_DISTRIBUTION_LOCAL, 4, 0, 0) ==
         WEIR_ERR_ARGUMENT);
  EXPECT(weir_checkpoint_add_array(checkpoint, "data", data, WEIR_ELEMENT_FLOAT32, WEIR_DISTRIBUTION_LOCAL, -4, 0, 0) ==
         WEIR_ERR_ARGUMENT);
  EXPECT(weir_checkpoint_add_array(checkpoint, "data", data, WEIR_ELEMENT_FLOAT32, WEIR_DISTRIBUTION_BLOCK, 4, 2, 5) ==
         WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "not within 0 to total, 5");

  EXPECT(weir_checkpoint_catch_signal(SIGKILL) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(NULL), "cannot be caught");
  EXPECT(weir_checkpoint_stop_requested(checkpoint, rank == 0 ? NULL : &stop) == (rank == 0 ? WEIR_ERR_ARGUMENT : WEIR_OK));
  EXPECT(weir_comm_destroy(comm) == WEIR_ERR_BUSY);
  EXPECT(weir_plan_destroy(plan) == WEIR_OK && weir_checkpoint_destroy(checkpoint) == WEIR_OK);
  EXPECT(weir_checkpoint_destroy(checkpoint) == WEIR_ERR_ARGUMENT && weir_checkpoint_save(checkpoint, 1) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(NULL), "the checkpoint is none");
  EXPECT(weir_checkpoint_destroy(NULL) == WEIR_OK);
}

/* Any rank's signal stops all. */
static void check_signals(weir_comm* comm) {
  weir_checkpoint* checkpoint;
  int stop = 1;
  next_folder();
  checkpoint = make(comm);
  EXPECT(weir_checkpoint_catch_signal(SIGUSR1) == WEIR_OK);
  EXPECT(weir_checkpoint_stop_requested(checkpoint, &stop) == WEIR_OK && stop == 0);
  if (rank == size - 1) EXPECT(raise(SIGUSR1) == 0);
  EXPECT(weir_checkpoint_stop_requested(checkpoint, &stop) == WEIR_OK && stop == 1);
  EXPECT(weir_checkpoint_destroy(checkpoint) == WEIR_OK);
}

int main(void) {
  weir_checkpoint_config config = WEIR_CHECKPOINT_CONFIG_INIT;
  weir_checkpoint* checkpoint = NULL;
  weir_comm* comm = NULL;
  weir_status status;
  EXPECT(weir_init() == WEIR_OK);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  strcpy(made, "/tmp/weir-test-checkpoint-XXXXXX");
  if (rank == 0) EXPECT(mkdtemp(made) != NULL);
  MPI_Bcast(made, sizeof(made), MPI_CHAR, 0, MPI_COMM_WORLD);
  EXPECT(weir_comm_create_world(&comm) == WEIR_OK);
  next_folder();
  config.folder = folder;
  status = weir_checkpoint_create(comm, &config, &checkpoint);
  if (status == WEIR_ERR_UNSUPPORTED) {
    EXPECT_TEXT(weir_last_error(comm), "this build of Weir has no HDF5");
    if (rank == 0) printf("skipped: this build of Weir has no HDF5\n");
  } else {
    EXPECT(status == WEIR_OK && weir_checkpoint_destroy(checkpoint) == WEIR_OK);
    check_objects(comm);
    check_arrays(comm);
    check_values(comm);
    check_files(comm);
    check_refusals(comm);
    check_signals(comm);
    if (rank == 0) printf("test_checkpoint passed on %d ranks\n", size);
  }
  EXPECT(weir_comm_destroy(comm) == WEIR_OK);
  if (rank == 0) {
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", made);
    EXPECT(system(command) == 0);
  }
  EXPECT(weir_finalize() == WEIR_OK);
  return 0;
}
