#include "optim/narrow_weights.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "codec/parts.hpp"

namespace weir::optim {
namespace {

WireValues values_of(DataType type) { return type == DataType::float16 ? WireValues::float16 : WireValues::bfloat16; }

}  // namespace

void widen(DataType type, const void* x, std::int64_t count, float* wide) {
  wire::unpack_values(values_of(type), static_cast<const std::byte*>(x), count, wide);
}

void narrow(DataType type, const float* wide, std::int64_t count, void* x) {
  wire::pack_values(values_of(type), wide, count, static_cast<std::byte*>(x));
}

void take_over(DataType type, const void* weights, std::int64_t count, float* wide) {
  constexpr std::int64_t chunk = 1024;
  std::array<std::uint16_t, chunk> made, given;
  std::array<float, chunk> exact;
  const auto* at = static_cast<const std::byte*>(weights);
  for (std::int64_t begin = 0; begin < count; begin += chunk, at += sizeof given) {
    const std::int64_t size = std::min(chunk, count - begin);
    const auto bytes = static_cast<std::size_t>(size) * sizeof given[0];
    narrow(type, wide + begin, size, made.data());
    if (std::memcmp(made.data(), at, bytes) == 0) continue;
    std::memcpy(given.data(), at, bytes);
    widen(type, given.data(), size, exact.data());
    for (std::size_t i = 0; i < static_cast<std::size_t>(size); ++i) {
      if (made[i] != given[i]) wide[begin + static_cast<std::int64_t>(i)] = exact[i];
    }
  }
}

}  // namespace weir::optim
