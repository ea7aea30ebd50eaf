#include "collectives/allreduce_hi_oktopk.hpp"

namespace weir {

template <class T>
std::unique_ptr<SparseAllreduce<T>> make_hi_oktopk(const ExchangeSpec& spec) {
  auto groups = spec.along_switches ? find_switch_groups(*spec.topology) : nullptr;
  if (!groups) return make_oktopk<T>(spec);
  return std::make_unique<HiOkTopk<T>>(spec, std::move(groups));
}
template std::unique_ptr<SparseAllreduce<float>> make_hi_oktopk(const ExchangeSpec&);
template std::unique_ptr<SparseAllreduce<double>> make_hi_oktopk(const ExchangeSpec&);

}  // namespace weir
