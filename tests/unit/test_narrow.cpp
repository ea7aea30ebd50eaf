// test_narrow.cpp: 16-bit floating-point types, every value of them.
#include <cmath>
#include <cstring>
#include <random>

#include "codec/wire.hpp"
#include "kernels/narrow.hpp"
#include "support/catch.hpp"

using namespace weir;

namespace {

/// Returns the nearest of G's values, infinity included, by trying all: slow and obvious.
template <class G>
float nearest(float x) {
  float best = 0;
  bool even = true;
  double distance = INFINITY;
  for (std::uint32_t bits = 0; bits < 0x8000; ++bits) {
    float value = widen(G{static_cast<std::uint16_t>(bits)});
    if (std::isnan(value)) break;
    // The value after the largest finite one stands for infinity.
    const double place = std::isinf(value)
                             ? 2.0 * widen(G{static_cast<std::uint16_t>(bits - 1)}) - widen(G{static_cast<std::uint16_t>(bits - 2)})
                             : value;
    const double off = std::abs(std::abs(static_cast<double>(x)) - place);
    if (off < distance || (off == distance && !even && bits % 2 == 0)) best = value, distance = off, even = bits % 2 == 0;
    if (std::isinf(value)) break;
  }
  return std::copysign(best, x);
}

template <class G>
void check_all() {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const G g{static_cast<std::uint16_t>(bits)};
    const float wide = widen(g);
    if (std::isnan(wide)) {
      REQUIRE(std::isnan(widen(narrow_to<G>(wide))));
      continue;
    }
    REQUIRE(narrow_to<G>(wide).bits == bits);
  }
}

template <class G>
void check_rounding(WireValues values, float least, float largest) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> exponent(std::log2(least), std::log2(largest));
  for (int i = 0; i < 300; ++i) {
    const float x = (i % 2 ? -1.0f : 1.0f) * std::exp2(exponent(random));
    INFO("x " << x);
    REQUIRE(widen(narrow_to<G>(x)) == nearest<G>(x));
    float on_the_wire = 0;
    wire::round_values(values, &x, &on_the_wire, 1);
    const float saturated = widen(narrow_to<G, true>(x));
    REQUIRE(std::memcmp(&saturated, &on_the_wire, sizeof on_the_wire) == 0);
  }
}

}  // namespace

TEST_CASE("every 16-bit value survives widening and narrowing", "[narrow]") {
  check_all<float16>();
  check_all<bfloat16>();
}

TEST_CASE("narrowing rounds to nearest, ties to even; saturated as on the wire", "[narrow]") {
  check_rounding<float16>(WireValues::float16, 1e-9f, 2e5f);
  check_rounding<bfloat16>(WireValues::bfloat16, 1e-41f, 3.4e38f);
  for (const float tie : {1.0f + 0x1p-11f, 1.0f + 3 * 0x1p-11f, 65519.0f, 65520.0f, 0x1p-25f, 3 * 0x1p-25f})
    REQUIRE(widen(narrow_to<float16>(tie)) == nearest<float16>(tie));
  REQUIRE(std::isinf(widen(narrow_to<float16>(INFINITY))));
  REQUIRE(std::isinf(widen(narrow_to<float16, true>(-INFINITY))));
  REQUIRE(std::isnan(widen(narrow_to<bfloat16>(NAN))));
}
