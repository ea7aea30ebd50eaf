! weir_types.f90: the constants, configurations and results of Fortran. Used through module weir.
! Made by capi/interface/generate.py from interface.toml and status.h: change those.
module weir_types
  use, intrinsic :: iso_fortran_env, only: int64, real64
  implicit none
  public
  private :: int64, real64

  !> Statuses: what calls return in ierr.
  integer, parameter :: WEIR_OK = 0 !< success
  integer, parameter :: WEIR_ERR_ARGUMENT = 1 !< an argument is wrong
  integer, parameter :: WEIR_ERR_MISMATCH = 2 !< ranks disagree about a plan
  integer, parameter :: WEIR_ERR_BUSY = 3 !< the object is in use
  integer, parameter :: WEIR_ERR_STATE = 4 !< the call does not fit the state of the object
  integer, parameter :: WEIR_ERR_NON_FINITE = 5 !< the gradient holds NaN or infinity
  integer, parameter :: WEIR_ERR_TIMEOUT = 6 !< a peer did not answer in time
  integer, parameter :: WEIR_ERR_TRANSPORT = 7 !< the transport failed
  integer, parameter :: WEIR_ERR_MEMORY = 8 !< out of memory
  integer, parameter :: WEIR_ERR_SETTING = 9 !< a WEIR_* setting has a value that makes no sense
  integer, parameter :: WEIR_ERR_UNSUPPORTED = 10 !< this build of Weir lacks the feature
  integer, parameter :: WEIR_ERR_INTERNAL = 11 !< an internal assumption of Weir failed
  integer, parameter :: WEIR_ERR_DEVICE = 12 !< the GPU or its driver failed
  integer, parameter :: WEIR_ERR_FILE = 13 !< a file cannot be written or read, or is damaged

  !> Element type of gradients. Of plans, the 16-bit types are for CUDA memory only; residuals, sums and updates are float32 with
  !> them.

  integer, parameter :: WEIR_FLOAT32 = 0
  integer, parameter :: WEIR_FLOAT64 = 1
  integer, parameter :: WEIR_FLOAT16 = 2
  integer, parameter :: WEIR_BFLOAT16 = 3

  !> Where gradient, residual and update are.

  integer, parameter :: WEIR_MEMORY_HOST = 0
  integer, parameter :: WEIR_MEMORY_CUDA = 1

  !> How indices of sparse vectors travel.

  integer, parameter :: WEIR_WIRE_FORMAT_COMPACT = 0 !< the smallest of COO, Elias-Fano, bitmap and dense, per message
  integer, parameter :: WEIR_WIRE_FORMAT_COO = 1 !< 32-bit index and value, always

  !> How values of sparse vectors travel. Sums are taken in the plan's type; what rounding loses stays in the residual.

  integer, parameter :: WEIR_WIRE_VALUES_NATIVE = 0
  integer, parameter :: WEIR_WIRE_VALUES_BFLOAT16 = 1 !< needs float32
  integer, parameter :: WEIR_WIRE_VALUES_FLOAT16 = 2 !< needs float32

  !> Error feedback: what a rank remembers of what it did not deliver (GRACE section IV calls it memory).

  integer, parameter :: WEIR_FEEDBACK_NONE = 0 !< nothing: what is not delivered is lost
  !> a residual r: m = decay r + gain g is compressed, and the new r is the part of m that was not delivered (Ok-Topk Algorithm 2,
  !> GRACE's default)
  integer, parameter :: WEIR_FEEDBACK_RESIDUAL = 1
  !> EF21 (Richtarik, Sokolov, Fatkhullin 2021): what is compressed is the gradient minus the sum of what this rank delivered
  !> before; the update is the sum of all that was delivered. Updates are dense: `run` and `start` only
  integer, parameter :: WEIR_FEEDBACK_EF21 = 2
  !> residual; none where the compressor's paper has none (`weir info --compressors` says which), and where the compressor must have
  !> none
  integer, parameter :: WEIR_FEEDBACK_AUTOMATIC = 3

  !> What happens to an iteration in which any rank's gradient holds NaN or infinity.

  !> WEIR_ERR_NON_FINITE on every rank; gradient untouched, residual as before up to rounding
  integer, parameter :: WEIR_NON_FINITE_ERROR = 0
  !> the iteration contributes nothing anywhere: the update is zero, the residual as before up to rounding
  integer, parameter :: WEIR_NON_FINITE_SKIP = 1
  !> NaN travels. Where entries are chosen by magnitude, it counts as the largest. Packed and linear compressors may spread it: qsgd
  !> to its whole bucket, power_sgd to the whole update; or hide it: sign_sgd and signum take its sign
  integer, parameter :: WEIR_NON_FINITE_PROPAGATE = 2

  !> How near two ranks are: the innermost part of the machine that they share. Traffic is counted by these levels.

  integer, parameter :: WEIR_LEVEL_SELF = 0 !< the rank itself
  integer, parameter :: WEIR_LEVEL_L3 = 1 !< one L3 cache
  integer, parameter :: WEIR_LEVEL_NUMA = 2 !< one NUMA node
  integer, parameter :: WEIR_LEVEL_SOCKET = 3 !< one socket
  integer, parameter :: WEIR_LEVEL_NODE = 4 !< one node
  integer, parameter :: WEIR_LEVEL_SWITCH_GROUP = 5 !< one switch
  integer, parameter :: WEIR_LEVEL_SYSTEM = 6 !< nothing nearer

  !> Which rows of the batch's gradient change what, with one learning rate l and gradient g of a row. Rows that no rank has looked
  !> up keep their values and their state.

  integer, parameter :: WEIR_OPTIMIZER_SGD = 0 !< w -= l g
  integer, parameter :: WEIR_OPTIMIZER_MOMENTUM = 1 !< v = beta1 v + g;  w -= l v
  integer, parameter :: WEIR_OPTIMIZER_ADAGRAD = 2 !< s += g^2;  w -= l g / (sqrt(s) + epsilon)
  !> m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;  w -= l m' / (sqrt(v') + epsilon), where m' and v' are divided by
  !> 1 - beta1^t and 1 - beta2^t; t grows once per update, with its delayed rows (EmbRace section 5.7)
  integer, parameter :: WEIR_OPTIMIZER_ADAM = 3

  !> How messages to the ranks of another node travel.

  integer, parameter :: WEIR_ROUTING_AUTOMATIC = 0 !< as the cost function says
  integer, parameter :: WEIR_ROUTING_DIRECT = 1 !< each by itself
  !> those from one node to another as one: gathered in the node, sent across, scattered
  integer, parameter :: WEIR_ROUTING_BY_NODE = 2

  !> Which tensors travel together, and what is sparsified: each tensor by itself ("ahead"), or what travels together as one
  !> ("behind").

  integer, parameter :: WEIR_FUSION_NONE = 0 !< every tensor travels alone: wait-free back-propagation
  !> buffers of a fixed size are fused first and then sparsified, as a compressing hook of PyTorch's DDP does. Small gradients may
  !> go missing beside large ones
  integer, parameter :: WEIR_FUSION_BEHIND = 1
  !> SAFusion: each tensor is sparsified by itself; a rank fills buffers of a fixed size with the entries as they come. Buffers of
  !> different ranks may hold different tensors, so that tensors have arrived only when all buffers have
  integer, parameter :: WEIR_FUSION_AHEAD = 2
  !> SAFusion-Inter: as `ahead`, and a buffer holds the same tensors on all ranks, whatever their sizes
  integer, parameter :: WEIR_FUSION_AHEAD_INTER = 3
  !> SAFusion-(Inter+Intra): as `ahead_inter`, and the number of tensors in a buffer adapts to measured times until its exchange
  !> takes as long as the next buffer takes to fill
  integer, parameter :: WEIR_FUSION_AHEAD_INTER_INTRA = 4
  !> as `ahead_inter`, with buffers merged by the cost functions before the first iteration: two neighbours become one where that
  !> saves more startup than it makes the first wait (OMGS-SGD, Shi et al. 2020)
  integer, parameter :: WEIR_FUSION_OMGS = 5
  !> as `ahead_inter`, with the division that the cost functions find cheapest of all before the first iteration (Cupcake, Wang et
  !> al. 2023)
  integer, parameter :: WEIR_FUSION_CUPCAKE = 6
  !> as `ahead_inter_intra`, with the division whose last exchange ends first, by measured times
  integer, parameter :: WEIR_FUSION_AHEAD_FITTED = 7
  !> as `ahead_inter`, and the first and last buffers are small: a sixteenth of the size, then a quarter. The first exchange begins
  !> early, and little is left to exchange when the last gradient has come
  integer, parameter :: WEIR_FUSION_AHEAD_TAPERED = 8

  !> Which ranks share the parts of a parallel operator.

  integer, parameter :: WEIR_OPERATOR_AUTOMATIC = 0 !< whichever of the following the cost functions predict to end first
  integer, parameter :: WEIR_OPERATOR_REPLICATED = 1 !< none: every rank does all of them
  !> the ranks of each node: every node does all of them, and nothing crosses the network
  integer, parameter :: WEIR_OPERATOR_NODE = 2
  integer, parameter :: WEIR_OPERATOR_ALL = 3 !< all ranks

  !> How a LayerOptimizer steps.

  !> layer-wise adaptive rate scaling, on momentum SGD (You et al. 2018; CommLib equation 11)
  integer, parameter :: WEIR_OPTIMIZER_LARS = 0
  integer, parameter :: WEIR_OPTIMIZER_LAMB = 1 !< layer-wise adaptive moments, on Adam (You et al. 2020, Algorithm 2)

  !> What happens to a sample that cannot be read or decoded.

  integer, parameter :: WEIR_SAMPLES_ERROR = 0 !< the batch ends in an error on all ranks, which names the sample
  !> its size is -1 and its value all zeros; it is counted, and tried anew when it is next asked for
  integer, parameter :: WEIR_SAMPLES_SKIP = 1
  !> it is read and decoded anew, `retries` times, after longer and longer pauses; then as error
  integer, parameter :: WEIR_SAMPLES_RETRY = 2
  !> its place in the batch takes size and value of the next sample of the batch that could be had, behind the last the first;
  !> counted and tried anew as with skip. A batch without any is as with skip
  integer, parameter :: WEIR_SAMPLES_SUBSTITUTE = 3

  !> The order in which an epoch's samples come.

  integer, parameter :: WEIR_SHUFFLE_NONE = 0 !< that of the data set
  integer, parameter :: WEIR_SHUFFLE_GLOBAL = 1 !< any permutation, anew in each epoch
  !> each node permutes its own samples anew in each epoch, except `exchanged_share` of them, which go to any node
  integer, parameter :: WEIR_SHUFFLE_NODE = 2

  !> Whether rank 0 writes to standard error how far the first epoch has got.

  integer, parameter :: WEIR_PROGRESS_AUTOMATIC = 0 !< on a terminal
  integer, parameter :: WEIR_PROGRESS_OFF = 1
  integer, parameter :: WEIR_PROGRESS_ON = 2 !< always

  !> How much it takes to be logged: a message is when its level is at most the one that WEIR_LOG names.

  integer, parameter :: WEIR_LOG_LEVEL_ERROR = 0
  integer, parameter :: WEIR_LOG_LEVEL_WARN = 1
  integer, parameter :: WEIR_LOG_LEVEL_INFO = 2
  integer, parameter :: WEIR_LOG_LEVEL_DEBUG = 3

  !> Elements of an array that a checkpoint keeps for its caller.

  integer, parameter :: WEIR_ELEMENT_FLOAT32 = 0
  integer, parameter :: WEIR_ELEMENT_FLOAT64 = 1
  integer, parameter :: WEIR_ELEMENT_INT32 = 2
  integer, parameter :: WEIR_ELEMENT_INT64 = 3
  integer, parameter :: WEIR_ELEMENT_UINT8 = 4 !< bytes, of whatever else there is

  !> How an array that a checkpoint keeps for its caller lies on the ranks, and what happens to it at another number of ranks.

  integer, parameter :: WEIR_DISTRIBUTION_REPLICATED = 0 !< the same on all ranks: saved once, delivered to all
  !> ranks hold ranges of one long array, in any division: each gets the range that it asks for
  integer, parameter :: WEIR_DISTRIBUTION_BLOCK = 1
  !> each rank's own: rank r gets that of rank r; where no rank r has saved one, the array stays as it is
  integer, parameter :: WEIR_DISTRIBUTION_LOCAL = 2

  integer, parameter :: WEIR_LEVEL_COUNT = 7 !< values of WEIR_LEVEL_SELF, ...

  integer, parameter :: WEIR_TEXT_LENGTH = 64 !< of texts in configurations; longer ones are cut
  integer, parameter :: WEIR_LONG_TEXT_LENGTH = 4096 !< of folders and the like: no path is longer

  !> Describes one tensor and how it is reduced. All fields but `name` and `priority` must be equal on all ranks.
  type :: weir_allreduce_config
    integer(int64) :: count = 0_int64 !< n, elements of the gradient; at most 2^48, of sparse algorithms 2^32 - 1
    integer :: type = WEIR_FLOAT32 !< WEIR_FLOAT32, ...: of the gradient's elements
    !> WEIR_MEMORY_HOST, ...: cuda: gradient, residual and update are on the GPU that is current when the plan is made. Every sparse
    !> algorithm runs there; dense_nccl, dense_torus2d, dense_iterations and the sums in nodes of hitopk and hi_oktopk need NCCL
    !> (without it the latter run flat). Where messages go to MPI as GPU memory (`weir info` says so), that GPU must also be current
    !> where runs are started and waited for.
    integer :: memory = WEIR_MEMORY_HOST
    !> k / n in (0, 1]; k is rounded to nearest, at least 1 when n > 0. For sparse compressors and shared_random_k; others ignore it
    real(real64) :: density = 0.01_real64
    !> entries to deliver, 0 <= k <= n; -1: from `density`. For sparse compressors and shared_random_k; others ignore it
    integer(int64) :: k = -1_int64
    !> a name from the list of algorithms; "auto": the cheapest on this machine by the cost functions, which may be dense;
    !> "auto_sparse": the cheapest sparse one
    character(len=WEIR_TEXT_LENGTH) :: algorithm = 'oktopk'
    !> parameters of the algorithm, by name: "window=8,schedule=direct". Those not named have their defaults; `weir info
    !> --algorithms` lists them. With `algorithm = auto`, each algorithm takes those that it has
    character(len=WEIR_LONG_TEXT_LENGTH) :: algorithm_parameters = ''
    !> with `algorithm = auto`: this many runs of each of up to three candidates, then the fastest by the clock stays; 0: the
    !> prediction decides; at most 10^6
    integer(int64) :: trial_iterations = 0_int64
    !> a name from the list of compressors: what travels. Empty: the algorithm's own: top_k for sparse, block_quantise for packed,
    !> none for dense ones. "none": nothing is compressed; dense algorithms only. Several, joined by |, need `algorithm = auto`,
    !> which takes the cheapest: "qsgd|top_k|none"
    character(len=WEIR_TEXT_LENGTH) :: compressor = ''
    !> of the compressor, by name: "levels=16,bucket=512". Those not named have their defaults. With several compressors, those of
    !> each, joined by | in the same order: "levels=16||"; there may be fewer than compressors
    character(len=WEIR_LONG_TEXT_LENGTH) :: compressor_parameters = ''
    integer :: seed = 1 !< for random compressors; not negative. Their numbers depend on seed, iteration, rank and element only
    !> WEIR_FEEDBACK_NONE, ...: what a rank remembers of what it did not deliver. Some compressors must have none, and refuse
    !> `residual` and `ef21`
    integer :: error_feedback = WEIR_FEEDBACK_AUTOMATIC
    !> beta of GRACE section IV: share of the residual that is kept, 0 to 1; must be 1 without a residual
    real(real64) :: feedback_decay = 1.0_real64
    !> gamma of GRACE section IV: gradients are multiplied by it; finite and not 0. Must be 1 with ef21, and where nothing is
    !> compressed
    real(real64) :: feedback_gain = 1.0_real64
    logical :: average = .true. !< divide the delivered sum by the number of ranks
    !> how a rank selects the entries that it contributes, with top_k and dgc; other compressors ignore it: "exact" or "reuse"; the
    !> thresholds of papers are "mstopk", "sampled", "gaussian", "sidco" and "redsync". `exact` and `mstopk` select k entries,
    !> `reuse` 0.8 k to 1.25 k, the others 0.75 k to 1.25 k. What a rank does not select stays in its residual. gaussiank has its
    !> own threshold
    character(len=WEIR_TEXT_LENGTH) :: threshold = 'exact'
    !> parameters of the threshold, by name: "period=8" of reuse, "samplings=20" of mstopk and redsync. Those not named have their
    !> defaults
    character(len=WEIR_LONG_TEXT_LENGTH) :: threshold_parameters = ''
    !> WEIR_WIRE_FORMAT_COMPACT, ...: how indices travel, with sparse compressors; others ignore it. With `algorithm = auto` and
    !> compact, Weir may also choose coo
    integer :: wire_format = WEIR_WIRE_FORMAT_COMPACT
    !> WEIR_WIRE_VALUES_NATIVE, ...: how values travel, with sparse compressors; others ignore it. bfloat16 and float16 do not take
    !> gradients of float64. With `algorithm = auto`, Weir may also choose native
    integer :: wire_values = WEIR_WIRE_VALUES_NATIVE
    !> threads of this rank that select, merge and apply, in host memory; may differ between ranks. The result does not depend on
    !> it. 0: WEIR_THREADS, else the cores that this rank has for itself
    integer :: threads = 0
    integer :: non_finite = WEIR_NON_FINITE_ERROR !< WEIR_NON_FINITE_ERROR, ...: what NaN and infinity do
    integer(int64) :: dense_iterations = 0_int64 !< the first iterations run dense (the Ok-Topk authors use 512); at most 2^48
    !> after those, density falls exponentially from 25 % to its target (DGC), with sparse compressors; at most 2^48
    integer(int64) :: warmup_iterations = 0_int64
    integer :: priority = 0 !< larger is more urgent; may differ between ranks
    character(len=WEIR_TEXT_LENGTH) :: name = 'allreduce' !< for messages and dumps
  end type

  !> What one run of a plan did on this rank; times in seconds.
  type :: weir_statistics
    integer(int64) :: iteration = 0 !< runs so far, this one included; density schedules count only those that delivered
    integer(int64) :: k = 0 !< target of this iteration; n with dense and packed algorithms
    integer(int64) :: selected_local = 0 !< entries this rank contributed; n with dense and packed algorithms
    integer(int64) :: selected_global = 0 !< entries of the update; n with dense and packed algorithms
    integer(int64) :: payload_bytes_sent = 0 !< values, indices, packed bytes, factors
    integer(int64) :: payload_bytes_received = 0
    integer(int64) :: control_bytes_sent = 0 !< sizes, histograms, boundaries
    integer(int64) :: control_bytes_received = 0
    !> by Level of the peer, payload and control. Only Weir's own messages count: not what goes through memory that the ranks of a
    !> node share, nor what MPI's or NCCL's own collectives send (dense_mpi, dense_nccl).
    integer(int64) :: bytes_sent(0:6) = 0
    integer(int64) :: bytes_received(0:6) = 0 !< by Level of the peer
    integer(int64) :: messages_sent(0:6) = 0 !< by Level of the peer
    integer(int64) :: messages_received(0:6) = 0 !< by Level of the peer
    real(real64) :: seconds_select = 0 !< compensation, local selection, and what a compressor takes to encode
    real(real64) :: seconds_in_node = 0 !< dense reduce-scatter and sparse allgather of algorithms that shard within nodes
    !> from the first message to the last. Includes reductions and what the caller computed meanwhile; not encoding and decoding
    real(real64) :: seconds_exchange = 0
    !> residual update, dense result, and what a compressor takes to decode; in CUDA memory: until they are on the stream
    real(real64) :: seconds_apply = 0
    real(real64) :: seconds_total = 0 !< from start to completion, without waiting for the caller to take the result
    real(real64) :: seconds_waited = 0 !< that the caller spent in wait, test or run until this run had finished
    logical :: skipped = .false. !< WEIR_NON_FINITE_SKIP took effect
  end type

  !> One row of the algorithm registry.
  type :: weir_algorithm_info
    character(len=:), allocatable :: name
    character(len=:), allocatable :: description
    logical :: sparse = .false. !< delivers k entries; a dense algorithm delivers all
    logical :: host_memory = .false. !< takes gradients in host memory
    logical :: cuda_memory = .false. !< takes gradients in CUDA memory
    logical :: packed = .false. !< carries bytes that compressors make of float32 gradients
    character(len=:), allocatable :: parameters !< with their defaults: "window=4"; empty: it has none
    character(len=:), allocatable :: counters !< what plans count: "rethresholded,recut"; empty: nothing
  end type

  !> One row of the compressor registry: what AllreduceConfig's `compressor` may name.
  type :: weir_compressor_info
    character(len=:), allocatable :: name
    character(len=:), allocatable :: description
    character(len=:), allocatable :: source !< the paper
    !> what carries it: "sparse": entries, by sparse algorithms; "packed": bytes, by packed ones; "linear": dense values, by dense
    !> ones
    character(len=:), allocatable :: carriage
    character(len=:), allocatable :: parameters !< all of them with their defaults: "levels=7,bucket=512"; empty: it has none
    logical :: random = .false. !< draws random numbers, which depend on `seed`
    !> keeps a residual with `error_feedback` automatic, unless its parameters rule that out (`unbiased=1`)
    logical :: feedback = .false.
  end type

  !> What an encoded gradient says of itself.
  type :: weir_encoded_info
    integer(int64) :: version = 0 !< of the format
    integer(int64) :: count = 0 !< elements of the gradient
    integer(int64) :: entries = 0 !< elements that it has values for; the others are 0. Packed messages have values for all: `count`
    integer(int64) :: bytes = 0 !< header and checksum included
    character(len=:), allocatable :: compressor
    character(len=:), allocatable :: parameters !< of the compressor, all of them: "levels=7,bucket=512"
  end type

  !> One WEIR_* environment variable, its value in force and where that came from.
  type :: weir_setting_info
    character(len=:), allocatable :: name
    character(len=:), allocatable :: value
    character(len=:), allocatable :: origin
    character(len=:), allocatable :: description
  end type

  !> Describes one table of `rows` x `width` float32 values. All fields but `name` and the priorities must be equal on all ranks.
  type :: weir_embedding_config
    integer(int64) :: rows = 0_int64 !< V, 1 to 2^32 - 1
    integer(int64) :: width = 0_int64 !< D, at least 1; needs not be divisible by the number of ranks
    integer(int64) :: largest_batch = 0_int64 !< the most ids that a rank looks up at once
    !> WEIR_MEMORY_HOST, ...: cuda: values, the optimizer's state, vectors and gradients are on the GPU that is current when the
    !> table is made. Not for dense_allreduce.
    integer :: memory = WEIR_MEMORY_HOST
    !> a name from the list of exchanges: how rows are divided among the ranks and how they travel
    character(len=WEIR_TEXT_LENGTH) :: exchange = 'columns'
    integer :: optimizer = WEIR_OPTIMIZER_SGD !< WEIR_OPTIMIZER_SGD, ...: how gradients change rows
    real(real64) :: learning_rate = 0.01_real64 !< finite as float32, which rows are
    real(real64) :: beta1 = 0.9_real64 !< of momentum and Adam
    real(real64) :: beta2 = 0.999_real64 !< of Adam
    real(real64) :: epsilon = 1e-08_real64 !< of Adagrad and Adam, which need it positive
    logical :: average = .true. !< gradients are divided by the number of ranks
    !> WEIR_WIRE_VALUES_NATIVE, ...: how vectors and gradients travel (dense_allreduce: float32); sums are float32
    integer :: wire_values = WEIR_WIRE_VALUES_NATIVE
    integer :: routing = WEIR_ROUTING_AUTOMATIC !< WEIR_ROUTING_AUTOMATIC, ...: how messages to the ranks of another node travel
    integer(int64) :: seed = 1_int64 !< of the initial values, which depend on nothing else but row, column and `initial_range`
    real(real64) :: initial_range = 0.05_real64 !< they are uniform in [-initial_range, initial_range); finite as float32
    integer :: priority = 1000000 !< of ids, vectors, and gradients of rows that the next batch needs
    integer :: delayed_priority = -1000000 !< of the other gradients
    character(len=WEIR_TEXT_LENGTH) :: name = 'embedding' !< for messages and dumps
  end type

  !> What the last lookup and the last update of this rank did; times in seconds, in CUDA memory until the work is on its stream.
  !> Rows of the update are known once update() has returned; which of them are prior, once the operation has got so far.
  type :: weir_embedding_statistics
    integer(int64) :: tokens = 0 !< ids of the batch
    integer(int64) :: distinct_rows = 0 !< of the batch: vectors received, and gradients sent
    integer(int64) :: prior_rows = 0 !< of the update: those that the next batch of any rank needs; all when it is not known
    integer(int64) :: updated_rows = 0 !< rows (or, partitioned by columns, parts of rows) that this rank's optimizer stepped
    logical :: prefetched = .false. !< the lookup's ids were known before
    logical :: by_node = .false. !< WEIR_ROUTING_BY_NODE is in force
    integer(int64) :: id_bytes_sent = 0 !< of the batch: ids, by lookup, or by the prefetch that it used
    integer(int64) :: lookup_bytes_sent = 0 !< vectors
    integer(int64) :: gradient_bytes_sent = 0 !< gradients of rows
    integer(int64) :: control_bytes_sent = 0 !< everything else of lookup, its prefetch and update
    integer(int64) :: bytes_sent(0:6) = 0 !< all of these by Level of the peer
    real(real64) :: seconds_lookup = 0 !< from start to completion
    real(real64) :: seconds_coalesce = 0 !< summing gradients of equal ids, before update() returns
    real(real64) :: seconds_prior = 0 !< from update() until the prior rows were applied
    real(real64) :: seconds_update = 0 !< from update() until all rows were applied
  end type

  !> One way to divide and exchange a table.
  type :: weir_exchange_info
    character(len=:), allocatable :: name
    character(len=:), allocatable :: description
  end type

  !> Describes where checkpoints go. All fields but `name` must be equal on all ranks.
  type :: weir_checkpoint_config
    character(len=WEIR_LONG_TEXT_LENGTH) :: folder = '' !< where files go: one that all ranks see. Made if its parent is there
    !> of what training run they are, in its own words. A folder with files of another run is refused; empty: of any
    character(len=WEIR_LONG_TEXT_LENGTH) :: run = ''
    integer(int64) :: keep = 2_int64 !< so many of the newest files stay
    !> of large arrays: 0: none; 1 to 9: deflate, faster or smaller, of bytes shuffled by their place in an element
    integer(int64) :: compression = 0_int64
    !> restore() throws where the newest file is damaged; else it warns, and takes the newest one that is whole
    logical :: strict = .false.
    character(len=WEIR_TEXT_LENGTH) :: name = 'checkpoint' !< for messages and dumps
  end type

  !> What the last save and the last restore of this rank did; times in seconds.
  type :: weir_checkpoint_statistics
    integer(int64) :: step = 0 !< saved or restored last; -1: none yet
    integer(int64) :: ranks = 0 !< that had saved what was restored last
    integer(int64) :: snapshot_bytes = 0 !< memory of the snapshot on this rank, kept from one save to the next
    integer(int64) :: bytes_written = 0 !< to the file by this rank
    integer(int64) :: bytes_read = 0 !< from the file by this rank
    real(real64) :: seconds_snapshot = 0 !< until save() returned
    real(real64) :: seconds_save = 0 !< from save() until the file was in its place
    real(real64) :: seconds_restore = 0
  end type

  !> One tensor of a model. Equal on all ranks.
  type :: weir_fused_tensor
    character(len=WEIR_LONG_TEXT_LENGTH) :: name = '' !< for messages and checkpoints; no two tensors have the same
    integer(int64) :: count = 0_int64 !< elements of its gradient; at most 2^32 - 1, with `dense` 2^48
    real(real64) :: density = 0.0_real64 !< k / count in (0, 1]; 0: that of the FusionConfig
    !> entries that each rank selects, 0 <= k <= count; -1: from the density, at least 1 when count > 0
    integer(int64) :: k = -1_int64
    logical :: dense = .false. !< travels whole: biases, norms. It rides along with the tensors of its buffer
    !> may be left out of an iteration by some ranks or all: it contributes nothing there, and its residual stays
    logical :: optional = .false.
  end type

  !> Describes how the gradients of a model are fused and reduced. All fields but `name` and `priority` must be equal on all ranks.
  type :: weir_fusion_config
    integer :: scheme = WEIR_FUSION_AHEAD_TAPERED !< WEIR_FUSION_NONE, ...: which tensors travel together, and what is sparsified
    !> size of a buffer, as bytes of gradients: with `behind` a buffer takes so many; with `ahead`, `ahead_inter` and
    !> `ahead_tapered` as many entries as the density selects of so many. `ahead_inter_intra` and `ahead_fitted` begin with it, and
    !> the former takes no larger ones; the others ignore it
    integer(int64) :: buffer_bytes = 26214400_int64
    integer :: type = WEIR_FLOAT32 !< WEIR_FLOAT32, ...: of the gradients' elements: float32 or float64, in host memory
    real(real64) :: density = 0.01_real64 !< k / count in (0, 1] of tensors that say nothing else
    !> a sparse one from the list of algorithms: it exchanges the entries of a buffer. Those that shard within nodes run flat.
    !> gtopk, oktopk and hi_oktopk deliver the largest entries of a buffer, so that tensors may go missing again; the others deliver
    !> all that ranks have selected. "auto", "auto_sparse": topk_allgather or topk_dsa, whichever is predicted to be cheaper
    character(len=WEIR_TEXT_LENGTH) :: algorithm = 'auto'
    character(len=WEIR_LONG_TEXT_LENGTH) :: algorithm_parameters = '' !< parameters of the algorithm, as in AllreduceConfig
    character(len=WEIR_TEXT_LENGTH) :: threshold = 'exact' !< how entries are selected, as in AllreduceConfig
    character(len=WEIR_LONG_TEXT_LENGTH) :: threshold_parameters = '' !< parameters of the threshold, as in AllreduceConfig
    integer :: error_feedback = WEIR_FEEDBACK_AUTOMATIC !< WEIR_FEEDBACK_NONE, ...: residual or none; automatic is residual
    logical :: average = .true. !< divide the delivered sum by the number of ranks
    integer :: wire_format = WEIR_WIRE_FORMAT_COMPACT !< WEIR_WIRE_FORMAT_COMPACT, ...: how indices travel
    !> WEIR_WIRE_VALUES_NATIVE, ...: how values travel; bfloat16 and float16 need float32. Dense tensors travel as they are
    integer :: wire_values = WEIR_WIRE_VALUES_NATIVE
    !> WEIR_NON_FINITE_ERROR, ...: what NaN and infinity do to the buffer of their tensor; other buffers are delivered
    integer :: non_finite = WEIR_NON_FINITE_ERROR
    !> of the buffer with the last tensor of the forward pass; the earlier a buffer is needed, the higher its own. May differ
    !> between ranks
    integer :: priority = 0
    character(len=WEIR_TEXT_LENGTH) :: name = 'fused' !< for messages and dumps
  end type

  !> What one iteration of a FusedAllreduce did on this rank, up to wait_all(); times in seconds.
  type :: weir_fusion_statistics
    integer(int64) :: iteration = 0 !< iterations so far, this one included
    integer(int64) :: exchanges = 0 !< buffers that were exchanged: communication startups
    integer(int64) :: tensors_skipped = 0 !< optional tensors that this rank skipped or left out
    !> tensors with k above 0 of which no entry was delivered, those that all skipped, too; the same on all ranks
    integer(int64) :: tensors_missing = 0
    integer(int64) :: buffers_skipped = 0 !< WEIR_NON_FINITE_SKIP took effect on so many
    integer(int64) :: selected_local = 0 !< entries this rank contributed, dense tensors aside
    integer(int64) :: selected_global = 0 !< entries of the updates, dense tensors aside; of `ahead`, by buffer
    integer(int64) :: payload_bytes_sent = 0 !< values, indices
    integer(int64) :: payload_bytes_received = 0
    integer(int64) :: control_bytes_sent = 0 !< sizes, histograms, boundaries, agreement
    integer(int64) :: control_bytes_received = 0
    integer(int64) :: bytes_sent(0:6) = 0 !< by Level of the peer, payload and control
    integer(int64) :: bytes_received(0:6) = 0 !< by Level of the peer
    integer(int64) :: messages_sent(0:6) = 0 !< by Level of the peer
    integer(int64) :: messages_received(0:6) = 0 !< by Level of the peer
    real(real64) :: seconds_select = 0 !< compensation and selection, in ready()
    real(real64) :: seconds_exchange = 0 !< while at least one exchange was in flight
    real(real64) :: seconds_backward = 0 !< from the first ready() to the end of the last
    !> that the caller spent in wait(), test() and wait_all(): communication that nothing overlapped
    real(real64) :: seconds_waited = 0
    real(real64) :: seconds_total = 0 !< from the first ready() to the end of the last exchange
    integer(int64) :: regroupings = 0 !< times that buffers were divided anew, so far (ahead_inter_intra, ahead_fitted)
    logical :: settled = .false. !< they will not be again
  end type

  !> One part of a work that every rank would otherwise do whole. Equal on all ranks.
  type :: weir_operator_part
    real(real64) :: seconds = 0.0_real64 !< that one rank takes for it, as far as one knows: work is divided by these, at least 0
    integer(int64) :: result_bytes = 0_int64 !< of its result; with `variable`, at most
  end type

  !> Describes work that is divided among ranks. All fields but `name` and `priority` must be equal on all ranks.
  type :: weir_operator_config
    integer :: division = WEIR_OPERATOR_AUTOMATIC !< WEIR_OPERATOR_AUTOMATIC, ...: which ranks share the parts
    logical :: variable = .false. !< results may be shorter than described, anew in each run: their sizes are gathered first
    integer :: priority = 0 !< of gathering: higher makes progress first. May differ between ranks
    character(len=WEIR_TEXT_LENGTH) :: name = 'operator' !< for messages and dumps
  end type

  !> What the last run of a parallel operator did on this rank; times in seconds.
  type :: weir_operator_statistics
    integer(int64) :: runs = 0 !< so far, those included that ended in an error
    real(real64) :: seconds_work = 0 !< in the body
    real(real64) :: seconds_gather = 0 !< agreeing and gathering, waiting for slower ranks included
    integer(int64) :: bytes_sent(0:6) = 0 !< by Level of the peer
    integer(int64) :: bytes_received(0:6) = 0 !< by Level of the peer
    integer(int64) :: messages_sent(0:6) = 0 !< by Level of the peer
    integer(int64) :: messages_received(0:6) = 0 !< by Level of the peer
  end type

  !> Weights with a learning rate of their own. Equal on all ranks.
  type :: weir_optimized_layer
    !> for messages and checkpoints, without '/' and control characters; no two layers have the same
    character(len=WEIR_LONG_TEXT_LENGTH) :: name = ''
    integer(int64) :: count = 0_int64 !< elements
    logical :: excluded = .false. !< biases, norms: no weight decay, and the learning rate as it is
  end type

  !> Describes how the layers of a model step. All fields but `name` and `priority` must be equal on all ranks.
  type :: weir_optimizer_config
    integer :: rule = WEIR_OPTIMIZER_LARS !< WEIR_OPTIMIZER_LARS, ...: how layers step
    real(real64) :: momentum = 0.9_real64 !< of lars, from 0 to below 1
    real(real64) :: weight_decay = 0.0001_real64 !< at least 0
    real(real64) :: trust_coefficient = 0.001_real64 !< gamma of lars (CommLib equation 11), above 0
    real(real64) :: largest_rate = 0.0_real64 !< no layer's step is more than so many times the learning rate; 0: no limit
    real(real64) :: beta1 = 0.9_real64 !< of lamb, from 0 to below 1
    real(real64) :: beta2 = 0.999_real64 !< of lamb, from 0 to below 1
    real(real64) :: epsilon = 1e-06_real64 !< of lamb, above 0
    integer :: norms = WEIR_OPERATOR_AUTOMATIC !< WEIR_OPERATOR_AUTOMATIC, ...: which ranks share the norms; with lamb, as `update`
    !> WEIR_OPERATOR_AUTOMATIC, ...: which ranks share the update, and momentum: each keeps that of its part, and weights are
    !> gathered (ZeRO stage 1)
    integer :: update = WEIR_OPERATOR_AUTOMATIC
    !> WEIR_FLOAT32, ...: of weights and gradients: float32, float16 or bfloat16. Momentum and moments are float32; beside 16-bit
    !> weights, so are weights of the optimizer's own
    integer :: type = WEIR_FLOAT32
    !> WEIR_MEMORY_HOST, ...: cuda: weights, gradients, momentum and moments are on the GPU that is current when the optimizer is
    !> made
    integer :: memory = WEIR_MEMORY_HOST
    integer :: priority = 0 !< of gathering. May differ between ranks
    character(len=WEIR_TEXT_LENGTH) :: name = 'optimizer' !< for messages and checkpoints
  end type

  !> What the last step of a LayerOptimizer did on this rank; times in seconds.
  type :: weir_optimizer_statistics
    integer(int64) :: steps = 0 !< so far
    real(real64) :: seconds_norms = 0 !< for norms, those of other ranks not counted
    real(real64) :: seconds_update = 0 !< stepping weights
    real(real64) :: seconds_gather = 0 !< agreeing and gathering, waiting for slower ranks included
  end type

  !> Describes Adam for sparse updates. Equal on all ranks, if their weights are to stay equal.
  type :: weir_sparse_adam_config
    integer(int64) :: count = 0_int64 !< weights
    real(real64) :: beta1 = 0.9_real64 !< from 0 to below 1
    real(real64) :: beta2 = 0.999_real64 !< from 0 to below 1
    real(real64) :: epsilon = 1e-08_real64 !< above 0
    !> weights also move while no update touches them, as in dense Adam; a step then takes time in proportion to `count`
    logical :: exact = .false.
    character(len=WEIR_TEXT_LENGTH) :: name = 'sparse_adam' !< for messages and checkpoints
  end type

  !> Describes where samples are kept. All fields but `folder`, `folder_bytes`, `threads` and `priority` must be equal on all ranks.
  type :: weir_sample_cache_config
    !> level 1: a folder in the node's own storage, which runs and data sets share. Made if its parent is there. Empty: none
    character(len=WEIR_LONG_TEXT_LENGTH) :: folder = ''
    integer(int64) :: folder_bytes = 0_int64 !< limit of the folder: what was used least recently goes first; 0: none
    !> limit of level 2 on each node; 0: nothing stays in memory; -1: half of what the smallest node has available, or what the
    !> samples take
    integer(int64) :: memory_bytes = -1_int64
    integer(int64) :: largest_batch = 256_int64 !< samples that a rank asks for at once
    integer :: in_flight = 2 !< batches asked for at once
    integer :: pack_samples = 64 !< samples that are read from the store together, and are a file of level 1
    integer :: threads = 1 !< of this rank, which read and decode
    integer :: on_error = WEIR_SAMPLES_ERROR !< WEIR_SAMPLES_ERROR, ...: what happens to a sample that cannot be read or decoded
    integer :: retries = 3 !< with `retry`: after 0.1 s, 0.2 s, 0.4 s, ..., at most 10 s each
    integer :: priority = -1 !< of messages: below the 0 of plans. May differ between ranks
    !> of the data set: its folder within level 1, 1 to 64 letters, digits, '_', '-' and '.', the first no '.'
    character(len=WEIR_TEXT_LENGTH) :: name = 'samples'
  end type

  !> What a sample cache has done on this rank so far; times in seconds, of all threads together.
  type :: weir_sample_cache_statistics
    integer(int64) :: batches = 0 !< that have ended
    !> samples that this rank has asked for; those that neither of the following counts it has read itself
    integer(int64) :: asked = 0
    integer(int64) :: from_node = 0 !< of these: read from memory of this node
    integer(int64) :: from_ranks = 0 !< of these: received from their owners
    integer(int64) :: served = 0 !< samples that this rank has sent to others
    integer(int64) :: kept = 0 !< samples of this rank's part that are in memory now
    integer(int64) :: decoded = 0 !< samples, each time
    integer(int64) :: from_folder = 0 !< samples that level 1 had
    integer(int64) :: from_store = 0 !< samples that were read from the store
    integer(int64) :: folder_bytes_read = 0 !< from level 1
    integer(int64) :: store_bytes_read = 0 !< from the store
    integer(int64) :: damaged = 0 !< samples of level 1 whose checksum was wrong: read from the store anew
    integer(int64) :: retried = 0 !< times that a sample was tried again
    integer(int64) :: skipped = 0 !< samples that this rank has asked for and not got
    real(real64) :: seconds_store = 0 !< reading from the store
    real(real64) :: seconds_folder = 0 !< reading and writing level 1
    real(real64) :: seconds_decode = 0 !< decoding
    real(real64) :: seconds_waited = 0 !< by the caller, in get(), next() and the operations
    integer(int64) :: bytes_sent(0:6) = 0 !< by Level of the peer
    integer(int64) :: bytes_received(0:6) = 0 !< by Level of the peer
  end type

  !> Describes the epochs of a data set. All fields but `progress` must be equal on all ranks.
  type :: weir_sample_loader_config
    integer(int64) :: batch = 32_int64 !< samples of a rank in a step, at most the cache's `largest_batch`
    integer(int64) :: seed = 0_int64 !< of all permutations
    real(real64) :: exchanged_share = 0.1_real64 !< with `node`: of a node's samples, those that go to any node, from 0 to 1
    integer :: shuffle = WEIR_SHUFFLE_GLOBAL !< WEIR_SHUFFLE_NONE, ...: the order of samples
    integer :: progress = WEIR_PROGRESS_AUTOMATIC !< WEIR_PROGRESS_AUTOMATIC, ...: whether the first epoch's progress is shown
  end type

end module
