#include "collectives/sparse_cuda.hpp"

#include "collectives/allreduce_oktopk.hpp"
#include "collectives/allreduce_topk_allgather.hpp"
#include "collectives/allreduce_topk_dsa.hpp"
#include "collectives/device_space.hpp"
#include "collectives/staged_allreduce.hpp"
#include "collectives/switch_groups.hpp"

namespace weir {

template <class T>
std::unique_ptr<SparseAllreduce<T>> make_sparse_cuda(const AllreduceRow& row, const ExchangeSpec& spec) {
  using Space = DeviceSpace<T>;
  const auto staged = [&] {
    return std::make_unique<StagedAllreduce<T>>(row.make_sparse<T>(spec), spec, row.largest_update(spec));
  };
  if (spec.along_switches && find_switch_groups(*spec.topology)) return staged();
  switch (row.exchange) {
    case SparseExchange::oktopk:
      return std::make_unique<OkTopk<T, Space>>(spec, schedules_of(spec));
    case SparseExchange::topk_allgather:
      return std::make_unique<TopkAllgather<T, Space>>(spec);
    case SparseExchange::topk_dsa:
      return std::make_unique<TopkDsa<T, Space>>(spec);
    default:
      return staged();
  }
}

template std::unique_ptr<SparseAllreduce<float>> make_sparse_cuda(const AllreduceRow&, const ExchangeSpec&);
template std::unique_ptr<SparseAllreduce<double>> make_sparse_cuda(const AllreduceRow&, const ExchangeSpec&);

}  // namespace weir
