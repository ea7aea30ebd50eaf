// thinning.hpp: runs part of a grid of cases. tests/run.sh sets TEST_EVERY, so that testing a change takes minutes, and TEST_OFFSET
// by the commit, so that TEST_EVERY commits run all cases. A case that has failed once is taken out of the grid and gets its own
// TEST_CASE.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>

namespace weir::test {

inline std::uint64_t number_in_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

/// Returns TEST_EVERY, at least 1: one of this many cases runs.
inline std::uint64_t test_every() {
  static const std::uint64_t every = number_in_environment("TEST_EVERY", 1);
  return every == 0 ? 1 : every;
}

/// Returns TEST_OFFSET, below test_every(): which one of them runs.
inline std::uint64_t test_offset() {
  static const std::uint64_t offset = number_in_environment("TEST_OFFSET", 0);
  return offset % test_every();
}

/// Returns true for cases to leave out: all but about one in TEST_EVERY, or in `among` if that is fewer. The rest is spread evenly
/// over the grid, whatever its dimensions. Do not call it from threads of virtual ranks, which would leave out different cases.
inline bool left_out(std::uint64_t among = std::numeric_limits<std::uint64_t>::max()) {
  static std::uint64_t cases = 0;
  const std::uint64_t one_in = std::min(among, test_every());
  const std::uint64_t place = ++cases * 0x9e3779b97f4a7c15u >> 32;  // multiples of the golden ratio fill a circle evenly
  return place * one_in >> 32 != test_offset() % one_in;
}

}  // namespace weir::test
