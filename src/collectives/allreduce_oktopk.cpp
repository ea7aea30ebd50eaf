#include "collectives/allreduce_oktopk.hpp"

#include "collectives/memory_spaces.hpp"
#include "collectives/oktopk_cost.hpp"
#include "collectives/oktopk_parameters.hpp"

namespace weir {

std::int64_t shared_bytes_of_oktopk(const ExchangeSpec& spec) {
  if (spec.ranks == 1 || !may_share(spec)) return 0;
  return spec.type == DataType::float32 ? OkTopkInNode<float>::memory_for(spec) : OkTopkInNode<double>::memory_for(spec);
}

template <class T>
std::unique_ptr<SparseAllreduce<T>> make_oktopk(const ExchangeSpec& spec) {
  return make_in_memory_of<OkTopk, T>(spec);
}
template <class T>
std::unique_ptr<SparseAllreduce<T>> make_oktopk(const ExchangeSpec& spec, const OkTopkSchedules& schedules) {
  return std::make_unique<OkTopk<T, HostSpace<T>>>(spec, schedules);
}
template std::unique_ptr<SparseAllreduce<float>> make_oktopk(const ExchangeSpec&);
template std::unique_ptr<SparseAllreduce<double>> make_oktopk(const ExchangeSpec&);
template std::unique_ptr<SparseAllreduce<float>> make_oktopk(const ExchangeSpec&, const OkTopkSchedules&);
template std::unique_ptr<SparseAllreduce<double>> make_oktopk(const ExchangeSpec&, const OkTopkSchedules&);

const AllreduceRow oktopk_row{.name = "oktopk",
                              .description = "Ok-Topk: O(k) sparse allreduce; directly, a rank sends at most 3 k entries",
                              .cost = cost_oktopk,
                              .parameters = oktopk_parameters,
                              .counters = oktopk_counters,
                              .check = check_oktopk,
                              .asks_costs = asks_costs_of_schedules,
                              .shared_bytes = shared_bytes_of_oktopk,
                              .cuda_memory = true,
                              .sparse_factories = {make_oktopk<float>, make_oktopk<double>}};

}  // namespace weir
