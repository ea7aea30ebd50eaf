// index_unpack.cpp: converts set bits and low bits back to indices. Byte-wise compression comes with this instruction set.
#define HWY_WANT_AVX3_DL
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/index_unpack.cpp"
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

/// Vectors of indices: expansion takes 8 or, with AVX3_DL, 64 bits at a time.
using IndexTag = hn::CappedTag<std::uint32_t, HWY_TARGET <= HWY_AVX3_DL ? 16 : 8>;

/// Returns the half bytes of entries from i on. Reads those of up to 24 entries.
template <int low_bits>
HWY_INLINE hn::Vec<IndexTag> half_vector(const std::byte* low, std::int64_t count, std::int64_t i) {
  const IndexTag d;
  const auto entry = static_cast<std::uint64_t>(i);
  const std::byte* from = halves<low_bits>(low, count) + entry / 2;
#if HWY_TARGET <= HWY_AVX3_DL
  const __m128i words = _mm_set_epi64x(static_cast<long long>(load_word(from + 4)), static_cast<long long>(load_word(from)));
  const __m128i places = _mm_add_epi8(_mm_set1_epi64x(0x1c1814100c080400), _mm_set1_epi8(static_cast<char>(4 * (entry % 2))));
  const __m128i half = _mm_and_si128(_mm_multishift_epi64_epi8(places, words), _mm_set1_epi8(15));
  return hn::PromoteTo(d, hn::Vec<hn::Rebind<std::uint8_t, IndexTag>>{half});
#else
  const auto word = static_cast<std::uint32_t>(load_word(from) >> (4 * (entry % 2)));
  return hn::And(hn::Shr(hn::Set(d, word), hn::ShiftLeft<2>(hn::Iota(d, 0))), hn::Set(d, 15));
#endif
}

/// Returns the low bits of entries from i on.
template <int low_bits>
HWY_INLINE hn::Vec<IndexTag> low_vector(const std::byte* low, std::int64_t count, std::int64_t i) {
  const IndexTag d;
  auto result = hn::Zero(d);
  if constexpr (whole_bits<low_bits> == 8) {
    result = hn::PromoteTo(d, load_bytes(hn::Rebind<std::uint8_t, IndexTag>(), low + i));
  } else if constexpr (whole_bits<low_bits> == 16) {
    result = hn::PromoteTo(d, load_bytes(hn::Rebind<std::uint16_t, IndexTag>(), low + 2 * i));
  }
  if constexpr (has_half<low_bits>) {
    result = hn::Or(result, hn::ShiftLeft<whole_bits<low_bits>>(half_vector<low_bits>(low, count, i)));
  }
  return result;
}

/// Writes the indices of entries i, i + 1, ... whose bits are at position + places[0], position + places[1], ... Writes whole
/// vectors.
template <int low_bits>
HWY_INLINE void expand_places(const std::uint8_t* places, std::int64_t places_count, std::uint32_t position, const std::byte* low,
                              std::int64_t count, std::int64_t i, std::uint32_t base, std::uint32_t* indices) {
  const IndexTag d;
  const hn::Rebind<std::uint8_t, IndexTag> d8;
  for (std::int64_t k = 0; k < places_count;
       k += static_cast<std::int64_t>(hn::Lanes(d)), i += static_cast<std::int64_t>(hn::Lanes(d))) {
    const auto place = hn::PromoteTo(d, hn::LoadU(d8, places + k));
    if constexpr (low_bits == 0) {
      hn::StoreU(hn::Add(place, hn::Set(d, position + base)), d, indices + i);
    } else {
      // Entry i with high bits h has bit h + i.
      const auto high = hn::Add(hn::Sub(place, hn::Iota(d, 0)), hn::Set(d, position - static_cast<std::uint32_t>(i)));
      const auto relative = hn::Or(hn::ShiftLeft<low_bits>(high), low_vector<low_bits>(low, count, i));
      hn::StoreU(hn::Add(relative, hn::Set(d, base)), d, indices + i);
    }
  }
}

/// Writes the indices of all set bits of `word`, whose first bit is at `position`, from entry i on. Returns their number.
template <int low_bits>
HWY_INLINE std::int64_t expand_word(std::uint64_t word, std::uint32_t position, const std::byte* low, std::int64_t count,
                                    std::int64_t i, std::uint32_t base, std::uint32_t* indices) {
#if HWY_TARGET <= HWY_AVX3_DL
  const hn::CappedTag<std::uint8_t, 64> d8;
  alignas(64) std::uint8_t places[64];
  _mm512_store_si512(places, _mm512_maskz_compress_epi8(word, hn::Iota(d8, 0).raw));
  expand_places<low_bits>(places, std::popcount(word), position, low, count, i, base, indices);
#else
  const std::int64_t first = i;
  for (std::uint32_t shift = 0; shift < 64; shift += 8) {
    const std::size_t byte = word >> shift & 255;
    expand_places<low_bits>(byte_bits[byte].data(), 8, position + shift, low, count, i, base, indices);
    i += std::popcount(byte);
  }
  return i - first;
#endif
  return std::popcount(word);
}

/// Returns the word at `position`, of which `left` bits belong to the bit vector. Includes the bits behind them in the last byte.
HWY_INLINE std::uint64_t load_last_word(const std::byte* in, std::uint64_t position, std::uint64_t left) {
  std::uint64_t word = 0;
  std::memcpy(&word, in + position / 8, left < 64 ? (left + 7) / 8 : 8);
  return word;
}

std::int64_t count_bits(const std::byte* in, PartRange bits) {
  std::int64_t set = 0;
  auto position = static_cast<std::uint64_t>(bits.begin);
  const auto end = static_cast<std::uint64_t>(bits.end);
  for (; position + 64 <= end; position += 64) set += std::popcount(load_word(in + position / 8));
  return position < end ? set + std::popcount(load_last_word(in, position, end - position)) : set;
}

/// Does the same bit by bit, for the last entries, at which whole vectors would write too far.
template <int low_bits>
HWY_INLINE bool expand_rest(const std::byte* low, const std::byte* in, std::uint64_t bits, std::int64_t end, std::int64_t count,
                            std::uint32_t base, std::uint32_t* indices, std::int64_t i, std::uint64_t position) {
  for (; position < bits; position += 64) {
    const std::uint64_t left = bits - position;
    std::uint64_t word = load_last_word(in, position, left);
    if (left < 64 && word >> left != 0) return false;
    for (; word != 0; word &= word - 1, ++i) {
      if (i == end) return false;
      const std::uint64_t at = position + static_cast<std::uint64_t>(std::countr_zero(word));
      indices[i] = base + static_cast<std::uint32_t>(at);
      if constexpr (low_bits != 0) {
        indices[i] =
            base + (static_cast<std::uint32_t>((at - static_cast<std::uint64_t>(i)) << low_bits) | low_of<low_bits>(low, count, i));
      }
    }
  }
  return i == end;
}

template <int low_bits>
bool unpack_bits(const std::byte* low, const std::byte* in, PartRange bits, PartRange entries, std::int64_t count,
                 std::uint32_t base, std::uint32_t* indices) {
  // A word has up to 64 entries. Vectors from the last of them on read up to 24 and write up to 16 entries.
  constexpr std::int64_t room = 64 + 24;
  std::int64_t i = entries.begin;
  auto position = static_cast<std::uint64_t>(bits.begin);
  const auto end = static_cast<std::uint64_t>(bits.end);
  for (; position + 64 <= end && i + room <= entries.end; position += 64) {
    i += expand_word<low_bits>(load_word(in + position / 8), static_cast<std::uint32_t>(position), low, count, i, base, indices);
  }
  return expand_rest<low_bits>(low, in, end, entries.end, count, base, indices, i, position);
}

bool unpack_bits_any(int low_bits, const std::byte* low, const std::byte* in, PartRange bits, PartRange entries, std::int64_t count,
                     std::uint32_t base, std::uint32_t* indices) {
  switch (low_bits) {
    case 0:
      return unpack_bits<0>(low, in, bits, entries, count, base, indices);
    case 4:
      return unpack_bits<4>(low, in, bits, entries, count, base, indices);
    case 8:
      return unpack_bits<8>(low, in, bits, entries, count, base, indices);
    case 12:
      return unpack_bits<12>(low, in, bits, entries, count, base, indices);
    default:
      return unpack_bits<16>(low, in, bits, entries, count, base, indices);
  }
}

void unpack_coo(const std::byte* in, std::int64_t count, std::uint32_t base, std::uint32_t* indices) {
  for_each_vector<std::uint32_t>(count, indices, 4, [=](auto d, std::int64_t i) HWY_ATTR {
    const auto relative = load_bytes(d, in + 4 * i);
    hn::StoreU(hn::Add(relative, hn::Set(d, base)), d, indices + i);
  });
}

bool strictly_ascending(const std::uint32_t* indices, std::int64_t count) {
  bool ascending = true;
  for_each_vector<std::uint32_t>(count - 1, indices, 4, [=, &ascending](auto d, std::int64_t i) HWY_ATTR {
    ascending &= hn::AllTrue(d, hn::Lt(hn::LoadU(d, indices + i), hn::LoadU(d, indices + i + 1)));
  });
  return ascending;
}

IndexUnpackers index_unpackers() { return {count_bits, unpack_bits_any, unpack_coo, strictly_ascending}; }

}  // namespace
}  // namespace weir::wire::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir::wire {

namespace {

HWY_EXPORT(index_unpackers);

const IndexUnpackers& chosen() {
  static const IndexUnpackers kernels = HWY_DYNAMIC_DISPATCH(index_unpackers)();
  return kernels;
}

}  // namespace

std::int64_t count_bits(const std::byte* in, PartRange bits) { return chosen().count_bits(in, bits); }

bool unpack_bits(int low_bits, const std::byte* low, const std::byte* in, PartRange bits, PartRange entries, std::int64_t count,
                 std::uint32_t base, std::uint32_t* indices) {
  return chosen().unpack_bits(low_bits, low, in, bits, entries, count, base, indices);
}

void unpack_coo(const std::byte* in, std::int64_t count, std::uint32_t base, std::uint32_t* indices) {
  chosen().unpack_coo(in, count, base, indices);
}

bool strictly_ascending(const std::uint32_t* indices, std::int64_t count) { return chosen().strictly_ascending(indices, count); }

}  // namespace weir::wire
#endif
