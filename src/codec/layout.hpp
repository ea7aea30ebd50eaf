// layout.hpp: the format of a message, and the positions of its parts.
#pragma once

#include <cstdint>
#include <weir/weir.hpp>

#include "codec/wire.hpp"

namespace weir::wire {

enum class Form : std::uint8_t { empty, coo, elias_fano, bitmap, dense };

/// Values come first, then low parts (coo: whole indices), then the bit vector. Each starts at the next whole byte.
struct Layout {
  Form form = Form::empty;
  int low_bits = 0;              ///< elias_fano: 4, 8, 12 or 16
  std::int64_t value_bytes = 0;  ///< of all values together
  std::int64_t low_bytes = 0;
  std::uint64_t bits = 0;  ///< length of the bit vector

  [[nodiscard]] constexpr std::int64_t bytes() const { return value_bytes + low_bytes + static_cast<std::int64_t>((bits + 7) / 8); }
};

/// Returns the layout of a message. `value_bytes` is that of one value on the wire.
[[nodiscard]] Layout layout_of(WireFormat format, std::int64_t value_bytes, std::int64_t count, std::uint64_t range);

}  // namespace weir::wire
