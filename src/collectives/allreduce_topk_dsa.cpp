#include "collectives/allreduce_topk_dsa.hpp"

#include "collectives/host_space.hpp"

namespace weir {

template <class T>
std::unique_ptr<SparseAllreduce<T>> make_topk_dsa(const ExchangeSpec& spec) {
  return std::make_unique<TopkDsa<T, HostSpace<T>>>(spec);
}
template std::unique_ptr<SparseAllreduce<float>> make_topk_dsa(const ExchangeSpec&);
template std::unique_ptr<SparseAllreduce<double>> make_topk_dsa(const ExchangeSpec&);

}  // namespace weir
