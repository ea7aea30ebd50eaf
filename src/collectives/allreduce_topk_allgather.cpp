#include "collectives/allreduce_topk_allgather.hpp"

#include "collectives/memory_spaces.hpp"
#include "model/stages.hpp"

namespace weir {

template <class T>
std::unique_ptr<SparseAllreduce<T>> make_topk_allgather(const ExchangeSpec& spec) {
  return make_in_memory_of<TopkAllgather, T>(spec);
}
template std::unique_ptr<SparseAllreduce<float>> make_topk_allgather(const ExchangeSpec&);
template std::unique_ptr<SparseAllreduce<double>> make_topk_allgather(const ExchangeSpec&);

namespace {

/// Returns the cost of TopkA: an allgather of every rank's k entries.
Cost cost_topk_allgather(const Machine& machine, const Problem& problem) {
  const model::Setting setting(machine, problem);
  Cost cost;
  cost.select = select_seconds(setting, setting.n, setting.k);
  book_flat(cost, setting, gather_and_merge(setting, setting.all, setting.n, setting.k));
  // The entries are decoded before they are merged.
  cost.apply = apply_seconds(setting, 0) + model::distinct(setting.n, setting.k, problem.ranks) / machine.rates.scatter;
  return cost;
}

}  // namespace

const AllreduceRow topk_allgather_row{.name = "topk_allgather",
                                      .description = "TopkA: every rank gathers every rank's top-k and sums",
                                      .cost = cost_topk_allgather,
                                      .delivers_all = true,
                                      .cuda_memory = true,
                                      .sparse_factories = topk_allgather_factories};

}  // namespace weir
