/* Adam for sparse updates from C: steps against those of one's own, on every rank the same; parts; states; what is refused. */
#include <math.h>
#include <stdlib.h>
#include <weir/mpi.h>
#include <weir/sparse_adam.h>

#include "expect.h"

enum { n = 2000 };

static weir_sparse_adam* make(int64_t count, int exact) {
  weir_sparse_adam_config config = WEIR_SPARSE_ADAM_CONFIG_INIT;
  weir_sparse_adam* adam = NULL;
  config.count = count;
  config.exact = exact;
  config.name = "words";
  EXPECT(weir_sparse_adam_create(&config, &adam) == WEIR_OK && adam != NULL);
  return adam;
}

/* Dense Adam in double precision; with `touched`, only the weights of these move. */
static void dense_adam(int t, const double* g, const int* touched, double* m, double* v, double* w) {
  int i;
  for (i = 0; i < n; ++i) {
    m[i] = 0.9 * m[i] + 0.1 * g[i];
    v[i] = 0.999 * v[i] + 0.001 * g[i] * g[i];
    if (touched[i]) w[i] -= 0.01 * (m[i] / (1 - pow(0.9, t))) / (sqrt(v[i] / (1 - pow(0.999, t))) + 1e-8);
  }
}

/* What plans deliver, goes into weights. */
static void check_steps(weir_comm* comm, int exact) {
  weir_allreduce_config plan_config = WEIR_ALLREDUCE_CONFIG_INIT;
  weir_sparse_adam* const adam = make(n, exact);
  weir_sparse_adam_config in_force = {.struct_size = sizeof(in_force)};
  weir_sparse_result update = {.struct_size = sizeof(update)};
  weir_plan* plan = NULL;
  float gradient[n], weights[n], first[n];
  double g[n], m[n] = {0}, v[n] = {0}, w[n];
  int touched[n], i, t;
  int64_t number = -1, before = 0, bytes = 0;
  plan_config.count = n;
  plan_config.density = 0.1;
  EXPECT(weir_plan_create(comm, &plan_config, &plan) == WEIR_OK);
  EXPECT(weir_sparse_adam_memory_bytes(adam, &before) == WEIR_OK && before >= (exact ? 16 : 12) * n);
  for (i = 0; i < n; ++i) w[i] = weights[i] = (float)(i % 7);
  for (t = 1; t <= 20; ++t) {
    for (i = 0; i < n; ++i) gradient[i] = (float)((i * 7919 + (t + rank) * 104729) % 1009 - 504) / 504.0f;
    EXPECT(weir_plan_run_sparse(plan, gradient, &update) == WEIR_OK && update.count > 0);
    for (i = 0; i < n; ++i) g[i] = 0, touched[i] = exact;
    for (i = 0; i < update.count; ++i) {
      g[update.indices[i]] = ((const float*)update.values)[i];
      touched[update.indices[i]] = 1;
    }
    EXPECT(weir_sparse_adam_step(adam, update.indices, update.values, update.count, weights, n, 0.01) == WEIR_OK);
    dense_adam(t, g, touched, m, v, w);
  }
  for (i = 0; i < n; ++i) EXPECT(fabs(weights[i] - w[i]) < 1e-4);
  memcpy(first, weights, sizeof(first));
  MPI_Bcast(first, n, MPI_FLOAT, 0, MPI_COMM_WORLD);
  EXPECT(memcmp(first, weights, sizeof(first)) == 0);
  EXPECT(weir_sparse_adam_steps(adam, &number) == WEIR_OK && number == 20);
  EXPECT(weir_sparse_adam_memory_bytes(adam, &bytes) == WEIR_OK && bytes == before);
  EXPECT(weir_sparse_adam_get_config(adam, &in_force) == WEIR_OK);
  EXPECT(in_force.count == n && in_force.exact == exact && strcmp(in_force.name, "words") == 0);
  EXPECT(weir_plan_destroy(plan) == WEIR_OK);
  EXPECT(weir_sparse_adam_destroy(adam) == WEIR_OK && weir_sparse_adam_destroy(NULL) == WEIR_OK);
}

/* Parts are one step; one goes on from what another one has saved. */
static void check_parts_and_states(void) {
  const uint32_t indices[4] = {0, 2, 5, 6};
  const float values[4] = {1.0f, -2.0f, 0.5f, 3.0f};
  weir_sparse_adam *whole = make(7, 0), *parts = make(7, 0), *later = make(7, 0), *other = make(8, 0);
  float a[7] = {0}, b[7] = {0}, c[7];
  int64_t number = 0, bytes = 0;
  char* state;
  int t;
  for (t = 0; t < 3; ++t) {
    EXPECT(weir_sparse_adam_step(whole, indices, values, 4, a, 7, 0.1) == WEIR_OK);
    EXPECT(weir_sparse_adam_step_part(parts, indices + 3, values + 3, 1, b, 7, 0.1) == WEIR_OK);
    EXPECT(weir_sparse_adam_state_bytes(parts, &bytes) == WEIR_ERR_BUSY);
    EXPECT_TEXT(weir_last_error(NULL), "optimizer 'words' is between the parts of a step");
    EXPECT(weir_sparse_adam_step_part(parts, indices + 3, values + 3, 1, b, 7, 0.1) == WEIR_ERR_ARGUMENT);
    EXPECT_TEXT(weir_last_error(NULL), "entry 6 is in two parts of one step");
    EXPECT(weir_sparse_adam_step_part(parts, NULL, NULL, 0, b, 7, 0.1) == WEIR_OK);
    EXPECT(weir_sparse_adam_step(parts, indices, values, 3, b, 7, 0.1) == WEIR_OK);
    EXPECT(memcmp(a, b, sizeof(a)) == 0);
  }
  EXPECT(weir_sparse_adam_steps(parts, &number) == WEIR_OK && number == 3);
  EXPECT(weir_sparse_adam_state_bytes(whole, &bytes) == WEIR_OK && bytes > 0);
  state = malloc((size_t)bytes);
  EXPECT(weir_sparse_adam_save_state(whole, state, bytes - 1) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_sparse_adam_save_state(whole, state, bytes) == WEIR_OK);
  EXPECT(weir_sparse_adam_restore_state(other, state, bytes) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_sparse_adam_restore_state(later, state, bytes - 1) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_sparse_adam_restore_state(later, state, bytes) == WEIR_OK);
  memcpy(c, a, sizeof(c));
  EXPECT(weir_sparse_adam_step(whole, indices, values, 4, a, 7, 0.1) == WEIR_OK);
  EXPECT(weir_sparse_adam_step(later, indices, values, 4, c, 7, 0.1) == WEIR_OK && memcmp(a, c, sizeof(a)) == 0);
  EXPECT(weir_sparse_adam_reset(later) == WEIR_OK && weir_sparse_adam_steps(later, &number) == WEIR_OK && number == 0);
  free(state);
  EXPECT(weir_sparse_adam_destroy(whole) == WEIR_OK && weir_sparse_adam_destroy(parts) == WEIR_OK);
  EXPECT(weir_sparse_adam_destroy(later) == WEIR_OK && weir_sparse_adam_destroy(other) == WEIR_OK);
}

static void check_refusals(void) {
  const uint32_t indices[2] = {1, 4}, falling[2] = {4, 1}, beyond[2] = {1, 5};
  const float values[2] = {1, 1};
  weir_sparse_adam_config config = WEIR_SPARSE_ADAM_CONFIG_INIT;
  weir_sparse_adam *adam = make(5, 0), *none = adam;
  float weights[5] = {0};
  int64_t number = 0;
  int i;
  EXPECT(weir_sparse_adam_create(NULL, &none) == WEIR_ERR_ARGUMENT && none == NULL);
  EXPECT_TEXT(weir_last_error(NULL), "the config is NULL");
  EXPECT(weir_sparse_adam_create(&config, NULL) == WEIR_ERR_ARGUMENT);
  config.beta1 = 1;
  EXPECT(weir_sparse_adam_create(&config, &none) == WEIR_ERR_ARGUMENT && none == NULL);
  EXPECT_TEXT(weir_last_error(NULL), "beta1 is 1: it must be from 0 to below 1");
  EXPECT(weir_sparse_adam_step(adam, falling, values, 2, weights, 5, 0.1) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(NULL), "optimizer 'words': the update's indices do not ascend");
  EXPECT(weir_sparse_adam_step(adam, beyond, values, 2, weights, 5, 0.1) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(NULL), "the update has an entry 5: weights are numbered 0 to 4");
  EXPECT(weir_sparse_adam_step(adam, indices, values, 2, weights, 4, 0.1) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(NULL), "there are 4 weights: it has 5");
  EXPECT(weir_sparse_adam_step(adam, indices, values, 2, weights, 5, NAN) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_sparse_adam_step(adam, NULL, values, 2, weights, 5, 0.1) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(NULL), "the indices are NULL");
  EXPECT(weir_sparse_adam_step(adam, indices, NULL, 2, weights, 5, 0.1) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_sparse_adam_step(adam, indices, values, 2, NULL, 5, 0.1) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(NULL), "the weights are NULL");
  EXPECT(weir_sparse_adam_step(adam, indices, values, -1, weights, 5, 0.1) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(NULL), "the number of indices is negative");
  for (i = 0; i < 5; ++i) EXPECT(weights[i] == 0);
  EXPECT(weir_sparse_adam_steps(adam, NULL) == WEIR_ERR_ARGUMENT && weir_sparse_adam_memory_bytes(adam, NULL) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_sparse_adam_state_bytes(adam, NULL) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_sparse_adam_get_config(adam, NULL) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_sparse_adam_steps(adam, &number) == WEIR_OK && number == 0);
  EXPECT(weir_sparse_adam_destroy(adam) == WEIR_OK && weir_sparse_adam_reset(adam) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(NULL), "the sparse Adam optimizer is none");
}

int main(int argc, char** argv) {
  weir_comm* comm = NULL;
  check_parts_and_states(); /* before MPI, which it needs not */
  check_refusals();
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  EXPECT(weir_comm_create_mpi(MPI_COMM_WORLD, &comm) == WEIR_OK);
  check_steps(comm, 0);
  check_steps(comm, 1);
  EXPECT(weir_comm_destroy(comm) == WEIR_OK);
  MPI_Finalize();
  return 0;
}
