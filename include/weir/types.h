/* weir/types.h: the enumerations and structs of the C interface. Included by weir/weir.h.
 * Made by capi/interface/generate.py from interface.toml. Edit that file. */
#ifndef WEIR_TYPES_H
#define WEIR_TYPES_H

#include <stddef.h>
#include <stdint.h>

/** Element type of gradients. In plans, the 16-bit types are for CUDA memory only; residuals, sums and updates are then float32. */
typedef enum weir_data_type {
  WEIR_FLOAT32 = 0,
  WEIR_FLOAT64 = 1,
  WEIR_FLOAT16 = 2,
  WEIR_BFLOAT16 = 3
} weir_data_type;

/** Memory that holds gradient, residual and update. */
typedef enum weir_memory_space {
  WEIR_MEMORY_HOST = 0,
  WEIR_MEMORY_CUDA = 1
} weir_memory_space;

/** How messages encode the indices of sparse vectors. */
typedef enum weir_wire_format {
  WEIR_WIRE_FORMAT_COMPACT = 0, /**< the smallest of COO, Elias-Fano, bitmap and dense, chosen per message */
  WEIR_WIRE_FORMAT_COO = 1      /**< always a 32-bit index and a value */
} weir_wire_format;

/** How messages encode the values of sparse vectors. Sums are computed in the plan's type. The residual keeps what rounding
 *  loses. */
typedef enum weir_wire_values {
  WEIR_WIRE_VALUES_NATIVE = 0,   /**< no rounding */
  WEIR_WIRE_VALUES_BFLOAT16 = 1, /**< needs float32 */
  WEIR_WIRE_VALUES_FLOAT16 = 2   /**< needs float32 */
} weir_wire_values;

/** Error feedback: what a rank keeps of what it did not deliver. GRACE section IV calls it memory. */
typedef enum weir_feedback {
  WEIR_FEEDBACK_NONE = 0, /**< keeps nothing; what is not delivered is lost */
  /** keeps a residual r. The rank compresses m = decay r + gain g; the new r is the part of m that was not delivered (Ok-Topk
   *  Algorithm 2, the default of GRACE) */
  WEIR_FEEDBACK_RESIDUAL = 1,
  /** EF21 (Richtarik, Sokolov, Fatkhullin 2021). The rank compresses the gradient minus the sum of all that it delivered before;
   *  the update is the sum of all that was delivered so far. Updates are dense, so only `run` and `start` work */
  WEIR_FEEDBACK_EF21 = 2,
  /** residual; none for compressors whose paper uses none (`weir info --compressors` lists them) and for compressors that must
   *  have none */
  WEIR_FEEDBACK_AUTOMATIC = 3
} weir_feedback;

/** What happens in an iteration in which any rank's gradient holds NaN or infinity. */
typedef enum weir_non_finite {
  /** ends the run with WEIR_ERR_NON_FINITE on every rank. The gradient stays untouched; the residual stays as before, up to
   *  rounding */
  WEIR_NON_FINITE_ERROR = 0,
  WEIR_NON_FINITE_SKIP = 1, /**< no rank contributes anything. The update is zero; the residual stays as before, up to rounding */
  /** sends NaN like other values. If entries are chosen by magnitude, NaN counts as the largest. Packed and linear compressors
   *  may spread it (qsgd to its whole bucket, power_sgd to the whole update) or hide it (sign_sgd and signum take its sign) */
  WEIR_NON_FINITE_PROPAGATE = 2
} weir_non_finite;

/** How near two ranks are: the innermost part of the machine that they share. Traffic is counted by level. */
typedef enum weir_level {
  WEIR_LEVEL_SELF = 0,         /**< the rank itself */
  WEIR_LEVEL_L3 = 1,           /**< the same L3 cache */
  WEIR_LEVEL_NUMA = 2,         /**< the same NUMA node */
  WEIR_LEVEL_SOCKET = 3,       /**< the same socket */
  WEIR_LEVEL_NODE = 4,         /**< the same node */
  WEIR_LEVEL_SWITCH_GROUP = 5, /**< the same switch */
  WEIR_LEVEL_SYSTEM = 6        /**< no nearer part in common */
} weir_level;

/** How the gradient of a batch changes the rows of a table. l is the learning rate and g the gradient of a row. Rows that no
 *  rank has looked up keep their values and their state. */
typedef enum weir_optimizer {
  WEIR_OPTIMIZER_SGD = 0,      /**< w -= l g */
  WEIR_OPTIMIZER_MOMENTUM = 1, /**< v = beta1 v + g;  w -= l v */
  WEIR_OPTIMIZER_ADAGRAD = 2,  /**< s += g^2;  w -= l g / (sqrt(s) + epsilon) */
  /** m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;  w -= l m' / (sqrt(v') + epsilon), where m' = m / (1 -
   *  beta1^t) and v' = v / (1 - beta2^t). t counts updates; all rows of an update have the same t, including the delayed ones
   *  (EmbRace section 5.7) */
  WEIR_OPTIMIZER_ADAM = 3
} weir_optimizer;

/** How messages to the ranks of another node travel. */
typedef enum weir_routing {
  WEIR_ROUTING_AUTOMATIC = 0, /**< the cost function chooses */
  WEIR_ROUTING_DIRECT = 1, /**< each message travels by itself */
  WEIR_ROUTING_BY_NODE = 2 /**< the messages from one node to another travel as one: gathered in the node, sent across, scattered */
} weir_routing;

/** Which tensors travel together and what is sparsified. The "ahead" schemes sparsify each tensor by itself; "behind" sparsifies
 *  what travels together as one. */
typedef enum weir_fusion_scheme {
  WEIR_FUSION_NONE = 0, /**< sends each tensor alone (wait-free back-propagation) */
  /** fuses gradients into buffers of a fixed size, then sparsifies each buffer, as a compressing hook of PyTorch's DDP does.
   *  Small gradients beside large ones may not be delivered */
  WEIR_FUSION_BEHIND = 1,
  /** SAFusion: sparsifies each tensor by itself. A rank fills buffers of a fixed size with entries in the order in which
   *  gradients come. Buffers of different ranks may hold different tensors, so a tensor has arrived only when all buffers have */
  WEIR_FUSION_AHEAD = 2,
  /** SAFusion-Inter: like `ahead`, but a buffer holds the same tensors on all ranks, whatever their sizes */
  WEIR_FUSION_AHEAD_INTER = 3,
  /** SAFusion-(Inter+Intra): like `ahead_inter`, but adapts the number of tensors in a buffer to measured times until its
   *  exchange takes as long as filling the next buffer */
  WEIR_FUSION_AHEAD_INTER_INTRA = 4,
  /** OMGS-SGD (Shi et al. 2020): like `ahead_inter`, but the cost functions merge buffers before the first iteration. Two
   *  neighbours become one if this saves more startup time than it makes the first one wait */
  WEIR_FUSION_OMGS = 5,
  /** Cupcake (Wang et al. 2023): like `ahead_inter`, but with the division that the cost functions find cheapest of all before
   *  the first iteration */
  WEIR_FUSION_CUPCAKE = 6,
  /** like `ahead_inter_intra`, but with the division whose last exchange ends first by measured times */
  WEIR_FUSION_AHEAD_FITTED = 7,
  /** like `ahead_inter`, but the first and last buffers are small: a sixteenth of the size, then a quarter. The first exchange
   *  begins early, and little is left to exchange after the last gradient */
  WEIR_FUSION_AHEAD_TAPERED = 8
} weir_fusion_scheme;

/** Which ranks share the parts of a parallel operator. */
typedef enum weir_operator_division {
  WEIR_OPERATOR_AUTOMATIC = 0,  /**< the one of the following that the cost functions predict to end first */
  WEIR_OPERATOR_REPLICATED = 1, /**< no division: every rank works on all parts */
  WEIR_OPERATOR_NODE = 2,       /**< the ranks of each node: every node works on all parts, and nothing crosses the network */
  WEIR_OPERATOR_ALL = 3         /**< all ranks */
} weir_operator_division;

/** Rule by which a LayerOptimizer steps. */
typedef enum weir_optimizer_rule {
  WEIR_OPTIMIZER_LARS = 0, /**< layer-wise adaptive rate scaling, on momentum SGD (You et al. 2018; CommLib equation 11) */
  WEIR_OPTIMIZER_LAMB = 1  /**< layer-wise adaptive moments, on Adam (You et al. 2020, Algorithm 2) */
} weir_optimizer_rule;

/** Element type of a sparse sum. */
typedef enum weir_sum_type {
  WEIR_SUM_TYPE_FLOAT32 = 0,
  WEIR_SUM_TYPE_FLOAT64 = 1,
  WEIR_SUM_TYPE_INT32 = 2,
  WEIR_SUM_TYPE_INT64 = 3
} weir_sum_type;

/** How a sparse sum combines the entries that ranks have for one index. Ranks without an entry for it do not count: absent is
 *  not zero. */
typedef enum weir_sum_operation {
  WEIR_SUM_OPERATION_SUM = 0, /**< the sum; integers wrap around */
  WEIR_SUM_OPERATION_MIN = 1, /**< the smallest; NaN if one of them is NaN */
  WEIR_SUM_OPERATION_MAX = 2, /**< the largest; NaN if one of them is NaN */
  /** the sum, with the same bits on any number of ranks, however entries are divided among ranks and ordered; with `algorithm`
   *  gather, split or auto. Integers: as sum */
  WEIR_SUM_OPERATION_REPRODUCIBLE_SUM = 3,
  WEIR_SUM_OPERATION_CHECKED_SUM = 4 /**< the sum of integers; an addition that overflows is an error on all ranks */
} weir_sum_operation;

/** What happens to a sample that cannot be read or decoded. */
typedef enum weir_sample_errors {
  WEIR_SAMPLES_ERROR = 0, /**< ends the batch with an error on all ranks, which names the sample */
  /** gives the sample size -1 and a value of zeros. The sample is counted, and tried again when it is next requested */
  WEIR_SAMPLES_SKIP = 1,
  /** reads and decodes the sample again, `retries` times, after longer and longer pauses; then ends as with error */
  WEIR_SAMPLES_RETRY = 2,
  /** puts the next good sample of the batch in its place, with value and size; the first sample follows the last. The bad sample
   *  is counted and tried again as with skip. A batch without a good sample ends as with skip */
  WEIR_SAMPLES_SUBSTITUTE = 3
} weir_sample_errors;

/** Order of the samples in an epoch. */
typedef enum weir_shuffle {
  WEIR_SHUFFLE_NONE = 0,   /**< the order of the data set */
  WEIR_SHUFFLE_GLOBAL = 1, /**< a new permutation of all samples in each epoch */
  /** each node permutes its own samples anew in each epoch, except a share of them, `exchanged_share`, which go to any node */
  WEIR_SHUFFLE_NODE = 2
} weir_shuffle;

/** Whether rank 0 shows the progress of the first epoch on standard error. */
typedef enum weir_progress_display {
  WEIR_PROGRESS_AUTOMATIC = 0, /**< shows it on a terminal */
  WEIR_PROGRESS_OFF = 1,       /**< never shows it */
  WEIR_PROGRESS_ON = 2         /**< always shows it */
} weir_progress_display;

/** Severity of a log message. Weir logs a message if its level is at most the one that WEIR_LOG names. */
typedef enum weir_log_level {
  WEIR_LOG_LEVEL_ERROR = 0,
  WEIR_LOG_LEVEL_WARN = 1,
  WEIR_LOG_LEVEL_INFO = 2,
  WEIR_LOG_LEVEL_DEBUG = 3
} weir_log_level;

/** Element type of a caller's array in a checkpoint. */
typedef enum weir_element_type {
  WEIR_ELEMENT_FLOAT32 = 0,
  WEIR_ELEMENT_FLOAT64 = 1,
  WEIR_ELEMENT_INT32 = 2,
  WEIR_ELEMENT_INT64 = 3,
  WEIR_ELEMENT_UINT8 = 4 /**< bytes of any other data */
} weir_element_type;

/** How the ranks hold a caller's array in a checkpoint, and how it is restored to another number of ranks. */
typedef enum weir_distribution {
  WEIR_DISTRIBUTION_REPLICATED = 0, /**< the same on all ranks; saved once and delivered to all */
  /** each rank holds a range of one long array, in any division; each gets the range that it asks for */
  WEIR_DISTRIBUTION_BLOCK = 1,
  /** each rank has its own; rank r gets the array of rank r. If no rank r saved one, the array stays as it is */
  WEIR_DISTRIBUTION_LOCAL = 2
} weir_distribution;

#define WEIR_LEVEL_COUNT 7 /**< number of values of weir_level */

/** Describes one tensor and how it is reduced. All fields except `name`, `priority` and `threads` must be equal on all ranks.
 *  Start from WEIR_ALLREDUCE_CONFIG_INIT. */
typedef struct weir_allreduce_config {
  size_t struct_size;
  int64_t count; /**< number n of elements of the gradient; at most 2^48, for sparse algorithms at most 2^32 - 1 */
  /** number of entries to deliver, 0 <= k <= n; -1: from `density`. Sparse compressors and shared_random_k use it; others ignore
   *  it */
  int64_t k;
  /** share k / n of the entries to deliver, in (0, 1]. k is rounded to nearest, and is at least 1 if n > 0. Sparse compressors
   *  and shared_random_k use it; others ignore it */
  double density;
  /** how a rank selects the entries that it contributes, with top_k and dgc; other compressors ignore it. "exact" or "reuse", or
   *  one of the thresholds of papers: "mstopk", "sampled", "gaussian", "sidco" or "redsync". `exact` and `mstopk` select k
   *  entries, `reuse` selects 0.8 k to 1.25 k, the others select 0.75 k to 1.25 k. The residual keeps what a rank does not
   *  select. gaussiank has its own threshold; copied */
  const char* threshold;
  int64_t dense_iterations; /**< number of first iterations that run dense, at most 2^48. The Ok-Topk authors use 512 */
  /** number of iterations after the dense ones in which density falls exponentially from 25 % to its target (DGC), with sparse
   *  compressors; at most 2^48 */
  int64_t warmup_iterations;
  /** name of an algorithm. "auto": the one that the cost functions find cheapest on this machine, which may be dense;
   *  "auto_sparse": the cheapest sparse one; copied */
  const char* algorithm;
  const char* name;   /**< name in error messages and dumps; copied */
  int32_t type;       /**< weir_data_type: type of the gradient's elements */
  int32_t non_finite; /**< weir_non_finite: what happens if a gradient holds NaN or infinity */
  int32_t priority;   /**< priority of this plan's messages; a higher one makes progress first. May differ between ranks */
  /** weir_feedback: what a rank keeps of what it did not deliver. Some compressors work only without error feedback, and refuse
   *  `residual` and `ef21` */
  int32_t error_feedback;
  int32_t average; /**< nonzero: divides the delivered sum by the number of ranks */
  /** weir_wire_format: how messages encode indices, with sparse compressors; others ignore it. With `algorithm = auto` and
   *  compact, Weir may also choose coo */
  int32_t wire_format;
  /** weir_wire_values: how messages encode values, with sparse compressors; others ignore it. bfloat16 and float16 do not take
   *  gradients of float64. With `algorithm = auto`, Weir may also choose native */
  int32_t wire_values;
  /** weir_memory_space: memory that holds gradient, residual and update. With cuda, they are on the GPU that is current when the
   *  plan is made. Every sparse algorithm runs there. dense_nccl, dense_torus2d, `dense_iterations` and the sums in nodes of
   *  hitopk and hi_oktopk need NCCL; without it, hitopk and hi_oktopk run flat. If messages go to MPI as GPU memory (`weir info`
   *  says so), that GPU must also be current where runs are started and waited for */
  int32_t memory;
  int32_t seed; /**< seed of random compressors, not negative. Their numbers depend only on seed, iteration, rank and element */
  /** number of threads of this rank that select, merge and apply in host memory. May differ between ranks. The result does not
   *  depend on it. 0: WEIR_THREADS, else the number of cores that this rank has to itself */
  int32_t threads;
  /** number of trial runs of each of up to five candidates, at most 10^6, with `algorithm = auto`. The plan then keeps the one
   *  that was fastest by the clock. 0: the prediction decides */
  int64_t trial_iterations;
  /** name of a compressor. Empty: the algorithm's own: top_k for sparse, block_quantise for packed, none for dense algorithms.
   *  "none": no compression, for dense algorithms only. Several names, joined by |, need `algorithm = auto`, which takes the
   *  cheapest: "qsgd|top_k|none"; copied */
  const char* compressor;
  /** parameters of the compressor, by name: "levels=16,bucket=512". Parameters that are not named keep their defaults. With
   *  several compressors, the parameters of each are joined by | in the same order: "levels=16||"; the last ones may be left
   *  out; copied */
  const char* compressor_parameters;
  double feedback_decay; /**< beta of GRACE section IV: share of the residual that is kept, 0 to 1. Must be 1 without a residual */
  /** gamma of GRACE section IV: factor of the gradients, finite and not 0. Must be 1 with ef21 and without compression */
  double feedback_gain;
  /** parameters of the algorithm, by name: "window=8,schedule=direct". Parameters that are not named keep their defaults; `weir
   *  info --algorithms` lists them. With `algorithm = auto`, each algorithm takes those that it has; copied */
  const char* algorithm_parameters;
  /** parameters of the threshold, by name: "period=8" for reuse, "samplings=20" for mstopk and redsync. Parameters that are not
   *  named keep their defaults; copied */
  const char* threshold_parameters;
} weir_allreduce_config;

#define WEIR_ALLREDUCE_CONFIG_INIT                                                                                                 \
  {                                                                                                                                \
    sizeof(weir_allreduce_config), 0, -1, 0.01, "exact", 0, 0, "oktopk", "allreduce", WEIR_FLOAT32, WEIR_NON_FINITE_ERROR, 0,      \
    WEIR_FEEDBACK_AUTOMATIC, 1, WEIR_WIRE_FORMAT_COMPACT, WEIR_WIRE_VALUES_NATIVE, WEIR_MEMORY_HOST, 1, 0, 0, "", "", 1.0, 1.0,    \
    "", ""                                                                                                                         \
  }

/** What one run of a plan did on this rank. Times are in seconds. Set struct_size to its size before a call fills it. */
typedef struct weir_statistics {
  size_t struct_size;
  int64_t iteration; /**< number of runs so far, including this one. Density schedules count only runs that delivered */
  int64_t k; /**< target number of entries of this iteration; n for dense and packed algorithms */
  int64_t selected_local; /**< number of entries that this rank contributed; n for dense and packed algorithms */
  int64_t selected_global; /**< number of entries of the update; n for dense and packed algorithms */
  int64_t payload_bytes_sent; /**< bytes sent: values, indices, packed bytes and factors */
  int64_t payload_bytes_received; /**< bytes received: values, indices, packed bytes and factors */
  int64_t control_bytes_sent; /**< bytes sent: sizes, histograms and boundaries */
  int64_t control_bytes_received; /**< bytes received: sizes, histograms and boundaries */
  /** bytes sent, payload and control, by Level of the peer. Only Weir's own messages count: neither traffic through memory that
   *  the ranks of a node share, nor what MPI's or NCCL's own collectives send (dense_mpi, dense_nccl) */
  int64_t bytes_sent[WEIR_LEVEL_COUNT];
  int64_t bytes_received[WEIR_LEVEL_COUNT];    /**< bytes received, by Level of the peer */
  int64_t messages_sent[WEIR_LEVEL_COUNT];     /**< number of messages sent, by Level of the peer */
  int64_t messages_received[WEIR_LEVEL_COUNT]; /**< number of messages received, by Level of the peer */
  double seconds_select;                       /**< time for compensation, local selection and the compressor's encoding */
  /** time from the first message to the last. Includes reductions and what the caller computed meanwhile; excludes encoding and
   *  decoding */
  double seconds_exchange;
  /** time for the residual update, the dense result and the compressor's decoding; in CUDA memory, until they are on the stream */
  double seconds_apply;
  double seconds_total;   /**< time from start to completion, without the time that the caller takes to fetch the result */
  double seconds_in_node; /**< time for the dense reduce-scatter and the sparse allgather of algorithms that shard within nodes */
  double seconds_waited;  /**< time that the caller spent in wait, test or run until this run had finished */
  int32_t skipped;        /**< nonzero: WEIR_NON_FINITE_SKIP took effect */
  int32_t reserved;       /**< 0 */
} weir_statistics;

/** Describes one algorithm, which AllreduceConfig's `algorithm` may name. Set struct_size to its size before a call fills it. */
typedef struct weir_algorithm_info {
  size_t struct_size;
  const char* name;        /**< name for `algorithm` */
  const char* description; /**< what it does, as text */
  int32_t sparse;          /**< nonzero: delivers k entries; a dense algorithm delivers all */
  int32_t host_memory;     /**< nonzero: takes gradients in host memory */
  int32_t cuda_memory;     /**< nonzero: takes gradients in CUDA memory */
  int32_t packed;          /**< nonzero: carries the bytes that compressors make of float32 gradients */
  const char* parameters;  /**< parameters with their defaults: "window=4"; empty: no parameters */
  const char* counters;    /**< names of the events that plans count: "rethresholded,recut"; empty: plans count nothing */
} weir_algorithm_info;

/** Describes one compressor, which AllreduceConfig's `compressor` may name. Set struct_size to its size before a call fills it. */
typedef struct weir_compressor_info {
  size_t struct_size;
  const char* name;        /**< name for `compressor` */
  const char* description; /**< what it does, as text */
  const char* source;      /**< paper that describes it */
  /** what carries it. "sparse": sparse algorithms carry its entries; "packed": packed algorithms carry its bytes; "linear":
   *  dense algorithms carry its dense values */
  const char* carriage;
  const char* parameters; /**< all parameters with their defaults: "levels=7,bucket=512"; empty: no parameters */
  int32_t random;         /**< nonzero: draws random numbers, which depend on `seed` */
  /** nonzero: keeps a residual with `error_feedback` automatic, unless its parameters rule that out (`unbiased=1`) */
  int32_t feedback;
} weir_compressor_info;

/** What the header of an encoded gradient says. Set struct_size to its size before a call fills it. */
typedef struct weir_encoded_info {
  size_t struct_size;
  int64_t version; /**< version of the format */
  int64_t count;   /**< number of elements of the gradient */
  /** number of elements that have a value; the others are 0. Packed messages have values for all elements: `count` */
  int64_t entries;
  int64_t bytes;          /**< size, including header and checksum */
  const char* compressor; /**< name of the compressor */
  const char* parameters; /**< all parameters of the compressor: "levels=7,bucket=512" */
} weir_encoded_info;

/** One WEIR_* environment variable, the value in force, and where that value comes from. Set struct_size to its size before a
 *  call fills it. */
typedef struct weir_setting_info {
  size_t struct_size;
  const char* name;        /**< name of the variable */
  const char* value;       /**< value in force */
  const char* origin;      /**< where the value comes from */
  const char* description; /**< what the variable sets, as text */
} weir_setting_info;

/** Describes one table of `rows` x `width` float32 values. All fields except `name` and the priorities must be equal on all
 *  ranks. Start from WEIR_EMBEDDING_CONFIG_INIT. */
typedef struct weir_embedding_config {
  size_t struct_size;
  int64_t rows; /**< number V of rows, 1 to 2^32 - 1 */
  int64_t width; /**< number D of columns, at least 1. It need not be divisible by the number of ranks */
  int64_t largest_batch; /**< largest number of ids that a rank looks up at once */
  int64_t seed; /**< seed of the initial values, which otherwise depend only on row, column and `initial_range` */
  double learning_rate; /**< learning rate, finite as float32, the type of rows */
  double beta1; /**< beta1 of momentum and Adam */
  double beta2; /**< beta2 of Adam */
  double epsilon; /**< epsilon of Adagrad and Adam, which need it positive */
  double initial_range; /**< range of the initial values, which are uniform in [-initial_range, initial_range); finite as float32 */
  const char* exchange; /**< name of an exchange: how rows are divided among the ranks and how they travel; copied */
  const char* name; /**< name in error messages and dumps; copied */
  int32_t optimizer; /**< weir_optimizer: how gradients change rows */
  /** weir_wire_values: how messages encode vectors and gradients; dense_allreduce always sends float32. Sums are float32 */
  int32_t wire_values;
  int32_t routing;          /**< weir_routing: how messages to the ranks of another node travel */
  int32_t average;          /**< nonzero: divides gradients by the number of ranks */
  int32_t priority;         /**< priority of ids, vectors, and gradients of rows that the next batch needs */
  int32_t delayed_priority; /**< priority of the other gradients */
  /** weir_memory_space: memory that holds values, optimizer state, vectors and gradients. With cuda, they are on the GPU that is
   *  current when the table is made. dense_allreduce does not take cuda */
  int32_t memory;
  int32_t reserved; /**< 0 */
} weir_embedding_config;

#define WEIR_EMBEDDING_CONFIG_INIT                                                                                                 \
  {                                                                                                                                \
    sizeof(weir_embedding_config), 0, 0, 0, 1, 0.01, 0.9, 0.999, 1e-08, 0.05, "columns", "embedding", WEIR_OPTIMIZER_SGD,          \
    WEIR_WIRE_VALUES_NATIVE, WEIR_ROUTING_AUTOMATIC, 1, 1000000, -1000000, WEIR_MEMORY_HOST, 0                                     \
  }

/** What the last lookup and the last update of this rank did. Times are in seconds; in CUDA memory they end when the work is on
 *  its stream. The rows of the update are known once update() has returned. Which of them are prior is known later, while the
 *  operation runs. Set struct_size to its size before a call fills it. */
typedef struct weir_embedding_statistics {
  size_t struct_size;
  int64_t tokens;        /**< number of ids in the batch */
  int64_t distinct_rows; /**< number of distinct rows in the batch: vectors received and gradients sent */
  /** number of rows of the update that the next batch of any rank needs; all rows if the next batch is not known */
  int64_t prior_rows;
  int64_t updated_rows; /**< number of rows that this rank's optimizer stepped; if the table is divided by columns, parts of rows */
  int64_t id_bytes_sent; /**< bytes of the batch's ids, sent by lookup or by the prefetch that it used */
  int64_t lookup_bytes_sent; /**< bytes of vectors */
  int64_t gradient_bytes_sent; /**< bytes of gradients of rows */
  int64_t control_bytes_sent; /**< all other bytes of lookup, its prefetch and update */
  int64_t bytes_sent[WEIR_LEVEL_COUNT]; /**< all these bytes, by Level of the peer */
  double seconds_lookup; /**< time of the lookup from start to completion */
  double seconds_coalesce; /**< time for summing gradients of equal ids, before update() returns */
  double seconds_prior; /**< time from update() until the prior rows were applied */
  double seconds_update; /**< time from update() until all rows were applied */
  int32_t prefetched; /**< nonzero: the ids of the lookup were known before */
  int32_t by_node; /**< nonzero: WEIR_ROUTING_BY_NODE is in force */
} weir_embedding_statistics;

/** Describes one way to divide and exchange a table. Set struct_size to its size before a call fills it. */
typedef struct weir_exchange_info {
  size_t struct_size;
  const char* name;        /**< name for `exchange` */
  const char* description; /**< what it does, as text */
} weir_exchange_info;

/** Describes where checkpoints go. All fields except `name` must be equal on all ranks. Start from WEIR_CHECKPOINT_CONFIG_INIT. */
typedef struct weir_checkpoint_config {
  size_t struct_size;
  int64_t keep; /**< number of newest files that stay */
  /** compression of large arrays. 0: none; 1 to 9: deflate, from fastest to smallest, after shuffling bytes by their place in an
   *  element */
  int64_t compression;
  const char* folder; /**< folder for the files, which all ranks must see. Weir makes it if its parent exists; copied */
  /** text that identifies the training run. A folder with files of another run is refused. Empty: any run; copied */
  const char* run;
  const char* name; /**< name in error messages and dumps; copied */
  /** nonzero: restore() throws if the newest file is damaged; otherwise it warns and takes the newest file that is whole */
  int32_t strict;
  int32_t reserved; /**< 0 */
} weir_checkpoint_config;

#define WEIR_CHECKPOINT_CONFIG_INIT                                                                                                \
  {                                                                                                                                \
    sizeof(weir_checkpoint_config), 2, 0, "", "", "checkpoint", 0, 0                                                               \
  }

/** What the last save and the last restore of this rank did. Times are in seconds. Set struct_size to its size before a call
 *  fills it. */
typedef struct weir_checkpoint_statistics {
  size_t struct_size;
  int64_t step;            /**< step saved or restored last; -1: none yet */
  int64_t ranks;           /**< number of ranks that saved what was restored last */
  int64_t snapshot_bytes;  /**< memory of the snapshot on this rank, which is kept from one save to the next */
  int64_t bytes_written;   /**< bytes that this rank wrote to the file */
  int64_t bytes_read;      /**< bytes that this rank read from the file */
  double seconds_snapshot; /**< time until save() returned */
  double seconds_save;     /**< time from save() until the file was in its place */
  double seconds_restore;  /**< time of the restore */
} weir_checkpoint_statistics;

/** Describes one tensor of a model. Must be equal on all ranks. Start from WEIR_FUSED_TENSOR_INIT. */
typedef struct weir_fused_tensor {
  size_t struct_size;
  int64_t count;    /**< number of elements of its gradient; at most 2^32 - 1, with `dense` at most 2^48 */
  int64_t k;        /**< number of entries that each rank selects, 0 <= k <= count; -1: from the density, at least 1 if count > 0 */
  double density;   /**< share k / count of the entries, in (0, 1]; 0: that of the FusionConfig */
  const char* name; /**< name in error messages and checkpoints; all tensors have different names; copied */
  int32_t dense;    /**< nonzero: sends the tensor whole, together with the other tensors of its buffer; for biases and norms */
  /** nonzero: some or all ranks may leave the tensor out of an iteration. It then contributes nothing there, and its residual
   *  stays */
  int32_t optional;
} weir_fused_tensor;

#define WEIR_FUSED_TENSOR_INIT                                                                                                     \
  {                                                                                                                                \
    sizeof(weir_fused_tensor), 0, -1, 0.0, "", 0, 0                                                                                \
  }

/** Describes how the gradients of a model are fused and reduced. All fields except `name` and `priority` must be equal on all
 *  ranks. Start from WEIR_FUSION_CONFIG_INIT. */
typedef struct weir_fusion_config {
  size_t struct_size;
  double density; /**< share k / count of the entries, in (0, 1], for tensors that do not set their own */
  /** size of a buffer, in bytes of gradients. With `behind`, a buffer takes this many bytes; with `ahead`, `ahead_inter` and
   *  `ahead_tapered`, it takes as many entries as the density selects from this many bytes. `ahead_inter_intra` and
   *  `ahead_fitted` begin with it, and `ahead_inter_intra` makes no larger buffers. The other schemes ignore it */
  int64_t buffer_bytes;
  const char* threshold; /**< how a rank selects entries, as in AllreduceConfig; copied */
  /** name of a sparse algorithm, which exchanges the entries of a buffer. Algorithms that shard within nodes run flat. gtopk,
   *  oktopk and hi_oktopk deliver the largest entries of a buffer, so tensors may be missing from an update; the others deliver
   *  all entries that ranks have selected. "auto", "auto_sparse": topk_allgather or topk_dsa, the one that is predicted to be
   *  cheaper; copied */
  const char* algorithm;
  const char* algorithm_parameters; /**< parameters of the algorithm, as in AllreduceConfig; copied */
  const char* name;                 /**< name in error messages and dumps; copied */
  int32_t scheme;                   /**< weir_fusion_scheme: which tensors travel together and what is sparsified */
  int32_t type;                     /**< weir_data_type: type of the gradients' elements: float32 or float64, in host memory */
  int32_t wire_format;              /**< weir_wire_format: how messages encode indices */
  /** weir_wire_values: how messages encode values; bfloat16 and float16 need float32. Dense tensors are sent without rounding */
  int32_t wire_values;
  /** weir_non_finite: what happens to the buffer of a tensor with NaN or infinity; other buffers are delivered */
  int32_t non_finite;
  int32_t error_feedback; /**< weir_feedback: residual or none; automatic is residual */
  int32_t average;        /**< nonzero: divides the delivered sum by the number of ranks */
  /** priority of the buffer with the last tensor of the forward pass. A buffer that is needed earlier has a higher priority. May
   *  differ between ranks */
  int32_t priority;
  const char* threshold_parameters; /**< parameters of the threshold, as in AllreduceConfig; copied */
} weir_fusion_config;

#define WEIR_FUSION_CONFIG_INIT                                                                                                    \
  {                                                                                                                                \
    sizeof(weir_fusion_config), 0.01, 26214400, "exact", "auto", "", "fused", WEIR_FUSION_AHEAD_TAPERED, WEIR_FLOAT32,             \
    WEIR_WIRE_FORMAT_COMPACT, WEIR_WIRE_VALUES_NATIVE, WEIR_NON_FINITE_ERROR, WEIR_FEEDBACK_AUTOMATIC, 1, 0, ""                    \
  }

/** What one iteration of a FusedAllreduce did on this rank, up to wait_all(). Times are in seconds. Set struct_size to its size
 *  before a call fills it. */
typedef struct weir_fusion_statistics {
  size_t struct_size;
  int64_t iteration;       /**< number of iterations so far, including this one */
  int64_t exchanges;       /**< number of buffers that were exchanged, that is, of communication startups */
  int64_t tensors_skipped; /**< number of optional tensors that this rank skipped or left out */
  /** number of tensors with k above 0 of which no entry was delivered, including those that all ranks skipped; the same on all
   *  ranks */
  int64_t tensors_missing;
  int64_t buffers_skipped; /**< number of buffers for which WEIR_NON_FINITE_SKIP took effect */
  int64_t selected_local; /**< number of entries that this rank contributed, without dense tensors */
  int64_t selected_global; /**< number of entries of the updates, without dense tensors; with `ahead`, counted by buffer */
  int64_t payload_bytes_sent; /**< bytes sent: values and indices */
  int64_t payload_bytes_received; /**< bytes received: values and indices */
  int64_t control_bytes_sent; /**< bytes sent: sizes, histograms, boundaries and agreement */
  int64_t control_bytes_received; /**< bytes received: sizes, histograms, boundaries and agreement */
  int64_t bytes_sent[WEIR_LEVEL_COUNT]; /**< bytes sent, payload and control, by Level of the peer */
  int64_t bytes_received[WEIR_LEVEL_COUNT]; /**< bytes received, by Level of the peer */
  int64_t messages_sent[WEIR_LEVEL_COUNT]; /**< number of messages sent, by Level of the peer */
  int64_t messages_received[WEIR_LEVEL_COUNT]; /**< number of messages received, by Level of the peer */
  double seconds_select; /**< time for compensation and selection, in ready() */
  double seconds_exchange; /**< time during which at least one exchange was in flight */
  double seconds_backward; /**< time from the first ready() to the end of the last */
  double seconds_waited; /**< time that the caller spent in wait(), test() and wait_all(): communication that nothing overlapped */
  double seconds_total; /**< time from the first ready() to the end of the last exchange */
  int64_t regroupings; /**< number of times so far that buffers were divided anew (ahead_inter_intra, ahead_fitted) */
  int32_t settled; /**< nonzero: the division into buffers is final */
  int32_t reserved; /**< 0 */
} weir_fusion_statistics;

/** Describes one part of work that every rank would otherwise do whole. Must be equal on all ranks. Start from
 *  WEIR_OPERATOR_PART_INIT. */
typedef struct weir_operator_part {
  size_t struct_size;
  double seconds;       /**< estimated time of this part on one rank, at least 0. Work is divided by these estimates */
  int64_t result_bytes; /**< size of its result; with `variable`, the largest size */
} weir_operator_part;

#define WEIR_OPERATOR_PART_INIT                                                                                                    \
  {                                                                                                                                \
    sizeof(weir_operator_part), 0.0, 0                                                                                             \
  }

/** Describes work that is divided among ranks. All fields except `name` and `priority` must be equal on all ranks. Start from
 *  WEIR_OPERATOR_CONFIG_INIT. */
typedef struct weir_operator_config {
  size_t struct_size;
  const char* name; /**< name in error messages and dumps; copied */
  int32_t division; /**< weir_operator_division: which ranks share the parts */
  /** nonzero: results may be shorter than described, with other sizes in each run. The sizes are gathered first */
  int32_t variable;
  int32_t priority; /**< priority of gathering; a higher one makes progress first. May differ between ranks */
  int32_t reserved; /**< 0 */
} weir_operator_config;

#define WEIR_OPERATOR_CONFIG_INIT                                                                                                  \
  {                                                                                                                                \
    sizeof(weir_operator_config), "operator", WEIR_OPERATOR_AUTOMATIC, 0, 0, 0                                                     \
  }

/** What the last run of a parallel operator did on this rank. Times are in seconds. Set struct_size to its size before a call
 *  fills it. */
typedef struct weir_operator_statistics {
  size_t struct_size;
  int64_t runs;                                /**< number of runs so far, including those that ended in an error */
  double seconds_work;                         /**< time in the body */
  double seconds_gather;                       /**< time for agreeing and gathering, including waiting for slower ranks */
  int64_t bytes_sent[WEIR_LEVEL_COUNT];        /**< bytes sent, by Level of the peer */
  int64_t bytes_received[WEIR_LEVEL_COUNT];    /**< bytes received, by Level of the peer */
  int64_t messages_sent[WEIR_LEVEL_COUNT];     /**< number of messages sent, by Level of the peer */
  int64_t messages_received[WEIR_LEVEL_COUNT]; /**< number of messages received, by Level of the peer */
} weir_operator_statistics;

/** Describes weights that have a learning rate of their own. Must be equal on all ranks. Start from WEIR_OPTIMIZED_LAYER_INIT. */
typedef struct weir_optimized_layer {
  size_t struct_size;
  int64_t count; /**< number of elements */
  /** name in error messages and checkpoints, without '/' and control characters; all layers have different names; copied */
  const char* name;
  int32_t excluded; /**< nonzero: steps without weight decay and at the plain learning rate; for biases and norms */
  int32_t reserved; /**< 0 */
} weir_optimized_layer;

#define WEIR_OPTIMIZED_LAYER_INIT                                                                                                  \
  {                                                                                                                                \
    sizeof(weir_optimized_layer), 0, "", 0, 0                                                                                      \
  }

/** Describes how the layers of a model step. All fields except `name` and `priority` must be equal on all ranks. Start from
 *  WEIR_OPTIMIZER_CONFIG_INIT. */
typedef struct weir_optimizer_config {
  size_t struct_size;
  double momentum;          /**< momentum of lars, from 0 to below 1 */
  double weight_decay;      /**< weight decay, at least 0 */
  double trust_coefficient; /**< gamma of lars (CommLib equation 11), above 0 */
  double largest_rate;      /**< limit of a layer's rate, which multiplies the learning rate; 0: no limit */
  double beta1;             /**< beta1 of lamb, from 0 to below 1 */
  double beta2;             /**< beta2 of lamb, from 0 to below 1 */
  double epsilon;           /**< epsilon of lamb, above 0 */
  const char* name;         /**< name in error messages and checkpoints; copied */
  int32_t rule;             /**< weir_optimizer_rule: how layers step */
  int32_t norms;            /**< weir_operator_division: which ranks share the norms; with lamb, the same as `update` */
  /** weir_operator_division: which ranks share the update and momentum. Each rank keeps the momentum of its part, and weights
   *  are gathered (ZeRO stage 1) */
  int32_t update;
  int32_t priority; /**< priority of gathering; a higher one makes progress first. May differ between ranks */
  /** weir_data_type: type of weights and gradients: float32, float16 or bfloat16. Momentum and moments are float32. With 16-bit
   *  weights, the optimizer also keeps float32 weights of its own */
  int32_t type;
  /** weir_memory_space: memory that holds weights, gradients, momentum and moments. With cuda, they are on the GPU that is
   *  current when the optimizer is made */
  int32_t memory;
} weir_optimizer_config;

#define WEIR_OPTIMIZER_CONFIG_INIT                                                                                                 \
  {                                                                                                                                \
    sizeof(weir_optimizer_config), 0.9, 0.0001, 0.001, 0.0, 0.9, 0.999, 1e-06, "optimizer", WEIR_OPTIMIZER_LARS,                   \
    WEIR_OPERATOR_AUTOMATIC, WEIR_OPERATOR_AUTOMATIC, 0, WEIR_FLOAT32, WEIR_MEMORY_HOST                                            \
  }

/** What the last step of a LayerOptimizer did on this rank. Times are in seconds. Set struct_size to its size before a call
 *  fills it. */
typedef struct weir_optimizer_statistics {
  size_t struct_size;
  int64_t steps;         /**< number of steps so far */
  double seconds_norms;  /**< time for norms, without those of other ranks */
  double seconds_update; /**< time for stepping weights */
  double seconds_gather; /**< time for agreeing and gathering, including waiting for slower ranks */
} weir_optimizer_statistics;

/** Describes Adam for sparse updates. Must be equal on all ranks if their weights are to stay equal. Start from
 *  WEIR_SPARSE_ADAM_CONFIG_INIT. */
typedef struct weir_sparse_adam_config {
  size_t struct_size;
  int64_t count;    /**< number of weights */
  double beta1;     /**< beta1 of Adam, from 0 to below 1 */
  double beta2;     /**< beta2 of Adam, from 0 to below 1 */
  double epsilon;   /**< epsilon of Adam, above 0 */
  const char* name; /**< name in error messages and checkpoints; copied */
  /** nonzero: also moves weights that no update touches, as dense Adam does. A step then takes time in proportion to `count` */
  int32_t exact;
  int32_t reserved; /**< 0 */
} weir_sparse_adam_config;

#define WEIR_SPARSE_ADAM_CONFIG_INIT                                                                                               \
  {                                                                                                                                \
    sizeof(weir_sparse_adam_config), 0, 0.9, 0.999, 1e-08, "sparse_adam", 0, 0                                                     \
  }

/** Describes sums of arrays that are mostly zero. All fields except `name` and `priority` must be equal on all ranks. Start from
 *  WEIR_SPARSE_SUM_CONFIG_INIT. */
typedef struct weir_sparse_sum_config {
  size_t struct_size;
  int64_t count;     /**< number n of elements of the arrays, at most 2^56 */
  int32_t type;      /**< weir_sum_type: type of the elements */
  int32_t operation; /**< weir_sum_operation: how entries with the same index are combined */
  /** the most entries that a rank is expected to give, at most 2^40: memory for them is allocated in advance. With more, memory
   *  grows, and rank 0 logs it once. 0: memory grows as needed */
  int64_t expected_entries;
  /** name of an algorithm: gather, split, hash, doubling, dense, blocks, shared or hierarchical. "auto": in each run the one
   *  that is predicted to end first with the entries of that run. The result has the same bits with every algorithm; copied */
  const char* algorithm;
  const char* name; /**< name in error messages and dumps; copied */
  int32_t priority; /**< priority of the run; a higher one makes progress first. May differ between ranks */
  int32_t reserved; /**< 0 */
} weir_sparse_sum_config;

#define WEIR_SPARSE_SUM_CONFIG_INIT                                                                                                \
  {                                                                                                                                \
    sizeof(weir_sparse_sum_config), 0, WEIR_SUM_TYPE_FLOAT64, WEIR_SUM_OPERATION_SUM, 0, "auto", "sum", 0, 0                       \
  }

/** What the last run of a sparse sum did on this rank. Set struct_size to its size before a call fills it. */
typedef struct weir_sparse_sum_statistics {
  size_t struct_size;
  int64_t runs;                                /**< number of runs so far that ended without an error */
  const char* algorithm;                       /**< name of the algorithm of the last run; "none" on one rank */
  int64_t entries;                             /**< number of entries of this rank, after those with the same index were combined */
  int64_t entries_total;                       /**< the same, of all ranks together */
  int64_t entries_sum;                         /**< number of entries of the result */
  int64_t payload_bytes_sent;                  /**< bytes sent: values and indices */
  int64_t payload_bytes_received;              /**< bytes received: values and indices */
  int64_t control_bytes_sent;                  /**< bytes sent: sizes and samples of indices */
  int64_t control_bytes_received;              /**< bytes received: sizes and samples of indices */
  int64_t bytes_sent[WEIR_LEVEL_COUNT];        /**< bytes sent, by Level of the peer */
  int64_t bytes_received[WEIR_LEVEL_COUNT];    /**< bytes received, by Level of the peer */
  int64_t messages_sent[WEIR_LEVEL_COUNT];     /**< number of messages sent, by Level of the peer */
  int64_t messages_received[WEIR_LEVEL_COUNT]; /**< number of messages received, by Level of the peer */
} weir_sparse_sum_statistics;

/** Describes where samples are kept. All fields except `folder`, `folder_bytes`, `threads` and `priority` must be equal on all
 *  ranks. Start from WEIR_SAMPLE_CACHE_CONFIG_INIT. */
typedef struct weir_sample_cache_config {
  size_t struct_size;
  /** folder of level 1, in the node's own storage; runs and data sets share it. Weir makes it if its parent exists. Empty: no
   *  level 1; copied */
  const char* folder;
  int64_t folder_bytes; /**< limit of the folder, in bytes. What was used least recently is removed first. 0: no limit */
  /** limit of level 2 on each node, in bytes. 0: nothing stays in memory; -1: half of what the smallest node has available, or
   *  what the samples take if that is less */
  int64_t memory_bytes;
  int64_t largest_batch; /**< largest number of samples that a rank requests at once */
  int32_t in_flight;     /**< number of batches that may be in flight at once */
  int32_t pack_samples;  /**< number of samples in a pack, which is read from the store at once and is one file of level 1 */
  int32_t threads;       /**< number of threads of this rank that read and decode */
  int32_t on_error;      /**< weir_sample_errors: what happens to a sample that cannot be read or decoded */
  int32_t retries;       /**< number of further attempts with `retry`: after 0.1 s, 0.2 s, 0.4 s, ..., at most 10 s each */
  int32_t priority;      /**< priority of messages; the default is below the 0 of plans. May differ between ranks */
  /** name of the data set and of its folder within level 1. 1 to 64 letters, digits, '_', '-' and '.', not beginning with '.';
   *  copied */
  const char* name;
} weir_sample_cache_config;

#define WEIR_SAMPLE_CACHE_CONFIG_INIT                                                                                              \
  {                                                                                                                                \
    sizeof(weir_sample_cache_config), "", 0, -1, 256, 2, 64, 1, WEIR_SAMPLES_ERROR, 3, -1, "samples"                               \
  }

/** What a sample cache has done on this rank so far. Times are in seconds, of all threads together. Set struct_size to its size
 *  before a call fills it. */
typedef struct weir_sample_cache_statistics {
  size_t struct_size;
  int64_t batches; /**< number of batches that have ended */
  /** number of samples that this rank has requested. It has read itself those that `from_node` and `from_ranks` do not count */
  int64_t asked;
  int64_t from_node; /**< number of requested samples that were read from memory of this node */
  int64_t from_ranks; /**< number of requested samples that were received from their owners */
  int64_t served; /**< number of samples that this rank has sent to others */
  int64_t kept; /**< number of samples of this rank's part that are in memory now */
  int64_t decoded; /**< number of decodings of samples */
  int64_t from_folder; /**< number of samples that level 1 had */
  int64_t from_store; /**< number of samples that were read from the store */
  int64_t folder_bytes_read; /**< bytes read from level 1 */
  int64_t store_bytes_read; /**< bytes read from the store */
  int64_t damaged; /**< number of samples of level 1 whose checksum was wrong and which were read from the store again */
  int64_t retried; /**< number of times that a sample was tried again */
  int64_t skipped; /**< number of samples that this rank has requested and not got */
  double seconds_store; /**< time for reading from the store */
  double seconds_folder; /**< time for reading and writing level 1 */
  double seconds_decode; /**< time for decoding */
  double seconds_waited; /**< time that the caller spent in get(), next() and the operations */
  int64_t bytes_sent[WEIR_LEVEL_COUNT]; /**< bytes sent, by Level of the peer */
  int64_t bytes_received[WEIR_LEVEL_COUNT]; /**< bytes received, by Level of the peer */
} weir_sample_cache_statistics;

/** Describes the epochs of a data set. All fields except `progress` must be equal on all ranks. Start from
 *  WEIR_SAMPLE_LOADER_CONFIG_INIT. */
typedef struct weir_sample_loader_config {
  size_t struct_size;
  int64_t batch;          /**< number of samples of a rank in a step, at most the cache's `largest_batch` */
  int64_t seed;           /**< seed of all permutations */
  double exchanged_share; /**< share of a node's samples, from 0 to 1, that go to any node, with the order `node` */
  int32_t shuffle;        /**< weir_shuffle: order of samples */
  int32_t progress;       /**< weir_progress_display: whether rank 0 shows the progress of the first epoch */
} weir_sample_loader_config;

#define WEIR_SAMPLE_LOADER_CONFIG_INIT                                                                                             \
  {                                                                                                                                \
    sizeof(weir_sample_loader_config), 32, 0, 0.1, WEIR_SHUFFLE_GLOBAL, WEIR_PROGRESS_AUTOMATIC                                    \
  }

/** The delivered update, sorted by index, in the plan's memory space. It is the same on every rank. The plan owns it; it is
 *  valid until the plan's next start, reset or destruction. Set struct_size to its size before a call fills it. */
typedef struct weir_sparse_result {
  size_t struct_size;
  int64_t count;           /**< number of entries */
  const uint32_t* indices; /**< indices of the entries, ascending */
  const void* values;      /**< values of the entries, in the plan's type; float32 for plans of 16-bit types */
} weir_sparse_result;

/** What error feedback keeps on this rank, in the plan's memory space. The plan owns it; it is valid until the plan's next
 *  start, reset or destruction. Set struct_size to its size before a call fills it. */
typedef struct weir_residual {
  size_t struct_size;
  /** index of the first element. It is 0 except with algorithms that shard within nodes (hitopk, hi_oktopk,
   *  packed_reduce_scatter) */
  int64_t begin;
  int64_t count;      /**< number of elements; 0 without error feedback and on ranks that own no shard */
  const void* values; /**< elements of the residual, in the plan's type; float32 for plans of 16-bit types */
} weir_residual;

#endif
