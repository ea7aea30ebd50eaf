// unary.hpp: Golomb-Rice codes (Rice 1979) of the gaps between ascending indices, in two separate parts: the low bits of the gaps
// as numbers of fixed width (number_bits-inl.hpp), and the rest of each gap in unary, as that many zeros and a one.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/error.hpp"

namespace weir::compress {

/// Returns the number of low bits that makes the code of a gap shortest on average, if each element is sent with probability
/// `density`: of the bits b from 0 to 16 the one with the least b + 1 + s / (1 - s), where s = (1 - density)^(2^b) is the
/// probability of a zero.
[[nodiscard]] constexpr int rice_bits(double density) {
  int best = 0;
  double least = std::numeric_limits<double>::infinity();
  double zero = 1 - density;
  for (int bits = 0; bits <= 16; ++bits, zero *= zero) {
    const double length = bits + 1 + zero / (1 - zero);
    if (length < least) {
      least = length;
      best = bits;
    }
  }
  return best;
}

/// Returns the most bytes of the unary parts of `count` gaps whose sum is at most `sum`.
[[nodiscard]] constexpr std::int64_t most_unary_bytes(std::int64_t count, std::int64_t sum, int low_bits) {
  return (count + (sum >> low_bits) + 7) / 8;
}

class UnaryWriter {
 public:
  explicit UnaryWriter(std::byte* out) : out_(out) {}

  void put(std::int64_t number) {
    std::int64_t place = fill_ + number;
    for (; place >= 64; place -= 64) flush(8);
    word_ |= std::uint64_t{1} << place;
    fill_ = place + 1;
  }
  /// Fills the last byte with zeros. Returns where the message continues.
  [[nodiscard]] std::byte* end() {
    if (fill_ > 0) flush((fill_ + 7) / 8);
    fill_ = 0;
    return out_;
  }

 private:
  void flush(std::int64_t bytes) {
    std::memcpy(out_, &word_, static_cast<std::size_t>(bytes));
    out_ += bytes;
    word_ = 0;
  }

  std::byte* out_;
  std::uint64_t word_ = 0;
  std::int64_t fill_ = 0;
};

class UnaryReader {
 public:
  UnaryReader(const std::byte* in, std::int64_t bytes) : in_(in), bytes_(bytes) {}

  /// Throws Error(WEIR_ERR_TRANSPORT) if the message has no more.
  [[nodiscard]] std::int64_t take() {
    while (word_ == 0) load();
    const std::int64_t one = base_ + std::countr_zero(word_);
    word_ &= word_ - 1;
    const std::int64_t number = one - next_;
    next_ = one + 1;
    return number;
  }
  /// Returns the bytes that hold what has been taken.
  [[nodiscard]] std::int64_t taken_bytes() const { return (next_ + 7) / 8; }

 private:
  void load() {
    if (loaded_ >= bytes_) fail(WEIR_ERR_TRANSPORT, "a message of gaps ends before its last gap");
    const std::int64_t size = std::min<std::int64_t>(8, bytes_ - loaded_);
    std::memcpy(&word_, in_ + loaded_, static_cast<std::size_t>(size));
    base_ = 8 * loaded_;
    loaded_ += size;
  }

  const std::byte* in_;
  std::int64_t bytes_, loaded_ = 0, base_ = 0, next_ = 0;
  std::uint64_t word_ = 0;
};

}  // namespace weir::compress
