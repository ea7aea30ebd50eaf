// allreduce.hpp: the interface of an allreduce algorithm, and the registry of all algorithms, with one file and one row each.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <weir/weir.hpp>

#include "async/channel.hpp"
#include "async/task.hpp"
#include "base/error_report.hpp"
#include "base/parameters.hpp"
#include "base/scratch.hpp"
#include "base/threads.hpp"
#include "codec/wire.hpp"
#include "collectives/error_agreement.hpp"
#include "model/cost.hpp"

namespace weir {

class CompressedExchange;
class PackedCodec;
class StateVisitor;

/// A sorted sparse vector. Not owned.
template <class T>
struct SparseVector {
  const std::uint32_t* indices = nullptr;
  const T* values = nullptr;
  std::int64_t count = 0;
  [[nodiscard]] std::span<const std::uint32_t> index_span() const { return {indices, static_cast<std::size_t>(count)}; }
};

/// Returns the sorted entries with begin <= index < end.
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

/// Moves the entries of `list` whose index is in `taken` to the front of (indices, values), which may be the list's own memory.
/// Returns their number. Both lists are sorted.
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

/// The exchange that an algorithm is made for, with everything it needs to allocate once. For an algorithm that shards within
/// nodes, it describes one shard and the ranks that own it.
struct ExchangeSpec {
  std::int64_t count = 0;             ///< n
  DataType type = DataType::float32;  ///< of the gradients
  MemorySpace memory = MemorySpace::host;
  std::int64_t final_k = 0;        ///< k of runs after all warm-up; for a shard, that of the whole
  std::int64_t largest_k = 0;      ///< largest k of any run
  std::int64_t largest_local = 0;  ///< most entries that a rank contributes in one run
  bool at_most_k = true;           ///< no rank contributes more than the k of the run
  std::int64_t reuse_period = 0;   ///< runs that share a threshold (Ok-Topk's tau'); 0: each run finds its own
  int ranks = 1;
  double divisor = 1;  ///< delivered values are divided by this
  int summed = 1;      ///< most gradients that are summed in a rank's contribution
  int most_ranks = 0;  ///< if others run the same at the same time and all sums meet later: the ranks of the largest group
  WireFormat wire_format = WireFormat::compact;
  WireValues wire_values = WireValues::native;
  Parameters parameters;  ///< those of the algorithm's row
  const Topology* topology = nullptr;
  const Machine* machine = nullptr;           ///< set if the row asks for costs; read only while the algorithm is made
  std::shared_ptr<const ExchangeSpec> whole;  ///< for a shard: what it is a shard of; otherwise null
  bool along_switches = false;       ///< the ranks are one per node: the exchange may go by switch groups (switch_groups.hpp)
  int lane = -1;                     ///< of the transport's allreduce, for algorithms that need it
  SharedMemory shared;               ///< what the row's NodeSums need, of a node's ranks; without it they exchange by messages
  SharedMemory node_memory;          ///< the row's shared_bytes() of each rank, if all are on one node and there is room
  Threads threads;                   ///< for work on host memory
  std::shared_ptr<Scratch> scratch;  ///< the communicator's; null: each algorithm has its own
  // For CUDA memory:
  void* stream = nullptr;  ///< cudaStream_t of the plan
  int device = 0;          ///< the plan's GPU
  bool direct = false;     ///< the transport accepts GPU memory

  /// Returns the wire format of contributions, or of sums of those of `of_ranks` ranks.
  [[nodiscard]] wire::Wire wire(int of_ranks = 1) const {
    return {wire_format, wire_values, wire::halvings_of_sums(wire_values, of_ranks * summed)};
  }
  [[nodiscard]] wire::Wire wire_of_sums() const { return wire(std::max(ranks, most_ranks)); }
};

/// How a sparse exchange ended. The same on every rank, except `undelivered`.
template <class T>
struct SparseOutcome {
  ErrorReport input_error;      ///< the largest that any rank announced; if set, nothing is delivered
  SparseVector<T> update;       ///< owned by the algorithm until its next run
  SparseVector<T> undelivered;  ///< what this rank gets back of contributions at indices of the update, dropped on the way
                                ///< or lost in rounding; in any order, undivided. Owned by the algorithm.
  std::span<const std::int64_t> undelivered_runs;  ///< in CUDA memory: the ends of the ascending runs of `undelivered`;
                                                   ///< empty for one run
  std::uint32_t counted = 0;                       ///< bit i: the run counts for counter i of the row
};

/// Returns the most entries that an algorithm hands back to a rank: two lists for each level of a tree over the ranks, and one.
[[nodiscard]] inline std::int64_t most_undelivered(const ExchangeSpec& spec) {
  const int levels = std::max(1, static_cast<int>(std::bit_width(static_cast<unsigned>(spec.ranks - 1))));
  return (2 * levels + 1) * spec.largest_local;
}

/// Describes how an algorithm runs.
struct Explanation {
  std::string how, why;  ///< such as "schedule: direct", "as asked for"; empty if there is only one way
};

/// Works in place: `data` becomes the sum over all ranks divided by the divisor, bitwise the same on every rank.
template <class T>
class DenseAllreduce {
 public:
  virtual ~DenseAllreduce() = default;
  virtual task<void> run(Channel channel, T* data) = 0;
  /// Runs unless some rank has an error, and returns the largest error of any rank. `mine` is this rank's own: with it, `data` may
  /// be anything.
  virtual task<ErrorReport> agree_and_run(Channel channel, T* data, ErrorReport mine) {
    const ErrorReport error = co_await agreement_.run(channel, mine);
    if (!error) co_await run(channel, data);
    co_return error;
  }
  /// Returns false if an error, of this or something else, keeps this rank from running it. Ranks agree on that before a run.
  [[nodiscard]] virtual bool usable() const { return true; }
  [[nodiscard]] virtual std::int64_t memory_bytes() const = 0;

 private:
  ErrorAgreement agreement_;
};

/// Sums the ranks' sparse vectors and delivers the sum, or about k of its largest entries. `input_error` is this rank's own; every
/// rank learns the largest one. Values that are not `native` on the wire must already be rounded to what travels.
template <class T>
class SparseAllreduce {
 public:
  virtual ~SparseAllreduce() = default;
  virtual task<SparseOutcome<T>> run(Channel channel, SparseVector<T> local, std::int64_t k, ErrorReport input_error) = 0;
  virtual void reset() = 0;
  /// Prepares for contributions that are `factor` times as large from the next run on.
  virtual void scale(double /*factor*/) {}
  /// Visits all that reset() resets.
  virtual void visit_state(StateVisitor& visitor) = 0;
  [[nodiscard]] virtual Explanation explanation() const { return {}; }
  /// Returns the memory of the entries that it takes and delivers.
  [[nodiscard]] virtual MemorySpace memory() const { return MemorySpace::host; }
  [[nodiscard]] virtual std::int64_t memory_bytes() const = 0;
};

/// The factories of an algorithm, for gradients of float32 and float64.
template <template <class T> class Algorithm>
struct Factories {
  std::unique_ptr<Algorithm<float>> (*float32)(const ExchangeSpec&) = nullptr;
  std::unique_ptr<Algorithm<double>> (*float64)(const ExchangeSpec&) = nullptr;

  template <class T>
  [[nodiscard]] std::unique_ptr<Algorithm<T>> make(const ExchangeSpec& spec) const {
    if constexpr (sizeof(T) == 4)
      return float32(spec);
    else
      return float64(spec);
  }
};

template <class Algorithm, class Class>
std::unique_ptr<Algorithm> make_algorithm(const ExchangeSpec& spec) {
  return std::make_unique<Class>(spec);
}
/// The factories of a class template for host memory.
template <template <class T> class Class>
inline constexpr Factories<DenseAllreduce> dense_in_host_memory{make_algorithm<DenseAllreduce<float>, Class<float>>,
                                                                make_algorithm<DenseAllreduce<double>, Class<double>>};
template <template <class T> class Class>
inline constexpr Factories<SparseAllreduce> sparse_in_host_memory{make_algorithm<SparseAllreduce<float>, Class<float>>,
                                                                  make_algorithm<SparseAllreduce<double>, Class<double>>};

/// Counts the runs in which an algorithm did something that it does not do in every run.
struct CounterInfo {
  std::string_view name, doc;
};

/// The counter that plans of all sparse algorithms have.
inline constexpr CounterInfo rethresholded{"rethresholded",
                                           "runs in which this rank computed a new threshold, with threshold = reuse"};

/// What ranks of a node sum in memory that they share, if there is room: nothing, all elements at once, as sharded algorithms do,
/// or block by block (node_pipeline.hpp).
enum class NodeSums : std::uint8_t { none, at_once, by_blocks };

/// One row of the registry, in the file of its algorithm. It has factories of one kind: dense, sparse or packed. Dense factories
/// are for host memory; in CUDA memory the plan builds dense algorithms from NCCL's operations.
///
/// A row that shards wraps its algorithm in the in-node steps of HiTopKComm (CommLib Algorithm 2, node_shards.hpp): a dense
/// reduce-scatter in the node, the algorithm on each shard among the ranks of equal local rank, and a sparse allgather in the node,
/// or a dense one for a packed algorithm.
struct AllreduceRow {
  std::string_view name;
  std::string_view description;
  CostFunction cost = nullptr;
  std::span<const ParameterInfo> parameters{};
  std::span<const CounterInfo> counters{};            ///< besides `rethresholded`; see for_each_counter()
  void (*check)(const ExchangeSpec&) = nullptr;       ///< throws if the parameters, within their ranges, do not suit the spec
  bool (*asks_costs)(const ExchangeSpec&) = nullptr;  ///< returns true if making it needs the spec's machine; null: never
  /// Returns the bytes of memory that each rank needs if all ranks are on one node and share it; null: none.
  std::int64_t (*shared_bytes)(const ExchangeSpec&) = nullptr;
  bool sharded = false;
  bool by_switch = false;        ///< the exchange goes by switch groups if the ranks form several (switch_groups.hpp)
  NodeSums in_nodes{};           ///< of a dense algorithm
  bool delivers_all = false;     ///< the whole sum is delivered, not only about k entries of it
  bool needs_allreduce = false;  ///< of the transport; dense_ring replaces the algorithm if the transport has none
  std::string_view threshold{};  ///< the selection method that defines the algorithm; empty: the configuration chooses
  bool host_memory = true;       ///< accepts gradients in host memory
  bool cuda_memory = false;
  Factories<DenseAllreduce> dense_factories{};
  /// For the memory of the spec, or for host memory only, see SparseAllreduce::memory(). Plans in CUDA memory stage the entries in
  /// the latter case.
  Factories<SparseAllreduce> sparse_factories{};
  /// Makes an exchange that sums a codec's messages of float32 values in the memory of the spec.
  std::unique_ptr<CompressedExchange> (*make_packed)(const ExchangeSpec&, std::unique_ptr<PackedCodec>) = nullptr;

  /// Throws Error(WEIR_ERR_ARGUMENT) if the spec's parameters do not suit the rest of it.
  void check_parameters(const ExchangeSpec& spec) const {
    if (check != nullptr) check(spec);
  }
  /// Returns true if making the algorithm needs the spec's `machine`.
  [[nodiscard]] bool asks_costs_for(const ExchangeSpec& spec) const { return asks_costs != nullptr && asks_costs(spec); }
  [[nodiscard]] bool sparse() const { return sparse_factories.float32 != nullptr; }
  [[nodiscard]] bool packed() const { return make_packed != nullptr; }
  [[nodiscard]] bool dense() const { return !sparse() && !packed(); }
  [[nodiscard]] bool runs_in(MemorySpace memory) const { return memory == MemorySpace::host ? host_memory : cuda_memory; }
  /// Calls body(const CounterInfo&) for each counter of this algorithm's plans.
  template <class Body>
  void for_each_counter(Body body) const {
    if (sparse() && threshold.empty()) body(rethresholded);
    for (const CounterInfo& counter : counters) body(counter);
  }
  /// Returns the most entries of an update of `spec`.
  [[nodiscard]] std::int64_t largest_update(const ExchangeSpec& spec) const {
    return std::min(spec.count, spec.largest_local * (delivers_all ? spec.ranks : 1));
  }
  template <class T>
  [[nodiscard]] std::unique_ptr<DenseAllreduce<T>> make_dense(const ExchangeSpec& spec) const {
    return dense_factories.make<T>(spec);
  }
  template <class T>
  [[nodiscard]] std::unique_ptr<SparseAllreduce<T>> make_sparse(const ExchangeSpec& spec) const {
    return sparse_factories.make<T>(spec);
  }
};

// The rows.
#define WEIR_ALGORITHM(name) extern const AllreduceRow name##_row;
#include "collectives/algorithms.def"
#undef WEIR_ALGORITHM

[[nodiscard]] std::span<const AllreduceRow> allreduce_registry();
/// Throws Error(WEIR_ERR_ARGUMENT) listing the known names.
[[nodiscard]] const AllreduceRow& find_allreduce(std::string_view name);
/// Returns true if the name is `auto` or `auto_sparse`.
[[nodiscard]] bool is_automatic(std::string_view algorithm);
/// Parses algorithm_parameters. Throws Error(WEIR_ERR_ARGUMENT).
[[nodiscard]] Parameters parameters_of(const AllreduceRow& row, std::string_view text);
/// Parses parameters for an algorithm that is chosen automatically. They may be those of any row. Returns those that `row` has.
/// Throws Error(WEIR_ERR_ARGUMENT).
[[nodiscard]] Parameters parameters_if_chosen(const AllreduceRow& row, std::string_view text);
/// Returns a text such as "oktopk window=8": the name of an algorithm, or of automatic choice, and the parameters that differ from
/// their defaults. Throws Error(WEIR_ERR_ARGUMENT).
[[nodiscard]] std::string algorithm_text(std::string_view algorithm, std::string_view parameters);
/// The parameter of algorithms in which every rank sends to every other.
inline constexpr ParameterInfo window_parameter{
    .name = "window", .value = 4, .least = 1, .most = 65536, .doc = "exchanges in flight while parts are sent to their owners"};

}  // namespace weir
