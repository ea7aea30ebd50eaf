// stages.hpp: costs of stages that several algorithms share, and how they are added to a Cost.
#pragma once

#include "model/steps.hpp"

namespace weir::model {

/// The default window of algorithms that send to every rank.
constexpr int usual_window = 4;
constexpr double announcement_bytes = 16;  ///< size and error; what a rank announces is received only after that

/// Everything that a cost function depends on.
struct Setting {
  Setting(const Machine& machine_in, const Problem& problem_in);

  const Machine& machine;
  const Problem& problem;
  Network network;
  Group all;    ///< every rank
  Group rings;  ///< ranks of equal local rank; there are `shards` such groups at once
  Group node;   ///< ranks of the largest node
  double n, k;
  double bytes;  ///< of the dense array
  int shards;    ///< owners in a node: the number of ranks of the smallest node
};

/// Adds an exchange among all ranks: across nodes, or in the node if there is only one.
void book_flat(Cost& cost, const Setting& setting, const StepCost& traffic);
void book_across(Cost& cost, const StepCost& traffic);
void book_in_node(Cost& cost, const StepCost& traffic);

/// Returns the time of compensating n elements and selecting exactly k of them.
[[nodiscard]] double select_seconds(const Setting& setting, double n, double k);
/// Returns the time of decoding `entries`, settling the residual and writing the dense result.
[[nodiscard]] double apply_seconds(const Setting& setting, double entries);
/// Returns the number of entries that go into the merges of a tree over `leaves` vectors of k entries out of `range`.
[[nodiscard]] double merged_entries(double range, double k, int leaves);

/// Returns the time in which dense algorithms check that the gradient is finite.
[[nodiscard]] double check_seconds(const Setting& setting);
/// Returns the cost of agreeing that all gradients are finite, before dense algorithms.
[[nodiscard]] StepCost agreement(const Setting& setting);
/// Returns the cost of a ring allreduce of `bytes` within the group.
[[nodiscard]] StepCost ring_allreduce(const Setting& setting, const Group& group, double bytes);
/// Returns the cost until every rank has the sum of k entries out of `range` from each: distinct(range, k, ranks) entries.
[[nodiscard]] StepCost gather_and_merge(const Setting& setting, const Group& group, double range, double k);
/// Returns the time that the problem's compressor takes to encode, or to decode, that number of elements.
[[nodiscard]] double encode_seconds(const Setting& setting, double elements);
[[nodiscard]] double decode_seconds(const Setting& setting, double elements);

/// Returns the cost until every rank has summed its region of k entries out of `range` from each.
[[nodiscard]] StepCost split_and_reduce(const Setting& setting, const Group& group, double range, double k);

/// Returns the cost of dense sums of the node's gradients: every rank shows or sends each shard to its owner, which adds.
[[nodiscard]] StepCost node_reduce_scatter(const Setting& setting);
/// Returns the cost until every rank of the node has all shards of the dense array.
[[nodiscard]] StepCost node_dense_allgather(const Setting& setting);
/// Returns whether the ranks of nodes sum in shared memory.
[[nodiscard]] bool shares_memory(const Setting& setting);
/// Returns the cost of `meetings` of a NodePipeline. In all of them together, a rank reads and writes `bytes` in memory, and
/// `cached` bytes in what others have in their caches, or will.
[[nodiscard]] StepCost node_pipeline(const Setting& setting, double meetings, double bytes, double cached);
/// Returns the cost of sending `bytes` from every owner to each other rank of the node.
[[nodiscard]] StepCost node_allgather(const Setting& setting, double bytes);

}  // namespace weir::model
