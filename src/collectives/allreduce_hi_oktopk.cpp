#include "collectives/allreduce_hi_oktopk.hpp"

namespace weir {

template <class T>
std::unique_ptr<SparseAllreduce<T>> make_hi_oktopk(const AllreduceProblem& problem) {
  if (!problem.switches) return make_oktopk<T>(problem);
  return std::make_unique<HiOkTopk<T>>(problem);
}
template std::unique_ptr<SparseAllreduce<float>> make_hi_oktopk(const AllreduceProblem&);
template std::unique_ptr<SparseAllreduce<double>> make_hi_oktopk(const AllreduceProblem&);

}  // namespace weir
