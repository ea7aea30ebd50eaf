// error.hpp: throwing weir::Error with a formatted text.
#pragma once

#include <fmt/format.h>

#include <weir/weir.hpp>

namespace weir {

template <class... Args>
[[noreturn]] void fail(weir_status status, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(status, fmt::format(text, std::forward<Args>(args)...));
}

template <class... Args>
void require(bool condition, fmt::format_string<Args...> text, Args&&... args) {
  if (!condition) fail(WEIR_ERR_ARGUMENT, text, std::forward<Args>(args)...);
}

}  // namespace weir
