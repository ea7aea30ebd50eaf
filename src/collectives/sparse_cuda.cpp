#include "collectives/sparse_cuda.hpp"

#include "collectives/allreduce_oktopk.hpp"
#include "collectives/allreduce_topk_allgather.hpp"
#include "collectives/allreduce_topk_dsa.hpp"
#include "collectives/device_space.hpp"
#include "collectives/staged_allreduce.hpp"

namespace weir {

template <class T>
std::unique_ptr<SparseAllreduce<T>> make_sparse_cuda(const AllreduceRow& row, const AllreduceProblem& problem) {
  using Space = DeviceSpace<T>;
  const auto staged = [&] {
    return std::make_unique<StagedAllreduce<T>>(row.make_sparse<T>(problem), problem, row.largest_update(problem));
  };
  if (problem.switches) return staged();
  switch (row.exchange) {
    case SparseExchange::oktopk:
      return std::make_unique<OkTopk<T, Space>>(problem);
    case SparseExchange::topk_allgather:
      return std::make_unique<TopkAllgather<T, Space>>(problem);
    case SparseExchange::topk_dsa:
      return std::make_unique<TopkDsa<T, Space>>(problem);
    default:
      return staged();
  }
}

template std::unique_ptr<SparseAllreduce<float>> make_sparse_cuda(const AllreduceRow&, const AllreduceProblem&);
template std::unique_ptr<SparseAllreduce<double>> make_sparse_cuda(const AllreduceRow&, const AllreduceProblem&);

}  // namespace weir
