/* weir/embedding.h: the C interface of embedding tables that are trained across ranks. C99. Errors, struct_size, collective calls
 * and thread-safety are as in weir/weir.h; what happens in which call, as in weir/embedding.hpp.
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

typedef struct weir_embedding weir_embedding; /**< one table, its optimizer's state, and what is in flight on it */

/** What a row's gradient g does to the row w, with the learning rate l. */
typedef enum weir_optimizer {
  WEIR_OPTIMIZER_SGD = 0,      /**< w -= l g */
  WEIR_OPTIMIZER_MOMENTUM = 1, /**< v = beta1 v + g;  w -= l v */
  WEIR_OPTIMIZER_ADAGRAD = 2,  /**< s += g^2;  w -= l g / (sqrt(s) + epsilon) */
  WEIR_OPTIMIZER_ADAM = 3      /**< as in weir/embedding.hpp */
} weir_optimizer;
/** How messages to the ranks of another node travel: as the cost function says, each by itself, or those between two nodes as one.
 */
typedef enum weir_routing { WEIR_ROUTING_AUTOMATIC = 0, WEIR_ROUTING_DIRECT = 1, WEIR_ROUTING_BY_NODE = 2 } weir_routing;

/** Describes one table of rows x width float32 values. All but name and the priorities must be equal on all ranks. Start from
 *  WEIR_EMBEDDING_CONFIG_INIT. */
typedef struct weir_embedding_config {
  size_t struct_size;
  int64_t rows;          /**< 1 to 2^32 - 1 */
  int64_t width;         /**< at least 1 */
  int64_t largest_batch; /**< most ids that a rank looks up at once */
  int64_t seed;          /**< of the initial values */
  double learning_rate;
  double beta1; /**< of momentum and Adam */
  double beta2; /**< of Adam */
  double epsilon;
  double initial_range;     /**< initial values are uniform in [-initial_range, initial_range) */
  const char* exchange;     /**< a name from weir_exchange_name; copied */
  const char* name;         /**< for messages; copied */
  int32_t optimizer;        /**< weir_optimizer */
  int32_t wire_values;      /**< weir_wire_values: how vectors and gradients travel; sums are float32 always */
  int32_t routing;          /**< weir_routing */
  int32_t average;          /**< nonzero: gradients are divided by the number of ranks */
  int32_t priority;         /**< of ids, vectors, and gradients of rows that the next batch needs */
  int32_t delayed_priority; /**< of the other gradients */
  int32_t memory;           /**< weir_memory_space; cuda: the GPU that is current when the table is made; not for dense_allreduce */
} weir_embedding_config;

#define WEIR_EMBEDDING_CONFIG_INIT                                                                                       \
  {                                                                                                                      \
    sizeof(weir_embedding_config), 0, 0, 0, 1, 0.01, 0.9, 0.999, 1e-8, 0.05, "columns", "embedding", WEIR_OPTIMIZER_SGD, \
        WEIR_WIRE_VALUES_NATIVE, WEIR_ROUTING_AUTOMATIC, 1, 1000000, -1000000, WEIR_MEMORY_HOST                          \
  }

/** What the last lookup and the last update did on this rank; times in seconds. */
typedef struct weir_embedding_statistics {
  size_t struct_size;
  int64_t tokens;                       /**< ids of the batch */
  int64_t distinct_rows;                /**< of the batch: vectors received, and gradients sent */
  int64_t prior_rows;                   /**< of the update: those that the next batch of any rank needs; all when it is not known */
  int64_t updated_rows;                 /**< rows, or parts of rows, that this rank's optimizer stepped */
  int64_t id_bytes_sent;                /**< of the batch: ids, by prefetch or lookup */
  int64_t lookup_bytes_sent;            /**< vectors */
  int64_t gradient_bytes_sent;          /**< gradients of rows */
  int64_t control_bytes_sent;           /**< everything else */
  int64_t bytes_sent[WEIR_LEVEL_COUNT]; /**< all of these by level of the peer */
  double seconds_lookup;                /**< from start to completion */
  double seconds_coalesce;              /**< summing gradients of equal ids, before the update's start returns */
  double seconds_prior;                 /**< from the update's start until the prior rows were applied */
  double seconds_update;                /**< from the update's start until all rows were applied */
  int32_t prefetched;                   /**< the lookup's ids were known before */
  int32_t by_node;                      /**< WEIR_ROUTING_BY_NODE is in force */
} weir_embedding_statistics;

/** Name of the exchange number `index`, NULL past the last: how rows are divided among the ranks and how they travel. */
const char* weir_exchange_name(int index);

/** Collective. The table is owned by the caller; see weir_embedding_destroy. On error *table is NULL. */
weir_status weir_embedding_create(weir_comm* comm, const weir_embedding_config* config, weir_embedding** table);
/** Not collective. Finishes calls in flight, since the other ranks wait for them; a lookup then no longer writes its vectors. NULL
 * is fine. */
weir_status weir_embedding_destroy(weir_embedding* table);

/* In flight at once: one prefetch, one lookup, one update. A start returns at once; test makes progress on everything in flight on
 * the communicator, and *done becomes 1 when the last such call has finished. The error of a call is returned once, by its test or
 * wait. */

/** Collective, nonblocking. vectors[i * width ...] = row ids[i] as all earlier updates have left it. `ids` (`count` of them,
 * perhaps none) must last only until the call returns; `vectors`, count x width elements, until the lookup has finished. */
weir_status weir_embedding_lookup_int32(weir_embedding* table, const int32_t* ids, int64_t count, float* vectors);
weir_status weir_embedding_lookup_int64(weir_embedding* table, const int64_t* ids, int64_t count, float* vectors);
weir_status weir_embedding_lookup_test(weir_embedding* table, int* done);
weir_status weir_embedding_lookup_wait(weir_embedding* table);

/** Collective, nonblocking. What the next lookup will ask for; a lookup that asks for something else is still correct, but slower.
 * `ids` must last only until the call returns. Nobody needs to wait. */
weir_status weir_embedding_prefetch_int32(weir_embedding* table, const int32_t* ids, int64_t count);
weir_status weir_embedding_prefetch_int64(weir_embedding* table, const int64_t* ids, int64_t count);
weir_status weir_embedding_prefetch_wait(weir_embedding* table);

/** Collective, nonblocking, once per lookup. Gradients of the vectors of the last lookup, `count` x width elements for its `count`
 * ids; they must last only until the call returns. Waits for the previous update. Nobody needs to wait for this one: where this
 * rank's gradients are wrong, the call itself returns the error at once, and the other ranks' test or wait the same one. */
weir_status weir_embedding_update(weir_embedding* table, const float* gradients, int64_t count);
weir_status weir_embedding_update_test(weir_embedding* table, int* done);
weir_status weir_embedding_update_wait(weir_embedding* table);

/** The same for tables in CUDA memory. `stream` is a cudaStream_t. The update reads the gradients after the work that is on it;
 * work put onto it once the call has returned may overwrite them. The lookup writes the vectors after the work that is on the
 * stream when it starts; work put onto it once the lookup has finished sees them; the stream must live until then. Ids may be in
 * host memory or on the table's GPU: the call then waits until the stream has produced them. The functions above use the default
 * stream. */
weir_status weir_embedding_lookup_int32_on_stream(weir_embedding* table, const int32_t* ids, int64_t count, float* vectors,
                                                  void* stream);
weir_status weir_embedding_lookup_int64_on_stream(weir_embedding* table, const int64_t* ids, int64_t count, float* vectors,
                                                  void* stream);
weir_status weir_embedding_prefetch_int32_on_stream(weir_embedding* table, const int32_t* ids, int64_t count, void* stream);
weir_status weir_embedding_prefetch_int64_on_stream(weir_embedding* table, const int64_t* ids, int64_t count, void* stream);
weir_status weir_embedding_update_on_stream(weir_embedding* table, const float* gradients, int64_t count, void* stream);

/** For all later updates. Equal on all ranks. */
weir_status weir_embedding_set_learning_rate(weir_embedding* table, double learning_rate);

/** Collective, blocking. Each rank gives its own range of rows, which may be empty. `values`: count x width elements in host
 * memory, wherever the table is; exact. */
weir_status weir_embedding_export_rows(weir_embedding* table, int64_t first, int64_t count, float* values);
/** Collective, blocking. Where ranges of ranks overlap, the highest rank's values win. The optimizer's state stays as it is. */
weir_status weir_embedding_import_rows(weir_embedding* table, int64_t first, int64_t count, const float* values);

weir_status weir_embedding_get_statistics(const weir_embedding* table, weir_embedding_statistics* statistics);

#ifdef __cplusplus
}
#endif

#endif
