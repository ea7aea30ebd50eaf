// weir/types.hpp: the enumerations and structs of the C++ interface. Included by weir/weir.hpp.
// Made by capi/interface/generate.py from interface.toml: change that.
#ifndef WEIR_TYPES_HPP
#define WEIR_TYPES_HPP

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace weir {

/// Element type of gradients. Of plans, the 16-bit types are for CUDA memory only; residuals, sums and updates are float32 with
/// them.
enum class DataType : std::int32_t { float32 = 0, float64 = 1, float16 = 2, bfloat16 = 3 };

/// Where gradient, residual and update are.
enum class MemorySpace : std::int32_t { host = 0, cuda = 1 };

/// How indices of sparse vectors travel.
enum class WireFormat : std::int32_t {
  compact = 0,  ///< the smallest of COO, Elias-Fano, bitmap and dense, per message
  coo = 1       ///< 32-bit index and value, always
};

/// How values of sparse vectors travel. Sums are taken in the plan's type; what rounding loses stays in the residual.
enum class WireValues : std::int32_t {
  native = 0,
  bfloat16 = 1,  ///< needs float32
  float16 = 2    ///< needs float32
};

/// Error feedback: what a rank remembers of what it did not deliver (GRACE section IV calls it memory).
enum class Feedback : std::int32_t {
  none = 0,  ///< nothing: what is not delivered is lost
  /// a residual r: m = decay r + gain g is compressed, and the new r is the part of m that was not delivered (Ok-Topk Algorithm 2,
  /// GRACE's default)
  residual = 1,
  /// EF21 (Richtarik, Sokolov, Fatkhullin 2021): what is compressed is the gradient minus the sum of what this rank delivered
  /// before; the update is the sum of all that was delivered. Updates are dense: `run` and `start` only
  ef21 = 2,
  /// residual; none where the compressor's paper has none (`weir info --compressors` says which), and where the compressor must
  /// have none
  automatic = 3
};

/// What happens to an iteration in which any rank's gradient holds NaN or infinity.
enum class NonFinite : std::int32_t {
  error = 0,  ///< WEIR_ERR_NON_FINITE on every rank; gradient untouched, residual as before up to rounding
  skip = 1,   ///< the iteration contributes nothing anywhere: the update is zero, the residual as before up to rounding
  /// NaN travels. Where entries are chosen by magnitude, it counts as the largest. Packed and linear compressors may spread it:
  /// qsgd to its whole bucket, power_sgd to the whole update; or hide it: sign_sgd and signum take its sign
  propagate = 2
};

/// How near two ranks are: the innermost part of the machine that they share. Traffic is counted by these levels.
enum class Level : std::int32_t {
  self = 0,          ///< the rank itself
  l3 = 1,            ///< one L3 cache
  numa = 2,          ///< one NUMA node
  socket = 3,        ///< one socket
  node = 4,          ///< one node
  switch_group = 5,  ///< one switch
  system = 6         ///< nothing nearer
};

/// Which rows of the batch's gradient change what, with one learning rate l and gradient g of a row. Rows that no rank has looked
/// up keep their values and their state.
enum class Optimizer : std::int32_t {
  sgd = 0,       ///< w -= l g
  momentum = 1,  ///< v = beta1 v + g;  w -= l v
  adagrad = 2,   ///< s += g^2;  w -= l g / (sqrt(s) + epsilon)
  /// m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;  w -= l m' / (sqrt(v') + epsilon), where m' and v' are divided by
  /// 1 - beta1^t and 1 - beta2^t; t grows once per update, with its delayed rows (EmbRace section 5.7)
  adam = 3
};

/// How messages to the ranks of another node travel.
enum class Routing : std::int32_t {
  automatic = 0,  ///< as the cost function says
  direct = 1,     ///< each by itself
  by_node = 2     ///< those from one node to another as one: gathered in the node, sent across, scattered
};

/// Which tensors travel together, and what is sparsified: each tensor by itself ("ahead"), or what travels together as one
/// ("behind").
enum class FusionScheme : std::int32_t {
  none = 0,  ///< every tensor travels alone: wait-free back-propagation
  /// buffers of a fixed size are fused first and then sparsified, as a compressing hook of PyTorch's DDP does. Small gradients may
  /// go missing beside large ones
  behind = 1,
  /// SAFusion: each tensor is sparsified by itself; a rank fills buffers of a fixed size with the entries as they come. Buffers of
  /// different ranks may hold different tensors, so that tensors have arrived only when all buffers have
  ahead = 2,
  ahead_inter = 3,  ///< SAFusion-Inter: as `ahead`, and a buffer holds the same tensors on all ranks, whatever their sizes
  /// SAFusion-(Inter+Intra): as `ahead_inter`, and the number of tensors in a buffer adapts to measured times until its exchange
  /// takes as long as the next buffer takes to fill
  ahead_inter_intra = 4,
  /// as `ahead_inter`, with buffers merged by the cost functions before the first iteration: two neighbours become one where that
  /// saves more startup than it makes the first wait (OMGS-SGD, Shi et al. 2020)
  omgs = 5,
  /// as `ahead_inter`, with the division that the cost functions find cheapest of all before the first iteration (Cupcake, Wang et
  /// al. 2023)
  cupcake = 6,
  ahead_fitted = 7,  ///< as `ahead_inter_intra`, with the division whose last exchange ends first, by measured times
  /// as `ahead_inter`, and the first and last buffers are small: a sixteenth of the size, then a quarter. The first exchange begins
  /// early, and little is left to exchange when the last gradient has come
  ahead_tapered = 8
};

/// Which ranks share the parts of a parallel operator.
enum class OperatorDivision : std::int32_t {
  automatic = 0,   ///< whichever of the following the cost functions predict to end first
  replicated = 1,  ///< none: every rank does all of them
  node = 2,        ///< the ranks of each node: every node does all of them, and nothing crosses the network
  all = 3          ///< all ranks
};

/// How a LayerOptimizer steps.
enum class OptimizerRule : std::int32_t {
  lars = 0,  ///< layer-wise adaptive rate scaling, on momentum SGD (You et al. 2018; CommLib equation 11)
  lamb = 1   ///< layer-wise adaptive moments, on Adam (You et al. 2020, Algorithm 2)
};

/// What happens to a sample that cannot be read or decoded.
enum class SampleErrors : std::int32_t {
  error = 0,  ///< the batch ends in an error on all ranks, which names the sample
  skip = 1,   ///< its size is -1 and its value all zeros; it is counted, and tried anew when it is next asked for
  retry = 2,  ///< it is read and decoded anew, `retries` times, after longer and longer pauses; then as error
  /// its place in the batch takes size and value of the next sample of the batch that could be had, behind the last the first;
  /// counted and tried anew as with skip. A batch without any is as with skip
  substitute = 3
};

/// The order in which an epoch's samples come.
enum class Shuffle : std::int32_t {
  none = 0,    ///< that of the data set
  global = 1,  ///< any permutation, anew in each epoch
  node = 2     ///< each node permutes its own samples anew in each epoch, except `exchanged_share` of them, which go to any node
};

/// Whether rank 0 writes to standard error how far the first epoch has got.
enum class ProgressDisplay : std::int32_t {
  automatic = 0,  ///< on a terminal
  off = 1,
  on = 2  ///< always
};

/// How much it takes to be logged: a message is when its level is at most the one that WEIR_LOG names.
enum class LogLevel : std::int32_t { error = 0, warn = 1, info = 2, debug = 3 };

/// Elements of an array that a checkpoint keeps for its caller.
enum class ElementType : std::int32_t {
  float32 = 0,
  float64 = 1,
  int32 = 2,
  int64 = 3,
  uint8 = 4  ///< bytes, of whatever else there is
};

/// How an array that a checkpoint keeps for its caller lies on the ranks, and what happens to it at another number of ranks.
enum class Distribution : std::int32_t {
  replicated = 0,  ///< the same on all ranks: saved once, delivered to all
  block = 1,       ///< ranks hold ranges of one long array, in any division: each gets the range that it asks for
  local = 2        ///< each rank's own: rank r gets that of rank r; where no rank r has saved one, the array stays as it is
};

inline constexpr int level_count = 7;  ///< values of Level

/// Describes one tensor and how it is reduced. All fields but `name` and `priority` must be equal on all ranks.
struct AllreduceConfig {
  std::int64_t count = 0;             ///< n, elements of the gradient; at most 2^48, of sparse algorithms 2^32 - 1
  DataType type = DataType::float32;  ///< of the gradient's elements
  /// cuda: gradient, residual and update are on the GPU that is current when the plan is made. Every sparse algorithm runs there;
  /// dense_nccl, dense_torus2d, dense_iterations and the sums in nodes of hitopk and hi_oktopk need NCCL (without it the latter run
  /// flat). Where messages go to MPI as GPU memory (`weir info` says so), that GPU must also be current where runs are started and
  /// waited for.
  MemorySpace memory = MemorySpace::host;
  /// k / n in (0, 1]; k is rounded to nearest, at least 1 when n > 0. For sparse compressors and shared_random_k; others ignore it
  double density = 0.01;
  /// entries to deliver, 0 <= k <= n; -1: from `density`. For sparse compressors and shared_random_k; others ignore it
  std::int64_t k = -1;
  /// a name from the list of algorithms; "auto": the cheapest on this machine by the cost functions, which may be dense;
  /// "auto_sparse": the cheapest sparse one
  std::string algorithm = "oktopk";
  /// parameters of the algorithm, by name: "window=8,schedule=direct". Those not named have their defaults; `weir info
  /// --algorithms` lists them. With `algorithm = auto`, each algorithm takes those that it has
  std::string algorithm_parameters = "";
  /// with `algorithm = auto`: this many runs of each of up to three candidates, then the fastest by the clock stays; 0: the
  /// prediction decides; at most 10^6
  std::int64_t trial_iterations = 0;
  /// a name from the list of compressors: what travels. Empty: the algorithm's own: top_k for sparse, block_quantise for packed,
  /// none for dense ones. "none": nothing is compressed; dense algorithms only. Several, joined by |, need `algorithm = auto`,
  /// which takes the cheapest: "qsgd|top_k|none"
  std::string compressor = "";
  /// of the compressor, by name: "levels=16,bucket=512". Those not named have their defaults. With several compressors, those of
  /// each, joined by | in the same order: "levels=16||"; there may be fewer than compressors
  std::string compressor_parameters = "";
  int seed = 1;  ///< for random compressors; not negative. Their numbers depend on seed, iteration, rank and element only
  /// what a rank remembers of what it did not deliver. Some compressors must have none, and refuse `residual` and `ef21`
  Feedback error_feedback = Feedback::automatic;
  /// beta of GRACE section IV: share of the residual that is kept, 0 to 1; must be 1 without a residual
  double feedback_decay = 1.0;
  /// gamma of GRACE section IV: gradients are multiplied by it; finite and not 0. Must be 1 with ef21, and where nothing is
  /// compressed
  double feedback_gain = 1.0;
  bool average = true;  ///< divide the delivered sum by the number of ranks
  /// how a rank selects the entries that it contributes, with top_k and dgc; other compressors ignore it: "exact" or "reuse"; the
  /// thresholds of papers are "mstopk", "sampled", "gaussian", "sidco" and "redsync". `exact` and `mstopk` select k entries,
  /// `reuse` 0.8 k to 1.25 k, the others 0.75 k to 1.25 k. What a rank does not select stays in its residual. gaussiank has its own
  /// threshold
  std::string threshold = "exact";
  /// parameters of the threshold, by name: "period=8" of reuse, "samplings=20" of mstopk and redsync. Those not named have their
  /// defaults
  std::string threshold_parameters = "";
  /// how indices travel, with sparse compressors; others ignore it. With `algorithm = auto` and compact, Weir may also choose coo
  WireFormat wire_format = WireFormat::compact;
  /// how values travel, with sparse compressors; others ignore it. bfloat16 and float16 do not take gradients of float64. With
  /// `algorithm = auto`, Weir may also choose native
  WireValues wire_values = WireValues::native;
  /// threads of this rank that select, merge and apply, in host memory; may differ between ranks. The result does not depend on it.
  /// 0: WEIR_THREADS, else the cores that this rank has for itself
  int threads = 0;
  NonFinite non_finite = NonFinite::error;  ///< what NaN and infinity do
  std::int64_t dense_iterations = 0;        ///< the first iterations run dense (the Ok-Topk authors use 512); at most 2^48
  /// after those, density falls exponentially from 25 % to its target (DGC), with sparse compressors; at most 2^48
  std::int64_t warmup_iterations = 0;
  int priority = 0;                ///< larger is more urgent; may differ between ranks
  std::string name = "allreduce";  ///< for messages and dumps
};

/// What one run of a plan did on this rank; times in seconds.
struct Statistics {
  std::int64_t iteration = 0;           ///< runs so far, this one included; density schedules count only those that delivered
  std::int64_t k = 0;                   ///< target of this iteration; n with dense and packed algorithms
  std::int64_t selected_local = 0;      ///< entries this rank contributed; n with dense and packed algorithms
  std::int64_t selected_global = 0;     ///< entries of the update; n with dense and packed algorithms
  std::int64_t payload_bytes_sent = 0;  ///< values, indices, packed bytes, factors
  std::int64_t payload_bytes_received = 0;
  std::int64_t control_bytes_sent = 0;  ///< sizes, histograms, boundaries
  std::int64_t control_bytes_received = 0;
  /// by Level of the peer, payload and control. Only Weir's own messages count: not what goes through memory that the ranks of a
  /// node share, nor what MPI's or NCCL's own collectives send (dense_mpi, dense_nccl).
  std::array<std::int64_t, level_count> bytes_sent{};
  std::array<std::int64_t, level_count> bytes_received{};  ///< by Level of the peer
  std::array<std::int64_t, level_count> messages_sent{};  ///< by Level of the peer
  std::array<std::int64_t, level_count> messages_received{};  ///< by Level of the peer
  double seconds_select = 0;  ///< compensation, local selection, and what a compressor takes to encode
  double seconds_in_node = 0;  ///< dense reduce-scatter and sparse allgather of algorithms that shard within nodes
  /// from the first message to the last. Includes reductions and what the caller computed meanwhile; not encoding and decoding
  double seconds_exchange = 0;
  /// residual update, dense result, and what a compressor takes to decode; in CUDA memory: until they are on the stream
  double seconds_apply = 0;
  double seconds_total = 0;   ///< from start to completion, without waiting for the caller to take the result
  double seconds_waited = 0;  ///< that the caller spent in wait, test or run until this run had finished
  bool skipped = false;       ///< NonFinite::skip took effect
};

/// One row of the algorithm registry.
struct AlgorithmInfo {
  std::string_view name;
  std::string_view description;
  bool sparse = false;          ///< delivers k entries; a dense algorithm delivers all
  bool host_memory = false;     ///< takes gradients in host memory
  bool cuda_memory = false;     ///< takes gradients in CUDA memory
  bool packed = false;          ///< carries bytes that compressors make of float32 gradients
  std::string_view parameters;  ///< with their defaults: "window=4"; empty: it has none
  std::string_view counters;    ///< what plans count: "rethresholded,recut"; empty: nothing
};

/// One row of the compressor registry: what AllreduceConfig's `compressor` may name.
struct CompressorInfo {
  std::string_view name;
  std::string_view description;
  std::string_view source;  ///< the paper
  /// what carries it: "sparse": entries, by sparse algorithms; "packed": bytes, by packed ones; "linear": dense values, by dense
  /// ones
  std::string_view carriage;
  std::string_view parameters;  ///< all of them with their defaults: "levels=7,bucket=512"; empty: it has none
  bool random = false;  ///< draws random numbers, which depend on `seed`
  bool feedback = false;  ///< keeps a residual with `error_feedback` automatic, unless its parameters rule that out (`unbiased=1`)
};

/// What an encoded gradient says of itself.
struct EncodedInfo {
  std::int64_t version = 0;  ///< of the format
  std::int64_t count = 0;    ///< elements of the gradient
  std::int64_t entries = 0;  ///< elements that it has values for; the others are 0. Packed messages have values for all: `count`
  std::int64_t bytes = 0;    ///< header and checksum included
  std::string compressor;
  std::string parameters;  ///< of the compressor, all of them: "levels=7,bucket=512"
};

/// One WEIR_* environment variable, its value in force and where that came from.
struct SettingInfo {
  std::string name;
  std::string value;
  std::string origin;
  std::string description;
};

/// Describes one table of `rows` x `width` float32 values. All fields but `name` and the priorities must be equal on all ranks.
struct EmbeddingConfig {
  std::int64_t rows = 0;           ///< V, 1 to 2^32 - 1
  std::int64_t width = 0;          ///< D, at least 1; needs not be divisible by the number of ranks
  std::int64_t largest_batch = 0;  ///< the most ids that a rank looks up at once
  /// cuda: values, the optimizer's state, vectors and gradients are on the GPU that is current when the table is made. Not for
  /// dense_allreduce.
  MemorySpace memory = MemorySpace::host;
  /// a name from the list of exchanges: how rows are divided among the ranks and how they travel
  std::string exchange = "columns";
  Optimizer optimizer = Optimizer::sgd;  ///< how gradients change rows
  double learning_rate = 0.01;  ///< finite as float32, which rows are
  double beta1 = 0.9;  ///< of momentum and Adam
  double beta2 = 0.999;  ///< of Adam
  double epsilon = 1e-08;  ///< of Adagrad and Adam, which need it positive
  bool average = true;  ///< gradients are divided by the number of ranks
  WireValues wire_values = WireValues::native;  ///< how vectors and gradients travel (dense_allreduce: float32); sums are float32
  Routing routing = Routing::automatic;  ///< how messages to the ranks of another node travel
  std::uint64_t seed = 1;  ///< of the initial values, which depend on nothing else but row, column and `initial_range`
  double initial_range = 0.05;  ///< they are uniform in [-initial_range, initial_range); finite as float32
  int priority = 1000000;  ///< of ids, vectors, and gradients of rows that the next batch needs
  int delayed_priority = -1000000;  ///< of the other gradients
  std::string name = "embedding";  ///< for messages and dumps
};

/// What the last lookup and the last update of this rank did; times in seconds, in CUDA memory until the work is on its stream.
/// Rows of the update are known once update() has returned; which of them are prior, once the operation has got so far.
struct EmbeddingStatistics {
  std::int64_t tokens = 0;  ///< ids of the batch
  std::int64_t distinct_rows = 0;  ///< of the batch: vectors received, and gradients sent
  std::int64_t prior_rows = 0;  ///< of the update: those that the next batch of any rank needs; all when it is not known
  std::int64_t updated_rows = 0;  ///< rows (or, partitioned by columns, parts of rows) that this rank's optimizer stepped
  bool prefetched = false;  ///< the lookup's ids were known before
  bool by_node = false;  ///< Routing::by_node is in force
  std::int64_t id_bytes_sent = 0;  ///< of the batch: ids, by lookup, or by the prefetch that it used
  std::int64_t lookup_bytes_sent = 0;  ///< vectors
  std::int64_t gradient_bytes_sent = 0;  ///< gradients of rows
  std::int64_t control_bytes_sent = 0;  ///< everything else of lookup, its prefetch and update
  std::array<std::int64_t, level_count> bytes_sent{};  ///< all of these by Level of the peer
  double seconds_lookup = 0;  ///< from start to completion
  double seconds_coalesce = 0;  ///< summing gradients of equal ids, before update() returns
  double seconds_prior = 0;  ///< from update() until the prior rows were applied
  double seconds_update = 0;  ///< from update() until all rows were applied
};

/// One way to divide and exchange a table.
struct ExchangeInfo {
  std::string_view name;
  std::string_view description;
};

/// Describes where checkpoints go. All fields but `name` must be equal on all ranks.
struct CheckpointConfig {
  std::string folder = "";  ///< where files go: one that all ranks see. Made if its parent is there
  /// of what training run they are, in its own words. A folder with files of another run is refused; empty: of any
  std::string run = "";
  std::int64_t keep = 2;  ///< so many of the newest files stay
  /// of large arrays: 0: none; 1 to 9: deflate, faster or smaller, of bytes shuffled by their place in an element
  std::int64_t compression = 0;
  /// restore() throws where the newest file is damaged; else it warns, and takes the newest one that is whole
  bool strict = false;
  std::string name = "checkpoint";  ///< for messages and dumps
};

/// What the last save and the last restore of this rank did; times in seconds.
struct CheckpointStatistics {
  std::int64_t step = 0;            ///< saved or restored last; -1: none yet
  std::int64_t ranks = 0;           ///< that had saved what was restored last
  std::int64_t snapshot_bytes = 0;  ///< memory of the snapshot on this rank, kept from one save to the next
  std::int64_t bytes_written = 0;   ///< to the file by this rank
  std::int64_t bytes_read = 0;      ///< from the file by this rank
  double seconds_snapshot = 0;      ///< until save() returned
  double seconds_save = 0;          ///< from save() until the file was in its place
  double seconds_restore = 0;
};

/// One tensor of a model. Equal on all ranks.
struct FusedTensor {
  std::string name = "";   ///< for messages and checkpoints; no two tensors have the same
  std::int64_t count = 0;  ///< elements of its gradient; at most 2^32 - 1, with `dense` 2^48
  double density = 0.0;    ///< k / count in (0, 1]; 0: that of the FusionConfig
  std::int64_t k = -1;     ///< entries that each rank selects, 0 <= k <= count; -1: from the density, at least 1 when count > 0
  bool dense = false;      ///< travels whole: biases, norms. It rides along with the tensors of its buffer
  /// may be left out of an iteration by some ranks or all: it contributes nothing there, and its residual stays
  bool optional = false;
};

/// Describes how the gradients of a model are fused and reduced. All fields but `name` and `priority` must be equal on all ranks.
struct FusionConfig {
  FusionScheme scheme = FusionScheme::ahead_tapered;  ///< which tensors travel together, and what is sparsified
  /// size of a buffer, as bytes of gradients: with `behind` a buffer takes so many; with `ahead`, `ahead_inter` and `ahead_tapered`
  /// as many entries as the density selects of so many. `ahead_inter_intra` and `ahead_fitted` begin with it, and the former takes
  /// no larger ones; the others ignore it
  std::int64_t buffer_bytes = 26214400;
  DataType type = DataType::float32;  ///< of the gradients' elements: float32 or float64, in host memory
  double density = 0.01;              ///< k / count in (0, 1] of tensors that say nothing else
  /// a sparse one from the list of algorithms: it exchanges the entries of a buffer. Those that shard within nodes run flat. gtopk,
  /// oktopk and hi_oktopk deliver the largest entries of a buffer, so that tensors may go missing again; the others deliver all
  /// that ranks have selected. "auto", "auto_sparse": topk_allgather or topk_dsa, whichever is predicted to be cheaper
  std::string algorithm = "auto";
  std::string algorithm_parameters = "";          ///< parameters of the algorithm, as in AllreduceConfig
  std::string threshold = "exact";                ///< how entries are selected, as in AllreduceConfig
  std::string threshold_parameters = "";          ///< parameters of the threshold, as in AllreduceConfig
  Feedback error_feedback = Feedback::automatic;  ///< residual or none; automatic is residual
  bool average = true;                            ///< divide the delivered sum by the number of ranks
  WireFormat wire_format = WireFormat::compact;   ///< how indices travel
  /// how values travel; bfloat16 and float16 need float32. Dense tensors travel as they are
  WireValues wire_values = WireValues::native;
  NonFinite non_finite = NonFinite::error;  ///< what NaN and infinity do to the buffer of their tensor; other buffers are delivered
  /// of the buffer with the last tensor of the forward pass; the earlier a buffer is needed, the higher its own. May differ between
  /// ranks
  int priority = 0;
  std::string name = "fused";  ///< for messages and dumps
};

/// What one iteration of a FusedAllreduce did on this rank, up to wait_all(); times in seconds.
struct FusionStatistics {
  std::int64_t iteration = 0;        ///< iterations so far, this one included
  std::int64_t exchanges = 0;        ///< buffers that were exchanged: communication startups
  std::int64_t tensors_skipped = 0;  ///< optional tensors that this rank skipped or left out
  /// tensors with k above 0 of which no entry was delivered, those that all skipped, too; the same on all ranks
  std::int64_t tensors_missing = 0;
  std::int64_t buffers_skipped = 0;     ///< NonFinite::skip took effect on so many
  std::int64_t selected_local = 0;      ///< entries this rank contributed, dense tensors aside
  std::int64_t selected_global = 0;     ///< entries of the updates, dense tensors aside; of `ahead`, by buffer
  std::int64_t payload_bytes_sent = 0;  ///< values, indices
  std::int64_t payload_bytes_received = 0;
  std::int64_t control_bytes_sent = 0;  ///< sizes, histograms, boundaries, agreement
  std::int64_t control_bytes_received = 0;
  std::array<std::int64_t, level_count> bytes_sent{};  ///< by Level of the peer, payload and control
  std::array<std::int64_t, level_count> bytes_received{};  ///< by Level of the peer
  std::array<std::int64_t, level_count> messages_sent{};  ///< by Level of the peer
  std::array<std::int64_t, level_count> messages_received{};  ///< by Level of the peer
  double seconds_select = 0;  ///< compensation and selection, in ready()
  double seconds_exchange = 0;  ///< while at least one exchange was in flight
  double seconds_backward = 0;  ///< from the first ready() to the end of the last
  double seconds_waited = 0;  ///< that the caller spent in wait(), test() and wait_all(): communication that nothing overlapped
  double seconds_total = 0;  ///< from the first ready() to the end of the last exchange
  std::int64_t regroupings = 0;  ///< times that buffers were divided anew, so far (ahead_inter_intra, ahead_fitted)
  bool settled = false;  ///< they will not be again
};

/// One part of a work that every rank would otherwise do whole. Equal on all ranks.
struct OperatorPart {
  double seconds = 0.0;           ///< that one rank takes for it, as far as one knows: work is divided by these, at least 0
  std::int64_t result_bytes = 0;  ///< of its result; with `variable`, at most
};

/// Describes work that is divided among ranks. All fields but `name` and `priority` must be equal on all ranks.
struct OperatorConfig {
  OperatorDivision division = OperatorDivision::automatic;  ///< which ranks share the parts
  bool variable = false;  ///< results may be shorter than described, anew in each run: their sizes are gathered first
  int priority = 0;  ///< of gathering: higher makes progress first. May differ between ranks
  std::string name = "operator";  ///< for messages and dumps
};

/// What the last run of a parallel operator did on this rank; times in seconds.
struct OperatorStatistics {
  std::int64_t runs = 0;                                      ///< so far, those included that ended in an error
  double seconds_work = 0;                                    ///< in the body
  double seconds_gather = 0;                                  ///< agreeing and gathering, waiting for slower ranks included
  std::array<std::int64_t, level_count> bytes_sent{};         ///< by Level of the peer
  std::array<std::int64_t, level_count> bytes_received{};     ///< by Level of the peer
  std::array<std::int64_t, level_count> messages_sent{};      ///< by Level of the peer
  std::array<std::int64_t, level_count> messages_received{};  ///< by Level of the peer
};

/// Weights with a learning rate of their own. Equal on all ranks.
struct OptimizedLayer {
  std::string name = "";   ///< for messages and checkpoints, without '/' and control characters; no two layers have the same
  std::int64_t count = 0;  ///< elements
  bool excluded = false;   ///< biases, norms: no weight decay, and the learning rate as it is
};

/// Describes how the layers of a model step. All fields but `name` and `priority` must be equal on all ranks.
struct OptimizerConfig {
  OptimizerRule rule = OptimizerRule::lars;  ///< how layers step
  double momentum = 0.9;  ///< of lars, from 0 to below 1
  double weight_decay = 0.0001;  ///< at least 0
  double trust_coefficient = 0.001;  ///< gamma of lars (CommLib equation 11), above 0
  double largest_rate = 0.0;  ///< no layer's step is more than so many times the learning rate; 0: no limit
  double beta1 = 0.9;  ///< of lamb, from 0 to below 1
  double beta2 = 0.999;  ///< of lamb, from 0 to below 1
  double epsilon = 1e-06;  ///< of lamb, above 0
  OperatorDivision norms = OperatorDivision::automatic;  ///< which ranks share the norms; with lamb, as `update`
  /// which ranks share the update, and momentum: each keeps that of its part, and weights are gathered (ZeRO stage 1)
  OperatorDivision update = OperatorDivision::automatic;
  /// of weights and gradients: float32, float16 or bfloat16. Momentum and moments are float32; beside 16-bit weights, so are
  /// weights of the optimizer's own
  DataType type = DataType::float32;
  /// cuda: weights, gradients, momentum and moments are on the GPU that is current when the optimizer is made
  MemorySpace memory = MemorySpace::host;
  int priority = 0;                ///< of gathering. May differ between ranks
  std::string name = "optimizer";  ///< for messages and checkpoints
};

/// What the last step of a LayerOptimizer did on this rank; times in seconds.
struct OptimizerStatistics {
  std::int64_t steps = 0;     ///< so far
  double seconds_norms = 0;   ///< for norms, those of other ranks not counted
  double seconds_update = 0;  ///< stepping weights
  double seconds_gather = 0;  ///< agreeing and gathering, waiting for slower ranks included
};

/// Describes Adam for sparse updates. Equal on all ranks, if their weights are to stay equal.
struct SparseAdamConfig {
  std::int64_t count = 0;  ///< weights
  double beta1 = 0.9;      ///< from 0 to below 1
  double beta2 = 0.999;    ///< from 0 to below 1
  double epsilon = 1e-08;  ///< above 0
  /// weights also move while no update touches them, as in dense Adam; a step then takes time in proportion to `count`
  bool exact = false;
  std::string name = "sparse_adam";  ///< for messages and checkpoints
};

/// Describes where samples are kept. All fields but `folder`, `folder_bytes`, `threads` and `priority` must be equal on all ranks.
struct SampleCacheConfig {
  /// level 1: a folder in the node's own storage, which runs and data sets share. Made if its parent is there. Empty: none
  std::string folder = "";
  std::int64_t folder_bytes = 0;  ///< limit of the folder: what was used least recently goes first; 0: none
  /// limit of level 2 on each node; 0: nothing stays in memory; -1: half of what the smallest node has available, or what the
  /// samples take
  std::int64_t memory_bytes = -1;
  std::int64_t largest_batch = 256;             ///< samples that a rank asks for at once
  int in_flight = 2;                            ///< batches asked for at once
  int pack_samples = 64;                        ///< samples that are read from the store together, and are a file of level 1
  int threads = 1;                              ///< of this rank, which read and decode
  SampleErrors on_error = SampleErrors::error;  ///< what happens to a sample that cannot be read or decoded
  int retries = 3;                              ///< with `retry`: after 0.1 s, 0.2 s, 0.4 s, ..., at most 10 s each
  int priority = -1;                            ///< of messages: below the 0 of plans. May differ between ranks
  /// of the data set: its folder within level 1, 1 to 64 letters, digits, '_', '-' and '.', the first no '.'
  std::string name = "samples";
};

/// What a sample cache has done on this rank so far; times in seconds, of all threads together.
struct SampleCacheStatistics {
  std::int64_t batches = 0;  ///< that have ended
  std::int64_t asked = 0;  ///< samples that this rank has asked for; those that neither of the following counts it has read itself
  std::int64_t from_node = 0;  ///< of these: read from memory of this node
  std::int64_t from_ranks = 0;  ///< of these: received from their owners
  std::int64_t served = 0;  ///< samples that this rank has sent to others
  std::int64_t kept = 0;  ///< samples of this rank's part that are in memory now
  std::int64_t decoded = 0;  ///< samples, each time
  std::int64_t from_folder = 0;  ///< samples that level 1 had
  std::int64_t from_store = 0;  ///< samples that were read from the store
  std::int64_t folder_bytes_read = 0;  ///< from level 1
  std::int64_t store_bytes_read = 0;  ///< from the store
  std::int64_t damaged = 0;  ///< samples of level 1 whose checksum was wrong: read from the store anew
  std::int64_t retried = 0;  ///< times that a sample was tried again
  std::int64_t skipped = 0;  ///< samples that this rank has asked for and not got
  double seconds_store = 0;  ///< reading from the store
  double seconds_folder = 0;  ///< reading and writing level 1
  double seconds_decode = 0;  ///< decoding
  double seconds_waited = 0;  ///< by the caller, in get(), next() and the operations
  std::array<std::int64_t, level_count> bytes_sent{};  ///< by Level of the peer
  std::array<std::int64_t, level_count> bytes_received{};  ///< by Level of the peer
};

/// Describes the epochs of a data set. All fields but `progress` must be equal on all ranks.
struct SampleLoaderConfig {
  std::int64_t batch = 32;  ///< samples of a rank in a step, at most the cache's `largest_batch`
  std::int64_t seed = 0;  ///< of all permutations
  double exchanged_share = 0.1;  ///< with `node`: of a node's samples, those that go to any node, from 0 to 1
  Shuffle shuffle = Shuffle::global;  ///< the order of samples
  ProgressDisplay progress = ProgressDisplay::automatic;  ///< whether the first epoch's progress is shown
};

}  // namespace weir

#endif
