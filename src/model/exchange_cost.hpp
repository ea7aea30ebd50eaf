// exchange_cost.hpp: what an alltoallv costs directly and by node, and which of them is cheaper. Pure.
#pragma once

#include "model/stages.hpp"

namespace weir {

namespace model {

/// Returns the cost of make_direct_alltoallv with a block of `bytes` from every rank to every other.
[[nodiscard]] StepCost direct_alltoallv(const Setting& setting, double bytes);
/// Returns the cost of make_by_node_alltoallv with the same blocks, for a rank of the largest node.
[[nodiscard]] StepCost by_node_alltoallv(const Setting& setting, double bytes);

}  // namespace model

/// Returns whether messages to the ranks of another node are cheaper as one message. `bytes_per_pair`: the mean block from one rank
/// to another. Of `problem`, only ranks and nodes count. False with one node, or one rank on every node: there is only one way.
[[nodiscard]] bool by_node_is_cheaper(const Machine& machine, const Problem& problem, double bytes_per_pair);

}  // namespace weir
