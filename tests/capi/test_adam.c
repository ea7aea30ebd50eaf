/* Adam for sparse updates from C: each call, parts, states, and what is refused. It needs no MPI. */
#include <math.h>
#include <stdlib.h>
#include <weir/sparse_adam.h>

#include "expect.h"

static weir_sparse_adam* make(int64_t count) {
  weir_sparse_adam_config config = WEIR_SPARSE_ADAM_CONFIG_INIT;
  weir_sparse_adam* adam = NULL;
  config.count = count;
  config.name = "words";
  EXPECT(weir_sparse_adam_create(&config, &adam) == WEIR_OK && adam != NULL);
  return adam;
}

/* Parts make one step; another optimizer continues from a saved state. */
static void check_parts_and_states(void) {
  const uint32_t indices[4] = {0, 2, 5, 6};
  const float values[4] = {1.0f, -2.0f, 0.5f, 3.0f};
  weir_sparse_adam *whole = make(7), *parts = make(7), *later = make(7), *other = make(8);
  weir_sparse_adam_config in_force = {.struct_size = sizeof(in_force)};
  float a[7] = {0}, b[7] = {0};
  int64_t number = 0, bytes = 0;
  char* state;
  OK(weir_sparse_adam_step(whole, indices, values, 4, a, 7, 0.1));
  EXPECT(fabsf(a[0] + 0.1f) < 1e-5f && fabsf(a[2] - 0.1f) < 1e-5f && a[1] == 0); /* Adam's first step */
  OK(weir_sparse_adam_step_part(parts, indices + 3, values + 3, 1, b, 7, 0.1));
  FAILS(weir_sparse_adam_state_bytes(parts, &bytes), WEIR_ERR_BUSY, NULL, "optimizer 'words' is between the parts of a step");
  OK(weir_sparse_adam_step_part(parts, NULL, NULL, 0, b, 7, 0.1));
  OK(weir_sparse_adam_step(parts, indices, values, 3, b, 7, 0.1));
  EXPECT(memcmp(a, b, sizeof(a)) == 0);
  EXPECT(weir_sparse_adam_steps(parts, &number) == WEIR_OK && number == 1);
  EXPECT(weir_sparse_adam_memory_bytes(parts, &bytes) == WEIR_OK && bytes > 0);
  OK(weir_sparse_adam_get_config(parts, &in_force));
  EXPECT(in_force.count == 7 && in_force.exact == 0 && strcmp(in_force.name, "words") == 0);

  EXPECT(weir_sparse_adam_state_bytes(whole, &bytes) == WEIR_OK && bytes > 0);
  state = malloc((size_t)bytes);
  WRONG(weir_sparse_adam_save_state(whole, state, bytes - 1));
  OK(weir_sparse_adam_save_state(whole, state, bytes));
  WRONG(weir_sparse_adam_restore_state(other, state, bytes));
  WRONG(weir_sparse_adam_restore_state(later, state, bytes - 1));
  OK(weir_sparse_adam_restore_state(later, state, bytes));
  OK(weir_sparse_adam_step(whole, indices, values, 4, a, 7, 0.1));
  OK(weir_sparse_adam_step(later, indices, values, 4, b, 7, 0.1));
  EXPECT(memcmp(a, b, sizeof(a)) == 0);
  EXPECT(weir_sparse_adam_reset(later) == WEIR_OK && weir_sparse_adam_steps(later, &number) == WEIR_OK && number == 0);
  free(state);
  EXPECT(weir_sparse_adam_destroy(whole) == WEIR_OK && weir_sparse_adam_destroy(parts) == WEIR_OK);
  EXPECT(weir_sparse_adam_destroy(later) == WEIR_OK && weir_sparse_adam_destroy(other) == WEIR_OK);
}

/* NULL, arrays of wrong sizes, and a destroyed optimizer are refused, and change nothing. */
static void check_refusals(void) {
  const uint32_t indices[2] = {1, 4}, falling[2] = {4, 1};
  const float values[2] = {1, 1};
  weir_sparse_adam_config config = WEIR_SPARSE_ADAM_CONFIG_INIT;
  weir_sparse_adam *adam = make(5), *none = adam;
  float weights[5] = {0};
  int64_t number = 0;
  REFUSED(weir_sparse_adam_create(NULL, &none), NULL, "the config is NULL");
  EXPECT(none == NULL);
  WRONG(weir_sparse_adam_create(&config, NULL));
  config.beta1 = 1;
  REFUSED(weir_sparse_adam_create(&config, &none), NULL, "beta1 is 1: it must be from 0 to below 1");
  REFUSED(weir_sparse_adam_step(adam, falling, values, 2, weights, 5, 0.1), NULL, "the update's indices do not ascend");
  REFUSED(weir_sparse_adam_step(adam, indices, values, 2, weights, 4, 0.1), NULL, "there are 4 weights: it has 5");
  REFUSED(weir_sparse_adam_step(adam, NULL, values, 2, weights, 5, 0.1), NULL, "the indices are NULL");
  WRONG(weir_sparse_adam_step(adam, indices, NULL, 2, weights, 5, 0.1));
  REFUSED(weir_sparse_adam_step(adam, indices, values, 2, NULL, 5, 0.1), NULL, "the weights are NULL");
  REFUSED(weir_sparse_adam_step(adam, indices, values, -1, weights, 5, 0.1), NULL, "the number of indices is negative");
  EXPECT(weir_sparse_adam_steps(adam, NULL) == WEIR_ERR_ARGUMENT && weir_sparse_adam_memory_bytes(adam, NULL) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_sparse_adam_state_bytes(adam, NULL) == WEIR_ERR_ARGUMENT &&
         weir_sparse_adam_get_config(adam, NULL) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_sparse_adam_steps(adam, &number) == WEIR_OK && number == 0 && weights[1] == 0);
  EXPECT(weir_sparse_adam_destroy(adam) == WEIR_OK && weir_sparse_adam_destroy(NULL) == WEIR_OK);
  REFUSED(weir_sparse_adam_reset(adam), NULL, "the sparse Adam optimizer does not exist");
}

int main(int argc, char** argv) {
  check_parts_and_states();
  check_refusals();
  MPI_Init(&argc, &argv); /* for the launcher */
  MPI_Finalize();
  return 0;
}
