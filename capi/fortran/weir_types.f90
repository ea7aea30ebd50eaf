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

  !> Element type of gradients. In plans, the 16-bit types are for CUDA memory only; residuals, sums and updates are then float32.

  integer, parameter :: WEIR_FLOAT32 = 0
  integer, parameter :: WEIR_FLOAT64 = 1
  integer, parameter :: WEIR_FLOAT16 = 2
  integer, parameter :: WEIR_BFLOAT16 = 3

  !> Memory that holds gradient, residual and update.

  integer, parameter :: WEIR_MEMORY_HOST = 0
  integer, parameter :: WEIR_MEMORY_CUDA = 1

  !> How messages encode the indices of sparse vectors.

  integer, parameter :: WEIR_WIRE_FORMAT_COMPACT = 0 !< the smallest of COO, Elias-Fano, bitmap and dense, chosen per message
  integer, parameter :: WEIR_WIRE_FORMAT_COO = 1 !< always a 32-bit index and a value

  !> How messages encode the values of sparse vectors. Sums are computed in the plan's type. The residual keeps what rounding loses.

  integer, parameter :: WEIR_WIRE_VALUES_NATIVE = 0 !< no rounding
  integer, parameter :: WEIR_WIRE_VALUES_BFLOAT16 = 1 !< needs float32
  integer, parameter :: WEIR_WIRE_VALUES_FLOAT16 = 2 !< needs float32

  !> Error feedback: what a rank keeps of what it did not deliver. GRACE section IV calls it memory.

  integer, parameter :: WEIR_FEEDBACK_NONE = 0 !< keeps nothing; what is not delivered is lost
  !> keeps a residual r. The rank compresses m = decay r + gain g; the new r is the part of m that was not delivered (Ok-Topk
  !> Algorithm 2, the default of GRACE)
  integer, parameter :: WEIR_FEEDBACK_RESIDUAL = 1
  !> EF21 (Richtarik, Sokolov, Fatkhullin 2021). The rank compresses the gradient minus the sum of all that it delivered before; the
  !> update is the sum of all that was delivered so far. Updates are dense, so only `run` and `start` work
  integer, parameter :: WEIR_FEEDBACK_EF21 = 2
  !> residual; none for compressors whose paper uses none (`weir info --compressors` lists them) and for compressors that must have
  !> none
  integer, parameter :: WEIR_FEEDBACK_AUTOMATIC = 3

  !> What happens in an iteration in which any rank's gradient holds NaN or infinity.

  !> ends the run with WEIR_ERR_NON_FINITE on every rank. The gradient stays untouched; the residual stays as before, up to rounding
  integer, parameter :: WEIR_NON_FINITE_ERROR = 0
  !> no rank contributes anything. The update is zero; the residual stays as before, up to rounding
  integer, parameter :: WEIR_NON_FINITE_SKIP = 1
  !> sends NaN like other values. If entries are chosen by magnitude, NaN counts as the largest. Packed and linear compressors may
  !> spread it (qsgd to its whole bucket, power_sgd to the whole update) or hide it (sign_sgd and signum take its sign)
  integer, parameter :: WEIR_NON_FINITE_PROPAGATE = 2

  !> How near two ranks are: the innermost part of the machine that they share. Traffic is counted by level.

  integer, parameter :: WEIR_LEVEL_SELF = 0 !< the rank itself
  integer, parameter :: WEIR_LEVEL_L3 = 1 !< the same L3 cache
  integer, parameter :: WEIR_LEVEL_NUMA = 2 !< the same NUMA node
  integer, parameter :: WEIR_LEVEL_SOCKET = 3 !< the same socket
  integer, parameter :: WEIR_LEVEL_NODE = 4 !< the same node
  integer, parameter :: WEIR_LEVEL_SWITCH_GROUP = 5 !< the same switch
  integer, parameter :: WEIR_LEVEL_SYSTEM = 6 !< no nearer part in common

  !> How the gradient of a batch changes the rows of a table. l is the learning rate and g the gradient of a row. Rows that no rank
  !> has looked up keep their values and their state.

  integer, parameter :: WEIR_OPTIMIZER_SGD = 0 !< w -= l g
  integer, parameter :: WEIR_OPTIMIZER_MOMENTUM = 1 !< v = beta1 v + g;  w -= l v
  integer, parameter :: WEIR_OPTIMIZER_ADAGRAD = 2 !< s += g^2;  w -= l g / (sqrt(s) + epsilon)
  !> m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;  w -= l m' / (sqrt(v') + epsilon), where m' = m / (1 - beta1^t)
  !> and v' = v / (1 - beta2^t). t counts updates; all rows of an update have the same t, including the delayed ones (EmbRace
  !> section 5.7)
  integer, parameter :: WEIR_OPTIMIZER_ADAM = 3

  !> How messages to the ranks of another node travel.

  integer, parameter :: WEIR_ROUTING_AUTOMATIC = 0 !< the cost function chooses
  integer, parameter :: WEIR_ROUTING_DIRECT = 1 !< each message travels by itself
  !> the messages from one node to another travel as one: gathered in the node, sent across, scattered
  integer, parameter :: WEIR_ROUTING_BY_NODE = 2

  !> Which tensors travel together and what is sparsified. The "ahead" schemes sparsify each tensor by itself; "behind" sparsifies
  !> what travels together as one.

  integer, parameter :: WEIR_FUSION_NONE = 0 !< sends each tensor alone (wait-free back-propagation)
  !> fuses gradients into buffers of a fixed size, then sparsifies each buffer, as a compressing hook of PyTorch's DDP does. Small
  !> gradients beside large ones may not be delivered
  integer, parameter :: WEIR_FUSION_BEHIND = 1
  !> SAFusion: sparsifies each tensor by itself. A rank fills buffers of a fixed size with entries in the order in which gradients
  !> come. Buffers of different ranks may hold different tensors, so a tensor has arrived only when all buffers have
  integer, parameter :: WEIR_FUSION_AHEAD = 2
  !> SAFusion-Inter: like `ahead`, but a buffer holds the same tensors on all ranks, whatever their sizes
  integer, parameter :: WEIR_FUSION_AHEAD_INTER = 3
  !> SAFusion-(Inter+Intra): like `ahead_inter`, but adapts the number of tensors in a buffer to measured times until its exchange
  !> takes as long as filling the next buffer
  integer, parameter :: WEIR_FUSION_AHEAD_INTER_INTRA = 4
  !> OMGS-SGD (Shi et al. 2020): like `ahead_inter`, but the cost functions merge buffers before the first iteration. Two neighbours
  !> become one if this saves more startup time than it makes the first one wait
  integer, parameter :: WEIR_FUSION_OMGS = 5
  !> Cupcake (Wang et al. 2023): like `ahead_inter`, but with the division that the cost functions find cheapest of all before the
  !> first iteration
  integer, parameter :: WEIR_FUSION_CUPCAKE = 6
  !> like `ahead_inter_intra`, but with the division whose last exchange ends first by measured times
  integer, parameter :: WEIR_FUSION_AHEAD_FITTED = 7
  !> like `ahead_inter`, but the first and last buffers are small: a sixteenth of the size, then a quarter. The first exchange
  !> begins early, and little is left to exchange after the last gradient
  integer, parameter :: WEIR_FUSION_AHEAD_TAPERED = 8

  !> Which ranks share the parts of a parallel operator.

  integer, parameter :: WEIR_OPERATOR_AUTOMATIC = 0 !< the one of the following that the cost functions predict to end first
  integer, parameter :: WEIR_OPERATOR_REPLICATED = 1 !< no division: every rank works on all parts
  !> the ranks of each node: every node works on all parts, and nothing crosses the network
  integer, parameter :: WEIR_OPERATOR_NODE = 2
  integer, parameter :: WEIR_OPERATOR_ALL = 3 !< all ranks

  !> Rule by which a LayerOptimizer steps.

  !> layer-wise adaptive rate scaling, on momentum SGD (You et al. 2018; CommLib equation 11)
  integer, parameter :: WEIR_OPTIMIZER_LARS = 0
  integer, parameter :: WEIR_OPTIMIZER_LAMB = 1 !< layer-wise adaptive moments, on Adam (You et al. 2020, Algorithm 2)

  !> What happens to a sample that cannot be read or decoded.

  integer, parameter :: WEIR_SAMPLES_ERROR = 0 !< ends the batch with an error on all ranks, which names the sample
  !> gives the sample size -1 and a value of zeros. The sample is counted, and tried again when it is next requested
  integer, parameter :: WEIR_SAMPLES_SKIP = 1
  !> reads and decodes the sample again, `retries` times, after longer and longer pauses; then ends as with error
  integer, parameter :: WEIR_SAMPLES_RETRY = 2
  !> puts the next good sample of the batch in its place, with value and size; the first sample follows the last. The bad sample is
  !> counted and tried again as with skip. A batch without a good sample ends as with skip
  integer, parameter :: WEIR_SAMPLES_SUBSTITUTE = 3

  !> Order of the samples in an epoch.

  integer, parameter :: WEIR_SHUFFLE_NONE = 0 !< the order of the data set
  integer, parameter :: WEIR_SHUFFLE_GLOBAL = 1 !< a new permutation of all samples in each epoch
  !> each node permutes its own samples anew in each epoch, except a share of them, `exchanged_share`, which go to any node
  integer, parameter :: WEIR_SHUFFLE_NODE = 2

  !> Whether rank 0 shows the progress of the first epoch on standard error.

  integer, parameter :: WEIR_PROGRESS_AUTOMATIC = 0 !< shows it on a terminal
  integer, parameter :: WEIR_PROGRESS_OFF = 1 !< never shows it
  integer, parameter :: WEIR_PROGRESS_ON = 2 !< always shows it

  !> Severity of a log message. Weir logs a message if its level is at most the one that WEIR_LOG names.

  integer, parameter :: WEIR_LOG_LEVEL_ERROR = 0
  integer, parameter :: WEIR_LOG_LEVEL_WARN = 1
  integer, parameter :: WEIR_LOG_LEVEL_INFO = 2
  integer, parameter :: WEIR_LOG_LEVEL_DEBUG = 3

  !> Element type of a caller's array in a checkpoint.

  integer, parameter :: WEIR_ELEMENT_FLOAT32 = 0
  integer, parameter :: WEIR_ELEMENT_FLOAT64 = 1
  integer, parameter :: WEIR_ELEMENT_INT32 = 2
  integer, parameter :: WEIR_ELEMENT_INT64 = 3
  integer, parameter :: WEIR_ELEMENT_UINT8 = 4 !< bytes of any other data

  !> How the ranks hold a caller's array in a checkpoint, and how it is restored to another number of ranks.

  integer, parameter :: WEIR_DISTRIBUTION_REPLICATED = 0 !< the same on all ranks; saved once and delivered to all
  !> each rank holds a range of one long array, in any division; each gets the range that it asks for
  integer, parameter :: WEIR_DISTRIBUTION_BLOCK = 1
  !> each rank has its own; rank r gets the array of rank r. If no rank r saved one, the array stays as it is
  integer, parameter :: WEIR_DISTRIBUTION_LOCAL = 2

  integer, parameter :: WEIR_LEVEL_COUNT = 7 !< values of WEIR_LEVEL_SELF, ...

  integer, parameter :: WEIR_TEXT_LENGTH = 64 !< of texts in configurations; longer ones are cut
  integer, parameter :: WEIR_LONG_TEXT_LENGTH = 4096 !< of folders and the like: no path is longer

  !> Describes one tensor and how it is reduced. All fields except `name`, `priority` and `threads` must be equal on all ranks.
  type :: weir_allreduce_config
    integer(int64) :: count = 0_int64 !< number n of elements of the gradient; at most 2^48, for sparse algorithms at most 2^32 - 1
    integer :: type = WEIR_FLOAT32 !< WEIR_FLOAT32, ...: type of the gradient's elements
    !> WEIR_MEMORY_HOST, ...: memory that holds gradient, residual and update. With cuda, they are on the GPU that is current when
    !> the plan is made. Every sparse algorithm runs there. dense_nccl, dense_torus2d, `dense_iterations` and the sums in nodes of
    !> hitopk and hi_oktopk need NCCL; without it, hitopk and hi_oktopk run flat. If messages go to MPI as GPU memory (`weir info`
    !> says so), that GPU must also be current where runs are started and waited for
    integer :: memory = WEIR_MEMORY_HOST
    !> share k / n of the entries to deliver, in (0, 1]. k is rounded to nearest, and is at least 1 if n > 0. Sparse compressors and
    !> shared_random_k use it; others ignore it
    real(real64) :: density = 0.01_real64
    !> number of entries to deliver, 0 <= k <= n; -1: from `density`. Sparse compressors and shared_random_k use it; others ignore
    !> it
    integer(int64) :: k = -1_int64
    !> name of an algorithm. "auto": the one that the cost functions find cheapest on this machine, which may be dense;
    !> "auto_sparse": the cheapest sparse one
    character(len=WEIR_TEXT_LENGTH) :: algorithm = 'oktopk'
    !> parameters of the algorithm, by name: "window=8,schedule=direct". Parameters that are not named keep their defaults; `weir
    !> info --algorithms` lists them. With `algorithm = auto`, each algorithm takes those that it has
    character(len=WEIR_LONG_TEXT_LENGTH) :: algorithm_parameters = ''
    !> number of trial runs of each of up to three candidates, at most 10^6, with `algorithm = auto`. The plan then keeps the one
    !> that was fastest by the clock. 0: the prediction decides
    integer(int64) :: trial_iterations = 0_int64
    !> name of a compressor. Empty: the algorithm's own: top_k for sparse, block_quantise for packed, none for dense algorithms.
    !> "none": no compression, for dense algorithms only. Several names, joined by |, need `algorithm = auto`, which takes the
    !> cheapest: "qsgd|top_k|none"
    character(len=WEIR_TEXT_LENGTH) :: compressor = ''
    !> parameters of the compressor, by name: "levels=16,bucket=512". Parameters that are not named keep their defaults. With
    !> several compressors, the parameters of each are joined by | in the same order: "levels=16||"; the last ones may be left out
    character(len=WEIR_LONG_TEXT_LENGTH) :: compressor_parameters = ''
    integer :: seed = 1 !< seed of random compressors, not negative. Their numbers depend only on seed, iteration, rank and element
    !> WEIR_FEEDBACK_NONE, ...: what a rank keeps of what it did not deliver. Some compressors work only without error feedback, and
    !> refuse `residual` and `ef21`
    integer :: error_feedback = WEIR_FEEDBACK_AUTOMATIC
    !> beta of GRACE section IV: share of the residual that is kept, 0 to 1. Must be 1 without a residual
    real(real64) :: feedback_decay = 1.0_real64
    !> gamma of GRACE section IV: factor of the gradients, finite and not 0. Must be 1 with ef21 and without compression
    real(real64) :: feedback_gain = 1.0_real64
    logical :: average = .true. !< divides the delivered sum by the number of ranks
    !> how a rank selects the entries that it contributes, with top_k and dgc; other compressors ignore it. "exact" or "reuse", or
    !> one of the thresholds of papers: "mstopk", "sampled", "gaussian", "sidco" or "redsync". `exact` and `mstopk` select k
    !> entries, `reuse` selects 0.8 k to 1.25 k, the others select 0.75 k to 1.25 k. The residual keeps what a rank does not select.
    !> gaussiank has its own threshold
    character(len=WEIR_TEXT_LENGTH) :: threshold = 'exact'
    !> parameters of the threshold, by name: "period=8" for reuse, "samplings=20" for mstopk and redsync. Parameters that are not
    !> named keep their defaults
    character(len=WEIR_LONG_TEXT_LENGTH) :: threshold_parameters = ''
    !> WEIR_WIRE_FORMAT_COMPACT, ...: how messages encode indices, with sparse compressors; others ignore it. With `algorithm =
    !> auto` and compact, Weir may also choose coo
    integer :: wire_format = WEIR_WIRE_FORMAT_COMPACT
    !> WEIR_WIRE_VALUES_NATIVE, ...: how messages encode values, with sparse compressors; others ignore it. bfloat16 and float16 do
    !> not take gradients of float64. With `algorithm = auto`, Weir may also choose native
    integer :: wire_values = WEIR_WIRE_VALUES_NATIVE
    !> number of threads of this rank that select, merge and apply in host memory. May differ between ranks. The result does not
    !> depend on it. 0: WEIR_THREADS, else the number of cores that this rank has to itself
    integer :: threads = 0
    integer :: non_finite = WEIR_NON_FINITE_ERROR !< WEIR_NON_FINITE_ERROR, ...: what happens if a gradient holds NaN or infinity
    !> number of first iterations that run dense, at most 2^48. The Ok-Topk authors use 512
    integer(int64) :: dense_iterations = 0_int64
    !> number of iterations after the dense ones in which density falls exponentially from 25 % to its target (DGC), with sparse
    !> compressors; at most 2^48
    integer(int64) :: warmup_iterations = 0_int64
    integer :: priority = 0 !< priority of this plan's messages; a higher one makes progress first. May differ between ranks
    character(len=WEIR_TEXT_LENGTH) :: name = 'allreduce' !< name in error messages and dumps
  end type

  !> What one run of a plan did on this rank. Times are in seconds.
  type :: weir_statistics
    integer(int64) :: iteration = 0 !< number of runs so far, including this one. Density schedules count only runs that delivered
    integer(int64) :: k = 0 !< target number of entries of this iteration; n for dense and packed algorithms
    integer(int64) :: selected_local = 0 !< number of entries that this rank contributed; n for dense and packed algorithms
    integer(int64) :: selected_global = 0 !< number of entries of the update; n for dense and packed algorithms
    integer(int64) :: payload_bytes_sent = 0 !< bytes sent: values, indices, packed bytes and factors
    integer(int64) :: payload_bytes_received = 0 !< bytes received: values, indices, packed bytes and factors
    integer(int64) :: control_bytes_sent = 0 !< bytes sent: sizes, histograms and boundaries
    integer(int64) :: control_bytes_received = 0 !< bytes received: sizes, histograms and boundaries
    !> bytes sent, payload and control, by Level of the peer. Only Weir's own messages count: neither traffic through memory that
    !> the ranks of a node share, nor what MPI's or NCCL's own collectives send (dense_mpi, dense_nccl)
    integer(int64) :: bytes_sent(0:6) = 0
    integer(int64) :: bytes_received(0:6) = 0 !< bytes received, by Level of the peer
    integer(int64) :: messages_sent(0:6) = 0 !< number of messages sent, by Level of the peer
    integer(int64) :: messages_received(0:6) = 0 !< number of messages received, by Level of the peer
    real(real64) :: seconds_select = 0 !< time for compensation, local selection and the compressor's encoding
    !> time for the dense reduce-scatter and the sparse allgather of algorithms that shard within nodes
    real(real64) :: seconds_in_node = 0
    !> time from the first message to the last. Includes reductions and what the caller computed meanwhile; excludes encoding and
    !> decoding
    real(real64) :: seconds_exchange = 0
    !> time for the residual update, the dense result and the compressor's decoding; in CUDA memory, until they are on the stream
    real(real64) :: seconds_apply = 0
    real(real64) :: seconds_total = 0 !< time from start to completion, without the time that the caller takes to fetch the result
    real(real64) :: seconds_waited = 0 !< time that the caller spent in wait, test or run until this run had finished
    logical :: skipped = .false. !< WEIR_NON_FINITE_SKIP took effect
  end type

  !> Describes one algorithm, which AllreduceConfig's `algorithm` may name.
  type :: weir_algorithm_info
    character(len=:), allocatable :: name !< name for `algorithm`
    character(len=:), allocatable :: description !< what it does, as text
    logical :: sparse = .false. !< delivers k entries; a dense algorithm delivers all
    logical :: host_memory = .false. !< takes gradients in host memory
    logical :: cuda_memory = .false. !< takes gradients in CUDA memory
    logical :: packed = .false. !< carries the bytes that compressors make of float32 gradients
    character(len=:), allocatable :: parameters !< parameters with their defaults: "window=4"; empty: no parameters
    !> names of the events that plans count: "rethresholded,recut"; empty: plans count nothing
    character(len=:), allocatable :: counters
  end type

  !> Describes one compressor, which AllreduceConfig's `compressor` may name.
  type :: weir_compressor_info
    character(len=:), allocatable :: name !< name for `compressor`
    character(len=:), allocatable :: description !< what it does, as text
    character(len=:), allocatable :: source !< paper that describes it
    !> what carries it. "sparse": sparse algorithms carry its entries; "packed": packed algorithms carry its bytes; "linear": dense
    !> algorithms carry its dense values
    character(len=:), allocatable :: carriage
    character(len=:), allocatable :: parameters !< all parameters with their defaults: "levels=7,bucket=512"; empty: no parameters
    logical :: random = .false. !< draws random numbers, which depend on `seed`
    !> keeps a residual with `error_feedback` automatic, unless its parameters rule that out (`unbiased=1`)
    logical :: feedback = .false.
  end type

  !> What the header of an encoded gradient says.
  type :: weir_encoded_info
    integer(int64) :: version = 0 !< version of the format
    integer(int64) :: count = 0 !< number of elements of the gradient
    !> number of elements that have a value; the others are 0. Packed messages have values for all elements: `count`
    integer(int64) :: entries = 0
    integer(int64) :: bytes = 0 !< size, including header and checksum
    character(len=:), allocatable :: compressor !< name of the compressor
    character(len=:), allocatable :: parameters !< all parameters of the compressor: "levels=7,bucket=512"
  end type

  !> One WEIR_* environment variable, the value in force, and where that value comes from.
  type :: weir_setting_info
    character(len=:), allocatable :: name !< name of the variable
    character(len=:), allocatable :: value !< value in force
    character(len=:), allocatable :: origin !< where the value comes from
    character(len=:), allocatable :: description !< what the variable sets, as text
  end type

  !> Describes one table of `rows` x `width` float32 values. All fields except `name` and the priorities must be equal on all ranks.
  type :: weir_embedding_config
    integer(int64) :: rows = 0_int64 !< number V of rows, 1 to 2^32 - 1
    integer(int64) :: width = 0_int64 !< number D of columns, at least 1. It need not be divisible by the number of ranks
    integer(int64) :: largest_batch = 0_int64 !< largest number of ids that a rank looks up at once
    !> WEIR_MEMORY_HOST, ...: memory that holds values, optimizer state, vectors and gradients. With cuda, they are on the GPU that
    !> is current when the table is made. dense_allreduce does not take cuda
    integer :: memory = WEIR_MEMORY_HOST
    !> name of an exchange: how rows are divided among the ranks and how they travel
    character(len=WEIR_TEXT_LENGTH) :: exchange = 'columns'
    integer :: optimizer = WEIR_OPTIMIZER_SGD !< WEIR_OPTIMIZER_SGD, ...: how gradients change rows
    real(real64) :: learning_rate = 0.01_real64 !< learning rate, finite as float32, the type of rows
    real(real64) :: beta1 = 0.9_real64 !< beta1 of momentum and Adam
    real(real64) :: beta2 = 0.999_real64 !< beta2 of Adam
    real(real64) :: epsilon = 1e-08_real64 !< epsilon of Adagrad and Adam, which need it positive
    logical :: average = .true. !< divides gradients by the number of ranks
    !> WEIR_WIRE_VALUES_NATIVE, ...: how messages encode vectors and gradients; dense_allreduce always sends float32. Sums are
    !> float32
    integer :: wire_values = WEIR_WIRE_VALUES_NATIVE
    integer :: routing = WEIR_ROUTING_AUTOMATIC !< WEIR_ROUTING_AUTOMATIC, ...: how messages to the ranks of another node travel
    integer(int64) :: seed = 1_int64 !< seed of the initial values, which otherwise depend only on row, column and `initial_range`
    !> range of the initial values, which are uniform in [-initial_range, initial_range); finite as float32
    real(real64) :: initial_range = 0.05_real64
    integer :: priority = 1000000 !< priority of ids, vectors, and gradients of rows that the next batch needs
    integer :: delayed_priority = -1000000 !< priority of the other gradients
    character(len=WEIR_TEXT_LENGTH) :: name = 'embedding' !< name in error messages and dumps
  end type

  !> What the last lookup and the last update of this rank did. Times are in seconds; in CUDA memory they end when the work is on
  !> its stream. The rows of the update are known once update() has returned. Which of them are prior is known later, while the
  !> operation runs.
  type :: weir_embedding_statistics
    integer(int64) :: tokens = 0 !< number of ids in the batch
    integer(int64) :: distinct_rows = 0 !< number of distinct rows in the batch: vectors received and gradients sent
    !> number of rows of the update that the next batch of any rank needs; all rows if the next batch is not known
    integer(int64) :: prior_rows = 0
    !> number of rows that this rank's optimizer stepped; if the table is divided by columns, parts of rows
    integer(int64) :: updated_rows = 0
    logical :: prefetched = .false. !< the ids of the lookup were known before
    logical :: by_node = .false. !< WEIR_ROUTING_BY_NODE is in force
    integer(int64) :: id_bytes_sent = 0 !< bytes of the batch's ids, sent by lookup or by the prefetch that it used
    integer(int64) :: lookup_bytes_sent = 0 !< bytes of vectors
    integer(int64) :: gradient_bytes_sent = 0 !< bytes of gradients of rows
    integer(int64) :: control_bytes_sent = 0 !< all other bytes of lookup, its prefetch and update
    integer(int64) :: bytes_sent(0:6) = 0 !< all these bytes, by Level of the peer
    real(real64) :: seconds_lookup = 0 !< time of the lookup from start to completion
    real(real64) :: seconds_coalesce = 0 !< time for summing gradients of equal ids, before update() returns
    real(real64) :: seconds_prior = 0 !< time from update() until the prior rows were applied
    real(real64) :: seconds_update = 0 !< time from update() until all rows were applied
  end type

  !> Describes one way to divide and exchange a table.
  type :: weir_exchange_info
    character(len=:), allocatable :: name !< name for `exchange`
    character(len=:), allocatable :: description !< what it does, as text
  end type

  !> Describes where checkpoints go. All fields except `name` must be equal on all ranks.
  type :: weir_checkpoint_config
    !> folder for the files, which all ranks must see. Weir makes it if its parent exists
    character(len=WEIR_LONG_TEXT_LENGTH) :: folder = ''
    !> text that identifies the training run. A folder with files of another run is refused. Empty: any run
    character(len=WEIR_LONG_TEXT_LENGTH) :: run = ''
    integer(int64) :: keep = 2_int64 !< number of newest files that stay
    !> compression of large arrays. 0: none; 1 to 9: deflate, from fastest to smallest, after shuffling bytes by their place in an
    !> element
    integer(int64) :: compression = 0_int64
    !> restore() throws if the newest file is damaged; otherwise it warns and takes the newest file that is whole
    logical :: strict = .false.
    character(len=WEIR_TEXT_LENGTH) :: name = 'checkpoint' !< name in error messages and dumps
  end type

  !> What the last save and the last restore of this rank did. Times are in seconds.
  type :: weir_checkpoint_statistics
    integer(int64) :: step = 0 !< step saved or restored last; -1: none yet
    integer(int64) :: ranks = 0 !< number of ranks that saved what was restored last
    integer(int64) :: snapshot_bytes = 0 !< memory of the snapshot on this rank, which is kept from one save to the next
    integer(int64) :: bytes_written = 0 !< bytes that this rank wrote to the file
    integer(int64) :: bytes_read = 0 !< bytes that this rank read from the file
    real(real64) :: seconds_snapshot = 0 !< time until save() returned
    real(real64) :: seconds_save = 0 !< time from save() until the file was in its place
    real(real64) :: seconds_restore = 0 !< time of the restore
  end type

  !> Describes one tensor of a model. Must be equal on all ranks.
  type :: weir_fused_tensor
    character(len=WEIR_LONG_TEXT_LENGTH) :: name = '' !< name in error messages and checkpoints; all tensors have different names
    integer(int64) :: count = 0_int64 !< number of elements of its gradient; at most 2^32 - 1, with `dense` at most 2^48
    real(real64) :: density = 0.0_real64 !< share k / count of the entries, in (0, 1]; 0: that of the FusionConfig
    !> number of entries that each rank selects, 0 <= k <= count; -1: from the density, at least 1 if count > 0
    integer(int64) :: k = -1_int64
    logical :: dense = .false. !< sends the tensor whole, together with the other tensors of its buffer; for biases and norms
    !> some or all ranks may leave the tensor out of an iteration. It then contributes nothing there, and its residual stays
    logical :: optional = .false.
  end type

  !> Describes how the gradients of a model are fused and reduced. All fields except `name` and `priority` must be equal on all
  !> ranks.
  type :: weir_fusion_config
    integer :: scheme = WEIR_FUSION_AHEAD_TAPERED !< WEIR_FUSION_NONE, ...: which tensors travel together and what is sparsified
    !> size of a buffer, in bytes of gradients. With `behind`, a buffer takes this many bytes; with `ahead`, `ahead_inter` and
    !> `ahead_tapered`, it takes as many entries as the density selects from this many bytes. `ahead_inter_intra` and `ahead_fitted`
    !> begin with it, and `ahead_inter_intra` makes no larger buffers. The other schemes ignore it
    integer(int64) :: buffer_bytes = 26214400_int64
    integer :: type = WEIR_FLOAT32 !< WEIR_FLOAT32, ...: type of the gradients' elements: float32 or float64, in host memory
    real(real64) :: density = 0.01_real64 !< share k / count of the entries, in (0, 1], for tensors that do not set their own
    !> name of a sparse algorithm, which exchanges the entries of a buffer. Algorithms that shard within nodes run flat. gtopk,
    !> oktopk and hi_oktopk deliver the largest entries of a buffer, so tensors may be missing from an update; the others deliver
    !> all entries that ranks have selected. "auto", "auto_sparse": topk_allgather or topk_dsa, the one that is predicted to be
    !> cheaper
    character(len=WEIR_TEXT_LENGTH) :: algorithm = 'auto'
    character(len=WEIR_LONG_TEXT_LENGTH) :: algorithm_parameters = '' !< parameters of the algorithm, as in AllreduceConfig
    character(len=WEIR_TEXT_LENGTH) :: threshold = 'exact' !< how a rank selects entries, as in AllreduceConfig
    character(len=WEIR_LONG_TEXT_LENGTH) :: threshold_parameters = '' !< parameters of the threshold, as in AllreduceConfig
    integer :: error_feedback = WEIR_FEEDBACK_AUTOMATIC !< WEIR_FEEDBACK_NONE, ...: residual or none; automatic is residual
    logical :: average = .true. !< divides the delivered sum by the number of ranks
    integer :: wire_format = WEIR_WIRE_FORMAT_COMPACT !< WEIR_WIRE_FORMAT_COMPACT, ...: how messages encode indices
    !> WEIR_WIRE_VALUES_NATIVE, ...: how messages encode values; bfloat16 and float16 need float32. Dense tensors are sent without
    !> rounding
    integer :: wire_values = WEIR_WIRE_VALUES_NATIVE
    !> WEIR_NON_FINITE_ERROR, ...: what happens to the buffer of a tensor with NaN or infinity; other buffers are delivered
    integer :: non_finite = WEIR_NON_FINITE_ERROR
    !> priority of the buffer with the last tensor of the forward pass. A buffer that is needed earlier has a higher priority. May
    !> differ between ranks
    integer :: priority = 0
    character(len=WEIR_TEXT_LENGTH) :: name = 'fused' !< name in error messages and dumps
  end type

  !> What one iteration of a FusedAllreduce did on this rank, up to wait_all(). Times are in seconds.
  type :: weir_fusion_statistics
    integer(int64) :: iteration = 0 !< number of iterations so far, including this one
    integer(int64) :: exchanges = 0 !< number of buffers that were exchanged, that is, of communication startups
    integer(int64) :: tensors_skipped = 0 !< number of optional tensors that this rank skipped or left out
    !> number of tensors with k above 0 of which no entry was delivered, including those that all ranks skipped; the same on all
    !> ranks
    integer(int64) :: tensors_missing = 0
    integer(int64) :: buffers_skipped = 0 !< number of buffers for which WEIR_NON_FINITE_SKIP took effect
    integer(int64) :: selected_local = 0 !< number of entries that this rank contributed, without dense tensors
    !> number of entries of the updates, without dense tensors; with `ahead`, counted by buffer
    integer(int64) :: selected_global = 0
    integer(int64) :: payload_bytes_sent = 0 !< bytes sent: values and indices
    integer(int64) :: payload_bytes_received = 0 !< bytes received: values and indices
    integer(int64) :: control_bytes_sent = 0 !< bytes sent: sizes, histograms, boundaries and agreement
    integer(int64) :: control_bytes_received = 0 !< bytes received: sizes, histograms, boundaries and agreement
    integer(int64) :: bytes_sent(0:6) = 0 !< bytes sent, payload and control, by Level of the peer
    integer(int64) :: bytes_received(0:6) = 0 !< bytes received, by Level of the peer
    integer(int64) :: messages_sent(0:6) = 0 !< number of messages sent, by Level of the peer
    integer(int64) :: messages_received(0:6) = 0 !< number of messages received, by Level of the peer
    real(real64) :: seconds_select = 0 !< time for compensation and selection, in ready()
    real(real64) :: seconds_exchange = 0 !< time during which at least one exchange was in flight
    real(real64) :: seconds_backward = 0 !< time from the first ready() to the end of the last
    !> time that the caller spent in wait(), test() and wait_all(): communication that nothing overlapped
    real(real64) :: seconds_waited = 0
    real(real64) :: seconds_total = 0 !< time from the first ready() to the end of the last exchange
    integer(int64) :: regroupings = 0 !< number of times so far that buffers were divided anew (ahead_inter_intra, ahead_fitted)
    logical :: settled = .false. !< the division into buffers is final
  end type

  !> Describes one part of work that every rank would otherwise do whole. Must be equal on all ranks.
  type :: weir_operator_part
    real(real64) :: seconds = 0.0_real64 !< estimated time of this part on one rank, at least 0. Work is divided by these estimates
    integer(int64) :: result_bytes = 0_int64 !< size of its result; with `variable`, the largest size
  end type

  !> Describes work that is divided among ranks. All fields except `name` and `priority` must be equal on all ranks.
  type :: weir_operator_config
    integer :: division = WEIR_OPERATOR_AUTOMATIC !< WEIR_OPERATOR_AUTOMATIC, ...: which ranks share the parts
    !> results may be shorter than described, with other sizes in each run. The sizes are gathered first
    logical :: variable = .false.
    integer :: priority = 0 !< priority of gathering; a higher one makes progress first. May differ between ranks
    character(len=WEIR_TEXT_LENGTH) :: name = 'operator' !< name in error messages and dumps
  end type

  !> What the last run of a parallel operator did on this rank. Times are in seconds.
  type :: weir_operator_statistics
    integer(int64) :: runs = 0 !< number of runs so far, including those that ended in an error
    real(real64) :: seconds_work = 0 !< time in the body
    real(real64) :: seconds_gather = 0 !< time for agreeing and gathering, including waiting for slower ranks
    integer(int64) :: bytes_sent(0:6) = 0 !< bytes sent, by Level of the peer
    integer(int64) :: bytes_received(0:6) = 0 !< bytes received, by Level of the peer
    integer(int64) :: messages_sent(0:6) = 0 !< number of messages sent, by Level of the peer
    integer(int64) :: messages_received(0:6) = 0 !< number of messages received, by Level of the peer
  end type

  !> Describes weights that have a learning rate of their own. Must be equal on all ranks.
  type :: weir_optimized_layer
    !> name in error messages and checkpoints, without '/' and control characters; all layers have different names
    character(len=WEIR_LONG_TEXT_LENGTH) :: name = ''
    integer(int64) :: count = 0_int64 !< number of elements
    logical :: excluded = .false. !< steps without weight decay and at the plain learning rate; for biases and norms
  end type

  !> Describes how the layers of a model step. All fields except `name` and `priority` must be equal on all ranks.
  type :: weir_optimizer_config
    integer :: rule = WEIR_OPTIMIZER_LARS !< WEIR_OPTIMIZER_LARS, ...: how layers step
    real(real64) :: momentum = 0.9_real64 !< momentum of lars, from 0 to below 1
    real(real64) :: weight_decay = 0.0001_real64 !< weight decay, at least 0
    real(real64) :: trust_coefficient = 0.001_real64 !< gamma of lars (CommLib equation 11), above 0
    real(real64) :: largest_rate = 0.0_real64 !< limit of a layer's rate, which multiplies the learning rate; 0: no limit
    real(real64) :: beta1 = 0.9_real64 !< beta1 of lamb, from 0 to below 1
    real(real64) :: beta2 = 0.999_real64 !< beta2 of lamb, from 0 to below 1
    real(real64) :: epsilon = 1e-06_real64 !< epsilon of lamb, above 0
    !> WEIR_OPERATOR_AUTOMATIC, ...: which ranks share the norms; with lamb, the same as `update`
    integer :: norms = WEIR_OPERATOR_AUTOMATIC
    !> WEIR_OPERATOR_AUTOMATIC, ...: which ranks share the update and momentum. Each rank keeps the momentum of its part, and
    !> weights are gathered (ZeRO stage 1)
    integer :: update = WEIR_OPERATOR_AUTOMATIC
    !> WEIR_FLOAT32, ...: type of weights and gradients: float32, float16 or bfloat16. Momentum and moments are float32. With 16-bit
    !> weights, the optimizer also keeps float32 weights of its own
    integer :: type = WEIR_FLOAT32
    !> WEIR_MEMORY_HOST, ...: memory that holds weights, gradients, momentum and moments. With cuda, they are on the GPU that is
    !> current when the optimizer is made
    integer :: memory = WEIR_MEMORY_HOST
    integer :: priority = 0 !< priority of gathering; a higher one makes progress first. May differ between ranks
    character(len=WEIR_TEXT_LENGTH) :: name = 'optimizer' !< name in error messages and checkpoints
  end type

  !> What the last step of a LayerOptimizer did on this rank. Times are in seconds.
  type :: weir_optimizer_statistics
    integer(int64) :: steps = 0 !< number of steps so far
    real(real64) :: seconds_norms = 0 !< time for norms, without those of other ranks
    real(real64) :: seconds_update = 0 !< time for stepping weights
    real(real64) :: seconds_gather = 0 !< time for agreeing and gathering, including waiting for slower ranks
  end type

  !> Describes Adam for sparse updates. Must be equal on all ranks if their weights are to stay equal.
  type :: weir_sparse_adam_config
    integer(int64) :: count = 0_int64 !< number of weights
    real(real64) :: beta1 = 0.9_real64 !< beta1 of Adam, from 0 to below 1
    real(real64) :: beta2 = 0.999_real64 !< beta2 of Adam, from 0 to below 1
    real(real64) :: epsilon = 1e-08_real64 !< epsilon of Adam, above 0
    !> also moves weights that no update touches, as dense Adam does. A step then takes time in proportion to `count`
    logical :: exact = .false.
    character(len=WEIR_TEXT_LENGTH) :: name = 'sparse_adam' !< name in error messages and checkpoints
  end type

  !> Describes where samples are kept. All fields except `folder`, `folder_bytes`, `threads` and `priority` must be equal on all
  !> ranks.
  type :: weir_sample_cache_config
    !> folder of level 1, in the node's own storage; runs and data sets share it. Weir makes it if its parent exists. Empty: no
    !> level 1
    character(len=WEIR_LONG_TEXT_LENGTH) :: folder = ''
    !> limit of the folder, in bytes. What was used least recently is removed first. 0: no limit
    integer(int64) :: folder_bytes = 0_int64
    !> limit of level 2 on each node, in bytes. 0: nothing stays in memory; -1: half of what the smallest node has available, or
    !> what the samples take if that is less
    integer(int64) :: memory_bytes = -1_int64
    integer(int64) :: largest_batch = 256_int64 !< largest number of samples that a rank requests at once
    integer :: in_flight = 2 !< number of batches that may be in flight at once
    integer :: pack_samples = 64 !< number of samples in a pack, which is read from the store at once and is one file of level 1
    integer :: threads = 1 !< number of threads of this rank that read and decode
    integer :: on_error = WEIR_SAMPLES_ERROR !< WEIR_SAMPLES_ERROR, ...: what happens to a sample that cannot be read or decoded
    integer :: retries = 3 !< number of further attempts with `retry`: after 0.1 s, 0.2 s, 0.4 s, ..., at most 10 s each
    integer :: priority = -1 !< priority of messages; the default is below the 0 of plans. May differ between ranks
    !> name of the data set and of its folder within level 1. 1 to 64 letters, digits, '_', '-' and '.', not beginning with '.'
    character(len=WEIR_TEXT_LENGTH) :: name = 'samples'
  end type

  !> What a sample cache has done on this rank so far. Times are in seconds, of all threads together.
  type :: weir_sample_cache_statistics
    integer(int64) :: batches = 0 !< number of batches that have ended
    !> number of samples that this rank has requested. It has read itself those that `from_node` and `from_ranks` do not count
    integer(int64) :: asked = 0
    integer(int64) :: from_node = 0 !< number of requested samples that were read from memory of this node
    integer(int64) :: from_ranks = 0 !< number of requested samples that were received from their owners
    integer(int64) :: served = 0 !< number of samples that this rank has sent to others
    integer(int64) :: kept = 0 !< number of samples of this rank's part that are in memory now
    integer(int64) :: decoded = 0 !< number of decodings of samples
    integer(int64) :: from_folder = 0 !< number of samples that level 1 had
    integer(int64) :: from_store = 0 !< number of samples that were read from the store
    integer(int64) :: folder_bytes_read = 0 !< bytes read from level 1
    integer(int64) :: store_bytes_read = 0 !< bytes read from the store
    integer(int64) :: damaged = 0 !< number of samples of level 1 whose checksum was wrong and which were read from the store again
    integer(int64) :: retried = 0 !< number of times that a sample was tried again
    integer(int64) :: skipped = 0 !< number of samples that this rank has requested and not got
    real(real64) :: seconds_store = 0 !< time for reading from the store
    real(real64) :: seconds_folder = 0 !< time for reading and writing level 1
    real(real64) :: seconds_decode = 0 !< time for decoding
    real(real64) :: seconds_waited = 0 !< time that the caller spent in get(), next() and the operations
    integer(int64) :: bytes_sent(0:6) = 0 !< bytes sent, by Level of the peer
    integer(int64) :: bytes_received(0:6) = 0 !< bytes received, by Level of the peer
  end type

  !> Describes the epochs of a data set. All fields except `progress` must be equal on all ranks.
  type :: weir_sample_loader_config
    integer(int64) :: batch = 32_int64 !< number of samples of a rank in a step, at most the cache's `largest_batch`
    integer(int64) :: seed = 0_int64 !< seed of all permutations
    !> share of a node's samples, from 0 to 1, that go to any node, with the order `node`
    real(real64) :: exchanged_share = 0.1_real64
    integer :: shuffle = WEIR_SHUFFLE_GLOBAL !< WEIR_SHUFFLE_NONE, ...: order of samples
    !> WEIR_PROGRESS_AUTOMATIC, ...: whether rank 0 shows the progress of the first epoch
    integer :: progress = WEIR_PROGRESS_AUTOMATIC
  end type

end module
