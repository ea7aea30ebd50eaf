// sum_row.hpp: what an algorithm of sparse sums is, what it works with, and what its row says.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

#include "async/channel.hpp"
#include "async/task.hpp"
#include "collectives/control.hpp"
#include "collectives/regions.hpp"
#include "communicator/agreed_outcome.hpp"
#include "model/stages.hpp"
#include "sums/arithmetic.hpp"
#include "sums/entries.hpp"

namespace weir::sums {

/// The algorithm `blocks` sends blocks of this many neighbours. The first index of a block is a multiple of it.
constexpr int block_bits = 8;
constexpr std::int64_t block_elements = std::int64_t{1} << block_bits;

constexpr std::size_t card_bytes = 24;  ///< what each rank says of its run in the first control message

/// A node with this many entries or fewer merges its ranks' slices before the first control message, which then says how many
/// entries they have. To merge them in vain takes less time than another message.
constexpr std::int64_t entries_to_merge_first = 8192;

/// Slices that are merged before the first control message travel in it, which saves log2 of the nodes messages, if the room for
/// those of all nodes is at most this many bytes.
constexpr std::int64_t most_carried_bytes = 32768;

/// Returns the room for the slice of each node, in bytes, if those of `nodes` nodes take `largest` at most and `total` together.
/// The next ones may be somewhat longer. Returns 0 if the padding would take longer than the messages that are saved.
[[nodiscard]] constexpr std::int64_t room_for_slices(std::int64_t largest, std::int64_t total, std::int64_t nodes) {
  constexpr std::int64_t slack = 128, most_padding = 8192;
  if (largest == 0) return 0;
  const std::int64_t room = (largest + largest / 8 + slack) / 8 * 8;
  return nodes * room <= std::min(most_carried_bytes, 2 * total + most_padding) ? room : 0;
}

/// A run, as all ranks know it after their first control message: choices that depend on it alone are the same on every rank.
struct SumProblem {
  int ranks = 1;
  std::int64_t count = 0;    ///< n
  std::int64_t total = 0;    ///< entries of all ranks together
  std::int64_t largest = 0;  ///< most entries of a rank
  std::int64_t value_size = 8;
  bool scatters = false;             ///< each rank needs only its own range
  bool keeps_terms = false;          ///< lists may have an index several times, and merge_parts sums them
  std::int64_t blocks = -1;          ///< blocks of all ranks together that have entries; -1: not known
  std::int64_t largest_blocks = -1;  ///< most of them of a rank
  int per_node = 0;  ///< ranks of a node, if each node has the lists of its ranks in shared memory; 0: they have not

  /// Returns the most entries that the result can have.
  [[nodiscard]] std::int64_t most_entries() const { return std::min(count, total); }
  [[nodiscard]] std::int64_t message_bytes(std::int64_t entries, std::int64_t messages) const;
};

/// What an algorithm needs of SumMemory: entries of lists, and bytes of messages.
struct SumNeed {
  std::array<std::int64_t, 3> entries{};
  std::array<std::int64_t, 2> bytes{};
};

/// The algorithm `dense` sums an array in this many pieces at most.
constexpr int most_pieces = 4;

/// The memory of a run. Its messages must outlive a run that breaks off.
template <class T>
struct SumMemory {
  explicit SumMemory(int ranks);

  /// Sends counts_out[r] to rank r. Sets counts_in[r] to what rank r has for this one.
  task<void> exchange_counts(Channel channel) { return counts.run(channel, counts_out.data(), counts_in.data()); }

  std::array<EntryMemory<T>, 3> lists;
  std::array<Buffer<std::byte>, 2> messages;
  // A few words for each rank:
  std::vector<std::int64_t> offset, counts_out, counts_in, begins, gathered, gathered_scratch, samples, samples_scratch;
  std::vector<std::pair<std::int64_t, std::int64_t>> weighted;  ///< samples with the number of entries that each stands for
  std::vector<void*> heads;                                     ///< blocks
  std::vector<Request> requests;
  ControlAlltoall<std::int64_t> counts;
  Boundaries boundaries;
  std::array<std::array<std::int64_t, 2>, most_pieces> pair_counts{};  ///< entries that two ranks exchange, of each piece
  std::uint64_t largest_region = 0, control_scratch = 0;
  struct Part {
    Entries<T> entries;
    int list = 0;  ///< where they are: in lists[0] or lists[1]
  };
  std::vector<Part> parts;
};

/// Grows the memory of a run.
class SumGrowth {
 public:
  /// Collective. Allocates what is lacking, on all ranks, or throws on all. `need` is the same on all ranks.
  virtual task<void> grow(SumNeed need) = 0;

 protected:
  ~SumGrowth() = default;
};

template <class T>
class NodeLists;
template <class T>
struct SumAcross;

/// Messages of all ranks that have come with their cards.
struct CarriedMessages {
  [[nodiscard]] const std::byte* of(int rank) const { return first + rank * stride; }

  const std::byte* first = nullptr;  ///< null: none have come
  std::int64_t stride = 0;
};

/// What an algorithm works with.
template <class T>
struct SumRun {
  SumProblem problem;
  std::span<const std::int64_t> counts;  ///< entries of each rank
  Entries<T> own;                        ///< those of this rank, valid while it runs
  Arithmetic<T>* arithmetic = nullptr;
  SumMemory<T>& memory;
  SumGrowth& growth;
  NodeLists<T>* node = nullptr;    ///< set if problem.per_node is
  SumAcross<T>* across = nullptr;  ///< set if the row needs Shown::nodes
  CarriedMessages carried{};       ///< for `gather`: the entries of all ranks
};

/// Samples that each rank gives of its indices, so that regions balance. Every rank sorts all of them, so more would cost more than
/// they gain.
constexpr int samples_of_rank = 64;

/// An algorithm returns the sum in the object's memory, or the part of it in this rank's range if it makes no more.
template <class T>
using SumFunction = task<Entries<T>> (*)(Channel, SumRun<T>&);

/// Which lists an algorithm reads in shared memory.
enum class Shown : std::uint8_t {
  nothing,
  node,  ///< those of all ranks, which are on one node
  nodes  ///< those of a rank's node; all nodes have 2^m consecutive ranks
};

struct SumRow {
  std::string_view name, description;
  /// Returns what a run costs after its first control message. `setting` says where the ranks are; its count and k do not matter.
  model::StepCost (*cost)(const model::Setting& setting, const SumProblem& problem);
  /// Returns what a run needs. Most algorithms never need more; those whose ranks each sum a part may grow further.
  SumNeed (*need)(const SumProblem& problem);
  /// Brings all entries of an index to one place before it combines any, and lets messages have an index several times.
  bool keeps_terms = false;
  Shown needs = Shown::nothing;
  std::tuple<SumFunction<float>, SumFunction<double>, SumFunction<std::int32_t>, SumFunction<std::int64_t>> run;
};

/// How the ranks with the same place in their nodes sum what their nodes have summed.
template <class T>
struct SumAcross {
  SumAcross(SumMemory<T>& memory_in, SumGrowth& growth_in, std::size_t ranks)
      : memory(memory_in), growth(growth_in), sizes(ranks), sizes_scratch(ranks), counts(ranks) {}

  /// Returns whether all of these ranks know how long the lists of all are.
  [[nodiscard]] bool knows_sizes() const {
    return std::all_of(sizes.begin(), sizes.end(), [](const auto& size) { return size[0] >= 0; });
  }

  const SumRow* row = nullptr;
  SumMemory<T>& memory;
  SumGrowth& growth;
  std::optional<Entries<T>> slice;         ///< this rank's, if it is merged before the run begins
  std::array<std::int64_t, 2> own_size{};  ///< entries and blocks of its slice
  /// The same of each of these ranks. -1: not merged yet
  std::vector<std::array<std::int64_t, 2>> sizes, sizes_scratch;
  std::vector<std::int64_t> counts;
  CarriedMessages carried;  ///< the slices of all of these ranks, as `gather` would send them
  std::int64_t room = 0;    ///< room_for_slices() of the last run, the same on all of these ranks
  detail::Outcome outcome;
  detail::AgreementWords agreement;
};

/// The row that takes carried messages.
extern const SumRow gather_sum_row;

/// Makes the functions of a row from a template that has them: Algorithm<T>::run.
template <template <class> class Algorithm>
constexpr auto sum_functions = std::make_tuple(&Algorithm<float>::run, &Algorithm<double>::run, &Algorithm<std::int32_t>::run,
                                               &Algorithm<std::int64_t>::run);

[[nodiscard]] std::span<const SumRow* const> sum_registry();
/// Throws Error(WEIR_ERR_ARGUMENT), listing the names, for a name that is neither a row's nor "auto".
const SumRow* find_sum(std::string_view name);
/// Throws Error(WEIR_ERR_ARGUMENT) if the operation does not go with the type, or with the algorithm, naming those that do.
void check_operation(const SparseSumConfig& config);
/// Returns whether nodes can sum first.
[[nodiscard]] inline bool has_nodes(const SumProblem& problem) { return problem.per_node > 1 && problem.per_node < problem.ranks; }
/// Returns whether the row can make the sum.
[[nodiscard]] inline bool can_make(const SumRow& row, const SumProblem& problem) {
  if (problem.keeps_terms && !row.keeps_terms) return false;
  if (row.needs == Shown::node) return problem.per_node == problem.ranks;
  return row.needs == Shown::nothing || (has_nodes(problem) && !problem.scatters);
}
/// Returns what a run costs by a row that can make the sum.
[[nodiscard]] model::StepCost cost_of_sum(const SumRow& row, const model::Setting& setting, const SumProblem& problem);
/// Returns the row that is predicted to end first. Costs are made of additions, multiplications and divisions alone, which give the
/// same bits on every processor, so that all ranks choose alike.
[[nodiscard]] const SumRow& choose_sum(const model::Setting& setting, const SumProblem& problem);

/// Chooses for the runs of one object, which differ in their numbers of entries and blocks, in `scatters` and in whether lists are
/// shown. Costs of all rows take as long as a small sum. So choices are remembered, and numbers that differ by less than an eighth
/// may be alike.
class SumChoices {
 public:
  struct Choice {
    const SumRow* row = nullptr;
    const SumRow* across = nullptr;  ///< sums across nodes what the nodes have summed, if they can sum first
  };
  /// Returns what choose_sum and choose_across return for numbers that are alike. Depends on the problem alone, not on what has
  /// been chosen before.
  [[nodiscard]] Choice choose(const Machine& machine, const Problem& places, const SumProblem& problem);

 private:
  struct Known {
    std::uint64_t key = 0;
    Choice choice;
  };
  std::array<Known, 64> known_;
};

// Parts of costs. Indices are taken as random.

/// Returns the machine's rates, those of merging and of messages for entries of sums.
[[nodiscard]] Rates rates_of_sums(const Machine& machine);
/// Returns the entries of a sum of `ranks` lists with `total` entries together.
[[nodiscard]] double expected_union(double total, int ranks, double count);
/// Returns the bytes of a message.
[[nodiscard]] double expected_bytes(double entries, double range, std::int64_t value_size);
/// Returns the cost of gathering a block of `bytes` from every rank, by allgatherv or, if blocks are long, by allgatherv_ring.
[[nodiscard]] model::StepCost gather_blocks(const model::Setting& setting, double bytes);
/// Returns the seconds of `gather` without its messages.
[[nodiscard]] double gather_seconds(const model::Setting& setting, const SumProblem& problem);
/// Returns the seconds of merge_parts with `entries` from every rank, all in the same `range`.
[[nodiscard]] double merge_seconds(const model::Setting& setting, const SumProblem& problem, double entries, double range);

/// Returns how many blocks have entries. The indices ascend.
[[nodiscard]] std::int64_t count_blocks(const std::int64_t* indices, std::int64_t count);

/// Returns the ranks of a node if all ranks are on one node, or if all nodes have 2^m consecutive ranks and m > 0, and 0 otherwise.
/// The order of additions then begins with those of a node.
[[nodiscard]] int ranks_summed_in_nodes(const Topology& topology);
/// Returns whether the ranks are on such nodes as the row needs.
[[nodiscard]] bool has_place(const SumRow& row, const Topology& topology);
/// Returns the row that sums across nodes what the nodes have summed. All ranks choose alike.
[[nodiscard]] const SumRow& choose_across(const model::Setting& setting, const SumProblem& problem);

/// Returns log2 P, rounded up.
[[nodiscard]] int steps_of(int ranks);

/// Combines the lists in memory.parts, in the order of combine_in_order, and terms that were kept. The list of rank r lies begin[r]
/// entries after the beginning of the list it is in, or anywhere else. Returns the sum, which is in lists[0], in lists[1], or where
/// it was.
template <class T>
[[nodiscard]] Entries<T> merge_parts(SumRun<T>& run, std::span<const std::int64_t> begin);

}  // namespace weir::sums
