// origin.hpp: what files say of who has written them, and when.
#pragma once

#include <fmt/core.h>

#include <array>
#include <ctime>
#include <string>
#include <weir/weir.hpp>

namespace weir {

/// Returns for example "0.1.0".
[[nodiscard]] inline std::string version_text() {
  return fmt::format("{}.{}.{}", version().major, version().minor, version().patch);
}

/// Returns for example "2024-05-06T07:08:09Z".
[[nodiscard]] inline std::string utc_text(std::time_t seconds) {
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc)};
}

}  // namespace weir
