#include "collectives/allreduce.hpp"
#include "kernels/kernels.hpp"
#include "model/stages.hpp"

namespace weir {
namespace {

/// The baseline: the MPI library's allreduce. Its traffic is not counted.
template <class T>
class DenseMpi final : public DenseAllreduce<T> {
 public:
  explicit DenseMpi(const ExchangeSpec& spec) : count_(spec.count), factor_(static_cast<T>(1 / spec.divisor)), lane_(spec.lane) {}

  task<void> run(Channel channel, T* data) override {
    const StageScope stage = channel.stage(Stage::allreduce);
    co_await channel.done(channel.allreduce(data, count_, data_type_of<T>, lane_));
    if (factor_ != 1) kernels::host::scale(data, count_, factor_);
  }

  [[nodiscard]] std::int64_t memory_bytes() const override { return 0; }

 private:
  std::int64_t count_;
  T factor_;
  int lane_;
};

/// Returns the cost of the MPI library's allreduce: the ring's cost times the machine's measured factor.
Cost cost_dense_mpi(const Machine& machine, const Problem& problem) {
  Cost cost = dense_ring_row.cost(machine, problem);
  cost.in_node *= machine.mpi_allreduce_factor;
  cost.exchange *= machine.mpi_allreduce_factor;
  return cost;
}

}  // namespace

const AllreduceRow dense_mpi_row{.name = "dense_mpi",
                                 .description = "the MPI library's own nonblocking allreduce",
                                 .cost = cost_dense_mpi,
                                 .needs_allreduce = true,
                                 .dense_factories = dense_in_host_memory<DenseMpi>};

}  // namespace weir
