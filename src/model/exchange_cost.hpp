// exchange_cost.hpp: what an alltoallv costs directly and by node, and which way is cheaper. Pure.
#pragma once

#include "model/stages.hpp"

namespace weir {

namespace model {

/// make_direct_alltoallv with a block of `bytes` from every rank to every other.
[[nodiscard]] StepCost direct_alltoallv(const Setting& setting, double bytes);
/// make_by_node_alltoallv with the same, for a rank of the largest node.
[[nodiscard]] StepCost by_node_alltoallv(const Setting& setting, double bytes);

}  // namespace model

/// Whether messages to the ranks of another node had better travel as one. `bytes_per_pair`: the mean block from one rank to
/// another. Of `problem`, only ranks and nodes count. With one node, or one rank on every node, there is no other way: false.
[[nodiscard]] bool by_node_is_cheaper(const Machine& machine, const Problem& problem, double bytes_per_pair);

}  // namespace weir
