#include <algorithm>
#include <array>

#include "base/buffer.hpp"
#include "collectives/allgatherv.hpp"
#include "collectives/allreduce.hpp"
#include "collectives/shared_work.hpp"
#include "kernels/kernels.hpp"
#include "model/stages.hpp"

namespace weir {
namespace {

/// Sends 2 n (P - 1) / P elements per rank in 2 (P - 1) messages.
template <class T>
class DenseRing final : public DenseAllreduce<T> {
 public:
  explicit DenseRing(const ExchangeSpec& spec)
      : count_(static_cast<std::uint64_t>(spec.count)),
        divisor_(static_cast<T>(spec.divisor)),
        threads_(spec.threads),
        incoming_(spec.ranks == 1 ? 0 : (spec.count + spec.ranks - 1) / spec.ranks) {}

  task<void> run(Channel channel, T* data) override {
    const int size = channel.size();
    const int rank = channel.rank();
    const int next = (rank + 1) % size;
    const int previous = (rank + size - 1) % size;

    // 1. reduce-scatter: after P - 1 steps rank r holds the whole sum of part (r + 1) mod P
    StageScope stage = channel.stage(Stage::reduce_scatter);
    for (int s = 0; s < size - 1; ++s) {
      const Part out = part(data, (rank - s + size) % size, size);
      const Part in = part(data, (rank - s - 1 + 2 * size) % size, size);
      std::array<Request, 2> both;
      both[0] = channel.receive(incoming_.data(), in.bytes(), previous, Traffic::payload);
      both[1] = channel.send(out.data, out.bytes(), next, Traffic::payload);
      co_await channel.done(both);
      add_values(threads_, incoming_.data(), in.data, in.count);
    }
    const Part own = part(data, (rank + 1) % size, size);
    if (divisor_ != 1) kernels::host::scale(own.data, own.count, 1 / divisor_);

    // 2. allgather
    stage.next(Stage::allgather);
    for (int s = 0; s < size - 1; ++s) {
      const Part out = part(data, (rank + 1 - s + size) % size, size);
      const Part in = part(data, (rank - s + size) % size, size);
      std::array<Request, 2> both;
      both[0] = channel.receive(in.data, in.bytes(), previous, Traffic::payload);
      both[1] = channel.send(out.data, out.bytes(), next, Traffic::payload);
      co_await channel.done(both);
    }
  }

  [[nodiscard]] std::int64_t memory_bytes() const override { return incoming_.bytes(); }

 private:
  struct Part {
    T* data;
    std::int64_t count;
    [[nodiscard]] std::int64_t bytes() const { return count * static_cast<std::int64_t>(sizeof(T)); }
  };
  [[nodiscard]] Part part(T* data, int index, int parts) const {
    const std::uint64_t begin = part_begin(count_, index, parts);
    return {data + begin, static_cast<std::int64_t>(part_begin(count_, index + 1, parts) - begin)};
  }

  std::uint64_t count_;
  T divisor_;
  Threads threads_;
  Buffer<T> incoming_;
};

/// Returns the cost of the ring: 2 (P - 1) steps of n / P values; one rank of each node sends across.
Cost cost_dense_ring(const Machine& machine, const Problem& problem) {
  const model::Setting setting(machine, problem);
  Cost cost;
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
