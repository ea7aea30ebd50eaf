#include "collectives/allreduce_oktopk.hpp"

#include "collectives/host_space.hpp"

namespace weir {

template <class T>
std::unique_ptr<SparseAllreduce<T>> make_oktopk(const AllreduceProblem& problem) {
  return std::make_unique<OkTopk<T, HostSpace<T>>>(problem);
}
template std::unique_ptr<SparseAllreduce<float>> make_oktopk(const AllreduceProblem&);
template std::unique_ptr<SparseAllreduce<double>> make_oktopk(const AllreduceProblem&);

}  // namespace weir
