// sketchml.cpp: codes nonzero elements as numbers of quantile buckets, which a sketch can compress further (Jiang, Fu, Yang, Cui:
// SketchML: accelerating distributed machine learning with data sketches; SIGMOD 2018; GRACE section III-C).
//
// As in the paper, positive and negative elements have their own buckets, with equal numbers of elements as far as possible.
// Buckets are numbered from zero outwards. MinMaxSketch hashes indices into rows of cells, with a fifth as many cells per row as
// there are elements. A cell keeps the least bucket of the indices that share it, and a look-up returns the greatest of the cells
// of an index, so that decoded values never grow or change their sign. Eight groups of buckets have their own sketches, which
// bounds the error.
//
// Unlike in the paper, quantiles come from a random sample of at most 8192 elements instead of a quantile sketch of all (of fewer
// elements, from all). A bucket decodes to the mean of its elements instead of its bounds, which loses less if tails are heavy. The
// gaps between indices are Rice codes instead of 1 to 4 bytes, in one list for all groups, with the group of each.
//
// codes=plain, the default, sends the buckets themselves, as GRACE's implementation does. At the same number of bits it has a
// smaller error than codes=minmax, whose groups take nearly as many bits as they save.
//
// NaN counts as positive and largest. A bucket with an element that is not finite decodes to NaN.
//
// A message has the number of entries (64 bits), the key of the hash function (64 bits), the values of buckets, negative ones first
// (floats), with minmax the entries of each group (64 bits), then the low bits of the gaps (number_bits-inl.hpp), the codes
// (buckets or groups, negative ones after the others), with minmax the cells, the rest of the gaps in unary (unary.hpp), and zeros
// up to a multiple of 8.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "catalogue/compressors/sketchml.cpp"
#include <hwy/foreach_target.h>
// The order matters: foreach_target.h includes this file once per instruction set.
#include <hwy/highway.h>

#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "catalogue/compressors/min_max_sketch.hpp"
#include "compress/compressor.hpp"
#include "compress/number_bits-inl.hpp"
#include "compress/philox.hpp"
#include "compress/unary.hpp"
#include "kernels/host/keys-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::compress::HWY_NAMESPACE {
namespace {

constexpr std::int64_t block_size = 2048;
constexpr std::int64_t sample_size = 8192;
constexpr int most_buckets = 128;

[[nodiscard]] bool is_negative(float value) { return value < 0; }

/// The buckets of one message: bounds, and values.
class Buckets {
 public:
  explicit Buckets(int buckets) : buckets_(buckets) {}

  void find_bounds(const Draw& draw, const float* x, std::int64_t count) {
    std::uint32_t keys[2][sample_size];
    std::int64_t sizes[2] = {};
    const std::int64_t samples = std::min(count, sample_size);
    for (std::int64_t i = 0; i < samples; ++i) {
      const std::int64_t begin = stratum(i, samples, count), size = stratum(i + 1, samples, count) - begin;
      const std::uint64_t random = size > 1 ? philox(philox_counter(draw, static_cast<std::uint64_t>(i)), draw.seed)[0] : 0;
      const float value = x[begin + static_cast<std::int64_t>(random * static_cast<std::uint64_t>(size) >> 32)];
      const int negative = is_negative(value) ? 1 : 0;
      if (value != 0) keys[negative][sizes[negative]++] = key_of(value);
    }
    for (int sign = 0; sign < 2; ++sign) {
      std::sort(keys[sign], keys[sign] + sizes[sign]);
      for (int j = 1; j < buckets_; ++j) {
        const std::uint32_t bound = sizes[sign] > 0 ? keys[sign][j * sizes[sign] / buckets_] : 0;
        bounds_[sign * buckets_ + j - 1] = static_cast<std::int32_t>(bound);
      }
    }
  }

  /// Sets codes[i] to the bucket of x[i], plus the number of buckets if x[i] is negative. The code of zeros is arbitrary.
  void find(const float* HWY_RESTRICT x, std::int64_t count, std::uint8_t* HWY_RESTRICT codes) const {
    const hn::CappedTag<float, 16> d;
    const hn::RebindToSigned<decltype(d)> dk;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    std::int64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
      const auto values = hn::LoadU(d, x + i);
      const auto key = kernels::host::HWY_NAMESPACE::keys_of(d, values);
      const auto negative = hn::VecFromMask(dk, hn::RebindMask(dk, hn::Lt(values, hn::Zero(d))));
      auto at = hn::And(negative, hn::Set(dk, buckets_));
      for (int step = buckets_ / 2; step > 0; step /= 2) {
        const auto bound = hn::GatherIndex(dk, bounds_ + step - 1, at);
        at = hn::Add(at, hn::AndNot(hn::VecFromMask(dk, hn::Gt(bound, key)), hn::Set(dk, step)));
      }
      const hn::Rebind<std::uint8_t, decltype(dk)> bytes;
      hn::StoreU(hn::DemoteTo(bytes, at), bytes, codes + i);
    }
    for (; i < count; ++i) {
      const auto key = static_cast<std::int32_t>(key_of(x[i]));
      int at = is_negative(x[i]) ? buckets_ : 0;
      for (int step = buckets_ / 2; step > 0; step /= 2) at += bounds_[at + step - 1] > key ? 0 : step;
      codes[i] = static_cast<std::uint8_t>(at);
    }
  }

 private:
  [[nodiscard]] static std::int64_t stratum(std::int64_t i, std::int64_t samples, std::int64_t count) {
    return i * (count / samples) + i * (count % samples) / samples;
  }

  int buckets_;
  std::int32_t bounds_[2 * most_buckets] = {};
};

class SketchMl final : public PackedCodec {
 public:
  SketchMl(int buckets, bool sketched)
      : buckets_(buckets),
        sketched_(sketched),
        code_bits_(bits_for(2 * (sketched ? sketch_groups : buckets) - 1)),
        bounds_(buckets) {}

  [[nodiscard]] std::int64_t granularity() const override { return 256; }
  [[nodiscard]] std::int64_t most_bytes(std::int64_t count) const override {
    if (count == 0) return 0;
    // Low bits and unary parts together take at most 1.08 bits per element of the vector, at a density of 0.38.
    const std::int64_t gaps = (count + 7) / 8 * 9 / 8 + 64;
    const std::int64_t cells = sketched_ ? cell_bytes(MinMaxSketch::most_cells(count)) : 0;
    return (header_bytes() + gaps + code_bytes(count, code_bits_) + cells + 7) / 8 * 8;
  }
  [[nodiscard]] bool fixed_size() const override { return false; }

  std::int64_t encode(const Draw& draw, std::int64_t, const float* values, std::int64_t count, std::byte* out,
                      float* rest) override {
    if (count == 0) return 0;
    bounds_.find_bounds(draw, values, count);
    Layout layout = count_entries(values, count);
    const std::uint64_t key = hash_key(draw);
    std::memcpy(out, &layout.entries, sizeof layout.entries);
    std::memcpy(out + 8, &key, sizeof key);
    if (sketched_) std::memcpy(out + means_end(), layout.groups.data(), sizeof layout.groups);
    place_parts(layout, count);
    MinMaxSketch sketch(key, layout.groups, buckets_ / sketch_groups, cell_bits());
    if (sketched_) sketch.clear(out + layout.cells);

    double sums[2 * most_buckets] = {};
    std::int64_t members[2 * most_buckets] = {};
    UnaryWriter unary(out + layout.unary);
    std::byte* numbers = out + layout.numbers;
    std::byte* codes_out = out + layout.codes;
    std::uint32_t gaps[code_chunk];
    std::uint8_t codes[code_chunk];
    std::int64_t held = 0, next = 0;
    const auto flush = [&] {
      numbers += pack_numbers(gaps, held, layout.low_bits, numbers);
      codes_out += pack_numbers(codes, held, code_bits_, codes_out);
      held = 0;
    };
    for_non_zeros(values, count, [&](std::int64_t place, float value, int code) {
      sums[code] += static_cast<double>(value);
      ++members[code];
      const std::int64_t gap = place - next;
      next = place + 1;
      unary.put(gap >> layout.low_bits);
      gaps[held] = static_cast<std::uint32_t>(gap);
      codes[held] = static_cast<std::uint8_t>(sketched_ ? group_of(code) : code);
      if (sketched_) sketch.insert(out + layout.cells, place, group_of(code), code % group_buckets());
      if (++held == code_chunk) flush();
    });
    flush();
    std::byte* at = unary.end();
    while ((at - out) % 8 != 0) *at++ = std::byte{0};

    float means[2 * most_buckets];
    for (int code = 0; code < 2 * buckets_; ++code) {
      const double mean = members[code] > 0 ? sums[code] / static_cast<double>(members[code]) : 0.0;
      means[code] = std::isfinite(mean) ? static_cast<float>(mean) : std::numeric_limits<float>::quiet_NaN();
    }
    std::memcpy(out + 16, means, sizeof(float) * static_cast<std::size_t>(2 * buckets_));
    if (rest != nullptr) {
      if (rest != values) std::copy_n(values, count, rest);
      for_entries(out, at - out, count, [rest](std::int64_t place, float value) { rest[place] -= value; });
    }
    return at - out;
  }

  void decode(const std::byte* in, std::int64_t bytes, std::int64_t count, float* sum, bool add) override {
    if (add) {
      for_entries(in, bytes, count, [sum](std::int64_t place, float value) { sum[place] += value; });
    } else {
      std::fill_n(sum, count, 0.0f);
      for_entries(in, bytes, count, [sum](std::int64_t place, float value) { sum[place] = value; });
    }
  }

 private:
  /// The positions of the parts of a message.
  struct Layout {
    std::int64_t entries = 0;
    SketchGroups groups{};
    int low_bits = 0;
    std::int64_t numbers = 0, codes = 0, cells = 0, unary = 0;
  };

  [[nodiscard]] int group_buckets() const { return buckets_ / sketch_groups; }
  [[nodiscard]] int group_of(int code) const { return code / group_buckets(); }
  /// A power of two, so that no cell crosses a byte boundary.
  [[nodiscard]] int cell_bits() const {
    return static_cast<int>(std::bit_ceil(static_cast<unsigned>(bits_for(group_buckets() - 1))));
  }
  [[nodiscard]] std::int64_t cell_bytes(std::int64_t cells) const { return (cells * cell_bits() + 7) / 8; }
  [[nodiscard]] std::int64_t means_end() const { return 16 + 2 * std::int64_t{sizeof(float)} * buckets_; }
  [[nodiscard]] std::int64_t header_bytes() const { return means_end() + (sketched_ ? std::int64_t{sizeof(SketchGroups)} : 0); }

  void place_parts(Layout& layout, std::int64_t count) const {
    layout.low_bits = layout.entries > 0 ? rice_bits(static_cast<double>(layout.entries) / static_cast<double>(count)) : 0;
    layout.numbers = header_bytes();
    layout.codes = layout.numbers + code_bytes(layout.entries, layout.low_bits);
    layout.cells = layout.codes + code_bytes(layout.entries, code_bits_);
    layout.unary = layout.cells + (sketched_ ? cell_bytes(MinMaxSketch::cells(layout.groups)) : 0);
  }

  /// Calls f(place, value, code) for all nonzero elements.
  template <class F>
  HWY_INLINE void for_non_zeros(const float* x, std::int64_t count, F f) const {
    for (std::int64_t begin = 0; begin < count; begin += block_size) {
      const std::int64_t size = std::min(block_size, count - begin);
      std::uint8_t codes[block_size];
      bounds_.find(x + begin, size, codes);
      for (std::int64_t i = 0; i < size; ++i) {
        if (x[begin + i] != 0) f(begin + i, x[begin + i], int{codes[i]});
      }
    }
  }

  [[nodiscard]] Layout count_entries(const float* x, std::int64_t count) const {
    Layout layout;
    if (sketched_) {
      for_non_zeros(x, count, [&](std::int64_t, float, int code) { ++layout.groups[static_cast<std::size_t>(group_of(code))]; });
      for (const std::int64_t entries : layout.groups) layout.entries += entries;
    } else {
      for (std::int64_t i = 0; i < count; ++i) layout.entries += x[i] != 0 ? 1 : 0;
    }
    return layout;
  }

  [[nodiscard]] static std::uint64_t hash_key(const Draw& draw) {
    const auto words = philox(philox_counter(draw, ~std::uint64_t{0}), draw.seed);
    return words[0] | std::uint64_t{words[1]} << 32;
  }

  [[nodiscard]] Layout read_layout(const std::byte* in, std::int64_t bytes, std::int64_t count) const {
    if (bytes % 8 != 0 || bytes > most_bytes(count) || bytes < header_bytes())
      fail(WEIR_ERR_TRANSPORT, "a message of {} values has {} bytes, from {} to {} would do", count, bytes, header_bytes(),
           most_bytes(count));
    Layout layout;
    std::memcpy(&layout.entries, in, sizeof layout.entries);
    bool possible = layout.entries >= 0 && layout.entries <= count;
    if (sketched_) {
      std::memcpy(layout.groups.data(), in + means_end(), sizeof layout.groups);
      std::int64_t sum = 0;
      for (const std::int64_t entries : layout.groups) {
        possible = possible && entries >= 0 && entries <= count;
        if (possible) sum += entries;
      }
      possible = possible && sum == layout.entries;
    }
    if (!possible) fail(WEIR_ERR_TRANSPORT, "a message of {} values says that it holds {} entries", count, layout.entries);
    place_parts(layout, count);
    if (layout.unary > bytes)
      fail(WEIR_ERR_TRANSPORT, "a message of {} bytes ends before its {} entries do", bytes, layout.entries);
    return layout;
  }

  /// Calls f(place, value) for every entry of a message. Throws if the message is malformed.
  template <class F>
  void for_entries(const std::byte* in, std::int64_t bytes, std::int64_t count, F f) const {
    if (count == 0 && bytes == 0) return;
    const Layout layout = read_layout(in, bytes, count);
    std::uint64_t key = 0;
    std::memcpy(&key, in + 8, sizeof key);
    float means[2 * most_buckets];
    std::memcpy(means, in + 16, sizeof(float) * static_cast<std::size_t>(2 * buckets_));
    const MinMaxSketch sketch(key, layout.groups, group_buckets(), cell_bits());
    const std::byte* numbers = in + layout.numbers;
    const std::byte* codes_in = in + layout.codes;
    UnaryReader unary(in + layout.unary, bytes - layout.unary);
    std::int64_t next = 0;
    for (std::int64_t begin = 0; begin < layout.entries; begin += code_chunk) {
      const std::int64_t size = std::min(code_chunk, layout.entries - begin);
      std::uint32_t lows[code_chunk];
      std::uint8_t codes[code_chunk];
      numbers += unpack_numbers(numbers, size, layout.low_bits, lows);
      codes_in += unpack_numbers(codes_in, size, code_bits_, codes);
      for (std::int64_t i = 0; i < size; ++i) {
        const std::int64_t place = next + (unary.take() << layout.low_bits) + lows[i];
        if (place >= count) fail(WEIR_ERR_TRANSPORT, "a message of {} values has an entry at {}", count, place);
        next = place + 1;
        int code = codes[i];
        if (sketched_) {
          if (layout.groups[static_cast<std::size_t>(code)] == 0)
            fail(WEIR_ERR_TRANSPORT, "a message of {} values has an entry of a group without any", count);
          code = code * group_buckets() + sketch.find(in + layout.cells, place, code);
        }
        f(place, means[code]);
      }
    }
    if ((layout.unary + unary.taken_bytes() + 7) / 8 * 8 != bytes)
      fail(WEIR_ERR_TRANSPORT, "a message of {} bytes goes on after its last entry", bytes);
  }

  int buckets_;
  bool sketched_;
  int code_bits_;
  Buckets bounds_;
};

std::unique_ptr<PackedCodec> make_sketchml(const Parameters& parameters) {
  return std::make_unique<SketchMl>(static_cast<int>(parameters.whole("buckets")), parameters.whole("codes") == 1);
}

}  // namespace
}  // namespace weir::compress::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir::compress {
namespace {

HWY_EXPORT(make_sketchml);
std::unique_ptr<PackedCodec> make(const Parameters& parameters) { return HWY_DYNAMIC_DISPATCH(make_sketchml)(parameters); }

constexpr std::array<std::string_view, 2> codes = {"plain", "minmax"};
constexpr std::array parameters = {
    ParameterInfo{.name = "buckets", .value = 128, .least = 16, .most = 128, .doc = "quantiles of either sign: a power of two"},
    ParameterInfo{.name = "codes",
                  .value = 0,
                  .least = 0,
                  .most = 1,
                  .doc = "plain: the bucket of each element; minmax: its group, and a MinMaxSketch of buckets in their group",
                  .words = codes},
};

void check(const Parameters& given) {
  const std::int64_t buckets = given.whole("buckets");
  require(std::has_single_bit(static_cast<std::uint64_t>(buckets)),
          "compressor_parameters: buckets is {}: it must be a power of two from 16 to 128", buckets);
}

}  // namespace

const CompressorRow sketchml_row = {
    .name = "sketchml",
    .description = "quantile buckets of the elements other than zero",
    .source = "Jiang et al., SIGMOD 2018; GRACE, section III-C",
    .random = true,
    .parameters = parameters,
    .encode_adds = 25,
    .decode_adds = 6.5,
    .usual_size = 0.98,
    .streams = false,
    .check = check,
    .codec = make,
};

}  // namespace weir::compress
#endif
