#include "checkpoint/signals.hpp"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <system_error>

#include "base/error.hpp"

namespace weir::checkpoint {
namespace {

std::atomic<int> caught{0};
static_assert(std::atomic<int>::is_always_lock_free);

}  // namespace

void catch_signal(int signal) {
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP})
    require(signal != fault,
            "signal {} says that the program is wrong: it cannot go on after it; give another, SIGTERM or SIGUSR1 say", signal);
  struct sigaction action {};
  action.sa_handler = [](int) { caught.fetch_add(1, std::memory_order_relaxed); };
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  if (sigaction(signal, &action, nullptr) != 0)
    fail(WEIR_ERR_ARGUMENT, "signal {} cannot be caught: {}; give another, SIGTERM or SIGUSR1 say", signal,
         std::generic_category().message(errno));
}

int caught_signals() noexcept { return caught.load(std::memory_order_relaxed); }

}  // namespace weir::checkpoint
