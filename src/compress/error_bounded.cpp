// error_bounded.cpp: rounds every value to the nearest multiple of a unit, so that its error is never above a bound, and packs the
// differences of neighbours by their bits (the pipeline of SZ and cuSZp; sums as in C-Coll, gZCCL and hZCCL).
//
// The unit is a power of two: the largest that is at most twice the bound. Scaling by it is exact, so a value is off by half a unit
// at most, after all rounding. Floats of 2^23 units and more are multiples of the unit already, and stay as they are. Sums of
// multiples, in float, are multiples again. So a sum that is encoded with the same unit loses nothing, and the sum of P ranks is
// off by P times the bound at most, apart from what additions of sums above 2^24 units round.
//
// NaN and infinities come back as they are; they do not count for the range that `relative` is of. -0 becomes 0. A block of zeros
// takes one byte. If the bound is below 2^-127, all values come back as they are.
//
// A message is blocks of 64 values, zeros up to a multiple of 8 bytes, and 8 bytes: the exponent of the unit, int32, and zeros. A
// block is a byte that says what follows. 0x1f: floats, the decoded values. Otherwise the block is 64 integers, as small as what
// comes before a value can make them. The lower five bits of the byte are the number of bits, in two's complement, that each takes:
// all lowest bits come first, 8 bytes, then the next ones. Bits 5 and 6 are the number of bytes before those that are added to the
// first integer, with the sign in the lowest bit. Bit 7 says which integers these are:
//
//   0   differences from the value before, in units
//   1   differences of those from the difference before
//
// The values before a block are those of the last one that is not of floats; before the first one, values are 0.
//
// With `row`, a value minus the one `row` values before it takes the place of the value in all that, in units: the Lorenzo
// predictor in two dimensions. Then bit 7 says what a value is compared with: 0, the one above; 1, the line through the two above.
// Where the message has no value there, or has one that is not a multiple, that one counts as 0.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compress/error_bounded.cpp"
#include <hwy/foreach_target.h>
// The order matters: foreach_target.h includes this file once per instruction set.
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>

#include "base/buffer.hpp"
#include "base/error.hpp"
#include "compress/bit_planes-inl.hpp"
#include "compress/compressor.hpp"
#include "compress/neighbour_sums-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::compress::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int most_bits = 24, too_many_bits = 32;  // of a difference; values below 2^22 units have no more
constexpr int most_taken = 3;                      // bytes of the difference between blocks
constexpr int of_floats = 0x1f, of_second_order = 0x80;
constexpr std::int64_t trailer = 8;

constexpr int least_exponent = -126, most_exponent = 104;  // the unit and its inverse are floats; the largest float is a multiple
constexpr int exact = -149;                                // stands for all smaller exponents: every float is a multiple of 2^-149

struct Unit {
  float size = 0, inverse = 1;
  std::int32_t most_rounded = 0;  // as bits of a float: larger magnitudes stay as they are

  explicit Unit(int exponent) : size(std::ldexp(1.0F, exponent)) {
    if (exponent == exact) return;
    inverse = std::ldexp(1.0F, -exponent);
    most_rounded = std::bit_cast<std::int32_t>(std::ldexp(1.0F, exponent + 23));
  }
};

[[nodiscard]] int exponent_of(double bound) {
  if (!(bound >= std::ldexp(1.0, least_exponent - 1))) return exact;
  return std::min(std::ilogb(bound) + 1, most_exponent);
}

/// Returns an integer that grows with x, above 0 for all numbers.
[[nodiscard]] std::uint64_t key_of(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000;
}
[[nodiscard]] float of_key(std::uint64_t key) {
  const auto bits = static_cast<std::uint32_t>(key);
  return std::bit_cast<float>((bits >> 31) != 0 ? bits & 0x7fffffff : ~bits);
}

using FloatTag = hn::CappedTag<float, 16>;
using IntTag = hn::RebindToSigned<FloatTag>;
using UintTag = hn::RebindToUnsigned<FloatTag>;
using Floats = hn::Vec<FloatTag>;
using Ints = hn::Vec<IntTag>;

HWY_INLINE std::int64_t lanes() { return static_cast<std::int64_t>(hn::Lanes(FloatTag())); }

/// Returns true for values that stay as they are.
HWY_INLINE hn::Mask<IntTag> stays(Floats x, Unit unit) {
  const IntTag d;
  return hn::Gt(hn::And(hn::BitCast(d, x), hn::Set(d, 0x7fffffff)), hn::Set(d, unit.most_rounded));
}
HWY_INLINE Ints in_units(Floats x, Unit unit) { return hn::NearestInt(hn::Mul(x, hn::Set(FloatTag(), unit.inverse))); }
HWY_INLINE Floats of_units(Ints units, float unit) {
  const FloatTag d;
  return hn::Mul(hn::ConvertTo(d, units), hn::Set(d, unit));
}
/// Returns what x decodes to.
HWY_INLINE Floats rounded(Floats x, Unit unit) {
  return hn::IfThenElse(hn::RebindMask(FloatTag(), stays(x, unit)), x, of_units(in_units(x, unit), unit.size));
}

/// Returns x in units, or 0 where x stays as it is.
HWY_INLINE Ints known_units(Floats x, Unit unit) { return hn::IfThenElseZero(hn::Not(stays(x, unit)), in_units(x, unit)); }

/// Stores step(values) for vectors of values. `out` may be `x`.
template <class Step>
HWY_INLINE void transform(const float* x, std::int64_t count, float* out, Step step) {
  const FloatTag d;
  std::int64_t i = 0;
  for (; i + lanes() <= count; i += lanes()) hn::StoreU(step(hn::LoadU(d, x + i)), d, out + i);
  if (i == count) return;
  float padded[16] = {};
  std::copy_n(x + i, count - i, padded);
  hn::StoreU(step(hn::LoadU(d, padded)), d, padded);
  std::copy_n(padded, count - i, out + i);
}

/// The last values of a message, as integers, as far back as a row is long. Blocks go around in memory.
class Rows {
 public:
  explicit Rows(std::int64_t row)
      : row_(row),
        size_(row > 0 ? (2 * row + 2 * block_values - 1) / block_values * block_values : 0),
        values_(row > 0 ? size_ + block_values : 0) {}

  /// Begins a message. Values before it are `value`.
  void begin(std::int32_t value) {
    at_ = 0;
    std::fill_n(values_.data(), values_.size(), value);
  }
  /// Returns the values a row, or two, before the block.
  [[nodiscard]] const std::int32_t* above(int rows) const {
    const std::int64_t at = at_ - rows * row_;
    return values_.data() + (at < 0 ? at + size_ : at);
  }
  /// Returns where the values of the block go.
  [[nodiscard]] std::int32_t* here() { return values_.data() + at_; }
  /// Goes on to the next block.
  void next() {
    if (at_ == 0) std::copy_n(values_.data(), block_values, values_.data() + size_);  // what lies above may run past the end
    at_ = at_ + block_values < size_ ? at_ + block_values : 0;
  }
  [[nodiscard]] explicit operator bool() const { return row_ > 0; }
  [[nodiscard]] std::int64_t bytes() const { return values_.bytes(); }

 private:
  std::int64_t row_, size_, at_ = 0;
  Buffer<std::int32_t> values_;
};

/// What comes before a block, in units: the last value and the last difference. With rows, both are last values: less the one
/// above, and less the line through the two above.
struct Before {
  std::int32_t first_order = 0, second_order = 0;
};

/// A block as integers.
struct Integers {
  alignas(64) std::int32_t values[block_values];
  std::uint32_t first;  ///< the first integer, if it has bytes of its own, with the sign in the lowest bit
  int taken;            ///< how many bytes
  int bits;             ///< that each integer takes; too_many_bits: the block is floats
};

/// Rounds by adding a float between 2^23 and 2^24, whose lowest bit stands for 1. The sum's bits are those of the float, plus the
/// rounded value. If it leaves the range, the value is too large. The product is exact: fused or not, the sum is the same.
constexpr float shift = 0x1.8p23F;
constexpr std::int32_t shift_bits = 0x4b400000, range_bits = 0x4b000000;

/// Returns integers whose lowest bit is the sign: they have as many bits as x has in two's complement.
HWY_INLINE Ints signs_lowest(Ints x) { return hn::Xor(hn::Add(x, x), hn::ShiftRight<31>(x)); }
[[nodiscard]] inline std::uint32_t sign_lowest(std::int32_t x) {
  return static_cast<std::uint32_t>(x) << 1 ^ static_cast<std::uint32_t>(x >> 31);
}

/// Takes 64 values, of which the first `size` are in the message. `before` becomes what comes before the next block.
template <bool by_rows, bool is_second>
HWY_INLINE void take_block(const float* x, std::int64_t size, Unit unit, [[maybe_unused]] Rows& rows, Before& before,
                           Integers& block) {
  const FloatTag d;
  const IntTag di;
  const UintTag du;
  const auto lane = hn::Iota(di, 0);
  const auto first_lane = hn::Eq(lane, hn::Zero(di));
  const auto left = hn::IndicesFromVec(di, hn::And(hn::Sub(lane, hn::Set(di, 1)), hn::Set(di, static_cast<int>(lanes() - 1))));
  const auto inverse = hn::Set(d, unit.inverse);
  constexpr bool twice = is_second && !by_rows;  // takes differences of differences
  constexpr std::int32_t zero = by_rows ? 0 : shift_bits;
  const auto plus = [](std::int32_t a, std::int32_t b) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
  };
  // Their first lanes are what comes before a vector.
  Ints before_value = hn::Set(di, plus(is_second && by_rows ? before.second_order : before.first_order, zero));
  Ints before_difference = hn::Set(di, before.second_order);
  Ints least = hn::Zero(di), most = hn::Zero(di), outside = hn::Zero(di);
  const std::int32_t *const above = by_rows ? rows.above(1) : nullptr, *const above_that = by_rows ? rows.above(2) : nullptr;
  std::int32_t* const here = by_rows ? rows.here() : nullptr;
  for (std::int64_t i = 0; i < block_values; i += lanes()) {
    const Ints shifted = hn::BitCast(di, hn::MulAdd(hn::LoadU(d, x + i), inverse, hn::Set(d, shift)));
    outside = hn::Or(outside, hn::Xor(shifted, hn::Set(di, range_bits)));
    Ints value = shifted;
    if constexpr (by_rows) {
      const Ints up = hn::LoadU(di, above + i);
      value = hn::Sub(shifted, up);
      if constexpr (is_second) value = hn::Sub(value, hn::Sub(up, hn::LoadU(di, above_that + i)));
      hn::StoreU(shifted, di, here + i);
    }
    const Ints turned = hn::TableLookupLanes(value, left);
    Ints integers = hn::Sub(value, hn::IfThenElse(first_lane, before_value, turned));
    before_value = turned;
    if constexpr (twice) {
      const Ints turned_too = hn::TableLookupLanes(integers, left);
      integers = hn::Sub(integers, hn::IfThenElse(first_lane, before_difference, turned_too));
      before_difference = turned_too;
    }
    const Ints counted = i == 0 ? hn::IfThenZeroElse(first_lane, integers) : integers;
    least = hn::Min(least, counted);
    most = hn::Max(most, counted);
    hn::Store(integers, di, block.values + i);
  }
  const Ints beyond = hn::BitCast(di, hn::ShiftRight<23>(hn::BitCast(du, outside)));
  const Ints all = hn::Or(hn::Or(signs_lowest(least), signs_lowest(most)), hn::ShiftRight<31>(hn::Sub(hn::Zero(di), beyond)));
  block.bits = static_cast<int>(std::bit_width(hn::GetLane(hn::MaxOfLanes(du, hn::BitCast(du, all)))));
  block.first = sign_lowest(block.values[0]);
  const int first_bits = static_cast<int>(std::bit_width(block.first));
  block.taken = first_bits <= block.bits ? 0 : (first_bits + 7) / 8;
  if (block.bits > most_bits || unit.most_rounded == 0 || block.taken > most_taken ||
      block.taken + 8 * block.bits >= static_cast<int>(sizeof(float)) * size) {
    block.bits = too_many_bits;
    if constexpr (by_rows) {
      for (std::int64_t i = 0; i < block_values; i += lanes())
        hn::StoreU(hn::Add(known_units(hn::LoadU(d, x + i), unit), hn::Set(di, shift_bits)), di, here + i);
    }
    return;
  }
  const std::int32_t last_integer = block.values[block_values - 1], last_value = hn::GetLane(before_value);
  if (block.taken > 0) block.values[0] = 0;
  if constexpr (by_rows) {
    const std::int32_t slope = plus(above[block_values - 1], -above_that[block_values - 1]);
    before.first_order = is_second ? plus(last_value, slope) : last_value;
    before.second_order = is_second ? last_value : plus(last_value, -slope);
  } else {
    before.first_order = plus(last_value, -zero);
    before.second_order = twice ? hn::GetLane(before_difference) : last_integer;
  }
}

/// Chooses between the two orders by what one block in 64 would take.
class Order {
 public:
  template <bool by_rows>
  HWY_INLINE void see(const float* x, Unit unit, Rows& rows, Before before) {
    Integers first, second;
    Before copy = before;
    take_block<by_rows, false>(x, block_values, unit, rows, before, first);
    take_block<by_rows, true>(x, block_values, unit, rows, copy, second);
    gain_ += 16 * (first.bits - second.bits) - gain_ / 4;
  }
  [[nodiscard]] bool is_second() const { return gain_ > 0; }

 private:
  int gain_ = 0;  // of the second, in 16ths of a bit; older ones count less
};

class ErrorBounded final : public PackedCodec {
 public:
  /// The bound is `absolute`, or, if `relative` is above 0, that part of the range of the values.
  /// With `row`, values are also compared with those of the row before.
  ErrorBounded(double absolute, double relative, std::int64_t row) : relative_(relative), rows_(row) {
    if (relative == 0) agreed_ = exponent_of(absolute);
  }

  [[nodiscard]] std::int64_t granularity() const override { return 256; }
  [[nodiscard]] std::int64_t most_bytes(std::int64_t count) const override {
    if (count == 0) return 0;
    return (static_cast<std::int64_t>(sizeof(float)) * count + (count + block_values - 1) / block_values + 7) / 8 * 8 + trailer;
  }
  [[nodiscard]] bool fixed_size() const override { return false; }
  [[nodiscard]] bool keeps_sums() const override { return true; }
  [[nodiscard]] std::int64_t memory_bytes() const override { return rows_.bytes(); }

  [[nodiscard]] bool agrees() const override { return relative_ > 0; }
  [[nodiscard]] Agreement measure(const float* values, std::int64_t count) const override {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    const FloatTag d;
    const auto above_all = hn::Set(d, infinity), below_all = hn::Set(d, -infinity);
    auto least = above_all, most = below_all;
    const auto see = [&](const float* at) HWY_ATTR {
      const auto x = hn::LoadU(d, at);
      const auto finite = hn::Lt(hn::Abs(x), above_all);
      least = hn::Min(least, hn::IfThenElse(finite, x, above_all));
      most = hn::Max(most, hn::IfThenElse(finite, x, below_all));
    };
    std::int64_t i = 0;
    for (; i + lanes() <= count; i += lanes()) see(values + i);
    if (i < count) {
      float padded[16];
      std::fill_n(padded, 16, values[i]);
      std::copy_n(values + i, count - i, padded);
      see(padded);
    }
    const float low = hn::GetLane(hn::MinOfLanes(d, least)), high = hn::GetLane(hn::MaxOfLanes(d, most));
    return low <= high ? Agreement{key_of(high), key_of(-low)} : Agreement{};
  }
  void agree(const Agreement& words) override { agreed_ = exponent_of_range(words); }

  std::int64_t encode(const Draw&, std::int64_t /*first*/, const float* values, std::int64_t count, std::byte* out,
                      float* rest) override {
    if (count == 0) return 0;
    return rows_ ? encode_blocks<true>(values, count, out, rest) : encode_blocks<false>(values, count, out, rest);
  }

  void decode(const std::byte* in, std::int64_t bytes, std::int64_t count, float* sum, bool add) override {
    if (count == 0 && bytes == 0) return;
    std::int32_t exponent[2] = {};
    const std::int64_t end = bytes - trailer;
    if (end >= 0) std::memcpy(exponent, in + end, trailer);
    const bool known = (exponent[0] >= least_exponent && exponent[0] <= most_exponent) || exponent[0] == exact;
    if (count == 0 || end <= 0 || !known || exponent[1] != 0)
      fail(WEIR_ERR_TRANSPORT, "a message of {} values in {} bytes does not end with a unit", count, bytes);
    const Unit unit(exponent[0]);
    const std::int64_t used =
        rows_ ? (add ? decode_blocks<true, true>(in, end, count, unit, sum) : decode_blocks<false, true>(in, end, count, unit, sum))
              : (add ? decode_blocks<true, false>(in, end, count, unit, sum)
                     : decode_blocks<false, false>(in, end, count, unit, sum));
    if ((used + 7) / 8 * 8 != end)
      fail(WEIR_ERR_TRANSPORT, "a message of {} values has {} bytes instead of {}", count, bytes, (used + 7) / 8 * 8 + trailer);
  }

 private:
  [[nodiscard]] int exponent_of_range(const Agreement& words) const {
    if (words[0] == 0) return exact;
    return exponent_of(relative_ * (static_cast<double>(of_key(words[0])) + static_cast<double>(of_key(words[1]))));
  }

  /// Returns the bytes of the message.
  template <bool by_rows>
  std::int64_t encode_blocks(const float* values, std::int64_t count, std::byte* out, float* rest) {
    const std::int32_t exponent = agreed_ ? *agreed_ : exponent_of_range(measure(values, count));
    const Unit unit(exponent);
    if constexpr (by_rows) rows_.begin(shift_bits);
    std::byte* to = out;
    Before before;
    Order order;
    constexpr std::int64_t at_once = 8 * block_values;  // what one loop stores is in the cache when the next one loads it
    Integers blocks[at_once / block_values];
    for (std::int64_t begin = 0; begin < count; begin += at_once) {
      const std::int64_t size = std::min(at_once, count - begin);
      if (begin % (8 * at_once) == 0 && size >= block_values) order.see<by_rows>(values + begin, unit, rows_, before);
      for (std::int64_t i = 0; i < size; i += block_values) {
        float padded[block_values];
        const float* x = values + begin + i;
        const std::int64_t some = std::min(block_values, size - i);
        if (some < block_values) {
          std::fill_n(std::copy_n(x, some, padded), block_values - some, x[some - 1]);
          x = padded;
        }
        if (order.is_second())
          take_block<by_rows, true>(x, some, unit, rows_, before, blocks[i / block_values]);
        else
          take_block<by_rows, false>(x, some, unit, rows_, before, blocks[i / block_values]);
        if constexpr (by_rows) rows_.next();
      }
      for (std::int64_t i = 0; i < size; i += block_values)
        to = write(blocks[i / block_values], order.is_second(), values + begin + i, std::min(block_values, size - i), unit, to);
      if (rest == nullptr) continue;
      transform(values + begin, size, rest + begin, [&](Floats x) HWY_ATTR { return hn::Sub(x, rounded(x, unit)); });
    }
    while ((to - out) % 8 != 0) *to++ = std::byte{0};
    std::memset(to, 0, trailer);
    std::memcpy(to, &exponent, sizeof exponent);
    return to + trailer - out;
  }

  /// Writes a block. Returns where it ends.
  HWY_INLINE std::byte* write(const Integers& block, bool is_second, const float* values, std::int64_t size, Unit unit,
                              std::byte* to) const {
    if (block.bits == too_many_bits) {
      float floats[block_values];
      transform(values, size, floats, [&](Floats x) HWY_ATTR { return rounded(x, unit); });
      if (unit.most_rounded == 0 && std::all_of(floats, floats + size, [](float x) { return x == 0; })) {
        *to++ = std::byte{0};
        return to;
      }
      *to++ = std::byte{of_floats};
      std::memcpy(to, floats, static_cast<std::size_t>(size) * sizeof(float));
      return to + size * static_cast<std::int64_t>(sizeof(float));
    }
    *to++ = static_cast<std::byte>(block.bits | block.taken << 5 | (is_second ? of_second_order : 0));
    std::memcpy(to, &block.first, sizeof block.first);  // what it does not take is overwritten
    to += block.taken;
    store_bits(block.values, block.bits, size == block_values, to);
    return to + 8 * block.bits;
  }

  /// Returns the bytes of all blocks.
  template <bool add, bool by_rows>
  std::int64_t decode_blocks(const std::byte* in, std::int64_t end, std::int64_t count, Unit unit, float* sum) {
    const FloatTag d;
    const IntTag di;
    if constexpr (by_rows) rows_.begin(0);
    Sums first = hn::Zero(SumTag()), second = hn::Zero(SumTag());  // see Before; in all lanes
    std::int64_t at = 0;
    for (std::int64_t begin = 0; begin < count; begin += block_values) {
      const std::int64_t size = std::min(block_values, count - begin);
      if (at >= end) fail(WEIR_ERR_TRANSPORT, "a message of {} values ends early, after {} bytes", count, end + trailer);
      const int kind = static_cast<int>(in[at++]), bits = kind & 31, taken = kind >> 5 & 3;
      const bool floats = kind == of_floats;
      if (!floats && bits > most_bits) fail(WEIR_ERR_TRANSPORT, "a message of {} values has a block of kind {}", count, kind);
      const std::byte* const block = in + at;
      at += floats ? size * static_cast<std::int64_t>(sizeof(float)) : taken + 8 * bits;
      if (at > end) fail(WEIR_ERR_TRANSPORT, "a message of {} values ends early, after {} bytes", count, end + trailer);
      float padded[block_values];
      float* const to = size == block_values ? sum + begin : padded;
      if (add && size < block_values) std::fill_n(std::copy_n(sum + begin, size, padded), block_values - size, 0.0F);
      if (floats) {
        float given[block_values] = {};
        std::memcpy(given, block, static_cast<std::size_t>(size) * sizeof(float));
        for (std::int64_t i = 0; i < block_values; i += lanes()) {
          const Floats values = hn::LoadU(d, given + i);
          if constexpr (by_rows) hn::StoreU(known_units(values, unit), di, rows_.here() + i);
          deliver<add>(values, to + i);
        }
      } else {
        std::uint32_t bytes = 0;
        std::memcpy(&bytes, block, sizeof bytes);  // of the block, or of the trailer
        bytes &= (1U << 8 * taken) - 1;
        const Sums added = hn::Set(SumTag(), static_cast<std::int32_t>(bytes >> 1 ^ (0U - (bytes & 1))));
        if ((kind & of_second_order) == 0)
          decode_block<add, by_rows, false>(block + taken, in + end + trailer, bits, unit.size, added, first, second, to);
        else
          decode_block<add, by_rows, true>(block + taken, in + end + trailer, bits, unit.size, added, first, second, to);
      }
      if constexpr (by_rows) rows_.next();
      if (size < block_values) std::copy_n(padded, size, sum + begin);
    }
    return at;
  }

  template <bool add, class Values>
  static HWY_INLINE void deliver(Values values, float* to) {
    const hn::DFromV<Values> d;
    hn::StoreU(add ? hn::Add(hn::LoadU(d, to), values) : values, d, to);
  }

  /// `end`: of the message. `added`: to the first integer. `first_order`, `second_order`: see Before; those before the block, and
  /// afterwards its own.
  template <bool add, bool by_rows, bool is_second>
  HWY_INLINE void decode_block(const std::byte* in, const std::byte* end, int bits, float unit, Sums added, Sums& first_order,
                               Sums& second_order, float* to) {
    const SumTag d;
    const hn::RebindToFloat<SumTag> floats;
    alignas(64) std::uint8_t bytes[3 * block_values];
    if (bits == 0) std::memset(bytes, 0, block_values);
    for (int low = 0; low < bits; low += 8)
      load_bits(in + 8 * low, std::min(8, bits - low), bits - low <= 8, in + 8 * low + 64 <= end, bytes + 8 * low);
    const int top = std::max(0, bits - 1) / 8;
    const std::int32_t *const above = by_rows ? rows_.above(1) : nullptr, *const above_that = by_rows ? rows_.above(2) : nullptr;
    std::int32_t* const here = by_rows ? rows_.here() : nullptr;
    constexpr bool twice = is_second && !by_rows;
    Sums value = is_second && by_rows ? second_order : first_order, difference = second_order, last = hn::Zero(d);
    (twice ? difference : value) = hn::Add(twice ? difference : value, added);
    Sums up = hn::Zero(d), line = hn::Zero(d), units = hn::Zero(d);
    for (std::int64_t i = 0; i < block_values; i += 4 * sum_lanes()) {
      // The four bytes of a word are those of neighbours.
      const auto word = [&](int byte) HWY_ATTR {
        return hn::Load(d, reinterpret_cast<const std::int32_t*>(bytes + byte * block_values + i));
      };
      const Sums signs = word(top);
      Sums x[4] = {hn::ShiftRight<24>(hn::ShiftLeft<24>(signs)), hn::ShiftRight<24>(hn::ShiftLeft<16>(signs)),
                   hn::ShiftRight<24>(hn::ShiftLeft<8>(signs)), hn::ShiftRight<24>(signs)};
      for (int byte = top - 1; byte >= 0; --byte) {
        const Sums lower = word(byte), mask = hn::Set(d, 0xff);
        x[0] = hn::Or(hn::ShiftLeft<8>(x[0]), hn::And(lower, mask));
        x[1] = hn::Or(hn::ShiftLeft<8>(x[1]), hn::And(hn::ShiftRight<8>(lower), mask));
        x[2] = hn::Or(hn::ShiftLeft<8>(x[2]), hn::And(hn::ShiftRight<16>(lower), mask));
        x[3] = hn::Or(hn::ShiftLeft<8>(x[3]), hn::And(hn::ShiftRight<24>(lower), mask));
      }
      if constexpr (twice) sum_up(x, difference);
      last = x[3];
      sum_up(x, value);
      put_in_order(x);
      for (int part = 0; part < 4; ++part) {
        const std::int64_t at = i + part * sum_lanes();
        units = x[part];
        if constexpr (by_rows) {
          up = hn::LoadU(d, above + at);
          line = hn::Sub(up, hn::LoadU(d, above_that + at));
          units = hn::Add(units, is_second ? hn::Add(up, line) : up);
          hn::StoreU(units, d, here + at);
        }
        deliver<add>(hn::Mul(hn::ConvertTo(floats, units), hn::Set(floats, unit)), to + at);
      }
    }
    if constexpr (by_rows) {
      first_order = last_of(hn::Sub(units, up));
      second_order = last_of(hn::Sub(hn::Sub(units, up), line));
    } else {
      first_order = value;
      second_order = last_of(last);
    }
  }

  double relative_;
  std::optional<int> agreed_;  // the exponent of the unit
  Rows rows_;
};

std::unique_ptr<PackedCodec> make_error_bounded(const Parameters& parameters) {
  return std::make_unique<ErrorBounded>(parameters["absolute"], parameters["relative"], parameters.whole("row"));
}

}  // namespace
}  // namespace weir::compress::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir::compress {
namespace {

HWY_EXPORT(make_error_bounded);
std::unique_ptr<PackedCodec> make(const Parameters& parameters) { return HWY_DYNAMIC_DISPATCH(make_error_bounded)(parameters); }

constexpr double usual_bound = 1e-4;

void check(const Parameters& given) {
  const std::int64_t row = given.whole("row");
  require(row == 0 || row >= 64, "compressor_parameters: row is {}: it must be 0, or at least 64", row);
  require(given["relative"] == 0 || given["absolute"] == usual_bound,
          "compressor_parameters: absolute is {} and relative is {}: give one of them", given["absolute"], given["relative"]);
}

constexpr std::array parameters = {
    ParameterInfo{.name = "absolute",
                  .value = usual_bound,
                  .least = 0,
                  .most = 1e38,
                  .doc = "the largest error of a value, unless `relative` is above 0",
                  .whole = false},
    ParameterInfo{.name = "relative",
                  .value = 0,
                  .least = 0,
                  .most = 1,
                  .doc = "the largest error, as a part of the range of all ranks' values; 0: `absolute` holds",
                  .whole = false},
    ParameterInfo{
        .name = "row",
        .value = 0,
        .least = 0,
        .most = 1 << 24,
        .doc = "values in a row of the grid, at least 64: each is also compared with the one in the row before; 0: it is not"},
};

}  // namespace

const CompressorRow error_bounded_row = {
    .name = "error_bounded",
    .description = "multiples of a unit, so that no error is above a bound, and their differences in as few bits as each 64 need",
    .source = "Weir; after SZ and cuSZp, and C-Coll, gZCCL and hZCCL for sums",
    .feedback = false,
    .parameters = parameters,
    .encode_adds = 1.5,
    .decode_adds = 1.2,
    .usual_size = 0.25,  // smooth fields take less, noise at a tight bound more
    .check = check,
    .codec = make,
};

}  // namespace weir::compress
#endif
