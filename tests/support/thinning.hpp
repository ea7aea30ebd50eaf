// thinning.hpp: runs part of a large grid of cases. A sanitizer run, many times slower, sees as much in every eighth case: it sets
// TEST_EVERY=8.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace weir::test {

/// TEST_EVERY.
inline std::uint64_t test_every() {
  static const std::uint64_t every = [] {
    const char* text = std::getenv("TEST_EVERY");
    return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
  }();
  return every;
}

/// True for cases to leave out: all but about one in TEST_EVERY, spread evenly over the grid whatever its dimensions. Not for the
/// threads of virtual ranks, which would leave out different ones.
inline bool left_out() {
  const std::uint64_t every = test_every();
  static std::uint64_t cases = 0;
  return every > 1 && (++cases * 0x9e3779b97f4a7c15u >> 32) % every != 0;
}

}  // namespace weir::test
