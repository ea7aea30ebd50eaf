#include "base/at_end.hpp"

#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <set>
#include <utility>

namespace weir {
namespace {

struct Living {
  std::recursive_mutex mutex;  // recursive: a stop may take long, and a signal's handler may end the process meanwhile
  pid_t process = 0;           // the process that the list belongs to: a child of fork() has nothing of it
  std::set<AtEnd*> list;
};
// Never destroyed, because it is needed when the process ends.
Living& living() {
  static Living& only = *new Living;
  return only;
}

}  // namespace

AtEnd::AtEnd(End earliest, std::function<void()> stop, std::function<bool(End end)> finish)
    : earliest_(earliest), stop_(std::move(stop)), finish_(std::move(finish)) {
  const std::scoped_lock lock(living().mutex);
  [[maybe_unused]] static const int registered = std::atexit([] { before_end(End::process); });
  living().process = getpid();
  living().list.insert(this);
}

AtEnd::~AtEnd() {
  const std::scoped_lock lock(living().mutex);
  living().list.erase(this);
}

void before_end(End end) noexcept {
  if (living().process != getpid()) return;
  const std::scoped_lock lock(living().mutex);
  const auto concerns = [end](const AtEnd* one) { return end == End::process || one->earliest_ == end; };
  for (AtEnd* const one : living().list) {
    if (concerns(one) && one->stop_) one->stop_();
  }
  for (bool more = true; more;) {
    more = false;
    for (AtEnd* const one : living().list) {
      if (concerns(one) && one->finish_) more = one->finish_(end) || more;
    }
  }
}

}  // namespace weir
