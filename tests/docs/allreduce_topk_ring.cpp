#include <array>
#include <vector>

#include "base/buffer.hpp"
#include "collectives/allreduce.hpp"
#include "collectives/control.hpp"
#include "collectives/host_space.hpp"
#include "collectives/merge_tree.hpp"
#include "model/stages.hpp"

namespace weir {
namespace {

/// Sends every rank's entries around a ring; every rank adds them up. A rank sends k (P - 1) entries, as with topk_allgather, but
/// always to the next rank. Only the last rank of each node sends to another node.
template <class T>
class TopkRing final : public SparseAllreduce<T> {
 public:
  // Allocates everything, so that run() allocates nothing.
  explicit TopkRing(const ExchangeSpec& spec)
      : spec_(spec),
        cards_(static_cast<std::size_t>(spec.ranks)),
        scratch_(cards_.size()),
        counts_(cards_.size()),
        begin_(cards_.size() + 1),
        messages_(spec.ranks * coo::block_bytes<T>(spec.largest_local)),
        space_(spec, spec.ranks * spec.largest_local, spec.ranks),
        tree_(space_, spec.ranks, spec.ranks * spec.largest_local) {}

  task<SparseOutcome<T>> run(Channel channel, SparseVector<T> local, std::int64_t /*k*/, ErrorReport input_error) override {
    SparseOutcome<T> outcome;
    const int me = channel.rank(), ranks = channel.size();
    const int next = (me + 1) % ranks, previous = (me + ranks - 1) % ranks;

    // 1. Every rank announces its number of entries and any error of its input, so that all ranks deliver, or all refuse.
    StageScope stage = channel.stage(Stage::announce);
    const Card mine{input_error, static_cast<std::uint64_t>(local.count)};
    co_await allgather_control(channel, reinterpret_cast<const std::byte*>(&mine), sizeof(Card),
                               reinterpret_cast<std::byte*>(cards_.data()), reinterpret_cast<std::byte*>(scratch_.data()));
    for (std::size_t rank = 0; rank < cards_.size(); ++rank) {
      outcome.input_error = std::max(outcome.input_error, cards_[rank].input_error);
      counts_[rank] = static_cast<std::uint32_t>(cards_[rank].count);
      begin_[rank + 1] = begin_[rank] + wire::slot_bytes<T>(spec_.wire(), counts_[rank], range());
    }
    if (outcome.input_error) co_return outcome;

    // 2. Around the ring: every rank forwards the message that has just arrived.
    stage.next(Stage::allgatherv);
    wire::encode(spec_.wire(), local.indices, local.values, local.count, 0, range(), message(me));
    for (int step = 0; step < ranks - 1; ++step) {
      const int leaving = (me + ranks - step) % ranks, arriving = (previous + ranks - step) % ranks;
      std::array<Request, 2> both;
      both[0] = channel.receive(message(arriving), bytes_of(arriving), previous, Traffic::payload);
      both[1] = channel.send(message(leaving), bytes_of(leaving), next, Traffic::payload);
      co_await channel.done(both);
    }

    // 3. Sum in an order that depends only on P, so that every rank gets the same bits.
    stage.next(Stage::sum);
    tree_.begin(counts_.data());
    for (int rank = 0; rank < ranks; ++rank) {
      if (count_of(rank) == 0) continue;
      const coo::Segment<T> leaf = tree_.leaf(rank);
      wire::decode(spec_.wire(), message(rank), bytes_of(rank), count_of(rank), 0, range(), leaf.indices, leaf.values);
      tree_.arrived(rank);
    }
    const coo::Segment<T> sum = tree_.root();
    space_.divide(sum, spec_);
    outcome.update = {sum.indices, sum.values, sum.count};
    co_return outcome;
  }

  // There is no state between runs.
  void reset() override {}
  void visit_state(StateVisitor& /*visitor*/) override {}

  [[nodiscard]] std::int64_t memory_bytes() const override { return messages_.bytes() + tree_.memory_bytes(); }

 private:
  struct Card {
    ErrorReport input_error;
    std::uint64_t count;
  };
  [[nodiscard]] std::uint64_t range() const { return static_cast<std::uint64_t>(spec_.count); }
  [[nodiscard]] std::int64_t count_of(int rank) const { return counts_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] std::int64_t bytes_of(int rank) const { return wire::message_bytes<T>(spec_.wire(), count_of(rank), range()); }
  [[nodiscard]] std::byte* message(int rank) { return messages_.data() + begin_[static_cast<std::size_t>(rank)]; }

  ExchangeSpec spec_;
  std::vector<Card> cards_, scratch_;
  std::vector<std::uint32_t> counts_;
  std::vector<std::int64_t> begin_;  // where each rank's message begins in messages_
  Buffer<std::byte> messages_;
  HostSpace<T> space_;
  MergeTree<T, HostSpace<T>> tree_;
};

/// Returns the cost. One rank of each node sends to another node.
Cost cost_topk_ring(const Machine& machine, const Problem& problem) {
  const model::Setting setting(machine, problem);
  const Rates& rates = machine.rates;
  model::StepCost traffic = setting.network.allgather(setting.all, 16);  // the cards
  for (int step = 0; step < problem.ranks - 1; ++step)
    traffic += setting.network.shift(setting.all, 1, model::message_bytes(problem, setting.k, setting.n));
  traffic.seconds += setting.k / rates.encode + (problem.ranks - 1) * setting.k / rates.decode +
                     model::merged_entries(setting.n, setting.k, problem.ranks) / rates.merge;
  Cost cost;
  cost.select = select_seconds(setting, setting.n, setting.k);
  book_flat(cost, setting, traffic);
  cost.apply = apply_seconds(setting, 0) + model::distinct(setting.n, setting.k, problem.ranks) / rates.scatter;
  return cost;
}

}  // namespace

const AllreduceRow topk_ring_row{.name = "topk_ring",
                                 .description = "every rank's top-k goes around a ring, and every rank sums",
                                 .cost = cost_topk_ring,
                                 .delivers_all = true,
                                 .cuda_memory = true,
                                 .sparse_factories = sparse_in_host_memory<TopkRing>};

}  // namespace weir
