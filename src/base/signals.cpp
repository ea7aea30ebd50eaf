#include "base/signals.hpp"

#include <signal.h>

#include <atomic>

namespace weir {
namespace {

std::atomic<int> signals_counted{0};

}  // namespace

void count_signal(int signal) {
  struct sigaction action {};
  action.sa_handler = [](int) { signals_counted.fetch_add(1, std::memory_order_relaxed); };
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

int signals_so_far() noexcept { return signals_counted.load(std::memory_order_relaxed); }

}  // namespace weir
