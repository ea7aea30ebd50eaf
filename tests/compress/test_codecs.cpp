// The contract of PackedCodec, for every row that makes bytes, with several parameters.
#include <algorithm>
#include <bit>
#include <cstring>

#include "compress/codec_cases.hpp"
#include "compress/references.hpp"
#include "support/allocation_count.hpp"
#include "support/catch.hpp"

namespace {

using namespace weir;
using namespace weir::test;

constexpr Draw draw{.seed = 0x123456789abcdef0, .iteration = 77, .stream = 3};

std::int64_t first_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return -2;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!same_number(a[i], b[i])) return static_cast<std::int64_t>(i);
  }
  return -1;
}

bool refused(PackedCodec& codec, const std::vector<std::byte>& message, std::int64_t count) {
  std::vector<float> sum(static_cast<std::size_t>(count) + 16, 5.0f);
  bool thrown = false;
  try {
    codec.decode(message.data(), static_cast<std::int64_t>(message.size()), count, sum.data(), true);
  } catch (const Error& error) {
    CHECK(error.status() == WEIR_ERR_TRANSPORT);
    thrown = true;
  }
  CHECK(std::all_of(sum.begin() + count, sum.end(), [](float value) { return value == 5.0f; }));
  return thrown;
}

TEST_CASE("sizes") {
  for (const CodecCase& what : codec_cases()) {
    INFO(what.text());
    const auto codec = what.make();
    CHECK(codec->granularity() > 0);
    CHECK(codec->granularity() % 256 == 0);
    CHECK(codec->most_bytes(0) == 0);
    std::int64_t last = 0;
    bool grows = true;
    for (std::int64_t count = 0; count < 5000; ++count) {
      grows = grows && codec->most_bytes(count) >= last;
      last = codec->most_bytes(count);
    }
    CHECK(grows);
  }
}

TEST_CASE("rests are exact, nothing else is written, and nothing is allocated") {
  for (const CodecCase& what : codec_cases()) {
    const auto codec = what.make();
    for (const std::int64_t count : odd_sizes) {
      for (const Numbers kind : all_numbers) {
        INFO(what.text() << ", " << count << " numbers of kind " << static_cast<int>(kind));
        const std::vector<float> x = numbers(kind, count);
        const auto room = static_cast<std::size_t>(codec->most_bytes(count));
        const auto size = static_cast<std::size_t>(count);
        std::vector<std::byte> message(room + 64, std::byte{0xA5}), again(room + 64, std::byte{0x5A});
        std::vector<float> rest(size + 16, 3.0f), in_place = x, stored(size + 16, 7.0f), added(size + 16, 0.5f);

        const std::int64_t before = allocations_of_this_thread();
        const std::int64_t bytes = codec->encode(draw, 0, x.data(), count, message.data(), rest.data());
        const std::int64_t bytes_again = codec->encode(draw, 0, x.data(), count, again.data(), nullptr);
        codec->decode(message.data(), bytes, count, stored.data(), false);
        codec->decode(message.data(), bytes, count, added.data(), true);
        CHECK(allocations_of_this_thread() == before);

        REQUIRE(bytes >= 0);
        REQUIRE(bytes <= static_cast<std::int64_t>(room));
        if (codec->fixed_size()) CHECK(bytes == static_cast<std::int64_t>(room));
        CHECK(bytes_again == bytes);
        CHECK(std::equal(message.begin(), message.begin() + bytes, again.begin()));
        CHECK(std::all_of(message.begin() + static_cast<std::ptrdiff_t>(room), message.end(),
                          [](std::byte byte) { return byte == std::byte{0xA5}; }));
        CHECK(std::all_of(rest.begin() + count, rest.end(), [](float value) { return value == 3.0f; }));
        CHECK(std::all_of(stored.begin() + count, stored.end(), [](float value) { return value == 7.0f; }));
        CHECK(std::all_of(added.begin() + count, added.end(), [](float value) { return value == 0.5f; }));

        bool exact = true, sums = true;
        for (std::size_t i = 0; i < size; ++i) {
          exact = exact && same_number(rest[i], x[i] - stored[i]);
          sums = sums && same_number(added[i], 0.5f + stored[i]);
        }
        CHECK(exact);
        CHECK(sums);

        codec->encode(draw, 0, in_place.data(), count, again.data(), in_place.data());
        CHECK(std::equal(message.begin(), message.begin() + bytes, again.begin()));
        rest.resize(size);
        CHECK(first_difference(in_place, rest) == -1);
      }
    }
  }
}

TEST_CASE("the same bits on every instruction set") {
  const std::vector<std::int64_t> targets = instruction_sets();
  REQUIRE(!targets.empty());
  for (const CodecCase& what : codec_cases()) {
    for (const std::int64_t count : odd_sizes) {
      for (const Numbers kind : all_numbers) {
        const std::vector<float> x = numbers(kind, count, 2);
        std::vector<std::byte> expected;
        std::vector<float> expected_rest, expected_values;
        for (const std::int64_t target : targets) {
          INFO(what.text() << ", " << count << " numbers of kind " << static_cast<int>(kind) << ", " << hwy::TargetName(target));
          const OnTarget on(target);
          const auto codec = what.make();
          std::vector<float> rest(x.size());
          const std::vector<std::byte> message = encoded(*codec, draw, 512, x, rest.data());
          const std::vector<float> values = decoded(*codec, message, count);
          if (target == targets.front()) {
            expected = message, expected_rest = rest, expected_values = values;
          } else {
            CHECK(message == expected);
            CHECK(first_difference(rest, expected_rest) == -1);
            CHECK(first_difference(values, expected_values) == -1);
          }
        }
      }
    }
  }
}

TEST_CASE("what is decoded is what the papers say") {
  for (const CodecCase& what : codec_cases()) {
    if (!reference::all().contains(what.name)) continue;
    for (const std::int64_t count : odd_sizes) {
      for (const Numbers kind : all_numbers) {
        INFO(what.text() << ", " << count << " numbers of kind " << static_cast<int>(kind));
        const std::vector<float> x = numbers(kind, count, 3);
        const std::vector<float> values = through(what, draw, x, 1024);
        const std::vector<float> expected = reference::through(what.name, what.parameters, draw, 1024, x);
        const std::int64_t at = first_difference(values, expected);
        if (at >= 0) {
          const auto i = static_cast<std::size_t>(at);
          UNSCOPED_INFO("element " << at << ": " << x[i] << " became " << values[i] << " instead of " << expected[i]);
        }
        CHECK(at == -1);
      }
    }
  }
}

TEST_CASE("parts draw the random numbers of their places") {
  const std::vector<float> x = numbers(Numbers::heavy_tailed, 5000);
  for (const CodecCase& what : {CodecCase{"qsgd", "bucket=256"}, CodecCase{"terngrad", "bucket=128"}, CodecCase{"natural", ""}}) {
    const std::vector<float> whole = through(what, draw, x);
    for (const std::int64_t begin : {std::int64_t{256}, std::int64_t{2048}, std::int64_t{4864}}) {
      const std::vector<float> part(x.begin() + begin, x.end());
      CHECK(first_difference(through(what, draw, part, begin), std::vector<float>(whole.begin() + begin, whole.end())) == -1);
      CHECK(first_difference(through(what, draw, part, 0), std::vector<float>(whole.begin() + begin, whole.end())) != -1);
    }
    for (const Draw& other : {Draw{draw.seed + 1, 77, 3}, Draw{draw.seed, 78, 3}, Draw{draw.seed, 77, 4}})
      CHECK(first_difference(through(what, other, x), whole) != -1);
  }
}

TEST_CASE("messages of another size are refused") {
  for (const CodecCase& what : codec_cases()) {
    const auto codec = what.make();
    for (const std::int64_t count : {0, 1, 7, 256, 1000, 4097}) {
      INFO(what.text() << ", " << count);
      const std::vector<std::byte> message = encoded(*codec, draw, 0, numbers(Numbers::heavy_tailed, count));
      CHECK_FALSE(refused(*codec, message, count));
      for (const int more : {1, 8, 64}) {
        std::vector<std::byte> other = message;
        other.resize(message.size() + static_cast<std::size_t>(more));
        CHECK(refused(*codec, other, count));
        if (message.size() < static_cast<std::size_t>(more)) continue;
        other.resize(message.size() - static_cast<std::size_t>(more));
        CHECK(refused(*codec, other, count));
      }
      if (!message.empty()) CHECK(refused(*codec, {}, count));
    }
  }
}

TEST_CASE("messages of random bytes and with flipped bits write nothing beyond their values") {
  Dice dice(11);
  for (const CodecCase& what : codec_cases()) {
    const auto codec = what.make();
    for (const std::int64_t count : {1, 31, 256, 1000}) {
      INFO(what.text() << ", " << count);
      const std::vector<std::byte> message = encoded(*codec, draw, 0, numbers(Numbers::mixed_sizes, count));
      for (int repeat = 0; repeat < 50; ++repeat) {
        std::vector<std::byte> flipped = message;
        for (int flip = dice.small(1, 3); flip > 0; --flip) {
          const auto at = static_cast<std::size_t>(dice.between(0, static_cast<std::int64_t>(flipped.size()) - 1));
          flipped[at] ^= static_cast<std::byte>(1 << dice.small(0, 7));
        }
        (void)refused(*codec, flipped, count);
        for (std::byte& byte : flipped) byte = static_cast<std::byte>(dice.word());
        (void)refused(*codec, flipped, count);
      }
    }
  }
}

}  // namespace
