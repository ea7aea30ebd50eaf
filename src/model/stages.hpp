// stages.hpp: stages that several algorithms share, and how they are booked in a Cost.
#pragma once

#include "model/steps.hpp"

namespace weir::model {

/// AllreduceConfig's default.
constexpr int usual_window = 4;

/// Everything a cost function looks at.
struct Setting {
  Setting(const Machine& machine_in, const Problem& problem_in);

  const Machine& machine;
  const Problem& problem;
  Network network;
  Group all;    ///< every rank
  Group rings;  ///< ranks of equal local rank, `shards` such groups at once
  Group node;   ///< ranks of the largest node
  double n, k;
  double bytes;  ///< of the dense array
  int shards;    ///< owners in a node: what its smallest has ranks
};

/// Books an exchange among all ranks: across nodes, or in the node when there is one.
void book_flat(Cost& cost, const Setting& setting, const StepCost& traffic);
void book_across(Cost& cost, const StepCost& traffic);
void book_in_node(Cost& cost, const StepCost& traffic);

/// Compensation of n elements and exact selection of k of them.
[[nodiscard]] double select_seconds(const Setting& setting, double n, double k);
/// `entries` decoded, the residual settled, the dense result written.
[[nodiscard]] double apply_seconds(const Setting& setting, double entries);
/// Entries that go into the merges of a tree over `leaves` vectors of k entries out of `range`.
[[nodiscard]] double merged_entries(double range, double k, int leaves);

/// Every rank sums its region of k entries out of `range` from each.
[[nodiscard]] StepCost split_and_reduce(const Setting& setting, const Group& group, double range, double k);

/// Dense sums of the node's gradients: every rank shows or sends each shard to its owner, who adds.
[[nodiscard]] StepCost node_reduce_scatter(const Setting& setting);
/// Every rank of the node ends with all shards of the dense array.
[[nodiscard]] StepCost node_dense_allgather(const Setting& setting);
/// Every owner sends `bytes` to each other rank of the node.
[[nodiscard]] StepCost node_allgather(const Setting& setting, double bytes);

}  // namespace weir::model
