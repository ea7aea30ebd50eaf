/* weir/weir.h: the C interface of Weir. C99. Stable: see the ABI notes in capi/README.md.
 *
 * Every call returns a weir_status; weir_last_error() has the text, saying what was wrong and what would be right.
 * Config and result structs start with struct_size: initialise configs with their initializer, and set struct_size of structs that
 * a call fills. "Collective" calls must be made by every rank, and report bad input on every rank alike.
 * Thread-safety: a communicator and its plans belong to one thread at a time. */
#ifndef WEIR_WEIR_H
#define WEIR_WEIR_H

#include <stddef.h>
#include <stdint.h>
#include <weir/status.h>

#define WEIR_VERSION_MAJOR 0
#define WEIR_VERSION_MINOR 1
#define WEIR_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_comm weir_comm; /**< a group of ranks; made by weir_comm_create_mpi (weir/mpi.h) */
typedef struct weir_plan weir_plan; /**< one tensor's allreduce and its state */

typedef enum weir_data_type { WEIR_FLOAT32 = 0, WEIR_FLOAT64 = 1 } weir_data_type;
/** What NaN or infinity does: an error on all ranks, an iteration that contributes nothing, or nothing special. */
typedef enum weir_non_finite { WEIR_NON_FINITE_ERROR = 0, WEIR_NON_FINITE_SKIP = 1, WEIR_NON_FINITE_PROPAGATE = 2 } weir_non_finite;

/** Describes one tensor. All but name and priority must be equal on all ranks. Start from WEIR_ALLREDUCE_CONFIG_INIT. */
typedef struct weir_allreduce_config {
  size_t struct_size;
  int64_t count;             /**< elements; sparse algorithms take up to 2^32 - 1 */
  int64_t k;                 /**< entries to deliver; -1: from density */
  double density;            /**< k / count in (0, 1] */
  const char* threshold;     /**< exact: exactly k entries; reuse: Ok-Topk section 3.1.3, counts in [0.8 k, 1.25 k]; copied */
  int64_t dense_iterations;  /**< the first iterations run dense */
  int64_t warmup_iterations; /**< then density falls exponentially from 25 % to its target */
  const char* algorithm;     /**< a name from weir_algorithm_name; copied */
  const char* name;          /**< for messages; copied */
  int32_t type;              /**< weir_data_type */
  int32_t non_finite;        /**< weir_non_finite */
  int32_t priority;          /**< larger is more urgent */
  int32_t error_feedback;    /**< nonzero: keep what is not delivered */
  int32_t average;           /**< nonzero: divide by the number of ranks */
  int32_t wire_format;       /**< how indices travel: 0, compact, or 1, coo */
} weir_allreduce_config;

#define WEIR_ALLREDUCE_CONFIG_INIT                                                                                 \
  {                                                                                                                \
    sizeof(weir_allreduce_config), 0, -1, 0.01, "exact", 0, 0, "oktopk", "allreduce", WEIR_FLOAT32,                \
        WEIR_NON_FINITE_ERROR, 0, 1, 1, 0                                                                          \
  }

/** The delivered update, sorted by index, equal on all ranks. Owned by the plan, valid until its next start, reset or destruction.
 */
typedef struct weir_sparse_result {
  size_t struct_size;
  int64_t count;
  const uint32_t* indices;
  const void* values; /**< of the plan's type */
} weir_sparse_result;

#define WEIR_LEVEL_COUNT 7 /**< self, l3, numa, socket, node, switch, system */

/** What the last run did on this rank; times in seconds. */
typedef struct weir_statistics {
  size_t struct_size;
  int64_t iteration;
  int64_t k;
  int64_t selected_local;
  int64_t selected_global;
  int64_t payload_bytes_sent;
  int64_t payload_bytes_received;
  int64_t control_bytes_sent;
  int64_t control_bytes_received;
  int64_t bytes_sent[WEIR_LEVEL_COUNT]; /**< by level of the peer */
  int64_t bytes_received[WEIR_LEVEL_COUNT];
  int64_t messages_sent[WEIR_LEVEL_COUNT];
  int64_t messages_received[WEIR_LEVEL_COUNT];
  double seconds_select;
  double seconds_exchange;
  double seconds_apply;
  double seconds_total;
} weir_statistics;

/** Version of the library in use; any pointer may be NULL. */
void weir_version(int* major, int* minor, int* patch);
/** Text of a status code; never NULL. */
const char* weir_status_string(weir_status status);
/** Text of the last error on `comm`, or of the last error of this thread without one (comm NULL). Valid until the next call. */
const char* weir_last_error(const weir_comm* comm);
/** Name of the algorithm number `index`, NULL past the last. */
const char* weir_algorithm_name(int index);

weir_status weir_comm_rank(const weir_comm* comm, int* rank);
weir_status weir_comm_size(const weir_comm* comm, int* size);
/** NULL is fine. WEIR_ERR_BUSY while plans made from it exist: destroy those first; the communicator stays usable. */
weir_status weir_comm_destroy(weir_comm* comm);

/** Collective. The plan is owned by the caller; see weir_plan_destroy. On error *plan is NULL. */
weir_status weir_plan_create(weir_comm* comm, const weir_allreduce_config* config, weir_plan** plan);
/** Not collective. Waits for a run in flight. NULL is fine. */
weir_status weir_plan_destroy(weir_plan* plan);

/** Collective, blocking. `gradient`, `count` elements of the plan's type, is overwritten with the update. */
weir_status weir_plan_run(weir_plan* plan, void* gradient);
/** Collective, blocking. `gradient` is only read; `result` (may be NULL) gets the update. */
weir_status weir_plan_run_sparse(weir_plan* plan, const void* gradient, weir_sparse_result* result);
/** Collective, nonblocking: selection happens here, communication in test and wait. `gradient` must stay untouched until done. */
weir_status weir_plan_start(weir_plan* plan, void* gradient);
weir_status weir_plan_start_sparse(weir_plan* plan, const void* gradient);
/** Makes progress on everything in flight on the communicator; *done becomes 1 when this plan's run has finished. */
weir_status weir_plan_test(weir_plan* plan, int* done);
weir_status weir_plan_wait(weir_plan* plan);

weir_status weir_plan_sparse_result(const weir_plan* plan, weir_sparse_result* result);
weir_status weir_plan_get_statistics(const weir_plan* plan, weir_statistics* statistics);
/** Forgets residual, thresholds, boundaries and iteration count. Every rank must do it. */
weir_status weir_plan_reset(weir_plan* plan);

#ifdef __cplusplus
}
#endif

#endif
