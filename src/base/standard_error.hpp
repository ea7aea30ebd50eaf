// standard_error.hpp: prints to stderr.
#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <string>
#include <utility>

namespace weir {

/// Prints to stderr. If the disk is full, the descriptor closed or memory short, only the text is lost.
template <class... Args>
void print_error(fmt::format_string<Args...> text, Args&&... args) noexcept {
  try {
    const std::string made = fmt::format(text, std::forward<Args>(args)...);
    static_cast<void>(std::fwrite(made.data(), 1, made.size(), stderr));
  } catch (...) {
  }
}

}  // namespace weir
