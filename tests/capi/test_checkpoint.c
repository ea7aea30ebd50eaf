/* Checkpoints through the C interface: everything that can be added, values, files, and refused calls. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include <weir/checkpoint.h>

#include "expect.h"

enum { n = 1000, each = 5, rows = 40, width = 4, batch = 6, results = 4 * n + batch * width };

static char folder[128]; /* a new one for each part */
static char made[64];    /* with all of them */

static weir_checkpoint* make(weir_comm* comm, int anew) {
  static int number;
  weir_checkpoint_config config = WEIR_CHECKPOINT_CONFIG_INIT;
  weir_checkpoint* checkpoint = NULL;
  if (anew) snprintf(folder, sizeof(folder), "%s/%d", made, ++number);
  config.folder = folder;
  EXPECT(weir_checkpoint_create(comm, &config, &checkpoint) == WEIR_OK && checkpoint != NULL);
  return checkpoint;
}

static weir_plan* make_plan(weir_comm* comm) {
  weir_allreduce_config config = WEIR_ALLREDUCE_CONFIG_INIT;
  weir_plan* plan = NULL;
  config.count = n;
  OK(weir_plan_create(comm, &config, &plan));
  return plan;
}

/* One object of every kind that a checkpoint saves. */
typedef struct objects {
  weir_plan* plan;
  weir_embedding* table;
  weir_fused* fused;
  weir_layer_optimizer* optimizer;
  weir_sparse_adam* adam;
} objects;

static objects make_objects(weir_comm* comm, int update) {
  weir_embedding_config table = WEIR_EMBEDDING_CONFIG_INIT;
  weir_fusion_config fusion = WEIR_FUSION_CONFIG_INIT;
  weir_fused_tensor tensors[2] = {WEIR_FUSED_TENSOR_INIT, WEIR_FUSED_TENSOR_INIT};
  weir_optimizer_config optimizer = WEIR_OPTIMIZER_CONFIG_INIT;
  weir_optimized_layer layers[2] = {WEIR_OPTIMIZED_LAYER_INIT, WEIR_OPTIMIZED_LAYER_INIT};
  weir_sparse_adam_config adam = WEIR_SPARSE_ADAM_CONFIG_INIT;
  objects of = {.plan = make_plan(comm)};
  table.rows = rows;
  table.width = width;
  table.largest_batch = batch;
  table.optimizer = WEIR_OPTIMIZER_ADAM;
  OK(weir_embedding_create(comm, &table, &of.table));
  fusion.scheme = WEIR_FUSION_AHEAD_INTER;
  tensors[0].name = layers[0].name = "encoder";
  tensors[1].name = layers[1].name = "decoder";
  tensors[0].count = tensors[1].count = layers[0].count = layers[1].count = n / 2;
  OK(weir_fused_create(comm, &fusion, tensors, 2, &of.fused));
  optimizer.update = update;
  OK(weir_optimizer_create(comm, &optimizer, layers, 2, &of.optimizer));
  adam.count = n;
  OK(weir_sparse_adam_create(&adam, &of.adam));
  return of;
}

static void add_objects(weir_checkpoint* checkpoint, objects of) {
  OK(weir_checkpoint_add_plan(checkpoint, "gradient", of.plan));
  OK(weir_checkpoint_add_embedding(checkpoint, "words", of.table));
  OK(weir_checkpoint_add_fused(checkpoint, "model", of.fused));
  OK(weir_checkpoint_add_optimizer(checkpoint, "optimizer", of.optimizer));
  OK(weir_checkpoint_add_sparse_adam(checkpoint, "adam", of.adam));
}

static void destroy_objects(objects of) {
  EXPECT(weir_plan_destroy(of.plan) == WEIR_OK && weir_embedding_destroy(of.table) == WEIR_OK);
  EXPECT(weir_fused_destroy(of.fused) == WEIR_OK && weir_optimizer_destroy(of.optimizer) == WEIR_OK);
  OK(weir_sparse_adam_destroy(of.adam));
}

/* Runs one step of everything and sets `out` to the results. Weights begin at 0 each time. */
static void train(objects of, int step, float out[results]) {
  float *const dense = out + n, *const weights = out + 2 * n, *const sparse = out + 3 * n, *const vectors = out + 4 * n;
  float gradients[n];
  void* const w[2] = {weights, weights + n / 2};
  const void* const g[2] = {gradients, gradients + n / 2};
  const uint32_t indices[3] = {0, (uint32_t)(step + 1), n - 1};
  int32_t ids[batch];
  int i;
  for (i = 0; i < n; ++i) {
    gradients[i] = (float)((i * 7919 + step * 104729) % 1009 - 504) / 504.0f; /* the same on all ranks */
    out[i] = dense[i] = gradients[i] * (float)(rank + 1);
    weights[i] = sparse[i] = 0;
  }
  OK(weir_plan_run(of.plan, out));
  EXPECT(weir_fused_ready(of.fused, 1, dense + n / 2, n / 2) == WEIR_OK && weir_fused_ready(of.fused, 0, dense, n / 2) == WEIR_OK);
  OK(weir_fused_wait_all(of.fused));
  OK(weir_optimizer_step(of.optimizer, w, g, 2, 0.1));
  OK(weir_sparse_adam_step(of.adam, indices, gradients, 3, sparse, n, 0.1));
  for (i = 0; i < batch; ++i) ids[i] = (i * i + step + rank) % rows;
  EXPECT(weir_embedding_lookup_int32(of.table, ids, batch, vectors) == WEIR_OK && weir_embedding_lookup_wait(of.table) == WEIR_OK);
  EXPECT(weir_embedding_update(of.table, vectors, batch) == WEIR_OK && weir_embedding_update_wait(of.table) == WEIR_OK);
}

/* Other objects continue from a file bit for bit. */
static void check_objects(weir_comm* comm) {
  const char* const blocks[] = {"encoder", "decoder"};
  objects first = make_objects(comm, WEIR_OPERATOR_ALL), second = make_objects(comm, WEIR_OPERATOR_REPLICATED);
  weir_checkpoint *saving = make(comm, 1), *loading = make(comm, 0);
  weir_schedule* schedule = NULL;
  float a[results], b[results];
  int64_t found = 7;
  OK(weir_schedule_create(comm, blocks, 2, &schedule));
  add_objects(saving, first);
  add_objects(loading, second);
  WRONG(weir_checkpoint_add_optimizer(saving, "plan", NULL));
  WRONG(weir_checkpoint_add_sparse_adam(saving, "plan", NULL));
  WRONG(weir_checkpoint_add_fused(saving, "plan", (weir_fused*)first.plan));
  EXPECT(weir_checkpoint_add_schedule(saving, "step", schedule) == WEIR_OK &&
         weir_checkpoint_add_schedule(loading, "step", schedule) == WEIR_OK);
  OK(weir_schedule_destroy(schedule)); /* before the checkpoint: its blocks are known */
  EXPECT(weir_checkpoint_restore(loading, -1, &found) == WEIR_OK && found == -1);
  train(first, 0, a);
  OK(weir_checkpoint_save(saving, 4));
  train(first, 1, a);
  OK(weir_checkpoint_wait(saving));
  EXPECT(weir_checkpoint_restore(loading, -1, &found) == WEIR_OK && found == 4);
  train(second, 1, b);
  EXPECT(memcmp(a, b, sizeof(a)) == 0);

  /* destroyed objects can be neither saved nor restored */
  destroy_objects(first);
  OK(weir_checkpoint_save(saving, 5));
  FAILS(weir_checkpoint_wait(saving), WEIR_ERR_STATE, comm, "'gradient' was destroyed");
  destroy_objects(second);
  FAILS(weir_checkpoint_restore(loading, -1, &found), WEIR_ERR_STATE, comm, "was destroyed");
  EXPECT(weir_checkpoint_destroy(saving) == WEIR_OK && weir_checkpoint_destroy(loading) == WEIR_OK);
}

/* The caller's arrays of every type, in every distribution. */
static void check_arrays(weir_comm* comm) {
  weir_checkpoint_statistics statistics = {.struct_size = sizeof(statistics)};
  weir_checkpoint* checkpoint = make(comm, 1);
  struct {
    float weights[n];
    double block[each];
    int64_t large[2];
    int32_t counters[3];
    unsigned char bytes[8];
  } data, saved;
  int64_t found = 0;
  int i;
  memset(&data, 0, sizeof(data));
  for (i = 0; i < n; ++i) data.weights[i] = (float)i / 3;
  for (i = 0; i < each; ++i) data.block[i] = rank * each + i;
  for (i = 0; i < 3; ++i) data.counters[i] = 100 * rank + i;
  for (i = 0; i < 2; ++i) data.large[i] = ((int64_t)1 << 40) + rank + i;
  for (i = 0; i < 7; ++i) data.bytes[i] = (unsigned char)(200 + i);
#define ADD(name, type, distribution, count, first, total)                                                                        \
  OK(weir_checkpoint_add_array(checkpoint, #name, data.name, WEIR_ELEMENT_##type, WEIR_DISTRIBUTION_##distribution, count, first, \
                               total))
  ADD(weights, FLOAT32, REPLICATED, n, 0, 0);
  ADD(block, FLOAT64, BLOCK, each, rank * each, (int64_t)ranks * each);
  ADD(counters, INT32, LOCAL, 3, 0, 0);
  ADD(large, INT64, LOCAL, 2, 0, 0);
  ADD(bytes, UINT8, REPLICATED, 7, 0, 0);
  OK(weir_checkpoint_add_array(checkpoint, "nothing", NULL, WEIR_ELEMENT_FLOAT32, WEIR_DISTRIBUTION_LOCAL, 0, 0, 0));
  memcpy(&saved, &data, sizeof(data));
  OK(weir_checkpoint_save(checkpoint, 0));
  memset(&data, 0, sizeof(data)); /* at once: the save has its own copy */
  EXPECT(weir_checkpoint_restore(checkpoint, 0, &found) == WEIR_OK && found == 0);
  EXPECT(memcmp(&data, &saved, sizeof(data)) == 0);
  OK(weir_checkpoint_get_statistics(checkpoint, &statistics));
  EXPECT(statistics.step == 0 && statistics.ranks == ranks && statistics.bytes_written > 0 && statistics.bytes_read > 0);
  OK(weir_checkpoint_destroy(checkpoint));
}

/* Numbers and texts come back, by name and type. */
static void check_values(weir_comm* comm) {
  weir_checkpoint *checkpoint = make(comm, 1), *later = make(comm, 0);
  const char* text = NULL;
  int64_t integer = 0;
  double real = 0;
  REFUSED(weir_checkpoint_get_integer(checkpoint, "epoch", &integer), comm, "has no integer 'epoch'");
  OK(weir_checkpoint_set_integer(checkpoint, "epoch", 3));
  OK(weir_checkpoint_set_real(checkpoint, "rate", 0.1));
  OK(weir_checkpoint_set_text(checkpoint, "model", "two words"));
  WRONG(weir_checkpoint_set_text(checkpoint, "a/b", ""));
  WRONG(weir_checkpoint_set_text(checkpoint, "model", NULL));
  REFUSED(weir_checkpoint_set_real(checkpoint, NULL, 1), comm, "the name is NULL");
  EXPECT(weir_checkpoint_save(checkpoint, 11) == WEIR_OK && weir_checkpoint_wait(checkpoint) == WEIR_OK);
  OK(weir_checkpoint_restore(later, -1, NULL));
  EXPECT(weir_checkpoint_get_integer(later, "epoch", &integer) == WEIR_OK && integer == 3);
  EXPECT(weir_checkpoint_get_real(later, "rate", &real) == WEIR_OK && real == 0.1);
  EXPECT(weir_checkpoint_get_text(later, "model", &text) == WEIR_OK && strcmp(text, "two words") == 0);
  WRONG(weir_checkpoint_get_real(later, "epoch", &real));
  WRONG(weir_checkpoint_get_text(later, "model", NULL));
  EXPECT(weir_checkpoint_destroy(checkpoint) == WEIR_OK && weir_checkpoint_destroy(later) == WEIR_OK);
}

/* Files are listed, kept, awaited and restored by their steps. */
static void check_files(weir_comm* comm) {
  weir_checkpoint_config in_force = {.struct_size = sizeof(in_force)};
  weir_checkpoint* checkpoint = make(comm, 1);
  int64_t steps[4] = {0}, found = 0;
  int count = -1, done = 0, step;
  OK(weir_checkpoint_get_config(checkpoint, &in_force));
  EXPECT(strcmp(in_force.folder, folder) == 0 && strcmp(in_force.name, "checkpoint") == 0 && in_force.keep == 2);
  EXPECT(weir_checkpoint_steps(checkpoint, NULL, 0, &count) == WEIR_OK && count == 0);
  EXPECT(weir_checkpoint_test(checkpoint, &done) == WEIR_OK && done == 1); /* nothing was saved */
  for (step = 10; step <= 30; step += 10) OK(weir_checkpoint_save(checkpoint, step));
  for (done = 0; !done;) OK(weir_checkpoint_wait_for(checkpoint, 0.01, &done));
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT(weir_checkpoint_steps(checkpoint, steps, 4, &count) == WEIR_OK && count == 2 && steps[0] == 20 && steps[1] == 30);
  EXPECT(weir_checkpoint_steps(checkpoint, steps, 1, &count) == WEIR_ERR_ARGUMENT && count == 2);
  WRONG(weir_checkpoint_steps(checkpoint, steps, 4, NULL));
  FAILS(weir_checkpoint_restore(checkpoint, 10, &found), WEIR_ERR_FILE, comm, "those of steps 20, 30");
  WRONG(weir_checkpoint_wait_for(checkpoint, -1, &done));
  WRONG(weir_checkpoint_test(checkpoint, NULL));

  /* wrong arguments of one rank, and arguments that differ between ranks, are an error on all */
  OK(weir_checkpoint_save(checkpoint, rank == 0 ? -1 : 40));
  EXPECT(weir_checkpoint_wait(checkpoint) != WEIR_OK);
  REFUSED(weir_checkpoint_restore(checkpoint, last ? -2 : 20, &found), comm, "step is -2");
  if (ranks > 1) {
    OK(weir_checkpoint_save(checkpoint, 40 + rank));
    EXPECT(weir_checkpoint_wait(checkpoint) == WEIR_ERR_MISMATCH);
    FAILS(weir_checkpoint_restore(checkpoint, rank == 0 ? -1 : 30, &found), WEIR_ERR_MISMATCH, comm, "rank 0 restores the newest");
  }
  EXPECT(weir_checkpoint_save(checkpoint, 50) == WEIR_OK && weir_checkpoint_destroy(checkpoint) == WEIR_OK); /* which finishes it */
  checkpoint = make(comm, 0);
  EXPECT(weir_checkpoint_restore(checkpoint, -1, &found) == WEIR_OK && found == 50);
  OK(weir_checkpoint_destroy(checkpoint));
}

/* Invalid configurations, objects, names, arrays and signals are refused. One rank's signal stops all ranks. */
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
  OK(weir_plan_destroy(dead));
  REFUSED(weir_checkpoint_create(comm, &config, &checkpoint), comm, "folder is empty");
  config.folder = folder;
  REFUSED(weir_checkpoint_create(comm, rank == 0 ? NULL : &config, &checkpoint), comm, "the config is NULL");
  WRONG(weir_checkpoint_create(comm, &config, last ? NULL : &checkpoint));
  newer.known.struct_size = sizeof(newer);
  newer.known.folder = folder;
  REFUSED(weir_checkpoint_create(comm, &newer.known, &checkpoint), comm, "the config is of a newer header");
  config.keep = 2 + (rank == 0);
  if (ranks > 1) FAILS(weir_checkpoint_create(comm, &config, &checkpoint), WEIR_ERR_MISMATCH, comm, "keep");
  EXPECT(checkpoint == NULL);

  checkpoint = make(comm, 1);
  OK(weir_comm_create_world(&other));
  foreign = make_plan(other);
  REFUSED(weir_checkpoint_add_plan(checkpoint, "plan", foreign), comm, "the plan is of another communicator than the checkpoint");
  EXPECT(weir_plan_destroy(foreign) == WEIR_OK && weir_comm_destroy(other) == WEIR_OK);
  REFUSED(weir_checkpoint_add_plan(checkpoint, "plan", dead), comm, "the plan does not exist");
  WRONG(weir_checkpoint_add_embedding(checkpoint, "table", (weir_embedding*)plan));
  REFUSED(weir_checkpoint_add_schedule(checkpoint, "schedule", NULL), comm, "the schedule is NULL");
  OK(weir_checkpoint_add_plan(checkpoint, "plan", plan));
  REFUSED(weir_checkpoint_add_plan(checkpoint, "plan", plan), comm, "names must differ");
  WRONG(weir_checkpoint_add_plan(checkpoint, "no spaces", plan));
  WRONG(weir_checkpoint_add_plan(checkpoint, NULL, plan));
#define ADD_DATA(data, type, distribution, count, first, total) \
  weir_checkpoint_add_array(checkpoint, "data", data, type, distribution, count, first, total)
  REFUSED(ADD_DATA(data, 5, WEIR_DISTRIBUTION_LOCAL, 4, 0, 0), comm, "type is 5");
  WRONG(ADD_DATA(data, -1, WEIR_DISTRIBUTION_LOCAL, 4, 0, 0));
  REFUSED(ADD_DATA(data, WEIR_ELEMENT_FLOAT32, 3, 4, 0, 0), comm, "distribution is 3");
  WRONG(ADD_DATA(NULL, WEIR_ELEMENT_FLOAT32, WEIR_DISTRIBUTION_LOCAL, 4, 0, 0));
  WRONG(ADD_DATA(data, WEIR_ELEMENT_FLOAT32, WEIR_DISTRIBUTION_LOCAL, -4, 0, 0));
  REFUSED(ADD_DATA(data, WEIR_ELEMENT_FLOAT32, WEIR_DISTRIBUTION_BLOCK, 4, 2, 5), comm, "not within 0 to total, 5");

  REFUSED(weir_checkpoint_catch_signal(SIGKILL), NULL, "cannot be caught");
  EXPECT(weir_checkpoint_stop_requested(checkpoint, rank == 0 ? NULL : &stop) == (rank == 0 ? WEIR_ERR_ARGUMENT : WEIR_OK));
  OK(weir_checkpoint_catch_signal(SIGUSR1));
  if (last) EXPECT(raise(SIGUSR1) == 0); /* stops all */
  EXPECT(weir_checkpoint_stop_requested(checkpoint, &stop) == WEIR_OK && stop == 1);
  EXPECT(weir_comm_destroy(comm) == WEIR_ERR_BUSY);
  EXPECT(weir_plan_destroy(plan) == WEIR_OK && weir_checkpoint_destroy(checkpoint) == WEIR_OK &&
         weir_checkpoint_destroy(NULL) == WEIR_OK);
  WRONG(weir_checkpoint_destroy(checkpoint));
  REFUSED(weir_checkpoint_save(checkpoint, 1), NULL, "the checkpoint does not exist");
}

int main(void) {
  weir_checkpoint_config config = WEIR_CHECKPOINT_CONFIG_INIT;
  weir_checkpoint* checkpoint = NULL;
  weir_comm* comm = NULL;
  weir_status status;
  OK(weir_init());
  find_ranks();
  strcpy(made, "/tmp/weir-test-checkpoint-XXXXXX");
  if (rank == 0) EXPECT(mkdtemp(made) != NULL);
  MPI_Bcast(made, sizeof(made), MPI_CHAR, 0, MPI_COMM_WORLD);
  OK(weir_comm_create_world(&comm));
  config.folder = made;
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
    if (rank == 0) printf("test_checkpoint passed on %d ranks\n", ranks);
  }
  OK(weir_comm_destroy(comm));
  if (rank == 0) {
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", made);
    EXPECT(system(command) == 0);
  }
  OK(weir_finalize());
  return 0;
}
