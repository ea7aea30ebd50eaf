// index_pack.cpp: indices to low bits in whole bytes and halves of bytes, and to set bits.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/index_pack.cpp"
#include <hwy/foreach_target.h>
// The order matters: foreach_target.h includes this file once per instruction set.
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "codec/dispatch.hpp"
#include "codec/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::wire::HWY_NAMESPACE {
namespace {

/// Sets bits in ascending order and never reads what it wrote, which would take longer than all else.
class BitWriter {
 public:
  /// `out` is all zeros.
  explicit BitWriter(std::byte* out) : out_(out) {}

  /// Sets the bits of `pattern`, of which the lowest is at `position` and the highest of 57 may be set. Writes 8 bytes.
  HWY_INLINE void set(std::uint64_t position, std::uint64_t pattern) {
    const std::uint64_t begin = position & ~std::uint64_t{7}, step = begin - begin_;
    word_ = (step < 64 ? word_ >> step : 0) | pattern << (position & 7);
    begin_ = begin;
    std::memcpy(out_ + begin / 8, &word_, sizeof word_);
  }

 private:
  std::byte* out_;
  std::uint64_t begin_ = 0, word_ = 0;  ///< the last word written, and its position
};

template <class D>
HWY_INLINE std::int64_t or_lanes(D d, hn::Vec<D> x) {
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

/// Set bits of a group of entries, from that of the first one on.
struct Group {
  std::uint64_t first = 0;  ///< high bits of the first entry
  std::uint64_t pattern = 0;
};

/// False if the group spans more than 57 positions.
template <int low_bits, std::int64_t entries>
HWY_INLINE bool find_pattern(const std::uint32_t* indices, std::uint32_t base, Group& group) {
  const hn::CappedTag<std::int64_t, 8> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<std::uint32_t, decltype(d)> d32;
  const auto high = [=](std::size_t k) HWY_ATTR {
    return hn::BitCast(d, hn::ShiftRight<low_bits>(hn::Sub(hn::PromoteTo(du, hn::LoadU(d32, indices + k)), hn::Set(du, base))));
  };
  group.first = static_cast<std::uint64_t>(hn::GetLane(high(0)));
  const auto origin = hn::Set(d, static_cast<std::int64_t>(group.first));
  auto pattern = hn::Zero(d);
  for (std::size_t k = 0; k < entries; k += hn::Lanes(d)) {
    auto place = hn::Sub(high(k), origin);
    if constexpr (low_bits != 0) place = hn::Add(place, hn::Iota(d, static_cast<std::int64_t>(k)));
    if (!hn::AllFalse(d, hn::Gt(place, hn::Set(d, 56)))) return false;
    pattern = hn::Or(pattern, hn::Shl(hn::Set(d, 1), place));
  }
  group.pattern = static_cast<std::uint64_t>(or_lanes(d, pattern));
  return true;
}

/// `entries` at a time.
template <int low_bits, std::int64_t entries>
void pack_bits(const std::uint32_t* indices, std::int64_t count, std::uint32_t base, std::uint64_t bits, std::byte* out) {
  constexpr bool unary = low_bits != 0;
  const auto order = [](std::int64_t i) { return unary ? static_cast<std::uint64_t>(i) : 0; };
  const auto position = [=](std::int64_t i) { return ((indices[i] - base) >> low_bits) + order(i); };
  std::memset(out, 0, (bits + 7) / 8);
  std::int64_t whole = count;  // entries for which the writer may write 8 bytes
  while (whole > 0 && position(whole - 1) + 64 > bits) --whole;
  BitWriter writer(out);
  std::int64_t i = 0;
  for (; i + entries <= whole; i += entries) {
    Group group;
    if (HWY_LIKELY((find_pattern<low_bits, entries>(indices + i, base, group)))) {
      writer.set(group.first + order(i), group.pattern);
    } else {
      for (std::int64_t k = i; k < i + entries; ++k) writer.set(position(k), 1);
    }
  }
  for (; i < count; ++i) out[position(i) / 8] |= std::byte{1} << (position(i) % 8);
}

template <int low_bits>
void pack_bits_of(const std::uint32_t* indices, std::int64_t count, std::uint32_t base, std::uint64_t bits, std::byte* out) {
  // Most groups should fit into one pattern.
  if (bits <= 2 * static_cast<std::uint64_t>(count)) return pack_bits<low_bits, 16>(indices, count, base, bits, out);
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

/// Bits [shift, shift + 8 or 16) of each index.
template <class Whole, int shift, std::uint32_t mask>
void pack_whole(const std::uint32_t* indices, std::int64_t count, std::uint32_t base, std::byte* out) {
  for_each_vector<std::uint32_t>(count, out, sizeof(Whole), [=](auto d, std::int64_t i) HWY_ATTR {
    const hn::Rebind<Whole, decltype(d)> dw;
    const auto relative = hn::Sub(hn::LoadU(d, indices + i), hn::Set(d, base));
    const auto low = hn::And(hn::ShiftRight<shift>(relative), hn::Set(d, mask));
    const auto whole = hn::DemoteTo(dw, hn::BitCast(hn::RebindToSigned<decltype(d)>(), low));
    store_bytes(dw, whole, out + i * static_cast<std::int64_t>(sizeof(Whole)));
  });
}

/// Bits [shift, shift + 4) of each index, two to a byte.
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

void pack_low(int low_bits, const std::uint32_t* indices, std::int64_t count, std::uint32_t base, std::byte* out) {
  switch (low_bits) {
    case 4:
      return pack_halves<0>(indices, count, base, out);
    case 8:
      return pack_whole<std::uint8_t, 0, 255>(indices, count, base, out);
    case 12:
      pack_whole<std::uint8_t, 0, 255>(indices, count, base, out);
      return pack_halves<8>(indices, count, base, out + count);
    default:
      return pack_whole<std::uint16_t, 0, 65535>(indices, count, base, out);
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

void pack_low(int low_bits, const std::uint32_t* indices, std::int64_t count, std::uint32_t base, std::byte* out) {
  chosen().pack_low(low_bits, indices, count, base, out);
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
