// native_indices.cpp: indices of messages in a build for this processor alone (-march=native, HWY_COMPILE_ONLY_STATIC), as
// examples/quickstart.sh makes it. On processors with AVX3_DL, TruncateTo of Highway 1.0.3 takes other bytes than it should.
#include <algorithm>
#include <cstdio>
#include <random>
#include <set>
#include <vector>

#include "codec/parts.hpp"

using namespace weir;

namespace {

/// Returns whether `count` indices below `range` survive packing, and are packed as plain loops pack them.
bool come_back(int low_bits, std::int64_t count, std::uint32_t range) {
  std::mt19937 random(static_cast<unsigned>(low_bits + count));
  std::set<std::uint32_t> chosen;
  while (static_cast<std::int64_t>(chosen.size()) < count) chosen.insert(random() % range);
  std::vector<std::uint32_t> indices(chosen.begin(), chosen.end()), back(chosen.size() + 128);
  indices.resize(indices.size() + 128);
  const std::uint64_t bits = low_bits != 0 ? ((range - 1) >> low_bits) + static_cast<std::uint64_t>(count) + 1 : range;
  std::vector<std::byte> packed(bits / 8 + 128), low(4 * chosen.size() + 128);
  wire::pack_bits(low_bits, indices.data(), count, 0, bits, packed.data());
  if (low_bits != 0) wire::pack_low(low_bits, indices.data(), {0, count}, count, 0, low.data());
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t index = indices[static_cast<std::size_t>(i)];
    for (int byte = 0; byte < low_bits / 8; ++byte) {
      if (low[static_cast<std::size_t>(i * (low_bits / 8) + byte)] != static_cast<std::byte>(index >> (8 * byte))) return false;
    }
  }
  return wire::unpack_bits(low_bits, low.data(), packed.data(), {0, static_cast<std::int64_t>(bits)}, {0, count}, count, 0,
                           back.data()) &&
         std::equal(chosen.begin(), chosen.end(), back.begin());
}

}  // namespace

int main() {
  for (const int low_bits : {0, 4, 8, 12, 16}) {
    for (const std::int64_t count : {1, 7, 33, 300, 2727}) {
      if (come_back(low_bits, count, 60000)) continue;
      std::printf("%d indices with %d low bits are packed or unpacked wrongly\n", static_cast<int>(count), low_bits);
      return 1;
    }
  }
}
