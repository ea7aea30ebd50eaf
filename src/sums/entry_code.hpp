// entry_code.hpp: how lists of entries travel. The functions are pure and do not allocate.
//
// A message has no header: its format and size follow from the number of entries and the range of their indices, which sender and
// receiver both know. It has the values, then the indices in the smallest of these forms:
//
//   full        nothing: every index of the range has an entry
//   bitmap      `range` bits, set where there is an entry
//   elias_fano  the low l bits of each index, l = floor(log2(range / count)); for entry i with high bits h the set bit h + i
//               (Elias 1974, Fano 1971): at most 3 + log2(range / count) bits an entry
//
// Where an index may come several times, index i of a list travels as index + i: these ascend strictly, in a range that is longer
// by the other entries.
//
// codec/wire.hpp has the same forms for 32-bit indices and floating point. Here ranges may exceed 2^32, values may be integers, and
// every bit pattern of a value arrives as it was. Messages are little-endian, begin at multiples of 8, and are as long as one.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "sums/entries.hpp"

namespace weir::sums {

/// Returns the bytes that indices take, a multiple of 8. `repeats`: an index may come several times.
[[nodiscard]] std::int64_t index_bytes(std::int64_t count, std::int64_t range, bool repeats = false);
/// Writes the indices, which lie in [base, base + range).
void encode_indices(const std::int64_t* indices, std::int64_t count, std::int64_t base, std::int64_t range, std::byte* out,
                    bool repeats = false);
/// Reads `count` indices. Never reads beyond the message. Throws Error(WEIR_ERR_TRANSPORT) unless they ascend in the range.
void decode_indices(const std::byte* in, std::int64_t count, std::int64_t base, std::int64_t range, std::int64_t* indices,
                    bool repeats = false);

template <class T>
[[nodiscard]] constexpr std::int64_t value_bytes(std::int64_t count) {
  return (count * static_cast<std::int64_t>(sizeof(T)) + 7) / 8 * 8;
}

template <class T>
[[nodiscard]] std::int64_t message_bytes(std::int64_t count, std::int64_t range, bool repeats = false) {
  return value_bytes<T>(count) + index_bytes(count, range, repeats);
}

/// Returns the most bytes of `messages` messages that have `count` entries together, with indices in ranges of at most `range`,
/// which may repeat.
[[nodiscard]] constexpr std::int64_t most_message_bytes(std::int64_t value_size, std::int64_t count, std::int64_t messages,
                                                        std::int64_t range) {
  const auto index_bits = static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(range)));
  return count * value_size + count / 8 * (index_bits + 3) + index_bits + 64 * messages;
}

template <class T>
void encode_entries(const Entries<T>& entries, std::int64_t base, std::int64_t range, std::byte* out, bool repeats = false) {
  if (entries.count == 0) return;
  std::memcpy(out, entries.values, static_cast<std::size_t>(entries.count) * sizeof(T));
  encode_indices(entries.indices, entries.count, base, range, out + value_bytes<T>(entries.count), repeats);
}

template <class T>
void decode_entries(const std::byte* in, std::int64_t count, std::int64_t base, std::int64_t range, std::int64_t* indices,
                    T* values, bool repeats = false) {
  if (count == 0) return;
  std::memcpy(values, in, static_cast<std::size_t>(count) * sizeof(T));
  decode_indices(in + value_bytes<T>(count), count, base, range, indices, repeats);
}

}  // namespace weir::sums
