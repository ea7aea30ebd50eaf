#include "communicator/node_cards.hpp"

#include <fmt/format.h>

#include "base/give_way.hpp"
#include "topology/cores.hpp"

namespace weir::detail {

NodeCards::NodeCards(SharedMemory memory, std::int64_t card, const Topology& topology)
    : memory_(memory),
      slot_bytes_(round_up(first_byte + card)),
      rank_(topology.rank()),
      ranks_(topology.size()),
      spins_(ranks_per_core(topology) > 1 ? 0 : usual_spins) {}

void NodeCards::clear() noexcept {
  for (std::uint64_t card = 0; card < 2; ++card) reinterpret_cast<Number*>(slot(rank_, card))->store(0, std::memory_order_relaxed);
}

void NodeCards::publish() noexcept {
  ++published_;
  seen_ = 0;
  number(rank_).store(published_, std::memory_order_release);
}

bool NodeCards::reached() noexcept {
  while (seen_ < ranks_ && number(seen_).load(std::memory_order_acquire) == published_) ++seen_;
  return seen_ == ranks_;
}

bool NodeCards::reached_soon() noexcept {
  for (int spin = 0; spin < spins_ && !reached(); ++spin) pause_briefly();
  return reached();
}

std::string NodeCards::describe() const { return fmt::format("rank {} in shared memory", seen_); }

}  // namespace weir::detail
