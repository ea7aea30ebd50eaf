// chunk_layout.hpp: the layout of a message of chunked_topk.
//
// A message is one group of chunks after another. A group has at most 4096 entries, or those of one chunk. A group of n entries:
//   bits2, bits4   4 or 16 floats: the value of each code
//   bits8          a float for each chunk: its largest magnitude
//   n numbers      (number_bits-inl.hpp) places in their chunks, or low bits of gaps between these
//   n values       floats, or codes (number_bits-inl.hpp)
//   rice           the unary parts of all gaps (unary.hpp), filled up to a byte; a chunk's first gap is its first place
// The message is filled up to a multiple of 8 bytes.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "compress/code_bits.hpp"
#include "compress/unary.hpp"

namespace weir::compress {

enum class ChosenValues : std::uint8_t { bits2, bits4, bits8, float32 };

class ChunkLayout {
 public:
  static constexpr std::int64_t group_entries = 4096;

  ChunkLayout(std::int64_t chunk, std::int64_t k, ChosenValues values, bool rice)
      : chunk_(chunk),
        k_(k),
        group_(chunk *
               static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(1, group_entries / k))))),
        values_(values),
        rice_(rice),
        number_bits_(rice ? rice_bits(static_cast<double>(k) / static_cast<double>(chunk)) : bits_for(chunk - 1)) {}

  [[nodiscard]] std::int64_t chunk() const { return chunk_; }
  [[nodiscard]] std::int64_t group() const { return group_; }  ///< elements, a multiple of the chunk
  [[nodiscard]] ChosenValues values() const { return values_; }
  [[nodiscard]] bool rice() const { return rice_; }
  [[nodiscard]] int number_bits() const { return number_bits_; }
  [[nodiscard]] int code_bits() const { return values_ == ChosenValues::bits2 ? 2 : values_ == ChosenValues::bits4 ? 4 : 8; }
  [[nodiscard]] std::int64_t most_entries() const { return group_ / chunk_ * k_; }

  /// Returns the number of entries of a chunk of `size` elements, at most chunk().
  [[nodiscard]] std::int64_t chunk_entries(std::int64_t size) const {
    return size == 0 ? 0 : std::max<std::int64_t>(1, size * k_ / chunk_);
  }
  [[nodiscard]] std::int64_t entries(std::int64_t count) const { return count / chunk_ * k_ + chunk_entries(count % chunk_); }

  // For a group of `size` elements:
  [[nodiscard]] std::int64_t header_bytes(std::int64_t size) const {
    switch (values_) {
      case ChosenValues::bits2:
      case ChosenValues::bits4:
        return static_cast<std::int64_t>(sizeof(float)) << code_bits();
      case ChosenValues::bits8:
        return static_cast<std::int64_t>(sizeof(float)) * ((size + chunk_ - 1) / chunk_);
      default:
        return 0;
    }
  }
  [[nodiscard]] std::int64_t value_bytes(std::int64_t entries) const {
    return values_ == ChosenValues::float32 ? static_cast<std::int64_t>(sizeof(float)) * entries : code_bytes(entries, code_bits());
  }
  /// Returns the bytes of everything except the unary parts.
  [[nodiscard]] std::int64_t fixed_bytes(std::int64_t size) const {
    const std::int64_t n = entries(size);
    return header_bytes(size) + code_bytes(n, number_bits_) + value_bytes(n);
  }
  [[nodiscard]] std::int64_t most_group_bytes(std::int64_t size) const {
    if (size == 0) return 0;
    if (!rice_) return fixed_bytes(size);
    const std::int64_t last = size % chunk_;
    const std::int64_t ones = entries(size);
    const std::int64_t zeros = size / chunk_ * ((chunk_ - k_) >> number_bits_) + ((last - chunk_entries(last)) >> number_bits_);
    return fixed_bytes(size) + (ones + zeros + 7) / 8;
  }
  [[nodiscard]] std::int64_t most_bytes(std::int64_t count) const {
    return (count / group_ * most_group_bytes(group_) + most_group_bytes(count % group_) + 7) / 8 * 8;
  }

 private:
  std::int64_t chunk_, k_, group_;
  ChosenValues values_;
  bool rice_;
  int number_bits_;
};

}  // namespace weir::compress
