// dynamic_tree.hpp: the codes of the data type of eight_bit.cpp as tables, on the host and on GPUs.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace weir::compress {

inline constexpr int dynamic_tree_decades = 7;

/// There are 64 >> z codes with z zeros, and the lowest of them is 64 >> z. The other table entries of a decade are found by
/// 3 bits of the exponent of a number that differs in these bits between decades.
struct DynamicTreeTables {
  float above[dynamic_tree_decades];      ///< relative values above this are in the decade
  float per_value[dynamic_tree_decades];  ///< codes per relative value, in the decade
  float none;                             ///< the same for values below all decades
  float first[16], offset[16], last[16];  ///< indexed by the exponent of per_value
  float power[16];                        ///< 10^-z, indexed by the exponent of code + 1/2; 0 for code 0
};

[[nodiscard]] constexpr std::size_t dynamic_tree_slot(float number) { return std::bit_cast<std::uint32_t>(number) >> 23 & 7; }

/// Computes the tables in double, rounded once.
[[nodiscard]] constexpr DynamicTreeTables dynamic_tree_tables() {
  DynamicTreeTables tables{};
  tables.none = 8;
  double power = 1;
  for (int z = 0; z < dynamic_tree_decades; ++z, power *= 10) {
    const double codes = 64 >> z, fewer = codes / 2;
    const double lowest = (0.1 + 0.9 * 0.5 / codes) / power;
    const double highest_below = z + 1 < dynamic_tree_decades ? (0.1 + 0.9 * (fewer - 0.5) / fewer) / (10 * power) : 0;
    tables.above[z] = static_cast<float>((lowest + highest_below) / 2);
    tables.per_value[z] = static_cast<float>(codes * power / 0.9);
    for (std::size_t half = 0; half < 16; half += 8) {
      const std::size_t place = half + dynamic_tree_slot(tables.per_value[z]);
      tables.first[place] = static_cast<float>(codes);
      tables.offset[place] = static_cast<float>(codes * 8 / 9);
      tables.last[place] = static_cast<float>(2 * codes - 1);
      tables.power[half + dynamic_tree_slot(static_cast<float>(codes))] = static_cast<float>(1 / power);
    }
  }
  return tables;
}

}  // namespace weir::compress
