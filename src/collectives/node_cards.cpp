#include "collectives/node_cards.hpp"

#include <algorithm>

#include "base/give_way.hpp"
#include "topology/cores.hpp"

namespace weir {

NodeCards::NodeCards(SharedMemory memory, std::int64_t card, const Topology& topology)
    : memory_(memory),
      rank_(topology.local_rank(topology.rank())),
      meeting_(memory, topology.node_peers(), rank_),
      slot_bytes_(whole_lines(card)),
      spins_(ranks_per_core(topology) > 1 ? 0 : usual_spins) {}

void NodeCards::clear() noexcept { std::fill_n(memory_.of(rank_), SharedMeeting::bytes, std::byte{0}); }

void NodeCards::publish() noexcept {
  last_ = meeting_.next();
  meeting_.arrive();
}

bool NodeCards::reached_soon() {
  for (int spin = 0; spin < spins_ && !reached(); ++spin) pause_briefly();
  return reached();
}

}  // namespace weir
