// Implements the class of weir/sums.hpp on its state.
#include "base/config_check.hpp"
#include "communicator/owner.hpp"
#include "sums/sparse_sum.hpp"

namespace weir {

SparseSum::SparseSum(const Communicator& comm, const SparseSumConfig& config)
    : state_(owned(comm.state(), [&] { return detail::make_sparse_sum(comm.state(), config); })) {}

void SparseSum::run(const SumInput& mine, const SumOutput& output) { start(mine, output).wait(); }
void SparseSum::run_reduce_scatter(const SumInput& mine, const SumOutput& output) { start_reduce_scatter(mine, output).wait(); }
Operation SparseSum::start(const SumInput& mine, const SumOutput& output) {
  enter(state_)->start(mine, output, false);
  return Operation(*state_);
}
Operation SparseSum::start_reduce_scatter(const SumInput& mine, const SumOutput& output) {
  enter(state_)->start(mine, output, true);
  return Operation(*state_);
}
Operation SparseSum::refuse(std::string_view why) {
  enter(state_)->refuse(why);
  return Operation(*state_);
}

template <class T>
SumView<T> SparseSum::result() const {
  const detail::SparseSumImpl& sum = unguarded(state_);
  require(sum.config.type == detail::sum_type_of<T>, "sum '{}': its result is of type {}: {} was asked for", sum.config.name,
          name_of(sum.config.type), name_of(detail::sum_type_of<T>));
  if (!sum.waited_for()) fail(WEIR_ERR_BUSY, "sum '{}' is running: wait for it before you take its result", sum.config.name);
  const auto [indices, values, count] = sum.result();
  const auto size = static_cast<std::size_t>(count);
  return {{indices, size}, {static_cast<const T*>(values), size}};
}
template SumView<float> SparseSum::result() const;
template SumView<double> SparseSum::result() const;
template SumView<std::int32_t> SparseSum::result() const;
template SumView<std::int64_t> SparseSum::result() const;

std::int64_t SparseSum::range_begin(int rank) const { return unguarded(state_).range_begin(rank); }
const SparseSumConfig& SparseSum::config() const { return unguarded(state_).config; }
const SparseSumStatistics& SparseSum::statistics() const { return unguarded(state_).statistics; }
std::int64_t SparseSum::memory_bytes() const { return enter(state_)->memory_bytes(); }

}  // namespace weir
