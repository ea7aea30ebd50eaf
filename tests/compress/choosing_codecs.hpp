// choosing_codecs.hpp: shared parts of the tests of compressors that select elements.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string_view>
#include <vector>

#include "compress/compressor.hpp"
#include "support/catch.hpp"
#include "support/dice.hpp"

namespace weir::test {

[[nodiscard]] inline std::unique_ptr<PackedCodec> codec_of(std::string_view name, std::string_view parameters) {
  const compress::Compressor made = compress::make_compressor(name, parameters);
  return made.row->codec(made.parameters);
}

/// A message, its decoded values, and the rest that encoding leaves.
struct Coded {
  std::vector<std::byte> message;
  std::vector<float> decoded;  ///< before finish()
  std::vector<float> rest;
};

/// Encodes and decodes in buffers of the exact sizes, and checks the properties of all codecs. `decoded` is added to zeros.
inline Coded code(PackedCodec& codec, const std::vector<float>& values, const Draw& draw = {}) {
  const auto count = static_cast<std::int64_t>(values.size());
  Coded coded;
  coded.message.resize(static_cast<std::size_t>(codec.most_bytes(count)));
  coded.rest.resize(values.size());
  const std::int64_t bytes = codec.encode(draw, 0, values.data(), count, coded.message.data(), coded.rest.data());
  REQUIRE(bytes <= codec.most_bytes(count));
  REQUIRE((!codec.fixed_size() || bytes == codec.most_bytes(count)));
  REQUIRE(bytes % 8 == 0);
  coded.message.resize(static_cast<std::size_t>(bytes));
  coded.message.shrink_to_fit();

  std::vector<std::byte> again(static_cast<std::size_t>(codec.most_bytes(count)));
  std::vector<float> aliased = values;
  REQUIRE(codec.encode(draw, 0, aliased.data(), count, again.data(), aliased.data()) == bytes);
  again.resize(coded.message.size());
  REQUIRE(again == coded.message);
  REQUIRE((count == 0 || std::memcmp(aliased.data(), coded.rest.data(), values.size() * sizeof(float)) == 0));
  again.assign(static_cast<std::size_t>(codec.most_bytes(count)), std::byte{0xff});
  REQUIRE(codec.encode(draw, 0, values.data(), count, again.data(), nullptr) == bytes);
  again.resize(coded.message.size());
  REQUIRE(again == coded.message);

  coded.decoded.resize(values.size());
  codec.decode(coded.message.data(), bytes, count, coded.decoded.data(), true);
  std::vector<float> stored(values.size(), 7.0f);
  codec.decode(coded.message.data(), bytes, count, stored.data(), false);
  for (std::size_t i = 0; i < values.size(); ++i)
    REQUIRE((stored[i] == coded.decoded[i] || (std::isnan(stored[i]) && std::isnan(coded.decoded[i]))));

  std::vector<float> finished = stored;
  codec.finish(finished.data(), count);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float rest = values[i] - finished[i];
    REQUIRE((coded.rest[i] == rest || (std::isnan(coded.rest[i]) && std::isnan(rest))));
  }
  return coded;
}

/// Returns heavy-tailed values of both signs, with `zeros` percent of zeros.
[[nodiscard]] inline std::vector<float> heavy_tailed(std::int64_t count, std::uint64_t seed, int zeros = 0) {
  Dice dice(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    const double uniform = static_cast<double>(dice.between(1, 1 << 20)) / (1 << 20);
    value = static_cast<float>(0.01 * (1 / std::sqrt(uniform) - 0.9) * (dice.chance(50) ? 1 : -1));
    if (dice.chance(zeros)) value = 0;
  }
  return values;
}

/// Returns vectors on which other codecs have failed.
[[nodiscard]] inline std::vector<std::vector<float>> odd_vectors() {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const float denormal = std::numeric_limits<float>::denorm_min(), most = std::numeric_limits<float>::max();
  std::vector<std::vector<float>> list = {{}, {0.0f}, {-0.0f}, {1.0f}, {-3.5f}, {nan}, {-inf}, {denormal}, {-most, most}};
  for (const std::int64_t count : {63, 64, 65, 300, 4095, 4096, 4097, 12345}) {
    const auto size = static_cast<std::size_t>(count);
    for (const float value : {0.0f, -0.0f, 0.25f, -2.0f, denormal, most, -most}) list.emplace_back(size, value);
    std::vector<float> values = heavy_tailed(count, static_cast<std::uint64_t>(count));
    list.push_back(values);
    values[size / 2] = nan;
    list.push_back(values);
    values[size / 2] = -inf;
    values[size / 3] = inf;
    list.push_back(values);
    std::fill(values.begin(), values.end(), 0.0f);
    values[size - 1] = -1e-30f;
    list.push_back(values);
    for (float& value : values) value = denormal;
    values[0] = -denormal;
    list.push_back(values);
    list.push_back(heavy_tailed(count, 5, 95));
  }
  return list;
}

/// Checks that damaged messages, in buffers of their exact size, are decoded without harm or refused.
inline void lie_to(PackedCodec& codec, const std::vector<float>& values, std::uint64_t seed, int rounds) {
  Dice dice(seed);
  const auto count = static_cast<std::int64_t>(values.size());
  const std::vector<std::byte> right = code(codec, values).message;
  std::vector<float> sum(values.size());
  std::vector<std::uint16_t> senders(values.size());
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::byte> wrong = right;
    const int kind = dice.small(0, 3);
    if (kind == 0) {
      for (std::byte& byte : wrong) byte = static_cast<std::byte>(dice.word());
    } else if (kind == 1) {
      wrong.resize(static_cast<std::size_t>(dice.between(0, static_cast<std::int64_t>(wrong.size()))));
    } else if (kind == 2) {
      wrong.resize(wrong.size() + static_cast<std::size_t>(dice.between(1, 64)), static_cast<std::byte>(dice.word()));
    }
    for (std::int64_t flips = kind == 3 ? dice.between(1, 8) : 0; flips > 0 && !wrong.empty(); --flips)
      wrong[static_cast<std::size_t>(dice.between(0, static_cast<std::int64_t>(wrong.size()) - 1))] ^= std::byte{1}
                                                                                                       << dice.small(0, 7);
    // a separate allocation, so that sanitizers see accesses beyond its end
    const std::unique_ptr<std::byte[]> block(new std::byte[wrong.size()]);
    std::copy(wrong.begin(), wrong.end(), block.get());
    const auto bytes = static_cast<std::int64_t>(wrong.size());
    const std::int64_t other = dice.chance(20) ? dice.between(0, count) : count;
    try {
      codec.decode(block.get(), bytes, other, sum.data(), dice.chance(50));
      if (codec.counts_senders()) codec.count_senders(block.get(), bytes, other, senders.data());
    } catch (const Error& error) {
      REQUIRE(error.status() == WEIR_ERR_TRANSPORT);
    }
  }
}

}  // namespace weir::test
