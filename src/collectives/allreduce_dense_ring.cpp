#include <algorithm>
#include <span>
#include <vector>

#include "base/buffer.hpp"
#include "collectives/allgatherv.hpp"
#include "collectives/allreduce.hpp"
#include "collectives/shared_work.hpp"
#include "kernels/kernels.hpp"
#include "model/stages.hpp"

namespace weir {
namespace {

/// Sends 2 n (P - 1) / P elements per rank, in 2 (P - 1) steps. Between nodes, parts travel in pieces, some of them in flight: a
/// piece is added while the next ones arrive, and the network never waits for an addition. Within a node, ranks would wait for each
/// other at every piece, and parts travel whole.
template <class T>
class DenseRing final : public DenseAllreduce<T> {
 public:
  explicit DenseRing(const ExchangeSpec& spec)
      : count_(static_cast<std::uint64_t>(spec.count)), divisor_(static_cast<T>(spec.divisor)), threads_(spec.threads) {
    if (spec.ranks == 1) return;
    const std::int64_t part = (spec.count + spec.ranks - 1) / spec.ranks;
    const bool in_node = spec.topology != nullptr && spec.topology->node_count() == 1;
    pieces_ = in_node ? 1 : static_cast<int>(std::max<std::int64_t>(part / piece_elements, 1));
    window_ = std::min(pieces_, most_in_flight);
    slot_ = (part + pieces_ - 1) / pieces_;
    incoming_ = Buffer<T>(window_ * slot_);
    requests_.resize(2 * static_cast<std::size_t>(window_));
  }

  task<void> run(Channel channel, T* data) override {
    const int size = channel.size();
    if (size == 1) {
      scale({data, static_cast<std::int64_t>(count_)});
      co_return;
    }
    // Message m is piece m mod M of step m / M. In the first P - 1 steps, received pieces are added; after them rank r holds the
    // whole sum of part (r + 1) mod P. In the others, they are results. A piece is sent on in the next step.
    const int messages = 2 * (size - 1) * pieces_, added = (size - 1) * pieces_;
    StageScope stage = channel.stage(Stage::reduce_scatter);
    if (pieces_ > 1) channel.note_much();
    for (int m = 0; m < window_; ++m) post(channel, data, m);
    for (int m = 0; m < messages; ++m) {
      if (m == added) stage.next(Stage::allgather);
      co_await channel.done(both(m));
      if (m < added) {
        const Part in = received(channel, data, m);
        add_values(threads_, slot(m), in.data, in.count);
        if (m >= added - pieces_) scale(in);
      }
      if (m + window_ < messages) post(channel, data, m + window_);
    }
  }

  [[nodiscard]] std::int64_t memory_bytes() const override { return incoming_.bytes(); }

 private:
  struct Part {
    T* data;
    std::int64_t count;
    [[nodiscard]] std::int64_t bytes() const { return count * static_cast<std::int64_t>(sizeof(T)); }
  };
  // MPI libraries send so short messages at once over TCP. Before longer ones (64 KiB in Open MPI) they ask the receiver each time.
  static constexpr std::int64_t piece_elements = (std::int64_t{1} << 15) / static_cast<std::int64_t>(sizeof(T));
  static constexpr int most_in_flight = 32;

  /// Returns piece m mod M of a part.
  [[nodiscard]] Part piece(T* data, int part, int parts, int m) const {
    const std::uint64_t begin = part_begin(count_, part, parts), count = part_begin(count_, part + 1, parts) - begin;
    const std::uint64_t first = part_begin(count, m % pieces_, pieces_), last = part_begin(count, m % pieces_ + 1, pieces_);
    return {data + begin + first, static_cast<std::int64_t>(last - first)};
  }
  [[nodiscard]] Part sent(const Channel& channel, T* data, int m) const {
    const int size = channel.size();
    return piece(data, (channel.rank() + 2 * size - m / pieces_) % size, size, m);
  }
  [[nodiscard]] Part received(const Channel& channel, T* data, int m) const {
    const int size = channel.size();
    return piece(data, (channel.rank() + 2 * size - m / pieces_ - 1) % size, size, m);
  }
  void scale(Part part) const {
    if (divisor_ != 1) kernels::host::scale(part.data, part.count, 1 / divisor_);
  }
  [[nodiscard]] T* slot(int m) { return incoming_.data() + m % window_ * slot_; }
  [[nodiscard]] std::span<Request> both(int m) {
    return std::span(requests_).subspan(2 * static_cast<std::size_t>(m % window_), 2);
  }

  /// Posts both sides of message m. What is sent was received M messages before, or is this rank's own.
  void post(const Channel& channel, T* data, int m) {
    const int size = channel.size(), rank = channel.rank();
    const Part out = sent(channel, data, m), in = received(channel, data, m);
    T* const place = m < (size - 1) * pieces_ ? slot(m) : in.data;
    both(m)[0] = channel.receive(place, in.bytes(), (rank + size - 1) % size, Traffic::payload);
    both(m)[1] = channel.send(out.data, out.bytes(), (rank + 1) % size, Traffic::payload);
  }

  std::uint64_t count_;
  T divisor_;
  Threads threads_;
  int pieces_ = 1, window_ = 1;  // pieces of a part; messages in flight, no more than these
  std::int64_t slot_ = 0;        // elements
  Buffer<T> incoming_;
  std::vector<Request> requests_;
};

/// Returns the cost of the ring: 2 (P - 1) steps of n / P values; one rank of each node sends across.
Cost cost_dense_ring(const Machine& machine, const Problem& problem) {
  const model::Setting setting(machine, problem);
  Cost cost;
  cost.select = check_seconds(setting);
  book_flat(cost, setting, agreement(setting));
  book_flat(cost, setting, ring_allreduce(setting, setting.all, setting.bytes));
  return cost;
}

}  // namespace

const AllreduceRow dense_ring_row{.name = "dense_ring",
                                  .description = "reduce-scatter and allgather around a ring",
                                  .cost = cost_dense_ring,
                                  .dense_factories = dense_in_host_memory<DenseRing>};

}  // namespace weir
