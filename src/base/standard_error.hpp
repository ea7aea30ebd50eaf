// standard_error.hpp: what is printed beside the results.
#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <string>
#include <utility>

namespace weir {

/// Prints to stderr. A full disk, a closed descriptor or a lack of memory costs the text, and nothing else.
template <class... Args>
void print_error(fmt::format_string<Args...> text, Args&&... args) noexcept {
  try {
    const std::string made = fmt::format(text, std::forward<Args>(args)...);
    static_cast<void>(std::fwrite(made.data(), 1, made.size(), stderr));
  } catch (...) {
  }
}

}  // namespace weir
