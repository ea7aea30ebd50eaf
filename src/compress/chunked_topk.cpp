// chunked_topk.cpp: the k largest magnitudes of each chunk. DeMo takes them from the chunk's discrete cosine transform (Peng,
// Quesnelle, Kingma: Decoupled momentum optimization; arXiv 2411.19870). SparseLoCo takes them from the chunk itself, with values
// of 2 bits (Sarfi, Therien, Lidin, Belilovsky: Communication efficient LLM pre-training with SparseLoCo; arXiv 2508.15706).
//
// Ties go to the lowest index. If too few values are nonzero, zeros are sent, too, so that every chunk sends the same number. A
// shorter last chunk sends a share of k, at least 1, and is not transformed. For a chunk of 2^n, the transform has 2^(n / 2) rows
// of 2^(n / 2) values, and twice as many columns if n is odd. NaN counts as largest. If a chosen value is not finite:
//   float32          it travels as it is
//   bits8            all values sent of its chunk are NaN
//   bits4, bits2     all values sent of its group (chunk_layout.hpp) are NaN
//
// Values of 2 and 4 bits use 4 or 16 bins over six standard deviations about the mean of a group. They decode to the mean of the
// values in their bin. SparseLoCo's code rounds to the nearest of four bin centres, one of which is the mean itself, where chosen
// values are rarest; four adjacent bins lose half as much. SparseLoCo takes the statistics of one parameter. A vector here holds
// many parameters, and a group follows them approximately. Values of 8 bits have the scale of their chunk: bins over six standard
// deviations would cut off the largest values.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compress/chunked_topk.cpp"
#include <hwy/foreach_target.h>
// The order matters: foreach_target.h includes this file once per instruction set.
#include <hwy/highway.h>

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "compress/chosen_values-inl.hpp"
#include "compress/chunk_layout.hpp"
#include "compress/compressor.hpp"
#include "compress/dct-inl.hpp"
#include "compress/largest-inl.hpp"
#include "compress/number_bits-inl.hpp"
#include "compress/unary.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::compress::HWY_NAMESPACE {
namespace {

class ChunkedTopK final : public PackedCodec {
 public:
  ChunkedTopK(const ChunkLayout& layout, bool transformed, bool of_senders)
      : layout_(layout),
        transformed_(transformed),
        of_senders_(of_senders),
        dct_(1 << log2_of(layout.chunk()) / 2, 1 << (log2_of(layout.chunk()) + 1) / 2),
        largest_(layout.chunk()),
        places_(size_of(layout.most_entries() + Largest::padding)),
        numbers_(size_of(layout.most_entries())),
        values_(size_of(layout.most_entries() + Largest::padding)),
        codes_(size_of(layout.most_entries())),
        work_(size_of(layout.chunk() + Largest::padding)),
        scratch_(size_of(transformed ? layout.chunk() : 0)) {}

  [[nodiscard]] std::int64_t granularity() const override { return std::max<std::int64_t>(256, layout_.chunk()); }
  [[nodiscard]] std::int64_t most_bytes(std::int64_t count) const override { return layout_.most_bytes(count); }
  [[nodiscard]] bool fixed_size() const override { return !layout_.rice(); }
  [[nodiscard]] bool counts_senders() const override { return of_senders_; }
  [[nodiscard]] std::int64_t memory_bytes() const override {
    return static_cast<std::int64_t>(sizeof(float) *
                                         (places_.size() + numbers_.size() + values_.size() + work_.size() + scratch_.size()) +
                                     codes_.size()) +
           largest_.memory_bytes();
  }

  std::int64_t encode(const Draw&, std::int64_t, const float* values, std::int64_t count, std::byte* out, float* rest) override {
    std::byte* at = out;
    for (std::int64_t begin = 0; begin < count; begin += layout_.group())
      at = encode_group(values + begin, std::min(layout_.group(), count - begin), at, rest != nullptr ? rest + begin : nullptr);
    while ((at - out) % 8 != 0) *at++ = std::byte{0};
    return at - out;
  }

  void decode(const std::byte* in, std::int64_t bytes, std::int64_t count, float* sum, bool add) override {
    read_groups(in, bytes, count, [&](std::int64_t begin, std::int64_t size, const std::byte* header, const std::byte* values) {
      const std::int64_t entries = layout_.entries(size);
      read_values(header, values, size, entries);
      if (!add) std::fill_n(sum + begin, size, 0.0f);
      for_chunks(size, [&](std::int64_t chunk, std::int64_t first, std::int64_t last) {
        float* const to = sum + begin + chunk;
        if (add) {
          for (std::int64_t i = first; i < last; ++i) to[places_[size_of(i)]] += values_[size_of(i)];
        } else {
          for (std::int64_t i = first; i < last; ++i) to[places_[size_of(i)]] = values_[size_of(i)];
        }
      });
    });
  }

  void count_senders(const std::byte* in, std::int64_t bytes, std::int64_t count, std::uint16_t* senders) override {
    read_groups(in, bytes, count, [&](std::int64_t begin, std::int64_t size, const std::byte*, const std::byte*) {
      for_chunks(size, [&](std::int64_t chunk, std::int64_t first, std::int64_t last) {
        for (std::int64_t i = first; i < last; ++i) ++senders[begin + chunk + places_[size_of(i)]];
      });
    });
  }

  void finish(float* sum, std::int64_t count) override {
    if (!transformed_) return;
    for (std::int64_t chunk = 0; chunk + layout_.chunk() <= count; chunk += layout_.chunk())
      dct_.inverse(sum + chunk, sum + chunk, scratch_.data());
  }

 private:
  [[nodiscard]] static int log2_of(std::int64_t power) { return std::countr_zero(static_cast<std::uint64_t>(power)); }
  [[nodiscard]] static std::size_t size_of(std::int64_t size) { return static_cast<std::size_t>(size); }
  [[nodiscard]] bool is_transformed(std::int64_t chunk_size) const { return transformed_ && chunk_size == layout_.chunk(); }

  /// Calls f(where the chunk begins, its first entry, the one after its last) for every chunk of a group.
  template <class F>
  HWY_INLINE void for_chunks(std::int64_t size, F f) const {
    std::int64_t first = 0;
    for (std::int64_t chunk = 0; chunk < size; chunk += layout_.chunk()) {
      const std::int64_t last = first + layout_.chunk_entries(std::min(layout_.chunk(), size - chunk));
      f(chunk, first, last);
      first = last;
    }
  }

  std::byte* encode_group(const float* x, std::int64_t size, std::byte* out, float* rest) {
    const std::int64_t entries = layout_.entries(size);
    for_chunks(size, [&](std::int64_t chunk, std::int64_t first, std::int64_t last) {
      const std::int64_t chunk_size = std::min(layout_.chunk(), size - chunk);
      const float* from = x + chunk;
      if (is_transformed(chunk_size)) {
        dct_.forward(from, work_.data(), scratch_.data());
        from = work_.data();
      } else if (chunk_size < layout_.chunk()) {
        std::fill(std::copy_n(from, chunk_size, work_.begin()), work_.begin() + chunk_size + Largest::padding, 0.0f);
        from = work_.data();
      }
      largest_.choose(from, chunk_size, last - first, places_.data() + first, values_.data() + first);
      // while the chunk is in the first-level cache
      if (rest != nullptr && rest != x && !transformed_) std::copy_n(x + chunk, chunk_size, rest + chunk);
    });
    out = write_values(size, entries, out, [&](std::byte* numbers) { return write_numbers(size, entries, numbers); });
    if (layout_.rice()) {
      UnaryWriter unary(out);
      const int bits = layout_.number_bits();
      for (std::int64_t i = 0; i < entries; ++i) unary.put(numbers_[size_of(i)] >> bits);
      out = unary.end();
    }
    if (rest != nullptr) write_rest(x, size, rest);
    return out;
  }

  std::int64_t write_numbers(std::int64_t size, std::int64_t entries, std::byte* out) {
    if (!layout_.rice()) return pack_numbers(places_.data(), entries, layout_.number_bits(), out);
    for_chunks(size, [&](std::int64_t, std::int64_t first, std::int64_t last) {
      std::uint32_t next = 0;
      for (std::int64_t i = first; i < last; ++i) {
        numbers_[size_of(i)] = places_[size_of(i)] - next;
        next = places_[size_of(i)] + 1;
      }
    });
    return pack_numbers(numbers_.data(), entries, layout_.number_bits(), out);
  }

  /// Writes header, numbers and values. Replaces values_ by what they decode to. Returns where the message continues.
  template <class Numbers>
  std::byte* write_values(std::int64_t size, std::int64_t entries, std::byte* header, Numbers write_numbers) {
    std::byte* out = header + layout_.header_bytes(size);
    out += write_numbers(out);
    if (layout_.values() == ChosenValues::float32) {
      std::memcpy(out, values_.data(), sizeof(float) * size_of(entries));
    } else if (layout_.values() == ChosenValues::bits8) {
      for_chunks(size, [&](std::int64_t chunk, std::int64_t first, std::int64_t last) {
        const float largest = largest_magnitude(values_.data() + first, last - first);
        std::memcpy(header + chunk / layout_.chunk() * std::int64_t{sizeof largest}, &largest, sizeof largest);
        code_by_scale(values_.data() + first, last - first, largest, codes_.data() + first);
        decode_by_scale(codes_.data() + first, last - first, largest, values_.data() + first);
      });
      pack_numbers(codes_.data(), entries, 8, out);
    } else {
      float codebook[256];
      code_by_bins(values_.data(), entries, layout_.code_bits(), codebook, codes_.data());
      std::memcpy(header, codebook, size_of(layout_.header_bytes(size)));
      for (std::int64_t i = 0; i < entries; ++i) values_[size_of(i)] = codebook[codes_[size_of(i)]];
      pack_numbers(codes_.data(), entries, layout_.code_bits(), out);
    }
    return out + layout_.value_bytes(entries);
  }

  void write_rest(const float* x, std::int64_t size, float* rest) {
    for_chunks(size, [&](std::int64_t chunk, std::int64_t first, std::int64_t last) {
      const std::int64_t chunk_size = std::min(layout_.chunk(), size - chunk);
      if (is_transformed(chunk_size)) {
        std::fill_n(work_.data(), chunk_size, 0.0f);
        for (std::int64_t i = first; i < last; ++i) work_[places_[size_of(i)]] = values_[size_of(i)];
        dct_.inverse(work_.data(), work_.data(), scratch_.data());
        for (std::int64_t i = 0; i < chunk_size; ++i) rest[chunk + i] = x[chunk + i] - work_[size_of(i)];
      } else {
        if (transformed_ && rest != x) std::copy_n(x + chunk, chunk_size, rest + chunk);
        for (std::int64_t i = first; i < last; ++i) rest[chunk + places_[size_of(i)]] -= values_[size_of(i)];
      }
    });
  }

  /// Calls f(begin, size, header, values) for every group, once places_ holds the places of its entries in their chunks.
  template <class F>
  void read_groups(const std::byte* in, std::int64_t bytes, std::int64_t count, F f) {
    const std::int64_t most = layout_.most_bytes(count);
    if (fixed_size() ? bytes != most : bytes > most || bytes % 8 != 0)
      fail(WEIR_ERR_TRANSPORT, "a message of {} values has {} bytes instead of {}{}", count, bytes, fixed_size() ? "" : "at most ",
           most);
    std::int64_t at = 0;
    for (std::int64_t begin = 0; begin < count; begin += layout_.group()) {
      const std::int64_t size = std::min(layout_.group(), count - begin);
      const std::int64_t entries = layout_.entries(size);
      const std::int64_t fixed = layout_.fixed_bytes(size);
      if (fixed > bytes - at) fail(WEIR_ERR_TRANSPORT, "a message of {} bytes ends before its entries do", bytes);
      const std::byte* const header = in + at;
      const std::byte* const numbers = header + layout_.header_bytes(size);
      at += fixed;
      unpack_numbers(numbers, entries, layout_.number_bits(), places_.data());
      if (layout_.rice()) {
        UnaryReader unary(in + at, bytes - at);
        for (std::int64_t i = 0; i < entries; ++i)
          numbers_[size_of(i)] = static_cast<std::uint32_t>(std::min<std::int64_t>(unary.take(), layout_.chunk()));
        at += unary.taken_bytes();
      }
      check_places(size);
      f(begin, size, header, numbers + code_bytes(entries, layout_.number_bits()));
    }
    if ((at + 7) / 8 * 8 != bytes) fail(WEIR_ERR_TRANSPORT, "a message of {} bytes goes on after {}", bytes, at);
  }

  /// Converts gaps to places. Throws unless they ascend in each chunk.
  void check_places(std::int64_t size) {
    for_chunks(size, [&](std::int64_t chunk, std::int64_t first, std::int64_t last) {
      const std::int64_t chunk_size = std::min(layout_.chunk(), size - chunk);
      std::int64_t next = 0;
      bool ascend = true;
      for (std::int64_t i = first; i < last; ++i) {
        std::int64_t place = places_[size_of(i)];
        if (layout_.rice()) {
          place += next + (std::int64_t{numbers_[size_of(i)]} << layout_.number_bits());
          places_[size_of(i)] = static_cast<std::uint32_t>(place);
        }
        ascend &= place >= next;
        next = place + 1;
      }
      if (!ascend || next > chunk_size)
        fail(WEIR_ERR_TRANSPORT, "places in a chunk of {} values do not ascend within it", chunk_size);
    });
  }

  void read_values(const std::byte* header, const std::byte* in, std::int64_t size, std::int64_t entries) {
    if (layout_.values() == ChosenValues::float32) {
      std::memcpy(values_.data(), in, sizeof(float) * size_of(entries));
      return;
    }
    unpack_numbers(in, entries, layout_.code_bits(), codes_.data());
    if (layout_.values() == ChosenValues::bits8) {
      for_chunks(size, [&](std::int64_t chunk, std::int64_t first, std::int64_t last) {
        float largest = 0;
        std::memcpy(&largest, header + chunk / layout_.chunk() * std::int64_t{sizeof largest}, sizeof largest);
        decode_by_scale(codes_.data() + first, last - first, largest, values_.data() + first);
      });
    } else {
      float codebook[256];
      std::memcpy(codebook, header, size_of(layout_.header_bytes(size)));
      for (std::int64_t i = 0; i < entries; ++i) values_[size_of(i)] = codebook[codes_[size_of(i)]];
    }
  }

  ChunkLayout layout_;
  bool transformed_, of_senders_;
  Dct dct_;
  Largest largest_;
  // of the entries of a group
  std::vector<std::uint32_t> places_, numbers_;
  std::vector<float> values_;
  std::vector<std::uint8_t> codes_;
  // of a chunk
  std::vector<float> work_, scratch_;
};

std::unique_ptr<PackedCodec> make_chunked_topk(const Parameters& parameters) {
  const ChunkLayout layout(parameters.whole("chunk"), parameters.whole("k"), static_cast<ChosenValues>(parameters.whole("values")),
                           parameters.whole("index") == 1);
  return std::make_unique<ChunkedTopK>(layout, parameters.whole("transform") == 1, parameters.whole("mean") == 1);
}

}  // namespace
}  // namespace weir::compress::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir::compress {
namespace {

HWY_EXPORT(make_chunked_topk);
std::unique_ptr<PackedCodec> make(const Parameters& parameters) { return HWY_DYNAMIC_DISPATCH(make_chunked_topk)(parameters); }

constexpr std::array<std::string_view, 4> values = {"bits2", "bits4", "bits8", "float32"};
constexpr std::array<std::string_view, 2> indices = {"packed", "rice"};
constexpr std::array<std::string_view, 2> transforms = {"none", "dct"};
constexpr std::array<std::string_view, 2> means = {"ranks", "senders"};
constexpr std::array parameters = {
    ParameterInfo{.name = "chunk", .value = 4096, .least = 64, .most = 65536, .doc = "elements of a chunk: a power of two"},
    ParameterInfo{.name = "k",
                  .value = 64,
                  .least = 1,
                  .most = 65536,
                  .doc = "entries that each chunk sends, at most all; a shorter last chunk sends its share, at least 1"},
    ParameterInfo{.name = "values",
                  .value = 0,
                  .least = 0,
                  .most = 3,
                  .doc = "bits2, bits4: means of 4 or 16 bins; bits8: levels of the chunk's largest magnitude",
                  .words = values},
    ParameterInfo{.name = "index",
                  .value = 0,
                  .least = 0,
                  .most = 1,
                  .doc = "packed: log2(chunk) bits an entry; rice: Rice codes of the gaps, fewer bits, and messages vary in size",
                  .words = indices},
    ParameterInfo{.name = "transform",
                  .value = 0,
                  .least = 0,
                  .most = 1,
                  .doc = "dct: what is chosen from and sent is the chunk's discrete cosine transform",
                  .words = transforms},
    ParameterInfo{.name = "mean",
                  .value = 0,
                  .least = 0,
                  .most = 1,
                  .doc = "what the sum is divided by: all ranks, or those that sent the element",
                  .words = means},
};

std::string_view why_not_by(const Parameters& given, const AllreduceRow& algorithm) {
  return given["mean"] != 0 && algorithm.sharded
             ? "it compresses sums, of which nobody knows the senders; mean=senders needs every rank's own message"
             : std::string_view();
}

void check(const Parameters& given) {
  const std::int64_t chunk = given.whole("chunk"), k = given.whole("k");
  require(std::has_single_bit(static_cast<std::uint64_t>(chunk)),
          "compressor_parameters: chunk is {}: it must be a power of two from 64 to 65536", chunk);
  require(k <= chunk, "compressor_parameters: k is {}: it must be at most chunk, {}", k, chunk);
}

}  // namespace

const CompressorRow chunked_topk_row = {
    .name = "chunked_topk",
    .description = "the k largest of each chunk, or of its cosine transform, with values of 2 to 32 bits",
    .source = "SparseLoCo (Sarfi et al., 2025); DeMo (Peng et al., 2024) with transform=dct,mean=senders",
    .parameters = parameters,
    .encode_adds = 1.1,
    .decode_adds = 0.4,
    .why_not_by = why_not_by,
    .check = check,
    .codec = make,
};

}  // namespace weir::compress
#endif
