// log.hpp: logs one line per event, as WEIR_LOG says, to stderr or to the function that the program has set.
#pragma once

#include <fmt/core.h>

#include <new>
#include <string_view>

#include "base/settings.hpp"

namespace weir {

/// Delivers one message.
void deliver_message(LogLevel level, std::string_view text) noexcept;

/// Logs a message. If there is no memory for it, it is lost.
template <class... Args>
void log(LogLevel in_force, LogLevel level, fmt::format_string<Args...> text, Args&&... args) noexcept {
  if (level > in_force) return;
  try {
    deliver_message(level, fmt::format(text, std::forward<Args>(args)...));
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace weir
