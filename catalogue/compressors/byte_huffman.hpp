// byte_huffman.hpp: lossless coding of bytes with few frequent values: a canonical Huffman code of at most 11 bits for each block,
// in four streams that are decoded in parallel.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::compress {

/// Number of bytes that share a code.
inline constexpr std::int64_t huffman_block = 1 << 16;

/// Returns the most bytes of a coded block of `count` bytes. encode_block() may use all of that room.
[[nodiscard]] constexpr std::int64_t most_block_bytes(std::int64_t count) { return count + 16; }

/// Codes one block of 1, ..., huffman_block bytes. Returns the bytes.
///
/// The first byte of a block is the encoding. 0: the values follow as they are. 1: all values equal the next byte. 2: Huffman. Then
/// follow the least and the greatest value; the code lengths of all values from one to the other, 4 bits each, 0 for values that do
/// not occur; the sizes of the four streams in bytes, 32 bits each; and the streams. Each stream has the codes of a quarter of the
/// values, rounded down; the last one also has the remainder. Codes are canonical, and are stored with their first bit lowest.
std::int64_t encode_block(const std::uint8_t* values, std::int64_t count, std::byte* out);

/// Decodes `count` values of a block that has at most `bytes` bytes. Returns the bytes of the block. Throws
/// Error(WEIR_ERR_TRANSPORT) if it is malformed; even then nothing beyond the block is read or written.
std::int64_t decode_block(const std::byte* in, std::int64_t bytes, std::int64_t count, std::uint8_t* values);

}  // namespace weir::compress
