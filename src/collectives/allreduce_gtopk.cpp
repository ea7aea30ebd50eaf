#include <algorithm>
#include <array>
#include <vector>

#include "base/buffer.hpp"
#include "codec/coo.hpp"
#include "collectives/allreduce.hpp"
#include "kernels/kernels.hpp"
#include "model/stages.hpp"

namespace weir {
namespace {

/// gTopk (Shi et al., ICDCS 2019; Ok-Topk table 1): sums go up a binomial tree, cut to the k largest at every rank on the way. The
/// k entries at its root come back down. The longest path has 2 log2 P messages of k entries; P is arbitrary.
///
/// If an entry is cut on the way and its index is delivered after all, it goes to the residual of the rank that cut it, so nothing
/// is lost.
template <class T>
class GTopk final : public SparseAllreduce<T> {
 public:
  explicit GTopk(const ExchangeSpec& spec)
      : spec_(spec),
        capacity_(spec.largest_local),
        sum_(2 * capacity_),
        kept_(capacity_),
        incoming_(capacity_),
        message_(coo::block_bytes<T>(capacity_)),
        residue_(most_undelivered(spec)) {
    residue_ends_.reserve(64);
  }

  void reset() override {}
  void visit_state(StateVisitor& /*visitor*/) override {}

  [[nodiscard]] std::int64_t memory_bytes() const override {
    return sum_.bytes() + kept_.bytes() + incoming_.bytes() + message_.bytes() + residue_.bytes();
  }

  task<SparseOutcome<T>> run(Channel channel, SparseVector<T> local, std::int64_t k, ErrorReport input_error) override {
    SparseOutcome<T> outcome;
    const int me = channel.rank(), ranks = channel.size();
    residue_ends_.clear();
    Header& header = header_;
    header = {input_error, 0};
    SparseVector<T> mine = local;

    // 1. reduction tree: the sum of this rank's vector and those received goes to the rank with its lowest bit cleared
    StageScope stage = channel.stage(Stage::reduce_tree);
    int distance = 1;
    for (; distance < ranks && (me & distance) == 0; distance *= 2) {
      const int child = me + distance;
      if (child >= ranks) continue;
      Header& other = other_header_;
      co_await receive_header(channel, other, child);
      header.input_error = std::max(header.input_error, other.input_error);
      co_await receive(channel, other, child);
      mine = cut(mine, decode(other, distance), k);
    }
    if (ranks == 1 && mine.count > k) mine = cut(mine, {}, k);  // one rank merges with no other, which would have cut it
    header.count = static_cast<std::uint64_t>(mine.count);
    const int heard = std::min(distance, ranks);  // most ranks whose contributions `mine` adds up
    encode(mine, heard);
    note_rounding(mine, heard);
    if (me != 0) {
      co_await send_to(channel, header, me - distance);
      // 2. broadcast tree: the same edges downwards
      stage.next(Stage::broadcast_tree);
      co_await receive_header(channel, header, me - distance);
      co_await receive(channel, header, me - distance);
    }
    stage.next(Stage::broadcast_tree);
    for (distance /= 2; distance >= 1; distance /= 2) {
      if (me + distance < ranks) co_await send_to(channel, header, me + distance);
    }
    outcome.input_error = header.input_error;
    if (outcome.input_error) co_return outcome;
    outcome.update = decode(header, ranks);
    outcome.undelivered = undelivered(outcome.update);
    if (spec_.divisor != 1) kernels::host::divide(incoming_.values.data(), outcome.update.count, static_cast<T>(spec_.divisor));
    co_return outcome;
  }

 private:
  struct Header {
    ErrorReport input_error;
    std::uint64_t count = 0;
  };

  /// Has room for `capacity` entries and the padding that kernels and codec may overwrite.
  struct Entries {
    explicit Entries(std::int64_t capacity) : indices(capacity + select_padding), values(capacity + select_padding) {}
    [[nodiscard]] std::int64_t bytes() const { return indices.bytes() + values.bytes(); }
    [[nodiscard]] SparseVector<T> first(std::int64_t count) const { return {indices.data(), values.data(), count}; }
    Buffer<std::uint32_t> indices;
    Buffer<T> values;
  };

  [[nodiscard]] std::int64_t bytes_of(Header header) const {
    return wire::message_bytes<T>(spec_.wire(), static_cast<std::int64_t>(header.count), static_cast<std::uint64_t>(spec_.count));
  }

  static task<void> receive_header(Channel channel, Header& header, int from) {
    co_await channel.done(channel.receive(&header, sizeof(Header), from, Traffic::control));
  }
  task<void> receive(Channel channel, Header header, int from) {
    if (header.count > 0) co_await channel.done(channel.receive(message_.data(), bytes_of(header), from, Traffic::payload));
  }
  task<void> send_to(Channel channel, const Header& header, int to) {
    std::array<Request, 2> both;
    both[0] = channel.send(&header, sizeof(Header), to, Traffic::control);
    if (header.count > 0) both[1] = channel.send(message_.data(), bytes_of(header), to, Traffic::payload);
    co_await channel.done(both);
  }

  /// Encodes a sum over at most `ranks` ranks.
  void encode(SparseVector<T> vector, int ranks) {
    wire::encode(spec_.wire(ranks), vector.indices, vector.values, vector.count, 0, static_cast<std::uint64_t>(spec_.count),
                 message_.data(), spec_.threads);
  }
  SparseVector<T> decode(Header header, int ranks) {
    const auto count = static_cast<std::int64_t>(header.count);
    wire::decode(spec_.wire(ranks), message_.data(), bytes_of(header), count, 0, static_cast<std::uint64_t>(spec_.count),
                 incoming_.indices.data(), incoming_.values.data(), spec_.threads);
    return incoming_.first(count);
  }

  /// Returns the k largest entries of a + b, ties to the lowest index. The others become residue.
  SparseVector<T> cut(SparseVector<T> a, SparseVector<T> b, std::int64_t k) {
    const std::int64_t total = kernels::host::merge_add(a.indices, a.values, a.count, b.indices, b.values, b.count,
                                                        sum_.indices.data(), sum_.values.data());
    KthKey<T> kth{0, 0, 0};
    std::int64_t ties = total;
    if (total > k && k > 0) {
      kth = kernels::host::kth_key(sum_.values.data(), total, k);
      ties = k - kth.greater;
    } else if (k == 0) {
      kth.key = ~Key<T>{0};
    }
    std::int64_t kept = 0, residue = residue_end();
    for (std::int64_t i = 0; i < total; ++i) {
      const Key<T> key = key_of(sum_.values[i]);
      const bool tie = key == kth.key && ties > 0;
      ties -= tie;
      Entries& out = key > kth.key || tie ? kept_ : residue_;
      std::int64_t& end = key > kth.key || tie ? kept : residue;
      out.indices[end] = sum_.indices[i];
      out.values[end++] = sum_.values[i];
    }
    residue_ends_.push_back(residue);
    return kept_.first(kept);
  }

  /// Adds to the residue what rounding on the wire takes from the entries of `vector`.
  void note_rounding(SparseVector<T> vector, int ranks) {
    if (spec_.wire_values == WireValues::native) return;
    const std::int64_t begin = residue_end();
    std::copy_n(vector.indices, vector.count, residue_.indices.data() + begin);
    std::copy_n(vector.values, vector.count, residue_.values.data() + begin);
    wire::subtract_rounded(spec_.wire(ranks), residue_.values.data() + begin, vector.count);
    residue_ends_.push_back(begin + vector.count);
  }

  [[nodiscard]] std::int64_t residue_end() const { return residue_ends_.empty() ? 0 : residue_ends_.back(); }

  SparseVector<T> undelivered(SparseVector<T> update) {
    std::int64_t kept = 0, begin = 0;
    for (const std::int64_t end : residue_ends_) {
      const SparseVector<T> list{residue_.indices.data() + begin, residue_.values.data() + begin, end - begin};
      kept += keep_taken(list, update, residue_.indices.data() + kept, residue_.values.data() + kept);
      begin = end;
    }
    return residue_.first(kept);
  }

  ExchangeSpec spec_;
  std::int64_t capacity_;
  Entries sum_, kept_, incoming_;
  Buffer<std::byte> message_;
  Header header_, other_header_;
  Entries residue_;                         // every level cuts at most two vectors less k entries, and one vector is rounded
  std::vector<std::int64_t> residue_ends_;  // the ends of the sorted lists in residue_; at most two per level
};

/// Returns the cost of gTopk: a binomial tree of sums cut to k entries, and a binomial broadcast.
Cost cost_gtopk(const Machine& machine, const Problem& problem) {
  const model::Setting setting(machine, problem);
  const Rates& rates = machine.rates;
  const double message = model::message_bytes(problem, setting.k, setting.n);
  Cost cost;
  cost.select = select_seconds(setting, setting.n, setting.k);
  for (int distance = 1; distance < problem.ranks; distance *= 2) {
    model::StepCost down = setting.network.tree_level(setting.all, distance, model::announcement_bytes);
    down += setting.network.tree_level(setting.all, distance, message);
    model::StepCost up = down;
    up.seconds += setting.k * (1 / rates.encode + 1 / rates.decode + 2 / rates.merge + 2 / rates.cut);
    // The root sends most: every message of the broadcast, and no message of the reduction.
    up.bytes_in_node = up.bytes_across = 0;
    book_flat(cost, setting, up);
    book_flat(cost, setting, down);
  }
  cost.apply = apply_seconds(setting, setting.k);
  return cost;
}

}  // namespace

const AllreduceRow gtopk_row{.name = "gtopk",
                             .description = "gTopk: reduction tree with top-k at each level, broadcast tree",
                             .cost = cost_gtopk,
                             .cuda_memory = true,
                             .sparse_factories = sparse_in_host_memory<GTopk>};

}  // namespace weir
