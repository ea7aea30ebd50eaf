#include "transport/transport.hpp"

#include <fmt/core.h>

#include <atomic>

#include "base/error.hpp"
#include "base/give_way.hpp"

namespace weir {

Request Transport::acquire(const Slot& content) {
  if (free_.empty() || (free_.size() <= setup_slots && content.tag != setup_tag)) {
    const int first = static_cast<int>(slots_.size());
    const int count = first == 0 ? 32 : 2 * first;
    grow(count);
    free_.reserve(static_cast<std::size_t>(count));
    slots_.resize(static_cast<std::size_t>(count));
    for (int i = count; i-- > first;) free_.push_back(i);
  }
  const int index = free_.back();
  free_.pop_back();
  slots_[static_cast<std::size_t>(index)] = content;
  return {index};
}

Request Transport::send(const void* data, std::int64_t bytes, int to, int tag) {
  const Request request = acquire({Kind::send, to, tag, bytes});
  post_send(request.slot, data);
  return request;
}

Request Transport::send_open(const void* data, std::int64_t bytes, int to, int tag) {
  if (bytes > longest_open_message) fail(WEIR_ERR_INTERNAL, "an open message has {} bytes", bytes);
  const Request request = acquire({Kind::send, to, tag, bytes, true});
  post_send(request.slot, data);
  return request;
}

Request Transport::receive(void* data, std::int64_t bytes, int from, int tag) {
  const Request request = acquire({Kind::receive, from, tag, bytes});
  post_receive(request.slot, data);
  return request;
}

Request Transport::receive_up_to(void* data, std::int64_t bytes, int from, int tag) {
  const Request request = acquire({Kind::receive, from, tag, bytes, true});
  post_receive(request.slot, data);
  return request;
}

Request Transport::allreduce(void* data, std::int64_t count, DataType type, int lane, int tag) {
  const Request request = acquire({Kind::allreduce, -1, tag, count * (type == DataType::float32 ? 4 : 8)});
  native_allreduce()->post_allreduce(request.slot, data, type, lane);
  return request;
}

void Transport::idle() noexcept { give_way(); }

LibraryLife& Transport::library() noexcept {
  static LibraryLife without_end;
  return without_end;
}

void sync_shared_memory() noexcept { std::atomic_thread_fence(std::memory_order_seq_cst); }

bool Transport::test(Request request) {
  if (!test_slot(request.slot)) return false;
  piece_done();
  slots_[static_cast<std::size_t>(request.slot)].kind = Kind::free;
  free_.push_back(request.slot);
  return true;
}

void Transport::abandon(int tag) noexcept {
  for (int i = 0; i < static_cast<int>(slots_.size()); ++i) {
    Slot& slot = slots_[static_cast<std::size_t>(i)];
    if (slot.kind == Kind::free || slot.tag != tag) continue;
    abandon_slot(i);
    slot.kind = Kind::free;
    free_.push_back(i);
  }
}

std::string Transport::describe(Request request) const {
  const Slot& s = slot(request.slot);
  if (s.kind == Kind::allreduce) return fmt::format("allreduce of {} bytes, tag {}", s.bytes, s.tag);
  if (s.kind == Kind::send) return fmt::format("send of {} bytes to rank {}, tag {}", s.bytes, s.peer, s.tag);
  return fmt::format("receive of {}{} bytes from rank {}, tag {}", s.open ? "up to " : "", s.bytes, s.peer, s.tag);
}

}  // namespace weir
