/* Divided work, LARS and LAMB from C: results of bodies and what they fail with; steps against those of one's own; states; what is
 * refused. */
#include <math.h>
#include <stdlib.h>
#include <weir/mpi.h>
#include <weir/optim.h>

#include "expect.h"

enum { parts = 9, layers = 4, wide = 70001, narrow = 300, bias = 5, all = wide + narrow + bias, halves = 500 };

static int ranks;

/* --- operators --- */

typedef struct run {
  int calls[parts];
  int failing, returned; /* the part that fails, and with what; -1: none */
  const char* text;
  weir_operator* inside; /* used by the body, which is refused */
} run;

static int64_t square(void* context, int part, void* result, int64_t bytes, const char** error) {
  run* const of = context;
  const double value = part * part;
  int done = 0;
  EXPECT(*error == NULL && bytes == (part == 3 ? 0 : (int64_t)sizeof(double)));
  ++of->calls[part];
  if (of->inside != NULL) EXPECT(weir_operator_test(of->inside, &done) == WEIR_ERR_BUSY);
  if (part == of->failing) {
    *error = of->text;
    return of->returned;
  }
  if (bytes > 0) memcpy(result, &value, sizeof(value));
  return bytes;
}

/* As many bytes as the part's number says, in a place of 8. */
static int64_t some(void* context, int part, void* result, int64_t bytes, const char** error) {
  (void)context, (void)error;
  memset(result, part + 1, (size_t)(part % 9));
  return bytes < part % 9 ? bytes : part % 9;
}

static weir_operator* make_operator(weir_comm* comm, int division, int variable) {
  weir_operator_config config = WEIR_OPERATOR_CONFIG_INIT;
  weir_operator_part described[parts];
  weir_operator* work = NULL;
  int i;
  for (i = 0; i < parts; ++i) {
    const weir_operator_part initial = WEIR_OPERATOR_PART_INIT;
    described[i] = initial;
    described[i].seconds = 1e-3 * (i % 3);
    described[i].result_bytes = i == 3 && !variable ? 0 : 8;
  }
  config.division = division;
  config.variable = variable;
  config.name = "squares";
  EXPECT(weir_operator_create(comm, &config, described, parts, &work) == WEIR_OK && work != NULL);
  return work;
}

static void check_operator(weir_comm* comm, int division) {
  weir_operator* const work = make_operator(comm, division, 0);
  weir_operator_statistics statistics = {.struct_size = sizeof(statistics)};
  weir_operator_config in_force = {.struct_size = sizeof(in_force)};
  run of = {.failing = -1, .inside = work};
  double results[parts - 1], expected;
  int64_t bytes = 0, offset = 0;
  int i, t, works, done = 0, mine = 0, calls = 0;
  EXPECT(weir_operator_bytes(work, &bytes) == WEIR_OK && bytes == sizeof(results));
  EXPECT(weir_operator_test(work, &done) == WEIR_OK && done == 1 && weir_operator_wait(work) == WEIR_OK);
  for (t = 0; t < 3; ++t) {
    memset(results, 0xff, sizeof(results));
    if (t == 0) {
      EXPECT(weir_operator_run(work, square, &of, results, bytes) == WEIR_OK);
    } else {
      EXPECT(weir_operator_start(work, square, &of, results, bytes) == WEIR_OK);
      for (done = 0; t == 1 && !done;) EXPECT(weir_operator_test(work, &done) == WEIR_OK);
      for (done = 0; t == 2 && !done;) EXPECT(weir_operator_wait_for(work, 0.01, &done) == WEIR_OK);
      EXPECT(weir_operator_wait(work) == WEIR_OK);
    }
    for (i = 0; i < parts; ++i) {
      EXPECT(weir_operator_offset(work, i, &offset) == WEIR_OK && offset == 8 * (i > 3 ? i - 1 : i));
      EXPECT(weir_operator_result_bytes(work, i, &bytes) == WEIR_OK && bytes == (i == 3 ? 0 : 8));
      expected = i * i;
      if (i != 3) EXPECT(results[offset / 8] == expected);
    }
    bytes = sizeof(results);
  }
  for (i = 0; i < parts; ++i) {
    EXPECT(weir_operator_works_on(work, i, &works) == WEIR_OK && of.calls[i] == 3 * works);
    mine += works;
  }
  MPI_Allreduce(&mine, &calls, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  EXPECT(weir_operator_get_config(work, &in_force) == WEIR_OK && strcmp(in_force.name, "squares") == 0);
  EXPECT(division == WEIR_OPERATOR_AUTOMATIC || in_force.division == division);
  if (in_force.division == WEIR_OPERATOR_ALL) EXPECT(calls == parts);
  if (in_force.division == WEIR_OPERATOR_REPLICATED) EXPECT(calls == parts * ranks);
  EXPECT(weir_operator_get_statistics(work, &statistics) == WEIR_OK && statistics.runs == 3 && statistics.seconds_work >= 0);
  EXPECT(weir_operator_memory_bytes(work, &bytes) == WEIR_OK && bytes >= 0);
  EXPECT_TEXT(weir_operator_explanation(work), "9 parts are worked on");
  EXPECT(weir_operator_destroy(work) == WEIR_OK && weir_operator_destroy(NULL) == WEIR_OK);
}

static void check_variable(weir_comm* comm) {
  weir_operator* const work = make_operator(comm, WEIR_OPERATOR_ALL, 1);
  unsigned char results[parts][8];
  int64_t bytes = 0;
  int i, j;
  memset(results, 0xff, sizeof(results));
  EXPECT(weir_operator_run(work, some, NULL, results, sizeof(results)) == WEIR_OK);
  for (i = 0; i < parts; ++i) {
    EXPECT(weir_operator_result_bytes(work, i, &bytes) == WEIR_OK && bytes == i);
    for (j = 0; j < i && j < 8; ++j) EXPECT(results[i][j] == i + 1);
  }
  EXPECT(weir_operator_destroy(work) == WEIR_OK);
}

/* What one rank's body fails with, all ranks hear; the next run is as any other. */
static void check_failing_bodies(weir_comm* comm) {
  static const struct {
    int returned, status;
    const char *text, *heard;
  } cases[] = {{-WEIR_ERR_FILE, WEIR_ERR_FILE, "no such norm", "operator 'squares', rank 0: no such norm"},
               {-WEIR_ERR_MEMORY, WEIR_ERR_MEMORY, NULL, "rank 0, part 0: its body returned -8"},
               {-77, WEIR_ERR_INTERNAL, "odd", "odd"},
               {-2147483647 - 1, WEIR_ERR_INTERNAL, NULL, "its body returned -2147483648"},
               {7, WEIR_ERR_ARGUMENT, NULL, "part 0: its body returned 7 bytes: it must be 8"}};
  weir_operator* const work = make_operator(comm, WEIR_OPERATOR_ALL, 0);
  double results[parts - 1];
  size_t i;
  for (i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
    run of = {.failing = 0, .returned = cases[i].returned, .text = cases[i].text};
    EXPECT(weir_operator_start(work, square, &of, results, sizeof(results)) == WEIR_OK);
    EXPECT(weir_operator_wait(work) == (weir_status)cases[i].status);
    EXPECT_TEXT(weir_last_error(comm), cases[i].heard);
    of.failing = -1;
    EXPECT(weir_operator_run(work, square, &of, results, sizeof(results)) == WEIR_OK && results[7] == 64);
  }
  EXPECT(weir_operator_destroy(work) == WEIR_OK);
}

/* One rank cannot be understood: all refuse, and can go on. */
static void check_refused_runs(weir_comm* comm) {
  const int last = rank == ranks - 1;
  const weir_operator_config config = WEIR_OPERATOR_CONFIG_INIT;
  weir_operator_part described[2] = {WEIR_OPERATOR_PART_INIT, WEIR_OPERATOR_PART_INIT};
  weir_operator* work = NULL;
  run of = {.failing = -1};
  double results[parts - 1];
  char heard[100];
  int64_t number = 0;
  int done = 0;
  EXPECT(weir_operator_create(comm, last ? NULL : &config, described, 2, &work) == WEIR_ERR_ARGUMENT && work == NULL);
  EXPECT(weir_operator_create(comm, &config, last ? NULL : described, 2, &work) == WEIR_ERR_ARGUMENT && work == NULL);
  if (last) EXPECT_TEXT(weir_last_error(comm), "the parts are NULL");
  EXPECT(weir_operator_create(comm, &config, described, last ? -1 : 2, &work) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_operator_create(comm, &config, described, 2, last ? NULL : &work) == WEIR_ERR_ARGUMENT);
  if (last) described[1].struct_size = 16;
  EXPECT(weir_operator_create(comm, &config, described, 2, &work) == WEIR_ERR_ARGUMENT && work == NULL);
  if (last) EXPECT_TEXT(weir_last_error(comm), "struct_size of part 1 is 16");
  described[1].struct_size = sizeof(described[0]);
  if (last) described[1].seconds = -1;
  EXPECT(weir_operator_create(comm, &config, described, 2, &work) == WEIR_ERR_ARGUMENT && work == NULL);
  EXPECT_TEXT(weir_last_error(comm), "part 1: seconds is -1");

  work = make_operator(comm, WEIR_OPERATOR_ALL, 0);
  EXPECT(weir_operator_run(work, last ? NULL : square, &of, results, sizeof(results)) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "there is no body");
  EXPECT(weir_operator_run(work, square, &of, last ? NULL : results, sizeof(results)) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "the address for results is null");
  EXPECT(weir_operator_run(work, square, &of, results, last ? -8 : (int64_t)sizeof(results)) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "there are 0 bytes for results: they take 64");
  for (done = 0; done < 2; ++done) {
    if (last)
      EXPECT(weir_operator_refuse(work, done ? NULL : "the array has gaps") == WEIR_OK);
    else
      EXPECT(weir_operator_start(work, square, &of, results, sizeof(results)) == WEIR_OK);
    EXPECT(weir_operator_wait(work) == WEIR_ERR_ARGUMENT);
    snprintf(heard, sizeof(heard), "operator 'squares', rank %d: %s", ranks - 1,
             done ? "no reason is given" : "the array has gaps");
    EXPECT(strcmp(weir_last_error(comm), heard) == 0);
  }
  EXPECT(weir_operator_start(work, square, &of, results, sizeof(results)) == WEIR_OK);
  if (ranks > 1) EXPECT(weir_operator_start(work, square, &of, results, sizeof(results)) == WEIR_ERR_BUSY);
  EXPECT(weir_operator_wait(work) == WEIR_OK && results[7] == 64);
  EXPECT(weir_operator_test(work, NULL) == WEIR_ERR_ARGUMENT && weir_operator_wait_for(work, 1, NULL) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_operator_wait_for(work, -1, &done) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_operator_offset(work, parts, &number) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "there is no part 9: they are numbered 0 to 8");
  EXPECT(weir_operator_offset(work, 0, NULL) == WEIR_ERR_ARGUMENT && weir_operator_works_on(work, 0, NULL) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_operator_bytes(work, NULL) == WEIR_ERR_ARGUMENT && weir_operator_result_bytes(work, 0, NULL) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_operator_destroy(work) == WEIR_OK && weir_operator_wait(work) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(NULL), "the operator is none");
  EXPECT(weir_operator_explanation(work) == NULL && weir_operator_explanation(NULL) == NULL);
}

/* --- optimizers --- */

static const int counts[layers] = {wide, narrow, bias, 0};

static weir_layer_optimizer* make_optimizer(weir_comm* comm, int rule, int update) {
  static const char* const names[layers] = {"fc1.weight", "fc2.weight", "fc2.bias", "none.weight"};
  weir_optimizer_config config = WEIR_OPTIMIZER_CONFIG_INIT;
  weir_optimized_layer described[layers];
  weir_layer_optimizer* optimizer = NULL;
  int i;
  for (i = 0; i < layers; ++i) {
    const weir_optimized_layer initial = WEIR_OPTIMIZED_LAYER_INIT;
    described[i] = initial;
    described[i].name = names[i];
    described[i].count = counts[i];
    described[i].excluded = i == 2;
  }
  config.rule = rule;
  config.update = update;
  config.weight_decay = 0.01;
  EXPECT(weir_optimizer_create(comm, &config, described, layers, &optimizer) == WEIR_OK && optimizer != NULL);
  return optimizer;
}

static void place(float* values, void** addresses) {
  int i, begin = 0;
  for (i = 0; i < layers; begin += counts[i++]) addresses[i] = counts[i] > 0 ? values + begin : NULL;
}

static void fill(float* values, int step) {
  int i;
  for (i = 0; i < all; ++i) values[i] = (float)((i * 7919 + step * 104729) % 1009 - 504) / 504.0f;
}

static weir_status step(weir_layer_optimizer* optimizer, float* weights, float* gradients, double learning_rate) {
  void *w[layers], *g[layers];
  place(weights, w);
  place(gradients, g);
  return weir_optimizer_step(optimizer, w, (const void* const*)g, layers, learning_rate);
}

/* LARS as in the table of docs/optimizers.md, in double precision. */
static void lars(const double* rates, double* weights, double* momentum, const float* gradients) {
  int i, layer, begin = 0;
  for (layer = 0; layer < layers; begin += counts[layer++]) {
    const double decay = layer == 2 ? 0 : 0.01;
    double w = 0, g = 0, rate;
    for (i = begin; i < begin + counts[layer]; ++i) w += weights[i] * weights[i], g += (double)gradients[i] * gradients[i];
    rate = layer >= 2 ? 1 : 1e-3 * sqrt(w) / (sqrt(g) + 0.01 * sqrt(w));
    EXPECT(fabs(rates[layer] - rate) < 1e-5 * rate);
    for (i = begin; i < begin + counts[layer]; ++i) {
      momentum[i] = 0.9 * momentum[i] + 0.1 * rate * (gradients[i] + decay * weights[i]);
      weights[i] -= momentum[i];
    }
  }
}

static void check_lars(weir_comm* comm, int update) {
  weir_layer_optimizer* const optimizer = make_optimizer(comm, WEIR_OPTIMIZER_LARS, update);
  weir_optimizer_statistics statistics = {.struct_size = sizeof(statistics)};
  weir_optimizer_config in_force = {.struct_size = sizeof(in_force)};
  float *weights = malloc(all * sizeof(float)), *gradients = malloc(all * sizeof(float));
  double *expected = malloc(all * sizeof(double)), *momentum = calloc(all, sizeof(double)), rates[layers];
  int64_t bytes = 0;
  int i, t;
  fill(weights, 100);
  for (i = 0; i < all; ++i) expected[i] = weights[i];
  for (t = 0; t < 4; ++t) {
    fill(gradients, t);
    EXPECT(step(optimizer, weights, gradients, 0.1) == WEIR_OK);
    EXPECT(weir_optimizer_rates(optimizer, rates, layers) == WEIR_OK);
    lars(rates, expected, momentum, gradients);
    for (i = 0; i < all; ++i) EXPECT(fabs(weights[i] - expected[i]) < 1e-5);
  }
  EXPECT(weir_optimizer_get_statistics(optimizer, &statistics) == WEIR_OK && statistics.steps == 4);
  EXPECT(weir_optimizer_get_config(optimizer, &in_force) == WEIR_OK && in_force.weight_decay == 0.01);
  EXPECT(in_force.norms != WEIR_OPERATOR_AUTOMATIC && in_force.update != WEIR_OPERATOR_AUTOMATIC);
  EXPECT(weir_optimizer_memory_bytes(optimizer, &bytes) == WEIR_OK && bytes > 0);
  EXPECT_TEXT(weir_optimizer_explanation(optimizer), "norms: ");
  EXPECT(weir_optimizer_destroy(optimizer) == WEIR_OK && weir_optimizer_destroy(NULL) == WEIR_OK);
  free(weights), free(gradients), free(expected), free(momentum);
}

static uint16_t upper_half(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return (uint16_t)(bits >> 16);
}

static float from_upper_half(uint16_t half) {
  const uint32_t bits = (uint32_t)half << 16;
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

/* One goes on, bit for bit, from what another one has saved. */
static void check_saved_state(weir_comm* comm, int rule) {
  weir_layer_optimizer* const first = make_optimizer(comm, rule, WEIR_OPERATOR_ALL);
  weir_layer_optimizer* const second = make_optimizer(comm, rule, WEIR_OPERATOR_ALL);
  weir_layer_optimizer* const other = make_optimizer(comm, WEIR_OPTIMIZER_LARS + WEIR_OPTIMIZER_LAMB - rule, WEIR_OPERATOR_ALL);
  float *a = malloc(all * sizeof(float)), *b = malloc(all * sizeof(float)), *gradients = malloc(all * sizeof(float));
  int64_t bytes = 0;
  char* state;
  int t;
  fill(a, 100);
  for (t = 0; t < 3; ++t) {
    fill(gradients, t);
    EXPECT(step(first, a, gradients, 0.1) == WEIR_OK);
  }
  memcpy(b, a, all * sizeof(float));
  EXPECT(weir_optimizer_state_bytes(first, &bytes) == WEIR_OK && bytes > 0);
  state = malloc((size_t)bytes);
  EXPECT(weir_optimizer_save_state(first, state, bytes) == WEIR_OK);
  EXPECT(weir_optimizer_restore_state(other, state, bytes) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_optimizer_restore_state(second, state, bytes - 8) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_optimizer_restore_state(second, state, bytes) == WEIR_OK);
  for (; t < 6; ++t) {
    fill(gradients, t);
    EXPECT(step(first, a, gradients, 0.1) == WEIR_OK && step(second, b, gradients, 0.1) == WEIR_OK);
    EXPECT(memcmp(a, b, all * sizeof(float)) == 0);
  }
  EXPECT(weir_optimizer_reset(second) == WEIR_OK);
  EXPECT(step(first, a, gradients, 0.1) == WEIR_OK && step(second, b, gradients, 0.1) == WEIR_OK);
  EXPECT(memcmp(a, b, all * sizeof(float)) != 0);
  free(state), free(a), free(b), free(gradients);
  EXPECT(weir_optimizer_destroy(first) == WEIR_OK && weir_optimizer_destroy(second) == WEIR_OK);
  EXPECT(weir_optimizer_destroy(other) == WEIR_OK);
}

/* Weights of 16 bits: bfloat16 is the upper half of a float32. */
static void check_narrow_weights(weir_comm* comm) {
  weir_optimizer_config config = WEIR_OPTIMIZER_CONFIG_INIT;
  weir_optimized_layer described = WEIR_OPTIMIZED_LAYER_INIT;
  weir_layer_optimizer *whole = NULL, *halved = NULL;
  float weights[halves], gradients[halves];
  uint16_t weights16[halves], gradients16[halves];
  void *w = weights, *w16 = weights16;
  const void *g = gradients, *g16 = gradients16;
  int i, t;
  described.name = "layer";
  described.count = halves;
  config.rule = WEIR_OPTIMIZER_LAMB;
  config.update = WEIR_OPERATOR_ALL;
  EXPECT(weir_optimizer_create(comm, &config, &described, 1, &whole) == WEIR_OK);
  config.type = WEIR_BFLOAT16;
  EXPECT(weir_optimizer_create(comm, &config, &described, 1, &halved) == WEIR_OK);
  for (i = 0; i < halves; ++i) weights[i] = 1.0f + (float)(i % 64) / 64.0f, weights16[i] = upper_half(weights[i]);
  for (t = 0; t < 3; ++t) {
    for (i = 0; i < halves; ++i) gradients[i] = (float)(i * (t + 3) % 128 - 64), gradients16[i] = upper_half(gradients[i]);
    EXPECT(weir_optimizer_step(whole, &w, &g, 1, 0.1) == WEIR_OK);
    EXPECT(weir_optimizer_step(halved, &w16, &g16, 1, 0.1) == WEIR_OK);
    for (i = 0; i < halves; ++i) EXPECT(fabs((double)from_upper_half(weights16[i]) - weights[i]) <= fabs(weights[i]) / 256);
  }
  EXPECT(weir_optimizer_destroy(whole) == WEIR_OK && weir_optimizer_destroy(halved) == WEIR_OK);
}

static void check_refused_steps(weir_comm* comm) {
  const int last = rank == ranks - 1;
  const weir_optimizer_config config = WEIR_OPTIMIZER_CONFIG_INIT;
  weir_optimized_layer described[2] = {WEIR_OPTIMIZED_LAYER_INIT, WEIR_OPTIMIZED_LAYER_INIT};
  weir_layer_optimizer* optimizer = NULL;
  float *weights = malloc(all * sizeof(float)), *gradients = malloc(all * sizeof(float));
  void *w[layers], *g[layers];
  double rates[layers + 1];
  described[0].name = "a";
  described[1].name = "b";
  EXPECT(weir_optimizer_create(comm, last ? NULL : &config, described, 2, &optimizer) == WEIR_ERR_ARGUMENT && optimizer == NULL);
  EXPECT(weir_optimizer_create(comm, &config, last ? NULL : described, 2, &optimizer) == WEIR_ERR_ARGUMENT);
  if (last) EXPECT_TEXT(weir_last_error(comm), "the layers are NULL");
  EXPECT(weir_optimizer_create(comm, &config, described, 2, last ? NULL : &optimizer) == WEIR_ERR_ARGUMENT);
  described[1].name = last ? "a" : "b";
  EXPECT(weir_optimizer_create(comm, &config, described, 2, &optimizer) == WEIR_ERR_ARGUMENT && optimizer == NULL);
  EXPECT_TEXT(weir_last_error(comm), "its name, 'a', is that of an earlier one");

  optimizer = make_optimizer(comm, WEIR_OPTIMIZER_LAMB, WEIR_OPERATOR_ALL);
  fill(weights, 0);
  fill(gradients, 1);
  place(weights, w);
  place(gradients, g);
  EXPECT(weir_optimizer_step(optimizer, last ? NULL : w, (const void* const*)g, layers, 0.1) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "there are weights of 0 layers and gradients of 4: it has 4");
  EXPECT(weir_optimizer_step(optimizer, w, (const void* const*)g, last ? layers - 1 : layers, 0.1) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "there are weights of 3 layers and gradients of 3: it has 4");
  EXPECT(weir_optimizer_step(optimizer, w, (const void* const*)g, last ? -1 : layers, 0.1) == WEIR_ERR_ARGUMENT);
  if (last) w[1] = NULL;
  EXPECT(weir_optimizer_step(optimizer, w, (const void* const*)g, layers, 0.1) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "layer 'fc2.weight': its weights or its gradient are null");
  place(weights, w);
  EXPECT(weir_optimizer_step_on_stream(optimizer, w, (const void* const*)g, layers, 0.1, last ? w : NULL) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "stream");
  EXPECT(weir_optimizer_step_on_stream(optimizer, w, (const void* const*)g, layers, 0.1, NULL) == WEIR_OK);
  EXPECT((last ? weir_optimizer_refuse(optimizer, "the weights are read-only") : step(optimizer, weights, gradients, 0.1)) ==
         WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), ": the weights are read-only");
  EXPECT(step(optimizer, weights, gradients, last ? NAN : 0.1) == WEIR_ERR_ARGUMENT);
  gradients[wide + 1] = INFINITY;
  EXPECT(step(optimizer, weights, gradients, 0.1) == WEIR_ERR_NON_FINITE);
  EXPECT_TEXT(weir_last_error(comm), "layer 'fc2.weight': the norm of its gradient is not finite");
  EXPECT(weir_optimizer_rates(optimizer, rates, layers + 1) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(comm), "there is room for 5 rates: the optimizer has 4");
  EXPECT(weir_optimizer_rates(optimizer, NULL, layers) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_optimizer_get_statistics(optimizer, NULL) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_optimizer_destroy(optimizer) == WEIR_OK && weir_optimizer_reset(optimizer) == WEIR_ERR_ARGUMENT);
  EXPECT_TEXT(weir_last_error(NULL), "the optimizer is none");
  EXPECT(weir_optimizer_explanation(optimizer) == NULL);
  free(weights), free(gradients);
}

int main(int argc, char** argv) {
  weir_comm* comm = NULL;
  int division;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  EXPECT(weir_comm_create_mpi(MPI_COMM_WORLD, &comm) == WEIR_OK);
  for (division = WEIR_OPERATOR_AUTOMATIC; division <= WEIR_OPERATOR_ALL; ++division) {
    check_operator(comm, division);
    check_lars(comm, division);
  }
  check_variable(comm);
  check_failing_bodies(comm);
  check_refused_runs(comm);
  check_saved_state(comm, WEIR_OPTIMIZER_LARS);
  check_saved_state(comm, WEIR_OPTIMIZER_LAMB);
  check_narrow_weights(comm);
  check_refused_steps(comm);
  EXPECT(weir_comm_destroy(comm) == WEIR_OK);
  MPI_Finalize();
  return 0;
}
