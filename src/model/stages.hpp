// stages.hpp: stages that several algorithms share, and how they are booked in a Cost.
#pragma once

#include "model/steps.hpp"

namespace weir::model {

/// The default of algorithms that send to every rank.
constexpr int usual_window = 4;
constexpr double announcement_bytes = 16;  ///< size and fault; what a rank announces is received only then

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

/// Before dense algorithms, ranks agree that the gradients are sound.
[[nodiscard]] StepCost agreement(const Setting& setting);
/// Ring allreduce of `bytes` within the group.
[[nodiscard]] StepCost ring_allreduce(const Setting& setting, const Group& group, double bytes);
/// Ends with every rank holding the sum of k entries out of `range` from each: distinct(range, k, ranks) entries.
[[nodiscard]] StepCost gather_and_merge(const Setting& setting, const Group& group, double range, double k);
/// Returns the time that the problem's compressor takes to encode, or to decode, that number of elements.
[[nodiscard]] double encode_seconds(const Setting& setting, double elements);
[[nodiscard]] double decode_seconds(const Setting& setting, double elements);

/// Every rank sums its region of k entries out of `range` from each.
[[nodiscard]] StepCost split_and_reduce(const Setting& setting, const Group& group, double range, double k);

/// Dense sums of the node's gradients: every rank shows or sends each shard to its owner, who adds.
[[nodiscard]] StepCost node_reduce_scatter(const Setting& setting);
/// Every rank of the node ends with all shards of the dense array.
[[nodiscard]] StepCost node_dense_allgather(const Setting& setting);
/// Every owner sends `bytes` to each other rank of the node.
[[nodiscard]] StepCost node_allgather(const Setting& setting, double bytes);

}  // namespace weir::model
