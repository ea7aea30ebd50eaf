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

std::uint32_t SharedMeeting::next() const noexcept { return Shared(word_of(me_, meetings)).load(std::memory_order_relaxed) + 1; }

/// Members may have gone on to the next meeting. Numbers wrap around.
bool SharedMeeting::has_come(std::size_t member) const noexcept {
  const std::uint32_t theirs = Shared(word_of(member, meetings)).load(std::memory_order_acquire);
  return static_cast<std::int32_t>(theirs - meeting_) >= 0;
}

void SharedMeeting::arrive() noexcept {
  meeting_ = next();
  come_ = 0;
  last_ = me_;
  Shared(word_of(me_, meetings)).store(meeting_, std::memory_order_release);
  // A rank that falls asleep at this moment may be missed, and wakes up after longest_sleep. A fence here would cost each meeting
  // as much as all the rest.
  if (Shared(word(sleepers)).load(std::memory_order_relaxed) == 0) return;
  if (Shared(word(sleepers)).fetch_add(0) == 0 || !reached()) return;  // of two that come last, the second to add sees the other
  Shared(word(wakes)).fetch_add(1);
  syscall(SYS_futex, &word(wakes), FUTEX_WAKE, std::numeric_limits<int>::max(), nullptr, nullptr, 0);
}

bool SharedMeeting::reached() {
  for (; come_ < members_.size(); ++come_) {
    if (has_come(come_)) continue;
    for (std::size_t member = come_; member < members_.size(); ++member) {
      if (!has_come(member)) last_ = member;
    }
    return false;
  }
  return Shared(word(abandoned)).load(std::memory_order_relaxed) == 0;
}

void SharedMeeting::abandon() noexcept { Shared(word(abandoned)).store(1, std::memory_order_relaxed); }

void SharedMeeting::idle() noexcept {
  // Other ranks on this core may compute for a while before they come. Other programs keep it for a time slice, mostly 3 or 4 ms.
  thread_local Yielding yielding(1, std::chrono::microseconds(2500));
  if (yielding.yield()) return;
  if (Shared(word(abandoned)).load(std::memory_order_relaxed) != 0) return give_way();
  Shared(word(sleepers)).fetch_add(1);
  const std::uint32_t before = Shared(word(wakes)).load();
  if (!reached()) syscall(SYS_futex, &word(wakes), FUTEX_WAIT, before, &longest_sleep, nullptr, 0);
  Shared(word(sleepers)).fetch_sub(1);
}

int SharedMeeting::awaited_rank() const noexcept {
  for (std::size_t member = 0; member < members_.size(); ++member) {
    if (!has_come(member)) return members_[member];
  }
  return Shared(word(abandoned)).load(std::memory_order_relaxed) != 0 ? -1 : members_[last_];
}

std::string SharedMeeting::describe() const {
  const int rank = awaited_rank();
  return rank < 0 ? "ranks that have given up" : "rank " + std::to_string(rank) + " in shared memory";
}

}  // namespace weir
