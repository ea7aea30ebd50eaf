// Random numbers by counter, and codes of a few bits.
#include <vector>

#include "compress/code_bits.hpp"
#include "compress/codec_cases.hpp"
#include "compress/philox.hpp"
#include "support/catch.hpp"

namespace {

using namespace weir;
using namespace weir::compress;
using Words = std::array<std::uint32_t, 4>;

TEST_CASE("philox gives the published numbers") {
  // kat_vectors of Random123 1.14: philox4x32
  struct Known {
    int rounds;
    Words counter;
    std::uint64_t key;
    Words result;
  };
  constexpr std::uint32_t ones = 0xffffffff;
  constexpr Words pi = {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344};
  constexpr std::uint64_t pi_key = 0x299f31d0a4093822;
  const Known all[] = {
      {7, {}, 0, {0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48}},
      {7, {ones, ones, ones, ones}, ~std::uint64_t{0}, {0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662}},
      {7, pi, pi_key, {0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a}},
      {10, {}, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {10, {ones, ones, ones, ones}, ~std::uint64_t{0}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {10, pi, pi_key, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (const Known& known : all) CHECK(philox(known.counter, known.key, known.rounds) == known.result);
}

TEST_CASE("elements have their own numbers, evenly spread") {
  constexpr std::int64_t count = 1 << 20;
  std::vector<std::int64_t> high(256), low(256);
  std::int64_t equal_neighbours = 0;
  std::uint32_t last = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t bits = random_bits({.seed = 5, .iteration = 6, .stream = 7}, static_cast<std::uint64_t>(i));
    REQUIRE(bits < 65536);
    ++high[bits >> 8];
    ++low[bits & 255];
    equal_neighbours += bits == last ? 1 : 0;
    last = bits;
  }
  // 4096 expected, with a deviation of 64; 256 of them
  for (const auto& counts : {high, low}) {
    for (const std::int64_t times : counts) CHECK(std::abs(times - 4096) < 5 * 64);
  }
  CHECK(equal_neighbours < 50);  // 16 expected
}

TEST_CASE("codes come back as they were packed") {
  test::Dice dice(3);
  for (int bits = 1; bits <= 8; ++bits) {
    for (std::int64_t count = 8; count <= code_chunk; count += 8) {
      std::vector<std::uint8_t> codes(static_cast<std::size_t>(count)), again(codes.size());
      for (std::uint8_t& code : codes) code = static_cast<std::uint8_t>(dice.word() & ((1U << bits) - 1));
      std::vector<std::byte> packed(static_cast<std::size_t>(code_bytes(count, bits)));
      REQUIRE(pack_codes(codes.data(), count, bits, packed.data()) == code_bytes(count, bits));
      REQUIRE(unpack_codes(packed.data(), count, bits, again.data()) == code_bytes(count, bits));
      CHECK(codes == again);
    }
  }
}

TEST_CASE("widths of codes") {
  CHECK(bits_for(1) == 1);
  CHECK(bits_for(2) == 2);
  CHECK(bits_for(14) == 4);
  CHECK(bits_for(16) == 5);
  CHECK(bits_for(255) == 8);
  CHECK(code_bytes(0, 3) == 0);
  CHECK(code_bytes(1, 3) == 3);
  CHECK(code_bytes(256, 8) == 256);
}

}  // namespace
