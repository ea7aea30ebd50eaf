// bit_planes-inl.hpp: blocks of 64 integers as planes: all lowest bits, then the next ones; compiled once per instruction
// set, as Highway's foreach_target.h asks.
#if defined(WEIR_COMPRESS_BIT_PLANES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEIR_COMPRESS_BIT_PLANES_INL
#undef WEIR_COMPRESS_BIT_PLANES_INL
#else
#define WEIR_COMPRESS_BIT_PLANES_INL
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace weir::compress::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int64_t block_values = 64;
using WordTag = hn::CappedTag<std::int32_t, 16>;
using PlaneTag = hn::CappedTag<std::uint8_t, block_values>;

/// Writes the lowest `bits` bits of 64 integers: 8 bytes of lowest bits, 8 bytes of the next, and so on. With `has_room`, what
/// follows may be overwritten, up to 64 bytes: processors guess wrong how often a loop runs that ends with the last bit.
HWY_INLINE void store_bits(const std::int32_t* integers, int bits, [[maybe_unused]] bool has_room, std::byte* to) {
  auto* out = reinterpret_cast<std::uint8_t*>(to);
#if HWY_TARGET == HWY_SCALAR
  for (int bit = 0; bit < bits; ++bit, out += 8) {
    std::uint64_t plane = 0;
    for (std::int64_t i = 0; i < block_values; ++i) plane |= static_cast<std::uint64_t>(integers[i] >> bit & 1) << i;
    std::memcpy(out, &plane, sizeof plane);
  }
#else
  const PlaneTag d;
  const WordTag di;
  const hn::Repartition<std::uint16_t, PlaneTag> d16;
  const auto vectors = static_cast<std::int64_t>(block_values / hn::MaxLanes(d)), words = static_cast<std::int64_t>(hn::Lanes(di));
  hn::Vec<PlaneTag> bytes[block_values / hn::MaxLanes(PlaneTag())];
  const auto store_planes = [&](int planes) HWY_ATTR {
    for (int bit = 0; bit < planes; ++bit, out += 8) {
      const auto mask = hn::Set(d, static_cast<std::uint8_t>(1 << bit));
      for (std::int64_t v = 0; v < vectors; ++v)
        hn::StoreMaskBits(d, hn::TestBit(bytes[v], mask), out + v * static_cast<std::int64_t>(hn::Lanes(d)) / 8);
    }
  };
  // Vectors are put together in registers: to load what several smaller stores have written takes long.
  if (has_room && bits <= 8) {
    // Within each 128 bits, two vectors come together: their fours of integers are put in order at the end.
    const hn::Repartition<std::int16_t, PlaneTag> di16;
    alignas(64) std::int32_t order[16];
    const int blocks = static_cast<int>(words) / 4;
    for (int i = 0; i < static_cast<int>(words); ++i) order[i] = i / blocks / 2 * 2 * blocks + i % blocks * 2 + i / blocks % 2;
    const auto fours = hn::SetTableIndices(di, order);
    for (std::int64_t v = 0; v < vectors; ++v) {
      const auto load = [&](int number) HWY_ATTR { return hn::Load(di, integers + (4 * v + number) * words); };
      const auto lower = hn::ReorderDemote2To(di16, load(0), load(1)), upper = hn::ReorderDemote2To(di16, load(2), load(3));
      const auto all = hn::ConcatEven(d, hn::BitCast(d, upper), hn::BitCast(d, lower));
      bytes[v] = hn::BitCast(d, hn::TableLookupLanes(hn::BitCast(di, all), fours));
    }
    return bits <= 4 ? store_planes(4) : store_planes(8);
  }
  for (int low = 0; low < bits; low += 8) {
    for (std::int64_t v = 0; v < vectors; ++v) {
      const auto part = [&](int number) HWY_ATTR {
        return hn::BitCast(d16, hn::ShiftRightSame(hn::Load(di, integers + (4 * v + number) * words), low));
      };
      const auto lower = hn::ConcatEven(d16, part(1), part(0)), upper = hn::ConcatEven(d16, part(3), part(2));
      bytes[v] = hn::ConcatEven(d, hn::BitCast(d, upper), hn::BitCast(d, lower));
    }
    store_planes(has_room ? 8 : std::min(8, bits - low));
  }
#endif
}

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE void load_bits(const std::byte* from, int bits, bool highest, bool /*has_room*/, std::uint8_t* bytes) {
  const auto* const in = reinterpret_cast<const std::uint8_t*>(from);
  for (std::int64_t i = 0; i < block_values; ++i) {
    int sum = 0;
    for (int bit = 0; bit < bits; ++bit) sum |= (in[8 * bit + i / 8] >> (i % 8) & 1) << bit;
    bytes[i] = static_cast<std::uint8_t>(highest && (sum >> (bits - 1)) != 0 ? sum - (1 << bits) : sum);
  }
}
#else
/// Puts bit b of byte p of each 8 bytes where bit p of byte b was.
template <class Bytes>
HWY_INLINE Bytes transpose_bits(Bytes x) {
  const hn::Repartition<std::uint64_t, hn::DFromV<Bytes> > d;
  auto bits = hn::BitCast(d, x);
  const auto swap = [&]<int distance>(std::integral_constant<int, distance>, std::uint64_t mask) HWY_ATTR {
    const auto differ = hn::And(hn::Xor(bits, hn::ShiftRight<distance>(bits)), hn::Set(d, mask));
    bits = hn::Xor(bits, hn::Xor(differ, hn::ShiftLeft<distance>(differ)));
  };
  swap(std::integral_constant<int, 7>(), 0x00AA00AA00AA00AA);
  swap(std::integral_constant<int, 14>(), 0x0000CCCC0000CCCC);
  swap(std::integral_constant<int, 28>(), 0x00000000F0F0F0F0);
  return hn::BitCast(hn::DFromV<Bytes>(), bits);
}

/// Reads one byte of 64 integers, of which `bits` bits are there. Extends the sign if this is the highest byte. With `has_room`, 64
/// bytes can be read.
template <class Tag = PlaneTag>
HWY_INLINE void load_bits(const std::byte* from, int bits, bool highest, bool has_room, std::uint8_t* bytes) {
  const auto* const in = reinterpret_cast<const std::uint8_t*>(from);
  const Tag d;
  const auto there = hn::Set(d, static_cast<std::uint8_t>((1 << bits) - 1));
  const auto sign = hn::Set(d, static_cast<std::uint8_t>(highest ? 1 << (bits - 1) : 0));
  const auto store = [&](hn::Vec<Tag> x, std::uint8_t* to)
                         HWY_ATTR { hn::Store(hn::Sub(hn::Xor(hn::And(x, there), sign), sign), d, to); };
  if constexpr (hn::MaxLanes(Tag()) == 32) {  // without registers for masks, each bit takes long
    constexpr int many = 6;
    if (has_room && bits >= many) {
      // Byte j of every plane comes into the 8 bytes j, which are then transposed.
      const hn::Half<Tag> half;
      const hn::Repartition<std::uint16_t, decltype(half)> half16;
      const hn::Repartition<std::uint32_t, decltype(half)> half32;
      const auto both = [&](int plane) HWY_ATTR {
        const auto planes = hn::LoadU(half, in + 8 * plane);
        return hn::BitCast(half16, hn::InterleaveLower(half, planes, hn::ShiftRightBytes<8>(half, planes)));
      };
      const auto a = both(0), b = both(2), c = both(4), e = both(6);
      const auto finish = [&](auto lower, auto upper, std::uint8_t* to) HWY_ATTR {
        const auto x = hn::BitCast(half32, lower), y = hn::BitCast(half32, upper);
        const auto low = hn::BitCast(half, hn::InterleaveLower(half32, x, y)),
                   high = hn::BitCast(half, hn::InterleaveUpper(half32, x, y));
        store(transpose_bits(hn::Combine(d, high, low)), to);
      };
      finish(hn::InterleaveLower(half16, a, b), hn::InterleaveLower(half16, c, e), bytes);
      finish(hn::InterleaveUpper(half16, a, b), hn::InterleaveUpper(half16, c, e), bytes + 32);
      return;
    }
  }
  for (std::size_t i = 0; i < block_values; i += hn::Lanes(d)) {
    auto sum = hn::Zero(d);
    for (int bit = 0; bit < bits; ++bit) {
      const auto set = hn::LoadMaskBits(d, in + 8 * bit + i / 8);
      sum = hn::Or(sum, hn::IfThenElseZero(set, hn::Set(d, static_cast<std::uint8_t>(1 << bit))));
    }
    store(sum, bytes + i);
  }
}
#endif

}  // namespace weir::compress::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
