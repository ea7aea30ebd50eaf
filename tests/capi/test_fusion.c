/* Tensor fusion from C: gradients in, updates out; structs of other headers; what is refused; saved states. */
#include <math.h>
#include <stdlib.h>
#include <weir/fusion.h>
#include <weir/mpi.h>

#include "expect.h"

enum { tensors = 4, large = 400, small = 60, bias = 7, unused = 30, all = large + small + bias + unused };

static const int counts[tensors] = {large, small, bias, unused};
static const int begins[tensors] = {0, large, large + small, large + small + bias};

static void describe(weir_fused_tensor* described) {
  static const char* const names[tensors] = {"encoder.weight", "decoder.weight", "decoder.bias", "unused.weight"};
  const weir_fused_tensor initial = WEIR_FUSED_TENSOR_INIT;
  int i;
  for (i = 0; i < tensors; ++i) {
    described[i] = initial;
    described[i].name = names[i];
    described[i].count = counts[i];
  }
  described[0].k = 5;
  described[2].dense = 1;
  described[3].optional = 1;
}

static weir_fused* make(weir_comm* comm, int scheme) {
  weir_fusion_config config = WEIR_FUSION_CONFIG_INIT;
  weir_fused_tensor described[tensors];
  weir_fused* fused = NULL;
  describe(described);
  config.scheme = scheme;
  config.density = 0.1;
  config.algorithm = "topk_allgather";
  EXPECT(weir_fused_create(comm, &config, described, tensors, &fused) == WEIR_OK && fused != NULL);
  return fused;
}

static void fill(float* gradients, int step) {
  int i;
  for (i = 0; i < all; ++i) gradients[i] = (float)((i * 7919 + step * 104729 + rank * 31) % 1009 - 504) / 504.0f;
}

/* Hands the gradients in. Ranks of an odd number skip the optional tensor; they get its update nevertheless. */
static void hand_in(weir_fused* fused, float* gradients) {
  int i;
  for (i = tensors - 1; i >= 0; --i) {
    float* const gradient = gradients + begins[i];
    if (i == 3 && rank % 2 == 1)
      EXPECT(weir_fused_skip(fused, i, gradient, counts[i]) == WEIR_OK);
    else
      EXPECT(weir_fused_ready(fused, i, gradient, counts[i]) == WEIR_OK);
  }
}

/* What ranks hand in and had left over is what they have left over now and what is delivered. */
static void check_conservation(weir_comm* comm, int scheme, int ranks) {
  weir_fused* fused = make(comm, scheme);
  weir_fusion_statistics statistics = {.struct_size = sizeof(statistics)};
  weir_fusion_config in_force = {.struct_size = sizeof(in_force)};
  float gradients[all], given[all], lowest[all], highest[all];
  double before[all] = {0}, sums[2][all];
  int64_t bytes = 0;
  int step, i, t, found = -1, buffer = -2, done;
  EXPECT(weir_fused_find_tensor(fused, "decoder.bias", &found) == WEIR_OK && found == 2);
  EXPECT(weir_fused_find_tensor(fused, "decoder.bia", &found) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "decoder.bias");
  EXPECT(weir_fused_buffer_of(fused, 0, &buffer) == WEIR_OK && (buffer >= 0) == (scheme != WEIR_FUSION_AHEAD));
  EXPECT(weir_fused_buffer_of(fused, tensors, &buffer) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_fused_memory_bytes(fused, &bytes) == WEIR_OK && bytes > (int64_t)(large * sizeof(float)));
  EXPECT_TEXT(weir_fused_explanation(fused), "buffer");
  EXPECT(weir_fused_get_config(fused, &in_force) == WEIR_OK && in_force.scheme == scheme);
  EXPECT(strcmp(in_force.algorithm, "topk_allgather") == 0 && in_force.error_feedback == WEIR_FEEDBACK_RESIDUAL);
  for (step = 0; step < 5; ++step) {
    fill(gradients, step);
    memcpy(given, gradients, sizeof(given));
    if (rank % 2 == 1) memset(given + begins[3], 0, unused * sizeof(float));
    hand_in(fused, gradients);
    EXPECT(weir_fused_state_bytes(fused, &bytes) == WEIR_ERR_BUSY);
    if (step % 2 == 0) {
      EXPECT(weir_fused_wait(fused, 1) == WEIR_OK);
      EXPECT(weir_fused_test(fused, 1, &done) == WEIR_OK && done == 1);
      for (done = 0; !done;) EXPECT(weir_fused_wait_for(fused, 0, 0.01, &done) == WEIR_OK);
    }
    EXPECT(weir_fused_wait_all(fused) == WEIR_OK);
    EXPECT(weir_fused_get_statistics(fused, &statistics) == WEIR_OK && statistics.iteration == step + 1);
    EXPECT(statistics.exchanges > 0 && statistics.tensors_missing >= 0 && statistics.selected_local > 0);
    for (t = 0; t < tensors; ++t) {
      weir_residual residual = {.struct_size = sizeof(residual)};
      EXPECT(weir_fused_residual(fused, t, &residual) == WEIR_OK && residual.begin == 0);
      EXPECT(residual.count == (t == 2 ? 0 : counts[t]));
      for (i = 0; i < counts[t]; ++i) {
        const int at = begins[t] + i;
        const double after = t == 2 ? 0 : ((const float*)residual.values)[i];
        sums[0][at] = (double)given[at] + before[at] - after;
        before[at] = after;
      }
    }
    MPI_Allreduce(sums[0], sums[1], all, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(gradients, lowest, all, MPI_FLOAT, MPI_MIN, MPI_COMM_WORLD);
    MPI_Allreduce(gradients, highest, all, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
    for (i = 0; i < all; ++i) {
      EXPECT(fabs(sums[1][i] - (double)gradients[i] * ranks) < 1e-4);
      EXPECT(lowest[i] == highest[i]);
    }
  }
  EXPECT(weir_fused_scale_residuals(fused, 2) == WEIR_OK);
  EXPECT(weir_fused_reset(fused) == WEIR_OK && weir_fused_destroy(fused) == WEIR_OK);
}

/* Structs of a newer header, in an array. */
static void check_newer_structs(weir_comm* comm) {
  struct newer {
    weir_fused_tensor known;
    int64_t later[2];
  } described[2] = {{.known = WEIR_FUSED_TENSOR_INIT}, {.known = WEIR_FUSED_TENSOR_INIT}};
  const weir_fusion_config config = WEIR_FUSION_CONFIG_INIT;
  weir_fused* fused = NULL;
  float a[large], b[small];
  int i;
  for (i = 0; i < 2; ++i) described[i].known.struct_size = sizeof(described[0]);
  described[0].known.name = "a";
  described[0].known.count = large;
  described[1].known.name = "b";
  described[1].known.count = small;
  described[1].later[1] = 3;
  EXPECT(weir_fused_create(comm, &config, &described[0].known, 2, &fused) == WEIR_ERR_ARGUMENT && fused == NULL);
  EXPECT_TEXT(weir_last_error(comm), "tensor 1 is of a newer header");
  described[1].later[1] = 0;
  described[1].known.struct_size = sizeof(weir_fused_tensor);
  EXPECT(weir_fused_create(comm, &config, &described[0].known, 2, &fused) == WEIR_ERR_ARGUMENT && fused == NULL);
  EXPECT_TEXT(weir_last_error(comm), "struct_size of tensor 1 is");
  described[1].known.struct_size = sizeof(described[0]);
  EXPECT(weir_fused_create(comm, &config, &described[0].known, 2, &fused) == WEIR_OK);
  for (i = 0; i < large; ++i) a[i] = 1;
  for (i = 0; i < small; ++i) b[i] = 1;
  EXPECT(weir_fused_ready(fused, 0, a, large) == WEIR_OK && weir_fused_ready(fused, 1, b, small) == WEIR_OK);
  EXPECT(weir_fused_wait_all(fused) == WEIR_OK && weir_fused_destroy(fused) == WEIR_OK);
}

/* One rank cannot be understood: all refuse, and can go on. */
static void check_refused_making(weir_comm* comm, int ranks) {
  weir_fusion_config config = WEIR_FUSION_CONFIG_INIT;
  weir_fused_tensor described[tensors];
  weir_fused* fused = NULL;
  const int last = rank == ranks - 1;
  describe(described);
  EXPECT(weir_fused_create(comm, last ? NULL : &config, described, tensors, &fused) == WEIR_ERR_ARGUMENT && fused == NULL);
  EXPECT(weir_fused_create(comm, &config, last ? NULL : described, tensors, &fused) == WEIR_ERR_ARGUMENT);
  if (last) EXPECT_TEXT(weir_last_error(comm), "the tensors are NULL");
  EXPECT(weir_fused_create(comm, &config, described, last ? -1 : tensors, &fused) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_fused_create(comm, &config, described, tensors, last ? NULL : &fused) == WEIR_ERR_ARGUMENT);
  if (last) described[1].struct_size = 12;
  EXPECT(weir_fused_create(comm, &config, described, tensors, &fused) == WEIR_ERR_ARGUMENT && fused == NULL);
  describe(described);
  if (last) described[0].struct_size = 12;
  EXPECT(weir_fused_create(comm, &config, described, tensors, &fused) == WEIR_ERR_ARGUMENT && fused == NULL);
  if (last) EXPECT_TEXT(weir_last_error(comm), "struct_size of tensor 0 is 12");
  describe(described);
  described[1].name = "encoder.weight";
  EXPECT(weir_fused_create(comm, &config, described, tensors, &fused) == WEIR_ERR_ARGUMENT && fused == NULL);
  EXPECT_TEXT(weir_last_error(comm), "encoder.weight");
}

/* What one rank hands in wrongly ends the iteration on all; the next one is as any other. */
static void check_wrong_calls(weir_comm* comm, int ranks) {
  weir_fused* fused = make(comm, WEIR_FUSION_NONE);
  float gradients[all];
  const int last = rank == ranks - 1;
  int i, done = 0;
  for (i = 0; i < 4; ++i) {
    fill(gradients, i);
    EXPECT(weir_fused_ready(fused, 2, gradients + begins[2], bias) == WEIR_OK);
    EXPECT(weir_fused_ready(fused, 1, last && i == 0 ? NULL : gradients + begins[1], small) == WEIR_OK);
    EXPECT(weir_fused_ready(fused, 0, gradients, last && i == 1 ? large - 1 : large) == WEIR_OK);
    if (last && i == 2) EXPECT(weir_fused_ready(fused, tensors, gradients, large) == WEIR_OK);
    EXPECT(weir_fused_wait_all(fused) == (i < 3 ? WEIR_ERR_ARGUMENT : WEIR_OK));
    if (i < 2) EXPECT_TEXT(weir_last_error(comm), i == 0 ? "decoder.weight" : "encoder.weight");
  }
  EXPECT(weir_fused_test(fused, 0, NULL) == WEIR_ERR_ARGUMENT && weir_fused_wait_for(fused, 0, 1, NULL) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_fused_wait_for(fused, 0, -1, &done) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "must not be below 0");
  EXPECT(weir_fused_find_tensor(fused, NULL, &done) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_fused_find_tensor(fused, "decoder.bias", NULL) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_fused_residual(fused, 0, NULL) == WEIR_ERR_ARGUMENT && weir_fused_get_statistics(fused, NULL) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_fused_destroy(fused) == WEIR_OK && weir_fused_destroy(NULL) == WEIR_OK);
  EXPECT(weir_fused_wait_all(fused) == WEIR_ERR_ARGUMENT && weir_fused_explanation(fused) == NULL);
  EXPECT_TEXT(weir_last_error(NULL), "the fused allreduce is none");
  EXPECT(weir_fused_wait_all(NULL) == WEIR_ERR_ARGUMENT && weir_fused_explanation(NULL) == NULL);
}

/* One goes on, bit for bit, from what another one has saved. */
static void check_saved_state(weir_comm* comm) {
  weir_fused *first = make(comm, WEIR_FUSION_AHEAD_INTER), *second = make(comm, WEIR_FUSION_AHEAD_INTER);
  weir_fused* other = make(comm, WEIR_FUSION_BEHIND);
  float a[all], b[all];
  int64_t bytes = 0;
  char* state;
  int step;
  for (step = 0; step < 3; ++step) {
    fill(a, step);
    hand_in(first, a);
    EXPECT(weir_fused_wait_all(first) == WEIR_OK);
  }
  EXPECT(weir_fused_state_bytes(first, &bytes) == WEIR_OK && bytes > (int64_t)(large * sizeof(float)));
  state = malloc((size_t)bytes);
  EXPECT(weir_fused_save_state(first, state, bytes) == WEIR_OK);
  EXPECT(weir_fused_restore_state(other, state, bytes) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_fused_restore_state(second, state, bytes - 8) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_fused_restore_state(second, state, bytes) == WEIR_OK);
  for (; step < 6; ++step) {
    fill(a, step);
    fill(b, step);
    hand_in(first, a);
    hand_in(second, b);
    EXPECT(weir_fused_wait_all(first) == WEIR_OK && weir_fused_wait_all(second) == WEIR_OK);
    EXPECT(memcmp(a, b, sizeof(a)) == 0);
  }
  free(state);
  EXPECT(weir_fused_destroy(first) == WEIR_OK && weir_fused_destroy(second) == WEIR_OK && weir_fused_destroy(other) == WEIR_OK);
}

int main(int argc, char** argv) {
  weir_comm* comm = NULL;
  int ranks, scheme;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  EXPECT(weir_comm_create_mpi(MPI_COMM_WORLD, &comm) == WEIR_OK);
  for (scheme = WEIR_FUSION_NONE; scheme <= WEIR_FUSION_AHEAD_TAPERED; ++scheme) check_conservation(comm, scheme, ranks);
  check_newer_structs(comm);
  check_refused_making(comm, ranks);
  check_wrong_calls(comm, ranks);
  check_saved_state(comm);
  EXPECT(weir_comm_destroy(comm) == WEIR_OK);
  MPI_Finalize();
  return 0;
}
