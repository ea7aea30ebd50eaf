// test_thresholds_and_sketches.cpp: adaptive_threshold and sketchml against slow implementations of their documentation. All
// compressors that select elements have the same bits on every instruction set.
#include <fmt/core.h>
#include <hwy/targets.h>

#include <array>
#include <map>

#include "choosing_codecs.hpp"
#include "compress/philox.hpp"
#include "kernels/kernels.hpp"
#include "support/allocation_count.hpp"
#include "support/thinning.hpp"

using namespace weir;
using namespace weir::test;

namespace {

bool negative(float value) { return value < 0; }

/// Returns what adaptive_threshold sends, by sorting all elements of each sign.
std::vector<float> sent_of(const std::vector<float>& x, double alpha) {
  std::vector<float> sent(x.size());
  for (const bool sign : {true, false}) {
    std::vector<std::size_t> order;
    std::size_t members = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (negative(x[i]) != sign) continue;
      ++members;
      if (x[i] != 0) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return key_of(x[a]) > key_of(x[b]); });
    order.resize(std::min(order.size(), static_cast<std::size_t>(std::ceil(alpha * static_cast<double>(members)))));
    std::sort(order.begin(), order.end());
    double sum = 0;
    for (const std::size_t i : order) sum += static_cast<double>(x[i]);
    const double mean = sum / static_cast<double>(order.size());
    for (const std::size_t i : order) sent[i] = static_cast<float>(mean);
  }
  return sent;
}

bool alike(float a, float b) { return a == b || (!std::isfinite(a) && std::isnan(b)); }

/// Returns the bucket of every nonzero element by quantiles of all, plus the number of buckets if it is negative.
std::vector<int> buckets_of(const std::vector<float>& x, int buckets) {
  std::array<std::vector<std::uint32_t>, 2> keys;
  for (const float value : x) {
    if (value != 0) keys[negative(value) ? 1 : 0].push_back(key_of(value));
  }
  std::vector<int> result;
  for (auto& list : keys) std::sort(list.begin(), list.end());
  for (const float value : x) {
    const auto& list = keys[negative(value) ? 1 : 0];
    int bucket = 0;
    for (int j = 1; j < buckets && value != 0; ++j)
      bucket += list[static_cast<std::size_t>(j) * list.size() / static_cast<std::size_t>(buckets)] <= key_of(value);
    result.push_back(bucket + (negative(value) ? buckets : 0));
  }
  return result;
}

std::vector<float> means_of(const std::vector<float>& x, const std::vector<int>& buckets, int number) {
  std::vector<double> sums(static_cast<std::size_t>(number)), members(static_cast<std::size_t>(number));
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x[i] == 0) continue;
    sums[static_cast<std::size_t>(buckets[i])] += static_cast<double>(x[i]);
    ++members[static_cast<std::size_t>(buckets[i])];
  }
  std::vector<float> means;
  for (std::size_t j = 0; j < sums.size(); ++j) means.push_back(static_cast<float>(members[j] > 0 ? sums[j] / members[j] : 0));
  return means;
}

}  // namespace

TEST_CASE("adaptive_threshold delivers alpha of either sign, the largest, as their mean") {
  std::vector<std::vector<float>> vectors = odd_vectors();
  vectors.push_back(heavy_tailed(100'001, 3));
  vectors.push_back(heavy_tailed(50'000, 4, 97));
  Dice dice(1);
  std::vector<float> ties(30'000);
  for (float& value : ties) value = static_cast<float>(dice.small(-3, 3));
  vectors.push_back(ties);
  std::vector<float> late(60'000, 1e-3f);  // where no sample of every 14th element finds it
  for (std::size_t i = 1; i < 3000; i += 2) late[i] = -5.0f - static_cast<float>(i);
  vectors.push_back(late);
  for (const double alpha : {1e-6, 0.001, 0.01, 0.3, 1.0}) {
    const auto codec = codec_of("adaptive_threshold", fmt::format("alpha={}", alpha));
    for (const std::vector<float>& x : vectors) {
      if (left_out(4)) continue;
      const Coded coded = code(*codec, x);
      const std::vector<float> sent = sent_of(x, alpha);
      for (std::size_t i = 0; i < x.size(); ++i) REQUIRE(alike(sent[i], coded.decoded[i]));
    }
    lie_to(*codec, heavy_tailed(9000, 7), 1, 1000);
    lie_to(*codec, heavy_tailed(61, 7), 2, 300);
  }
}

TEST_CASE("adaptive_threshold takes a bit of sign and a Rice code for an entry") {
  const std::int64_t count = 1 << 20;
  const auto codec = codec_of("adaptive_threshold", "");
  const Coded coded = code(*codec, heavy_tailed(count, 1));
  const double entries = 0.01 * static_cast<double>(count);
  const double bits = 8 * static_cast<double>(coded.message.size()) / entries;
  INFO(bits);
  REQUIRE(bits > 9.0);  // the entropy of an index is 8.08 bits, and one of sign
  REQUIRE(bits < 9.3);
  std::int64_t last = 0;
  for (std::int64_t n = 0; n < 9000; ++n) {
    REQUIRE(codec->most_bytes(n) >= last);
    last = codec->most_bytes(n);
  }
}

TEST_CASE("sketchml delivers the means of quantile buckets") {
  for (const int buckets : {16, 32, 128}) {
    const auto codec = codec_of("sketchml", fmt::format("buckets={}", buckets));
    for (const std::vector<float>& x : odd_vectors()) {
      const Coded coded = code(*codec, x, {1, 2, 3});
      for (std::size_t i = 0; i < x.size(); ++i) REQUIRE((x[i] != 0 || coded.decoded[i] == 0));
      if (x.size() > 8192) continue;  // then quantiles are those of all
      const std::vector<int> bucket = buckets_of(x, buckets);
      const std::vector<float> means = means_of(x, bucket, 2 * buckets);
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (x[i] != 0) REQUIRE(alike(means[static_cast<std::size_t>(bucket[i])], coded.decoded[i]));
      }
    }
    // of a sample: in order, of the same sign, and no bucket has much more than its share
    const std::vector<float> x = heavy_tailed(400'000, 6, 20);
    const Coded coded = code(*codec, x, {1, 2, 3});
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (x[i] != 0) order.push_back(i);
    }
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return x[a] < x[b]; });
    std::map<float, int> members;
    float before = -std::numeric_limits<float>::infinity();
    for (const std::size_t i : order) {
      REQUIRE(coded.decoded[i] >= before);
      before = coded.decoded[i];
      REQUIRE((coded.decoded[i] < 0) == (x[i] < 0));
      ++members[coded.decoded[i]];
    }
    REQUIRE(members.size() == static_cast<std::size_t>(2 * buckets));
    for (const auto& [value, number] : members) REQUIRE(number < 2 * static_cast<int>(order.size()) / (2 * buckets));
    // another draw, another sample
    REQUIRE(code(*codec, x, {1, 2, 4}).message != coded.message);
    REQUIRE(code(*codec, x, {1, 2, 3}).message == coded.message);
  }
}

TEST_CASE("sketchml's MinMaxSketch answers as the paper's does") {
  for (const int buckets : {16, 64, 128}) {
    const auto codec = codec_of("sketchml", fmt::format("buckets={},codes=minmax", buckets));
    for (const std::vector<float>& x :
         {heavy_tailed(8000, 1), heavy_tailed(8000, 2, 90), heavy_tailed(300, 3, 50), std::vector{1.0f}}) {
      const Coded coded = code(*codec, x, {7, 8, 9});
      const std::vector<int> bucket = buckets_of(x, buckets);
      const std::vector<float> means = means_of(x, bucket, 2 * buckets);
      std::uint64_t key = 0;
      std::memcpy(&key, coded.message.data() + 8, sizeof key);
      const int width = buckets / 8;  // of a group
      std::map<int, std::uint64_t> entries;
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (x[i] != 0) ++entries[bucket[i] / width];
      }
      using Cell = std::array<std::uint64_t, 3>;
      const auto cell = [&](std::size_t i, std::size_t row) {
        const int group = bucket[i] / width;
        const std::uint64_t columns = (entries[group] + 4) / 5;
        const std::uint64_t word = compress::philox({static_cast<std::uint32_t>(i), 0, 0, 0}, key)[row];
        return Cell{static_cast<std::uint64_t>(group), row, word * columns >> 32};
      };
      std::map<Cell, int> least;
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (x[i] == 0) continue;
        for (const std::size_t row : {0u, 1u}) {
          const auto [at, is_new] = least.emplace(cell(i, row), bucket[i] % width);
          if (!is_new) at->second = std::min(at->second, bucket[i] % width);
        }
      }
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (x[i] == 0) continue;
        const int found = std::max(least[cell(i, 0)], least[cell(i, 1)]);
        REQUIRE(found <= bucket[i] % width);
        REQUIRE(coded.decoded[i] == means[static_cast<std::size_t>(bucket[i] / width * width + found)]);
      }
    }
    for (const std::vector<float>& x : odd_vectors()) code(*codec, x, {1, 2, 3});
  }
}

TEST_CASE("sketchml has the size that it promises, at every density, and refuses messages that lie") {
  for (const char* text : {"", "buckets=16", "codes=minmax", "codes=minmax,buckets=32"}) {
    const auto codec = codec_of("sketchml", text);
    // most_bytes is checked by code()
    for (const int zeros : {0, 10, 38, 50, 62, 70, 80, 90, 99}) code(*codec, heavy_tailed(40'000, 1, zeros));
    std::int64_t last = 0;
    for (std::int64_t n = 0; n < 9000; ++n) {
      REQUIRE(codec->most_bytes(n) >= last);
      last = codec->most_bytes(n);
    }
    lie_to(*codec, heavy_tailed(9000, 7, 30), 1, 1000);
    lie_to(*codec, heavy_tailed(61, 7), 2, 500);
  }
  const std::vector<float> x = heavy_tailed(1 << 20, 1);
  const double plain = 8.0 * static_cast<double>(code(*codec_of("sketchml", ""), x).message.size()) / (1 << 20);
  REQUIRE(plain > 9.0);  // a bit for the place, one of sign, seven for the bucket
  REQUIRE(plain < 9.02);
  const double sketched = 8.0 * static_cast<double>(code(*codec_of("sketchml", "codes=minmax"), x).message.size()) / (1 << 20);
  REQUIRE(sketched > 6.6);  // one for the place, four for the group, two fifths of a cell of four
  REQUIRE(sketched < 6.62);
  REQUIRE_THROWS_WITH(codec_of("sketchml", "buckets=100"), ContainsSubstring("buckets is 100: it must be a power of two"));
}

TEST_CASE("The same bits on every instruction set") {
  std::vector<std::vector<float>> vectors = odd_vectors();
  vectors.push_back(heavy_tailed(300'001, 3, 10));
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"chunked_topk", ""},
      {"chunked_topk", "values=bits4,index=rice"},
      {"chunked_topk", "values=bits8,chunk=256,k=7"},
      {"chunked_topk", "values=float32,transform=dct"},
      {"chunked_topk", "values=bits2,transform=dct,chunk=64,k=5"},
      {"chunked_topk", "values=float32,transform=dct,chunk=512,k=500,index=rice"},
      {"adaptive_threshold", "alpha=0.05"},
      {"sketchml", ""},
      {"sketchml", "codes=minmax"},
  };
  std::vector<std::vector<bool>> chosen;  // the same on all
  for (std::size_t i = 0; i < cases.size(); ++i) {
    chosen.emplace_back();
    for (std::size_t j = 0; j < vectors.size(); ++j) chosen.back().push_back(!left_out());
  }
  std::vector<std::vector<std::byte>> first;
  std::vector<std::vector<float>> first_rest;
  int sets = 0;
  for (const std::int64_t targets : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().DeInit();
    ++sets;
    std::size_t place = 0;
    for (std::size_t c = 0; c < cases.size(); ++c) {
      const auto codec = codec_of(cases[c].first, cases[c].second);
      for (std::size_t v = 0; v < vectors.size(); ++v) {
        if (!chosen[c][v]) continue;
        const std::vector<float>& x = vectors[v];
        const Coded coded = code(*codec, x, {1, 2, 3});
        if (sets == 1) {
          first.push_back(coded.message);
          first_rest.push_back(coded.rest);
        } else {
          REQUIRE(coded.message == first[place]);
          for (std::size_t i = 0; i < x.size(); ++i)
            REQUIRE((coded.rest[i] == first_rest[place][i] || (std::isnan(coded.rest[i]) && std::isnan(first_rest[place][i]))));
        }
        ++place;
      }
    }
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

TEST_CASE("Thresholds and sketches do not allocate") {
  const std::vector<float> x = heavy_tailed(300'000, 3, 30);
  for (const auto& [name, parameters] : std::vector<std::pair<const char*, const char*>>{
           {"adaptive_threshold", ""}, {"sketchml", ""}, {"sketchml", "codes=minmax"}}) {
    const auto codec = codec_of(name, parameters);
    std::vector<std::byte> message(static_cast<std::size_t>(codec->most_bytes(300'000)));
    std::vector<float> rest(x.size());
    const std::int64_t before = allocations_of_this_thread();
    const std::int64_t bytes = codec->encode({1, 2, 3}, 0, x.data(), 300'000, message.data(), rest.data());
    codec->decode(message.data(), bytes, 300'000, rest.data(), true);
    REQUIRE(allocations_of_this_thread() == before);
  }
}
