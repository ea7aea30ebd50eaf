// topk_ring.hpp: what the example of docs/add-an-algorithm.md declares.
#pragma once

#include "collectives/allreduce.hpp"

namespace weir {

template <class T>
std::unique_ptr<SparseAllreduce<T>> make_topk_ring(const ExchangeSpec& spec);
/// TopkA around a ring: P - 1 messages of k entries; one rank of each node sends across.
Cost cost_topk_ring(const Machine& machine, const Problem& problem);

}  // namespace weir
