// allreduce.hpp: what an allreduce algorithm is, and the registry of all of them. One file and one row per algorithm.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <weir/weir.hpp>

#include "async/channel.hpp"
#include "async/task.hpp"
#include "base/scratch.hpp"
#include "base/threads.hpp"
#include "codec/wire.hpp"
#include "model/cost.hpp"

namespace weir {

class CompressedExchange;
class PackedCodec;
class StateVisitor;
class SwitchGroups;

/// A sorted sparse vector. Not owned.
template <class T>
struct SparseVector {
  const std::uint32_t* indices = nullptr;
  const T* values = nullptr;
  std::int64_t count = 0;
  [[nodiscard]] std::span<const std::uint32_t> index_span() const { return {indices, static_cast<std::size_t>(count)}; }
};

/// Those with begin <= index < end of sorted entries.
template <class T>
[[nodiscard]] SparseVector<T> entries_between(SparseVector<T> entries, std::int64_t begin, std::int64_t end) {
  const std::span<const std::uint32_t> indices = entries.index_span();
  const auto place = [&](std::int64_t element) {
    return std::lower_bound(indices.begin(), indices.end(), element,
                            [](std::uint32_t index, std::int64_t of) { return static_cast<std::int64_t>(index) < of; }) -
           indices.begin();
  };
  const std::int64_t first = place(begin), last = place(end);
  return {entries.indices + first, entries.values + first, last - first};
}

/// Moves the entries of `list` whose index is in `taken` to the front of (indices, values), which may be the list's own memory;
/// returns how many. Both sorted.
template <class T>
std::int64_t keep_taken(SparseVector<T> list, SparseVector<T> taken, std::uint32_t* indices, T* values) {
  std::int64_t kept = 0;
  for (std::int64_t i = 0, t = 0; i < list.count && t < taken.count;) {
    if (list.indices[i] == taken.indices[t]) {
      indices[kept] = list.indices[i];
      values[kept++] = list.values[i];
    }
    const bool next = list.indices[i] <= taken.indices[t], next_taken = taken.indices[t] <= list.indices[i];
    i += next;
    t += next_taken;
  }
  return kept;
}

/// The schedule of an exchange of at most `largest_k` entries.
struct ScheduleUpTo {
  std::int64_t largest_k = 0;
  ScheduleChoice choice{};
};

/// What an algorithm is built for; everything it needs to allocate once. For the exchange of an algorithm that shards within nodes,
/// this describes one shard and the ranks that own it.
struct AllreduceProblem {
  std::int64_t count = 0;          ///< n
  std::int64_t largest_k = 0;      ///< largest k of any iteration
  std::int64_t largest_local = 0;  ///< most entries a rank contributes in one iteration
  int ranks = 1;
  double divisor = 1;  ///< delivered values are divided by this
  int summed = 1;      ///< most gradients that a rank's contribution adds up
  int most_ranks = 0;  ///< where others run the same at the same time, and the sums of all meet later: the ranks of the largest
  AllreduceConfig config;
  const Topology* topology = nullptr;
  /// Of rows with `schedules`: ascending by k, up to largest_k; none: direct. All phased ones have the same radix.
  std::vector<ScheduleUpTo> schedules;
  int lane = -1;                                 ///< of the transport's allreduce, for those that need it
  std::shared_ptr<const SwitchGroups> switches;  ///< which the ranks form, for rows that go by them; none: the exchange is flat
  SharedMemory shared;               ///< of count elements, among the ranks of the node; none: they exchange by messages
  Threads threads;                   ///< that work on what is in host memory
  std::shared_ptr<Scratch> scratch;  ///< of the communicator; none: each algorithm has its own
  // Of plans in CUDA memory:
  void* stream = nullptr;  ///< cudaStream_t of the plan
  int device = 0;          ///< its GPU
  bool direct = false;     ///< the transport takes GPU memory

  /// Returns how contributions travel, or sums of those of `of_ranks` ranks.
  [[nodiscard]] wire::Wire wire(int of_ranks = 1) const {
    return {config.wire_format, config.wire_values, wire::halvings_of_sums(config.wire_values, of_ranks * summed)};
  }
  [[nodiscard]] wire::Wire wire_of_sums() const { return wire(std::max(ranks, most_ranks)); }
};

/// How a sparse exchange ended, the same on every rank but for `undelivered`.
template <class T>
struct SparseOutcome {
  std::uint64_t input_error = 0;  ///< the largest input error that any rank announced; not 0: nothing is delivered
  SparseVector<T> update;         ///< owned by the algorithm until its next run
  SparseVector<T> undelivered;    ///< part of the contributions at indices of the update that the update lacks (dropped on the way,
                                  ///< or lost in rounding), kept by this rank; in any order, undivided. Owned by the algorithm.
  std::span<const std::int64_t> undelivered_runs;  ///< of what is in CUDA memory: ends of the ascending runs of `undelivered`;
                                                   ///< none: it is one
  bool rethresholded = false;
  bool recut = false;
  bool balanced = false;
};

/// Most entries that an algorithm returns to a rank: two lists for each level of a tree over the ranks, and one.
[[nodiscard]] inline std::int64_t most_undelivered(const AllreduceProblem& problem) {
  const int levels = std::max(1, static_cast<int>(std::bit_width(static_cast<unsigned>(problem.ranks - 1))));
  return (2 * levels + 1) * problem.largest_local;
}

/// In place: `data` becomes the sum over all ranks divided by the divisor, bitwise the same on every rank.
template <class T>
class DenseAllreduce {
 public:
  virtual ~DenseAllreduce() = default;
  virtual task<void> run(Channel channel, T* data) = 0;
  /// False where an error, of this or something else, keeps this rank from running it: the ranks agree on that beforehand.
  [[nodiscard]] virtual bool usable() const { return true; }
  [[nodiscard]] virtual std::int64_t memory_bytes() const = 0;
};

/// Sums the ranks' sparse vectors and delivers the sum, or about k of its largest entries. `input_error` is this rank's own; every
/// rank learns the largest one. Values that are not `native` on the wire come rounded to what travels.
template <class T>
class SparseAllreduce {
 public:
  virtual ~SparseAllreduce() = default;
  virtual task<SparseOutcome<T>> run(Channel channel, SparseVector<T> local, std::int64_t k, std::uint64_t input_error) = 0;
  virtual void reset() = 0;
  /// Contributions will be `factor` times as large from the next run on.
  virtual void scale(double /*factor*/) {}
  /// All that reset() resets.
  virtual void visit_state(StateVisitor& visitor) = 0;
  [[nodiscard]] virtual std::int64_t memory_bytes() const = 0;
};

/// What exchanges the entries of a sparse algorithm in CUDA memory; several rows of the registry may share one.
enum class SparseExchange { staged, topk_allgather, topk_dsa, oktopk };  ///< staged: that of host memory, through pinned memory

/// One row of the registry. Either the dense or the sparse factories are set, or the packed one. What is dense in CUDA memory is
/// made by the plan, of NCCL's operations; the factories of such a row are for host memory, and it has none where it is not for
/// that.
///
/// A row that shards wraps its algorithm in the in-node steps of HiTopKComm (CommLib Algorithm 2, node_shards.hpp): dense
/// reduce-scatter in the node, then the algorithm on each shard among the ranks of equal local rank, then a sparse allgather in
/// the node; of a packed algorithm, a dense one.
struct AllreduceRow {
  template <class Algorithm>
  using Factory = std::unique_ptr<Algorithm> (*)(const AllreduceProblem&);

  std::string_view name;
  std::string_view description;
  CostFunction cost = nullptr;
  bool sharded = false;
  bool by_switch = false;                ///< the exchange goes by switch groups where the ranks form several (switch_groups.hpp)
  bool sums_in_nodes = false;            ///< dense, through memory that a node's ranks share where there is room; sharded ones, too
  bool schedules = false;                ///< runs by any of ExchangeSchedule
  bool delivers_all = false;             ///< the whole sum is delivered, not only about k entries of it
  bool needs_allreduce = false;          ///< of the transport; without one, dense_ring takes its place
  std::optional<Threshold> threshold{};  ///< the selection this algorithm is defined with, whatever the configuration says
  bool host_memory = true;               ///< takes gradients there
  bool cuda_memory = false;
  SparseExchange exchange = SparseExchange::staged;
  Factory<DenseAllreduce<float>> dense_float32 = nullptr;
  Factory<DenseAllreduce<double>> dense_float64 = nullptr;
  Factory<SparseAllreduce<float>> sparse_float32 = nullptr;
  Factory<SparseAllreduce<double>> sparse_float64 = nullptr;
  /// Sums what a codec makes of float32 values in host memory; of packed algorithms.
  std::unique_ptr<CompressedExchange> (*make_packed)(const AllreduceProblem&, std::unique_ptr<PackedCodec>) = nullptr;

  [[nodiscard]] bool sparse() const { return sparse_float32 != nullptr; }
  [[nodiscard]] bool packed() const { return make_packed != nullptr; }
  [[nodiscard]] bool dense() const { return !sparse() && !packed(); }
  [[nodiscard]] bool runs_in(MemorySpace memory) const { return memory == MemorySpace::host ? host_memory : cuda_memory; }
  /// Most entries of an update of `problem`.
  [[nodiscard]] std::int64_t largest_update(const AllreduceProblem& problem) const {
    return std::min(problem.count, problem.largest_local * (delivers_all ? problem.ranks : 1));
  }
  template <class T>
  [[nodiscard]] std::unique_ptr<DenseAllreduce<T>> make_dense(const AllreduceProblem& problem) const {
    if constexpr (sizeof(T) == 4)
      return dense_float32(problem);
    else
      return dense_float64(problem);
  }
  /// In host memory; make_sparse_cuda() is the same for CUDA memory.
  template <class T>
  [[nodiscard]] std::unique_ptr<SparseAllreduce<T>> make_sparse(const AllreduceProblem& problem) const {
    if constexpr (sizeof(T) == 4)
      return sparse_float32(problem);
    else
      return sparse_float64(problem);
  }
};

[[nodiscard]] std::span<const AllreduceRow> allreduce_registry();
/// Throws Error(WEIR_ERR_ARGUMENT) listing the known names.
[[nodiscard]] const AllreduceRow& find_allreduce(std::string_view name);

// One factory per algorithm file.
template <class T>
std::unique_ptr<DenseAllreduce<T>> make_dense_ring(const AllreduceProblem& problem);
template <class T>
std::unique_ptr<DenseAllreduce<T>> make_dense_rabenseifner(const AllreduceProblem& problem);
template <class T>
std::unique_ptr<DenseAllreduce<T>> make_dense_torus2d(const AllreduceProblem& problem);
template <class T>
std::unique_ptr<DenseAllreduce<T>> make_dense_mpi(const AllreduceProblem& problem);
template <class T>
std::unique_ptr<SparseAllreduce<T>> make_topk_allgather(const AllreduceProblem& problem);
template <class T>
std::unique_ptr<SparseAllreduce<T>> make_topk_dsa(const AllreduceProblem& problem);
template <class T>
std::unique_ptr<SparseAllreduce<T>> make_gtopk(const AllreduceProblem& problem);
template <class T>
std::unique_ptr<SparseAllreduce<T>> make_oktopk(const AllreduceProblem& problem);
std::unique_ptr<CompressedExchange> make_packed_allgather(const AllreduceProblem& problem, std::unique_ptr<PackedCodec> codec);
std::unique_ptr<CompressedExchange> make_packed_reduce_scatter(const AllreduceProblem& problem, std::unique_ptr<PackedCodec> codec);
/// oktopk, in two stages where the problem has switch groups.
template <class T>
std::unique_ptr<SparseAllreduce<T>> make_hi_oktopk(const AllreduceProblem& problem);

}  // namespace weir
