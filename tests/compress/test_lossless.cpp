// Lossless coding of bytes, and the compressor that codes exponents with it.
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <weir/weir.hpp>

#include "catalogue/compressors/byte_huffman.hpp"
#include "compress/compressor.hpp"
#include "compress/instruction_sets.hpp"
#include "support/allocation_count.hpp"
#include "support/catch.hpp"

namespace weir::test {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Message = std::vector<std::byte>;
using Floats = std::vector<float>;

std::unique_ptr<PackedCodec> codec_of(const std::string& parameters) {
  const compress::Compressor compressor = compress::make_compressor("lossless", parameters);
  return compressor.row->codec(compressor.parameters);
}

Message encoded(const Bytes& values) {
  Message message(static_cast<std::size_t>(compress::most_block_bytes(static_cast<std::int64_t>(values.size()))));
  const std::int64_t bytes = compress::encode_block(values.data(), static_cast<std::int64_t>(values.size()), message.data());
  REQUIRE(bytes <= static_cast<std::int64_t>(values.size()) + 1 + (values.size() == 1));
  message.resize(static_cast<std::size_t>(bytes));
  return message;
}

/// Decodes a copy of the message's exact size, so that sanitizers see accesses beyond it. Returns false if it is refused.
bool decoded(const Message& message, Bytes& values) {
  const std::unique_ptr<std::byte[]> exact(new std::byte[message.size()]);
  std::copy(message.begin(), message.end(), exact.get());
  try {
    const std::int64_t bytes = compress::decode_block(exact.get(), static_cast<std::int64_t>(message.size()),
                                                      static_cast<std::int64_t>(values.size()), values.data());
    return bytes <= static_cast<std::int64_t>(message.size());
  } catch (const Error& error) {
    REQUIRE(error.status() == WEIR_ERR_TRANSPORT);
    return false;
  }
}

/// Returns bytes in which value v comes weights[v] times, in random order.
Bytes shuffled(const std::vector<int>& weights) {
  Bytes values;
  for (std::size_t v = 0; v < weights.size(); ++v)
    values.insert(values.end(), static_cast<std::size_t>(weights[v]), static_cast<std::uint8_t>(v + 3));
  std::shuffle(values.begin(), values.end(), std::mt19937(9));
  return values;
}

std::vector<Bytes> byte_vectors() {
  std::vector<Bytes> all;
  std::mt19937 random(4);
  for (const std::size_t size : {1, 2, 3, 4, 5, 7, 16, 79, 80, 81, 100, 255, 1000, 65535, 65536}) {
    Bytes constant(size, 7), two(size), uniform(size), geometric(size), full(size, 255);
    for (std::size_t i = 0; i < size; ++i) {
      two[i] = static_cast<std::uint8_t>(random() % 2 * 255);
      uniform[i] = static_cast<std::uint8_t>(random());
      geometric[i] = static_cast<std::uint8_t>(120 - std::countr_zero(static_cast<std::uint32_t>(random() | 0x80000000u)));
    }
    for (Bytes* const x : {&constant, &two, &uniform, &geometric, &full}) all.push_back(*x);
  }
  std::vector<int> fibonacci = {1, 1};  // the best code is as long as can be
  while (fibonacci.size() < 22) fibonacci.push_back(fibonacci[fibonacci.size() - 1] + fibonacci[fibonacci.size() - 2]);
  all.push_back(shuffled(fibonacci));
  std::vector<int> uneven(250, 1);
  uneven[100] = 60000;
  all.push_back(shuffled(uneven));
  uneven[101] = 3000;
  uneven[102] = 200;
  all.push_back(shuffled(uneven));
  return all;
}

float of_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

/// Returns floats of all kinds.
Floats any_floats(std::size_t count) {
  std::mt19937 random(6);
  Floats x(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto bits = static_cast<std::uint32_t>(random());
    switch (i % 8) {
      case 0:
        x[i] = of_bits(bits);
        break;
      case 1:
        x[i] = of_bits((bits & 0x807fffff) | 0x7f800000);  // NaN of any payload, infinity
        break;
      case 2:
        x[i] = of_bits(bits & 0x807fffff);  // denormal
        break;
      case 3:
        x[i] = of_bits(bits & 0x80000000);
        break;
      default:
        x[i] = static_cast<float>(std::exp(static_cast<double>(bits % 1000) / 200)) * ((bits & 1024) != 0 ? 1.0f : -1.0f);
    }
  }
  return x;
}

bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

/// Rounds to the nearest bfloat16, ties to even.
float slow_round(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0xffff) == 0) return x;
  if (std::isnan(x)) return of_bits((bits | 0x400000) & 0xffff0000);
  const float down = of_bits(bits & 0xffff0000), up = of_bits((bits & 0xffff0000) + 0x10000);
  if (std::isinf(up)) return down;
  const double below = std::abs(static_cast<double>(x) - static_cast<double>(down));
  const double above = std::abs(static_cast<double>(up) - static_cast<double>(x));
  if (below != above) return below < above ? down : up;
  return (bits & 0x10000) == 0 ? down : up;
}

constexpr std::size_t sizes[] = {0, 1, 2, 15, 16, 17, 255, 1000, 65535, 65536, 65537, 140001};

struct Encoded {
  Message message;
  Floats rest;
};
Encoded encode(PackedCodec& codec, const Floats& x) {
  const auto count = static_cast<std::int64_t>(x.size());
  Encoded result{Message(static_cast<std::size_t>(codec.most_bytes(count)) + 8, std::byte{0xa5}), Floats(x.size(), -7)};
  const std::int64_t bytes = codec.encode({}, 0, x.data(), count, result.message.data(), result.rest.data());
  REQUIRE(bytes % 8 == 0);
  REQUIRE(bytes <= codec.most_bytes(count));
  for (std::size_t i = result.message.size() - 8; i < result.message.size(); ++i) REQUIRE(result.message[i] == std::byte{0xa5});
  result.message.resize(static_cast<std::size_t>(bytes));
  return result;
}

}  // namespace

TEST_CASE("bytes come back, in no more bytes than the best code needs", "[lossless][huffman]") {
  for (const Bytes& values : byte_vectors()) {
    const Message message = encoded(values);
    Bytes back(values.size());
    REQUIRE(decoded(message, back));
    REQUIRE(back == values);
    std::vector<double> counts(256);
    for (const std::uint8_t value : values) ++counts[value];
    double entropy = 0;
    for (const double count : counts) entropy -= count > 0 ? count * std::log2(count / static_cast<double>(values.size())) : 0;
    const double plain = static_cast<double>(values.size()) + 2;
    // A Huffman code has less than 1 bit more for each value, and limiting its length costs little.
    const double most = std::min(plain, (entropy + 1.05 * static_cast<double>(values.size())) / 8 + 160);
    REQUIRE(static_cast<double>(message.size()) <= most);
  }
}

TEST_CASE("blocks that were cut or changed are refused, or give some values", "[lossless][huffman]") {
  std::mt19937 random(8);
  for (const Bytes& values : byte_vectors()) {
    const Message message = encoded(values);
    Bytes back(values.size());
    const std::size_t cuts = std::min<std::size_t>(message.size(), 200);
    for (std::size_t cut = 0; cut < cuts; ++cut) {
      const std::size_t left = message.size() <= 200 ? cut : random() % message.size();
      REQUIRE_FALSE(decoded(Message(message.begin(), message.begin() + static_cast<std::ptrdiff_t>(left)), back));
    }
    for (int change = 0; change < 200; ++change) {
      Message changed = message;
      const std::size_t reach = random() % 2 == 0 ? std::min<std::size_t>(changed.size(), 60) : changed.size();
      for (unsigned bits = random() % 3 + 1; bits > 0; --bits)
        changed[random() % reach] ^= static_cast<std::byte>(1u << random() % 8);
      decoded(changed, back);
    }
  }
}

TEST_CASE("lossless gives every float32 back bit for bit", "[lossless]") {
  Message first_message;
  for (const std::size_t count : sizes) {
    CAPTURE(count);
    const Floats x = any_floats(count);
    Message by_first;
    for_each_instruction_set([&](const char* name) {
      CAPTURE(name);
      const auto codec = codec_of("");
      const Encoded result = encode(*codec, x);
      if (by_first.empty()) by_first = result.message;
      REQUIRE(result.message == by_first);
      for (std::size_t i = 0; i < count; ++i) REQUIRE((std::isfinite(x[i]) ? result.rest[i] == 0 : std::isnan(result.rest[i])));
      Floats back(count, -7);
      const auto bytes = static_cast<std::int64_t>(result.message.size()), n = static_cast<std::int64_t>(count);
      codec->decode(result.message.data(), bytes, n, back.data(), false);
      REQUIRE(same_bits(back, x));
      Floats sum(count, 0.25f);
      codec->decode(result.message.data(), bytes, n, sum.data(), true);
      for (std::size_t i = 0; i < count; ++i) {
        if (!std::isnan(x[i])) REQUIRE(sum[i] == 0.25f + x[i]);
      }
    });
  }
}

TEST_CASE("lossless gives every bfloat16 back bit for bit, and rounds what is none", "[lossless]") {
  Floats all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = of_bits(static_cast<std::uint32_t>(i) << 16);
  std::vector<Floats> inputs = {all};
  for (const std::size_t count : sizes) inputs.push_back(any_floats(count));
  inputs.push_back({of_bits(0x7f7fffff), of_bits(0xff7f8000), of_bits(0x7f7f7fff), of_bits(0x3f808000), of_bits(0x3f818000),
                    of_bits(0x7f800001), of_bits(0x00008000), of_bits(0x00018000)});
  for (const Floats& x : inputs) {
    for_each_instruction_set([&](const char* name) {
      CAPTURE(name, x.size());
      const auto codec = codec_of("type=bfloat16");
      const Encoded result = encode(*codec, x);
      Floats back(x.size(), -7), expected;
      for (const float value : x) expected.push_back(slow_round(value));
      codec->decode(result.message.data(), static_cast<std::int64_t>(result.message.size()), static_cast<std::int64_t>(x.size()),
                    back.data(), false);
      REQUIRE(same_bits(back, expected));
      for (std::size_t i = 0; i < x.size(); ++i)
        REQUIRE((std::isfinite(x[i]) ? result.rest[i] == x[i] - expected[i] : std::isnan(result.rest[i])));
      // in place
      Floats own = x;
      Message again(static_cast<std::size_t>(codec->most_bytes(static_cast<std::int64_t>(x.size()))));
      codec->encode({}, 0, own.data(), static_cast<std::int64_t>(x.size()), again.data(), own.data());
      again.resize(result.message.size());
      REQUIRE(again == result.message);
      for (std::size_t i = 0; i < x.size(); ++i) REQUIRE((own[i] == result.rest[i] || std::isnan(x[i]) || std::isinf(x[i])));
    });
  }
}

TEST_CASE("lossless takes a third off what looks like gradients in bfloat16", "[lossless]") {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  Floats heavy(200000), zeros(200000);
  for (float& x : heavy) x = normal(random) * std::exp(1.5f * normal(random));
  const auto bytes = [](const std::string& parameters, const Floats& x) {
    return static_cast<double>(encode(*codec_of(parameters), x).message.size());
  };
  REQUIRE(bytes("type=bfloat16", heavy) * 1.35 < 2.0 * static_cast<double>(heavy.size()));
  REQUIRE(bytes("", heavy) * 1.14 < 4.0 * static_cast<double>(heavy.size()));
  REQUIRE(bytes("type=bfloat16", zeros) < 1.001 * static_cast<double>(zeros.size()));
}

TEST_CASE("lossless allocates nothing but when it is made", "[lossless]") {
  for (const std::string parameters : {"", "type=bfloat16"}) {
    const auto codec = codec_of(parameters);
    Floats x = any_floats(140001);
    const auto count = static_cast<std::int64_t>(x.size());
    Message message(static_cast<std::size_t>(codec->most_bytes(count)));
    const std::int64_t before = allocations_of_this_thread();
    const std::int64_t bytes = codec->encode({}, 0, x.data(), count, message.data(), nullptr);
    codec->decode(message.data(), bytes, count, x.data(), true);
    REQUIRE(allocations_of_this_thread() == before);
  }
}

TEST_CASE("messages of lossless that lie about their sizes are refused", "[lossless]") {
  std::mt19937 random(3);
  for (const std::string parameters : {"", "type=bfloat16"}) {
    const auto codec = codec_of(parameters);
    for (const std::size_t count : {1, 17, 1000, 70000}) {
      const Message message = encode(*codec, any_floats(count)).message;
      Floats back(count);
      const auto decode = [&](const Message& changed) {
        const std::unique_ptr<std::byte[]> exact(new std::byte[changed.size()]);
        std::copy(changed.begin(), changed.end(), exact.get());
        codec->decode(exact.get(), static_cast<std::int64_t>(changed.size()), static_cast<std::int64_t>(count), back.data(), false);
      };
      REQUIRE_NOTHROW(decode(message));
      for (int i = 0; i < 100; ++i) {
        Message cut = message;
        cut.resize(random() % message.size());
        REQUIRE_THROWS_AS(decode(cut), Error);
        Message longer = message;
        longer.resize(message.size() + 8 + random() % 100);
        REQUIRE_THROWS_AS(decode(longer), Error);
        Message changed = message;
        changed[random() % changed.size()] ^= static_cast<std::byte>(1u << random() % 8);
        try {
          decode(changed);
        } catch (const Error& error) {
          REQUIRE(error.status() == WEIR_ERR_TRANSPORT);
        }
      }
    }
  }
}

}  // namespace weir::test
