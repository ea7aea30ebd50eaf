// adaptive_threshold.cpp: sends the same proportion alpha of the negative and of the non-negative elements, the largest of either,
// as their mean (Dryden, Jacobs, Moon, Van Essen: Communication quantization for data-parallel training of deep neural networks;
// MLHPC 2016; GRACE section III-C). A sent element is a bit of sign and its index.
//
// The paper finds both thresholds in a sample. Here they are exact, and the sample only says where to search: of n negative
// elements ceil(alpha n) are sent, and the same of the non-negative ones; ties go to the lowest indices. Zeros are never sent. NaN
// counts as non-negative and largest. If a sent element is not finite, all sent elements of its sign decode to NaN. The default
// alpha is the one that GRACE measures.
//
// A message has the number of entries (64 bits), the means of the negative and of the positive ones (floats), the low bits of the
// gaps between indices and the sign bits (number_bits-inl.hpp), the rest of the gaps in unary (unary.hpp), and zeros up to a
// multiple of 8.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "catalogue/compressors/adaptive_threshold.cpp"
#include <hwy/foreach_target.h>
// The order matters: foreach_target.h includes this file once per instruction set.
#include <hwy/highway.h>

#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "compress/compressor.hpp"
#include "compress/number_bits-inl.hpp"
#include "compress/unary.hpp"
#include "kernels/host/keys-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::compress::HWY_NAMESPACE {
namespace {

constexpr std::int64_t block_size = 4096;
constexpr std::int64_t padding = 16;
constexpr std::int64_t sample_size = 4096;
constexpr std::int64_t bins = 4096;
constexpr std::int64_t key_end = std::int64_t{1} << 31;

[[nodiscard]] bool is_negative(float value) { return value < 0; }

/// What is sent of one sign: all keys above `key`, and the first `ties` equal to it.
struct Cut {
  std::int64_t key = key_end, ties = 0, entries = 0;
};

/// Searches for the k-th largest key of one sign.
class Search {
 public:
  void begin(std::int64_t k, std::int64_t guess) {
    k_ = k;
    above_ = 0;
    low_ = guess;
    high_ = key_end - 1;
    cut_ = {};
    done_ = k == 0;
    prepare();
  }
  [[nodiscard]] bool done() const { return done_; }
  [[nodiscard]] const Cut& cut() const { return cut_; }
  // The range is empty once the search is done.
  [[nodiscard]] std::int64_t low() const { return done_ ? key_end : low_; }
  [[nodiscard]] std::int64_t high() const { return done_ ? key_end : high_; }
  void count(std::int64_t key) { ++counts_[static_cast<std::size_t>((key - low_) >> shift_)]; }

  /// Narrows the range, once all keys between low() and high() have been counted.
  void narrow() {
    if (done_) return;
    std::int64_t bin = bins;
    while (bin > 0 && above_ < k_) above_ += counts_[static_cast<std::size_t>(--bin)];
    if (above_ < k_) {  // there are fewer than k
      if (low_ == 1) {
        cut_ = {1, above_, above_};
        done_ = true;
        return;
      }
      high_ = low_ - 1;
      low_ = 1;
    } else {
      const std::int64_t in_bin = counts_[static_cast<std::size_t>(bin)];
      low_ += bin << shift_;
      if (above_ == k_ || shift_ == 0) {
        cut_ = {low_, k_ - (above_ - in_bin), k_};
        done_ = true;
        return;
      }
      above_ -= in_bin;
      high_ = std::min(high_, low_ + (std::int64_t{1} << shift_) - 1);
    }
    prepare();
  }

 private:
  void prepare() {
    shift_ = 0;
    while ((high_ - low_) >> shift_ >= bins) ++shift_;
    counts_.fill(0);
  }

  std::int64_t k_ = 0, above_ = 0, low_ = 1, high_ = 0;
  int shift_ = 0;
  bool done_ = true;
  Cut cut_;
  std::array<std::int64_t, bins> counts_{};
};

class AdaptiveThreshold final : public PackedCodec {
 public:
  explicit AdaptiveThreshold(double alpha) : alpha_(alpha), low_bits_(rice_bits(alpha)), searches_(std::make_unique<Search[]>(2)) {}

  [[nodiscard]] std::int64_t granularity() const override { return 256; }
  [[nodiscard]] std::int64_t most_bytes(std::int64_t count) const override {
    if (count == 0) return 0;
    const std::int64_t most = most_entries(count);
    return (unary_offset(most) + most_unary_bytes(most, count, low_bits_) + 7) / 8 * 8;
  }
  [[nodiscard]] bool fixed_size() const override { return false; }
  [[nodiscard]] std::int64_t memory_bytes() const override { return 2 * std::int64_t{sizeof(Search)}; }

  std::int64_t encode(const Draw&, std::int64_t, const float* values, std::int64_t count, std::byte* out, float* rest) override {
    if (count == 0) return 0;
    find_cuts(values, count);
    const Cut cuts[2] = {searches_[0].cut(), searches_[1].cut()};
    const std::int64_t entries = cuts[0].entries + cuts[1].entries;
    Writer writer(out, out + unary_offset(entries), entries, low_bits_);
    std::int64_t ties[2] = {cuts[0].ties, cuts[1].ties};
    double sums[2] = {};
    for_selected(values, count, cuts[0].key, key_end, cuts[1].key, key_end, [&](std::int64_t place, float value) HWY_ATTR {
      const int sign = is_negative(value) ? 0 : 1;
      if (key_of(value) == cuts[sign].key && ties[sign]-- <= 0) return;
      sums[sign] += static_cast<double>(value);
      writer.put(place, sign == 0);
    });
    const std::int64_t bytes = writer.end();
    float means[2];
    for (int sign = 0; sign < 2; ++sign) {
      const double mean = cuts[sign].entries > 0 ? sums[sign] / static_cast<double>(cuts[sign].entries) : 0.0;
      means[sign] = std::isfinite(mean) ? static_cast<float>(mean) : std::numeric_limits<float>::quiet_NaN();
    }
    const auto number = static_cast<std::uint64_t>(entries);
    std::memcpy(out, &number, sizeof number);
    std::memcpy(out + sizeof number, means, sizeof means);
    if (rest != nullptr) {
      if (rest != values) std::copy_n(values, count, rest);
      for_entries(out, bytes, count, [&](std::int64_t place, float value) { rest[place] -= value; });
    }
    return bytes;
  }

  void decode(const std::byte* in, std::int64_t bytes, std::int64_t count, float* sum, bool add) override {
    if (!add) std::fill_n(sum, count, 0.0f);
    if (add) {
      for_entries(in, bytes, count, [sum](std::int64_t place, float value) { sum[place] += value; });
    } else {
      for_entries(in, bytes, count, [sum](std::int64_t place, float value) { sum[place] = value; });
    }
  }

 private:
  static constexpr std::int64_t header_bytes = sizeof(std::uint64_t) + 2 * sizeof(float);

  [[nodiscard]] std::int64_t share(std::int64_t elements) const {
    return std::min(elements, static_cast<std::int64_t>(std::ceil(alpha_ * static_cast<double>(elements))));
  }
  /// Both shares are rounded up, and so may be the products.
  [[nodiscard]] std::int64_t most_entries(std::int64_t count) const { return std::min(count, share(count) + 2); }
  [[nodiscard]] std::int64_t signs_offset(std::int64_t entries) const { return header_bytes + code_bytes(entries, low_bits_); }
  [[nodiscard]] std::int64_t unary_offset(std::int64_t entries) const { return signs_offset(entries) + code_bytes(entries, 1); }

  /// Writes entries in the order of their indices.
  class Writer {
   public:
    Writer(std::byte* begin, std::byte* unary, std::int64_t entries, int low_bits)
        : begin_(begin),
          numbers_(begin + header_bytes),
          signs_(numbers_ + code_bytes(entries, low_bits)),
          unary_(unary),
          low_bits_(low_bits) {}
    HWY_INLINE void put(std::int64_t place, bool negative) {
      const std::int64_t gap = place - next_;
      next_ = place + 1;
      unary_.put(gap >> low_bits_);
      lows_[held_] = static_cast<std::uint32_t>(gap);
      negatives_[held_] = negative;
      if (++held_ == code_chunk) flush();
    }
    /// Ends the message. Returns its bytes.
    [[nodiscard]] std::int64_t end() {
      flush();
      std::byte* at = unary_.end();
      while ((at - begin_) % 8 != 0) *at++ = std::byte{0};
      return at - begin_;
    }

   private:
    void flush() {
      numbers_ += pack_numbers(lows_, held_, low_bits_, numbers_);
      signs_ += pack_numbers(negatives_, held_, 1, signs_);
      held_ = 0;
    }
    std::byte *begin_, *numbers_, *signs_;
    UnaryWriter unary_;
    int low_bits_;
    std::int64_t next_ = 0, held_ = 0;
    std::uint32_t lows_[code_chunk];
    std::uint8_t negatives_[code_chunk];
  };

  /// Calls f(place, value) for every entry of a message. Throws if the message is malformed.
  template <class F>
  void for_entries(const std::byte* in, std::int64_t bytes, std::int64_t count, F f) const {
    if (bytes > most_bytes(count) || bytes % 8 != 0 || (count > 0 && bytes < header_bytes))
      fail(WEIR_ERR_TRANSPORT, "a message of {} values has {} bytes, from {} to {} would do", count, bytes,
           count > 0 ? header_bytes : 0, most_bytes(count));
    if (count == 0) return;
    std::uint64_t number = 0;
    std::memcpy(&number, in, sizeof number);
    if (number > static_cast<std::uint64_t>(most_entries(count)))
      fail(WEIR_ERR_TRANSPORT, "a message of {} values says that it holds {} entries of at most {}", count, number,
           most_entries(count));
    const auto entries = static_cast<std::int64_t>(number);
    if (unary_offset(entries) > bytes)
      fail(WEIR_ERR_TRANSPORT, "a message of {} bytes ends before its {} entries do", bytes, entries);
    float means[2];
    std::memcpy(means, in + sizeof number, sizeof means);
    const std::byte* numbers = in + header_bytes;
    const std::byte* signs = in + signs_offset(entries);
    UnaryReader unary(in + unary_offset(entries), bytes - unary_offset(entries));
    std::int64_t next = 0;
    for (std::int64_t begin = 0; begin < entries; begin += code_chunk) {
      const std::int64_t size = std::min(code_chunk, entries - begin);
      std::uint32_t lows[code_chunk];
      std::uint8_t negatives[code_chunk];
      numbers += unpack_numbers(numbers, size, low_bits_, lows);
      signs += unpack_numbers(signs, size, 1, negatives);
      for (std::int64_t i = 0; i < size; ++i) {
        const std::int64_t place = next + (unary.take() << low_bits_) + lows[i];
        if (place >= count) fail(WEIR_ERR_TRANSPORT, "a message of {} values has an entry at {}", count, place);
        next = place + 1;
        f(place, means[negatives[i] != 0 ? 0 : 1]);
      }
    }
    if ((unary_offset(entries) + unary.taken_bytes() + 7) / 8 * 8 != bytes)
      fail(WEIR_ERR_TRANSPORT, "a message of {} bytes goes on after its last entry", bytes);
  }

  using FloatTag = hn::CappedTag<float, 16>;
  using KeyTag = hn::RebindToSigned<FloatTag>;
  using PlaceTag = hn::RebindToUnsigned<FloatTag>;

  /// Calls f(place, value) for negative values with keys from negative_low to negative_high, and for others from low to high.
  template <class F>
  HWY_INLINE void for_selected(const float* x, std::int64_t count, std::int64_t negative_low, std::int64_t negative_high,
                               std::int64_t low, std::int64_t high, F f) const {
    const FloatTag d;
    const KeyTag dk;
    const PlaceTag dp;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    const auto limit = [dk](std::int64_t key) { return hn::Set(dk, static_cast<std::int32_t>(std::min(key, key_end - 1))); };
    // key > low - 1 and not key > high
    const auto below = limit(low - 1), top = limit(high), negative_below = limit(negative_low - 1),
               negative_top = limit(negative_high);
    for (std::int64_t begin = 0; begin < count; begin += block_size) {
      const std::int64_t size = std::min(block_size, count - begin);
      std::uint32_t places[block_size + padding];
      std::int64_t found = 0;
      auto numbers = hn::Iota(dp, 0);
      std::int64_t i = 0;
      for (; i + lanes <= size; i += lanes) {
        const auto values = hn::LoadU(d, x + begin + i);
        const auto keys = kernels::host::HWY_NAMESPACE::keys_of(d, values);
        const auto negative = hn::VecFromMask(dk, hn::RebindMask(dk, hn::Lt(values, hn::Zero(d))));
        const auto least = hn::Or(hn::And(negative, negative_below), hn::AndNot(negative, below));
        const auto most = hn::Or(hn::And(negative, negative_top), hn::AndNot(negative, top));
        const auto wanted = hn::AndNot(hn::Gt(keys, most), hn::Gt(keys, least));
        hn::StoreU(kernels::host::HWY_NAMESPACE::compress(dp, numbers, hn::RebindMask(dp, wanted)), dp, places + found);
        found += static_cast<std::int64_t>(hn::CountTrue(dk, wanted));
        numbers = hn::Add(numbers, hn::Set(dp, static_cast<std::uint32_t>(lanes)));
      }
      for (; i < size; ++i) {
        const float value = x[begin + i];
        const std::int64_t key = key_of(value);
        const bool negative = is_negative(value);
        if (key >= (negative ? negative_low : low) && key <= (negative ? negative_high : high))
          places[found++] = static_cast<std::uint32_t>(i);
      }
      for (std::int64_t j = 0; j < found; ++j) f(begin + places[j], x[begin + places[j]]);
    }
  }

  void find_cuts(const float* x, std::int64_t count) {
    const std::int64_t negatives = count_negatives(x, count);
    const std::int64_t members[2] = {negatives, count - negatives};
    begin_searches(x, count, members);
    Search* const searches = searches_.get();
    while (!searches[0].done() || !searches[1].done()) {
      for_selected(x, count, searches[0].low(), searches[0].high(), searches[1].low(), searches[1].high(),
                   [searches](std::int64_t, float value) { searches[is_negative(value) ? 0 : 1].count(key_of(value)); });
      searches[0].narrow();
      searches[1].narrow();
    }
  }

  /// Begins each search at a key that twice the wanted share of a sample reaches.
  void begin_searches(const float* x, std::int64_t count, const std::int64_t* members) {
    std::uint32_t keys[2][sample_size];
    std::int64_t sizes[2] = {};
    const std::int64_t samples = std::min(count, sample_size);
    for (std::int64_t i = 0; i < samples; ++i) {
      const float value = x[i * (count / samples) + i * (count % samples) / samples];
      const int sign = is_negative(value) ? 0 : 1;
      keys[sign][sizes[sign]++] = key_of(value);
    }
    for (int sign = 0; sign < 2; ++sign) {
      const std::int64_t rank = 2 * share(sizes[sign]) + 8;
      std::int64_t guess = 1;
      if (rank < sizes[sign]) {
        std::nth_element(keys[sign], keys[sign] + rank, keys[sign] + sizes[sign], std::greater<>());
        guess = std::max<std::int64_t>(1, keys[sign][rank]);
      }
      searches_[static_cast<std::size_t>(sign)].begin(share(members[sign]), guess);
    }
  }

  [[nodiscard]] static std::int64_t count_negatives(const float* x, std::int64_t count) {
    const FloatTag d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    std::int64_t negatives = 0;
    std::int64_t i = 0;
    for (; i + lanes <= count; i += lanes)
      negatives += static_cast<std::int64_t>(hn::CountTrue(d, hn::Lt(hn::LoadU(d, x + i), hn::Zero(d))));
    for (; i < count; ++i) negatives += is_negative(x[i]);
    return negatives;
  }

  double alpha_;
  int low_bits_;
  std::unique_ptr<Search[]> searches_;
};

std::unique_ptr<PackedCodec> make_adaptive_threshold(const Parameters& parameters) {
  return std::make_unique<AdaptiveThreshold>(parameters["alpha"]);
}

}  // namespace
}  // namespace weir::compress::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir::compress {
namespace {

HWY_EXPORT(make_adaptive_threshold);
std::unique_ptr<PackedCodec> make(const Parameters& parameters) {
  return HWY_DYNAMIC_DISPATCH(make_adaptive_threshold)(parameters);
}

constexpr std::array parameters = {
    ParameterInfo{.name = "alpha",
                  .value = 0.01,
                  .least = 1e-6,
                  .most = 1,
                  .doc = "proportion of the negative and of the non-negative elements that is sent",
                  .whole = false},
};

}  // namespace

const CompressorRow adaptive_threshold_row = {
    .name = "adaptive_threshold",
    .description = "the same proportion of the negative and of the other elements, as two means",
    .source = "Dryden et al., MLHPC 2016; GRACE, section III-C",
    .parameters = parameters,
    .encode_adds = 4.8,
    .decode_adds = 0.7,
    .usual_size = 0.95,
    .streams = false,
    .codec = make,
};

}  // namespace weir::compress
#endif
