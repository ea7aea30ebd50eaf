/* weir/types.h: the enumerations and structs of the C interface. Included by weir/weir.h.
 * Made by capi/interface/generate.py from interface.toml: change that. */
#ifndef WEIR_TYPES_H
#define WEIR_TYPES_H

#include <stddef.h>
#include <stdint.h>

/** Element type of gradients. Of plans, the 16-bit types are for CUDA memory only; residuals, sums and updates are float32 with
 *  them. */
typedef enum weir_data_type {
  WEIR_FLOAT32 = 0,
  WEIR_FLOAT64 = 1,
  WEIR_FLOAT16 = 2,
  WEIR_BFLOAT16 = 3
} weir_data_type;

/** Where gradient, residual and update are. */
typedef enum weir_memory_space {
  WEIR_MEMORY_HOST = 0,
  WEIR_MEMORY_CUDA = 1
} weir_memory_space;

/** How indices of sparse vectors travel. */
typedef enum weir_wire_format {
  WEIR_WIRE_FORMAT_COMPACT = 0, /**< the smallest of COO, Elias-Fano, bitmap and dense, per message */
  WEIR_WIRE_FORMAT_COO = 1      /**< 32-bit index and value, always */
} weir_wire_format;

/** How values of sparse vectors travel. Sums are taken in the plan's type; what rounding loses stays in the residual. */
typedef enum weir_wire_values {
  WEIR_WIRE_VALUES_NATIVE = 0,
  WEIR_WIRE_VALUES_BFLOAT16 = 1, /**< needs float32 */
  WEIR_WIRE_VALUES_FLOAT16 = 2   /**< needs float32 */
} weir_wire_values;

/** Error feedback: what a rank remembers of what it did not deliver (GRACE section IV calls it memory). */
typedef enum weir_feedback {
  WEIR_FEEDBACK_NONE = 0, /**< nothing: what is not delivered is lost */
  /** a residual r: m = decay r + gain g is compressed, and the new r is the part of m that was not delivered (Ok-Topk Algorithm
   *  2, GRACE's default) */
  WEIR_FEEDBACK_RESIDUAL = 1,
  /** EF21 (Richtarik, Sokolov, Fatkhullin 2021): what is compressed is the gradient minus the sum of what this rank delivered
   *  before; the update is the sum of all that was delivered. Updates are dense: `run` and `start` only */
  WEIR_FEEDBACK_EF21 = 2,
  /** residual; none where the compressor's paper has none (`weir info --compressors` says which), and where the compressor must
   *  have none */
  WEIR_FEEDBACK_AUTOMATIC = 3
} weir_feedback;

/** What happens to an iteration in which any rank's gradient holds NaN or infinity. */
typedef enum weir_non_finite {
  WEIR_NON_FINITE_ERROR = 0, /**< WEIR_ERR_NON_FINITE on every rank; gradient untouched, residual as before up to rounding */
  /** the iteration contributes nothing anywhere: the update is zero, the residual as before up to rounding */
  WEIR_NON_FINITE_SKIP = 1,
  /** NaN travels. Where entries are chosen by magnitude, it counts as the largest. Packed and linear compressors may spread it:
   *  qsgd to its whole bucket, power_sgd to the whole update; or hide it: sign_sgd and signum take its sign */
  WEIR_NON_FINITE_PROPAGATE = 2
} weir_non_finite;

/** How near two ranks are: the innermost part of the machine that they share. Traffic is counted by these levels. */
typedef enum weir_level {
  WEIR_LEVEL_SELF = 0,         /**< the rank itself */
  WEIR_LEVEL_L3 = 1,           /**< one L3 cache */
  WEIR_LEVEL_NUMA = 2,         /**< one NUMA node */
  WEIR_LEVEL_SOCKET = 3,       /**< one socket */
  WEIR_LEVEL_NODE = 4,         /**< one node */
  WEIR_LEVEL_SWITCH_GROUP = 5, /**< one switch */
  WEIR_LEVEL_SYSTEM = 6        /**< nothing nearer */
} weir_level;

/** Which rows of the batch's gradient change what, with one learning rate l and gradient g of a row. Rows that no rank has
 *  looked up keep their values and their state. */
typedef enum weir_optimizer {
  WEIR_OPTIMIZER_SGD = 0,      /**< w -= l g */
  WEIR_OPTIMIZER_MOMENTUM = 1, /**< v = beta1 v + g;  w -= l v */
  WEIR_OPTIMIZER_ADAGRAD = 2,  /**< s += g^2;  w -= l g / (sqrt(s) + epsilon) */
  /** m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;  w -= l m' / (sqrt(v') + epsilon), where m' and v' are divided
   *  by 1 - beta1^t and 1 - beta2^t; t grows once per update, with its delayed rows (EmbRace section 5.7) */
  WEIR_OPTIMIZER_ADAM = 3
} weir_optimizer;

/** How messages to the ranks of another node travel. */
typedef enum weir_routing {
  WEIR_ROUTING_AUTOMATIC = 0, /**< as the cost function says */
  WEIR_ROUTING_DIRECT = 1,    /**< each by itself */
  WEIR_ROUTING_BY_NODE = 2    /**< those from one node to another as one: gathered in the node, sent across, scattered */
} weir_routing;

/** Which tensors travel together, and what is sparsified: each tensor by itself ("ahead"), or what travels together as one
 *  ("behind"). */
typedef enum weir_fusion_scheme {
  WEIR_FUSION_NONE = 0, /**< every tensor travels alone: wait-free back-propagation */
  /** buffers of a fixed size are fused first and then sparsified, as a compressing hook of PyTorch's DDP does. Small gradients
   *  may go missing beside large ones */
  WEIR_FUSION_BEHIND = 1,
  /** SAFusion: each tensor is sparsified by itself; a rank fills buffers of a fixed size with the entries as they come. Buffers
   *  of different ranks may hold different tensors, so that tensors have arrived only when all buffers have */
  WEIR_FUSION_AHEAD = 2,
  /** SAFusion-Inter: as `ahead`, and a buffer holds the same tensors on all ranks, whatever their sizes */
  WEIR_FUSION_AHEAD_INTER = 3,
  /** SAFusion-(Inter+Intra): as `ahead_inter`, and the number of tensors in a buffer adapts to measured times until its exchange
   *  takes as long as the next buffer takes to fill */
  WEIR_FUSION_AHEAD_INTER_INTRA = 4,
  /** as `ahead_inter`, with buffers merged by the cost functions before the first iteration: two neighbours become one where
   *  that saves more startup than it makes the first wait (OMGS-SGD, Shi et al. 2020) */
  WEIR_FUSION_OMGS = 5,
  /** as `ahead_inter`, with the division that the cost functions find cheapest of all before the first iteration (Cupcake, Wang
   *  et al. 2023) */
  WEIR_FUSION_CUPCAKE = 6,
  WEIR_FUSION_AHEAD_FITTED = 7, /**< as `ahead_inter_intra`, with the division whose last exchange ends first, by measured times */
  /** as `ahead_inter`, and the first and last buffers are small: a sixteenth of the size, then a quarter. The first exchange
   *  begins early, and little is left to exchange when the last gradient has come */
  WEIR_FUSION_AHEAD_TAPERED = 8
} weir_fusion_scheme;

/** Which ranks share the parts of a parallel operator. */
typedef enum weir_operator_division {
  WEIR_OPERATOR_AUTOMATIC = 0,  /**< whichever of the following the cost functions predict to end first */
  WEIR_OPERATOR_REPLICATED = 1, /**< none: every rank does all of them */
  WEIR_OPERATOR_NODE = 2,       /**< the ranks of each node: every node does all of them, and nothing crosses the network */
  WEIR_OPERATOR_ALL = 3         /**< all ranks */
} weir_operator_division;

/** How a LayerOptimizer steps. */
typedef enum weir_optimizer_rule {
  WEIR_OPTIMIZER_LARS = 0, /**< layer-wise adaptive rate scaling, on momentum SGD (You et al. 2018; CommLib equation 11) */
  WEIR_OPTIMIZER_LAMB = 1  /**< layer-wise adaptive moments, on Adam (You et al. 2020, Algorithm 2) */
} weir_optimizer_rule;

/** What happens to a sample that cannot be read or decoded. */
typedef enum weir_sample_errors {
  WEIR_SAMPLES_ERROR = 0, /**< the batch ends in an error on all ranks, which names the sample */
  WEIR_SAMPLES_SKIP = 1,  /**< its size is -1 and its value all zeros; it is counted, and tried anew when it is next asked for */
  WEIR_SAMPLES_RETRY = 2, /**< it is read and decoded anew, `retries` times, after longer and longer pauses; then as error */
  /** its place in the batch takes size and value of the next sample of the batch that could be had, behind the last the first;
   *  counted and tried anew as with skip. A batch without any is as with skip */
  WEIR_SAMPLES_SUBSTITUTE = 3
} weir_sample_errors;

/** The order in which an epoch's samples come. */
typedef enum weir_shuffle {
  WEIR_SHUFFLE_NONE = 0,   /**< that of the data set */
  WEIR_SHUFFLE_GLOBAL = 1, /**< any permutation, anew in each epoch */
  /** each node permutes its own samples anew in each epoch, except `exchanged_share` of them, which go to any node */
  WEIR_SHUFFLE_NODE = 2
} weir_shuffle;

/** Whether rank 0 writes to standard error how far the first epoch has got. */
typedef enum weir_progress_display {
  WEIR_PROGRESS_AUTOMATIC = 0, /**< on a terminal */
  WEIR_PROGRESS_OFF = 1,
  WEIR_PROGRESS_ON = 2 /**< always */
} weir_progress_display;

/** How much it takes to be logged: a message is when its level is at most the one that WEIR_LOG names. */
typedef enum weir_log_level {
  WEIR_LOG_LEVEL_ERROR = 0,
  WEIR_LOG_LEVEL_WARN = 1,
  WEIR_LOG_LEVEL_INFO = 2,
  WEIR_LOG_LEVEL_DEBUG = 3
} weir_log_level;

/** Elements of an array that a checkpoint keeps for its caller. */
typedef enum weir_element_type {
  WEIR_ELEMENT_FLOAT32 = 0,
  WEIR_ELEMENT_FLOAT64 = 1,
  WEIR_ELEMENT_INT32 = 2,
  WEIR_ELEMENT_INT64 = 3,
  WEIR_ELEMENT_UINT8 = 4 /**< bytes, of whatever else there is */
} weir_element_type;

/** How an array that a checkpoint keeps for its caller lies on the ranks, and what happens to it at another number of ranks. */
typedef enum weir_distribution {
  WEIR_DISTRIBUTION_REPLICATED = 0, /**< the same on all ranks: saved once, delivered to all */
  WEIR_DISTRIBUTION_BLOCK = 1, /**< ranks hold ranges of one long array, in any division: each gets the range that it asks for */
  /** each rank's own: rank r gets that of rank r; where no rank r has saved one, the array stays as it is */
  WEIR_DISTRIBUTION_LOCAL = 2
} weir_distribution;

#define WEIR_LEVEL_COUNT 7 /**< values of weir_level */

/** Describes one tensor and how it is reduced. All fields but `name` and `priority` must be equal on all ranks. Start from
 *  WEIR_ALLREDUCE_CONFIG_INIT. */
typedef struct weir_allreduce_config {
  size_t struct_size;
  int64_t count; /**< n, elements of the gradient; at most 2^48, of sparse algorithms 2^32 - 1 */
  /** entries to deliver, 0 <= k <= n; -1: from `density`. For sparse compressors and shared_random_k; others ignore it */
  int64_t k;
  /** k / n in (0, 1]; k is rounded to nearest, at least 1 when n > 0. For sparse compressors and shared_random_k; others ignore
   *  it */
  double density;
  /** how a rank selects the entries that it contributes, with top_k and dgc; other compressors ignore it: "exact" or "reuse";
   *  the thresholds of papers are "mstopk", "sampled", "gaussian", "sidco" and "redsync". `exact` and `mstopk` select k entries,
   *  `reuse` 0.8 k to 1.25 k, the others 0.75 k to 1.25 k. What a rank does not select stays in its residual. gaussiank has its
   *  own threshold; copied */
  const char* threshold;
  int64_t dense_iterations; /**< the first iterations run dense (the Ok-Topk authors use 512); at most 2^48 */
  /** after those, density falls exponentially from 25 % to its target (DGC), with sparse compressors; at most 2^48 */
  int64_t warmup_iterations;
  /** a name from the list of algorithms; "auto": the cheapest on this machine by the cost functions, which may be dense;
   *  "auto_sparse": the cheapest sparse one; copied */
  const char* algorithm;
  const char* name;   /**< for messages and dumps; copied */
  int32_t type;       /**< weir_data_type: of the gradient's elements */
  int32_t non_finite; /**< weir_non_finite: what NaN and infinity do */
  int32_t priority;   /**< larger is more urgent; may differ between ranks */
  /** weir_feedback: what a rank remembers of what it did not deliver. Some compressors must have none, and refuse `residual` and
   *  `ef21` */
  int32_t error_feedback;
  int32_t average; /**< nonzero: divide the delivered sum by the number of ranks */
  /** weir_wire_format: how indices travel, with sparse compressors; others ignore it. With `algorithm = auto` and compact, Weir
   *  may also choose coo */
  int32_t wire_format;
  /** weir_wire_values: how values travel, with sparse compressors; others ignore it. bfloat16 and float16 do not take gradients
   *  of float64. With `algorithm = auto`, Weir may also choose native */
  int32_t wire_values;
  /** weir_memory_space: cuda: gradient, residual and update are on the GPU that is current when the plan is made. Every sparse
   *  algorithm runs there; dense_nccl, dense_torus2d, dense_iterations and the sums in nodes of hitopk and hi_oktopk need NCCL
   *  (without it the latter run flat). Where messages go to MPI as GPU memory (`weir info` says so), that GPU must also be
   *  current where runs are started and waited for. */
  int32_t memory;
  int32_t seed; /**< for random compressors; not negative. Their numbers depend on seed, iteration, rank and element only */
  /** threads of this rank that select, merge and apply, in host memory; may differ between ranks. The result does not depend on
   *  it. 0: WEIR_THREADS, else the cores that this rank has for itself */
  int32_t threads;
  /** with `algorithm = auto`: this many runs of each of up to three candidates, then the fastest by the clock stays; 0: the
   *  prediction decides; at most 10^6 */
  int64_t trial_iterations;
  /** a name from the list of compressors: what travels. Empty: the algorithm's own: top_k for sparse, block_quantise for packed,
   *  none for dense ones. "none": nothing is compressed; dense algorithms only. Several, joined by |, need `algorithm = auto`,
   *  which takes the cheapest: "qsgd|top_k|none"; copied */
  const char* compressor;
  /** of the compressor, by name: "levels=16,bucket=512". Those not named have their defaults. With several compressors, those of
   *  each, joined by | in the same order: "levels=16||"; there may be fewer than compressors; copied */
  const char* compressor_parameters;
  double feedback_decay; /**< beta of GRACE section IV: share of the residual that is kept, 0 to 1; must be 1 without a residual */
  /** gamma of GRACE section IV: gradients are multiplied by it; finite and not 0. Must be 1 with ef21, and where nothing is
   *  compressed */
  double feedback_gain;
  /** parameters of the algorithm, by name: "window=8,schedule=direct". Those not named have their defaults; `weir info
   *  --algorithms` lists them. With `algorithm = auto`, each algorithm takes those that it has; copied */
  const char* algorithm_parameters;
  /** parameters of the threshold, by name: "period=8" of reuse, "samplings=20" of mstopk and redsync. Those not named have their
   *  defaults; copied */
  const char* threshold_parameters;
} weir_allreduce_config;

#define WEIR_ALLREDUCE_CONFIG_INIT                                                                                                 \
  {                                                                                                                                \
    sizeof(weir_allreduce_config), 0, -1, 0.01, "exact", 0, 0, "oktopk", "allreduce", WEIR_FLOAT32, WEIR_NON_FINITE_ERROR, 0,      \
    WEIR_FEEDBACK_AUTOMATIC, 1, WEIR_WIRE_FORMAT_COMPACT, WEIR_WIRE_VALUES_NATIVE, WEIR_MEMORY_HOST, 1, 0, 0, "", "", 1.0, 1.0,    \
    "", ""                                                                                                                         \
  }

/** What one run of a plan did on this rank; times in seconds. Set struct_size to its size before a call fills it. */
typedef struct weir_statistics {
  size_t struct_size;
  int64_t iteration;          /**< runs so far, this one included; density schedules count only those that delivered */
  int64_t k;                  /**< target of this iteration; n with dense and packed algorithms */
  int64_t selected_local;     /**< entries this rank contributed; n with dense and packed algorithms */
  int64_t selected_global;    /**< entries of the update; n with dense and packed algorithms */
  int64_t payload_bytes_sent; /**< values, indices, packed bytes, factors */
  int64_t payload_bytes_received;
  int64_t control_bytes_sent; /**< sizes, histograms, boundaries */
  int64_t control_bytes_received;
  /** by Level of the peer, payload and control. Only Weir's own messages count: not what goes through memory that the ranks of a
   *  node share, nor what MPI's or NCCL's own collectives send (dense_mpi, dense_nccl). */
  int64_t bytes_sent[WEIR_LEVEL_COUNT];
  int64_t bytes_received[WEIR_LEVEL_COUNT];    /**< by Level of the peer */
  int64_t messages_sent[WEIR_LEVEL_COUNT];     /**< by Level of the peer */
  int64_t messages_received[WEIR_LEVEL_COUNT]; /**< by Level of the peer */
  double seconds_select;                       /**< compensation, local selection, and what a compressor takes to encode */
  /** from the first message to the last. Includes reductions and what the caller computed meanwhile; not encoding and decoding */
  double seconds_exchange;
  /** residual update, dense result, and what a compressor takes to decode; in CUDA memory: until they are on the stream */
  double seconds_apply;
  double seconds_total;   /**< from start to completion, without waiting for the caller to take the result */
  double seconds_in_node; /**< dense reduce-scatter and sparse allgather of algorithms that shard within nodes */
  double seconds_waited;  /**< that the caller spent in wait, test or run until this run had finished */
  int32_t skipped;        /**< nonzero: WEIR_NON_FINITE_SKIP took effect */
  int32_t reserved;       /**< 0 */
} weir_statistics;

/** One row of the algorithm registry. Set struct_size to its size before a call fills it. */
typedef struct weir_algorithm_info {
  size_t struct_size;
  const char* name;
  const char* description;
  int32_t sparse;         /**< nonzero: delivers k entries; a dense algorithm delivers all */
  int32_t host_memory;    /**< nonzero: takes gradients in host memory */
  int32_t cuda_memory;    /**< nonzero: takes gradients in CUDA memory */
  int32_t packed;         /**< nonzero: carries bytes that compressors make of float32 gradients */
  const char* parameters; /**< with their defaults: "window=4"; empty: it has none */
  const char* counters;   /**< what plans count: "rethresholded,recut"; empty: nothing */
} weir_algorithm_info;

/** One row of the compressor registry: what AllreduceConfig's `compressor` may name. Set struct_size to its size before a call
 *  fills it. */
typedef struct weir_compressor_info {
  size_t struct_size;
  const char* name;
  const char* description;
  const char* source; /**< the paper */
  /** what carries it: "sparse": entries, by sparse algorithms; "packed": bytes, by packed ones; "linear": dense values, by dense
   *  ones */
  const char* carriage;
  const char* parameters; /**< all of them with their defaults: "levels=7,bucket=512"; empty: it has none */
  int32_t random;         /**< nonzero: draws random numbers, which depend on `seed` */
  /** nonzero: keeps a residual with `error_feedback` automatic, unless its parameters rule that out (`unbiased=1`) */
  int32_t feedback;
} weir_compressor_info;

/** What an encoded gradient says of itself. Set struct_size to its size before a call fills it. */
typedef struct weir_encoded_info {
  size_t struct_size;
  int64_t version; /**< of the format */
  int64_t count;   /**< elements of the gradient */
  int64_t entries; /**< elements that it has values for; the others are 0. Packed messages have values for all: `count` */
  int64_t bytes;   /**< header and checksum included */
  const char* compressor;
  const char* parameters; /**< of the compressor, all of them: "levels=7,bucket=512" */
} weir_encoded_info;

/** One WEIR_* environment variable, its value in force and where that came from. Set struct_size to its size before a call fills
 *  it. */
typedef struct weir_setting_info {
  size_t struct_size;
  const char* name;
  const char* value;
  const char* origin;
  const char* description;
} weir_setting_info;

/** Describes one table of `rows` x `width` float32 values. All fields but `name` and the priorities must be equal on all ranks.
 *  Start from WEIR_EMBEDDING_CONFIG_INIT. */
typedef struct weir_embedding_config {
  size_t struct_size;
  int64_t rows; /**< V, 1 to 2^32 - 1 */
  int64_t width; /**< D, at least 1; needs not be divisible by the number of ranks */
  int64_t largest_batch; /**< the most ids that a rank looks up at once */
  int64_t seed; /**< of the initial values, which depend on nothing else but row, column and `initial_range` */
  double learning_rate; /**< finite as float32, which rows are */
  double beta1; /**< of momentum and Adam */
  double beta2; /**< of Adam */
  double epsilon; /**< of Adagrad and Adam, which need it positive */
  double initial_range; /**< they are uniform in [-initial_range, initial_range); finite as float32 */
  const char* exchange; /**< a name from the list of exchanges: how rows are divided among the ranks and how they travel; copied */
  const char* name; /**< for messages and dumps; copied */
  int32_t optimizer; /**< weir_optimizer: how gradients change rows */
  int32_t wire_values; /**< weir_wire_values: how vectors and gradients travel (dense_allreduce: float32); sums are float32 */
  int32_t routing; /**< weir_routing: how messages to the ranks of another node travel */
  int32_t average; /**< nonzero: gradients are divided by the number of ranks */
  int32_t priority; /**< of ids, vectors, and gradients of rows that the next batch needs */
  int32_t delayed_priority; /**< of the other gradients */
  /** weir_memory_space: cuda: values, the optimizer's state, vectors and gradients are on the GPU that is current when the table
   *  is made. Not for dense_allreduce. */
  int32_t memory;
  int32_t reserved; /**< 0 */
} weir_embedding_config;

#define WEIR_EMBEDDING_CONFIG_INIT                                                                                                 \
  {                                                                                                                                \
    sizeof(weir_embedding_config), 0, 0, 0, 1, 0.01, 0.9, 0.999, 1e-08, 0.05, "columns", "embedding", WEIR_OPTIMIZER_SGD,          \
    WEIR_WIRE_VALUES_NATIVE, WEIR_ROUTING_AUTOMATIC, 1, 1000000, -1000000, WEIR_MEMORY_HOST, 0                                     \
  }

/** What the last lookup and the last update of this rank did; times in seconds, in CUDA memory until the work is on its stream.
 *  Rows of the update are known once update() has returned; which of them are prior, once the operation has got so far. Set
 *  struct_size to its size before a call fills it. */
typedef struct weir_embedding_statistics {
  size_t struct_size;
  int64_t tokens;                       /**< ids of the batch */
  int64_t distinct_rows;                /**< of the batch: vectors received, and gradients sent */
  int64_t prior_rows;                   /**< of the update: those that the next batch of any rank needs; all when it is not known */
  int64_t updated_rows;                 /**< rows (or, partitioned by columns, parts of rows) that this rank's optimizer stepped */
  int64_t id_bytes_sent;                /**< of the batch: ids, by lookup, or by the prefetch that it used */
  int64_t lookup_bytes_sent;            /**< vectors */
  int64_t gradient_bytes_sent;          /**< gradients of rows */
  int64_t control_bytes_sent;           /**< everything else of lookup, its prefetch and update */
  int64_t bytes_sent[WEIR_LEVEL_COUNT]; /**< all of these by Level of the peer */
  double seconds_lookup;                /**< from start to completion */
  double seconds_coalesce;              /**< summing gradients of equal ids, before update() returns */
  double seconds_prior;                 /**< from update() until the prior rows were applied */
  double seconds_update;                /**< from update() until all rows were applied */
  int32_t prefetched;                   /**< nonzero: the lookup's ids were known before */
  int32_t by_node;                      /**< nonzero: WEIR_ROUTING_BY_NODE is in force */
} weir_embedding_statistics;

/** One way to divide and exchange a table. Set struct_size to its size before a call fills it. */
typedef struct weir_exchange_info {
  size_t struct_size;
  const char* name;
  const char* description;
} weir_exchange_info;

/** Describes where checkpoints go. All fields but `name` must be equal on all ranks. Start from WEIR_CHECKPOINT_CONFIG_INIT. */
typedef struct weir_checkpoint_config {
  size_t struct_size;
  int64_t keep; /**< so many of the newest files stay */
  /** of large arrays: 0: none; 1 to 9: deflate, faster or smaller, of bytes shuffled by their place in an element */
  int64_t compression;
  const char* folder; /**< where files go: one that all ranks see. Made if its parent is there; copied */
  /** of what training run they are, in its own words. A folder with files of another run is refused; empty: of any; copied */
  const char* run;
  const char* name; /**< for messages and dumps; copied */
  /** nonzero: restore() throws where the newest file is damaged; else it warns, and takes the newest one that is whole */
  int32_t strict;
  int32_t reserved; /**< 0 */
} weir_checkpoint_config;

#define WEIR_CHECKPOINT_CONFIG_INIT                                                                                                \
  {                                                                                                                                \
    sizeof(weir_checkpoint_config), 2, 0, "", "", "checkpoint", 0, 0                                                               \
  }

/** What the last save and the last restore of this rank did; times in seconds. Set struct_size to its size before a call fills
 *  it. */
typedef struct weir_checkpoint_statistics {
  size_t struct_size;
  int64_t step;            /**< saved or restored last; -1: none yet */
  int64_t ranks;           /**< that had saved what was restored last */
  int64_t snapshot_bytes;  /**< memory of the snapshot on this rank, kept from one save to the next */
  int64_t bytes_written;   /**< to the file by this rank */
  int64_t bytes_read;      /**< from the file by this rank */
  double seconds_snapshot; /**< until save() returned */
  double seconds_save;     /**< from save() until the file was in its place */
  double seconds_restore;
} weir_checkpoint_statistics;

/** One tensor of a model. Equal on all ranks. Start from WEIR_FUSED_TENSOR_INIT. */
typedef struct weir_fused_tensor {
  size_t struct_size;
  int64_t count;    /**< elements of its gradient; at most 2^32 - 1, with `dense` 2^48 */
  int64_t k;        /**< entries that each rank selects, 0 <= k <= count; -1: from the density, at least 1 when count > 0 */
  double density;   /**< k / count in (0, 1]; 0: that of the FusionConfig */
  const char* name; /**< for messages and checkpoints; no two tensors have the same; copied */
  int32_t dense;    /**< nonzero: travels whole: biases, norms. It rides along with the tensors of its buffer */
  /** nonzero: may be left out of an iteration by some ranks or all: it contributes nothing there, and its residual stays */
  int32_t optional;
} weir_fused_tensor;

#define WEIR_FUSED_TENSOR_INIT                                                                                                     \
  {                                                                                                                                \
    sizeof(weir_fused_tensor), 0, -1, 0.0, "", 0, 0                                                                                \
  }

/** Describes how the gradients of a model are fused and reduced. All fields but `name` and `priority` must be equal on all
 *  ranks. Start from WEIR_FUSION_CONFIG_INIT. */
typedef struct weir_fusion_config {
  size_t struct_size;
  double density; /**< k / count in (0, 1] of tensors that say nothing else */
  /** size of a buffer, as bytes of gradients: with `behind` a buffer takes so many; with `ahead`, `ahead_inter` and
   *  `ahead_tapered` as many entries as the density selects of so many. `ahead_inter_intra` and `ahead_fitted` begin with it,
   *  and the former takes no larger ones; the others ignore it */
  int64_t buffer_bytes;
  const char* threshold; /**< how entries are selected, as in AllreduceConfig; copied */
  /** a sparse one from the list of algorithms: it exchanges the entries of a buffer. Those that shard within nodes run flat.
   *  gtopk, oktopk and hi_oktopk deliver the largest entries of a buffer, so that tensors may go missing again; the others
   *  deliver all that ranks have selected. "auto", "auto_sparse": topk_allgather or topk_dsa, whichever is predicted to be
   *  cheaper; copied */
  const char* algorithm;
  const char* algorithm_parameters; /**< parameters of the algorithm, as in AllreduceConfig; copied */
  const char* name;                 /**< for messages and dumps; copied */
  int32_t scheme;                   /**< weir_fusion_scheme: which tensors travel together, and what is sparsified */
  int32_t type;                     /**< weir_data_type: of the gradients' elements: float32 or float64, in host memory */
  int32_t wire_format;              /**< weir_wire_format: how indices travel */
  /** weir_wire_values: how values travel; bfloat16 and float16 need float32. Dense tensors travel as they are */
  int32_t wire_values;
  int32_t non_finite; /**< weir_non_finite: what NaN and infinity do to the buffer of their tensor; other buffers are delivered */
  int32_t error_feedback; /**< weir_feedback: residual or none; automatic is residual */
  int32_t average; /**< nonzero: divide the delivered sum by the number of ranks */
  /** of the buffer with the last tensor of the forward pass; the earlier a buffer is needed, the higher its own. May differ
   *  between ranks */
  int32_t priority;
  const char* threshold_parameters; /**< parameters of the threshold, as in AllreduceConfig; copied */
} weir_fusion_config;

#define WEIR_FUSION_CONFIG_INIT                                                                                                    \
  {                                                                                                                                \
    sizeof(weir_fusion_config), 0.01, 26214400, "exact", "auto", "", "fused", WEIR_FUSION_AHEAD_TAPERED, WEIR_FLOAT32,             \
    WEIR_WIRE_FORMAT_COMPACT, WEIR_WIRE_VALUES_NATIVE, WEIR_NON_FINITE_ERROR, WEIR_FEEDBACK_AUTOMATIC, 1, 0, ""                    \
  }

/** What one iteration of a FusedAllreduce did on this rank, up to wait_all(); times in seconds. Set struct_size to its size
 *  before a call fills it. */
typedef struct weir_fusion_statistics {
  size_t struct_size;
  int64_t iteration;       /**< iterations so far, this one included */
  int64_t exchanges;       /**< buffers that were exchanged: communication startups */
  int64_t tensors_skipped; /**< optional tensors that this rank skipped or left out */
  /** tensors with k above 0 of which no entry was delivered, those that all skipped, too; the same on all ranks */
  int64_t tensors_missing;
  int64_t buffers_skipped;    /**< WEIR_NON_FINITE_SKIP took effect on so many */
  int64_t selected_local;     /**< entries this rank contributed, dense tensors aside */
  int64_t selected_global;    /**< entries of the updates, dense tensors aside; of `ahead`, by buffer */
  int64_t payload_bytes_sent; /**< values, indices */
  int64_t payload_bytes_received;
  int64_t control_bytes_sent; /**< sizes, histograms, boundaries, agreement */
  int64_t control_bytes_received;
  int64_t bytes_sent[WEIR_LEVEL_COUNT]; /**< by Level of the peer, payload and control */
  int64_t bytes_received[WEIR_LEVEL_COUNT]; /**< by Level of the peer */
  int64_t messages_sent[WEIR_LEVEL_COUNT]; /**< by Level of the peer */
  int64_t messages_received[WEIR_LEVEL_COUNT]; /**< by Level of the peer */
  double seconds_select; /**< compensation and selection, in ready() */
  double seconds_exchange; /**< while at least one exchange was in flight */
  double seconds_backward; /**< from the first ready() to the end of the last */
  double seconds_waited; /**< that the caller spent in wait(), test() and wait_all(): communication that nothing overlapped */
  double seconds_total; /**< from the first ready() to the end of the last exchange */
  int64_t regroupings; /**< times that buffers were divided anew, so far (ahead_inter_intra, ahead_fitted) */
  int32_t settled; /**< nonzero: they will not be again */
  int32_t reserved; /**< 0 */
} weir_fusion_statistics;

/** One part of a work that every rank would otherwise do whole. Equal on all ranks. Start from WEIR_OPERATOR_PART_INIT. */
typedef struct weir_operator_part {
  size_t struct_size;
  double seconds;       /**< that one rank takes for it, as far as one knows: work is divided by these, at least 0 */
  int64_t result_bytes; /**< of its result; with `variable`, at most */
} weir_operator_part;

#define WEIR_OPERATOR_PART_INIT                                                                                                    \
  {                                                                                                                                \
    sizeof(weir_operator_part), 0.0, 0                                                                                             \
  }

/** Describes work that is divided among ranks. All fields but `name` and `priority` must be equal on all ranks. Start from
 *  WEIR_OPERATOR_CONFIG_INIT. */
typedef struct weir_operator_config {
  size_t struct_size;
  const char* name; /**< for messages and dumps; copied */
  int32_t division; /**< weir_operator_division: which ranks share the parts */
  int32_t variable; /**< nonzero: results may be shorter than described, anew in each run: their sizes are gathered first */
  int32_t priority; /**< of gathering: higher makes progress first. May differ between ranks */
  int32_t reserved; /**< 0 */
} weir_operator_config;

#define WEIR_OPERATOR_CONFIG_INIT                                                                                                  \
  {                                                                                                                                \
    sizeof(weir_operator_config), "operator", WEIR_OPERATOR_AUTOMATIC, 0, 0, 0                                                     \
  }

/** What the last run of a parallel operator did on this rank; times in seconds. Set struct_size to its size before a call fills
 *  it. */
typedef struct weir_operator_statistics {
  size_t struct_size;
  int64_t runs;                                /**< so far, those included that ended in an error */
  double seconds_work;                         /**< in the body */
  double seconds_gather;                       /**< agreeing and gathering, waiting for slower ranks included */
  int64_t bytes_sent[WEIR_LEVEL_COUNT];        /**< by Level of the peer */
  int64_t bytes_received[WEIR_LEVEL_COUNT];    /**< by Level of the peer */
  int64_t messages_sent[WEIR_LEVEL_COUNT];     /**< by Level of the peer */
  int64_t messages_received[WEIR_LEVEL_COUNT]; /**< by Level of the peer */
} weir_operator_statistics;

/** Weights with a learning rate of their own. Equal on all ranks. Start from WEIR_OPTIMIZED_LAYER_INIT. */
typedef struct weir_optimized_layer {
  size_t struct_size;
  int64_t count;    /**< elements */
  const char* name; /**< for messages and checkpoints, without '/' and control characters; no two layers have the same; copied */
  int32_t excluded; /**< nonzero: biases, norms: no weight decay, and the learning rate as it is */
  int32_t reserved; /**< 0 */
} weir_optimized_layer;

#define WEIR_OPTIMIZED_LAYER_INIT                                                                                                  \
  {                                                                                                                                \
    sizeof(weir_optimized_layer), 0, "", 0, 0                                                                                      \
  }

/** Describes how the layers of a model step. All fields but `name` and `priority` must be equal on all ranks. Start from
 *  WEIR_OPTIMIZER_CONFIG_INIT. */
typedef struct weir_optimizer_config {
  size_t struct_size;
  double momentum;          /**< of lars, from 0 to below 1 */
  double weight_decay;      /**< at least 0 */
  double trust_coefficient; /**< gamma of lars (CommLib equation 11), above 0 */
  double largest_rate;      /**< no layer's step is more than so many times the learning rate; 0: no limit */
  double beta1;             /**< of lamb, from 0 to below 1 */
  double beta2;             /**< of lamb, from 0 to below 1 */
  double epsilon;           /**< of lamb, above 0 */
  const char* name;         /**< for messages and checkpoints; copied */
  int32_t rule;             /**< weir_optimizer_rule: how layers step */
  int32_t norms;            /**< weir_operator_division: which ranks share the norms; with lamb, as `update` */
  /** weir_operator_division: which ranks share the update, and momentum: each keeps that of its part, and weights are gathered
   *  (ZeRO stage 1) */
  int32_t update;
  int32_t priority; /**< of gathering. May differ between ranks */
  /** weir_data_type: of weights and gradients: float32, float16 or bfloat16. Momentum and moments are float32; beside 16-bit
   *  weights, so are weights of the optimizer's own */
  int32_t type;
  /** weir_memory_space: cuda: weights, gradients, momentum and moments are on the GPU that is current when the optimizer is made */
  int32_t memory;
} weir_optimizer_config;

#define WEIR_OPTIMIZER_CONFIG_INIT                                                                                                 \
  {                                                                                                                                \
    sizeof(weir_optimizer_config), 0.9, 0.0001, 0.001, 0.0, 0.9, 0.999, 1e-06, "optimizer", WEIR_OPTIMIZER_LARS,                   \
    WEIR_OPERATOR_AUTOMATIC, WEIR_OPERATOR_AUTOMATIC, 0, WEIR_FLOAT32, WEIR_MEMORY_HOST                                            \
  }

/** What the last step of a LayerOptimizer did on this rank; times in seconds. Set struct_size to its size before a call fills
 *  it. */
typedef struct weir_optimizer_statistics {
  size_t struct_size;
  int64_t steps;         /**< so far */
  double seconds_norms;  /**< for norms, those of other ranks not counted */
  double seconds_update; /**< stepping weights */
  double seconds_gather; /**< agreeing and gathering, waiting for slower ranks included */
} weir_optimizer_statistics;

/** Describes Adam for sparse updates. Equal on all ranks, if their weights are to stay equal. Start from
 *  WEIR_SPARSE_ADAM_CONFIG_INIT. */
typedef struct weir_sparse_adam_config {
  size_t struct_size;
  int64_t count;    /**< weights */
  double beta1;     /**< from 0 to below 1 */
  double beta2;     /**< from 0 to below 1 */
  double epsilon;   /**< above 0 */
  const char* name; /**< for messages and checkpoints; copied */
  /** nonzero: weights also move while no update touches them, as in dense Adam; a step then takes time in proportion to `count` */
  int32_t exact;
  int32_t reserved; /**< 0 */
} weir_sparse_adam_config;

#define WEIR_SPARSE_ADAM_CONFIG_INIT                                                                                               \
  {                                                                                                                                \
    sizeof(weir_sparse_adam_config), 0, 0.9, 0.999, 1e-08, "sparse_adam", 0, 0                                                     \
  }

/** Describes where samples are kept. All fields but `folder`, `folder_bytes`, `threads` and `priority` must be equal on all
 *  ranks. Start from WEIR_SAMPLE_CACHE_CONFIG_INIT. */
typedef struct weir_sample_cache_config {
  size_t struct_size;
  /** level 1: a folder in the node's own storage, which runs and data sets share. Made if its parent is there. Empty: none;
   *  copied */
  const char* folder;
  int64_t folder_bytes; /**< limit of the folder: what was used least recently goes first; 0: none */
  /** limit of level 2 on each node; 0: nothing stays in memory; -1: half of what the smallest node has available, or what the
   *  samples take */
  int64_t memory_bytes;
  int64_t largest_batch; /**< samples that a rank asks for at once */
  int32_t in_flight;     /**< batches asked for at once */
  int32_t pack_samples;  /**< samples that are read from the store together, and are a file of level 1 */
  int32_t threads;       /**< of this rank, which read and decode */
  int32_t on_error;      /**< weir_sample_errors: what happens to a sample that cannot be read or decoded */
  int32_t retries;       /**< with `retry`: after 0.1 s, 0.2 s, 0.4 s, ..., at most 10 s each */
  int32_t priority;      /**< of messages: below the 0 of plans. May differ between ranks */
  /** of the data set: its folder within level 1, 1 to 64 letters, digits, '_', '-' and '.', the first no '.'; copied */
  const char* name;
} weir_sample_cache_config;

#define WEIR_SAMPLE_CACHE_CONFIG_INIT                                                                                              \
  {                                                                                                                                \
    sizeof(weir_sample_cache_config), "", 0, -1, 256, 2, 64, 1, WEIR_SAMPLES_ERROR, 3, -1, "samples"                               \
  }

/** What a sample cache has done on this rank so far; times in seconds, of all threads together. Set struct_size to its size
 *  before a call fills it. */
typedef struct weir_sample_cache_statistics {
  size_t struct_size;
  int64_t batches; /**< that have ended */
  int64_t asked; /**< samples that this rank has asked for; those that neither of the following counts it has read itself */
  int64_t from_node; /**< of these: read from memory of this node */
  int64_t from_ranks; /**< of these: received from their owners */
  int64_t served; /**< samples that this rank has sent to others */
  int64_t kept; /**< samples of this rank's part that are in memory now */
  int64_t decoded; /**< samples, each time */
  int64_t from_folder; /**< samples that level 1 had */
  int64_t from_store; /**< samples that were read from the store */
  int64_t folder_bytes_read; /**< from level 1 */
  int64_t store_bytes_read; /**< from the store */
  int64_t damaged; /**< samples of level 1 whose checksum was wrong: read from the store anew */
  int64_t retried; /**< times that a sample was tried again */
  int64_t skipped; /**< samples that this rank has asked for and not got */
  double seconds_store; /**< reading from the store */
  double seconds_folder; /**< reading and writing level 1 */
  double seconds_decode; /**< decoding */
  double seconds_waited; /**< by the caller, in get(), next() and the operations */
  int64_t bytes_sent[WEIR_LEVEL_COUNT]; /**< by Level of the peer */
  int64_t bytes_received[WEIR_LEVEL_COUNT]; /**< by Level of the peer */
} weir_sample_cache_statistics;

/** Describes the epochs of a data set. All fields but `progress` must be equal on all ranks. Start from
 *  WEIR_SAMPLE_LOADER_CONFIG_INIT. */
typedef struct weir_sample_loader_config {
  size_t struct_size;
  int64_t batch;          /**< samples of a rank in a step, at most the cache's `largest_batch` */
  int64_t seed;           /**< of all permutations */
  double exchanged_share; /**< with `node`: of a node's samples, those that go to any node, from 0 to 1 */
  int32_t shuffle;        /**< weir_shuffle: the order of samples */
  int32_t progress;       /**< weir_progress_display: whether the first epoch's progress is shown */
} weir_sample_loader_config;

#define WEIR_SAMPLE_LOADER_CONFIG_INIT                                                                                             \
  {                                                                                                                                \
    sizeof(weir_sample_loader_config), 32, 0, 0.1, WEIR_SHUFFLE_GLOBAL, WEIR_PROGRESS_AUTOMATIC                                    \
  }

/** The delivered update, sorted by index, equal on all ranks, in the plan's memory space. Owned by the plan, valid until its
 *  next start, reset or destruction. Set struct_size to its size before a call fills it. */
typedef struct weir_sparse_result {
  size_t struct_size;
  int64_t count;           /**< entries */
  const uint32_t* indices; /**< ascending */
  const void* values;      /**< of the plan's type; of plans of 16-bit types float32 */
} weir_sparse_result;

/** What error feedback keeps on this rank, in the plan's memory space. Owned by the plan, valid until its next start, reset or
 *  destruction. Set struct_size to its size before a call fills it. */
typedef struct weir_residual {
  size_t struct_size;
  /** the first one's element: not 0 only with algorithms that shard within nodes (hitopk, hi_oktopk, packed_reduce_scatter) */
  int64_t begin;
  int64_t count;      /**< elements; 0 without error feedback, and on ranks that own no shard */
  const void* values; /**< of the plan's type; of plans of 16-bit types float32 */
} weir_residual;

#endif
