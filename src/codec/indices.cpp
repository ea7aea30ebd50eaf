// indices.cpp: index parts of messages: low bits in whole bytes and halves of bytes, set bits to positions and back.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/indices.cpp"
#include <hwy/foreach_target.h>
// The order matters: foreach_target.h includes this file once per instruction set.
#include <hwy/highway.h>

#include <bit>
#include <cstring>

#include "codec/byte_bits.hpp"
#include "codec/dispatch.hpp"
#include "codec/vectors-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::wire::HWY_NAMESPACE {
namespace {

/// Lanes for the bits of one byte, fewer where vectors are shorter.
using Octet = hn::CappedTag<std::uint32_t, 8>;

HWY_INLINE std::uint64_t load_word(const std::byte* from) {
  std::uint64_t word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

// The low bits of entry i: `whole` bytes first, then a half.
template <int low_bits>
inline constexpr int whole_bits = low_bits / 8 * 8;
template <int low_bits>
inline constexpr bool has_half = low_bits % 8 != 0;

template <int low_bits>
HWY_INLINE const std::byte* halves(const std::byte* low, std::int64_t count) {
  return low + count * (whole_bits<low_bits> / 8);
}

template <int low_bits>
HWY_INLINE std::uint32_t low_of(const std::byte* low, std::int64_t count, std::int64_t i) {
  std::uint32_t result = 0;
  if constexpr (whole_bits<low_bits> != 0) std::memcpy(&result, low + i * (whole_bits<low_bits> / 8), whole_bits<low_bits> / 8);
  if constexpr (has_half<low_bits>) {
    const auto pair = static_cast<std::uint32_t>(halves<low_bits>(low, count)[i / 2]);
    result |= (pair >> (4 * (i % 2)) & 15) << whole_bits<low_bits>;
  }
  return result;
}

/// Low bits of entries i + shift, i + shift + 1, ..., `shift` < 8. Reads up to 16 entries from i on.
template <int low_bits>
HWY_INLINE hn::Vec<Octet> low_vector(const std::byte* low, std::int64_t count, std::int64_t i, std::size_t shift) {
  const Octet d;
  auto result = hn::Zero(d);
  const std::int64_t first = i + static_cast<std::int64_t>(shift);
  if constexpr (whole_bits<low_bits> == 8) {
    result = hn::PromoteTo(d, load_bytes(hn::Rebind<std::uint8_t, Octet>(), low + first));
  } else if constexpr (whole_bits<low_bits> == 16) {
    const hn::Rebind<std::uint16_t, Octet> d16;
    result = hn::PromoteTo(d, load_bytes(d16, low + 2 * first));
  }
  if constexpr (has_half<low_bits>) {
    const auto word = static_cast<std::uint32_t>(load_word(halves<low_bits>(low, count) + i / 2) >> (4 * (i % 2)));
    const auto places = hn::ShiftLeft<2>(hn::Iota(d, static_cast<std::uint32_t>(shift)));
    const auto half = hn::And(hn::Shr(hn::Set(d, word), places), hn::Set(d, 15));
    result = hn::Or(result, hn::ShiftLeft<whole_bits<low_bits>>(half));
  }
  return result;
}

/// Indices of the set bits of `byte`, whose first bit has position `position`, from entry i on. Writes 8.
template <int low_bits>
HWY_INLINE void expand_byte(std::size_t byte, std::uint32_t position, const std::byte* low, std::int64_t count, std::int64_t i,
                            std::uint32_t base, std::uint32_t* indices) {
  const Octet d;
  const hn::Rebind<std::uint8_t, Octet> d8;
  for (std::size_t lane = 0; lane < 8; lane += hn::Lanes(d)) {
    const auto places = hn::PromoteTo(d, hn::LoadU(d8, byte_bits[byte].data() + lane));
    auto index = hn::Add(places, hn::Set(d, position + base));
    if constexpr (low_bits != 0) {
      // Bit h + i is set for high bits h of entry i.
      const auto before = hn::Iota(d, static_cast<std::uint32_t>(i) + static_cast<std::uint32_t>(lane));
      const auto high = hn::Sub(hn::Add(places, hn::Set(d, position)), before);
      index = hn::Add(hn::Or(hn::ShiftLeft<low_bits>(high), low_vector<low_bits>(low, count, i, lane)), hn::Set(d, base));
    }
    hn::StoreU(index, d, indices + i + static_cast<std::int64_t>(lane));
  }
}

/// The same bit by bit, for the last entries, where whole vectors would write too far.
template <int low_bits>
HWY_INLINE bool expand_rest(const std::byte* low, const std::byte* in, std::uint64_t bits, std::int64_t count, std::uint32_t base,
                            std::uint32_t* indices, std::int64_t i, std::uint64_t position) {
  for (; position < bits; position += 64) {
    const std::uint64_t left = bits - position;
    std::uint64_t word = 0;
    std::memcpy(&word, in + position / 8, left < 64 ? (left + 7) / 8 : 8);
    if (left < 64 && word >> left != 0) return false;
    for (; word != 0; word &= word - 1, ++i) {
      if (i == count) return false;
      const std::uint64_t at = position + static_cast<std::uint64_t>(std::countr_zero(word));
      indices[i] = base + static_cast<std::uint32_t>(at);
      if constexpr (low_bits != 0) {
        indices[i] =
            base + (static_cast<std::uint32_t>((at - static_cast<std::uint64_t>(i)) << low_bits) | low_of<low_bits>(low, count, i));
      }
    }
  }
  return i == count;
}

template <int low_bits>
bool unpack_bits(const std::byte* low, const std::byte* in, std::uint64_t bits, std::int64_t count, std::uint32_t base,
                 std::uint32_t* indices) {
  // A word has up to 64 entries, and what is read and written from its last entry on is up to 16.
  constexpr std::int64_t room = 64 + 16;
  std::int64_t i = 0;
  std::uint64_t position = 0;
  for (; position + 64 <= bits && i + room <= count; position += 64) {
    std::uint64_t word = load_word(in + position / 8);
    for (std::uint32_t shift = 0; shift < 64; shift += 8, word >>= 8) {
      const std::size_t byte = word & 255;
      expand_byte<low_bits>(byte, static_cast<std::uint32_t>(position) + shift, low, count, i, base, indices);
      i += std::popcount(byte);
    }
  }
  return expand_rest<low_bits>(low, in, bits, count, base, indices, i, position);
}

bool unpack_bits_any(int low_bits, const std::byte* low, const std::byte* in, std::uint64_t bits, std::int64_t count,
                     std::uint32_t base, std::uint32_t* indices) {
  switch (low_bits) {
    case 0:
      return unpack_bits<0>(low, in, bits, count, base, indices);
    case 4:
      return unpack_bits<4>(low, in, bits, count, base, indices);
    case 8:
      return unpack_bits<8>(low, in, bits, count, base, indices);
    case 12:
      return unpack_bits<12>(low, in, bits, count, base, indices);
    default:
      return unpack_bits<16>(low, in, bits, count, base, indices);
  }
}

/// Position of entry i's bit.
HWY_INLINE std::uint64_t bit_of(int low_bits, std::uint32_t relative, std::int64_t i) {
  return low_bits == 0 ? relative : (relative >> low_bits) + static_cast<std::uint64_t>(i);
}

void pack_bits(int low_bits, const std::uint32_t* indices, std::int64_t count, std::uint32_t base, std::uint64_t bits,
               std::byte* out) {
  std::memset(out, 0, (bits + 7) / 8);
  const std::uint64_t whole_words = bits / 64;
  std::uint64_t word = 0, word_number = 0;
  std::int64_t i = 0;
  // Each entry writes its word as far as it is known: whether the next one has the same word cannot be predicted.
  for (; i < count; ++i) {
    const std::uint64_t at = bit_of(low_bits, indices[i] - base, i);
    if (at / 64 >= whole_words) break;
    word = (word & -static_cast<std::uint64_t>(at / 64 == word_number)) | std::uint64_t{1} << (at % 64);
    word_number = at / 64;
    std::memcpy(out + 8 * word_number, &word, sizeof word);
  }
  for (word = 0; i < count; ++i) word |= std::uint64_t{1} << (bit_of(low_bits, indices[i] - base, i) % 64);
  std::memcpy(out + 8 * whole_words, &word, (bits % 64 + 7) / 8);
}

/// `whole` = the lowest 8 or 16 bits of each index.
template <class Whole>
void pack_whole(const std::uint32_t* indices, std::int64_t count, std::uint32_t base, std::byte* out) {
  for_each_vector<std::uint32_t>(count, [=](auto d, std::int64_t i) HWY_ATTR {
    const hn::Rebind<Whole, decltype(d)> dw;
    const auto low = hn::And(hn::Sub(hn::LoadU(d, indices + i), hn::Set(d, base)), hn::Set(d, static_cast<Whole>(-1)));
    const auto whole = hn::DemoteTo(dw, hn::BitCast(hn::RebindToSigned<decltype(d)>(), low));
    store_bytes(dw, whole, out + i * static_cast<std::int64_t>(sizeof(Whole)));
  });
}

/// Bits [shift, shift + 4) of each index, two to a byte.
template <int shift>
void pack_halves(const std::uint32_t* indices, std::int64_t count, std::uint32_t base, std::byte* out) {
  const auto half = [=](std::int64_t i) { return (indices[i] - base) >> shift & 15; };
  for (std::int64_t i = 0; i + 2 <= count; i += 2) out[i / 2] = static_cast<std::byte>(half(i) | half(i + 1) << 4);
  if (count % 2 != 0) out[count / 2] = static_cast<std::byte>(half(count - 1));
}

void pack_low(int low_bits, const std::uint32_t* indices, std::int64_t count, std::uint32_t base, std::byte* out) {
  switch (low_bits) {
    case 4:
      return pack_halves<0>(indices, count, base, out);
    case 8:
      return pack_whole<std::uint8_t>(indices, count, base, out);
    case 12:
      pack_whole<std::uint8_t>(indices, count, base, out);
      return pack_halves<8>(indices, count, base, out + count);
    default:
      return pack_whole<std::uint16_t>(indices, count, base, out);
  }
}

void pack_coo(const std::uint32_t* indices, std::int64_t count, std::uint32_t base, std::byte* out) {
  for_each_vector<std::uint32_t>(count, [=](auto d, std::int64_t i) HWY_ATTR {
    const auto relative = hn::Sub(hn::LoadU(d, indices + i), hn::Set(d, base));
    store_bytes(d, relative, out + 4 * i);
  });
}

void unpack_coo(const std::byte* in, std::int64_t count, std::uint32_t base, std::uint32_t* indices) {
  for_each_vector<std::uint32_t>(count, [=](auto d, std::int64_t i) HWY_ATTR {
    const auto relative = load_bytes(d, in + 4 * i);
    hn::StoreU(hn::Add(relative, hn::Set(d, base)), d, indices + i);
  });
}

bool strictly_ascending(const std::uint32_t* indices, std::int64_t count) {
  bool ascending = true;
  for_each_vector<std::uint32_t>(count - 1, [=, &ascending](auto d, std::int64_t i) HWY_ATTR {
    ascending &= hn::AllTrue(d, hn::Lt(hn::LoadU(d, indices + i), hn::LoadU(d, indices + i + 1)));
  });
  return ascending;
}

IndexKernels index_kernels() { return {pack_low, pack_bits, unpack_bits_any, pack_coo, unpack_coo, strictly_ascending}; }

}  // namespace
}  // namespace weir::wire::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir::wire {

namespace {

HWY_EXPORT(index_kernels);

const IndexKernels& chosen() {
  static const IndexKernels kernels = HWY_DYNAMIC_DISPATCH(index_kernels)();
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

bool unpack_bits(int low_bits, const std::byte* low, const std::byte* in, std::uint64_t bits, std::int64_t count,
                 std::uint32_t base, std::uint32_t* indices) {
  return chosen().unpack_bits(low_bits, low, in, bits, count, base, indices);
}

void pack_coo(const std::uint32_t* indices, std::int64_t count, std::uint32_t base, std::byte* out) {
  chosen().pack_coo(indices, count, base, out);
}

void unpack_coo(const std::byte* in, std::int64_t count, std::uint32_t base, std::uint32_t* indices) {
  chosen().unpack_coo(in, count, base, indices);
}

bool strictly_ascending(const std::uint32_t* indices, std::int64_t count) { return chosen().strictly_ascending(indices, count); }

}  // namespace weir::wire
#endif
