// parts.hpp: the parts of messages, each written and read in one pass with SIMD. The instruction set is chosen at first use. Byte
// pointers need no alignment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <weir/weir.hpp>

#include "base/threads.hpp"

namespace weir::wire {

// Values.

/// Returns the bytes of one value on the wire. Throws Error(WEIR_ERR_ARGUMENT) if T cannot travel in this form.
template <class T>
[[nodiscard]] std::int64_t bytes_of_value(WireValues values);
/// Writes count * bytes_of_value bytes, rounded as in round_values of wire.hpp. `halvings` is as in Wire.
template <class T>
void pack_values(WireValues values, const T* in, std::int64_t count, std::byte* out, int halvings = 0);
template <class T>
void unpack_values(WireValues values, const std::byte* in, std::int64_t count, T* out, int halvings = 0);

// Indices. `low_bits` is 0 for a bitmap (indices relative to `base` are positions of set bits), otherwise 4, 8, 12 or 16
// (Elias-Fano).

/// Writes the low bits of all indices relative to `base`, as Layout::low_bytes: whole bytes first, then, if `low_bits` is an odd
/// multiple of 4, the remaining upper 4 bits of each index, two per byte. Writes those of `entries`, which begin at an even entry,
/// of a message of `count`.
void pack_low(int low_bits, const std::uint32_t* indices, PartRange entries, std::int64_t count, std::uint32_t base,
              std::byte* out);
/// Writes the bit vector. Bits beyond its end are zero.
void pack_bits(int low_bits, const std::uint32_t* indices, std::int64_t count, std::uint32_t base, std::uint64_t bits,
               std::byte* out);
/// Returns how many bits are set in a part of the bit vector. The part begins at a multiple of 64.
[[nodiscard]] std::int64_t count_bits(const std::byte* in, PartRange bits);
/// Reads indices from both parts: those of `entries` of a message of `count`. `bits` begin at a multiple of 64. Returns false if
/// the number of set bits differs, or if a bit after them in their last byte is set.
[[nodiscard]] bool unpack_bits(int low_bits, const std::byte* low, const std::byte* in, PartRange bits, PartRange entries,
                               std::int64_t count, std::uint32_t base, std::uint32_t* indices);
/// Write and read 32-bit indices relative to `base`.
void pack_coo(const std::uint32_t* indices, std::int64_t count, std::uint32_t base, std::byte* out);
void unpack_coo(const std::byte* in, std::int64_t count, std::uint32_t base, std::uint32_t* indices);
[[nodiscard]] bool strictly_ascending(const std::uint32_t* indices, std::int64_t count);

}  // namespace weir::wire
