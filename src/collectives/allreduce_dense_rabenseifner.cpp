#include <algorithm>
#include <array>
#include <bit>

#include "base/buffer.hpp"
#include "collectives/allgatherv.hpp"
#include "collectives/allreduce.hpp"
#include "collectives/shared_work.hpp"
#include "kernels/kernels.hpp"
#include "model/stages.hpp"

namespace weir {
namespace {

/// Sends 2 n (Q - 1) / Q elements per rank in 2 log2 Q messages, with Q the largest power of two up to P. Each of the P - Q ranks
/// above Q shares the first reduction with a partner, half each, so that either side adds n / 2 elements instead of n.
template <class T>
class DenseRabenseifner final : public DenseAllreduce<T> {
 public:
  explicit DenseRabenseifner(const ExchangeSpec& spec)
      : count_(spec.count),
        divisor_(static_cast<T>(spec.divisor)),
        threads_(spec.threads),
        incoming_(spec.ranks == 1 ? 0 : (spec.count + 1) / 2) {}

  task<void> run(Channel channel, T* data) override {
    const int rank = channel.rank();
    const int doubling = static_cast<int>(std::bit_floor(static_cast<unsigned>(channel.size())));
    const int extra = channel.size() - doubling;
    const std::int64_t middle = count_ / 2;

    // 1. fold: pairs (r, r + Q) exchange halves, each adds one, and the upper rank sends its half's sum down
    if (rank >= doubling) {
      StageScope stage = channel.stage(Stage::fold);
      const int partner = rank - doubling;
      std::array<Request, 2> both;
      both[0] = channel.receive(incoming_.data(), bytes(count_ - middle), partner, Traffic::payload);
      both[1] = channel.send(data, bytes(middle), partner, Traffic::payload);
      co_await channel.done(both);
      add_values(threads_, incoming_.data(), data + middle, count_ - middle);
      co_await channel.done(channel.send(data + middle, bytes(count_ - middle), partner, Traffic::payload));
      stage.next(Stage::unfold);
      co_await channel.done(channel.receive(data, bytes(count_), partner, Traffic::payload));
      co_return;
    }
    if (rank < extra) {
      const StageScope stage = channel.stage(Stage::fold);
      const int partner = rank + doubling;
      std::array<Request, 2> both;
      both[0] = channel.receive(incoming_.data(), bytes(middle), partner, Traffic::payload);
      both[1] = channel.send(data + middle, bytes(count_ - middle), partner, Traffic::payload);
      co_await channel.done(both);
      add_values(threads_, incoming_.data(), data, middle);
      co_await channel.done(channel.receive(data + middle, bytes(count_ - middle), partner, Traffic::payload));
    }

    // 2. reduce-scatter by recursive halving: [begin, end) is what this rank still sums
    StageScope stage = channel.stage(Stage::reduce_scatter);
    std::int64_t begin = 0, end = count_;
    std::array<std::int64_t, 64> splits{};
    int depth = 0;
    for (int distance = doubling / 2; distance > 0; distance /= 2) {
      const int partner = rank ^ distance;
      const std::int64_t split = begin + (end - begin) / 2;
      const bool lower = (rank & distance) == 0;
      const std::int64_t keep = lower ? split - begin : end - split;
      std::array<Request, 2> both;
      both[0] = channel.receive(incoming_.data(), bytes(keep), partner, Traffic::payload);
      both[1] = channel.send(data + (lower ? split : begin), bytes(end - begin - keep), partner, Traffic::payload);
      co_await channel.done(both);
      splits[static_cast<std::size_t>(depth++)] = lower ? end : begin;
      (lower ? end : begin) = split;
      add_values(threads_, incoming_.data(), data + begin, end - begin);
    }
    if (divisor_ != 1) kernels::host::scale(data + begin, end - begin, 1 / divisor_);

    // 3. allgather by recursive doubling, in reverse order
    stage.next(Stage::allgather);
    for (int distance = 1; distance < doubling; distance *= 2) {
      const int partner = rank ^ distance;
      const bool lower = (rank & distance) == 0;
      const std::int64_t outer = splits[static_cast<std::size_t>(--depth)];
      std::array<Request, 2> both;
      both[0] = lower ? channel.receive(data + end, bytes(outer - end), partner, Traffic::payload)
                      : channel.receive(data + outer, bytes(begin - outer), partner, Traffic::payload);
      both[1] = channel.send(data + begin, bytes(end - begin), partner, Traffic::payload);
      co_await channel.done(both);
      (lower ? end : begin) = outer;
    }

    // 4. unfold
    if (rank < extra) {
      stage.next(Stage::unfold);
      co_await channel.done(channel.send(data, bytes(count_), rank + doubling, Traffic::payload));
    }
  }

  [[nodiscard]] std::int64_t memory_bytes() const override { return incoming_.bytes(); }

 private:
  [[nodiscard]] static std::int64_t bytes(std::int64_t count) { return count * static_cast<std::int64_t>(sizeof(T)); }

  std::int64_t count_;
  T divisor_;
  Threads threads_;
  Buffer<T> incoming_;
};

/// Returns the cost of Rabenseifner's algorithm: recursive halving and doubling in pairs; the largest messages go farthest.
Cost cost_dense_rabenseifner(const Machine& machine, const Problem& problem) {
  const model::Setting setting(machine, problem);
  const auto doubling = static_cast<int>(std::bit_floor(static_cast<unsigned>(problem.ranks)));
  const double bytes = setting.bytes;
  Cost cost;
  cost.select = check_seconds(setting);
  book_flat(cost, setting, agreement(setting));
  model::StepCost traffic;
  double added = 0;
  if (doubling < problem.ranks) {
    traffic += setting.network.fold(setting.all, bytes / 2, true);
    traffic += setting.network.fold(setting.all, bytes / 2, false);
    traffic += setting.network.fold(setting.all, bytes, false);
    added += bytes / 2;
  }
  for (int distance = 1; distance < doubling; distance *= 2) {
    const double half = bytes * distance / doubling;
    traffic += setting.network.mirror(setting.all, distance, half);
    traffic += setting.network.mirror(setting.all, distance, half);
    added += half;
  }
  traffic.seconds += added / machine.rates.add;
  book_flat(cost, setting, traffic);
  return cost;
}

}  // namespace

const AllreduceRow dense_rabenseifner_row{.name = "dense_rabenseifner",
                                          .description = "recursive halving and doubling (Rabenseifner), any number of ranks",
                                          .cost = cost_dense_rabenseifner,
                                          .dense_factories = dense_in_host_memory<DenseRabenseifner>};

}  // namespace weir
