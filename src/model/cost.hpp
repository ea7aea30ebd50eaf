// cost.hpp: what an allreduce costs on a machine, by formula: one pure function per algorithm.
//
// The formulas are those of the papers (Ok-Topk table 1; CommLib section 3.2 for HiTopKComm), with these corrections: computing
// costs what the machine's rates say; ranks of one node that send across at once share what the node can send; two ranks that send
// to each other at once get the link's `exchange` bandwidth; entries take their encoded size. Ranks are placed in blocks: 0 .. R -
// 1 on the first node, and so on. Sparse contributions of different ranks are taken as independent, so that sums fill in as n (1 -
// (1 - k/n)^P): alike gradients cost less.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>
#include <weir/weir.hpp>

#include "base/parameters.hpp"
#include "model/machine.hpp"
#include "topology/topology.hpp"

namespace weir {

/// One allreduce on one set of ranks.
struct Problem {
  std::int64_t count = 0;  ///< n
  std::int64_t k = 0;      ///< entries to deliver
  int value_bytes = 4;     ///< of the plan's type
  WireFormat format = WireFormat::compact;
  WireValues values = WireValues::native;
  int ranks = 1, nodes = 1;
  int smallest_node = 1, largest_node = 1;      ///< ranks per node
  bool shared_memory = true;                    ///< dense data of ranks of one node goes through shared memory, not messages
  Level inside = Level::node;                   ///< outermost level between ranks of one node
  Level across = Level::system;                 ///< outermost level between nodes
  int switches = 1;                             ///< groups that exchanges may go along; 1: there are none (switch_groups.hpp)
  int smallest_switch = 1, largest_switch = 1;  ///< nodes per group
  bool any_schedule =
      false;  ///< ranks contribute at most k entries, as they are, from host memory: results do not depend on the schedule
  Parameters parameters{};  ///< of the algorithm; empty: its defaults
  // Of packed algorithms:
  double packed_bytes = 1.02;               ///< of an element, compressed; the default is that of block_quantise
  double encode_adds = 1, decode_adds = 1;  ///< time for an element, in units of what adding one takes
};

/// The problem on these ranks. The same on every rank.
[[nodiscard]] Problem make_problem(const Topology& topology, std::int64_t count, std::int64_t k, DataType type = DataType::float32);

struct Cost {
  double select = 0;    ///< s: compensation and local selection
  double in_node = 0;   ///< s: steps of hierarchical algorithms that stay in the nodes; on one node, the whole exchange
  double exchange = 0;  ///< s: the exchange across nodes, computing included
  double apply = 0;     ///< s: decoding of the update, residual and dense result
  double bytes_in_node = 0, bytes_across = 0;  ///< sent by a rank; the most that any rank sends of either

  [[nodiscard]] double seconds() const noexcept { return select + in_node + exchange + apply; }
};

using CostFunction = Cost (*)(const Machine&, const Problem&);

/// Ring: 2 (P - 1) steps of n / P values; one rank of each node sends across.
Cost cost_dense_ring(const Machine& machine, const Problem& problem);
/// Rabenseifner: recursive halving and doubling, in pairs that exchange; the largest messages go farthest.
Cost cost_dense_rabenseifner(const Machine& machine, const Problem& problem);
/// 2D torus: n / S to its owner within the node, S rings across nodes at once, and back; S is the smallest node's number of ranks.
Cost cost_dense_torus2d(const Machine& machine, const Problem& problem);
/// The MPI library's allreduce: the ring's cost times the machine's measured factor.
Cost cost_dense_mpi(const Machine& machine, const Problem& problem);
/// NCCL's allreduce: the ring's cost, as if GPUs had the hosts' links and added no faster, and another agreement: on whose turn it
/// is.
Cost cost_dense_nccl(const Machine& machine, const Problem& problem);
/// TopkA: allgather of every rank's k entries.
Cost cost_topk_allgather(const Machine& machine, const Problem& problem);
/// The same with a Gaussian threshold: one more pass for the moments.
Cost cost_gaussiank(const Machine& machine, const Problem& problem);
/// SparCML's dynamic sparse allreduce: regions summed by their owners, dense where that is smaller, then allgatherv.
Cost cost_topk_dsa(const Machine& machine, const Problem& problem);
/// gTopk: binomial tree of sums cut to k entries, and binomial broadcast.
Cost cost_gtopk(const Machine& machine, const Problem& problem);
/// Ok-Topk: balanced split-and-reduce, global threshold by histograms, allgatherv of k entries.
Cost cost_oktopk(const Machine& machine, const Problem& problem);
/// The exchanges that have a schedule: that of oktopk among all ranks, and of hi_oktopk that of a shard among nodes, or, where
/// there are switch groups, in each of them.
enum class OkTopkExchange { whole, rings, switch_group };
/// How the messages of oktopk, and of the exchanges of hi_oktopk, are arranged. Every schedule delivers the same bits.
///   direct     every rank sends to every other: Ok-Topk section 3.1.1, at most 3 k entries a rank
///   phased     split and reduce digit by digit of the rank number: about `radix` log P messages in place of P
///   one_round  every rank gathers every selection, and sums and cuts for itself: log P messages, for small k P
enum class ExchangeSchedule : std::uint8_t { automatic, direct, phased, one_round };
inline constexpr std::array<std::string_view, 4> schedule_names = {"automatic", "direct", "phased", "one_round"};
[[nodiscard]] constexpr std::string_view name_of(ExchangeSchedule schedule) {
  return schedule_names[static_cast<std::size_t>(schedule)];
}
/// What is asked for.
struct ScheduleRequest {
  ExchangeSchedule schedule = ExchangeSchedule::automatic;
  int radix = 0;    ///< of the phased one; 0: the cheapest
  bool any = true;  ///< automatic choice is free: if not, it is direct
};
/// A schedule, and the radix of the phased one.
struct ScheduleChoice {
  ExchangeSchedule schedule = ExchangeSchedule::direct;
  int radix = 2;

  friend bool operator==(const ScheduleChoice&, const ScheduleChoice&) = default;
};
struct CostedSchedule {
  ScheduleChoice choice;
  double seconds;  ///< of the exchange, without selecting before it and applying what comes of it
};
/// Among which choose_schedule() chooses: what is asked for alone, or those that can run and are within their limits.
[[nodiscard]] std::vector<CostedSchedule> considered_schedules(const Machine& machine, const Problem& problem,
                                                               const ScheduleRequest& request, OkTopkExchange exchange);
/// What is asked for, or the cheapest; one_round unless another saves a tenth of a run. The same on every processor: ranks need not
/// agree on it.
[[nodiscard]] ScheduleChoice choose_schedule(const Machine& machine, const Problem& problem, const ScheduleRequest& request,
                                             OkTopkExchange exchange);

/// Allgather of what a compressor makes of every rank's n elements.
Cost cost_packed_allgather(const Machine& machine, const Problem& problem);
/// Dense sums in the node, n / P compressed elements from every rank to every other across nodes, an allgather of the compressed
/// sums, and back to the node.
Cost cost_packed_reduce_scatter(const Machine& machine, const Problem& problem);
/// HiTopKComm: dense sums within the node, k / S entries of every shard gathered across nodes, and back.
Cost cost_hitopk(const Machine& machine, const Problem& problem);
/// The same with Ok-Topk across nodes; where there are switch groups, in each group, then among the groups: each of as many owners
/// as the smallest group has nodes exchanges its part of the group's k / S entries, and gives the result to its group.
Cost cost_hi_oktopk(const Machine& machine, const Problem& problem);

}  // namespace weir
