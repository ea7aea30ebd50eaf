// byte_bits.hpp: the positions of the set bits of each byte, in order, followed by zeros.
#pragma once

#include <array>
#include <cstdint>

namespace weir::wire {

inline constexpr auto byte_bits = [] {
  std::array<std::array<std::uint8_t, 8>, 256> table{};
  for (std::size_t byte = 0; byte < 256; ++byte) {
    std::size_t found = 0;
    for (std::uint8_t bit = 0; bit < 8; ++bit) {
      if (byte >> bit & 1) table[byte][found++] = bit;
    }
  }
  return table;
}();

}  // namespace weir::wire
