// weir/types.hpp: the enumerations and structs of the C++ interface. Included by weir/weir.hpp.
// Made by capi/interface/generate.py from interface.toml. Edit that file.
#ifndef WEIR_TYPES_HPP
#define WEIR_TYPES_HPP

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace weir {

/// Element type of gradients. In plans, the 16-bit types are for CUDA memory only; residuals, sums and updates are then float32.
enum class DataType : std::int32_t { float32 = 0, float64 = 1, float16 = 2, bfloat16 = 3 };

/// Memory that holds gradient, residual and update.
enum class MemorySpace : std::int32_t { host = 0, cuda = 1 };

/// How messages encode the indices of sparse vectors.
enum class WireFormat : std::int32_t {
  compact = 0,  ///< the smallest of COO, Elias-Fano, bitmap and dense, chosen per message
  coo = 1       ///< always a 32-bit index and a value
};

/// How messages encode the values of sparse vectors. Sums are computed in the plan's type. The residual keeps what rounding loses.
enum class WireValues : std::int32_t {
  native = 0,    ///< no rounding
  bfloat16 = 1,  ///< needs float32
  float16 = 2    ///< needs float32
};

/// Error feedback: what a rank keeps of what it did not deliver. GRACE section IV calls it memory.
enum class Feedback : std::int32_t {
  none = 0,  ///< keeps nothing; what is not delivered is lost
  /// keeps a residual r. The rank compresses m = decay r + gain g; the new r is the part of m that was not delivered (Ok-Topk
  /// Algorithm 2, the default of GRACE)
  residual = 1,
  /// EF21 (Richtarik, Sokolov, Fatkhullin 2021). The rank compresses the gradient minus the sum of all that it delivered before;
  /// the update is the sum of all that was delivered so far. Updates are dense, so only `run` and `start` work
  ef21 = 2,
  /// residual; none for compressors whose paper uses none (`weir info --compressors` lists them) and for compressors that must have
  /// none
  automatic = 3
};

/// What happens in an iteration in which any rank's gradient holds NaN or infinity.
enum class NonFinite : std::int32_t {
  /// ends the run with WEIR_ERR_NON_FINITE on every rank. The gradient stays untouched; the residual stays as before, up to
  /// rounding
  error = 0,
  skip = 1,  ///< no rank contributes anything. The update is zero; the residual stays as before, up to rounding
  /// sends NaN like other values. If entries are chosen by magnitude, NaN counts as the largest. Packed and linear compressors may
  /// spread it (qsgd to its whole bucket, power_sgd to the whole update) or hide it (sign_sgd and signum take its sign)
  propagate = 2
};

/// How near two ranks are: the innermost part of the machine that they share. Traffic is counted by level.
enum class Level : std::int32_t {
  self = 0,          ///< the rank itself
  l3 = 1,            ///< the same L3 cache
  numa = 2,          ///< the same NUMA node
  socket = 3,        ///< the same socket
  node = 4,          ///< the same node
  switch_group = 5,  ///< the same switch
  system = 6         ///< no nearer part in common
};

/// How the gradient of a batch changes the rows of a table. l is the learning rate and g the gradient of a row. Rows that no rank
/// has looked up keep their values and their state.
enum class Optimizer : std::int32_t {
  sgd = 0,       ///< w -= l g
  momentum = 1,  ///< v = beta1 v + g;  w -= l v
  adagrad = 2,   ///< s += g^2;  w -= l g / (sqrt(s) + epsilon)
  /// m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;  w -= l m' / (sqrt(v') + epsilon), where m' = m / (1 - beta1^t)
  /// and v' = v / (1 - beta2^t). t counts updates; all rows of an update have the same t, including the delayed ones (EmbRace
  /// section 5.7)
  adam = 3
};

/// How messages to the ranks of another node travel.
enum class Routing : std::int32_t {
  automatic = 0,  ///< the cost function chooses
  direct = 1,     ///< each message travels by itself
  by_node = 2     ///< the messages from one node to another travel as one: gathered in the node, sent across, scattered
};

/// Which tensors travel together and what is sparsified. The "ahead" schemes sparsify each tensor by itself; "behind" sparsifies
/// what travels together as one.
enum class FusionScheme : std::int32_t {
  none = 0,  ///< sends each tensor alone (wait-free back-propagation)
  /// fuses gradients into buffers of a fixed size, then sparsifies each buffer, as a compressing hook of PyTorch's DDP does. Small
  /// gradients beside large ones may not be delivered
  behind = 1,
  /// SAFusion: sparsifies each tensor by itself. A rank fills buffers of a fixed size with entries in the order in which gradients
  /// come. Buffers of different ranks may hold different tensors, so a tensor has arrived only when all buffers have
  ahead = 2,
  ahead_inter = 3,  ///< SAFusion-Inter: like `ahead`, but a buffer holds the same tensors on all ranks, whatever their sizes
  /// SAFusion-(Inter+Intra): like `ahead_inter`, but adapts the number of tensors in a buffer to measured times until its exchange
  /// takes as long as filling the next buffer
  ahead_inter_intra = 4,
  /// OMGS-SGD (Shi et al. 2020): like `ahead_inter`, but the cost functions merge buffers before the first iteration. Two
  /// neighbours become one if this saves more startup time than it makes the first one wait
  omgs = 5,
  /// Cupcake (Wang et al. 2023): like `ahead_inter`, but with the division that the cost functions find cheapest of all before the
  /// first iteration
  cupcake = 6,
  ahead_fitted = 7,  ///< like `ahead_inter_intra`, but with the division whose last exchange ends first by measured times
  /// like `ahead_inter`, but the first and last buffers are small: a sixteenth of the size, then a quarter. The first exchange
  /// begins early, and little is left to exchange after the last gradient
  ahead_tapered = 8
};

/// Which ranks share the parts of a parallel operator.
enum class OperatorDivision : std::int32_t {
  automatic = 0,   ///< the one of the following that the cost functions predict to end first
  replicated = 1,  ///< no division: every rank works on all parts
  node = 2,        ///< the ranks of each node: every node works on all parts, and nothing crosses the network
  all = 3          ///< all ranks
};

/// Rule by which a LayerOptimizer steps.
enum class OptimizerRule : std::int32_t {
  lars = 0,  ///< layer-wise adaptive rate scaling, on momentum SGD (You et al. 2018; CommLib equation 11)
  lamb = 1   ///< layer-wise adaptive moments, on Adam (You et al. 2020, Algorithm 2)
};

/// Element type of a sparse sum.
enum class SumType : std::int32_t { float32 = 0, float64 = 1, int32 = 2, int64 = 3 };

/// How a sparse sum combines the entries that ranks have for one index. Ranks without an entry for it do not count: absent is not
/// zero.
enum class SumOperation : std::int32_t {
  sum = 0,  ///< the sum; integers wrap around
  min = 1,  ///< the smallest; NaN if one of them is NaN
  max = 2,  ///< the largest; NaN if one of them is NaN
  /// the sum, with the same bits on any number of ranks, however entries are divided among ranks and ordered; with `algorithm`
  /// gather, split or auto. Integers: as sum
  reproducible_sum = 3,
  checked_sum = 4  ///< the sum of integers; an addition that overflows is an error on all ranks
};

/// What happens to a sample that cannot be read or decoded.
enum class SampleErrors : std::int32_t {
  error = 0,  ///< ends the batch with an error on all ranks, which names the sample
  skip = 1,   ///< gives the sample size -1 and a value of zeros. The sample is counted, and tried again when it is next requested
  retry = 2,  ///< reads and decodes the sample again, `retries` times, after longer and longer pauses; then ends as with error
  /// puts the next good sample of the batch in its place, with value and size; the first sample follows the last. The bad sample is
  /// counted and tried again as with skip. A batch without a good sample ends as with skip
  substitute = 3
};

/// Order of the samples in an epoch.
enum class Shuffle : std::int32_t {
  none = 0,    ///< the order of the data set
  global = 1,  ///< a new permutation of all samples in each epoch
  /// each node permutes its own samples anew in each epoch, except a share of them, `exchanged_share`, which go to any node
  node = 2
};

/// Whether rank 0 shows the progress of the first epoch on standard error.
enum class ProgressDisplay : std::int32_t {
  automatic = 0,  ///< shows it on a terminal
  off = 1,        ///< never shows it
  on = 2          ///< always shows it
};

/// Severity of a log message. Weir logs a message if its level is at most the one that WEIR_LOG names.
enum class LogLevel : std::int32_t { error = 0, warn = 1, info = 2, debug = 3 };

/// Element type of a caller's array in a checkpoint.
enum class ElementType : std::int32_t {
  float32 = 0,
  float64 = 1,
  int32 = 2,
  int64 = 3,
  uint8 = 4  ///< bytes of any other data
};

/// How the ranks hold a caller's array in a checkpoint, and how it is restored to another number of ranks.
enum class Distribution : std::int32_t {
  replicated = 0,  ///< the same on all ranks; saved once and delivered to all
  block = 1,       ///< each rank holds a range of one long array, in any division; each gets the range that it asks for
  local = 2        ///< each rank has its own; rank r gets the array of rank r. If no rank r saved one, the array stays as it is
};

inline constexpr int level_count = 7;  ///< number of values of Level

/// Describes one tensor and how it is reduced. All fields except `name`, `priority` and `threads` must be equal on all ranks.
struct AllreduceConfig {
  std::int64_t count = 0;  ///< number n of elements of the gradient; at most 2^48, for sparse algorithms at most 2^32 - 1
  DataType type = DataType::float32;  ///< type of the gradient's elements
  /// memory that holds gradient, residual and update. With cuda, they are on the GPU that is current when the plan is made. Every
  /// sparse algorithm runs there. dense_nccl, dense_torus2d, `dense_iterations` and the sums in nodes of hitopk and hi_oktopk need
  /// NCCL; without it, hitopk and hi_oktopk run flat. If messages go to MPI as GPU memory (`weir info` says so), that GPU must also
  /// be current where runs are started and waited for
  MemorySpace memory = MemorySpace::host;
  /// share k / n of the entries to deliver, in (0, 1]. k is rounded to nearest, and is at least 1 if n > 0. Sparse compressors and
  /// shared_random_k use it; others ignore it
  double density = 0.01;
  /// number of entries to deliver, 0 <= k <= n; -1: from `density`. Sparse compressors and shared_random_k use it; others ignore it
  std::int64_t k = -1;
  /// name of an algorithm. "auto": the one that the cost functions find cheapest on this machine, which may be dense;
  /// "auto_sparse": the cheapest sparse one
  std::string algorithm = "oktopk";
  /// parameters of the algorithm, by name: "window=8,schedule=direct". Parameters that are not named keep their defaults; `weir
  /// info --algorithms` lists them. With `algorithm = auto`, each algorithm takes those that it has
  std::string algorithm_parameters = "";
  /// number of trial runs of each of up to five candidates, at most 10^6, with `algorithm = auto`. The plan then keeps the one that
  /// was fastest by the clock. 0: the prediction decides
  std::int64_t trial_iterations = 0;
  /// name of a compressor. Empty: the algorithm's own: top_k for sparse, block_quantise for packed, none for dense algorithms.
  /// "none": no compression, for dense algorithms only. Several names, joined by |, need `algorithm = auto`, which takes the
  /// cheapest: "qsgd|top_k|none"
  std::string compressor = "";
  /// parameters of the compressor, by name: "levels=16,bucket=512". Parameters that are not named keep their defaults. With several
  /// compressors, the parameters of each are joined by | in the same order: "levels=16||"; the last ones may be left out
  std::string compressor_parameters = "";
  int seed = 1;  ///< seed of random compressors, not negative. Their numbers depend only on seed, iteration, rank and element
  /// what a rank keeps of what it did not deliver. Some compressors work only without error feedback, and refuse `residual` and
  /// `ef21`
  Feedback error_feedback = Feedback::automatic;
  /// beta of GRACE section IV: share of the residual that is kept, 0 to 1. Must be 1 without a residual
  double feedback_decay = 1.0;
  /// gamma of GRACE section IV: factor of the gradients, finite and not 0. Must be 1 with ef21 and without compression
  double feedback_gain = 1.0;
  bool average = true;  ///< divides the delivered sum by the number of ranks
  /// how a rank selects the entries that it contributes, with top_k and dgc; other compressors ignore it. "exact" or "reuse", or
  /// one of the thresholds of papers: "mstopk", "sampled", "gaussian", "sidco" or "redsync". `exact` and `mstopk` select k entries,
  /// `reuse` selects 0.8 k to 1.25 k, the others select 0.75 k to 1.25 k. The residual keeps what a rank does not select. gaussiank
  /// has its own threshold
  std::string threshold = "exact";
  /// parameters of the threshold, by name: "period=8" for reuse, "samplings=20" for mstopk and redsync. Parameters that are not
  /// named keep their defaults
  std::string threshold_parameters = "";
  /// how messages encode indices, with sparse compressors; others ignore it. With `algorithm = auto` and compact, Weir may also
  /// choose coo
  WireFormat wire_format = WireFormat::compact;
  /// how messages encode values, with sparse compressors; others ignore it. bfloat16 and float16 do not take gradients of float64.
  /// With `algorithm = auto`, Weir may also choose native
  WireValues wire_values = WireValues::native;
  /// number of threads of this rank that select, merge and apply in host memory. May differ between ranks. The result does not
  /// depend on it. 0: WEIR_THREADS, else the number of cores that this rank has to itself
  int threads = 0;
  NonFinite non_finite = NonFinite::error;  ///< what happens if a gradient holds NaN or infinity
  std::int64_t dense_iterations = 0;  ///< number of first iterations that run dense, at most 2^48. The Ok-Topk authors use 512
  /// number of iterations after the dense ones in which density falls exponentially from 25 % to its target (DGC), with sparse
  /// compressors; at most 2^48
  std::int64_t warmup_iterations = 0;
  int priority = 0;  ///< priority of this plan's messages; a higher one makes progress first. May differ between ranks
  std::string name = "allreduce";  ///< name in error messages and dumps
};

/// What one run of a plan did on this rank. Times are in seconds.
struct Statistics {
  std::int64_t iteration = 0;  ///< number of runs so far, including this one. Density schedules count only runs that delivered
  std::int64_t k = 0;  ///< target number of entries of this iteration; n for dense and packed algorithms
  std::int64_t selected_local = 0;  ///< number of entries that this rank contributed; n for dense and packed algorithms
  std::int64_t selected_global = 0;  ///< number of entries of the update; n for dense and packed algorithms
  std::int64_t payload_bytes_sent = 0;  ///< bytes sent: values, indices, packed bytes and factors
  std::int64_t payload_bytes_received = 0;  ///< bytes received: values, indices, packed bytes and factors
  std::int64_t control_bytes_sent = 0;  ///< bytes sent: sizes, histograms and boundaries
  std::int64_t control_bytes_received = 0;  ///< bytes received: sizes, histograms and boundaries
  /// bytes sent, payload and control, by Level of the peer. Only Weir's own messages count: neither traffic through memory that the
  /// ranks of a node share, nor what MPI's or NCCL's own collectives send (dense_mpi, dense_nccl)
  std::array<std::int64_t, level_count> bytes_sent{};
  std::array<std::int64_t, level_count> bytes_received{};  ///< bytes received, by Level of the peer
  std::array<std::int64_t, level_count> messages_sent{};  ///< number of messages sent, by Level of the peer
  std::array<std::int64_t, level_count> messages_received{};  ///< number of messages received, by Level of the peer
  double seconds_select = 0;  ///< time for compensation, local selection and the compressor's encoding
  double seconds_in_node = 0;  ///< time for the dense reduce-scatter and the sparse allgather of algorithms that shard within nodes
  /// time from the first message to the last. Includes reductions and what the caller computed meanwhile; excludes encoding and
  /// decoding
  double seconds_exchange = 0;
  /// time for the residual update, the dense result and the compressor's decoding; in CUDA memory, until they are on the stream
  double seconds_apply = 0;
  double seconds_total = 0;   ///< time from start to completion, without the time that the caller takes to fetch the result
  double seconds_waited = 0;  ///< time that the caller spent in wait, test or run until this run had finished
  bool skipped = false;       ///< NonFinite::skip took effect
};

/// Describes one algorithm, which AllreduceConfig's `algorithm` may name.
struct AlgorithmInfo {
  std::string_view name;         ///< name for `algorithm`
  std::string_view description;  ///< what it does, as text
  bool sparse = false;           ///< delivers k entries; a dense algorithm delivers all
  bool host_memory = false;      ///< takes gradients in host memory
  bool cuda_memory = false;      ///< takes gradients in CUDA memory
  bool packed = false;           ///< carries the bytes that compressors make of float32 gradients
  std::string_view parameters;   ///< parameters with their defaults: "window=4"; empty: no parameters
  std::string_view counters;     ///< names of the events that plans count: "rethresholded,recut"; empty: plans count nothing
};

/// Describes one compressor, which AllreduceConfig's `compressor` may name.
struct CompressorInfo {
  std::string_view name;         ///< name for `compressor`
  std::string_view description;  ///< what it does, as text
  std::string_view source;       ///< paper that describes it
  /// what carries it. "sparse": sparse algorithms carry its entries; "packed": packed algorithms carry its bytes; "linear": dense
  /// algorithms carry its dense values
  std::string_view carriage;
  std::string_view parameters;  ///< all parameters with their defaults: "levels=7,bucket=512"; empty: no parameters
  bool random = false;  ///< draws random numbers, which depend on `seed`
  bool feedback = false;  ///< keeps a residual with `error_feedback` automatic, unless its parameters rule that out (`unbiased=1`)
};

/// What the header of an encoded gradient says.
struct EncodedInfo {
  std::int64_t version = 0;  ///< version of the format
  std::int64_t count = 0;    ///< number of elements of the gradient
  /// number of elements that have a value; the others are 0. Packed messages have values for all elements: `count`
  std::int64_t entries = 0;
  std::int64_t bytes = 0;  ///< size, including header and checksum
  std::string compressor;  ///< name of the compressor
  std::string parameters;  ///< all parameters of the compressor: "levels=7,bucket=512"
};

/// One WEIR_* environment variable, the value in force, and where that value comes from.
struct SettingInfo {
  std::string name;         ///< name of the variable
  std::string value;        ///< value in force
  std::string origin;       ///< where the value comes from
  std::string description;  ///< what the variable sets, as text
};

/// Describes one table of `rows` x `width` float32 values. All fields except `name` and the priorities must be equal on all ranks.
struct EmbeddingConfig {
  std::int64_t rows = 0;           ///< number V of rows, 1 to 2^32 - 1
  std::int64_t width = 0;          ///< number D of columns, at least 1. It need not be divisible by the number of ranks
  std::int64_t largest_batch = 0;  ///< largest number of ids that a rank looks up at once
  /// memory that holds values, optimizer state, vectors and gradients. With cuda, they are on the GPU that is current when the
  /// table is made. dense_allreduce does not take cuda
  MemorySpace memory = MemorySpace::host;
  std::string exchange = "columns";      ///< name of an exchange: how rows are divided among the ranks and how they travel
  Optimizer optimizer = Optimizer::sgd;  ///< how gradients change rows
  double learning_rate = 0.01;           ///< learning rate, finite as float32, the type of rows
  double beta1 = 0.9;                    ///< beta1 of momentum and Adam
  double beta2 = 0.999;                  ///< beta2 of Adam
  double epsilon = 1e-08;                ///< epsilon of Adagrad and Adam, which need it positive
  bool average = true;                   ///< divides gradients by the number of ranks
  /// how messages encode vectors and gradients; dense_allreduce always sends float32. Sums are float32
  WireValues wire_values = WireValues::native;
  Routing routing = Routing::automatic;  ///< how messages to the ranks of another node travel
  std::uint64_t seed = 1;  ///< seed of the initial values, which otherwise depend only on row, column and `initial_range`
  /// range of the initial values, which are uniform in [-initial_range, initial_range); finite as float32
  double initial_range = 0.05;
  int priority = 1000000;           ///< priority of ids, vectors, and gradients of rows that the next batch needs
  int delayed_priority = -1000000;  ///< priority of the other gradients
  std::string name = "embedding";   ///< name in error messages and dumps
};

/// What the last lookup and the last update of this rank did. Times are in seconds; in CUDA memory they end when the work is on its
/// stream. The rows of the update are known once update() has returned. Which of them are prior is known later, while the operation
/// runs.
struct EmbeddingStatistics {
  std::int64_t tokens = 0;         ///< number of ids in the batch
  std::int64_t distinct_rows = 0;  ///< number of distinct rows in the batch: vectors received and gradients sent
  /// number of rows of the update that the next batch of any rank needs; all rows if the next batch is not known
  std::int64_t prior_rows = 0;
  /// number of rows that this rank's optimizer stepped; if the table is divided by columns, parts of rows
  std::int64_t updated_rows = 0;
  bool prefetched = false;                             ///< the ids of the lookup were known before
  bool by_node = false;                                ///< Routing::by_node is in force
  std::int64_t id_bytes_sent = 0;                      ///< bytes of the batch's ids, sent by lookup or by the prefetch that it used
  std::int64_t lookup_bytes_sent = 0;                  ///< bytes of vectors
  std::int64_t gradient_bytes_sent = 0;                ///< bytes of gradients of rows
  std::int64_t control_bytes_sent = 0;                 ///< all other bytes of lookup, its prefetch and update
  std::array<std::int64_t, level_count> bytes_sent{};  ///< all these bytes, by Level of the peer
  double seconds_lookup = 0;                           ///< time of the lookup from start to completion
  double seconds_coalesce = 0;                         ///< time for summing gradients of equal ids, before update() returns
  double seconds_prior = 0;                            ///< time from update() until the prior rows were applied
  double seconds_update = 0;                           ///< time from update() until all rows were applied
};

/// Describes one way to divide and exchange a table.
struct ExchangeInfo {
  std::string_view name;         ///< name for `exchange`
  std::string_view description;  ///< what it does, as text
};

/// Describes where checkpoints go. All fields except `name` must be equal on all ranks.
struct CheckpointConfig {
  std::string folder = "";  ///< folder for the files, which all ranks must see. Weir makes it if its parent exists
  std::string run = "";  ///< text that identifies the training run. A folder with files of another run is refused. Empty: any run
  std::int64_t keep = 2;  ///< number of newest files that stay
  /// compression of large arrays. 0: none; 1 to 9: deflate, from fastest to smallest, after shuffling bytes by their place in an
  /// element
  std::int64_t compression = 0;
  /// restore() throws if the newest file is damaged; otherwise it warns and takes the newest file that is whole
  bool strict = false;
  std::string name = "checkpoint";  ///< name in error messages and dumps
};

/// What the last save and the last restore of this rank did. Times are in seconds.
struct CheckpointStatistics {
  std::int64_t step = 0;            ///< step saved or restored last; -1: none yet
  std::int64_t ranks = 0;           ///< number of ranks that saved what was restored last
  std::int64_t snapshot_bytes = 0;  ///< memory of the snapshot on this rank, which is kept from one save to the next
  std::int64_t bytes_written = 0;   ///< bytes that this rank wrote to the file
  std::int64_t bytes_read = 0;      ///< bytes that this rank read from the file
  double seconds_snapshot = 0;      ///< time until save() returned
  double seconds_save = 0;          ///< time from save() until the file was in its place
  double seconds_restore = 0;       ///< time of the restore
};

/// Describes one tensor of a model. Must be equal on all ranks.
struct FusedTensor {
  std::string name = "";   ///< name in error messages and checkpoints; all tensors have different names
  std::int64_t count = 0;  ///< number of elements of its gradient; at most 2^32 - 1, with `dense` at most 2^48
  double density = 0.0;    ///< share k / count of the entries, in (0, 1]; 0: that of the FusionConfig
  /// number of entries that each rank selects, 0 <= k <= count; -1: from the density, at least 1 if count > 0
  std::int64_t k = -1;
  bool dense = false;  ///< sends the tensor whole, together with the other tensors of its buffer; for biases and norms
  /// some or all ranks may leave the tensor out of an iteration. It then contributes nothing there, and its residual stays
  bool optional = false;
};

/// Describes how the gradients of a model are fused and reduced. All fields except `name` and `priority` must be equal on all
/// ranks.
struct FusionConfig {
  FusionScheme scheme = FusionScheme::ahead_tapered;  ///< which tensors travel together and what is sparsified
  /// size of a buffer, in bytes of gradients. With `behind`, a buffer takes this many bytes; with `ahead`, `ahead_inter` and
  /// `ahead_tapered`, it takes as many entries as the density selects from this many bytes. `ahead_inter_intra` and `ahead_fitted`
  /// begin with it, and `ahead_inter_intra` makes no larger buffers. The other schemes ignore it
  std::int64_t buffer_bytes = 26214400;
  DataType type = DataType::float32;  ///< type of the gradients' elements: float32 or float64, in host memory
  double density = 0.01;              ///< share k / count of the entries, in (0, 1], for tensors that do not set their own
  /// name of a sparse algorithm, which exchanges the entries of a buffer. Algorithms that shard within nodes run flat. gtopk,
  /// oktopk and hi_oktopk deliver the largest entries of a buffer, so tensors may be missing from an update; the others deliver all
  /// entries that ranks have selected. "auto", "auto_sparse": topk_allgather or topk_dsa, the one that is predicted to be cheaper
  std::string algorithm = "auto";
  std::string algorithm_parameters = "";          ///< parameters of the algorithm, as in AllreduceConfig
  std::string threshold = "exact";                ///< how a rank selects entries, as in AllreduceConfig
  std::string threshold_parameters = "";          ///< parameters of the threshold, as in AllreduceConfig
  Feedback error_feedback = Feedback::automatic;  ///< residual or none; automatic is residual
  bool average = true;                            ///< divides the delivered sum by the number of ranks
  WireFormat wire_format = WireFormat::compact;   ///< how messages encode indices
  /// how messages encode values; bfloat16 and float16 need float32. Dense tensors are sent without rounding
  WireValues wire_values = WireValues::native;
  /// what happens to the buffer of a tensor with NaN or infinity; other buffers are delivered
  NonFinite non_finite = NonFinite::error;
  /// priority of the buffer with the last tensor of the forward pass. A buffer that is needed earlier has a higher priority. May
  /// differ between ranks
  int priority = 0;
  std::string name = "fused";  ///< name in error messages and dumps
};

/// What one iteration of a FusedAllreduce did on this rank, up to wait_all(). Times are in seconds.
struct FusionStatistics {
  std::int64_t iteration = 0;        ///< number of iterations so far, including this one
  std::int64_t exchanges = 0;        ///< number of buffers that were exchanged, that is, of communication startups
  std::int64_t tensors_skipped = 0;  ///< number of optional tensors that this rank skipped or left out
  /// number of tensors with k above 0 of which no entry was delivered, including those that all ranks skipped; the same on all
  /// ranks
  std::int64_t tensors_missing = 0;
  std::int64_t buffers_skipped = 0;  ///< number of buffers for which NonFinite::skip took effect
  std::int64_t selected_local = 0;  ///< number of entries that this rank contributed, without dense tensors
  std::int64_t selected_global = 0;  ///< number of entries of the updates, without dense tensors; with `ahead`, counted by buffer
  std::int64_t payload_bytes_sent = 0;  ///< bytes sent: values and indices
  std::int64_t payload_bytes_received = 0;  ///< bytes received: values and indices
  std::int64_t control_bytes_sent = 0;  ///< bytes sent: sizes, histograms, boundaries and agreement
  std::int64_t control_bytes_received = 0;  ///< bytes received: sizes, histograms, boundaries and agreement
  std::array<std::int64_t, level_count> bytes_sent{};  ///< bytes sent, payload and control, by Level of the peer
  std::array<std::int64_t, level_count> bytes_received{};  ///< bytes received, by Level of the peer
  std::array<std::int64_t, level_count> messages_sent{};  ///< number of messages sent, by Level of the peer
  std::array<std::int64_t, level_count> messages_received{};  ///< number of messages received, by Level of the peer
  double seconds_select = 0;  ///< time for compensation and selection, in ready()
  double seconds_exchange = 0;  ///< time during which at least one exchange was in flight
  double seconds_backward = 0;  ///< time from the first ready() to the end of the last
  /// time that the caller spent in wait(), test() and wait_all(): communication that nothing overlapped
  double seconds_waited = 0;
  double seconds_total = 0;      ///< time from the first ready() to the end of the last exchange
  std::int64_t regroupings = 0;  ///< number of times so far that buffers were divided anew (ahead_inter_intra, ahead_fitted)
  bool settled = false;          ///< the division into buffers is final
};

/// Describes one part of work that every rank would otherwise do whole. Must be equal on all ranks.
struct OperatorPart {
  double seconds = 0.0;           ///< estimated time of this part on one rank, at least 0. Work is divided by these estimates
  std::int64_t result_bytes = 0;  ///< size of its result; with `variable`, the largest size
};

/// Describes work that is divided among ranks. All fields except `name` and `priority` must be equal on all ranks.
struct OperatorConfig {
  OperatorDivision division = OperatorDivision::automatic;  ///< which ranks share the parts
  bool variable = false;  ///< results may be shorter than described, with other sizes in each run. The sizes are gathered first
  int priority = 0;  ///< priority of gathering; a higher one makes progress first. May differ between ranks
  std::string name = "operator";  ///< name in error messages and dumps
};

/// What the last run of a parallel operator did on this rank. Times are in seconds.
struct OperatorStatistics {
  std::int64_t runs = 0;  ///< number of runs so far, including those that ended in an error
  double seconds_work = 0;  ///< time in the body
  double seconds_gather = 0;  ///< time for agreeing and gathering, including waiting for slower ranks
  std::array<std::int64_t, level_count> bytes_sent{};  ///< bytes sent, by Level of the peer
  std::array<std::int64_t, level_count> bytes_received{};  ///< bytes received, by Level of the peer
  std::array<std::int64_t, level_count> messages_sent{};  ///< number of messages sent, by Level of the peer
  std::array<std::int64_t, level_count> messages_received{};  ///< number of messages received, by Level of the peer
};

/// Describes weights that have a learning rate of their own. Must be equal on all ranks.
struct OptimizedLayer {
  /// name in error messages and checkpoints, without '/' and control characters; all layers have different names
  std::string name = "";
  std::int64_t count = 0;  ///< number of elements
  bool excluded = false;   ///< steps without weight decay and at the plain learning rate; for biases and norms
};

/// Describes how the layers of a model step. All fields except `name` and `priority` must be equal on all ranks.
struct OptimizerConfig {
  OptimizerRule rule = OptimizerRule::lars;  ///< how layers step
  double momentum = 0.9;  ///< momentum of lars, from 0 to below 1
  double weight_decay = 0.0001;  ///< weight decay, at least 0
  double trust_coefficient = 0.001;  ///< gamma of lars (CommLib equation 11), above 0
  double largest_rate = 0.0;  ///< limit of a layer's rate, which multiplies the learning rate; 0: no limit
  double beta1 = 0.9;  ///< beta1 of lamb, from 0 to below 1
  double beta2 = 0.999;  ///< beta2 of lamb, from 0 to below 1
  double epsilon = 1e-06;  ///< epsilon of lamb, above 0
  OperatorDivision norms = OperatorDivision::automatic;  ///< which ranks share the norms; with lamb, the same as `update`
  /// which ranks share the update and momentum. Each rank keeps the momentum of its part, and weights are gathered (ZeRO stage 1)
  OperatorDivision update = OperatorDivision::automatic;
  /// type of weights and gradients: float32, float16 or bfloat16. Momentum and moments are float32. With 16-bit weights, the
  /// optimizer also keeps float32 weights of its own
  DataType type = DataType::float32;
  /// memory that holds weights, gradients, momentum and moments. With cuda, they are on the GPU that is current when the optimizer
  /// is made
  MemorySpace memory = MemorySpace::host;
  int priority = 0;                ///< priority of gathering; a higher one makes progress first. May differ between ranks
  std::string name = "optimizer";  ///< name in error messages and checkpoints
};

/// What the last step of a LayerOptimizer did on this rank. Times are in seconds.
struct OptimizerStatistics {
  std::int64_t steps = 0;     ///< number of steps so far
  double seconds_norms = 0;   ///< time for norms, without those of other ranks
  double seconds_update = 0;  ///< time for stepping weights
  double seconds_gather = 0;  ///< time for agreeing and gathering, including waiting for slower ranks
};

/// Describes Adam for sparse updates. Must be equal on all ranks if their weights are to stay equal.
struct SparseAdamConfig {
  std::int64_t count = 0;  ///< number of weights
  double beta1 = 0.9;      ///< beta1 of Adam, from 0 to below 1
  double beta2 = 0.999;    ///< beta2 of Adam, from 0 to below 1
  double epsilon = 1e-08;  ///< epsilon of Adam, above 0
  /// also moves weights that no update touches, as dense Adam does. A step then takes time in proportion to `count`
  bool exact = false;
  std::string name = "sparse_adam";  ///< name in error messages and checkpoints
};

/// Describes sums of arrays that are mostly zero. All fields except `name` and `priority` must be equal on all ranks.
struct SparseSumConfig {
  std::int64_t count = 0;                      ///< number n of elements of the arrays, at most 2^56
  SumType type = SumType::float64;             ///< type of the elements
  SumOperation operation = SumOperation::sum;  ///< how entries with the same index are combined
  /// the most entries that a rank is expected to give, at most 2^40: memory for them is allocated in advance. With more, memory
  /// grows, and rank 0 logs it once. 0: memory grows as needed
  std::int64_t expected_entries = 0;
  /// name of an algorithm: gather, split, hash, doubling, dense, blocks, shared or hierarchical. "auto": in each run the one that
  /// is predicted to end first with the entries of that run. The result has the same bits with every algorithm
  std::string algorithm = "auto";
  int priority = 0;          ///< priority of the run; a higher one makes progress first. May differ between ranks
  std::string name = "sum";  ///< name in error messages and dumps
};

/// What the last run of a sparse sum did on this rank.
struct SparseSumStatistics {
  std::int64_t runs = 0;  ///< number of runs so far that ended without an error
  std::string_view algorithm;  ///< name of the algorithm of the last run; "none" on one rank
  std::int64_t entries = 0;  ///< number of entries of this rank, after those with the same index were combined
  std::int64_t entries_total = 0;  ///< the same, of all ranks together
  std::int64_t entries_sum = 0;  ///< number of entries of the result
  std::int64_t payload_bytes_sent = 0;  ///< bytes sent: values and indices
  std::int64_t payload_bytes_received = 0;  ///< bytes received: values and indices
  std::int64_t control_bytes_sent = 0;  ///< bytes sent: sizes and samples of indices
  std::int64_t control_bytes_received = 0;  ///< bytes received: sizes and samples of indices
  std::array<std::int64_t, level_count> bytes_sent{};  ///< bytes sent, by Level of the peer
  std::array<std::int64_t, level_count> bytes_received{};  ///< bytes received, by Level of the peer
  std::array<std::int64_t, level_count> messages_sent{};  ///< number of messages sent, by Level of the peer
  std::array<std::int64_t, level_count> messages_received{};  ///< number of messages received, by Level of the peer
};

/// Describes where samples are kept. All fields except `folder`, `folder_bytes`, `threads` and `priority` must be equal on all
/// ranks.
struct SampleCacheConfig {
  /// folder of level 1, in the node's own storage; runs and data sets share it. Weir makes it if its parent exists. Empty: no level
  /// 1
  std::string folder = "";
  std::int64_t folder_bytes = 0;  ///< limit of the folder, in bytes. What was used least recently is removed first. 0: no limit
  /// limit of level 2 on each node, in bytes. 0: nothing stays in memory; -1: half of what the smallest node has available, or what
  /// the samples take if that is less
  std::int64_t memory_bytes = -1;
  std::int64_t largest_batch = 256;  ///< largest number of samples that a rank requests at once
  int in_flight = 2;  ///< number of batches that may be in flight at once
  int pack_samples = 64;  ///< number of samples in a pack, which is read from the store at once and is one file of level 1
  int threads = 1;  ///< number of threads of this rank that read and decode
  SampleErrors on_error = SampleErrors::error;  ///< what happens to a sample that cannot be read or decoded
  int retries = 3;  ///< number of further attempts with `retry`: after 0.1 s, 0.2 s, 0.4 s, ..., at most 10 s each
  int priority = -1;  ///< priority of messages; the default is below the 0 of plans. May differ between ranks
  /// name of the data set and of its folder within level 1. 1 to 64 letters, digits, '_', '-' and '.', not beginning with '.'
  std::string name = "samples";
};

/// What a sample cache has done on this rank so far. Times are in seconds, of all threads together.
struct SampleCacheStatistics {
  std::int64_t batches = 0;  ///< number of batches that have ended
  /// number of samples that this rank has requested. It has read itself those that `from_node` and `from_ranks` do not count
  std::int64_t asked = 0;
  std::int64_t from_node = 0;  ///< number of requested samples that were read from memory of this node
  std::int64_t from_ranks = 0;  ///< number of requested samples that were received from their owners
  std::int64_t served = 0;  ///< number of samples that this rank has sent to others
  std::int64_t kept = 0;  ///< number of samples of this rank's part that are in memory now
  std::int64_t decoded = 0;  ///< number of decodings of samples
  std::int64_t from_folder = 0;  ///< number of samples that level 1 had
  std::int64_t from_store = 0;  ///< number of samples that were read from the store
  std::int64_t folder_bytes_read = 0;  ///< bytes read from level 1
  std::int64_t store_bytes_read = 0;  ///< bytes read from the store
  std::int64_t damaged = 0;  ///< number of samples of level 1 whose checksum was wrong and which were read from the store again
  std::int64_t retried = 0;  ///< number of times that a sample was tried again
  std::int64_t skipped = 0;  ///< number of samples that this rank has requested and not got
  double seconds_store = 0;  ///< time for reading from the store
  double seconds_folder = 0;  ///< time for reading and writing level 1
  double seconds_decode = 0;  ///< time for decoding
  double seconds_waited = 0;  ///< time that the caller spent in get(), next() and the operations
  std::array<std::int64_t, level_count> bytes_sent{};  ///< bytes sent, by Level of the peer
  std::array<std::int64_t, level_count> bytes_received{};  ///< bytes received, by Level of the peer
};

/// Describes the epochs of a data set. All fields except `progress` must be equal on all ranks.
struct SampleLoaderConfig {
  std::int64_t batch = 32;  ///< number of samples of a rank in a step, at most the cache's `largest_batch`
  std::int64_t seed = 0;  ///< seed of all permutations
  double exchanged_share = 0.1;  ///< share of a node's samples, from 0 to 1, that go to any node, with the order `node`
  Shuffle shuffle = Shuffle::global;  ///< order of samples
  ProgressDisplay progress = ProgressDisplay::automatic;  ///< whether rank 0 shows the progress of the first epoch
};

}  // namespace weir

#endif
