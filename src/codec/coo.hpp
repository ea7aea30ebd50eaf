// coo.hpp: a sparse vector in one block of memory: room for values, then room for 32-bit indices.
//
// Values come first so that they are aligned if the block is.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::coo {

template <class T>
inline constexpr std::int64_t entry_bytes = sizeof(T) + sizeof(std::uint32_t);

/// Returns the bytes of a block with room for `capacity` entries, a multiple of 8, so that blocks may follow one another.
template <class T>
[[nodiscard]] constexpr std::int64_t block_bytes(std::int64_t capacity) {
  return (capacity * entry_bytes<T> + 7) / 8 * 8;
}

/// A block seen as its two arrays.
template <class T>
struct Segment {
  T* values = nullptr;
  std::uint32_t* indices = nullptr;
  std::int64_t count = 0;
  const std::int64_t* exact = nullptr;  ///< in CUDA memory, if only the GPU knows the count: the count, which `count` bounds
};

/// Returns the arrays of a block with room for `capacity` entries at `memory`, which is aligned to 8. `count` is set to the
/// capacity.
template <class T>
[[nodiscard]] Segment<T> view(std::byte* memory, std::int64_t capacity) {
  return {reinterpret_cast<T*>(memory), reinterpret_cast<std::uint32_t*>(memory + capacity * static_cast<std::int64_t>(sizeof(T))),
          capacity};
}

}  // namespace weir::coo
