// byte_huffman.hpp: bytes of which few values are frequent, coded without loss: a canonical Huffman code of at most 11 bits for
// each block, in four streams that are decoded side by side.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::compress {

/// Bytes that share a code.
inline constexpr std::int64_t huffman_block = 1 << 16;

/// Returns the most bytes of a coded block of `count` bytes; encode_block() may use so much room.
[[nodiscard]] constexpr std::int64_t most_block_bytes(std::int64_t count) { return count + 16; }

/// Codes one block of 1, ..., huffman_block bytes; returns the bytes.
///
/// A block begins with a byte that says how the others come. 0: as they are. 1: they are all the byte that follows. 2: after the
/// least and the greatest value, the lengths of codes of all from one to the other, 4 bits each, 0 for values that do not come; the
/// bytes of the four streams, 32 bits each; and the streams, of which each has the codes of a quarter of the values, rounded down,
/// the last one also what remains. Codes are canonical, and lie with their first bit lowest.
std::int64_t encode_block(const std::uint8_t* values, std::int64_t count, std::byte* out);

/// Decodes `count` values of a block that has at most `bytes` bytes; returns those it has. Throws Error(WEIR_ERR_TRANSPORT) where
/// it is malformed; nothing beyond the block is then read or written either.
std::int64_t decode_block(const std::byte* in, std::int64_t bytes, std::int64_t count, std::uint8_t* values);

}  // namespace weir::compress
