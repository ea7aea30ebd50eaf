// steps.hpp: costs of the steps that algorithms are made of: shifts, mirrored exchanges, and what is built from them. Pure.
#pragma once

#include "model/cost.hpp"

namespace weir::model {

/// Seconds, and bytes sent by a rank: the maximum of each over the ranks. Sums over steps are therefore upper bounds.
struct StepCost {
  double seconds = 0;
  double bytes_in_node = 0, bytes_across = 0;
  int steps = 0;  ///< the number of times that ranks wait for messages

  StepCost& operator+=(const StepCost& other);
};

/// The ranks that take part in a step, in blocks of `per_node`, and how many such groups do the same at once on every node.
struct Group {
  int ranks = 1, per_node = 1;
  int concurrent = 1;
};

/// Returns the seconds for `bytes` to a peer on another node while `senders` of this node send; `mutual`: the peer sends back at
/// once.
[[nodiscard]] double transfer_across(const Link& link, double bytes, int senders, bool mutual);
/// Returns the same for a peer on this node. Link::shared was measured with ranks that all send and receive, so mutual sends need
/// no more of it.
[[nodiscard]] double transfer_inside(const Link& link, double bytes, int senders, bool mutual);

/// ControlAlltoall: the most ranks that send each other words directly.
constexpr int most_direct_words = 256;

/// The links of one machine as one problem's ranks use them.
class Network {
 public:
  Network(const Machine& machine, const Problem& problem)
      : inside_(machine.link(problem.inside)), across_(machine.link(problem.across)) {}

  /// Every rank sends `bytes` to the rank `distance` before it, modulo the number of ranks.
  [[nodiscard]] StepCost shift(const Group& group, int distance, double bytes) const;
  /// Ranks r and r ^ distance send each other `bytes`, for all ranks below the largest power of two.
  [[nodiscard]] StepCost mirror(const Group& group, int distance, double bytes) const;
  /// The ranks from Q on, the largest power of two, send `bytes` to the ranks Q below them; both ways if `mutual`.
  [[nodiscard]] StepCost fold(const Group& group, double bytes, bool mutual) const;
  /// Bruck's allgather of a block of `bytes` from every rank.
  [[nodiscard]] StepCost allgather(const Group& group, double bytes) const;
  /// The same in a ring.
  [[nodiscard]] StepCost ring_allgather(const Group& group, double bytes) const;
  /// A small allreduce by recursive doubling.
  [[nodiscard]] StepCost allreduce_control(const Group& group, double bytes) const;
  /// An alltoall of words of `bytes`, as ControlAlltoall makes it.
  [[nodiscard]] StepCost alltoall_control(const Group& group, double bytes) const;
  /// `bytes` from every rank to every other, `window` messages in flight.
  [[nodiscard]] StepCost all_to_all(const Group& group, double bytes, int window) const;
  /// One level of a binomial tree: one message. Two trees, up and down, have this cost per level each.
  [[nodiscard]] StepCost tree_level(const Group& group, int distance, double bytes) const;
  /// Inside a node: each of `senders` ranks posts `messages` messages of `bytes` at once.
  [[nodiscard]] StepCost local(int senders, int messages, double bytes) const;

 private:
  [[nodiscard]] StepCost step(int crossing, int staying, int concurrent, double bytes, bool mutual) const;

  Link inside_, across_;
};

/// Returns the bytes of a message of `entries` sorted entries out of `range` positions. Compact: the smallest of COO, Elias-Fano
/// with low parts of 4, 8, 12 or 16 bits, bitmap and dense.
[[nodiscard]] double message_bytes(const Problem& problem, double entries, double range);

/// Returns the number of distinct positions among `contributions` random choices of `k` out of `range`.
[[nodiscard]] double distinct(double range, double k, int contributions);

/// Returns ceil(log2 ranks).
[[nodiscard]] int tree_depth(int ranks);

}  // namespace weir::model
