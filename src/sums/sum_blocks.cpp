#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "base/error.hpp"
#include "sums/region_sum.hpp"
#include "sums/stripes.hpp"

namespace weir::sums {
namespace {

/// A block of neighbouring elements, as it travels. Elements without entry have the value that changes no other.
template <class T>
struct Block {
  std::int64_t first;  ///< the index of its first element, a multiple of block_elements
  std::array<std::uint64_t, block_elements / 64> bits;
  std::array<T, block_elements> values;
};

std::int64_t block_bytes(std::int64_t value_size) { return 8 + block_elements / 8 + block_elements * value_size; }
static_assert(sizeof(Block<float>) == 8 + block_elements / 8 + block_elements * 4);
static_assert(sizeof(Block<double>) == 8 + block_elements / 8 + block_elements * 8);

/// Numbers of blocks that have entries: the most of a rank, and those of all ranks together. If they are not known, every entry has
/// a block of its own.
struct BlockCounts {
  explicit BlockCounts(const SumProblem& problem)
      : in_array(problem.count / block_elements + (problem.count % block_elements != 0)),
        largest(problem.blocks < 0 ? std::min(problem.largest, in_array) : problem.largest_blocks),
        total(problem.blocks < 0 ? std::min(problem.total, problem.ranks * in_array) : problem.blocks) {
    if (!problem.scatters) return;  // else ranges cut blocks
    largest = std::min(problem.largest, largest + problem.ranks - 1);
    total = std::min(problem.total, total + std::int64_t{problem.ranks} * (problem.ranks - 1));
  }
  std::int64_t in_array, largest, total;
};

/// Returns what a run needs in which ranks sum at most `part` blocks.
SumNeed need_for_part(const SumProblem& problem, std::int64_t part) {
  const BlockCounts blocks(problem);
  const std::int64_t bytes = block_bytes(problem.value_size), range = problem.count / problem.ranks + 1;
  const std::int64_t sums = problem.scatters ? part : std::min(blocks.in_array, blocks.total);
  return {{0, 0, problem.scatters ? std::min(range, problem.total) : problem.most_entries()},
          {std::max(blocks.largest, sums) * bytes, part * bytes}};
}

/// Sends blocks that have entries, whole, to the rank that sums them, and gathers the sums (OmniReduce, Fei et al. 2021). A hash
/// deals the blocks to ranks, so that clustered entries balance; a reduce-scatter takes contiguous ranges. Each rank sends at most
/// its own blocks, and those of the sum.
template <class T>
class BlockSum {
 public:
  static task<Entries<T>> run(Channel channel, SumRun<T>& run) {
    BlockSum sum(channel, run);
    co_return co_await sum.execute();
  }

 private:
  BlockSum(Channel channel, SumRun<T>& run)
      : channel_(channel),
        me_(channel.rank()),
        ranks_(channel.size()),
        run_(run),
        memory_(run.memory),
        stripes_(run.problem.count, channel.size(), block_bits) {}

  task<Entries<T>> execute() {
    // 1. how many blocks each rank has for each owner
    StageScope stage = channel_.stage(Stage::announce);
    if (run_.problem.scatters) uniform_boundaries(static_cast<std::uint64_t>(run_.problem.count), memory_.boundaries);
    std::fill(memory_.counts_out.begin(), memory_.counts_out.end(), 0);
    for_each_block([this](int owner, std::int64_t, std::int64_t) { ++memory_.counts_out[at(owner)]; });
    co_await memory_.exchange_counts(channel_);
    co_await grow_to_largest(channel_, run_, need_for_part);

    // 2. exchange and sum
    stage.next(Stage::split_reduce);
    fill_blocks();
    begin_lists(memory_.counts_in);
    co_await exchange_with_owners(
        channel_, memory_.requests,
        [this](int from) {
          const auto count = static_cast<std::size_t>(memory_.counts_in[at(from)]);
          return std::as_writable_bytes(std::span(blocks(1) + memory_.gathered[at(from)], count));
        },
        [this](int to) { return std::as_bytes(part(to)); });
    const std::span<const Block<T>> mine = part(me_);
    std::copy(mine.begin(), mine.end(), blocks(1) + memory_.gathered[at(me_)]);
    const std::int64_t sums = sum_own_part();
    if (run_.problem.scatters) {
      std::int64_t entries = 0;
      for (std::int64_t i = 0; i < sums; ++i) entries = extract(blocks(0)[i], entries);
      co_return memory_.lists[2].first(entries);
    }

    // 3. gather
    stage.next(Stage::global_sizes);
    co_await gather_counts(channel_, memory_, sums);
    stage.next(Stage::allgatherv);
    memory_.offset[0] = 0;
    for (int i = 0; i < ranks_; ++i)
      memory_.offset[at(i) + 1] = memory_.offset[at(i)] + memory_.gathered[at((me_ + i) % ranks_)] * block_size;
    if (memory_.offset.back() > memory_.messages[0].size()) fail_malformed();
    co_await gather_messages(channel_, memory_.offset, memory_.messages[0].data());
    co_return collected();
  }

  static constexpr auto block_size = static_cast<std::int64_t>(sizeof(Block<T>));
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  [[nodiscard]] Block<T>* blocks(std::size_t message) const {
    return reinterpret_cast<Block<T>*>(memory_.messages[message].data());
  }

  /// Calls visit(owner, begin, end) for entries [begin, end) of this rank that lie in one block of one owner.
  template <class Visit>
  void for_each_block(const Visit& visit) const {
    const Entries<T>& own = run_.own;
    int owner = 0;
    for (std::int64_t begin = 0, end = 0; begin < own.count; begin = end) {
      const std::int64_t index = own.indices[begin];
      std::int64_t last = index | (block_elements - 1);
      if (run_.problem.scatters) {
        const auto end_of = [&](int rank) { return static_cast<std::int64_t>(memory_.boundaries[at(rank) + 1]); };
        while (index >= end_of(owner)) ++owner;
        last = std::min(last, end_of(owner) - 1);
      } else {
        owner = stripes_.with_index(index).rank;
      }
      do ++end;
      while (end < own.count && own.indices[end] <= last);
      visit(owner, begin, end);
    }
  }

  /// Writes this rank's blocks into messages[0], in the order of their owners. Sets memory.begins to where those of each end.
  void fill_blocks() {
    std::int64_t count = 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      memory_.begins[at(rank)] = count;
      count += memory_.counts_out[at(rank)];
    }
    for_each_block([this](int owner, std::int64_t begin, std::int64_t end) {
      Block<T>& block = blocks(0)[memory_.begins[at(owner)]++];
      block.first = run_.own.indices[begin] & -block_elements;
      block.bits.fill(0);
      block.values.fill(run_.arithmetic->identity);
      for (std::int64_t i = begin; i < end; ++i) {
        const auto place = static_cast<std::size_t>(run_.own.indices[i] - block.first);
        block.values[place] = run_.own.values[i];
        block.bits[place / 64] |= std::uint64_t{1} << (place % 64);
      }
    });
  }
  /// Returns this rank's blocks that `rank` sums.
  [[nodiscard]] std::span<const Block<T>> part(int rank) const {
    const std::int64_t count = memory_.counts_out[at(rank)];
    return {blocks(0) + memory_.begins[at(rank)] - count, static_cast<std::size_t>(count)};
  }

  /// Sets memory.gathered to where the list of each rank begins in messages[1].
  void begin_lists(const std::vector<std::int64_t>& counts) {
    std::int64_t begin = 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      memory_.gathered[at(rank)] = begin;
      begin += counts[at(rank)];
    }
    if (begin * block_size > memory_.messages[1].size())
      fail(WEIR_ERR_INTERNAL, "a part of a sparse sum has {} blocks: at most {} were expected", begin,
           memory_.messages[1].size() / block_size);
  }

  /// Takes the block with the lowest index from every list that begins with it. Sets memory.heads[r] to that of rank r, or to null.
  /// The list of rank r has blocks begins[r] to counts_in[r]. Returns false if all lists are empty.
  bool take_heads(Block<T>* lists, std::int64_t& previous) {
    constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();
    std::int64_t first = none;
    for (int rank = 0; rank < ranks_; ++rank) {
      if (memory_.begins[at(rank)] < memory_.counts_in[at(rank)]) first = std::min(first, lists[memory_.begins[at(rank)]].first);
    }
    if (first == none) return false;
    if (first <= previous || first >= run_.problem.count || first % block_elements != 0) fail_malformed();
    previous = first;
    for (int rank = 0; rank < ranks_; ++rank) {
      std::int64_t& next = memory_.begins[at(rank)];
      const bool has = next < memory_.counts_in[at(rank)] && lists[next].first == first;
      memory_.heads[at(rank)] = has ? lists + next++ : nullptr;
    }
    return true;
  }
  [[nodiscard]] Block<T>* head(int rank) const { return static_cast<Block<T>*>(memory_.heads[at(rank)]); }
  [[noreturn]] static void fail_malformed() {
    fail(WEIR_ERR_TRANSPORT, "a message of a sparse sum is damaged: its blocks do not ascend");
  }

  /// Sums the blocks in messages[1] into messages[0]. Returns how many it has then.
  std::int64_t sum_own_part() {
    for (int rank = 0; rank < ranks_; ++rank) {
      memory_.begins[at(rank)] = memory_.gathered[at(rank)];
      memory_.counts_in[at(rank)] += memory_.gathered[at(rank)];
    }
    std::int64_t sums = 0;
    for (std::int64_t previous = -1; take_heads(blocks(1), previous);) {
      combine_in_order(ranks_, [this](int a, int b) {
        Block<T>* const lower = head(a);
        const Block<T>* const upper = head(b);
        if (lower == nullptr) memory_.heads[at(a)] = memory_.heads[at(b)];
        if (lower == nullptr || upper == nullptr) return;
        run_.arithmetic->combine(lower->values.data(), upper->values.data(), lower->values.data(), block_elements, lower->first);
        for (std::size_t word = 0; word < lower->bits.size(); ++word) lower->bits[word] |= upper->bits[word];
      });
      blocks(0)[sums++] = *head(0);
    }
    return sums;
  }

  /// Collects the entries of all blocks in messages[0], which were gathered.
  Entries<T> collected() {
    for (int rank = 0; rank < ranks_; ++rank) {
      memory_.begins[at(rank)] = memory_.offset[at((rank - me_ + ranks_) % ranks_)] / block_size;
      memory_.counts_in[at(rank)] = memory_.begins[at(rank)] + memory_.gathered[at(rank)];
    }
    std::int64_t entries = 0;
    for (std::int64_t previous = -1; take_heads(blocks(0), previous);) {
      for (int rank = 0; rank < ranks_; ++rank) {
        if (head(rank) != nullptr) entries = extract(*head(rank), entries);
      }
    }
    return memory_.lists[2].first(entries);
  }

  /// Appends the entries of a block to lists[2], which has `entries` so far. Returns how many it has then.
  std::int64_t extract(const Block<T>& block, std::int64_t entries) {
    EntryMemory<T>& to = memory_.lists[2];
    for (std::size_t word = 0; word < block.bits.size(); ++word) {
      const std::uint64_t bits = block.bits[word];
      if (bits == 0) continue;
      const std::int64_t first = block.first + static_cast<std::int64_t>(word) * 64;
      const T* const values = block.values.data() + word * 64;
      if (entries + std::popcount(bits) > to.capacity() || first + 63 - std::countl_zero(bits) >= run_.problem.count)
        fail_malformed();
      for (std::uint64_t left = bits; left != 0; left &= left - 1, ++entries) {
        const int place = std::countr_zero(left);
        to.indices[entries] = first + place;
        to.values[entries] = values[place];
      }
    }
    return entries;
  }

  Channel channel_;
  int me_, ranks_;
  SumRun<T>& run_;
  SumMemory<T>& memory_;
  Stripes stripes_;
};

/// Allows a quarter and a few blocks more than a rank's share. Memory grows if a rank gets more.
SumNeed need_of_blocks(const SumProblem& problem) {
  const std::int64_t total = BlockCounts(problem).total, share = total / problem.ranks;
  return need_for_part(problem, std::min(total, share + share / 4 + 4));
}

model::StepCost cost_of_blocks(const model::Setting& setting, const SumProblem& problem) {
  const model::Network& network = setting.network;
  const Rates rates = rates_of_sums(setting.machine);
  const BlockCounts counts(problem);
  const double ranks = problem.ranks, in_array = static_cast<double>(counts.in_array), total = static_cast<double>(counts.total);
  const double largest = static_cast<double>(counts.largest), bytes = static_cast<double>(block_bytes(problem.value_size));
  const double blocks = std::min(in_array, expected_union(total, problem.ranks, in_array));
  const double entries =
      std::min(blocks * static_cast<double>(block_elements),
               expected_union(static_cast<double>(problem.total), problem.ranks, static_cast<double>(problem.count)));

  model::StepCost cost = network.alltoall_control(setting.all, 8);
  cost += network.allreduce_control(setting.all, 8);
  cost += network.all_to_all(setting.all, largest / ranks * bytes, owners_window);
  // `fill` was measured with elements of 4 bytes.
  cost.seconds +=
      largest * bytes / 4 / rates.fill + static_cast<double>(problem.largest) / rates.encode + total / ranks * bytes / rates.add;
  if (problem.scatters) {
    cost.seconds += entries / ranks / rates.decode;
    return cost;
  }
  cost += network.allgather(setting.all, 8);
  cost += gather_blocks(setting, blocks / ranks * bytes);
  // The next block is the first one of any rank.
  cost.seconds += blocks * ranks / rates.merge + entries / rates.decode;
  return cost;
}

}  // namespace

extern const SumRow blocks_sum_row{.name = "blocks",
                                   .description = "sums whole blocks that have entries at one rank each, and gathers the sums",
                                   .cost = cost_of_blocks,
                                   .need = need_of_blocks,
                                   .run = sum_functions<BlockSum>};

}  // namespace weir::sums
