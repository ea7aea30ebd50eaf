// weir/weir.hpp: the C++20 interface of Weir. No MPI or CUDA header is needed to include it.
//
// The main noun is the plan: describe one tensor once, then run it every iteration. A plan owns what lives from one
// iteration to the next (residual, thresholds, region boundaries, workspace), allocates it when it is made and nothing later
// (runs that use NCCL excepted: it has memory of its own).
//
//   #include <weir/mpi.h>
//   weir::Communicator comm(MPI_COMM_WORLD);
//   weir::AllreducePlan plan(comm, {.count = n, .density = 0.01});
//   plan.run(gradient);                                         // blocking, in place: the averaged sparse update
//   auto op = plan.start(gradient);  compute();  op.wait();     // the same, overlapped
//
// Thread-safety: a Communicator and all plans made from it belong to one thread at a time. Different communicators
// may be used from different threads (over MPI this needs MPI_THREAD_MULTIPLE).
// Errors: every call throws weir::Error. "Collective" calls must be made by every rank of the communicator, and report
// bad input on every rank alike.
#ifndef WEIR_WEIR_HPP
#define WEIR_WEIR_HPP

#include <weir/status.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)
namespace weir {

/// What every Weir call throws: a status code and a text saying what was wrong and what would be right.
class Error : public std::runtime_error {
 public:
  Error(weir_status status, const std::string& text) : std::runtime_error(text), status_(status) {}
  [[nodiscard]] weir_status status() const noexcept { return status_; }

 private:
  weir_status status_;
};

/// Element type of a gradient. The 16-bit types only in CUDA memory; residuals, sums and updates are float32 with them.
enum class DataType : std::int32_t { float32 = 0, float64 = 1, float16 = 2, bfloat16 = 3 };

/// Where a plan's gradient, residual and update are.
enum class MemorySpace : std::int32_t { host = 0, cuda = 1 };

template <class T>
inline constexpr DataType data_type_of = DataType::float32;
template <>
inline constexpr DataType data_type_of<double> = DataType::float64;

/// How a rank selects the entries that it contributes. `exact` and `mstopk` select exactly k entries, the other methods perhaps a
/// few more or fewer. What a rank does not select stays in its residual.
///
/// The sum of all contributions may have more than k entries: gtopk, oktopk and hi_oktopk deliver the k largest of them. With
/// `reuse`, oktopk and hi_oktopk keep that global threshold, too, within the same bounds; where ranks contribute more than k
/// entries, they may deliver fewer, so that the volume bound holds.
enum class Threshold : std::int32_t {
  exact = 0,     ///< exactly the k largest (fewer only when fewer are nonzero); ties go to the lowest index
  reuse = 1,     ///< Ok-Topk section 3.1.3: re-evaluated every `threshold_period` iterations, and at once when a count leaves
                 ///< [0.8 k, 1.25 k]
  mstopk = 2,    ///< CommLib Algorithm 1: `samplings` thresholds bisected between mean and maximum, then exactly k entries
  sampled = 3,   ///< DGC: the threshold of a small sample, and a second, exact selection among too many candidates
  gaussian = 4,  ///< Gaussiank: the quantile of a normal distribution with the gradient's moments, and a guard on the count
  sidco = 5      ///< SIDCo: exponential fits to what exceeds the last threshold, in stages
};

/// How indices of sparse vectors travel.
enum class WireFormat : std::int32_t {
  compact = 0,  ///< the smallest of COO, Elias-Fano, bitmap and dense, per message
  coo = 1       ///< 32-bit index and value, always
};

/// How values of sparse vectors travel. Sums are taken in the plan's type; what rounding loses stays in the residual.
enum class WireValues : std::int32_t { native = 0, bfloat16 = 1, float16 = 2 };

/// What happens to an iteration in which any rank's gradient holds NaN or infinity.
enum class NonFinite : std::int32_t {
  error = 0,     ///< Error(WEIR_ERR_NON_FINITE) on every rank; gradient untouched, residual as before up to rounding
  skip = 1,      ///< the iteration contributes nothing anywhere: the update is zero, the residual as before up to rounding
  propagate = 2  ///< NaN counts as the largest magnitude and travels like any other value
};

/// How near two ranks are: the innermost part of the machine that they share. Traffic is counted by these levels.
enum class Level : std::int32_t { self = 0, l3 = 1, numa = 2, socket = 3, node = 4, switch_group = 5, system = 6 };
inline constexpr int level_count = 7;
[[nodiscard]] std::string_view level_name(Level level) noexcept;

struct Version {
  int major, minor, patch;
};
[[nodiscard]] Version version() noexcept;

namespace detail {
struct CommunicatorState;
class PlanImpl;
class AsynchronousCall;
/// Collective with the making of a plan or table (`what`) on the other ranks: this one cannot take part, and all throw that error.
[[noreturn]] void refuse_making(const std::shared_ptr<CommunicatorState>& comm, std::string_view what, const Error& error);
/// Specialised for MPI_Comm by weir/mpi.h.
template <class Native>
struct CommunicatorFrom;
}  // namespace detail

/// A group of ranks and the machine under them. Cheap to copy: copies share one state, which lives until the last copy
/// and the last plan or table made from it are gone. Over MPI that end is collective, because it frees MPI communicators: every
/// rank must reach it before MPI_Finalize, and several communicators must end in the same order on all ranks. Nothing of MPI is
/// freed after MPI_Finalize, after a run that broke off (timeout, transport error, lack of memory), or while an exception unwinds:
/// peers may know nothing of it.
///
/// An exception on one rank alone leaves the others waiting, so a program that catches it should print it and call MPI_Abort.
class Communicator {
 public:
  /// Collective. From an MPI_Comm (include weir/mpi.h), which is duplicated: the caller may free its own at any time.
  template <class Native>
  requires requires(const Native& native) { detail::CommunicatorFrom<Native>::make(native); }
  explicit Communicator(const Native& native) : state_(detail::CommunicatorFrom<Native>::make(native)) {}
  explicit Communicator(std::shared_ptr<detail::CommunicatorState> state) : state_(std::move(state)) {}

  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;
  /// The machine as this communicator sees it, as an indented tree of switch groups, nodes, sockets and ranks.
  [[nodiscard]] std::string topology() const;
  /// Nearest common level of this rank and `peer`.
  [[nodiscard]] Level level(int peer) const;
  /// Collective. The number of the GPU that this rank should use, for cudaSetDevice: ranks of a node share its GPUs evenly, each on
  /// its own NUMA node where possible; -1 where this process sees none.
  [[nodiscard]] int nearest_gpu() const;
  /// Collective. For each rank its share of the time for which ranks have waited for others in their last `runs` calls (1 to 2048):
  /// every rank counts, for each of its calls, the longest wait for one message, against the rank that it came from. The sum is 1,
  /// or 0 where nobody has waited. A rank with far more than 1 / size() is late, or has the slow link. Throws
  /// Error(WEIR_ERR_ARGUMENT).
  [[nodiscard]] std::vector<double> stragglers(int runs = 100) const;
  /// Not collective. Writes the flight recorder's dump to the file `path`: the last 2,048 calls of this rank, as JSON, for `weir
  /// trace diagnose`. Throws Error(WEIR_ERR_ARGUMENT) naming the file and the reason.
  void dump(const std::string& path) const;
  [[nodiscard]] const std::shared_ptr<detail::CommunicatorState>& state() const noexcept { return state_; }

 private:
  std::shared_ptr<detail::CommunicatorState> state_;
};

/// Describes one tensor and how it is reduced. All fields but `name` and `priority` must be equal on all ranks.
struct AllreduceConfig {
  std::int64_t count = 0;  ///< n, elements of the gradient; at most 2^48, of sparse algorithms 2^32 - 1
  DataType type = DataType::float32;
  /// cuda: gradient, residual and update are on the GPU that is current when the plan is made. Every sparse algorithm runs there;
  /// dense_nccl, dense_torus2d, dense_iterations and the sums in nodes of hitopk and hi_oktopk need NCCL (without it the latter run
  /// flat). Where messages go to MPI as GPU memory (`weir info` says so), that GPU must also be current where runs are started and
  /// waited for.
  MemorySpace memory = MemorySpace::host;
  double density = 0.01;              ///< k/n in (0, 1]; k is rounded to nearest, at least 1 when n > 0
  std::int64_t k = -1;                ///< entries to deliver, 0 <= k <= n; -1: from `density`
  std::string algorithm = "oktopk";   ///< a registry name, see algorithms(); "auto": the cheapest on this machine by the cost
                                      ///< functions, which may be dense; "auto_sparse": the cheapest sparse one
  std::int64_t trial_iterations = 0;  ///< auto: this many runs of each of up to three candidates, then the fastest by the
                                      ///< clock stays, in either memory; 0: the prediction decides; at most 10^6
  bool error_feedback = true;         ///< keep what is not delivered in a residual (Ok-Topk Algorithm 2)
  bool average = true;                ///< divide the delivered sum by the number of ranks
  Threshold threshold = Threshold::exact;
  int samplings = 30;                            ///< N of MSTopK (CommLib Algorithm 1)
  WireFormat wire_format = WireFormat::compact;  ///< auto: compact allows both
  WireValues wire_values = WireValues::native;   ///< others need float32; auto: allows this besides native
  std::int64_t threshold_period = 32;            ///< tau' of Ok-Topk Algorithm 1 (mode reuse), 1 to 2^48
  std::int64_t boundary_period = 64;             ///< tau of Ok-Topk Algorithm 1, 1 to 2^48
  double balance_trigger = 4.0;                  ///< balance when the largest part exceeds this many times the mean
  int window = 4;                                ///< exchanges in flight during split-and-reduce, 1 to 65536
  NonFinite non_finite = NonFinite::error;
  std::int64_t dense_iterations = 0;   ///< the first iterations run dense (the Ok-Topk authors use 512); at most 2^48
  std::int64_t warmup_iterations = 0;  ///< after those, density falls exponentially from 25 % to its target (DGC); at most 2^48
  int priority = 0;                    ///< larger is more urgent; may differ between ranks
  std::string name = "allreduce";      ///< for messages and dumps
};

/// The delivered update, sorted by index, equal on all ranks. Owned by the plan, valid until its next start or reset.
template <class T>
struct SparseView {
  std::span<const std::uint32_t> indices;
  std::span<const T> values;  ///< divided by the number of ranks when `average` is set
};

/// What one run of a plan did on this rank.
struct Statistics {
  std::int64_t iteration = 0;           ///< runs so far, this one included; density schedules count only those that delivered
  std::int64_t k = 0;                   ///< target of this iteration
  std::int64_t selected_local = 0;      ///< entries this rank contributed
  std::int64_t selected_global = 0;     ///< entries of the update
  std::int64_t payload_bytes_sent = 0;  ///< values and indices
  std::int64_t payload_bytes_received = 0;
  std::int64_t control_bytes_sent = 0;  ///< sizes, histograms, boundaries
  std::int64_t control_bytes_received = 0;
  /// By Level of the peer, payload and control. Only Weir's own messages count: not what goes through memory that the ranks of a
  /// node share, nor what MPI's or NCCL's own collectives send (dense_mpi, dense_nccl).
  std::array<std::int64_t, level_count> bytes_sent{};
  std::array<std::int64_t, level_count> bytes_received{};
  std::array<std::int64_t, level_count> messages_sent{};
  std::array<std::int64_t, level_count> messages_received{};
  double seconds_select = 0;    ///< compensation and local selection
  double seconds_in_node = 0;   ///< dense reduce-scatter and sparse allgather of algorithms that shard within nodes
  double seconds_exchange = 0;  ///< from the first message to the last, reductions included, and what the caller computed meanwhile
  double seconds_apply = 0;     ///< residual update and dense result; in CUDA memory: until they are on the stream
  double seconds_total = 0;     ///< from start to completion, without waiting for the caller to take the result
  double seconds_waited = 0;    ///< that the caller spent in wait, test or run until this run had finished
  bool rethresholded = false;   ///< mode reuse: the local or global threshold was re-evaluated
  bool recut = false;           ///< regions were re-cut because sizes showed imbalance
  bool balanced = false;        ///< the balance step ran
  bool skipped = false;         ///< NonFinite::skip took effect
};

/// A call in flight. A light handle: it must not outlive the plan or table that it comes from. The call goes on when the handle is
/// dropped, but the plan's next start is refused until it has finished: keep the handle, and wait.
///
/// Communication advances only inside Weir's calls: test and wait, of any operation of the communicator, advance everything in
/// flight on it. Where the caller never tests, most of a run happens in its wait, and other ranks may wait for this one meanwhile.
///
/// An error of a run is thrown once: by test or wait, or, if nobody has called these, by the next start, which then has not
/// started anything. So either all ranks wait, or none does. A run that broke off (timeout, transport error, lack of memory, any
/// exception in its middle) breaks its plan, whether anybody waits or not: later runs throw Error(WEIR_ERR_STATE). Where one rank
/// alone breaks off, the others are told and soon end with the same error.
class Operation {
 public:
  explicit Operation(std::shared_ptr<detail::AsynchronousCall> in_flight) : call_(std::move(in_flight)) {}
  /// Makes progress on everything in flight on the communicator; true once this run has finished. Throws what the run ended with,
  /// once.
  bool test();
  /// Drives everything in flight on the communicator until this run has finished. Runs of different communicators must be waited
  /// for in the same order on all ranks.
  void wait();

 private:
  std::shared_ptr<detail::AsynchronousCall> call_;
};

/// One tensor's allreduce. One run at a time per plan; many plans may be in flight at once, started in any order.
///
/// Who needs the gradient, and how long:
/// - Sparse algorithms read it within start (or run), write the dense result into it while a call of the communicator makes
///   progress, and never touch it once the operation has ended, however it ended. A plan's destructor does not touch it, so it
///   may be destroyed before the plan.
/// - Dense algorithms, and the `dense_iterations` of sparse ones, exchange in place: the network reads and writes the gradient
///   until the run has finished. Declare it before the plan, so that it outlives the plan. After a run that broke off it must
///   live until the process ends; the text of such an error says so. If it is destroyed while an exception unwinds, the first
///   destructor of a plan or table breaks off all runs of the communicator, which can do nothing more.
/// - While a run that writes its result into a gradient is in flight, starting another run on any part of that gradient is an
///   error on all ranks.
///
/// The delivered update u is the same on every rank. With error feedback nothing is lost:
/// sum over ranks (gradient + old residual) = sum over ranks (new residual) + sum delivered, up to rounding.
class AllreducePlan {
 public:
  /// Collective. Allocates everything; refuses on all ranks when the ranks' configurations differ.
  AllreducePlan(const Communicator& comm, const AllreduceConfig& config);
  AllreducePlan(AllreducePlan&&) noexcept;
  AllreducePlan& operator=(AllreducePlan&&) noexcept;
  /// Not collective, unless the plan outlives the last copy of its communicator (see there). Finishes a run in flight, since the
  /// other ranks wait for it. A sparse algorithm then no longer writes its dense result; a dense one still does, unless an
  /// exception unwinds.
  ~AllreducePlan();

  /// Collective, blocking. `gradient` (count elements of the plan's type, aligned to the type) is overwritten with the update.
  void run(std::span<float> gradient);
  void run(std::span<double> gradient);
  /// Collective, blocking. `gradient` is only read; the update is in sparse_result().
  void run_sparse(std::span<const float> gradient);
  void run_sparse(std::span<const double> gradient);

  /// Collective, nonblocking. Selection happens here, communication in test and wait. Leave `gradient` alone until the operation
  /// has finished.
  [[nodiscard]] Operation start(std::span<float> gradient);
  [[nodiscard]] Operation start(std::span<double> gradient);
  [[nodiscard]] Operation start_sparse(std::span<const float> gradient);
  [[nodiscard]] Operation start_sparse(std::span<const double> gradient);
  /// The same on raw memory of the plan's type, in the plan's memory space; give one of `dense`, which is overwritten, and
  /// `sparse_only`, which is read. `stream`, a cudaStream_t, is for plans in CUDA memory: the run comes after the work that is on
  /// the stream, and work put onto it after the operation has finished sees the result. The host does not wait for the stream.
  [[nodiscard]] Operation start_raw(void* dense, const void* sparse_only, std::int64_t count, void* stream = nullptr);
  /// For plans in CUDA memory: count elements of the plan's type on the plan's GPU. As run, run_sparse, start and start_sparse.
  void run(void* gradient, void* stream);
  void run_sparse(const void* gradient, void* stream);
  [[nodiscard]] Operation start(void* gradient, void* stream);
  [[nodiscard]] Operation start_sparse(const void* gradient, void* stream);

  /// The update of the last finished run, in the plan's memory space; in CUDA memory, once the run's stream has got there. For
  /// dense algorithms, empty.
  template <class T>
  [[nodiscard]] SparseView<T> sparse_result() const;

  [[nodiscard]] const Statistics& statistics() const;
  /// What error feedback keeps on this rank, in the plan's memory space; empty without error feedback. All count elements, or, with
  /// algorithms that shard within nodes (hitopk, hi_oktopk), those of this rank's shard, from element residual_begin() on; empty on
  /// ranks that own no shard. Throws while a run is in flight.
  template <class T>
  [[nodiscard]] std::span<const T> residual() const;
  [[nodiscard]] std::int64_t residual_begin() const;
  /// What is in force: with automatic choice, `algorithm`, `wire_format` and `wire_values` are the present choice.
  [[nodiscard]] const AllreduceConfig& config() const;
  /// Why the plan uses this algorithm, for people; with automatic choice a table of the predictions.
  [[nodiscard]] const std::string& explanation() const;
  /// Bytes that this plan holds, besides the caller's gradient.
  [[nodiscard]] std::int64_t memory_bytes() const;
  /// Forgets residual, thresholds, boundaries and iteration count. Sends nothing, but every rank must call it before the same run:
  /// plans reset on some ranks only disagree about that run, which may end in a transport error.
  void reset();
  [[nodiscard]] const std::shared_ptr<detail::PlanImpl>& state() const noexcept { return state_; }

 private:
  std::shared_ptr<detail::PlanImpl> state_;
};

/// One row of the algorithm registry.
struct AlgorithmInfo {
  std::string_view name;
  std::string_view description;
  bool sparse;
  bool host_memory, cuda_memory;  ///< where gradients may be
};
/// Every algorithm an AllreduceConfig may name.
[[nodiscard]] std::vector<AlgorithmInfo> algorithms();

/// One WEIR_* environment variable, its value in force and where that came from.
struct SettingInfo {
  std::string name, value, origin, description;
};
[[nodiscard]] std::vector<SettingInfo> settings();

}  // namespace weir
#pragma GCC visibility pop

#endif
