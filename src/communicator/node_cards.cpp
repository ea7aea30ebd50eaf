#include "communicator/node_cards.hpp"

#include <algorithm>

#include "base/give_way.hpp"
#include "topology/cores.hpp"

namespace weir::detail {

NodeCards::NodeCards(SharedMemory memory, std::int64_t card, const Topology& topology)
    : memory_(memory),
      meeting_(memory.of(0), static_cast<int>(topology.node_peers().size())),
      slot_bytes_(round_up(first_byte + card)),
      peers_(topology.node_peers()),
      rank_(topology.local_rank(topology.rank())),
      ranks_(static_cast<int>(peers_.size())),
      spins_(ranks_per_core(topology) > 1 ? 0 : usual_spins) {}

void NodeCards::clear() noexcept {
  std::fill_n(memory_.of(rank_), SharedMeeting::bytes, std::byte{0});
  for (std::uint64_t card = 0; card < 2; ++card) number(rank_, card).store(0, std::memory_order_relaxed);
}

void NodeCards::publish() noexcept {
  ++published_;
  number(rank_, published_).store(published_, std::memory_order_relaxed);
  meeting_.arrive();
}

bool NodeCards::reached_soon() {
  for (int spin = 0; spin < spins_ && !reached(); ++spin) pause_briefly();
  return reached();
}

std::string NodeCards::describe() const {
  int missing = 0;
  while (missing + 1 < ranks_ && number(missing, published_).load(std::memory_order_relaxed) == published_) ++missing;
  return "rank " + std::to_string(peers_[static_cast<std::size_t>(missing)]) + " in shared memory";
}

}  // namespace weir::detail
