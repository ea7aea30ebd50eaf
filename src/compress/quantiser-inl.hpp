// quantiser-inl.hpp: compressors that give every element a code of a few bits, and every bucket of elements a header of a few
// numbers, which determine the values of the codes; compiled once per instruction set, as Highway's foreach_target.h asks.
//
// A message has the headers of all buckets, then the codes (code_bits.hpp). A Scheme defines the compressor:
//
//   static constexpr int headers;        // numbers per bucket; if 0, `measure` is never called
//   static constexpr bool random;        // encode() needs random bits
//   static constexpr bool votes;         // the sum is a vote: only its sign counts
//   int bits() const;                    // bits of a code, 1 to 8
//   void measure(const float* x, std::int64_t count, float* header) const;
//   struct Scale;                        // of one bucket; bool blank() const: true if it encodes zeros, whatever its elements
//   Scale scale(const float* header) const;
//   Ints encode(Scale, Floats x, Uints random) const;  // codes below 2^bits
//   Floats decode(Scale, Ints codes) const;
//
// encode() and decode() must give the same bits on every instruction set: no operations are fused (-ffp-contract=off).
#if defined(WEIR_COMPRESS_QUANTISER_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEIR_COMPRESS_QUANTISER_INL
#undef WEIR_COMPRESS_QUANTISER_INL
#else
#define WEIR_COMPRESS_QUANTISER_INL
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.hpp"
#include "codec/packed.hpp"
#include "codec/vectors-inl.hpp"
#include "compress/code_bits-inl.hpp"
#include "compress/philox-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::compress::HWY_NAMESPACE {

/// At most 16 lanes, so that they divide every bucket and every group of random numbers, of which an element has 16 bits.
using FloatTag = hn::CappedTag<float, 16>;
using IntTag = hn::RebindToSigned<FloatTag>;
using UintTag = hn::RebindToUnsigned<FloatTag>;
using Floats = hn::Vec<FloatTag>;
using Ints = hn::Vec<IntTag>;
using Uints = hn::Vec<UintTag>;

HWY_INLINE Floats uniform_of(Uints random) {
  const FloatTag d;
  return hn::Mul(hn::ConvertTo(d, hn::BitCast(IntTag(), random)), hn::Set(d, 0x1p-16f));
}

/// Returns the sum in double of f over the elements of x. Element i goes to partial sum i % 32, then partial sum j takes up j + 16,
/// then j + 8, j + 4, j + 2 and j + 1. Before the elements of a block are summed, look(elements, how many) is called.
template <class F, class Look>
HWY_INLINE double sum_of(const float* x, std::int64_t count, F f, Look look) {
  constexpr std::int64_t partials = 32;
  double partial[partials] = {};
  const hn::CappedTag<double, 8> wide;
  const hn::Rebind<float, decltype(wide)> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  constexpr std::int64_t block = 4096;  // stays in the first-level cache while it is read repeatedly
  const std::int64_t whole = count / partials * partials;
  const auto term = [&](const float* at) HWY_ATTR { return f(wide, hn::PromoteTo(wide, hn::LoadU(d, at))); };
  for (std::int64_t begin = 0; begin < count; begin += block) {
    look(x + begin, std::min(block, count - begin));
    // Four sums at a time, since one alone would wait for each addition.
    for (std::int64_t part = 0; part < partials; part += 4 * lanes) {
      auto sum0 = hn::LoadU(wide, partial + part), sum1 = hn::LoadU(wide, partial + part + lanes);
      auto sum2 = hn::LoadU(wide, partial + part + 2 * lanes), sum3 = hn::LoadU(wide, partial + part + 3 * lanes);
      for (std::int64_t i = begin + part; i < std::min(whole, begin + block); i += partials) {
        sum0 = hn::Add(sum0, term(x + i));
        sum1 = hn::Add(sum1, term(x + i + lanes));
        sum2 = hn::Add(sum2, term(x + i + 2 * lanes));
        sum3 = hn::Add(sum3, term(x + i + 3 * lanes));
      }
      hn::StoreU(sum0, wide, partial + part);
      hn::StoreU(sum1, wide, partial + part + lanes);
      hn::StoreU(sum2, wide, partial + part + 2 * lanes);
      hn::StoreU(sum3, wide, partial + part + 3 * lanes);
    }
  }
  if (const std::int64_t left = count % partials; left > 0) {
    float rest[partials] = {};
    double last[partials];
    std::copy_n(x + count - left, left, rest);
    for (std::int64_t part = 0; part < partials; part += lanes) hn::StoreU(term(rest + part), wide, last + part);
    for (std::int64_t lane = 0; lane < left; ++lane) partial[lane] += last[lane];
  }
  std::int64_t half = partials / 2;
  for (; half >= lanes; half /= 2) {
    for (std::int64_t part = 0; part < half; part += lanes)
      hn::StoreU(hn::Add(hn::LoadU(wide, partial + part), hn::LoadU(wide, partial + part + half)), wide, partial + part);
  }
  for (; half > 0; half /= 2) {
    for (std::int64_t lane = 0; lane < half; ++lane) partial[lane] += partial[lane + half];
  }
  return partial[0];
}

template <class F>
HWY_INLINE double sum_of(const float* x, std::int64_t count, F f) {
  return sum_of(x, count, f, [](const float*, std::int64_t) {});
}

HWY_INLINE double sum_of_squares(const float* x, std::int64_t count) {
  return sum_of(x, count, [](auto, auto v) HWY_ATTR { return hn::Mul(v, v); });
}
HWY_INLINE double sum_of_magnitudes(const float* x, std::int64_t count) {
  return sum_of(x, count, [](auto, auto v) HWY_ATTR { return hn::Abs(v); });
}

/// Returns max |x|, or NaN if any element is NaN.
HWY_INLINE float largest_magnitude(const float* x, std::int64_t count) {
  const IntTag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto mask = hn::Set(d, 0x7fffffff);
  auto largest = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) largest = hn::Max(largest, hn::And(hn::BitCast(d, hn::LoadU(FloatTag(), x + i)), mask));
  std::int32_t most = hn::GetLane(hn::MaxOfLanes(d, largest));
  for (; i < count; ++i) {
    std::int32_t key = 0;
    std::memcpy(&key, x + i, sizeof key);
    most = std::max(most, key & 0x7fffffff);
  }
  float result = 0;
  std::memcpy(&result, &most, sizeof result);
  return result;
}

/// Returns table[index] for each lane, with index from 0 to 7.
HWY_INLINE Floats lookup(const float (&table)[16], Ints index) {
  const FloatTag d;
  if (hn::Lanes(d) >= 8) return hn::TableLookupLanes(hn::LoadU(d, table), hn::IndicesFromVec(d, index));
  std::int32_t places[16];
  float found[16];
  hn::StoreU(index, IntTag(), places);
  for (std::size_t lane = 0; lane < hn::Lanes(d); ++lane) found[lane] = table[places[lane]];
  return hn::LoadU(d, found);
}

template <class Scheme>
class Quantiser final : public PackedCodec {
 public:
  /// `bucket` is a power of two of at least 32, or 0 for one bucket of all elements of a message.
  Quantiser(Scheme scheme, std::int64_t bucket) : scheme_(scheme), bucket_(bucket) {}

  [[nodiscard]] std::int64_t granularity() const override { return std::max(bucket_, code_chunk); }
  [[nodiscard]] std::int64_t most_bytes(std::int64_t count) const override {
    return header_bytes(count) + (code_bytes(count, scheme_.bits()) + 7) / 8 * 8;
  }
  [[nodiscard]] bool fixed_size() const override { return true; }
  [[nodiscard]] bool votes() const override { return Scheme::votes; }

  std::int64_t encode(const Draw& draw, std::int64_t first, const float* values, std::int64_t count, std::byte* out,
                      float* rest) override {
    std::byte* codes = out + header_bytes(count);
    std::byte* const end = out + most_bytes(count);
    if (count > 0) {
      std::fill(end - 8, end, std::byte{0});
      if constexpr (Scheme::headers > 0) std::fill(codes - 8, codes, std::byte{0});
    }
    typename Scheme::Scale scale{};
    for (std::int64_t chunk = 0; chunk < count; chunk += code_chunk) {
      const std::int64_t size = std::min(code_chunk, count - chunk);
      std::uint8_t chunk_codes[code_chunk];
      std::uint32_t random[code_chunk];
      // With short buckets, the processor sees no stream of loads to prefetch.
      if (count - chunk > fetch_ahead + code_chunk) {
        for (std::int64_t i = 0; i < code_chunk; i += 16) hwy::Prefetch(values + chunk + fetch_ahead + i);
      }
      static_assert(code_chunk == random_group);
      if constexpr (Scheme::random) random_group_bits(draw, static_cast<std::uint64_t>(first + chunk), random);
      for (std::int64_t begin = 0; begin < size;) {
        const std::int64_t end_of_run = run_end(chunk + begin, count) - chunk;
        if (begins_bucket(chunk + begin)) {
          float header[header_slots] = {};
          if constexpr (Scheme::headers > 0) {
            const std::int64_t bucket_size = std::min(bucket_of(count), count - chunk - begin);
            scheme_.measure(values + chunk + begin, bucket_size, header);
            std::memcpy(out + header_offset(chunk + begin), header, sizeof(float) * Scheme::headers);
          }
          scale = scheme_.scale(header);
        }
        float* const run_rest = rest != nullptr ? rest + chunk + begin : nullptr;
        if (scale.blank()) {
          encode_blank(scale, values + chunk + begin, end_of_run - begin, chunk_codes + begin, run_rest);
        } else {
          encode_run(scale, values + chunk + begin, end_of_run - begin, random + begin, chunk_codes + begin, run_rest);
        }
        begin = end_of_run;
      }
      if (size == code_chunk) {
        codes += pack_chunk(chunk_codes, scheme_.bits(), codes);
      } else {
        const std::int64_t padded = (size + 7) / 8 * 8;
        std::fill(chunk_codes + size, chunk_codes + padded, std::uint8_t{0});
        codes += pack_codes(chunk_codes, padded, scheme_.bits(), codes);
      }
    }
    return end - out;
  }

  void decode(const std::byte* in, std::int64_t bytes, std::int64_t count, float* sum, bool add) override {
    if (bytes != most_bytes(count))
      fail(WEIR_ERR_TRANSPORT, "a message of {} values has {} bytes instead of {}", count, bytes, most_bytes(count));
    const std::byte* codes = in + header_bytes(count);
    typename Scheme::Scale scale{};
    for (std::int64_t chunk = 0; chunk < count; chunk += code_chunk) {
      const std::int64_t size = std::min(code_chunk, count - chunk);
      std::uint8_t chunk_codes[code_chunk];
      codes += size == code_chunk ? unpack_chunk(codes, scheme_.bits(), chunk_codes)
                                  : unpack_codes(codes, (size + 7) / 8 * 8, scheme_.bits(), chunk_codes);
      for (std::int64_t begin = 0; begin < size;) {
        const std::int64_t end_of_run = run_end(chunk + begin, count) - chunk;
        if (begins_bucket(chunk + begin)) {
          float header[header_slots] = {};
          std::memcpy(header, in + header_offset(chunk + begin), sizeof(float) * Scheme::headers);
          scale = scheme_.scale(header);
        }
        decode_run(scale, chunk_codes + begin, end_of_run - begin, sum + chunk + begin, add);
        begin = end_of_run;
      }
    }
  }

  void finish(float* sum, std::int64_t count) override {
    if constexpr (Scheme::votes) {
      for (std::int64_t i = 0; i < count; ++i) sum[i] = sum[i] >= 0 ? 1.0f : -1.0f;
    }
  }

 private:
  static constexpr std::int64_t fetch_ahead = 4 * code_chunk;
  static constexpr int header_slots = Scheme::headers > 0 ? Scheme::headers : 1;

  [[nodiscard]] std::int64_t bucket_of(std::int64_t count) const { return bucket_ > 0 ? bucket_ : count; }
  [[nodiscard]] bool begins_bucket(std::int64_t at) const { return bucket_ > 0 ? at % bucket_ == 0 : at == 0; }
  [[nodiscard]] std::int64_t header_offset(std::int64_t at) const {
    return bucket_ > 0 ? at / bucket_ * Scheme::headers * static_cast<std::int64_t>(sizeof(float)) : 0;
  }
  [[nodiscard]] std::int64_t header_bytes(std::int64_t count) const {
    if (count == 0) return 0;
    const std::int64_t buckets = bucket_ > 0 ? (count + bucket_ - 1) / bucket_ : 1;
    return (buckets * Scheme::headers * static_cast<std::int64_t>(sizeof(float)) + 7) / 8 * 8;
  }
  /// Returns where the run of elements from `at` on, with one scale and in one chunk, ends.
  [[nodiscard]] std::int64_t run_end(std::int64_t at, std::int64_t count) const {
    const std::int64_t run = bucket_ > 0 ? std::min(bucket_, code_chunk) : code_chunk;
    return std::min(count, at / run * run + run);
  }

  /// Gives every element the code of zero.
  void encode_blank(typename Scheme::Scale scale, const float* x, std::int64_t count, std::uint8_t* codes, float* rest) const {
    const float zero[16] = {};
    const std::uint32_t random[16] = {};
    float none[16], decoded[16];
    std::uint8_t code[16];
    encode_vector(scale, zero, random, code, none);
    std::fill_n(codes, count, code[0]);
    if (rest == nullptr) return;
    decode_run(scale, code, 1, decoded, false);
    for (std::int64_t i = 0; i < count; ++i) rest[i] = x[i] - decoded[0];
  }
  void encode_run(typename Scheme::Scale scale, const float* x, std::int64_t count, const std::uint32_t* random,
                  std::uint8_t* codes, float* rest) const {
    const FloatTag d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    std::int64_t i = 0;
    for (; i + lanes <= count; i += lanes) encode_vector(scale, x + i, random + i, codes + i, rest != nullptr ? rest + i : nullptr);
    if (i == count) return;
    float padded[16] = {}, padded_rest[16];
    std::uint32_t padded_random[16] = {};
    std::uint8_t padded_codes[16];
    std::copy_n(x + i, count - i, padded);
    if constexpr (Scheme::random) std::copy_n(random + i, count - i, padded_random);
    encode_vector(scale, padded, padded_random, padded_codes, padded_rest);
    std::copy_n(padded_codes, count - i, codes + i);
    if (rest != nullptr) std::copy_n(padded_rest, count - i, rest + i);
  }
  HWY_INLINE void encode_vector(typename Scheme::Scale scale, const float* x, const std::uint32_t* random, std::uint8_t* codes,
                                float* rest) const {
    const FloatTag d;
    const auto values = hn::LoadU(d, x);
    Uints bits = hn::Zero(UintTag());
    if constexpr (Scheme::random) bits = hn::LoadU(UintTag(), random);
    const Ints code = scheme_.encode(scale, values, bits);
    const hn::Rebind<std::uint8_t, IntTag> bytes;
    hn::StoreU(wire::HWY_NAMESPACE::truncate(bytes, hn::BitCast(UintTag(), code)), bytes, codes);
    if (rest != nullptr) hn::StoreU(hn::Sub(values, scheme_.decode(scale, code)), d, rest);
  }

  void decode_run(typename Scheme::Scale scale, const std::uint8_t* codes, std::int64_t count, float* sum, bool add) const {
    const FloatTag d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    std::int64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
      const Floats values = decode_vector(scale, codes + i);
      hn::StoreU(add ? hn::Add(hn::LoadU(d, sum + i), values) : values, d, sum + i);
    }
    if (i == count) return;
    float padded[16] = {};
    std::uint8_t padded_codes[16] = {};
    std::copy_n(codes + i, count - i, padded_codes);
    hn::StoreU(decode_vector(scale, padded_codes), d, padded);
    for (std::int64_t j = 0; i < count; ++i, ++j) sum[i] = add ? sum[i] + padded[j] : padded[j];
  }
  HWY_INLINE Floats decode_vector(typename Scheme::Scale scale, const std::uint8_t* codes) const {
    const hn::Rebind<std::uint8_t, IntTag> bytes;
    return scheme_.decode(scale, hn::PromoteTo(IntTag(), hn::LoadU(bytes, codes)));
  }

  Scheme scheme_;
  std::int64_t bucket_;
};

}  // namespace weir::compress::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
