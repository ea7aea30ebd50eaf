#include "sums/sparse_sum.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/config_check.hpp"
#include "base/log.hpp"
#include "collectives/allgatherv.hpp"
#include "collectives/control.hpp"
#include "communicator/agreed_outcome.hpp"
#include "communicator/config_card.hpp"
#include "communicator/input_error.hpp"
#include "sums/entry_code.hpp"
#include "sums/node_lists.hpp"
#include "sums/sum_memory.hpp"

namespace weir::detail {

using namespace weir::sums;

namespace {

/// What a rank says of its run in the first control message.
struct SumCard {
  std::int64_t entries = 0, blocks = 0;
  std::int32_t failed = 0;
  std::int16_t scatters = 0;
  std::int16_t shown = 0;  ///< its entries are in shared memory
};
static_assert(sizeof(SumCard) == card_bytes);

/// Returns for how many entries of a rank a node has shared memory.
std::int64_t shown_entries(const SparseSumConfig& config) {
  constexpr std::int64_t usual = 4096, most = std::int64_t{1} << 40;
  return config.expected_entries > 0 ? std::min(config.expected_entries, most) : std::min(usual, config.count);
}

/// Returns how many elements of an array are not zero.
template <class T>
std::int64_t count_nonzeros(const T* array, std::int64_t count) {
  std::int64_t nonzeros = 0;
  for (std::int64_t i = 0; i < count; ++i) nonzeros += array[i] != 0;
  return nonzeros;
}

template <class T>
class TypedSum final : public SparseSumImpl {
 public:
  TypedSum(const std::shared_ptr<CommunicatorState>& communicator, const SparseSumConfig& configuration, Lease lease)
      : SparseSumImpl(communicator, configuration, std::move(lease)),
        row_(find_sum(config.algorithm)),
        arithmetic_(make_arithmetic<T>(config.operation)),
        machine_(comm->agreed_machine().machine),
        places_(make_problem(comm->topology, 0, 0)),
        owner_(fmt::format("sum '{}', rank {}", config.name, comm->topology.rank())),
        memory_(comm->topology.size(), owner_),
        cards_(static_cast<std::size_t>(comm->topology.size())),
        card_scratch_(cards_.size()),
        counts_(cards_.size()),
        list_(config.expected_entries),
        spare_(config.expected_entries) {
    run.element_type = name_of(config.type);
    run.count = config.count;
    const bool keeps = arithmetic_->keeps_terms;
    const std::int64_t most = keeps ? config.expected_entries : std::min(config.expected_entries, config.count);
    const int ranks = comm->topology.size();
    if (const SharedMemory memory = leased_memory())
      node_.emplace(memory, shown_entries(config), config.count, comm->topology, card_bytes);
    SumProblem expected{ranks, config.count, ranks * most, most, sizeof(T), false, keeps};
    if (node_ && most <= node_->capacity()) expected.per_node = static_cast<int>(comm->topology.node_peers().size());
    if (ranks == 1) return;
    memory_.reserve(choice_for(expected).row->need(expected));
    if (node_ && comm->topology.node_count() > 1) make_across(comm->topology);
  }

  void start(const SumInput& mine, const SumOutput& output, bool scatters) override {
    check_startable();
    result_ = own_ = {};
    scatters_ = scatters;
    output_ = {};
    run.result = {};
    arithmetic_->overflow = Arithmetic<T>::none;
    outcome_ = named_outcome(owner_, [&] {
      check_output(output);
      take(mine);
      output_ = output;
      run.result = {static_cast<const std::byte*>(output.dense), static_cast<std::size_t>(output.count) * sizeof(T)};
    });
    run.algorithm = row_ != nullptr ? row_->name : "auto";
    launch([&] { return execute(); });
  }

  void refuse(std::string_view why) override {
    check_startable();
    result_ = own_ = {};
    output_ = {};
    run.result = {};
    outcome_ = {};
    outcome_.set_formatted(WEIR_ERR_ARGUMENT, "sum '{}', rank {}: {}", config.name, comm->topology.rank(), why);
    launch([&] { return execute(); });
  }

  [[nodiscard]] RawView result() const override { return {result_.indices, result_.values, result_.count}; }

  [[nodiscard]] std::int64_t memory_bytes() const override {
    return list_.bytes() + spare_.bytes() + memory_.bytes() + (across_memory_ ? across_memory_->bytes() : 0) +
           std::ssize(node_message_) + std::ssize(node_messages_) + std::ssize(node_messages_scratch_);
  }

 private:
  [[nodiscard]] int rank() const { return comm->topology.rank(); }

  void check_output(const SumOutput& output) {
    const std::int64_t count = scatters_ ? range_begin(rank() + 1) - range_begin(rank()) : config.count;
    if (output.dense == nullptr && output.count == 0) {
      require(!output.adds || count == 0, "sum '{}', rank {}: adds is set, and there is no output to add to", config.name, rank());
      return;
    }
    require(output.type == config.type, "sum '{}', rank {}: the output is an array of {}: it must be of {}", config.name, rank(),
            name_of(output.type), name_of(config.type));
    require(output.count == count, "sum '{}', rank {}: the output has {} elements: it must have {}", config.name, rank(),
            output.count, count);
    check_array(output.dense, output.count, sizeof(T), "output");
    if (comm->engine.will_write({static_cast<const std::byte*>(output.dense), static_cast<std::size_t>(count) * sizeof(T)}))
      fail(WEIR_ERR_ARGUMENT, "sum '{}', rank {}: another run in flight will write to the output: wait for it first", config.name,
           rank());
  }

  void check_array(const void* array, std::int64_t count, std::size_t alignment, std::string_view what) {
    require(count >= 0, "sum '{}', rank {}: the number of elements of the {} is {}: it must be at least 0", config.name, rank(),
            what, count);
    if (count == 0) return;
    require(array != nullptr, "sum '{}', rank {}: the address of the {} is null", config.name, rank(), what);
    require(reinterpret_cast<std::uintptr_t>(array) % alignment == 0,
            "sum '{}', rank {}: the address of the {} is not a multiple of {}", config.name, rank(), what, alignment);
    require(pointers_.error_of(array, nullptr) == InputError::none,
            "sum '{}', rank {}: the {} is in GPU memory: copy it to host memory first", config.name, rank(), what);
  }

  /// Makes a list of what the caller gives: own_. It is in shared memory if it needs no sorting and there is room for it.
  void take(const SumInput& mine) {
    require(mine.type == config.type, "sum '{}', rank {}: the values are of type {}: they must be of type {}", config.name, rank(),
            name_of(mine.type), name_of(config.type));
    check_array(mine.values, mine.count, sizeof(T), "values");
    require(mine.index_bytes != 0 || mine.indices == nullptr,
            "sum '{}', rank {}: there are indices, and their size is 0 bytes: give 4 or 8", config.name, rank());
    if (mine.index_bytes == 0) return take_dense(static_cast<const T*>(mine.values), mine.count);
    require(mine.index_count == mine.count, "sum '{}', rank {}: there are {} indices and {} values: give as many of each",
            config.name, rank(), mine.index_count, mine.count);
    require(mine.index_bytes == 4 || mine.index_bytes == 8, "sum '{}', rank {}: indices of {} bytes: they must have 4 or 8",
            config.name, rank(), mine.index_bytes);
    check_array(mine.indices, mine.count, static_cast<std::size_t>(mine.index_bytes), "indices");
    const bool shown = node_ && node_->goes_to_next(mine.count);
    if (!shown && mine.count > 0) make_room(mine.count);
    const EntryPlace<T> to = shown ? node_->next() : list_.place();
    const bool ascending = mine.index_bytes == 4
                               ? copy_indices(static_cast<const std::int32_t*>(mine.indices), mine.count, to.indices)
                               : copy_indices(static_cast<const std::int64_t*>(mine.indices), mine.count, to.indices);
    if (mine.count > 0) std::memmove(to.values, mine.values, static_cast<std::size_t>(mine.count) * sizeof(T));
    own_ = to.first(mine.count);
    if (ascending) return;
    if (shown) {
      make_room(own_.count);
      list_.place().write(own_);
    }
    if (sort_entries(list_, spare_, mine.count, config.count)) std::swap(list_, spare_);
    own_ = list_.first(arithmetic_->fold(list_.indices.data(), list_.values.data(), mine.count));
    own_blocks_ = count_blocks(own_.indices, own_.count);
    check_overflow();
  }

  /// Makes a list of the elements that are not 0, chunk by chunk: a chunk is still in the cache when its entries are copied.
  void take_dense(const T* array, std::int64_t count) {
    require(count == config.count, "sum '{}', rank {}: the dense input has {} elements: it must have {}", config.name, rank(),
            count, config.count);
    constexpr std::int64_t chunk = 4096;
    for (std::int64_t begin = 0; begin < count; begin += chunk) {
      const std::int64_t size = std::min(chunk, count - begin), nonzeros = count_nonzeros(array + begin, size);
      if (nonzeros == 0) continue;
      if (own_.count + nonzeros > list_.capacity()) make_room(own_.count + count_nonzeros(array + begin, count - begin));
      std::int64_t entries = own_.count;
      const std::int64_t end = entries + nonzeros;
      for (std::int64_t i = begin; entries < end; ++i) {
        list_.indices[entries] = i;
        list_.values[entries] = array[i];
        entries += array[i] != 0;
      }
      own_ = list_.first(end);
    }
    own_blocks_ = count_blocks(own_.indices, own_.count);
  }

  /// Copies indices, and counts their blocks if they ascend, none twice. Returns whether they do.
  template <class Index>
  bool copy_indices(const Index* indices, std::int64_t count, std::int64_t* to) {
    using Unsigned = std::make_unsigned_t<Index>;
    constexpr std::int64_t chunk = 64;  // loops of a known length are vectorised
    const auto limit = static_cast<Unsigned>(
        std::min(static_cast<std::uint64_t>(config.count), std::uint64_t{1} << std::numeric_limits<Index>::digits));
    Unsigned outside = 0, descents = 0;
    std::int64_t blocks = 0;
    const auto copy = [&](std::int64_t begin, std::int64_t length) {
      Unsigned new_blocks = 0;
      for (std::int64_t i = begin; i < begin + length; ++i) {
        const Index index = indices[i], previous = indices[i - 1];
        outside |= static_cast<Unsigned>(static_cast<Unsigned>(index) >= limit);
        descents |= static_cast<Unsigned>(index <= previous);
        new_blocks += static_cast<Unsigned>(static_cast<Unsigned>(index ^ previous) >= Unsigned{block_elements});
        to[i] = index;
      }
      blocks += static_cast<std::int64_t>(new_blocks);
    };
    std::int64_t i = 0;
    if (count > 0) {
      outside = static_cast<Unsigned>(indices[0]) >= limit ? 1 : 0;
      blocks = 1;
      to[0] = indices[0];
      i = 1;
    }
    for (; i + chunk <= count; i += chunk) copy(i, chunk);
    copy(i, count - i);
    if (outside != 0) refuse_index(indices, count);
    own_blocks_ = blocks;
    return descents == 0;
  }

  /// Throws an error that names the first index out of range.
  template <class Index>
  [[noreturn]] void refuse_index(const Index* indices, std::int64_t count) const {
    const auto outside = [&](std::int64_t index) { return index < 0 || index >= config.count; };
    const std::int64_t i = std::find_if(indices, indices + count, outside) - indices;
    fail(WEIR_ERR_ARGUMENT, "sum '{}', rank {}: index {} of entry {} is out of range: indices are 0 to {}", config.name, rank(),
         indices[i], i, config.count - 1);
  }

  /// Makes list_ at least `entries` long. If it grows, own_ moves to its beginning.
  void make_room(std::int64_t entries) {
    if (entries <= list_.capacity()) return;
    EntryMemory<T> longer(entries), spare(entries);
    longer.place().write(own_);
    own_ = longer.first(own_.count);
    list_ = std::move(longer);
    spare_ = std::move(spare);
  }

  [[nodiscard]] SumChoices::Choice choice_for(const SumProblem& problem) {
    const bool is_fixed = row_ != nullptr && can_make(*row_, problem);
    if (is_fixed && row_->needs != Shown::nodes) return {row_, nullptr};
    SumChoices::Choice choice = choices_.choose(machine_, places_, problem);
    if (is_fixed) choice.row = row_;
    return choice;
  }
  /// Prepares sums across nodes of what nodes have summed.
  void make_across(const Topology& topology) {
    const std::size_t nodes = topology.local_rank_peers().size();
    across_memory_.emplace(static_cast<int>(nodes), owner_);
    across_.emplace(across_memory_->memory, *across_memory_, nodes);
    const std::size_t bytes = (topology.node_peers().size() + 1) * card_bytes + most_carried_bytes / nodes;
    node_message_.resize(bytes);
    node_messages_.resize(nodes * bytes);
    node_messages_scratch_.resize(nodes * bytes);
  }

  task<void> execute() {
    SumProblem problem{comm->topology.size(), config.count, 0, 0, sizeof(T), scatters_, arithmetic_->keeps_terms};
    const SumRow* row = nullptr;
    {
      const StageScope stage = channel().stage(Stage::communicate);
      co_await announce(problem);
      if (problem.ranks == 1) {
        result_ = own_;
        if (problem.keeps_terms) result_ = list_.first(arithmetic_->total(own_, list_.indices.data(), list_.values.data()));
      } else {
        const SumChoices::Choice choice = choice_for(problem);
        row = choice.row;
        memory_.use(channel());
        co_await grow_for(problem, *row);
        run.algorithm = row->name;
        SumRun<T> work{problem,
                       counts_,
                       own_,
                       arithmetic_.get(),
                       memory_.memory,
                       memory_,
                       node_ ? &*node_ : nullptr,
                       across_ ? &*across_ : nullptr};
        if (row->needs == Shown::nodes) {
          across_->row = across_->carried.first != nullptr ? &gather_sum_row : choice.across;
          across_memory_->use(channel().group(comm->topology.local_rank_peers()));
        } else if (across_) {
          across_->room = 0;
        }
        const SumFunction<T> function = std::get<SumFunction<T>>(row->run);
        result_ = co_await function(channel(), work);
      }
    }
    if (scatters_) result_ = result_.part(result_.lower_bound(range_begin(rank())), result_.lower_bound(range_begin(rank() + 1)));
    if (arithmetic_->checks) co_await check_additions();
    note(problem, row);
    if (output_.dense == nullptr) co_return;
    {
      const StageScope stage = channel().stage(Stage::wait_for_caller);
      co_await channel().caller();
    }
    const StageScope stage = channel().stage(Stage::apply);
    if (!run.owner_gone) deliver();
  }

  /// All ranks learn how many entries each of them has, and whether all calls are right. Throws on all if not.
  task<void> announce(SumProblem& problem) {
    const StageScope stage = channel().stage(Stage::announce);
    card_ = {own_.count, own_blocks_, outcome_.failed() ? 1 : 0, static_cast<std::int16_t>(scatters_ ? 1 : 0), 0};
    if (node_) {
      show_entries();
      co_await show_cards();
      if (across_) co_await exchange_cards_of_nodes(problem);
    } else {
      co_await allgather_control(channel(), reinterpret_cast<const std::byte*>(&card_), sizeof card_,
                                 reinterpret_cast<std::byte*>(cards_.data()), reinterpret_cast<std::byte*>(card_scratch_.data()));
    }
    problem.blocks = problem.largest_blocks = 0;
    for (std::size_t rank = 0; rank < cards_.size(); ++rank) {
      const SumCard& card = cards_[rank];
      if (card.failed != 0) co_await throw_outcome_of(channel(), static_cast<int>(rank), outcome_, agreement_);
      counts_[rank] = card.entries;
      problem.total += card.entries;
      problem.largest = std::max(problem.largest, card.entries);
      problem.blocks += card.blocks;
      problem.largest_blocks = std::max(problem.largest_blocks, card.blocks);
    }
    if (std::all_of(cards_.begin(), cards_.end(), [](const SumCard& card) { return card.shown != 0; }))
      problem.per_node = static_cast<int>(comm->topology.node_peers().size());
    for (std::size_t rank = 1; rank < cards_.size(); ++rank) {
      if (cards_[rank].scatters != cards_[0].scatters)
        fail_alike(WEIR_ERR_MISMATCH, "sum '{}': ranks started different runs: rank {} a reduce-scatter, rank {} not", config.name,
                   cards_[0].scatters != 0 ? 0 : rank, cards_[0].scatters != 0 ? rank : 0);
    }
  }

  /// Writes the entries to shared memory if there is room for them.
  void show_entries() {
    card_.shown = own_.count <= node_->capacity() ? 1 : 0;
    node_->show(card_.shown != 0 ? own_ : Entries<T>{});
    sync_shared_memory();
  }
  /// Exchanges the cards of the node in shared memory.
  task<void> show_cards() {
    *reinterpret_cast<SumCard*>(node_->cards.mine()) = card_;
    node_->cards.publish();
    const std::span<const int> node = comm->topology.node_peers();
    co_await channel().group(node).done(node_->cards);
    sync_shared_memory();
    for (std::size_t i = 0; i < node.size(); ++i) {
      const SumCard& card = node_->cards.template of<SumCard>(static_cast<int>(i));
      cards_[static_cast<std::size_t>(node[i])] = card;
      counts_[static_cast<std::size_t>(node[i])] = card.entries;
    }
  }
  /// Exchanges the cards of all nodes, the sizes of the slices that are merged by now, and slices that there is room for.
  task<void> exchange_cards_of_nodes(const SumProblem& problem) {
    const std::span<const int> node = comm->topology.node_peers();
    merge_first(problem);
    const std::int64_t cards_bytes = (std::ssize(node) + 1) * static_cast<std::int64_t>(card_bytes),
                       bytes = cards_bytes + across_->room;
    SumCard* const cards = reinterpret_cast<SumCard*>(node_message_.data());
    std::copy_n(&cards_[static_cast<std::size_t>(node[0])], node.size(), cards);
    cards[node.size()] = {across_->own_size[0], across_->own_size[1]};
    if (across_->slice && slice_bytes(across_->own_size[0]) <= across_->room)
      encode_entries(*across_->slice, 0, own_slice(), node_message_.data() + cards_bytes);
    co_await allgather_control(channel().group(comm->topology.local_rank_peers()), node_message_.data(), bytes,
                               node_messages_.data(), node_messages_scratch_.data());
    for (std::size_t i = 0; i < across_->sizes.size(); ++i) {
      const SumCard* const of_node = reinterpret_cast<const SumCard*>(node_messages_.data() + static_cast<std::int64_t>(i) * bytes);
      std::copy_n(of_node, node.size(), &cards_[i * node.size()]);
      across_->sizes[i] = {of_node[node.size()].entries, of_node[node.size()].blocks};
    }
    take_carried({node_messages_.data() + cards_bytes, bytes});
  }
  /// Notes whether all slices have come with the cards, and how much room the next ones get.
  void take_carried(const CarriedMessages& messages) {
    across_->carried = {};
    const std::int64_t had = std::exchange(across_->room, 0);
    if (!across_->knows_sizes()) return;
    std::int64_t largest = 0, total = 0;
    for (const auto& size : across_->sizes) {
      const std::int64_t bytes = slice_bytes(size[0]);
      largest = std::max(largest, bytes);
      total += bytes;
    }
    if (largest <= had) across_->carried = messages;
    across_->room = room_for_slices(largest, total, std::ssize(across_->sizes));
  }
  /// Returns how many elements this rank's slice has.
  [[nodiscard]] std::int64_t own_slice() const {
    const auto ranks = static_cast<int>(comm->topology.node_peers().size());
    return slice_begin(config.count, node_->rank() + 1, ranks) - slice_begin(config.count, node_->rank(), ranks);
  }
  [[nodiscard]] std::int64_t slice_bytes(std::int64_t entries) const { return message_bytes<T>(entries, own_slice()); }
  /// Merges this rank's slice of the node's lists if they are short and there is memory. All ranks of the node do, or none.
  void merge_first(const SumProblem& problem) {
    across_->slice.reset();
    across_->own_size = {-1, -1};
    if (problem.scatters || problem.keeps_terms) return;
    SumMemory<T>& memory = memory_.memory;
    std::int64_t total = 0;
    for (const int rank : comm->topology.node_peers()) {
      const SumCard& card = cards_[static_cast<std::size_t>(rank)];
      if (card.failed != 0 || card.shown == 0) return;
      total += card.entries;
    }
    if (total > std::min({entries_to_merge_first, memory.lists[0].capacity(), memory.lists[1].capacity()})) return;
    const SumRun<T> work{problem, counts_, own_, arithmetic_.get(), memory, memory_, &*node_, &*across_};
    across_->slice = merge_slice(work, comm->topology.node_peers());
    across_->own_size = {across_->slice->count, count_blocks(across_->slice->indices, across_->slice->count)};
  }

  /// Allocates what the run lacks. Logs once if lists are longer than promised.
  task<void> grow_for(const SumProblem& problem, const SumRow& row) {
    const SumNeed need = row.need(problem);
    const bool grows = !memory_.suffices(need);
    co_await memory_.grow(need);
    if (grows && across_) across_->slice.reset();  // it was in the memory before
    if (!grows || config.expected_entries == 0 || problem.largest <= config.expected_entries || logged_ || rank() != 0) co_return;
    logged_ = true;
    log(comm->settings.log, LogLevel::warn,
        "sum '{}': a rank gave {} entries, and expected_entries is {}: memory grows now; raise expected_entries to avoid it",
        config.name, problem.largest, config.expected_entries);
  }

  /// Throws on all ranks if an addition of any of them has overflowed, or would in the caller's array.
  task<void> check_additions() {
    const Entries<T> sum = std::exchange(result_, {});
    if (output_.adds && output_.dense != nullptr) {
      const StageScope stage = channel().stage(Stage::wait_for_caller);
      co_await channel().caller();
      if (!run.owner_gone) arithmetic_->check_add(sum, output_begin(), static_cast<const T*>(output_.dense));
    }
    const Outcome outcome = outcome_of([&] { check_overflow(); });
    co_await agree_on_outcome(channel(), outcome, agreement_);
    result_ = sum;
  }

  void check_overflow() const {
    require(arithmetic_->overflow == Arithmetic<T>::none,
            "sum '{}', rank {}: an addition at index {}, counted from 0, overflows {}: take {}", config.name, rank(),
            arithmetic_->overflow, name_of(config.type), sizeof(T) == 4 ? "int64" : "float64");
  }

  /// Returns the index of the first element of the caller's array.
  [[nodiscard]] std::int64_t output_begin() const { return scatters_ ? range_begin(rank()) : 0; }

  void deliver() {
    T* const dense = static_cast<T*>(output_.dense);
    const std::int64_t base = output_begin();
    if (output_.adds) return arithmetic_->add(result_, base, dense);
    std::fill_n(dense, output_.count, T{0});
    for (std::int64_t i = 0; i < result_.count; ++i) dense[result_.indices[i] - base] = result_.values[i];
  }

  void note(const SumProblem& problem, const SumRow* row) {
    const std::int64_t runs = statistics.runs + 1;
    statistics = {};
    statistics.runs = runs;
    statistics.algorithm = row != nullptr ? row->name : "none";
    statistics.entries = own_.count;
    statistics.entries_total = problem.total;
    statistics.entries_sum = result_.count;
    count_traffic(statistics);
    if (row == nullptr || row->needs != Shown::nodes || across_->carried.first == nullptr) return;
    // As allgather_control has passed the slices on, beginning with this rank's.
    const int nodes = comm->topology.node_count(), node = comm->topology.node_of(rank());
    const auto bytes_of = [&](int i) { return slice_bytes(across_->sizes[static_cast<std::size_t>((node + i) % nodes)][0]); };
    std::int64_t sent = 0, received = 0;
    for (int distance = 1; distance < nodes; distance *= 2) {
      for (int i = 0; i < std::min(distance, nodes - distance); ++i) {
        sent += bytes_of(i);
        received += bytes_of(distance + i);
      }
    }
    statistics.payload_bytes_sent += sent;
    statistics.payload_bytes_received += received;
    statistics.control_bytes_sent -= sent;
    statistics.control_bytes_received -= received;
  }

  const SumRow* row_;  // null: automatic
  std::unique_ptr<Arithmetic<T>> arithmetic_;
  Machine machine_;
  Problem places_;     // where the ranks are
  std::string owner_;  // for errors
  GrowingMemory<T> memory_;
  std::optional<NodeLists<T>> node_;  // empty: ranks exchange by messages
  std::optional<GrowingMemory<T>> across_memory_;
  std::optional<SumAcross<T>> across_;
  bool logged_ = false;
  HostPointers pointers_;
  // For one run:
  SumCard card_;
  std::vector<SumCard> cards_, card_scratch_;
  // the node's cards, a card of the slice, and room for the slice
  std::vector<std::byte> node_message_, node_messages_, node_messages_scratch_;
  std::vector<std::int64_t> counts_;
  EntryMemory<T> list_, spare_;
  Entries<T> own_;  // in list_ or in shared memory
  std::int64_t own_blocks_ = 0;
  bool scatters_ = false;
  SumOutput output_;
  Outcome outcome_;
  AgreementWords agreement_;
  Entries<T> result_;
  SumChoices choices_;
};

/// Takes memory of the node for the entries, if an algorithm may use it. `row` is the one that is wanted, null for automatic.
/// Collective. Throws on all ranks if it needs that memory, and the ranks are on several nodes.
void take_shared_memory(CommunicatorState& comm, const Lease& lease, const SparseSumConfig& config, const SumRow* row) {
  if (comm.topology.size() == 1 || (row != nullptr && row->needs == Shown::nothing)) return;
  if (row != nullptr && !has_place(*row, comm.topology))
    fail_alike(WEIR_ERR_ARGUMENT, "sum '{}': algorithm '{}' needs {}: auto takes another one", config.name, row->name,
               row->needs == Shown::node ? fmt::format("all ranks on one node, and they are on {}", comm.topology.node_count())
                                         : "2, 4, 8 or another power of two of consecutive ranks on each node");
  const int in_node = ranks_summed_in_nodes(comm.topology);
  if (in_node == 0 || !comm.settings.shared_memory) return;
  // Values have 8 bytes at most. Without room for them, ranks exchange by messages.
  static_cast<void>(comm.leases.add_memory(comm, lease, NodeLists<double>::memory_for(shown_entries(config), in_node, card_bytes)));
}

}  // namespace

SparseSumImpl::SparseSumImpl(std::shared_ptr<CommunicatorState> communicator, const SparseSumConfig& configuration, Lease lease)
    : AsynchronousCall(std::move(communicator), configuration.name, configuration.priority, lease.tag()),
      config(configuration),
      lease_(std::move(lease)) {}

std::int64_t SparseSumImpl::range_begin(int rank) const {
  require(rank >= 0 && rank <= comm->topology.size(), "sum '{}': there is no range {}: they are numbered 0 to {}", config.name,
          rank, comm->topology.size());
  return static_cast<std::int64_t>(part_begin(static_cast<std::uint64_t>(config.count), rank, comm->topology.size()));
}

std::shared_ptr<SparseSumImpl> make_sparse_sum(const std::shared_ptr<CommunicatorState>& comm, const SparseSumConfig& config) {
  ConfigCard card;
  const SumRow* row = nullptr;
  card.outcome = outcome_of([&] {
    check_fields(config);
    check_operation(config);
    row = find_sum(config.algorithm);
    card.set_texts({config.algorithm});
    set_fields(card, config);
  });
  Lease lease = open_agreed(*comm, card, {"sum", card_fields<SparseSumConfig>(), {"algorithm"}}, config.name);
  static_cast<void>(comm->agreed_machine());
  take_shared_memory(*comm, lease, config, row);
  std::shared_ptr<SparseSumImpl> made;
  comm->agree("making a sum", "sum", config.name, [&] {
    const auto make = [&]<class T>(T) { made = std::make_shared<TypedSum<T>>(comm, config, std::move(lease)); };
    switch (config.type) {
      case SumType::float32:
        return make(float{});
      case SumType::float64:
        return make(double{});
      case SumType::int32:
        return make(std::int32_t{});
      case SumType::int64:
        return make(std::int64_t{});
    }
  });
  return made;
}

}  // namespace weir::detail
