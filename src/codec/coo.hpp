// coo.hpp: the coordinate format on the wire: all values, then all 32-bit indices relative to their region. Pure functions.
//
// Values come first so that they are aligned whenever the message is. Every message's length follows from its entry count, which
// the algorithms exchange beforehand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace weir::coo {

template <class T>
inline constexpr std::int64_t entry_bytes = sizeof(T) + sizeof(std::uint32_t);

/// Bytes of a message of `count` entries.
template <class T>
[[nodiscard]] constexpr std::int64_t message_bytes(std::int64_t count) {
  return count * entry_bytes<T>;
}

/// Bytes that such a message takes in a buffer in which others follow: messages start at multiples of 8.
template <class T>
[[nodiscard]] constexpr std::int64_t slot_bytes(std::int64_t count) {
  return (message_bytes<T>(count) + 7) / 8 * 8;
}

/// A message seen as its two arrays; `capacity` is the entry count the layout was made for.
template <class T>
struct Segment {
  T* values = nullptr;
  std::uint32_t* indices = nullptr;
  std::int64_t count = 0;
};

/// The arrays of a message of `count` entries at `memory`, which is aligned to 8.
template <class T>
[[nodiscard]] Segment<T> view(std::byte* memory, std::int64_t count) {
  return {reinterpret_cast<T*>(memory), reinterpret_cast<std::uint32_t*>(memory + count * static_cast<std::int64_t>(sizeof(T))),
          count};
}

/// Writes `count` entries as one message, indices made relative to `base`.
template <class T>
Segment<T> encode(const std::uint32_t* indices, const T* values, std::int64_t count, std::uint32_t base, std::byte* memory) {
  const Segment<T> out = view<T>(memory, count);
  if (count > 0) std::memcpy(out.values, values, static_cast<std::size_t>(count) * sizeof(T));
  for (std::int64_t i = 0; i < count; ++i) out.indices[i] = indices[i] - base;
  return out;
}

}  // namespace weir::coo
