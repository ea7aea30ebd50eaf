#include "base/log.hpp"

#include <cstdio>
#include <mutex>
#include <utility>

namespace weir {
namespace {

struct Sink {
  std::mutex mutex;
  LogFunction function;
};
// Never destroyed: communicators that outlive main may still have something to say.
Sink& sink() {
  static Sink& only = *new Sink;
  return only;
}

}  // namespace

void set_log_function(LogFunction function) {
  const std::lock_guard lock(sink().mutex);
  sink().function = std::move(function);
}

void deliver_message(LogLevel level, std::string_view text) noexcept {
  try {
    const std::lock_guard lock(sink().mutex);
    if (sink().function)
      sink().function(level, text);
    else
      fmt::print(stderr, "weir: {}\n", text);
  } catch (...) {  // what the function throws is its own affair; without memory, a message less
  }
}

}  // namespace weir
