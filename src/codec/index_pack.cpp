// index_pack.cpp: converts indices to low bits, in whole bytes and half bytes, and to set bits.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/index_pack.cpp"
#include <hwy/foreach_target.h>
// The order matters: foreach_target.h includes this file once per instruction set.
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "codec/dispatch.hpp"
#include "codec/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::wire::HWY_NAMESPACE {
namespace {

/// Sets bits in ascending order and never reads what it wrote, which would take longer than everything else.
class BitWriter {
 public:
  /// `out` must be all zeros.
  explicit BitWriter(std::byte* out) : out_(out) {}

  /// Sets `bits` from position `begin` on, a multiple of 8. Writes 8 bytes.
  HWY_INLINE void set(std::uint32_t begin, std::uint64_t bits) {
    const std::uint32_t step = begin - begin_;
    word_ = (step < 64 ? word_ >> step : 0) | bits;
    begin_ = begin;
    std::memcpy(out_ + begin / 8, &word_, sizeof word_);
  }

 private:
  std::byte* out_;
  std::uint32_t begin_ = 0;
  std::uint64_t word_ = 0;  ///< the last word written, and its position
};

template <class D>
HWY_INLINE std::uint64_t or_lanes(D d, hn::Vec<D> x) {
#if HWY_HAVE_SCALABLE || HWY_TARGET == HWY_SCALAR
  return hn::GetLane(hn::SumOfLanes(d, x));  // no bit is set in two lanes
#else
  if constexpr (hn::MaxLanes(d) == 1) {
    return hn::GetLane(x);
  } else {
    const hn::Half<D> half;
    return or_lanes(half, hn::Or(hn::UpperHalf(half, x), hn::LowerHalf(half, x)));
  }
#endif
}

/// Returns where the bit of the k-th of `indices` would be if these were the first of the message.
template <int low_bits>
HWY_INLINE std::uint32_t place_of(const std::uint32_t* indices, std::uint32_t base, std::int64_t k) {
  return ((indices[k] - base) >> low_bits) + (low_bits != 0 ? static_cast<std::uint32_t>(k) : 0);
}

/// Returns bits at the places of `entries` entries, modulo 64.
template <int low_bits, std::int64_t entries>
HWY_INLINE std::uint64_t find_bits(const std::uint32_t* indices, std::uint32_t base) {
#if HWY_TARGET == HWY_SCALAR
  std::uint64_t bits = 0;
  for (std::int64_t k = 0; k < entries; ++k) bits |= std::uint64_t{1} << (place_of<low_bits>(indices, base, k) % 64);
  return bits;
#else
  const hn::CappedTag<std::uint32_t, entries> d;
  const hn::Repartition<std::uint64_t, decltype(d)> pairs;
  const auto one = hn::Set(pairs, 1), mask = hn::Set(pairs, 63);
  auto bits = hn::Zero(pairs);
  for (std::int64_t k = 0; k < entries; k += static_cast<std::int64_t>(hn::Lanes(d))) {
    auto place = hn::ShiftRight<low_bits>(hn::Sub(hn::LoadU(d, indices + k), hn::Set(d, base)));
    if constexpr (low_bits != 0) place = hn::Add(place, hn::Iota(d, static_cast<std::uint32_t>(k)));
    const auto pair = hn::BitCast(pairs, place);
    const auto even = hn::And(pair, mask), odd = hn::And(hn::ShiftRight<32>(pair), mask);
    bits = hn::Or(bits, hn::Or(hn::Shl(one, even), hn::Shl(one, odd)));
  }
  return or_lanes(pairs, bits);
#endif
}

/// Packs `entries` at a time. Most groups should span at most 57 positions.
template <int low_bits, std::int64_t entries>
void pack_bits(const std::uint32_t* indices, std::int64_t count, std::uint32_t base, std::uint64_t bits, std::byte* out) {
  const auto position = [=](std::int64_t i) { return place_of<low_bits>(indices, base, i); };
  std::memset(out, 0, (bits + 7) / 8);
  std::int64_t whole = count;  // entries for which the writer may write 8 bytes
  while (whole > 0 && position(whole - 1) + std::uint64_t{64} > bits) --whole;
  BitWriter writer(out);
  std::int64_t i = 0;
  for (; i + entries <= whole; i += entries) {
    const std::uint32_t begin = position(i) & ~7u;
    if (HWY_LIKELY(position(i + entries - 1) - begin < 64)) {
      const std::uint32_t order = low_bits != 0 ? static_cast<std::uint32_t>(i) : 0;
      const std::uint64_t found = find_bits<low_bits, entries>(indices + i, base);
      writer.set(begin, std::rotr(found, static_cast<int>((begin - order) % 64)));
    } else {
      for (std::int64_t k = i; k < i + entries; ++k) writer.set(position(k) & ~7u, std::uint64_t{1} << (position(k) % 8));
    }
  }
  for (; i < count; ++i) out[position(i) / 8] |= std::byte{1} << (position(i) % 8);
}

template <int low_bits>
void pack_bits_of(const std::uint32_t* indices, std::int64_t count, std::uint32_t base, std::uint64_t bits, std::byte* out) {
  const auto entries = static_cast<std::uint64_t>(count);
  if (5 * bits <= 8 * entries) return pack_bits<low_bits, 32>(indices, count, base, bits, out);
  if (4 * bits <= 11 * entries) return pack_bits<low_bits, 16>(indices, count, base, bits, out);
  pack_bits<low_bits, 8>(indices, count, base, bits, out);
}

void pack_bits_any(int low_bits, const std::uint32_t* indices, std::int64_t count, std::uint32_t base, std::uint64_t bits,
                   std::byte* out) {
  switch (low_bits) {
    case 0:
      return pack_bits_of<0>(indices, count, base, bits, out);
    case 4:
      return pack_bits_of<4>(indices, count, base, bits, out);
    case 8:
      return pack_bits_of<8>(indices, count, base, bits, out);
    case 12:
      return pack_bits_of<12>(indices, count, base, bits, out);
    default:
      return pack_bits_of<16>(indices, count, base, bits, out);
  }
}

/// Writes bits [shift, shift + 8 or 16) of each index.
template <class Whole, int shift, std::uint32_t mask>
void pack_whole(const std::uint32_t* indices, std::int64_t count, std::uint32_t base, std::byte* out) {
  for_each_vector<std::uint32_t>(count, out, sizeof(Whole), [=](auto d, std::int64_t i) HWY_ATTR {
    const hn::Rebind<Whole, decltype(d)> dw;
    const auto relative = hn::Sub(hn::LoadU(d, indices + i), hn::Set(d, base));
    auto low = hn::ShiftRight<shift>(relative);
    if constexpr (mask != static_cast<Whole>(-1)) low = hn::And(low, hn::Set(d, mask));
    const auto whole = truncate(dw, low);
    store_bytes(dw, whole, out + i * static_cast<std::int64_t>(sizeof(Whole)));
  });
}

/// Writes bits [shift, shift + 4) of each index, two indices per byte.
template <int shift>
void pack_halves(const std::uint32_t* indices, std::int64_t count, std::uint32_t base, std::byte* out) {
  constexpr std::int64_t block = 256;
  std::byte halves[block + 1];
  for (std::int64_t begin = 0; begin < count; begin += block) {
    const std::int64_t length = std::min(block, count - begin);
    halves[length] = std::byte{0};
    pack_whole<std::uint8_t, shift, 15>(indices + begin, length, base, halves);
    const std::byte* from = halves;
    std::byte* to = out + begin / 2;
    for_each_vector<std::uint16_t>((length + 1) / 2, to, 1, [=](auto d, std::int64_t i) HWY_ATTR {
      const hn::Rebind<std::uint8_t, decltype(d)> d8;
      const auto pair = load_bytes(d, from + 2 * i);
      const auto joined = hn::And(hn::Or(pair, hn::ShiftRight<4>(pair)), hn::Set(d, 255));
      store_bytes(d8, hn::DemoteTo(d8, hn::BitCast(hn::RebindToSigned<decltype(d)>(), joined)), to + i);
    });
  }
}

void pack_low(int low_bits, const std::uint32_t* indices, PartRange entries, std::int64_t count, std::uint32_t base,
              std::byte* out) {
  const std::uint32_t* const first = indices + entries.begin;
  switch (low_bits) {
    case 4:
      return pack_halves<0>(first, entries.count(), base, out + entries.begin / 2);
    case 8:
      return pack_whole<std::uint8_t, 0, 255>(first, entries.count(), base, out + entries.begin);
    case 12:
      pack_whole<std::uint8_t, 0, 255>(first, entries.count(), base, out + entries.begin);
      return pack_halves<8>(first, entries.count(), base, out + count + entries.begin / 2);
    default:
      return pack_whole<std::uint16_t, 0, 65535>(first, entries.count(), base, out + 2 * entries.begin);
  }
}

void pack_coo(const std::uint32_t* indices, std::int64_t count, std::uint32_t base, std::byte* out) {
  for_each_vector<std::uint32_t>(count, out, 4, [=](auto d, std::int64_t i) HWY_ATTR {
    const auto relative = hn::Sub(hn::LoadU(d, indices + i), hn::Set(d, base));
    store_bytes(d, relative, out + 4 * i);
  });
}

IndexPackers index_packers() { return {pack_low, pack_bits_any, pack_coo}; }

}  // namespace
}  // namespace weir::wire::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir::wire {

namespace {

HWY_EXPORT(index_packers);

const IndexPackers& chosen() {
  static const IndexPackers kernels = HWY_DYNAMIC_DISPATCH(index_packers)();
  return kernels;
}

}  // namespace

void pack_low(int low_bits, const std::uint32_t* indices, PartRange entries, std::int64_t count, std::uint32_t base,
              std::byte* out) {
  chosen().pack_low(low_bits, indices, entries, count, base, out);
}

void pack_bits(int low_bits, const std::uint32_t* indices, std::int64_t count, std::uint32_t base, std::uint64_t bits,
               std::byte* out) {
  chosen().pack_bits(low_bits, indices, count, base, bits, out);
}

void pack_coo(const std::uint32_t* indices, std::int64_t count, std::uint32_t base, std::byte* out) {
  chosen().pack_coo(indices, count, base, out);
}

}  // namespace weir::wire
#endif
