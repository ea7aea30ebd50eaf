/* Divided work, LARS and LAMB from C: each call, the bodies' return values, states, and wrong arguments of one rank. */
#include <math.h>
#include <stdlib.h>
#include <weir/optim.h>

#include "expect.h"

enum { parts = 9, layers = 4, wide = 2000, narrow = 300, bias = 5, all = wide + narrow + bias };

/* --- operators --- */

typedef struct run {
  int calls[parts];
  int failing, returned; /* the part that fails (-1 if none does), and what it returns */
  const char* text;
  weir_operator* inside; /* the body tries to use it, which is refused */
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

/* Writes as many bytes as the part's number, in a place of 8. */
static int64_t some(void* context, int part, void* result, int64_t bytes, const char** error) {
  (void)context, (void)error;
  memset(result, part + 1, (size_t)(part % 9));
  return bytes < part % 9 ? bytes : part % 9;
}

static weir_operator* make_operator(weir_comm* comm, int variable) {
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
  config.division = WEIR_OPERATOR_ALL;
  config.variable = variable;
  config.name = "squares";
  EXPECT(weir_operator_create(comm, &config, described, parts, &work) == WEIR_OK && work != NULL);
  return work;
}

/* Every call of an operator, with results of fixed and of variable size. */
static void check_operator(weir_comm* comm) {
  weir_operator* work = make_operator(comm, 0);
  weir_operator_statistics statistics = {.struct_size = sizeof(statistics)};
  weir_operator_config in_force = {.struct_size = sizeof(in_force)};
  run of = {.failing = -1, .inside = work};
  double results[parts - 1];
  unsigned char shorter[parts][8];
  int64_t bytes = 0, offset = 0;
  int i, works, done = 0, mine = 0, calls = 0;
  EXPECT(weir_operator_bytes(work, &bytes) == WEIR_OK && bytes == sizeof(results));
  EXPECT(weir_operator_test(work, &done) == WEIR_OK && done == 1 && weir_operator_wait(work) == WEIR_OK);
  OK(weir_operator_run(work, square, &of, results, bytes));
  memset(results, 0xff, sizeof(results));
  OK(weir_operator_start(work, square, &of, results, bytes));
  for (done = 0; !done;) OK(weir_operator_test(work, &done));
  OK(weir_operator_start(work, square, &of, results, bytes));
  for (done = 0; !done;) OK(weir_operator_wait_for(work, 0.01, &done));
  for (i = 0; i < parts; ++i) {
    EXPECT(weir_operator_offset(work, i, &offset) == WEIR_OK && offset == 8 * (i > 3 ? i - 1 : i));
    EXPECT(weir_operator_result_bytes(work, i, &bytes) == WEIR_OK && bytes == (i == 3 ? 0 : 8));
    if (i != 3) EXPECT(results[offset / 8] == (double)(i * i));
    EXPECT(weir_operator_works_on(work, i, &works) == WEIR_OK && of.calls[i] == 3 * works);
    mine += works;
  }
  MPI_Allreduce(&mine, &calls, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  EXPECT(weir_operator_get_config(work, &in_force) == WEIR_OK && strcmp(in_force.name, "squares") == 0 && calls == parts);
  EXPECT(weir_operator_get_statistics(work, &statistics) == WEIR_OK && statistics.runs == 3);
  EXPECT(weir_operator_memory_bytes(work, &bytes) == WEIR_OK && bytes >= 0);
  EXPECT_TEXT(weir_operator_explanation(work), "9 parts are worked on");
  EXPECT(weir_operator_destroy(work) == WEIR_OK && weir_operator_destroy(NULL) == WEIR_OK);

  work = make_operator(comm, 1); /* results may be shorter than their places */
  memset(shorter, 0xff, sizeof(shorter));
  OK(weir_operator_run(work, some, NULL, shorter, sizeof(shorter)));
  for (i = 0; i < parts; ++i) {
    EXPECT(weir_operator_result_bytes(work, i, &bytes) == WEIR_OK && bytes == i);
    EXPECT(i == 0 || (shorter[i][0] == i + 1 && shorter[i][i - 1] == i + 1));
  }
  OK(weir_operator_destroy(work));
}

/* A failure of one rank's body is an error on all ranks. The next run works. */
static void check_failing_bodies(weir_comm* comm) {
  static const struct {
    int returned, status;
    const char *text, *heard;
  } cases[] = {{-WEIR_ERR_FILE, WEIR_ERR_FILE, "no such norm", "operator 'squares', rank 0: no such norm"},
               {-WEIR_ERR_MEMORY, WEIR_ERR_MEMORY, NULL, "rank 0, part 0: its body returned -8"},
               {-77, WEIR_ERR_INTERNAL, "odd", "odd"},
               {-2147483647 - 1, WEIR_ERR_INTERNAL, NULL, "its body returned -2147483648"},
               {7, WEIR_ERR_ARGUMENT, NULL, "part 0: its body returned 7 bytes: it must be 8"}};
  weir_operator* const work = make_operator(comm, 0);
  double results[parts - 1];
  size_t i;
  for (i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
    run of = {.failing = 0, .returned = cases[i].returned, .text = cases[i].text};
    OK(weir_operator_start(work, square, &of, results, sizeof(results)));
    FAILS(weir_operator_wait(work), (weir_status)cases[i].status, comm, cases[i].heard);
    of.failing = -1;
    EXPECT(weir_operator_run(work, square, &of, results, sizeof(results)) == WEIR_OK && results[7] == 64);
  }
  OK(weir_operator_destroy(work));
}

/* Wrong arguments of one rank are refused on all ranks, and all can continue. */
static void check_refused_runs(weir_comm* comm) {
  const weir_operator_config config = WEIR_OPERATOR_CONFIG_INIT;
  weir_operator_part described[2] = {WEIR_OPERATOR_PART_INIT, WEIR_OPERATOR_PART_INIT};
  weir_operator* work = NULL;
  run of = {.failing = -1};
  double results[parts - 1];
  int64_t number = 0;
  int done = 0;
  WRONG(weir_operator_create(comm, last ? NULL : &config, described, 2, &work));
  WRONG(weir_operator_create(comm, &config, last ? NULL : described, 2, &work));
  if (last) EXPECT_TEXT(weir_last_error(comm), "the parts are NULL");
  WRONG(weir_operator_create(comm, &config, described, last ? -1 : 2, &work));
  WRONG(weir_operator_create(comm, &config, described, 2, last ? NULL : &work));
  if (last) described[1].struct_size = 16;
  WRONG(weir_operator_create(comm, &config, described, 2, &work));
  if (last) EXPECT_TEXT(weir_last_error(comm), "struct_size of part 1 is 16");
  described[1].struct_size = sizeof(described[0]);
  if (last) described[1].seconds = -1;
  REFUSED(weir_operator_create(comm, &config, described, 2, &work), comm, "part 1: seconds is -1");
  EXPECT(work == NULL);
  work = make_operator(comm, 0);
  REFUSED(weir_operator_run(work, last ? NULL : square, &of, results, sizeof(results)), comm, "there is no body");
  REFUSED(weir_operator_run(work, square, &of, last ? NULL : results, sizeof(results)), comm, "the address for results is null");
  REFUSED(weir_operator_run(work, square, &of, results, last ? -8 : (int64_t)sizeof(results)), comm,
          "there are 0 bytes for results: they take 64");
  for (done = 0; done < 2; ++done) {
    OK(last ? weir_operator_refuse(work, done ? NULL : "it has gaps")
            : weir_operator_start(work, square, &of, results, sizeof(results)));
    REFUSED(weir_operator_wait(work), comm, done ? ": no reason is given" : ": it has gaps");
  }
  OK(weir_operator_start(work, square, &of, results, sizeof(results)));
  if (ranks > 1) EXPECT(weir_operator_start(work, square, &of, results, sizeof(results)) == WEIR_ERR_BUSY);
  EXPECT(weir_operator_wait(work) == WEIR_OK && results[7] == 64);
  EXPECT(weir_operator_test(work, NULL) == WEIR_ERR_ARGUMENT && weir_operator_wait_for(work, 1, NULL) == WEIR_ERR_ARGUMENT);
  WRONG(weir_operator_wait_for(work, -1, &done));
  REFUSED(weir_operator_offset(work, parts, &number), comm, "there is no part 9: they are numbered 0 to 8");
  EXPECT(weir_operator_offset(work, 0, NULL) == WEIR_ERR_ARGUMENT && weir_operator_works_on(work, 0, NULL) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_operator_bytes(work, NULL) == WEIR_ERR_ARGUMENT && weir_operator_result_bytes(work, 0, NULL) == WEIR_ERR_ARGUMENT);
  OK(weir_operator_destroy(work));
  REFUSED(weir_operator_wait(work), NULL, "the operator does not exist");
  EXPECT(weir_operator_explanation(work) == NULL && weir_operator_explanation(NULL) == NULL);
}

/* --- optimizers --- */

static const int counts[layers] = {wide, narrow, bias, 0};

static weir_layer_optimizer* make_optimizer(weir_comm* comm) {
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
  config.rule = WEIR_OPTIMIZER_LAMB;
  config.update = WEIR_OPERATOR_ALL;
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
  for (i = 0; i < all; ++i) values[i] = (float)((i * 7919 + step * 104729) % 1009 - 504) / 512.0f;
}

static weir_status step(weir_layer_optimizer* optimizer, float* weights, float* gradients, double learning_rate) {
  void *w[layers], *g[layers];
  place(weights, w);
  place(gradients, g);
  return weir_optimizer_step(optimizer, w, (const void* const*)g, layers, learning_rate);
}

/* Queries, and another optimizer that continues from a saved state. */
static void check_optimizer(weir_comm* comm) {
  weir_layer_optimizer *const first = make_optimizer(comm), *const second = make_optimizer(comm);
  weir_optimizer_statistics statistics = {.struct_size = sizeof(statistics)};
  weir_optimizer_config in_force = {.struct_size = sizeof(in_force)};
  float a[all], b[all], gradients[all];
  double rates[layers];
  int64_t bytes = 0;
  char* state;
  fill(a, 100);
  fill(gradients, 0);
  OK(step(first, a, gradients, 0.1));
  EXPECT(weir_optimizer_rates(first, rates, layers) == WEIR_OK && rates[0] > 0 && rates[0] != 1 && rates[2] == 1);
  EXPECT(weir_optimizer_get_statistics(first, &statistics) == WEIR_OK && statistics.steps == 1);
  EXPECT(weir_optimizer_get_config(first, &in_force) == WEIR_OK && in_force.weight_decay == 0.01 &&
         in_force.norms != WEIR_OPERATOR_AUTOMATIC);
  EXPECT(weir_optimizer_memory_bytes(first, &bytes) == WEIR_OK && bytes > 0);
  EXPECT_TEXT(weir_optimizer_explanation(first), "norms: ");
  EXPECT(weir_optimizer_state_bytes(first, &bytes) == WEIR_OK && bytes > 0);
  state = malloc((size_t)bytes);
  OK(weir_optimizer_save_state(first, state, bytes));
  WRONG(weir_optimizer_restore_state(second, state, bytes - 8));
  OK(weir_optimizer_restore_state(second, state, bytes));
  memcpy(b, a, sizeof(a));
  EXPECT(step(first, a, gradients, 0.1) == WEIR_OK && step(second, b, gradients, 0.1) == WEIR_OK);
  EXPECT(memcmp(a, b, sizeof(a)) == 0);
  OK(weir_optimizer_reset(second));
  EXPECT(step(first, a, gradients, 0.1) == WEIR_OK && step(second, b, gradients, 0.1) == WEIR_OK);
  EXPECT(memcmp(a, b, sizeof(a)) != 0);
  free(state);
  EXPECT(weir_optimizer_destroy(first) == WEIR_OK && weir_optimizer_destroy(second) == WEIR_OK &&
         weir_optimizer_destroy(NULL) == WEIR_OK);
}

/* Wrong arguments of one rank to an optimizer are an error on all ranks. */
static void check_refused_steps(weir_comm* comm) {
  const weir_optimizer_config config = WEIR_OPTIMIZER_CONFIG_INIT;
  weir_optimized_layer described[2] = {WEIR_OPTIMIZED_LAYER_INIT, WEIR_OPTIMIZED_LAYER_INIT};
  weir_layer_optimizer* optimizer = NULL;
  float weights[all], gradients[all];
  void *w[layers], *g[layers];
  const void* const* const given = (const void* const*)g;
  double rates[layers + 1];
  described[0].name = "a";
  described[1].name = last ? "a" : "b";
  REFUSED(weir_optimizer_create(comm, &config, described, 2, &optimizer), comm, "its name, 'a', is that of an earlier one");
  WRONG(weir_optimizer_create(comm, last ? NULL : &config, described, 2, &optimizer));
  WRONG(weir_optimizer_create(comm, &config, last ? NULL : described, 2, &optimizer));
  if (last) EXPECT_TEXT(weir_last_error(comm), "the layers are NULL");
  WRONG(weir_optimizer_create(comm, &config, described, 2, last ? NULL : &optimizer));
  EXPECT(optimizer == NULL);
  optimizer = make_optimizer(comm);
  fill(weights, 0);
  fill(gradients, 1);
  place(weights, w);
  place(gradients, g);
  REFUSED(weir_optimizer_step(optimizer, last ? NULL : w, given, layers, 0.1), comm,
          "there are weights of 0 layers and gradients of 4: it has 4");
  REFUSED(weir_optimizer_step(optimizer, w, given, last ? layers - 1 : layers, 0.1), comm, "there are weights of 3 layers");
  WRONG(weir_optimizer_step(optimizer, w, given, last ? -1 : layers, 0.1));
  if (last) w[1] = NULL;
  REFUSED(weir_optimizer_step(optimizer, w, given, layers, 0.1), comm, "layer 'fc2.weight': its weights or its gradient are null");
  place(weights, w);
  REFUSED(weir_optimizer_step_on_stream(optimizer, w, given, layers, 0.1, last ? w : NULL), comm, "stream");
  OK(weir_optimizer_step_on_stream(optimizer, w, given, layers, 0.1, NULL));
  REFUSED(
      last ? weir_optimizer_refuse(optimizer, "the weights are read-only") : weir_optimizer_step(optimizer, w, given, layers, 0.1),
      comm, ": the weights are read-only");
  WRONG(step(optimizer, weights, gradients, last ? NAN : 0.1));
  gradients[wide + 1] = INFINITY;
  FAILS(step(optimizer, weights, gradients, 0.1), WEIR_ERR_NON_FINITE, comm, "the norm of its gradient is not finite");
  REFUSED(weir_optimizer_rates(optimizer, rates, layers + 1), comm, "there is room for 5 rates: the optimizer has 4");
  EXPECT(weir_optimizer_rates(optimizer, NULL, layers) == WEIR_ERR_ARGUMENT &&
         weir_optimizer_get_statistics(optimizer, NULL) == WEIR_ERR_ARGUMENT);
  OK(weir_optimizer_destroy(optimizer));
  REFUSED(weir_optimizer_reset(optimizer), NULL, "the optimizer does not exist");
  EXPECT(weir_optimizer_explanation(optimizer) == NULL);
}

int main(int argc, char** argv) {
  weir_comm* const comm = start(&argc, &argv);
  check_operator(comm);
  check_failing_bodies(comm);
  check_refused_runs(comm);
  check_optimizer(comm);
  check_refused_steps(comm);
  return end(comm);
}
