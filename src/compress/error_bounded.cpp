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
// block is a byte that says what follows. 0x80: floats, the decoded values. Otherwise bits 5 and 6 are the number of bytes of the
// difference between the first value and the last one of the block before, whose sign is in its lowest bit. The lower five bits
// are the number of bits, in two's complement, of the differences between neighbours in the block: all lowest bits come first, 8
// bytes, then the next ones. Differences are in units. The block before is the last one that is not of floats; before the first
// one, values are 0.
//
// With `row`, a value minus the one `row` values before it takes the place of the value in all that, in units: the Lorenzo
// predictor in two dimensions. Where the message has no value there, or has one that is not a multiple, that one counts as 0.
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
#include "codec/vectors-inl.hpp"
#include "compress/compressor.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::compress::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int64_t block_values = 64;
constexpr int most_bits = 24, too_many_bits = 32;  // of a difference; values below 2^22 units have no more
constexpr int most_taken = 3;                      // bytes of the difference between blocks
constexpr std::uint8_t of_floats = 0x80;
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
using ByteTag = hn::Rebind<std::uint8_t, FloatTag>;
using SignedByteTag = hn::Rebind<std::int8_t, FloatTag>;
using PlaneTag = hn::CappedTag<std::uint8_t, block_values>;
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
        size_(row > 0 ? (row + 2 * block_values - 1) / block_values * block_values : 0),
        values_(row > 0 ? size_ + block_values : 0) {}

  /// Begins a message. Values before it are `value`.
  void begin(std::int32_t value) {
    at_ = 0;
    std::fill_n(values_.data(), values_.size(), value);
  }
  /// Returns the values a row before the block.
  [[nodiscard]] const std::int32_t* above() const { return values_.data() + (at_ < row_ ? at_ - row_ + size_ : at_ - row_); }
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

/// A block in units. With rows, each value is the difference from the one above. The first difference is 0.
struct Differences {
  alignas(64) std::int32_t values[block_values];
  std::int32_t first, last;
  int bits;  // that each takes in two's complement; too_many_bits if values are too large
};

/// Rounds by adding a float between 2^23 and 2^24, whose lowest bit stands for 1. The sum's bits are those of the float, plus the
/// rounded value. If it leaves the range, the value is too large. The product is exact: fused or not, the sum is the same.
constexpr float shift = 0x1.8p23F;
constexpr std::int32_t shift_bits = 0x4b400000, range_bits = 0x4b000000;

template <bool by_rows>
HWY_INLINE void take_differences(const float* x, Unit unit, [[maybe_unused]] Rows& rows, Differences& block) {
  const FloatTag d;
  const IntTag di;
  const UintTag du;
  const auto lane = hn::Iota(di, 0);
  const auto first_lane = hn::Eq(lane, hn::Zero(di));
  const auto left = hn::IndicesFromVec(di, hn::And(hn::Sub(lane, hn::Set(di, 1)), hn::Set(di, static_cast<int>(lanes() - 1))));
  const auto inverse = hn::Set(d, unit.inverse);
  Ints most = hn::Zero(di), outside = hn::Zero(di);
  Ints before = hn::Zero(di);  // its first lane is the last value of the vector before
  constexpr std::int32_t zero = by_rows ? 0 : shift_bits;
  const std::int32_t* const above = by_rows ? rows.above() : nullptr;
  std::int32_t* const here = by_rows ? rows.here() : nullptr;
  for (std::int64_t i = 0; i < block_values; i += lanes()) {
    const Ints shifted = hn::BitCast(di, hn::MulAdd(hn::LoadU(d, x + i), inverse, hn::Set(d, shift)));
    outside = hn::Or(outside, hn::Xor(shifted, hn::Set(di, range_bits)));
    Ints units = shifted;
    if constexpr (by_rows) {
      units = hn::Sub(shifted, hn::LoadU(di, above + i));
      hn::StoreU(shifted, di, here + i);
    }
    const Ints turned = hn::TableLookupLanes(units, left);
    if (i == 0) {
      block.first = hn::GetLane(hn::Sub(units, hn::Set(di, zero)));
      before = units;
    }
    const Ints difference = hn::Sub(units, hn::IfThenElse(first_lane, before, turned));
    most = hn::Or(most, hn::Xor(difference, hn::ShiftRight<31>(difference)));
    hn::Store(difference, di, block.values + i);
    before = turned;
  }
  block.last = hn::GetLane(hn::Sub(before, hn::Set(di, zero)));
  const Ints beyond = hn::BitCast(di, hn::ShiftRight<23>(hn::BitCast(du, outside)));
  const Ints all = hn::Or(most, hn::ShiftRight<31>(hn::Sub(hn::Zero(di), beyond)));
  const std::uint32_t largest = hn::GetLane(hn::MaxOfLanes(du, hn::BitCast(du, all)));
  const bool equal = largest == 0 && block.first == block.last;  // or else some are -1
  block.bits = equal ? 0 : static_cast<int>(std::bit_width(largest)) + 1;
  if (block.bits > most_bits || unit.most_rounded == 0) block.bits = too_many_bits;
  if constexpr (by_rows) {
    if (block.bits == too_many_bits) {
      for (std::int64_t i = 0; i < block_values; i += lanes())
        hn::StoreU(hn::Add(known_units(hn::LoadU(d, x + i), unit), hn::Set(di, shift_bits)), di, here + i);
    }
    rows.next();
  }
}

/// Writes the lowest `bits` bits of 64 differences: 8 bytes of lowest bits, 8 bytes of the next, and so on.
HWY_INLINE void store_bits(const std::int32_t* differences, int bits, std::byte* to) {
  auto* out = reinterpret_cast<std::uint8_t*>(to);
#if HWY_TARGET == HWY_SCALAR
  for (int bit = 0; bit < bits; ++bit, out += 8) {
    std::uint64_t plane = 0;
    for (std::int64_t i = 0; i < block_values; ++i) plane |= static_cast<std::uint64_t>(differences[i] >> bit & 1) << i;
    std::memcpy(out, &plane, sizeof plane);
  }
#else
  const PlaneTag d;
  const hn::Repartition<std::uint16_t, PlaneTag> d16;
  const auto vectors = static_cast<std::int64_t>(block_values / hn::MaxLanes(d));
  hn::Vec<PlaneTag> bytes[block_values / hn::MaxLanes(PlaneTag())];
  for (int low = 0; low < bits; low += 8) {
    // Vectors are put together in registers: to load what several smaller stores have written takes long.
    for (std::int64_t v = 0; v < vectors; ++v) {
      const auto part = [&](int number) HWY_ATTR {
        return hn::BitCast(d16, hn::ShiftRightSame(hn::Load(IntTag(), differences + (4 * v + number) * lanes()), low));
      };
      const auto lower = hn::ConcatEven(d16, part(1), part(0)), upper = hn::ConcatEven(d16, part(3), part(2));
      bytes[v] = hn::ConcatEven(d, hn::BitCast(d, upper), hn::BitCast(d, lower));
    }
    for (int bit = 0; bit < std::min(8, bits - low); ++bit, out += 8) {
      const auto mask = hn::Set(d, static_cast<std::uint8_t>(1 << bit));
      for (std::int64_t v = 0; v < vectors; ++v)
        hn::StoreMaskBits(d, hn::TestBit(bytes[v], mask), out + v * static_cast<std::int64_t>(hn::Lanes(d)) / 8);
    }
  }
#endif
}

/// Reads one byte of 64 differences, of which `bits` bits are there, and up to 8 bytes after them. Extends the sign if this is the
/// highest byte.
HWY_INLINE void load_bits(const std::byte* from, int bits, bool highest, std::uint8_t* bytes) {
  const auto* const in = reinterpret_cast<const std::uint8_t*>(from);
#if HWY_TARGET == HWY_SCALAR
  for (std::int64_t i = 0; i < block_values; ++i) {
    int sum = 0;
    for (int bit = 0; bit < bits; ++bit) sum |= (in[8 * bit + i / 8] >> (i % 8) & 1) << bit;
    bytes[i] = static_cast<std::uint8_t>(highest && (sum >> (bits - 1)) != 0 ? sum - (1 << bits) : sum);
  }
#else
  const PlaneTag d;
  const auto sign = hn::Set(d, static_cast<std::uint8_t>(highest ? 1 << (bits - 1) : 0));
  for (std::size_t i = 0; i < block_values; i += hn::Lanes(d)) {
    auto sum = hn::Zero(d);
    for (int bit = 0; bit < bits; ++bit) {
      const auto set = hn::LoadMaskBits(d, in + 8 * bit + i / 8);
      sum = hn::Or(sum, hn::IfThenElseZero(set, hn::Set(d, static_cast<std::uint8_t>(1 << bit))));
    }
    hn::Store(hn::Sub(hn::Xor(sum, sign), sign), d, bytes + i);
  }
#endif
}

/// Returns the sums of all lanes up to each.
HWY_INLINE Ints running_sums(Ints x) {
#if HWY_TARGET == HWY_SCALAR
  return x;
#else
  const IntTag d;
  const auto lane = hn::Iota(d, 0);
  x = hn::Add(x, hn::ShiftLeftLanes<1>(d, x));  // within 128 bits
  x = hn::Add(x, hn::ShiftLeftLanes<2>(d, x));
  if (hn::Lanes(d) > 4) {
    const auto ends = hn::IndicesFromVec(d, hn::Or(hn::AndNot(hn::Set(d, 7), lane), hn::Set(d, 3)));
    x = hn::Add(x, hn::IfThenElseZero(hn::TestBit(lane, hn::Set(d, 4)), hn::TableLookupLanes(x, ends)));
  }
  if (hn::Lanes(d) > 8) {
    const auto middle = hn::IndicesFromVec(d, hn::Set(d, 7));
    x = hn::Add(x, hn::IfThenElseZero(hn::TestBit(lane, hn::Set(d, 8)), hn::TableLookupLanes(x, middle)));
  }
  return x;
#endif
}

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
    auto least = hn::Set(d, infinity), most = hn::Set(d, -infinity);
    const auto see = [&](const float* at) HWY_ATTR {
      const auto x = hn::LoadU(d, at);
      const auto finite = hn::Lt(hn::Abs(x), hn::Set(d, infinity));
      least = hn::Min(least, hn::IfThenElse(finite, x, least));
      most = hn::Max(most, hn::IfThenElse(finite, x, most));
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
    std::int32_t before = 0;
    constexpr int at_once = 8;  // blocks: what one loop stores is in the cache when the next one loads it
    Differences blocks[at_once];
    for (std::int64_t begin = 0; begin < count; begin += at_once * block_values) {
      const std::int64_t size = std::min(at_once * block_values, count - begin);
      for (std::int64_t i = 0; i < size; i += block_values) {
        if (size - i >= block_values) {
          take_differences<by_rows>(values + begin + i, unit, rows_, blocks[i / block_values]);
        } else {
          float padded[block_values];
          std::fill_n(std::copy_n(values + begin + i, size - i, padded), block_values - (size - i), values[begin + size - 1]);
          take_differences<by_rows>(padded, unit, rows_, blocks[i / block_values]);
        }
      }
      for (std::int64_t i = 0; i < size; i += block_values)
        to = write(blocks[i / block_values], values + begin + i, std::min(block_values, size - i), unit, before, to);
      if (rest == nullptr) continue;
      transform(values + begin, size, rest + begin, [&](Floats x) HWY_ATTR { return hn::Sub(x, rounded(x, unit)); });
    }
    while ((to - out) % 8 != 0) *to++ = std::byte{0};
    std::memset(to, 0, trailer);
    std::memcpy(to, &exponent, sizeof exponent);
    return to + trailer - out;
  }

  /// Writes a block. Returns where it ends. Sets `before` to its last value, in units.
  HWY_INLINE std::byte* write(const Differences& block, const float* values, std::int64_t size, Unit unit, std::int32_t& before,
                              std::byte* to) const {
    const std::int32_t step =
        static_cast<std::int32_t>(static_cast<std::uint32_t>(block.first) - static_cast<std::uint32_t>(before));
    const std::uint32_t first = static_cast<std::uint32_t>(step) << 1 ^ static_cast<std::uint32_t>(step >> 31);
    const int bits = block.bits, taken = (static_cast<int>(std::bit_width(first)) + 7) / 8;
    if (bits == too_many_bits || taken > most_taken || taken + 8 * bits >= static_cast<int>(sizeof(float)) * size) {
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
    *to++ = static_cast<std::byte>(bits | taken << 5);
    std::memcpy(to, &first, sizeof first);  // what it does not take is overwritten
    to += taken;
    store_bits(block.values, bits, to);
    before = block.last;
    return to + 8 * bits;
  }

  /// Returns the bytes of all blocks.
  template <bool add, bool by_rows>
  std::int64_t decode_blocks(const std::byte* in, std::int64_t end, std::int64_t count, Unit unit, float* sum) {
    const FloatTag d;
    const IntTag di;
    if constexpr (by_rows) rows_.begin(0);
    Ints before = hn::Zero(di);
    std::int64_t at = 0;
    for (std::int64_t begin = 0; begin < count; begin += block_values) {
      const std::int64_t size = std::min(block_values, count - begin);
      if (at >= end) fail(WEIR_ERR_TRANSPORT, "a message of {} values ends early, after {} bytes", count, end + trailer);
      const int kind = static_cast<int>(in[at++]), bits = kind & 31, taken = kind >> 5 & 3;
      const bool floats = kind == of_floats;
      if (!floats && (kind > 0x7f || bits > most_bits))
        fail(WEIR_ERR_TRANSPORT, "a message of {} values has a block of kind {}", count, kind);
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
        std::uint32_t first = 0;
        std::memcpy(&first, block, sizeof first);  // of the block, or of the trailer
        first &= (1U << 8 * taken) - 1;
        before = hn::Add(before, hn::Set(di, static_cast<std::int32_t>(first >> 1 ^ (0U - (first & 1)))));
        before = decode_block<add, by_rows>(block + taken, bits, unit.size, before, to);
      }
      if constexpr (by_rows) rows_.next();
      if (size < block_values) std::copy_n(padded, size, sum + begin);
    }
    return at;
  }

  template <bool add>
  static HWY_INLINE void deliver(Floats values, float* to) {
    const FloatTag d;
    hn::StoreU(add ? hn::Add(hn::LoadU(d, to), values) : values, d, to);
  }

  /// Returns each lane with a byte below it.
  static HWY_INLINE Ints below(Ints high, const std::uint8_t* bytes) {
    return hn::Or(hn::ShiftLeft<8>(high), hn::PromoteTo(IntTag(), hn::LoadU(ByteTag(), bytes)));
  }

  /// Delivers values `i` and following of a block. `units`: with rows, less those above.
  template <bool add, bool by_rows>
  HWY_INLINE void deliver_units(Ints units, float unit, std::int64_t i, float* to) {
    if constexpr (by_rows) {
      const IntTag d;
      units = hn::Add(units, hn::LoadU(d, rows_.above() + i));
      hn::StoreU(units, d, rows_.here() + i);
    }
    deliver<add>(of_units(units, unit), to + i);
  }

  /// `before`: the first value, in units, in all lanes. Returns the last one.
  template <bool add, bool by_rows>
  HWY_INLINE Ints decode_block(const std::byte* in, int bits, float unit, Ints before, float* to) {
    const IntTag di;
    if (bits == 0) {
      for (std::int64_t i = 0; i < block_values; i += lanes()) deliver_units<add, by_rows>(before, unit, i, to);
      return before;
    }
    alignas(64) std::uint8_t bytes[3 * block_values];
    for (int low = 0; low < bits; low += 8) load_bits(in + 8 * low, std::min(8, bits - low), bits - low <= 8, bytes + 8 * low);
    const auto last = hn::IndicesFromVec(di, hn::Set(di, static_cast<int>(lanes() - 1)));
    const std::uint8_t* const top = bytes + (bits - 1) / 8 * block_values;
    for (std::int64_t i = 0; i < block_values; i += lanes()) {
      Ints difference = hn::PromoteTo(di, hn::LoadU(SignedByteTag(), reinterpret_cast<const std::int8_t*>(top + i)));
      if (bits > 16) difference = below(difference, bytes + block_values + i);
      if (bits > 8) difference = below(difference, bytes + i);
      const Ints sums = running_sums(difference);
      deliver_units<add, by_rows>(hn::Add(before, sums), unit, i, to);
      before = hn::Add(before, hn::TableLookupLanes(sums, last));
    }
    return before;
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
