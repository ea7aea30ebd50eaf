
#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "base/buffer.hpp"
#include "base/error.hpp"
#include "collectives/allreduce.hpp"
#include "collectives/control.hpp"
#include "collectives/shared_work.hpp"
#include "kernels/kernels.hpp"
#include "model/stages.hpp"

namespace weir {
namespace {

/// Sums that do not depend on the order of the ranks, on where they run, or on ranks that give zeros. Each rank owns a part of the
/// array. It takes this part from every rank as it is, through shared memory from those of its node, and sums by
/// kernels::host::reproducible_sum. All ranks then take the sums. Each rank sends at most 2 n (P - 1) / P elements, as in
/// a ring, and two messages to every rank that shares no memory with it.
template <class T>
class DenseReproducible final : public DenseAllreduce<T> {
 public:
  explicit DenseReproducible(const ExchangeSpec& spec)
      : count_(spec.count),
        ranks_(spec.ranks),
        divisor_(spec.divisor),
        window_(static_cast<int>(spec.parameters.whole("window"))),
        threads_(spec.threads),
        shared_(spec.shared),
        local_rank_(at(spec.ranks), -1),
        terms_(at(spec.ranks)),
        requests_(2 * at(spec.ranks)) {
    if (shared_) {
      node_ = spec.topology->node_peers();
      for (int i = 0; i < static_cast<int>(node_.size()); ++i) local_rank_[at(node_[at(i)])] = i;
    }
    const auto others = static_cast<std::int64_t>(spec.ranks) - std::max<std::int64_t>(1, static_cast<std::int64_t>(node_.size()));
    incoming_ = Buffer<T>(others * ((spec.count + spec.ranks - 1) / spec.ranks));
  }

  task<void> run(Channel channel, T* data) override {
    const int me = channel.rank();
    const PartRange own = part(me);

    // 1. each owner gets its part of every array
    StageScope stage = channel.stage(Stage::reduce_scatter);
    for (const int other : node_) {
      if (other != me) copy_values(threads_, data + part(other).begin, memory(me) + part(other).begin, part(other).count());
    }
    co_await exchange(channel, Phase::terms, data);
    co_await meet(channel);

    // 2. and sums it. No rank of the node has written to this part of my own shared memory, so that the sum goes there.
    T* const sum = shared_ ? memory(me) : data;
    threads_.run_ranges(own.count(), least_of_pass, line, [&](PartRange mine) {
      kernels::host::reproducible_sum(terms_.data(), ranks_, mine.begin, mine.end, divisor_, sum + own.begin);
    });

    // 3. all ranks get the sums
    stage.next(Stage::allgather);
    if (shared_) std::copy_n(sum + own.begin, own.count(), data + own.begin);
    co_await exchange(channel, Phase::sums, data);
    co_await meet(channel);
    for (const int other : node_) {
      if (other != me) copy_values(threads_, memory(other) + part(other).begin, data + part(other).begin, part(other).count());
    }
  }

  [[nodiscard]] std::int64_t memory_bytes() const override {
    return incoming_.bytes() + (shared_ ? count_ * static_cast<std::int64_t>(sizeof(T)) : 0);
  }

 private:
  enum class Phase { terms, sums };

  [[nodiscard]] static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  [[nodiscard]] PartRange part(int rank) const { return part_range(count_, 1, rank, ranks_); }
  [[nodiscard]] T* memory(int rank) const { return reinterpret_cast<T*>(shared_.of(local_rank_[at(rank)])); }
  [[nodiscard]] bool by_memory(int rank) const { return local_rank_[at(rank)] >= 0; }

  /// Sends terms to their owners, or my sum to all ranks, except to those that read my memory. Rotates destinations, so that the
  /// ranks do not all send to one rank at once. Notes where the terms of my part are.
  task<void> exchange(Channel channel, Phase phase, T* data) {
    const int me = channel.rank();
    const PartRange own = part(me);
    const bool terms = phase == Phase::terms;
    if (terms) {
      for (const int other : node_) terms_[at(other)] = memory(other) + own.begin;
      terms_[at(me)] = data + own.begin;
    }
    int received = 0;
    for (int s = 1; s < ranks_ + window_; ++s) {
      if (s > window_) co_await channel.done(std::span(requests_).subspan(2 * at(s - window_), 2));
      if (s >= ranks_) continue;
      const int to = (me + s) % ranks_, from = (me - s + ranks_) % ranks_;
      const PartRange in = terms ? own : part(from), out = terms ? part(to) : own;
      requests_[2 * at(s)] = requests_[2 * at(s) + 1] = Request{};
      if (!by_memory(from)) {
        T* const place = terms ? incoming_.data() + received++ * own.count() : data + in.begin;
        if (terms) terms_[at(from)] = place;
        if (in.count() > 0) requests_[2 * at(s)] = channel.receive(place, bytes(in), from, Traffic::payload);
      }
      if (!by_memory(to) && out.count() > 0)
        requests_[2 * at(s) + 1] = channel.send(data + out.begin, bytes(out), to, Traffic::payload);
    }
  }
  /// Waits until the ranks of the node have written what this one reads.
  task<void> meet(Channel channel) {
    if (!shared_) co_return;
    sync_shared_memory();
    words_ = {};
    co_await allreduce_control(channel.group(node_), words_.data(), 1, 0, words_.data() + 1);
    sync_shared_memory();
  }
  [[nodiscard]] static std::int64_t bytes(PartRange range) { return range.count() * static_cast<std::int64_t>(sizeof(T)); }

  std::int64_t count_;
  int ranks_;
  double divisor_;
  int window_;  // exchanges in flight
  Threads threads_;
  SharedMemory shared_;
  std::span<const int> node_;    // the ranks that share memory with this one, and itself; empty if none do
  std::vector<int> local_rank_;  // of each rank, among node_; -1 for others
  std::vector<const T*> terms_;  // my part of each rank's array
  std::vector<Request> requests_;
  Buffer<T> incoming_;  // my part of the arrays that come by messages
  std::array<std::uint64_t, 2> words_{};
};

/// Returns the cost: parts from every rank to every other, two passes over the terms of a part, and the sums to all ranks.
Cost cost_dense_reproducible(const Machine& machine, const Problem& problem) {
  const model::Setting setting(machine, problem);
  Cost cost;
  cost.select = check_seconds(setting);
  book_flat(cost, setting, agreement(setting));
  model::StepCost traffic;
  if (problem.shared_memory && problem.largest_node == setting.all.ranks) {
    traffic += node_reduce_scatter(setting);
    traffic += node_dense_allgather(setting);
  } else {
    traffic += setting.network.all_to_all(setting.all, setting.bytes / setting.all.ranks, model::usual_window);
    traffic += setting.network.all_to_all(setting.all, setting.bytes / setting.all.ranks, model::usual_window);
    traffic.seconds += setting.bytes / machine.rates.add;
  }
  traffic.seconds += setting.bytes / machine.rates.add;
  book_flat(cost, setting, traffic);
  return cost;
}

void check_dense_reproducible(const ExchangeSpec& spec) {
  require(spec.ranks <= reproducible::most_terms, "dense_reproducible is for at most {} ranks: there are {}",
          reproducible::most_terms, spec.ranks);
}

constexpr std::array parameters = {window_parameter};

}  // namespace

const AllreduceRow dense_reproducible_row{.name = "dense_reproducible",
                                          .description = "the same bits whatever the order and the places of the ranks",
                                          .cost = cost_dense_reproducible,
                                          .parameters = parameters,
                                          .check = check_dense_reproducible,
                                          .in_nodes = NodeSums::at_once,
                                          .dense_factories = dense_in_host_memory<DenseReproducible>};

}  // namespace weir
