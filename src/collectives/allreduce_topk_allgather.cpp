#include "collectives/allreduce_topk_allgather.hpp"

#include "collectives/host_space.hpp"

namespace weir {

template <class T>
std::unique_ptr<SparseAllreduce<T>> make_topk_allgather(const AllreduceProblem& problem) {
  return std::make_unique<TopkAllgather<T, HostSpace<T>>>(problem);
}
template std::unique_ptr<SparseAllreduce<float>> make_topk_allgather(const AllreduceProblem&);
template std::unique_ptr<SparseAllreduce<double>> make_topk_allgather(const AllreduceProblem&);

}  // namespace weir
