// parts.hpp: the parts of messages, each written and read in one pass with SIMD, the instruction set chosen when first used.
// Byte pointers need no alignment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <weir/weir.hpp>

#include "base/threads.hpp"

namespace weir::wire {

// Values.

/// Bytes of one value on the wire. Throws Error(WEIR_ERR_ARGUMENT) where T cannot travel so.
template <class T>
[[nodiscard]] std::int64_t bytes_of_value(WireValues values);
/// Writes count * bytes_of_value bytes, rounded as round_values in wire.hpp says. `halvings` as in Wire.
template <class T>
void pack_values(WireValues values, const T* in, std::int64_t count, std::byte* out, int halvings = 0);
template <class T>
void unpack_values(WireValues values, const std::byte* in, std::int64_t count, T* out, int halvings = 0);

// Indices. `low_bits` is 0 for a bitmap (indices relative to `base` are positions of set bits), else 4, 8, 12 or 16 (Elias-Fano).

/// The low bits of all indices relative to `base`, as Layout::low_bytes: whole bytes first, then, where `low_bits` is odd in units
/// of 4, the remaining upper 4 bits of each, two to a byte. Writes those of `entries`, which begin at an even one, of a message of
/// `count`.
void pack_low(int low_bits, const std::uint32_t* indices, PartRange entries, std::int64_t count, std::uint32_t base,
              std::byte* out);
/// The bit vector, bits beyond its end zero.
void pack_bits(int low_bits, const std::uint32_t* indices, std::int64_t count, std::uint32_t base, std::uint64_t bits,
               std::byte* out);
/// Returns how many bits are set in a part of the bit vector. The part begins at a multiple of 64.
[[nodiscard]] std::int64_t count_bits(const std::byte* in, PartRange bits);
/// Indices from both: those of `entries` of a message of `count`. False if not exactly so many of `bits` are set, which begin at a
/// multiple of 64, or one beyond them in their last byte.
[[nodiscard]] bool unpack_bits(int low_bits, const std::byte* low, const std::byte* in, PartRange bits, PartRange entries,
                               std::int64_t count, std::uint32_t base, std::uint32_t* indices);
/// 32-bit indices relative to `base`.
void pack_coo(const std::uint32_t* indices, std::int64_t count, std::uint32_t base, std::byte* out);
void unpack_coo(const std::byte* in, std::int64_t count, std::uint32_t base, std::uint32_t* indices);
[[nodiscard]] bool strictly_ascending(const std::uint32_t* indices, std::int64_t count);

}  // namespace weir::wire
