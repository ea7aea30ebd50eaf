/* weir/embedding.h: the C interface of embedding tables that are trained across ranks. C11. Errors, struct_size, collective calls
 * and thread-safety are as in weir/weir.h. weir/embedding.hpp says what happens in which call.
 *
 *   weir_embedding_lookup_int64(table, ids, count, vectors);       count x width floats
 *   weir_embedding_lookup_wait(table);
 *   weir_embedding_prefetch_int64(table, next_ids, next_count);    what the next batch will look up
 *   ...                                                            forward and backward pass
 *   weir_embedding_update(table, gradients, count);                returns at once; rows of the next batch travel first */
#ifndef WEIR_EMBEDDING_H
#define WEIR_EMBEDDING_H

#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct weir_embedding weir_embedding; /**< one table, its optimizer's state, and what is in flight on it */

/** Returns the name of the exchange number `index`; NULL past the last. An exchange says how rows are divided among the ranks
 *  and how they travel. */
const char* weir_exchange_name(int index);

/** Gives the exchange number `index`; its texts live as long as the library. Returns WEIR_ERR_ARGUMENT past the last. */
weir_status weir_exchange(int index, weir_exchange_info* info);

/** Collective. Makes a table, which the caller owns and destroys with weir_embedding_destroy. On error *table is NULL. */
weir_status weir_embedding_create(weir_comm* comm, const weir_embedding_config* config, weir_embedding** table);
/** Not collective. Finishes calls in flight, since the other ranks wait for them. A lookup then no longer writes its vectors.
 *  NULL is fine. */
weir_status weir_embedding_destroy(weir_embedding* table);

/* One prefetch, one lookup and one update may be in flight at once. A start returns at once. A test makes progress on everything in
 * flight on the communicator; *done becomes 1 when the last such call has finished. The test or wait of a call returns its error,
 * once. A wait_for waits as weir_plan_wait_for does. */

/** Collective, nonblocking. Writes row ids[i] to vectors[i * width ...], as all earlier updates have left it. `ids` (`count` of
 *  them, possibly none) must last only until the call returns; `vectors`, count x width elements, until the lookup has finished. */
weir_status weir_embedding_lookup_int32(weir_embedding* table, const int32_t* ids, int64_t count, float* vectors);
weir_status weir_embedding_lookup_int64(weir_embedding* table, const int64_t* ids, int64_t count, float* vectors);
/** Makes progress. *done becomes 1 when the last lookup has finished. */
weir_status weir_embedding_lookup_test(weir_embedding* table, int* done);
/** Waits until the last lookup has finished. */
weir_status weir_embedding_lookup_wait(weir_embedding* table);
/** Waits for at most `seconds`; *done as in the test. */
weir_status weir_embedding_lookup_wait_for(weir_embedding* table, double seconds, int* done);

/** Collective, nonblocking. Says what the next lookup will ask for. A lookup that asks for something else is still correct, but
 *  slower. `ids` must last only until the call returns. The caller need not wait for it. */
weir_status weir_embedding_prefetch_int32(weir_embedding* table, const int32_t* ids, int64_t count);
weir_status weir_embedding_prefetch_int64(weir_embedding* table, const int64_t* ids, int64_t count);
/** Makes progress. *done becomes 1 when the last prefetch has finished. */
weir_status weir_embedding_prefetch_test(weir_embedding* table, int* done);
/** Waits until the last prefetch has finished. */
weir_status weir_embedding_prefetch_wait(weir_embedding* table);
/** Waits for at most `seconds`; *done as in the test. */
weir_status weir_embedding_prefetch_wait_for(weir_embedding* table, double seconds, int* done);

/** Collective, nonblocking, once per lookup. Takes the gradients of the vectors of the last lookup, `count` x width elements for
 *  its `count` ids. They must last only until the call returns. Waits for the previous update. The caller need not wait for this
 *  one. If this rank's gradients are wrong, the call itself returns the error at once, and the other ranks' test or wait returns
 *  the same one. */
weir_status weir_embedding_update(weir_embedding* table, const float* gradients, int64_t count);
/** Makes progress. *done becomes 1 when the last update has finished. */
weir_status weir_embedding_update_test(weir_embedding* table, int* done);
/** Waits until the last update has finished. */
weir_status weir_embedding_update_wait(weir_embedding* table);
/** Waits for at most `seconds`; *done as in the test. */
weir_status weir_embedding_update_wait_for(weir_embedding* table, double seconds, int* done);

/** Do the same for tables in CUDA memory. `stream` is a cudaStream_t.
 *  - The update reads the gradients after the work that is on the stream. Work put onto it once the call has returned may
 *    overwrite them.
 *  - The lookup writes the vectors after the work that is on the stream when it starts. Work put onto it once the lookup has
 *    finished sees them; the stream must live until then.
 *  - Ids may be in host memory or on the table's GPU. The call then waits until the stream has produced them.
 *
 *  The functions above use the default stream. */
weir_status weir_embedding_lookup_int32_on_stream(weir_embedding* table, const int32_t* ids, int64_t count, float* vectors,
                                                  void* stream);
weir_status weir_embedding_lookup_int64_on_stream(weir_embedding* table, const int64_t* ids, int64_t count, float* vectors,
                                                  void* stream);
weir_status weir_embedding_prefetch_int32_on_stream(weir_embedding* table, const int32_t* ids, int64_t count, void* stream);
weir_status weir_embedding_prefetch_int64_on_stream(weir_embedding* table, const int64_t* ids, int64_t count, void* stream);
weir_status weir_embedding_update_on_stream(weir_embedding* table, const float* gradients, int64_t count, void* stream);

/** Sets the learning rate of all later updates. Equal on all ranks. */
weir_status weir_embedding_set_learning_rate(weir_embedding* table, double learning_rate);

/** Collective, blocking. Copies a range of rows to `values`, count x width elements in host memory, wherever the table is. Each
 *  rank gives its own range, which may be empty. The values are exact. */
weir_status weir_embedding_export_rows(weir_embedding* table, int64_t first, int64_t count, float* values);
/** Collective, blocking. Replaces a range of rows by `values`. If ranges of ranks overlap, the values of the highest rank win.
 *  The optimizer's state stays as it is. */
weir_status weir_embedding_import_rows(weir_embedding* table, int64_t first, int64_t count, const float* values);

/** Gives the configuration in force. Texts are valid as long as the table. */
weir_status weir_embedding_get_config(const weir_embedding* table, weir_embedding_config* config);
/** Gives the number of bytes that this table holds on this rank. */
weir_status weir_embedding_memory_bytes(const weir_embedding* table, int64_t* bytes);
/** Same as weir_plan_state_bytes, weir_plan_save_state and weir_plan_restore_state. The state has this rank's rows, its part of
 *  the optimizer's state, and the counters. Return WEIR_ERR_BUSY while a call is in flight. */
weir_status weir_embedding_state_bytes(weir_embedding* table, int64_t* bytes);
weir_status weir_embedding_save_state(weir_embedding* table, void* state, int64_t bytes);
weir_status weir_embedding_restore_state(weir_embedding* table, const void* state, int64_t bytes);

/** Gives what the last lookup and the last update did on this rank. */
weir_status weir_embedding_get_statistics(const weir_embedding* table, weir_embedding_statistics* statistics);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
