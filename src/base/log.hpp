// log.hpp: one line per event on stderr, by WEIR_LOG.
#pragma once

#include <fmt/core.h>

#include <cstdio>

#include "base/settings.hpp"

namespace weir {

template <class... Args>
void log(LogLevel in_force, LogLevel level, fmt::format_string<Args...> text, Args&&... args) {
  if (level > in_force) return;
  fmt::print(stderr, "weir: {}\n", fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace weir
