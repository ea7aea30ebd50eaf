#include "transport/shared_meeting.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <limits>

namespace weir {
namespace {

constexpr timespec longest_sleep{0, 200'000};  // other runs and messages wait meanwhile

using Shared = std::atomic_ref<std::uint32_t>;
static_assert(Shared::is_always_lock_free, "processes share it");

}  // namespace

std::uint32_t SharedMeeting::next() const noexcept { return Shared(word(meetings)).load(std::memory_order_relaxed) + 1; }

void SharedMeeting::arrive(int me) noexcept {
  before_ = Shared(word(meetings)).load(std::memory_order_relaxed);
  Shared(word_of(me, arrivals)).store(before_ + 1, std::memory_order_relaxed);
  if (Shared(word(arrived)).fetch_add(1, std::memory_order_acq_rel) + 1 < members_.size()) return;
  Shared(word(arrived)).store(0, std::memory_order_relaxed);
  Shared(word(last_to_arrive)).store(static_cast<std::uint32_t>(me), std::memory_order_relaxed);
  Shared(word(meetings)).store(before_ + 1);
  if (Shared(word(sleepers)).load() > 0)
    syscall(SYS_futex, &word(meetings), FUTEX_WAKE, std::numeric_limits<int>::max(), nullptr, nullptr, 0);
}

bool SharedMeeting::reached() {
  return Shared(word(meetings)).load(std::memory_order_acquire) != before_ &&
         Shared(word(abandoned)).load(std::memory_order_relaxed) == 0;
}

void SharedMeeting::abandon() noexcept { Shared(word(abandoned)).store(1, std::memory_order_relaxed); }

void SharedMeeting::idle() noexcept {
  // Other ranks on this core may compute for a while before they come. Other programs keep it for a time slice, mostly 3 or 4 ms.
  thread_local Yielding yielding(1, std::chrono::microseconds(2500));
  if (yielding.yield()) return;
  if (Shared(word(abandoned)).load(std::memory_order_relaxed) != 0) return give_way();
  Shared(word(sleepers)).fetch_add(1);
  syscall(SYS_futex, &word(meetings), FUTEX_WAIT, before_, &longest_sleep, nullptr, 0);
  Shared(word(sleepers)).fetch_sub(1);
}

int SharedMeeting::awaited_rank() const noexcept {
  if (Shared(word(meetings)).load(std::memory_order_acquire) != before_) {
    if (Shared(word(abandoned)).load(std::memory_order_relaxed) != 0) return -1;
    return members_[Shared(word(last_to_arrive)).load(std::memory_order_relaxed)];
  }
  for (std::size_t member = 0; member < members_.size(); ++member) {
    if (Shared(word_of(static_cast<int>(member), arrivals)).load(std::memory_order_relaxed) != before_ + 1) return members_[member];
  }
  return -1;
}

std::string SharedMeeting::describe() const {
  const int rank = awaited_rank();
  return rank < 0 ? "ranks that have given up" : "rank " + std::to_string(rank) + " in shared memory";
}

}  // namespace weir
