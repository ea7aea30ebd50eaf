// random_levels-inl.hpp: the Scheme (quantiser-inl.hpp) of compressors that round |x| / w at random to one of the levels 0, 1/s,
// ..., 1, where w is a number of the bucket, so that the mean is |x|; compiled once per instruction set, as Highway's
// foreach_target.h asks.
#if defined(WEIR_COMPRESS_RANDOM_LEVELS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEIR_COMPRESS_RANDOM_LEVELS_INL
#undef WEIR_COMPRESS_RANDOM_LEVELS_INL
#else
#define WEIR_COMPRESS_RANDOM_LEVELS_INL
#endif

#include "compress/quantiser-inl.hpp"
#include "compress/scales.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::compress::HWY_NAMESPACE {

/// `Whole` has float operator()(const float* x, std::int64_t count) const, which returns the value of the highest level in a
/// bucket, and a constant `clips`, which is true if values may exceed it.
template <class Whole>
class RandomLevels {
 public:
  static constexpr int headers = 1;
  static constexpr bool random = true, votes = false;
  using Scale = LevelScale;

  RandomLevels(int levels, Whole whole) : levels_(levels), whole_(whole) {}
  [[nodiscard]] int bits() const { return bits_for(2 * levels_); }
  void measure(const float* x, std::int64_t count, float* header) const { header[0] = whole_(x, count); }
  [[nodiscard]] Scale scale(const float* header) const { return level_scale(header[0], levels_); }

  HWY_INLINE Ints encode(Scale scale, Floats x, Uints bits) const {
    const FloatTag d;
    const IntTag di;
    // In units of 2^-16 levels, as random bits are: at most 2^23 of them, so that rounding happens only once.
    auto exact = hn::Mul(hn::Abs(x), hn::Set(d, scale.per_value * 0x1p16f));
    if constexpr (Whole::clips) exact = hn::Min(exact, hn::Set(d, static_cast<float>(levels_) * 0x1p16f));
    const auto level = hn::Min(hn::ShiftRight<16>(hn::Add(hn::ConvertTo(di, exact), hn::BitCast(di, bits))), hn::Set(di, levels_));
    const auto signed_level = hn::IfThenElse(hn::MaskFromVec(hn::BroadcastSignBit(hn::BitCast(di, x))), hn::Neg(level), level);
    return hn::Add(signed_level, hn::Set(di, levels_));
  }
  HWY_INLINE Floats decode(Scale scale, Ints codes) const {
    const FloatTag d;
    return hn::Mul(hn::ConvertTo(d, hn::Sub(codes, hn::Set(IntTag(), levels_))), hn::Set(d, scale.per_level));
  }

 private:
  int levels_;
  Whole whole_;
};

}  // namespace weir::compress::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
