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
constexpr int looks = 100;                     // before a rank sleeps: about as long as falling asleep takes

using Shared = std::atomic_ref<std::uint32_t>;
static_assert(Shared::is_always_lock_free, "processes share it");

}  // namespace

void SharedMeeting::arrive() noexcept {
  before_ = Shared(words_[meetings]).load(std::memory_order_relaxed);
  if (Shared(words_[arrived]).fetch_add(1, std::memory_order_acq_rel) + 1 < ranks_) return;
  Shared(words_[arrived]).store(0, std::memory_order_relaxed);
  Shared(words_[meetings]).store(before_ + 1);
  if (Shared(words_[sleepers]).load() > 0)
    syscall(SYS_futex, &words_[meetings], FUTEX_WAKE, std::numeric_limits<int>::max(), nullptr, nullptr, 0);
}

bool SharedMeeting::reached() { return Shared(words_[meetings]).load(std::memory_order_acquire) != before_; }

void SharedMeeting::idle() noexcept {
  for (int look = 0; look < looks; ++look) {
    if (reached()) return;
  }
  Shared(words_[sleepers]).fetch_add(1);
  syscall(SYS_futex, &words_[meetings], FUTEX_WAIT, before_, &longest_sleep, nullptr, 0);
  Shared(words_[sleepers]).fetch_sub(1);
}

}  // namespace weir
