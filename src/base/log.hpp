// log.hpp: one line per event, by WEIR_LOG, on stderr or to the function that the program has set.
#pragma once

#include <fmt/core.h>

#include <string_view>

#include "base/settings.hpp"

namespace weir {

/// Delivers one message.
void deliver_message(LogLevel level, std::string_view text) noexcept;

template <class... Args>
void log(LogLevel in_force, LogLevel level, fmt::format_string<Args...> text, Args&&... args) {
  if (level > in_force) return;
  deliver_message(level, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace weir
