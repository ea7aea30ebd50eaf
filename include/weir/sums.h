/* weir/sums.h: the C interface of exact sums of arrays that are mostly zero. C11. Errors, struct_size, collective calls and
 * thread-safety are as in weir/weir.h. weir/sums.hpp says what happens in which call, and in which order ranks are combined.
 *
 *   weir_sparse_sum_config config = WEIR_SPARSE_SUM_CONFIG_INIT;
 *   config.count = n;
 *   weir_sparse_sum_create(comm, &config, &sum);
 *   weir_sparse_sum_run(sum, indices, 8, values, entries, NULL, 0, 0);     this rank's entries, in any order
 *   weir_sparse_sum_result(sum, &at, &sums, &count);                       the sum of all ranks, by index */
#ifndef WEIR_SUMS_H
#define WEIR_SUMS_H

#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct weir_sparse_sum weir_sparse_sum; /**< sums of arrays of one length, type and operation */

/** Collective. Makes an object, which the caller owns and destroys with weir_sparse_sum_destroy. On error *sum is NULL. */
weir_status weir_sparse_sum_create(weir_comm* comm, const weir_sparse_sum_config* config, weir_sparse_sum** sum);
/** Not collective. Finishes a run in flight, since the other ranks wait for it. NULL is fine. */
weir_status weir_sparse_sum_destroy(weir_sparse_sum* sum);

/** Collective, blocking. Every rank gets the sum over all indices. `values` has `entries` elements of the configuration's type.
 *  `indices` has as many, int32_t if `index_bytes` is 4 and int64_t if it is 8, from 0 to n - 1, in any order, also several times.
 *  With `index_bytes` 0, `indices` is NULL and `values` is a whole array: its elements that are not 0 are entries.
 *  `output` is an array of `output_count` = n elements, or NULL, with `output_count` 0. If `adds` is 0, it becomes the dense sum.
 *  Otherwise each entry of the sum is combined into its element. All are in host memory. */
weir_status weir_sparse_sum_run(weir_sparse_sum* sum, const void* indices, int index_bytes, const void* values, int64_t entries,
                                void* output, int64_t output_count, int adds);
/** Collective, blocking. Does the same, but each rank gets only the part in its range. `output` has the elements of that range. */
weir_status weir_sparse_sum_run_reduce_scatter(weir_sparse_sum* sum, const void* indices, int index_bytes, const void* values,
                                               int64_t entries, void* output, int64_t output_count, int adds);
/** Collective, nonblocking. Reads the entries here; `output` belongs to the library until the run has ended. */
weir_status weir_sparse_sum_start(weir_sparse_sum* sum, const void* indices, int index_bytes, const void* values, int64_t entries,
                                  void* output, int64_t output_count, int adds);
/** Collective, nonblocking. The same for weir_sparse_sum_run_reduce_scatter. */
weir_status weir_sparse_sum_start_reduce_scatter(weir_sparse_sum* sum, const void* indices, int index_bytes, const void* values,
                                                 int64_t entries, void* output, int64_t output_count, int adds);
/** Collective: takes the place of a start on a rank that has no valid arguments for it. The run ends with WEIR_ERR_ARGUMENT on all
 *  ranks; its text names the rank and says `why`. */
weir_status weir_sparse_sum_refuse(weir_sparse_sum* sum, const char* why);
/** Makes progress on everything in flight on the communicator. *done becomes 1 once the run has ended, and if there was no run. */
weir_status weir_sparse_sum_test(weir_sparse_sum* sum, int* done);
/** Waits until the run has ended. */
weir_status weir_sparse_sum_wait(weir_sparse_sum* sum);
/** Waits for at most `seconds`; *done as in weir_sparse_sum_test. */
weir_status weir_sparse_sum_wait_for(weir_sparse_sum* sum, double seconds, int* done);

/** Gives the sum of the last run, or this rank's part of it: `*count` indices, ascending from 0, and as many values of the
 *  configuration's type. The object owns them; they are valid until its next start. WEIR_ERR_BUSY while a run is in flight. */
weir_status weir_sparse_sum_result(const weir_sparse_sum* sum, const int64_t** indices, const void** values, int64_t* count);
/** *begin becomes the first index of the range of rank `range`; of range P, it is n. */
weir_status weir_sparse_sum_range_begin(const weir_sparse_sum* sum, int range, int64_t* begin);
/** Gives what the last run did on this rank. */
weir_status weir_sparse_sum_get_statistics(const weir_sparse_sum* sum, weir_sparse_sum_statistics* statistics);
/** Gives the configuration in force. Texts are valid as long as the object. */
weir_status weir_sparse_sum_get_config(const weir_sparse_sum* sum, weir_sparse_sum_config* config);
/** Gives the number of bytes that this object holds on this rank, besides the caller's arrays. */
weir_status weir_sparse_sum_memory_bytes(const weir_sparse_sum* sum, int64_t* bytes);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
