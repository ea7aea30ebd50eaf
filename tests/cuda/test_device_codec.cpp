// test_device_codec.cpp: messages in CUDA memory have the host's bytes and rounding, and are read and refused as on the host.
#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "cuda/wire.hpp"
#include "support/catch.hpp"
#include "support/cuda_kernel_set.hpp"
#include "support/kernel_data.hpp"

namespace {

using namespace weir;
using test::Kind;
using test::OnDevice;
using wire::Wire;

std::vector<std::uint32_t> sorted_indices(std::int64_t count, std::uint64_t range, bool together, std::mt19937_64& random) {
  std::set<std::uint32_t> chosen;
  std::uint64_t at = random() % range;
  while (static_cast<std::int64_t>(chosen.size()) < count) {
    at = together ? (at + 1 + random() % 2) % range : random() % range;
    chosen.insert(static_cast<std::uint32_t>(at));
  }
  return {chosen.begin(), chosen.end()};
}

/// A message at a multiple of 8 bytes, for any alignment of the host's vector.
class Message {
 public:
  explicit Message(std::vector<std::byte> bytes) : bytes_((bytes.size() + 7) / 8 * 8), on_device_(bytes_.data(), size()) {
    std::copy(bytes.begin(), bytes.end(), bytes_.begin());
    length_ = bytes.size();
    on_device_.send();
  }
  std::byte* get() { return on_device_.get(); }
  std::vector<std::byte> fetch() {
    on_device_.fetch();
    return {bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(length_)};
  }

 private:
  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(bytes_.size()); }
  std::vector<std::byte> bytes_;
  OnDevice<std::byte> on_device_;
  std::size_t length_ = 0;
};

std::vector<Wire> wires(bool narrow) {
  std::vector<Wire> all;
  for (const WireFormat format : {WireFormat::compact, WireFormat::coo}) {
    for (const WireValues values : {WireValues::native, WireValues::bfloat16, WireValues::float16}) {
      if (narrow || values == WireValues::native) all.push_back({format, values});
    }
    if (narrow) all.push_back({format, WireValues::float16, 5});
  }
  return all;
}

/// Counts and ranges that lead to every format.
constexpr std::pair<std::int64_t, std::uint64_t> shapes[] = {{0, 1},           {1, 1},
                                                             {1, 1u << 31},    {2, 3},
                                                             {7, 64},          {100, 101},
                                                             {100, 129},       {1000, 3000},
                                                             {999, 8191},      {1001, 70000},
                                                             {3000, 3u << 20}, {2000, 1ull << 32},
                                                             {20000, 400001},  {5000, 16 * 5000},
                                                             {4099, 4096 * 40}};

template <class T>
struct Decoded {
  bool accepted;
  std::vector<std::uint32_t> indices;
  std::vector<T> values;
};

template <class T>
Decoded<T> decode_on_device(Wire wire, const std::vector<std::byte>& bytes, std::int64_t count, std::uint32_t base,
                            std::uint64_t range) {
  Message message(bytes);
  Decoded<T> result{true, std::vector<std::uint32_t>(static_cast<std::size_t>(count)),
                    std::vector<T>(static_cast<std::size_t>(count))};
  OnDevice<std::uint32_t> indices(result.indices.data(), count);
  OnDevice<T> values(result.values.data(), count);
  test::Delivered<std::int64_t> malformed(77);
  test::TestQueue queue(0, wire::cuda::decode_scratch<T>(count));
  wire::cuda::decode(queue, wire, message.get(), count, base, range, indices.get(), values.get(), malformed.get());
  indices.fetch(), values.fetch(), message.fetch();
  result.accepted = malformed.fetch() == 0;
  return result;
}

template <class T>
Decoded<T> decode_on_host(Wire wire, const std::vector<std::byte>& bytes, std::int64_t count, std::uint32_t base,
                          std::uint64_t range) {
  Decoded<T> result{true, std::vector<std::uint32_t>(static_cast<std::size_t>(count)),
                    std::vector<T>(static_cast<std::size_t>(count))};
  try {
    wire::decode(wire, bytes.data(), static_cast<std::int64_t>(bytes.size()), count, base, range, result.indices.data(),
                 result.values.data());
  } catch (const Error&) {
    result.accepted = false;
  }
  return result;
}

template <class T>
void require_alike(const Decoded<T>& a, const Decoded<T>& b) {
  REQUIRE(a.accepted == b.accepted);
  if (!a.accepted) return;
  REQUIRE(a.indices == b.indices);
  REQUIRE(test::same(a.values, b.values));
}

}  // namespace

TEMPLATE_TEST_CASE("messages in CUDA memory are the host's", "[kernels]", float, double) {
  using T = TestType;
  std::mt19937_64 random(1);
  for (const auto& [count, range] : shapes) {
    for (const bool together : {false, true}) {
      for (const Wire wire : wires(sizeof(T) == 4)) {
        const auto base = static_cast<std::uint32_t>(random() % ((std::uint64_t{1} << 32) - range + 1));
        auto indices = sorted_indices(count, range, together, random);
        for (std::uint32_t& index : indices) index += base;
        auto values = test::numbers<T>(Kind::special, count, 3);
        if (count > 5) values[5] = std::bit_cast<T>(static_cast<Key<T>>(~Key<T>{0}));  // the NaN that stands for "no entry"
        std::vector<std::byte> expected(static_cast<std::size_t>(wire::message_bytes<T>(wire, count, range)));
        wire::encode(wire, indices.data(), values.data(), count, base, range, expected.data());
        INFO("count " << count << ", range " << range << ", base " << base << ", " << wire::format_name<T>(wire, count, range));

        OnDevice<const std::uint32_t> i(indices.data(), count);
        OnDevice<const T> v(values.data(), count);
        Message message(std::vector<std::byte>(expected.size(), std::byte{0x5a}));
        test::TestQueue queue(0);
        REQUIRE(wire::cuda::encode(queue, wire, i.get(), v.get(), count, base, range, message.get()) ==
                static_cast<std::int64_t>(expected.size()));
        i.fetch(), v.fetch();
        REQUIRE(message.fetch() == expected);
        require_alike(decode_on_device<T>(wire, expected, count, base, range),
                      decode_on_host<T>(wire, expected, count, base, range));
      }
    }
  }
}

TEMPLATE_TEST_CASE("malformed messages in CUDA memory are refused as on the host", "[kernels]", float, double) {
  using T = TestType;
  std::mt19937_64 random(2);
  for (const auto& [count, range] : shapes) {
    for (const Wire wire : wires(sizeof(T) == 4)) {
      const auto indices = sorted_indices(count, range, false, random);
      const auto values = test::numbers<T>(Kind::heavy_tailed, count, 4);
      std::vector<std::byte> bytes(static_cast<std::size_t>(wire::message_bytes<T>(wire, count, range)));
      wire::encode(wire, indices.data(), values.data(), count, 0, range, bytes.data());
      for (int turn = 0; turn < 12 && !bytes.empty(); ++turn) {
        auto damaged = bytes;
        // Indices and bits are at the end.
        const std::size_t reach = turn % 2 ? damaged.size() : std::min<std::size_t>(damaged.size(), 8);
        for (int flips = turn % 3; flips >= 0; --flips)
          damaged[damaged.size() - 1 - random() % reach] ^= static_cast<std::byte>(1u << random() % 8);
        INFO("count " << count << ", range " << range << ", " << wire::format_name<T>(wire, count, range) << ", turn " << turn);
        require_alike(decode_on_device<T>(wire, damaged, count, 0, range), decode_on_host<T>(wire, damaged, count, 0, range));
      }
    }
  }
}

TEST_CASE("values are rounded as they travel", "[kernels]") {
  std::mt19937_64 random(5);
  for (const Wire wire : {Wire{.values = WireValues::bfloat16}, Wire{.values = WireValues::float16},
                          Wire{.values = WireValues::float16, .halvings = 3}}) {
    for (const Kind kind : test::kinds) {
      for (const std::int64_t count : {0, 1, 2, 255, 256, 257, 5001}) {
        const auto values = test::numbers<float>(kind, count, 12);
        std::vector<float> expected(values.size()), rounded(values.size()), loss(values), expected_loss(values);
        wire::round_values(wire.values, values.data(), expected.data(), count, wire.halvings);
        wire::subtract_rounded(wire, expected_loss.data(), count);
        const std::vector<std::uint32_t> indices = sorted_indices(count, 20000, false, random),
                                         taken = sorted_indices(count / 2, 20000, false, random);
        std::vector<float> dense(20000, 0.5f), expected_dense(dense);
        for (std::size_t i = 0; i < indices.size(); ++i) {
          if (std::binary_search(taken.begin(), taken.end(), indices[i])) expected_dense[indices[i]] += expected_loss[i];
        }
        OnDevice<const float> in(values.data(), count);
        OnDevice<float> out(rounded.data(), count), l(loss.data(), count), d(dense.data(), 20000);
        OnDevice<const std::uint32_t> i(indices.data(), count), t(taken.data(), count / 2);
        wire::cuda::round_values(test::TestQueue(0), wire, in.get(), out.get(), count);
        wire::cuda::subtract_rounded(test::TestQueue(0), wire, l.get(), count);
        wire::cuda::return_rounded(test::TestQueue(0), wire, d.get(), i.get(), in.get(), count, t.get(), count / 2);
        in.fetch(), out.fetch(), l.fetch(), d.fetch(), i.fetch(), t.fetch();
        REQUIRE(test::same_sums(rounded, expected));
        REQUIRE(test::same_sums(loss, expected_loss));
        REQUIRE(test::same_sums(dense, expected_dense));
      }
    }
  }
}
