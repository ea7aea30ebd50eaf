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

void SharedMeeting::arrive(int me) noexcept {
  before_ = Shared(word(meetings)).load(std::memory_order_relaxed);
  Shared(word_of(me, arrivals)).store(before_ + 1, std::memory_order_relaxed);
  if (Shared(word(arrived)).fetch_add(1, std::memory_order_acq_rel) + 1 < members_.size()) return;
  Shared(word(arrived)).store(0, std::memory_order_relaxed);
  Shared(word(meetings)).store(before_ + 1);
  if (Shared(word(sleepers)).load() > 0)
    syscall(SYS_futex, &word(meetings), FUTEX_WAKE, std::numeric_limits<int>::max(), nullptr, nullptr, 0);
}

bool SharedMeeting::reached() { return Shared(word(meetings)).load(std::memory_order_acquire) != before_; }

void SharedMeeting::idle() noexcept {
  for (int look = 0; look < looks; ++look) {
    if (reached()) return;
  }
  Shared(word(sleepers)).fetch_add(1);
  syscall(SYS_futex, &word(meetings), FUTEX_WAIT, before_, &longest_sleep, nullptr, 0);
  Shared(word(sleepers)).fetch_sub(1);
}

std::string SharedMeeting::describe() const {
  const auto missing = [&](int member) { return Shared(word_of(member, arrivals)).load(std::memory_order_relaxed) != before_ + 1; };
  int member = 0;
  while (member + 1 < static_cast<int>(members_.size()) && !missing(member)) ++member;
  return "rank " + std::to_string(members_[static_cast<std::size_t>(member)]) + " in shared memory";
}

}  // namespace weir
