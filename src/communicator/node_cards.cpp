#include "communicator/node_cards.hpp"

#include <fmt/format.h>

namespace weir::detail {

void NodeCards::publish() noexcept {
  ++published_;
  seen_ = 0;
  number(rank_).store(published_, std::memory_order_release);
}

bool NodeCards::reached() noexcept {
  while (seen_ < ranks_ && number(seen_).load(std::memory_order_acquire) == published_) ++seen_;
  return seen_ == ranks_;
}

std::string NodeCards::describe() const { return fmt::format("rank {} in shared memory", seen_); }

}  // namespace weir::detail
