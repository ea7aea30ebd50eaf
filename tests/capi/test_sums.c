/* Exact sparse sums from C: each call, dense and in part, and wrong arguments of one rank. */
#include <stdlib.h>
#include <weir/sums.h>

#include "expect.h"

enum { count = 12 };

static weir_sparse_sum* make(weir_comm* comm, int32_t type, int32_t operation) {
  weir_sparse_sum_config config = WEIR_SPARSE_SUM_CONFIG_INIT;
  weir_sparse_sum* sum = NULL;
  config.count = count;
  config.type = type;
  config.operation = operation;
  config.expected_entries = 4;
  config.name = "charge";
  EXPECT(weir_sparse_sum_create(comm, &config, &sum) == WEIR_OK && sum != NULL);
  return sum;
}

static void check_runs(weir_comm* comm) {
  weir_sparse_sum *sum = make(comm, WEIR_SUM_TYPE_FLOAT64, WEIR_SUM_OPERATION_SUM),
                  *largest = make(comm, WEIR_SUM_TYPE_INT32, WEIR_SUM_OPERATION_MAX);
  weir_sparse_sum_statistics did = {.struct_size = sizeof(did)};
  weir_sparse_sum_config in_force = {.struct_size = sizeof(in_force)};
  const int64_t wide[3] = {11, 4, 11};
  const int32_t narrow[2] = {5, 2};
  const double values[3] = {1, 2, 0.5};
  const int32_t numbers[2] = {rank, -7};
  const int64_t* indices = NULL;
  const void* found = NULL;
  double dense[count], whole[count] = {0};
  int64_t entries = 0, begin = 0, end = 0, bytes = 0;
  int i, done = 0;

  OK(weir_sparse_sum_run(sum, wide, 8, values, 3, NULL, 0, 0));
  OK(weir_sparse_sum_result(sum, &indices, &found, &entries));
  EXPECT(entries == 2 && indices[0] == 4 && indices[1] == 11);
  EXPECT(((const double*)found)[0] == 2.0 * ranks && ((const double*)found)[1] == 1.5 * ranks);

  for (i = 0; i < count; ++i) dense[i] = 100;
  OK(weir_sparse_sum_start(sum, narrow, 4, values, 2, dense, count, 1));
  OK(weir_sparse_sum_start(largest, narrow, 4, numbers, 2, NULL, 0, 0));
  while (!done) OK(weir_sparse_sum_test(sum, &done));
  EXPECT(dense[5] == 100 + ranks && dense[2] == 100 + 2 * ranks && dense[0] == 100);
  OK(weir_sparse_sum_wait(largest));
  OK(weir_sparse_sum_result(largest, &indices, &found, &entries));
  EXPECT(entries == 2 && indices[0] == 2 && ((const int32_t*)found)[0] == -7 && ((const int32_t*)found)[1] == ranks - 1);

  whole[3] = 1;
  whole[9] = rank;
  OK(weir_sparse_sum_run(sum, NULL, 0, whole, count, dense, count, 0));
  EXPECT(dense[3] == ranks && dense[9] == ranks * (ranks - 1) / 2 && dense[5] == 0);

  OK(weir_sparse_sum_range_begin(sum, rank, &begin));
  OK(weir_sparse_sum_range_begin(sum, rank + 1, &end));
  OK(weir_sparse_sum_run_reduce_scatter(sum, wide, 8, values, 3, dense, end - begin, 0));
  for (i = 0; i < end - begin; ++i) EXPECT(dense[i] == (begin + i == 4 ? 2.0 * ranks : begin + i == 11 ? 1.5 * ranks : 0));
  OK(weir_sparse_sum_start_reduce_scatter(sum, wide, 8, values, 3, NULL, 0, 0));
  OK(weir_sparse_sum_wait_for(sum, 60, &done));
  EXPECT(done == 1);

  OK(weir_sparse_sum_get_statistics(sum, &did));
  EXPECT(did.runs == 5 && did.entries == 2 && did.entries_total == 2 * ranks);
  EXPECT(ranks == 1 || did.control_bytes_sent > 0 || strcmp(did.algorithm, "shared") == 0);
  OK(weir_sparse_sum_get_config(sum, &in_force));
  EXPECT(in_force.count == count && strcmp(in_force.algorithm, "auto") == 0 && strcmp(in_force.name, "charge") == 0);
  EXPECT(weir_sparse_sum_memory_bytes(sum, &bytes) == WEIR_OK && bytes > 0);
  EXPECT(weir_sparse_sum_destroy(sum) == WEIR_OK && weir_sparse_sum_destroy(largest) == WEIR_OK);
}

/* The other operations: a sum whose bits do not depend on who gives what, and one in which an addition overflows. */
static void check_operations(weir_comm* comm) {
  weir_sparse_sum *same = make(comm, WEIR_SUM_TYPE_FLOAT64, WEIR_SUM_OPERATION_REPRODUCIBLE_SUM),
                  *checked = make(comm, WEIR_SUM_TYPE_INT32, WEIR_SUM_OPERATION_CHECKED_SUM);
  weir_sparse_sum_config config = WEIR_SPARSE_SUM_CONFIG_INIT;
  weir_sparse_sum* none = NULL;
  const int64_t index[4] = {7, 7, 7, 7};
  const double values[4] = {1e16, 1, -1e16, 1};
  const int32_t numbers[2] = {INT32_MAX, 1};
  const int64_t* indices = NULL;
  const void* found = NULL;
  int64_t entries = 0;
  int32_t dense[count] = {0};
  OK(weir_sparse_sum_run(same, index, 8, values, rank == 0 ? 4 : 0, NULL, 0, 0));
  OK(weir_sparse_sum_result(same, &indices, &found, &entries));
  EXPECT(entries == 1 && ((const double*)found)[0] == 2);
  REFUSED(weir_sparse_sum_run(checked, index, 8, numbers, last ? 2 : 0, dense, count, 0), comm,
          "an addition at index 7, counted from 0, overflows int32");
  EXPECT(dense[7] == 0);
  OK(weir_sparse_sum_run(checked, index, 8, numbers, last ? 1 : 0, dense, count, 0));
  EXPECT(dense[7] == INT32_MAX);
  config.operation = WEIR_SUM_OPERATION_CHECKED_SUM;
  REFUSED(weir_sparse_sum_create(comm, &config, &none), comm, "only sums of int32 or int64 can be checked");
  EXPECT(weir_sparse_sum_destroy(same) == WEIR_OK && weir_sparse_sum_destroy(checked) == WEIR_OK);
}

/* Wrong arguments of the last rank are the same error on all. */
static void check_refusals(weir_comm* comm) {
  weir_sparse_sum* sum = make(comm, WEIR_SUM_TYPE_FLOAT64, WEIR_SUM_OPERATION_SUM);
  weir_sparse_sum_config config = WEIR_SPARSE_SUM_CONFIG_INIT;
  weir_sparse_sum* none = sum;
  const int64_t indices[2] = {1, 4}, outside[2] = {1, count};
  const double values[2] = {1, 2};
  double dense[count] = {0};
  int64_t number = 0;
  int done = 0;
  REFUSED(weir_sparse_sum_run(sum, last ? outside : indices, 8, values, 2, NULL, 0, 0), comm,
          "index 12 of entry 1 is out of range");
  REFUSED(weir_sparse_sum_run(sum, indices, 8, values, last ? -1 : 2, NULL, 0, 0), comm,
          "the number of elements of the values is -1");
  REFUSED(weir_sparse_sum_run(sum, indices, last ? 2 : 8, values, 2, NULL, 0, 0), comm,
          "indices of 2 bytes: they must have 4 or 8");
  REFUSED(weir_sparse_sum_run(sum, indices, 8, last ? NULL : values, 2, NULL, 0, 0), comm, "the address of the values is null");
  REFUSED(weir_sparse_sum_run(sum, indices, 8, values, 2, dense, last ? 3 : count, 0), comm, "the output has 3 elements");
  OK(last ? weir_sparse_sum_refuse(sum, "no mesh") : weir_sparse_sum_start(sum, indices, 8, values, 2, NULL, 0, 0));
  REFUSED(weir_sparse_sum_wait(sum), comm, "no mesh");
  OK(weir_sparse_sum_run(sum, indices, 8, values, 2, NULL, 0, 0));
  WRONG(weir_sparse_sum_result(sum, NULL, NULL, &number));
  WRONG(weir_sparse_sum_range_begin(sum, ranks + 1, &number));
  EXPECT(weir_sparse_sum_range_begin(sum, 0, NULL) == WEIR_ERR_ARGUMENT &&
         weir_sparse_sum_memory_bytes(sum, NULL) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_sparse_sum_test(sum, NULL) == WEIR_ERR_ARGUMENT && weir_sparse_sum_wait_for(sum, 1, NULL) == WEIR_ERR_ARGUMENT);
  EXPECT(weir_sparse_sum_wait_for(sum, -1, &done) == WEIR_ERR_ARGUMENT);
  config.count = last ? -2 : count;
  REFUSED(weir_sparse_sum_create(comm, &config, &none), comm, "count is -2");
  EXPECT(none == NULL);
  REFUSED(weir_sparse_sum_create(comm, last ? NULL : &config, &none), comm, ranks == 1 ? "config" : "");
  EXPECT(weir_sparse_sum_destroy(sum) == WEIR_OK && weir_sparse_sum_destroy(NULL) == WEIR_OK);
  REFUSED(weir_sparse_sum_wait(sum), NULL, "the sum does not exist");
}

int main(int argc, char** argv) {
  weir_comm* comm = start(&argc, &argv);
  check_runs(comm);
  check_operations(comm);
  check_refusals(comm);
  return end(comm);
}
