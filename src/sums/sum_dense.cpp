#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <span>

#include "base/error.hpp"
#include "sums/array_part.hpp"
#include "sums/region_sum.hpp"

namespace weir::sums {
namespace {

/// Returns the bytes of a block: the values of elements, then a bit for each, set where there is an entry.
std::int64_t block_bytes(std::int64_t value_size, std::int64_t elements) {
  return (elements * value_size + 7) / 8 * 8 + bit_words(elements) * 8;
}

/// Returns whether ranks halve the array. Only 2^m ranks then add in the order of combine_in_order.
bool is_halved(int ranks) { return std::has_single_bit(static_cast<unsigned>(ranks)); }

/// Returns the slot of a part's block. In a halved array it is the part's number with its bits reversed, so that parts with the
/// same low bits are neighbours.
int slot_of(int part, int ranks) {
  if (!is_halved(ranks)) return part;
  int slot = 0;
  for (int bit = 1; bit < ranks; bit *= 2) slot = 2 * slot + (part & bit ? 1 : 0);
  return slot;
}

/// Returns whether a message sends the values of its entries alone. Otherwise it sends all elements.
bool is_packed(double entries, double elements) { return 2 * entries < elements; }

/// Returns the entries that 2^m ranks of a sum have together, as costs expect it.
double expected_entries(const SumProblem& problem, int ranks) {
  return expected_union(static_cast<double>(problem.total) / problem.ranks * ranks, ranks, static_cast<double>(problem.count));
}
/// Returns whether messages of halves may be packed in the step to ranks at this distance. All ranks agree.
bool may_pack(const SumProblem& problem, int distance) {
  return is_packed(expected_entries(problem, distance), static_cast<double>(problem.count));
}

/// Returns in how many pieces a halved array is summed, so that ranks compute for some while messages of others are on their way.
int pieces_of(const SumProblem& problem) {
  constexpr std::int64_t piece_bytes = std::int64_t{512} << 10;
  if (problem.scatters || !is_halved(problem.ranks)) return 1;
  return static_cast<int>(std::clamp<std::int64_t>(problem.count * problem.value_size / piece_bytes, 1, most_pieces));
}

/// Returns the most elements of a rank's part of a piece.
std::int64_t part_elements(const SumProblem& problem) {
  const std::int64_t parts = std::int64_t{problem.ranks} * pieces_of(problem);
  return (problem.count + parts - 1) / parts;
}

/// Neighbouring slots of a piece.
struct Slots {
  int first = 0, count = 0;

  [[nodiscard]] int end() const { return first + count; }
  [[nodiscard]] Slots half(bool upper) const { return {upper ? first + count / 2 : first, count / 2}; }
  /// As many slots, 2^m, with which these were halves of the same.
  [[nodiscard]] Slots other() const { return {first ^ count, count}; }
  [[nodiscard]] Slots joined() const { return {std::min(first, other().first), 2 * count}; }
};

/// Exchanges whole arrays with a bit for each element. 2^m ranks halve the array in each step of the reduce-scatter, beginning with
/// neighbours, and double their part in each step of the allgather (Rabenseifner 2004). So most bytes stay in the node. A half with
/// few entries travels as their values and the bits (sparse sums that turn dense: SparCML, Renggli et al. 2019). Other numbers of
/// ranks send parts to their owners, and gather them around a ring. Each rank sends at most 2 n (P - 1) / P elements and as many
/// bits. Absent elements have the value that changes no other.
template <class T>
class DenseSum {
 public:
  static task<Entries<T>> run(Channel channel, SumRun<T>& run) {
    DenseSum dense(channel, run);
    if (is_halved(channel.size()))
      co_await dense.halve_and_double();
    else
      co_await dense.send_to_owners();
    co_return run.memory.lists[2].first(dense.listed_);
  }

 private:
  /// Some neighbouring elements, which are summed apart from others, in a part for each rank.
  struct Piece {
    std::int64_t begin = 0, end = 0;  ///< elements
    std::byte* blocks = nullptr;      ///< of all slots
    std::byte* theirs = nullptr;      ///< what comes from others
    std::int64_t* counts = nullptr;   ///< entries of the messages of a step: of what is sent, and of what is received
    Slots mine;                       ///< what this rank still has, or has already
    bool unpacks = false;             ///< the message that comes is packed
    std::int64_t listed = 0;          ///< where the next entry of the sum goes
    std::array<Request, 2> both{};    ///< a receive and a send
  };

  DenseSum(const Channel& channel, SumRun<T>& run)
      : channel_(channel),
        me_(channel.rank()),
        ranks_(channel.size()),
        steps_(steps_of(ranks_)),
        run_(run),
        block_(block_bytes(sizeof(T), part_elements(run.problem))),
        count_of_pieces_(pieces_of(run.problem)) {
    const int others = is_halved(ranks_) ? ranks_ / 2 : ranks_;
    for (int i = 0; i < count_of_pieces_; ++i) {
      Piece& piece = pieces_[at(i)];
      piece.begin = begin_of(run.problem.count, i, count_of_pieces_);
      piece.end = begin_of(run.problem.count, i + 1, count_of_pieces_);
      piece.blocks = run.memory.messages[0].data() + i * ranks_ * block_;
      piece.theirs = run.memory.messages[1].data() + i * others * block_;
      piece.counts = run.memory.pair_counts[at(i)].data();
      piece.mine = {0, ranks_};
    }
  }
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  static std::int64_t begin_of(std::int64_t count, int part, int parts) {
    return static_cast<std::int64_t>(part_begin(static_cast<std::uint64_t>(count), part, parts));
  }

  /// 2^m ranks. Each piece goes through the same moves, some moves behind the piece before it: so ranks compute for one piece while
  /// messages of others are on their way. All ranks move in the same order.
  task<void> halve_and_double() {
    StageScope stage = channel_.stage(Stage::reduce_scatter);
    while (packing_ < steps_ && may_pack(run_.problem, 1 << packing_)) ++packing_;
    const int behind = (2 * steps_ + 1) / 3;  // in simulations of 16 and 64 ranks, faster than less and than more
    for (int turn = 0; turn < end_of_moves() + behind * (count_of_pieces_ - 1); ++turn) {
      for (int i = 0; i < count_of_pieces_; ++i) {
        const int move = turn - behind * i;
        if (move < 0 || move >= end_of_moves()) continue;
        if (move > 0 && move <= first_listing()) {
          co_await channel_.done(pieces_[at(i)].both);
          arrive(pieces_[at(i)], move - 1);
        }
        if (move == first_doubling() && i == 0 && !run_.problem.scatters) stage.next(Stage::allgather);
        begin(pieces_[at(i)], move);
      }
    }
  }

  // The moves of a piece. The first steps of the halving may pack: each has a move that sends counts, and one that sends a half.
  // The other steps have one that sends a half. Then each step of the doubling has one. At last, the sum is listed, in as many
  // moves.
  [[nodiscard]] bool sends_counts(int move) const { return move < 2 * packing_ && move % 2 == 0; }
  [[nodiscard]] int step_of(int move) const { return move < 2 * packing_ ? move / 2 : move - packing_; }
  [[nodiscard]] int first_doubling() const { return packing_ + steps_; }
  [[nodiscard]] int first_listing() const { return first_doubling() + (run_.problem.scatters ? 0 : steps_); }
  [[nodiscard]] int end_of_moves() const { return first_listing() + steps_; }

  void begin(Piece& piece, int move) {
    const int listing = move - first_listing();
    if (listing == 0) begin_list(piece);
    if (listing >= 0)
      list(piece, ranks_ * listing / steps_, ranks_ * (listing + 1) / steps_);
    else if (move >= first_doubling())
      send_mine(piece, ranks_ >> (move - first_doubling() + 1));
    else if (sends_counts(move))
      send_counts(piece, step_of(move));
    else
      send_half(piece, step_of(move));
  }
  /// Uses what a move has received.
  void arrive(Piece& piece, int move) {
    if (move >= first_doubling())
      piece.mine = piece.mine.joined();
    else if (!sends_counts(move))
      combine_half(piece, step_of(move));
  }

  [[nodiscard]] bool keeps_upper(int step) const { return (me_ >> step & 1) != 0; }
  /// The parts of a piece that this rank keeps in a step, and those that it gives.
  [[nodiscard]] Slots kept(const Piece& piece, int step) const { return piece.mine.half(keeps_upper(step)); }
  [[nodiscard]] Slots given(const Piece& piece, int step) const { return piece.mine.half(!keeps_upper(step)); }
  /// Where messages are packed: what this rank gives first has no other use of its blocks.
  [[nodiscard]] std::byte* packed(const Piece& piece) const { return block(piece, Slots{0, ranks_}.half(!keeps_upper(0)).first); }

  void send_counts(Piece& piece, int step) {
    piece.counts[0] = step == 0 ? count_own(piece, given(piece, step)) : count_entries(piece, given(piece, step));
    exchange(piece, 1 << step, {&piece.counts[1], 8}, {&piece.counts[0], 8}, Traffic::control);
  }
  void send_half(Piece& piece, int step) {
    const Slots gives = given(piece, step), keeps = kept(piece, step);
    const auto packs = [&](Slots slots, std::int64_t entries) {
      return step < packing_ && is_packed(static_cast<double>(entries), static_cast<double>(elements(piece, slots)));
    };
    piece.unpacks = packs(keeps, piece.counts[1]);
    const Bytes in{piece.theirs, piece.unpacks ? packed_bytes(piece, keeps, piece.counts[1]) : bytes(keeps)};
    if (packs(gives, piece.counts[0])) {
      if (step == 0)
        pack_own(piece, gives);
      else
        pack_slots(piece, gives);
      exchange(piece, 1 << step, in, {packed(piece), packed_bytes(piece, gives, piece.counts[0])}, Traffic::payload);
    } else {
      if (step == 0) fill_slots(piece, gives);
      exchange(piece, 1 << step, in, {block(piece, gives.first), bytes(gives)}, Traffic::payload);
    }
    if (step == 0) fill_slots(piece, keeps);
  }
  /// Combines what this rank keeps with what has come.
  void combine_half(Piece& piece, int step) {
    piece.mine = kept(piece, step);
    if (piece.unpacks)
      combine_packed(piece, keeps_upper(step));
    else
      combine_slots(piece, keeps_upper(step));
  }
  /// Exchanges all that this rank has with a partner that has as much.
  void send_mine(Piece& piece, int distance) {
    const Slots mine = piece.mine, other = mine.other();
    exchange(piece, distance, {block(piece, other.first), bytes(other)}, {block(piece, mine.first), bytes(mine)}, Traffic::payload);
  }
  struct Bytes {
    void* data = nullptr;
    std::int64_t bytes = 0;
  };
  void exchange(Piece& piece, int distance, Bytes in, Bytes out, Traffic kind) {
    piece.both[0] = channel_.receive(in.data, in.bytes, me_ ^ distance, kind);
    piece.both[1] = channel_.send(out.data, out.bytes, me_ ^ distance, kind);
  }

  /// Other numbers of ranks: part r of every rank goes to rank r, which combines them in order.
  task<void> send_to_owners() {
    StageScope stage = channel_.stage(Stage::reduce_scatter);
    Piece& piece = pieces_[0];
    fill_slots(piece, piece.mine);
    const auto from_rank = [&](int rank) { return rank == me_ ? block(piece, me_) : piece.theirs + rank * block_; };
    co_await exchange_with_owners(
        channel_, run_.memory.requests, [&](int from) { return std::span(from_rank(from), static_cast<std::size_t>(block_)); },
        [&](int to) { return std::span<const std::byte>(block(piece, to), static_cast<std::size_t>(block_)); });
    combine_in_order(ranks_, [&](int a, int b) { combine(piece, from_rank(a), from_rank(b), from_rank(a), me_); });
    if (me_ != 0 && block_ > 0) std::memcpy(block(piece, me_), from_rank(0), static_cast<std::size_t>(block_));
    if (!run_.problem.scatters) {
      stage.next(Stage::allgather);
      for (int rank = 0; rank <= ranks_; ++rank) run_.memory.offset[at(rank)] = rank * block_;
      co_await allgatherv_ring_in_place(channel_, run_.memory.offset, piece.blocks);
    }
    begin_list(piece);
    list(piece, 0, ranks_);
  }

  /// Returns the first element of a part.
  [[nodiscard]] std::int64_t base(const Piece& piece, int part) const {
    return piece.begin + begin_of(piece.end - piece.begin, part, ranks_);
  }
  [[nodiscard]] std::int64_t size(const Piece& piece, int part) const { return base(piece, part + 1) - base(piece, part); }
  [[nodiscard]] std::byte* block(const Piece& piece, int slot) const { return piece.blocks + slot * block_; }
  [[nodiscard]] std::int64_t bytes(Slots slots) const { return slots.count * block_; }
  /// Returns the bytes of a packed message: values, then the bits of all slots.
  [[nodiscard]] std::int64_t packed_bytes(const Piece& piece, Slots slots, std::int64_t entries) const {
    if (entries == 0) return 0;
    return value_bytes<T>(entries) + 8 * total(slots, [&](int part) { return bit_words(size(piece, part)); });
  }
  [[nodiscard]] std::int64_t elements(const Piece& piece, Slots slots) const {
    return total(slots, [&](int part) { return size(piece, part); });
  }
  /// Returns the sum of of(part) over the parts in some slots.
  template <class Of>
  [[nodiscard]] std::int64_t total(Slots slots, const Of& of) const {
    std::int64_t sum = 0;
    for_each_part(slots, [&](int part) { sum += of(part); });
    return sum;
  }
  [[nodiscard]] ArrayPart<T> in_block(const Piece& piece, std::byte* block, int part) const {
    const std::int64_t elements = size(piece, part);
    return {reinterpret_cast<T*>(block), reinterpret_cast<std::uint64_t*>(block + value_bytes<T>(elements)), base(piece, part),
            elements};
  }
  [[nodiscard]] ArrayPart<T> in_place(const Piece& piece, int part) const {
    return in_block(piece, block(piece, slot_of(part, ranks_)), part);
  }
  /// Calls visit(part) for the parts in some slots.
  template <class Visit>
  void for_each_part(Slots slots, const Visit& visit) const {
    for (int slot = slots.first; slot < slots.end(); ++slot) visit(slot_of(slot, ranks_));
  }
  /// Returns this rank's entries of one part.
  [[nodiscard]] Entries<T> own(const Piece& piece, int part) const {
    return run_.own.part(run_.own.lower_bound(base(piece, part)), run_.own.lower_bound(base(piece, part + 1)));
  }
  [[nodiscard]] std::int64_t count_own(const Piece& piece, Slots slots) const {
    return total(slots, [&](int part) { return own(piece, part).count; });
  }
  [[nodiscard]] std::int64_t count_entries(const Piece& piece, Slots slots) const {
    return total(slots, [&](int part) { return count_bits(in_place(piece, part).bits, bit_words(size(piece, part))); });
  }

  void fill_slots(const Piece& piece, Slots slots) {
    for_each_part(slots, [&](int part) { fill(in_place(piece, part), own(piece, part), run_.arithmetic->identity); });
  }
  /// Makes a packed message of this rank's entries.
  void pack_own(const Piece& piece, Slots slots) {
    T* values = reinterpret_cast<T*>(packed(piece));
    auto* bits = reinterpret_cast<std::uint64_t*>(packed(piece) + value_bytes<T>(piece.counts[0]));
    for_each_part(slots, [&](int part) {
      const Entries<T> entries = own(piece, part);
      values = std::copy_n(entries.values, entries.count, values);
      set_bits(ArrayPart<T>{nullptr, bits, base(piece, part), size(piece, part)}, entries);
      bits += bit_words(size(piece, part));
    });
  }
  /// Makes a packed message of what some slots have.
  void pack_slots(const Piece& piece, Slots slots) {
    T* values = reinterpret_cast<T*>(packed(piece));
    auto* bits = reinterpret_cast<std::uint64_t*>(packed(piece) + value_bytes<T>(piece.counts[0]));
    for_each_part(slots, [&](int number) {
      const ArrayPart<T> part = in_place(piece, number);
      values += pack(part, values);
      bits = std::copy_n(part.bits, bit_words(part.size), bits);
    });
  }
  /// Combines what this rank has with a packed message.
  void combine_packed(const Piece& piece, bool from_lower_ranks) {
    const std::int64_t count = piece.counts[1];
    if (count == 0) return;
    const T* values = reinterpret_cast<const T*>(piece.theirs);
    const auto* bits = reinterpret_cast<const std::uint64_t*>(piece.theirs + value_bytes<T>(count));
    std::int64_t left = count;
    for_each_part(piece.mine, [&](int number) {
      const ArrayPart<T> part = in_place(piece, number);
      const std::int64_t words = bit_words(part.size), entries = count_bits(bits, words);
      left -= entries;
      if (left < 0 || (part.size % 64 != 0 && bits[words - 1] >> (part.size % 64) != 0)) fail_malformed(count);
      run_.arithmetic->combine_packed(bits, values, from_lower_ranks, part);
      values += entries;
      bits += words;
    });
    if (left != 0) fail_malformed(count);
  }
  [[noreturn]] static void fail_malformed(std::int64_t count) {
    fail(WEIR_ERR_TRANSPORT, "a message of a sparse sum is damaged: its bits do not stand for the {} values that it has", count);
  }
  /// Combines what this rank has with a message of whole blocks.
  void combine_slots(const Piece& piece, bool from_lower_ranks) {
    std::byte* theirs = piece.theirs;
    for_each_part(piece.mine, [&](int part) {
      std::byte* const mine = block(piece, slot_of(part, ranks_));
      combine(piece, from_lower_ranks ? theirs : mine, from_lower_ranks ? mine : theirs, mine, part);
      theirs += block_;
    });
  }
  /// Sets a block to two others combined; it may be either.
  void combine(const Piece& piece, std::byte* lower, std::byte* upper, std::byte* out, int part) {
    const ArrayPart<T> a = in_block(piece, lower, part), b = in_block(piece, upper, part), sum = in_block(piece, out, part);
    run_.arithmetic->combine(a.values, b.values, sum.values, sum.size, sum.base);
    for (std::int64_t word = 0; word < bit_words(sum.size); ++word) sum.bits[word] = a.bits[word] | b.bits[word];
  }

  /// Pieces are ready in order: the next one lists behind this one.
  void begin_list(Piece& piece) {
    piece.listed = listed_;
    listed_ += count_entries(piece, run_.problem.scatters ? Slots{slot_of(me_, ranks_), 1} : Slots{0, ranks_});
    if (listed_ > run_.problem.most_entries())
      fail(WEIR_ERR_TRANSPORT, "a message of a sparse sum is damaged: the sum has more than {} entries",
           run_.problem.most_entries());
  }
  /// Writes the entries of some parts of a piece to the result; of this rank's part alone if the sum scatters.
  void list(Piece& piece, int first, int end) {
    const EntryPlace<T> to = run_.memory.lists[2].place();
    for (int part = first; part < end; ++part) {
      if (part == me_ || !run_.problem.scatters) piece.listed += extract(in_place(piece, part), to.from(piece.listed));
    }
  }

  Channel channel_;
  int me_, ranks_, steps_;
  SumRun<T>& run_;
  std::int64_t block_;  ///< bytes from block to block
  int packing_ = 0;     ///< the first steps that may pack
  int count_of_pieces_;
  std::array<Piece, most_pieces> pieces_{};
  std::int64_t listed_ = 0;  ///< entries of the sum of all pieces that are ready
};

SumNeed need_of_dense(const SumProblem& problem) {
  const std::int64_t bytes = pieces_of(problem) * problem.ranks * block_bytes(problem.value_size, part_elements(problem));
  return {{0, 0, problem.most_entries()}, {bytes, is_halved(problem.ranks) ? bytes / 2 : bytes}};
}

model::StepCost cost_of_dense(const model::Setting& setting, const SumProblem& problem) {
  const model::Network& network = setting.network;
  const Rates rates = rates_of_sums(setting.machine);
  const double ranks = problem.ranks, count = static_cast<double>(problem.count),
               value_size = static_cast<double>(problem.value_size);
  const double block = count / ranks * (value_size + 1.0 / 8), sum = expected_entries(problem, problem.ranks);
  // `fill` was measured with elements of 4 bytes.
  const double filled = count * value_size / 4 / rates.fill;
  // Entries take 0.7 to 0.9 times as long to list as to decode.
  const double listed = 0.85 * (problem.scatters ? sum / ranks : sum) / rates.decode;
  double computing = static_cast<double>(problem.largest) / rates.encode + listed;
  model::StepCost cost;
  if (is_halved(problem.ranks)) {
    int slots = problem.ranks;
    for (int distance = 1; distance < problem.ranks; distance *= 2) {
      slots /= 2;
      const bool packs = may_pack(problem, distance);
      const double elements = count / (2 * distance), entries = expected_entries(problem, distance) / (2 * distance);
      if (packs) cost += network.mirror(setting.all, distance, 8);
      cost += network.mirror(setting.all, distance, packs ? entries * value_size + elements / 8 : slots * block);
      computing += packs ? entries / rates.encode + entries / rates.decode : slots * block / rates.add;
      if (distance == 1) computing += packs ? filled / 2 : filled;
      if (!problem.scatters) cost += network.mirror(setting.all, distance, slots * block);
    }
  } else {
    computing += filled + (ranks - 1) * block / rates.add;
    cost += network.all_to_all(setting.all, block, owners_window);
    if (!problem.scatters) cost += network.ring_allgather(setting.all, block);
  }
  // While messages of a piece are on their way, ranks compute for the others.
  const double hidden = std::min(cost.seconds, computing) * (pieces_of(problem) - 1) / pieces_of(problem) / 2;
  cost.seconds += computing - hidden;
  return cost;
}

}  // namespace

extern const SumRow dense_sum_row{.name = "dense",
                                  .description = "exchanges whole arrays, with a bit for each element that has an entry, in pieces",
                                  .cost = cost_of_dense,
                                  .need = need_of_dense,
                                  .run = sum_functions<DenseSum>};

}  // namespace weir::sums
