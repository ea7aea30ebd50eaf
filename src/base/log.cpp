#include "base/log.hpp"

#include <cstdio>
#include <memory>
#include <mutex>
#include <utility>

#include "base/standard_error.hpp"

namespace weir {
namespace {

struct Sink {
  std::recursive_mutex mutex;  // a log function may set another
  std::shared_ptr<LogFunction> function = std::make_shared<LogFunction>();
  bool delivering = false;
};
// Never destroyed: communicators that outlive main may still log.
Sink& sink() {
  static Sink& only = *new Sink;
  return only;
}

}  // namespace

void set_log_function(LogFunction function) {
  auto made = std::make_shared<LogFunction>(std::move(function));
  const std::lock_guard lock(sink().mutex);
  sink().function.swap(made);
}

void deliver_message(LogLevel level, std::string_view text) noexcept {
  try {
    const std::lock_guard lock(sink().mutex);
    const auto function = sink().function;  // keeps the function alive if it sets another
    if (!*function || sink().delivering) {  // messages that a log function causes must not come back to it
      print_error("weir: {}\n", text);
      return;
    }
    sink().delivering = true;
    try {
      (*function)(level, text);
    } catch (...) {  // the function's own affair
    }
    sink().delivering = false;
  } catch (...) {  // no memory: the message is lost
  }
}

}  // namespace weir
