// wire.hpp: how a sorted sparse vector travels. The functions are pure and do not allocate. Several threads may share the work on a
// long message; its bytes are the same as with one thread.
//
// A message has no header. Its format and its exact size follow from the number of entries, the range of their indices and the wire
// settings, which sender and receiver both know. WireFormat::compact takes the smallest of these formats:
//
//   coo          values; 32-bit indices relative to the range
//   elias_fano   values; the low 4, 8, 12 or 16 bits of each index; for entry i with high bits h the set bit h + i of
//                count + ((range - 1) >> low bits) bits (Elias 1974, Fano 1971)
//   bitmap       values; `range` bits, set where there is an entry
//   dense        `range` values, all bits set where there is no entry
//
// Messages are little-endian and may start at any address. T is float or double. double travels only unrounded.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <weir/weir.hpp>

#include "base/threads.hpp"

namespace weir::wire {

struct Wire {
  WireFormat format = WireFormat::compact;
  WireValues values = WireValues::native;
  /// Values travel divided by 2^halvings, so that float16 can hold sums of up to 2^halvings values. 0 for other value types.
  int halvings = 0;
};

/// Returns the halvings that sums of `summands` values need. bfloat16 has the range of float32 and needs none.
[[nodiscard]] constexpr int halvings_of_sums(WireValues values, int summands) {
  return values == WireValues::float16 ? std::bit_width(static_cast<unsigned>(std::max(summands, 1) - 1)) : 0;
}

/// Returns the exact bytes of a message of `count` entries with indices in a range of `range` <= 2^32. Zero for no entries, at most
/// what coo takes, and never less for more entries or for a wider range. Throws Error(WEIR_ERR_ARGUMENT) if T cannot travel as
/// these values.
template <class T>
[[nodiscard]] std::int64_t message_bytes(Wire wire, std::int64_t count, std::uint64_t range);

/// Returns the bytes that such a message takes in a buffer with several: messages start at multiples of 8.
template <class T>
[[nodiscard]] std::int64_t slot_bytes(Wire wire, std::int64_t count, std::uint64_t range) {
  return (message_bytes<T>(wire, count, range) + 7) / 8 * 8;
}

/// Returns, for reports, "empty", "coo", "elias_fano_4" ... "elias_fano_16", "bitmap" or "dense".
template <class T>
[[nodiscard]] std::string_view format_name(Wire wire, std::int64_t count, std::uint64_t range);

/// Writes `count` entries, `indices` strictly ascending in [base, base + range), as one message. Returns message_bytes.
template <class T>
std::int64_t encode(Wire wire, const std::uint32_t* indices, const T* values, std::int64_t count, std::uint32_t base,
                    std::uint64_t range, std::byte* out, const Threads& threads = Threads());

/// Reads a message of `bytes` bytes into `count` entries. Never reads beyond the message and never writes beyond `count` entries,
/// whatever the message holds. Throws Error(WEIR_ERR_TRANSPORT) unless it holds exactly `count` strictly ascending indices in
/// [base, base + range), base + range <= 2^32; the outputs are then undefined.
template <class T>
void decode(Wire wire, const std::byte* in, std::int64_t bytes, std::int64_t count, std::uint32_t base, std::uint64_t range,
            std::uint32_t* indices, T* values, const Threads& threads = Threads());

/// Sets out[i] to what in[i] is after encode and decode, for any format; `out` may be `in`. bfloat16 and float16: rounds to
/// nearest, ties to even; finite values beyond the largest finite one, times 2^halvings, saturate to it; NaN becomes the quiet NaN.
/// Native: unchanged, except that the NaN with all bits set becomes the quiet NaN.
template <class T>
void round_values(WireValues values, const T* in, T* out, std::int64_t count, int halvings = 0);

/// Subtracts from values[i] what rounding leaves of it. Sets it to zero if the rounded value is not finite.
template <class T>
void subtract_rounded(Wire wire, T* values, std::int64_t count) {
  T rounded[256];
  for (std::int64_t first = 0; first < count; first += 256) {
    const std::int64_t size = std::min<std::int64_t>(256, count - first);
    round_values(wire.values, values + first, rounded, size, wire.halvings);
    for (std::int64_t i = 0; i < size; ++i) values[first + i] = std::isfinite(rounded[i]) ? values[first + i] - rounded[i] : 0;
  }
}

}  // namespace weir::wire
