#include "collectives/allreduce.hpp"
#include "kernels/kernels.hpp"

namespace weir {
namespace {

/// The baseline: whatever the MPI library does. Its traffic is not counted.
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

}  // namespace

template <class T>
std::unique_ptr<DenseAllreduce<T>> make_dense_mpi(const ExchangeSpec& spec) {
  return std::make_unique<DenseMpi<T>>(spec);
}
template std::unique_ptr<DenseAllreduce<float>> make_dense_mpi(const ExchangeSpec&);
template std::unique_ptr<DenseAllreduce<double>> make_dense_mpi(const ExchangeSpec&);

}  // namespace weir
