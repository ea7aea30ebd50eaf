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
// may be used from different threads (over MPI this needs MPI_THREAD_MULTIPLE; with less, MPI's own rule holds, which Weir does not
// check: with MPI_THREAD_FUNNELED only the thread that has initialised MPI calls, with MPI_THREAD_SERIALIZED one at a time). With
// WEIR_PROGRESS_THREAD a communicator has a thread of its own beside the caller's, which advances what is in flight (see Operation)
// and keeps out of the caller's way. Errors: every call throws weir::Error. "Collective" calls must be made by every rank of the
// communicator, and report bad input on every rank alike.
#ifndef WEIR_WEIR_HPP
#define WEIR_WEIR_HPP

#include <weir/status.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include <weir/types.hpp>

#if defined(_GLIBCXX_USE_CXX11_ABI) && !_GLIBCXX_USE_CXX11_ABI
#error \
    "Weir's C++ interface needs libstdc++'s C++11 ABI: compile with _GLIBCXX_USE_CXX11_ABI=1, or use the C interface, weir/weir.h"
#endif

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

template <class T>
inline constexpr DataType data_type_of = DataType::float32;
template <>
inline constexpr DataType data_type_of<double> = DataType::float64;

/// "l3", "node", ...
[[nodiscard]] std::string_view level_name(Level level) noexcept;

struct Version {
  int major, minor, patch;
};
[[nodiscard]] Version version() noexcept;

/// Takes the library's messages: one line each, without an end. It may be called by any thread that calls Weir, and by a progress
/// thread, by one at a time; what it throws is dropped. It must not call Weir.
using LogFunction = std::function<void(LogLevel level, std::string_view text)>;
/// From now on messages go to `function` instead of stderr; an empty one: to stderr again. WEIR_LOG still says which are logged.
void set_log_function(LogFunction function);

class Observer;  // weir/observer.hpp

namespace detail {
struct CommunicatorState;
class PlanImpl;
class AsynchronousCall;
/// Collective with the making of a plan or table (`what`) on the other ranks: this one cannot take part, and all throw that error.
[[noreturn]] void refuse_making(const std::shared_ptr<CommunicatorState>& comm, std::string_view what, const Error& error);
/// Specialised for MPI_Comm by weir/mpi.h.
template <class Native>
struct CommunicatorFrom;
/// Owns what a class below stands for. `end` takes it over at the end of the owner: what is in flight is finished first.
template <class Impl>
class Owner {
 public:
  using End = void (*)(std::shared_ptr<Impl>) noexcept;

  Owner(std::shared_ptr<Impl> state, End end) noexcept : state_(std::move(state)), end_(end) {}
  Owner(Owner&&) noexcept = default;
  Owner& operator=(Owner&& other) noexcept {
    Owner last(std::move(other));
    std::swap(state_, last.state_);
    std::swap(end_, last.end_);
    return *this;
  }
  ~Owner() {
    if (state_) end_(std::move(state_));
  }
  [[nodiscard]] const std::shared_ptr<Impl>& operator*() const noexcept { return state_; }

 private:
  std::shared_ptr<Impl> state_;
  End end_;
};
}  // namespace detail

/// A group of ranks and the machine under them. Cheap to copy: copies share one state, which lives until the last copy
/// and the last plan or table made from it are gone. Over MPI that end is collective, because it frees MPI communicators: every
/// rank must reach it before MPI_Finalize, and several communicators must end in the same order on all ranks. Nothing of MPI is
/// freed after MPI_Finalize, after a run that broke off (timeout, transport error, lack of memory), or while an exception unwinds:
/// peers may know nothing of it. Where runs are still in flight when a program calls MPI_Finalize, that first drives them to their
/// end, or to their deadline: dense results are then there, sparse algorithms no longer write theirs, and nothing can be called but
/// destructors and the wait of a run that has finished.
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
  /// The ranks, ascending, that share `level` with this one: those of its node, say. This rank is one of them.
  [[nodiscard]] std::vector<int> group(Level level) const;
  /// Collective. The number of the GPU that this rank should use, for cudaSetDevice: ranks of a node share its GPUs evenly, each on
  /// its own NUMA node where possible; -1 where this process sees none.
  [[nodiscard]] int nearest_gpu() const;
  /// Collective. For each rank its share of the time for which ranks have waited for others in their last `runs` calls (1 to 2048):
  /// every rank counts, for each of its calls, the longest wait for one message, against the rank that it came from. The sum is 1,
  /// or 0 where nobody has waited. The rank with the largest share, far above 1 / size(), is late or has the slow link; those that
  /// wait for it make others wait in turn, and have shares of their own. Throws Error(WEIR_ERR_ARGUMENT).
  [[nodiscard]] std::vector<double> stragglers(int runs = 100) const;
  /// Collective, blocking. A few bytes for setting up, such as addresses, seeds and options: `data` becomes that of rank `root`.
  /// All ranks give as many bytes, at most most_small_bytes, and the same root: Error(WEIR_ERR_ARGUMENT) on all ranks otherwise.
  void broadcast(std::span<std::byte> data, int root = 0) const;
  void broadcast_raw(void* data, std::int64_t bytes, int root = 0) const;
  /// Collective, blocking. The same for `mine` of every rank: `all`, of size() times as many bytes, has them in rank order.
  void allgather(std::span<const std::byte> mine, std::span<std::byte> all) const;
  void allgather_raw(const void* mine, std::int64_t bytes, void* all) const;
  static constexpr std::int64_t most_small_bytes = 1 << 20;
  /// Not collective. Writes the flight recorder's dump to the file `path`: the last 2,048 calls of this rank, as JSON. `weir trace
  /// diagnose` reads a folder's files called weir-dump.cC.rankR.json, with any number C for the communicator and the rank for R.
  /// Folders of the path that do not exist are made.
  /// Throws Error(WEIR_ERR_ARGUMENT) naming the file and the reason.
  void dump(const std::string& path) const;
  /// Not collective. From now on `observer` hears what this communicator does on this rank (weir/observer.hpp), until it is removed
  /// or the communicator has ended.
  void add_observer(std::shared_ptr<Observer> observer) const;
  /// Not collective. `observer` hears nothing any more.
  void remove_observer(const std::shared_ptr<Observer>& observer) const;
  [[nodiscard]] const std::shared_ptr<detail::CommunicatorState>& state() const noexcept { return state_; }

 private:
  std::shared_ptr<detail::CommunicatorState> state_;
};

/// The delivered update, sorted by index, equal on all ranks. Owned by the plan, valid until its next start or reset.
template <class T>
struct SparseView {
  std::span<const std::uint32_t> indices;
  std::span<const T> values;  ///< divided by the number of ranks when `average` is set
};

/// A call in flight. A light handle: it must not outlive the plan or table that it comes from. The call goes on when the handle is
/// dropped, but it counts as in flight until somebody on this rank has waited for it: the plan's next start is refused
/// (WEIR_ERR_BUSY), and so is every call that says so of a run in flight. Whether the run has finished makes no difference: ranks
/// that do the same are refused alike. Keep the handle, and wait, or test until it has finished.
///
/// Communication advances only inside Weir's calls: test and wait, of any operation of the communicator, advance everything in
/// flight on it. Where the caller never tests, most of a run happens in its wait, and other ranks may wait for this one meanwhile.
/// With WEIR_PROGRESS_THREAD (`weir info` says where one would run; over MPI it needs MPI_THREAD_MULTIPLE) a thread of this rank
/// advances everything while the caller computes. It leaves callers' arrays alone, except those that dense algorithms exchange
/// in place: the dense result of a sparse run, and the vectors of a lookup, are written in the next call of test or wait. Runs in
/// CUDA memory advance only in calls, as without it. Deadlines count while somebody tests or waits. What is asked of a plan or
/// table while its run is in flight, statistics above all, may be from the middle of it.
///
/// An error of a run is thrown once, by test or wait. A run that broke off (timeout, transport error, lack of memory, any
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
  /// As wait, for at most `seconds`, 0 or more, with one round of progress at least; true once this run has finished. For callers
  /// that look after something else while they wait, such as signals.
  bool wait_for(double seconds);

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
///   destructor of a plan or table breaks off all runs of the communicator, which can do nothing more; beside a progress thread it
///   must not be, for that may be at it.
/// - While a run that writes its result into a gradient is in flight, starting another run on any part of that gradient is an
///   error on all ranks.
///
/// The delivered update u is the same on every rank. With a residual, and decay and gain 1 (the defaults), nothing is lost:
/// sum over ranks (gradient + old residual) = sum over ranks (new residual) + sum delivered, up to rounding (of dgc: velocities
/// in place of gradients).
class AllreducePlan {
 public:
  /// Collective. Allocates everything; refuses on all ranks when the ranks' configurations differ.
  AllreducePlan(const Communicator& comm, const AllreduceConfig& config);
  AllreducePlan(AllreducePlan&&) noexcept = default;
  AllreducePlan& operator=(AllreducePlan&&) noexcept = default;
  /// Not collective, unless the plan outlives the last copy of its communicator (see there). Finishes a run in flight, since the
  /// other ranks wait for it. A sparse algorithm then no longer writes its dense result; a dense one still does, unless an
  /// exception unwinds.
  ~AllreducePlan() = default;

  /// Collective, blocking. `gradient` (count elements of the plan's type, aligned to the type) is overwritten with the update.
  void run(std::span<float> gradient);
  void run(std::span<double> gradient);
  /// Collective, blocking. `gradient` is only read; the update is in sparse_result(). Only with sparse algorithms, not with ef21.
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
  /// dense and packed algorithms, empty.
  template <class T>
  [[nodiscard]] SparseView<T> sparse_result() const;

  [[nodiscard]] const Statistics& statistics() const;
  /// Returns how many of this plan's runs since it was made, reset or restored did what `name` says, such as "recut", on this rank;
  /// 0 for what only other algorithms count. AlgorithmInfo::counters lists the names of an algorithm, `weir info --algorithms` what
  /// they mean. Throws Error(WEIR_ERR_ARGUMENT) for a name that no algorithm has.
  [[nodiscard]] std::int64_t counter(std::string_view name) const;
  /// What error feedback keeps on this rank, in the plan's memory space; empty without error feedback. All count elements, or, with
  /// algorithms that shard within nodes (hitopk, hi_oktopk, packed_reduce_scatter), those of this rank's shard, from element
  /// residual_begin() on; empty on ranks that own no shard. Throws while a run is in flight.
  template <class T>
  [[nodiscard]] std::span<const T> residual() const;
  [[nodiscard]] std::int64_t residual_begin() const;
  /// Returns what is in force: with automatic choice, `algorithm`, `wire_format` and `wire_values` are the present choice.
  /// `algorithm_parameters` and `compressor_parameters` have all parameters, also those that were not given; `compressor` has its
  /// name, also where the field was empty; `error_feedback` has what automatic stands for. `k` and `threads` stay as given, as do
  /// schedule=automatic and radix=0.
  [[nodiscard]] const AllreduceConfig& config() const;
  /// Returns, as text, why the plan uses this algorithm; with automatic choice a table of the predictions, of which trials may have
  /// chosen another than the first: see config().
  [[nodiscard]] const std::string& explanation() const;
  /// Bytes that this plan holds, besides the caller's gradient.
  [[nodiscard]] std::int64_t memory_bytes() const;
  /// Bytes that save_state writes at present. Throws Error(WEIR_ERR_BUSY) while a run is in flight, as do the next two.
  [[nodiscard]] std::int64_t state_bytes() const;
  /// Writes what lives from one iteration to the next (residual, thresholds, boundaries, iteration count) into `state`, host memory
  /// of exactly state_bytes() bytes. Each rank saves its own, and all must be at the same iteration.
  void save_state(std::span<std::byte> state) const;
  /// Goes on where the plan was that saved `state`: one with the same count, type, algorithm, compressor and its parameters,
  /// and error_feedback, on the same rank of as many. Other fields may differ; this plan's are in force. Throws
  /// Error(WEIR_ERR_ARGUMENT), naming the field, where the state is damaged or does not fit; the plan is then as it was. Sends
  /// nothing: see to it that all ranks restore the same iteration, or none.
  void restore_state(std::span<const std::byte> state);
  /// Forgets residual, thresholds, boundaries and iteration count. Sends nothing, but every rank must call it before the same run:
  /// plans reset on some ranks only disagree about that run, which may end in a transport error.
  void reset();
  /// Gradients will be `factor` times what they have been, as where a loss scale changes: residual, momentum, EF21's states and
  /// thresholds become `factor` times what they are; what is beyond the type then becomes its largest finite value. With a power of
  /// two and nothing beyond the type, what follows has the same bits as if gradients had been of the new size from the start. Sends
  /// nothing: every rank must call it before the same run, with the same factor. Throws Error(WEIR_ERR_ARGUMENT) where it is not
  /// positive and finite in the type; Error(WEIR_ERR_BUSY) while a run is in flight.
  void scale_residual(double factor);
  /// For those who move bytes themselves: what this rank contributes, without communication. Most bytes of one encode(). Throws
  /// Error(WEIR_ERR_STATE) for plans that cannot encode: the algorithm must be flat (or run so) and sparse or packed, the
  /// type float32, the memory host, error_feedback not ef21, dense_iterations 0, and automatic choice must have decided.
  [[nodiscard]] std::int64_t encoded_bytes() const;
  /// Not collective. Compresses `gradient` as this rank's next run would, and writes it, self-describing and with a checksum, to
  /// `out`, which has room for encoded_bytes(). Returns the bytes; weir::decode() reads them, anywhere, and a sum over ranks is the
  /// caller's. This counts as a run, all of which was delivered: residual, momentum, schedules and random numbers move on. Under
  /// NonFinite::skip a gradient with NaN or infinity is encoded as zeros; under error it throws Error(WEIR_ERR_NON_FINITE), the
  /// residual as before up to rounding. Throws Error(WEIR_ERR_BUSY) while a run is in flight, Error(WEIR_ERR_ARGUMENT) for other
  /// counts and too little room: nothing moves on then. Allocates on its first call only.
  std::int64_t encode(std::span<const float> gradient, std::span<std::byte> out);
  [[nodiscard]] const std::shared_ptr<detail::PlanImpl>& state() const noexcept { return *state_; }

 private:
  detail::Owner<detail::PlanImpl> state_;
};

/// What AllreducePlan::encode() has written: exactly these bytes, unchanged. Throws Error(WEIR_ERR_ARGUMENT) where they are
/// truncated, damaged, of another version, or nothing that encode() writes. Needs no plan and no communicator; any thread may call
/// it, also at the same time as others.
[[nodiscard]] EncodedInfo inspect(std::span<const std::byte> encoded);
/// The same, and `values` become what the bytes stand for: what of the gradient was delivered, undivided; with `add`, that is added
/// to them. There must be as many as the gradient had. Also throws Error(WEIR_ERR_ARGUMENT) where the payload makes no sense or
/// this library does not know the compressor; the values then are as they were with `add`, and undefined without.
EncodedInfo decode(std::span<const std::byte> encoded, std::span<float> values, bool add = false);

/// Every algorithm an AllreduceConfig may name.
[[nodiscard]] std::vector<AlgorithmInfo> algorithms();

/// Every compressor an AllreduceConfig may name, besides "none".
[[nodiscard]] std::vector<CompressorInfo> compressors();

/// Every WEIR_* environment variable.
[[nodiscard]] std::vector<SettingInfo> settings();

}  // namespace weir
#pragma GCC visibility pop

#endif
