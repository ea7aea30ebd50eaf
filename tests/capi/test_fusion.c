/* Tensor fusion from C: each call, structs of other headers in an array, states, and wrong arguments of one rank. */
#include <math.h>
#include <stdlib.h>
#include <weir/fusion.h>

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
  config.algorithm = "topk_allgather";
  EXPECT(weir_fused_create(comm, &config, described, tensors, &fused) == WEIR_OK && fused != NULL);
  return fused;
}

static void fill(float* gradients, int step) {
  int i;
  for (i = 0; i < all; ++i) gradients[i] = (float)((i * 7919 + step * 104729 + rank * 31) % 1009 - 504) / 504.0f;
}

/* Hands the gradients in. Ranks with an odd number skip the optional tensor. */
static void hand_in(weir_fused* fused, float* gradients) {
  int i;
  for (i = tensors - 1; i >= 0; --i)
    OK((i == 3 && rank % 2 == 1 ? weir_fused_skip : weir_fused_ready)(fused, i, gradients + begins[i], counts[i]));
}

/* Every call of an iteration, and every query. */
static void check_calls(weir_comm* comm) {
  weir_fused* fused = make(comm, WEIR_FUSION_AHEAD_INTER);
  weir_fusion_statistics statistics = {.struct_size = sizeof(statistics)};
  weir_fusion_config in_force = {.struct_size = sizeof(in_force)};
  weir_residual residual = {.struct_size = sizeof(residual)};
  float gradients[all], sum[bias];
  int64_t bytes = 0;
  int i, found = -1, buffer = -2, done = 0;
  EXPECT(weir_fused_find_tensor(fused, "decoder.bias", &found) == WEIR_OK && found == 2);
  REFUSED(weir_fused_find_tensor(fused, "decoder.bia", &found), comm, "decoder.bias");
  EXPECT(weir_fused_buffer_of(fused, 0, &buffer) == WEIR_OK && buffer >= 0);
  WRONG(weir_fused_buffer_of(fused, tensors, &buffer));
  EXPECT(weir_fused_memory_bytes(fused, &bytes) == WEIR_OK && bytes > (int64_t)(large * sizeof(float)));
  EXPECT_TEXT(weir_fused_explanation(fused), "buffer");
  EXPECT(weir_fused_get_config(fused, &in_force) == WEIR_OK && in_force.scheme == WEIR_FUSION_AHEAD_INTER);
  EXPECT(strcmp(in_force.algorithm, "topk_allgather") == 0 && in_force.error_feedback == WEIR_FEEDBACK_RESIDUAL);
  fill(gradients, 0);
  MPI_Allreduce(gradients + begins[2], sum, bias, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  hand_in(fused, gradients);
  EXPECT(weir_fused_state_bytes(fused, &bytes) == WEIR_ERR_BUSY);
  OK(weir_fused_progress(fused));
  OK(weir_fused_wait(fused, 1));
  EXPECT(weir_fused_test(fused, 1, &done) == WEIR_OK && done == 1);
  for (done = 0; !done;) OK(weir_fused_wait_for(fused, 0, 0.01, &done));
  OK(weir_fused_wait_all(fused));
  for (i = 0; i < bias; ++i) EXPECT(fabsf(gradients[begins[2] + i] - sum[i] / (float)ranks) < 1e-5f);
  EXPECT(weir_fused_get_statistics(fused, &statistics) == WEIR_OK && statistics.iteration == 1 && statistics.exchanges > 0);
  for (i = 0; i < tensors; ++i)
    EXPECT(weir_fused_residual(fused, i, &residual) == WEIR_OK && residual.begin == 0 &&
           residual.count == (i == 2 ? 0 : counts[i]));
  OK(weir_fused_scale_residuals(fused, 2));
  EXPECT(weir_fused_test(fused, 0, NULL) == WEIR_ERR_ARGUMENT && weir_fused_wait_for(fused, 0, 1, NULL) == WEIR_ERR_ARGUMENT);
  REFUSED(weir_fused_wait_for(fused, 0, -1, &done), comm, "must not be below 0");
  EXPECT(weir_fused_find_tensor(fused, NULL, &done) == WEIR_ERR_ARGUMENT &&
         weir_fused_find_tensor(fused, "a", NULL) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_fused_residual(fused, 0, NULL) == WEIR_ERR_ARGUMENT && weir_fused_get_statistics(fused, NULL) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_fused_reset(fused) == WEIR_OK && weir_fused_destroy(fused) == WEIR_OK && weir_fused_destroy(NULL) == WEIR_OK);
  REFUSED(weir_fused_wait_all(fused), NULL, "the fused allreduce does not exist");
  EXPECT(weir_fused_wait_all(NULL) == WEIR_ERR_ARGUMENT && weir_fused_explanation(fused) == NULL);
}

/* Structs of a newer header, in an array. */
static void check_newer_structs(weir_comm* comm) {
  struct newer {
    weir_fused_tensor known;
    int64_t later[2];
  } described[2] = {{.known = WEIR_FUSED_TENSOR_INIT}, {.known = WEIR_FUSED_TENSOR_INIT}};
  const weir_fusion_config config = WEIR_FUSION_CONFIG_INIT;
  weir_fused* fused = NULL;
  float a[large] = {1}, b[small] = {1};
  described[0].known.struct_size = described[1].known.struct_size = sizeof(described[0]);
  described[0].known.name = "a";
  described[0].known.count = large;
  described[1].known.name = "b";
  described[1].known.count = small;
  described[1].later[1] = 3;
  REFUSED(weir_fused_create(comm, &config, &described[0].known, 2, &fused), comm, "tensor 1 is of a newer header");
  described[1].later[1] = 0;
  described[1].known.struct_size = sizeof(weir_fused_tensor);
  REFUSED(weir_fused_create(comm, &config, &described[0].known, 2, &fused), comm, "struct_size of tensor 1 is");
  described[1].known.struct_size = sizeof(described[0]);
  OK(weir_fused_create(comm, &config, &described[0].known, 2, &fused));
  EXPECT(weir_fused_ready(fused, 0, a, large) == WEIR_OK && weir_fused_ready(fused, 1, b, small) == WEIR_OK);
  EXPECT(weir_fused_wait_all(fused) == WEIR_OK && weir_fused_destroy(fused) == WEIR_OK);
}

/* Wrong arguments of one rank are refused on all ranks, and all can continue. */
static void check_refused_making(weir_comm* comm) {
  weir_fusion_config config = WEIR_FUSION_CONFIG_INIT;
  weir_fused_tensor described[tensors];
  weir_fused* fused = NULL;
  describe(described);
  WRONG(weir_fused_create(comm, last ? NULL : &config, described, tensors, &fused));
  WRONG(weir_fused_create(comm, &config, last ? NULL : described, tensors, &fused));
  if (last) EXPECT_TEXT(weir_last_error(comm), "the tensors are NULL");
  WRONG(weir_fused_create(comm, &config, described, last ? -1 : tensors, &fused));
  WRONG(weir_fused_create(comm, &config, described, tensors, last ? NULL : &fused));
  if (last) described[0].struct_size = 12;
  WRONG(weir_fused_create(comm, &config, described, tensors, &fused));
  if (last) EXPECT_TEXT(weir_last_error(comm), "struct_size of tensor 0 is 12");
  describe(described);
  described[1].name = "encoder.weight";
  REFUSED(weir_fused_create(comm, &config, described, tensors, &fused), comm, "encoder.weight");
  EXPECT(fused == NULL);
}

/* A wrong gradient of one rank ends the iteration on all ranks. The next iteration works. */
static void check_wrong_calls(weir_comm* comm) {
  weir_fused* fused = make(comm, WEIR_FUSION_NONE);
  float gradients[all];
  int i;
  for (i = 0; i < 4; ++i) {
    fill(gradients, i);
    OK(weir_fused_ready(fused, 2, gradients + begins[2], bias));
    OK(weir_fused_ready(fused, 1, last && i == 0 ? NULL : gradients + begins[1], small));
    OK(weir_fused_ready(fused, 0, gradients, last && i == 1 ? large - 1 : large));
    if (last && i == 2) OK(weir_fused_ready(fused, tensors, gradients, large));
    EXPECT(weir_fused_wait_all(fused) == (i < 3 ? WEIR_ERR_ARGUMENT : WEIR_OK));
    if (i < 2) EXPECT_TEXT(weir_last_error(comm), i == 0 ? "decoder.weight" : "encoder.weight");
  }
  OK(weir_fused_destroy(fused));
}

/* Another fused allreduce continues from a saved state. */
static void check_saved_state(weir_comm* comm) {
  weir_fused *first = make(comm, WEIR_FUSION_AHEAD_INTER), *second = make(comm, WEIR_FUSION_AHEAD_INTER);
  float a[all], b[all];
  int64_t bytes = 0;
  char* state;
  fill(a, 0);
  hand_in(first, a);
  OK(weir_fused_wait_all(first));
  EXPECT(weir_fused_state_bytes(first, &bytes) == WEIR_OK && bytes > (int64_t)(large * sizeof(float)));
  state = malloc((size_t)bytes);
  OK(weir_fused_save_state(first, state, bytes));
  WRONG(weir_fused_restore_state(second, state, bytes - 8));
  OK(weir_fused_restore_state(second, state, bytes));
  fill(a, 1);
  fill(b, 1);
  hand_in(first, a);
  hand_in(second, b);
  EXPECT(weir_fused_wait_all(first) == WEIR_OK && weir_fused_wait_all(second) == WEIR_OK && memcmp(a, b, sizeof(a)) == 0);
  free(state);
  EXPECT(weir_fused_destroy(first) == WEIR_OK && weir_fused_destroy(second) == WEIR_OK);
}

int main(int argc, char** argv) {
  weir_comm* const comm = start(&argc, &argv);
  check_calls(comm);
  check_newer_structs(comm);
  check_refused_making(comm);
  check_wrong_calls(comm);
  check_saved_state(comm);
  return end(comm);
}
