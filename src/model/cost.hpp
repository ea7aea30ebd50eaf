// cost.hpp: what an allreduce costs on a machine, by formula: one pure function per algorithm, in the algorithm's file.
//
// The formulas are those of the papers (Ok-Topk table 1; CommLib section 3.2 for HiTopKComm), with these corrections. Computing
// costs what the machine's rates say. Ranks of one node that send to other nodes at once share the node's bandwidth. Two ranks that
// send to each other at once get the link's `exchange` bandwidth. Entries have their encoded size. Ranks are placed in blocks: 0 ..
// R - 1 on the first node, and so on. Sparse contributions of different ranks are taken as independent, so that a sum has n (1 - (1
// - k/n)^P) entries: similar gradients cost less.
#pragma once

#include <cstdint>
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
  bool shared_memory = true;                    ///< ranks of one node exchange through shared memory, not messages
  Level inside = Level::node;                   ///< outermost level between ranks of one node
  Level across = Level::system;                 ///< outermost level between nodes
  int switches = 1;                             ///< groups that exchanges may go along; 1: no such groups (switch_groups.hpp)
  int smallest_switch = 1, largest_switch = 1;  ///< nodes per group
  /// True if ranks contribute at most k entries, as they are, from host memory: results then do not depend on the schedule.
  bool any_schedule = false;
  Parameters parameters{};  ///< of the algorithm; empty: its defaults
  // For packed algorithms:
  double packed_bytes = 1.02;               ///< compressed size of an element; the default is that of block_quantise
  double encode_adds = 1, decode_adds = 1;  ///< time per element, relative to adding one
};

/// Returns the problem on these ranks. The same on every rank.
[[nodiscard]] Problem make_problem(const Topology& topology, std::int64_t count, std::int64_t k, DataType type = DataType::float32);

struct Cost {
  double select = 0;    ///< s: compensation and local selection
  double in_node = 0;   ///< s: steps of hierarchical algorithms inside the nodes; on one node, the whole exchange
  double exchange = 0;  ///< s: the exchange across nodes, computing included
  double apply = 0;     ///< s: decoding of the update, residual and dense result
  double bytes_in_node = 0, bytes_across = 0;  ///< sent by a rank; the maximum over ranks of each

  [[nodiscard]] double seconds() const noexcept { return select + in_node + exchange + apply; }
};

using CostFunction = Cost (*)(const Machine&, const Problem&);

}  // namespace weir
