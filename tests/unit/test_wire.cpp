// test_wire.cpp: messages of sparse vectors arrive as sent (rounded) and have the promised sizes. No malformed message does
// harm.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "codec/wire.hpp"
#include "support/catch.hpp"
#include "support/thinning.hpp"

namespace {

using weir::Threads;
using weir::WireFormat;
using weir::WireValues;
using weir::test::left_out;
using weir::wire::Wire;
using Indices = std::vector<std::uint32_t>;

constexpr std::uint64_t full_range = std::uint64_t{1} << 32;

template <class T>
using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

/// Memory of exactly `count` elements at `offset` bytes from an aligned address, so that the address sanitizer sees every access
/// beyond it.
template <class V>
class Exact {
 public:
  explicit Exact(std::size_t count, std::size_t offset = 0)
      : memory_(new std::byte[count * sizeof(V) + offset]), begin_(memory_.get() + offset) {}
  V* data() { return reinterpret_cast<V*>(begin_); }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::byte* begin_;
};

template <class T>
struct Vector {
  Indices indices;  ///< relative to 0
  std::vector<T> values;
  std::uint64_t range;
  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(indices.size()); }
};

enum class Spread { uniform, clustered, front, back };
constexpr std::array spreads{Spread::uniform, Spread::clustered, Spread::front, Spread::back};

Indices make_indices(Spread spread, std::uint64_t count, std::uint64_t range, std::mt19937_64& random) {
  Indices result;
  if (spread == Spread::front || spread == Spread::back) {
    for (std::uint64_t i = 0; i < count; ++i)
      result.push_back(static_cast<std::uint32_t>(spread == Spread::front ? i : range - count + i));
    return result;
  }
  if (2 * count > range) {  // choose what is left out
    std::vector<bool> absent(range);
    for (std::uint64_t left = range - count; left > 0;) {
      const std::uint64_t at = random() % range;
      if (!absent[at]) absent[at] = true, --left;
    }
    for (std::uint64_t i = 0; i < range; ++i) {
      if (!absent[i]) result.push_back(static_cast<std::uint32_t>(i));
    }
    return result;
  }
  std::set<std::uint32_t> chosen;
  std::uint64_t at = random() % range;
  while (chosen.size() < count) {
    at = spread == Spread::uniform || random() % 50 == 0 ? random() % range : (at + 1 + random() % 3) % range;
    chosen.insert(static_cast<std::uint32_t>(at));
  }
  return Indices(chosen.begin(), chosen.end());
}

template <class T>
std::vector<T> make_values(std::size_t count, std::mt19937_64& random) {
  using Limits = std::numeric_limits<T>;
  const auto all_bits = std::bit_cast<T>(static_cast<Bits<T>>(-1));
  const std::array<T, 18> special{T(0),
                                  T(-0.0),
                                  Limits::denorm_min(),
                                  -Limits::denorm_min(),
                                  Limits::min(),
                                  Limits::max(),
                                  Limits::lowest(),
                                  Limits::infinity(),
                                  -Limits::infinity(),
                                  Limits::quiet_NaN(),
                                  Limits::signaling_NaN(),
                                  all_bits,
                                  T(65504),
                                  T(65519),
                                  T(65520),
                                  T(6.1e-5),
                                  T(5.9e-8),
                                  T(2.9e-8)};
  std::vector<T> result(count);
  for (T& value : result) {
    value = random() % 4 == 0 ? special[random() % special.size()]
                              : static_cast<T>(std::exp(static_cast<double>(random() % 4000) / 100 - 20));
  }
  return result;
}

template <class T>
Vector<T> make_vector(Spread spread, std::uint64_t count, std::uint64_t range, unsigned seed) {
  std::mt19937_64 random(seed);
  Vector<T> result{make_indices(spread, count, range, random), {}, range};
  result.values = make_values<T>(result.indices.size(), random);
  return result;
}

template <class T>
std::vector<Wire> wires() {
  std::vector<Wire> result;
  for (const WireFormat format : {WireFormat::compact, WireFormat::coo}) {
    result.push_back({format, WireValues::native});
    if (sizeof(T) == 4)
      result.insert(result.end(),
                    {{format, WireValues::bfloat16}, {format, WireValues::float16}, {format, WireValues::float16, 4}});
  }
  return result;
}

std::int64_t value_bytes(Wire wire, std::size_t native) {
  return wire.values == WireValues::native ? static_cast<std::int64_t>(native) : 2;
}

template <class T>
bool same_bits(const T* a, const T* b, std::size_t count) {
  return count == 0 || std::memcmp(a, b, count * sizeof(T)) == 0;
}

template <class T>
std::vector<std::byte> encoded(Wire wire, const Vector<T>& v, std::uint32_t base = 0, const Threads& threads = Threads()) {
  Indices shifted(v.indices);
  for (std::uint32_t& index : shifted) index += base;
  std::vector<std::byte> message(static_cast<std::size_t>(weir::wire::message_bytes<T>(wire, v.count(), v.range)));
  const std::int64_t written =
      weir::wire::encode(wire, shifted.data(), v.values.data(), v.count(), base, v.range, message.data(), threads);
  REQUIRE(written == static_cast<std::int64_t>(message.size()));
  return message;
}

template <class T>
void check_round_trip(Wire wire, const Vector<T>& v, std::uint32_t base, std::size_t offset, const Threads& threads = Threads()) {
  const auto count = v.indices.size();
  INFO("count " << count << ", range " << v.range << ", base " << base << ", offset " << offset << ", "
                << weir::wire::format_name<T>(wire, v.count(), v.range) << ", values " << static_cast<int>(wire.values));
  const std::vector<std::byte> message = encoded(wire, v, base);
  Exact<std::byte> in(message.size(), offset);
  std::copy(message.begin(), message.end(), in.data());
  Exact<std::uint32_t> indices(count);
  Exact<T> values(count), expected(count);
  weir::wire::decode(wire, in.data(), static_cast<std::int64_t>(message.size()), v.count(), base, v.range, indices.data(),
                     values.data(), threads);
  bool indices_arrive = true;
  for (std::size_t i = 0; i < count; ++i) indices_arrive &= indices.data()[i] == v.indices[i] + base;
  REQUIRE(indices_arrive);
  weir::wire::round_values(wire.values, v.values.data(), expected.data(), v.count(), wire.halvings);
  REQUIRE(same_bits(values.data(), expected.data(), count));
}

/// Returns, slowly, the code of a small float format whose value is nearest to |x|; of two, the even one.
std::uint32_t nearest_code(float x, const std::vector<double>& magnitudes) {
  const double target = std::abs(static_cast<double>(x));
  const auto above = static_cast<std::size_t>(std::lower_bound(magnitudes.begin(), magnitudes.end(), target) - magnitudes.begin());
  if (above == magnitudes.size()) return static_cast<std::uint32_t>(above - 1);
  if (above == 0 || magnitudes[above] == target) return static_cast<std::uint32_t>(above);
  const double up = magnitudes[above] - target, down = target - magnitudes[above - 1];
  if (up != down) return static_cast<std::uint32_t>(up < down ? above : above - 1);
  return static_cast<std::uint32_t>(above % 2 == 0 ? above : above - 1);
}

/// Returns all finite magnitudes of a format, in the order of their codes.
std::vector<double> finite_magnitudes(int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  std::vector<double> result;
  for (int exponent = 0; exponent < (1 << exponent_bits) - 1; ++exponent) {
    for (int mantissa = 0; mantissa < 1 << mantissa_bits; ++mantissa) {
      const int significand = exponent == 0 ? mantissa : mantissa + (1 << mantissa_bits);
      result.push_back(std::ldexp(significand, std::max(exponent, 1) - bias - mantissa_bits));
    }
  }
  return result;
}

struct Case {
  std::uint64_t count, range;
  const char* format;
};
/// One case of each format, for native values of both types.
constexpr std::array cases{Case{1, 1u << 31, "coo"},
                           Case{1000, 12000, "elias_fano_4"},
                           Case{1000, 100000, "elias_fano_8"},
                           Case{1000, 12000000, "elias_fano_12"},
                           Case{1000, 64000000, "elias_fano_16"},
                           Case{1000, 3000, "bitmap"},
                           Case{1000, 1001, "dense"}};

/// Cases of each format, long enough for three or seven threads.
constexpr std::array long_cases{Case{458765, 4000000, "elias_fano_4"},     Case{458765, 40000000, "elias_fano_8"},
                                Case{458765, 4000000000, "elias_fano_12"}, Case{196615, full_range, "elias_fano_16"},
                                Case{458765, 1000003, "bitmap"},           Case{458765, 460001, "dense"}};

/// Returns a vector with one entry in each equal part of the range, or, if clustered, with half of the entries at each end.
template <class T>
Vector<T> make_long_vector(Spread spread, const Case& c) {
  std::mt19937_64 random(8);
  if (spread == Spread::front || spread == Spread::back) return make_vector<T>(spread, c.count, c.range, 8);
  Vector<T> v{{}, make_values<T>(c.count, random), c.range};
  for (std::uint64_t i = 0; i < c.count; ++i) {
    const std::uint64_t begin = i * c.range / c.count, end = (i + 1) * c.range / c.count;
    const std::uint64_t at_end = i < c.count / 2 ? i : c.range - c.count + i;
    v.indices.push_back(static_cast<std::uint32_t>(spread == Spread::uniform ? begin + random() % (end - begin) : at_end));
  }
  return v;
}

enum class Outcome { refused, accepted, broken };

/// Decodes `message` from memory of exactly its size into memory of exactly `count` entries.
template <class T>
Outcome decode_outcome(Wire wire, const std::vector<std::byte>& message, std::int64_t count, std::uint32_t base,
                       std::uint64_t range, const Threads& threads = Threads()) {
  Exact<std::byte> in(message.size());
  std::copy(message.begin(), message.end(), in.data());
  const std::size_t room = count > 0 ? static_cast<std::size_t>(count) : 0;
  Exact<std::uint32_t> indices(room);
  Exact<T> values(room);
  try {
    weir::wire::decode(wire, in.data(), static_cast<std::int64_t>(message.size()), count, base, range, indices.data(),
                       values.data(), threads);
  } catch (const weir::Error& error) {
    return error.status() == WEIR_ERR_TRANSPORT ? Outcome::refused : Outcome::broken;
  }
  std::uint64_t least = base;
  for (std::size_t i = 0; i < room; ++i) {
    if (indices.data()[i] < least || indices.data()[i] >= base + range) return Outcome::broken;
    least = std::uint64_t{indices.data()[i]} + 1;
  }
  return Outcome::accepted;
}

}  // namespace

TEMPLATE_TEST_CASE("what arrives is what was sent, rounded", "[wire]", float, double) {
  const std::vector<std::uint64_t> ranges{1, 2, 7, 8, 9, 63, 64, 65, 255, 256, 257, 1000, 4096, 65537, 100000};
  for (const std::uint64_t range : ranges) {
    std::set<std::uint64_t> counts{0, 1, 2, 3, 15, 16, 17, 64, 79, 80, 81, 96, 97, 500, range / 3, range - 1, range};
    for (const double density : {1e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.2, 0.5, 0.9, 0.97, 0.99}) {
      counts.insert(static_cast<std::uint64_t>(density * static_cast<double>(range)));
    }
    for (const std::uint64_t count : counts) {
      if (count > range) continue;
      for (const Spread spread : spreads) {
        const auto v = make_vector<TestType>(spread, count, range, static_cast<unsigned>(count + range));
        for (const Wire wire : wires<TestType>()) {
          check_round_trip(wire, v, 0, 0);
          check_round_trip(wire, v, 12345, 4);
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("messages at any address and ranges up to 2^32", "[wire]", float, double) {
  for (const std::uint64_t range : {std::uint64_t{1} << 24, std::uint64_t{1} << 31, full_range - 1, full_range}) {
    for (const std::uint64_t count : {1, 2, 100, 1000, 30000}) {
      for (const Spread spread : spreads) {
        const auto v = make_vector<TestType>(spread, count, range, 7);
        for (const Wire wire : wires<TestType>()) {
          check_round_trip(wire, v, static_cast<std::uint32_t>(full_range - range), 0);
          check_round_trip(wire, v, 0, 4);
          check_round_trip(wire, v, 0, 1);
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("sizes: exact, at most what coo takes, growing with count and range", "[wire]", float, double) {
  for (const Wire wire : wires<TestType>()) {
    REQUIRE(weir::wire::message_bytes<TestType>(wire, 0, 1000) == 0);
    for (const std::uint64_t range : {std::uint64_t{1}, std::uint64_t{10}, std::uint64_t{1000}, std::uint64_t{70000}, full_range}) {
      std::int64_t last = 0;
      for (std::uint64_t count = 1; count <= range && count < 80000; count += 1 + count / 50) {
        const auto n = static_cast<std::int64_t>(count);
        const std::int64_t bytes = weir::wire::message_bytes<TestType>(wire, n, range);
        REQUIRE(bytes >= last);
        REQUIRE(bytes <= n * (value_bytes(wire, sizeof(TestType)) + 4));
        if (range < full_range) REQUIRE(bytes <= weir::wire::message_bytes<TestType>(wire, n, range + 1));
        if (wire.format == WireFormat::coo) REQUIRE(bytes == n * (value_bytes(wire, sizeof(TestType)) + 4));
        const std::int64_t slot = weir::wire::slot_bytes<TestType>(wire, n, range);
        REQUIRE((slot % 8 == 0 && slot >= bytes && slot < bytes + 8));
        last = bytes;
      }
    }
  }
}

TEST_CASE("bytes per entry", "[wire]") {
  const auto bytes_per_entry = [](WireValues values, double density) {
    const std::uint64_t range = 16777216;
    const auto count = static_cast<std::int64_t>(density * static_cast<double>(range));
    return static_cast<double>(weir::wire::message_bytes<float>({WireFormat::compact, values}, count, range)) /
           static_cast<double>(count);
  };
  REQUIRE(bytes_per_entry(WireValues::native, 0.1) <= 4.75);
  REQUIRE(bytes_per_entry(WireValues::native, 0.01) <= 5.3);
  REQUIRE(bytes_per_entry(WireValues::native, 0.001) <= 5.8);
  REQUIRE(bytes_per_entry(WireValues::native, 0.0001) <= 6.2);
  REQUIRE(bytes_per_entry(WireValues::bfloat16, 0.01) <= 3.3);
  REQUIRE(bytes_per_entry(WireValues::float16, 0.01) <= 3.3);
}

TEST_CASE("every format is used", "[wire]") {
  const Wire wire;
  std::set<std::string> names;
  const std::uint64_t range = 1 << 20;
  for (std::int64_t count = 0; count <= 1 << 20; count += 1 + count / 10) {
    names.emplace(weir::wire::format_name<float>(wire, count, range));
  }
  names.emplace(weir::wire::format_name<float>(wire, 1 << 20, range));
  names.emplace(weir::wire::format_name<float>(wire, 1, full_range));
  REQUIRE(names == std::set<std::string>{"empty", "coo", "elias_fano_4", "elias_fano_8", "elias_fano_12", "elias_fano_16", "bitmap",
                                         "dense"});
  REQUIRE(weir::wire::format_name<float>({WireFormat::coo, WireValues::native}, 5, 10) == "coo");
}

TEST_CASE("bfloat16 and float16 round to the nearest, ties to even", "[wire]") {
  struct Format {
    WireValues values;
    int exponent_bits, mantissa_bits;
  };
  for (const auto& [values, exponent_bits, mantissa_bits] :
       {Format{WireValues::bfloat16, 8, 7}, Format{WireValues::float16, 5, 10}}) {
    const std::vector<double> magnitudes = finite_magnitudes(exponent_bits, mantissa_bits);
    std::vector<float> in;
    for (std::size_t i = 0; i + 1 < magnitudes.size(); ++i) {
      const auto low = static_cast<float>(magnitudes[i]), middle = static_cast<float>((magnitudes[i] + magnitudes[i + 1]) / 2);
      for (const float x : {low, std::nextafter(middle, 0.0f), middle, std::nextafter(middle, std::numeric_limits<float>::max())}) {
        in.insert(in.end(), {x, -x});
      }
    }
    std::mt19937 random(1);
    for (int i = 0; i < 100000; ++i) in.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
    for (const float x : {65504.f, 65519.9f, 65520.f, 1e30f, std::numeric_limits<float>::max()}) in.insert(in.end(), {x, -x});
    std::vector<float> out(in.size());
    weir::wire::round_values(values, in.data(), out.data(), static_cast<std::int64_t>(in.size()));
    bool right = true;
    for (std::size_t i = 0; i < in.size(); ++i) {
      const float x = in[i];
      if (std::isnan(x)) {
        right &= std::isnan(out[i]) && std::signbit(out[i]) == std::signbit(x);
      } else if (std::isinf(x)) {
        right &= out[i] == x;
      } else {
        const auto expected = static_cast<float>(std::copysign(magnitudes[nearest_code(x, magnitudes)], x));
        right &= std::bit_cast<std::uint32_t>(out[i]) == std::bit_cast<std::uint32_t>(expected);
      }
      if (!right) FAIL("value " << x << " became " << out[i]);
    }
    std::vector<float> again(out.size());
    weir::wire::round_values(values, out.data(), again.data(), static_cast<std::int64_t>(out.size()));
    REQUIRE(same_bits(out.data(), again.data(), out.size()));
    weir::wire::round_values(values, in.data(), in.data(), static_cast<std::int64_t>(in.size()));
    REQUIRE(same_bits(in.data(), out.data(), in.size()));
  }
}

TEST_CASE("float16 that travels halved is float16 of a power of two less", "[wire]") {
  std::mt19937 random(3);
  std::vector<float> in;
  for (int i = 0; i < 100000; ++i) in.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  for (const float x : {65504.f, 65520.f, 131008.f, 1e6f, 1e30f, 0.f, 6e-8f}) in.insert(in.end(), {x, -x});
  for (const int halvings : {1, 2, 6, 16}) {
    std::vector<float> less(in), expected(in.size()), out(in.size());
    for (float& x : less) x = std::ldexp(x, -halvings);
    const auto count = static_cast<std::int64_t>(in.size());
    weir::wire::round_values(WireValues::float16, less.data(), expected.data(), count);
    for (float& x : expected) x = std::ldexp(x, halvings);
    weir::wire::round_values(WireValues::float16, in.data(), out.data(), count, halvings);
    REQUIRE(same_bits(out.data(), expected.data(), out.size()));
    weir::wire::round_values(WireValues::bfloat16, in.data(), out.data(), count, halvings);
    weir::wire::round_values(WireValues::bfloat16, in.data(), expected.data(), count);
    REQUIRE(same_bits(out.data(), expected.data(), out.size()));
  }
  REQUIRE(weir::wire::halvings_of_sums(WireValues::float16, 1) == 0);
  REQUIRE(weir::wire::halvings_of_sums(WireValues::float16, 4) == 2);
  REQUIRE(weir::wire::halvings_of_sums(WireValues::float16, 5) == 3);
  REQUIRE(weir::wire::halvings_of_sums(WireValues::bfloat16, 5) == 0);
}

TEMPLATE_TEST_CASE("native values arrive bit for bit, but for the NaN that marks absence", "[wire]", float, double) {
  using B = Bits<TestType>;
  const auto all_bits = std::bit_cast<TestType>(static_cast<B>(-1));
  std::vector<TestType> in{1, all_bits, std::numeric_limits<TestType>::signaling_NaN(), TestType(-0.0)}, out(in.size());
  weir::wire::round_values(WireValues::native, in.data(), out.data(), 4);
  REQUIRE(std::bit_cast<B>(out[1]) == std::bit_cast<B>(-std::numeric_limits<TestType>::quiet_NaN()));
  out[1] = all_bits;
  REQUIRE(same_bits(in.data(), out.data(), 4));
}

TEST_CASE("double travels as it is only", "[wire]") {
  REQUIRE_THROWS_AS(weir::wire::message_bytes<double>({WireFormat::compact, WireValues::bfloat16}, 1, 10), weir::Error);
}

TEMPLATE_TEST_CASE("messages of another size or count are refused", "[wire]", float, double) {
  const Wire wire;
  for (const auto& [count, range, format] : cases) {
    REQUIRE(weir::wire::format_name<TestType>(wire, static_cast<std::int64_t>(count), range) == format);
    const auto v = make_vector<TestType>(Spread::uniform, count, range, 3);
    const std::vector<std::byte> message = encoded(wire, v);
    REQUIRE(decode_outcome<TestType>(wire, message, v.count(), 0, range) == Outcome::accepted);
    for (std::size_t size = 0; size < message.size(); size += 1 + message.size() / 50) {
      const std::vector<std::byte> truncated(message.begin(), message.begin() + static_cast<std::ptrdiff_t>(size));
      REQUIRE(decode_outcome<TestType>(wire, truncated, v.count(), 0, range) == Outcome::refused);
    }
    std::vector<std::byte> longer(message);
    longer.push_back(std::byte{0});
    REQUIRE(decode_outcome<TestType>(wire, longer, v.count(), 0, range) == Outcome::refused);
    for (const std::int64_t other : {std::int64_t{-1}, std::int64_t{0}, v.count() + 5, static_cast<std::int64_t>(range) + 1}) {
      REQUIRE(decode_outcome<TestType>(wire, message, other, 0, range) == Outcome::refused);
    }
  }
  REQUIRE_NOTHROW(weir::wire::decode<TestType>(wire, nullptr, 0, 0, 0, 10, nullptr, nullptr));
  REQUIRE_NOTHROW(weir::wire::decode<TestType>(wire, nullptr, 0, 0, 0, 0, nullptr, nullptr));
  REQUIRE(decode_outcome<TestType>(wire, std::vector<std::byte>(8), 1, 0, 0) == Outcome::refused);
}

TEMPLATE_TEST_CASE("damaged messages are refused or hold a sorted vector", "[wire]", float, double) {
  std::mt19937_64 random(5);
  std::vector<std::pair<Case, WireFormat>> all;
  for (const Case& c : cases) all.emplace_back(c, WireFormat::compact);
  all.emplace_back(Case{1000, 100000, "coo"}, WireFormat::coo);
  for (const auto& [c, wire_format] : all) {
    const Wire wire{wire_format, WireValues::native};
    const auto v = make_vector<TestType>(Spread::uniform, c.count, c.range, 4);
    const auto base = static_cast<std::uint32_t>(full_range - c.range);
    const std::vector<std::byte> message = encoded(wire, v, base);
    const std::size_t index_part = c.format == std::string("dense") ? 0 : c.count * sizeof(TestType);
    for (int trial = 0; trial < 400; ++trial) {
      std::vector<std::byte> damaged(message);
      for (int flips = 1 + trial % 3; flips > 0; --flips) {
        damaged[index_part + random() % (message.size() - index_part)] ^= std::byte{1} << (random() % 8);
      }
      if (trial % 20 == 0) {
        for (std::byte& b : damaged) b = static_cast<std::byte>(random());
      }
      if (trial == 1) std::fill(damaged.begin(), damaged.end(), std::byte{0xff});
      if (trial == 2) std::fill(damaged.begin(), damaged.end(), std::byte{0});
      INFO(c.format << ", trial " << trial);
      REQUIRE(decode_outcome<TestType>(wire, damaged, v.count(), base, c.range) != Outcome::broken);
    }
  }
}

TEMPLATE_TEST_CASE("long messages have the same bytes on any number of threads, and are read alike", "[wire][threads]", float,
                   double) {
  const std::vector<Threads> several{Threads(2), Threads(3), Threads(7)};
  for (const Case& c : long_cases) {
    for (const Spread spread : {Spread::uniform, Spread::clustered, Spread::front, Spread::back}) {
      const auto v = make_long_vector<TestType>(spread, c);
      const auto base = static_cast<std::uint32_t>(std::min<std::uint64_t>(12345, full_range - c.range));
      for (const Wire wire : wires<TestType>()) {
        INFO(c.format << " spread " << static_cast<int>(spread) << " values " << static_cast<int>(wire.values));
        if (wire.format == WireFormat::compact && wire.values == WireValues::native)
          REQUIRE(weir::wire::format_name<TestType>(wire, v.count(), c.range) == c.format);
        const std::vector<std::byte> message = encoded(wire, v, base);
        for (const Threads& threads : several) {
          if (left_out()) continue;
          REQUIRE(encoded(wire, v, base, threads) == message);
          check_round_trip(wire, v, base, 1, threads);
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("damaged long messages are refused or hold a sorted vector, on any number of threads", "[wire][threads]", float,
                   double) {
  const std::vector<Threads> several{Threads(2), Threads(3), Threads(7)};
  std::mt19937_64 random(6);
  for (const Case& c : long_cases) {
    for (const WireFormat format : {WireFormat::compact, WireFormat::coo}) {
      const Wire wire{format, WireValues::native};
      const auto v = make_long_vector<TestType>(Spread::uniform, c);
      const auto base = static_cast<std::uint32_t>(full_range - c.range);
      const std::vector<std::byte> message = encoded(wire, v, base);
      const bool dense = weir::wire::format_name<TestType>(wire, v.count(), c.range) == "dense";
      const std::size_t index_part = dense ? 0 : c.count * sizeof(TestType);
      for (int trial = 0; trial < 12; ++trial) {
        std::vector<std::byte> damaged(message);
        for (int flips = 1 + trial % 3; flips > 0; --flips)
          damaged[index_part + random() % (message.size() - index_part)] ^= std::byte{1} << (random() % 8);
        if (trial == 1) std::fill(damaged.begin(), damaged.end(), std::byte{0xff});
        if (trial == 2) std::fill(damaged.begin(), damaged.end(), std::byte{0});
        if (trial > 2 && left_out()) continue;
        INFO(c.format << ", " << (format == WireFormat::coo ? "coo" : "compact") << ", trial " << trial);
        const Outcome alone = decode_outcome<TestType>(wire, damaged, v.count(), base, c.range);
        REQUIRE(alone != Outcome::broken);
        for (const Threads& threads : several)
          REQUIRE(decode_outcome<TestType>(wire, damaged, v.count(), base, c.range, threads) == alone);
      }
    }
  }
}

TEST_CASE("indices that do not ascend from one thread's part to the next are refused", "[wire][threads]") {
  const Wire wire{WireFormat::coo, WireValues::native};
  const auto v = make_long_vector<float>(Spread::uniform, long_cases[0]);
  const std::vector<std::byte> message = encoded(wire, v);
  for (const int count : {2, 3, 7}) {
    const Threads threads(count);
    for (int part = 1; part < count; ++part) {
      const auto at = static_cast<std::size_t>(weir::part_range(v.count(), 64, part, count).begin);
      std::vector<std::byte> damaged(message);
      std::byte* const index = damaged.data() + v.indices.size() * sizeof(float) + at * sizeof(std::uint32_t);
      std::memcpy(index, index - sizeof(std::uint32_t), sizeof(std::uint32_t));
      REQUIRE(decode_outcome<float>(wire, damaged, v.count(), 0, v.range, threads) == Outcome::refused);
    }
  }
}

TEST_CASE("what is wrong with a message is said", "[wire]") {
  const Wire wire, coo{WireFormat::coo, WireValues::native};
  Indices indices(2);
  std::vector<float> values(2);
  const auto decode_text = [&](Wire w, std::vector<std::uint32_t> words, std::int64_t count, std::uint64_t range) -> std::string {
    try {
      weir::wire::decode(w, reinterpret_cast<const std::byte*>(words.data()), static_cast<std::int64_t>(4 * words.size()), count, 0,
                         range, indices.data(), values.data());
    } catch (const weir::Error& error) {
      return error.what();
    }
    return "";
  };
  REQUIRE_THAT(decode_text(wire, {0}, 2, 1), ContainsSubstring("2 entries in a range of 1") && ContainsSubstring("that many"));
  REQUIRE_THAT(decode_text(coo, {0, 0, 0}, 2, 10), ContainsSubstring("12 bytes instead of 16"));
  REQUIRE_THAT(decode_text(coo, {0, 0, 5, 5}, 2, 10), ContainsSubstring("(coo)") && ContainsSubstring("not ascending"));
  REQUIRE_THAT(decode_text(coo, {0, 0, 5, 10}, 2, 10), ContainsSubstring("outside the range"));
  REQUIRE_THAT(decode_text(wire, {0, 0xffffffff}, 2, 2), ContainsSubstring("another number of entries"));
  REQUIRE(decode_text(wire, {0, 0}, 2, 2).empty());
}
