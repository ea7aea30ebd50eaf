// neighbour_sums-inl.hpp: sums along 32-bit integers; compiled once per instruction set, as Highway's foreach_target.h asks.
#if defined(WEIR_COMPRESS_NEIGHBOUR_SUMS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEIR_COMPRESS_NEIGHBOUR_SUMS_INL
#undef WEIR_COMPRESS_NEIGHBOUR_SUMS_INL
#else
#define WEIR_COMPRESS_NEIGHBOUR_SUMS_INL
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace weir::compress::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// A lane of four vectors has four neighbours, one in each vector. So most additions along a block are of whole vectors.
using SumTag = hn::CappedTag<std::int32_t, 8>;
using Sums = hn::Vec<SumTag>;
HWY_INLINE std::int64_t sum_lanes() { return static_cast<std::int64_t>(hn::Lanes(SumTag())); }

/// Returns the sums of all lanes up to each.
HWY_INLINE Sums running_sums(Sums x) {
#if HWY_TARGET == HWY_SCALAR
  return x;
#else
  const SumTag d;
  x = hn::Add(x, hn::ShiftLeftLanes<1>(d, x));  // within 128 bits
  x = hn::Add(x, hn::ShiftLeftLanes<2>(d, x));
  if (hn::Lanes(d) > 4) {
    const auto lane = hn::Iota(d, 0);
    const auto ends = hn::IndicesFromVec(d, hn::Set(d, 3));
    x = hn::Add(x, hn::IfThenElseZero(hn::TestBit(lane, hn::Set(d, 4)), hn::TableLookupLanes(x, ends)));
  }
  return x;
#endif
}
/// Returns the last lane in all lanes.
HWY_INLINE Sums last_of(Sums x) {
  return hn::TableLookupLanes(x, hn::IndicesFromVec(SumTag(), hn::Set(SumTag(), static_cast<int>(sum_lanes() - 1))));
}
/// Replaces each integer by the sum of `before` and of all integers up to it. All lanes of `before` are equal; they become the last
/// sum.
HWY_INLINE void sum_up(Sums (&x)[4], Sums& before) {
  for (int i = 1; i < 4; ++i) x[i] = hn::Add(x[i], x[i - 1]);
  const Sums ends = hn::Add(running_sums(x[3]), before), begins = hn::Sub(ends, x[3]);
  for (Sums& sums : x) sums = hn::Add(sums, begins);
  before = last_of(ends);
}
/// Puts the integers in order: neighbours in neighbouring lanes.
HWY_INLINE void put_in_order([[maybe_unused]] Sums (&x)[4]) {
#if HWY_TARGET != HWY_SCALAR
  const SumTag d;
  const hn::Repartition<std::int64_t, SumTag> d64;
  const auto low = [&](Sums a, Sums b) HWY_ATTR { return hn::BitCast(d64, hn::InterleaveLower(d, a, b)); };
  const auto high = [&](Sums a, Sums b) HWY_ATTR { return hn::BitCast(d64, hn::InterleaveUpper(d, a, b)); };
  const auto a = low(x[0], x[1]), b = high(x[0], x[1]), c = low(x[2], x[3]), e = high(x[2], x[3]);
  const Sums first = hn::BitCast(d, hn::InterleaveLower(d64, a, c)), second = hn::BitCast(d, hn::InterleaveUpper(d64, a, c)),
             third = hn::BitCast(d, hn::InterleaveLower(d64, b, e)), fourth = hn::BitCast(d, hn::InterleaveUpper(d64, b, e));
  const bool halves = hn::Lanes(d) > 4;
  x[0] = halves ? hn::ConcatLowerLower(d, second, first) : first;
  x[1] = halves ? hn::ConcatLowerLower(d, fourth, third) : second;
  x[2] = halves ? hn::ConcatUpperUpper(d, second, first) : third;
  x[3] = halves ? hn::ConcatUpperUpper(d, fourth, third) : fourth;
#endif
}

}  // namespace weir::compress::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
