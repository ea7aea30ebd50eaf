// test_device_quantisers.cpp: codecs for CUDA memory make the same messages as the host's, bit for bit, leave the same rests, and
// decode any message to the same sums.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <random>

#include "compress/device_codec.hpp"
#include "support/catch.hpp"
#include "support/cuda_kernel_set.hpp"
#include "support/inputs.hpp"
#include "support/kernel_data.hpp"
#include "support/thinning.hpp"

namespace weir::test {
namespace {

using compress::Compressor;
using compress::CompressorRow;

/// All compressors of the device, with parameters that reach every branch.
std::vector<Compressor> on_device() {
  std::vector<Compressor> all;
  for (const CompressorRow* row : compress::compressor_registry()) {
    if (row->carriage != compress::Carriage::packed) continue;
    std::vector<std::string> texts = {""};
    for (const ParameterInfo& info : row->parameters) {
      std::vector<std::string> more;
      for (const std::string& text : texts) {
        const auto add = [&](auto value) {
          more.push_back(fmt::format("{}{}{}={}", text, text.empty() ? "" : ",", info.name, value));
        };
        if (info.name == "bucket") {
          for (const int bucket : {0, 32, 256, 4096}) add(bucket);
        } else if (info.name == "levels") {
          for (const int levels : {1, 3, 7, 20, 127}) add(levels);
        } else if (info.name == "clip") {
          add(0);
          add(2.5);
        }
        for (const std::string_view word : info.words) add(word);
      }
      if (!more.empty()) texts = more;
    }
    for (const std::string& text : texts) {
      const Compressor compressor = compress::make_compressor(row->name, text);
      if (compress::has_device_codec(compressor)) all.push_back(compressor);
    }
  }
  return all;
}

std::vector<float> special(std::int64_t count) {
  const std::vector<float> pool = {0,
                                   -0.0F,
                                   1,
                                   -1,
                                   1e-42F,
                                   -1e-42F,
                                   1e-30F,
                                   3.4e38F,
                                   -3.4e38F,
                                   0.5F,
                                   std::numeric_limits<float>::infinity(),
                                   std::numeric_limits<float>::quiet_NaN(),
                                   -std::numeric_limits<float>::quiet_NaN()};
  std::minstd_rand random(7);
  std::vector<float> values(static_cast<std::size_t>(count));
  // Some buckets are finite.
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = pool[random() % (i / 256 % 2 == 0 ? 10 : pool.size())];
  return values;
}

/// Returns values, several of them halfway between two codes.
std::vector<float> ties(std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(static_cast<int>(i % 509) - 254) * 0.5F;
  return values;
}

void same_codecs(const Compressor& compressor, const std::vector<float>& values, std::int64_t first) {
  const auto count = static_cast<std::int64_t>(values.size());
  TestQueue queue(count);
  const auto host = compressor.row->codec(compressor.parameters);
  const auto device = compress::make_device_codec(compressor, queue);
  REQUIRE(device->granularity() == host->granularity());
  REQUIRE(device->most_bytes(count) == host->most_bytes(count));
  REQUIRE(device->votes() == host->votes());
  first *= host->granularity();
  const Draw draw{.seed = 11, .iteration = 3, .stream = 2};
  const auto bytes = static_cast<std::size_t>(host->most_bytes(count));

  std::vector<std::byte> expected(bytes), message(bytes, std::byte{0xa5});
  std::vector<float> rest(values), device_rest(values), other_rest(values.size());
  REQUIRE(host->encode(draw, first, values.data(), count, expected.data(), rest.data()) == host->most_bytes(count));
  {
    OnDevice<const float> x(values.data(), count);
    OnDevice<std::byte> out(message.data(), static_cast<std::int64_t>(bytes));
    OnDevice<float> r(other_rest.data(), count);
    REQUIRE(device->encode(draw, first, x.get(), count, out.get(), r.get()) == host->most_bytes(count));
    x.fetch(), out.fetch(), r.fetch();
    REQUIRE(message == expected);
    REQUIRE(same_sums(other_rest, rest));
    OnDevice<float> both(device_rest.data(), count);  // in place
    device->encode(draw, first, both.get(), count, out.get(), both.get());
    both.fetch(), out.fetch();
    REQUIRE(message == expected);
    REQUIRE(same_sums(device_rest, rest));
    device->encode(draw, first, x.get(), count, out.get(), nullptr);
    out.fetch();
    REQUIRE(message == expected);
  }
  std::minstd_rand random(5);
  for (const bool noise : {false, true}) {
    if (noise) {
      for (std::byte& byte : expected) byte = static_cast<std::byte>(random() >> 8);
    }
    for (const bool add : {false, true}) {
      std::vector<float> sum(values.size(), 0.75F), device_sum(values.size(), 0.75F);
      host->decode(expected.data(), static_cast<std::int64_t>(bytes), count, sum.data(), add);
      OnDevice<const std::byte> in(expected.data(), static_cast<std::int64_t>(bytes));
      OnDevice<float> to(device_sum.data(), count);
      device->decode(in.get(), static_cast<std::int64_t>(bytes), count, to.get(), add);
      in.fetch(), to.fetch();
      REQUIRE(same_sums(device_sum, sum));
      host->finish(sum.data(), count);
      to.send();
      device->finish(to.get(), count);
      to.fetch();
      REQUIRE(same_sums(device_sum, sum));
    }
  }
  REQUIRE_THROWS_AS(device->decode(nullptr, host->most_bytes(count) + 8, count, nullptr, false), Error);
}

}  // namespace

TEST_CASE("quantisers in CUDA memory make the host's messages", "[device_quantisers]") {
  std::vector<std::string> names;
  for (const Compressor& compressor : on_device()) {
    if (names.empty() || names.back() != compressor.row->name) names.emplace_back(compressor.row->name);
    for (const std::int64_t count : {0, 1, 7, 8, 31, 255, 256, 257, 4096, 10007}) {
      if (left_out()) continue;
      INFO(compressor.row->name << " (" << compressor.parameters.text() << "), n " << count);
      same_codecs(compressor, make_input<float>(Input::heavy_tailed, count, 0, 1, 0), 0);
      same_codecs(compressor, make_input<float>(Input::heavy_tailed, count, 0, 1, 1), 3);
      same_codecs(compressor, special(count), 0);
      same_codecs(compressor, ties(count), 1);
      same_codecs(compressor, std::vector<float>(static_cast<std::size_t>(count), 0.0F), 0);
      same_codecs(compressor, std::vector<float>(static_cast<std::size_t>(count), -2.5F), 0);
    }
  }
  for (const char* name :
       {"block_quantise", "eight_bit", "ef_sign_sgd", "natural", "one_bit_sgd", "qsgd", "sign_sgd", "signum", "terngrad"})
    CHECK(std::find(names.begin(), names.end(), name) != names.end());
}

}  // namespace weir::test
