#include "collectives/allreduce_oktopk.hpp"

#include "collectives/host_space.hpp"

namespace weir {

template <class T>
std::unique_ptr<SparseAllreduce<T>> make_oktopk(const ExchangeSpec& spec) {
  return make_oktopk<T>(spec, schedules_of(spec));
}
template <class T>
std::unique_ptr<SparseAllreduce<T>> make_oktopk(const ExchangeSpec& spec, const OkTopkSchedules& schedules) {
  return std::make_unique<OkTopk<T, HostSpace<T>>>(spec, schedules);
}
template std::unique_ptr<SparseAllreduce<float>> make_oktopk(const ExchangeSpec&);
template std::unique_ptr<SparseAllreduce<double>> make_oktopk(const ExchangeSpec&);
template std::unique_ptr<SparseAllreduce<float>> make_oktopk(const ExchangeSpec&, const OkTopkSchedules&);
template std::unique_ptr<SparseAllreduce<double>> make_oktopk(const ExchangeSpec&, const OkTopkSchedules&);

}  // namespace weir
