// Lists of entries arrive as they were, in messages of the size that their number and range say.
#include <numeric>

#include "sums/entry_code.hpp"
#include "support/catch.hpp"
#include "support/dice.hpp"
#include "weir/weir.hpp"

namespace weir::test {
namespace {

using namespace weir::sums;

std::vector<std::int64_t> indices_of(Dice& dice, std::int64_t count, std::int64_t range, std::int64_t base) {
  std::vector<std::int64_t> indices;
  while (std::ssize(indices) < count) {
    if (range < 2 * count)
      indices.push_back(std::ssize(indices));
    else
      indices.push_back(dice.between(0, range - 1));
    std::sort(indices.begin(), indices.end());
    indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  }
  for (std::int64_t& index : indices) index += base;
  return indices;
}

}  // namespace

TEST_CASE("indices and values arrive as they were", "[sums]") {
  Dice dice(1);
  for (const std::int64_t range : {std::int64_t{1}, std::int64_t{2}, std::int64_t{63}, std::int64_t{64}, std::int64_t{65},
                                   std::int64_t{1000}, std::int64_t{1} << 32, (std::int64_t{1} << 40) + 3, std::int64_t{1} << 56}) {
    for (const std::int64_t wanted : {0, 1, 2, 31, 63, 64, 65, 300, 1000}) {
      const std::int64_t count = std::min<std::int64_t>(wanted, range), base = dice.between(0, 1) * ((std::int64_t{1} << 33) + 1);
      const auto indices = indices_of(dice, count, range, base);
      std::vector<float> values(indices.size());
      for (float& value : values) value = std::bit_cast<float>(static_cast<std::uint32_t>(dice.word()));
      if (count > 0) values[0] = std::bit_cast<float>(0xffffffffu);
      std::vector<std::uint64_t> message(static_cast<std::size_t>(message_bytes<float>(count, range)) / 8 + 1, 0x5555);
      auto* const bytes = reinterpret_cast<std::byte*>(message.data());
      encode_entries<float>({indices.data(), values.data(), count}, base, range, bytes);
      std::vector<std::int64_t> back(indices.size());
      std::vector<float> values_back(values.size());
      decode_entries<float>(bytes, count, base, range, back.data(), values_back.data());
      INFO("range " << range << " count " << count);
      REQUIRE(back == indices);
      REQUIRE((count == 0 || std::memcmp(values.data(), values_back.data(), values.size() * sizeof(float)) == 0));
      REQUIRE(message.back() == 0x5555);
      REQUIRE(message_bytes<float>(count, range) % 8 == 0);
      REQUIRE(message_bytes<float>(count, range) <= most_message_bytes(sizeof(float), count, 1, range));
      if (count == range) REQUIRE(index_bytes(count, range) == 0);
    }
  }
}

TEST_CASE("indices that repeat arrive as they were", "[sums]") {
  Dice dice(5);
  for (const std::int64_t range :
       {std::int64_t{1}, std::int64_t{2}, std::int64_t{64}, std::int64_t{1000}, (std::int64_t{1} << 40) + 3}) {
    for (const std::int64_t count : {1, 2, 63, 64, 65, 1000}) {
      for (const std::int64_t places : {std::int64_t{1}, std::int64_t{9}, range}) {
        const std::int64_t base = dice.between(0, 1) * ((std::int64_t{1} << 33) + 1);
        std::vector<std::int64_t> indices(static_cast<std::size_t>(count)), back(indices.size());
        for (std::int64_t& index : indices) index = base + dice.between(0, std::min(places, range) - 1);
        std::sort(indices.begin(), indices.end());
        std::vector<std::uint64_t> message(static_cast<std::size_t>(index_bytes(count, range, true)) / 8 + 1, 0x5555);
        auto* const bytes = reinterpret_cast<std::byte*>(message.data());
        encode_indices(indices.data(), count, base, range, bytes, true);
        decode_indices(bytes, count, base, range, back.data(), true);
        INFO("range " << range << " count " << count << " places " << places);
        REQUIRE(back == indices);
        REQUIRE(message.back() == 0x5555);
        REQUIRE(message_bytes<float>(count, range, true) <= most_message_bytes(sizeof(float), count, 1, range));
      }
    }
  }
}

TEST_CASE("damaged indices are an error, or other indices that ascend", "[sums]") {
  Dice dice(2);
  for (const std::int64_t range : {std::int64_t{400}, std::int64_t{100000}, std::int64_t{1} << 45}) {
    constexpr std::int64_t count = 100;
    const auto indices = indices_of(dice, count, range, 0);
    std::vector<std::uint64_t> message(static_cast<std::size_t>(index_bytes(count, range)) / 8);
    auto* const bytes = reinterpret_cast<std::byte*>(message.data());
    int refused = 0;
    for (int i = 0; i < 2000; ++i) {
      encode_indices(indices.data(), count, 0, range, bytes);
      message[static_cast<std::size_t>(dice.between(0, std::ssize(message) - 1))] ^= std::uint64_t{1} << dice.between(0, 63);
      std::vector<std::int64_t> back(count, -1);
      try {
        decode_indices(bytes, count, 0, range, back.data());
        REQUIRE(std::is_sorted(back.begin(), back.end(), std::less_equal<>()));
        REQUIRE(back.front() >= 0);
        REQUIRE(back.back() < range);
      } catch (const Error& error) {
        REQUIRE(error.status() == WEIR_ERR_TRANSPORT);
        ++refused;
      }
    }
    REQUIRE(refused > 0);
  }
}

}  // namespace weir::test
