// test_choosing_codecs.cpp: chunked_topk against a slow implementation of its documentation.
#include <fmt/core.h>

#include <numbers>
#include <set>

#include "choosing_codecs.hpp"
#include "compress/unary.hpp"
#include "kernels/kernels.hpp"
#include "support/allocation_count.hpp"
#include "support/thinning.hpp"

using namespace weir;
using namespace weir::test;

namespace {

/// Returns the places of the k largest elements of a chunk, in ascending order.
std::vector<std::size_t> largest_of(const float* x, std::size_t size, std::size_t k) {
  std::vector<std::size_t> order(size);
  for (std::size_t i = 0; i < size; ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return key_of(x[a]) > key_of(x[b]); });
  order.resize(k);
  std::sort(order.begin(), order.end());
  return order;
}

std::size_t entries_of(std::size_t size, std::size_t chunk, std::size_t k) {
  return size == chunk ? k : std::max<std::size_t>(1, size * k / chunk);
}

double squares(const std::vector<float>& x) {
  double sum = 0;
  for (const float value : x) sum += static_cast<double>(value) * static_cast<double>(value);
  return sum;
}

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

struct ChunkCase {
  std::size_t chunk, k;
};
const ChunkCase chunk_cases[] = {{64, 1},    {64, 64},  {128, 5},     {256, 4},     {512, 511},
                                 {4096, 64}, {4096, 1}, {16384, 300}, {65536, 1024}};

std::string text_of(const ChunkCase& shape) { return fmt::format("chunk={},k={}", shape.chunk, shape.k); }

}  // namespace

TEST_CASE("chunked_topk with values as they are delivers exactly the largest of each chunk") {
  std::vector<std::vector<float>> vectors = odd_vectors();
  vectors.push_back(heavy_tailed(200'000, 3));
  vectors.push_back(heavy_tailed(70'001, 4, 60));
  // many ties
  Dice dice(1);
  std::vector<float> ties(30'000);
  for (float& value : ties) value = static_cast<float>(dice.small(-3, 3));
  vectors.push_back(ties);
  // scales that change from chunk to chunk, so that no guess holds
  std::vector<float> jumps = heavy_tailed(100'000, 9);
  for (std::size_t i = 0; i < jumps.size(); ++i) jumps[i] *= i / 4096 % 2 == 0 ? 1e-20f : 1e20f;
  vectors.push_back(jumps);
  for (const ChunkCase& shape : chunk_cases) {
    for (const char* index : {"packed", "rice"}) {
      const auto codec = codec_of("chunked_topk", fmt::format("{},values=float32,index={}", text_of(shape), index));
      for (const std::vector<float>& x : vectors) {
        if (left_out()) continue;
        const Coded coded = code(*codec, x);
        std::vector<float> expected(x.size());
        for (std::size_t begin = 0; begin < x.size(); begin += shape.chunk) {
          const std::size_t size = std::min(shape.chunk, x.size() - begin);
          for (const std::size_t place : largest_of(x.data() + begin, size, entries_of(size, shape.chunk, shape.k)))
            expected[begin + place] += x[begin + place];
        }
        REQUIRE(same(coded.decoded, expected));
      }
    }
  }
}

TEST_CASE("chunked_topk loses at most 1 - k / chunk of the squares") {
  for (const ChunkCase& shape : chunk_cases) {
    for (const char* transform : {"none", "dct"}) {
      const auto codec = codec_of("chunked_topk", fmt::format("{},values=float32,transform={}", text_of(shape), transform));
      for (const std::uint64_t seed : {1u, 2u, 3u}) {
        if (left_out()) continue;
        const std::vector<float> x = heavy_tailed(3 * 65536, seed);
        const double bound = (1 - static_cast<double>(shape.k) / static_cast<double>(shape.chunk)) * squares(x);
        REQUIRE(squares(code(*codec, x).rest) <= bound + 1e-9 * squares(x));
      }
    }
  }
}

TEST_CASE("chunked_topk sends what it promises") {
  // SparseLoCo: 64 of 4096 entries of 12 + 2 bits, and 16 bytes of codebook for 4096 entries
  const std::int64_t count = 1 << 20;
  const std::vector<float> x = heavy_tailed(count, 1);
  const auto plain = codec_of("chunked_topk", "");
  REQUIRE(plain->fixed_size());
  REQUIRE(code(*plain, x).message.size() == count / 64 * 14 / 8 + count / 262144 * 16);
  REQUIRE(codec_of("chunked_topk", "values=float32")->most_bytes(count) == count / 64 * 44 / 8);
  REQUIRE(codec_of("chunked_topk", "values=bits8")->most_bytes(count) == count / 64 * 20 / 8 + count / 4096 * 4);
  REQUIRE(codec_of("chunked_topk", "values=bits4,chunk=1024,k=16")->most_bytes(count) == count / 64 * 14 / 8 + count / 262144 * 64);
  REQUIRE(plain->most_bytes(0) == 0);

  // Rice codes of the gaps between 64 places of 4096 at random: 7.53 bits on average
  REQUIRE(compress::rice_bits(1.0 / 64) == 5);
  const auto rice = codec_of("chunked_topk", "index=rice");
  REQUIRE(!rice->fixed_size());
  const double bits = 8.0 * static_cast<double>(code(*rice, x).message.size()) / (count / 64.0) - 2;
  INFO(bits);
  REQUIRE(bits > 7.4);
  REQUIRE(bits < 7.6);
  // at worst, all at a chunk's end
  std::vector<float> worst(x.size());
  for (std::size_t i = 0; i < worst.size(); ++i) worst[i] = i % 4096 >= 4032 ? 1.0f : 0.0f;
  REQUIRE(code(*rice, worst).message.size() == static_cast<std::size_t>(rice->most_bytes(count)));

  for (const ChunkCase& shape : chunk_cases) {
    for (const char* rest : {"values=bits2", "values=bits4,index=rice", "values=bits8", "values=float32,index=rice"}) {
      const auto codec = codec_of("chunked_topk", fmt::format("{},{}", text_of(shape), rest));
      std::int64_t last = 0;
      for (std::int64_t n = 0; n < 9000; n += 1 + n / 500) {
        const std::int64_t most = codec->most_bytes(n);
        REQUIRE(most >= last);
        last = most;
      }
    }
  }
}

TEST_CASE("chunked_topk's codes stand for values in their bins") {
  const std::vector<float> x = heavy_tailed(600'000, 8);
  for (const int bits : {2, 4}) {
    for (const ChunkCase& shape : chunk_cases) {
      if (left_out(4)) continue;
      const std::string text = text_of(shape);
      const Coded exact = code(*codec_of("chunked_topk", text + ",values=float32"), x);
      const Coded coded = code(*codec_of("chunked_topk", fmt::format("{},values=bits{}", text, bits)), x);
      std::size_t group = shape.chunk;
      while (group / shape.chunk * 2 * shape.k <= 4096) group *= 2;
      for (std::size_t begin = 0; begin < x.size(); begin += group) {
        const std::size_t end = std::min(x.size(), begin + group);
        double sum = 0, all = 0, centred = 0;
        std::set<float> decoded;
        const auto chosen = [&](auto f) {
          for (std::size_t i = begin; i < end; ++i) {
            if (exact.decoded[i] != 0) f(exact.decoded[i], coded.decoded[i]);
          }
        };
        chosen([&](float value, float) { sum += value, ++all; });
        const double mean = sum / all;
        chosen([&](float value, float) { centred += (value - mean) * (value - mean); });
        const int bins = 1 << bits;
        const double width = 6 * std::sqrt(centred / all) / bins;
        const auto bin = [&](double value) {
          return width == 0 ? 0.0 : std::clamp(std::floor((value - mean) / width + bins / 2), 0.0, bins - 1.0);
        };
        chosen([&](float value, float now) {
          decoded.insert(now);
          // values on the edge of two bins may be in either
          const double below = bin(value - 1e-6 * width), above = bin(value + 1e-6 * width), own = bin(now);
          REQUIRE((own == below || own == above));
        });
        REQUIRE(decoded.size() <= static_cast<std::size_t>(bins));
        double sum_now = 0;
        chosen([&](float, float now) { sum_now += now; });
        REQUIRE(std::abs(sum_now - sum) <= 1e-6 * all * 3 * width + 1e-6 * std::abs(sum));
      }
    }
  }
  // with the scale of the chunk: half a level
  for (const ChunkCase& shape : chunk_cases) {
    if (left_out(4)) continue;
    const std::string text = text_of(shape);
    const Coded exact = code(*codec_of("chunked_topk", text + ",values=float32"), x);
    const Coded coded = code(*codec_of("chunked_topk", text + ",values=bits8"), x);
    for (std::size_t begin = 0; begin < x.size(); begin += shape.chunk) {
      float largest = 0;
      const std::size_t end = std::min(x.size(), begin + shape.chunk);
      for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(x[i]));
      for (std::size_t i = begin; i < end; ++i) REQUIRE(std::abs(exact.decoded[i] - coded.decoded[i]) <= 1.00001f * largest / 254);
    }
  }
  // all the same: decoded exactly
  for (const char* values : {"bits2", "bits4"}) {
    const std::vector<float> same_values(10'000, -0.375f);
    for (const float value : code(*codec_of("chunked_topk", fmt::format("k=4096,values={}", values)), same_values).decoded)
      REQUIRE(value == -0.375f);
  }
}

TEST_CASE("What is not finite is NaN in its chunk or group and nowhere else") {
  std::vector<float> x = heavy_tailed(600'000, 8);
  x[300'000] = std::numeric_limits<float>::infinity();
  x[550'000] = std::numeric_limits<float>::quiet_NaN();
  for (const char* values : {"bits2", "bits4", "bits8", "float32"}) {
    const Coded coded = code(*codec_of("chunked_topk", fmt::format("values={}", values)), x);
    const std::size_t around = std::string_view(values) == "bits8" ? 4096 : 262144;
    for (const std::size_t place : {300'000u, 550'000u}) REQUIRE(!std::isfinite(coded.decoded[place]));
    std::size_t broken = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (std::isfinite(coded.decoded[i])) continue;
      ++broken;
      REQUIRE((i / around == 300'000 / around || i / around == 550'000 / around));
    }
    if (std::string_view(values) == "float32") REQUIRE(broken == 2);
  }
}

TEST_CASE("The cosine transform is the textbook's, and orthonormal") {
  for (const int bits : {6, 7, 8, 9, 10, 12, 13, 16}) {
    const std::size_t chunk = std::size_t{1} << bits, rows = std::size_t{1} << (bits / 2), columns = chunk / rows;
    const auto codec = codec_of("chunked_topk", fmt::format("chunk={},k={},values=float32,transform=dct", chunk, chunk));
    Dice dice(static_cast<std::uint64_t>(bits));
    std::vector<float> x(chunk);
    for (float& value : x) value = static_cast<float>(dice.between(-1000, 1000)) / 1000;
    const Coded coded = code(*codec, x);
    const double norm = std::sqrt(squares(x));
    REQUIRE(std::abs(std::sqrt(squares(coded.decoded)) / norm - 1) < 1e-6);
    REQUIRE(std::sqrt(squares(coded.rest)) / norm < 1e-6);  // of the inverse
    const auto basis = [](std::size_t n, std::size_t k, std::size_t i) {
      return std::sqrt((k == 0 ? 1.0 : 2.0) / static_cast<double>(n)) *
             std::cos(std::numbers::pi * static_cast<double>(k * (2 * i + 1)) / static_cast<double>(2 * n));
    };
    for (int sample = 0; sample < 40; ++sample) {
      const auto u = static_cast<std::size_t>(dice.between(0, static_cast<std::int64_t>(rows) - 1));
      const auto v = static_cast<std::size_t>(dice.between(0, static_cast<std::int64_t>(columns) - 1));
      double exact = 0;
      for (std::size_t row = 0; row < rows; ++row) {
        for (std::size_t column = 0; column < columns; ++column)
          exact += static_cast<double>(x[row * columns + column]) * basis(rows, u, row) * basis(columns, v, column);
      }
      REQUIRE(std::abs(static_cast<double>(coded.decoded[v * rows + u]) - exact) < 1e-6 * norm);
    }
  }
}

TEST_CASE("Coefficients of several ranks are transformed back once, and a last shorter chunk is none") {
  const auto codec = codec_of("chunked_topk", "chunk=1024,k=100,values=float32,transform=dct");
  const std::vector<float> a = heavy_tailed(5000, 1), b = heavy_tailed(5000, 2);
  const Coded coded_a = code(*codec, a), coded_b = code(*codec, b);
  std::vector<float> sum = coded_a.decoded;
  codec->decode(coded_b.message.data(), static_cast<std::int64_t>(coded_b.message.size()), 5000, sum.data(), true);
  codec->finish(sum.data(), 5000);
  for (std::size_t i = 0; i < sum.size(); ++i)
    REQUIRE(std::abs(sum[i] - (a[i] - coded_a.rest[i]) - (b[i] - coded_b.rest[i])) < 1e-5f);
  std::vector<float> last(a.begin() + 4096, a.end());
  const std::vector<std::size_t> places = largest_of(last.data(), last.size(), last.size() * 100 / 1024);
  for (const std::size_t place : places) REQUIRE(coded_a.decoded[4096 + place] == last[place]);
}

TEST_CASE("Senders of a value are counted") {
  for (const char* index : {"packed", "rice"}) {
    const auto codec = codec_of("chunked_topk", fmt::format("mean=senders,values=float32,index={}", index));
    REQUIRE(codec->counts_senders());
    const std::int64_t count = 300'000;
    std::vector<std::uint16_t> senders(count), expected(count);
    for (const std::uint64_t rank : {1u, 2u, 3u}) {
      const Coded coded = code(*codec, heavy_tailed(count, rank));
      codec->count_senders(coded.message.data(), static_cast<std::int64_t>(coded.message.size()), count, senders.data());
      for (std::size_t i = 0; i < expected.size(); ++i)
        expected[i] = static_cast<std::uint16_t>(expected[i] + (coded.decoded[i] != 0));
    }
    REQUIRE(senders == expected);
  }
  REQUIRE(!codec_of("chunked_topk", "")->counts_senders());
}

TEST_CASE("Parameters of chunked_topk that no chunk has are refused") {
  REQUIRE_THROWS_WITH(codec_of("chunked_topk", "chunk=100"), ContainsSubstring("chunk is 100: it must be a power of two"));
  REQUIRE_THROWS_WITH(codec_of("chunked_topk", "chunk=64,k=65"), ContainsSubstring("k is 65: it must be at most chunk, 64"));
  REQUIRE_THROWS_WITH(codec_of("chunked_topk", "values=bits3"), ContainsSubstring("one of bits2, bits4, bits8, float32"));
}

TEST_CASE("error_bounded takes one bound") {
  REQUIRE_NOTHROW(codec_of("error_bounded", "absolute=0.5,relative=0"));
  REQUIRE_THROWS_WITH(codec_of("error_bounded", "absolute=0.5,relative=0.25"),
                      ContainsSubstring("absolute is 0.5 and relative is 0.25: give one of them"));
}

TEST_CASE("Rows that error_bounded cannot take are refused") {
  REQUIRE_NOTHROW(codec_of("error_bounded", "row=64"));
  for (const int row : {1, 63})
    REQUIRE_THROWS_WITH(codec_of("error_bounded", fmt::format("row={}", row)), ContainsSubstring("it must be 0, or at least 64"));
  for (const char* wrong : {"row=-64", "row=64.5", "row=16777217"})
    REQUIRE_THROWS_WITH(codec_of("error_bounded", wrong), ContainsSubstring("row"));
}

TEST_CASE("Odd vectors in every format, and messages that lie") {
  const std::vector<std::vector<float>> vectors = odd_vectors();
  std::vector<std::unique_ptr<PackedCodec>> codecs;
  for (const char* size : {"chunk=64,k=1", "chunk=64,k=64", "chunk=512,k=100", "chunk=4096,k=64"}) {
    for (const char* values : {"bits2", "bits4", "bits8", "float32"}) {
      for (const char* index : {"packed", "rice"}) {
        for (const char* other : {"none", "dct,mean=senders"})
          codecs.push_back(codec_of("chunked_topk", fmt::format("{},values={},index={},transform={}", size, values, index, other)));
      }
    }
  }
  for (const auto& codec : codecs) {
    for (const std::vector<float>& x : vectors) {
      if (left_out()) continue;
      const Coded coded = code(*codec, x);
      if (std::all_of(x.begin(), x.end(), [](float value) { return value == 0; })) {
        REQUIRE(std::all_of(coded.decoded.begin(), coded.decoded.end(), [](float value) { return value == 0; }));
      }
    }
    if (!left_out()) lie_to(*codec, heavy_tailed(9000, 7), 1, 200);
    if (!left_out()) lie_to(*codec, heavy_tailed(61, 7), 2, 100);
  }
}

TEST_CASE("Choosing codecs do not allocate") {
  const std::vector<float> x = heavy_tailed(300'000, 3);
  for (const auto& [name, parameters] :
       std::vector<std::pair<const char*, const char*>>{{"chunked_topk", ""},
                                                        {"chunked_topk", "values=bits8,index=rice,transform=dct,mean=senders"},
                                                        {"chunked_topk", "k=4096"}}) {
    const auto codec = codec_of(name, parameters);
    std::vector<std::byte> message(static_cast<std::size_t>(codec->most_bytes(300'000)));
    std::vector<float> rest(x.size());
    std::vector<std::uint16_t> senders(x.size());
    const std::int64_t before = allocations_of_this_thread();
    const std::int64_t bytes = codec->encode({1, 2, 3}, 0, x.data(), 300'000, message.data(), rest.data());
    codec->decode(message.data(), bytes, 300'000, rest.data(), true);
    if (codec->counts_senders()) codec->count_senders(message.data(), bytes, 300'000, senders.data());
    codec->finish(rest.data(), 300'000);
    REQUIRE(allocations_of_this_thread() == before);
  }
}
