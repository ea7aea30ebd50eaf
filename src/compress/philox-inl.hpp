// philox-inl.hpp: the numbers of philox.hpp in vectors; compiled once per instruction set, as Highway's foreach_target.h asks.
#if defined(WEIR_COMPRESS_PHILOX_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEIR_COMPRESS_PHILOX_INL
#undef WEIR_COMPRESS_PHILOX_INL
#else
#define WEIR_COMPRESS_PHILOX_INL
#endif

#include <hwy/highway.h>

#include "compress/philox.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::compress::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR
/// The four words of as many blocks as a vector has 64-bit lanes, each in the low half of its lane. The high halves are ignored.
template <class D>
struct Blocks {
  hn::Vec<D> words[4];

  HWY_INLINE void mix(D wide, std::uint32_t low_key, std::uint32_t high_key) {
    const hn::Repartition<std::uint32_t, D> d;
    const auto a = hn::MulEven(hn::BitCast(d, words[0]), hn::Set(d, philox_multiplier_a));
    const auto b = hn::MulEven(hn::BitCast(d, words[2]), hn::Set(d, philox_multiplier_b));
    words[0] = hn::Xor(hn::Xor(hn::ShiftRight<32>(b), words[1]), hn::Set(wide, low_key));
    words[1] = b;
    words[2] = hn::Xor(hn::Xor(hn::ShiftRight<32>(a), words[3]), hn::Set(wide, high_key));
    words[3] = a;
  }
};

/// Stores a word of neighbouring blocks: `even` is of those at even places, `odd` of those at odd places.
template <class D>
HWY_INLINE void store_windows(D /*wide*/, hn::Vec<D> even, hn::Vec<D> odd, std::uint32_t* out) {
  const hn::Repartition<std::uint32_t, D> d;
  const auto words = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even));
  const auto mask = hn::Set(d, 0xffff);
  const auto later = hn::ShiftRight<8>(words);
  hn::StoreU(hn::And(words, mask), d, out);
  hn::StoreU(hn::And(later, mask), d, out + 64);
  hn::StoreU(hn::ShiftRight<16>(words), d, out + 128);
  hn::StoreU(hn::Or(hn::ShiftRight<16>(later), hn::And(hn::ShiftLeft<8>(words), mask)), d, out + 192);
}
#endif

/// Sets out[i] to the random number of element first + i, for 256 elements; `first` is a multiple of 256.
HWY_INLINE void random_group_bits(const Draw& draw, std::uint64_t first, std::uint32_t* HWY_RESTRICT out) {
#if HWY_TARGET == HWY_SCALAR
  for (std::uint64_t i = 0; i < random_group; ++i) out[i] = random_bits(draw, first + i);
#else
  const hn::CappedTag<std::uint64_t, 8> wide;
  const std::size_t lanes = 2 * hn::Lanes(wide);
  const auto counter = philox_counter(draw, first / 16);
  const auto places = hn::Iota(wide, counter[0]);
  const auto steps = hn::Sub(places, hn::Set(wide, counter[0]));
  for (std::size_t lane = 0; lane < 16; lane += lanes) {
    const auto begin = hn::Add(hn::Add(places, steps), hn::Set(wide, lane));
    Blocks<decltype(wide)> even = {{begin, hn::Set(wide, counter[1]), hn::Set(wide, counter[2]), hn::Set(wide, counter[3])}};
    Blocks<decltype(wide)> odd = even;
    odd.words[0] = hn::Add(begin, hn::Set(wide, 1));
    auto low = static_cast<std::uint32_t>(draw.seed), high = static_cast<std::uint32_t>(draw.seed >> 32);
    for (int round = 0; round < philox_rounds; ++round) {
      even.mix(wide, low, high);
      odd.mix(wide, low, high);
      low += philox_step_low;
      high += philox_step_high;
    }
    for (int word = 0; word < 4; ++word)
      store_windows(wide, even.words[word], odd.words[word], out + static_cast<std::size_t>(word) * 16 + lane);
  }
#endif
}

}  // namespace weir::compress::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
