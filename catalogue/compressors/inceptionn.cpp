// inceptionn.cpp: INCEPTIONN's floats (Li, Park, Alian, Yuan, Qu, Pan, Wang, Schwing, Esmaeilzadeh, Kim: A network-centric
// hardware/algorithm co-design to accelerate distributed training of deep neural networks; MICRO 2018, section V). From the paper
// are the 2-bit tag, which says that 0, 8, 16 or 32 bits follow; the choice among these by the exponent and an absolute error bound
// 2^-b; and that values of 1 or more travel as they are. The paper's cards cut mantissas off; here numbers are rounded to the
// nearest:
//
//   |x| < 2^-b                           0 bits: 0
//   |x| < min(2^(7-b), 1)                8 bits: a sign, and |x| in units of 2^-b
//   |x| < 2^(15-c), c = max(b, 15)      16 bits: a sign, and |x| in units of 2^-c
//   else, infinities and NaN too        32 bits: the float
//
// A message has, for each chunk of 256 elements, the tags (code_bits.hpp), then the values of 8, 16 and 32 bits. Zeros follow up to
// a multiple of 8.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "catalogue/compressors/inceptionn.cpp"
#include <hwy/foreach_target.h>
// The order matters: foreach_target.h includes this file once per instruction set.
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <memory>

#include "compress/compressor.hpp"
#include "compress/quantiser-inl.hpp"
#include "kernels/host/keys-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::compress::HWY_NAMESPACE {
namespace {

constexpr std::int64_t tag_bytes = code_chunk / 4;

/// The number of elements of a chunk that follow in 8, 16 and 32 bits.
struct Counts {
  std::int64_t eight = 0, sixteen = 0, whole = 0;
  [[nodiscard]] std::int64_t bytes() const { return eight + 2 * sixteen + 4 * whole; }
};
HWY_INLINE Counts count_tags(const std::byte* packed) {
  Counts counts;
  for (std::int64_t i = 0; i < tag_bytes; i += 8) {
    std::uint64_t tags = 0;
    std::memcpy(&tags, packed + i, sizeof tags);
    const std::uint64_t low = tags & 0x5555555555555555, high = tags >> 1 & 0x5555555555555555;
    counts.eight += std::popcount(low & ~high);
    counts.sixteen += std::popcount(high & ~low);
    counts.whole += std::popcount(high & low);
  }
  return counts;
}

/// For each set of lanes, returns for each lane how many lanes of the set are below it: the element of a row that the lane takes.
constexpr std::array<std::array<std::uint8_t, 8>, 256> make_ranks() {
  std::array<std::array<std::uint8_t, 8>, 256> ranks{};
  for (std::size_t set = 0; set < 256; ++set) {
    for (std::size_t lane = 0; lane < 8; ++lane)
      ranks[set][lane] = static_cast<std::uint8_t>(std::popcount(set & ((std::size_t{1} << lane) - 1)));
  }
  return ranks;
}
constexpr std::array<std::array<std::uint8_t, 8>, 256> ranks = make_ranks();

/// The lanes that `expand` fills, at most 8.
using GroupTag = hn::CappedTag<std::int32_t, 8>;
using Group = hn::Vec<GroupTag>;

/// Moves the next elements of a row to the lanes of `here`, in order. Other lanes are arbitrary.
template <class T>
HWY_INLINE Group expand(hn::Mask<GroupTag> here, const T*& row) {
  const GroupTag d;
  std::uint8_t bits[8] = {};
  hn::StoreMaskBits(d, here, bits);
  const hn::Rebind<T, GroupTag> narrow;
  const hn::Rebind<std::uint8_t, GroupTag> bytes;
  Group values;
  if constexpr (sizeof(T) == 4) {
    values = hn::LoadU(d, reinterpret_cast<const std::int32_t*>(row));
  } else {
    values = hn::PromoteTo(d, hn::LoadU(narrow, row));
  }
  row += std::popcount(bits[0]);
  return hn::TableLookupLanes(values, hn::IndicesFromVec(d, hn::PromoteTo(d, hn::LoadU(bytes, ranks[bits[0]].data()))));
}

class Inceptionn final : public PackedCodec {
 public:
  explicit Inceptionn(int bound)
      : zero_below_((127 - bound) << 23),
        eight_below_((127 + std::min(0, 7 - bound)) << 23),
        sixteen_below_((127 + 15 - std::max(bound, 15)) << 23),
        per_value_{std::ldexp(1.0f, bound), std::ldexp(1.0f, std::max(bound, 15))},
        unit_{std::ldexp(1.0f, -bound), std::ldexp(1.0f, -std::max(bound, 15))} {}

  [[nodiscard]] std::int64_t granularity() const override { return code_chunk; }
  [[nodiscard]] std::int64_t most_bytes(std::int64_t count) const override {
    return (code_bytes(count, 2) + 4 * count + 7) / 8 * 8;
  }
  [[nodiscard]] bool fixed_size() const override { return false; }

  std::int64_t encode(const Draw&, std::int64_t, const float* values, std::int64_t count, std::byte* out, float* rest) override {
    std::byte* to = out;
    for (std::int64_t chunk = 0; chunk < count; chunk += code_chunk) {
      const std::int64_t size = std::min(code_chunk, count - chunk);
      FoundRows rows;
      if (size == code_chunk) {
        encode_chunk(values + chunk, rows, rest != nullptr ? rest + chunk : nullptr);
        to += pack_chunk<2>(rows.tags, to);
      } else {
        float padded[code_chunk] = {}, padded_rest[code_chunk];
        std::copy_n(values + chunk, size, padded);
        encode_chunk(padded, rows, padded_rest);
        if (rest != nullptr) std::copy_n(padded_rest, size, rest + chunk);
        to += pack_codes(rows.tags, (size + 7) / 8 * 8, 2, to);
      }
      to = store_row<std::uint8_t>(rows.eight, rows.counts.eight, to);
      to = store_row<std::uint16_t>(rows.sixteen, rows.counts.sixteen, to);
      to = store_row<std::uint32_t>(rows.whole, rows.counts.whole, to);
    }
    const std::int64_t bytes = (to - out + 7) / 8 * 8;
    std::fill(to, out + bytes, std::byte{0});
    return bytes;
  }

  void decode(const std::byte* in, std::int64_t bytes, std::int64_t count, float* sum, bool add) override {
    const std::byte* const begin = in;
    const std::byte* const end = in + bytes;
    for (std::int64_t chunk = 0; chunk < count; chunk += code_chunk) {
      const std::int64_t size = std::min(code_chunk, count - chunk), tags_here = code_bytes(size, 2);
      if (end - in < tags_here) fail_short(count, bytes);
      std::uint8_t tags[code_chunk] = {};
      std::byte packed[tag_bytes] = {};
      if (size == code_chunk) {
        std::memcpy(packed, in, tag_bytes);
      } else {
        unpack_codes(in, (size + 7) / 8 * 8, 2, tags);
        std::fill(tags + size, tags + code_chunk, std::uint8_t{0});
        pack_chunk<2>(tags, packed);
      }
      in += tags_here;
      const Counts counts = count_tags(packed);
      if (end - in < counts.bytes()) fail_short(count, bytes);
      unpack_chunk<2>(packed, tags);
      // The copies are aligned, and whole vectors can be loaded from them.
      Rows rows;
      in = load_row(in, counts.eight, rows.eight);
      in = load_row(in, counts.sixteen, rows.sixteen);
      in = load_row(in, counts.whole, rows.whole);
      if (size == code_chunk) {
        decode_chunk(tags, rows, counts.whole > 0, sum + chunk, add);
      } else {
        float decoded[code_chunk];
        decode_chunk(tags, rows, counts.whole > 0, decoded, false);
        for (std::int64_t i = 0; i < size; ++i) sum[chunk + i] = add ? sum[chunk + i] + decoded[i] : decoded[i];
      }
    }
    if (bytes != (in - begin + 7) / 8 * 8)
      fail(WEIR_ERR_TRANSPORT, "a message of {} values has {} bytes instead of {}", count, bytes, (in - begin + 7) / 8 * 8);
  }

 private:
  static constexpr std::int64_t room = code_chunk + 16;  ///< a vector may be stored or loaded past the end of a row
  struct Rows {
    std::uint8_t eight[room];
    std::uint16_t sixteen[room];
    std::uint32_t whole[room];
  };
  /// Rows while they are being collected, each element in 32 bits.
  struct FoundRows {
    std::uint8_t tags[code_chunk];
    std::int32_t eight[room], sixteen[room], whole[room];
    Counts counts;
  };

  [[noreturn]] static void fail_short(std::int64_t count, std::int64_t bytes) {
    fail(WEIR_ERR_TRANSPORT, "a message of {} values has {} bytes, and its tags ask for more", count, bytes);
  }

  template <class T>
  static const std::byte* load_row(const std::byte* in, std::int64_t count, T* row) {
    std::memcpy(row, in, static_cast<std::size_t>(count) * sizeof(T));
    return in + count * static_cast<std::int64_t>(sizeof(T));
  }
  /// Writes values of the width of T, as in the message.
  template <class T>
  static HWY_INLINE std::byte* store_row(const std::int32_t* row, std::int64_t count, std::byte* out) {
    if constexpr (sizeof(T) == 4) {
      std::memcpy(out, row, static_cast<std::size_t>(4 * count));
    } else {
      const UintTag d;
      const hn::Rebind<T, UintTag> narrow;
      const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
      T to[room];
      for (std::int64_t i = 0; i < count; i += lanes)
        hn::StoreU(wire::HWY_NAMESPACE::truncate(narrow, hn::LoadU(d, reinterpret_cast<const std::uint32_t*>(row + i))), narrow,
                   to + i);
      std::memcpy(out, to, static_cast<std::size_t>(count) * sizeof(T));
    }
    return out + count * static_cast<std::int64_t>(sizeof(T));
  }

  void encode_chunk(const float* x, FoundRows& rows, float* rest) const {
    const FloatTag d;
    const IntTag di;
    const hn::Rebind<std::uint8_t, IntTag> bytes;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    for (std::int64_t i = 0; i < code_chunk; i += lanes) {
      const auto values = hn::LoadU(d, x + i);
      const auto bits = hn::BitCast(di, values);
      const auto key = hn::And(bits, hn::Set(di, 0x7fffffff));
      const auto some = hn::Gt(key, hn::Set(di, zero_below_ - 1));
      const auto above_eight = hn::Gt(key, hn::Set(di, eight_below_ - 1));
      const auto above_sixteen = hn::Gt(key, hn::Set(di, sixteen_below_ - 1));
      const auto one = hn::Set(di, 1);
      const auto tags = hn::Add(hn::Add(hn::IfThenElseZero(some, one), hn::IfThenElseZero(above_eight, one)),
                                hn::IfThenElseZero(above_sixteen, one));
      hn::StoreU(wire::HWY_NAMESPACE::truncate(bytes, hn::BitCast(UintTag(), tags)), bytes, rows.tags + i);

      const auto floats_above = hn::RebindMask(d, above_eight);
      const auto per_value = hn::IfThenElse(floats_above, hn::Set(d, per_value_[1]), hn::Set(d, per_value_[0]));
      const auto most = hn::IfThenElse(above_eight, hn::Set(di, 32767), hn::Set(di, 127));
      const auto units = hn::Min(hn::NearestInt(hn::Mul(hn::BitCast(d, key), per_value)), most);
      const auto negative = hn::BroadcastSignBit(bits);
      const auto is_eight = hn::AndNot(above_eight, some), is_sixteen = hn::AndNot(above_sixteen, above_eight);
      append(hn::Or(units, hn::And(negative, hn::Set(di, 0x80))), is_eight, rows.eight, rows.counts.eight);
      append(hn::Or(units, hn::And(negative, hn::Set(di, 0x8000))), is_sixteen, rows.sixteen, rows.counts.sixteen);
      append(bits, above_sixteen, rows.whole, rows.counts.whole);
      if (rest != nullptr) {
        const auto unit = hn::IfThenElse(floats_above, hn::Set(d, unit_[1]), hn::Set(d, unit_[0]));
        const auto magnitude = hn::BitCast(di, hn::Mul(hn::ConvertTo(d, units), unit));
        const auto rounded = hn::Or(magnitude, hn::And(negative, hn::Set(di, std::int32_t{-0x7fffffff - 1})));
        const auto decoded = hn::IfThenElse(above_sixteen, bits, hn::IfThenElseZero(some, rounded));
        hn::StoreU(hn::Sub(values, hn::BitCast(d, decoded)), d, rest + i);
      }
    }
  }
  static HWY_INLINE void append(Ints values, hn::Mask<IntTag> which, std::int32_t* row, std::int64_t& count) {
    // Done in two steps: on Zen 4, AVX-512's instruction that compresses into memory takes hundreds of cycles.
    hn::StoreU(kernels::host::HWY_NAMESPACE::compress(IntTag(), values, which), IntTag(), row + count);
    count += static_cast<std::int64_t>(hn::CountTrue(IntTag(), which));
  }

  void decode_chunk(const std::uint8_t* tags, const Rows& rows, bool any_whole, float* sum, bool add) const {
    const GroupTag di;
    const hn::Rebind<float, GroupTag> d;
    const hn::Rebind<std::uint8_t, GroupTag> bytes;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(di));
    const std::uint8_t* eight = rows.eight;
    const std::uint16_t* sixteen = rows.sixteen;
    const std::uint32_t* whole = rows.whole;
    for (std::int64_t i = 0; i < code_chunk; i += lanes) {
      const auto tag = hn::PromoteTo(di, hn::LoadU(bytes, tags + i));
      const auto is_eight = hn::Eq(tag, hn::Set(di, 1)), is_sixteen = hn::Eq(tag, hn::Set(di, 2)),
                 is_whole = hn::Gt(tag, hn::Set(di, 2));
      const auto small = expand(is_eight, eight), middle = expand(is_sixteen, sixteen);
      const auto small_units = hn::And(small, hn::Set(di, 0x7f)), middle_units = hn::And(middle, hn::Set(di, 0x7fff));
      const auto units = hn::ConvertTo(d, hn::IfThenElse(is_eight, small_units, hn::IfThenElseZero(is_sixteen, middle_units)));
      const auto unit = hn::IfThenElse(hn::RebindMask(d, is_eight), hn::Set(d, unit_[0]), hn::Set(d, unit_[1]));
      const auto sign = hn::IfThenElse(is_eight, hn::ShiftLeft<24>(hn::Sub(small, small_units)),
                                       hn::IfThenElseZero(is_sixteen, hn::ShiftLeft<16>(hn::Sub(middle, middle_units))));
      auto bits = hn::Or(hn::BitCast(di, hn::Mul(units, unit)), sign);
      if (any_whole) bits = hn::IfThenElse(is_whole, expand(is_whole, whole), bits);
      const auto values = hn::BitCast(d, bits);
      hn::StoreU(add ? hn::Add(hn::LoadU(d, sum + i), values) : values, d, sum + i);
    }
  }

  std::int32_t zero_below_, eight_below_, sixteen_below_;  ///< as the bits of floats
  float per_value_[2], unit_[2];                           ///< for 8 bits and for 16 bits
};

std::unique_ptr<PackedCodec> make_inceptionn(const Parameters& parameters) {
  return std::make_unique<Inceptionn>(static_cast<int>(parameters.whole("bound")));
}

}  // namespace
}  // namespace weir::compress::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir::compress {
namespace {

HWY_EXPORT(make_inceptionn);
std::unique_ptr<PackedCodec> make(const Parameters& parameters) { return HWY_DYNAMIC_DISPATCH(make_inceptionn)(parameters); }

constexpr std::array parameters = {
    ParameterInfo{
        .name = "bound", .value = 10, .least = 1, .most = 30, .doc = "b: errors are at most 2^-b, whatever the gradient's size"},
};

}  // namespace

const CompressorRow inceptionn_row = {
    .name = "inceptionn",
    .description = "0, 8, 16 or 32 bits for each float by its exponent, with an absolute error bound",
    .source = "Li et al., MICRO 2018, section V",
    .feedback = false,
    .parameters = parameters,
    .encode_adds = 1.5,
    .decode_adds = 2,
    .codec = make,
};

}  // namespace weir::compress
#endif
