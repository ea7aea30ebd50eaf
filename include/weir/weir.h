/* weir/weir.h: the C interface of Weir. C99. Stable: see the ABI notes in capi/README.md.
 *
 * Every call returns a weir_status; weir_last_error() has the text, saying what was wrong and what would be right.
 * Config and result structs start with struct_size: initialise configs with their initializer, and set struct_size of structs that
 * a call fills. A smaller struct_size, of an older header, is fine: fields beyond it keep the initializer's values, or are not
 * filled. "Collective" calls must be made by every rank, and report bad input on every rank alike.
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

/** Element type of a gradient. The 16-bit types only in CUDA memory; residuals, sums and updates are float32 with them. */
typedef enum weir_data_type { WEIR_FLOAT32 = 0, WEIR_FLOAT64 = 1, WEIR_FLOAT16 = 2, WEIR_BFLOAT16 = 3 } weir_data_type;
/** Where a plan's gradient and update are. */
typedef enum weir_memory_space { WEIR_MEMORY_HOST = 0, WEIR_MEMORY_CUDA = 1 } weir_memory_space;
/** How a rank selects the entries that it contributes. All but exact and mstopk may select a few more or
    fewer than k entries. */
typedef enum weir_threshold {
  WEIR_THRESHOLD_EXACT = 0,    /**< exactly the k largest */
  WEIR_THRESHOLD_REUSE = 1,    /**< Ok-Topk section 3.1.3, counts guarded to [0.8 k, 1.25 k] */
  WEIR_THRESHOLD_MSTOPK = 2,   /**< CommLib Algorithm 1: `samplings` thresholds bisected, then exactly k entries */
  WEIR_THRESHOLD_SAMPLED = 3,  /**< DGC: the threshold of a small sample, and a second, exact selection among too many candidates */
  WEIR_THRESHOLD_GAUSSIAN = 4, /**< Gaussiank: the quantile of a normal distribution with the gradient's moments */
  WEIR_THRESHOLD_SIDCO = 5     /**< SIDCo: exponential fits to what exceeds the last threshold, in stages */
} weir_threshold;
/** How indices of sparse vectors travel: the smallest of COO, Elias-Fano, bitmap and dense, per message; or COO always. */
typedef enum weir_wire_format { WEIR_WIRE_FORMAT_COMPACT = 0, WEIR_WIRE_FORMAT_COO = 1 } weir_wire_format;
/** How values of sparse vectors travel; all but native need float32. What rounding loses stays in the residual. */
typedef enum weir_wire_values {
  WEIR_WIRE_VALUES_NATIVE = 0,
  WEIR_WIRE_VALUES_BFLOAT16 = 1,
  WEIR_WIRE_VALUES_FLOAT16 = 2
} weir_wire_values;
/** What NaN or infinity does: an error on all ranks, an iteration that contributes nothing, or nothing special. */
typedef enum weir_non_finite { WEIR_NON_FINITE_ERROR = 0, WEIR_NON_FINITE_SKIP = 1, WEIR_NON_FINITE_PROPAGATE = 2 } weir_non_finite;

/** Describes one tensor. All fields but name and priority must be equal on all ranks. Start from WEIR_ALLREDUCE_CONFIG_INIT.
 *  In CUDA memory every sparse algorithm runs; dense_nccl, dense_torus2d, dense_iterations and the sums in nodes of hitopk and
 *  hi_oktopk need NCCL (without it the latter run flat). */
typedef struct weir_allreduce_config {
  size_t struct_size;
  int64_t count;             /**< elements; sparse algorithms take up to 2^32 - 1 */
  int64_t k;                 /**< entries to deliver; -1: from density */
  double density;            /**< k / count in (0, 1] */
  double balance_trigger;    /**< balance when the largest part exceeds this many times the mean */
  int64_t threshold_period;  /**< tau' of Ok-Topk, mode reuse */
  int64_t boundary_period;   /**< tau of Ok-Topk */
  int64_t dense_iterations;  /**< the first iterations run dense */
  int64_t warmup_iterations; /**< then density falls exponentially from 25 % to its target */
  const char* algorithm;     /**< a name from weir_algorithm_name, "auto" or "auto_sparse"; copied */
  const char* name;          /**< for messages; copied */
  int32_t type;              /**< weir_data_type */
  int32_t threshold;         /**< weir_threshold */
  int32_t non_finite;        /**< weir_non_finite */
  int32_t window;            /**< exchanges in flight */
  int32_t priority;          /**< larger is more urgent */
  int32_t error_feedback;    /**< nonzero: keep what is not delivered */
  int32_t average;           /**< nonzero: divide by the number of ranks */
  int32_t wire_format;       /**< weir_wire_format */
  int32_t wire_values;       /**< weir_wire_values */
  int32_t samplings;         /**< N of mstopk (CommLib Algorithm 1) */
  int64_t trial_iterations; /**< auto: runs of each of up to three candidates before the fastest stays; 0: the prediction decides */
  int32_t memory;           /**< weir_memory_space; cuda: the GPU that is current when the plan is made */
  int32_t reserved;         /**< 0 */
} weir_allreduce_config;

#define WEIR_ALLREDUCE_CONFIG_INIT                                                                                            \
  {                                                                                                                           \
    sizeof(weir_allreduce_config), 0, -1, 0.01, 4.0, 32, 64, 0, 0, "oktopk", "allreduce", WEIR_FLOAT32, WEIR_THRESHOLD_EXACT, \
        WEIR_NON_FINITE_ERROR, 4, 0, 1, 1, WEIR_WIRE_FORMAT_COMPACT, WEIR_WIRE_VALUES_NATIVE, 30, 0, WEIR_MEMORY_HOST, 0      \
  }

/** The delivered update, sorted by index, equal on all ranks, in the plan's memory space. Owned by the plan, valid until its next
 * start, reset or destruction. */
typedef struct weir_sparse_result {
  size_t struct_size;
  int64_t count;
  const uint32_t* indices;
  const void* values; /**< of the plan's type; of plans of 16-bit types float32 */
} weir_sparse_result;

#define WEIR_LEVEL_COUNT 7 /**< self, l3, numa, socket, node, switch, system */

/** What the last run did on this rank; times in seconds. Bytes and messages are those of Weir's own messages: not what goes through
 *  memory that the ranks of a node share, nor what MPI's or NCCL's own collectives send (dense_mpi, dense_nccl). */
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
  int32_t rethresholded;
  int32_t recut;
  int32_t balanced;
  int32_t skipped;
  double seconds_in_node; /**< dense reduce-scatter and sparse allgather of algorithms that shard within nodes */
  double seconds_waited;  /**< that the caller spent in wait, test or run until this run had finished */
} weir_statistics;

/** Version of the library in use; any pointer may be NULL. */
void weir_version(int* major, int* minor, int* patch);
/** Text of a status code; never NULL. */
const char* weir_status_string(weir_status status);
/** Text of the last error on `comm`; with comm NULL, of this thread's last error that had no communicator. Valid until the next
 *  call. */
const char* weir_last_error(const weir_comm* comm);
/** Name of the algorithm number `index`, NULL past the last. */
const char* weir_algorithm_name(int index);

weir_status weir_comm_rank(const weir_comm* comm, int* rank);
weir_status weir_comm_size(const weir_comm* comm, int* size);
/** Collective. The number of the GPU that this rank should use, for cudaSetDevice: ranks of a node share its GPUs evenly, each on
 *  its own NUMA node where possible; -1 where this process sees none. */
weir_status weir_comm_nearest_gpu(const weir_comm* comm, int* gpu);
/** Collective. shares[r] becomes rank r's share of the time for which ranks have waited for others in their last `runs` calls (1 to
 *  2048): every rank counts, for each of its calls, the longest wait for one message, against the rank that it came from. The sum
 * is 1, or 0 where nobody has waited. `size` is the length of shares, at least the number of ranks. */
weir_status weir_comm_stragglers(weir_comm* comm, int runs, double* shares, int size);
/** Not collective. Writes the flight recorder's dump to the file `path`: the last 2,048 calls of this rank, as JSON, for `weir
 * trace diagnose`. */
weir_status weir_comm_dump(weir_comm* comm, const char* path);
/** Collective: all ranks destroy it before MPI_Finalize, several communicators in the same order. After MPI_Finalize, and after a
 *  run that broke off, its MPI objects are not freed. NULL is fine. WEIR_ERR_BUSY while plans or tables made from it exist: the
 *  communicator stays usable; destroy those first. */
weir_status weir_comm_destroy(weir_comm* comm);

/** Collective. The plan is owned by the caller; see weir_plan_destroy. On error *plan is NULL. */
weir_status weir_allreduce_plan_create(weir_comm* comm, const weir_allreduce_config* config, weir_plan** plan);
/** Not collective. Finishes a run in flight, since the other ranks wait for it. A sparse algorithm then no longer writes its dense
 *  result; a dense one still does. NULL is fine. */
weir_status weir_plan_destroy(weir_plan* plan);

/** Collective, blocking. `gradient`, `count` elements of the plan's type, is overwritten with the update. */
weir_status weir_plan_run(weir_plan* plan, void* gradient);
/** Collective, blocking. `gradient` is only read; `result` (may be NULL) gets the update. */
weir_status weir_plan_run_sparse(weir_plan* plan, const void* gradient, weir_sparse_result* result);
/** Collective, nonblocking: selection happens here, communication in test and wait. Leave `gradient` alone until done. Sparse
 *  algorithms never touch it once the run has ended, however it ended. Dense ones exchange in place: after a timeout or another
 * error that breaks the run off, the gradient must live until the process ends; the error's text says so. While a run that writes
 * its result into a gradient is in flight, another run on any part of that gradient is an error on all ranks. An error that nobody
 * has waited for is returned by the next start. */
weir_status weir_plan_start(weir_plan* plan, void* gradient);
weir_status weir_plan_start_sparse(weir_plan* plan, const void* gradient);
/** The same for plans in CUDA memory. `stream` is a cudaStream_t: the run comes after the work that is on it, and work put onto it
 * once the run has finished sees the result. The functions above use the default stream. */
weir_status weir_plan_run_on_stream(weir_plan* plan, void* gradient, void* stream);
weir_status weir_plan_run_sparse_on_stream(weir_plan* plan, const void* gradient, void* stream, weir_sparse_result* result);
weir_status weir_plan_start_on_stream(weir_plan* plan, void* gradient, void* stream);
weir_status weir_plan_start_sparse_on_stream(weir_plan* plan, const void* gradient, void* stream);
/** Makes progress on everything in flight on the communicator; *done becomes 1 when this plan's run has finished. Communication
 *  advances only inside such calls: where the caller never tests, most of a run happens in its wait. */
weir_status weir_plan_test(weir_plan* plan, int* done);
weir_status weir_plan_wait(weir_plan* plan);

weir_status weir_plan_sparse_result(const weir_plan* plan, weir_sparse_result* result);
weir_status weir_plan_statistics(const weir_plan* plan, weir_statistics* statistics);
/** Why the plan uses this algorithm, for people; with automatic choice a table of predictions. Valid as long as the plan; NULL for
 *  a NULL plan. */
const char* weir_plan_explanation(const weir_plan* plan);
/** Forgets residual, thresholds, boundaries and iteration count. Sends nothing, but every rank must call it before the same run:
 *  plans reset on some ranks only disagree about that run, which may end in a transport error. */
weir_status weir_plan_reset(weir_plan* plan);

#ifdef __cplusplus
}
#endif

#endif
