#include "checkpoint/signals.hpp"

#include <pthread.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <system_error>

#include "base/error.hpp"

namespace weir::checkpoint {
namespace {

std::atomic<int> caught{0};
static_assert(std::atomic<int>::is_always_lock_free);

void count_signal(int /*signal*/) { caught.fetch_add(1, std::memory_order_relaxed); }

/// A signal's action before it was caught.
struct Before {
  std::atomic<bool> known = false;
  struct sigaction action {};
};
std::array<Before, NSIG> before;

/// Runs in a child of fork(), which saves nothing: gives signals their previous actions back. Calls only async-signal-safe
/// functions.
void give_signals_back() {
  for (int signal = 1; signal < NSIG; ++signal) {
    const Before& old = before[static_cast<std::size_t>(signal)];
    struct sigaction now {};
    if (old.known && sigaction(signal, nullptr, &now) == 0 && now.sa_handler == count_signal)
      sigaction(signal, &old.action, nullptr);
  }
}

}  // namespace

void catch_signal(int signal) {
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP})
    require(signal != fault,
            "signal {} says that the program is wrong: it cannot go on after it; give another, SIGTERM or SIGUSR1 say", signal);
  static const int watches_forks = pthread_atfork(nullptr, nullptr, give_signals_back);
  if (watches_forks != 0) throw std::bad_alloc();
  struct sigaction action {};
  action.sa_handler = count_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  struct sigaction old {};
  if (sigaction(signal, &action, &old) != 0)
    fail(WEIR_ERR_ARGUMENT, "signal {} cannot be caught: {}; give another, SIGTERM or SIGUSR1 say", signal,
         std::generic_category().message(errno));
  if (old.sa_handler == count_signal) return;
  before[static_cast<std::size_t>(signal)].action = old;
  before[static_cast<std::size_t>(signal)].known = true;
}

int caught_signals() noexcept { return caught.load(std::memory_order_relaxed); }

}  // namespace weir::checkpoint
