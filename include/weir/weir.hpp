// weir/weir.hpp: the C++20 interface of Weir. It includes no MPI or CUDA header.
//
// The main noun is the plan: describe one tensor once, then run its plan in every iteration. A plan owns what lives from one
// iteration to the next (residual, thresholds, region boundaries, workspace). It allocates all of that when it is made, and nothing
// later. Runs that use NCCL are the exception, since NCCL has memory of its own.
//
//   #include <weir/mpi.h>
//   weir::Communicator comm(MPI_COMM_WORLD);
//   weir::AllreducePlan plan(comm, {.count = n, .density = 0.01});
//   plan.run(gradient);                                         // blocking, in place: the averaged sparse update
//   auto op = plan.start(gradient);  compute();  op.wait();     // the same, overlapped
//
// Thread-safety. A Communicator and all plans made from it belong to one thread at a time. Different communicators may be used from
// different threads; over MPI this needs MPI_THREAD_MULTIPLE. With less, MPI's own rule holds, which Weir does not check: with
// MPI_THREAD_FUNNELED only the thread that has initialised MPI calls, with MPI_THREAD_SERIALIZED one thread at a time. With
// WEIR_PROGRESS_THREAD a communicator has a thread of its own, which advances what is in flight (see Operation) and keeps out of
// the caller's way.
//
// Errors. Every call throws weir::Error.
//
// "Collective" calls must be made by every rank of the communicator. They report bad input of one rank on every rank.
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

/// Exception that every Weir call throws: a status code, and a text that says what was wrong and what would be right.
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

/// Returns the name of a level: "l3", "node", ...
[[nodiscard]] std::string_view level_name(Level level) noexcept;

struct Version {
  int major, minor, patch;
};
/// Returns the version of the library in use.
[[nodiscard]] Version version() noexcept;

/// Takes one message of the library: one line, without its end. Any thread that calls Weir may call the function, and so may a
/// progress thread, but only one thread at a time. Weir drops what the function throws. The function must not call Weir.
using LogFunction = std::function<void(LogLevel level, std::string_view text)>;
/// Sends messages to `function` instead of stderr from now on; an empty function brings stderr back. WEIR_LOG still says which
/// messages are logged.
void set_log_function(LogFunction function);

class Observer;  // weir/observer.hpp

namespace detail {
struct CommunicatorState;
class PlanImpl;
class AsynchronousCall;
/// Collective with the making of a plan or table (`what`) on the other ranks. Says that this rank cannot take part; all ranks throw
/// `error`.
[[noreturn]] void refuse_making(const std::shared_ptr<CommunicatorState>& comm, std::string_view what, const Error& error);
/// Makes what Communicator::subgroup returns. `refusal` says why this rank cannot have it after all; then no rank gets one.
[[nodiscard]] std::shared_ptr<CommunicatorState> make_subgroup(const std::shared_ptr<CommunicatorState>& comm,
                                                               std::span<const int> ranks, const char* refusal = nullptr);
/// Makes a communicator from a native handle. weir/mpi.h specialises it for MPI_Comm.
template <class Native>
struct CommunicatorFrom;
/// Owns the state of a class below. When the owner ends, `end` takes the state over and first finishes what is in flight.
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

/// A group of ranks and the machine under them. Copies are cheap and share one state. The state lives until the last copy, and the
/// last plan or table made from it, are gone.
///
/// Over MPI that end is collective, because it frees MPI communicators: every rank must reach it before MPI_Finalize, and several
/// communicators must end in the same order on all ranks. Weir frees nothing of MPI after MPI_Finalize, after a run that broke off
/// (timeout, transport error, lack of memory), or while an exception unwinds, because peers may know nothing of it.
///
/// A program may call MPI_Finalize while runs are still in flight. MPI_Finalize then first drives them to their end, or to their
/// deadline. It delivers dense results; sparse algorithms no longer write theirs. After that, only destructors and the wait of a
/// run that has finished may be called.
///
/// An exception on one rank alone leaves the others waiting, so a program that catches it should print it and call MPI_Abort.
class Communicator {
 public:
  /// Collective. Makes a communicator from an MPI_Comm (include weir/mpi.h). Duplicates the MPI_Comm, so that the caller may free
  /// its own at any time.
  template <class Native>
  requires requires(const Native& native) { detail::CommunicatorFrom<Native>::make(native); }
  explicit Communicator(const Native& native) : state_(detail::CommunicatorFrom<Native>::make(native)) {}
  explicit Communicator(std::shared_ptr<detail::CommunicatorState> state) : state_(std::move(state)) {}

  /// Returns this rank's number, from 0.
  [[nodiscard]] int rank() const;
  /// Returns the number of ranks.
  [[nodiscard]] int size() const;
  /// Returns the machine as this communicator sees it, as an indented tree of switch groups, nodes, sockets and ranks.
  [[nodiscard]] std::string topology() const;
  /// Returns the nearest common level of this rank and `peer`.
  [[nodiscard]] Level level(int peer) const;
  /// Returns the ranks that share `level` with this one, in ascending order; for Level::node, those of its node. This rank is one
  /// of them.
  [[nodiscard]] std::vector<int> group(Level level) const;
  /// Collective over `ranks` alone: no other rank calls it. Makes a communicator of these ranks of this one. All of them give the
  /// same list; ranks[i] becomes rank i. Ranks that are in several subgroups make these in the same order. The new communicator has
  /// the settings of this one, and what it knows of the machine. Either may end first. Throws the same error on all of `ranks`:
  /// Error(WEIR_ERR_ARGUMENT) for a list that is empty or has a rank twice or a rank that does not exist, Error(WEIR_ERR_MISMATCH)
  /// if lists differ, and Error(WEIR_ERR_TIMEOUT), naming the missing ranks, if not all come in time. A rank that is not in its own
  /// list throws Error(WEIR_ERR_ARGUMENT) alone.
  [[nodiscard]] Communicator subgroup(const std::vector<int>& ranks) const;
  /// Collective. Returns the number of the GPU that this rank should use, for cudaSetDevice; -1 if this process sees no GPU. The
  /// ranks of a node share its GPUs evenly, each on its own NUMA node where possible.
  [[nodiscard]] int nearest_gpu() const;
  /// Collective. Returns, for each rank, its share of the time for which ranks have waited for others in their last `runs` calls (1
  /// to 2048). For each of its calls, every rank counts its longest wait for one message against the rank that sent it. The shares
  /// add up to 1, or to 0 if no rank has waited. The rank with the largest share, far above 1 / size(), is late or has the slow
  /// link. Ranks that wait for it make others wait in turn, and so have shares of their own. Throws Error(WEIR_ERR_ARGUMENT) for
  /// other values of `runs`.
  [[nodiscard]] std::vector<double> stragglers(int runs = 100) const;
  /// Collective, blocking. Copies the `data` of rank `root` to every rank. Meant for the few bytes of a setup, such as addresses,
  /// seeds and options. All ranks give the same number of bytes, at most most_small_bytes, and the same root; otherwise all ranks
  /// throw Error(WEIR_ERR_ARGUMENT).
  void broadcast(std::span<std::byte> data, int root = 0) const;
  void broadcast_raw(void* data, std::int64_t bytes, int root = 0) const;
  /// Collective, blocking. Gathers `mine` of every rank into `all`, in rank order. `all` has size() times as many bytes. The same
  /// limit and errors hold as for broadcast().
  void allgather(std::span<const std::byte> mine, std::span<std::byte> all) const;
  void allgather_raw(const void* mine, std::int64_t bytes, void* all) const;
  static constexpr std::int64_t most_small_bytes = 1 << 20;
  /// Collective, blocking. Sets each of `sums` to the sum of its values over all ranks, with the same bits however the values are
  /// divided among ranks, and in whatever order they come. `values` has the values of sums[0], then as many of sums[1], and so on.
  /// Each rank may give another number of values, also none. The result is the exact sum of the values, each rounded to a multiple
  /// of a unit, and is rounded once. The unit is at most 2^-84 times the largest magnitude of any rank. NaN, or infinities of both
  /// signs, give NaN. Up to 8 sums take one exchange, in which every rank gets about 750 bytes of every other; each 16 more take
  /// another one. Throws the same error on all ranks: Error(WEIR_ERR_ARGUMENT) if the values cannot be shared out evenly among the
  /// sums, if ranks ask for different numbers of sums, and for more than 2^34 values in all. Source: bins of Demmel, Ahrens and
  /// Nguyen, "Efficient Reproducible Floating Point Summation and BLAS", 2016.
  void sum(std::span<const float> values, std::span<double> sums) const;
  void sum(std::span<const double> values, std::span<double> sums) const;
  void sum_raw(const void* values, std::int64_t count, DataType type, double* sums, std::int64_t fields) const;
  /// Not collective. Writes the flight recorder's dump to the file `path`: the last 2,048 calls of this rank, as JSON. Makes
  /// missing folders of the path. `weir trace diagnose` reads the files of a folder that are called weir-dump.cC.rankR.json, with
  /// any number C for the communicator and the rank for R. Throws Error(WEIR_ERR_ARGUMENT), naming the file and the reason.
  void dump(const std::string& path) const;
  /// Not collective. Adds an observer, which hears what this communicator does on this rank (weir/observer.hpp) until it is removed
  /// or the communicator has ended.
  void add_observer(std::shared_ptr<Observer> observer) const;
  /// Not collective. Removes `observer`, which hears nothing any more. Throws Error(WEIR_ERR_ARGUMENT) if it was not added.
  void remove_observer(const std::shared_ptr<Observer>& observer) const;
  [[nodiscard]] const std::shared_ptr<detail::CommunicatorState>& state() const noexcept { return state_; }

 private:
  std::shared_ptr<detail::CommunicatorState> state_;
};

/// The delivered update, sorted by index, the same on every rank. The plan owns it; it is valid until the plan's next start or
/// reset.
template <class T>
struct SparseView {
  std::span<const std::uint32_t> indices;
  std::span<const T> values;  ///< divided by the number of ranks if `average` is set
};

/// A call in flight. It is a light handle, which must not outlive the plan or table that it comes from. The call goes on when the
/// handle is dropped, but it counts as in flight until this rank has waited for it. Until then the plan refuses its next start
/// (WEIR_ERR_BUSY), and so does every call that refuses while a run is in flight. Whether the run has finished makes no difference,
/// so that ranks that do the same are refused in the same way. Keep the handle, and wait, or test until it has finished.
///
/// Communication advances only inside Weir's calls: test and wait, of any operation of the communicator, advance everything in
/// flight on it. If the caller never tests, most of a run happens in its wait, and other ranks may wait for this one meanwhile.
///
/// With WEIR_PROGRESS_THREAD a thread of this rank advances everything while the caller computes. `weir info` says where it would
/// run; over MPI it needs MPI_THREAD_MULTIPLE. The thread does not touch callers' arrays, except those that dense algorithms
/// exchange in place. The next call of test or wait writes the dense result of a sparse run, and the vectors of a lookup. Runs in
/// CUDA memory advance only in calls, with or without the thread. Deadlines count only while the caller tests or waits. While a run
/// is in flight, what its plan or table reports, statistics above all, may come from the middle of the run.
///
/// Test or wait throws the error of a run, once. A run that broke off (timeout, transport error, lack of memory, any exception in
/// its middle) breaks its plan, whether the caller waits or not: later runs throw Error(WEIR_ERR_STATE). If only one rank breaks
/// off, the others are told and soon end with the same error.
class Operation {
 public:
  explicit Operation(std::shared_ptr<detail::AsynchronousCall> in_flight) : call_(std::move(in_flight)) {}
  /// Makes progress on everything in flight on the communicator. Returns true once this run has finished. Throws the error of the
  /// run, once.
  bool test();
  /// Drives everything in flight on the communicator until this run has finished. All ranks must wait for runs of different
  /// communicators in the same order.
  void wait();
  /// Waits for at most `seconds`, 0 or more, with at least one round of progress. Returns true once this run has finished. Meant
  /// for callers that look after something else while they wait, such as signals.
  bool wait_for(double seconds);

 private:
  std::shared_ptr<detail::AsynchronousCall> call_;
};

/// One tensor's allreduce. A plan has one run at a time. Many plans may be in flight at once, started in any order.
///
/// Who needs the gradient, and for how long:
/// - Sparse algorithms read it within start (or run). They write the dense result into it while a call of the communicator makes
///   progress. They never touch it once the operation has ended, however it ended. A plan's destructor does not touch it, so the
///   gradient may be destroyed before the plan.
/// - Dense algorithms, and the `dense_iterations` of sparse ones, exchange in place: the network reads and writes the gradient
///   until the run has finished. Declare the gradient before the plan, so that it outlives the plan. After a run that broke off it
///   must live until the process ends; the text of such an error says so. If an exception unwinds and destroys the gradient first,
///   the first destructor of a plan or table breaks off all runs of the communicator, which can do nothing more. With a progress
///   thread, the gradient must not be destroyed first, because the thread may be using it.
/// - While a run that writes its result into a gradient is in flight, starting another run on any part of that gradient is an error
///   on all ranks.
///
/// The delivered update is the same on every rank. With a residual, and decay and gain 1 (the defaults), nothing is lost, up to
/// rounding:
///
///   sum over ranks (gradient + old residual) = sum over ranks (new residual) + sum delivered
///
/// With dgc, velocities take the place of gradients.
class AllreducePlan {
 public:
  /// Collective. Allocates everything. Throws on all ranks if the ranks' configurations differ.
  AllreducePlan(const Communicator& comm, const AllreduceConfig& config);
  AllreducePlan(AllreducePlan&&) noexcept = default;
  AllreducePlan& operator=(AllreducePlan&&) noexcept = default;
  /// Not collective, unless the plan outlives the last copy of its communicator (see there). Finishes a run in flight, since the
  /// other ranks wait for it. A sparse algorithm then no longer writes its dense result; a dense one still does, unless an
  /// exception unwinds.
  ~AllreducePlan() = default;

  /// Collective, blocking. Overwrites `gradient` with the update. It has `count` elements of the plan's type, aligned to the type.
  void run(std::span<float> gradient);
  void run(std::span<double> gradient);
  /// Collective, blocking. Only reads `gradient`; sparse_result() has the update. Needs a sparse algorithm, and not ef21.
  void run_sparse(std::span<const float> gradient);
  void run_sparse(std::span<const double> gradient);

  /// Collective, nonblocking. Selects here, and communicates in test and wait. Leave `gradient` alone until the operation has
  /// finished.
  [[nodiscard]] Operation start(std::span<float> gradient);
  [[nodiscard]] Operation start(std::span<double> gradient);
  [[nodiscard]] Operation start_sparse(std::span<const float> gradient);
  [[nodiscard]] Operation start_sparse(std::span<const double> gradient);
  /// Does the same on raw memory of the plan's type, in the plan's memory space. Give either `dense`, which is overwritten, or
  /// `sparse_only`, which is read. `stream`, a cudaStream_t, is for plans in CUDA memory: the run comes after the work that is on
  /// the stream, and work put onto the stream after the operation has finished sees the result. The host does not wait for the
  /// stream.
  [[nodiscard]] Operation start_raw(void* dense, const void* sparse_only, std::int64_t count, void* stream = nullptr);
  /// Does the same as run, run_sparse, start and start_sparse above, for plans in CUDA memory. `gradient` has `count` elements of
  /// the plan's type on the plan's GPU.
  void run(void* gradient, void* stream);
  void run_sparse(const void* gradient, void* stream);
  [[nodiscard]] Operation start(void* gradient, void* stream);
  [[nodiscard]] Operation start_sparse(const void* gradient, void* stream);

  /// Returns the update of the last finished run, in the plan's memory space; in CUDA memory, it is there once the run's stream has
  /// got there. Empty for dense and packed algorithms. Throws Error(WEIR_ERR_BUSY) while a run is in flight.
  template <class T>
  [[nodiscard]] SparseView<T> sparse_result() const;

  /// Returns what the last run did on this rank.
  [[nodiscard]] const Statistics& statistics() const;
  /// Returns how many of this plan's runs did what `name` says, such as "recut", on this rank since the plan was made, reset or
  /// restored; 0 for what only other algorithms count. AlgorithmInfo::counters lists the names of an algorithm, and `weir info
  /// --algorithms` says what they mean. Throws Error(WEIR_ERR_ARGUMENT) for a name that no algorithm has.
  [[nodiscard]] std::int64_t counter(std::string_view name) const;
  /// Returns what error feedback keeps on this rank, in the plan's memory space; empty without error feedback. Has all `count`
  /// elements. With algorithms that shard within nodes (hitopk, hi_oktopk, packed_reduce_scatter), has the elements of this rank's
  /// shard, from residual_begin() on, and is empty on ranks that own no shard. Throws Error(WEIR_ERR_BUSY) while a run is in
  /// flight.
  template <class T>
  [[nodiscard]] std::span<const T> residual() const;
  /// Returns the index of the residual's first element; not 0 only with algorithms that shard within nodes.
  [[nodiscard]] std::int64_t residual_begin() const;
  /// Returns the configuration in force. With automatic choice, `algorithm`, `wire_format` and `wire_values` are the present
  /// choice. `algorithm_parameters` and `compressor_parameters` have all parameters, including those that were not given.
  /// `compressor` has its name, even if the field was empty; `error_feedback` has what automatic stands for. `k` and `threads` stay
  /// as given, as do schedule=automatic and radix=0.
  [[nodiscard]] const AllreduceConfig& config() const;
  /// Returns, as text, why the plan uses this algorithm. With automatic choice, the text has a table of the predictions; trials may
  /// have chosen another algorithm than the first of them: see config().
  [[nodiscard]] const std::string& explanation() const;
  /// Returns the number of bytes that this plan holds, besides the caller's gradient.
  [[nodiscard]] std::int64_t memory_bytes() const;
  /// Returns the number of bytes that save_state writes at present. Throws Error(WEIR_ERR_BUSY) while a run is in flight, as do the
  /// next two.
  [[nodiscard]] std::int64_t state_bytes() const;
  /// Writes what lives from one iteration to the next (residual, thresholds, boundaries, iteration count) into `state`, host memory
  /// of exactly state_bytes() bytes. Each rank saves its own state. All ranks must be at the same iteration.
  void save_state(std::span<std::byte> state) const;
  /// Continues where the plan that saved `state` left off. That plan had the same count, type, algorithm, compressor with its
  /// parameters, and error_feedback, on the same rank and with the same number of ranks. Other fields may differ; those of this
  /// plan are in force. Throws Error(WEIR_ERR_ARGUMENT), naming the field, if the state is damaged or does not fit; the plan is
  /// then as it was. Sends nothing: the caller sees to it that all ranks restore the same iteration, or none.
  void restore_state(std::span<const std::byte> state);
  /// Forgets residual, thresholds, boundaries and iteration count. Sends nothing, but every rank must call it before the same run.
  /// If only some ranks reset their plans, the ranks disagree about that run, which may end in a transport error.
  void reset();
  /// Says that gradients will be `factor` times what they have been, for example because a loss scale changes. Multiplies residual,
  /// momentum, EF21's states and thresholds by `factor`; a value beyond the range of the type becomes its largest finite value.
  /// With a power of two and no value beyond the range, later results have the same bits as if gradients had been of the new size
  /// from the start. Sends nothing, but every rank must call it before the same run, with the same factor. Throws
  /// Error(WEIR_ERR_ARGUMENT) if the factor is not positive and finite in the type, and Error(WEIR_ERR_BUSY) while a run is in
  /// flight.
  void scale_residual(double factor);
  /// Returns the largest number of bytes that one encode() writes. Throws Error(WEIR_ERR_STATE) if the plan cannot encode. To
  /// encode, the algorithm must be sparse or packed and be flat (or run so), the type float32, the memory host, error_feedback not
  /// ef21 and dense_iterations 0, and automatic choice must have decided.
  [[nodiscard]] std::int64_t encoded_bytes() const;
  /// Not collective. Meant for callers that move the bytes themselves. Compresses `gradient` as this rank's next run would, and
  /// writes it to `out`, which has room for encoded_bytes(). What it writes is self-describing and has a checksum. Returns the
  /// number of bytes. weir::decode() reads them anywhere; the caller sums over ranks.
  ///
  /// Counts as a run that delivered everything: residual, momentum, schedules and random numbers move on. Under NonFinite::skip, a
  /// gradient with NaN or infinity is encoded as zeros; under error, it throws Error(WEIR_ERR_NON_FINITE), and the residual is as
  /// before up to rounding. Throws Error(WEIR_ERR_BUSY) while a run is in flight, and Error(WEIR_ERR_ARGUMENT) for another count or
  /// too little room; nothing moves on then. Allocates on its first call only.
  std::int64_t encode(std::span<const float> gradient, std::span<std::byte> out);
  [[nodiscard]] const std::shared_ptr<detail::PlanImpl>& state() const noexcept { return *state_; }

 private:
  detail::Owner<detail::PlanImpl> state_;
};

/// Returns what the bytes that AllreducePlan::encode() wrote say of themselves. `encoded` holds exactly these bytes, unchanged.
/// Throws Error(WEIR_ERR_ARGUMENT) if they are truncated, damaged, of another version, or nothing that encode() writes. Needs no
/// plan and no communicator. Any thread may call it, also at the same time as others.
[[nodiscard]] EncodedInfo inspect(std::span<const std::byte> encoded);
/// Does the same, and writes to `values` the part of the gradient that was delivered, undivided; with `add`, adds it to them.
/// `values` has as many elements as the gradient had. Also throws Error(WEIR_ERR_ARGUMENT) if the payload makes no sense or this
/// library does not know the compressor. `values` is then as it was with `add`, and undefined without.
EncodedInfo decode(std::span<const std::byte> encoded, std::span<float> values, bool add = false);

/// Returns every algorithm that an AllreduceConfig may name.
[[nodiscard]] std::vector<AlgorithmInfo> algorithms();

/// Returns every compressor that an AllreduceConfig may name, besides "none".
[[nodiscard]] std::vector<CompressorInfo> compressors();

/// Returns every WEIR_* environment variable.
[[nodiscard]] std::vector<SettingInfo> settings();

}  // namespace weir
#pragma GCC visibility pop

#endif
